//! Sums and products of narrow floats: which are taken in f32, and which are rounded at every step.

use crate::edit::Emit;
use crate::simplify::combiner;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Op, Shape};
use systole_isa::DType;

/// The operation of a body that has to be computed in f32 instead of a narrower float type.
pub fn wide_sum(b: &Emit, body: CompId, dtype: DType) -> Option<Binary> {
    let narrow = matches!(dtype, DType::BF16 | DType::F16) || dtype.is_byte_float();
    combiner(b, body).filter(|op| narrow && matches!(op, Binary::Add | Binary::Mul))
}

/// The computation of one operation on `bf16` or `f16` that is rounded at every step.
pub fn rounded(b: &mut Emit, op: Binary, dtype: DType) -> Result<CompId, CompileError> {
    let (exponent, mantissa) = if dtype == DType::BF16 { (8, 7) } else { (5, 10) };
    b.computation("rounded", |b| {
        let scalar = Shape::array(dtype, &[]);
        let (p, q) = (b.parameter(scalar.clone()), b.parameter(scalar.clone()));
        let sum = b.raw(Op::Binary(op), &[p, q], scalar.clone());
        Ok(b.raw(Op::ReducePrecision { exponent, mantissa }, &[sum], scalar))
    })
}
