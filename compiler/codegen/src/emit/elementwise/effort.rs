//! How much elementwise operations do: what estimates are made of.

use super::functions;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryKind, UnaryKind};
use systole_hlo::graph::{Binary, Unary};

/// What an operation of one operand is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// An operation of the vector unit, or a few.
    Simple,
    /// One instruction of the unit of functions.
    Function,
    /// A series of operations of the vector unit.
    Series,
}

/// What `op` is made of.
pub fn effort(op: Unary) -> Effort {
    match op.kind() {
        UnaryKind::Rounding(_)
        | UnaryKind::Signs(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_)
        | UnaryKind::Count(_)
        | UnaryKind::Logic(_) => Effort::Simple,
        UnaryKind::Function(f) if functions::is_one(f) => Effort::Function,
        UnaryKind::RealFunction(f) if functions::is_one_of_reals(f) => Effort::Function,
        UnaryKind::Function(_) | UnaryKind::RealFunction(_) => Effort::Series,
    }
}

/// Work of one element of a series, in simple vector operations.
pub const SERIES: u32 = 16;

/// Work of one element of `op`, in simple vector operations.
pub fn work(op: Binary) -> u32 {
    match op.kind() {
        BinaryKind::Arithmetic(Arithmetic::Div | Arithmetic::Rem) => 6,
        BinaryKind::BinaryFunction(f) if functions::has_reals(f) => 24,
        BinaryKind::Arithmetic(
            Arithmetic::Add | Arithmetic::Sub | Arithmetic::Mul | Arithmetic::Max | Arithmetic::Min,
        )
        | BinaryKind::BinaryFunction(_)
        | BinaryKind::Integer(_)
        | BinaryKind::Join(_) => 1,
    }
}
