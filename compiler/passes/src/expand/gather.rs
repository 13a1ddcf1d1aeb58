//! Gathers.
//!
//! Canonical form ("rows"): operand `[R, W..]`, indices `s32[n]` within `0..R`, result `[n, W..]`: a gather with
//! `offset_dims={1..}`, `collapsed_slice_dims={0}`, `start_index_map={0}`, `index_vector_dim=1` and whole rows. Slices of
//! more than one element along indexed dimensions become dynamic slices, in a loop if there are many; so do large slices of
//! several dimensions. Many short ones of rows are put together from rows of lanes ([`lines`]).
//!
//! Canonical form ("elements"): operand `[N]`, indices `s32[n]`, result `[n]`, or with a batching dimension in front of
//! each: single elements, found by permutations of lanes. Where tables are so long that this costs more than to fetch a
//! row for each, rows of [`LINE`] elements are gathered, and one element of each is kept.

pub mod fixed;
pub mod known;
mod lines;
pub mod own;

use super::index::as_s32;
use super::packed;
use super::within::bytes;
use crate::edit::{Emit, Rewritten};
use crate::make::{array, inverse, unsigned, whole};
use crate::options::{Facts, PassOptions};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Batching, Binary, Direction, Gather, IndexMap, Node, NodeId, Op, Shape, Unary};
use systole_isa::DType;

/// Slices that are emitted one by one; more make a loop.
const MAX_UNROLLED: u64 = 4;

/// A start index for each of `n` slices along one dimension.
pub struct Indexed {
    pub dim: usize,
    /// `s32[n]`, or the original type for scatters to check.
    pub index: NodeId,
}

impl Indexed {
    pub fn copy(&self) -> Indexed {
        Indexed { dim: self.dim, index: self.index }
    }
}

/// Index arrays of all indexed dimensions, from the array of index vectors: dimensions that these name, and batching
/// dimensions whose index is their own position. Gives also the sizes of the batch.
pub fn index_arrays(b: &mut Emit, indices: NodeId, map: &IndexMap) -> (Vec<Indexed>, Vec<u64>) {
    let dims = b.dims(indices).to_vec();
    let batch: Vec<usize> = (0..dims.len()).filter(|&d| d != map.vector).collect();
    let sizes: Vec<u64> = batch.iter().map(|&d| dims[d]).collect();
    let n: u64 = sizes.iter().product();
    let mut out = Vec::new();
    for (j, &dim) in map.start.iter().enumerate() {
        let part =
            if map.vector < dims.len() { b.slice_dim(indices, map.vector, j as u64, j as u64 + 1, 1) } else { indices };
        out.push(Indexed { dim, index: b.reshape(part, &[n]) });
    }
    for (dim, at) in map.batching.pairs() {
        let position = batch.iter().position(|&d| d == at).unwrap_or(0);
        let own = b.iota(DType::S32, &sizes, position);
        out.push(Indexed { dim, index: b.reshape(own, &[n]) });
    }
    (out, sizes)
}

/// Rows of `dims` merged in the order listed: the linear index of each.
pub fn linear(b: &mut Emit, indexed: &[Indexed], dims: &[u64], n: u64) -> NodeId {
    let mut sum: Option<NodeId> = None;
    let mut stride = 1u64;
    for i in indexed.iter().rev() {
        let term = b.with(Binary::Mul, i.index, stride as f64);
        stride *= dims[i.dim];
        sum = Some(match sum {
            Some(s) => b.add(term, s),
            None => term,
        });
    }
    sum.unwrap_or_else(|| b.splat(DType::S32, &[n], 0.0))
}

