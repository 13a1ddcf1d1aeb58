//! The contract between compiler and simulator: element types, memory layout, instructions, programs, chips.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]
#![warn(missing_docs)]

pub mod alike;
pub mod asm;
mod byte_string;
pub mod chip;
pub mod container;
pub mod decode;
pub mod diagnostic;
pub mod dma;
pub mod dtype;
pub mod effects;
pub mod encode;
pub mod encoding;
pub mod float;
pub mod inst;
pub mod layout;
pub mod opcodes;
pub mod pack;
pub mod program;
pub mod reference;
pub mod table;
pub mod topology;
pub mod validate;

pub use chip::{ChipConfig, ChipError};
pub use container::{ContainerError, read_program, write_code, write_program};
pub use decode::{DecodeError, decode_bundles, decode_code};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use dma::{DmaDesc, DmaDim, Space};
pub use dtype::DType;
pub use effects::{Access, File, Reg, Resource};
pub use encode::{EncodeError, encode_bundles};
pub use float::F8;
pub use inst::{Bundle, Bundles, Inst};
pub use layout::Layout;
pub use opcodes::{Function, Op};
pub use program::Program;
pub use table::{Class, Effect, Kind, MxuFormat, Slot};
pub use topology::Topology;
pub use validate::ProgramError;
