//! The partitioner: a program of whole arrays, annotated with shardings, becomes the program that every device runs.
//!
//! [`partition`] goes from a verified module to another one, which is what XLA's partitioner would give: local shapes,
//! collectives, and numbers of parts computed from the partition's id. Everything behind it knows nothing of shardings.
//!
//! - `mesh`, `sharding`, `annotation`: devices by coordinates, how arrays are divided, how programs write it;
//! - `ir`, `import`, `split`: the program without calls and tuples, its annotations read, constants made anew for every use;
//! - `rule`: what every operation means to shardings; `propagate`: a sharding for every value; `resolve`: the division of
//!   every operation;
//! - `reshard`: from one sharding to another; `make`, `local`, `emit`: the device's program;
//! - `boundary`: cutting inputs, joining outputs.
//!
//! Any sharding of the values inside gives the same numbers. What is decided here is time and memory.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod annotation;
mod boundary;
mod emit;
mod facts;
mod halo;
mod import;
mod ir;
mod local;
mod make;
pub mod mesh;
mod propagate;
mod reshard;
mod resolve;
mod rule;
pub mod sharding;
mod split;

pub use boundary::{Boundary, Edge, Part};
pub use facts::{boundary, is_annotated, partitions};

use std::collections::BTreeMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Module, Span, verify};

/// Something that could not be divided: what, why, and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub name: String,
    pub span: Span,
    pub message: String,
    /// Bytes that every device holds of it beyond its part.
    pub bytes: u64,
}

/// A value with its sharding, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The operation that made it.
    pub name: String,
    /// Of the whole array.
    pub shape: String,
    pub sharding: String,
}

/// What partitioning gave.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// The program of every device.
    pub module: Module,
    pub boundary: Boundary,
    pub notes: Vec<Note>,
    pub listed: Vec<Listed>,
    /// Bytes that a device receives by kind of exchange; those of loops count once.
    pub traffic: BTreeMap<String, u64>,
}

/// What becomes of the entry's parameters and results that no annotation divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsaid {
    /// They are divided as suits the program.
    Free,
    /// Every partition has all of them.
    Replicated,
    /// Every partition has all of the parameters. Results are divided as suits the program, where that is even: their
    /// sizes need no padding.
    FreeResults,
}

/// Partitions a verified module among `devices` partitions.
///
/// # Errors
/// Annotations that cannot be read or do not fit, what devices cannot do on parts.
pub fn partition(module: &Module, devices: u64, unsaid: Unsaid) -> Result<Partitioned, CompileError> {
    let (mut program, mesh) = import::import(module, devices, unsaid)?;
    split::split(&mut program);
    propagate::propagate(&mut program, module, &mesh);
    if unsaid == Unsaid::FreeResults {
        program.even_results(&mesh);
    }
    let done = emit::emit(module, &program, &mesh)?;
    if let Err(errors) = verify::verify(&done.module) {
        let all: Vec<String> = errors.iter().take(3).map(|e| format!("{e:?}")).collect();
        return Err(CompileError::internal("spmd", all.join("; ")));
    }
    Ok(done)
}
