//! Kernels that call nothing have nothing to do with each other: threads of the host share them. What comes out is the same for any
//! number of threads.

use super::code::Code;
use super::spill::Area;
use super::{ScheduleError, ScheduleOptions, schedule_kernel};
use crate::kernel::Unit;
use std::sync::atomic::{AtomicUsize, Ordering};
use systole_isa::ChipConfig;

/// Kernels for each thread, at least: to begin one costs as much as a small kernel.
const KERNELS: usize = 4;
/// Stack of a thread (only what is touched takes memory), for loops in loops.
const STACK: usize = 256 << 20;

/// A kernel's code, and the end of its spills.
pub(super) type Outcome = Result<(Code, Area), ScheduleError>;

/// Schedules kernels of a unit, all with spills from `start` on: what came of each, in order. Nothing where they are too few to share.
pub(super) fn schedule_apart(
    unit: &Unit,
    kernels: &[usize],
    (chip, options): (&ChipConfig, &ScheduleOptions),
    start: Area,
) -> Vec<Outcome> {
    let threads = options.threads.min(kernels.len() / KERNELS);
    if threads < 2 {
        return Vec::new();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(&i) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((i, schedule_kernel(&unit.kernels[i], i == 0, chip, options, start)));
        }
        done
    };
    let mut all: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let begin = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(begin).collect();
        let mut all = work();
        for thread in others {
            all.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|a| a.0);
    all.into_iter().map(|a| a.1).collect()
}
