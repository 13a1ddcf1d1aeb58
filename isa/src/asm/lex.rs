//! Splits lines of assembly into tokens.
//!
//! A word is a run of letters, digits and `_ . % @ + - /`, except that `->` and `//` end it. A line that ends with `|`
//! goes on in the next one. `//` and `#` begin a comment.

use crate::diagnostic::{Diagnostic, Place};

/// A token and its byte range in the source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind<'a> {
    Word(&'a str),
    /// A quoted text, escapes resolved.
    Text(String),
    /// One of `, | : = [ ] { }`.
    Mark(char),
    Arrow,
}

/// The source with its name, for places.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn error(&self, start: usize, end: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message).at(Place::new(self.file, self.text, start, end))
    }
}

/// The tokens of one logical line, and where the line ends.
pub(super) struct Line<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) end: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '%' | '@' | '+' | '-' | '/')
}

/// Reads a text one logical line at a time.
pub(super) struct Lines<'a> {
    source: Source<'a>,
    at: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(source: Source<'a>) -> Lines<'a> {
        Lines::starting(source, 0)
    }

    /// Reads from a byte offset on.
    pub(super) fn starting(source: Source<'a>, at: usize) -> Lines<'a> {
        Lines { source, at }
    }

    /// The next line that has tokens. Lines with a lexical mistake are reported and left out.
    pub(super) fn next(&mut self, errors: &mut Vec<Diagnostic>) -> Option<Line<'a>> {
        let text = self.source.text;
        let mut tokens: Vec<Token<'a>> = Vec::new();
        let mut end = self.at;
        while self.at < text.len() {
            let start = self.at;
            self.at = text[start..].find('\n').map_or(text.len(), |i| start + i + 1);
            end = start + text[start..self.at].trim_end_matches(['\n', '\r']).len();
            if let Err(d) = line(self.source, start, end, &mut tokens) {
                errors.push(d);
                tokens.clear();
            }
            let continues = tokens.last().is_some_and(|t| t.kind == TokenKind::Mark('|'));
            if !tokens.is_empty() && !continues {
                break;
            }
        }
        if tokens.is_empty() { None } else { Some(Line { tokens, end }) }
    }
}

/// Appends the tokens of `source.text[at..end]`.
fn line<'a>(source: Source<'a>, mut at: usize, end: usize, out: &mut Vec<Token<'a>>) -> Result<(), Diagnostic> {
    while let Some(c) = source.text[at..end].chars().next() {
        let rest = &source.text[at..end];
        let start = at;
        let kind = match c {
            ' ' | '\t' | '\r' => {
                at += 1;
                continue;
            }
            '#' => return Ok(()),
            _ if rest.starts_with("//") => return Ok(()),
            _ if rest.starts_with("->") => {
                at += 2;
                TokenKind::Arrow
            }
            ',' | '|' | ':' | '=' | '[' | ']' | '{' | '}' => {
                at += 1;
                TokenKind::Mark(c)
            }
            '"' => {
                let (text, length) = quoted(source, start, end)?;
                at += length;
                TokenKind::Text(text)
            }
            c if is_word(c) => {
                let stop = |(i, c): &(usize, char)| {
                    !is_word(*c) || rest[*i..].starts_with("->") || rest[*i..].starts_with("//")
                };
                let length = rest.char_indices().find(stop).map_or(rest.len(), |(i, _)| i);
                at += length;
                TokenKind::Word(&rest[..length])
            }
            c => return Err(source.error(start, start + c.len_utf8(), format!("unexpected character `{c}`"))),
        };
        out.push(Token { kind, start, end: at });
    }
    Ok(())
}

/// A quoted text from its opening quote on, and the bytes it takes.
fn quoted(source: Source<'_>, start: usize, end: usize) -> Result<(String, usize), Diagnostic> {
    let body = &source.text[start + 1..end];
    let mut text = String::new();
    let mut chars = body.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Ok((text, i + 2)),
            '\\' => {
                let bad = |at: usize| {
                    source
                        .error(start + 1 + i, start + 2 + at, "unknown escape in a quoted text")
                        .help("known are \\\\ \\\" \\n \\r \\t \\u{hex}")
                };
                match chars.next() {
                    Some((_, '\\')) => text.push('\\'),
                    Some((_, '"')) => text.push('"'),
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, 't')) => text.push('\t'),
                    Some((at, 'u')) => {
                        let inner = body[at + 1..].strip_prefix('{').and_then(|b| b.split_once('}')).map(|b| b.0);
                        let value = inner.and_then(|h| u32::from_str_radix(h, 16).ok()).and_then(char::from_u32);
                        let (Some(inner), Some(value)) = (inner, value) else { return Err(bad(at)) };
                        text.push(value);
                        // The braces and digits are ASCII: one character each.
                        chars.nth(inner.len() + 1);
                    }
                    Some((at, _)) => return Err(bad(at)),
                    None => break,
                }
            }
            c => text.push(c),
        }
    }
    Err(source.error(start, end, "the quoted text does not end on its line"))
}

