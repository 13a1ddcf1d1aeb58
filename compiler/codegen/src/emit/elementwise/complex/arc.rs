//! Inverse sine and cosine of complex numbers by the method of Hull, Fairgrieve and Tang: with the distances r and s
//! from -1 and 1, a = (r + s) / 2 and b = |re| / a, both parts follow without cancellation.

use super::super::real::{acosh_less_log1p, add, bin, div, lit, mul, pick, sub, test, un};
use super::{Z, magnitude};
use crate::emit::Value;
use crate::kernel::KernelBuilder;
use systole_hlo::graph::{Binary, Direction, Unary};
use systole_isa::DType;

/// Up to here b's own arc functions are accurate.
const B_DIRECT: f64 = 0.6417;
/// Up to here a - 1 is computed by itself.
const A_NEAR: f64 = 1.5;
/// From here on log(a + sqrt(a^2 - 1)) is log 2a.
const A_FAR: f64 = 1e8;

/// For |re| and |im|: the arc sine's real part, the arc cosine's, and the magnitude of their imaginary part.
struct Arcs {
    sine: Value,
    cosine: Value,
    height: Value,
}

/// The value with the sign of `from`.
fn signed(b: &mut KernelBuilder, value: Value, from: Value) -> Value {
    let zero = lit(b, 0.0, from);
    let unit = lit(b, 1.0, from);
    // Also of a negative zero: 1 / -0 is negative.
    let is_zero = test(b, Direction::Eq, from, zero);
    let inverse = div(b, unit, from);
    let probe = pick(b, is_zero, inverse, from);
    let negative = test(b, Direction::Lt, probe, zero);
    let n = un(b, Unary::Neg, value);
    pick(b, negative, n, value)
}

fn arcs(b: &mut KernelBuilder, x: Value, y: Value) -> Arcs {
    let (unit, half) = (lit(b, 1.0, x), lit(b, 0.5, x));
    let (xp, xm, mx) = (add(b, x, unit), sub(b, x, unit), sub(b, unit, x));
    let (r, s) = (magnitude(b, Z { re: xp, im: y }), magnitude(b, Z { re: xm, im: y }));
    let rs = add(b, r, s);
    let a = mul(b, rs, half);
    let ratio = div(b, x, a);
    let inside = test(b, Direction::Le, x, unit);
    let yy = mul(b, y, y);
    let (rx, sx, sm) = (add(b, r, xp), add(b, s, xm), add(b, s, mx));
    let near_r = div(b, yy, rx);
    let root = {
        let ax = add(b, a, x);
        let haf = mul(b, ax, half);
        let t = add(b, near_r, sm);
        let low = mul(b, haf, t);
        let low = un(b, Unary::Sqrt, low);
        let (p, q) = (div(b, haf, rx), div(b, haf, sx));
        let t = add(b, p, q);
        let t = un(b, Unary::Sqrt, t);
        let high = mul(b, y, t);
        pick(b, inside, low, high)
    };
    let (tangent, cotangent) = (div(b, x, root), div(b, root, x));
    let (at, ac) = (un(b, Unary::Atan, tangent), un(b, Unary::Atan, cotangent));
    let limit = lit(b, B_DIRECT, x);
    let direct = test(b, Direction::Le, ratio, limit);
    // Outside of the direct range its argument could be above 1.
    let zero = lit(b, 0.0, x);
    let safe = pick(b, direct, ratio, zero);
    let (ds, dc) = (un(b, Unary::Asin, safe), un(b, Unary::Acos, safe));
    let (sine, cosine) = (pick(b, direct, ds, at), pick(b, direct, dc, ac));
    let height = height(b, x, y, [a, near_r, sx, sm]);
    infinite(b, x, y, Arcs { sine, cosine, height })
}

