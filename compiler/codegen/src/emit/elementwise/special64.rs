//! Expansions of the f64 functions (the chip has f64 arithmetic and square roots only), to a few units in the last
//! place.
//!
//! Here are the exponential and logarithmic functions and the error functions; [`super::trigonometric64`] has the
//! circular ones and their inverses. Polynomials are Taylor series where their remainder is below rounding, else
//! Chebyshev fits of the functions named beside them.

use super::float64::{abs, neg, pair, value, with_sign_of};
use super::real;
use crate::kernel::{KernelBuilder, P, V};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E};
use systole_isa::Op;

/// What log 2 has below the f64 number `LN_2`.
const LN_2_LOW: f64 = 2.319_046_813_846_299_6e-17;

/// The reciprocal of the square root.
pub fn rsqrt(b: &mut KernelBuilder, x: P) -> P {
    let s = b.p1(Op::PSqrtD, x);
    b.divd(1.0, s)
}

/// x limited to low..=high; NaN stays.
fn limit(b: &mut KernelBuilder, x: P, low: f64, high: f64) -> P {
    let under = b.ptest(Op::PLtD, x, low);
    let x = b.psel(under, low, x);
    let over = b.ptest(Op::PLtD, high, x);
    b.psel(over, high, x)
}

/// The number a whole f64 holds, as s32 lanes.
pub(super) fn to_s32(b: &mut KernelBuilder, x: P) -> V {
    let i = b.p1(Op::PCvtToS64, x);
    b.def_v(Op::PLo, &[i.into()])
}

/// 2^k for s32 lanes k in -1022..=1023.
fn power_of_two(b: &mut KernelBuilder, k: V) -> P {
    let e = b.addi(k, 1023);
    let hi = b.shl(e, 20);
    let lo = b.v_imm(0);
    b.pair(lo, hi)
}

/// (k, e^r - 1) with x = k log 2 + r.
fn exp_reduced(b: &mut KernelBuilder, x: P) -> (P, P) {
    // 1/2! + r/3! + .. + r^11/13!
    const C: [f64; 12] = {
        let mut c = [0.5; 12];
        let mut i = 1;
        while i < 12 {
            c[i] = c[i - 1] / (i + 2) as f64;
            i += 1;
        }
        c
    };
    let t = b.muld(x, LOG2_E);
    let k = b.p1(Op::PRneD, t);
    let r = b.fmad(k, -LN_2, x);
    let r = b.fmad(k, -LN_2_LOW, r);
    let p = b.polyd(r, &C);
    let rr = b.muld(r, r);
    (k, b.fmad(rr, p, r))
}

/// e^x.
pub fn exp(b: &mut KernelBuilder, x: P) -> P {
    let x = limit(b, x, -746.0, 710.0);
    let (k, q) = exp_reduced(b, x);
    let p = b.addd(q, 1.0);
    // The power of two in halves: 2^k itself may be out of range.
    let k = to_s32(b, k);
    let first = b.sar(k, 1);
    let second = b.subi(k, first);
    let (s, t) = (power_of_two(b, first), power_of_two(b, second));
    let p = b.muld(p, s);
    b.muld(p, t)
}

/// e^x - 1 = 2 (s q + (s - 1/2)) with s = 2^(k-1), q = e^r - 1.
pub fn expm1(b: &mut KernelBuilder, x: P) -> P {
    let l = limit(b, x, -40.0, 710.0);
    let (k, q) = exp_reduced(b, l);
    let k = to_s32(b, k);
    let k = b.subi(k, 1);
    let s = power_of_two(b, k);
    let c = b.addd(s, -0.5);
    let h = b.fmad(s, q, c);
    let r = b.addd(h, h);
    let zero = b.ptest(Op::PEqD, x, 0.0);
    b.psel(zero, x, r)
}

/// 2 atanh(s) = 2 s + s^3 P(s^2) for |s| below 0.172: P.
const ATANH: [f64; 10] = {
    let mut c = [0.0; 10];
    let mut i = 0;
    while i < 10 {
        c[i] = 2.0 / (2 * i + 3) as f64;
        i += 1;
    }
    c
};

