//! What operations of one operand mean on elements of each class of types: an arm here is all that a new function needs.
//!
//! Formulas longer than a line are in [`super::special`], [`super::integer`] and [`super::complex`]. The caller flushes operands, rounds
//! and wraps results.

use super::complex::{self, ComplexUnary, div, rotate, rotate_back};
use super::float::{self, FloatUnary};
use super::integer::{self, IntUnary, is_signed, unsigned_bits, width};
use super::special;
use systole_hlo::graph::Unary;
use systole_hlo::graph::elementwise::{Count, Function, RealFunction, UnaryKind};
use systole_isa::DType;

/// A function of real and of complex numbers.
fn function(f: Function) -> (FloatUnary, ComplexUnary) {
    match f {
        Function::Exp => (libm::exp, complex::exp),
        Function::Expm1 => (libm::expm1, complex::expm1),
        Function::Log => (libm::log, complex::log),
        Function::Log1p => (libm::log1p, complex::log1p),
        Function::Sin => (libm::sin, |(a, b)| (libm::sin(a) * libm::cosh(b), libm::cos(a) * libm::sinh(b))),
        Function::Cos => (libm::cos, |(a, b)| (libm::cos(a) * libm::cosh(b), -(libm::sin(a) * libm::sinh(b)))),
        Function::Sinh => (libm::sinh, |(a, b)| (libm::sinh(a) * libm::cos(b), libm::cosh(a) * libm::sin(b))),
        Function::Cosh => (libm::cosh, |(a, b)| (libm::cosh(a) * libm::cos(b), libm::sinh(a) * libm::sin(b))),
        Function::Tan => (libm::tan, |(a, b)| {
            let (re, im) = complex::tanh((-b, a));
            (im, -re)
        }),
        Function::Tanh => (libm::tanh, complex::tanh),
        Function::Sqrt => (f64::sqrt, complex::sqrt),
        Function::Rsqrt => (|x| 1.0 / x.sqrt(), complex::rsqrt),
        Function::Cbrt => (libm::cbrt, |z| complex::pow(z, (1.0 / 3.0, 0.0))),
        Function::Logistic => (
            |x| 1.0 / (1.0 + libm::exp(-x)),
            |(a, b)| {
                let (re, im) = complex::exp((-a, -b));
                div((1.0, 0.0), (1.0 + re, im))
            },
        ),
        Function::Asin => (libm::asin, |z| rotate_back(complex::asinh(rotate(z)))),
        Function::Asinh => (libm::asinh, complex::asinh),
        Function::Atan => (libm::atan, |z| rotate_back(complex::atanh(rotate(z)))),
        Function::Atanh => (libm::atanh, complex::atanh),
        Function::Acos => (libm::acos, |z| {
            let (re, im) = rotate_back(complex::asinh(rotate(z)));
            (std::f64::consts::FRAC_PI_2 - re, -im)
        }),
        Function::Acosh => (libm::acosh, complex::acosh),
    }
}

/// A function of real numbers only.
fn real_function(f: RealFunction) -> FloatUnary {
    match f {
        RealFunction::Erf => libm::erf,
        RealFunction::ErfInv => special::erf_inv,
    }
}

/// A function of an integer's bits.
fn count(c: Count) -> IntUnary {
    match c {
        // XLA counts the sign-extended byte of a type of fewer bits.
        Count::Popcnt => {
            |t, x| unsigned_bits(if is_signed(t) && t.bits() < 8 { DType::S8 } else { t }, x).count_ones() as i64
        }
        Count::Clz => |t, x| (unsigned_bits(t, x).leading_zeros() - (64 - width(t))) as i64,
    }
}

/// The operation on floats with a float result, if it is defined there.
pub fn float(op: Unary) -> Option<FloatUnary> {
    Some(match op.kind() {
        UnaryKind::Function(f) => function(f).0,
        UnaryKind::RealFunction(f) => real_function(f),
        UnaryKind::Rounding(op) => float::rounding(op),
        UnaryKind::Signs(op) => float::signs(op),
        UnaryKind::Part(op) => float::part(op),
        UnaryKind::Test(_) | UnaryKind::Count(_) | UnaryKind::Logic(_) => return None,
    })
}

/// The operation on integers and `pred`, if it is defined there.
pub fn integer(op: Unary) -> Option<IntUnary> {
    Some(match op.kind() {
        UnaryKind::Signs(op) => integer::signs(op),
        UnaryKind::Count(c) => count(c),
        UnaryKind::Logic(op) => integer::logic(op),
        UnaryKind::Function(_)
        | UnaryKind::RealFunction(_)
        | UnaryKind::Rounding(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_) => return None,
    })
}

/// The operation on complex numbers with a complex result, if it is defined there.
pub fn complex(op: Unary) -> Option<ComplexUnary> {
    match op.kind() {
        UnaryKind::Function(f) => Some(function(f).1),
        UnaryKind::Signs(op) => complex::signs(op),
        UnaryKind::RealFunction(_)
        | UnaryKind::Rounding(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_)
        | UnaryKind::Count(_)
        | UnaryKind::Logic(_) => None,
    }
}
