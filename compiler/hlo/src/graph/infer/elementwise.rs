//! Rules of elementwise operations.

use super::{Rule, Site, ensure, fail, with_type};
use crate::graph::{ArrayShape, Binary, CompId, Direction, Shape, Unary};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass::Unsigned;

fn typed(s: &Site<'_>, t: DType, ok: bool) -> Rule<()> {
    ensure(ok, "element_type", || format!("{} does not take elements of type {t}", s.name()))
}

/// All arrays of one shape, dynamic where any is.
fn common(s: &Site<'_>, arrays: &[&ArrayShape]) -> Rule<ArrayShape> {
    let mut out = ArrayShape { minor_to_major: None, ..arrays[0].clone() };
    for a in arrays {
        ensure(a.dtype == out.dtype, "same_type", || {
            format!("the operands of {} must have one element type, not {} and {}", s.name(), out.dtype, a.dtype)
        })?;
        ensure(a.dims == out.dims, "same_sizes", || {
            format!("the operands of {} must have the same sizes, not {} and {}", s.name(), arrays[0], a)
        })?;
        if !a.dynamic.is_empty() {
            out.dynamic = (0..a.rank()).map(|i| out.is_dynamic(i) || a.is_dynamic(i)).collect();
        }
    }
    Ok(out)
}

pub(super) fn unary(s: &Site<'_>, u: Unary) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    typed(s, a.dtype, u.takes(a.dtype.class()))?;
    Ok(with_type(a, u.result(a.dtype)))
}

pub(super) fn binary(s: &Site<'_>, b: Binary) -> Rule {
    s.count(2)?;
    let a = common(s, &s.arrays()?)?;
    let parts = b != Binary::Complex || matches!(a.dtype, DType::F32 | DType::F64);
    typed(s, a.dtype, parts && b.takes(a.dtype.class()))?;
    let dtype = if b == Binary::Complex { a.dtype.complex() } else { a.dtype };
    Ok(with_type(&a, dtype))
}

pub(super) fn compare(s: &Site<'_>, direction: Direction) -> Rule {
    s.count(2)?;
    let a = common(s, &s.arrays()?)?;
    typed(s, a.dtype, !a.dtype.is_complex() || matches!(direction, Direction::Eq | Direction::Ne))?;
    Ok(with_type(&a, DType::Pred))
}

pub(super) fn select(s: &Site<'_>) -> Rule {
    s.count(3)?;
    let pred = s.array(0)?;
    ensure(pred.dtype == DType::Pred, "select_pred", || format!("select chooses by a pred, not {pred}"))?;
    if let [_, a, b] = s.operands
        && !matches!(a, Shape::Array(_))
    {
        ensure(a.same(b), "same_sizes", || format!("select chooses between {a} and {b}, which differ"))?;
        ensure(pred.rank() == 0, "select_pred", || "a tuple is selected by a scalar pred".to_string())?;
        return Ok((*a).clone());
    }
    let a = common(s, &[s.array(1)?, s.array(2)?])?;
    ensure(pred.rank() == 0 || pred.dims == a.dims, "select_sizes", || {
        format!("select's pred must be a scalar or as large as the values, not {pred} for {a}")
    })?;
    Ok(Shape::Array(a))
}

pub(super) fn clamp(s: &Site<'_>) -> Rule {
    s.count(3)?;
    let x = s.array(1)?;
    typed(s, x.dtype, !x.dtype.is_complex())?;
    for i in [0, 2] {
        let bound = s.array(i)?;
        ensure(bound.dtype == x.dtype, "same_type", || format!("clamp limits {x} by {bound}: the types differ"))?;
        ensure(bound.rank() == 0 || bound.dims == x.dims, "clamp_sizes", || {
            format!("clamp's bounds must be scalars or as large as the operand, not {bound} for {x}")
        })?;
    }
    typed(s, x.dtype, !x.dtype.is_complex())?;
    Ok(with_type(x, x.dtype))
}

/// `convert`, `bitcast-convert`, `stochastic-convert`: the declared element type.
pub(super) fn convert(s: &Site<'_>) -> Rule {
    use crate::graph::Op;
    let stochastic = matches!(s.op, Op::StochasticConvert);
    s.count(if stochastic { 2 } else { 1 })?;
    let (from, to) = (s.array(0)?, s.declared_array()?);
    if stochastic {
        let random = s.array(1)?;
        let ok =
            random.dims == from.dims && random.dtype.class() == Unsigned && random.dtype.bits() == from.dtype.bits();
        ensure(ok, "stochastic_random", || {
            format!("stochastic-convert of {from} needs unsigned bits of its size, not {random}")
        })?;
        typed(s, from.dtype, from.dtype.is_float())?;
    }
    if !matches!(s.op, Op::BitcastConvert) {
        let ok = !from.dtype.is_complex() || to.dtype.is_complex() || matches!(s.op, Op::Convert);
        typed(s, from.dtype, ok)?;
        return Ok(with_type(from, to.dtype));
    }
    let (a, b) = (from.dtype.bits() as u64, to.dtype.bits() as u64);
    ensure(from.dtype.is_complex() == to.dtype.is_complex(), "bitcast_complex", || {
        format!("bitcast-convert does not go between complex and other types ({} to {})", from.dtype, to.dtype)
    })?;
    let mut dims = from.dims.clone();
    if a > b {
        dims.push(a / b);
    } else if a < b {
        let last = dims.pop();
        ensure(last == Some(b / a), "bitcast_ratio", || {
            format!("bitcast-convert of {from} to {} needs a last dimension of size {}", to.dtype, b / a)
        })?;
    }
    Ok(Shape::array(to.dtype, &dims))
}

pub(super) fn reduce_precision(s: &Site<'_>, exponent: u32, mantissa: u32) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    typed(s, a.dtype, a.dtype.is_float())?;
    ensure((1..=63).contains(&exponent) && mantissa <= 63, "reduce_precision_bits", || {
        format!(
            "reduce-precision needs 1 or more exponent bits (up to 63), not {exponent}, and up to 63 mantissa bits, not {mantissa}"
        )
    })?;
    Ok(with_type(a, a.dtype))
}

pub(super) fn map(s: &Site<'_>, body: CompId, dims: &[usize]) -> Rule {
    s.at_least(1)?;
    let arrays = s.arrays()?;
    for a in &arrays {
        ensure(a.dims == arrays[0].dims, "same_sizes", || {
            format!("map's operands must have the same sizes, not {} and {a}", arrays[0])
        })?;
    }
    ensure(dims.iter().copied().eq(0..arrays[0].rank()), "map_dimensions", || {
        "map goes over all dimensions in order".to_string()
    })?;
    let scalars: Vec<Shape> = arrays.iter().map(|a| Shape::array(a.dtype, &[])).collect();
    match s.signature(body, &scalars)? {
        Shape::Array(r) if r.rank() == 0 => Ok(with_type(arrays[0], r.dtype)),
        r @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => {
            fail("computation_result", format!("map's computation must return a scalar, not {r}"))
        }
    }
}
