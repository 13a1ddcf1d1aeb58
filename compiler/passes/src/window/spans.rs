//! Windows by doubling distances: what lies in spans of one, two, four elements and so on, of which windows are put together.

use super::scan::starts_idle;
use super::{BLOCK, LARGE, NARROW_WINDOW, Windows, is_plain, lowered};
use crate::edit::{Emit, Rewritten};
use crate::reductions::sums::wide_sum;
use crate::simplify::{combiner, identity};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Direction, NodeId, PadDim, WindowDim};
use systole_isa::DType;

/// A windowed reduction by doubling distances along one dimension, and the rest as it is; `None` if it is none of one
/// operation.
pub(super) fn doubled(b: &mut Emit, whole: Windows<'_>, dim: usize) -> Rewritten {
    let Windows { window, body, .. } = whole;
    let (&[x], &[init]) = (whole.xs, whole.inits) else { return Ok(None) };
    let Some(op) = combiner(b, body) else { return Ok(None) };
    let from = b.dtype(x);
    let Some(neutral) = identity(op, from) else { return Ok(None) };
    let wide = if wide_sum(b, body, from).is_some() { DType::F32 } else { from };
    let x = b.convert(x, wide);
    let r = shifted_sums(b, x, (dim, &window[dim]), op, neutral);
    let mut rest = window.to_vec();
    rest[dim] = WindowDim::TRIVIAL;
    let r = if rest.iter().any(|w| *w != WindowDim::TRIVIAL) {
        let (start, body) = (b.scalar(wide, neutral), b.body(op, wide));
        lowered(b, Windows { xs: &[r], inits: &[start], window: &rest, body, ..whole })?
    } else {
        r
    };
    let init = b.convert(init, wide);
    let r = if starts_idle(b, op, init) { r } else { b.binary(op, init, r) };
    Ok(Some(b.convert(r, from)))
}

/// Places of a window along a dimension from which on a plain reduction of a large array doubles distances there, times the distance of
/// windows; and places in all of smaller ones. Along lanes [`LONG`] ones do: what goes along these otherwise is turned first.
const LONG_PLAIN: u64 = 32;
const MANY_PLACES: u64 = 96;

/// Long windows of one operation over a large array: by doubling distances along their longest dimension, and the rest as it is.
pub(super) fn by_distances(b: &mut Emit, whole: Windows<'_>) -> Rewritten {
    let Windows { xs, window, body, .. } = whole;
    let places: u64 = window.iter().map(|w| w.size).product();
    let Some((dim, w)) = window.iter().enumerate().max_by_key(|(_, w)| w.size / w.stride) else { return Ok(None) };
    let each = w.size / w.stride;
    let last = dim + 1 == window.len();
    let long = each >= LONG_PLAIN || each >= LONG && (last || places >= MANY_PLACES * w.stride);
    // Small windows of narrow floats round every sum.
    let rounds = places <= NARROW_WINDOW && wide_sum(b, body, b.dtype(xs[0])).is_some();
    if !long || rounds || b.elements(xs[0]) < LARGE {
        return Ok(None);
    }
    doubled(b, whole, dim)
}

/// A windowed reduction by shifts along each of its dimensions, which loops take in; `None` if it is none of one operation
/// whose windows are neighbours along the last dimension.
pub fn by_shifts(b: &mut Emit, x: NodeId, init: NodeId, window: &[WindowDim], body: CompId) -> Option<NodeId> {
    let (op, last) = (combiner(b, body)?, window.last()?);
    let neutral = identity(op, b.dtype(x))?;
    if last.stride != 1 || wide_sum(b, body, b.dtype(x)).is_some() {
        return None;
    }
    let mut r = x;
    for (dim, w) in window.iter().enumerate().filter(|(_, w)| **w != WindowDim::TRIVIAL) {
        r = shifted_sums(b, r, (dim, w), op, neutral);
    }
    Some(if starts_idle(b, op, init) { r } else { b.binary(op, init, r) })
}

/// Windows along a dimension, reduced by doubling distances.
fn shifted_sums(b: &mut Emit, x: NodeId, (dim, w): (usize, &WindowDim), op: Binary, neutral: f64) -> NodeId {
    let zero = b.scalar(b.dtype(x), neutral);
    let mut pads = vec![PadDim::NONE; b.rank(x)];
    pads[dim] = w.padding();
    let x = b.pad(x, zero, &pads);
    let n = b.dims(x)[dim];
    let step = w.window_dilation;
    let reach = (w.size - 1) * step;
    if n <= reach {
        let mut dims = b.dims(x).to_vec();
        dims[dim] = 0;
        return b.splat(b.dtype(x), &dims, neutral);
    }
    let full = n - reach;
    let (mut spans, mut span) = (x, 1);
    let (mut done, mut offset): (Option<NodeId>, u64) = (None, 0);
    loop {
        if w.size & span != 0 {
            let part = b.slice_dim(spans, dim, offset * step, offset * step + full, 1);
            done = Some(done.map_or(part, |d| b.binary(op, d, part)));
            offset += span;
        }
        if span * 2 > w.size {
            break;
        }
        let have = b.dims(spans)[dim];
        let near = b.slice_dim(spans, dim, 0, have - span * step, 1);
        let far = b.slice_dim(spans, dim, span * step, have, 1);
        spans = b.binary(op, near, far);
        span *= 2;
    }
    let done = done.unwrap_or(x);
    b.slice_dim(done, dim, 0, full, w.stride)
}

