//! Scatters of frames that overlap at known places.
//!
//! `y.at[hop * t + n].add(frames)` (the end of an inverse short-time transform, the gradient of windows that were taken of a signal) puts
//! frames down one hop after the other, over parts of those before. Cut into pieces of a hop, the first pieces of all frames lie beside
//! each other, and so do the second ones, a hop further on: a sum of a few arrays.

use super::super::gather::known::{MOST_NODES, Places};
use super::super::gather::own::column;
use super::{put_back, window_sizes};
use crate::edit::Emit;
use crate::make::whole;
use crate::simplify::{combiner, identity};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, NodeId, PadDim, Scatter};

/// Pieces of a frame at most.
const MOST_PIECES: u64 = 32;

/// Frames along one dimension of the operand.
struct Frames {
    dim: usize,
    /// Where the first begins, from one to the next, and elements of each.
    offset: u64,
    hop: u64,
    size: u64,
    count: u64,
    /// Dimensions of the updates: those of the operand's other dimensions, that of frames, that of their elements.
    order: Vec<usize>,
}

/// The operand with all updates put down, if they are such frames.
///
/// # Errors
/// A combiner that could not be applied.
pub(super) fn lower(
    b: &mut Emit,
    s: &Scatter,
    arrays: (&[NodeId], &[NodeId]),
    indices: NodeId,
) -> Result<Option<Vec<NodeId>>, CompileError> {
    let (&[x], &[u]) = arrays else { return Ok(None) };
    // What may be combined in any order.
    let any =
        |op: &Binary| matches!(op, Binary::Add | Binary::Mul | Binary::Max | Binary::Min | Binary::Or | Binary::And);
    let op = combiner(b, s.body).filter(any);
    let Some((op, nothing)) = op.and_then(|op| Some((op, identity(op, b.dtype(x))?))) else { return Ok(None) };
    let Some(f) = frames(b, s, x, indices, u) else { return Ok(None) };
    if !b.draft.fire("scatter-frames") {
        return Ok(None);
    }
    let dims = b.dims(x).to_vec();
    let pieces = f.size.div_ceil(f.hop);
    let last = dims.len();
    let rest: Vec<usize> = (0..b.rank(u)).filter(|d| !f.order.contains(d)).collect();
    let u = b.transpose(u, &[&f.order[..], &rest].concat());
    let others: Vec<u64> = (0..last).filter(|&d| d != f.dim).map(|d| dims[d]).collect();
    let u = b.reshape(u, &[&others[..], &[f.count, f.size]].concat());
    let none = b.scalar(b.dtype(x), nothing);
    let u = b.pad_dim(u, none, last, (0, (pieces * f.hop - f.size) as i64));
    let mut all: Option<NodeId> = None;
    for k in 0..pieces {
        let piece = b.slice_dim(u, last, k * f.hop, (k + 1) * f.hop, 1);
        let piece = b.reshape(piece, &[&others[..], &[f.count * f.hop]].concat());
        let mut edges = vec![PadDim::NONE; last];
        edges[last - 1] = PadDim::edges((k * f.hop) as i64, ((pieces - 1 - k) * f.hop) as i64);
        let piece = b.pad(piece, none, &edges);
        all = Some(all.map_or(piece, |all| b.binary(op, all, piece)));
    }
    let Some(all) = all else { return Ok(None) };
    let length = (f.count - 1) * f.hop + f.size;
    let all = b.slice_dim(all, last - 1, 0, length, 1);
    let back: Vec<usize> = (0..last)
        .map(|d| match d {
            d if d < f.dim => d,
            d if d == f.dim => last - 1,
            d => d - 1,
        })
        .collect();
    let all = b.transpose(all, &back);
    let mut cut = whole(&dims);
    (cut[f.dim].start, cut[f.dim].limit) = (f.offset, f.offset + length);
    let part = b.slice(x, &cut);
    let to = b.dims(part).to_vec();
    let done = b.apply(s.body, &[part, all], &to)?;
    Ok(Some(if to == dims { done } else { put_back(b, arrays.0, &done, &cut) }))
}

/// The frames that updates are, every place within the operand.
fn frames(b: &mut Emit, s: &Scatter, x: NodeId, indices: NodeId, u: NodeId) -> Option<Frames> {
    let (dims, of) = (b.dims(x).to_vec(), b.dims(indices).to_vec());
    let &[dim] = &s.map.start[..] else { return None };
    let sizes = window_sizes(b, s, u, dims.len());
    let column = if s.map.vector < of.len() { column(b, indices, s.map.vector, 0) } else { indices };
    let places = Places::of(b, column, &mut { MOST_NODES })?;
    let step = |e: usize| places.step.get(e).copied().unwrap_or(0);
    let mut moving: Vec<usize> = (0..of.len()).filter(|&e| step(e) != 0).collect();
    moving.sort_by_key(|&e| std::cmp::Reverse(step(e)));
    let (frame, element) = match moving[..] {
        [frame] if sizes[dim] > 1 => (frame, None),
        [frame, element] if sizes[dim] == 1 && step(element) == 1 => (frame, Some(element)),
        _ => return None,
    };
    let batched = &s.map.batching;
    let named = |e: usize| e == s.map.vector || e == frame || Some(e) == element || batched.indices.contains(&e);
    let others = |d: usize| d == dim || batched.operand.contains(&d) || !s.map.lacks(d) && sizes[d] == dims[d];
    if !(0..of.len()).all(|e| of[e] == 1 || named(e)) || !(0..dims.len()).all(others) {
        return None;
    }
    let (hop, count) = (u64::try_from(step(frame)).ok()?, of[frame]);
    let size = element.map_or(sizes[dim], |e| of[e]);
    let offset = u64::try_from(places.offset).ok()?;
    let fits = offset + (count.max(1) - 1) * hop + size <= dims[dim];
    if !fits || count == 0 || size == 0 || size.div_ceil(hop) > MOST_PIECES {
        return None;
    }
    // Of the updates: dimensions of the index array, and of windows.
    let batch: Vec<usize> = (0..of.len()).filter(|&e| e != s.map.vector).collect();
    let scattered: Vec<usize> = (0..b.rank(u)).filter(|d| !s.map.window.contains(d)).collect();
    let at = |e: usize| batch.iter().position(|&k| k == e).and_then(|k| scattered.get(k)).copied();
    let mut windows = s.map.window.iter().copied();
    let mut own = None;
    let mut order = Vec::new();
    for d in 0..dims.len() {
        let window = if s.map.lacks(d) { None } else { windows.next() };
        if d == dim {
            own = window;
            continue;
        }
        let pair = batched.pairs().find(|p| p.0 == d);
        order.push(pair.map_or(window, |p| at(p.1))?);
    }
    order.push(at(frame)?);
    order.push(element.map_or(own, at)?);
    Some(Frames { dim, offset, hop, size, count, order })
}
