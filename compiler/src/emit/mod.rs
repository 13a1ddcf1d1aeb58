//! Emission: the code of a plan. Nothing is decided here.
//!
//! - [`unit`]: the code of a whole plan;
//! - [`kernel`]: the code of any kernel from its spec (by the emitters of [`systole_codegen`]);
//! - `main_program`, `exchange`: actions as scalar code, copies and calls; collectives and transfers.

mod exchange;
pub mod kernel;
mod main_program;
pub mod unit;
