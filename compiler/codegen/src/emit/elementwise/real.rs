//! Functions of real numbers that f32 and f64 compute in the same way, and the operations on values that they are made of.
//!
//! What the widths compute in ways of their own is in [`super::special32`] and [`super::special64`]: logarithms, exponential
//! functions, the arc tangent near zero.

use super::float32::SIGN;
use super::{compare, constant_f64, float64, multiply_add, select, special32, trigonometric64};
use crate::emit::Value;
use crate::kernel::KernelBuilder;
use std::f64::consts::{FRAC_PI_2, LN_2, PI};
use systole_hlo::graph::{Binary, Direction, Order, Unary};
use systole_isa::DType;

pub(super) fn un(b: &mut KernelBuilder, op: Unary, x: Value) -> Value {
    super::unary(b, op, &x, x.dtype)
}

pub(super) fn bin(b: &mut KernelBuilder, op: Binary, x: Value, y: Value) -> Value {
    super::binary(b, op, &x, &y)
}

pub(super) fn test(b: &mut KernelBuilder, d: Direction, x: Value, y: Value) -> Value {
    compare(b, d, Order::Partial, &x, &y)
}

pub(super) fn add(b: &mut KernelBuilder, x: Value, y: Value) -> Value {
    bin(b, Binary::Add, x, y)
}

pub(super) fn sub(b: &mut KernelBuilder, x: Value, y: Value) -> Value {
    bin(b, Binary::Sub, x, y)
}

pub(super) fn mul(b: &mut KernelBuilder, x: Value, y: Value) -> Value {
    bin(b, Binary::Mul, x, y)
}

pub(super) fn div(b: &mut KernelBuilder, x: Value, y: Value) -> Value {
    bin(b, Binary::Div, x, y)
}

pub(super) fn lit(b: &mut KernelBuilder, value: f64, like: Value) -> Value {
    constant_f64(b, value, like.dtype)
}

pub(super) fn pick(b: &mut KernelBuilder, m: Value, x: Value, y: Value) -> Value {
    select(b, &m, &x, &y)
}

/// The magnitude `x` with the sign of `s`: the highest bit of the last word.
fn with_sign_of(b: &mut KernelBuilder, x: Value, s: Value) -> Value {
    let last = x.all().len() - 1;
    let sign = b.and(s.all()[last], SIGN);
    let mut words = x.all().to_vec();
    words[last] = b.or(words[last], sign);
    Value::words(x.dtype, &words)
}

/// The arc tangent of a number in 0..=1, in f32 also of one in -1..0.
fn atan_core(b: &mut KernelBuilder, x: Value) -> Value {
    if x.dtype == DType::F64 {
        let p = float64::pair(b, &x);
        let r = trigonometric64::atan_core(b, p);
        return float64::value(b, r);
    }
    Value::word(x.dtype, special32::atan_core(b, x.v()))
}

/// The arc tangent.
pub(super) fn atan(b: &mut KernelBuilder, x: Value) -> Value {
    let a = un(b, Unary::Abs, x);
    let one = lit(b, 1.0, x);
    let steep = test(b, Direction::Lt, one, a);
    let inverse = div(b, one, a);
    let q = pick(b, steep, inverse, a);
    let p = atan_core(b, q);
    let right = lit(b, FRAC_PI_2, x);
    let rest = sub(b, right, p);
    let r = pick(b, steep, rest, p);
    with_sign_of(b, r, x)
}

/// sqrt(1 - x^2) without cancellation.
fn cofunction(b: &mut KernelBuilder, x: Value) -> Value {
    let one = lit(b, 1.0, x);
    let (low, high) = (sub(b, one, x), add(b, x, one));
    let p = mul(b, low, high);
    un(b, Unary::Sqrt, p)
}

/// 2 atan(x / (1 + sqrt(1 - x^2))).
pub(super) fn asin(b: &mut KernelBuilder, x: Value) -> Value {
    let s = cofunction(b, x);
    let one = lit(b, 1.0, x);
    let d = add(b, s, one);
    if x.dtype == DType::F32 {
        let q = div(b, x, d);
        let p = atan_core(b, q);
        return add(b, p, p);
    }
    let a = un(b, Unary::Abs, x);
    let q = div(b, a, d);
    let p = atan_core(b, q);
    let r = add(b, p, p);
    with_sign_of(b, r, x)
}

/// 2 atan2(sqrt(1 - x^2), 1 + x).
pub(super) fn acos(b: &mut KernelBuilder, x: Value) -> Value {
    let s = cofunction(b, x);
    let one = lit(b, 1.0, x);
    let d = add(b, x, one);
    let p = bin(b, Binary::Atan2, s, d);
    let r = add(b, p, p);
    let (minus_one, pi) = (lit(b, -1.0, x), lit(b, PI, x));
    let end = test(b, Direction::Eq, x, minus_one);
    pick(b, end, pi, r)
}

