//! Cycles of a kernel by itself, from its scheduled code: a walk on paper.
//!
//! [`walk`] issues the bundles in order, as late as registers, slots and units ([`units`]) let them, and follows what scalars
//! are known. A loop is walked until its rounds take the same time (or the same every other time, as where two windows take
//! turns), and the others are added up. What is not known: parameters, memory, what others do to HBM. Branches on that go on
//! straight, and loops over it run once.

mod units;
mod walk;

use crate::kernel::{Kernel, Unit};
use crate::schedule::{ScheduleError, ScheduleOptions, schedule};
use systole_isa::{ChipConfig, Class, DmaDesc};

/// The estimated cycles of a kernel with its descriptors, called in a row of calls; spills go to rows and words from the given
/// ones on.
///
/// # Errors
/// If the kernel cannot be scheduled.
pub fn cycles(
    kernel: &Kernel,
    descs: &[DmaDesc],
    (row, word): (u32, u32),
    chip: &ChipConfig,
) -> Result<f64, ScheduleError> {
    let mut unit = Unit { kernels: vec![Kernel::default(), kernel.clone()] };
    unit.pass_in_memory(chip);
    let scheduled = schedule(&unit, chip, &ScheduleOptions::new(row, word))?;
    let start = scheduled.kernels.get(1).map_or(0, |k| k.start as usize);
    // Arguments are put in their places before the call.
    let arguments = f64::from(kernel.params.len() as u32) / f64::from(chip.core.scalar_slots.max(1));
    let call = f64::from(chip.timing.get(Class::Branch).latency.max(1));
    Ok(walk::Walk::new(chip, &scheduled.bundles, descs).run(start) + arguments + call)
}
