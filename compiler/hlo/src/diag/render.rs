//! Diagnostics as text with carets.

use super::Span;
use super::{Diagnostic, Severity};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Bytes of a line that are shown at most; longer lines are cut around the place.
const MAX_SHOWN: usize = 160;
/// Diagnostics that are shown at most.
const MAX_COUNT: usize = 20;

/// Line and column (both from 1, columns in characters) of a byte offset; beyond the end gives the end.
pub fn line_col(text: &str, offset: u32) -> (usize, usize) {
    let at = floor_boundary(text, offset as usize);
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.bytes().filter(|&b| b == b'\n').count() + 1, before[start..].chars().count() + 1)
}

/// Renders diagnostics with the text they speak of; each names `file:line:column`.
///
/// `text` is the text that was parsed; spans beyond it are moved to its end.
pub fn render(diagnostics: &[Diagnostic], file: &str, text: &str, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(MAX_SHOWN);
    let mut out = String::new();
    for d in diagnostics.iter().take(MAX_COUNT) {
        render_one(d, file, text, &renderer, &mut out);
    }
    if diagnostics.len() > MAX_COUNT {
        out.push_str(&format!("... and {} more\n", diagnostics.len() - MAX_COUNT));
    }
    out
}

fn render_one(d: &Diagnostic, file: &str, text: &str, renderer: &Renderer, out: &mut String) {
    let level = match d.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let main = excerpt(text, d.span);
    let (line, column) = line_col(text, d.span.start);
    let mut snippets: Vec<(Excerpt, &str)> = Vec::new();
    for (span, label) in d.labels.iter().take(4) {
        snippets.push((excerpt(text, *span), label));
    }
    let title = level.primary_title(d.message.as_str());
    let path = format!("{file}:{line}:{column}");
    let mut group = Group::with_title(title);
    if text.is_empty() || main.text.is_empty() {
        group = group.element(annotate_snippets::Origin::path(path.as_str()));
    } else {
        let mark = AnnotationKind::Primary.span(main.range.clone()).label(d.label.as_str());
        group = group.element(Snippet::source(main.text.as_str()).line_start(main.line).path(file).annotation(mark));
    }
    for (e, label) in snippets.iter().filter(|(e, _)| !e.text.is_empty()) {
        let mark = AnnotationKind::Context.span(e.range.clone()).label(*label);
        group = group.element(Snippet::source(e.text.as_str()).line_start(e.line).annotation(mark));
    }
    if let Some(note) = &d.note {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    let body = renderer.render(&[group]);
    // The library counts columns of the excerpt; the place that is named is the one in the file.
    let shown = format!("{file}:{}:{}", main.line, main.column);
    out.push_str(&body.replacen(&shown, &path, 1));
    out.push('\n');
}

/// One line of the source, cut to a size that fits a screen, with a byte range in it.
struct Excerpt {
    text: String,
    line: usize,
    /// Column of the range's start in `text`, from 1.
    column: usize,
    range: std::ops::Range<usize>,
}

fn excerpt(text: &str, span: Span) -> Excerpt {
    let at = floor_boundary(text, span.start as usize);
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
    let stop = floor_boundary(text, span.end as usize).clamp(at, end);
    let line = text[..start].bytes().filter(|&b| b == b'\n').count() + 1;
    let from = if at - start > MAX_SHOWN / 2 { floor_boundary(text, at - MAX_SHOWN / 2) } else { start };
    let to = floor_boundary(text, end.min(from + MAX_SHOWN)).max(at);
    let (head, tail) = (if from > start { "..." } else { "" }, if to < end { "..." } else { "" });
    let clean = |s: &str| -> String { s.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() };
    let before = format!("{head}{}", clean(&text[from..at]));
    let marked = clean(&text[at..stop.min(to)]);
    let after = clean(&text[stop.min(to)..to]);
    let range = before.len()..(before.len() + marked.len());
    let column = before.chars().count() + 1;
    Excerpt { text: format!("{before}{marked}{after}{tail}"), line, column, range }
}

/// The last character boundary at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, start: u32, end: u32) -> String {
        render(
            &[Diagnostic::error(Span { start, end }, "bad thing").label("here").note("do good")],
            "a.hlo",
            text,
            false,
        )
    }

    #[test]
    fn names_the_place_and_points_at_it() {
        let s = shown("one\ntwo three\n", 8, 13);
        assert!(s.contains("a.hlo:2:5"), "{s}");
        assert!(s.contains("error: bad thing") && s.contains("^^^^^ here") && s.contains("do good"), "{s}");
    }

    #[test]
    fn survives_any_text_and_span() {
        for text in ["", "\n", "é", "\u{0}\u{7f}\u{1}abc", "x\r\ny", "\t\ttab"] {
            for start in 0..8 {
                for end in 0..8 {
                    assert!(shown(text, start, end).contains("a.hlo:"), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn cuts_long_lines_but_names_the_true_column() {
        let text = "x".repeat(100_000);
        let s = shown(&text, 50_000, 50_010);
        assert!(s.contains("a.hlo:1:50001"), "{s}");
        assert!(s.len() < 2000);
    }
}
