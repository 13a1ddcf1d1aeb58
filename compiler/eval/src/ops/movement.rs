//! Operations that move elements: their bytes are copied, never looked at.

use super::super::error::{Fault, malformed};
use super::super::scalar::{self, Scalar, convert};
use super::super::tensor::{copy_strided, gather_strided, signed, strides};
use super::super::value::Tensor;
use systole_hlo::graph::{ArrayShape, PadDim, SliceDim};
use systole_isa::DType;

/// `dims[i]` is the result dimension of operand dimension `i`; operand dimensions of size 1 are expanded.
pub(in super::super) fn broadcast(t: &Tensor, dims: &[usize], result: &ArrayShape) -> Result<Tensor, Fault> {
    let mut out = super::super::value::sizes(&result.dims);
    let mut steps = vec![0; out.len()];
    for ((&d, &size), &stride) in dims.iter().zip(&t.dims).zip(&strides(&t.dims)) {
        let slot = out.get_mut(d).ok_or_else(|| malformed("broadcast dimension out of range"))?;
        if size != 1 || *slot == 1 {
            *slot = size;
            steps[d] = stride as isize;
        }
    }
    Ok(gather_strided(t, &out, 0, &steps))
}

/// The same elements under other sizes. A dynamic dimension of the result takes what the others leave.
pub(in super::super) fn reshape(t: &Tensor, result: &ArrayShape) -> Result<Tensor, Fault> {
    let mut dims = super::super::value::sizes(&result.dims);
    let n = t.elements();
    if dims.iter().product::<usize>() != n
        && let Some(d) = (0..dims.len()).find(|&d| result.is_dynamic(d))
    {
        let rest: usize = dims.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, s)| s).product();
        dims[d] = n.checked_div(rest).unwrap_or(0);
    }
    if dims.iter().product::<usize>() != n {
        return Err(malformed(format!("reshape of {:?} to {:?}", t.dims, dims)));
    }
    Ok(t.clone().reshaped(&dims))
}

/// The leading `sizes` of the result shape's elements.
pub(in super::super) fn dynamic_reshape(t: &Tensor, sizes: &[&Tensor]) -> Result<Tensor, Fault> {
    let dims: Vec<usize> = sizes.iter().map(|s| s.index(0).max(0) as usize).collect();
    if dims.iter().product::<usize>() != t.elements() {
        return Err(malformed(format!("dynamic-reshape of {:?} to {:?}", t.dims, dims)));
    }
    Ok(t.clone().reshaped(&dims))
}

/// The operand's memory, laid out as its shape says, read as the result's shape says.
pub(in super::super) fn bitcast(t: &Tensor, from: &ArrayShape, to: &ArrayShape) -> Result<Tensor, Fault> {
    let descending = |layout: &[u8]| layout.windows(2).all(|w| w[0] > w[1]);
    let (a, b) = (from.layout(), to.layout());
    let t = if descending(&a) { t.clone() } else { transpose(t, &major_to_minor(&a)) };
    let t = if from.dtype == to.dtype { t } else { bitcast_convert(&t, to)? };
    if descending(&b) {
        return reshape(&t, to);
    }
    let order = major_to_minor(&b);
    let physical = ArrayShape::new(to.dtype, &order.iter().map(|&d| to.dims[d]).collect::<Vec<_>>());
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &d)| back[d] = i);
    Ok(transpose(&reshape(&t, &physical)?, &back))
}

fn major_to_minor(layout: &[u8]) -> Vec<usize> {
    layout.iter().rev().map(|&d| d as usize).collect()
}

