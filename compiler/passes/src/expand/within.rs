//! Dynamic slices and updates of large arrays that begin somewhere within a row of lanes: the rows of lanes that hold the part are brought
//! from HBM and put back there, and only these are cut at an element. A vector is taken as rows of lanes.
//! Where loops may keep an array in vector memory, it is cut there. What is too much for vector memory at once goes chunk by chunk
//! ([`chunks`]).

mod chunks;

use super::index::{MANY, as_s32};
use crate::edit::{Emit, Rewritten};
use crate::options::Facts;
use systole_hlo::graph::{Binary, NodeId};

/// An array of which whole rows of lanes are taken: a vector as rows of lanes, any other one as it is; with all of its last row of lanes.
#[derive(Clone)]
struct Rows {
    array: NodeId,
    /// Its shape as it was.
    dims: Vec<u64>,
    lanes: u64,
}

/// What of an array holds a part of it: whole rows of lanes.
struct Window {
    /// Where the window begins, and its sizes.
    starts: Vec<NodeId>,
    sizes: Vec<u64>,
    /// Where in it the part begins.
    rest: Vec<NodeId>,
}

impl Rows {
    /// `padded`: where the last row of lanes is not full, the array is copied to one where it is. `None`: it is better taken as it is.
    fn of(b: &mut Emit, x: NodeId, (chip, padded): (&Facts, bool)) -> Option<Rows> {
        let lanes = u64::from(chip.tile.1);
        let dims = b.dims(x).to_vec();
        let (last, &n) = (dims.len().checked_sub(1)?, dims.last()?);
        if dims.contains(&0)
            || i32::try_from(n.next_multiple_of(lanes)).is_err()
            || !(padded || n.is_multiple_of(lanes))
        {
            return None;
        }
        let more = n.next_multiple_of(lanes) - n;
        let full = if more == 0 {
            x
        } else {
            let zero = b.scalar(b.dtype(x), 0.0);
            b.pad_dim(x, zero, last, (0, more as i64))
        };
        let array = if last == 0 { b.reshape(full, &[(n + more) / lanes, lanes]) } else { full };
        Some(Rows { array, dims, lanes })
    }

    fn flat(&self) -> bool {
        self.dims.len() == 1
    }

    /// Rows of lanes along the last dimension, and those that a part of so many elements may reach.
    fn count(&self, size: u64) -> (u64, u64) {
        let whole = self.dims.last().copied().unwrap_or(1).div_ceil(self.lanes);
        (whole, ((size + self.lanes).saturating_sub(2) / self.lanes + 1).min(whole))
    }

    /// The window of a part of `sizes` from `starts` on, which leave room for it.
    fn window(&self, b: &mut Emit, starts: &[NodeId], sizes: &[u64]) -> Window {
        let outer = sizes.len() - 1;
        let (start, lanes) = (starts[outer], self.lanes);
        let (whole, count) = self.count(sizes[outer]);
        let row = b.with(Binary::Div, start, lanes as f64);
        let first = b.with(Binary::Min, row, (whole - count) as f64);
        let begin = b.with(Binary::Mul, first, lanes as f64);
        let rest = b.sub(start, begin);
        let zero = b.index(0);
        if self.flat() {
            return Window { starts: vec![first, zero], sizes: vec![count, lanes], rest: vec![rest] };
        }
        Window {
            starts: [&starts[..outer], &[begin]].concat(),
            sizes: [&sizes[..outer], &[count * lanes]].concat(),
            rest: [&vec![zero; outer][..], &[rest]].concat(),
        }
    }

    /// A window's elements, as a part is cut from them.
    fn near(&self, b: &mut Emit, w: &Window) -> NodeId {
        let part = b.dynamic_slice(self.array, &w.starts, &w.sizes);
        if self.flat() { b.reshape(part, &[w.sizes.iter().product()]) } else { part }
    }

    /// A part of the array.
    fn part(&self, b: &mut Emit, starts: &[NodeId], sizes: &[u64]) -> NodeId {
        let w = self.window(b, starts, sizes);
        let near = self.near(b, &w);
        b.dynamic_slice(near, &w.rest, sizes)
    }

    /// The array with another part in it.
    fn with_part(&self, b: &mut Emit, part: NodeId, starts: &[NodeId]) -> NodeId {
        let sizes = b.dims(part).to_vec();
        let w = self.window(b, starts, &sizes);
        let near = self.near(b, &w);
        let new = b.dynamic_update_slice(near, part, &w.rest);
        let new = b.reshape(new, &w.sizes);
        b.dynamic_update_slice(self.array, new, &w.starts)
    }

