//! Quantized element types: `!quant.uniform<i8:f32, 0.5:-3>` for a whole tensor, `!quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25:4}>`
//! for each index of a dimension.
//!
//! A graph has no such types: its arrays hold the storage type, and what the numbers mean is kept beside the values while a
//! graph is made ([`super`]).

use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::number::{encode_float, integer_range};
use systole_hlo::graph::{Shape, Span};
use systole_isa::DType;

/// What the integers of a quantized tensor stand for: `(i - zero point) * scale`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quant {
    pub storage: DType,
    /// Least and greatest integer.
    pub range: (i64, i64),
    pub expressed: DType,
    /// The dimension that has parameters for each index; without, there is one pair for all.
    pub axis: Option<usize>,
    /// Scales and zero points.
    pub parameters: Vec<(f64, i64)>,
}

impl Quant {
    /// Whether a tensor of these sizes can have the type.
    pub fn fits(&self, dims: &[u64]) -> Result<(), String> {
        let Some(axis) = self.axis else { return Ok(()) };
        match dims.get(axis) {
            Some(&n) if n == self.parameters.len() as u64 || n == super::super::types::UNKNOWN => Ok(()),
            Some(&n) => Err(format!("dimension {axis} has {n} indices, the type has {} scales", self.parameters.len())),
            None => Err(format!("the type has a scale for each index of dimension {axis}, the tensor lacks it")),
        }
    }
}

impl<'a> Cursor<'a> {
    /// Reads `!quant.uniform<..>`.
    pub(crate) fn quantized(&mut self) -> PResult<Quant> {
        self.skip();
        let start = self.pos();
        if !self.eat("!quant.uniform") {
            let d = self.error_here("of quantized types, `!quant.uniform` is supported");
            return Err(Box::new(d.note("scales that are found while a program runs have no fixed type")));
        }
        self.expect("<", "after `!quant.uniform`")?;
        let storage = self.storage_type()?;
        let (least, most) = integer_range(storage).map_or((0, 0), |(a, b)| (a as i64, b as i64));
        let mut range = (least, most);
        if self.eat("<") {
            range.0 = self.int("the least integer")?;
            self.expect(":", "after the least integer")?;
            range.1 = self.int("the greatest integer")?;
            self.expect(">", "to end the range")?;
        }
        self.expect(":", "before the type that is expressed")?;
        let expressed = self.element_type()?;
        let axis = if self.eat(":") { Some(self.uint("a dimension")? as usize) } else { None };
        self.expect(",", "before the scale")?;
        let parameters = match self.eat("{") {
            true => self.separated("}", "or `}` in the scales", Cursor::parameter)?,
            false => vec![self.parameter()?],
        };
        self.expect(">", "to end the type")?;
        let q = Quant { storage, range, expressed, axis, parameters };
        let wrong = |why: String| Box::new(Diagnostic::error(self.span_from(start), why));
        rules(&q, (least, most)).map_err(wrong)?;
        Ok(q)
    }

    fn storage_type(&mut self) -> PResult<DType> {
        self.skip();
        let start = self.pos();
        let word = self.peek_word();
        // The dialect itself prints `u8`.
        let dtype = match word.strip_prefix('u') {
            Some(bits @ ("2" | "4" | "8" | "16" | "32")) => {
                self.advance(word.len());
                [DType::U2, DType::U4, DType::U8, DType::U16, DType::U32]
                    .into_iter()
                    .find(|t| t.bits().to_string() == bits)
                    .unwrap_or(DType::U8)
            }
            Some(_) | None => self.element_type()?,
        };
        if integer_range(dtype).is_none() || dtype.bits() > 32 {
            let d = Diagnostic::error(self.span_from(start), "integers of at most 32 bits are stored");
            return Err(Box::new(d));
        }
        Ok(dtype)
    }

    /// `scale` or `scale:zero point`.
    fn parameter(&mut self) -> PResult<(f64, i64)> {
        self.skip();
        let text = self.rest();
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
        let n = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let Ok(scale) = text[..n].parse::<f64>() else { return Err(self.unexpected("a scale")) };
        self.advance(n);
        let zero = if self.eat(":") { self.int("a zero point")? } else { 0 };
        Ok((scale, zero))
    }
}

/// The constraints of the type.
fn rules(q: &Quant, (least, most): (i64, i64)) -> Result<(), String> {
    let (a, b) = q.range;
    if !q.expressed.is_float() {
        return Err(format!("{} cannot express the integers of {}", q.expressed, q.storage));
    }
    if !(least <= a && a < b && b <= most) {
        return Err(format!("{a}:{b} is no range of {}", q.storage));
    }
    if q.axis.is_none() && q.parameters.len() != 1 {
        return Err("several scales need a dimension".to_string());
    }
    for &(scale, zero) in &q.parameters {
        let held = encode_float(q.expressed, scale);
        if scale <= 0.0 || held == 0 || held >= encode_float(q.expressed, f64::INFINITY) {
            return Err(format!("a scale is above zero and finite, not {scale}"));
        }
        if !(a..=b).contains(&zero) {
            return Err(format!("the zero point {zero} is beyond {a}:{b}"));
        }
    }
    Ok(())
}

/// The quantized types of a list `T` or `(T, U)`, in order; `None` for others.
pub(crate) fn listed(text: &str, place: Span) -> PResult<Vec<Option<Quant>>> {
    let mut c = Cursor::over(text, place);
    let mut out = Vec::new();
    if c.at_end() {
        return Ok(out);
    }
    let parentheses = c.eat("(");
    while !(parentheses && c.eat(")")) {
        if !out.is_empty() && !c.eat(",") {
            break;
        }
        out.push(c.typed()?.1);
        c.skip();
        if c.at_end() {
            break;
        }
    }
    Ok(out)
}

/// What a quantized tensor expresses: its sizes with the type of the numbers.
pub(crate) fn expressed(shape: &Shape, q: &Quant) -> Shape {
    match shape {
        Shape::Array(a) => Shape::array(q.expressed, &a.dims),
        Shape::Tuple(_) | Shape::Token => shape.clone(),
    }
}
