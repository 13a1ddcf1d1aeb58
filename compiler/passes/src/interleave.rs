//! `interleave`: sums of two arrays spread out so that each is zero where the other is not, as the two put beside each other.
//!
//! Scans by doubling end so: elements at even places and elements at odd ones, each padded with zeros between, are added.

use super::edit::Emit;
use super::simplify::splat_number;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Node, NodeId, Op, PadDim};

/// An operand that is spread along one dimension: the array, the dimension, and whether it begins at place 0 or 1.
fn spread(b: &Emit, x: NodeId) -> Option<(NodeId, usize, i64)> {
    let Op::Pad { dims } = b.op(x) else { return None };
    let plain = |p: &PadDim| p.low == 0 && p.high == 0 && p.interior == 0;
    let mut wide = (0..dims.len()).filter(|&d| !plain(&dims[d]));
    let (d, other) = (wide.next()?, wide.next());
    let p = dims[d];
    let fits = other.is_none() && p.interior == 1 && matches!(p.low, 0 | 1) && matches!(p.high, 0 | 1);
    let zero = splat_number(b, b.operand(x, 1)) == Some(0.0);
    (fits && zero).then(|| (b.operand(x, 0), d, p.low))
}

/// Rewrites one sum.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Result<Option<NodeId>, CompileError> {
    if !matches!(n.op, Op::Binary(Binary::Add | Binary::Or)) {
        return Ok(None);
    }
    let (Some(x), Some(y)) = (spread(b, operands[0]), spread(b, operands[1])) else { return Ok(None) };
    let ((even, d, first), (odd, e, second)) = if x.2 == 0 { (x, y) } else { (y, x) };
    let (evens, odds) = (b.dims(even)[d], b.dims(odd)[e]);
    // Along lanes, elements would change places one by one.
    let beside = d == e && (first, second) == (0, 1) && (evens == odds || evens == odds + 1) && d + 1 < b.rank(even);
    if !beside || odds == 0 || !b.draft.fire("interleave") {
        return Ok(None);
    }
    let mut paired = b.dims(odd).to_vec();
    paired.insert(d + 1, 1);
    let head = b.slice_dim(even, d, 0, odds, 1);
    let parts = [b.reshape(head, &paired), b.reshape(odd, &paired)];
    let pairs = b.concatenate(&parts, d + 1);
    let mut all = b.dims(odd).to_vec();
    all[d] *= 2;
    let pairs = b.reshape(pairs, &all);
    if evens == odds {
        return Ok(Some(pairs));
    }
    let last = b.slice_dim(even, d, odds, evens, 1);
    Ok(Some(b.concatenate(&[pairs, last], d)))
}
