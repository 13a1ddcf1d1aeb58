//! `interleave`: arrays put beside each other along the last dimension element by element (rotations of pairs of features), each spread out
//! along the lanes; elements are chosen by their place.
//!
//! `interleave-sums` is the other way round: sums of two arrays spread out so that each is zero where the other is not, as the two put
//! beside each other. Scans by doubling end so: elements at even places and elements at odd ones, each padded with zeros between, are
//! added. Along lanes such sums stay.

use super::edit::{Emit, Rewritten};
use super::simplify::splat_number;
use systole_hlo::graph::{Binary, Direction, Node, NodeId, Op, PadDim};
use systole_isa::DType;

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

/// Most arrays that are spread out.
const MOST_SPREAD: usize = 8;

/// The arrays whose single elements a node puts beside each other in a last dimension of their own.
fn stacked(b: &Emit, x: NodeId) -> Option<Vec<NodeId>> {
    let last = b.rank(x).checked_sub(1)?;
    if !matches!(b.op(x), Op::Concatenate { dim } if *dim == last) {
        return None;
    }
    let part = |&part: &NodeId| {
        let single = matches!(b.op(part), Op::Reshape) && b.dims(part)[last] == 1;
        let from = single.then(|| b.operand(part, 0))?;
        (b.dims(from) == &b.dims(part)[..last]).then_some(from)
    };
    b.node(x).operands.iter().map(part).collect()
}

/// A reshape that merges such a dimension with the one before it.
fn spread_out(b: &mut Emit, to: &[u64], x: NodeId) -> Option<NodeId> {
    let parts = stacked(b, x).filter(|p| (2..=MOST_SPREAD).contains(&p.len()))?;
    let mut dims = b.dims(parts[0]).to_vec();
    let last = dims.len().checked_sub(1)?;
    let count = parts.len() as u64;
    let size = dims[last];
    dims[last] *= count;
    if size < 2 || !to.last().is_some_and(|t| t.is_multiple_of(dims[last])) || !b.draft.fire("interleave") {
        return None;
    }
    let zero = b.scalar(b.dtype(x), 0.0);
    let spread = |b: &mut Emit, (i, part): (usize, NodeId)| {
        let mut pads = vec![PadDim::NONE; last + 1];
        pads[last] = PadDim { low: i as i64, high: count as i64 - 1 - i as i64, interior: count - 1 };
        b.pad(part, zero, &pads)
    };
    let column = b.iota(DType::S32, &dims, last);
    let place = match count.is_power_of_two() {
        true => b.with(Binary::And, column, (count - 1) as f64),
        false => b.with(Binary::Rem, column, count as f64),
    };
    let mut all = spread(b, (0, parts[0]));
    for (i, &part) in parts.iter().enumerate().skip(1) {
        let part = spread(b, (i, part));
        let number = b.splat(DType::S32, &dims, i as f64);
        let own = b.compare(Direction::Eq, place, number);
        all = b.select(own, part, all);
    }
    Some(b.reshape(all, to))
}

/// Rewrites one reshape.
pub fn reshapes(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    let to = n.shape.as_array().filter(|_| n.op == Op::Reshape);
    Ok(to.and_then(|to| spread_out(b, &to.dims, operands[0])))
}

/// Rewrites one sum.
pub fn sums(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    if !matches!(n.op, Op::Binary(Binary::Add | Binary::Or)) {
        return Ok(None);
    }
    let (Some(x), Some(y)) = (spread(b, operands[0]), spread(b, operands[1])) else { return Ok(None) };
    let ((even, d, first), (odd, e, second)) = if x.2 == 0 { (x, y) } else { (y, x) };
    let (evens, odds) = (b.dims(even)[d], b.dims(odd)[e]);
    // Along lanes, elements would change places one by one.
    let beside = d == e && (first, second) == (0, 1) && (evens == odds || evens == odds + 1) && d + 1 < b.rank(even);
    if !beside || odds == 0 || !b.draft.fire("interleave-sums") {
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
