//! Seeded inputs: a counter-based generator, so that element `i` of argument `a` does not depend on anything else.

use crate::Array;
use systole_isa::dtype::DTypeClass;
use systole_isa::program::HostArray;
use systole_isa::{DType, Program};

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
    let mut bytes = Vec::with_capacity(n as usize * dtype.host_bytes());
    let parts = if dtype.is_complex() { 2 } else { 1 };
    for i in 0..n * parts {
        let z = mix(i.wrapping_add((number + 1) << 40).wrapping_add(seed << 56));
        push(&mut bytes, dtype.real(), z >> 40);
    }
    Array::new(dtype, dims, bytes)
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

/// One element from 24 random bits.
fn push(out: &mut Vec<u8>, dtype: DType, bits: u64) {
    let unit = bits as f32 / (1 << 23) as f32 - 1.0;
    match dtype.class() {
        DTypeClass::Pred => out.push((bits & 1) as u8),
        DTypeClass::Signed | DTypeClass::Unsigned => {
            let v = (bits % (1u64 << dtype.bits().min(3))) as i64;
            out.extend_from_slice(&v.to_le_bytes()[..dtype.host_bytes()]);
        }
        DTypeClass::Float | DTypeClass::Complex => match dtype {
            DType::F64 => out.extend_from_slice(&(unit as f64).to_le_bytes()),
            DType::F32 => out.extend_from_slice(&unit.to_le_bytes()),
            DType::BF16 => out.extend_from_slice(&half::bf16::from_f32(unit).to_le_bytes()),
            DType::F16 => out.extend_from_slice(&half::f16::from_f32(unit).to_le_bytes()),
            // Eight-bit floats: finite positive values around one in every format.
            _ => out.push(0x30 + (bits % 8) as u8),
        },
    }
}
