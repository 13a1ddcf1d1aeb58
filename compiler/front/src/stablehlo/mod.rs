//! StableHLO text to graphs.
//!
//! `parse` reads the grammar (generic and pretty forms, several modules split by `// -----`) into `ast`; `lower` builds
//! one graph a module: functions become computations, regions become computations called by their operation, values
//! that a region takes from outside become part of the loop state or an operand of the branch (constants are copied
//! into the region). `chlo` operations without an HLO counterpart are written out by `chlo`.
//!
//! Custom calls, among them the `check.expect_*` of self-checking programs, stay custom calls.

mod ast;
mod attr;
mod chlo;
mod collective;
mod contraction;
mod control;
mod data;
mod dense;
mod dynamic;
mod location;
mod lower;
mod parallel;
mod parse;
mod pretty;
mod quant;
mod refine;
mod sharding;
mod special;
mod types;
mod zeta;

use super::hlo_text::lex::Cursor;
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::{Module, Span};

/// Reads StableHLO text: one graph for each module.
///
/// Every operation has been checked against its shape rule. The diagnostics tell what was left out without harm.
///
/// # Errors
/// What keeps the text from being read; every diagnostic has a place in `text`.
pub fn parse_stablehlo(text: &str) -> Result<(Vec<Module>, Vec<Diagnostic>), Vec<Diagnostic>> {
    if text.len() >= u32::MAX as usize {
        return Err(vec![Diagnostic::error(Span::default(), "the text is larger than 4 GiB")]);
    }
    let (mut modules, mut notes) = (Vec::new(), Vec::new());
    for section in sections(text) {
        let mut c = Cursor::over(text, section);
        if c.at_end() {
            continue;
        }
        for raw in parse::modules(&mut c).map_err(|d| vec![*d])? {
            modules.extend(lower::programs(text, &raw, &mut notes).map_err(|d| vec![*d])?);
        }
    }
    if modules.is_empty() {
        let d = Diagnostic::error(Span::default(), "the text has no module");
        return Err(vec![d.note("StableHLO text begins with `module @name {`")]);
    }
    Ok((modules, notes))
}

/// The parts between lines that begin with `// -----`.
fn sections(text: &str) -> Vec<Span> {
    let mut out = Vec::new();
    let (mut start, mut line) = (0, 0);
    while line < text.len() {
        let end = text[line..].find('\n').map_or(text.len(), |i| line + i + 1);
        if text[line..end].starts_with("// -----") {
            out.push(Span { start: start as u32, end: line as u32 });
            start = end;
        }
        line = end;
    }
    out.push(Span { start: start as u32, end: text.len() as u32 });
    out
}
