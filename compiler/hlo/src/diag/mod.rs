//! Diagnostics: what a user is told about their program, and where.
//!
//! A [`Diagnostic`] is data: a message, the place in the source text, further labelled places and a note that says what
//! would be accepted. [`render`] is the only place that turns them into text.

mod render;

pub use render::{line_col, render};

/// A byte range of the source text; `0..0` for nodes that no source wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

/// Whether the program is refused or only remarked upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Severity {
    #[default]
    Error,
    Warning,
}

/// One remark about a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// One line, lower case, without a full stop.
    pub message: String,
    /// The primary place; bytes of the source text.
    pub span: Span,
    /// Text beside the caret of the primary place; may be empty.
    pub label: String,
    /// Further places with what they have to do with it.
    pub labels: Vec<(Span, String)>,
    /// What would be accepted.
    pub note: Option<String>,
}

/// A remark that refuses nothing.
pub type Warning = Diagnostic;

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), span, ..Diagnostic::default() }
    }

    /// A warning at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// With text beside the caret.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = text.into();
        self
    }

    /// With one more labelled place.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push((span, text.into()));
        self
    }

    /// With a note that says what would be accepted.
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.note = Some(text.into());
        self
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

/// " (did you mean `x`?)" for the nearest candidate, or nothing.
pub fn did_you_mean<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let best = candidates.into_iter().map(|c| (distance(given, c), c)).min();
    match best {
        Some((d, c)) if d <= given.len().max(3) / 3 => format!(" (did you mean `{c}`?)"),
        _ => String::new(),
    }
}

/// Edit distance of two short ASCII names.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > 8 || a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let next = (corner + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}
