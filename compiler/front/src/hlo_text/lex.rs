//! The cursor: a position in the text and what can be read there. HLO's tokens depend on their context, so there is no
//! separate token stream.

use super::{MAX_DEPTH, PResult};
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::Span;

/// A position in a range of the text. Reading skips blanks and comments first.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pos: usize,
    end: usize,
}

/// Characters of names and opcodes.
fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, pos: 0, end: text.len() }
    }

    /// A cursor over part of the same text.
    pub fn over(text: &'a str, span: Span) -> Cursor<'a> {
        Cursor { text, pos: span.start as usize, end: span.end as usize }
    }

    /// The whole text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The same text from another position.
    pub fn at(&self, pos: usize) -> Cursor<'a> {
        Cursor { pos, ..*self }
    }

    pub fn pos(&self) -> usize {
        self.pos
    }

    pub fn span_from(&self, start: usize) -> Span {
        Span { start: start as u32, end: self.pos.max(start) as u32 }
    }

    pub fn slice(&self, span: Span) -> &'a str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The text still to be read.
    pub fn rest(&self) -> &'a str {
        &self.text[self.pos..self.end]
    }

    /// The byte here, blanks not skipped.
    pub fn here(&self) -> Option<u8> {
        if self.pos < self.end { Some(self.text.as_bytes()[self.pos]) } else { None }
    }

    /// Moves by `n` bytes, which must end at a character boundary.
    pub fn advance(&mut self, n: usize) {
        self.pos += n;
    }

    /// Skips blanks and comments.
    pub fn skip(&mut self) {
        let b = self.text.as_bytes();
        while self.pos < self.end {
            match b[self.pos] {
                b' ' | b'\n' | b'\t' | b'\r' => self.pos += 1,
                b'/' if self.pos + 1 < self.end && b[self.pos + 1] == b'*' => match self.rest()[2..].find("*/") {
                    Some(i) => self.pos += i + 4,
                    None => return,
                },
                b'/' if self.pos + 1 < self.end && b[self.pos + 1] == b'/' => {
                    self.pos += self.rest().find('\n').unwrap_or(self.end - self.pos);
                }
                _ => return,
            }
        }
    }

    /// The next byte after blanks.
    pub fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.here()
    }

    /// Whether the next text is `s`.
    pub fn looking_at(&mut self, s: &str) -> bool {
        self.skip();
        self.rest().as_bytes().starts_with(s.as_bytes())
    }

    /// Reads `s` if it comes next.
    pub fn eat(&mut self, s: &str) -> bool {
        let yes = self.looking_at(s);
        if yes {
            self.pos += s.len();
        }
        yes
    }

    /// Reads the word `s` if it comes next as a whole word.
    pub fn eat_word(&mut self, s: &str) -> bool {
        let yes = self.peek_word() == s;
        if yes {
            self.pos += s.len();
        }
        yes
    }

    pub fn expect(&mut self, s: &str, what: &str) -> PResult<()> {
        if self.eat(s) { Ok(()) } else { Err(self.unexpected(&format!("`{s}` {what}"))) }
    }

    /// What stands before `close`, separated by commas; `between` says where one is missing.
    ///
    /// # Errors
    /// The first of them that cannot be read, or a comma that is missing.
    pub fn separated<T>(
        &mut self,
        close: &str,
        between: &str,
        mut one: impl FnMut(&mut Cursor<'a>) -> PResult<T>,
    ) -> PResult<Vec<T>> {
        let mut out = Vec::new();
        while !self.eat(close) {
            if !out.is_empty() {
                self.expect(",", between)?;
            }
            out.push(one(self)?);
        }
        Ok(out)
    }

    /// Whether only blanks are left.
    pub fn at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Refuses further text.
    pub fn finish(&mut self) -> PResult<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected("the end of the value")) }
    }

    /// The word here (may be empty), blanks skipped, not read.
    pub fn peek_word(&mut self) -> &'a str {
        self.skip();
        let b = &self.text.as_bytes()[self.pos..self.end];
        let n = b.iter().position(|&c| !is_word(c)).unwrap_or(b.len());
        &self.text[self.pos..self.pos + n]
    }

    /// Reads a word: a letter or underscore, then letters, digits and `_.-`.
    pub fn word(&mut self, what: &str) -> PResult<&'a str> {
        let w = self.peek_word();
        if w.is_empty() || !(w.as_bytes()[0].is_ascii_alphabetic() || w.as_bytes()[0] == b'_') {
            return Err(self.unexpected(what));
        }
        self.pos += w.len();
        Ok(w)
    }

    /// Reads a name, with or without `%`.
    pub fn name(&mut self, what: &str) -> PResult<&'a str> {
        if self.peek() != Some(b'%') {
            return self.word(what);
        }
        self.pos += 1;
        let w = if self.here().is_some_and(is_word) { self.peek_word() } else { "" };
        if w.is_empty() {
            return Err(self.unexpected(what));
        }
        self.pos += w.len();
        Ok(w)
    }

    /// Reads a decimal integer.
    pub fn int(&mut self, what: &str) -> PResult<i64> {
        self.skip();
        let b = self.rest().as_bytes();
        let sign = usize::from(b.first() == Some(&b'-'));
        let digits = b[sign..].iter().take_while(|c| c.is_ascii_digit()).count();
        if digits == 0 {
            return Err(self.unexpected(what));
        }
        let start = self.pos;
        let s = &self.rest()[..sign + digits];
        self.pos += s.len();
        s.parse().map_err(|_| {
            Box::new(Diagnostic::error(self.span_from(start), format!("the number {} is too large", shorten(s))))
        })
    }

    /// Reads a non-negative integer.
    pub fn uint(&mut self, what: &str) -> PResult<u64> {
        self.skip();
        let start = self.pos;
        let v = self.int(what)?;
        u64::try_from(v)
            .map_err(|_| Box::new(Diagnostic::error(self.span_from(start), format!("expected {what}, not negative"))))
    }

    /// Reads a string in `"` or `'`; the range inside the quotes (escapes left as they are).
    pub fn string(&mut self) -> PResult<Span> {
        let quote = match self.peek() {
            Some(q @ (b'"' | b'\'')) => q,
            _ => return Err(self.unexpected("a string")),
        };
        let (b, open) = (self.text.as_bytes(), self.pos);
        self.pos += 1;
        while self.pos < self.end && b[self.pos] != quote {
            self.pos += if b[self.pos] == b'\\' { 2 } else { 1 };
        }
        if self.pos >= self.end {
            self.pos = self.end;
            let span = Span { start: open as u32, end: open as u32 + 1 };
            return Err(Box::new(Diagnostic::error(span, "this string is not closed")));
        }
        self.pos += 1;
        Ok(Span { start: open as u32 + 1, end: self.pos as u32 - 1 })
    }

    /// Reads a bracketed group with everything inside.
    pub fn balanced(&mut self) -> PResult<()> {
        self.skip();
        let open = self.pos;
        let mut stack: Vec<u8> = Vec::new();
        loop {
            let Some(b) = self.peek() else {
                let span = Span { start: open as u32, end: open as u32 + 1 };
                return Err(Box::new(Diagnostic::error(span, "this bracket is not closed")));
            };
            match b {
                b'{' => stack.push(b'}'),
                b'[' => stack.push(b']'),
                b'(' => stack.push(b')'),
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'}' | b']' | b')' if stack.pop() != Some(b) => {
                    return Err(self.unexpected("a matching bracket"));
                }
                _ => {}
            }
            self.pos += self.rest().chars().next().map_or(1, char::len_utf8);
            if stack.is_empty() {
                return Ok(());
            }
            if stack.len() > MAX_DEPTH {
                return Err(self.error_here(format!("brackets are nested more than {MAX_DEPTH} deep")));
            }
        }
    }

    /// An error at the next token.
    pub fn error_here(&mut self, message: impl Into<String>) -> Box<Diagnostic> {
        let span = self.token_span();
        Box::new(Diagnostic::error(span, message))
    }

    /// "expected .., found ..".
    pub fn unexpected(&mut self, expected: &str) -> Box<Diagnostic> {
        let span = self.token_span();
        let found = match self.slice(span) {
            "" => "the end of the text".to_string(),
            s => format!("`{}`", shorten(s).escape_debug()),
        };
        Box::new(Diagnostic::error(span, format!("expected {expected}, found {found}")))
    }

    fn token_span(&mut self) -> Span {
        self.skip();
        let n = match self.peek_word().len() {
            0 => self.rest().chars().next().map_or(0, char::len_utf8),
            n => n,
        };
        Span { start: self.pos as u32, end: (self.pos + n) as u32 }
    }
}

/// At most 40 characters of a text that a message quotes.
pub(crate) fn shorten(s: &str) -> String {
    if s.chars().count() <= 40 { s.to_string() } else { s.chars().take(37).chain("...".chars()).collect() }
}
