//! MLIR bytecode of any dialect.
//!
//! [`Bytecode::read`] reads a file: its strings, dialects, attributes, types, properties, resources, and the operations
//! with their regions. What a dialect encodes in a way of its own stays bytes that the front end of the dialect decodes
//! with a [`Reader`]; what the builtin dialect encodes is read here ([`Attribute`], [`Type`], [`Location`]). Attributes
//! and types are decoded when they are asked for.
//!
//! The layout of the format is that of MLIR's `BytecodeFormat.md`, versions 0 to 6.
//!
//! Invariants, for any bytes whatever:
//! - no panic, and memory within a small multiple of the file's size;
//! - every index in what was read ([`ValueId`], [`AttributeId`], [`TypeId`], block numbers) exists;
//! - attributes may contain themselves: who walks them counts the depth ([`MAX_DEPTH`]).

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod attribute;
mod error;
mod ir;
mod location;
mod module;
mod reader;
mod types;

pub use attribute::Attribute;
pub use error::Error;
pub use ir::{Argument, Block, Operation, Region, ValueId};
pub use location::{Frame, Location};
pub use module::{AttributeId, Bytecode, Custom, Encoding, Resource, TypeId};
pub use reader::Reader;
pub use types::{FloatKind, Signedness, Type};

/// Regions inside one another, attributes inside one another, and types inside one another at most.
pub const MAX_DEPTH: usize = 200;

/// The bytes that files of bytecode begin with.
pub const MAGIC: &[u8] = b"ML\xefR";

/// Whether bytes are MLIR bytecode.
pub fn is_bytecode(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}
