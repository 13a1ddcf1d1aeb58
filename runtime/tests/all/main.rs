//! Programs through compiler, simulator and host runtime, compared with the evaluator or with what is known of them.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod apart;
mod causes;
#[cfg(feature = "evaluator")]
mod collectives;
mod cores;
#[cfg(feature = "evaluator")]
mod eval_conformance;
mod host;
mod lowering;
mod parts;
#[cfg(feature = "evaluator")]
mod pieces;
mod pods;
mod profile;
#[cfg(feature = "evaluator")]
mod reference;
mod report;
mod robust;
mod routines;
mod rules;
mod strips;
mod sums;
mod tuning;
