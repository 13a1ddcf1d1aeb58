//! Programs of every form as graphs.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod builder;
mod hlo_proto;
mod hlo_text;
mod locations;
mod stablehlo;
mod vhlo;
