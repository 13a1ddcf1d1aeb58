//! Kernels for matrix products and convolutions on the matrix units.
//!
//! Both are a [`Contraction`]; [`contraction_kernel`] tiles it, moves blocks between HBM and vector memory, and runs an
//! [`Epilogue`] on every tile of results.

//!
//! - [`spec`]: the contraction, its arrays, the epilogue;
//! - [`format`]: operand types, passes of multi-pass products;
//! - [`geometry`]: dimensions merged and cut into row blocks;
//! - [`tile`]: the choice of blocks, groups and chunks, with its cost model;
//! - [`segment`]: the loops of a step, and how results lag behind pushes;
//! - [`split`]: parts for the cores of a device;
//! - [`odometer`]: counting through nested dimensions;
//! - [`stream`]: copies between HBM and windows;
//! - [`setup`], [`body`], [`flow`]: emission.
//!
//! Invariants: whatever memory holds beyond an array's elements (even NaN) never reaches a result, and stores touch only
//! results and padding. Rows in flight never exceed the result FIFO. Sums are in ascending `k`, for each `k` tile in the
//! order of taps and passes.

mod body;
mod flow;
mod format;
mod geometry;
mod odometer;
mod segment;
mod setup;
mod spec;
mod split;
mod stream;
mod tile;

#[cfg(test)]
mod tests;

pub use spec::{
    Array, Contraction, Convert, Dim, Epilogue, Hook, KernelOut, MatView, MxuError, Place, RhsForm, TileAt,
};
pub use split::{Part, estimate, shared, split};

use crate::kernel::KernelBuilder;
use systole_isa::ChipConfig;

/// The kernel of a contraction.
///
/// # Errors
/// If the budget of vector memory is too small for any blocks, or operand types or strides need a rewrite first.
///
/// With a hook, something else is done between its steps now and then.
pub fn contraction_kernel(
    spec: &Contraction,
    chip: &ChipConfig,
    epilogue: &mut dyn Epilogue,
    hook: Option<Hook>,
) -> Result<KernelOut, MxuError> {
    let formats = format::Formats::choose(spec, chip)?;
    let staging = geometry::Staging::new(spec, chip);
    let variants = geometry::Geometry::variants(spec, chip);
    let (problem, tiling) = best((spec, chip), (&formats, staging), &variants, hook.is_some())?;
    let estimated_cycles = tiling.cycles;
    let mut b = KernelBuilder::new(spec.name.clone(), chip);
    let prepared = setup::prepare(&mut b, problem, tiling, epilogue);
    prepared.context.run(&mut b, hook);
    Ok(KernelOut {
        kernel: b.finish(),
        scratch_rows: prepared.words,
        descs: prepared.descs,
        semaphores: prepared.semaphores,
        estimated_cycles,
    })
}

/// The best of a contraction's variants, with its tiling.
fn best<'a>(
    (spec, chip): (&'a Contraction, &'a ChipConfig),
    (formats, staging): (&'a format::Formats, geometry::Staging),
    variants: &'a [geometry::Geometry],
    hooked: bool,
) -> Result<(tile::Problem<'a>, tile::Tiling), MxuError> {
    let tiled = variants.iter().map(|geometry| {
        let problem = tile::Problem { spec, chip, geometry, formats, staging, hooked };
        problem.choose().map(|tiling| (problem, tiling))
    });
    let better = |a: Result<_, MxuError>, b| match (a, b) {
        (Ok(a), Err(_)) => Ok(a),
        (Ok((p, t)), Ok((q, u))) => Ok(if cheaper(&u, &t) { (q, u) } else { (p, t) }),
        (Err(_), b) => b,
    };
    tiled.reduce(better).expect("there is always a variant")
}

/// Whether a tiling is worth a less regular walk.
fn cheaper(a: &tile::Tiling, than: &tile::Tiling) -> bool {
    a.cycles < 0.97 * than.cycles
}
