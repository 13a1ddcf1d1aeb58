//! The planner: from a core graph to a [`Plan`].

pub mod action;
mod bodies;
pub mod collective;
mod contraction;
mod control;
mod entry;
mod factor;
pub mod fuse;
pub mod group;
mod host;
pub mod loop_spec;
pub mod lower;
pub mod memory;
mod movement;
pub mod moving;
pub mod overlap;
mod place;
mod planned;
mod scalar;
mod sort;
pub mod spec;
mod special;
pub mod step;
mod transfer;
pub mod view;

pub use entry::{PlanOptions, plan};
pub use memory::KERNEL_SEMAPHORES;
pub use planned::{Plan, PlannedArray, PodCode};
pub use scalar::is_scalar_type;
