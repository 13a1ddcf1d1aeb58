//! Scatters.
//!
//! Canonical form ("rows"): operands `[R, W..]`, indices `s32[n]` (negative: skipped), updates `[n, W..]`: a scatter with
//! `update_window_dims={1..}`, `inserted_window_dims={0}`, `scatter_dims_to_operand_dims={0}`, `index_vector_dim=1`. Other
//! windows are read, combined and written back one after the other, in a loop if there are many; so are large ones.

mod frames;
mod known;

use super::gather::{Indexed, SLAB, SLABS, fixed, index_arrays, is_wide, linear, own};
use super::index::as_s32;
use super::packed;
use crate::edit::Emit;
use crate::make::{inverse, one_or_tuple};
use crate::options::Facts;
use crate::simplify::{combiner, identity};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Direction, IndexMap, NodeId, Op, Scatter, Shape, SliceDim};
use systole_isa::DType;

/// Windows that are emitted one by one; more make a loop.
const MAX_UNROLLED: u64 = 4;

/// From how many updates on a scatter's are compared with each of its places, and with how many places at the most: with more where
/// updates are so many that several blocks of places are compared with a register of them.
const COMPARED: [(u64, u64); 2] = [(1024, 768), (1 << 20, 1536)];

/// The part of vector memory that a row may take at most: kernels have registers of those of tables and updates at hand.
const WIDE: u64 = 160;

/// A scatter in terms of `n` windows.
struct Windows {
    indexed: Vec<Indexed>,
    /// `pred[n]`: whether the whole window lies within the operand.
    valid: NodeId,
    n: u64,
    /// Sizes of a window in the operand's dimensions.
    sizes: Vec<u64>,
    /// Each `[n, sizes..]`.
    updates: Vec<NodeId>,
}

pub fn lower(b: &mut Emit, s: &Scatter, operands: &[NodeId], chip: &Facts) -> Result<NodeId, CompileError> {
    let count = (operands.len() - 1) / 2;
    let (inputs, indices) = (&operands[..count], operands[count]);
    let results = scattered(b, s, inputs, (indices, &operands[count + 1..]), chip)?;
    Ok(if count == 1 { results[0] } else { b.tuple(&results) })
}

/// The operands with their updates.
fn scattered(
    b: &mut Emit,
    s: &Scatter,
    inputs: &[NodeId],
    (indices, updates): (NodeId, &[NodeId]),
    chip: &Facts,
) -> Result<Vec<NodeId>, CompileError> {
    if let Some(done) = known::lower(b, s, inputs, indices, updates)? {
        return Ok(done);
    }
    if let Some(done) = frames::lower(b, s, (inputs, updates), indices)? {
        return Ok(done);
    }
    let dims = b.dims(inputs[0]).to_vec();
    let sizes = window_sizes(b, s, updates[0], dims.len());
    let within = |d: usize, at: i64| at >= 0 && at as u64 + sizes[d] <= dims[d];
    if let Some(f) = fixed::apart(b, &s.map, indices, within) {
        let cut = f.part(&dims, &sizes);
        return in_part(b, s, inputs, (f, updates, &cut), chip);
    }
    let (map, indices) = own::batched(b, &s.map, indices, &dims);
    let s = &Scatter { map, ..s.clone() };
    let w = windows(b, s, inputs[0], indices, updates);
    if w.n == 0 {
        return Ok(inputs.to_vec());
    }
    let is_row = |d: usize| {
        let index = w.indexed.iter().any(|i| i.dim == d);
        w.sizes[d] == if index { 1 } else { dims[d] }
    };
    if let Some(done) = by_comparison(b, s, inputs, &w)? {
        return Ok(done);
    }
    let large = are_slabs(b, inputs[0], &w, chip.vmem_bytes) || is_wide(b, inputs[0], &w.sizes, chip.vmem_bytes / WIDE);
    if !(0..dims.len()).all(is_row) || large {
        return dynamic(b, s, inputs, &w);
    }
    let w = (&w, chip.tile);
    Ok(counted(b, s, inputs, w).map_or_else(|| rows(b, s, inputs, w), |done| vec![done]))
}

/// Whether windows are so large that they are combined where they lie, one after the other: a table's rows pass through vector memory
/// whole, several at a time.
fn are_slabs(b: &Emit, x: NodeId, w: &Windows, vmem: u64) -> bool {
    let bytes = w.sizes.iter().product::<u64>() * u64::from(b.dtype(x).bits()).max(8) / 8;
    bytes >= SLAB && (w.n == 1 || bytes > vmem / SLABS)
}

