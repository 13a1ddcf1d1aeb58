//! Mistakes in a text that the user wrote (a chip file, an override, assembly), with the place and what would do.

use std::fmt;

/// A range of one line of a source text. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the text.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The whole line, and how many of its characters are meant (at least one is underlined).
    pub text: String,
    /// Characters meant, at least 1.
    pub width: usize,
}

impl Place {
    /// The place of byte range `start..end` of `source`; an end beyond the line is cut.
    pub fn new(file: &str, source: &str, start: usize, end: usize) -> Place {
        let floor = |at: usize| (0..=at.min(source.len())).rev().find(|&i| source.is_char_boundary(i)).unwrap_or(0);
        let start = floor(start);
        let line_start = source[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |i| start + i);
        let end = floor(end).clamp(start, line_end);
        Place {
            file: file.to_string(),
            line: source[..line_start].matches('\n').count() + 1,
            column: source[line_start..start].chars().count() + 1,
            text: source[line_start..line_end].trim_end_matches('\r').to_string(),
            width: source[start..end].chars().count().max(1),
        }
    }
}

/// One mistake: what is wrong, where, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// Where, if it is anywhere.
    pub place: Option<Place>,
    /// What would be accepted or was probably meant.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A mistake without a place.
    pub fn new(message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), place: None, help: None }
    }

    /// The same at a place.
    pub fn at(mut self, place: Place) -> Diagnostic {
        self.place = Some(place);
        self
    }

    /// The same with a hint.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(p) = &self.place {
            let number = p.line.to_string();
            let gutter = " ".repeat(number.len());
            // Tabs of the line are kept in the margin so that the caret stays under its character.
            let margin: String = p.text.chars().take(p.column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
            write!(f, "\n{gutter}--> {}:{}:{}", p.file, p.line, p.column)?;
            write!(f, "\n{gutter} |\n{number} | {}\n{gutter} | {margin}{}", p.text, "^".repeat(p.width))?;
            if let Some(help) = &self.help {
                write!(f, "\n{gutter} = {help}")?;
            }
        } else if let Some(help) = &self.help {
            write!(f, ": {help}")?;
        }
        Ok(())
    }
}

/// All mistakes that a stage found, in source order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

/// Mistakes that are printed; the rest are counted.
const SHOWN: usize = 20;

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.0.iter().take(SHOWN).enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{d}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, "\nand {more} more"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate most like `word`, if one is close enough to be meant.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(word, c), c))
        .filter(|(distance, c)| *distance <= 1 + c.len().min(word.len()) / 4)
        .min()
        .map(|(_, c)| c)
}
