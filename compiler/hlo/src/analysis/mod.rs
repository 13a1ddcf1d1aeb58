//! Analyses: pure functions of a graph.

pub mod counted;
pub mod devices;
pub mod parts;
pub mod uses;

pub use counted::{CountedLoop, counted_loop};
pub use uses::uses;
