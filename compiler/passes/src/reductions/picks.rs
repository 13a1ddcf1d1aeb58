//! `picks`: the largest (or smallest) elements of rows that a product makes, and their places, as two reductions of one result each.
//!
//! A reduction of pairs has a kernel of its own, before which the product's result is an array. Reductions of one result are part of
//! other kernels, and chains of them behind a product are done strip by strip.

use crate::edit::{Emit, Rewritten};
use crate::simplify::{identity, is_identity, scalar_of, splat_number};
use systole_hlo::analysis::pick::PickBody;
use systole_hlo::graph::{Binary, Direction, Node, NodeId, Op};
use systole_isa::DType;

/// Operations between a product and a reduction that are looked at.
const BETWEEN: usize = 32;

/// Rewrites one reduction.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    Ok(apart(b, n, operands))
}

fn apart(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
    let Op::Reduce { dims, body } = &n.op else { return None };
    let (&[along], &[x, number, first, zero]) = (&dims[..], operands) else { return None };
    let counts = matches!(b.op(number), Op::Iota { dim } if *dim == along) && b.dtype(number) == DType::S32;
    if along + 1 != b.rank(x) || !counts || splat_number(b, zero) != Some(0.0) || !of_product(b, x) {
        return None;
    }
    let dtype = b.dtype(x);
    let body = PickBody::of(&b.draft.computations[body.index()]);
    let largest = [true, false].into_iter().find(|&l| body.picks(0, dtype.is_float(), l))?;
    let op = if largest { Binary::Max } else { Binary::Min };
    let start = identity(op, dtype)?;
    if !is_identity(op, scalar_of(b, first)?) || !b.draft.fire("picks") {
        return None;
    }
    let best = b.reduce(x, op, start, &[along]);
    let dims = b.dims(x).to_vec();
    let rows: Vec<usize> = (0..along).collect();
    let all = b.broadcast(best, &rows, &dims);
    let mut has = b.compare(Direction::Eq, x, all);
    if dtype.is_float() {
        // If one is no number, so is the best, which nothing is equal to.
        let nan = b.compare(Direction::Ne, x, x);
        has = b.or(has, nan);
    }
    let last = f64::from(i32::MAX);
    let behind = b.splat(DType::S32, &dims, last);
    let places = b.select(has, number, behind);
    let place = b.reduce(places, Binary::Min, last, &[along]);
    Some(b.tuple(&[best, place]))
}

/// Whether an array is computed from a product's result, element by element.
fn of_product(b: &Emit, x: NodeId) -> bool {
    let mut open = vec![x];
    for _ in 0..BETWEEN {
        let Some(at) = open.pop() else { return false };
        let op = b.op(at);
        if matches!(op, Op::Dot { .. }) {
            return true;
        }
        if op.is_elementwise() || matches!(op, Op::Reshape) {
            open.extend(&b.node(at).operands);
        }
    }
    false
}
