//! Where operations come from: `loc("jit(f)/add"(callsite("f"("x.py":3:4) at #loc7)))`.
//!
//! What is kept is the operation's name, which holds JAX's scopes, and the innermost line of Python, both as HLO text has
//! them in `metadata`.

use crate::hlo_text::MAX_DEPTH;
use crate::hlo_text::lex::Cursor;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use systole_hlo::graph::Span;

/// `#loc3 = loc(..)` by name: the place inside the parentheses.
pub(super) type Definitions<'a> = FxHashMap<&'a str, Span>;

/// Locations that are looked at for one at most: they share parts, so a short text can describe an endless stack.
const MAX_PARTS: usize = 200;

/// What a location says.
#[derive(Default)]
struct Place<'a> {
    /// Between its quotes, as written.
    name: &'a str,
    file: &'a str,
    line: u64,
    parts: usize,
}

/// The `metadata` of an operation at a location; `None` where that says nothing.
pub(super) fn metadata(text: &str, inside: Span, definitions: &Definitions<'_>) -> Option<String> {
    let mut place = Place::default();
    let mut c = Cursor::over(text, inside);
    read(&mut c, definitions, &mut place, 0)?;
    let mut out = String::new();
    if !place.name.is_empty() {
        let _ = write!(out, "op_name=\"{}\"", place.name);
    }
    if !place.file.is_empty() {
        let space = if out.is_empty() { "" } else { " " };
        let _ = write!(out, "{space}source_file=\"{}\" source_line={}", place.file, place.line);
    }
    (!out.is_empty()).then(|| format!("{{{out}}}"))
}

/// Reads a location. `None`: its grammar is not known.
fn read<'a>(c: &mut Cursor<'a>, definitions: &Definitions<'a>, out: &mut Place<'a>, depth: usize) -> Option<()> {
    out.parts += 1;
    if depth > MAX_DEPTH || out.parts > MAX_PARTS {
        return None;
    }
    match c.peek()? {
        b'#' => {
            c.advance(1);
            let name = c.peek_word();
            c.advance(name.len());
            let mut inside = Cursor::over(c.text(), *definitions.get(name)?);
            read(&mut inside, definitions, out, depth + 1)
        }
        b'"' => {
            let span = c.string().ok()?;
            let text = c.slice(span);
            if c.eat(":") {
                let line = c.uint("a line").ok()?;
                if out.file.is_empty() {
                    (out.file, out.line) = (text, line);
                }
                return Some(());
            }
            if !c.eat("(") {
                named(out, text);
                return Some(());
            }
            // A name right around a line is the function's; the first around something else is the operation's.
            if !is_line(c) {
                named(out, text);
            }
            read(c, definitions, out, depth + 1)
        }
        b'c' if c.eat_word("callsite") => {
            c.expect("(", "here").ok()?;
            read(c, definitions, out, depth + 1)
        }
        b'f' if c.eat_word("fused") => {
            if c.peek() == Some(b'<') {
                c.angles().ok()?;
            }
            c.expect("[", "here").ok()?;
            read(c, definitions, out, depth + 1)
        }
        _ => Some(()),
    }
}

fn named<'a>(out: &mut Place<'a>, name: &'a str) {
    if out.name.is_empty() && out.file.is_empty() {
        out.name = name;
    }
}

/// Whether a line of a file follows.
fn is_line(c: &Cursor<'_>) -> bool {
    let mut ahead = *c;
    ahead.peek() == Some(b'"') && ahead.string().is_ok() && ahead.eat(":")
}
