//! Which element types a dot or convolution is computed in.

use crate::edit::Emit;
use crate::options::PassOptions;
use crate::simplify::embeds;
use systole_hlo::graph::{NodeId, Precision};
use systole_isa::{DType, dtype::DTypeClass};

/// Products of 8-bit integers summed this often stay within 32 bits.
const MAX_BYTE_SUMS: u64 = 1 << 15;

/// How a contraction of two element types is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypePlan {
    /// On the matrix unit: operands of one type, the result of another, converted afterwards.
    Matrix { operand: DType, result: DType },
    /// By multiplication and addition of this type.
    Expand { element: DType },
    /// By real contractions of this type.
    Complex { part: DType },
}

/// How `x` times `y` giving `to` is computed, summing `k` products.
pub fn plan(x: DType, y: DType, to: DType, k: u64) -> TypePlan {
    if x.is_complex() || y.is_complex() || to.is_complex() {
        let double = [x, y, to].iter().any(|t| matches!(t, DType::C128 | DType::F64));
        return TypePlan::Complex { part: if double { DType::F64 } else { DType::F32 } };
    }
    let common = if x == y || embeds(y, x) {
        x
    } else if embeds(x, y) {
        y
    } else if to.is_float() {
        if [x, y, to].contains(&DType::F64) { DType::F64 } else { DType::F32 }
    } else {
        to
    };
    match common.class() {
        DTypeClass::Float if common == DType::F64 || to == DType::F64 => TypePlan::Expand { element: DType::F64 },
        DTypeClass::Float => {
            let result = if matches!(to, DType::BF16 | DType::F16 | DType::F32) { to } else { DType::F32 };
            TypePlan::Matrix { operand: common, result }
        }
        DTypeClass::Signed | DTypeClass::Unsigned if to.is_float() && common.bits() <= 8 => {
            TypePlan::Matrix { operand: DType::BF16, result: if to == DType::F64 { DType::F32 } else { to } }
        }
        DTypeClass::Signed | DTypeClass::Unsigned if common.bits() <= 8 && (to.bits() <= 32 || k <= MAX_BYTE_SUMS) => {
            TypePlan::Matrix { operand: common, result: DType::S32 }
        }
        DTypeClass::Signed | DTypeClass::Unsigned | DTypeClass::Pred => {
            let element = if to.is_float() || to.bits() >= common.bits() { to } else { common };
            TypePlan::Expand { element }
        }
        DTypeClass::Complex => TypePlan::Complex { part: DType::F32 },
    }
}

/// The type in which sums of a result type are taken outside the matrix unit.
#[allow(clippy::wildcard_enum_match_arm, reason = "a type that is wide enough accumulates in itself")]
pub fn sum_type(result: DType) -> DType {
    match result {
        DType::BF16 | DType::F16 => DType::F32,
        t if t.is_byte_float() => DType::F32,
        t => t,
    }
}

/// The precision of a contraction: what the program or the user asks for where operands are f32, else the default.
pub fn precision(b: &Emit, x: &NodeId, y: &NodeId, asked: Precision, options: &PassOptions) -> Precision {
    let wide = |t: DType| matches!(t, DType::F32 | DType::C64);
    if wide(b.dtype(*x)) || wide(b.dtype(*y)) { asked.max(options.asked.precision) } else { Precision::Default }
}
