//! `c64` and `c128`: expansions into operations on the real and imaginary parts, the same for both types.

mod arc;

use super::real::{add, bin, div, lit, mul, pick, sub, test, un};
use super::{Family, family, functions, refused};
use crate::emit::Value;
use crate::kernel::KernelBuilder;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryFunction, Function, Signs, UnaryKind};
use systole_hlo::graph::{Binary, Direction, Order, Unary};

/// A complex number by its parts.
#[derive(Clone, Copy)]
pub(super) struct Z {
    re: Value,
    im: Value,
}

fn of(x: &Value) -> Z {
    debug_assert_eq!(family(x.dtype), Family::Complex);
    Z { re: x.part(0), im: x.part(1) }
}

fn is_zero(b: &mut KernelBuilder, x: Value) -> Value {
    let zero = lit(b, 0.0, x);
    test(b, Direction::Eq, x, zero)
}

fn zpick(b: &mut KernelBuilder, m: Value, x: Z, y: Z) -> Z {
    Z { re: pick(b, m, x.re, y.re), im: pick(b, m, x.im, y.im) }
}

fn zadd(b: &mut KernelBuilder, x: Z, y: Z) -> Z {
    Z { re: add(b, x.re, y.re), im: add(b, x.im, y.im) }
}

fn zsub(b: &mut KernelBuilder, x: Z, y: Z) -> Z {
    Z { re: sub(b, x.re, y.re), im: sub(b, x.im, y.im) }
}

fn zmul(b: &mut KernelBuilder, x: Z, y: Z) -> Z {
    let (rr, ii) = (mul(b, x.re, y.re), mul(b, x.im, y.im));
    let (ri, ir) = (mul(b, x.re, y.im), mul(b, x.im, y.re));
    Z { re: sub(b, rr, ii), im: add(b, ri, ir) }
}

fn zneg(b: &mut KernelBuilder, x: Z) -> Z {
    Z { re: un(b, Unary::Neg, x.re), im: un(b, Unary::Neg, x.im) }
}

fn scale(b: &mut KernelBuilder, x: Z, s: Value) -> Z {
    Z { re: mul(b, x.re, s), im: mul(b, x.im, s) }
}

fn one(b: &mut KernelBuilder, like: Z) -> Z {
    Z { re: lit(b, 1.0, like.re), im: lit(b, 0.0, like.re) }
}

/// i z
fn times_i(b: &mut KernelBuilder, x: Z) -> Z {
    Z { re: un(b, Unary::Neg, x.im), im: x.re }
}

/// -i z
fn times_minus_i(b: &mut KernelBuilder, x: Z) -> Z {
    Z { re: x.im, im: un(b, Unary::Neg, x.re) }
}

/// Division by Smith's method: the divisor's larger part first, so that nothing overflows before the quotient does.
fn zdiv(b: &mut KernelBuilder, x: Z, y: Z) -> Z {
    // An infinite divisor is its direction times infinity: of its parts the infinite ones count, even beside a NaN.
    let (infinite, direction) = direction(b, y);
    let y = zpick(b, infinite, direction, y);
    let (ar, ai) = (un(b, Unary::Abs, y.re), un(b, Unary::Abs, y.im));
    let flat = test(b, Direction::Ge, ar, ai);
    let (big, small) = (pick(b, flat, y.re, y.im), pick(b, flat, y.im, y.re));
    let r = div(b, small, big);
    let sr = mul(b, small, r);
    let d = add(b, big, sr);
    // flat: (a + b r, b - a r); steep: (a r + b, b r - a)
    let (a, c) = (pick(b, flat, x.re, x.im), pick(b, flat, x.im, x.re));
    let cr = mul(b, c, r);
    let re = add(b, a, cr);
    let (ar, br) = (mul(b, x.re, r), mul(b, x.im, r));
    let (i1, i2) = (sub(b, x.im, ar), sub(b, br, x.re));
    let im = pick(b, flat, i1, i2);
    let q = Z { re: div(b, re, d), im: div(b, im, d) };
    let nothing = lit(b, 0.0, big);
    let by_infinity = scale(b, q, nothing);
    let q = zpick(b, infinite, by_infinity, q);
    // By zero: each part divided by it.
    let (re, im) = (is_zero(b, y.re), is_zero(b, y.im));
    let zero = bin(b, Binary::And, re, im);
    let by_zero = Z { re: div(b, x.re, big), im: div(b, x.im, big) };
    zpick(b, zero, by_zero, q)
}