/// Quotes a text so that the lexer reads it back; words that stand for themselves stay bare.
pub(super) fn quote(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if bare {
        return text.to_string();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Reads the tokens of a line one after the other.
pub(super) struct Cursor<'s, 't> {
    pub(super) source: Source<'s>,
    pub(super) tokens: &'t [Token<'s>],
    /// Byte offset of the line's end, for errors about what is missing.
    pub(super) end: usize,
}

impl<'s> Cursor<'s, '_> {
    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// An error at the next token, or at the end of the line.
    pub(super) fn error(&self, message: impl Into<String>) -> Diagnostic {
        match self.tokens.first() {
            Some(t) => self.source.error(t.start, t.end, message),
            None => self.source.error(self.end, self.end, message),
        }
    }

    /// Takes the next token if it is this mark.
    pub(super) fn take_mark(&mut self, mark: char) -> bool {
        let found = self.tokens.first().is_some_and(|t| t.kind == TokenKind::Mark(mark));
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    /// Takes the next token if it is this word.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.tokens.first().is_some_and(|t| t.kind == TokenKind::Word(word));
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    pub(super) fn mark(&mut self, mark: char) -> Result<(), Diagnostic> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.error(format!("expected `{mark}`"))) }
    }

    pub(super) fn arrow(&mut self) -> Result<(), Diagnostic> {
        match self.tokens.first() {
            Some(t) if t.kind == TokenKind::Arrow => {
                self.tokens = &self.tokens[1..];
                Ok(())
            }
            _ => Err(self.error("expected `->`")),
        }
    }

    /// The next word with its byte range.
    pub(super) fn word(&mut self, what: &str) -> Result<(&'s str, usize, usize), Diagnostic> {
        match self.tokens.first() {
            Some(Token { kind: TokenKind::Word(w), start, end }) => {
                self.tokens = &self.tokens[1..];
                Ok((w, *start, *end))
            }
            _ => Err(self.error(format!("expected {what}"))),
        }
    }

    /// A name: a word or a quoted text.
    pub(super) fn name(&mut self, what: &str) -> Result<String, Diagnostic> {
        match self.tokens.first().map(|t| &t.kind) {
            Some(TokenKind::Word(w)) => {
                let name = w.to_string();
                self.tokens = &self.tokens[1..];
                Ok(name)
            }
            Some(TokenKind::Text(t)) => {
                let name = t.clone();
                self.tokens = &self.tokens[1..];
                Ok(name)
            }
            Some(TokenKind::Mark(_) | TokenKind::Arrow) | None => Err(self.error(format!("expected {what}"))),
        }
    }

    /// A whole number, decimal or hexadecimal, in a range.
    pub(super) fn integer(&mut self, what: &str, min: i128, max: i128) -> Result<i128, Diagnostic> {
        let (word, start, end) = self.word(what)?;
        match integer(word) {
            Some(n) if (min..=max).contains(&n) => Ok(n),
            Some(_) => Err(self.source.error(start, end, format!("{what} takes {min} to {max}"))),
            None => Err(self.source.error(start, end, format!("expected {what}, a whole number"))),
        }
    }

    /// A real number that is finite.
    pub(super) fn real(&mut self, what: &str) -> Result<f64, Diagnostic> {
        let (word, start, end) = self.word(what)?;
        match word.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(x),
            _ => Err(self.source.error(start, end, format!("expected {what}, a finite number"))),
        }
    }

    /// Fails if tokens are left.
    pub(super) fn finish(&self) -> Result<(), Diagnostic> {
        if self.is_empty() { Ok(()) } else { Err(self.error("expected the end of the line")) }
    }
}

/// The value of a decimal or hexadecimal number.
pub(super) fn integer(word: &str) -> Option<i128> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(d) => (true, d),
        None => (false, word),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.replace('_', "").parse().ok()?,
        None => return None,
    };
    Some(if negative { -(value as i128) } else { value as i128 })
}
