//! Sweeps through the interface of the crate; `tests/sweep.rs` of the command runs whole ones.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod expressions;
mod fronts;
mod knees;
mod plans;
mod searches;
