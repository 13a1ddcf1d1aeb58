//! What operations of two operands mean on elements of each class of types: an arm here is all that a new function needs.
//!
//! Formulas longer than a line are in [`super::integer`] and [`super::complex`]. The caller flushes operands, rounds and wraps results.

use super::complex::{self, ComplexBinary};
use super::float::{self, FloatBinary};
use super::integer::{self, IntBinary};
use systole_hlo::graph::Binary;
use systole_hlo::graph::elementwise::{BinaryFunction, BinaryKind};

/// A function on the classes of element types that its row of the table names.
#[derive(Default)]
struct Meaning {
    float: Option<FloatBinary>,
    integer: Option<IntBinary>,
    complex: Option<ComplexBinary>,
}

fn function(f: BinaryFunction) -> Meaning {
    match f {
        BinaryFunction::Pow => {
            Meaning { float: Some(libm::pow), integer: Some(integer::power), complex: Some(complex::pow) }
        }
        BinaryFunction::Atan2 => {
            Meaning { float: Some(libm::atan2), complex: Some(complex::atan2), ..Meaning::default() }
        }
        BinaryFunction::MulHi => Meaning { integer: Some(integer::mul_hi), ..Meaning::default() },
    }
}

/// The operation on floats with a float result, if it is defined there.
pub fn float(op: Binary) -> Option<FloatBinary> {
    match op.kind() {
        BinaryKind::Arithmetic(op) => Some(float::arithmetic(op)),
        BinaryKind::BinaryFunction(f) => function(f).float,
        BinaryKind::Integer(_) | BinaryKind::Join(_) => None,
    }
}

/// The operation on integers and `pred`, if it is defined there.
pub fn integer(op: Binary) -> Option<IntBinary> {
    match op.kind() {
        BinaryKind::Arithmetic(op) => Some(integer::arithmetic(op)),
        BinaryKind::BinaryFunction(f) => function(f).integer,
        BinaryKind::Integer(op) => Some(integer::bits(op)),
        BinaryKind::Join(_) => None,
    }
}

/// The operation on complex numbers with a complex result, if it is defined there.
pub fn complex(op: Binary) -> Option<ComplexBinary> {
    match op.kind() {
        BinaryKind::Arithmetic(op) => complex::arithmetic(op),
        BinaryKind::BinaryFunction(f) => function(f).complex,
        BinaryKind::Integer(_) | BinaryKind::Join(_) => None,
    }
}
