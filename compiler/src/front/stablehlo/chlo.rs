//! CHLO operations that HLO does not have, written out.
//!
//! Special functions of 16-bit and narrower floats are computed in f32 and rounded once.

use super::ast::Operation;
use super::data::Lowered;
use super::lower::{Body, Lower};
use super::special;
use crate::diag::Diagnostic;
use crate::front::hlo_text::PResult;
use crate::graph::number::encode_float;
use crate::graph::{ArrayShape, Binary, Direction, Literal, NodeId, Op, Order, Shape, Unary};
use systole_isa::DType;

pub(super) fn lower<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, name: &str) -> Lowered {
    let args = body.operands(o)?;
    if name == "top_k" {
        let k = l.sizes(o, &["k"])?.first().copied().unwrap_or(0);
        return l.many(body, o, Op::TopK { k, largest: true }, &args);
    }
    if let Some(plain) = name.strip_prefix("broadcast_") {
        return broadcasting(l, body, o, plain, &args);
    }
    let unary: Formula = match name {
        "cosh" if !complex(body, &args) => special::cosh,
        "lgamma" => special::lgamma,
        "digamma" => special::digamma,
        "erfc" => special::erfc,
        "bessel_i1e" => special::bessel_i1e,
        "square" => special::square,
        "conj" => special::conj,
        "is_inf" | "is_pos_inf" | "is_neg_inf" => {
            let [x] = args[..] else { return Err(o.error("the operation takes one operand")) };
            let mut m = Math::new(l, body, o, x)?;
            let magnitude = if name == "is_inf" { m.one(Unary::Abs, x)? } else { x };
            let limit = m.real(if name == "is_neg_inf" { f64::NEG_INFINITY } else { f64::INFINITY })?;
            return Ok(Some(vec![m.compare(Direction::Eq, magnitude, limit)?]));
        }
        "next_after" => {
            let [x, y] = args[..] else { return Err(o.error("next_after takes two operands")) };
            return Ok(Some(vec![special::next_after(&mut Math::new(l, body, o, x)?, x, y)?]));
        }
        // Operations of the same name in HLO are taken by `data`.
        _ => return super::data::lower(l, body, o, name),
    };
    let [x] = args[..] else { return Err(o.error("the operation takes one operand")) };
    let mut m = Math::new(l, body, o, x)?;
    let narrow = m.shape.dtype;
    if !(narrow.is_float() && narrow.bits() < 32) {
        return Ok(Some(vec![unary(&mut m, x)?]));
    }
    let wide = m.convert(x, DType::F32)?;
    let result = unary(&mut m, wide)?;
    Ok(Some(vec![m.convert(result, narrow)?]))
}

fn complex(body: &Body<'_>, args: &[NodeId]) -> bool {
    args.first().and_then(|x| body.b.shape(*x).as_array()).is_some_and(|a| a.dtype.is_complex())
}

/// `chlo.broadcast_add` and its like, on operands of one shape or a scalar with an array.
fn broadcasting<'a>(
    l: &mut Lower<'a, '_>,
    body: &mut Body<'a>,
    o: &Operation<'a>,
    name: &str,
    args: &[NodeId],
) -> Lowered {
    let Some(Shape::Array(to)) = o.result_types.first().cloned() else { return Ok(None) };
    let mut same = Vec::new();
    for x in args {
        let a = l.array(body, o, *x)?;
        same.push(match () {
            () if a.dims == to.dims => *x,
            () if a.rank() == 0 => {
                l.add(body, o, Op::Broadcast { dims: Vec::new() }, &[*x], Shape::array(a.dtype, &to.dims))?
            }
            () => return Err(o.error(format!("implicit broadcasting of {a} to {to} is not supported"))),
        });
    }
    let dashed = name.replace('_', "-");
    if let Some((_, b)) = crate::graph::names::BINARY.iter().find(|b| b.0 == dashed) {
        return l.one(body, o, Op::Binary(*b), &same);
    }
    match name {
        "select" => l.one(body, o, Op::Select, &same),
        "compare" => super::data::compare(l, body, o, &same),
        _ => Ok(None),
    }
}

/// A function of one value.
type Formula = for<'a, 'r, 'l, 'b> fn(&mut Math<'a, 'r, 'l, 'b>, NodeId) -> PResult<NodeId>;

/// Writes formulas on arrays of one shape.
pub(super) struct Math<'a, 'r, 'l, 'b> {
    l: &'l mut Lower<'a, 'r>,
    body: &'l mut Body<'a>,
    o: &'b Operation<'a>,
    /// The shape of the values, with the type that constants get.
    pub shape: ArrayShape,
}

