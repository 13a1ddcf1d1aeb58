//! Numbers as the evaluator computes with them, one at a time.
//!
//! Integers and `pred` of every width are held in an `i64` (`u64` as its bits), real floats of every format in an
//! `f64`, complex numbers in two. An operation computes in that wide form and its result is then brought back to the
//! element type: wrapped for integers, rounded for floats. `f64` holds the exact sum, difference, product of two
//! `f32`s closely enough that rounding it to `f32` is the correctly rounded result (also of quotients and roots).
//!
//! Subnormals: [`flush`] is applied to operands and results of arithmetic and comparisons, never by [`decode`] and
//! [`encode`], so that moves keep every bit pattern but for the payload of a NaN.

pub mod binary;
pub mod complex;
pub mod convert;
pub mod float;
pub mod integer;
pub mod special;
pub mod unary;

use systole_isa::dtype::DTypeClass;
use systole_isa::{DType, F8, float as format};

/// One element in wide form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// `pred` (0 or 1) and integers; `u64` as its bits.
    I(i64),
    F(f64),
    C(f64, f64),
}

impl Scalar {
    /// The integer; a float is truncated.
    pub fn int(self) -> i64 {
        match self {
            Scalar::I(v) => v,
            Scalar::F(v) | Scalar::C(v, _) => v as i64,
        }
    }

    /// The real part as a float.
    pub fn float(self) -> f64 {
        match self {
            Scalar::I(v) => v as f64,
            Scalar::F(v) | Scalar::C(v, _) => v,
        }
    }

    /// Both parts.
    pub fn complex(self) -> (f64, f64) {
        match self {
            Scalar::I(v) => (v as f64, 0.0),
            Scalar::F(v) => (v, 0.0),
            Scalar::C(re, im) => (re, im),
        }
    }

    /// Zero of a type.
    pub fn zero(dtype: DType) -> Scalar {
        match dtype.class() {
            DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned => Scalar::I(0),
            DTypeClass::Float => Scalar::F(0.0),
            DTypeClass::Complex => Scalar::C(0.0, 0.0),
        }
    }
}

fn array<const N: usize>(b: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&b[..N]);
    out
}

/// An element's value from its bytes in a host array.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is neither complex nor a float is an integer")]
pub fn decode(dtype: DType, b: &[u8]) -> Scalar {
    match dtype {
        DType::C64 => Scalar::C(f32::from_le_bytes(array(b)) as f64, f32::from_le_bytes(array(&b[4..])) as f64),
        DType::C128 => Scalar::C(f64::from_le_bytes(array(b)), f64::from_le_bytes(array(&b[8..]))),
        t if t.is_float() => Scalar::F(decode_float(t, b)),
        t => Scalar::I(decode_int(t, b)),
    }
}

