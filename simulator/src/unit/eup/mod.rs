//! The transcendental unit's functions: f32 in, f32 out, subnormals flushed on both sides.
//!
//! Polynomials and reductions run in f64 without fused operations and round once to f32, so results are within one
//! unit in the last place and the same on every host.

mod trig;

use crate::unit::vector::{bits, f};
use multiversion::multiversion;
use systole_isa::opcodes::TranscendentalFn;

const LOG2_E: f64 = std::f64::consts::LOG2_E;
const LN_2: f64 = std::f64::consts::LN_2;
/// Adding it rounds an f64 below 2^51 to an integer, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
fn map(d: &mut [u32], a: &[u32], g: impl Fn(f32) -> f32) {
    d.iter_mut().zip(a).for_each(|(d, &a)| *d = bits(g(f(a))));
}

/// `2^n` for `x = n ln 2 + r` and `e^r - 1`, for |x| < 700.
#[inline(always)]
fn reduce_exp(x: f64) -> (f64, f64) {
    let t = x * LOG2_E + ROUND;
    let n = t - ROUND;
    let r = x - n * LN_2;
    let scale = f64::from_bits((t.to_bits() << 52).wrapping_add(1023 << 52));
    let p = 1.0 / 40320.0;
    let p = p * r + 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    (scale, p * r * r + r)
}

#[inline(always)]
fn exp(x: f32) -> f32 {
    let (scale, m) = reduce_exp((x as f64).clamp(-110.0, 100.0));
    let y = (scale + scale * m) as f32;
    if x.is_nan() { x } else { y }
}

#[inline(always)]
fn log(x: f32) -> f32 {
    let b = x.to_bits();
    // x = 2^e m with m in [2/3, 4/3).
    let e = (b.wrapping_sub(0x3f2a_aaab) as i32) >> 23;
    let m = f32::from_bits(b.wrapping_sub((e << 23) as u32)) as f64;
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let p = 1.0 / 15.0;
    let p = p * z + 1.0 / 13.0;
    let p = p * z + 1.0 / 11.0;
    let p = p * z + 1.0 / 9.0;
    let p = p * z + 1.0 / 7.0;
    let p = p * z + 0.2;
    let p = p * z + 1.0 / 3.0;
    let y = (e as f64 * LN_2 + (2.0 * s * z * p + 2.0 * s)) as f32;
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 { f32::NAN } else { y }
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    let a = (x.abs() as f64).min(20.0);
    let (scale, m) = reduce_exp(2.0 * a);
    // e^2a - 1, accurate for small a too.
    let em1 = scale * m + (scale - 1.0);
    let y = ((em1 / (em1 + 2.0)) as f32).copysign(x);
    if x.is_nan() { x } else { y }
}

#[inline(always)]
fn rsqrt(x: f32) -> f32 {
    // The sign of zero carries over to the infinity.
    let y = (1.0 / (x as f64).sqrt()) as f32;
    if x == 0.0 { f32::INFINITY.copysign(x) } else { y }
}

/// One function over a register.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn execute(function: TranscendentalFn, d: &mut [u32], a: &[u32]) {
    match function {
        TranscendentalFn::EExp => map(d, a, exp),
        TranscendentalFn::ELog => map(d, a, log),
        TranscendentalFn::ETanh => map(d, a, tanh),
        TranscendentalFn::ERcp => map(d, a, |x| 1.0 / x),
        TranscendentalFn::ERsqrt => map(d, a, rsqrt),
        TranscendentalFn::ESqrt => map(d, a, f32::sqrt),
        TranscendentalFn::ESin => {
            map(d, a, |x| trig::reduced(x, false));
            trig::fix_large(d, a, false);
        }
        TranscendentalFn::ECos => {
            map(d, a, |x| trig::reduced(x, true));
            trig::fix_large(d, a, true);
        }
    }
}

#[cfg(test)]
mod tests;
