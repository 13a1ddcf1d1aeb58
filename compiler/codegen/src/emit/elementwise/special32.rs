//! Expansions of f32 functions that the transcendental unit does not have, to a few units in the last place.
//!
//! Polynomials are minimax fits (weighted for relative error) of the functions named beside them.

use super::float32::{ABS, INF, SIGN};
use super::real;
use crate::emit::Value;
use crate::kernel::{KernelBuilder, V};
use std::f32::consts::{FRAC_PI_2, PI};
use systole_isa::{DType, Op};

/// The magnitude `a` with the sign of `s`.
fn with_sign_of(b: &mut KernelBuilder, a: V, s: V) -> V {
    let s = b.and(s, SIGN);
    b.or(a, s)
}

/// 1 / (1 + e^-x).
pub fn logistic(b: &mut KernelBuilder, x: V) -> V {
    let n = b.xor(x, SIGN);
    let e = b.v1(Op::EExp, n);
    let d = b.add(e, 1.0);
    b.v1(Op::ERcp, d)
}

/// e^x - 1 = tanh(x/2) (e^x + 1), which loses nothing near 0; nearer than rounding tells it is x, subnormal or not.
pub fn expm1(b: &mut KernelBuilder, x: V) -> V {
    let h = b.mul(x, 0.5);
    let t = b.v1(Op::ETanh, h);
    let e = b.v1(Op::EExp, x);
    let r = b.fma(t, e, t);
    let a = b.and(x, ABS);
    let tiny = b.test(Op::VLtF, a, 1e-8);
    b.sel(tiny, x, r)
}

/// log(1 + x): log(u) x / (u - 1) with u = 1 + x rounded, x itself where u is 1.
pub fn log1p(b: &mut KernelBuilder, x: V) -> V {
    let u = b.add(x, 1.0);
    let d = b.sub(u, 1.0);
    let r = b.v1(Op::ERcp, d);
    let q = b.mul(x, r);
    let moderate = b.test(Op::VLtF, x, 1e8);
    let q = b.sel(moderate, q, 1.0);
    let l = b.v1(Op::ELog, u);
    let p = b.mul(l, q);
    let tiny = b.test(Op::VEqF, u, 1.0);
    b.sel(tiny, x, p)
}

/// The error function as tanh(x P(x^2)); P fits atanh(erf(x)) / x, and grows without bound beyond the fit.
pub fn erf(b: &mut KernelBuilder, x: V) -> V {
    const P: [f32; 7] = [
        1.128379274,
        0.1027690568,
        -0.0001918329313,
        -0.0006197829642,
        8.763673732e-05,
        -5.668386088e-06,
        1.418474465e-07,
    ];
    let z = b.mul(x, x);
    let p = b.poly(z, &P);
    let g = b.mul(x, p);
    b.v1(Op::ETanh, g)
}

/// The inverse error function: polynomials in w = -log(1 - x^2), and in sqrt(w) for w >= 5.
pub fn erf_inv(b: &mut KernelBuilder, x: V) -> V {
    const NEAR: [f32; 9] = [
        1.501409422,
        0.2466407261,
        -0.004177707757,
        -0.001253707504,
        0.0002186022048,
        -4.39678483e-06,
        -3.528862503e-06,
        3.437273884e-07,
        2.853503614e-08,
    ];
    const FAR: [f32; 10] = [
        2.832976816,
        1.001674823,
        0.009444386239,
        -0.007635036981,
        0.005694516498,
        -0.003607934002,
        0.001465682669,
        -3.620811495e-05,
        -0.000294174693,
        0.0001009872535,
    ];
    let (low, high) = (b.sub(1.0, x), b.add(x, 1.0));
    let product = b.mul(low, high);
    let l = b.v1(Op::ELog, product);
    let w = b.xor(l, SIGN);
    let s = b.v1(Op::ESqrt, w);
    let (tn, tf) = (b.sub(w, 2.5), b.sub(s, 3.0));
    let (pn, pf) = (b.poly(tn, &NEAR), b.poly(tf, &FAR));
    let near = b.test(Op::VLtF, w, 5.0);
    let p = b.sel(near, pn, pf);
    b.mul(p, x)
}

/// The cube root: e^(log|x| / 3) and a Newton step.
pub fn cbrt(b: &mut KernelBuilder, x: V) -> V {
    let a = b.and(x, ABS);
    let l = b.v1(Op::ELog, a);
    let third = b.mul(l, 1.0 / 3.0);
    let y = b.v1(Op::EExp, third);
    let yy = b.mul(y, y);
    let q = b.div(a, yy);
    let d = b.sub(q, y);
    let r = b.fma(d, 1.0 / 3.0, y);
    let r = with_sign_of(b, r, x);
    // Zeros, infinities and NaN are their own roots.
    let (zero, finite) = (b.test(Op::VEqF, y, 0.0), b.test(Op::VLtF, a, f32::INFINITY));
    let r = b.sel(finite, r, x);
    b.sel(zero, x, r)
}

/// Sine over cosine.
pub fn tan(b: &mut KernelBuilder, x: V) -> V {
    let (s, c) = (b.v1(Op::ESin, x), b.v1(Op::ECos, x));
    b.div(s, c)
}

