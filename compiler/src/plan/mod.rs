//! The planner: from a core graph to a [`Plan`].

pub mod action;
mod again;
pub mod alone;
pub mod collective;
mod entry;
pub mod explain;
mod finish;
mod follow;
pub mod fuse;
pub mod group;
pub mod guide;
pub mod lower;
pub mod memory;
pub mod overlap;
mod padding;
mod place;
mod planned;
pub mod spec;
mod start;
pub mod step;
pub mod text;
mod together;
mod turns;
pub mod verify;
pub mod view;

pub use entry::{PlanOptions, plan};
pub use lower::scalar::is_scalar_type;
pub use memory::kernel_semaphores;
pub use planned::{Plan, PlanHead, PlannedArray, PodCode};
