//! `dynamic`: arrays whose sizes are only bounds become static arrays of the bounds, and their sizes values.
//!
//! What lies beyond a size is padding of any value. Elementwise operations, broadcasts, transposes and slices of other
//! dimensions pass sizes on; reductions, dots and windows over a dynamic dimension take what changes nothing in place of
//! padding; what moves elements along one ([`moves`]) puts them where they would lie if the size were static.

pub mod carried;
mod moves;

use super::edit::{Emit, Rewritten};
use super::simplify::{combiner, degenerate_map, identity};
use systole_hlo::graph::{ArrayShape, CompId, Direction, Node, NodeId, Op, Shape};
use systole_isa::DType;

/// A shape of the bounds.
pub fn bounds(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(a) => Shape::Array(ArrayShape { dynamic: Vec::new(), ..a.clone() }),
        Shape::Tuple(t) => Shape::Tuple(t.iter().map(bounds).collect()),
        Shape::Token => Shape::Token,
    }
}

/// Rewrites one operation.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation begins a dynamic size")]
pub fn rule(b: &mut Emit, n: &Node, x: &[NodeId]) -> Rewritten {
    match &n.op {
        Op::GetDimensionSize { dim } => {
            let bound = b.dims(x[0])[*dim];
            return Ok(Some(b.size_of(x[0], *dim).unwrap_or_else(|| b.index(bound as i64))));
        }
        Op::SetDimensionSize { dim } => {
            let shape = bounds(&n.shape);
            // A node of its own: other users of the operand see its old size.
            let same = b.raw(Op::OptBarrier, &[x[0]], shape);
            carry(b, x[0], same, |d| (d != *dim).then_some(d));
            let size = b.reshape(x[1], &[]);
            let size = b.convert(size, DType::S32);
            b.set_size(same, *dim, size);
            return Ok(Some(same));
        }
        Op::DynamicReshape => {
            let shape = bounds(&n.shape);
            let mut sizes = Vec::new();
            for &size in &x[1..] {
                let size = b.reshape(size, &[]);
                sizes.push(Some(b.convert(size, DType::S32)));
            }
            let dims = shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
            return Ok(Some(moves::reshape(b, x[0], &dims, &sizes)));
        }
        Op::CustomCall { target, .. } if target == "PadToStatic" => {
            let mut parts = vec![x[0]];
            for d in 0..b.rank(x[0]) {
                let bound = b.dims(x[0])[d];
                parts.push(b.size_of(x[0], d).unwrap_or_else(|| b.index(bound as i64)));
            }
            // Its elements have no sizes any more.
            parts[0] = b.raw(Op::OptBarrier, &[x[0]], b.shape(x[0]).clone());
            return Ok(Some(b.tuple(&parts)));
        }
        Op::CustomCall { target, .. } if target == "SliceToDynamic" => {
            let same = b.raw(Op::OptBarrier, &[x[0]], bounds(&n.shape));
            let declared = n.shape.as_array().map(|a| a.dynamic.clone()).unwrap_or_default();
            for (d, &size) in x[1..].iter().enumerate() {
                if declared.get(d) == Some(&true) {
                    let size = b.reshape(size, &[]);
                    let size = b.convert(size, DType::S32);
                    b.set_size(same, d, size);
                }
            }
            return Ok(Some(same));
        }
        _ => {}
    }
    if !b.has_sizes() {
        return Ok(Some(b.emit(n.op.clone(), x, bounds(&n.shape))));
    }
    if let Some(done) = moves::rule(b, n, x)? {
        return Ok(Some(done));
    }
    let operands = masked(b, n, x);
    let done = b.emit(n.op.clone(), &operands, bounds(&n.shape));
    pass_on(b, n, x, done);
    Ok(Some(done))
}