/// log1p(t), or log(x) + log(2) where 1 is nothing beside `x` in both widths, long before its square is no number any more. There is
/// one logarithm to wait for.
fn log1p_or_log_2x(b: &mut KernelBuilder, x: Value, t: Value) -> Value {
    let bound = lit(b, 1e18, x);
    let big = test(b, Direction::Lt, bound, x);
    let of = pick(b, big, x, t);
    let l = un(b, Unary::Log1p, of);
    let (log_2, zero) = (lit(b, LN_2, x), lit(b, 0.0, x));
    let more = pick(b, big, log_2, zero);
    add(b, l, more)
}

/// log1p(a + a^2 / (1 + sqrt(a^2 + 1))) of the magnitude.
pub(super) fn asinh(b: &mut KernelBuilder, x: Value) -> Value {
    let a = un(b, Unary::Abs, x);
    let z = mul(b, a, a);
    let one = lit(b, 1.0, x);
    let u = add(b, z, one);
    let s = un(b, Unary::Sqrt, u);
    let d = add(b, s, one);
    let q = div(b, z, d);
    let t = add(b, q, a);
    let r = log1p_or_log_2x(b, a, t);
    with_sign_of(b, r, x)
}

/// t + sqrt(t u), of which log1p is the arc hyperbolic cosine of 1 + t, and of u - 1.
pub(super) fn acosh_less_log1p(b: &mut KernelBuilder, t: Value, u: Value) -> Value {
    let p = mul(b, t, u);
    let s = un(b, Unary::Sqrt, p);
    add(b, t, s)
}

/// log1p(t + sqrt(t (t + 2))) with t = x - 1.
pub(super) fn acosh(b: &mut KernelBuilder, x: Value) -> Value {
    let (one, two) = (lit(b, 1.0, x), lit(b, 2.0, x));
    let t = sub(b, x, one);
    let u = add(b, t, two);
    let l = acosh_less_log1p(b, t, u);
    let r = log1p_or_log_2x(b, x, l);
    // Below -1 the product is positive again.
    let (outside, nan) = (test(b, Direction::Lt, x, one), lit(b, f64::NAN, x));
    pick(b, outside, nan, r)
}

/// log1p(2 a / (1 - a)) / 2 of the magnitude.
pub(super) fn atanh(b: &mut KernelBuilder, x: Value) -> Value {
    let a = un(b, Unary::Abs, x);
    let (one, half) = (lit(b, 1.0, x), lit(b, 0.5, x));
    let (n, d) = (add(b, a, a), sub(b, one, a));
    let q = div(b, n, d);
    let l = un(b, Unary::Log1p, q);
    let h = mul(b, l, half);
    with_sign_of(b, h, x)
}

/// The logarithm of 2^k m as a sum of two numbers, (high, low), where that of m is `twice` and `low`.
pub(super) fn log_of_product(b: &mut KernelBuilder, k: Value, twice: Value, low: Value) -> (Value, Value) {
    // Products of exponents and the head are exact.
    let (head, tail) = if k.dtype == DType::F64 {
        (0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10)
    } else {
        (0.693_115_234_375, 3.194_618_3e-5)
    };
    let (head, tail) = (lit(b, head, k), lit(b, tail, k));
    let a = mul(b, k, head);
    let h = add(b, a, twice);
    let back = sub(b, h, a);
    let error = sub(b, twice, back);
    let low = multiply_add(b, &k, &tail, &low);
    let low = add(b, low, error);
    let high = add(b, h, low);
    let back = sub(b, high, h);
    (high, sub(b, low, back))
}

/// The signs, NaNs and ones of x to the y; `r` is the power of the magnitude.
pub(super) fn pow_special_cases(b: &mut KernelBuilder, x: Value, y: Value, r: Value) -> Value {
    let (a, ya) = (un(b, Unary::Abs, x), un(b, Unary::Abs, y));
    let (zero, one, infinity) = (lit(b, 0.0, x), lit(b, 1.0, x), lit(b, f64::INFINITY, x));
    let whole = un(b, Unary::RoundEven, y);
    let integer = test(b, Direction::Eq, whole, y);
    let half = lit(b, 0.5, y);
    let half = mul(b, y, half);
    let even = un(b, Unary::RoundEven, half);
    let fraction = test(b, Direction::Ne, even, half);
    let odd = bin(b, Binary::And, integer, fraction);
    let negated = with_sign_of(b, r, x);
    let r = pick(b, odd, negated, r);
    // A negative finite number to a broken power.
    let negative = test(b, Direction::Lt, x, zero);
    let finite = test(b, Direction::Lt, a, infinity);
    let broken = un(b, Unary::Not, integer);
    let bad = bin(b, Binary::And, negative, finite);
    let bad = bin(b, Binary::And, bad, broken);
    let nan = lit(b, f64::NAN, x);
    let r = pick(b, bad, nan, r);
    // 1 to anything, anything to 0, -1 to an infinity.
    let y_zero = test(b, Direction::Eq, y, zero);
    let x_one = test(b, Direction::Eq, x, one);
    let x_unit = test(b, Direction::Eq, a, one);
    let y_infinite = test(b, Direction::Eq, ya, infinity);
    let unit = bin(b, Binary::And, x_unit, y_infinite);
    let ones = bin(b, Binary::Or, y_zero, x_one);
    let ones = bin(b, Binary::Or, ones, unit);
    pick(b, ones, one, r)
}