/// Scatters into the part of the operands that the known starts name.
fn in_part(
    b: &mut Emit,
    s: &Scatter,
    inputs: &[NodeId],
    (f, updates, cut): (fixed::Fixed, &[NodeId], &[SliceDim]),
    chip: &Facts,
) -> Result<Vec<NodeId>, CompileError> {
    let parts: Vec<NodeId> = inputs.iter().map(|&x| b.slice(x, cut)).collect();
    let s = &Scatter { map: f.map, ..s.clone() };
    let done = scattered(b, s, &parts, (f.indices, updates), chip)?;
    Ok(put_back(b, inputs, &done, cut))
}

/// The operands with these in the part of them that was cut.
fn put_back(b: &mut Emit, inputs: &[NodeId], parts: &[NodeId], cut: &[SliceDim]) -> Vec<NodeId> {
    let starts: Vec<NodeId> = cut.iter().map(|c| b.index(c.start as i64)).collect();
    inputs.iter().zip(parts).map(|(&x, &part)| b.dynamic_update_slice(x, part, &starts)).collect()
}

/// Sizes of a window in the operand's dimensions.
fn window_sizes(b: &Emit, s: &Scatter, update: NodeId, rank: usize) -> Vec<u64> {
    let mut sizes = vec![1; rank];
    for (d, &u) in (0..rank).filter(|&d| !s.map.lacks(d)).zip(&s.map.window) {
        sizes[d] = b.dims(update)[u];
    }
    sizes
}

fn windows(b: &mut Emit, s: &Scatter, x: NodeId, indices: NodeId, updates: &[NodeId]) -> Windows {
    let dims = b.dims(x).to_vec();
    let (mut indexed, batch) = index_arrays(b, indices, &s.map);
    let n: u64 = batch.iter().product();
    let sizes = window_sizes(b, s, updates[0], dims.len());
    let mut valid = b.splat(DType::Pred, &[n], 1.0);
    for i in &mut indexed {
        let narrow = b.dtype(i.index).bits() < 32;
        let index = if narrow { b.convert(i.index, DType::S32) } else { i.index };
        let max = dims[i.dim].saturating_sub(sizes[i.dim]);
        let limit = b.scalar(b.dtype(index), max as f64);
        let zero = b.scalar(b.dtype(index), 0.0);
        let high = b.compare(Direction::Le, index, limit);
        let low = b.compare(Direction::Ge, index, zero);
        let within = b.and(low, high);
        if !s.map.batching.operand.contains(&i.dim) && !own::within(b, i.index, max) {
            valid = b.and(valid, within);
        }
        i.index = as_s32(b, index, max, true);
    }
    indexed.sort_by_key(|i| i.dim);
    // A window as long as its dimension starts at 0.
    indexed.retain(|i| sizes[i.dim] < dims[i.dim]);
    let updates = updates
        .iter()
        .map(|&u| {
            let rank = b.rank(u);
            let scattered = (0..rank).filter(|d| !s.map.window.contains(d));
            let order: Vec<usize> = scattered.chain(s.map.window.iter().copied()).collect();
            let u = b.transpose(u, &order);
            b.reshape(u, &[&[n][..], &sizes].concat())
        })
        .collect();
    Windows { indexed, valid, n, sizes, updates }
}

