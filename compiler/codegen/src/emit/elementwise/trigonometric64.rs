//! f64 circular functions, and the angles that inverse ones are made of ([`super::real`]).

use super::float64::{abs, neg, with_sign_of};
use super::reduction64;
use super::special64::to_s32;
use crate::kernel::{KernelBuilder, P, V};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};
use systole_isa::Op;

/// (-1)^i / (2 i + first)!, for i in 0..N
const fn alternating<const N: usize>(first: usize, factorial: f64, sign: f64) -> [f64; N] {
    let mut c = [0.0; N];
    let (mut i, mut f, mut s, mut k) = (0, factorial, sign, first);
    while i < N {
        c[i] = s / f;
        f *= ((k + 1) * (k + 2)) as f64;
        s = -s;
        k += 2;
        i += 1;
    }
    c
}

/// (r, q) with x = r + (4 n + q) pi/2 and |r| about pi/4 at most; q in s32 lanes, its low two bits matter.
fn reduce(b: &mut KernelBuilder, x: P) -> (P, V) {
    // With pi/2 to 160 bits, right for numbers below 2^40; r stays NaN for what is not finite.
    const HALF_PI: [f64; 3] = [FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_183_3e-33];
    let t = b.muld(x, FRAC_2_PI);
    let k = b.p1(Op::PRneD, t);
    let minus_k = neg(b, k);
    let mut r = x;
    for part in HALF_PI {
        r = b.fmad(minus_k, part, r);
    }
    let q = to_s32(b, k);
    // Larger ones by their magnitude.
    let (large_r, large_q) = reduction64::reduce(b, x);
    let hi = b.def_v(Op::PHi, &[x.into()]);
    let magnitude = b.and(hi, i32::MAX);
    let (above, below) = (b.test(Op::VLeS, reduction64::LEAST, magnitude), b.test(Op::VLtS, magnitude, 0x7ff0_0000));
    let large = b.m_and(above, below);
    let negative = b.test(Op::VLtS, hi, 0);
    let (minus_r, minus_q) = (neg(b, large_r), b.subi(0, large_q));
    let large_r = b.psel(negative, minus_r, large_r);
    let large_q = b.sel(negative, minus_q, large_q);
    (b.psel(large, large_r, r), b.sel(large, large_q, q))
}

/// Sine and cosine.
pub fn sin_cos(b: &mut KernelBuilder, x: P) -> (P, P) {
    let (r, quadrant) = reduce(b, x);
    // sin r = r + r^3 (-1/3! + r^2/5! - ..), cos r = 1 - r^2/2 + r^4 (1/4! - r^2/6! + ..)
    const SIN: [f64; 8] = alternating(3, 6.0, -1.0);
    const COS: [f64; 8] = alternating(4, 24.0, 1.0);
    let z = b.muld(r, r);
    let (p, q) = (b.polyd(z, &SIN), b.polyd(z, &COS));
    let cube = b.muld(z, r);
    let sin = b.fmad(cube, p, r);
    let zz = b.muld(z, z);
    let c = b.fmad(z, -0.5, 1.0);
    let cos = b.fmad(zz, q, c);
    let low = b.and(quadrant, 1);
    let swap = b.test(Op::VNeI, low, 0);
    let (s, c) = (b.psel(swap, cos, sin), b.psel(swap, sin, cos));
    let turned = |b: &mut KernelBuilder, value: P, ahead: i32| {
        let q = b.addi(quadrant, ahead);
        let q = b.and(q, 2);
        let flip = b.shl(q, 30);
        let (lo, hi) = b.unpair(value);
        let hi = b.xor(hi, flip);
        b.pair(lo, hi)
    };
    let s = turned(b, s, 0);
    // The reduction adds +0 to -0.
    let zero = b.ptest(Op::PEqD, x, 0.0);
    (b.psel(zero, x, s), turned(b, c, 1))
}

/// Sine over cosine.
pub fn tan(b: &mut KernelBuilder, x: P) -> P {
    let (s, c) = sin_cos(b, x);
    b.divd(s, c)
}

/// The arc tangent of q in 0..=1; above tan(pi/8) it is pi/4 more than that of (q - 1) / (q + 1).
pub(super) fn atan_core(b: &mut KernelBuilder, q: P) -> P {
    const C: [f64; 13] = [
        1.0,
        -0.3333333333333332419,
        0.1999999999999700913,
        -0.14285714285329155565,
        0.11111111085289107637,
        -0.090909080578725014973,
        0.076922810742296690313,
        -0.066662048855676765408,
        0.058768303763903790888,
        -0.052172894049047167846,
        0.044994070991730337916,
        -0.03338565506199253063,
        0.015111569757496401362,
    ];
    let big = b.ptest(Op::PLtD, 0.414_213_562_373, q);
    let (n, d) = (b.addd(q, -1.0), b.addd(q, 1.0));
    let folded = b.divd(n, d);
    let t = b.psel(big, folded, q);
    let z = b.muld(t, t);
    let p = b.polyd(z, &C);
    let r = b.muld(p, t);
    let up = b.addd(r, FRAC_PI_4);
    b.psel(big, up, r)
}

/// The angle of the point (x, y), all quadrants and signed zeros.
pub fn atan2(b: &mut KernelBuilder, y: P, x: P) -> P {
    let (ax, ay) = (abs(b, x), abs(b, y));
    let steep = b.ptest(Op::PLtD, ax, ay);
    let (high, low) = (b.psel(steep, ay, ax), b.psel(steep, ax, ay));
    let q = b.divd(low, high);
    let origin = b.ptest(Op::PEqD, high, 0.0);
    let zero = b.p_f64(0.0);
    let q = b.psel(origin, zero, q);
    let infinite = b.ptest(Op::PEqD, low, f64::INFINITY);
    let q = b.psel(infinite, 1.0, q);
    let p = atan_core(b, q);
    let c = b.subd(FRAC_PI_2, p);
    let p = b.psel(steep, c, p);
    let word = b.def_v(Op::PHi, &[x.into()]);
    let left = b.test(Op::VLtS, word, 0);
    let c = b.subd(PI, p);
    let p = b.psel(left, c, p);
    let r = with_sign_of(b, p, y);
    // Comparisons above let a NaN pass.
    let (nx, ny) = (b.ptest(Op::PEqD, x, x), b.ptest(Op::PEqD, y, y));
    let numbers = b.m_and(nx, ny);
    b.psel(numbers, r, f64::NAN)
}
