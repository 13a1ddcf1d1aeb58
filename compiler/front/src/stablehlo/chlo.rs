//! CHLO operations that HLO does not have, written out.
//!
//! Special functions of 16-bit and narrower floats are computed in f32 and rounded once.

use super::ast::{Attr, Operation};
use super::data::Lowered;
use super::lower::{Body, Site};
use super::special;
use super::zeta;
use crate::hlo_text::PResult;
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::number::encode_float;
use systole_hlo::graph::{ArrayShape, Binary, Direction, Literal, NodeId, Op, Order, Shape, Unary};
use systole_isa::DType;

/// A composite that stands for an operation of CHLO, as that operation: portable programs write such a one under its name with its
/// decomposition beside it, and XLA reads it back as what it was. `None` of operations that [`lower`] does not know.
pub(super) fn recomposed(s: &mut Site<'_, '_, '_>) -> Lowered {
    let o = s.o;
    let Some(Attr::Str(name)) = o.get(&["name", "string"]) else { return Ok(None) };
    if !name.starts_with("chlo.") {
        return Ok(None);
    }
    let mut meant = Operation { name, attributes: Vec::new(), ..o.clone() };
    if let Some(Attr::Dict(given)) = o.get(&["composite_attributes"]) {
        meant.attributes = given.iter().map(|(k, v)| (*k, v.clone(), o.span)).collect();
    }
    s.of(&meant).known()
}

pub(super) fn lower(s: &mut Site<'_, '_, '_>, name: &str) -> Lowered {
    let o = s.o;
    let args = s.body.operands(o)?;
    if name == "top_k" {
        let k = s.l.sizes(o, &["k"])?.first().copied().unwrap_or(0);
        return s.many(Op::TopK { k, largest: true }, &args);
    }
    if name == "ragged_dot" {
        return super::contraction::ragged_dot(s, &args);
    }
    if name == "scan" {
        return scan(s, &args);
    }
    if let Some(plain) = name.strip_prefix("broadcast_") {
        return broadcasting(s, plain, &args);
    }
    let unary: Formula = match name {
        "cosh" if !complex(s.body, &args) => special::cosh,
        "lgamma" => special::lgamma,
        "digamma" => special::digamma,
        "erfc" => special::erfc,
        "bessel_i1e" => special::bessel_i1e,
        "square" => special::square,
        "conj" => special::conj,
        "is_inf" | "is_pos_inf" | "is_neg_inf" => {
            let [x] = args[..] else { return Err(o.error("the operation takes one operand")) };
            let mut m = Math::new(s, x)?;
            let magnitude = if name == "is_inf" { m.one(Unary::Abs, x)? } else { x };
            let limit = m.real(if name == "is_neg_inf" { f64::NEG_INFINITY } else { f64::INFINITY })?;
            return Ok(Some(vec![m.compare(Direction::Eq, magnitude, limit)?]));
        }
        "next_after" => {
            let [x, y] = args[..] else { return Err(o.error("next_after takes two operands")) };
            return Ok(Some(vec![special::next_after(&mut Math::new(s, x)?, x, y)?]));
        }
        "zeta" | "polygamma" => {
            let [x, y] = args[..] else { return Err(o.error("the operation takes two operands")) };
            let mut m = Math::new(s, x)?;
            let narrow = m.shape.dtype;
            let wide = if narrow.is_float() && narrow.bits() < 32 { DType::F32 } else { narrow };
            let (x, y) = (m.convert(x, wide)?, m.convert(y, wide)?);
            let value = if name == "zeta" { zeta::zeta(&mut m, x, y)? } else { zeta::polygamma(&mut m, x, y)? };
            return Ok(Some(vec![m.convert(value, narrow)?]));
        }
        "constant_like" => {
            let ([x], Some(value)) = (&args[..], o.get(&["value"])) else {
                return Err(o.error("constant_like takes one operand and a value"));
            };
            let v = if let Attr::Int(v) = value {
                *v as f64
            } else if let Attr::Float(v) = value {
                *v
            } else {
                return Err(o.error("the value of constant_like must be a number"));
            };
            return Ok(Some(vec![Math::new(s, *x)?.number(v)?]));
        }
        // Operations of the same name in HLO are taken by `data`.
        _ => return super::data::lower(s, name),
    };
    let [x] = args[..] else { return Err(o.error("the operation takes one operand")) };
    let mut m = Math::new(s, x)?;
    let narrow = m.shape.dtype;
    if !(narrow.is_float() && narrow.bits() < 32) {
        return Ok(Some(vec![unary(&mut m, x)?]));
    }
    let wide = m.convert(x, DType::F32)?;
    let result = unary(&mut m, wide)?;
    Ok(Some(vec![m.convert(result, narrow)?]))
}