/// Whether a part is infinite, and the number with infinite parts as ones of their sign, others as zeros of theirs.
fn direction(b: &mut KernelBuilder, x: Z) -> (Value, Z) {
    let (inf, unit, zero) = (lit(b, f64::INFINITY, x.re), lit(b, 1.0, x.re), lit(b, 0.0, x.re));
    let mut part = |v: Value| {
        let size = un(b, Unary::Abs, v);
        let infinite = test(b, Direction::Eq, size, inf);
        let size = pick(b, infinite, unit, zero);
        (infinite, with_sign_of(b, size, v))
    };
    let ((ri, re), (ii, im)) = (part(x.re), part(x.im));
    (bin(b, Binary::Or, ri, ii), Z { re, im })
}

/// A magnitude with the sign of `s`, zeros' too.
fn with_sign_of(b: &mut KernelBuilder, magnitude: Value, s: Value) -> Value {
    let minus = is_negative(b, s);
    let negated = un(b, Unary::Neg, magnitude);
    pick(b, minus, negated, magnitude)
}

/// Whether the sign is set, of zeros too: the half plane that the angle is in.
fn is_negative(b: &mut KernelBuilder, x: Value) -> Value {
    let zero = lit(b, 0.0, x);
    super::compare(b, Direction::Lt, Order::Total, &x, &zero)
}

/// The magnitude, without overflow on the way; infinite if a part is.
fn magnitude(b: &mut KernelBuilder, x: Z) -> Value {
    let (ar, ai) = (un(b, Unary::Abs, x.re), un(b, Unary::Abs, x.im));
    let (high, low) = (bin(b, Binary::Max, ar, ai), bin(b, Binary::Min, ar, ai));
    let r = div(b, low, high);
    let rr = mul(b, r, r);
    let c = lit(b, 1.0, r);
    let s = add(b, rr, c);
    let root = un(b, Unary::Sqrt, s);
    let h = mul(b, high, root);
    let zero = is_zero(b, high);
    let h = pick(b, zero, high, h);
    let inf = lit(b, f64::INFINITY, r);
    let (ri, ii) = (test(b, Direction::Eq, ar, inf), test(b, Direction::Eq, ai, inf));
    let any = bin(b, Binary::Or, ri, ii);
    pick(b, any, inf, h)
}

fn zexp(b: &mut KernelBuilder, x: Z) -> Z {
    let e = un(b, Unary::Exp, x.re);
    let (c, s) = (un(b, Unary::Cos, x.im), un(b, Unary::Sin, x.im));
    let r = scale(b, Z { re: c, im: s }, e);
    // A real argument has a real power.
    let real = is_zero(b, x.im);
    Z { re: r.re, im: pick(b, real, x.im, r.im) }
}

fn zlog(b: &mut KernelBuilder, x: Z) -> Z {
    let m = magnitude(b, x);
    Z { re: un(b, Unary::Log, m), im: bin(b, Binary::Atan2, x.im, x.re) }
}

