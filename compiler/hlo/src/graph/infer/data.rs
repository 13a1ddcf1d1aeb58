//! Rules of sources of data and of data movement.

use super::{Rule, Site, ensure, sized, with_type};
use crate::graph::{ArrayShape, Literal, PadDim, Shape, SliceDim};
use systole_isa::DType;

pub(super) fn parameter(s: &Site<'_>) -> Rule {
    s.count(0)?;
    Ok(s.declared()?.clone())
}

pub(super) fn constant(s: &Site<'_>, l: &Literal) -> Rule {
    s.count(0)?;
    Ok(Shape::array(l.dtype, &l.dims))
}

pub(super) fn iota(s: &Site<'_>, dim: usize) -> Rule {
    s.count(0)?;
    let a = s.declared_array()?;
    s.dim(dim, a.rank(), "the result")?;
    ensure(a.dtype != DType::Pred, "element_type", || "iota does not give pred".to_string())?;
    Ok(with_type(a, a.dtype))
}

pub(super) fn transpose(s: &Site<'_>, permutation: &[usize]) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    s.dims(permutation, a.rank(), "its operand")?;
    ensure(permutation.len() == a.rank(), "transpose_permutation", || {
        format!("transpose of {a} needs a permutation of its {} dimensions", a.rank())
    })?;
    let dims: Vec<u64> = permutation.iter().map(|&p| a.dims[p]).collect();
    let mut out = ArrayShape::new(a.dtype, &dims);
    if !a.dynamic.is_empty() {
        out.dynamic = permutation.iter().map(|&p| a.is_dynamic(p)).collect();
    }
    Ok(Shape::Array(out))
}

pub(super) fn reverse(s: &Site<'_>, dims: &[usize]) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    s.dims(dims, a.rank(), "its operand")?;
    Ok(with_type(a, a.dtype))
}

pub(super) fn get_dimension_size(s: &Site<'_>, dim: usize) -> Rule {
    s.count(1)?;
    s.dim(dim, s.array(0)?.rank(), "its operand")?;
    Ok(Shape::array(DType::S32, &[]))
}

pub(super) fn set_dimension_size(s: &Site<'_>, dim: usize) -> Rule {
    s.count(2)?;
    let a = s.array(0)?;
    s.dim(dim, a.rank(), "its operand")?;
    let size = s.scalar(1)?;
    ensure(size.dtype == DType::S32, "dimension_size_type", || format!("a dimension's size is s32[], not {size}"))?;
    let mut out = ArrayShape { minor_to_major: None, ..a.clone() };
    out.dynamic = (0..a.rank()).map(|i| a.is_dynamic(i) || i == dim).collect();
    Ok(Shape::Array(out))
}

pub(super) fn broadcast(s: &Site<'_>, dims: &[usize]) -> Rule {
    s.count(1)?;
    let (a, to) = (s.array(0)?, s.declared_array()?);
    ensure(dims.len() == a.rank(), "broadcast_dimensions", || {
        format!("broadcast of {a} needs {} dimension numbers, not {}", a.rank(), dims.len())
    })?;
    s.dims(dims, to.rank(), "the result")?;
    for (i, &d) in dims.iter().enumerate() {
        ensure(a.dims[i] == to.dims[d], "broadcast_sizes", || {
            format!("broadcast maps dimension {i} of {a} to dimension {d} of {to}, which has another size")
        })?;
    }
    Ok(with_type(to, a.dtype))
}

pub(super) fn reshape(s: &Site<'_>) -> Rule {
    s.count(1)?;
    same_elements(s, s.array(0)?, s.declared_array()?)
}

pub(super) fn dynamic_reshape(s: &Site<'_>) -> Rule {
    s.at_least(1)?;
    let (a, to) = (s.array(0)?, s.declared_array()?);
    s.count(1 + to.rank())?;
    for i in 1..s.operands.len() {
        let size = s.scalar(i)?;
        ensure(size.dtype.is_integer(), "element_type", || format!("a size is an integer, not {size}"))?;
    }
    same_elements(s, a, to)
}

fn same_elements(s: &Site<'_>, a: &ArrayShape, to: &ArrayShape) -> Rule {
    ensure(a.elements() == to.elements(), "reshape_size", || {
        let name = s.name();
        format!("{name} of {a} ({} elements) to {to} ({} elements)", a.elements(), to.elements())
    })?;
    Ok(with_type(to, a.dtype))
}

pub(super) fn bitcast(s: &Site<'_>) -> Rule {
    s.count(1)?;
    if matches!(s.operands[0], Shape::Tuple(_) | Shape::Token) {
        return Ok(s.operands[0].clone());
    }
    let (a, to) = (s.array(0)?, s.declared_array()?);
    let bits = |x: &ArrayShape| x.elements() as u128 * x.dtype.bits() as u128;
    ensure(bits(a) == bits(to), "bitcast_size", || format!("bitcast of {a} to {to} changes the size"))?;
    Ok(with_type(to, to.dtype))
}

