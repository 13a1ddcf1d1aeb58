//! `squeeze`: no dimensions of size 1 inside.
//!
//! Every operation on arrays with dimensions of size 1 is done on arrays without them. The result is reshaped back at
//! once; where its users are squeezed as well, the two reshapes cancel, so that whole chains of operations share one shape
//! and reshapes remain only at the entry's boundary and around operations that need such dimensions.

use super::edit::{Emit, Rewritten};
use super::make::array;
use systole_hlo::graph::{Node, NodeId, Op, PadDim, Shape, SliceDim, WindowDim};

/// Squeezes one operation.
#[allow(clippy::wildcard_enum_match_arm, reason = "there is no rule for the others: they stay as they are")]
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    let bounded = |s: &Shape| s.leaves().iter().any(|a| a.dynamic.contains(&true));
    if bounded(&n.shape) || operands.iter().any(|&o| bounded(b.shape(o))) {
        return Ok(None);
    }
    let squeezed = match &n.op {
        op if op.is_elementwise() => elementwise(b, n, operands),
        Op::Transpose { permutation } => transpose(b, permutation, operands[0]),
        Op::Reduce { dims, .. } => reduce(b, n, dims, operands),
        Op::Slice { dims } => slice(b, dims, operands[0]),
        Op::Reverse { dims } => reverse(b, dims, operands[0]),
        Op::Pad { dims } => pad(b, dims, operands),
        Op::Concatenate { dim } => concatenate(b, *dim, operands),
        Op::DynamicSlice { sizes } if operands.len() == sizes.len() + 1 => dynamic_slice(b, sizes, operands),
        Op::DynamicUpdateSlice if operands.len() == b.rank(operands[0]) + 2 => dynamic_update_slice(b, operands),
        Op::ReduceWindow { window, .. } => reduce_window(b, n, window, operands),
        Op::Sort { dim, .. } => sort(b, n, *dim, operands),
        _ => None,
    };
    let Some(squeezed) = squeezed else { return Ok(None) };
    Ok(Some(match &n.shape {
        Shape::Array(a) => b.reshape(squeezed, &a.dims),
        Shape::Tuple(parts) => {
            let elements: Vec<NodeId> =
                b.elements_of(squeezed).into_iter().zip(parts).map(|(e, s)| b.reshape(e, &array(s).dims)).collect();
            b.tuple(&elements)
        }
        Shape::Token => squeezed,
    }))
}

/// The dimensions to keep, or nothing if all are kept or the draft has no fuel.
fn kept(b: &mut Emit, rank: usize, keep: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
    let dims: Vec<usize> = (0..rank).filter(|&d| keep(d)).collect();
    (dims.len() < rank && b.draft.fire("squeeze")).then_some(dims)
}

/// An array without the dimensions that are not listed (all of size 1).
fn only(b: &mut Emit, x: NodeId, keep: &[usize]) -> NodeId {
    let dims: Vec<u64> = keep.iter().map(|&d| b.dims(x)[d]).collect();
    b.reshape(x, &dims)
}

fn pick<T: Copy>(all: &[T], keep: &[usize]) -> Vec<T> {
    keep.iter().map(|&d| all[d]).collect()
}

/// The same operation on other operands, its result without dimensions that are not listed.
fn again(b: &mut Emit, n: &Node, op: Op, operands: &[NodeId], keep: &[usize]) -> NodeId {
    let smaller = |s: &Shape| {
        let a = array(s);
        Shape::array(a.dtype, &pick(&a.dims, keep))
    };
    let shape = match &n.shape {
        Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(smaller).collect()),
        one @ (Shape::Array(_) | Shape::Token) => smaller(one),
    };
    b.emit(op, operands, shape)
}

fn elementwise(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
    let a = array(&n.shape);
    if operands.iter().any(|&o| b.rank(o) != a.rank()) {
        return None;
    }
    let keep = kept(b, a.rank(), |d| a.dims[d] != 1)?;
    let small: Vec<NodeId> = operands.iter().map(|&o| only(b, o, &keep)).collect();
    Some(again(b, n, n.op.clone(), &small, &keep))
}

fn transpose(b: &mut Emit, permutation: &[usize], x: NodeId) -> Option<NodeId> {
    let dims = b.dims(x).to_vec();
    let keep = kept(b, dims.len(), |d| dims[d] != 1)?;
    let small = only(b, x, &keep);
    let moved: Vec<usize> = permutation.iter().filter_map(|p| keep.iter().position(|k| k == p)).collect();
    Some(b.transpose(small, &moved))
}

