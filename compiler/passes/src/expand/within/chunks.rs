//! Parts of arrays that begin somewhere within a row of lanes, and are too large to be shifted in vector memory at once: chunk by chunk, in
//! a loop.

use super::Rows;
use crate::edit::Emit;
use crate::options::Facts;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, NodeId};
use systole_isa::{DType, Layout};

/// The part of vector memory (one in so many) that a part may take which is shifted at once, and that of a chunk of a larger one: beside it
/// there are the rows of lanes that hold it, and what goes to HBM and comes from there meanwhile.
const LARGE: u64 = 2;
const CHUNK: u64 = 32;
/// The part that a block of rows of it may take: of more rows it is cut block by block.
const BLOCK: u64 = 16;

/// Bytes of an array in chip memory, as it lies there.
pub fn bytes(dtype: DType, dims: &[u64], chip: &Facts) -> u64 {
    Layout::row_major(dtype, dims, chip.tile.0, chip.tile.1).bytes()
}

/// Whether a part of such sizes goes in chunks: blocks of its rows would be too large too.
pub fn is_large(dtype: DType, sizes: &[u64], chip: &Facts) -> bool {
    let mut block = sizes.to_vec();
    for (i, size) in block.iter_mut().rev().enumerate().skip(1) {
        *size = if i == 1 { (*size).min(4 * u64::from(chip.tile.0)) } else { 1 };
    }
    bytes(dtype, sizes, chip) > chip.vmem_bytes / LARGE && bytes(dtype, &block, chip) > chip.vmem_bytes / BLOCK
}

/// A dimension in chunks.
struct Chunks {
    dim: usize,
    /// Steps of a chunk, chunks, and steps behind them.
    size: u64,
    count: u64,
    rest: u64,
}

impl Chunks {
    /// Of an array of such sizes: along lanes if that is few enough, else along the outermost dimension.
    fn of(dtype: DType, sizes: &[u64], chip: &Facts) -> Option<Chunks> {
        let (last, lanes) = (sizes.len() - 1, u64::from(chip.tile.1));
        let room = chip.vmem_bytes / CHUNK;
        let with = |d: usize, size: u64| {
            let mut one = sizes.to_vec();
            one[d] = size;
            bytes(dtype, &one, chip)
        };
        let outer = (0..last).find(|&d| sizes[d] > 1);
        let dim = outer.filter(|_| with(last, lanes) > room).unwrap_or(last);
        // Chunks begin at whole tiles: of lanes, and of rows of any type.
        let unit = match last - dim {
            0 => lanes * if last == 0 { 4 * u64::from(chip.tile.0) } else { 1 },
            1 => 4 * u64::from(chip.tile.0),
            _ => 1,
        };
        let units = (room / with(dim, unit).max(1)).max(1);
        let size = units * unit;
        (size < sizes[dim]).then(|| Chunks { dim, size, count: sizes[dim] / size, rest: sizes[dim] % size })
    }

    /// Where a chunk begins: at whole tiles, and with room for it, as is seen from the operations.
    fn begin(&self, b: &mut Emit, number: NodeId) -> NodeId {
        let at = b.with(Binary::Mul, number, self.size as f64);
        b.with(Binary::Min, at, ((self.count - 1) * self.size) as f64)
    }

    /// The sizes of a chunk of so many steps.
    fn sizes(&self, all: &[u64], steps: u64) -> Vec<u64> {
        let mut sizes = all.to_vec();
        sizes[self.dim] = steps;
        sizes
    }

    /// Where a chunk begins in its part, and in the array.
    fn places(&self, b: &mut Emit, starts: &[NodeId], at: NodeId) -> (Vec<NodeId>, Vec<NodeId>) {
        let zero = b.index(0);
        let (mut own, mut there) = (vec![zero; starts.len()], starts.to_vec());
        own[self.dim] = at;
        there[self.dim] = b.add(starts[self.dim], at);
        (own, there)
    }
}

/// `sizes` elements from `starts` on, which leave room for them.
///
/// # Errors
/// A loop that could not be made.
pub fn slice(
    b: &mut Emit,
    rows: &Rows,
    starts: &[NodeId],
    sizes: &[u64],
    chip: &Facts,
) -> Result<NodeId, CompileError> {
    let dtype = b.dtype(rows.array);
    let chunks = is_large(dtype, sizes, chip).then(|| Chunks::of(dtype, sizes, chip)).flatten();
    let Some(c) = chunks else { return Ok(rows.part(b, starts, sizes)) };
    let put = |b: &mut Emit,
               to: NodeId,
               (rows, starts): (&Rows, &[NodeId]),
               at: NodeId,
               steps: u64|
     -> Result<NodeId, CompileError> {
        let (own, there) = c.places(b, starts, at);
        let part = slice(b, rows, &there, &c.sizes(sizes, steps), chip)?;
        Ok(b.dynamic_update_slice(to, part, &own))
    };
    let empty = b.splat(dtype, sizes, 0.0);
    let state = [&[empty, rows.array][..], starts].concat();
    let mut done = b.counted_loop("slice", c.count, &state, |b, counter, s| {
        let at = c.begin(b, counter);
        let rows = Rows { array: s[1], ..rows.clone() };
        let out = put(b, s[0], (&rows, &s[2..]), at, c.size)?;
        Ok([&[out][..], &s[1..]].concat())
    })?;
    let done = done.swap_remove(0);
    if c.rest == 0 {
        return Ok(done);
    }
    let at = b.index((c.count * c.size) as i64);
    put(b, done, (rows, starts), at, c.rest)
}

/// The array of `rows` with `part` in it from `starts` on, which leave room for it.
///
/// # Errors
/// A loop that could not be made.
pub fn update(
    b: &mut Emit,
    rows: &Rows,
    part: NodeId,
    starts: &[NodeId],
    chip: &Facts,
) -> Result<NodeId, CompileError> {
    let (dtype, sizes) = (b.dtype(part), b.dims(part).to_vec());
    let chunks = is_large(dtype, &sizes, chip).then(|| Chunks::of(dtype, &sizes, chip)).flatten();
    let Some(c) = chunks else { return Ok(rows.with_part(b, part, starts)) };
    let put = |b: &mut Emit,
               array: NodeId,
               (part, starts): (NodeId, &[NodeId]),
               at: NodeId,
               steps: u64|
     -> Result<NodeId, CompileError> {
        let (own, there) = c.places(b, starts, at);
        let chunk = b.dynamic_slice(part, &own, &c.sizes(&sizes, steps));
        update(b, &Rows { array, ..rows.clone() }, chunk, &there, chip)
    };
    let state = [&[rows.array, part][..], starts].concat();
    let mut done = b.counted_loop("update", c.count, &state, |b, counter, s| {
        let at = c.begin(b, counter);
        let array = put(b, s[0], (s[1], &s[2..]), at, c.size)?;
        Ok([&[array][..], &s[1..]].concat())
    })?;
    let done = done.swap_remove(0);
    if c.rest == 0 {
        return Ok(done);
    }
    let at = b.index((c.count * c.size) as i64);
    put(b, done, (part, starts), at, c.rest)
}