fn rows(b: &mut Emit, s: &Scatter, inputs: &[NodeId], (w, tile): (&Windows, (u32, u32))) -> Vec<NodeId> {
    let dims = b.dims(inputs[0]).to_vec();
    let row = linear(b, &w.indexed, &dims, w.n);
    let skipped = b.scalar(DType::S32, -1.0);
    let row = b.select(w.valid, row, skipped);
    let front: Vec<usize> = w.indexed.iter().map(|i| i.dim).collect();
    let rest: Vec<usize> = (0..dims.len()).filter(|d| !front.contains(d)).collect();
    let count: u64 = front.iter().map(|&d| dims[d]).product();
    let order = [&front[..], &rest].concat();
    let width: Vec<u64> = rest.iter().map(|&d| dims[d]).filter(|&d| d != 1).collect();
    let mut tables: Vec<NodeId> = inputs
        .iter()
        .map(|&x| {
            let x = b.transpose(x, &order);
            b.reshape(x, &[&[count][..], &width].concat())
        })
        .collect();
    let mut updates: Vec<NodeId> = w.updates.iter().map(|&u| b.reshape(u, &[&[w.n][..], &width].concat())).collect();
    let (mut row, mut width, mut unique) = (row, width, s.unique_indices);
    if let (&[table], &[update]) = (&tables[..], &updates[..])
        && let Some(spread) = packed::scattered(b, (table, row, update), s.body, tile)
    {
        // Different rows may lie in the same row of lanes.
        (tables[0], row, updates[0], unique) = (spread.table, spread.row, spread.update, false);
        width = b.dims(tables[0])[1..].to_vec();
    }
    let canonical = Scatter {
        map: IndexMap::rows(width.len()),
        indices_are_sorted: s.indices_are_sorted,
        unique_indices: unique,
        body: s.body,
    };
    let shapes = tables.iter().map(|&t| Shape::array(b.dtype(t), b.dims(t))).collect();
    let done = b.emit(Op::Scatter(canonical), &[&tables[..], &[row], &updates].concat(), one_or_tuple(shapes));
    let moved: Vec<u64> = order.iter().map(|&d| dims[d]).collect();
    b.elements_of(done)
        .into_iter()
        .map(|t| {
            let t = b.reshape(t, &moved);
            b.transpose(t, &inverse(&order))
        })
        .collect()
}

/// Few elements, and many updates (bins of a histogram, the gradient of a small table of narrow rows), once or for each of a batch: for each of
/// them all updates that go to it are combined at once. A comparison for each place and update takes less than a read and a write for each
/// update.
fn counted(b: &mut Emit, s: &Scatter, inputs: &[NodeId], (w, tile): (&Windows, (u32, u32))) -> Option<NodeId> {
    let (&[x], &[update]) = (inputs, &w.updates[..]) else { return None };
    let batching = &s.map.batching;
    let dims = b.dims(x).to_vec();
    let sizes = |of: &[usize]| of.iter().map(|&d| dims[d]).product::<u64>();
    let (batch, dtype) = (sizes(&batching.operand), b.dtype(x));
    let (places, n) = (dims.iter().product::<u64>() / batch, w.n / batch);
    let most = COMPARED.iter().filter(|(from, _)| n >= *from).map(|c| c.1).max().unwrap_or(0);
    let few = (2..=most.min(n)).contains(&places);
    let wanted: Vec<Indexed> =
        w.indexed.iter().filter(|i| !batching.operand.contains(&i.dim)).map(Indexed::copy).collect();
    let first = batching.indices.iter().copied().eq(0..batching.indices.len());
    if !first || !few || dtype.bits() != 32 || dtype.is_complex() || wanted.is_empty() {
        return None;
    }
    let op = combiner(b, s.body)?;
    let neutral = identity(op, dtype)?;
    let row = linear(b, &wanted, &dims, w.n);
    let skipped = b.scalar(DType::S32, -1.0);
    let row = b.select(w.valid, row, skipped);
    let front: Vec<usize> = wanted.iter().map(|i| i.dim).collect();
    let lead: Vec<usize> = batching.operand.iter().chain(&front).copied().collect();
    let order: Vec<usize> = lead.iter().copied().chain((0..dims.len()).filter(|d| !lead.contains(d))).collect();
    let rows = sizes(&front);
    let width = places / rows;
    // The batch, rows, elements of a row, updates: of several sequences each one's in full registers, else along lanes.
    let lanes = u64::from(tile.1);
    let full = batch > 1 && n.is_multiple_of(lanes * u64::from(tile.0));
    let of_updates = if full { vec![n / lanes, lanes] } else { vec![n] };
    let all = [&[batch, rows, width][..], &of_updates].concat();
    let last: Vec<usize> = (3..all.len()).collect();
    let update = b.reshape(update, &[batch, n, width]);
    let update = b.transpose(update, &[0, 2, 1]);
    let update = b.reshape(update, &[&[batch, width][..], &of_updates].concat());
    let row = b.reshape(row, &[&[batch][..], &of_updates].concat());
    let row = b.broadcast(row, &[&[0][..], &last].concat(), &all);
    let update = b.broadcast(update, &[&[0, 2][..], &last].concat(), &all);
    let own = b.iota(DType::S32, &all, 1);
    let hit = b.compare(Direction::Eq, own, row);
    let other = b.splat(dtype, &all, neutral);
    let hits = b.select(hit, update, other);
    let combined = b.reduce(hits, op, neutral, &last);
    let moved: Vec<u64> = order.iter().map(|&d| dims[d]).collect();
    let combined = b.reshape(combined, &moved);
    let combined = b.transpose(combined, &inverse(&order));
    Some(b.binary(op, x, combined))
}

