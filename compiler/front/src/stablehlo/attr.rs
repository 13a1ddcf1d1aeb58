//! Attributes: `{a = 1 : i64, b = #stablehlo.gather<..>, c = dense<..> : tensor<2xi64>}`.

use super::ast::Attr;
use super::types::UNKNOWN;
use crate::hlo_text::lex::Cursor;
use crate::hlo_text::{MAX_DEPTH, PResult};
use systole_hlo::graph::{Shape, Span};
use systole_isa::DType;

impl<'a> Cursor<'a> {
    /// The entries of a dictionary up to its closing text; the opening one has been read.
    pub(crate) fn dict_entries(&mut self, close: &str, depth: usize) -> PResult<Vec<(&'a str, Attr<'a>, Span)>> {
        let out = self.separated(close, &format!("or `{close}` in a dictionary"), |c| {
            c.skip();
            let start = c.pos();
            let key = if c.peek() == Some(b'"') {
                let span = c.string()?;
                c.slice(span)
            } else {
                c.word("an attribute's name")?
            };
            let value = if c.eat("=") { c.attr(depth + 1)? } else { Attr::Unit };
            Ok((key, value, c.span_from(start)))
        })?;
        Ok(out)
    }

    /// A dictionary in braces.
    pub(crate) fn dict(&mut self) -> PResult<Vec<(&'a str, Attr<'a>)>> {
        self.expect("{", "to begin a dictionary")?;
        Ok(self.dict_entries("}", 0)?.into_iter().map(|(k, v, _)| (k, v)).collect())
    }

