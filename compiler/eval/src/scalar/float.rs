//! Real float arithmetic, in `f64`; the caller flushes operands and rounds results.

use systole_hlo::graph::elementwise::{Arithmetic, Part, Rounding, Signs};
use systole_hlo::graph::{Direction, Order, Unary};
use systole_isa::DType;

/// A float operation of two operands.
pub type FloatBinary = fn(f64, f64) -> f64;
/// A float operation of one operand.
pub type FloatUnary = fn(f64) -> f64;

/// To a whole number.
pub(super) fn rounding(op: Rounding) -> FloatUnary {
    match op {
        Rounding::Ceil => f64::ceil,
        Rounding::Floor => f64::floor,
        Rounding::RoundAfz => f64::round,
        Rounding::RoundEven => f64::round_ties_even,
    }
}

/// What touches the sign only.
pub(super) fn signs(op: Signs) -> FloatUnary {
    match op {
        Signs::Abs => f64::abs,
        Signs::Neg => |x| -x,
        Signs::Sign => sign,
    }
}

/// Parts of a real number.
pub(super) fn part(op: Part) -> FloatUnary {
    match op {
        Part::Real => |x| x,
        Part::Imag => |_| 0.0,
    }
}

/// Whether the operation only moves bits, so that subnormals pass through it.
pub fn keeps_subnormals(op: Unary) -> bool {
    matches!(op, Unary::Abs | Unary::Neg | Unary::Real | Unary::Imag)
}

/// ±1, or the argument itself for zeros and NaN.
fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { 1f64.copysign(x) }
}

/// Arithmetic of two numbers.
pub(super) fn arithmetic(op: Arithmetic) -> FloatBinary {
    match op {
        Arithmetic::Add => |a, b| a + b,
        Arithmetic::Sub => |a, b| a - b,
        Arithmetic::Mul => |a, b| a * b,
        Arithmetic::Div => |a, b| a / b,
        Arithmetic::Rem => |a, b| a % b,
        Arithmetic::Max => max,
        Arithmetic::Min => min,
    }
}

/// The larger, NaN if either is, `+0` above `-0`.
fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// The smaller, NaN if either is, `-0` below `+0`.
fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// A comparison; by IEEE rules subnormals are flushed, by the total order they are not.
pub fn compare(t: DType, direction: Direction, order: Order, a: f64, b: f64) -> bool {
    direction.holds(match order {
        Order::Partial => super::flush(t, a).partial_cmp(&super::flush(t, b)),
        Order::Total => Some(total_order(a, b)),
    })
}

/// −NaN < −Inf < finite < −0 < +0 < finite < +Inf < +NaN; all NaNs of a sign are one.
pub fn total_order(a: f64, b: f64) -> std::cmp::Ordering {
    let canonical = |x: f64| if x.is_nan() { f64::NAN.copysign(x) } else { x };
    canonical(a).total_cmp(&canonical(b))
}
