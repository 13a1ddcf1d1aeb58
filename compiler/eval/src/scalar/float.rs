//! Real float arithmetic, in `f64`; the caller flushes operands and rounds results.

use super::special;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryKind};
use systole_hlo::graph::{Binary, Direction, Order, Unary};
use systole_isa::DType;

/// A float operation of two operands.
pub type FloatBinary = fn(f64, f64) -> f64;
/// A float operation of one operand.
pub type FloatUnary = fn(f64) -> f64;

/// The operation on floats with a float result, if it is defined there.
pub fn unary(op: Unary) -> Option<FloatUnary> {
    Some(match op {
        Unary::Abs => f64::abs,
        Unary::Neg => |x| -x,
        Unary::Real => |x| x,
        Unary::Imag => |_| 0.0,
        Unary::Acos => libm::acos,
        Unary::Acosh => libm::acosh,
        Unary::Asin => libm::asin,
        Unary::Asinh => libm::asinh,
        Unary::Atan => libm::atan,
        Unary::Atanh => libm::atanh,
        Unary::Cbrt => libm::cbrt,
        Unary::Ceil => f64::ceil,
        Unary::Cos => libm::cos,
        Unary::Cosh => libm::cosh,
        Unary::Erf => libm::erf,
        Unary::ErfInv => special::erf_inv,
        Unary::Exp => libm::exp,
        Unary::Expm1 => libm::expm1,
        Unary::Floor => f64::floor,
        Unary::Log => libm::log,
        Unary::Log1p => libm::log1p,
        Unary::Logistic => |x| 1.0 / (1.0 + libm::exp(-x)),
        Unary::RoundAfz => f64::round,
        Unary::RoundEven => f64::round_ties_even,
        Unary::Rsqrt => |x| 1.0 / x.sqrt(),
        Unary::Sign => sign,
        Unary::Sin => libm::sin,
        Unary::Sinh => libm::sinh,
        Unary::Sqrt => f64::sqrt,
        Unary::Tan => libm::tan,
        Unary::Tanh => libm::tanh,
        Unary::Clz | Unary::IsFinite | Unary::Not | Unary::Popcnt => return None,
    })
}

/// Whether the operation only moves bits, so that subnormals pass through it.
pub fn keeps_subnormals(op: Unary) -> bool {
    matches!(op, Unary::Abs | Unary::Neg | Unary::Real | Unary::Imag)
}

/// ±1, or the argument itself for zeros and NaN.
fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { 1f64.copysign(x) }
}

/// The operation on floats with a float result, if it is defined there.
pub fn binary(op: Binary) -> Option<FloatBinary> {
    let BinaryKind::Arithmetic(op) = op.kind() else { return None };
    Some(match op {
        Arithmetic::Add => |a, b| a + b,
        Arithmetic::Sub => |a, b| a - b,
        Arithmetic::Mul => |a, b| a * b,
        Arithmetic::Div => |a, b| a / b,
        Arithmetic::Rem => |a, b| a % b,
        Arithmetic::Max => max,
        Arithmetic::Min => min,
        Arithmetic::Pow => libm::pow,
        Arithmetic::Atan2 => libm::atan2,
    })
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