/// Lowers one gather.
///
/// # Errors
/// A loop that could not be made.
pub fn lower(
    b: &mut Emit,
    g: &Gather,
    node: &Node,
    operands: &[NodeId],
    options: &PassOptions,
) -> Result<NodeId, CompileError> {
    let to = array(&node.shape);
    let (x, indices, map) = cut_where_fixed(b, operands[0], operands[1], g);
    let dims = b.dims(x).to_vec();
    let (map, indices) = own::batched(b, &map, indices, &dims);
    let g = &Gather { map, ..g.clone() };
    let (mut indexed, batch) = index_arrays(b, indices, &g.map);
    // A slice as long as its dimension starts at 0.
    indexed.retain(|i| g.slice_sizes[i.dim] < dims[i.dim] || dims[i.dim] == 1 && g.slice_sizes[i.dim] == 0);
    for i in &mut indexed {
        let max = dims[i.dim] - g.slice_sizes[i.dim];
        i.index = as_s32(b, i.index, max, !own::within(b, i.index, max));
    }
    indexed.sort_by_key(|i| i.dim);
    let slices = if let Some(found) = known::lower(b, x, &indexed, (g, indices)) {
        found
    } else if let Some(found) = by_comparison(b, x, &indexed, g, &batch) {
        found
    } else if let Some(found) = elements(b, x, &indexed, (g, &batch), &options.chip)? {
        found
    } else if indexed.iter().all(|i| g.slice_sizes[i.dim] == 1)
        && !are_slabs(b, x, g, (batch.iter().product(), options.chip.vmem_bytes))
        && !is_wide(b, x, &g.slice_sizes, options.chip.vmem_bytes / WIDE)
    {
        rows(b, x, &indexed, g, (batch.iter().product(), options.chip.tile))
    } else if let Some(found) = lines::lower(b, x, &indexed, g, batch.iter().product()) {
        found
    } else {
        ordered(b, x, indexed, g, (batch.iter().product(), &options.chip))?
    };
    // [n, slice sizes without collapsed and batching dimensions] -> the result's order of dimensions.
    let offset: Vec<u64> = (0..dims.len()).filter(|&d| !g.map.lacks(d)).map(|d| g.slice_sizes[d]).collect();
    let ordered = b.reshape(slices, &[&batch[..], &offset].concat());
    let rest = (0..to.rank()).filter(|d| !g.map.window.contains(d));
    let place: Vec<usize> = rest.chain(g.map.window.iter().copied()).collect();
    Ok(b.transpose(ordered, &inverse(&place)))
}

/// The operand cut where the start of all slices is the same, with the other starts and their dimension numbers.
fn cut_where_fixed(b: &mut Emit, x: NodeId, indices: NodeId, g: &Gather) -> (NodeId, NodeId, IndexMap) {
    let Some(f) = fixed::apart(b, &g.map, indices, |_, _| true) else { return (x, indices, g.map.clone()) };
    let cut = f.part(b.dims(x), &g.slice_sizes);
    (b.slice(x, &cut), f.indices, f.map)
}

/// Bytes of a slice of several dimensions that is copied as it lies: as a row of a table it would be laid out anew, and the
/// table with it.
pub const SLAB: u64 = 1 << 18;

/// Slices of that size fit in vector memory fewer times; more of them are gathered as rows are.
pub const SLABS: u64 = 64;

/// Whether `n` slices are large, have rows of their own, and are together more than vector memory holds.
fn are_slabs(b: &Emit, x: NodeId, g: &Gather, (n, vmem): (u64, u64)) -> bool {
    let sizes = &g.slice_sizes;
    let bytes = sizes.iter().product::<u64>() * u64::from(b.dtype(x).bits()).max(8) / 8;
    let rows = sizes.iter().filter(|&&s| s != 1).count() > 1;
    rows && bytes >= SLAB && bytes > vmem / SLABS && bytes.saturating_mul(n) > vmem
}

/// The part of vector memory that a row may take at most: kernels have two sets of eight of them under way.
const WIDE: u64 = 32;

/// Whether a row of such sizes has more bytes than that, and is moved by itself, part by part.
pub fn is_wide(b: &Emit, x: NodeId, sizes: &[u64], most: u64) -> bool {
    let dtype = b.dtype(x);
    let bits = u64::from(dtype.storage_bits() * dtype.components() as u32);
    sizes.iter().product::<u64>().saturating_mul(bits) / 8 > most
}

/// Elements `[n, m]` of the rows of a table `[n, w]`, at places `s32[n, m]` in each row of its own.
fn picked_in_rows(b: &mut Emit, table: NodeId, index: NodeId) -> NodeId {
    let canonical = Gather {
        map: IndexMap {
            collapsed: vec![1],
            start: vec![1],
            batching: Batching { operand: vec![0], indices: vec![0] },
            vector: 2,
            ..IndexMap::default()
        },
        slice_sizes: vec![1, 1],
        indices_are_sorted: false,
    };
    let shape = Shape::array(b.dtype(table), b.dims(index));
    b.emit(Op::Gather(canonical), &[table, index], shape)
}