/// The magnitude of the imaginary part, from a, y^2 / (r + x + 1), s + (x - 1) and s + (1 - x).
fn height(b: &mut KernelBuilder, x: Value, y: Value, [a, near_r, sx, sm]: [Value; 4]) -> Value {
    let (unit, half) = (lit(b, 1.0, x), lit(b, 0.5, x));
    let below = test(b, Direction::Lt, x, unit);
    let yy = mul(b, y, y);
    let near_s = div(b, yy, sm);
    let second = pick(b, below, near_s, sx);
    let sum = add(b, near_r, second);
    let am1 = mul(b, sum, half);
    let ap1 = add(b, a, unit);
    let t = acosh_less_log1p(b, am1, ap1);
    let near = un(b, Unary::Log1p, t);
    let aa = mul(b, a, a);
    let t = sub(b, aa, unit);
    let t = un(b, Unary::Sqrt, t);
    let t = add(b, a, t);
    let middle = un(b, Unary::Log, t);
    let log = un(b, Unary::Log, a);
    let two = lit(b, std::f64::consts::LN_2, x);
    let far = add(b, log, two);
    let (a_near, a_far) = (lit(b, A_NEAR, x), lit(b, A_FAR, x));
    let (is_near, is_far) = (test(b, Direction::Le, a, a_near), test(b, Direction::Gt, a, a_far));
    let outer = pick(b, is_far, far, middle);
    let general = pick(b, is_near, near, outer);
    // Where y is nothing beside 1 - x its square may vanish: y / sqrt((1 - x)(1 + x)).
    let epsilon = if x.dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let (mx, xp) = (sub(b, unit, x), add(b, unit, x));
    let e = lit(b, epsilon, x);
    let em = mul(b, e, mx);
    let thin = test(b, Direction::Lt, y, em);
    let t = mul(b, mx, xp);
    let t = un(b, Unary::Sqrt, t);
    let line = div(b, y, t);
    let thin = bin(b, Binary::And, thin, below);
    pick(b, thin, line, general)
}

/// With infinite parts, the angles are those of the directions.
fn infinite(b: &mut KernelBuilder, x: Value, y: Value, found: Arcs) -> Arcs {
    let (inf, unit, zero) = (lit(b, f64::INFINITY, x), lit(b, 1.0, x), lit(b, 0.0, x));
    let (xi, yi) = (test(b, Direction::Eq, x, inf), test(b, Direction::Eq, y, inf));
    let any = bin(b, Binary::Or, xi, yi);
    let (xd, yd) = (pick(b, xi, unit, zero), pick(b, yi, unit, zero));
    let (s, c) = (bin(b, Binary::Atan2, xd, yd), bin(b, Binary::Atan2, yd, xd));
    Arcs {
        sine: pick(b, any, s, found.sine),
        cosine: pick(b, any, c, found.cosine),
        height: pick(b, any, inf, found.height),
    }
}

fn of(b: &mut KernelBuilder, z: Z) -> Arcs {
    let (x, y) = (un(b, Unary::Abs, z.re), un(b, Unary::Abs, z.im));
    arcs(b, x, y)
}

/// The arc cosine's real part for any sign.
fn cosine(b: &mut KernelBuilder, z: Z, arcs: &Arcs) -> Value {
    let (pi, zero) = (lit(b, std::f64::consts::PI, z.re), lit(b, 0.0, z.re));
    let turned = sub(b, pi, arcs.cosine);
    let negative = test(b, Direction::Lt, z.re, zero);
    pick(b, negative, turned, arcs.cosine)
}

pub(super) fn asin(b: &mut KernelBuilder, z: Z) -> Z {
    let a = of(b, z);
    Z { re: signed(b, a.sine, z.re), im: signed(b, a.height, z.im) }
}

pub(super) fn acos(b: &mut KernelBuilder, z: Z) -> Z {
    let a = of(b, z);
    let im = signed(b, a.height, z.im);
    Z { re: cosine(b, z, &a), im: un(b, Unary::Neg, im) }
}

/// The arc cosine turned so that its real part is not negative.
pub(super) fn acosh(b: &mut KernelBuilder, z: Z) -> Z {
    let a = of(b, z);
    let re = cosine(b, z, &a);
    Z { re: a.height, im: signed(b, re, z.im) }
}
