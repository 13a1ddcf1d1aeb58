//! The compiler: from an XLA program to a [`systole_isa::Program`] for a chip.
//!
//! The stages are crates: [`graph`] and its diagnostics (`systole-hlo`), [`front`] ends, [`passes`], the reference evaluator
//! and code generation ([`kernel`], [`schedule`]); here are the [`plan`] between passes and code, its
//! emission ([`emit`]), and the whole way ([`compile`]).

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod compile;
pub mod emit;
pub mod plan;
pub mod reference;
pub mod shared;

pub use systole_codegen::{kernel, schedule};
#[cfg(feature = "evaluator")]
pub use systole_eval as eval;
pub use systole_front as front;
pub use systole_front::builder;
pub use systole_hlo::{analysis, diag, error, graph};
pub use systole_mosaic as mosaic;
pub use systole_passes as passes;
pub use systole_passes::pipeline;
pub use systole_spmd as spmd;
