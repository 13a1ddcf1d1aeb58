//! Mosaic kernels: what Pallas lowers a kernel to for a TPU.
//!
//! A `tpu_custom_call` carries a JSON text with a module in MLIR bytecode, in the serialized dialect `stable_mosaic`.
//! [`Call::parse`] takes the JSON apart, [`Module::decode`] makes a typed [`Module`] of the bytes, [`print()`] shows it as
//! text. What operations mean is not said here: the evaluator and the emitters each know it by themselves.
//!
//! - [`ir`]: modules, functions, operations, types, attributes;
//! - [`kernel`]: what a kernel's function says of its grid and its arguments;
//! - [`decode`]: bytecode to [`ir`]; [`text`]: the types and attributes that bytecode holds as text;
//! - [`walk()`]: which blocks a window shows while the grid runs;
//! - `hoist`: products moved up to where their operands are known;
//! - [`console`]: what kernels print and check, as calls of the host;
//! - [`config`]: the JSON around it.
//!
//! Invariants, for any bytes whatever: a result or an error, no panic, memory within a small multiple of the input. Every
//! [`Value`] of a module has a type, regions have one block.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod config;
pub mod console;
pub mod decode;
mod hoist;
pub mod ir;
pub mod kernel;
mod print;
pub mod text;
pub mod walk;

pub use config::Call;
pub use ir::{Attr, Block, Element, Function, MemRef, Module, Operation, Place, Space, Type, Value};
pub use kernel::{Kernel, Role, Window};
pub use print::print;
pub use walk::{Walk, apart, walk};

/// The version of the serialized dialect that this crate reads: the one of jaxlib 0.10.
pub const VERSION: i64 = 11;

/// Why a kernel cannot be read or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}", place.as_ref().map(|p| format!(" ({p})")).unwrap_or_default())]
pub struct Error {
    pub what: String,
    /// The line of Python that it comes from.
    pub place: Option<String>,
}

impl Error {
    /// An error of the module as a whole.
    pub fn new(what: impl Into<String>) -> Error {
        Error { what: what.into(), place: None }
    }

    /// An error at an operation.
    pub fn at(o: &Operation, what: impl Into<String>) -> Error {
        let place = o.place.as_ref().map(ToString::to_string);
        Error { what: format!("`{}`: {}", o.name, what.into()), place }
    }
}

impl From<systole_mlir_bytecode::Error> for Error {
    fn from(e: systole_mlir_bytecode::Error) -> Error {
        Error::new(e.to_string())
    }
}
