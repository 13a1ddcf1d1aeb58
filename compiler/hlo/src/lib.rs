//! The graph of XLA programs, and what is true of it before anybody lowers it.
//!
//! - [`graph`]: modules, computations, operations, shapes; shape inference, verifier, printer;
//! - [`analysis`]: facts about graphs that several stages use;
//! - [`core`]: programs of core operations alone;
//! - [`diag`]: diagnostics with source excerpts; [`error`]: why a program cannot be compiled.
//!
//! It knows no front end, no pass and no chip but its element types and layouts.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod analysis;
pub mod core;
pub mod diag;
pub mod error;
pub mod graph;
