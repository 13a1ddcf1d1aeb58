//! Programs in any form: HLO text, StableHLO text, assembly, compiled files. The kind is found from the content.

use crate::RuntimeError;
use systole_compiler::graph::{self, Module};
use systole_compiler::{diag, front};
use systole_isa::{ChipConfig, Program};

/// A program as its file holds it.
pub enum Source {
    /// A verified module and its text.
    Module {
        module: Box<Module>,
        text: String,
    },
    Program(Box<Program>),
}

/// Reads a program. `color`: diagnostics with terminal colours. Warnings are appended to `warnings`, rendered.
///
/// # Errors
/// Anything wrong with the text or file, rendered with place and cause.
pub fn read(
    name: &str,
    bytes: &[u8],
    chip: &ChipConfig,
    color: bool,
    warnings: &mut Vec<String>,
) -> Result<Source, RuntimeError> {
    if systole_isa::container::is_program(bytes) {
        return systole_isa::container::read_program(bytes)
            .map(|p| Source::Program(Box::new(p)))
            .map_err(|e| RuntimeError::Source(format!("{name}: {e}")));
    }
    if bytes.starts_with(b"ML\xefR") {
        let hint = "MLIR bytecode is not read; write text, e.g. jax.jit(f).lower(x).as_text()";
        return Err(RuntimeError::Source(format!("{name}:1:1: {hint}")));
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    if systole_isa::asm::is_assembly(&text) {
        return systole_isa::asm::assemble(&text, name, Some(chip))
            .map(|p| Source::Program(Box::new(p)))
            .map_err(|e| RuntimeError::Source(e.to_string()));
    }
    let (module, notes) =
        front::hlo_text::parse_hlo(&text).map_err(|e| RuntimeError::Source(diag::render(&e, name, &text, color)))?;
    if !notes.is_empty() {
        warnings.push(diag::render(&notes, name, &text, color));
    }
    graph::verify::verify(&module).map_err(|errors| {
        let all: Vec<diag::Diagnostic> = errors.into_iter().map(diag::Diagnostic::from).collect();
        RuntimeError::Source(diag::render(&all, name, &text, color))
    })?;
    Ok(Source::Module { module: Box::new(module), text })
}
