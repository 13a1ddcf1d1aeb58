//! 64-bit integers of which only the low halves are wanted.
//!
//! The chip has no 64-bit integers; counters of random numbers are computed in them and split into halves. The low half of a
//! sum, a product or of bits is that of the operands' low halves, and the high half of a number that is known to be small is 0.

use super::fold::{as_index, scalar_of};
use crate::edit::Emit;
use systole_hlo::graph::{ArrayShape, Binary, NodeId, Op};
use systole_isa::DType;

/// How far a number's range is looked for.
const DEPTH: u32 = 16;

/// The largest value that an array of unsigned integers may hold, if it is known to be less than its type's.
#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
fn most(b: &Emit, x: NodeId, depth: u32) -> Option<u128> {
    let next = depth.checked_sub(1)?;
    let of = |i: usize| most(b, b.operand(x, i), next);
    match b.op(x) {
        Op::Iota { dim } => Some(u128::from(b.dims(x)[*dim].saturating_sub(1))),
        Op::Constant(_) => scalar_of(b, x).and_then(as_index).and_then(|v| u128::try_from(v).ok()),
        Op::Broadcast { .. } | Op::Reshape | Op::Slice { .. } | Op::Transpose { .. } => of(0),
        Op::Convert => {
            let from = b.dtype(b.operand(x, 0));
            let unsigned = matches!(from, DType::U8 | DType::U16 | DType::U32);
            unsigned.then(|| of(0).unwrap_or((1 << from.bits()) - 1))
        }
        Op::Binary(Binary::Add) => Some(of(0)? + of(1)?).filter(|&v| v <= u128::from(u64::MAX)),
        Op::Binary(Binary::Mul) => of(0)?.checked_mul(of(1)?).filter(|&v| v <= u128::from(u64::MAX)),
        Op::Binary(Binary::And) => match (of(0), of(1)) {
            (Some(l), Some(r)) => Some(l.min(r)),
            (l, r) => l.or(r),
        },
        _ => None,
    }
}

/// The conversion of 64-bit integers to 32 bits, by way of operations on 32 bits.
#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
pub fn convert(b: &mut Emit, x: NodeId, to: &ArrayShape) -> Option<NodeId> {
    let wide = matches!(b.dtype(x), DType::S64 | DType::U64);
    if !wide || !matches!(to.dtype, DType::S32 | DType::U32) || !to.dynamic.is_empty() {
        return None;
    }
    let dims = to.dims.clone();
    match b.op(x).clone() {
        Op::Iota { dim } if dims[dim] <= 1 << 31 => b.draft.fire("narrow-iota").then(|| b.iota(to.dtype, &dims, dim)),
        Op::Broadcast { dims: map } => {
            let y = b.operand(x, 0);
            b.draft.fire("narrow-broadcast").then(|| {
                let y = b.convert(y, to.dtype);
                b.broadcast(y, &map, &dims)
            })
        }
        Op::Binary(op @ (Binary::Add | Binary::Sub | Binary::Mul | Binary::And | Binary::Or | Binary::Xor)) => {
            let (l, r) = (b.operand(x, 0), b.operand(x, 1));
            b.draft.fire("narrow-binary").then(|| {
                let (l, r) = (b.convert(l, to.dtype), b.convert(r, to.dtype));
                b.binary(op, l, r)
            })
        }
        Op::Binary(Binary::Shr) if b.dtype(x) == DType::U64 => {
            let (l, by) = (b.operand(x, 0), b.operand(x, 1));
            let by = scalar_of(b, by).and_then(as_index)?;
            let small = most(b, l, DEPTH).is_some_and(|v| v <= u128::from(u32::MAX));
            if !small || !(0..64).contains(&by) || !b.draft.fire("narrow-shift") {
                return None;
            }
            if by >= 32 {
                return Some(b.splat(to.dtype, &dims, 0.0));
            }
            let l = b.convert(l, DType::U32);
            let shifted = b.with(Binary::Shr, l, by as f64);
            Some(b.convert(shifted, to.dtype))
        }
        _ => None,
    }
}
