//! Move kernels: transposes, slices, concatenations, pads, reversals, relayouts.

pub mod spec;

use crate::kernel::Kernel;
use spec::MoveSpec;
use systole_isa::ChipConfig;

/// The kernel of a spec.
pub fn move_kernel(spec: &MoveSpec, chip: &ChipConfig) -> Kernel {
    let _ = (spec, chip);
    Kernel::default()
}