/// log(1 + z). Near the unit circle the real part is log1p(re (2 + re) + im^2) / 2; elsewhere, where s = 1 + re is the
/// larger part, it is log s + log1p((im / s)^2 + 2 e / s) / 2 with the rounding error e of that sum.
fn zlog1p(b: &mut KernelBuilder, x: Z) -> Z {
    let (two, half, unit) = (lit(b, 2.0, x.re), lit(b, 0.5, x.re), lit(b, 1.0, x.re));
    let s = add(b, x.re, two);
    let (p, q) = (mul(b, x.re, s), mul(b, x.im, x.im));
    let t = add(b, p, q);
    let l = un(b, Unary::Log1p, t);
    let near = mul(b, l, half);
    let shifted = Z { re: add(b, x.re, unit), im: x.im };
    let far = zlog(b, shifted);
    let size = un(b, Unary::Abs, t);
    let small = test(b, Direction::Lt, size, half);
    let e = {
        let back = sub(b, shifted.re, unit);
        sub(b, x.re, back)
    };
    let ratio = div(b, x.im, shifted.re);
    let (rr, ee) = (mul(b, ratio, ratio), div(b, e, shifted.re));
    let two_ee = add(b, ee, ee);
    let rest = add(b, rr, two_ee);
    let rest = un(b, Unary::Log1p, rest);
    let rest = mul(b, rest, half);
    let main = un(b, Unary::Log, shifted.re);
    let side = add(b, main, rest);
    // The error is exact while |re| is at most 1, and nothing beside larger parts.
    let (im, re) = (un(b, Unary::Abs, x.im), un(b, Unary::Abs, x.re));
    let (flat, exact) = (test(b, Direction::Le, im, shifted.re), test(b, Direction::Le, re, unit));
    let use_side = bin(b, Binary::And, flat, exact);
    let apart = pick(b, use_side, side, far.re);
    Z { re: pick(b, small, near, apart), im: far.im }
}

/// e^z - 1: (expm1(a) cos b - 2 sin(b/2)^2, e^a sin b).
fn zexpm1(b: &mut KernelBuilder, x: Z) -> Z {
    let (half, two) = (lit(b, 0.5, x.re), lit(b, 2.0, x.re));
    let m = un(b, Unary::Expm1, x.re);
    let c = un(b, Unary::Cos, x.im);
    let hb = mul(b, x.im, half);
    let s = un(b, Unary::Sin, hb);
    let ss = mul(b, s, s);
    let (p, q) = (mul(b, m, c), mul(b, ss, two));
    let e = zexp(b, x);
    Z { re: sub(b, p, q), im: e.im }
}

/// The principal square root; on the cut the upper one, whatever the sign of the zero.
fn zsqrt(b: &mut KernelBuilder, x: Z) -> Z {
    let zero = lit(b, 0.0, x.re);
    let below = test(b, Direction::Lt, x.im, zero);
    root(b, x, below)
}

/// The square root in the half plane that `below` says: from t = sqrt((|z| + |re|) / 2), the other part is im / (2 t).
fn root(b: &mut KernelBuilder, x: Z, below: Value) -> Z {
    // Large and small numbers are brought to the middle of the range, by an even power of two.
    let given = x;
    let (ar, ai) = (un(b, Unary::Abs, x.re), un(b, Unary::Abs, x.im));
    let high = bin(b, Binary::Max, ar, ai);
    let (edge, by, back) = if x.re.dtype == systole_isa::DType::F64 { (1e280, 600, 300) } else { (1e30, 60, 30) };
    let mut middle = |up: i32, unit: i32| {
        let (above, under) = (lit(b, edge, high), lit(b, 1.0 / edge, high));
        let (large, small) = (test(b, Direction::Gt, high, above), test(b, Direction::Lt, high, under));
        let (one, less, more) =
            (lit(b, 1.0, high), lit(b, 2f64.powi(unit * up), high), lit(b, 2f64.powi(-unit * up), high));
        let k = pick(b, small, more, one);
        pick(b, large, less, k)
    };
    let (into, out) = (middle(by, -1), middle(back, 1));
    let x = scale(b, x, into);
    let half = lit(b, 0.5, x.re);
    let a = un(b, Unary::Abs, x.re);
    let m = magnitude(b, x);
    let (ha, hm) = (mul(b, a, half), mul(b, m, half));
    let s = add(b, ha, hm);
    let t = un(b, Unary::Sqrt, s);
    let him = mul(b, x.im, half);
    let q = div(b, him, t);
    let zero = lit(b, 0.0, x.re);
    let right = test(b, Direction::Ge, x.re, zero);
    let minus_t = un(b, Unary::Neg, t);
    let t_signed = pick(b, below, minus_t, t);
    let aq = un(b, Unary::Abs, q);
    let r = Z { re: pick(b, right, t, aq), im: pick(b, right, q, t_signed) };
    let nothing = is_zero(b, t);
    let r = zpick(b, nothing, Z { re: zero, im: x.im }, r);
    let r = scale(b, r, out);
    // An infinite imaginary part wins over everything.
    let inf = lit(b, f64::INFINITY, x.re);
    let ai = un(b, Unary::Abs, x.im);
    let steep = test(b, Direction::Eq, ai, inf);
    zpick(b, steep, Z { re: inf, im: given.im }, r)
}

