//! Dots whose results are transposed: the order of operands and of their free dimensions in which least is moved.
//!
//! Programs contract dimensions in the order of their own arrays and transpose the result, which is often the largest array
//! of all (the scores of attention, say). Where only the transpose uses a dot, the operands may trade sides, batch
//! dimensions may take any order, and an operand may have its free dimensions in the order of the transposed result.

use super::{Parts, best_plan, cost, parts};
use crate::edit::Emit;
use crate::options::PassOptions;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{DotDims, Node, NodeId, Op};
use systole_isa::DType;

/// A dot that gives the dimensions of the old one's result in the order `result`.
struct Turned {
    dims: DotDims,
    x: NodeId,
    y: NodeId,
    result: Vec<usize>,
}

/// Rewrites the transpose of a dot that has no other user.
pub fn rule(
    b: &mut Emit,
    n: &Node,
    operands: &[NodeId],
    options: &PassOptions,
) -> Result<Option<NodeId>, CompileError> {
    let Op::Transpose { permutation } = &n.op else { return Ok(None) };
    let dot = operands[0];
    let Op::Dot { dims, precision } = b.op(dot).clone() else { return Ok(None) };
    let bounded = |b: &Emit, x: NodeId| b.shape(x).leaves().iter().any(|a| a.dynamic.contains(&true));
    let (x, y, to) = (b.operand(dot, 0), b.operand(dot, 1), b.dtype(dot));
    if b.uses(dot) != 1 || [dot, x, y].into_iter().any(|v| bounded(b, v)) {
        return Ok(None);
    }
    let p = parts(b, (x, y), &dims, options.tile);
    let old = best_plan(b, &p, to).cost.saturating_add(cost(b, dot, permutation, p.tile));
    let mut best: Option<(u64, Turned)> = None;
    for way in 0..8u32 {
        let turned = turned(b, &p, permutation, [way & 1 != 0, way & 2 != 0, way & 4 != 0]);
        let now = moves(b, &turned, permutation, (to, p.tile));
        if now < best.as_ref().map_or(old, |b| b.0) {
            best = Some((now, turned));
        }
    }
    let Some((_, turned)) = best else { return Ok(None) };
    if !b.draft.fire("turned-dot") {
        return Ok(None);
    }
    let product = b.dot(turned.x, turned.y, turned.dims, precision, to);
    Ok(Some(b.transpose(product, &rest(&turned.result, permutation))))
}

/// What is left to do of `permutation` when the dimensions come in the order `result`.
fn rest(result: &[usize], permutation: &[usize]) -> Vec<usize> {
    permutation.iter().filter_map(|d| result.iter().position(|r| r == d)).collect()
}

/// What the operands' arrangement and the rest of the permutation cost.
fn moves(b: &Emit, t: &Turned, permutation: &[usize], (to, tile): (DType, (u32, u32))) -> u64 {
    let p = parts(b, (t.x, t.y), &t.dims, tile);
    let own = best_plan(b, &p, to).cost;
    let left = rest(&t.result, permutation);
    let sizes = super::result_sizes(b, &p);
    own.saturating_add(super::cost_of((&sizes, to), &left, tile))
}

/// The dot with its operands on the other sides, and the free dimensions of the old left and right operand in the order
/// that the transposed result has, as wanted.
fn turned(b: &mut Emit, p: &Parts, permutation: &[usize], [swapped, left, right]: [bool; 3]) -> Turned {
    let (nb, nx) = (p.batch.len(), p.x_free.len());
    let place = |d: usize| permutation.iter().position(|&q| q == d).unwrap_or(d);
    // Old result dimensions in the order of the new result.
    let order = |range: std::ops::Range<usize>, wanted: bool| -> Vec<usize> {
        let mut dims: Vec<usize> = range.collect();
        if wanted {
            dims.sort_by_key(|&d| place(d));
        }
        dims
    };
    let batch = order(0..nb, true);
    let x_free = order(nb..nb + nx, left);
    let y_free = order(nb + nx..nb + nx + p.y_free.len(), right);
    // Operands in the order of their own dimensions, but for free ones that trade places.
    let mut side = |x: NodeId, free: &[usize], wanted: &[usize], base: usize| -> NodeId {
        let mut permutation: Vec<usize> = (0..b.rank(x)).collect();
        for (&slot, &d) in free.iter().zip(wanted) {
            permutation[slot] = free[d - base];
        }
        b.transpose(x, &permutation)
    };
    let (x, y) = (side(p.x, &p.x_free, &x_free, nb), side(p.y, &p.y_free, &y_free, nb + nx));
    let batches: Vec<(usize, usize)> = batch.iter().map(|&d| p.batch[d]).collect();
    let (xb, yb): (Vec<usize>, Vec<usize>) = batches.into_iter().unzip();
    let (xk, yk): (Vec<usize>, Vec<usize>) = p.contracting.iter().copied().unzip();
    let dims = |(lb, lk), (rb, rk)| DotDims { lhs_contracting: lk, rhs_contracting: rk, lhs_batch: lb, rhs_batch: rb };
    if swapped {
        let result = [batch, y_free, x_free].concat();
        return Turned { dims: dims((yb, yk), (xb, xk)), x: y, y: x, result };
    }
    Turned { dims: dims((xb, xk), (yb, yk)), x, y, result: [batch, x_free, y_free].concat() }
}
