//! Rules for reverse, slices, concatenation and padding.

use super::fold::{as_index, scalar_of};
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::graph::{NodeId, Op, PadDim, SliceDim};

/// Whether an array has a dimension whose size is only a bound.
fn is_bounded(b: &Emit, x: NodeId) -> bool {
    b.shape(x).as_array().is_some_and(|a| a.dynamic.contains(&true))
}

pub fn reverse(b: &mut Emit, x: NodeId, dims: &[usize]) -> Option<NodeId> {
    let mut kept: Vec<usize> = dims.iter().copied().filter(|&d| b.dims(x)[d] > 1).collect();
    if let Op::Broadcast { dims: map } = b.op(x) {
        kept.retain(|d| map.contains(d));
    }
    if kept.is_empty() {
        return b.draft.fire("reverse-nothing").then_some(x);
    }
    if let Op::Reverse { dims: inner } = b.op(x).clone() {
        let y = b.operand(x, 0);
        let odd: Vec<usize> = (0..b.rank(x)).filter(|d| kept.contains(d) != inner.contains(d)).collect();
        return b.draft.fire("reverse-reverse").then(|| b.reverse(y, &odd));
    }
    (kept.len() < dims.len() && b.draft.fire("reverse-fewer")).then(|| b.reverse(x, &kept))
}

/// The part of a transpose (one in so many) that is cut before it.
const SMALL: u64 = 64;

#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
pub fn slice(b: &mut Emit, x: NodeId, dims: &[SliceDim]) -> Option<NodeId> {
    if is_bounded(b, x) {
        return None;
    }
    let from = b.dims(x).to_vec();
    let sizes: Vec<u64> = dims.iter().map(|d| (d.limit - d.start).div_ceil(d.stride)).collect();
    if sizes == from {
        return b.draft.fire("slice-all").then_some(x);
    }
    match b.op(x).clone() {
        Op::Slice { dims: inner } => {
            let y = b.operand(x, 0);
            let composed: Vec<SliceDim> =
                dims.iter().zip(&inner).zip(&sizes).map(|((o, i), &n)| compose(o, i, n)).collect();
            b.draft.fire("slice-slice").then(|| b.slice(y, &composed))
        }
        Op::Broadcast { dims: map } => {
            let y = b.operand(x, 0);
            if !b.draft.fire("slice-broadcast") {
                return None;
            }
            let inner: Vec<SliceDim> = map.iter().map(|&d| dims[d]).collect();
            let small = b.slice(y, &inner);
            Some(b.broadcast(small, &map, &sizes))
        }
        Op::Iota { dim } if sizes[dim] == from[dim] => {
            let dtype = b.dtype(x);
            b.draft.fire("slice-iota").then(|| b.iota(dtype, &sizes, dim))
        }
        Op::Concatenate { dim } => {
            let parts = b.node(x).operands.clone();
            let (part, start) = part_of(b, &parts, dim, &dims[dim])?;
            if !b.draft.fire("slice-concatenate") {
                return None;
            }
            let mut inner = dims.to_vec();
            inner[dim].start -= start;
            inner[dim].limit = (inner[dim].limit - start).min(b.dims(part)[dim]);
            Some(b.slice(part, &inner))
        }
        // A small part is turned by itself, and the rest as others need it.
        Op::Transpose { permutation }
            if sizes.iter().product::<u64>().saturating_mul(SMALL) <= b.elements(x)
                && b.uses(x) > 1
                && b.draft.fire("slice-transpose") =>
        {
            let y = b.operand(x, 0);
            let mut inner = dims.to_vec();
            permutation.iter().zip(dims).for_each(|(&p, &d)| inner[p] = d);
            let part = b.slice(y, &inner);
            Some(b.transpose(part, &permutation))
        }
        // Nothing else needs the product's other rows.
        Op::Transpose { .. } | Op::Reshape | Op::Dot { .. } if b.uses(x) == 1 => super::product::rows(b, x, dims),
        _ => None,
    }
}

/// A slice of `n` elements of a slice.
fn compose(outer: &SliceDim, inner: &SliceDim, n: u64) -> SliceDim {
    let start = inner.start + outer.start * inner.stride;
    let stride = inner.stride * outer.stride;
    let limit = if n == 0 { start } else { start + (n - 1) * stride + 1 };
    SliceDim { start, limit, stride }
}

/// The part of a concatenation that holds a whole slice, and where it starts.
fn part_of(b: &Emit, parts: &[NodeId], dim: usize, s: &SliceDim) -> Option<(NodeId, u64)> {
    let last = s.start + (s.limit - s.start - 1) / s.stride * s.stride;
    let mut start = 0;
    for &p in parts {
        let end = start + b.dims(p)[dim];
        if s.start >= start && s.start < end {
            return (last < end).then_some((p, start));
        }
        start = end;
    }
    None
}

