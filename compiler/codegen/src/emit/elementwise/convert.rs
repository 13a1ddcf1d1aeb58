//! Conversions between element types, bitcasts, and reduce-precision.

use super::float32::{ABS, INF, SIGN, round_to};
use super::int32::{is_signed, narrow, width_mask};
use super::{Family, constant_f64, family, float64, int64};
use crate::emit::Value;
use crate::emit::memory::{pack_f8, unpack_f8};
use crate::kernel::{KernelBuilder, V};
use systole_isa::{DType, Op, float::F8};

/// Converts a value to another element type.
///
/// Integers wrap to narrower ones; floats to integers truncate and saturate, NaN to 0; integers and wider floats round
/// to nearest even; anything to `pred` is "not 0"; complex to real takes the real part.
pub fn convert(b: &mut KernelBuilder, x: &Value, to: DType) -> Value {
    let from = x.dtype;
    if from == to {
        return *x;
    }
    match (family(from), family(to)) {
        (Family::Pred, _) => {
            let (one, zero) = (constant_f64(b, 1.0, to), constant_f64(b, 0.0, to));
            super::select(b, x, &one, &zero)
        }
        (Family::Complex, Family::Complex) => {
            let parts = [0, 1].map(|i| convert(b, &x.part(i), to.real()));
            Value::from_parts(parts[0], parts[1])
        }
        (Family::Complex, Family::Pred) => {
            let parts = [0, 1].map(|i| convert(b, &x.part(i), to).m());
            Value::mask(b.m_or(parts[0], parts[1]))
        }
        (Family::Complex, _) => convert(b, &x.part(0), to),
        (_, Family::Complex) => {
            let re = convert(b, x, to.real());
            let im = constant_f64(b, 0.0, to.real());
            Value::from_parts(re, im)
        }
        (Family::Int32, Family::Pred) => Value::mask(b.test(Op::VNeI, x.v(), 0)),
        (Family::Float32, Family::Pred) => Value::mask(b.test(Op::VNeF, x.v(), 0.0)),
        (Family::Int64, Family::Pred) => {
            let any = b.or(x.all()[0], x.all()[1]);
            Value::mask(b.test(Op::VNeI, any, 0))
        }
        (Family::Float64, Family::Pred) => {
            let p = float64::pair(b, x);
            let zero = b.ptest(Op::PEqD, p, 0.0);
            Value::mask(b.m_not(zero))
        }
        (Family::Int32, Family::Int32) => Value::word(to, integer(b, x.v(), from, to)),
        (Family::Int32, Family::Float32) => {
            let op = if is_signed(from) { Op::VCvtS32F32 } else { Op::VCvtU32F32 };
            let f = b.v1(op, x.v());
            let fits = from.bits() <= 8 && to == DType::BF16 || from.bits() <= 8 && to == DType::F16;
            Value::word(to, if fits { f } else { round_to(b, f, to) })
        }
        (Family::Float32, Family::Int32) => Value::word(to, truncate(b, x.v(), to)),
        (Family::Float32, Family::Float32) => {
            let widens = to == DType::F32 || from.is_byte_float() && matches!(to, DType::BF16 | DType::F16);
            Value::word(to, if widens { x.v() } else { round_to(b, x.v(), to) })
        }
        (Family::Int32 | Family::Int64, Family::Int64) => int64::from_integer(b, x, to),
        (Family::Int64, Family::Int32) => Value::word(to, narrow(b, x.v(), to)),
        (Family::Int64, Family::Float32) => int64::to_float32(b, x, to),
        (Family::Float32 | Family::Float64, Family::Int64) => float64::to_int64(b, x, to),
        (Family::Int32 | Family::Int64 | Family::Float32, Family::Float64) => float64::widen(b, x),
        (Family::Float64, Family::Int32) => float64::to_int32(b, x, to),
        (Family::Float64, Family::Float32) => {
            let p = float64::pair(b, x);
            let f = b.def_v(Op::PCvtToF32, &[p.into()]);
            Value::word(to, round_to(b, f, to))
        }
        (Family::Float64, Family::Float64) => *x,
    }
}

/// Between integers of at most 32 bits: wraps, unless every value of `from` is one of `to`.
fn integer(b: &mut KernelBuilder, v: V, from: DType, to: DType) -> V {
    let same = is_signed(from) == is_signed(to);
    let fits = if same { from.bits() <= to.bits() } else { !is_signed(from) && from.bits() < to.bits() };
    if fits { v } else { narrow(b, v, to) }
}