/// The same bits as another type; a different width adds or drops a minor-most dimension.
pub(in super::super) fn bitcast_convert(t: &Tensor, result: &ArrayShape) -> Result<Tensor, Fault> {
    let (from, to) = (t.dtype, result.dtype);
    let mut dims = t.dims.clone();
    let ratio = (from.bits().max(to.bits()) / from.bits().min(to.bits())) as usize;
    if from.bits() > to.bits() {
        dims.push(ratio);
    } else if from.bits() < to.bits() && dims.pop() != Some(ratio) {
        return Err(malformed(format!("bitcast-convert of {from} {:?} to {to}", t.dims)));
    }
    // Elements of fewer bits than a byte, a byte each, are packed and taken apart.
    let (packs, apart) = (from.bits() < 8 && to.bits() > from.bits(), to.bits() < 8 && from.bits() > to.bits());
    let bytes: Vec<u8> = if packs || apart {
        let bits_of = |t: DType| t.bits().min(8) as usize;
        let (small, large) = (bits_of(if packs { from } else { to }), bits_of(if packs { to } else { from }));
        let (each, mask) = (large / small, (1u8 << small) - 1);
        match packs {
            true => {
                let join = |c: &[u8]| c.iter().enumerate().fold(0, |b, (i, v)| b | (v & mask) << (i * small));
                t.bytes().chunks_exact(each).map(join).collect()
            }
            false => t.bytes().iter().flat_map(|b| (0..each).map(move |i| b >> (i * small) & mask)).collect(),
        }
    } else {
        t.bytes().to_vec()
    };
    if bytes.len() != dims.iter().product::<usize>() * to.host_bytes() {
        return Err(malformed(format!("bitcast-convert of {from} {:?} to {to}", t.dims)));
    }
    Ok(Tensor::new(to, &dims, bytes))
}

/// `permutation[i]` is the operand dimension that result dimension `i` comes from.
pub(in super::super) fn transpose(t: &Tensor, permutation: &[usize]) -> Tensor {
    if permutation.iter().enumerate().all(|(i, &p)| i == p) {
        return t.clone();
    }
    let own = signed(&strides(&t.dims));
    let dims: Vec<usize> = permutation.iter().map(|&p| t.dims[p]).collect();
    let steps: Vec<isize> = permutation.iter().map(|&p| own[p]).collect();
    gather_strided(t, &dims, 0, &steps)
}

pub(in super::super) fn reverse(t: &Tensor, dims: &[usize]) -> Tensor {
    if t.elements() == 0 {
        return t.clone();
    }
    let mut steps = signed(&strides(&t.dims));
    let mut start = 0;
    for &d in dims {
        start += steps[d] * (t.dims[d] as isize - 1);
        steps[d] = -steps[d];
    }
    gather_strided(t, &t.dims, start, &steps)
}

pub(in super::super) fn slice(t: &Tensor, dims: &[SliceDim]) -> Tensor {
    let own = signed(&strides(&t.dims));
    let (mut start, mut steps, mut out) = (0, Vec::new(), Vec::new());
    for ((d, &size), &stride) in dims.iter().zip(&t.dims).zip(&own) {
        let limit = (d.limit as usize).min(size);
        let begin = (d.start as usize).min(limit);
        out.push((limit - begin).div_ceil(d.stride.max(1) as usize));
        start += begin as isize * stride;
        steps.push(stride * d.stride.max(1) as isize);
    }
    gather_strided(t, &out, start, &steps)
}

pub(in super::super) fn concatenate(args: &[&Tensor], dim: usize) -> Result<Tensor, Fault> {
    let first = args.first().ok_or_else(|| malformed("concatenate of nothing"))?;
    let mut dims = first.dims.clone();
    dims[dim] = args.iter().map(|t| t.dims[dim]).sum();
    let own = signed(&strides(&dims));
    let mut out = Tensor::zeros(first.dtype, &dims);
    let mut at = 0;
    for t in args {
        let from = signed(&strides(&t.dims));
        copy_strided(t.dtype, t.bytes(), (0, &from), out.bytes_mut(), (at, &own), &t.dims);
        at += t.dims[dim] as isize * own[dim];
    }
    Ok(out)
}

