//! Move kernels: transposes, slices, concatenations, pads, reversals, relayouts.
//!
//! A destination register is built from source registers: along lanes by rotation (neighbours stay neighbours), by a lane
//! permutation (any other affine step), or by transposing a block (the destination's lanes are the source's rows); along
//! sublanes by strided loads and stores. [`choose`] decides which iteration dimensions lie along lanes and sublanes; the
//! rest are loops. See [`spec`] for what a move is.

mod across;
mod choose;
mod lanes;
pub mod spec;
mod transpose;
mod walk;

use crate::kernel::{Kernel, KernelBuilder};
use choose::{Plan, choose};
use spec::MoveSpec;
use systole_isa::ChipConfig;

/// The kernel of a spec.
pub fn move_kernel(spec: &MoveSpec, chip: &ChipConfig) -> Kernel {
    let mut spec = spec.clone();
    choose::whole_tiles(&mut spec, chip.core.lanes as i64);
    choose::merge(&mut spec);
    let mut b = KernelBuilder::new("move", chip);
    match choose(&spec) {
        Plan::Lanes(plan) => lanes::emit(&mut b, &spec, &plan),
        Plan::Transpose(plan) => transpose::emit(&mut b, &spec, &plan),
    }
    b.finish()
}
