//! The planner: from a core graph to kernels, memory and the main program.

pub mod fuse;
pub mod group;
pub mod loop_spec;
pub mod view;