/// Rows of the operand with indexed dimensions merged in front: `[n, W..]`.
fn rows(b: &mut Emit, x: NodeId, indexed: &[Indexed], g: &Gather, (n, tile): (u64, (u32, u32))) -> NodeId {
    let dims = b.dims(x).to_vec();
    let row = linear(b, indexed, &dims, n);
    let table = table_of_rows(b, x, indexed, g);
    let width = b.dims(table)[1..].to_vec();
    if b.dims(table)[0] == 1 {
        let one = b.reshape(table, &width);
        let map: Vec<usize> = (1..=width.len()).collect();
        return b.broadcast(one, &map, &[&[n][..], &width].concat());
    }
    if let Some(found) = packed::gathered(b, table, row, tile) {
        return found;
    }
    b.gather_rows(table, row, g.indices_are_sorted)
}

/// The operand as a table of rows, its indexed dimensions merged in front: `[R, W..]`.
fn table_of_rows(b: &mut Emit, x: NodeId, indexed: &[Indexed], g: &Gather) -> NodeId {
    let dims = b.dims(x).to_vec();
    let mut cut = whole(&dims);
    for (d, c) in cut.iter_mut().enumerate().filter(|(d, _)| indexed.iter().all(|i| i.dim != *d)) {
        c.limit = g.slice_sizes[d];
    }
    let x = b.slice(x, &cut);
    let front: Vec<usize> = indexed.iter().map(|i| i.dim).collect();
    let rest: Vec<usize> = (0..dims.len()).filter(|d| !front.contains(d)).collect();
    let count: u64 = front.iter().map(|&d| dims[d]).product();
    let width: Vec<u64> = rest.iter().map(|&d| g.slice_sizes[d]).filter(|&w| w != 1).collect();
    let x = b.transpose(x, &[&front[..], &rest].concat());
    b.reshape(x, &[&[count][..], &width].concat())
}

/// Elements of a row that is gathered for the sake of one.
const LINE: u64 = 128;
/// Cycles that a gathered row costs, as permutations of a register (two units, four cycles each).
const ROW_COST: u64 = 4;
/// The part of vector memory (one in so many) that a register's rows of a batch of tables may take.
const TABLES: u64 = 3;
/// The part that a single table may take from which elements are fetched one after the other, whatever permutations cost.
const TABLE: u64 = 4;
/// Most rows of [`LINE`] elements that are gathered at once.
const MOST_LINES: u64 = 1 << 14;
/// Most elements of a row that are gathered one by one.
const NARROW: u64 = 8;
/// Rows of less than [`LINE`] elements that are worth that: so many fill vector memory.
const MANY_ROWS: u64 = 1 << 15;

