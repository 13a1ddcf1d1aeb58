//! Operations that move elements along a dimension of dynamic size.

use super::{bounds, carry, keep, neutral};
use crate::edit::{Emit, Rewritten};
use crate::make::array;
use crate::simplify::degenerate_map;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, Node, NodeId, Op, Order, PadDim, Shape};
use systole_isa::DType;

/// A size as a node: the bound where there is no other.
fn size(b: &mut Emit, x: NodeId, d: usize) -> NodeId {
    let bound = b.dims(x)[d];
    b.size_of(x, d).unwrap_or_else(|| b.index(bound as i64))
}

/// Rewrites an operation along a dimension whose size is not its bound; `None`: it is not one.
#[allow(clippy::wildcard_enum_match_arm, reason = "the caller asks the other families next")]
pub fn rule(b: &mut Emit, n: &Node, x: &[NodeId]) -> Rewritten {
    let sized = |b: &Emit, d: usize| b.size_of(x[0], d).is_some();
    Ok(match &n.op {
        Op::Concatenate { dim } if x.iter().any(|&o| b.size_of(o, *dim).is_some()) => {
            Some(concatenate(b, *dim, x, &array(&n.shape).dims))
        }
        Op::Pad { dims } => {
            let moved: Vec<usize> = (0..dims.len()).filter(|&d| sized(b, d) && dims[d] != PadDim::NONE).collect();
            Some(pad(b, n, x, dims, &moved))
        }
        Op::ReduceWindow { window, body } => {
            let count = x.len() / 2;
            let all: Vec<usize> = (0..window.len()).collect();
            let mut operands = x.to_vec();
            for i in 0..count {
                let value = neutral(b, *body, x[count + i], count);
                operands[i] = keep(b, x[i], &all, value);
            }
            let done = b.emit(n.op.clone(), &operands, bounds(&n.shape));
            for part in b.elements_of(done) {
                for (d, w) in window.iter().enumerate() {
                    let Some(s) = b.size_of(x[0], d) else { continue };
                    let s = grown(b, s, w.pad_low + w.pad_high, w.base_dilation - 1);
                    let reach = ((w.size - 1) * w.window_dilation) as i64;
                    let s = b.with(Binary::Add, s, (w.stride as i64 - 1 - reach) as f64);
                    let s = b.with(Binary::Max, s, 0.0);
                    let s = b.with(Binary::Div, s, w.stride as f64);
                    b.set_size(part, d, s);
                }
            }
            Some(done)
        }
        Op::Sort { dim, stable, body } if sized(b, *dim) => Some(sort(b, x, *dim, *stable, *body)?),
        Op::Reverse { dims } if dims.iter().any(|&d| sized(b, d)) => Some(reverse(b, x[0], dims)),
        Op::Reshape => {
            let to = array(&n.shape);
            let from = b.dims(x[0]).to_vec();
            if degenerate_map(&from, &to.dims).is_some() || !(0..from.len()).any(|d| sized(b, d)) {
                return Ok(None);
            }
            Some(static_reshape(b, x[0], &to.dims, &to.dynamic))
        }
        Op::DynamicUpdateSlice => {
            let rank = b.rank(x[1]);
            if !(0..rank).any(|d| b.size_of(x[1], d).is_some()) {
                return Ok(None);
            }
            // What lies beyond the update's size stays.
            let dims = b.dims(x[1]).to_vec();
            let old = b.dynamic_slice(x[0], &x[2..], &dims);
            let mut new = x[1];
            for d in 0..rank {
                if let Some(size) = b.size_of(x[1], d) {
                    let place = b.iota(DType::S32, &dims, d);
                    let inside = b.compare(Direction::Lt, place, size);
                    new = b.select(inside, new, old);
                }
            }
            let done = b.dynamic_update_slice(x[0], new, &x[2..]);
            carry(b, x[0], done, Some);
            Some(done)
        }
        _ => None,
    })
}

/// A size after padding.
fn grown(b: &mut Emit, size: NodeId, edges: i64, interior: u64) -> NodeId {
    let between = b.with(Binary::Add, size, -1.0);
    let between = b.with(Binary::Max, between, 0.0);
    let between = b.with(Binary::Mul, between, interior as f64);
    let all = b.add(size, between);
    let all = b.with(Binary::Add, all, edges as f64);
    b.with(Binary::Max, all, 0.0)
}

