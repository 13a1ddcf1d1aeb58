//! The compiler: from an XLA program to a [`systole_isa::Program`] for a chip.

pub mod analysis;
pub mod builder;
pub mod compile;
pub mod diag;
pub mod emit;
pub mod error;
#[cfg(feature = "evaluator")]
pub mod eval;
pub mod front;
pub mod graph;
pub mod kernel;
pub mod passes;
pub mod pipeline;
pub mod plan;
pub mod reference;
pub mod schedule;