    /// An attribute's value with the type that may follow it.
    pub(crate) fn attr(&mut self, depth: usize) -> PResult<Attr<'a>> {
        if depth > MAX_DEPTH {
            return Err(self.error_here("attributes are nested too deep"));
        }
        match self.peek() {
            Some(b'"') => {
                let span = self.string()?;
                self.attr_type()?;
                Ok(Attr::Str(self.slice(span)))
            }
            Some(b'[') => {
                self.advance(1);
                let out = self.separated("]", "or `]` in a list", |c| c.attr(depth + 1))?;
                Ok(Attr::List(out))
            }
            Some(b'{') => {
                self.advance(1);
                let entries = self.dict_entries("}", depth)?;
                Ok(Attr::Dict(entries.into_iter().map(|(k, v, _)| (k, v)).collect()))
            }
            Some(b'@') => {
                self.advance(1);
                let name = self.symbol()?;
                while self.eat("::@") {
                    self.symbol()?;
                }
                Ok(Attr::Symbol(name))
            }
            Some(b'#') => {
                self.advance(1);
                let name = self.word("an attribute after `#`")?;
                let inside = if self.here() == Some(b'<') { self.angles()? } else { self.span_from(self.pos()) };
                self.attr_type()?;
                Ok(Attr::Dialect(name, inside))
            }
            Some(b'<') => Ok(Attr::Dialect("", self.angles()?)),
            Some(b'(') => self.parenthesized(),
            Some(b'-' | b'0'..=b'9') => {
                let v = self.number()?;
                self.attr_type()?;
                Ok(v)
            }
            Some(b'!') => {
                self.advance(1);
                let name = self.word("a type after `!`")?;
                if self.here() == Some(b'<') {
                    self.angles()?;
                }
                Ok(Attr::Word(name))
            }
            _ => self.word_attr(),
        }
    }

    /// A function's type, or something in parentheses such as `(1)2`, kept as its place.
    fn parenthesized(&mut self) -> PResult<Attr<'a>> {
        let mut ahead = *self;
        if let Ok(inputs) = ahead.type_list()
            && ahead.eat("->")
        {
            let outputs = match ahead.peek() {
                Some(b'(') => ahead.type_list()?,
                _ => vec![ahead.mlir_type()?],
            };
            *self = ahead;
            return Ok(Attr::Function(inputs, outputs));
        }
        let start = self.pos();
        self.balanced()?;
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.advance(digits);
        Ok(Attr::Dialect("", self.span_from(start)))
    }

    /// A symbol's name after `@`.
    pub(crate) fn symbol(&mut self) -> PResult<&'a str> {
        if self.here() == Some(b'"') {
            let span = self.string()?;
            return Ok(self.slice(span));
        }
        self.word("a symbol's name after `@`")
    }

    /// A number without a type after it.
    pub(crate) fn number(&mut self) -> PResult<Attr<'a>> {
        self.skip();
        let mut ahead = *self;
        ahead.eat("-");
        let hex = ahead.looking_at("0x");
        let text = ahead.peek_word();
        let negative = self.looking_at("-");
        let float = !hex && text.contains(['.', 'e', 'E']);
        if float {
            // The sign of an exponent ends a word only if it is `+`.
            let mut end = ahead.pos() + text.len();
            if text.ends_with(['e', 'E']) && self.at(end).here() == Some(b'+') {
                end += 1 + self.at(end + 1).peek_word().len();
            }
            let start = self.pos();
            let whole = &self.text()[start..end];
            let Ok(v) = whole.parse::<f64>() else { return Err(self.unexpected("a number")) };
            self.advance(end - start);
            return Ok(Attr::Float(v));
        }
        let value = if hex {
            let v = u64::from_str_radix(&text[2..], 16);
            let Ok(v) = v else { return Err(self.unexpected("a hexadecimal number")) };
            *self = ahead;
            self.advance(text.len());
            if negative { (v as i64).wrapping_neg() } else { v as i64 }
        } else {
            let mut wide = *self;
            match self.int("a number") {
                Ok(v) => v,
                Err(e) => {
                    // Unsigned 64-bit values keep their bits.
                    let word = wide.peek_word();
                    let Ok(v) = word.parse::<u64>() else { return Err(e) };
                    *self = wide;
                    self.advance(word.len());
                    v as i64
                }
            }
        };
        Ok(Attr::Int(value))
    }

    /// `true`, `unit`, `dense<..>`, `array<..>`, a type, or a keyword.
    fn word_attr(&mut self) -> PResult<Attr<'a>> {
        let word = self.peek_word();
        match word {
            "" => return Err(self.unexpected("an attribute's value")),
            "dense" | "array" | "tensor" | "tuple" | "complex" | "dense_resource" | "loc" | "vector" => {}
            _ => {
                self.advance(word.len());
                return Ok(match word {
                    "true" => Attr::Bool(true),
                    "false" => Attr::Bool(false),
                    "unit" => Attr::Unit,
                    _ => Attr::Word(word),
                });
            }
        }
        match word {
            "dense" => {
                self.advance(word.len());
                let inside = self.angles()?;
                self.expect(":", "and a type after `dense<..>`")?;
                match self.mlir_type()? {
                    Shape::Array(a) if !a.dims.contains(&UNKNOWN) => Ok(Attr::Dense(inside, a)),
                    Shape::Array(_) | Shape::Tuple(_) | Shape::Token => {
                        Err(self.error_here("`dense` needs the type of a tensor of known sizes"))
                    }
                }
            }
            "array" => {
                self.advance(word.len());
                self.expect("<", "after `array`")?;
                self.element_type()?;
                let mut out = Vec::new();
                if self.eat(":") {
                    loop {
                        out.push(self.attr(0)?);
                        if !self.eat(",") {
                            break;
                        }
                    }
                }
                self.expect(">", "to end the array")?;
                Ok(Attr::List(out))
            }
            "tensor" | "tuple" => {
                self.mlir_type()?;
                Ok(Attr::Word(word))
            }
            "dense_resource" => {
                self.advance(word.len());
                let inside = self.angles()?;
                let name = self.slice(inside).trim().trim_matches('"');
                self.expect(":", "and a type after `dense_resource<..>`")?;
                match self.mlir_type()? {
                    Shape::Array(a) if !a.dims.contains(&UNKNOWN) => Ok(Attr::Resource(name, inside, a)),
                    Shape::Array(_) | Shape::Tuple(_) | Shape::Token => {
                        Err(self.error_here("`dense_resource` needs the type of a tensor of known sizes"))
                    }
                }
            }
            _ => {
                self.advance(word.len());
                if self.peek() == Some(b'(') {
                    self.balanced()?;
                } else if self.peek() == Some(b'<') {
                    self.angles()?;
                }
                Ok(Attr::Word(word))
            }
        }
    }

    /// Skips `: type` after a value.
    fn attr_type(&mut self) -> PResult<()> {
        if !self.looking_at(":") || self.looking_at("::") {
            return Ok(());
        }
        let mut ahead = *self;
        ahead.advance(1);
        let word = ahead.peek_word();
        let scalar = word.starts_with(['i', 'u', 's', 'f', 'b'])
            && word.ends_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase())
            || word == "index";
        if scalar {
            *self = ahead;
            self.advance(word.len());
        } else if word == "tensor" {
            *self = ahead;
            self.mlir_type()?;
        }
        Ok(())
    }

    /// Reads `<..>`; the place inside. Arrows and strings inside do not count.
    pub(crate) fn angles(&mut self) -> PResult<Span> {
        self.expect("<", "here")?;
        let start = self.pos();
        let b = &self.text().as_bytes()[..start + self.rest().len()];
        let mut depth = 1usize;
        let mut i = start;
        while i < b.len() {
            match b[i] {
                b'<' => depth += 1,
                b'-' if b.get(i + 1) == Some(&b'>') => i += 1,
                b'>' => {
                    depth -= 1;
                    if depth == 0 {
                        let span = Span { start: start as u32, end: i as u32 };
                        *self = self.at(i + 1);
                        return Ok(span);
                    }
                }
                b'"' => {
                    let mut c = self.at(i);
                    c.string()?;
                    i = c.pos() - 1;
                }
                _ => {}
            }
            i += 1;
        }
        Err(self.at(start - 1).error_here("this bracket is not closed"))
    }

    /// `key = value, ..` up to the end of a range, as inside `#stablehlo.gather<..>`.
    pub(crate) fn fields(text: &'a str, inside: Span) -> PResult<Vec<(&'a str, Attr<'a>)>> {
        let mut c = Cursor::over(text, inside);
        let mut out = Vec::new();
        while !c.at_end() {
            if !out.is_empty() {
                c.expect(",", "between fields")?;
            }
            let key = c.word("a field's name")?;
            let value = if c.eat("=") { c.attr(0)? } else { Attr::Unit };
            out.push((key, value));
        }
        Ok(out)
    }
}

