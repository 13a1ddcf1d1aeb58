//! The instruction set, chips and program files through the interface of the crate.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod asm;
mod chips;
mod code;
mod costs;
mod diagnostics;
mod effects;
mod floats;
mod instructions;
mod layouts;
mod opcodes;
mod parts;
mod topologies;
mod units;