fn reduce(b: &mut Emit, n: &Node, dims: &[usize], operands: &[NodeId]) -> Option<NodeId> {
    let Op::Reduce { body, .. } = n.op else { return None };
    let (xs, inits) = operands.split_at(operands.len() / 2);
    let sizes = b.dims(xs[0]).to_vec();
    let keep = kept(b, sizes.len(), |d| sizes[d] != 1 || dims.contains(&d))?;
    let small: Vec<NodeId> = xs.iter().map(|&x| only(b, x, &keep)).collect();
    let moved: Vec<usize> = (0..keep.len()).filter(|&i| dims.contains(&keep[i])).collect();
    Some(b.reduce_by(&small, inits, &moved, body))
}

fn slice(b: &mut Emit, dims: &[SliceDim], x: NodeId) -> Option<NodeId> {
    let sizes = b.dims(x).to_vec();
    let keep = kept(b, sizes.len(), |d| sizes[d] != 1 || dims[d].start == dims[d].limit)?;
    let small = only(b, x, &keep);
    Some(b.slice(small, &pick(dims, &keep)))
}

fn reverse(b: &mut Emit, dims: &[usize], x: NodeId) -> Option<NodeId> {
    let sizes = b.dims(x).to_vec();
    let keep = kept(b, sizes.len(), |d| sizes[d] != 1)?;
    let small = only(b, x, &keep);
    let moved: Vec<usize> = (0..keep.len()).filter(|&i| dims.contains(&keep[i])).collect();
    Some(b.reverse(small, &moved))
}

fn pad(b: &mut Emit, dims: &[PadDim], operands: &[NodeId]) -> Option<NodeId> {
    let sizes = b.dims(operands[0]).to_vec();
    let keep = kept(b, sizes.len(), |d| sizes[d] != 1 || dims[d].low != 0 || dims[d].high != 0)?;
    let small = only(b, operands[0], &keep);
    Some(b.pad(small, operands[1], &pick(dims, &keep)))
}

fn concatenate(b: &mut Emit, dim: usize, parts: &[NodeId]) -> Option<NodeId> {
    let sizes = b.dims(parts[0]).to_vec();
    let keep = kept(b, sizes.len(), |d| sizes[d] != 1 || d == dim)?;
    let small: Vec<NodeId> = parts.iter().map(|&p| only(b, p, &keep)).collect();
    let moved = keep.iter().position(|&k| k == dim)?;
    Some(b.concatenate(&small, moved))
}

fn dynamic_slice(b: &mut Emit, sizes: &[u64], operands: &[NodeId]) -> Option<NodeId> {
    let from = b.dims(operands[0]).to_vec();
    let keep = kept(b, from.len(), |d| from[d] != 1 || sizes[d] != 1)?;
    let small = only(b, operands[0], &keep);
    let starts = pick(&operands[1..], &keep);
    Some(b.dynamic_slice(small, &starts, &pick(sizes, &keep)))
}

fn dynamic_update_slice(b: &mut Emit, operands: &[NodeId]) -> Option<NodeId> {
    let from = b.dims(operands[0]).to_vec();
    let update = b.dims(operands[1]).to_vec();
    let keep = kept(b, from.len(), |d| from[d] != 1 || update[d] != 1)?;
    let (small, part) = (only(b, operands[0], &keep), only(b, operands[1], &keep));
    let starts = pick(&operands[2..], &keep);
    Some(b.dynamic_update_slice(small, part, &starts))
}

fn reduce_window(b: &mut Emit, n: &Node, window: &[WindowDim], operands: &[NodeId]) -> Option<NodeId> {
    let Op::ReduceWindow { body, .. } = n.op else { return None };
    let (xs, inits) = operands.split_at(operands.len() / 2);
    let sizes = b.dims(xs[0]).to_vec();
    let plain = |w: &WindowDim| w.size == 1 && w.pad_low == 0 && w.pad_high == 0;
    let keep = kept(b, sizes.len(), |d| sizes[d] != 1 || !plain(&window[d]))?;
    let small: Vec<NodeId> = xs.iter().map(|&x| only(b, x, &keep)).collect();
    Some(b.reduce_window(&small, inits, &pick(window, &keep), body))
}

fn sort(b: &mut Emit, n: &Node, dim: usize, operands: &[NodeId]) -> Option<NodeId> {
    let Op::Sort { stable, body, .. } = n.op else { return None };
    let sizes = b.dims(operands[0]).to_vec();
    let keep = kept(b, sizes.len(), |d| sizes[d] != 1 || d == dim)?;
    let small: Vec<NodeId> = operands.iter().map(|&o| only(b, o, &keep)).collect();
    let moved = keep.iter().position(|&k| k == dim)?;
    Some(again(b, n, Op::Sort { dim: moved, stable, body }, &small, &keep))
}
