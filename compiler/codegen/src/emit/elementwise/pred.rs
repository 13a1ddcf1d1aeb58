//! Operations on `pred`: add and max are or, multiply and min are and.

use super::refused;
use crate::emit::Value;
use crate::kernel::KernelBuilder;
use systole_hlo::graph::elementwise::{Logic, UnaryKind};
use systole_hlo::graph::{Binary, Unary};
use systole_isa::DType;

/// A unary operation.
pub fn unary(b: &mut KernelBuilder, op: Unary, x: &Value) -> Value {
    match op.kind() {
        UnaryKind::Logic(Logic::Not) => Value::mask(b.m_not(x.m())),
        UnaryKind::Function(_)
        | UnaryKind::RealFunction(_)
        | UnaryKind::Rounding(_)
        | UnaryKind::Signs(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_)
        | UnaryKind::Count(_) => refused(op, DType::Pred),
    }
}

/// A binary operation.
pub fn binary(b: &mut KernelBuilder, op: Binary, x: &Value, y: &Value) -> Value {
    let (x, y) = (x.m(), y.m());
    Value::mask(match op {
        Binary::Add | Binary::Max | Binary::Or => b.m_or(x, y),
        Binary::Mul | Binary::Min | Binary::And => b.m_and(x, y),
        Binary::Sub | Binary::Xor => b.m_xor(x, y),
        Binary::Div => x,
        Binary::Pow => {
            let n = b.m_not(y);
            b.m_or(x, n)
        }
        Binary::Atan2 | Binary::Complex | Binary::MulHi | Binary::Rem | Binary::Shl | Binary::Sar | Binary::Shr => {
            refused(op, DType::Pred)
        }
    })
}