/// f32 to an integer of at most 32 bits: truncates and saturates.
fn truncate(b: &mut KernelBuilder, v: V, to: DType) -> V {
    if is_signed(to) {
        let i = b.v1(Op::VCvtF32S32, v);
        saturate(b, i, to)
    } else {
        let i = b.v1(Op::VCvtF32U32, v);
        saturate(b, i, to)
    }
}

/// 32-bit lanes (signed or unsigned as the type is) clamped to the type's range.
pub(super) fn saturate(b: &mut KernelBuilder, v: V, to: DType) -> V {
    if to.bits() == 32 {
        v
    } else if is_signed(to) {
        let max = (width_mask(to) >> 1) as i32;
        let low = b.v2(Op::VMaxS, v, -max - 1);
        b.v2(Op::VMinS, low, max)
    } else {
        b.v2(Op::VMinU, v, width_mask(to))
    }
}

/// Reinterprets the bits of a value as another type of the same width.
pub fn bitcast_same_width(b: &mut KernelBuilder, x: &Value, to: DType) -> Value {
    if x.dtype == to {
        return *x;
    }
    debug_assert_eq!(x.dtype.bits(), to.bits(), "widths of a bitcast");
    if to.bits() > 32 {
        return x.retyped(to);
    }
    let bits = to_bits(b, x);
    from_bits(b, bits, to)
}

/// The bits of a value of at most 32 bits; bits above its width are whatever they are.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other types are their bits")]
pub fn to_bits(b: &mut KernelBuilder, x: &Value) -> V {
    match x.dtype {
        DType::Pred => b.sel(x.m(), 1, 0),
        DType::BF16 => b.shr(x.v(), 16),
        DType::F16 => b.v1(Op::VPackF16, x.v()),
        t if t.is_byte_float() => pack_f8(b, x.v(), t),
        _ => x.v(),
    }
}

/// The value of at most 32 bits whose bits are given; bits above its width are ignored.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other types are their bits")]
pub fn from_bits(b: &mut KernelBuilder, bits: V, to: DType) -> Value {
    let v = match to {
        DType::Pred => return Value::mask(b.test(Op::VNeI, bits, 0)),
        DType::BF16 => b.shl(bits, 16),
        DType::F16 => b.v1(Op::VUnpackF16, bits),
        t if t.is_byte_float() => unpack_f8(b, bits, t),
        t if t.is_integer() => narrow(b, bits, t),
        _ => bits,
    };
    Value::word(to, v)
}

/// Rounds to a float with `exponent` exponent bits and `mantissa` mantissa bits, still of the value's type.
///
/// Ties go to even, overflow to infinity, numbers below the narrow format's normal ones to zero; NaN stays.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "all other narrow floats but bf16, whose exponent is f32's, are those of a byte"
)]
pub fn reduce_precision(b: &mut KernelBuilder, x: &Value, exponent: u32, mantissa: u32) -> Value {
    if x.dtype == DType::F64 {
        return float64::reduce_precision(b, x, exponent, mantissa);
    }
    // Nothing is out of range for as many exponent bits as the type has.
    let own = match x.dtype {
        DType::F16 => 5,
        t => F8::from_dtype(t).map_or(8, |f| f.fields().0),
    };
    let v = x.v();
    let mut r = v;
    if mantissa < 23 {
        let shift = (23 - mantissa) as i32;
        let last = b.shr(r, shift);
        let last = b.and(last, 1);
        let bias = b.addi(last, (1 << (shift - 1)) - 1);
        r = b.addi(r, bias);
        r = b.and(r, -1i32 << shift);
    }
    let sign = b.and(v, SIGN);
    if exponent < own {
        let range = (1i32 << (exponent - 1)) - 1;
        let e = b.and(r, INF);
        let over = b.test(Op::VLtS, (127 + range) << 23, e);
        let under = b.test(Op::VLeS, e, (127 - range) << 23);
        let inf = b.or(sign, INF);
        r = b.sel(over, inf, r);
        r = b.sel(under, sign, r);
    }
    let a = b.and(v, ABS);
    let nan = b.test(Op::VLtS, INF, a);
    let r = b.sel(nan, v, r);
    let exact = x.dtype == DType::F32;
    Value::word(x.dtype, if exact { r } else { round_to(b, r, x.dtype) })
}
