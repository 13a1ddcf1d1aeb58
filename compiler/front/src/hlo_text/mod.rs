//! HLO text to a graph.
//!
//! The text is read in two steps. `module` and `instruction` read the grammar into raw computations: names are still
//! names, attributes are ranges of text. `resolve` then orders computations (callees first) and instructions
//! (operands first), and `ops` turns each opcode with its attributes into an [`systole_hlo::graph::Op`].
//!
//! Not here: shape rules (`graph::infer`, used for results whose shape the text leaves out) and the proof that the
//! module means something (`graph::verify`).
//!
//! Limits, so that no text can exhaust the host: [`MAX_DEPTH`] nested brackets, tuples or expressions; arrays of at
//! most [`MAX_BYTES`]; ranks up to [`MAX_RANK`].

pub(crate) mod attrs;
mod collective;
mod instruction;
pub(crate) mod lex;
mod literal;
mod module;
mod ops;
mod resolve;
pub(crate) mod shape;
mod values;

use systole_hlo::diag::{Diagnostic, Warning};
use systole_hlo::graph::{Module, Span};

/// Nesting of tuples, expressions and brackets that is read at most.
pub const MAX_DEPTH: usize = 200;
/// Dimensions of an array at most.
pub const MAX_RANK: usize = 64;
/// Bytes of an array at most (256 TiB: far beyond any chip, and safe to multiply by a padding factor).
pub const MAX_BYTES: u64 = 1 << 48;
/// Devices named by one attribute at most.
pub(crate) const MAX_DEVICES: u64 = 1 << 20;

/// A result of reading: diagnostics are boxed to keep the good path small.
pub(crate) type PResult<T> = Result<T, Box<Diagnostic>>;

/// Reads HLO text.
///
/// The module is not verified: see [`systole_hlo::graph::verify::verify`].
///
/// # Errors
/// What keeps the text from being read; every diagnostic has a place in `text`.
pub fn parse_hlo(text: &str) -> Result<(Module, Vec<Warning>), Vec<Diagnostic>> {
    if text.len() >= u32::MAX as usize {
        return Err(vec![Diagnostic::error(Span::default(), "the text is larger than 4 GiB")]);
    }
    let raw = module::parse(text).map_err(|d| vec![*d])?;
    resolve::resolve(text, raw)
}
