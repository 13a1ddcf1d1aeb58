//! Start indices of dynamic slices: one s32 scalar for each dimension.

use super::within;
use crate::edit::Emit;
use crate::options::Facts;
use crate::simplify::embeds;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, NodeId, Op};
use systole_isa::DType;

/// Elements from which an array may be in HBM when it is sliced.
pub const MANY: u64 = 1 << 20;

/// An index array as s32, limited to `0..=max` wherever it could not be represented (negative s32 stay as they are
/// unless `clamp`).
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation is looked through")]
pub fn as_s32(b: &mut Emit, index: NodeId, max: u64, clamp: bool) -> NodeId {
    // What was widened to be an index may be read before that; what lost its sign or its upper bits on the way may not.
    let index = match b.op(index) {
        Op::Convert => {
            let (given, dtype) = (b.operand(index, 0), b.dtype(index));
            let from = b.dtype(given);
            let signed = matches!(from, DType::S32 | DType::S16 | DType::S8);
            if signed && embeds(from, dtype) { given } else { index }
        }
        _ => index,
    };
    let dtype = b.dtype(index);
    let narrow = dtype.bits() < 32;
    let index = if narrow { b.convert(index, DType::S32) } else { index };
    if !clamp && (narrow || dtype == DType::S32) {
        return index;
    }
    let low = b.with(Binary::Max, index, 0.0);
    let limited = b.with(Binary::Min, low, max as f64);
    b.convert(limited, DType::S32)
}

/// The start indices as scalars, whether given one by one or as one array.
fn starts(b: &mut Emit, given: &[NodeId], from: &[u64], sizes: &[u64]) -> Vec<NodeId> {
    let scalars: Vec<NodeId> = match given {
        [one] if b.rank(*one) == 1 => (0..from.len() as u64)
            .map(|d| {
                let part = b.slice_dim(*one, 0, d, d + 1, 1);
                b.reshape(part, &[])
            })
            .collect(),
        _ => given.to_vec(),
    };
    let mut out = Vec::new();
    for (d, s) in scalars.into_iter().enumerate() {
        let max = from[d].saturating_sub(sizes[d]);
        out.push(if max == 0 { b.index(0) } else { as_s32(b, s, max, false) });
    }
    out
}

/// A dynamic slice of `sizes`.
///
/// # Errors
/// A loop that could not be made.
pub fn dynamic_slice(
    b: &mut Emit,
    sizes: &[u64],
    operands: &[NodeId],
    chip: (&Facts, bool),
) -> Result<NodeId, CompileError> {
    let from = b.dims(operands[0]).to_vec();
    let starts = starts(b, &operands[1..], &from, sizes);
    part(b, operands[0], &starts, sizes, chip)
}

/// A dynamic update of a slice.
///
/// # Errors
/// A loop that could not be made.
pub fn dynamic_update_slice(b: &mut Emit, operands: &[NodeId], chip: (&Facts, bool)) -> Result<NodeId, CompileError> {
    let from = b.dims(operands[0]).to_vec();
    let sizes = b.dims(operands[1]).to_vec();
    let starts = starts(b, &operands[2..], &from, &sizes);
    let done = within::update(b, operands[0], operands[1], &starts, chip)?;
    Ok(done.unwrap_or_else(|| b.dynamic_update_slice(operands[0], operands[1], &starts)))
}

/// `sizes` elements of an array from `starts` on, one for each dimension; `once`: cut by code that runs once.
///
/// # Errors
/// A loop that could not be made.
pub fn part(
    b: &mut Emit,
    x: NodeId,
    starts: &[NodeId],
    sizes: &[u64],
    chip: (&Facts, bool),
) -> Result<NodeId, CompileError> {
    let done = within::slice(b, x, starts, sizes, chip)?;
    Ok(done.unwrap_or_else(|| in_two_steps(b, x, starts, sizes)))
}

/// A dynamic slice, first along the outer dimensions, then along the two inner ones: an array in HBM is cut there where a copy
/// can begin, and only that part is cut again.
fn in_two_steps(b: &mut Emit, x: NodeId, starts: &[NodeId], sizes: &[u64]) -> NodeId {
    let from = b.dims(x).to_vec();
    let inner = from.len().saturating_sub(2);
    let cut = |d: usize| sizes[d] < from[d];
    if !(0..inner).any(cut) || !(inner..from.len()).any(cut) || b.elements(x) < MANY {
        return b.dynamic_slice(x, starts, sizes);
    }
    let zero = b.index(0);
    let outer = [&sizes[..inner], &from[inner..]].concat();
    let first = [&starts[..inner], &[zero, zero]].concat();
    let x = b.dynamic_slice(x, &first, &outer);
    let second = [&vec![zero; inner][..], &starts[inner..]].concat();
    b.dynamic_slice(x, &second, sizes)
}
