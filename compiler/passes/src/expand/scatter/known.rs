//! Scatters to places that are known when the program is compiled.
//!
//! `x.at[1::2, ::2].set(y)` names places that advance by a constant step along each dimension. Each is written once: the updates are
//! spread to where they go, combined with what is there, and the places between them keep what they have.

use super::super::gather::known::{MOST_NODES, Places};
use super::super::gather::own::column;
use super::{put_back, window_sizes};
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId, PadDim, Scatter};
use systole_isa::DType;

/// Where the updates lie along one dimension of the operand.
#[derive(Clone, Copy)]
struct Along {
    offset: u64,
    step: u64,
    /// Updates along it: windows at different places, or the elements of one window.
    count: u64,
    /// The dimension of the index array along which places advance.
    by: Option<usize>,
}

impl Along {
    /// The place behind the last update.
    fn end(&self) -> u64 {
        self.offset + (self.count - 1) * self.step + 1
    }
}

/// The operands with all updates put down at once, if their places are known.
///
/// # Errors
/// A combiner that could not be applied.
pub(super) fn lower(
    b: &mut Emit,
    s: &Scatter,
    inputs: &[NodeId],
    indices: NodeId,
    updates: &[NodeId],
) -> Result<Option<Vec<NodeId>>, CompileError> {
    let dims = b.dims(inputs[0]).to_vec();
    let Some(along) = places(b, s, &dims, indices, updates[0]) else { return Ok(None) };
    if !b.draft.fire("scatter-known-steps") {
        return Ok(None);
    }
    // Dimensions that the updates skip through are taken whole, others as far as the updates go.
    let mut cut = whole(&dims);
    for (c, a) in cut.iter_mut().zip(&along).filter(|(_, a)| a.step == 1) {
        (c.start, c.limit) = (a.offset, a.end());
    }
    let boxes: Vec<NodeId> = inputs.iter().map(|&x| b.slice(x, &cut)).collect();
    let to = b.dims(boxes[0]).to_vec();
    let spread: Vec<NodeId> = updates.iter().map(|&u| spread(b, s, (u, indices), &along, &to)).collect();
    let combined = b.apply(s.body, &[&boxes[..], &spread].concat(), &to)?;
    let hit = hits(b, &along, &to);
    let parts = boxes.iter().zip(&combined).map(|(&part, &new)| hit.map_or(new, |hit| b.select(hit, new, part)));
    let parts: Vec<NodeId> = parts.collect();
    Ok(Some(if to == dims { parts } else { put_back(b, inputs, &parts, &cut) }))
}

/// Where updates lie along each dimension, if that is known, every place within the operand and none named twice.
fn places(b: &mut Emit, s: &Scatter, dims: &[u64], indices: NodeId, update: NodeId) -> Option<Vec<Along>> {
    let of = b.dims(indices).to_vec();
    // One window is moved like any other.
    if (0..of.len()).filter(|&e| e != s.map.vector).all(|e| of[e] == 1) {
        return None;
    }
    let sizes = window_sizes(b, s, update, dims.len());
    let mut along: Vec<Along> = sizes.into_iter().map(|count| Along { offset: 0, step: 1, count, by: None }).collect();
    for (d, e) in s.map.batching.pairs() {
        along[d] = Along { count: of[e], by: Some(e), ..along[d] };
    }
    for (j, &d) in s.map.start.iter().enumerate() {
        let column = if s.map.vector < of.len() { column(b, indices, s.map.vector, j as u64) } else { indices };
        let places = Places::of(b, column, &mut { MOST_NODES })?;
        let mut moving = (0..of.len()).filter(|&e| places.step.get(e).is_some_and(|&s| s != 0));
        along[d].offset = u64::try_from(places.offset).ok()?;
        if let Some(e) = moving.next() {
            (along[d].count == 1 && moving.next().is_none()).then_some(())?;
            along[d] = Along { step: u64::try_from(places.step[e]).ok()?, count: of[e], by: Some(e), ..along[d] };
        }
    }
    let empty = along.iter().any(|a| a.count == 0) || of.contains(&0);
    let once = |e: usize| {
        let users = along.iter().filter(|a| a.by == Some(e)).count();
        users == 1 || users == 0 && (of[e] == 1 || e == s.map.vector)
    };
    let all = !empty && along.iter().zip(dims).all(|(a, &n)| a.end() <= n) && (0..of.len()).all(once);
    all.then_some(along)
}

/// Updates where they go in an array of sizes `to`, with zeros between them.
fn spread(b: &mut Emit, s: &Scatter, (u, indices): (NodeId, NodeId), along: &[Along], to: &[u64]) -> NodeId {
    let rank = b.rank(u);
    let batch: Vec<usize> = (0..b.rank(indices)).filter(|&e| e != s.map.vector).collect();
    let scattered: Vec<usize> = (0..rank).filter(|d| !s.map.window.contains(d)).collect();
    let mut windows = s.map.window.iter();
    let mut order = Vec::new();
    for (d, a) in along.iter().enumerate() {
        let window = if s.map.lacks(d) { None } else { windows.next() };
        let from = match a.by {
            Some(e) => batch.iter().position(|&k| k == e).and_then(|k| scattered.get(k)),
            None => window,
        };
        order.extend(from.copied());
    }
    // What is left are dimensions of size 1.
    let rest: Vec<usize> = (0..rank).filter(|d| !order.contains(d)).collect();
    let u = b.transpose(u, &[order, rest].concat());
    let sizes: Vec<u64> = along.iter().map(|a| a.count).collect();
    let u = b.reshape(u, &sizes);
    let between = |(a, &n): (&Along, &u64)| match a.step {
        1 => PadDim { low: 0, high: 0, interior: 0 },
        step => PadDim { low: a.offset as i64, high: (n - a.end()) as i64, interior: step - 1 },
    };
    let gaps: Vec<PadDim> = along.iter().zip(to).map(between).collect();
    if along.iter().all(|a| a.step == 1) {
        return u;
    }
    let none = b.scalar(b.dtype(u), 0.0);
    b.pad(u, none, &gaps)
}

/// Which places of an array of sizes `to` have an update; `None` if all have.
fn hits(b: &mut Emit, along: &[Along], to: &[u64]) -> Option<NodeId> {
    let mut hit: Option<NodeId> = None;
    for (d, a) in along.iter().enumerate().filter(|(_, a)| a.step != 1) {
        let place = b.iota(DType::S32, to, d);
        let from = b.with(Binary::Sub, place, a.offset as f64);
        let (step, zero) = (b.with(Binary::Rem, from, a.step as f64), b.splat(DType::S32, to, 0.0));
        let mut on = b.compare(Direction::Eq, step, zero);
        if a.offset >= a.step {
            let low = b.compare(Direction::Ge, from, zero);
            on = b.and(on, low);
        }
        if a.end() + a.step <= to[d] {
            let end = b.splat(DType::S32, to, a.end() as f64);
            let high = b.compare(Direction::Lt, place, end);
            on = b.and(on, high);
        }
        hit = Some(match hit {
            Some(h) => b.and(h, on),
            None => on,
        });
    }
    hit
}
