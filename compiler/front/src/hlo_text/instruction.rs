//! Instructions as written: `[ROOT] name = [shape] opcode(operands), attribute=value, ..`.

use super::lex::Cursor;
use super::literal::{self, LiteralNotes, LiteralTree};
use super::{MAX_DEPTH, PResult};
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::{Shape, Span};

/// An attribute as written.
#[derive(Clone, Copy)]
pub(crate) struct RawAttribute<'a> {
    pub key: &'a str,
    pub key_span: Span,
    pub value: Span,
}

/// An operand as written.
pub(crate) enum RawOperand<'a> {
    /// A name, with the shape written before it.
    Name(&'a str, Option<Shape>, Span),
    /// A nested expression: an instruction of the same computation by index.
    Nested(usize),
}

/// An instruction as written.
pub(crate) struct RawInstruction<'a> {
    /// Empty for nested expressions.
    pub name: &'a str,
    pub root: bool,
    pub shape: Option<Shape>,
    pub opcode: &'a str,
    pub opcode_span: Span,
    pub operands: Vec<RawOperand<'a>>,
    pub literal: Option<LiteralTree>,
    /// The number of `parameter(N)`.
    pub number: Option<u64>,
    pub attributes: Vec<RawAttribute<'a>>,
    /// From the name to the closing parenthesis.
    pub span: Span,
}

/// Reads an instruction, appending first the expressions nested in it; the places of constants without their elements
/// go to `elided`.
pub(crate) fn parse_instruction<'a>(
    c: &mut Cursor<'a>,
    out: &mut Vec<RawInstruction<'a>>,
    elided: &mut Vec<Span>,
) -> PResult<()> {
    c.skip();
    let start = c.pos();
    let mut root = c.eat_word("ROOT");
    if root && c.peek() == Some(b'=') {
        // An instruction may be called ROOT.
        root = false;
        *c = c.at(start);
    }
    let name = c.name("an instruction or `}`")?;
    c.expect("=", "after the instruction's name")?;
    let mut i = Read { out, elided }.right_hand_side(c, 0)?;
    i.name = name;
    i.root = root;
    i.span = c.span_from(start);
    while c.eat(",") {
        let given = attribute(c, "an attribute such as dimensions={0}")?;
        if i.attributes.iter().any(|a| a.key == given.key) {
            let message = format!("attribute `{}` is given twice", given.key);
            return Err(Box::new(Diagnostic::error(given.key_span, message)));
        }
        i.attributes.push(given);
    }
    out.push(i);
    Ok(())
}

/// `key=value`; `what` the key is.
pub(super) fn attribute<'a>(c: &mut Cursor<'a>, what: &str) -> PResult<RawAttribute<'a>> {
    c.skip();
    let at = c.pos();
    let key = c.word(what)?;
    let key_span = c.span_from(at);
    c.expect("=", "after the attribute's name")?;
    Ok(RawAttribute { key, key_span, value: c.attribute_value()? })
}

/// What has been read: instructions, and the places of constants without their elements.
struct Read<'a, 'o> {
    out: &'o mut Vec<RawInstruction<'a>>,
    elided: &'o mut Vec<Span>,
}

impl<'a> Read<'a, '_> {
    fn right_hand_side(&mut self, c: &mut Cursor<'a>, depth: usize) -> PResult<RawInstruction<'a>> {
        if depth > MAX_DEPTH {
            return Err(c.error_here(format!("expressions are nested more than {MAX_DEPTH} deep")));
        }
        c.skip();
        let start = c.pos();
        let shape = if c.at_shape() { Some(c.shape()?) } else { None };
        c.skip();
        let at = c.pos();
        let opcode = c.word("an opcode")?;
        let opcode_span = c.span_from(at);
        c.expect("(", "after the opcode")?;
        let mut i = RawInstruction {
            name: "",
            root: false,
            shape,
            opcode,
            opcode_span,
            operands: Vec::new(),
            literal: None,
            number: None,
            attributes: Vec::new(),
            span: Span::default(),
        };
        match opcode {
            "constant" => {
                let Some(shape) = &i.shape else {
                    let d = Diagnostic::error(opcode_span, "a constant needs its shape");
                    return Err(Box::new(d.note("for example `c = f32[2] constant({1, 2})`")));
                };
                let mut notes = LiteralNotes::default();
                i.literal = Some(literal::parse(c, shape, &mut notes)?);
                c.expect(")", "after the literal")?;
                if notes.elided {
                    self.elided.push(c.span_from(start));
                }
            }
            "parameter" => {
                i.number = Some(c.uint("a parameter number")?);
                c.expect(")", "after the parameter number")?;
            }
            _ => {
                i.operands = c.separated(")", "or `)` in the operand list", |c| self.operand(c, depth))?;
            }
        }
        i.span = c.span_from(start);
        Ok(i)
    }

    fn operand(&mut self, c: &mut Cursor<'a>, depth: usize) -> PResult<RawOperand<'a>> {
        let saved = *c;
        let shape = if c.at_shape() { Some(c.shape()?) } else { None };
        c.skip();
        let at = c.pos();
        let name = c.name("an operand")?;
        if c.peek() != Some(b'(') {
            return Ok(RawOperand::Name(name, shape, c_span(at, name, c)));
        }
        *c = saved;
        let nested = self.right_hand_side(c, depth + 1)?;
        self.out.push(nested);
        Ok(RawOperand::Nested(self.out.len() - 1))
    }
}

/// The place of a name that begins at `at` (the cursor is past the blanks after it).
fn c_span(at: usize, name: &str, c: &Cursor<'_>) -> Span {
    let end = (at + name.len() + 1).min(c.pos());
    Span { start: at as u32, end: end.max(at) as u32 }
}

impl<'a> Cursor<'a> {
    /// Reads an attribute's value of any kind; its range.
    pub fn attribute_value(&mut self) -> PResult<Span> {
        let first = self.peek();
        let start = self.pos();
        match first {
            Some(b'"' | b'\'') => {
                self.string()?;
            }
            Some(b'{' | b'(') => self.balanced()?,
            Some(b'[') => {
                self.balanced()?;
                let mut end = self.span_from(start);
                if self.eat("<=") {
                    self.balanced()?;
                    end = self.span_from(start);
                    if self.looking_at("T(") {
                        self.advance(1);
                        self.balanced()?;
                        end = self.span_from(start);
                    }
                }
                // Without the space that was looked past.
                return Ok(end);
            }
            _ => self.bare_value(start)?,
        }
        Ok(self.span_from(start))
    }

    /// A value without brackets around it: a number, a keyword, a window, labels, a shape, a mesh.
    fn bare_value(&mut self, start: usize) -> PResult<()> {
        let b = self.rest().as_bytes();
        let n = b
            .iter()
            .position(|&c| {
                !(c.is_ascii_alphanumeric()
                    || matches!(c, b'_' | b'.' | b'-' | b'+' | b'%' | b'?' | b'>' | b':' | b'@'))
            })
            .unwrap_or(b.len());
        if n == 0 {
            return Err(self.unexpected("an attribute's value"));
        }
        self.advance(n);
        let word = &self.text()[start..self.pos()];
        match self.here() {
            Some(b'[') if word == "mesh" => {
                self.balanced()?;
                if self.looking_at(", device_ids=") {
                    self.advance(", device_ids=".len());
                    self.balanced()?;
                }
                self.skip();
                if self.here() == Some(b'{') {
                    self.balanced()?;
                }
            }
            Some(b'[') => {
                self.balanced()?;
                if self.here() == Some(b'{') {
                    self.balanced()?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