/// Writes a value, rounding or wrapping it to the type.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is neither complex nor a float is an integer")]
pub fn encode(dtype: DType, value: Scalar, out: &mut [u8]) {
    match dtype {
        DType::C64 => {
            let (re, im) = value.complex();
            out[..4].copy_from_slice(&(re as f32).to_le_bytes());
            out[4..8].copy_from_slice(&(im as f32).to_le_bytes());
        }
        DType::C128 => {
            let (re, im) = value.complex();
            out[..8].copy_from_slice(&re.to_le_bytes());
            out[8..16].copy_from_slice(&im.to_le_bytes());
        }
        t if t.is_float() => encode_float(t, value.float(), out),
        t => encode_int(t, value.int(), out),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what is left has eight bits or fewer")]
pub(super) fn decode_int(dtype: DType, b: &[u8]) -> i64 {
    match dtype {
        DType::S8 => b[0] as i8 as i64,
        DType::S16 => i16::from_le_bytes(array(b)) as i64,
        DType::U16 => u16::from_le_bytes(array(b)) as i64,
        DType::S32 => i32::from_le_bytes(array(b)) as i64,
        DType::U32 => u32::from_le_bytes(array(b)) as i64,
        DType::S64 | DType::U64 => i64::from_le_bytes(array(b)),
        t => integer::wrap(t, b[0] as i64),
    }
}

pub(super) fn encode_int(dtype: DType, v: i64, out: &mut [u8]) {
    let size = dtype.host_bytes();
    let v = integer::wrap(dtype, v);
    // Types of fewer bits than a byte keep their value in its low ones; the others are zero.
    let v = if dtype.bits() < 8 { v & ((1 << dtype.bits()) - 1) } else { v };
    out[..size].copy_from_slice(&v.to_le_bytes()[..size]);
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what is left has eight bits")]
pub(super) fn decode_float(dtype: DType, b: &[u8]) -> f64 {
    match dtype {
        DType::F32 => f32::from_le_bytes(array(b)) as f64,
        DType::F64 => f64::from_le_bytes(array(b)),
        DType::BF16 => format::bf16_to_f32(u16::from_le_bytes(array(b))) as f64,
        DType::F16 => format::f16_to_f32(u16::from_le_bytes(array(b))) as f64,
        t => F8::from_dtype(t).map_or(0.0, |f| f.to_f32(b[0]) as f64),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what is left has eight bits")]
pub(super) fn encode_float(dtype: DType, v: f64, out: &mut [u8]) {
    match dtype {
        DType::F32 => out[..4].copy_from_slice(&(v as f32).to_le_bytes()),
        DType::F64 => out[..8].copy_from_slice(&v.to_le_bytes()),
        DType::BF16 => out[..2].copy_from_slice(&format::bf16_from_f32(v as f32).to_le_bytes()),
        DType::F16 => out[..2].copy_from_slice(&format::f16_from_f32(v as f32).to_le_bytes()),
        t => out[0] = F8::from_dtype(t).map_or(0, |f| f.from_f32(v as f32)),
    }
}

/// A float rounded to its type, to nearest even (narrower types by way of `f32`, as XLA computes them).
#[allow(clippy::wildcard_enum_match_arm, reason = "what is left has eight bits")]
pub fn round(dtype: DType, v: f64) -> f64 {
    match dtype {
        DType::F64 => v,
        DType::F32 => v as f32 as f64,
        DType::BF16 => format::round_to_bf16(v as f32) as f64,
        DType::F16 => format::round_to_f16(v as f32) as f64,
        t => F8::from_dtype(t).map_or(0.0, |f| f.to_f32(f.from_f32(v as f32)) as f64),
    }
}

/// Zero of the same sign for a subnormal of the types whose arithmetic flushes them; else the value.
#[allow(clippy::wildcard_enum_match_arm, reason = "arithmetic of the others keeps what is subnormal")]
pub fn flush(dtype: DType, v: f64) -> f64 {
    let least = match dtype {
        DType::F64 | DType::C128 => f64::MIN_POSITIVE,
        DType::F32 | DType::BF16 | DType::C64 => f32::MIN_POSITIVE as f64,
        _ => return v,
    };
    if v.abs() < least { v * 0.0 } else { v }
}

/// A result of float arithmetic as its type holds it: rounded, subnormals flushed.
pub fn finish(dtype: DType, v: f64) -> f64 {
    flush(dtype, round(dtype, v))
}

/// [`flush`] of any value: integers are themselves, complex numbers by parts.
pub fn flush_scalar(dtype: DType, v: Scalar) -> Scalar {
    match v {
        Scalar::I(_) => v,
        Scalar::F(x) => Scalar::F(flush(dtype, x)),
        Scalar::C(re, im) => Scalar::C(flush(dtype, re), flush(dtype, im)),
    }
}

/// [`finish`] of any value: integers wrap, complex numbers by parts.
pub fn finish_scalar(dtype: DType, v: Scalar) -> Scalar {
    match v {
        Scalar::I(x) => Scalar::I(integer::wrap(dtype, x)),
        Scalar::F(x) => Scalar::F(finish(dtype, x)),
        Scalar::C(re, im) => Scalar::C(finish(dtype.real(), re), finish(dtype.real(), im)),
    }
}

/// All elements of a real float array in wide form.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others are decoded one by one")]
pub fn floats(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b) as f64).collect(),
        DType::F64 => bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        t => bytes.chunks_exact(t.host_bytes()).map(|b| decode_float(t, b)).collect(),
    }
}

/// Bytes of a real float array; each value is rounded to the type.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others are encoded one by one")]
pub fn float_bytes(dtype: DType, values: impl ExactSizeIterator<Item = f64>) -> Vec<u8> {
    match dtype {
        DType::F32 => bytes_of(dtype, values, |v, o| o.copy_from_slice(&(v as f32).to_le_bytes())),
        DType::F64 => bytes_of(dtype, values, |v, o| o.copy_from_slice(&v.to_le_bytes())),
        t => bytes_of(dtype, values, |v, o| encode_float(t, v, o)),
    }
}

/// Bytes of an array, of which `write` writes each element.
fn bytes_of<T>(dtype: DType, values: impl ExactSizeIterator<Item = T>, write: impl Fn(T, &mut [u8])) -> Vec<u8> {
    let size = dtype.host_bytes();
    let mut out = vec![0; values.len() * size];
    out.chunks_exact_mut(size).zip(values).for_each(|(o, v)| write(v, o));
    out
}

/// All elements of an integer or pred array in wide form.
pub fn integers(dtype: DType, bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(dtype.host_bytes()).map(|b| decode_int(dtype, b)).collect()
}

/// Bytes of an integer or pred array; each value is wrapped to the type.
pub fn integer_bytes(dtype: DType, values: impl ExactSizeIterator<Item = i64>) -> Vec<u8> {
    bytes_of(dtype, values, |v, o| encode_int(dtype, v, o))
}

/// All elements of any array in wide form.
pub fn scalars(dtype: DType, bytes: &[u8]) -> Vec<Scalar> {
    bytes.chunks_exact(dtype.host_bytes()).map(|b| decode(dtype, b)).collect()
}

/// Bytes of any array; each value is rounded or wrapped to the type.
pub fn scalar_bytes(dtype: DType, values: impl ExactSizeIterator<Item = Scalar>) -> Vec<u8> {
    bytes_of(dtype, values, |v, o| encode(dtype, v, o))
}