/// With t = tanh(a), c = cos(b), s = sin(b): (t, c s / cosh(a)^2) / (c^2 + t^2 s^2); t alone where a is infinite.
fn ztanh(b: &mut KernelBuilder, x: Z) -> Z {
    let (t, h) = (un(b, Unary::Tanh, x.re), un(b, Unary::Cosh, x.re));
    let (c, s) = (un(b, Unary::Cos, x.im), un(b, Unary::Sin, x.im));
    let ts = mul(b, t, s);
    let (cc, tt) = (mul(b, c, c), mul(b, ts, ts));
    let d = add(b, cc, tt);
    let cs = mul(b, c, s);
    let p = div(b, cs, h);
    let p = div(b, p, h);
    let r = Z { re: div(b, t, d), im: div(b, p, d) };
    let (size, inf, zero) = (un(b, Unary::Abs, x.re), lit(b, f64::INFINITY, t), lit(b, 0.0, t));
    let far = test(b, Direction::Eq, size, inf);
    zpick(b, far, Z { re: t, im: zero }, r)
}

fn zsin(b: &mut KernelBuilder, x: Z) -> Z {
    let (s, c) = (un(b, Unary::Sin, x.re), un(b, Unary::Cos, x.re));
    let (sh, ch) = (un(b, Unary::Sinh, x.im), un(b, Unary::Cosh, x.im));
    Z { re: mul(b, s, ch), im: mul(b, c, sh) }
}

fn zcos(b: &mut KernelBuilder, x: Z) -> Z {
    let (s, c) = (un(b, Unary::Sin, x.re), un(b, Unary::Cos, x.re));
    let (sh, ch) = (un(b, Unary::Sinh, x.im), un(b, Unary::Cosh, x.im));
    let p = mul(b, s, sh);
    Z { re: mul(b, c, ch), im: un(b, Unary::Neg, p) }
}

/// x to the y as e^(y log x), with a plain product for real y (0 and infinite x have infinite logarithms); 0 to the 0
/// is 1.
pub(super) fn zpow(b: &mut KernelBuilder, x: Z, y: Z) -> Z {
    let l = zlog(b, x);
    let (p, real_p) = (zmul(b, y, l), scale(b, l, y.re));
    let real = is_zero(b, y.im);
    let p = zpick(b, real, real_p, p);
    let r = zexp(b, p);
    let nothing = is_zero(b, y.re);
    let m = bin(b, Binary::And, real, nothing);
    let u = one(b, x);
    zpick(b, m, u, r)
}

/// The first operand where it is beyond the second in the order of real parts, then imaginary ones; else the second.
fn extreme(b: &mut KernelBuilder, beyond: Direction, x: Z, y: Z) -> Z {
    let (re, same) = (test(b, beyond, x.re, y.re), test(b, Direction::Eq, x.re, y.re));
    let im = test(b, beyond, x.im, y.im);
    let tie = bin(b, Binary::And, same, im);
    let first = bin(b, Binary::Or, re, tie);
    zpick(b, first, x, y)
}

/// atanh z = (log1p(z) - log1p(-z)) / 2.
fn zatanh(b: &mut KernelBuilder, x: Z) -> Z {
    let n = zneg(b, x);
    let (p, m) = (zlog1p(b, x), zlog1p(b, n));
    let d = zsub(b, p, m);
    let half = lit(b, 0.5, x.re);
    scale(b, d, half)
}