/// (k, m) with x = 2^k m, m in sqrt(1/2)..sqrt(2), of a positive normal number.
fn split(b: &mut KernelBuilder, x: P) -> (P, P) {
    let (lo, hi) = b.unpair(x);
    let k = b.subi(hi, 0x3fe6_a09e);
    let k = b.sar(k, 20);
    let e = b.shl(k, 20);
    let hi = b.subi(hi, e);
    let m = b.pair(lo, hi);
    let sign = b.sar(k, 31);
    let k = b.pair(k, sign);
    (b.p1(Op::PCvtS64, k), m)
}

/// The natural logarithm.
pub fn log(b: &mut KernelBuilder, x: P) -> P {
    let (k, m) = split(b, x);
    let (n, d) = (b.addd(m, -1.0), b.addd(m, 1.0));
    let s = b.divd(n, d);
    let z = b.muld(s, s);
    let p = b.polyd(z, &ATANH);
    let cube = b.muld(z, s);
    let low = b.muld(k, LN_2_LOW);
    let low = b.fmad(cube, p, low);
    let low = b.fmad(s, 2.0, low);
    let r = b.fmad(k, LN_2, low);
    let zero = b.ptest(Op::PEqD, x, 0.0);
    let r = b.psel(zero, f64::NEG_INFINITY, r);
    let negative = b.ptest(Op::PLtD, x, 0.0);
    let r = b.psel(negative, f64::NAN, r);
    // Infinity and NaN are their own logarithms.
    let finite = b.ptest(Op::PLtD, x, f64::INFINITY);
    b.psel(finite, r, x)
}

/// log(1 + x): log(u) x / (u - 1) with u = 1 + x rounded, x itself where u is 1.
pub fn log1p(b: &mut KernelBuilder, x: P) -> P {
    let u = b.addd(x, 1.0);
    let d = b.addd(u, -1.0);
    let q = b.divd(x, d);
    let moderate = b.ptest(Op::PLtD, x, 1e17);
    let q = b.psel(moderate, q, 1.0);
    let l = log(b, u);
    let r = b.muld(l, q);
    let tiny = b.ptest(Op::PEqD, u, 1.0);
    b.psel(tiny, x, r)
}

/// 1 / (1 + e^-x).
pub fn logistic(b: &mut KernelBuilder, x: P) -> P {
    let n = neg(b, x);
    let e = exp(b, n);
    let d = b.addd(e, 1.0);
    b.divd(1.0, d)
}

/// u / (u + 2) with u = e^(2a) - 1 of the magnitude.
pub fn tanh(b: &mut KernelBuilder, x: P) -> P {
    let a = abs(b, x);
    let twice = b.addd(a, a);
    let twice = limit(b, twice, 0.0, 44.0);
    let u = expm1(b, twice);
    let d = b.addd(u, 2.0);
    let r = b.divd(u, d);
    with_sign_of(b, r, x)
}

/// 2 sinh(a/2) cosh(a/2), both from v = e^(a/2) - 1: nothing overflows before the result.
pub fn sinh(b: &mut KernelBuilder, x: P) -> P {
    let a = abs(b, x);
    let a = limit(b, a, 0.0, 1400.0);
    let half = b.muld(a, 0.5);
    let v = expm1(b, half);
    let w = b.addd(v, 1.0);
    let rcp = b.divd(1.0, w);
    let s = b.fmad(v, rcp, v);
    let s = b.muld(s, 0.5);
    let c = b.addd(w, rcp);
    let r = b.muld(s, c);
    with_sign_of(b, r, x)
}

/// (e^a + e^-a) / 2 from e^(a/2).
pub fn cosh(b: &mut KernelBuilder, x: P) -> P {
    let a = abs(b, x);
    let half = b.muld(a, 0.5);
    let h = exp(b, half);
    let g = b.muld(h, 0.5);
    let t = b.muld(g, h);
    let r = b.divd(0.25, t);
    b.addd(t, r)
}

