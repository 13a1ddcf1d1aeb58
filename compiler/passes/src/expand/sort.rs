//! Sorts along the last dimension of `[rows, n]`. All are stable.

use super::few;
use super::keys::Keyed;
use super::runs::{self, Room};
use crate::edit::Emit;
use crate::make::{inverse, one_or_tuple};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, Direction, NodeId, Op, PadDim, Shape};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// Sequences of at least so many elements are filled up to a power of two.
const FILLED: u64 = 1024;

/// The operand that a comparator of one comparison of integers looks at, and whether the smaller ones come first.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for parameters alone")]
pub(super) fn one_integer(c: &Computation) -> Option<(usize, bool)> {
    let root = c.node(c.root);
    let Op::Compare { direction, .. } = root.op else { return None };
    let ascending = match direction {
        Direction::Lt => true,
        Direction::Gt => false,
        Direction::Eq | Direction::Ne | Direction::Ge | Direction::Le => return None,
    };
    let number = |id: NodeId| match c.node(id).op {
        Op::Parameter { index } => Some(index),
        _ => None,
    };
    let (x, y) = (number(root.operands[0])?, number(root.operands[1])?);
    let dtype = c.node(root.operands[0]).shape.as_array()?.dtype;
    let signed = dtype.class() == DTypeClass::Signed;
    let unsigned = dtype.class() == DTypeClass::Unsigned;
    // The first element on the left.
    (x % 2 == 0 && y == x + 1 && (signed || unsigned)).then_some((x / 2, ascending))
}

/// The operands with as many elements more that a network has all its places filled: none of its steps needs to ask whether a
/// place holds an element. What is filled in comes behind everything, since equal elements keep their order.
///
/// A single sequence has a row of lanes for each lane at least: then a network's columns are its rows as they lie.
fn filled(
    b: &mut Emit,
    (operands, dims): (Vec<NodeId>, Vec<u64>),
    body: CompId,
    room: Room,
) -> (Vec<NodeId>, Vec<u64>) {
    let last = dims.len() - 1;
    let n = dims[last];
    let least = if last == 0 { room.lanes * room.lanes } else { 1 };
    let full = n.next_power_of_two().max(least);
    let Some((seen, ascending)) = one_integer(&b.draft.computations[body.index()]) else { return (operands, dims) };
    if n == full || n < FILLED {
        return (operands, dims);
    }
    let mut more = vec![PadDim::NONE; dims.len()];
    more[last].high = (full - n) as i64;
    let mut grown = dims;
    grown[last] = full;
    let parts = operands.iter().enumerate().map(|(i, &x)| {
        if matches!(b.op(x), Op::Iota { dim } if *dim == last) {
            return b.iota(b.dtype(x), &grown, last);
        }
        let dtype = b.dtype(x);
        let bits = dtype.bits();
        let signed = dtype.class() == DTypeClass::Signed;
        let fill = match (i == seen, ascending, signed) {
            (true, true, true) => b.bits(dtype, (1 << (bits - 1)) - 1),
            (true, true, false) => b.bits(dtype, u64::MAX >> (64 - bits)),
            (true, false, true) => b.bits(dtype, 1 << (bits - 1)),
            (true, false, false) | (false, _, _) => b.scalar(dtype, 0.0),
        };
        b.pad(x, fill, &more)
    });
    let parts = parts.collect();
    (parts, grown)
}

/// The sorted dimension last, all others merged; keys computed once.
pub fn lower(b: &mut Emit, dim: usize, body: CompId, operands: &[NodeId], room: Room) -> Result<NodeId, CompileError> {
    let dims = b.dims(operands[0]).to_vec();
    if dims.get(dim).is_none_or(|&n| n <= 1) || b.elements(operands[0]) == 0 {
        return Ok(if operands.len() == 1 { operands[0] } else { b.tuple(operands) });
    }
    if let Some(results) = few::lower(b, dim, body, operands, room.lanes)? {
        return Ok(if operands.len() == 1 { results[0] } else { b.tuple(&results) });
    }
    let order: Vec<usize> = (0..dims.len()).filter(|&d| d != dim).chain([dim]).collect();
    let moved: Vec<u64> = order.iter().map(|&d| dims[d]).collect();
    let rows: u64 = moved[..moved.len() - 1].iter().product();
    let flat = if rows == 1 { vec![dims[dim]] } else { vec![rows, dims[dim]] };
    let c = &b.draft.computations[body.index()];
    let seen: Vec<bool> =
        c.params.chunks(2).map(|p| c.nodes.iter().any(|n| p.iter().any(|q| n.operands.contains(q)))).collect();
    // Places along the sorted dimension go along in every stable sort: the planner knows them in this form.
    let is_place = |b: &Emit, i: usize| {
        let x = operands[i];
        let whole = !b.dtype(x).is_complex() && b.dtype(x) != DType::Pred;
        matches!(b.op(x), Op::Iota { dim: d } if *d == dim) && !seen[i] && whole
    };
    let inputs: Vec<NodeId> = operands
        .iter()
        .enumerate()
        .map(|(i, &x)| {
            if is_place(b, i) {
                return b.iota(DType::S32, &flat, flat.len() - 1);
            }
            let x = b.transpose(x, &order);
            b.reshape(x, &flat)
        })
        .collect();
    let keyed = Keyed::of(b, body, &inputs)?;
    let (sorted, keys, body) = match &keyed {
        Some(k) => (k.operands.clone(), k.keys, k.body),
        None => (inputs.clone(), 0, body),
    };
    let count = flat[flat.len() - 1];
    let (sorted, flat) = filled(b, (sorted, flat), body, room);
    let sorted = match runs::large(b, &sorted, body, room)? {
        Some(parts) => parts,
        None => {
            let shapes: Vec<Shape> = sorted.iter().map(|&x| Shape::array(b.dtype(x), &flat)).collect();
            // Equal elements keep their order whether or not the program asks for it.
            let op = Op::Sort { dim: flat.len() - 1, stable: true, body };
            let sorted = b.emit(op, &sorted, one_or_tuple(shapes));
            b.elements_of(sorted)
        }
    };
    let mut results = Vec::new();
    for (i, x) in sorted.into_iter().skip(keys).enumerate() {
        let x = b.slice_dim(x, flat.len() - 1, 0, count, 1);
        let x = match &keyed {
            Some(k) if !is_place(b, i) => k.back(b, i, x, b.dtype(operands[i])),
            Some(_) => x,
            None => x,
        };
        let x = b.convert(x, b.dtype(operands[i]));
        let x = b.reshape(x, &moved);
        results.push(b.transpose(x, &inverse(&order)));
    }
    Ok(if operands.len() == 1 { results[0] } else { b.tuple(&results) })
}
