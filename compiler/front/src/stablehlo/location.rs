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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_the_innermost_line_are_kept() {
        let text = "\"f\"(\"a.py\":1:2 to :9) \"a.py\":7:0";
        let at = |part: &str| {
            let start = text.find(part).expect("in the text") as u32;
            Span { start, end: start + part.len() as u32 }
        };
        let mut defined = Definitions::default();
        defined.insert("loc1", at("\"f\"(\"a.py\":1:2 to :9)"));
        defined.insert("loc2", at("\"a.py\":7:0"));
        for (form, expected) in [
            ("\"jit(f)/add\"(#loc1)", Some(r#"{op_name="jit(f)/add" source_file="a.py" source_line=1}"#)),
            ("callsite(#loc1 at #loc2)", Some(r#"{source_file="a.py" source_line=1}"#)),
            ("#loc2", Some(r#"{source_file="a.py" source_line=7}"#)),
            ("\"only a name\"", Some(r#"{op_name="only a name"}"#)),
            ("unknown", None),
            ("#loc9", None),
        ] {
            let whole = format!("{text}\n{form}");
            let inside = Span { start: text.len() as u32 + 1, end: whole.len() as u32 };
            assert_eq!(metadata(&whole, inside, &defined).as_deref(), expected, "{form}");
        }
    }

    #[test]
    fn definitions_that_name_themselves_end() {
        let text = "callsite(#loc1 at #loc1)";
        let mut defined = Definitions::default();
        defined.insert("loc1", Span { start: 0, end: text.len() as u32 });
        assert_eq!(metadata(text, Span { start: 0, end: text.len() as u32 }, &defined), None);
    }
}
