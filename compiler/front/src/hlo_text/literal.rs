//! Literals: the text between the parentheses of `constant(..)`.

use super::lex::{Cursor, shorten};
use super::{MAX_DEPTH, PResult};
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::number::{encode_float, encode_nan, integer_range, max_float};
use systole_hlo::graph::{ArrayShape, Literal, Shape};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// A literal or a tuple of them.
#[derive(Clone, Debug)]
pub(crate) enum LiteralTree {
    Array(Literal),
    Tuple(Vec<LiteralTree>),
}

/// What reading a literal found besides its elements.
#[derive(Default)]
pub(crate) struct LiteralNotes {
    /// The text says `{...}` where elements should be.
    pub elided: bool,
}

/// Reads a literal of a shape.
pub(crate) fn parse(c: &mut Cursor<'_>, shape: &Shape, notes: &mut LiteralNotes) -> PResult<LiteralTree> {
    parse_at(c, shape, notes, 0)
}

fn parse_at(c: &mut Cursor<'_>, shape: &Shape, notes: &mut LiteralNotes, depth: usize) -> PResult<LiteralTree> {
    match shape {
        Shape::Array(a) => {
            if c.at_shape() && c.peek() != Some(b'(') {
                c.shape()?; // an old form repeats the shape
            }
            array(c, a, notes).map(LiteralTree::Array)
        }
        Shape::Tuple(t) if depth < MAX_DEPTH => {
            c.expect("(", "to begin a tuple literal")?;
            let mut out = Vec::new();
            for (i, s) in t.iter().enumerate() {
                if i > 0 {
                    c.expect(",", "between tuple elements")?;
                }
                out.push(parse_at(c, s, notes, depth + 1)?);
            }
            c.expect(")", "to end a tuple literal")?;
            Ok(LiteralTree::Tuple(out))
        }
        Shape::Tuple(_) => Err(c.error_here("tuples are nested too deep")),
        Shape::Token => Err(c.error_here("a token has no literal")),
    }
}

fn array(c: &mut Cursor<'_>, shape: &ArrayShape, notes: &mut LiteralNotes) -> PResult<Literal> {
    let size = shape.dtype.host_bytes();
    let room = (shape.elements() as usize).min(c.rest().len()).saturating_mul(size);
    if let Some(element) = splat(c, shape)? {
        return Ok(Literal::splat(shape.dtype, &shape.dims, &element));
    }
    let mut reader = Reader { shape, bytes: Vec::with_capacity(room), elided: false };
    reader.dimension(c, 0)?;
    if reader.elided {
        notes.elided = true;
        return Ok(Literal::splat(shape.dtype, &shape.dims, &vec![0; size]));
    }
    let bytes = reader.bytes;
    let (first, rest) = bytes.split_at(size.min(bytes.len()));
    if rest.chunks_exact(size).all(|e| e == first) && !first.is_empty() {
        return Ok(Literal::splat(shape.dtype, &shape.dims, first));
    }
    Ok(Literal::new(shape.dtype, &shape.dims, bytes))
}

/// `{...x}`: all elements are `x`, the compact form of this compiler's own printer.
fn splat(c: &mut Cursor<'_>, shape: &ArrayShape) -> PResult<Option<Vec<u8>>> {
    let mut ahead = *c;
    if shape.rank() == 0 || !ahead.eat("{") || !ahead.eat("...") || ahead.peek() == Some(b'}') {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    element(&mut ahead, shape.dtype, &mut bytes)?;
    ahead.expect("}", "after the element that all are")?;
    *c = ahead;
    Ok(Some(bytes))
}

struct Reader<'s> {
    shape: &'s ArrayShape,
    bytes: Vec<u8>,
    elided: bool,
}

impl Reader<'_> {
    fn dimension(&mut self, c: &mut Cursor<'_>, dim: usize) -> PResult<()> {
        if dim == self.shape.rank() {
            if c.peek() == Some(b'{') {
                if c.clone_eat_elided() {
                    return self.elide(c);
                }
                let rank = self.shape.rank();
                return Err(
                    c.error_here(format!("braces are nested deeper than the {rank} dimensions of {}", self.shape))
                );
            }
            return element(c, self.shape.dtype, &mut self.bytes);
        }
        let expected = self.shape.dims[dim];
        c.expect("{", &format!("to begin dimension {dim} of {}", self.shape))?;
        if c.eat("...") {
            self.elided = true;
            return c.expect("}", "after `...`");
        }
        let mut n = 0u64;
        if c.peek() != Some(b'}') {
            loop {
                if n == expected {
                    return Err(c.error_here(format!("dimension {dim} of {} has only {expected} elements", self.shape)));
                }
                if c.eat("...") {
                    self.elided = true;
                    break;
                }
                self.dimension(c, dim + 1)?;
                n += 1;
                if !c.eat(",") {
                    break;
                }
            }
        }
        if n != expected && !self.elided && c.peek() == Some(b'}') {
            return Err(c.error_here(format!("dimension {dim} of {} needs {expected} elements, not {n}", self.shape)));
        }
        c.expect("}", "or `,` in a literal")
    }

    fn elide(&mut self, c: &mut Cursor<'_>) -> PResult<()> {
        self.elided = true;
        c.balanced()
    }
}