/// One after the other, each over the padding of the one before.
fn concatenate(b: &mut Emit, dim: usize, x: &[NodeId], dims: &[u64]) -> NodeId {
    let zero = b.index(0);
    let mut out = b.splat(b.dtype(x[0]), dims, 0.0);
    let mut at = zero;
    for &part in x {
        let mut starts = vec![zero; dims.len()];
        starts[dim] = at;
        out = b.dynamic_update_slice(out, part, &starts);
        let more = size(b, part, dim);
        at = b.add(at, more);
    }
    let out = b.raw(Op::OptBarrier, &[out], b.shape(out).clone());
    x.iter().for_each(|&o| carry(b, o, out, |d| (d != dim).then_some(d)));
    b.set_size(out, dim, at);
    out
}

fn pad(b: &mut Emit, n: &Node, x: &[NodeId], dims: &[PadDim], moved: &[usize]) -> NodeId {
    let from = keep(b, x[0], moved, x[1]);
    let done = b.emit(n.op.clone(), &[from, x[1]], bounds(&n.shape));
    carry(b, x[0], done, |d| (!moved.contains(&d)).then_some(d));
    for &d in moved {
        if let Some(s) = b.size_of(x[0], d) {
            let s = grown(b, s, dims[d].low + dims[d].high, dims[d].interior);
            b.set_size(done, d, s);
        }
    }
    done
}

/// Padding comes last, whatever the comparator says.
fn sort(
    b: &mut Emit,
    x: &[NodeId],
    dim: usize,
    stable: bool,
    body: systole_hlo::graph::CompId,
) -> Result<NodeId, CompileError> {
    let dims = b.dims(x[0]).to_vec();
    let size = size(b, x[0], dim);
    let place = b.iota(DType::S32, &dims, dim);
    let outside = b.compare(Direction::Ge, place, size);
    let outside = b.convert(outside, DType::S32);
    let types: Vec<DType> = x.iter().map(|&o| b.dtype(o)).collect();
    let body = b.computation("inside_first", |b| {
        let mut params = Vec::new();
        for &t in types.iter().chain(&[DType::S32]) {
            params.push(b.parameter(Shape::array(t, &[])));
            params.push(b.parameter(Shape::array(t, &[])));
        }
        let (p, q) = (params[2 * types.len()], params[2 * types.len() + 1]);
        let pred = Shape::array(DType::Pred, &[]);
        let compare = |direction| Op::Compare { direction, order: Order::Partial };
        let less = b.raw(compare(Direction::Lt), &[p, q], pred.clone());
        let same = b.raw(compare(Direction::Eq), &[p, q], pred);
        let own = b.apply(body, &params[..2 * types.len()], &[])?[0];
        let both = b.and(same, own);
        Ok(b.or(less, both))
    })?;
    let operands = [x, &[outside]].concat();
    let shapes: Vec<Shape> = operands.iter().map(|&o| Shape::array(b.dtype(o), &dims)).collect();
    let sorted = b.emit(Op::Sort { dim, stable, body }, &operands, Shape::Tuple(shapes));
    let mut parts = b.elements_of(sorted);
    parts.truncate(x.len());
    for (&part, &o) in parts.iter().zip(x) {
        carry(b, o, part, Some);
    }
    Ok(if parts.len() == 1 { parts[0] } else { b.tuple(&parts) })
}

fn reverse(b: &mut Emit, x: NodeId, dims: &[usize]) -> NodeId {
    let bound = b.dims(x).to_vec();
    let zero = b.index(0);
    let mut out = b.reverse(x, dims);
    for &d in dims {
        // The padding is in front now: all moves to the start.
        let Some(size) = b.size_of(x, d) else { continue };
        let none = b.scalar(b.dtype(x), 0.0);
        let long = b.pad_dim(out, none, d, (0, bound[d] as i64));
        let mut starts = vec![zero; bound.len()];
        let whole = b.index(bound[d] as i64);
        starts[d] = b.sub(whole, size);
        out = b.dynamic_slice(long, &starts, &bound);
    }
    carry(b, x, out, Some);
    out
}

