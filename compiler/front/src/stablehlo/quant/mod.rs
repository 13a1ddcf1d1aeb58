//! Operations on quantized tensors, by the specification's rules.
//!
//! A value of a quantized type is an array of its storage type in the graph; [`Body::quants`] has what its integers mean.
//! Moves and calls work on the integers. What computes does so on the numbers that the integers express, and its result is
//! quantized again; products of narrow integers are computed on the integers less their zero points, which is exact, and
//! scaled then. Regions are code like any other: a reduction whose region adds quantized scalars rounds every sum.

mod quantized;

pub(super) use quantized::{Quant, listed};

use super::ast::{Attr, Operation, Use};
use super::lower::{Body, Lower, Site};
use super::types::{fits, spell};
use crate::hlo_text::PResult;
use std::rc::Rc;
use systole_hlo::graph::number::element_bytes;
use systole_hlo::graph::{Binary, Literal, NodeId, Op, Shape, Span, Unary};
use systole_isa::DType;

/// Operations that move, hand on or call: they do on integers what they do on any elements.
const MOVES: [&str; 34] = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "bitcast_convert",
    "broadcast",
    "broadcast_in_dim",
    "call",
    "case",
    "collective_broadcast",
    "collective_permute",
    "concatenate",
    "constant",
    "copy",
    "custom_call",
    "dynamic_broadcast_in_dim",
    "dynamic_reshape",
    "dynamic_slice",
    "dynamic_update_slice",
    "func.call",
    "gather",
    "get_tuple_element",
    "if",
    "map",
    "optimization_barrier",
    "pad",
    "reduce",
    "reduce_scatter",
    "reduce_window",
    "reshape",
    "reverse",
    "scatter",
    "slice",
    "transpose",
    "while",
];

/// Moves of one array whose result means by its integers what the operand does.
const SAME: [&str; 9] =
    ["broadcast", "dynamic_slice", "dynamic_update_slice", "gather", "pad", "reshape", "reverse", "slice", "transpose"];

type Known = Vec<Option<Rc<Quant>>>;

/// Lowers an operation of a program with quantized types.
pub(super) fn lower(s: &mut Site<'_, '_, '_>) -> PResult<Vec<NodeId>> {
    let o = s.o;
    let operands = s.body.operands(o)?;
    let given: Known = operands.iter().map(|id| s.body.quants.get(id).cloned()).collect();
    let mut made: Known = listed(s.l.text, o.result_place)?.into_iter().map(|q| q.map(Rc::new)).collect();
    made.drain(..made.len().saturating_sub(o.result_types.len()));
    made.resize(o.result_types.len(), None);
    if given.iter().chain(&made).all(Option::is_none) {
        return s.plain();
    }
    let name = o.name.strip_prefix("stablehlo.").or_else(|| o.name.strip_prefix("mhlo.")).unwrap_or(o.name);
    let values = match name {
        "uniform_dequantize" => {
            let ([x], [Some(q)]) = (&operands[..], &given[..]) else {
                return Err(o.error("uniform_dequantize takes one quantized operand"));
            };
            vec![dequantize(s, *x, q)?]
        }
        "uniform_quantize" => {
            let ([x], [q], [Some(to)]) = (&operands[..], &given[..], &made[..]) else {
                return Err(o.error("uniform_quantize takes one operand and gives a quantized tensor"));
            };
            let x = match q {
                Some(q) => dequantize(s, *x, q)?,
                None => *x,
            };
            vec![quantize(s, x, to)?]
        }
        "reduce" if o.regions.is_empty() => {
            let d = o.error("a reduction of quantized values says in a region what it computes");
            return Err(Box::new(d.note("a sum of two is rounded to the region's type: write the region out")));
        }
        _ if MOVES.contains(&name) => {
            if let (true, Some(Some(a)), [Some(b)]) = (SAME.contains(&name), given.first(), &made[..])
                && (a.axis, b.axis) == (None, None)
                && a != b
            {
                let d = o.error("the result has other scales, zero points or types than the operand");
                return Err(Box::new(d.note("uniform_quantize changes them")));
            }
            s.plain()?
        }
        _ => computed(s, &given, &made)?,
    };
    let mut out = Vec::with_capacity(values.len());
    for (at, id) in values.into_iter().enumerate() {
        if let Some(t) = o.result_types.get(at).filter(|t| !fits(s.body.b.shape(id), t)) {
            return Err(o.error(format!("the result holds {}, not {}", s.body.b.shape(id), spell(t))));
        }
        let q = made.get(at).cloned().flatten();
        out.push(mark(s, id, q)?);
    }
    Ok(out)
}

