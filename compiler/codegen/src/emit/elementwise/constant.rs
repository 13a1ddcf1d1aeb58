//! Constants and iota.

use super::convert::convert;
use crate::emit::Value;
use crate::kernel::{KernelBuilder, M, V};
use half::{bf16, f16};
use systole_isa::{DType, Op, float::F8};

/// The constant whose host bytes (little-endian, [`DType::host_bytes`]) are given, in every lane.
#[allow(clippy::wildcard_enum_match_arm, reason = "types with a form of their own come first, all others are words")]
pub fn constant(b: &mut KernelBuilder, bytes: &[u8], dtype: DType) -> Value {
    let word = |i: usize| i32::from_le_bytes(std::array::from_fn(|k| bytes[4 * i + k]));
    let half = |i: usize| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
    let one = match dtype {
        DType::Pred => return Value::mask(mask(b, bytes[0] != 0)),
        DType::S4 => i32::from((bytes[0] << 4) as i8 >> 4),
        DType::U4 => i32::from(bytes[0] & 15),
        DType::S2 => i32::from((bytes[0] << 6) as i8 >> 6),
        DType::U2 => i32::from(bytes[0] & 3),
        DType::S8 => i32::from(bytes[0] as i8),
        DType::U8 => i32::from(bytes[0]),
        DType::S16 => i32::from(half(0) as i16),
        DType::U16 => i32::from(half(0)),
        DType::BF16 => bf16::from_bits(half(0)).to_f32().to_bits() as i32,
        DType::F16 => f16::from_bits(half(0)).to_f32().to_bits() as i32,
        t if t.is_byte_float() => {
            let format = F8::from_dtype(t).expect("every float of a byte has a format");
            format.to_f32(bytes[0]).to_bits() as i32
        }
        t => {
            let words: Vec<V> = (0..t.components()).map(|i| b.v_imm(word(i))).collect();
            return Value::words(t, &words);
        }
    };
    Value::word(dtype, b.v_imm(one))
}

/// All ones or all zeros.
fn mask(b: &mut KernelBuilder, value: bool) -> M {
    if value { M::ALL } else { b.m_xor(M::ALL, M::ALL) }
}

/// A constant that is exact (or acceptably rounded) in `dtype`; for complex types the imaginary part is 0.
#[allow(clippy::wildcard_enum_match_arm, reason = "only floats of a byte are left")]
pub fn constant_f64(b: &mut KernelBuilder, value: f64, dtype: DType) -> Value {
    match dtype {
        DType::Pred => Value::mask(mask(b, value != 0.0)),
        DType::F64 => float64(b, value),
        DType::C64 | DType::C128 => {
            let (re, im) = (constant_f64(b, value, dtype.real()), constant_f64(b, 0.0, dtype.real()));
            Value::from_parts(re, im)
        }
        DType::S64 | DType::U64 => {
            let bits = if value < 0.0 { value as i64 } else { value as u64 as i64 };
            Value::words(dtype, &[b.v_imm(bits as i32), b.v_imm((bits >> 32) as i32)])
        }
        t if t.is_integer() => Value::word(t, b.v_imm(value as i64 as i32)),
        DType::BF16 => Value::word(dtype, b.v_f32(bf16::from_f64(value).to_f32())),
        DType::F16 => Value::word(dtype, b.v_f32(f16::from_f64(value).to_f32())),
        DType::F32 => Value::word(dtype, b.v_f32(value as f32)),
        t => {
            let format = F8::from_dtype(t).expect("only floats of a byte are left");
            Value::word(t, b.v_f32(format.to_f32(format.from_f64(value))))
        }
    }
}

fn float64(b: &mut KernelBuilder, value: f64) -> Value {
    let bits = value.to_bits() as i64;
    Value::words(DType::F64, &[b.v_imm(bits as i32), b.v_imm((bits >> 32) as i32)])
}

/// The element of an iota: the index (s32 lanes, not negative) as a value of `dtype`.
#[allow(clippy::wildcard_enum_match_arm, reason = "numbers of all types come from s32")]
pub fn iota_value(b: &mut KernelBuilder, index: V, dtype: DType) -> Value {
    match dtype {
        DType::Pred => Value::mask(b.test(Op::VNeI, index, 0)),
        _ => convert(b, &Value::word(DType::S32, index), dtype),
    }
}
