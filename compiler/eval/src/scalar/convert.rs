//! Conversions between element types, and reduced precision.

use super::{Scalar, flush, integer};
use systole_isa::{DType, dtype::DTypeClass, float};

/// The value as another type holds it.
///
/// Integers round to nearest even when they become floats and wrap when they become narrower; floats truncate and
/// saturate when they become integers (NaN: 0); anything but zero is true; complex numbers lose their imaginary part.
/// Subnormals are flushed except where `bf16` becomes `f32`, which is a move.
pub fn convert(from: DType, to: DType, v: Scalar) -> Scalar {
    if from == to || (from == DType::BF16 && to == DType::F32) {
        return v;
    }
    match (v, to.class()) {
        (Scalar::I(x), DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned) => Scalar::I(integer::wrap(to, x)),
        (Scalar::I(x), DTypeClass::Float) => Scalar::F(int_to_float(from, to, x)),
        (Scalar::I(x), DTypeClass::Complex) => Scalar::C(int_to_float(from, to.real(), x), 0.0),
        (Scalar::F(x), DTypeClass::Float) => Scalar::F(float_to_float(from, to, x)),
        (Scalar::F(x), DTypeClass::Complex) => Scalar::C(float_to_float(from, to.real(), x), 0.0),
        (Scalar::F(x), DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned) => {
            Scalar::I(float_to_int(to, flush(from, x)))
        }
        (Scalar::C(re, im), DTypeClass::Complex) => {
            Scalar::C(float_to_float(from.real(), to.real(), re), float_to_float(from.real(), to.real(), im))
        }
        (Scalar::C(re, im), DTypeClass::Pred) => Scalar::I((flush(from, re) != 0.0 || flush(from, im) != 0.0) as i64),
        (Scalar::C(re, _), _) => convert(from.real(), to, Scalar::F(re)),
    }
}

fn int_to_float(from: DType, to: DType, x: i64) -> f64 {
    match (from, to) {
        (DType::U64, DType::F64) => x as u64 as f64,
        (_, DType::F64) => x as f64,
        (DType::U64, _) => super::round(to, x as u64 as f32 as f64),
        _ => super::round(to, x as f32 as f64),
    }
}

fn float_to_float(from: DType, to: DType, x: f64) -> f64 {
    let x = flush(from, x);
    match (from, to) {
        (DType::F64, DType::F16) => float::f16_to_f32(float::f16_from_f64(x)) as f64,
        _ => flush(to, super::round(to, x)),
    }
}

fn float_to_int(to: DType, x: f64) -> i64 {
    let bits = to.bits();
    match to.class() {
        DTypeClass::Pred => (x != 0.0) as i64,
        DTypeClass::Signed => (x as i64).clamp(i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        DTypeClass::Unsigned | DTypeClass::Float | DTypeClass::Complex => {
            (x as u64).min(u64::MAX >> (64 - bits)) as i64
        }
    }
}

/// The value with only that many exponent and mantissa bits, in its own format.
///
/// Rounds to nearest even; what is then too large becomes infinity, what is too small for a normal number of the
/// reduced format becomes zero (unless the format's own exponent is kept); NaN stays NaN.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other narrow floats are those of a byte")]
pub fn reduce_precision(dtype: DType, exponent: u32, mantissa: u32, x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let (own_exponent, own_mantissa) = match dtype {
        DType::F64 => (11, 52),
        DType::F16 => (5, 10),
        DType::BF16 => (8, 7),
        t => float::F8::from_dtype(t).map_or((8, 23), float::F8::fields),
    };
    let mut x = x;
    if mantissa < own_mantissa {
        x = round_mantissa(own_exponent as i32, mantissa, x);
    }
    if exponent < own_exponent && x != 0.0 {
        let bias = (1i32 << (exponent.max(1) - 1)) - 1;
        let e = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        if x.is_infinite() || e > bias {
            return f64::INFINITY.copysign(x);
        }
        if e < 1 - bias {
            return 0f64.copysign(x);
        }
    }
    super::round(dtype, x)
}

/// Rounds to `mantissa` bits as the format's own bit pattern does: subnormals lose the same low bits as normals.
fn round_mantissa(own_exponent: i32, mantissa: u32, x: f64) -> f64 {
    if x.is_infinite() {
        return x;
    }
    let least = 2 - (1 << (own_exponent - 1)); // exponent of the smallest normal number
    let e = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(least);
    let places = mantissa as i32 - e;
    libm::scalbn(libm::scalbn(x, places).round_ties_even(), -places)
}
