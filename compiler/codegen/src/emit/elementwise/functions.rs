//! Which instructions a function is, on each way in which element types are held: an arm here is all that a new one needs besides
//! them.
//!
//! Narrower floats are computed as f32 and rounded by whoever asks; narrow integers are held extended, and so are results.

use super::complex::{self, Z};
use super::float64::{pair, value};
use super::int64::{self, Wide};
use super::{int32, real, refused, special32, special64, trigonometric64};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, P, V};
use systole_hlo::graph::elementwise::{BinaryFunction, Count, Function, RealFunction};
use systole_isa::{DType, Op};

/// How a function of one real number is computed.
enum Way {
    /// One instruction in f32, which the unit of functions takes one of in a cycle; f64 in a way of its own.
    One(Op, fn(&mut KernelBuilder, P) -> P),
    /// Each width in a way of its own: f32, f64.
    Each(fn(&mut KernelBuilder, V) -> V, fn(&mut KernelBuilder, P) -> P),
    /// Both in the same way, by operations that both have.
    Alike(fn(&mut KernelBuilder, Value) -> Value),
}

impl Way {
    fn f32(self, b: &mut KernelBuilder, x: V) -> V {
        match self {
            Way::One(op, _) => b.v1(op, x),
            Way::Each(f, _) => f(b, x),
            Way::Alike(f) => f(b, Value::word(DType::F32, x)).v(),
        }
    }

    fn f64(self, b: &mut KernelBuilder, x: P) -> P {
        match self {
            Way::One(_, f) | Way::Each(_, f) => f(b, x),
            Way::Alike(f) => {
                let x = value(b, x);
                let r = f(b, x);
                pair(b, &r)
            }
        }
    }
}

/// Of real arguments of a function that complex numbers have too.
fn function(f: Function) -> Way {
    use Way::{Alike, Each, One};
    match f {
        Function::Exp => One(Op::EExp, special64::exp),
        Function::Log => One(Op::ELog, special64::log),
        Function::Tanh => One(Op::ETanh, special64::tanh),
        Function::Rsqrt => One(Op::ERsqrt, special64::rsqrt),
        Function::Sqrt => One(Op::ESqrt, |b, x| b.p1(Op::PSqrtD, x)),
        // Their instruction keeps the unit for long.
        Function::Sin => Each(|b, x| b.v1(Op::ESin, x), |b, x| trigonometric64::sin_cos(b, x).0),
        Function::Cos => Each(|b, x| b.v1(Op::ECos, x), |b, x| trigonometric64::sin_cos(b, x).1),
        Function::Tan => Each(special32::tan, trigonometric64::tan),
        Function::Logistic => Each(special32::logistic, special64::logistic),
        Function::Expm1 => Each(special32::expm1, special64::expm1),
        Function::Log1p => Each(special32::log1p, special64::log1p),
        Function::Cbrt => Each(special32::cbrt, special64::cbrt),
        Function::Sinh => Each(special32::sinh, special64::sinh),
        Function::Cosh => Each(special32::cosh, special64::cosh),
        Function::Asin => Alike(real::asin),
        Function::Acos => Alike(real::acos),
        Function::Atan => Alike(real::atan),
        Function::Asinh => Alike(real::asinh),
        Function::Acosh => Alike(real::acosh),
        Function::Atanh => Alike(real::atanh),
    }
}

/// Of a function of real numbers only.
fn real_function(f: RealFunction) -> Way {
    match f {
        RealFunction::Erf => Way::Each(special32::erf, special64::erf),
        RealFunction::ErfInv => Way::Each(special32::erf_inv, special64::erf_inv),
    }
}

/// A function of f32 lanes.
pub(super) fn function32(b: &mut KernelBuilder, f: Function, x: V) -> V {
    function(f).f32(b, x)
}

/// A function of real f32 lanes.
pub(super) fn real_function32(b: &mut KernelBuilder, f: RealFunction, x: V) -> V {
    real_function(f).f32(b, x)
}

/// A function of f64 pairs.
pub(super) fn function64(b: &mut KernelBuilder, f: Function, x: P) -> P {
    function(f).f64(b, x)
}

/// A function of real f64 pairs.
pub(super) fn real_function64(b: &mut KernelBuilder, f: RealFunction, x: P) -> P {
    real_function(f).f64(b, x)
}

/// Whether a function is one instruction in f32, of which the unit of functions takes one in a cycle.
pub(super) fn is_one(f: Function) -> bool {
    matches!(function(f), Way::One(..))
}