/// Interior padding first, then the edges, which may cut.
pub(in super::super) fn pad(t: &Tensor, value: &Tensor, dims: &[PadDim]) -> Tensor {
    let mut out_dims = Vec::new();
    for (p, &size) in dims.iter().zip(&t.dims) {
        let inner = size as i64 + (size as i64 - 1).max(0) * p.interior as i64;
        out_dims.push((inner + p.low + p.high).max(0) as usize);
    }
    let n: usize = out_dims.iter().product();
    let mut out = value.bytes().repeat(n);
    let (from, to) = (signed(&strides(&t.dims)), signed(&strides(&out_dims)));
    let (mut box_dims, mut from_start, mut to_start, mut to_steps) = (Vec::new(), 0, 0, Vec::new());
    for (d, p) in dims.iter().enumerate() {
        let pitch = p.interior as i64 + 1;
        // Operand indices whose place lies in the result: 0 <= low + i * pitch < size.
        let first = if p.low < 0 { (-p.low + pitch - 1) / pitch } else { 0 };
        let last = (out_dims[d] as i64 - p.low + pitch - 1).div_euclid(pitch).min(t.dims[d] as i64);
        box_dims.push((last - first).max(0) as usize);
        from_start += first as isize * from[d];
        to_start += (p.low + first * pitch) as isize * to[d];
        to_steps.push(to[d] * pitch as isize);
    }
    copy_strided(t.dtype, t.bytes(), (from_start, &from), &mut out, (to_start, &to_steps), &box_dims);
    Tensor::new(t.dtype, &out_dims, out)
}

pub(in super::super) fn iota(dim: usize, result: &ArrayShape) -> Tensor {
    let dims = super::super::value::sizes(&result.dims);
    let line_type = result.dtype;
    let line = |i: usize| convert::convert(DType::S64, line_type, Scalar::I(i as i64));
    let size = dims.get(dim).copied().unwrap_or(1);
    let line = Tensor::new(line_type, &[size], scalar::scalar_bytes(line_type, (0..size).map(line)));
    let mut steps = vec![0; dims.len()];
    if let Some(s) = steps.get_mut(dim) {
        *s = 1;
    }
    gather_strided(&line, &dims, 0, &steps)
}

/// Start indices, clamped so that a box of `sizes` fits into `dims`.
fn starts(indices: &[&Tensor], dims: &[usize], sizes: &[usize]) -> Result<Vec<isize>, Fault> {
    let given: Vec<i64> = match indices {
        [one] if one.rank() == 1 => (0..one.elements()).map(|i| one.index(i)).collect(),
        many => many.iter().map(|t| t.index(0)).collect(),
    };
    if given.len() != dims.len() {
        return Err(malformed(format!("{} start indices for rank {}", given.len(), dims.len())));
    }
    let clamp = |((g, &d), &s): ((&i64, &usize), &usize)| (*g).clamp(0, d as i64 - (s as i64).min(d as i64)) as isize;
    Ok(given.iter().zip(dims).zip(sizes).map(clamp).collect())
}

pub(in super::super) fn dynamic_slice(t: &Tensor, indices: &[&Tensor], sizes: &[u64]) -> Result<Tensor, Fault> {
    let sizes: Vec<usize> = sizes.iter().zip(&t.dims).map(|(&s, &d)| (s as usize).min(d)).collect();
    let own = signed(&strides(&t.dims));
    let start = starts(indices, &t.dims, &sizes)?.iter().zip(&own).map(|(i, s)| i * s).sum();
    Ok(gather_strided(t, &sizes, start, &own))
}

/// Writes into `t` itself, which is copied only if someone else holds it too.
pub(in super::super) fn dynamic_update_slice(
    mut t: Tensor,
    update: &Tensor,
    indices: &[&Tensor],
) -> Result<Tensor, Fault> {
    if update.dims.iter().zip(&t.dims).any(|(u, d)| u > d) {
        return Err(malformed(format!("update of {:?} for {:?}", update.dims, t.dims)));
    }
    let own = signed(&strides(&t.dims));
    let start = starts(indices, &t.dims, &update.dims)?.iter().zip(&own).map(|(i, s)| i * s).sum();
    let from = signed(&strides(&update.dims));
    copy_strided(update.dtype, update.bytes(), (0, &from), t.bytes_mut(), (start, &own), &update.dims);
    Ok(t)
}

/// The leading elements along a dimension; a size beyond the array's gives zeros there.
pub(in super::super) fn set_dimension_size(t: &Tensor, size: &Tensor, dim: usize) -> Result<Tensor, Fault> {
    let size = size.index(0);
    if size < 0 || dim >= t.rank() {
        return Err(malformed(format!("dimension {dim} of size {size}")));
    }
    let mut pads = vec![PadDim::NONE; t.rank()];
    pads[dim].high = size - t.dims[dim] as i64;
    Ok(pad(t, &Tensor::zeros(t.dtype, &[]), &pads))
}
