//! Exploring designs: programs over chips and parameters.
//!
//! A sweep is a folder. [`plan`](plan) writes its points, each with an id that is a hash of the chip, the program, the flags and
//! the version; [`execute`] runs points and stores counters, no prices; [`table`] joins points with results and prices them.
//! Results are files that appear whole or not at all, of any number of points, and points are found in them by id: so it does
//! not matter who ran a point, when, how often, or in what order, and the table is always the same. [`engine`] starts workers:
//! processes here, or tasks of Slurm, HyperQueue or GNU parallel; scheduling and network are theirs.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

#[cfg(feature = "parquet")]
mod columns;
pub mod engine;
pub mod execute;
pub mod expr;
pub mod front;
pub mod html;
pub mod numbers;
pub mod outcome;
pub mod plan;
pub mod search;
pub mod sensitivity;
pub mod spec;
pub mod store;
pub mod table;

pub use plan::{Plan, Point};
pub use spec::Spec;
pub use store::Store;

use systole_runtime::RuntimeError;

/// A wrong request.
pub(crate) fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}