/// Slices of one element (or a few, of very many): `[n, slice sizes..]` without sizes of 1, `None` if they are rows.
fn elements(b: &mut Emit, x: NodeId, indexed: &[Indexed], (g, batch): (&Gather, &[u64]), chip: &Facts) -> Rewritten {
    let dims = b.dims(x).to_vec();
    let n: u64 = batch.iter().product();
    let whole = |d: usize| g.slice_sizes[d] == dims[d] || indexed.iter().any(|i| i.dim == d && g.slice_sizes[d] == 1);
    let width: u64 = g.slice_sizes.iter().product();
    if indexed.is_empty() || n == 0 || !(0..dims.len()).all(whole) || indexed.iter().any(|i| g.slice_sizes[i.dim] != 1)
    {
        return Ok(None);
    }
    if width != 1 {
        let narrow = width <= NARROW && n >= MANY_ROWS && g.map.batching.is_empty();
        return if narrow { columns(b, x, indexed, (g, n), chip).map(Some) } else { Ok(None) };
    }
    if dims.iter().product::<u64>() == 1 {
        return Ok(None);
    }
    let is_batch = |i: &&Indexed| g.map.batching.operand.contains(&i.dim);
    let own: Vec<Indexed> = indexed.iter().filter(|i| !is_batch(i)).map(Indexed::copy).collect();
    if own.is_empty() || own.len() == indexed.len() {
        let row = linear(b, indexed, &dims, n);
        let front: Vec<usize> = indexed.iter().map(|i| i.dim).collect();
        let rest = (0..dims.len()).filter(|d| !front.contains(d));
        let order: Vec<usize> = front.iter().copied().chain(rest).collect();
        let count = dims.iter().product();
        let x = b.transpose(x, &order);
        let table = b.reshape(x, &[count]);
        return picked(b, table, row, n, chip).map(Some);
    }
    // [batching dimensions, own dimensions] and indices [batching dimensions, others].
    let own_dims: Vec<usize> = own.iter().map(|i| i.dim).collect();
    let rest: Vec<usize> =
        (0..dims.len()).filter(|d| !own_dims.contains(d) && !g.map.batching.operand.contains(d)).collect();
    let order = [&g.map.batching.operand[..], &own_dims, &rest].concat();
    let (rows, count) = (
        g.map.batching.operand.iter().map(|&d| dims[d]).product::<u64>(),
        own_dims.iter().map(|&d| dims[d]).product::<u64>(),
    );
    let x = b.transpose(x, &order);
    let table = b.reshape(x, &[rows, count]);
    let place = |d: usize| if d > g.map.vector { d - 1 } else { d };
    let front: Vec<usize> = g.map.batching.indices.iter().map(|&d| place(d)).collect();
    let index_order: Vec<usize> =
        front.iter().copied().chain((0..batch.len()).filter(|d| !front.contains(d))).collect();
    let moved: Vec<u64> = index_order.iter().map(|&d| batch[d]).collect();
    let each = n / rows;
    let index = linear(b, &own, &dims, n);
    let index = b.reshape(index, batch);
    let index = b.transpose(index, &index_order);
    let index = b.reshape(index, &[rows, each]);
    let found = if rows == 1 {
        let table = b.reshape(table, &[count]);
        let index = b.reshape(index, &[n]);
        picked(b, table, index, n, chip)?
    } else if cost(count, rows, each) <= ROW_COST * n
        && bytes(b, table) / rows * u64::from(chip.tile.0) <= chip.vmem_bytes / TABLES
    {
        picked_in_rows(b, table, index)
    } else {
        let first = b.iota(DType::S32, &[rows, each], 0);
        let first = b.with(Binary::Mul, first, count as f64);
        let index = b.add(first, index);
        let index = b.reshape(index, &[n]);
        let table = b.reshape(table, &[rows * count]);
        picked(b, table, index, n, chip)?
    };
    let found = b.reshape(found, &moved);
    let found = b.transpose(found, &inverse(&index_order));
    Ok(Some(b.reshape(found, &[n])))
}

/// Permutations of registers that pick `each` elements from each of `rows` rows of `count`.
fn cost(count: u64, rows: u64, each: u64) -> u64 {
    let (blocks, columns) = if rows == 1 { (each.div_ceil(1024), 1) } else { (rows.div_ceil(8), each.div_ceil(LINE)) };
    blocks * columns * count.div_ceil(LINE)
}

/// Elements `index` of `table`: `[n]`.
fn picked(b: &mut Emit, table: NodeId, index: NodeId, n: u64, chip: &Facts) -> Result<NodeId, CompileError> {
    let count = b.elements(table);
    let dtype = b.dtype(table);
    let room = bytes(b, table);
    if cost(count, 1, n) <= ROW_COST * n && room <= chip.vmem_bytes / TABLES || room <= chip.vmem_bytes / TABLE {
        return Ok(b.gather_rows(table, index, false));
    }
    let lines = count.div_ceil(LINE);
    let none = b.scalar(dtype, 0.0);
    let table = b.pad_dim(table, none, 0, (0, (lines * LINE - count) as i64));
    let table = b.reshape(table, &[lines, LINE]);
    if n <= MOST_LINES {
        return Ok(from_lines(b, table, index));
    }
    let steps = n.div_ceil(MOST_LINES);
    let zero = b.index(0);
    let index = b.pad_dim(index, zero, 0, (0, (steps * MOST_LINES - n) as i64));
    let empty = b.splat(dtype, &[steps * MOST_LINES], 0.0);
    let done = b.counted_loop("gather", steps, &[empty, table, index], |b, counter, s| {
        let at = b.with(Binary::Mul, counter, MOST_LINES as f64);
        let part = b.dynamic_slice(s[2], &[at], &[MOST_LINES]);
        let found = from_lines(b, s[1], part);
        let out = b.dynamic_update_slice(s[0], found, &[at]);
        Ok(vec![out, s[1], s[2]])
    })?;
    Ok(b.slice_dim(done[0], 0, 0, n, 1))
}

/// Elements of a table of lines, each from a line of its own.
fn from_lines(b: &mut Emit, table: NodeId, index: NodeId) -> NodeId {
    let line = b.with(Binary::Div, index, LINE as f64);
    let lines = b.gather_rows(table, line, false);
    let lane = b.with(Binary::Rem, index, LINE as f64);
    kept(b, lines, lane)
}

