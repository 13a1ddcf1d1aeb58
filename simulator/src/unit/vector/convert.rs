//! Conversions between lane formats.

use super::{f, flush};
use multiversion::multiversion;
use systole_isa::float::F8;
use systole_isa::opcodes::ConvertFn;

#[inline(always)]
fn map(d: &mut [u32], a: &[u32], g: impl Fn(u32) -> u32) {
    d.iter_mut().zip(a).for_each(|(d, &a)| *d = g(a));
}

/// bf16 bits in the high half, nearest even, subnormals kept; a NaN stays one.
#[inline(always)]
pub(crate) fn round_bf16(x: u32) -> u32 {
    let rounded = x.wrapping_add(0x7fff + (x >> 16 & 1)) & 0xffff_0000;
    // A NaN keeps its upper bits; one whose payload is all in the lower bits becomes quiet.
    let lost = x & 0x007f_0000 == 0;
    let nan = x & 0xffff_0000 | (lost as u32) << 22;
    if x & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded }
}

/// f16 bits, nearest even.
#[inline(always)]
fn to_f16(x: u32) -> u32 {
    let sign = x >> 16 & 0x8000;
    let magnitude = x & 0x7fff_ffff;
    // Normal results: rebias the exponent, round at bit 13.
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    // Subnormal results: an addition lines the significand up with the last bit and rounds it.
    let magic = f32::from_bits(126 << 23);
    let subnormal = (f32::from_bits(magnitude) + magic).to_bits().wrapping_sub(126 << 23);
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let finite = finite.min(0x7c00);
    let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
    sign | if magnitude > 0x7f80_0000 { nan } else { finite }
}

/// f32 bits of f16 bits.
#[inline(always)]
fn from_f16(h: u32) -> u32 {
    let sign = (h & 0x8000) << 16;
    let magnitude = h & 0x7fff;
    let normal = (magnitude << 13).wrapping_add(112 << 23);
    let subnormal = (magnitude as i32 as f32 * f32::from_bits(103 << 23)).to_bits();
    let special = magnitude << 13 | 0x7f80_0000;
    let value = if magnitude < 0x400 { subnormal } else { normal };
    sign | if magnitude >= 0x7c00 { special } else { value }
}

/// One conversion; `format` is the 8-bit float format where one is named.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn convert(function: ConvertFn, d: &mut [u32], a: &[u32], format: i32) {
    match function {
        ConvertFn::VCvtF32S32 => map(d, a, |a| f(a) as i32 as u32),
        ConvertFn::VCvtF32U32 => map(d, a, |a| f(a) as u32),
        ConvertFn::VCvtS32F32 => map(d, a, |a| (a as i32 as f32).to_bits()),
        ConvertFn::VCvtU32F32 => map(d, a, |a| (a as f32).to_bits()),
        ConvertFn::VRndBf16 => map(d, a, |a| round_bf16(flush(a))),
        ConvertFn::VRndF16 => map(d, a, |a| from_f16(to_f16(a))),
        ConvertFn::VPackBf16 => map(d, a, |a| round_bf16(a) >> 16),
        ConvertFn::VPackF16 => map(d, a, to_f16),
        ConvertFn::VUnpackBf16 => map(d, a, |a| a << 16),
        ConvertFn::VUnpackF16 => map(d, a, |a| from_f16(a & 0xffff)),
        ConvertFn::VPackF8 => {
            let format = F8::ALL[format as usize];
            map(d, a, |a| format.from_f32(f32::from_bits(a)) as u32);
        }
        ConvertFn::VUnpackF8 => {
            let format = F8::ALL[format as usize];
            map(d, a, |a| format.to_f32(a as u8).to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_agrees_with_the_half_crate() {
        for h in 0..1u32 << 16 {
            let want = half::f16::from_bits(h as u16).to_f32();
            let got = f32::from_bits(from_f16(h));
            assert!(want == got || want.is_nan() && got.is_nan(), "{h:#x}");
        }
        for i in 0..1u32 << 18 {
            let x = i.wrapping_mul(0x9E37_79B1);
            let v = f32::from_bits(x);
            let (want, got) = (half::f16::from_f32(v), half::f16::from_bits(to_f16(x) as u16));
            assert!(want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan(), "{v:e} {want} {got}");
        }
        // Around the subnormal and overflow limits.
        for x in [0x3380_0000u32, 0x3300_0000, 0x3300_0001, 0x387f_ffff, 0x3880_0000, 0x477f_efff, 0x477f_f000] {
            assert_eq!(half::f16::from_f32(f32::from_bits(x)).to_bits() as u32, to_f16(x), "{x:#x}");
        }
    }

    #[test]
    fn bf16_keeps_subnormals_and_nans() {
        assert_eq!(round_bf16(0x0001_8000), 0x0002_0000);
        assert_eq!(round_bf16(0x7f80_0001), 0x7fc0_0000);
        assert_eq!(round_bf16(0x7fa0_0000), 0x7fa0_0000);
        assert_eq!(round_bf16(0x7f7f_ffff), 0x7f80_0000);
        assert_eq!(crate::unit::vector::bits(f32::from_bits(1)), 0);
    }
}