/// A unary operation.
pub fn unary(b: &mut KernelBuilder, op: Unary, x: &Value) -> Value {
    let t = x.dtype;
    let x = of(x);
    let r = match op.kind() {
        UnaryKind::Signs(Signs::Abs) => return magnitude(b, x),
        UnaryKind::Signs(Signs::Neg) => zneg(b, x),
        UnaryKind::Signs(Signs::Sign) => {
            let m = magnitude(b, x);
            let zero = is_zero(b, m);
            let q = Z { re: div(b, x.re, m), im: div(b, x.im, m) };
            zpick(b, zero, x, q)
        }
        UnaryKind::Function(f) => function(b, f, x),
        UnaryKind::RealFunction(_)
        | UnaryKind::Rounding(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_)
        | UnaryKind::Count(_)
        | UnaryKind::Logic(_) => refused(op, t),
    };
    Value::from_parts(r.re, r.im)
}

/// A function of one complex number.
fn function(b: &mut KernelBuilder, f: Function, x: Z) -> Z {
    match f {
        Function::Exp => zexp(b, x),
        Function::Expm1 => zexpm1(b, x),
        Function::Log => zlog(b, x),
        Function::Log1p => zlog1p(b, x),
        Function::Sqrt => zsqrt(b, x),
        Function::Rsqrt => {
            let below = is_negative(b, x.im);
            let (s, u) = (root(b, x, below), one(b, x));
            zdiv(b, u, s)
        }
        Function::Cbrt => {
            let l = zlog(b, x);
            let third = lit(b, 1.0 / 3.0, x.re);
            let p = scale(b, l, third);
            zexp(b, p)
        }
        Function::Logistic => {
            let n = zneg(b, x);
            let (e, u) = (zexp(b, n), one(b, x));
            let d = zadd(b, e, u);
            zdiv(b, u, d)
        }
        Function::Tanh => ztanh(b, x),
        Function::Tan => {
            let i = times_i(b, x);
            let w = ztanh(b, i);
            times_minus_i(b, w)
        }
        Function::Sin => zsin(b, x),
        Function::Cos => zcos(b, x),
        Function::Sinh => {
            let i = times_i(b, x);
            let w = zsin(b, i);
            times_minus_i(b, w)
        }
        Function::Cosh => {
            let i = times_i(b, x);
            zcos(b, i)
        }
        Function::Asin => arc::asin(b, x),
        Function::Acos => arc::acos(b, x),
        Function::Asinh => {
            let i = times_i(b, x);
            let w = arc::asin(b, i);
            times_minus_i(b, w)
        }
        Function::Acosh => arc::acosh(b, x),
        Function::Atanh => zatanh(b, x),
        Function::Atan => {
            let i = times_i(b, x);
            let w = zatanh(b, i);
            times_minus_i(b, w)
        }
    }
}

/// Arithmetic of two numbers.
pub fn arithmetic(b: &mut KernelBuilder, op: Arithmetic, x: &Value, y: &Value) -> Value {
    let t = x.dtype;
    let (x, y) = (of(x), of(y));
    let r = match op {
        Arithmetic::Add => zadd(b, x, y),
        Arithmetic::Sub => zsub(b, x, y),
        Arithmetic::Mul => zmul(b, x, y),
        Arithmetic::Div => zdiv(b, x, y),
        Arithmetic::Max => extreme(b, Direction::Gt, x, y),
        Arithmetic::Min => extreme(b, Direction::Lt, x, y),
        Arithmetic::Rem => refused(op, t),
    };
    Value::from_parts(r.re, r.im)
}

/// A function of two numbers.
pub fn function_of_two(b: &mut KernelBuilder, f: BinaryFunction, x: &Value, y: &Value) -> Value {
    let (p, q) = (of(x), of(y));
    let r = functions::of_two_complex(b, f, p, q, x.dtype);
    Value::from_parts(r.re, r.im)
}

/// -i log((x + i y) / sqrt(x^2 + y^2))
pub(super) fn zatan2(b: &mut KernelBuilder, y: Z, x: Z) -> Z {
    let iy = times_i(b, y);
    let n = zadd(b, x, iy);
    let (xx, yy) = (zmul(b, x, x), zmul(b, y, y));
    let s = zadd(b, xx, yy);
    let d = zsqrt(b, s);
    let q = zdiv(b, n, d);
    let l = zlog(b, q);
    times_minus_i(b, l)
}
