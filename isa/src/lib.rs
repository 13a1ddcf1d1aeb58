//! The contract between compiler and simulator: element types, memory layout, instructions, programs, chips.

pub mod chip;
pub mod diagnostic;
pub mod dma;
pub mod dtype;
pub mod inst;
pub mod layout;
pub mod program;
pub mod table;

pub use chip::{ChipConfig, ChipError};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use dma::{DmaDesc, DmaDim, Space};
pub use dtype::DType;
pub use inst::{Bundle, Inst};
pub use layout::Layout;
pub use program::Program;
pub use table::{Class, Effect, Kind, MxuFormat, Op, Slot};