/// `chlo.scan`, inputs first, then initial carries.
fn scan(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let inputs = match o.get(&["inputs"]) {
        Some(Attr::Int(n)) => *n as usize,
        // The generic form tells how many of each there are.
        _ => *s.l.sizes(o, &["operandSegmentSizes", "operand_segment_sizes"])?.first().unwrap_or(&0) as usize,
    };
    let dim = s.l.dim(o, &["dimension"])?;
    let reverse = s.l.flag(o, &["is_reverse"]);
    let combiner = s.combiner(0)?;
    let Some(carries) = args.len().checked_sub(inputs) else { return Err(o.error("the scan lacks operands")) };
    let result = s.infer(Op::Scan { dim, carries, reverse, body: combiner }, args)?;
    Ok(Some(s.parts(result)?))
}

/// A comparison in which all NaNs are equal to one another and above everything else.
pub(super) fn weak_compare(s: &mut Site<'_, '_, '_>, direction: Direction, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let [x, y] = args[..] else { return Err(o.error("compare takes two operands")) };
    let mut m = Math::new(s, x)?;
    if !m.shape.dtype.is_float() {
        return Err(o.error("WEAKORDER compares floating-point values"));
    }
    let (x_nan, y_nan) = (m.compare(Direction::Ne, x, x)?, m.compare(Direction::Ne, y, y)?);
    let (positive, strict) = match direction {
        Direction::Eq => (true, Direction::Eq),
        Direction::Ne => (false, Direction::Eq),
        Direction::Lt => (true, Direction::Lt),
        Direction::Ge => (false, Direction::Lt),
        Direction::Gt => (true, Direction::Gt),
        Direction::Le => (false, Direction::Gt),
    };
    let numbers = m.compare(strict, x, y)?;
    let nans = match strict {
        Direction::Lt => m.compare(Direction::Lt, x_nan, y_nan)?,
        Direction::Gt => m.compare(Direction::Gt, x_nan, y_nan)?,
        Direction::Eq | Direction::Ne | Direction::Ge | Direction::Le => m.two(Binary::And, x_nan, y_nan)?,
    };
    let result = m.two(Binary::Or, numbers, nans)?;
    Ok(Some(vec![if positive { result } else { m.one(Unary::Not, result)? }]))
}

fn complex(body: &Body<'_>, args: &[NodeId]) -> bool {
    args.first().and_then(|x| body.b.shape(*x).as_array()).is_some_and(|a| a.dtype.is_complex())
}