/// Points of a window along lanes from which on it is put together of spans.
const LONG: u64 = 8;
/// Points beyond which windows of any computation are, times the distance of windows: up to a block of XLA's running reductions all are
/// combined one after the other, as results of few bits tell.
const LONG_OF_ANY: u64 = BLOCK;

/// Long windows of any computation along the last dimension that they have, and the rest as it is.
pub(super) fn by_spans(b: &mut Emit, whole: Windows<'_>) -> Rewritten {
    let Windows { xs, inits, window, body, .. } = whole;
    if is_plain(b, whole) {
        return Ok(None);
    }
    let Some(dim) = window.iter().rposition(|w| *w != WindowDim::TRIVIAL) else { return Ok(None) };
    let w = &window[dim];
    let Some(edges) = Edges::of(b.dims(xs[0])[dim], w) else { return Ok(None) };
    if w.size <= w.stride.saturating_mul(LONG_OF_ANY) {
        return Ok(None);
    }
    let mut r = spans(b, xs, (dim, w, edges), body)?;
    let mut rest = window.to_vec();
    rest[dim] = WindowDim::TRIVIAL;
    if rest.iter().any(|w| *w != WindowDim::TRIVIAL) {
        return lowered(b, Windows { xs: &r, window: &rest, ..whole }).map(Some);
    }
    let dims = b.dims(r[0]).to_vec();
    let mut all: Vec<NodeId> = inits.iter().map(|&init| b.broadcast(init, &[], &dims)).collect();
    all.append(&mut r);
    let done = b.apply(body, &all, &dims)?;
    Ok(Some(b.joined(&done)))
}

/// Where the elements lie in a padded dimension of which every window has one.
#[derive(Clone, Copy)]
struct Edges {
    first: u64,
    end: u64,
    size: u64,
}

impl Edges {
    /// `None`: a window lies outside, or points of windows lie between the elements of one another.
    fn of(n: u64, w: &WindowDim) -> Option<Edges> {
        let size = u64::try_from(i64::try_from(n).ok()? + w.pad_low + w.pad_high).ok()?;
        let (low, high) = (w.pad_low.max(0) as u64, w.pad_high.max(0) as u64);
        let plain = w.base_dilation == 1 && w.window_dilation == 1 && !w.reversal;
        let inside = low < w.size && high < w.size && w.size <= size && low + high < size;
        (plain && inside).then(|| Edges { first: low, end: size - high, size })
    }
}

/// Spans along a dimension: the arrays, and how many elements each of theirs is of.
struct Spans {
    parts: Vec<NodeId>,
    length: u64,
}

/// Windows along a dimension by any computation, without an initial value.
fn spans(
    b: &mut Emit,
    xs: &[NodeId],
    (dim, w, edges): (usize, &WindowDim, Edges),
    body: CompId,
) -> Result<Vec<NodeId>, CompileError> {
    let pad = |b: &mut Emit, x| {
        let zero = b.scalar(b.dtype(x), 0.0);
        b.pad_dim(x, zero, dim, (w.pad_low, w.pad_high))
    };
    let whole: Vec<NodeId> = xs.iter().map(|&x| pad(b, x)).collect();
    let mut all = Spans { parts: whole, length: 1 };
    let mut done: Option<Spans> = None;
    loop {
        if w.size & all.length != 0 {
            done = Some(match done {
                None => Spans { parts: all.parts.clone(), length: all.length },
                Some(d) => joined(b, (&d, &all), dim, edges, body)?,
            });
        }
        if all.length * 2 > w.size {
            break;
        }
        all = joined(b, (&all, &all), dim, edges, body)?;
    }
    let parts = done.map_or(all.parts, |d| d.parts);
    let full = edges.size - w.size + 1;
    Ok(parts.iter().map(|&x| b.slice_dim(x, dim, 0, full, w.stride)).collect())
}

/// Spans and those behind them as longer ones. What lies outside takes no part.
fn joined(
    b: &mut Emit,
    (near, far): (&Spans, &Spans),
    dim: usize,
    edges: Edges,
    body: CompId,
) -> Result<Spans, CompileError> {
    let length = near.length + far.length;
    let count = edges.size + 1 - length;
    let cut = |b: &mut Emit, s: &Spans, from: u64| -> Vec<NodeId> {
        s.parts.iter().map(|&x| b.slice_dim(x, dim, from, from + count, 1)).collect()
    };
    let (left, right) = (cut(b, near, 0), cut(b, far, near.length));
    let dims = b.dims(left[0]).to_vec();
    let mut parts = b.apply(body, &[&left[..], &right[..]].concat(), &dims)?;
    let mut outside = |b: &mut Emit, direction, bound: u64, others: &[NodeId]| {
        let place = b.iota(DType::S32, &dims, dim);
        let outside = {
            let bound = b.index(bound as i64);
            b.compare(direction, place, bound)
        };
        for (part, &other) in parts.iter_mut().zip(others) {
            *part = b.select(outside, other, *part);
        }
    };
    if edges.first >= near.length {
        outside(b, Direction::Le, edges.first - near.length, &right);
    }
    if edges.end < edges.size {
        outside(b, Direction::Ge, edges.end.saturating_sub(near.length), &left);
    }
    Ok(Spans { parts, length })
}