/// The cube root: a third of the exponent bits, and four Newton steps.
pub fn cbrt(b: &mut KernelBuilder, x: P) -> P {
    let a = abs(b, x);
    let (lo, hi) = b.unpair(a);
    let third = b.v2(Op::VMulHiU, hi, 0x5555_5556);
    let hi = b.addi(third, 0x2a9f_7893);
    let mut y = b.pair(lo, hi);
    for _ in 0..4 {
        let yy = b.muld(y, y);
        let q = b.divd(a, yy);
        let d = b.subd(q, y);
        y = b.fmad(d, 1.0 / 3.0, y);
    }
    let r = with_sign_of(b, y, x);
    let (zero, finite) = (b.ptest(Op::PEqD, a, 0.0), b.ptest(Op::PLtD, a, f64::INFINITY));
    let own = b.m_not(finite);
    let own = b.m_or(own, zero);
    b.psel(own, x, r)
}

/// erf(x) / x below 1 as a polynomial in x^2.
fn erf_ratio(b: &mut KernelBuilder, a: P) -> P {
    #[expect(clippy::approx_constant, reason = "the first coefficient is near 2/sqrt(pi), not it")]
    const C: [f64; 14] = [
        1.1283791670955125739,
        -0.37612638903183752379,
        0.11283791670955120236,
        -0.026866170645129840806,
        0.0052239776254232983087,
        -0.00085483270219348295955,
        0.0001205533290288873541,
        -0.000014925647567519332125,
        1.6462045441468418937e-6,
        -1.6364642158167615302e-7,
        1.4792401209404813002e-8,
        -1.2164560057283450081e-9,
        8.7090451290531066896e-11,
        -4.2309458242953378173e-12,
    ];
    let z = b.muld(a, a);
    b.polyd(z, &C)
}

/// e^(a^2) erfc(a) for a in 1..6.5 as a polynomial in 1 / (a + 2).
fn erfc_scaled(b: &mut KernelBuilder, a: P) -> P {
    const C: [f64; 18] = [
        -1.8098934002886840032e-8,
        0.56419124938964439549,
        1.1283073748096621685,
        1.9765875724270295531,
        2.7850401178237762024,
        3.1749673342948594625,
        -5.5000016223053543625,
        35.628285123583028238,
        -291.51594519962951049,
        1419.5171102127998861,
        -5661.3083919600632942,
        17872.124340590742401,
        -41601.05719163775626,
        69278.9284331613867,
        -80641.066790178127982,
        62692.375232522959298,
        -29392.149785484501087,
        6306.8983184675328494,
    ];
    let d = b.addd(a, 2.0);
    let t = b.divd(1.0, d);
    b.polyd(t, &C)
}

/// The error function.
pub fn erf(b: &mut KernelBuilder, x: P) -> P {
    let a = abs(b, x);
    let a = limit(b, a, 0.0, 6.2);
    let ratio = erf_ratio(b, a);
    let near = b.muld(a, ratio);
    let f = erfc_scaled(b, a);
    let minus = neg(b, a);
    let square = b.muld(minus, a);
    let e = exp(b, square);
    let minus = neg(b, f);
    let far = b.fmad(minus, e, 1.0);
    let small = b.ptest(Op::PLtD, a, 1.0);
    let r = b.psel(small, near, far);
    with_sign_of(b, r, x)
}