/// `chlo.broadcast_add` and its like: operands are aligned at their last dimensions, or as `broadcast_dimensions` says;
/// sizes of 1 are repeated.
fn broadcasting(s: &mut Site<'_, '_, '_>, name: &str, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let mut sizes: Vec<u64> = Vec::new();
    for x in args {
        let a = s.array(*x)?;
        for (i, d) in a.dims.iter().rev().enumerate() {
            match sizes.get_mut(i) {
                Some(s) if *s == 1 => *s = *d,
                Some(_) => {}
                None => sizes.push(*d),
            }
        }
    }
    sizes.reverse();
    let given = s.l.ints(o, &["broadcast_dimensions"])?;
    let mut same = Vec::new();
    for x in args {
        let a = s.array(*x)?;
        let dims = match &given {
            Some(d) if d.len() == a.rank() && a.rank() < sizes.len() => super::data::to_dims(o, d.clone())?,
            _ => (sizes.len() - a.rank()..sizes.len()).collect(),
        };
        let fits = dims.iter().zip(&a.dims).all(|(at, d)| sizes.get(*at).is_some_and(|s| s == d || *d == 1));
        if !fits {
            return Err(o.error(format!("{a} cannot be broadcast to sizes {sizes:?}")));
        }
        if a.dims == sizes {
            same.push(*x);
            continue;
        }
        let one = Operation {
            attributes: vec![("dims", Attr::List(dims.iter().map(|d| Attr::Int(*d as i64)).collect()), o.span)],
            result_types: vec![Shape::array(a.dtype, &sizes)],
            ..Operation::named("stablehlo.broadcast_in_dim", o.span)
        };
        let grown = super::data::broadcast(&mut s.of(&one), "broadcast_in_dim", &[*x])?;
        same.extend(grown.unwrap_or_default());
    }
    let dashed = name.replace('_', "-");
    if let Some(b) = Binary::from_name(&dashed) {
        return s.one(Op::Binary(b), &same);
    }
    let (x, y) = match same[..] {
        [x, y] => (x, y),
        _ if name == "select" => return s.one(Op::Select, &same),
        _ => return Ok(None),
    };
    let mut m = Math::new(s, x)?;
    match name {
        "compare" => super::data::compare(s, &same),
        "next_after" => Ok(Some(vec![special::next_after(&mut m, x, y)?])),
        "zeta" => Ok(Some(vec![zeta::zeta(&mut m, x, y)?])),
        "polygamma" => Ok(Some(vec![zeta::polygamma(&mut m, x, y)?])),
        _ => Ok(None),
    }
}

/// A function of one value.
type Formula = for<'m, 's, 'a, 'r> fn(&mut Math<'m, 's, 'a, 'r>, NodeId) -> PResult<NodeId>;

/// Writes formulas on arrays of one shape.
pub(super) struct Math<'m, 's, 'a, 'r> {
    s: &'m mut Site<'s, 'a, 'r>,
    /// The shape of the values, with the type that constants get.
    pub shape: ArrayShape,
}

impl<'m, 's, 'a, 'r> Math<'m, 's, 'a, 'r> {
    fn new(s: &'m mut Site<'s, 'a, 'r>, x: NodeId) -> PResult<Math<'m, 's, 'a, 'r>> {
        let shape = s.array(x)?;
        Ok(Math { s, shape })
    }

    pub fn error(&self, message: &str) -> Box<Diagnostic> {
        self.s.o.error(message)
    }

    fn op(&mut self, op: Op, args: &[NodeId]) -> PResult<NodeId> {
        self.s.infer(op, args)
    }

    /// A constant of the values' type in every element.
    pub fn real(&mut self, v: f64) -> PResult<NodeId> {
        self.bits(encode_float(self.shape.dtype, v))
    }

    /// A constant of any type in every element.
    pub fn number(&mut self, v: f64) -> PResult<NodeId> {
        if self.shape.dtype.is_float() {
            return self.real(v);
        }
        let bytes = systole_hlo::graph::number::element_bytes(self.shape.dtype, v);
        let scalar = self.s.body.b.constant(Literal::splat(self.shape.dtype, &[], &bytes));
        let to = Shape::array(self.shape.dtype, &self.shape.dims);
        if self.shape.rank() == 0 {
            return Ok(scalar);
        }
        self.s.add(Op::Broadcast { dims: Vec::new() }, &[scalar], to)
    }

    /// The same bits in every element.
    pub fn bits(&mut self, bits: u64) -> PResult<NodeId> {
        let dtype = self.shape.dtype;
        let literal = Literal::splat(dtype, &[], &bits.to_le_bytes()[..dtype.host_bytes()]);
        let scalar = self.s.body.b.constant(literal);
        if self.shape.rank() == 0 {
            return Ok(scalar);
        }
        let to = Shape::array(dtype, &self.shape.dims);
        self.s.add(Op::Broadcast { dims: Vec::new() }, &[scalar], to)
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
        self.s.add(op, &[x], shape)
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