/// Gathers of a few neighbouring elements, each by itself.
fn columns(
    b: &mut Emit,
    x: NodeId,
    indexed: &[Indexed],
    (g, n): (&Gather, u64),
    chip: &Facts,
) -> Result<NodeId, CompileError> {
    let dims = b.dims(x).to_vec();
    let row = linear(b, indexed, &dims, n);
    let front: Vec<usize> = indexed.iter().map(|i| i.dim).collect();
    let rest: Vec<usize> = (0..dims.len()).filter(|d| !front.contains(d)).collect();
    let count: u64 = front.iter().map(|&d| dims[d]).product();
    let width: u64 = rest.iter().map(|&d| g.slice_sizes[d]).product();
    let x = b.transpose(x, &[&rest[..], &front].concat());
    let x = b.reshape(x, &[width, count]);
    let mut parts = Vec::new();
    for w in 0..width {
        let column = b.slice_dim(x, 0, w, w + 1, 1);
        let column = b.reshape(column, &[count]);
        let found = picked(b, column, row, n, chip)?;
        parts.push(b.reshape(found, &[1, n]));
    }
    let all = b.concatenate(&parts, 0);
    Ok(b.transpose(all, &[1, 0]))
}

/// One element of each row: compare positions, keep one, reduce.
fn kept(b: &mut Emit, x: NodeId, index: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let index = b.broadcast(index, &[0], &dims);
    let position = b.iota(DType::S32, &dims, 1);
    let hit = b.compare(Direction::Eq, position, index);
    let whole = |b: &mut Emit, x: NodeId| -> NodeId {
        let dtype = b.dtype(x);
        let bits = unsigned(dtype.bits());
        let raw = b.bitcast(x, bits);
        let wide = if bits.bits() < 32 { DType::U32 } else { bits };
        let wide = b.convert(raw, wide);
        let zero = b.scalar(b.dtype(wide), 0.0);
        let kept = b.select(hit, wide, zero);
        let found = b.reduce(kept, Binary::Or, 0.0, &[1]);
        let found = b.convert(found, bits);
        b.bitcast(found, dtype)
    };
    if dtype.is_complex() {
        let (re, im) = (b.unary(Unary::Real, x), b.unary(Unary::Imag, x));
        let (re, im) = (whole(b, re), whole(b, im));
        return b.binary(Binary::Complex, re, im);
    }
    if dtype == DType::Pred {
        let both = b.and(x, hit);
        return b.reduce(both, Binary::Or, 0.0, &[1]);
    }
    whole(b, x)
}

/// One element from each row of a batch: compare positions, keep one, reduce. No data-dependent address is needed.
fn by_comparison(b: &mut Emit, x: NodeId, indexed: &[Indexed], g: &Gather, batch: &[u64]) -> Option<NodeId> {
    let dims = b.dims(x).to_vec();
    let wanted: Vec<&Indexed> = indexed.iter().filter(|i| !g.map.batching.operand.contains(&i.dim)).collect();
    let &[one] = &wanted[..] else { return None };
    let last = dims.len().checked_sub(1)?;
    // Batching dimensions in front in the same order on both sides, the indexed dimension last, nothing else.
    let leading: Vec<usize> = (0..last).collect();
    let aligned = g.map.batching.operand == leading && g.map.batching.indices == leading;
    let n: u64 = batch.iter().product();
    let rows: u64 = dims[..last].iter().product();
    let simple = one.dim == last && g.slice_sizes[last] == 1 && aligned && n == rows && last > 0;
    if !simple || b.dtype(x).bits() > 32 || b.dtype(x) == DType::Pred {
        return None;
    }
    let (x, index) = on_diagonal(b, x, one.index).unwrap_or((x, one.index));
    let dims = b.dims(x).to_vec();
    let index = b.reshape(index, &dims[..last]);
    let index = b.broadcast(index, &leading, &dims);
    let position = b.iota(DType::S32, &dims, last);
    let hit = b.compare(Direction::Eq, position, index);
    let dtype = b.dtype(x);
    let bits = unsigned(dtype.bits());
    let raw = b.bitcast(x, bits);
    let wide = b.convert(raw, DType::U32);
    let zero = b.scalar(DType::U32, 0.0);
    let kept = b.select(hit, wide, zero);
    let found = b.reduce(kept, Binary::Or, 0.0, &[last]);
    let found = b.convert(found, bits);
    let found = b.bitcast(found, dtype);
    Some(b.reshape(found, &[n]))
}

