//! Shapes: `f32[2,<=3]{1,0:T(8,128)}`, `(f32[2], /*index=1*/s32[])`, `token[]`.

use super::lex::Cursor;
use super::{MAX_BYTES, MAX_DEPTH, MAX_RANK, PResult};
use systole_hlo::diag::{Diagnostic, did_you_mean};
use systole_hlo::graph::{ArrayShape, Shape};
use systole_isa::DType;

impl<'a> Cursor<'a> {
    /// Whether a shape begins here (else it is a name or an opcode).
    pub fn at_shape(&mut self) -> bool {
        if self.peek() == Some(b'(') {
            return true;
        }
        let w = self.peek_word();
        !w.is_empty() && self.rest().as_bytes().get(w.len()) == Some(&b'[')
    }

    /// Reads a shape.
    pub fn shape(&mut self) -> PResult<Shape> {
        self.shape_at(0)
    }

    fn shape_at(&mut self, depth: usize) -> PResult<Shape> {
        if depth > MAX_DEPTH {
            return Err(self.error_here(format!("tuple shapes are nested more than {MAX_DEPTH} deep")));
        }
        if !self.eat("(") {
            return self.array_or_token();
        }
        let elements = self.separated(")", "or `)` in a tuple shape", |c| c.shape_at(depth + 1))?;
        Ok(Shape::Tuple(elements))
    }

    fn array_or_token(&mut self) -> PResult<Shape> {
        self.skip();
        let start = self.pos();
        let name = self.word("a shape such as f32[2,3]")?;
        let span = self.span_from(start);
        if name == "token" {
            self.expect("[", "after `token`")?;
            self.expect("]", "after `token[`")?;
            self.layout(0)?;
            return Ok(Shape::Token);
        }
        let Some(dtype) = DType::from_name(name) else {
            let hint = did_you_mean(name, DType::all().map(DType::name));
            let known: Vec<&str> = DType::all().map(DType::name).collect();
            let d = Diagnostic::error(span, format!("unknown element type `{name}`{hint}"));
            return Err(Box::new(d.note(format!("element types are {}, token", known.join(", ")))));
        };
        self.expect("[", "after the element type")?;
        let (mut dims, mut dynamic) = (Vec::new(), Vec::new());
        while !self.eat("]") {
            if !dims.is_empty() {
                self.expect(",", "or `]` in a shape")?;
            }
            if self.peek() == Some(b'?') {
                let d = self.error_here("a dimension without any bound is not supported");
                return Err(Box::new(d.note("write the bound: `<=N`")));
            }
            dynamic.push(self.eat("<="));
            dims.push(self.uint("a dimension size")?);
        }
        let mut shape = ArrayShape::new(dtype, &dims);
        if dynamic.contains(&true) {
            shape.dynamic = dynamic;
        }
        if let Err(why) = check_size(&shape) {
            return Err(Box::new(Diagnostic::error(self.span_from(start), why)));
        }
        shape.minor_to_major = self.layout(dims.len())?;
        Ok(Shape::Array(shape))
    }

    /// Reads a layout if one is here. A `{` that begins a computation is none.
    fn layout(&mut self, rank: usize) -> PResult<Option<Vec<u8>>> {
        let start = *self;
        if !self.eat("{") {
            return Ok(None);
        }
        if !matches!(self.peek(), Some(b'0'..=b'9' | b':' | b'}')) {
            *self = start;
            return Ok(None);
        }
        let mut order: Vec<u8> = Vec::new();
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            let d = self.uint("a dimension number")?;
            order.push(u8::try_from(d).unwrap_or(u8::MAX));
            if !self.eat(",") {
                break;
            }
        }
        let after = self.pos();
        if self.eat(":") {
            // Tiles, memory space and element size: the chip has its own.
            while !matches!(self.peek(), Some(b'}') | None) {
                if matches!(self.here(), Some(b'(')) { self.balanced()? } else { self.advance_char() }
            }
        }
        self.expect("}", "to close the layout")?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted.iter().enumerate().any(|(i, &d)| i != d as usize) || order.len() != rank {
            let span = systole_hlo::graph::Span { start: start.pos() as u32, end: after as u32 };
            let d = Diagnostic::error(span, format!("the layout does not fit {rank} dimensions"));
            return Err(Box::new(
                d.note("a layout lists every dimension number once, most minor first: f32[2,3]{1,0} is row-major"),
            ));
        }
        Ok((rank > 0).then_some(order))
    }

    fn advance_char(&mut self) {
        let n = self.rest().chars().next().map_or(0, char::len_utf8);
        self.advance(n);
    }
}

/// Whether an array's size stays within what any later arithmetic can take.
pub(crate) fn check_size(shape: &ArrayShape) -> Result<(), String> {
    if shape.rank() > MAX_RANK {
        return Err(format!("the array has {} dimensions; at most {MAX_RANK} are supported", shape.rank()));
    }
    let bytes = shape.dims.iter().try_fold(shape.dtype.host_bytes() as u64, |n, &d| n.checked_mul(d.max(1)));
    match bytes {
        Some(n) if n <= MAX_BYTES => Ok(()),
        _ => Err(format!("the array is too large: at most {MAX_BYTES} bytes are supported")),
    }
}
