//! Dots whose results are transposed: the order of operands and of their free dimensions in which least is moved.
//!
//! Programs contract dimensions in the order of their own arrays and transpose the result, which is often the largest array
//! of all (the scores of attention, say). Where only the transpose uses a dot, the operands may trade sides, batch
//! dimensions may take any order, and an operand may have its free dimensions in the order of the transposed result.

use super::{Parts, best_plan, parts, repeated};
use crate::edit::{Emit, Rewritten};
use crate::make::array;
use crate::options::PassOptions;
use systole_hlo::graph::{DotDims, Node, NodeId, Op, Precision};
use systole_isa::DType;

/// A dot that gives the dimensions of the old one's result in the order `result`.
struct Turned {
    dims: DotDims,
    x: NodeId,
    y: NodeId,
    result: Vec<usize>,
}

/// Rewrites a dot, or the transpose of a dot that has no other user.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], options: &PassOptions) -> Rewritten {
    if let Op::Dot { dims, precision } = &n.op {
        let identity: Vec<usize> = (0..array(&n.shape).dims.len()).collect();
        return Ok(moved(b, n, (operands[0], operands[1]), (dims, *precision), &identity, options));
    }
    let Op::Transpose { permutation } = &n.op else { return Ok(None) };
    let dot = operands[0];
    let Op::Dot { dims, precision } = b.op(dot).clone() else { return Ok(None) };
    if b.uses(dot) != 1 || bounded(b, dot) {
        return Ok(None);
    }
    let given = (b.operand(dot, 0), b.operand(dot, 1));
    Ok(moved(b, n, given, (&dims, precision), permutation, options))
}

/// Whether an array has sizes that are only bounds.
fn bounded(b: &Emit, x: NodeId) -> bool {
    b.shape(x).leaves().iter().any(|a| a.dynamic.contains(&true))
}

/// A dot's result under a permutation, `n`, in the way that moves least; `None` if that is the way it has.
fn moved(
    b: &mut Emit,
    n: &Node,
    (x, y): (NodeId, NodeId),
    (dims, precision): (&DotDims, Precision),
    permutation: &[usize],
    options: &PassOptions,
) -> Option<NodeId> {
    let to = array(&n.shape);
    if bounded(b, x) || bounded(b, y) || to.dynamic.contains(&true) {
        return None;
    }
    let p = parts(b, (x, y), dims, options.chip.tile);
    let own = best_plan(b, &p, to.dtype).cost;
    let mut least = own.saturating_add(super::cost_of((&super::result_sizes(b, &p), to.dtype), permutation, p.tile));
    let mut best = None;
    // Of a dot by itself the canonical form decides.
    let ways = if matches!(n.op, Op::Dot { .. }) { 0 } else { 8u32 };
    for way in 0..ways {
        let turned = turned(b, &p, permutation, [way & 1 != 0, way & 2 != 0, way & 4 != 0]);
        let now = moves(b, &turned, permutation, (to.dtype, p.tile));
        if now < least {
            (least, best) = (now, Some(turned));
        }
    }
    if let Some((_, repeated)) = repeated::best(b, &p, permutation, to.dtype).filter(|r| r.0 < least) {
        return b.draft.fire("repeated-operand").then(|| repeated.emit(b, precision, to.dtype, &to.dims));
    }
    let turned = best.filter(|_| b.draft.fire("turned-dot"))?;
    let product = b.dot(turned.x, turned.y, turned.dims, precision, to.dtype);
    Some(b.transpose(product, &rest(&turned.result, permutation)))
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
