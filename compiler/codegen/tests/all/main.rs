//! Kernels, their schedules and their estimates through the interface of the crate.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod calls;
mod elementwise;
mod estimates;
mod fetches;
mod memory;
mod products;
mod schedules;
mod tidy;
