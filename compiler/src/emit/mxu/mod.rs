//! Kernels for matrix products and convolutions on the matrix units.
//!
//! Both are a [`Contraction`]; [`contraction_kernel`] tiles it, moves blocks between HBM and vector memory, and runs an
//! [`Epilogue`] on every tile of results.

mod spec;

pub use spec::{Array, Contraction, Convert, Dim, Epilogue, KernelOut, MatView, MxuError, Place, RhsForm, TileAt};

use systole_isa::ChipConfig;

/// The kernel of a contraction.
///
/// # Errors
/// If the budget of vector memory is too small for any blocks, or operand types or strides need a rewrite first.
pub fn contraction_kernel(
    spec: &Contraction,
    chip: &ChipConfig,
    epilogue: &mut dyn Epilogue,
) -> Result<KernelOut, MxuError> {
    let _ = (spec, chip, epilogue);
    Err(MxuError::Unsupported("no tiling yet".into()))
}
