//! The planner: from a core graph to kernels, memory and the main program.

mod bodies;
pub mod collective;
mod contraction;
mod control;
mod factor;
pub mod fuse;
pub mod group;
mod host;
pub mod loop_spec;
pub mod lower;
pub mod main_program;
mod memory;
mod movement;
pub mod moving;
pub mod overlap;
mod scalar;
mod sort;
mod special;
pub mod step;
mod transfer;
pub mod view;

pub use memory::KERNEL_SEMAPHORES;
pub use scalar::is_scalar_type;
