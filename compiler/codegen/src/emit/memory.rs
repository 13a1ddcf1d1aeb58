//! Loads and stores of values: which memory format each element type takes, and how many components.

use super::Value;
use crate::kernel::{BufferRef, KernelBuilder, M, MemFormat, S, StoreFormat, V};
use systole_isa::{DType, Op, float::F8};

/// Where one register's worth of elements lies in vector memory.
///
/// Sublane `i` of component `c` is the element row `base + offset + c * component_rows + i * stride`; rows count elements
/// of the type's storage width (see [`systole_isa::layout`]).
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub base: S,
    pub offset: i32,
    pub stride: i32,
    pub buf: BufferRef,
    /// Element rows from one component's array to the next ([`systole_isa::Layout::total_rows`]); unused for types of one
    /// component.
    pub component_rows: i32,
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other types lie as words")]
fn load_format(dtype: DType) -> MemFormat {
    match dtype {
        DType::Pred | DType::U8 | DType::U4 | DType::U2 => MemFormat::U8,
        DType::S8 | DType::S4 | DType::S2 => MemFormat::S8,
        DType::S16 => MemFormat::S16,
        DType::U16 | DType::F16 => MemFormat::U16,
        DType::BF16 => MemFormat::Bf16,
        t if t.is_byte_float() => MemFormat::U8,
        _ => MemFormat::W32,
    }
}

fn store_format(dtype: DType) -> StoreFormat {
    match dtype.storage_bits() {
        8 => StoreFormat::B8,
        16 if dtype == DType::BF16 => StoreFormat::Bf16,
        16 => StoreFormat::B16,
        _ => StoreFormat::W32,
    }
}

/// Loads one register's worth of elements of type `dtype`.
pub fn load_value(b: &mut KernelBuilder, dtype: DType, at: Place) -> Value {
    if dtype == DType::BF16 && !b.converts_bf16() {
        let bits = b.load(MemFormat::U16, at.base, at.offset, at.stride, at.buf);
        return Value::word(dtype, b.v1(Op::VUnpackBf16, bits));
    }
    load_operand(b, dtype, at)
}

/// As [`load_value`], for a matrix unit: it takes bf16 as it lies in memory, on every chip.
pub fn load_operand(b: &mut KernelBuilder, dtype: DType, at: Place) -> Value {
    let words: Vec<V> = (0..dtype.components())
        .map(|c| b.load(load_format(dtype), at.base, at.offset + c as i32 * at.component_rows, at.stride, at.buf))
        .collect();
    from_memory(b, dtype, &words)
}

/// The value whose loaded (widened) words these are.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other types lie as their words")]
pub fn from_memory(b: &mut KernelBuilder, dtype: DType, words: &[V]) -> Value {
    let v = words[0];
    match dtype {
        DType::Pred => Value::mask(b.test(Op::VNeI, v, 0)),
        DType::F16 => Value::word(dtype, b.v1(Op::VUnpackF16, v)),
        DType::S4 | DType::S2 => {
            let spare = 32 - dtype.bits() as i32;
            let up = b.shl(v, spare);
            Value::word(dtype, b.sar(up, spare))
        }
        DType::U4 => Value::word(dtype, b.and(v, 15)),
        DType::U2 => Value::word(dtype, b.and(v, 3)),
        t if t.is_byte_float() => Value::word(dtype, unpack_f8(b, v, t)),
        _ => Value::words(dtype, words),
    }
}

/// Stores a value where the mask is set; `pred` becomes bytes 0 and 1.
pub fn store_value(b: &mut KernelBuilder, value: &Value, at: Place, mask: M) {
    if value.dtype == DType::BF16 && !b.converts_bf16() {
        let bits = b.v1(Op::VPackBf16, value.v());
        return b.store(StoreFormat::B16, bits, at.base, at.offset, at.stride, mask, at.buf);
    }
    for (c, v) in to_memory(b, value).into_iter().enumerate() {
        let offset = at.offset + c as i32 * at.component_rows;
        b.store(store_format(value.dtype), v, at.base, offset, at.stride, mask, at.buf);
    }
}

/// The words that a store of the value narrows and writes, one for each component.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other types lie as their words")]
pub fn to_memory(b: &mut KernelBuilder, value: &Value) -> Vec<V> {
    match value.dtype {
        DType::Pred => vec![b.sel(value.m(), 1, 0)],
        DType::F16 => vec![b.v1(Op::VPackF16, value.v())],
        t if t.is_byte_float() => vec![pack_f8(b, value.v(), t)],
        _ => value.all().to_vec(),
    }
}

/// The number of a byte's float format in instructions.
fn f8_format(dtype: DType) -> i32 {
    F8::from_dtype(dtype).expect("only floats of a byte are packed so") as i32
}

/// The bits (low byte) of f32 lanes rounded to a float of a byte.
pub fn pack_f8(b: &mut KernelBuilder, v: V, dtype: DType) -> V {
    b.def_v(Op::VPackF8, &[v.into(), f8_format(dtype).into()])
}

/// The f32 value of bits of a byte's float (low byte).
pub fn unpack_f8(b: &mut KernelBuilder, v: V, dtype: DType) -> V {
    b.def_v(Op::VUnpackF8, &[v.into(), f8_format(dtype).into()])
}
