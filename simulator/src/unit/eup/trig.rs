//! Sine and cosine: reduction by two-part multiples of pi/2 below 2^17, and the exact slow path above.

use super::ROUND;
use crate::unit::vector::{bits, f};

/// Arguments from here on take the slow path.
const LARGE: f32 = 131_072.0;

/// pi/2 in 33 bits, and the rest.
const PIO2_1: f64 = f64::from_bits(0x3FF9_21FB_5440_0000);
const PIO2_2: f64 = f64::from_bits(0x3DD0_B461_1A62_6331);

/// Sine or cosine of |x| < [`LARGE`]; anything for larger values.
#[inline(always)]
pub(super) fn reduced(x: f32, cosine: bool) -> f32 {
    let wide = x as f64;
    let t = wide * std::f64::consts::FRAC_2_PI + ROUND;
    let n = t - ROUND;
    let quadrant = (t.to_bits() as u32).wrapping_add(cosine as u32);
    let r = (wide - n * PIO2_1) - n * PIO2_2;
    let z = r * r;
    let s = -1.0 / 39_916_800.0;
    let s = s * z + 1.0 / 362_880.0;
    let s = s * z - 1.0 / 5040.0;
    let s = s * z + 1.0 / 120.0;
    let s = s * z - 1.0 / 6.0;
    let sin = s * z * r + r;
    let c = 1.0 / 479_001_600.0;
    let c = c * z - 1.0 / 3_628_800.0;
    let c = c * z + 1.0 / 40_320.0;
    let c = c * z - 1.0 / 720.0;
    let c = c * z + 1.0 / 24.0;
    let c = c * z - 0.5;
    let cos = c * z + 1.0;
    let y = (if quadrant & 1 == 0 { sin } else { cos }) as f32;
    let y = f32::from_bits(y.to_bits() ^ (quadrant & 2) << 30);
    // The reduction loses the sign of zero.
    if !cosine && x == 0.0 { x } else { y }
}

/// Replaces the results of large and non-finite arguments.
pub(super) fn fix_large(d: &mut [u32], a: &[u32], cosine: bool) {
    if a.iter().all(|&x| f32::from_bits(x).abs() < LARGE) {
        return;
    }
    for (d, &x) in d.iter_mut().zip(a) {
        let x = f(x);
        if x.abs() < LARGE {
            continue;
        }
        let y = if cosine { libm::cos(x as f64) } else { libm::sin(x as f64) };
        *d = bits(if x.is_finite() { y as f32 } else { f32::NAN });
    }
}