impl Cursor<'_> {
    /// Whether `{...}` is next; nothing is read.
    fn clone_eat_elided(&self) -> bool {
        let mut c = *self;
        c.eat("{") && c.eat("...") && c.eat("}")
    }
}

/// Reads one element and appends its bytes.
fn element(c: &mut Cursor<'_>, dtype: DType, out: &mut Vec<u8>) -> PResult<()> {
    c.skip();
    let bits = match dtype.class() {
        DTypeClass::Pred => pred(c)?,
        DTypeClass::Signed | DTypeClass::Unsigned => integer(c, dtype)?,
        DTypeClass::Float => float(c, dtype)?,
        DTypeClass::Complex => {
            c.expect("(", "to begin a complex number `(re, im)`")?;
            let part = dtype.real();
            for close in [",", ")"] {
                let bits = float(c, part)?;
                out.extend_from_slice(&bits.to_le_bytes()[..part.host_bytes()]);
                c.expect(close, "in a complex number `(re, im)`")?;
            }
            return Ok(());
        }
    };
    out.extend_from_slice(&bits.to_le_bytes()[..dtype.host_bytes()]);
    Ok(())
}

/// The text up to the next separator.
fn token<'a>(c: &Cursor<'a>) -> &'a str {
    let rest = c.rest();
    let stop = |&b: &u8| matches!(b, b',' | b'}' | b')' | b'(' | b'{' | b' ' | b'\n' | b'\t' | b'\r' | b'/');
    let n = rest.as_bytes().iter().position(stop).unwrap_or(rest.len());
    &rest[..n]
}

fn bad(c: &mut Cursor<'_>, what: &str) -> Box<Diagnostic> {
    let t = token(c);
    let start = c.pos();
    let found = if t.is_empty() { return c.unexpected(what) } else { shorten(t) };
    c.advance(t.len());
    Box::new(Diagnostic::error(c.span_from(start), format!("expected {what}, found `{}`", found.escape_debug())))
}

fn pred(c: &mut Cursor<'_>) -> PResult<u64> {
    let t = token(c);
    let v = match t {
        "true" | "1" => 1,
        "false" | "0" => 0,
        _ => return Err(bad(c, "true, false, 1 or 0")),
    };
    c.advance(t.len());
    Ok(v)
}

fn integer(c: &mut Cursor<'_>, dtype: DType) -> PResult<u64> {
    let t = token(c);
    let (negative, digits) = match t.strip_prefix('-') {
        Some(d) => (true, d),
        None => (false, t),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad(c, &format!("an integer of type {dtype}")));
    }
    let mut v: u128 = 0;
    for b in digits.bytes() {
        v = v.saturating_mul(10).saturating_add(u128::from(b - b'0'));
    }
    let v = i128::try_from(v).unwrap_or(i128::MAX) * if negative { -1 } else { 1 };
    let (low, high) = integer_range(dtype).unwrap_or((0, 0));
    let start = c.pos();
    c.advance(t.len());
    if v < low || v > high {
        let d = Diagnostic::error(c.span_from(start), format!("{} is out of range for {dtype}", shorten(t)));
        return Err(Box::new(d.note(format!("{dtype} holds {low} to {high}"))));
    }
    let mask = if dtype.bits() < 8 { (1 << dtype.bits()) - 1 } else { u64::MAX };
    Ok(v as u64 & mask)
}

fn float(c: &mut Cursor<'_>, dtype: DType) -> PResult<u64> {
    c.skip();
    let t = token(c);
    let body = t.strip_prefix(['-', '+']).unwrap_or(t);
    let negative = t.starts_with('-');
    match body.as_bytes().first() {
        Some(b'0'..=b'9' | b'.') => {}
        Some(b'n') if body == "nan" => {
            c.advance(t.len());
            return nan(c, dtype, negative);
        }
        Some(b'i') if body == "inf" => {
            c.advance(t.len());
            return Ok(encode_float(dtype, if negative { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        _ => return Err(bad(c, &format!("a number of type {dtype}"))),
    }
    let Ok(v) = t.parse::<f64>() else { return Err(bad(c, &format!("a number of type {dtype}"))) };
    if v.abs() > max_float(dtype) && !(v.is_finite() && encodes_to_max(dtype, v)) {
        let start = c.pos();
        c.advance(t.len());
        let d = Diagnostic::error(c.span_from(start), format!("{} is out of range for {dtype}", shorten(t)));
        return Err(Box::new(d.note(format!("the largest finite {dtype} is {}; `inf` is infinity", max_float(dtype)))));
    }
    c.advance(t.len());
    Ok(encode_float(dtype, v))
}

/// Whether a value beyond the largest still rounds to it.
fn encodes_to_max(dtype: DType, v: f64) -> bool {
    encode_float(dtype, v.abs()) == encode_float(dtype, max_float(dtype))
}

/// The payload after `nan`, if there is one.
fn nan(c: &mut Cursor<'_>, dtype: DType, negative: bool) -> PResult<u64> {
    if c.here() != Some(b'(') {
        return Ok(encode_nan(dtype, negative, None));
    }
    c.advance(1);
    c.expect("0x", "to begin a NaN payload")?;
    let t = token(c);
    let Ok(payload) = u64::from_str_radix(t, 16) else { return Err(bad(c, "a hexadecimal NaN payload")) };
    c.advance(t.len());
    c.expect(")", "after a NaN payload")?;
    Ok(encode_nan(dtype, negative, Some(payload)))
}
