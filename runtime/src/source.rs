//! Programs in any form: HLO text, StableHLO text, MLIR bytecode of StableHLO, HLO protos, plans, assembly, compiled files. The
//! kind is found from the content.

use crate::RuntimeError;
use systole_compiler::graph::{self, Module, Op};
use systole_compiler::plan::{self, Plan};
use systole_compiler::{diag, front, spmd};
use systole_isa::{ChipConfig, Program};

/// A program as its file holds it.
#[derive(Clone)]
pub enum Source {
    /// A verified module and its text.
    Module {
        module: Box<Module>,
        text: String,
    },
    Program(Box<Program>),
    /// A plan that goes together on the chip.
    Plan(Box<Plan>),
}

impl Source {
    /// The replicas and partitions that the program is for: that it has operations or shardings for, or says that it is
    /// partitioned into; one of each if nothing says so.
    pub fn devices(&self) -> (u32, u32) {
        let Source::Module { module, .. } = self else { return (1, 1) };
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        if spmd::is_annotated(module) {
            return (count(module.replicas), count(spmd::partitions(module)));
        }
        match self.is_shared() {
            true => (count(module.replicas), count(module.partitions)),
            false => (1, 1),
        }
    }

    /// Whether something divides its work: shardings, partitions, or operations that several devices do together or that tell them
    /// apart.
    pub fn is_shared(&self) -> bool {
        let Source::Module { module, .. } = self else { return false };
        let several = |op: &Op| {
            let alone = matches!(op, Op::Send { host: true, .. } | Op::Recv { host: true, .. });
            let transfer = matches!(op, Op::Send { .. } | Op::Recv { .. }) && !alone;
            transfer || matches!(op, Op::Collective { .. } | Op::ReplicaId | Op::PartitionId)
        };
        let divided = spmd::is_annotated(module) || module.partitions > 1;
        divided || module.computations.iter().flat_map(|c| &c.nodes).any(|n| several(&n.op))
    }
}

/// Reads a file of exactly one program; else as [`read`].
///
/// # Errors
/// As [`read`], and a file of several modules.
pub fn read_one(
    name: &str,
    bytes: &[u8],
    chip: &ChipConfig,
    color: bool,
    warnings: &mut Vec<String>,
) -> Result<Source, RuntimeError> {
    let mut all = read(name, bytes, chip, color, warnings)?;
    match (all.pop(), all.len()) {
        (Some(one), 0) => Ok(one),
        (_, n) => Err(RuntimeError::Source(format!("{name}: {} modules where one program is due", n + 1))),
    }
}

/// Reads the programs of a file: one, or several StableHLO modules. `color`: diagnostics with terminal colours.
/// Warnings are appended to `warnings`, rendered.
///
/// # Errors
/// Anything wrong with the text or file, rendered with place and cause.
pub fn read(
    name: &str,
    bytes: &[u8],
    chip: &ChipConfig,
    color: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Source>, RuntimeError> {
    let program = |p| vec![Source::Program(Box::new(p))];
    if systole_isa::container::is_program(bytes) {
        let read = systole_isa::container::read_program(bytes);
        return read.map(program).map_err(|e| RuntimeError::Source(format!("{name}: {e}")));
    }
    if let Some(bytecode) = front::vhlo::bytecode(bytes) {
        let text = front::vhlo::to_text(bytecode)
            .map_err(|e| RuntimeError::Source(format!("{name}: damaged or foreign MLIR bytecode at {e}")))?;
        // Places are in the text.
        return modules(&format!("{name}.mlir"), text, color, warnings);
    }
    if front::hlo_proto::is_proto(bytes) || name.ends_with(".pb") {
        let text = front::hlo_proto::to_text(bytes)
            .map_err(|d| RuntimeError::Source(format!("{name}: damaged HLO proto at byte {}: {}", d.at, d.what)))?;
        // Places are in the text.
        return modules(&format!("{name}.hlo"), text, color, warnings);
    }
    // A byte-order mark says nothing in UTF-8.
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).into_owned();
    if systole_isa::asm::is_assembly(&text) {
        let read = systole_isa::asm::assemble(&text, name, Some(chip));
        return read.map(program).map_err(|e| RuntimeError::Source(e.to_string()));
    }
    if plan::text::is_plan(&text) {
        let wrong = |e: String| RuntimeError::Source(format!("{name}:{e}"));
        let plan = plan::text::parse(&text).map_err(|e| wrong(format!("{}: {}", e.line, e.message)))?;
        plan::verify::verify(&plan, chip).map_err(|e| wrong(format!(" {e}")))?;
        return Ok(vec![Source::Plan(Box::new(plan))]);
    }
    modules(name, text, color, warnings)
}

/// The modules of a text, verified.
fn modules(name: &str, text: String, color: bool, warnings: &mut Vec<String>) -> Result<Vec<Source>, RuntimeError> {
    let wrong = |d: &[diag::Diagnostic]| RuntimeError::Source(diag::render(d, name, &text, color));
    let modules = if is_stablehlo(&text) {
        let (modules, notes) = front::parse_stablehlo(&text).map_err(|e| wrong(&e))?;
        if !notes.is_empty() {
            warnings.push(diag::render(&notes, name, &text, color));
        }
        modules
    } else {
        let (module, notes) = front::parse_hlo(&text).map_err(|e| wrong(&e))?;
        if !notes.is_empty() {
            warnings.push(diag::render(&notes, name, &text, color));
        }
        vec![module]
    };
    for module in &modules {
        graph::verify::verify(module).map_err(|errors| {
            let all: Vec<diag::Diagnostic> = errors.into_iter().map(diag::Diagnostic::from).collect();
            wrong(&all)
        })?;
    }
    Ok(modules.into_iter().map(|m| Source::Module { module: Box::new(m), text: text.clone() }).collect())
}

/// Whether a text is StableHLO rather than HLO: by its first word that is no comment.
fn is_stablehlo(text: &str) -> bool {
    let mut rest = text.trim_start();
    while rest.starts_with("//") {
        rest = rest.split_once('\n').map_or("", |r| r.1).trim_start();
    }
    let word = rest.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_')).next().unwrap_or("");
    let mlir = ["module", "builtin.module", "func.func", "func", "sdy.mesh"].contains(&word);
    mlir || rest.starts_with("\"builtin.module\"") || rest.starts_with('#') && rest.contains("module")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_found_from_the_content() {
        for (text, stablehlo) in [
            ("module @m {\n}", true),
            ("// a comment\n\nmodule {", true),
            ("#loc = loc(unknown)\nmodule {", true),
            ("func.func @main() { return }", true),
            ("HloModule module", false),
            ("// module\nHloModule m", false),
            ("ENTRY e { ROOT c = s32[] constant(7) }", false),
            ("module_name", false),
            ("", false),
        ] {
            assert_eq!(is_stablehlo(text), stablehlo, "{text}");
        }
    }
}
