//! Passes over the graph, from a verified program to the core operations that code generation knows.
//!
//! A pass makes a new module from an old one through [`edit`]. The list of passes and their order is in
//! [`crate::pipeline`].

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod check;
pub mod collective;
mod columns;
pub mod conv;
pub mod custom;
pub mod dot;
pub mod dynamic;
pub mod edit;
pub mod expand;
mod generated;
pub mod inline;
pub mod interleave;
pub mod lanes;
pub mod loops;
pub mod make;
pub mod options;
pub mod pieces;
pub mod pipeline;
pub mod reductions;
mod rows;
mod shifts;
pub mod simplify;
pub mod split;
pub mod squeeze;
pub mod strips;
pub mod transfers;
mod unflatten;
pub mod window;
