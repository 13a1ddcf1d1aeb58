//! Types: `tensor<4x?xf32, #stablehlo.bounds<?, 8>>`, `tuple<..>`, `!stablehlo.token`. Quantized element types are in `quant`.

use super::quant::Quant;
use crate::hlo_text::lex::Cursor;
use crate::hlo_text::shape::check_size;
use crate::hlo_text::{MAX_DEPTH, PResult};
use systole_hlo::diag::{Diagnostic, did_you_mean};
use systole_hlo::graph::{ArrayShape, Shape};
use systole_isa::DType;

/// Element types by MLIR name.
#[rustfmt::skip]
const ELEMENTS: [(&str, DType); 35] = [
    ("i1", DType::Pred), ("i4", DType::S4), ("i8", DType::S8), ("i16", DType::S16), ("i32", DType::S32), ("i64", DType::S64),
    ("si4", DType::S4), ("si8", DType::S8), ("si16", DType::S16), ("si32", DType::S32), ("si64", DType::S64),
    ("ui4", DType::U4), ("ui8", DType::U8), ("ui16", DType::U16), ("ui32", DType::U32), ("ui64", DType::U64),
    ("f8E4M3FN", DType::F8E4M3FN), ("f8E5M2", DType::F8E5M2), ("f8E4M3", DType::F8E4M3),
    ("f8E4M3B11FNUZ", DType::F8E4M3B11FNUZ), ("f8E4M3FNUZ", DType::F8E4M3FNUZ), ("f8E5M2FNUZ", DType::F8E5M2FNUZ),
    ("f8E3M4", DType::F8E3M4), ("f8E8M0FNU", DType::F8E8M0FNU), ("f4E2M1FN", DType::F4E2M1FN), ("bf16", DType::BF16), ("f16", DType::F16), ("f32", DType::F32), ("f64", DType::F64),
    ("i2", DType::S2), ("si2", DType::S2), ("ui2", DType::U2), ("index", DType::S64), ("complex<f32>", DType::C64), ("complex<f64>", DType::C128),
];

/// The size of a dimension that a type leaves open, until the operation's rule tells it.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Whether all sizes are given.
pub(super) fn is_known(shape: &Shape) -> bool {
    match shape {
        Shape::Array(a) => !a.dims.contains(&UNKNOWN),
        Shape::Tuple(t) => t.iter().all(is_known),
        Shape::Token => true,
    }
}

/// Whether a value has a type; an open dimension takes any size.
pub(super) fn fits(value: &Shape, of: &Shape) -> bool {
    match (value, of) {
        (Shape::Array(a), Shape::Array(b)) => {
            let same = |(x, y): (&u64, &u64)| x == y || *y == UNKNOWN;
            a.dtype == b.dtype && a.rank() == b.rank() && a.dims.iter().zip(&b.dims).all(same)
        }
        (Shape::Tuple(a), Shape::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| fits(x, y)),
        (Shape::Token, Shape::Token) => true,
        (Shape::Array(_) | Shape::Tuple(_) | Shape::Token, _) => false,
    }
}

/// What a type with open dimensions says, for messages.
pub(super) fn spell(shape: &Shape) -> String {
    shape.to_string().replace(&UNKNOWN.to_string(), "?")
}

impl<'a> Cursor<'a> {
    /// Reads a type of a value.
    pub(crate) fn mlir_type(&mut self) -> PResult<Shape> {
        self.mlir_type_at(0)
    }

    fn mlir_type_at(&mut self, depth: usize) -> PResult<Shape> {
        if depth > MAX_DEPTH {
            return Err(self.error_here("types are nested too deep"));
        }
        if self.eat("!stablehlo.token") || self.eat("!mhlo.token") {
            return Ok(Shape::Token);
        }
        if self.eat("tuple") {
            self.expect("<", "after `tuple`")?;
            let parts = self.separated(">", "or `>` in a tuple type", |c| c.mlir_type_at(depth + 1))?;
            return Ok(Shape::Tuple(parts));
        }
        Ok(self.tensor()?.0)
    }

    /// Reads a type of a value, and what its elements mean if they are quantized.
    pub(super) fn typed(&mut self) -> PResult<(Shape, Option<Quant>)> {
        if self.peek_word() == "tensor" { self.tensor() } else { Ok((self.mlir_type()?, None)) }
    }