    /// The array in its own shape.
    fn back(&self, b: &mut Emit) -> NodeId {
        let (last, n) = (self.dims.len() - 1, self.dims[self.dims.len() - 1]);
        let full = if self.flat() { b.reshape(self.array, &[b.elements(self.array)]) } else { self.array };
        b.slice_dim(full, last, 0, n, 1)
    }
}

/// The starts limited to those of parts of `sizes` that lie within an array of `dims`, along the dimensions from `first` on: others are
/// where they are used.
fn limited(b: &mut Emit, starts: &[NodeId], (dims, sizes): (&[u64], &[u64]), first: usize) -> Vec<NodeId> {
    let one = |(d, &start): (usize, &NodeId)| match dims[d] - sizes[d] {
        _ if d < first => start,
        0 => b.index(0),
        room => as_s32(b, start, room, true),
    };
    starts.iter().enumerate().map(one).collect()
}

/// Whether a part begins somewhere within a row of lanes.
fn moves_lanes(b: &Emit, start: NodeId, n: u64, size: u64, lanes: u64) -> bool {
    let known = b.literal(start).and_then(|l| l.integer(0));
    size < n && known.is_none_or(|s| s.rem_euclid(lanes as i64) != 0)
}

/// Whether vector memory has no room for an array and what is cut from it.
fn beyond(b: &Emit, x: NodeId, chip: &Facts) -> bool {
    chunks::bytes(b.dtype(x), b.dims(x), chip) > chip.vmem_bytes / 2
}

/// Bytes of an array's elements in chip memory.
pub fn bytes(b: &Emit, x: NodeId) -> u64 {
    let dtype = b.dtype(x);
    b.elements(x).saturating_mul(u64::from(dtype.storage_bits() * dtype.components() as u32)) / 8
}

/// How a part is taken from an array or put there.
struct Way {
    rows: Rows,
    /// Where the part begins.
    starts: Vec<NodeId>,
    /// It goes in chunks.
    large: bool,
}

impl Way {
    /// `None`: the part is better taken as it is.
    fn of(b: &mut Emit, x: NodeId, starts: &[NodeId], sizes: &[u64], chip: &Facts) -> Option<Way> {
        let dims = b.dims(x).to_vec();
        let (&n, &size, &start) = (dims.last()?, sizes.last()?, starts.last()?);
        if sizes.contains(&0) {
            return None;
        }
        let moves = moves_lanes(b, start, n, size, u64::from(chip.tile.1));
        let large = moves && chunks::is_large(b.dtype(x), sizes, chip);
        let padded = large || beyond(b, x, chip) && (moves || dims.len() == 1);
        let rows = Rows::of(b, x, (chip, padded))?;
        let (whole, count) = rows.count(size);
        let first = if large { 0 } else { dims.len() - 1 };
        (large || count <= whole / 2).then(|| Way { rows, starts: limited(b, starts, (&dims, sizes), first), large })
    }
}

/// `sizes` elements of an array from `starts` on; `once`: cut by code that runs once.
///
/// # Errors
/// A loop that could not be made.
pub fn slice(b: &mut Emit, x: NodeId, starts: &[NodeId], sizes: &[u64], (chip, once): (&Facts, bool)) -> Rewritten {
    if !(once && b.elements(x) >= MANY || beyond(b, x, chip)) {
        return Ok(None);
    }
    let Some(Way { rows, starts, large }) = Way::of(b, x, starts, sizes, chip) else { return Ok(None) };
    Ok(Some(if large { chunks::slice(b, &rows, &starts, sizes, chip)? } else { rows.part(b, &starts, sizes) }))
}

/// An array with `part` in it from `starts` on; `once`: put there by code that runs once. What fits in vector memory is updated there.
///
/// # Errors
/// A loop that could not be made.
pub fn update(b: &mut Emit, x: NodeId, part: NodeId, starts: &[NodeId], (chip, once): (&Facts, bool)) -> Rewritten {
    // The new array may be another one than the old.
    let arrays = if once { 2 } else { 1 };
    if chunks::bytes(b.dtype(x), b.dims(x), chip).saturating_mul(arrays) <= chip.vmem_bytes {
        return Ok(None);
    }
    let sizes = b.dims(part).to_vec();
    let Some(Way { rows, starts, large }) = Way::of(b, x, starts, &sizes, chip) else { return Ok(None) };
    let array = if large { chunks::update(b, &rows, part, &starts, chip)? } else { rows.with_part(b, part, &starts) };
    Ok(Some(Rows { array, ..rows }.back(b)))
}