/// Gives the sizes of `from`'s dimensions to `to`'s.
fn carry(b: &mut Emit, from: NodeId, to: NodeId, place: impl Fn(usize) -> Option<usize>) {
    if from == to {
        return;
    }
    for d in 0..b.rank(from) {
        if let (Some(size), Some(at)) = (b.size_of(from, d), place(d)) {
            b.set_size(to, at, size);
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others are elementwise, written out, or refused before")]
fn pass_on(b: &mut Emit, n: &Node, x: &[NodeId], done: NodeId) {
    match &n.op {
        op if op.is_elementwise() => x.iter().for_each(|&o| carry(b, o, done, Some)),
        Op::Broadcast { dims } => carry(b, x[0], done, |d| Some(dims[d])),
        Op::Transpose { permutation } => carry(b, x[0], done, |d| permutation.iter().position(|&p| p == d)),
        Op::Slice { dims } => {
            let from = b.dims(x[0]).to_vec();
            carry(b, x[0], done, |d| {
                (dims[d].start == 0 && dims[d].limit == from[d] && dims[d].stride == 1).then_some(d)
            });
        }
        Op::Reshape => {
            let pairs = degenerate_map(b.dims(x[0]), b.dims(done)).unwrap_or_default();
            carry(b, x[0], done, |d| pairs.iter().find(|p| p.0 == d).map(|p| p.1));
        }
        Op::Dot { dims, .. } => {
            let (l, r) = (b.rank(x[0]), b.rank(x[1]));
            let free =
                |d: usize, batch: &[usize], contracting: &[usize]| !batch.contains(&d) && !contracting.contains(&d);
            let batch = dims.lhs_batch.len();
            let left: Vec<usize> = (0..l).filter(|&d| free(d, &dims.lhs_batch, &dims.lhs_contracting)).collect();
            let right: Vec<usize> = (0..r).filter(|&d| free(d, &dims.rhs_batch, &dims.rhs_contracting)).collect();
            let at = |list: &[usize], d: usize| list.iter().position(|&x| x == d);
            carry(b, x[0], done, |d| at(&dims.lhs_batch, d).or(at(&left, d).map(|p| batch + p)));
            carry(b, x[1], done, |d| at(&dims.rhs_batch, d).or(at(&right, d).map(|p| batch + left.len() + p)));
        }
        Op::Convolution(c) => {
            let (from, to) = (c.dims.input.batch, c.dims.output.batch);
            carry(b, x[0], done, |d| (d == from).then_some(to));
        }
        Op::Gather(g) => {
            let kept: Vec<usize> = (0..b.rank(x[0])).filter(|&d| !g.map.lacks(d)).collect();
            let whole = b.dims(x[0]).to_vec();
            carry(b, x[0], done, |d| {
                let at = kept.iter().position(|&k| k == d)?;
                (g.slice_sizes[d] == whole[d]).then(|| g.map.window[at])
            });
            let batch: Vec<usize> = (0..b.rank(done)).filter(|d| !g.map.window.contains(d)).collect();
            let vector = g.map.vector;
            carry(b, x[1], done, |d| if d == vector { None } else { batch.get(d - usize::from(d > vector)).copied() });
        }
        Op::DynamicSlice { sizes } => {
            let whole = b.dims(x[0]).to_vec();
            carry(b, x[0], done, |d| (sizes[d] == whole[d]).then_some(d));
        }
        Op::DynamicUpdateSlice | Op::Scatter(_) => carry(b, x[0], done, Some),
        Op::Concatenate { dim } => x.iter().for_each(|&o| carry(b, o, done, |d| (d != *dim).then_some(d))),
        Op::Reduce { dims, .. } => {
            carry(b, x[0], done, |d| (!dims.contains(&d)).then(|| d - dims.iter().filter(|&&r| r < d).count()));
        }
        Op::OptBarrier | Op::Copy | Op::Reverse { .. } | Op::Sort { .. } => carry(b, x[0], done, Some),
        _ => {}
    }
}

/// Operands with padding made harmless where the operation would read it.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation reads beyond the sizes")]
fn masked(b: &mut Emit, n: &Node, x: &[NodeId]) -> Vec<NodeId> {
    let mut out = x.to_vec();
    match &n.op {
        Op::Reduce { dims, body } => {
            let count = x.len() / 2;
            for i in 0..count {
                let value = neutral(b, *body, x[count + i], count);
                out[i] = keep(b, x[i], dims, value);
            }
        }
        Op::Dot { dims, .. } => {
            let zero = b.scalar(b.dtype(x[0]), 0.0);
            out[0] = keep(b, x[0], &dims.lhs_contracting, zero);
            let zero = b.scalar(b.dtype(x[1]), 0.0);
            out[1] = keep(b, x[1], &dims.rhs_contracting, zero);
        }
        Op::Convolution(_) => {
            for (i, o) in out.iter_mut().enumerate().take(2) {
                let zero = b.scalar(b.dtype(x[i]), 0.0);
                let all: Vec<usize> = (0..b.rank(x[i])).collect();
                *o = keep(b, x[i], &all, zero);
            }
        }
        Op::Scatter(s) => {
            // Updates beyond the size go nowhere.
            let at = (x.len() - 1) / 2;
            let places: Vec<usize> = (0..b.rank(x[at])).filter(|&d| d != s.map.vector).collect();
            let nowhere = b.scalar(b.dtype(x[at]), -1.0);
            out[at] = keep(b, x[at], &places, nowhere);
        }
        _ => {}
    }
    out
}

/// What changes nothing: the operation's identity, else the initial value.
fn neutral(b: &mut Emit, body: CompId, init: NodeId, count: usize) -> NodeId {
    let dtype = b.dtype(init);
    let known = if count == 1 { combiner(b, body).and_then(|op| identity(op, dtype)) } else { None };
    match known {
        Some(v) => b.scalar(dtype, v),
        None => init,
    }
}

/// An array with `value` beyond the sizes of the dimensions listed.
fn keep(b: &mut Emit, x: NodeId, dims: &[usize], value: NodeId) -> NodeId {
    let sizes = b.dims(x).to_vec();
    let mut out = x;
    for &d in dims {
        if let Some(size) = b.size_of(x, d) {
            let place = b.iota(DType::S32, &sizes, d);
            let inside = b.compare(Direction::Lt, place, size);
            out = b.select(inside, out, value);
        }
    }
    out
}