/// One update for each row of a batch: compare positions and combine where they meet.
fn by_comparison(
    b: &mut Emit,
    s: &Scatter,
    inputs: &[NodeId],
    w: &Windows,
) -> Result<Option<Vec<NodeId>>, CompileError> {
    let dims = b.dims(inputs[0]).to_vec();
    let wanted: Vec<&Indexed> = w.indexed.iter().filter(|i| !s.map.batching.operand.contains(&i.dim)).collect();
    let (&[one], Some(last)) = (&wanted[..], dims.len().checked_sub(1)) else { return Ok(None) };
    let leading: Vec<usize> = (0..last).collect();
    let aligned = s.map.batching.operand == leading && s.map.batching.indices == leading;
    let rows: u64 = dims[..last].iter().product();
    if one.dim != last || w.sizes[last] != 1 || !aligned || w.n != rows || last == 0 {
        return Ok(None);
    }
    // No position is that of an update that is skipped.
    let skipped = b.scalar(DType::S32, -1.0);
    let index = b.select(w.valid, one.index, skipped);
    let mut spread = |x: NodeId| {
        let x = b.reshape(x, &dims[..last]);
        b.broadcast(x, &leading, &dims)
    };
    let index = spread(index);
    let updates: Vec<NodeId> = w.updates.iter().map(|&u| spread(u)).collect();
    let position = b.iota(DType::S32, &dims, last);
    let hit = b.compare(Direction::Eq, position, index);
    let combined = b.apply(s.body, &[inputs, &updates].concat(), &dims)?;
    Ok(Some(combined.iter().zip(inputs).map(|(&c, &x)| b.select(hit, c, x)).collect()))
}

/// Reads, combines and writes one window after the other.
fn dynamic(b: &mut Emit, s: &Scatter, inputs: &[NodeId], w: &Windows) -> Result<Vec<NodeId>, CompileError> {
    let (count, indexes) = (inputs.len(), w.indexed.len());
    let one = |b: &mut Emit, state: &[NodeId], at: NodeId| -> Result<Vec<NodeId>, CompileError> {
        let (xs, rest) = state.split_at(count);
        let (updates, rest) = rest.split_at(count);
        let (index, valid) = rest.split_at(indexes);
        let zero = b.index(0);
        let mut starts = vec![zero; w.sizes.len()];
        for (i, &index) in w.indexed.iter().zip(index) {
            let scalar = b.dynamic_slice(index, &[at], &[1]);
            starts[i.dim] = b.reshape(scalar, &[]);
        }
        let ok = b.dynamic_slice(valid[0], &[at], &[1]);
        let ok = b.reshape(ok, &[]);
        let mut from = vec![zero; w.sizes.len() + 1];
        from[0] = at;
        let old: Vec<NodeId> = xs.iter().map(|&x| b.dynamic_slice(x, &starts, &w.sizes)).collect();
        let new: Vec<NodeId> = updates
            .iter()
            .map(|&u| {
                let u = b.dynamic_slice(u, &from, &[&[1][..], &w.sizes].concat());
                b.reshape(u, &w.sizes)
            })
            .collect();
        let combined = b.apply(s.body, &[&old[..], &new].concat(), &w.sizes)?;
        let mut out = Vec::new();
        for ((&x, &o), &c) in xs.iter().zip(&old).zip(&combined) {
            let kept = b.select(ok, c, o);
            out.push(b.dynamic_update_slice(x, kept, &starts));
        }
        Ok(out)
    };
    let index: Vec<NodeId> = w.indexed.iter().map(|i| i.index).collect();
    let mut state = [inputs, &w.updates, &index, &[w.valid]].concat();
    if w.n <= MAX_UNROLLED {
        for i in 0..w.n {
            let at = b.index(i as i64);
            let next = one(b, &state, at)?;
            state[..count].copy_from_slice(&next);
        }
        return Ok(state[..count].to_vec());
    }
    let done = b.counted_loop("scatter", w.n, &state, |b, counter, state| {
        let next = one(b, state, counter)?;
        Ok([&next[..], &state[count..]].concat())
    })?;
    Ok(done[..count].to_vec())
}