    fn tensor(&mut self) -> PResult<(Shape, Option<Quant>)> {
        if !self.eat_word("tensor") {
            let d = self.unexpected("a type");
            return Err(Box::new(d.note("values are tensors such as tensor<2x3xf32>, tuples or !stablehlo.token")));
        }
        self.skip();
        let start = self.pos();
        self.expect("<", "after `tensor`")?;
        let (mut dims, mut dynamic) = (Vec::new(), Vec::new());
        while matches!(self.peek(), Some(b'0'..=b'9' | b'?')) {
            dynamic.push(self.eat("?"));
            let at = self.pos();
            let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
            let text = &self.rest()[..digits];
            self.advance(digits);
            match text.parse::<u64>() {
                Ok(d) => dims.push(d),
                Err(_) if text.is_empty() => dims.push(UNKNOWN),
                Err(_) => {
                    return Err(Box::new(Diagnostic::error(self.span_from(at), "the dimension is too large")));
                }
            }
            self.expect("x", "after a dimension of a tensor type")?;
        }
        let (dtype, quant) = self.element()?;
        if let Some(why) = quant.as_ref().and_then(|q| q.fits(&dims).err()) {
            return Err(Box::new(Diagnostic::error(self.span_from(start), why)));
        }
        if self.eat(",") {
            self.bounds(&mut dims)?;
        }
        self.expect(">", "to end the tensor type")?;
        let mut shape = ArrayShape::new(dtype, &dims);
        if dims.contains(&UNKNOWN) {
            return Ok((Shape::Array(shape), quant));
        }
        if dynamic.contains(&true) {
            shape.dynamic = dynamic;
        }
        check_size(&shape).map_err(|why| Box::new(Diagnostic::error(self.span_from(start), why)))?;
        Ok((Shape::Array(shape), quant))
    }

    /// `#stablehlo.bounds<?, 8>` (or another encoding, which is skipped).
    fn bounds(&mut self, dims: &mut [u64]) -> PResult<()> {
        self.expect("#", "to begin the type's encoding")?;
        let name = self.word("an encoding")?;
        let mut i = 0;
        self.expect("<", "after the encoding's name")?;
        while !self.eat(">") {
            if name != "stablehlo.bounds" && name != "stablehlo.type_extensions" {
                let n = self.rest().chars().next().map_or(0, char::len_utf8);
                if n == 0 {
                    return Err(self.unexpected("`>`"));
                }
                self.advance(n);
                continue;
            }
            self.eat("bounds");
            self.eat("=");
            self.eat("[");
            if !self.eat("?") {
                let bound = self.uint("a bound")?;
                if let Some(d) = dims.get_mut(i) {
                    *d = bound;
                }
            }
            i += 1;
            self.eat("]");
            self.eat(",");
        }
        Ok(())
    }

    /// Reads an element type; of a quantized one, what is stored.
    fn element(&mut self) -> PResult<(DType, Option<Quant>)> {
        if self.looking_at("!quant.") {
            let quant = self.quantized()?;
            return Ok((quant.storage, Some(quant)));
        }
        Ok((self.element_type()?, None))
    }

    /// Reads an element type.
    pub(crate) fn element_type(&mut self) -> PResult<DType> {
        self.skip();
        let start = self.pos();
        let word = self.peek_word();
        let mut name = word.to_string();
        self.advance(word.len());
        if word == "complex" {
            self.expect("<", "after `complex`")?;
            name = format!("complex<{}>", self.word("f32 or f64")?);
            self.expect(">", "after the part's type")?;
        }
        match ELEMENTS.iter().find(|e| e.0 == name) {
            Some(e) => Ok(e.1),
            None if name.is_empty() => Err(self.unexpected("an element type")),
            None => {
                let hint = did_you_mean(&name, ELEMENTS.iter().map(|e| e.0));
                let message = format!("unknown element type `{name}`{hint}");
                let names: Vec<&str> = ELEMENTS.iter().map(|e| e.0).collect();
                let d = Diagnostic::error(self.span_from(start), message);
                Err(Box::new(d.note(format!("element types are {}", names.join(", ")))))
            }
        }
    }

    /// `T` or `(T, U)`, each possibly with attributes after it (which are skipped).
    pub(crate) fn type_list(&mut self) -> PResult<Vec<Shape>> {
        if self.eat("(") {
            return self.separated(")", "or `)` in a list of types", Cursor::mlir_type);
        }
        let mut out = Vec::new();
        loop {
            out.push(self.mlir_type()?);
            if !self.eat(",") {
                return Ok(out);
            }
        }
    }
}
