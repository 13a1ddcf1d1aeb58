//! Cycle-approximate simulator of devices and of the interconnect between them.
//!
//! [`load`] turns a program into predecoded code for a chip; a [`Machine`] holds the device's HBM and runs it. What
//! happens (values) and when it happens (timing) are separate: [`Mode`] chooses either or both.
//!
//! The machine is an in-order VLIW core. A bundle issues when all registers it reads or defines are ready, its units
//! and queues have room, and its DMA waits are satisfied; at most one issues per cycle. Because the core is in order and
//! every latency is known when an instruction issues, nothing is ticked: each register and queue has a ready time, and
//! the maximum of them is the issue time, with the cause of the wait in its low bits.
//!
//! Faults of the simulated program (out of range, races, deadlocks, ...) are values: [`Fault`].
//!
//! A [`Pod`] runs many machines joined by links. Not here: files, clocks, environment.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

#[cfg(test)]
mod draws;
mod fault;
mod issue;
mod load;
mod machine;
mod mem;
mod options;
mod pod;
pub mod stats;
mod team;
mod text;
mod unit;

pub use fault::{CoreId, DmaSide, Fault, FaultKind, Issued, Origin};
pub use load::{LoadError, Loaded, load, load_bundles};
pub use machine::{HostRangeError, Machine};
pub use options::{Assume, Details, DmaEvent, HostMemory, Mode, Moment, NoObserver, Observer, RunOptions, Sample};
pub use pod::{LinkFault, LinkReport, OpTraffic, Pod, PodRun};
pub use stats::{
    Activities, Activity, CAUSE_TABLE, CAUSES, Cause, OpProfile, Path, RunResult, SlotCycles, Traffic, UNIT_TABLE,
    UnitCounters, UnitSample,
};
pub use text::inst as inst_text;