/// The same of a function of real numbers only.
pub(super) fn is_one_of_reals(f: RealFunction) -> bool {
    matches!(real_function(f), Way::One(..))
}

/// How a function of the bits of an integer is computed: of at most 32 bits, of 64.
fn count(c: Count) -> (fn(&mut KernelBuilder, V, DType) -> V, fn(&mut KernelBuilder, Wide) -> Wide) {
    match c {
        Count::Clz => (int32::leading_zeros, int64::leading_zeros),
        Count::Popcnt => (int32::ones, int64::ones),
    }
}

/// A function of the bits of integers of at most 32.
pub(super) fn count32(b: &mut KernelBuilder, c: Count, x: V, t: DType) -> V {
    count(c).0(b, x, t)
}

/// A function of the bits of integers of 64.
pub(super) fn count64(b: &mut KernelBuilder, c: Count, x: Wide) -> Wide {
    count(c).1(b, x)
}

/// Of two real numbers of f32 or f64, by operations that both have, or by [`each`].
type RealPair = fn(&mut KernelBuilder, Value, Value) -> Value;

/// Of two integers: of at most 32 bits, of 64.
type IntPair = (fn(&mut KernelBuilder, V, V, DType) -> V, fn(&mut KernelBuilder, Wide, Wide, DType) -> Wide);

/// How a function of two numbers is computed on the classes of element types that its row of the table names.
#[derive(Default)]
struct Ways {
    real: Option<RealPair>,
    integer: Option<IntPair>,
    complex: Option<fn(&mut KernelBuilder, Z, Z) -> Z>,
}

fn of_two(f: BinaryFunction) -> Ways {
    match f {
        BinaryFunction::Pow => Ways {
            real: Some(|b, x, y| each(b, (x, y), special32::pow, special64::pow)),
            integer: Some((int32::power, int64::power)),
            complex: Some(complex::zpow),
        },
        BinaryFunction::Atan2 => Ways {
            real: Some(|b, x, y| each(b, (x, y), special32::atan2, trigonometric64::atan2)),
            complex: Some(complex::zatan2),
            ..Ways::default()
        },
        BinaryFunction::MulHi => Ways { integer: Some((int32::mul_high, int64::mul_high)), ..Ways::default() },
    }
}

/// Whether a function of two numbers is one of real numbers: those are series, the others a few instructions.
pub(super) fn has_reals(f: BinaryFunction) -> bool {
    of_two(f).real.is_some()
}

/// Each width in a way of its own: f32, f64.
fn each(
    b: &mut KernelBuilder,
    (x, y): (Value, Value),
    narrow: fn(&mut KernelBuilder, V, V) -> V,
    wide: fn(&mut KernelBuilder, P, P) -> P,
) -> Value {
    if x.dtype == DType::F64 {
        let (p, q) = (pair(b, &x), pair(b, &y));
        let r = wide(b, p, q);
        return value(b, r);
    }
    Value::word(DType::F32, narrow(b, x.v(), y.v()))
}

/// A function of two f32 lanes; `t` is the type that they stand for.
pub(super) fn of_two32(b: &mut KernelBuilder, f: BinaryFunction, x: V, y: V, t: DType) -> V {
    match of_two(f).real {
        Some(way) => way(b, Value::word(DType::F32, x), Value::word(DType::F32, y)).v(),
        None => refused(f, t),
    }
}

/// A function of two f64 values.
pub(super) fn of_two64(b: &mut KernelBuilder, f: BinaryFunction, x: &Value, y: &Value) -> Value {
    match of_two(f).real {
        Some(way) => way(b, *x, *y),
        None => refused(f, DType::F64),
    }
}

/// A function of two integers of at most 32 bits.
pub(super) fn of_two_words(b: &mut KernelBuilder, f: BinaryFunction, x: V, y: V, t: DType) -> V {
    match of_two(f).integer {
        Some((way, _)) => way(b, x, y, t),
        None => refused(f, t),
    }
}

/// A function of two integers of 64 bits.
pub(super) fn of_two_wide(b: &mut KernelBuilder, f: BinaryFunction, x: Wide, y: Wide, t: DType) -> Wide {
    match of_two(f).integer {
        Some((_, way)) => way(b, x, y, t),
        None => refused(f, t),
    }
}

/// A function of two complex numbers.
pub(super) fn of_two_complex(b: &mut KernelBuilder, f: BinaryFunction, x: Z, y: Z, t: DType) -> Z {
    match of_two(f).complex {
        Some(way) => way(b, x, y),
        None => refused(f, t),
    }
}
