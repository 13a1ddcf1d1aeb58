//! The planner: from a core graph to a [`Plan`].

pub mod action;
pub mod alone;
mod bodies;
pub mod collective;
mod contraction;
mod control;
mod entry;
pub mod explain;
mod factor;
pub mod fuse;
pub mod group;
pub mod guide;
mod host;
pub mod loop_spec;
pub mod lower;
pub mod memory;
mod movement;
pub mod moving;
mod order;
pub mod overlap;
mod place;
mod planned;
mod scalar;
mod sort;
pub mod spec;
mod special;
pub mod step;
pub mod text;
mod transfer;
pub mod verify;
pub mod view;

pub use entry::{PlanOptions, plan};
pub use memory::KERNEL_SEMAPHORES;
pub use planned::{Plan, PlanHead, PlannedArray, PodCode};
pub use scalar::is_scalar_type;
