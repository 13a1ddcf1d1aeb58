//! Operand formats: what the array sees of a 32-bit lane, as an f32 that holds it exactly.

use multiversion::multiversion;
use systole_isa::MxuFormat;

fn flush(x: u32) -> u32 {
    if x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x }
}

fn finite(x: u32) -> bool {
    x & 0x7f80_0000 != 0x7f80_0000
}

/// Nearest bf16, even on ties; subnormals flush; NaN stays NaN.
fn bf16(x: u32) -> f32 {
    let x = flush(x);
    let rounded = x.wrapping_add(0x7fff + (x >> 16 & 1)) & 0xffff_0000;
    f32::from_bits(if finite(x) { rounded } else { x & 0xffff_0000 | ((x & 0xffff != 0) as u32) << 22 })
}

/// The leading 8 significant bits.
fn high(x: u32) -> f32 {
    let nan = !finite(x) && x & 0x007f_ffff != 0;
    f32::from_bits(flush(x) & 0xffff_0000 | (nan as u32) << 22)
}

/// What is left after `high`, then after the next 8 bits; zero for non-finite values. Pieces of small values are not flushed:
/// what one of 1e-36 loses would be a thousandth of its product with any other value.
fn rest(x: u32) -> (f32, f32) {
    let x = if finite(x) { flush(x) } else { 0 };
    let v = f32::from_bits(x);
    let after_high = v - f32::from_bits(x & 0xffff_0000);
    let mid = f32::from_bits(after_high.to_bits() & 0xffff_0000);
    (mid, after_high - mid)
}

/// Converts lanes to the values that the array multiplies.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn convert(format: MxuFormat, lanes: &[u32], out: &mut [f32]) {
    let pairs = out.iter_mut().zip(lanes);
    match format {
        MxuFormat::Bf16 | MxuFormat::F8 => pairs.for_each(|(o, &x)| *o = bf16(x)),
        MxuFormat::High => pairs.for_each(|(o, &x)| *o = high(x)),
        MxuFormat::Mid => pairs.for_each(|(o, &x)| *o = rest(x).0),
        MxuFormat::Low => pairs.for_each(|(o, &x)| *o = rest(x).1),
        MxuFormat::HighFinite => pairs.for_each(|(o, &x)| *o = if finite(x) { high(x) } else { 0.0 }),
        MxuFormat::S8 => pairs.for_each(|(o, &x)| *o = x as i8 as f32),
        MxuFormat::U8 => pairs.for_each(|(o, &x)| *o = x as u8 as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_sum_to_the_value() {
        for x in [1.0f32, -3.25e-3, 1e-30, 123_456.79, -7.7e37, f32::MIN_POSITIVE, 1.2345e-36, -7.654_321e-38] {
            let (mid, low) = rest(x.to_bits());
            let pieces = [high(x.to_bits()), mid, low];
            assert_eq!(pieces.iter().map(|&p| f64::from(p)).sum::<f64>(), f64::from(x), "{x}");
            // In bf16, but for the end of a significand whose next bits would be subnormal.
            for piece in pieces.iter().filter(|p| !p.is_subnormal()) {
                assert_eq!(piece.to_bits() & 0xffff, 0, "{x}");
            }
        }
        assert!(high(f32::INFINITY.to_bits()).is_infinite() && high(f32::NAN.to_bits()).is_nan());
        assert_eq!(rest(f32::INFINITY.to_bits()), (0.0, 0.0));
    }

    #[test]
    fn bf16_agrees_with_the_half_crate() {
        for i in 0..1 << 16 {
            let x = (i as u32).wrapping_mul(0x9E37_79B1);
            let v = f32::from_bits(x);
            let want = half::bf16::from_f32(v).to_f32();
            let got = bf16(x);
            if v.is_nan() {
                assert!(got.is_nan());
            } else if v.is_subnormal() {
                assert_eq!(got, 0.0);
            } else {
                assert_eq!(got.to_bits(), want.to_bits(), "{v:e}");
            }
        }
    }
}
