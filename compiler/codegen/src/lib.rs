//! Code generation: from what a kernel computes to bundles of the chip.
//!
//! - [`emit`]: kernels of every kind as instructions over virtual registers;
//! - [`estimate`]: what a kernel takes by itself;
//! - [`kernel`]: that form; [`schedule`]: from it to bundles, with the checker that proves them again.
//!
//! It decides nothing that a plan decides: no fusion, no memory, no order of kernels.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod check;
pub mod emit;
pub mod estimate;
pub mod kernel;
pub mod schedule;