/// The value with what its integers mean; a value that means something else elsewhere is copied.
fn mark(s: &mut Site<'_, '_, '_>, id: NodeId, q: Option<Rc<Quant>>) -> PResult<NodeId> {
    let is = s.body.quants.get(&id);
    if is == q.as_ref() {
        return Ok(id);
    }
    let id = match is {
        Some(_) => {
            let shape = s.body.b.shape(id).clone();
            s.add(Op::Copy, &[id], shape)?
        }
        None => id,
    };
    if let Some(q) = q {
        s.body.quants.insert(id, q);
    }
    Ok(id)
}

/// What the arguments of a block mean: the types stand at these places, each alone or several as a list.
pub(super) fn mark_arguments<'a>(
    l: &Lower<'a, '_>,
    body: &mut Body<'a>,
    places: &[Span],
    nodes: &[NodeId],
) -> PResult<()> {
    let mut types = Vec::new();
    for place in places {
        let known = listed(l.text, *place)?;
        types.extend(if known.is_empty() { vec![None] } else { known });
    }
    for (q, node) in types.into_iter().zip(nodes) {
        body.quants.extend(q.map(|q| (*node, Rc::new(q))));
    }
    Ok(())
}

/// Computes on the numbers that the operands express, and quantizes the results.
fn computed(s: &mut Site<'_, '_, '_>, given: &[Option<Rc<Quant>>], made: &[Option<Rc<Quant>>]) -> PResult<Vec<NodeId>> {
    let o = s.o;
    if given.iter().all(Option::is_none) {
        let d = o.error("the result is quantized and no operand is");
        return Err(Box::new(d.note("uniform_quantize makes quantized tensors of others")));
    }
    let mut plain = o.clone();
    plain.result_place = Span::default();
    for (t, q) in plain.result_types.iter_mut().zip(made) {
        if let Some(q) = q {
            *t = quantized::expressed(t, q);
        }
    }
    let product = matches!(o.name, "stablehlo.dot_general" | "stablehlo.dot" | "stablehlo.convolution");
    let scale = if product { exact_product(given, made) } else { None };
    if product && scale.is_none() && given.iter().all(Option::is_some) {
        plain.attributes.retain(|a| !matches!(a.0, "precision_config" | "precision"));
        let highest = Attr::List(vec![Attr::Word("HIGHEST"); 2]);
        plain.attributes.push(("precision_config", highest, o.span));
    }
    let mut before: Vec<(Use<'_>, NodeId)> = Vec::new();
    for (u, q) in o.operands.iter().zip(given) {
        let Some(q) = q else { continue };
        if before.iter().any(|(b, _)| (b.name, b.index) == (u.name, u.index)) {
            continue;
        }
        let id = s.body.value(u)?;
        let number = match scale {
            Some(_) => centred(s, id, q, DType::BF16)?,
            None => dequantize(s, id, q)?,
        };
        s.body.rebind(u, number);
        before.push((*u, id));
    }
    let values = s.of(&plain).plain();
    before.iter().for_each(|(u, id)| s.body.rebind(u, *id));
    let mut values = values?;
    if let (Some(scale), [x]) = (scale, &mut values[..]) {
        let shape = s.body.b.shape(*x).clone();
        let factor = spread(s, &shape, None, vec![element_bytes(DType::F32, scale)])?;
        *x = s.add(Op::Binary(Binary::Mul), &[*x, factor], shape)?;
    }
    let mut out = Vec::with_capacity(values.len());
    for (at, x) in values.into_iter().enumerate() {
        out.push(match made.get(at).and_then(Option::as_ref) {
            Some(q) => quantize(s, x, q)?,
            None => x,
        });
    }
    Ok(out)
}

/// The scale of a product whose operands, less their zero points, are integers that bf16 holds: their products and sums are
/// as exact as f32.
fn exact_product(given: &[Option<Rc<Quant>>], made: &[Option<Rc<Quant>>]) -> Option<f64> {
    const MOST: i64 = 256;
    let [Some(a), Some(b)] = given else { return None };
    let narrow = |q: &Quant| {
        let [(_, zero)] = q.parameters[..] else { return false };
        q.axis.is_none() && q.expressed == DType::F32 && q.range.1 - zero <= MOST && zero - q.range.0 <= MOST
    };
    let to_f32 = made.iter().flatten().all(|q| q.expressed == DType::F32);
    (narrow(a) && narrow(b) && to_f32).then(|| a.parameters[0].0 * b.parameters[0].0)
}

/// The integers less their zero points, in a type.
fn centred(s: &mut Site<'_, '_, '_>, x: NodeId, q: &Quant, to: DType) -> PResult<NodeId> {
    let o = s.o;
    let dims = dims(s.body, o, x)?;
    let wide = if q.storage.bits() < 32 { DType::S32 } else { DType::S64 };
    let mut x = x;
    if q.parameters.iter().any(|p| p.1 != 0) {
        let shape = Shape::array(wide, &dims);
        x = s.add(Op::Convert, &[x], shape.clone())?;
        let zero = each(s, &shape, (q, &zero_point))?;
        x = s.add(Op::Binary(Binary::Sub), &[x, zero], shape)?;
    }
    s.add(Op::Convert, &[x], Shape::array(to, &dims))
}

/// The numbers that integers express.
fn dequantize(s: &mut Site<'_, '_, '_>, x: NodeId, q: &Quant) -> PResult<NodeId> {
    let x = centred(s, x, q, q.expressed)?;
    let shape = s.body.b.shape(x).clone();
    let scale = each(s, &shape, (q, &|p| p.0))?;
    s.add(Op::Binary(Binary::Mul), &[x, scale], shape)
}

/// The integers that express numbers best: scaled, moved by the zero point, held within the range, rounded to even.
fn quantize(s: &mut Site<'_, '_, '_>, x: NodeId, q: &Quant) -> PResult<NodeId> {
    let o = s.o;
    let dims = dims(s.body, o, x)?;
    let shape = Shape::array(q.expressed, &dims);
    if *s.body.b.shape(x) != shape {
        return Err(o.error(format!("the type expresses {}, the operand is {}", q.expressed, s.body.b.shape(x))));
    }
    let number = |v: f64| element_bytes(q.expressed, v);
    let scale = each(s, &shape, (q, &|p| p.0))?;
    let mut x = s.add(Op::Binary(Binary::Div), &[x, scale], shape.clone())?;
    if q.parameters.iter().any(|p| p.1 != 0) {
        let zero = each(s, &shape, (q, &zero_point))?;
        x = s.add(Op::Binary(Binary::Add), &[x, zero], shape.clone())?;
    }
    let least = spread(s, &shape, None, vec![number(q.range.0 as f64)])?;
    let most = spread(s, &shape, None, vec![number(q.range.1 as f64)])?;
    let x = s.add(Op::Clamp, &[least, x, most], shape.clone())?;
    let x = s.add(Op::Unary(Unary::RoundEven), &[x], shape)?;
    s.add(Op::Convert, &[x], Shape::array(q.storage, &dims))
}

/// A parameter: its scale and zero point.
type Parameter = (f64, i64);

fn zero_point(p: &Parameter) -> f64 {
    p.1 as f64
}

/// A number of every parameter, spread over a shape in its type.
fn each(s: &mut Site<'_, '_, '_>, shape: &Shape, (q, of): (&Quant, &dyn Fn(&Parameter) -> f64)) -> PResult<NodeId> {
    let o = s.o;
    let Shape::Array(array) = shape else { return Err(o.error("quantized values are tensors")) };
    let elements = q.parameters.iter().map(|p| element_bytes(array.dtype, of(p))).collect();
    spread(s, shape, q.axis, elements)
}

/// One element for all, or one for each index of a dimension.
fn spread(s: &mut Site<'_, '_, '_>, shape: &Shape, axis: Option<usize>, elements: Vec<Vec<u8>>) -> PResult<NodeId> {
    let o = s.o;
    let Shape::Array(array) = shape else { return Err(o.error("quantized values are tensors")) };
    let own = if axis.is_some() { vec![elements.len() as u64] } else { Vec::new() };
    let constant = s.body.b.constant(Literal::new(array.dtype, &own, elements.concat()));
    if axis.is_none() && array.dims.is_empty() {
        return Ok(constant);
    }
    s.add(Op::Broadcast { dims: axis.into_iter().collect() }, &[constant], shape.clone())
}

fn dims(body: &Body<'_>, o: &Operation<'_>, x: NodeId) -> PResult<Vec<u64>> {
    match body.b.shape(x) {
        Shape::Array(a) => Ok(a.dims.clone()),
        Shape::Tuple(_) | Shape::Token => Err(o.error("quantized values are tensors")),
    }
}
