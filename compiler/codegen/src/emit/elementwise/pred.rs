//! Operations on `pred`: add and max are or, multiply and min are and.

use super::refused;
use crate::emit::Value;
use crate::kernel::KernelBuilder;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryKind, Integer, Logic, UnaryKind};
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
    Value::mask(match op.kind() {
        BinaryKind::Arithmetic(Arithmetic::Add | Arithmetic::Max) | BinaryKind::Integer(Integer::Or) => b.m_or(x, y),
        BinaryKind::Arithmetic(Arithmetic::Mul | Arithmetic::Min) | BinaryKind::Integer(Integer::And) => b.m_and(x, y),
        BinaryKind::Integer(Integer::Xor) => b.m_xor(x, y),
        BinaryKind::Arithmetic(Arithmetic::Sub | Arithmetic::Div | Arithmetic::Rem)
        | BinaryKind::Integer(Integer::Shl | Integer::Sar | Integer::Shr)
        | BinaryKind::BinaryFunction(_)
        | BinaryKind::Join(_) => refused(op, DType::Pred),
    })
}
