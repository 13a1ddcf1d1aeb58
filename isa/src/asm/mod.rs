//! The text form of programs: assembler and disassembler.
//!
//! Every part of a [`Program`] has a text form, so disassembling and assembling again gives the same file byte for
//! byte; and what a person need not say (addresses, sizes in use) has a default, so that kernels can be written by
//! hand. The language is described in `docs/isa.md`.
//!
//! Any text gives a program or diagnostics with places; nothing panics.

mod code;
mod data;
mod directive;
mod lex;
mod operand;
mod parse;
mod print;

pub(crate) use operand::describe as operand_forms;
pub use print::disassemble;

use crate::chip::ChipConfig;
use crate::diagnostic::Diagnostics;
use crate::program::Program;

/// Why a text is not assembled: all mistakes, with their places.
pub type AsmError = Diagnostics;

/// The chip of an assembly text without a `.chip` directive.
pub const DEFAULT_CHIP: &str = "tpu-v5e";

/// Whether a text looks like assembly: its first word, after comments, is a directive or an opcode's mnemonic.
pub fn is_assembly(text: &str) -> bool {
    let line = text.lines().map(str::trim_start).find(|l| !l.is_empty() && !l.starts_with("//") && !l.starts_with('#'));
    let word = line.and_then(|l| l.split([' ', '\t', '"', ',']).next()).unwrap_or("");
    let directive = word.strip_prefix('.').is_some_and(|w| directive::NAMES.contains(&w));
    directive || crate::opcodes::TABLE.iter().any(|i| i.mnemonic == word)
}

/// Assembles a program. `chip` replaces the chip that the text names; `file_name` is used in messages only.
///
/// # Errors
/// All mistakes of the text; or what [`Program::decode`] finds wrong with the program that it describes.
pub fn assemble(text: &str, file_name: &str, chip: Option<&ChipConfig>) -> Result<Program, AsmError> {
    parse::assemble(text, file_name, chip).map(|(program, _)| program)
}

/// [`assemble`], with the chip that the program was assembled for.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_with_chip(
    text: &str,
    file_name: &str,
    chip: Option<&ChipConfig>,
) -> Result<(Program, ChipConfig), AsmError> {
    parse::assemble(text, file_name, chip)
}