pub(super) fn slice(s: &Site<'_>, dims: &[SliceDim]) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    ensure(dims.len() == a.rank(), "slice_rank", || format!("slice of {a} gives {} ranges", dims.len()))?;
    let mut out = Vec::new();
    for (i, (d, &size)) in dims.iter().zip(&a.dims).enumerate() {
        ensure(d.stride > 0, "slice_stride", || format!("slice has stride 0 in dimension {i}"))?;
        ensure(d.start <= d.limit && d.limit <= size, "slice_range", || {
            format!("slice takes {} to {} of dimension {i} of {a}", d.start, d.limit)
        })?;
        out.push((d.limit - d.start).div_ceil(d.stride) as i128);
    }
    sized(a.dtype, &out)
}

pub(super) fn concatenate(s: &Site<'_>, dim: usize) -> Rule {
    s.at_least(1)?;
    let arrays = s.arrays()?;
    let first = arrays[0];
    s.dim(dim, first.rank(), "its operands")?;
    let mut total = 0i128;
    for a in &arrays {
        ensure(a.dtype == first.dtype, "same_type", || format!("concatenate joins {first} and {a}: the types differ"))?;
        let same = a.rank() == first.rank() && (0..a.rank()).all(|i| i == dim || a.dims[i] == first.dims[i]);
        ensure(same, "concatenate_sizes", || {
            format!("concatenate joins {first} and {a} along dimension {dim}: the other sizes must agree")
        })?;
        total += a.dims[dim] as i128;
    }
    let mut out: Vec<i128> = first.dims.iter().map(|&d| d as i128).collect();
    out[dim] = total;
    sized(first.dtype, &out)
}

pub(super) fn pad(s: &Site<'_>, dims: &[PadDim]) -> Rule {
    s.count(2)?;
    let (a, value) = (s.array(0)?, s.scalar(1)?);
    ensure(value.dtype == a.dtype, "same_type", || format!("pad fills {a} with {value}: the types differ"))?;
    ensure(dims.len() == a.rank(), "pad_rank", || format!("pad of {a} gives {} dimensions", dims.len()))?;
    let out: Vec<i128> = (dims.iter().zip(&a.dims))
        .map(|(p, &d)| {
            let inner = if d > 0 { d as i128 + (d as i128 - 1) * p.interior as i128 } else { 0 };
            inner + p.low as i128 + p.high as i128
        })
        .collect();
    sized(a.dtype, &out)
}

/// Start indices: one scalar per dimension, or one array of them.
fn starts(s: &Site<'_>, first: usize, rank: usize) -> Rule<()> {
    let given = s.operands.len() - first;
    if given == 1 && s.array(first)?.rank() == 1 {
        let a = s.array(first)?;
        ensure(a.dims[0] == rank as u64 && a.dtype.is_integer(), "start_indices", || {
            format!("{} needs {rank} integer start indices, not {a}", s.name())
        })?;
        return Ok(());
    }
    ensure(given == rank, "start_indices", || format!("{} needs {rank} start indices, not {given}", s.name()))?;
    for i in first..s.operands.len() {
        let a = s.scalar(i)?;
        ensure(a.dtype.is_integer() && a.dtype == s.array(first)?.dtype, "start_indices", || {
            format!("the start indices of {} are integers of one type, not {a}", s.name())
        })?;
    }
    Ok(())
}

pub(super) fn dynamic_slice(s: &Site<'_>, sizes: &[u64]) -> Rule {
    s.at_least(1)?;
    let a = s.array(0)?;
    starts(s, 1, a.rank())?;
    let fits = sizes.len() == a.rank() && sizes.iter().zip(&a.dims).all(|(x, d)| x <= d);
    ensure(fits, "dynamic_slice_sizes", || format!("dynamic-slice of {a} cannot take sizes {sizes:?}"))?;
    Ok(Shape::array(a.dtype, sizes))
}

pub(super) fn dynamic_update_slice(s: &Site<'_>) -> Rule {
    s.at_least(2)?;
    let (a, update) = (s.array(0)?, s.array(1)?);
    starts(s, 2, a.rank())?;
    ensure(update.dtype == a.dtype, "same_type", || format!("the update {update} differs in type from {a}"))?;
    let fits = update.rank() == a.rank() && update.dims.iter().zip(&a.dims).all(|(x, d)| x <= d);
    ensure(fits, "dynamic_update_slice_sizes", || format!("the update {update} does not fit into {a}"))?;
    Ok(with_type(a, a.dtype))
}
