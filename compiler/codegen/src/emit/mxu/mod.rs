//! Kernels for matrix products and convolutions on the matrix units.
//!
//! Both are a [`Contraction`]; [`choose`] tiles it, and [`contraction_kernel`] moves blocks between HBM and vector memory
//! and runs an [`Epilogue`] on every tile of results.
//!
//! - [`spec`]: the contraction, its arrays, the epilogue;
//! - [`finish`]: an epilogue as data; [`start`]: what is done to rows of lhs on their way; [`follow`]: a loop over the results beside
//!   the pushes;
//! - [`format`]: operand types, passes of multi-pass products;
//! - [`geometry`]: dimensions merged and cut into row blocks;
//! - [`tile`]: the choice of blocks, groups and chunks; [`cycles`]: its cost model;
//! - [`segment`]: the loops of a step, and how results lag behind pushes;
//! - [`choose`]: the best tile, as plain numbers;
//! - [`ends`]: the first steps, whose rows come in pieces, and the last part, with units along `k`;
//! - [`spread`]: ends of products beside the next tile's steps;
//! - [`split`]: parts for the cores of a device;
//! - [`levels`]: the dimensions of steps, and what addresses gain along each; [`odometer`]: counting through them;
//! - [`stream`]: copies between HBM and windows;
//! - [`setup`], [`body`], [`staging`], [`flow`]: emission.
//!
//! Invariants: whatever memory holds beyond an array's elements (even NaN) never reaches a result, and stores touch only
//! results and padding. Rows in flight never exceed the result FIFO. Sums are in ascending `k`, for each `k` tile in the
//! order of taps and passes.

mod body;
mod choose;
mod cycles;
mod ends;
mod finish;
mod flow;
mod follow;
mod format;
pub mod geometry;
mod levels;
mod odometer;
pub mod segment;
mod setup;
mod spec;
mod split;
mod spread;
mod staging;
mod start;
mod stream;
mod tile;

pub use choose::{
    Beyond, Chosen, Tile, TileWalk, Weigh, beyond, choose, consider, cuts, filled, search, unit_counts, walk,
};
pub use finish::{Finish, FinishInput, Finishing};
pub use follow::Follow;
pub use format::float_passes;
pub(in crate::emit) use format::one_pass;
pub use spec::{Array, Contraction, Convert, Dim, Epilogue, MatView, MxuError, Place, RhsForm, TileAt};
pub use split::{Part, shared, split};
pub use start::{Start, StartInput};
pub use tile::slabs;

use crate::emit::hook::Hook;
use crate::emit::loops::RowBlocks;
use crate::kernel::{KernelBuilder, KernelCode, Needs};
use systole_isa::ChipConfig;

/// The kernel of a contraction with a chosen tile. Parameters in order: bases of lhs, rhs, out, each extra, the epilogue's, values of rows
/// of lhs, those of the loop that follows, scratch (a VMEM word row, a multiple of 32). With a hook, something else is done between its steps now and then.
///
/// # Errors
/// If there is no such tile.
pub fn contraction_kernel(
    spec: &Contraction,
    (tile, hook): (&Tile, Option<Hook>),
    name: &str,
    chip: &ChipConfig,
    epilogue: &mut dyn Epilogue,
) -> Result<KernelCode, MxuError> {
    choose::with_problem(spec, tile.variant, chip, hook.is_some(), |problem| {
        let tiling = problem.restored(tile)?;
        let mut b = KernelBuilder::new(name, chip);
        let shape = (chip.core.sublanes, chip.core.lanes);
        let merged = spec.follow.as_ref().and_then(|f| RowBlocks::merged(&f.spec, shape));
        let prepared = setup::prepare(&mut b, problem, tiling, epilogue, merged.as_ref());
        prepared.context.run(&mut b, hook);
        let needs = Needs { scratch_rows: prepared.words, semaphores: prepared.semaphores };
        Ok(KernelCode::copying(b.finish(), prepared.descs, needs))
    })
}
