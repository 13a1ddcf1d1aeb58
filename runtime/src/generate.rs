//! Seeded inputs: a counter-based generator, so that element `i` of argument `a` does not depend on anything else.

use crate::Array;
use multiversion::multiversion;
use systole_isa::dtype::DTypeClass;
use systole_isa::program::HostArray;
use systole_isa::{DType, Program};

#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z ^= z >> 30;
    z = z.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Argument `number` of a run: floats uniform in [-1, 1), integers in [0, 8), `pred` uniform.
pub fn input(seed: u64, number: u64, dtype: DType, dims: &[u64]) -> Array {
    let n = dims.iter().product::<u64>();
    let mut bytes = vec![0; n as usize * dtype.host_bytes()];
    fill(seed, number, dtype, 0, 1, &mut bytes);
    Array::new(dtype, dims, bytes)
}

/// Elements `first`, `first + step`, ... of [`input`], as many as `out` has room for.
pub(crate) fn fill(seed: u64, number: u64, dtype: DType, first: u64, step: u64, out: &mut [u8]) {
    const MOST: usize = 128;
    let parts = if dtype.is_complex() { 2 } else { 1 };
    let size = dtype.host_bytes() / parts;
    let origin = ((number + 1) << 40).wrapping_add(seed << 56);
    if dtype == DType::F32 {
        return draw_floats(origin.wrapping_add(first), step, out.as_chunks_mut().0);
    }
    let mut bits = [0u32; MOST];
    for part in 0..parts {
        for (block, out) in out.chunks_mut(MOST * size * parts).enumerate() {
            let count = out.len() / (size * parts);
            let from = (first + block as u64 * MOST as u64 * step) * parts as u64 + part as u64;
            draw(origin.wrapping_add(from), step * parts as u64, &mut bits[..count]);
            if parts == 1 {
                convert(dtype.real(), &bits[..count], out);
                continue;
            }
            let mut values = [0u8; MOST * 8];
            convert(dtype.real(), &bits[..count], &mut values[..count * size]);
            let places = out.chunks_exact_mut(size * parts).zip(values.chunks_exact(size));
            places.for_each(|(o, v)| o[part * size..][..size].copy_from_slice(v));
        }
    }
}

/// 24 random bits for each of the counters `from`, `from + step`, ...
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn draw(from: u64, step: u64, out: &mut [u32]) {
    for (i, o) in out.iter_mut().enumerate() {
        *o = (mix(from.wrapping_add(i as u64 * step)) >> 40) as u32;
    }
}

/// [`draw`] and [`convert`] to f32.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn draw_floats(from: u64, step: u64, out: &mut [[u8; 4]]) {
    for (i, o) in out.iter_mut().enumerate() {
        let bits = (mix(from.wrapping_add(i as u64 * step)) >> 40) as u32;
        *o = unit(bits).to_le_bytes();
    }
}

/// Whether the time of a program may depend on an argument's contents: integers of few elements, which count and index.
pub fn steers(dtype: DType, dims: &[u64]) -> bool {
    !dtype.is_float() && dims.iter().product::<u64>() <= 1024
}

/// Inputs of a timing-only run: drawn where they [steer](steers), else without contents.
pub fn placeholders(program: &Program, seed: u64) -> Vec<Array> {
    let one = |(i, p): (usize, &HostArray)| {
        let (dtype, dims) = (p.layout.dtype, p.dims());
        match steers(dtype, dims) {
            true => input(seed, i as u64, dtype, dims),
            false => Array { dtype, dims: dims.to_vec(), bytes: Vec::new() },
        }
    };
    program.params.iter().enumerate().map(one).collect()
}

#[inline(always)]
fn unit(bits: u32) -> f32 {
    bits as f32 / (1 << 23) as f32 - 1.0
}

/// Elements from 24 random bits each.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
#[allow(clippy::wildcard_enum_match_arm, reason = "the class is Float: these are the eight-bit ones")]
fn convert(dtype: DType, bits: &[u32], out: &mut [u8]) {
    let size = dtype.host_bytes();
    let each = out.chunks_exact_mut(size).zip(bits);
    match dtype.class() {
        DTypeClass::Pred => each.for_each(|(o, &b)| o[0] = (b & 1) as u8),
        DTypeClass::Signed | DTypeClass::Unsigned => {
            let count = 1u64 << dtype.bits().min(3);
            each.for_each(|(o, &b)| o.copy_from_slice(&(u64::from(b) % count).to_le_bytes()[..size]));
        }
        DTypeClass::Float | DTypeClass::Complex => match dtype {
            DType::F64 => each.for_each(|(o, &b)| o.copy_from_slice(&f64::from(unit(b)).to_le_bytes())),
            DType::F32 => each.for_each(|(o, &b)| o.copy_from_slice(&unit(b).to_le_bytes())),
            DType::BF16 => {
                let words = out.as_chunks_mut().0.iter_mut();
                words.zip(bits).for_each(|(o, &b)| *o = half::bf16::from_f32(unit(b)).to_le_bytes());
            }
            DType::F16 => each.for_each(|(o, &b)| o.copy_from_slice(&half::f16::from_f32(unit(b)).to_le_bytes())),
            // Eight-bit floats: finite positive values around one in every format.
            _ => each.for_each(|(o, &b)| o[0] = 0x30 + (b % 8) as u8),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_do_not_depend_on_how_they_are_drawn() {
        for dtype in [DType::F32, DType::BF16, DType::S64, DType::Pred, DType::C64, DType::C128, DType::F8E5M2] {
            let whole = input(3, 2, dtype, &[40, 30]).bytes;
            let size = dtype.host_bytes();
            for (first, step, count) in [(0, 1, 1200), (7, 30, 39), (100, 1, 300)] {
                let mut some = vec![0; count * size];
                fill(3, 2, dtype, first, step, &mut some);
                for (i, got) in some.chunks_exact(size).enumerate() {
                    let at = (first + i as u64 * step) as usize * size;
                    assert_eq!(got, &whole[at..at + size], "{dtype} {first} {step} {i}");
                }
            }
        }
        // The first values of seed 0, as they have always been.
        let first = input(0, 0, DType::F32, &[2]).to_f32();
        assert_eq!(first, [0.820_373_65, -0.803_006_4]);
    }
}