/// The product of nodes; 1 for none.
fn product(b: &mut Emit, list: &[NodeId]) -> NodeId {
    let one = b.index(1);
    list.iter().fold(one, |p, &s| b.mul(p, s))
}

/// A reshape to static sizes of which at most one is a bound: that one follows from the others.
fn static_reshape(b: &mut Emit, x: NodeId, dims: &[u64], dynamic: &[bool]) -> NodeId {
    let open = (0..dims.len()).rev().find(|&d| dynamic.get(d) == Some(&true));
    let mut sizes = vec![None; dims.len()];
    let from = b.dims(x).to_vec();
    if let Some(open) = open {
        let mut all = Vec::new();
        for d in 0..from.len() {
            all.push(size(b, x, d));
        }
        let all = product(b, &all);
        // Other dynamic dimensions keep the size of the dimension that they are.
        let mut rest = Vec::new();
        for d in (0..dims.len()).filter(|&d| d != open) {
            let same = (0..from.len()).find(|&f| {
                let before = from[..f].iter().product::<u64>() == dims[..d].iter().product::<u64>();
                before && from[f] == dims[d] && b.size_of(x, f).is_some()
            });
            let s = match same {
                Some(f) => size(b, x, f),
                None => b.index(dims[d] as i64),
            };
            if same.is_some() {
                sizes[d] = Some(s);
            }
            rest.push(s);
        }
        let rest = product(b, &rest);
        let rest = b.with(Binary::Max, rest, 1.0);
        sizes[open] = Some(b.binary(Binary::Div, all, rest));
    }
    reshape(b, x, dims, &sizes)
}

/// The elements within the sizes of `x`, in order, as an array with bounds `dims` and the given sizes.
pub fn reshape(b: &mut Emit, x: NodeId, dims: &[u64], sizes: &[Option<NodeId>]) -> NodeId {
    let from = b.dims(x).to_vec();
    let total: u64 = from.iter().product();
    let count: u64 = dims.iter().product();
    let flat = b.reshape(x, &[total]);
    // A size that leads leaves the order of the others as it is.
    let inner_sized = |b: &Emit| (1..from.len()).any(|d| b.size_of(x, d).is_some());
    let inner_target = (1..dims.len()).any(|d| sizes.get(d).copied().flatten().is_some());
    let wide = if count == total && !inner_sized(b) && !inner_target {
        b.reshape(flat, dims)
    } else {
        let index = source_index(b, x, &from, dims, sizes);
        let index = b.reshape(index, &[count]);
        let picked = b.gather_rows(flat, index, false);
        b.reshape(picked, dims)
    };
    let same = b.raw(Op::OptBarrier, &[wide], b.shape(wide).clone());
    for (d, s) in sizes.iter().enumerate() {
        if let Some(s) = s {
            b.set_size(same, d, *s);
        }
    }
    same
}

/// For every place of the result, where its element lies in the bounds of `x`.
fn source_index(b: &mut Emit, x: NodeId, from: &[u64], dims: &[u64], sizes: &[Option<NodeId>]) -> NodeId {
    let spread = |b: &mut Emit, s: NodeId| b.broadcast(s, &[], dims);
    let mut linear = b.splat(DType::S32, dims, 0.0);
    for d in 0..dims.len() {
        let size = match sizes.get(d).copied().flatten() {
            Some(s) => s,
            None => b.index(dims[d] as i64),
        };
        let size = spread(b, size);
        let place = b.iota(DType::S32, dims, d);
        let scaled = b.mul(linear, size);
        linear = b.add(scaled, place);
    }
    let mut index = b.splat(DType::S32, dims, 0.0);
    let mut stride = 1u64;
    for d in (0..from.len()).rev() {
        let own = size(b, x, d);
        let own = b.with(Binary::Max, own, 1.0);
        let own = spread(b, own);
        let at = b.binary(Binary::Rem, linear, own);
        linear = b.binary(Binary::Div, linear, own);
        let term = b.with(Binary::Mul, at, stride as f64);
        index = b.add(index, term);
        stride *= from[d];
    }
    index
}