/// The integers of a list, of `dense<..>` (in order), or of one integer.
pub(crate) fn integers(text: &str, a: &Attr<'_>) -> PResult<Vec<i64>> {
    match a {
        Attr::Int(v) => Ok(vec![*v]),
        Attr::Bool(v) => Ok(vec![i64::from(*v)]),
        Attr::List(items) => {
            let mut out = Vec::new();
            for i in items {
                out.extend(integers(text, i)?);
            }
            Ok(out)
        }
        Attr::Dense(inside, shape) => {
            let literal = super::dense::parse(&mut Cursor::over(text, *inside), shape)?;
            if literal.elements() > 1 << 22 || !(shape.dtype.is_integer() || shape.dtype == DType::Pred) {
                return Err(Cursor::over(text, *inside).error_here("expected a short list of integers"));
            }
            Ok((0..literal.elements()).filter_map(|i| literal.integer(i)).collect())
        }
        Attr::Unit
        | Attr::Float(_)
        | Attr::Str(_)
        | Attr::Symbol(_)
        | Attr::Dict(_)
        | Attr::Dialect(..)
        | Attr::Resource(..)
        | Attr::Function(..)
        | Attr::Word(_) => Err(Cursor::over(text, Span::default()).error_here("expected integers")),
    }
}

/// The shape of a `dense<..>` attribute, or of a list as rank 1.
pub(crate) fn sizes(a: &Attr<'_>) -> Vec<u64> {
    if let Attr::Dense(_, s) | Attr::Resource(_, _, s) = a {
        return s.dims.clone();
    }
    if let Attr::List(l) = a { vec![l.len() as u64] } else { Vec::new() }
}

/// The text of a string: `\\22` is the byte of that hexadecimal number.
pub(crate) fn unescape(s: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(s.len());
    let mut rest = s.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let hex = |b: &[u8]| u8::from_str_radix(std::str::from_utf8(b.get(..2)?).ok()?, 16).ok();
        match (first, tail) {
            (b'\\', _) if hex(tail).is_some() => {
                out.extend(hex(tail));
                rest = &tail[2..];
            }
            (b'\\', [escaped, after @ ..]) => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                rest = after;
            }
            _ => out.push(*first),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
