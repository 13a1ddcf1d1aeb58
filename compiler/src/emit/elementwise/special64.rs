//! f64 functions.
use super::refused;
use crate::graph::op::Unary;
use crate::kernel::{KernelBuilder, P};
use systole_isa::DType;

/// A unary function.
pub fn unary(_b: &mut KernelBuilder, op: Unary, _x: P) -> P {
    refused(op, DType::F64)
}
/// pow
pub fn pow(_b: &mut KernelBuilder, _x: P, _y: P) -> P {
    refused("pow", DType::F64)
}
/// atan2
pub fn atan2(_b: &mut KernelBuilder, _y: P, _x: P) -> P {
    refused("atan2", DType::F64)
}