impl<'a, 'r, 'l, 'b> Math<'a, 'r, 'l, 'b> {
    fn new(
        l: &'l mut Lower<'a, 'r>,
        body: &'l mut Body<'a>,
        o: &'b Operation<'a>,
        x: NodeId,
    ) -> PResult<Math<'a, 'r, 'l, 'b>> {
        let shape = l.array(body, o, x)?;
        Ok(Math { l, body, o, shape })
    }

    pub fn error(&self, message: &str) -> Box<Diagnostic> {
        self.o.error(message)
    }

    fn op(&mut self, op: Op, args: &[NodeId]) -> PResult<NodeId> {
        self.l.infer(self.body, self.o, op, args)
    }

    /// A constant of the values' type in every element.
    pub fn real(&mut self, v: f64) -> PResult<NodeId> {
        self.bits(encode_float(self.shape.dtype, v))
    }

    /// The same bits in every element.
    pub fn bits(&mut self, bits: u64) -> PResult<NodeId> {
        let dtype = self.shape.dtype;
        let literal = Literal::splat(dtype, &[], &bits.to_le_bytes()[..dtype.host_bytes()]);
        let scalar = self.body.b.constant(literal);
        if self.shape.rank() == 0 {
            return Ok(scalar);
        }
        let to = Shape::array(dtype, &self.shape.dims);
        self.l.add(self.body, self.o, Op::Broadcast { dims: Vec::new() }, &[scalar], to)
    }

    pub fn one(&mut self, u: Unary, x: NodeId) -> PResult<NodeId> {
        self.op(Op::Unary(u), &[x])
    }

    pub fn two(&mut self, b: Binary, x: NodeId, y: NodeId) -> PResult<NodeId> {
        self.op(Op::Binary(b), &[x, y])
    }

    /// With a constant on the right.
    pub fn with(&mut self, b: Binary, x: NodeId, v: f64) -> PResult<NodeId> {
        let v = self.real(v)?;
        self.two(b, x, v)
    }

    /// With a constant on the left.
    pub fn from(&mut self, b: Binary, v: f64, x: NodeId) -> PResult<NodeId> {
        let v = self.real(v)?;
        self.two(b, v, x)
    }

    pub fn compare(&mut self, direction: Direction, x: NodeId, y: NodeId) -> PResult<NodeId> {
        self.op(Op::Compare { direction, order: Order::Partial }, &[x, y])
    }

    /// Compared with a constant.
    pub fn is(&mut self, x: NodeId, direction: Direction, v: f64) -> PResult<NodeId> {
        let v = self.real(v)?;
        self.compare(direction, x, v)
    }

    pub fn select(&mut self, p: NodeId, x: NodeId, y: NodeId) -> PResult<NodeId> {
        self.op(Op::Select, &[p, x, y])
    }

    /// Values in another type; constants follow.
    pub fn convert(&mut self, x: NodeId, dtype: DType) -> PResult<NodeId> {
        self.cast(Op::Convert, x, dtype)
    }

    /// Bits in another type of the same width; constants follow.
    pub fn bitcast(&mut self, x: NodeId, dtype: DType) -> PResult<NodeId> {
        self.cast(Op::BitcastConvert, x, dtype)
    }

    fn cast(&mut self, op: Op, x: NodeId, dtype: DType) -> PResult<NodeId> {
        self.shape.dtype = dtype;
        let shape = Shape::array(dtype, &self.shape.dims);
        self.l.add(self.body, self.o, op, &[x], shape)
    }

    /// A polynomial, the coefficient of the highest power first.
    pub fn polynomial(&mut self, x: NodeId, coefficients: &[f64]) -> PResult<NodeId> {
        let mut sum = self.real(coefficients[0])?;
        for c in &coefficients[1..] {
            let scaled = self.two(Binary::Mul, sum, x)?;
            sum = self.with(Binary::Add, scaled, *c)?;
        }
        Ok(sum)
    }

    /// A Chebyshev series in `x` of -2 to 2, the coefficient of the highest order first.
    pub fn chebyshev(&mut self, x: NodeId, coefficients: &[f64]) -> PResult<NodeId> {
        let zero = self.real(0.0)?;
        let (mut b0, mut b1, mut b2) = (zero, zero, zero);
        for c in coefficients {
            (b2, b1) = (b1, b0);
            let scaled = self.two(Binary::Mul, x, b1)?;
            let less = self.two(Binary::Sub, scaled, b2)?;
            b0 = self.with(Binary::Add, less, *c)?;
        }
        let difference = self.two(Binary::Sub, b0, b2)?;
        self.with(Binary::Mul, difference, 0.5)
    }
}