/// Blocks on a diagonal that are cut out one by one at most, and from how many on that pays.
const MOST_BLOCKS: u64 = 256;
const LEAST_BLOCKS: u64 = 4;

/// Of a matrix whose diagonal is taken, the blocks of [`LINE`] columns that it goes through, above each other, and its places in them.
fn on_diagonal(b: &mut Emit, x: NodeId, index: NodeId) -> Option<(NodeId, NodeId)> {
    let &[rows, _] = b.dims(x) else { return None };
    let blocks = rows / LINE;
    let pays = rows.is_multiple_of(LINE) && (LEAST_BLOCKS..=MOST_BLOCKS).contains(&blocks);
    if !pays || !own::counts(b, index) || !b.draft.fire("gather-diagonal") {
        return None;
    }
    let parts: Vec<NodeId> = (0..blocks)
        .map(|k| {
            let (from, to) = (k * LINE, (k + 1) * LINE);
            let across = b.slice_dim(x, 0, from, to, 1);
            b.slice_dim(across, 1, from, to, 1)
        })
        .collect();
    let lane = b.with(Binary::Rem, index, LINE as f64);
    Some((b.concatenate(&parts, 0), lane))
}

/// Slices of several elements along indexed dimensions: `[n, slice sizes..]`. Where their last dimension is short they are
/// cut and put down with a longer one last.
fn ordered(
    b: &mut Emit,
    x: NodeId,
    mut indexed: Vec<Indexed>,
    g: &Gather,
    (n, chip): (u64, &Facts),
) -> Result<NodeId, CompileError> {
    let slice = systole_hlo::graph::ArrayShape::new(b.dtype(x), &g.slice_sizes);
    let Some(p) = crate::lanes::order_of_slices(&slice, n, chip.tile) else {
        return dynamic(b, x, &indexed, g, (n, chip));
    };
    let x = b.transpose(x, &p);
    let back = inverse(&p);
    for i in &mut indexed {
        i.dim = back[i.dim];
    }
    let slice_sizes = p.iter().map(|&d| g.slice_sizes[d]).collect();
    let done = dynamic(b, x, &indexed, &Gather { slice_sizes, ..g.clone() }, (n, chip))?;
    let all: Vec<usize> = [0].into_iter().chain(back.iter().map(|d| d + 1)).collect();
    Ok(b.transpose(done, &all))
}

/// Slices of several elements along indexed dimensions: `[n, slice sizes..]`.
fn dynamic(
    b: &mut Emit,
    x: NodeId,
    indexed: &[Indexed],
    g: &Gather,
    (n, chip): (u64, &Facts),
) -> Result<NodeId, CompileError> {
    let dtype = b.dtype(x);
    let sizes = &g.slice_sizes;
    let one = |b: &mut Emit, x: NodeId, indexes: &[NodeId], at: NodeId| -> Result<NodeId, CompileError> {
        let zero = b.index(0);
        let mut starts = vec![zero; sizes.len()];
        for (i, &index) in indexed.iter().zip(indexes) {
            let scalar = b.dynamic_slice(index, &[at], &[1]);
            starts[i.dim] = b.reshape(scalar, &[]);
        }
        let part = super::index::part(b, x, &starts, sizes, (chip, false))?;
        Ok(b.reshape(part, &[&[1][..], sizes].concat()))
    };
    let indexes: Vec<NodeId> = indexed.iter().map(|i| i.index).collect();
    if n <= MAX_UNROLLED {
        let mut parts = Vec::new();
        for i in 0..n {
            let at = b.index(i as i64);
            parts.push(one(b, x, &indexes, at)?);
        }
        return Ok(b.concatenate(&parts, 0));
    }
    let all = [&[n][..], sizes].concat();
    let empty = b.splat(dtype, &all, 0.0);
    let state = [&[empty, x][..], &indexes].concat();
    let done = b.counted_loop("gather", n, &state, |b, counter, s| {
        let part = one(b, s[1], &s[2..], counter)?;
        let zero = b.index(0);
        let mut starts = vec![zero; all.len()];
        starts[0] = counter;
        let out = b.dynamic_update_slice(s[0], part, &starts);
        Ok([&[out][..], &s[1..]].concat())
    })?;
    Ok(done[0])
}