/// (e^a + e^-a) / 2 from h = e^(a/2), which does not overflow before the result does.
pub fn cosh(b: &mut KernelBuilder, x: V) -> V {
    let a = b.and(x, ABS);
    let half = b.mul(a, 0.5);
    let h = b.v1(Op::EExp, half);
    let g = b.mul(h, 0.5);
    let t = b.mul(g, h);
    let r = b.v1(Op::ERcp, t);
    b.fma(r, 0.25, t)
}

/// tanh(x) cosh(x).
pub fn sinh(b: &mut KernelBuilder, x: V) -> V {
    let t = b.v1(Op::ETanh, x);
    let c = cosh(b, x);
    b.mul(t, c)
}

/// The arc tangent of q in -1..1.
pub(super) fn atan_core(b: &mut KernelBuilder, q: V) -> V {
    const P: [f32; 9] = [
        0.9999999848,
        -0.3333307343,
        0.1999262061,
        -0.1420365217,
        0.1064095977,
        -0.07504343301,
        0.0426920451,
        -0.01606892976,
        0.002849960461,
    ];
    let z = b.mul(q, q);
    let p = b.poly(z, &P);
    b.mul(p, q)
}

/// The angle of the point (x, y), all quadrants and signed zeros.
pub fn atan2(b: &mut KernelBuilder, y: V, x: V) -> V {
    let (ax, ay) = (b.and(x, ABS), b.and(y, ABS));
    let (high, low) = (b.v2(Op::VMaxF, ax, ay), b.v2(Op::VMinF, ax, ay));
    let q = b.div(low, high);
    let origin = b.test(Op::VEqF, high, 0.0);
    let q = b.sel(origin, 0.0, q);
    let infinite = b.test(Op::VEqF, low, f32::INFINITY);
    let q = b.sel(infinite, 1.0, q);
    let p = atan_core(b, q);
    let c = b.sub(FRAC_PI_2, p);
    let steep = b.test(Op::VLtF, ax, ay);
    let p = b.sel(steep, c, p);
    let left = b.test(Op::VLtS, x, 0);
    let c = b.sub(PI, p);
    let p = b.sel(left, c, p);
    with_sign_of(b, p, y)
}

/// The logarithm of a positive finite number with bits `i`, as a sum of two f32: (high, low).
fn log_double(b: &mut KernelBuilder, i: V) -> (V, V) {
    // 2 atanh(s) = 2 s + s^3 P(s^2)
    const P: [f32; 4] = [0.6666666657, 0.4000011835, 0.2855102798, 0.2332700395];
    let k = b.subi(i, 0x3f35_04f3);
    let k = b.sar(k, 23);
    let e = b.shl(k, 23);
    let m = b.subi(i, e);
    // m in sqrt(1/2)..sqrt(2); s = (m - 1) / (m + 1) with its rounding error
    let (n, d) = (b.sub(m, 1.0), b.add(m, 1.0));
    let d1 = b.sub(d, 1.0);
    let d_low = b.sub(m, d1);
    let rcp = b.v1(Op::ERcp, d);
    let s = b.mul(n, rcp);
    let minus_s = b.xor(s, SIGN);
    let r = b.fma(minus_s, d, n);
    let r = b.fma(minus_s, d_low, r);
    let s_low = b.mul(r, rcp);
    let z = b.mul(s, s);
    let p = b.poly(z, &P);
    let cube = b.mul(z, s);
    let p = b.mul(cube, p);
    let low = b.fma(s_low, 2.0, p);
    let twice = b.add(s, s);
    // plus k log 2
    let kf = b.v1(Op::VCvtS32F32, k);
    let [k, twice, low] = [kf, twice, low].map(|v| Value::word(DType::F32, v));
    let (high, low) = real::log_of_product(b, k, twice, low);
    (high.v(), low.v())
}

/// x to the y with C's special cases.
pub fn pow(b: &mut KernelBuilder, x: V, y: V) -> V {
    let i = b.and(x, ABS);
    let (h, l) = log_double(b, i);
    let zero = b.test(Op::VEqF, x, 0.0);
    let h = b.sel(zero, f32::NEG_INFINITY, h);
    let special = b.test(Op::VLeS, INF, i);
    let h = b.sel(special, i, h);
    // e^(y (h + l)) with the product's rounding error
    let p = b.mul(y, h);
    let minus_p = b.xor(p, SIGN);
    let error = b.fma(y, h, minus_p);
    let error = b.fma(y, l, error);
    let pa = b.and(p, ABS);
    let moderate = b.test(Op::VLtF, pa, 150.0);
    let error = b.sel(moderate, error, 0.0);
    // By the square of its root, which is neither infinite nor subnormal before the power is.
    let half = b.mul(p, 0.5);
    let root = b.v1(Op::EExp, half);
    let more = b.fma(root, error, root);
    let finite = b.test(Op::VLtF, root, f32::INFINITY);
    let more = b.sel(finite, more, root);
    let far = b.mul(more, root);
    let e = b.v1(Op::EExp, p);
    let near = b.fma(e, error, e);
    let middle = b.test(Op::VLtF, pa, 80.0);
    let r = b.sel(middle, near, far);
    let [xv, yv, rv] = [x, y, r].map(|v| Value::word(DType::F32, v));
    let r = real::pow_special_cases(b, xv, yv, rv).v();
    let itself = b.test(Op::VEqF, y, 1.0);
    b.sel(itself, x, r)
}
