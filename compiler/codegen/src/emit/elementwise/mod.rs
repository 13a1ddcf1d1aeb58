//! Elementwise HLO operations as vector instructions, for every element type.
//!
//! One file for each numeric family: [`float32`] (f32, and the types held as f32: bf16, f16, floats of a byte) with its
//! expansions in [`special32`], [`int32`] (integers of at most 32 bits), [`int64`], [`float64`] with [`special64`],
//! [`complex`], [`pred`]; [`functions`] says what computes which function; and one for each group of operations that cross families: [`compare`] (with select and
//! clamp), [`convert`] (with bitcast and reduce-precision), [`constant`] (with iota). [`effort`] says how much each does.
//!
//! Invariants:
//! - a value held as f32 of a narrower float type is always representable in that type: every operation that may leave
//!   it rounds its result ([`float32::round_to`]);
//! - a narrow integer is always sign- or zero-extended ([`int32::narrow`]);
//! - arithmetic flushes subnormals as the f32 and f64 instructions do; abs, negate, select, moves and bitcasts work on
//!   bits and keep them.
//!
//! Operations on element types that the verifier refuses (the sine of an integer) are not handled: they panic.

pub mod compare;
pub mod complex;
pub mod constant;
pub mod convert;
pub mod effort;
pub mod float32;
pub mod float64;
mod functions;
pub mod int32;
pub mod int64;
pub mod pred;
pub mod random;
mod real;
pub mod reduction64;
pub mod special32;
pub mod special64;
pub mod trigonometric64;

pub use compare::{clamp, compare, select};
pub use constant::{constant, constant_f64, iota_value};
pub use convert::{bitcast_same_width, convert, reduce_precision};

use super::Value;
use crate::kernel::KernelBuilder;
use systole_hlo::graph::elementwise::{BinaryKind, Join, Part, UnaryKind};
use systole_hlo::graph::{Binary, Unary};
use systole_isa::{DType, dtype::DTypeClass};

/// How a type is held and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Pred,
    Int32,
    Int64,
    Float32,
    Float64,
    Complex,
}

pub(crate) fn family(dtype: DType) -> Family {
    match (dtype.class(), dtype.bits()) {
        (DTypeClass::Pred, _) => Family::Pred,
        (DTypeClass::Signed | DTypeClass::Unsigned, 64) => Family::Int64,
        (DTypeClass::Signed | DTypeClass::Unsigned, _) => Family::Int32,
        (DTypeClass::Float, 64) => Family::Float64,
        (DTypeClass::Float, _) => Family::Float32,
        (DTypeClass::Complex, _) => Family::Complex,
    }
}

/// `op(x)`; `result` is the operation's result type.
pub fn unary(b: &mut KernelBuilder, op: Unary, x: &Value, result: DType) -> Value {
    let r = if let UnaryKind::Part(part) = op.kind() {
        match part {
            Part::Real => x.part(0),
            Part::Imag if !x.dtype.is_complex() => constant_f64(b, 0.0, x.dtype),
            Part::Imag => x.part(1),
        }
    } else {
        match family(x.dtype) {
            Family::Pred => pred::unary(b, op, x),
            Family::Int32 => int32::unary(b, op, x),
            Family::Int64 => int64::unary(b, op, x),
            Family::Float32 => float32::unary(b, op, x),
            Family::Float64 => float64::unary(b, op, x),
            Family::Complex => complex::unary(b, op, x),
        }
    };
    debug_assert_eq!(r.dtype, result, "result type of {op:?}");
    r
}

/// `op(x, y)` of two values of one type.
pub fn binary(b: &mut KernelBuilder, op: Binary, x: &Value, y: &Value) -> Value {
    debug_assert_eq!(x.dtype, y.dtype, "operand types of {op:?}");
    match (op.kind(), family(x.dtype)) {
        (BinaryKind::Join(Join::Complex), _) => Value::from_parts(*x, *y),
        (_, Family::Pred) => pred::binary(b, op, x, y),
        (BinaryKind::Arithmetic(op), Family::Int32) => int32::arithmetic(b, op, x, y),
        (BinaryKind::Arithmetic(op), Family::Int64) => int64::arithmetic(b, op, x, y),
        (BinaryKind::Arithmetic(op), Family::Float32) => float32::arithmetic(b, op, x, y),
        (BinaryKind::Arithmetic(op), Family::Float64) => float64::arithmetic(b, op, x, y),
        (BinaryKind::Arithmetic(op), Family::Complex) => complex::arithmetic(b, op, x, y),
        (BinaryKind::BinaryFunction(f), Family::Int32) => int32::function(b, f, x, y),
        (BinaryKind::BinaryFunction(f), Family::Int64) => int64::function(b, f, x, y),
        (BinaryKind::BinaryFunction(f), Family::Float32) => float32::function(b, f, x, y),
        (BinaryKind::BinaryFunction(f), Family::Float64) => functions::of_two64(b, f, x, y),
        (BinaryKind::BinaryFunction(f), Family::Complex) => complex::function_of_two(b, f, x, y),
        (BinaryKind::Integer(op), Family::Int32) => int32::bits(b, op, x, y),
        (BinaryKind::Integer(op), Family::Int64) => int64::bits(b, op, x, y),
        (BinaryKind::Integer(_), Family::Float32 | Family::Float64 | Family::Complex) => refused(op, x.dtype),
    }
}

/// `x * y + z` of floats of 32 or 64 bits, rounded once.
pub fn multiply_add(b: &mut KernelBuilder, x: &Value, y: &Value, z: &Value) -> Value {
    match family(x.dtype) {
        Family::Float64 => float64::multiply_add(b, x, y, z),
        Family::Float32 => Value::word(x.dtype, b.fma(x.v(), y.v(), z.v())),
        Family::Pred | Family::Int32 | Family::Int64 | Family::Complex => refused("multiply-add", x.dtype),
    }
}

/// What a match arm for an operation that the verifier refuses does.
#[track_caller]
pub(crate) fn refused(op: impl std::fmt::Debug, dtype: DType) -> ! {
    panic!("{op:?} of {dtype} passed the verifier")
}