pub fn concatenate(b: &mut Emit, parts: &[NodeId], dim: usize) -> Option<NodeId> {
    if parts.iter().any(|&p| is_bounded(b, p)) {
        return None;
    }
    if parts.len() == 1 {
        return b.draft.fire("concatenate-one").then_some(parts[0]);
    }
    let kept: Vec<NodeId> = parts.iter().copied().filter(|&p| b.dims(p)[dim] > 0).collect();
    if kept.len() < parts.len() && !kept.is_empty() {
        return b.draft.fire("concatenate-empty").then(|| b.concatenate(&kept, dim));
    }
    let nested = |b: &Emit, p: NodeId| matches!(b.op(p), Op::Concatenate { dim: d } if *d == dim);
    if parts.iter().any(|&p| nested(b, p)) && parts.len() < 64 {
        if !b.draft.fire("concatenate-concatenate") {
            return None;
        }
        let mut flat = Vec::new();
        for &p in parts {
            if nested(b, p) {
                flat.extend_from_slice(&b.node(p).operands);
            } else {
                flat.push(p);
            }
        }
        return Some(b.concatenate(&flat, dim));
    }
    None
}

pub fn pad(b: &mut Emit, x: NodeId, value: NodeId, dims: &[PadDim]) -> Option<NodeId> {
    if is_bounded(b, x) {
        return None;
    }
    let from = b.dims(x).to_vec();
    let inert = |p: &PadDim, n: u64| p.low == 0 && p.high == 0 && (p.interior == 0 || n <= 1);
    if dims.iter().zip(&from).all(|(p, &n)| inert(p, n)) {
        return b.draft.fire("pad-nothing").then_some(x);
    }
    if from.contains(&0) {
        let sizes: Vec<u64> = from.iter().zip(dims).map(|(&n, p)| crate::make::padded_size(n, p)).collect();
        return b.draft.fire("pad-empty").then(|| b.broadcast(value, &[], &sizes));
    }
    if dims.iter().zip(&from).all(|(p, &n)| p.low <= 0 && p.high <= 0 && (p.interior == 0 || n <= 1)) {
        let cut = |(p, &n): (&PadDim, &u64)| {
            let start = p.low.unsigned_abs().min(n);
            SliceDim { start, limit: n.saturating_sub(p.high.unsigned_abs()).max(start), stride: 1 }
        };
        let cuts: Vec<SliceDim> = dims.iter().zip(&from).map(cut).collect();
        return b.draft.fire("pad-slice").then(|| b.slice(x, &cuts));
    }
    None
}

pub fn dynamic_slice(b: &mut Emit, operands: &[NodeId], sizes: &[u64]) -> Option<NodeId> {
    let x = operands[0];
    let from = b.dims(x).to_vec();
    if from == sizes {
        return b.draft.fire("dynamic-slice-all").then_some(x);
    }
    if operands.len() != sizes.len() + 1 || is_bounded(b, x) {
        return None;
    }
    let starts: Option<Vec<u64>> =
        (0..sizes.len()).map(|d| known_start(b, operands[d + 1], from[d], sizes[d])).collect();
    let starts = starts?;
    if !b.draft.fire("dynamic-slice-constant") {
        return None;
    }
    let mut dims = whole(&from);
    for (d, s) in dims.iter_mut().enumerate() {
        *s = SliceDim { start: starts[d], limit: starts[d] + sizes[d], stride: 1 };
    }
    Some(b.slice(x, &dims))
}

/// A start index that is known: constant, or 0 because the slice takes the whole dimension.
fn known_start(b: &Emit, index: NodeId, n: u64, size: u64) -> Option<u64> {
    if n == size {
        return Some(0);
    }
    let value = as_index(scalar_of(b, index)?)?;
    Some(value.clamp(0, (n - size) as i128) as u64)
}

pub fn dynamic_update_slice(b: &mut Emit, operands: &[NodeId]) -> Option<NodeId> {
    let (x, update) = (operands[0], operands[1]);
    if b.dims(x) == b.dims(update) && b.draft.fire("dynamic-update-slice-all") {
        return Some(update);
    }
    if b.elements(update) == 0 {
        return b.draft.fire("dynamic-update-slice-empty").then_some(x);
    }
    let splat = matches!(b.op(x), Op::Broadcast { dims } if dims.is_empty());
    if splat && operands.len() == b.rank(x) + 2 && !is_bounded(b, x) && !is_bounded(b, update) {
        return padded(b, operands);
    }
    None
}

/// A part of an array of one value, at a place that is known.
fn padded(b: &mut Emit, operands: &[NodeId]) -> Option<NodeId> {
    let (x, update) = (operands[0], operands[1]);
    let sizes = b.dims(x).iter().copied().zip(b.dims(update).iter().copied());
    let edges: Option<Vec<PadDim>> = sizes
        .zip(&operands[2..])
        .map(|((n, size), &index)| {
            let low = known_start(b, index, n, size)?;
            Some(PadDim::edges(low as i64, (n - size - low) as i64))
        })
        .collect();
    let edges = edges.filter(|_| b.draft.fire("dynamic-update-slice-splat"))?;
    let value = b.operand(x, 0);
    Some(b.pad(update, value, &edges))
}
