//! Which instructions a function of real numbers is, in f32 and in f64: an arm here is all that a new one needs besides them.
//!
//! Narrower floats are computed as f32 and rounded by whoever asks.

use super::float64::{pair, value};
use super::{real, special32, special64, trigonometric64};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, P, V};
use systole_hlo::graph::elementwise::{Function, RealFunction};
use systole_isa::{DType, Op};

/// How a function is computed.
enum Way {
    /// Each width in a way of its own: f32, f64.
    Each(fn(&mut KernelBuilder, V) -> V, fn(&mut KernelBuilder, P) -> P),
    /// Both in the same way, by operations that both have.
    Alike(fn(&mut KernelBuilder, Value) -> Value),
}

impl Way {
    fn f32(self, b: &mut KernelBuilder, x: V) -> V {
        match self {
            Way::Each(f, _) => f(b, x),
            Way::Alike(f) => f(b, Value::word(DType::F32, x)).v(),
        }
    }

    fn f64(self, b: &mut KernelBuilder, x: P) -> P {
        match self {
            Way::Each(_, f) => f(b, x),
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
    use Way::{Alike, Each};
    match f {
        Function::Exp => Each(|b, x| b.v1(Op::EExp, x), special64::exp),
        Function::Log => Each(|b, x| b.v1(Op::ELog, x), special64::log),
        Function::Tanh => Each(|b, x| b.v1(Op::ETanh, x), special64::tanh),
        Function::Rsqrt => Each(|b, x| b.v1(Op::ERsqrt, x), special64::rsqrt),
        Function::Sqrt => Each(|b, x| b.v1(Op::ESqrt, x), |b, x| b.p1(Op::PSqrtD, x)),
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