/// The inverse error function: a first guess good to 1e-5, then one step of Halley's method.
pub fn erf_inv(b: &mut KernelBuilder, x: P) -> P {
    // erf_inv(x) / x in w = -log(1 - x^2), and in sqrt(w) for w >= 5.
    const NEAR: [f64; 7] =
        [1.5014101, 0.2466496, -0.0041789443, -0.0012652591, 0.00021848124, -6.624779e-07, -3.307998e-06];
    const FAR: [f64; 9] = [
        3.839781,
        1.0095118,
        0.0012984727,
        -0.00094339492,
        0.00024758776,
        -2.7428626e-05,
        9.4668e-05,
        -7.887149e-05,
        1.7218032e-05,
    ];
    let a = abs(b, x);
    let (low, high) = (b.subd(1.0, a), b.addd(a, 1.0));
    let product = b.muld(low, high);
    let l = log(b, product);
    let w = neg(b, l);
    let s = b.p1(Op::PSqrtD, w);
    let (tn, tf) = (b.addd(w, -2.5), b.addd(s, -4.0));
    let (pn, pf) = (b.polyd(tn, &NEAR), b.polyd(tf, &FAR));
    let near = b.ptest(Op::PLtD, w, 5.0);
    let p = b.psel(near, pn, pf);
    let y = b.muld(p, a);
    // f = (erf(y) - a) / erf'(y), from erfc where a is near 1; the step is y - f / (1 + y f).
    let square = b.muld(y, y);
    let e = exp(b, square);
    let e = b.muld(e, 1.0 / FRAC_2_SQRT_PI);
    let ratio = erf_ratio(b, y);
    let minus = neg(b, a);
    let f_near = b.fmad(y, ratio, minus);
    let f_near = b.muld(f_near, e);
    let c = erfc_scaled(b, y);
    let c = b.muld(c, -1.0 / FRAC_2_SQRT_PI);
    let f_far = b.fmad(low, e, c);
    let small = b.ptest(Op::PLtD, y, 1.0);
    let f = b.psel(small, f_near, f_far);
    let d = b.fmad(y, f, 1.0);
    let step = b.divd(f, d);
    let r = b.subd(y, step);
    let one = b.ptest(Op::PEqD, a, 1.0);
    let r = b.psel(one, f64::INFINITY, r);
    with_sign_of(b, r, x)
}

/// The logarithm of a positive normal number as a sum of two f64: (high, low).
fn log_double(b: &mut KernelBuilder, x: P) -> (P, P) {
    let (k, m) = split(b, x);
    let (n, d) = (b.addd(m, -1.0), b.addd(m, 1.0));
    let d1 = b.addd(d, -1.0);
    let d_low = b.subd(m, d1);
    let s = b.divd(n, d);
    let minus_s = neg(b, s);
    let r = b.fmad(minus_s, d, n);
    let r = b.fmad(minus_s, d_low, r);
    let s_low = b.divd(r, d);
    let z = b.muld(s, s);
    let p = b.polyd(z, &ATANH);
    let cube = b.muld(z, s);
    let p = b.muld(cube, p);
    let low = b.fmad(s_low, 2.0, p);
    let twice = b.addd(s, s);
    let [k, twice, low] = [k, twice, low].map(|p| value(b, p));
    let (high, low) = real::log_of_product(b, k, twice, low);
    (pair(b, &high), pair(b, &low))
}

/// x to the y with C's special cases.
pub fn pow(b: &mut KernelBuilder, x: P, y: P) -> P {
    let a = abs(b, x);
    let (h, l) = log_double(b, a);
    let zero = b.ptest(Op::PEqD, x, 0.0);
    let h = b.psel(zero, f64::NEG_INFINITY, h);
    let finite = b.ptest(Op::PLtD, a, f64::INFINITY);
    let h = b.psel(finite, h, a);
    // e^(y (h + l)) with the product's rounding error
    let p = b.muld(y, h);
    let minus_p = neg(b, p);
    let error = b.fmad(y, h, minus_p);
    let error = b.fmad(y, l, error);
    let pa = abs(b, p);
    let moderate = b.ptest(Op::PLtD, pa, 1000.0);
    let error = b.psel(moderate, error, 0.0);
    let e = exp(b, p);
    let r = b.fmad(e, error, e);
    let in_range = b.ptest(Op::PLtD, e, f64::INFINITY);
    let r = b.psel(in_range, r, e);
    let [x, y, r] = [x, y, r].map(|p| value(b, p));
    let r = real::pow_special_cases(b, x, y, r);
    pair(b, &r)
}
