//! Running reductions by any computation: blocks, whose elements are taken one after the other beside those of all other blocks, then
//! the blocks' totals in the same way, and both combined.
//!
//! Blocks are as long as XLA makes them on its CPU, and each begins with the initial value as there: so it is taken as often, which
//! tells where it changes something.

use super::BLOCK;
use super::scan::{BESIDE, MANY_LINES};
use crate::edit::Emit;
use crate::make::inverse;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, NodeId, WindowDim};

/// Elements of a line, of which all blocks' totals are a block again.
const LINE: u64 = BLOCK * BLOCK;
/// Elements that are taken one after the other without blocks, where there are registers full of those beside each other: sums of many
/// more would round as often.
const ONCE: u64 = 128;
/// Blocks that lie in rows apart are so many, or a multiple: registers of them are full.
const ROWS: u64 = 8;

/// A running reduction; `reverse`: each result is of its own element and those behind it.
#[derive(Clone, Copy)]
pub(super) struct Running<'a> {
    pub(super) inits: &'a [NodeId],
    pub(super) body: CompId,
    pub(super) reverse: bool,
    /// Whether the initial values change nothing: blocks may be of any size then.
    pub(super) idle: bool,
    /// Blocks are windows of one array that nothing outside changes, not turns of a loop.
    pub(super) windows: bool,
}

impl Running<'_> {
    /// The running reductions of arrays along one of their dimensions.
    pub(super) fn along(self, b: &mut Emit, xs: &[NodeId], dim: usize) -> Result<Vec<NodeId>, CompileError> {
        let dims = b.dims(xs[0]).to_vec();
        let n = dims[dim];
        if dim + 1 < dims.len() {
            let fills = b.elements(xs[0]) / n >= BESIDE;
            let at_once = n <= BLOCK || self.idle && n <= ONCE && fills && !self.windows;
            return if at_once { Ok(self.turns(b, xs, dim)?.0) } else { self.blocks(b, xs, dim) };
        }
        let rows = b.elements(xs[0]) / n;
        let xs: Vec<NodeId> = xs.iter().map(|&x| b.reshape(x, &[rows, n])).collect();
        let done = if n <= BLOCK || rows >= MANY_LINES {
            turned(b, &xs, &[1, 0], |b, xs| self.along(b, xs, 0))?
        } else {
            self.lines(b, &xs)?
        };
        Ok(done.iter().map(|&x| b.reshape(x, &dims)).collect())
    }

    /// Results without their own element: from the initial value on, and not the last one.
    fn exclusive(self, b: &mut Emit, xs: &[NodeId], dim: usize) -> Vec<NodeId> {
        let (low, high) = if self.reverse { (-1, 1) } else { (1, -1) };
        xs.iter().zip(self.inits).map(|(&x, &init)| b.pad_dim(x, init, dim, (low, high))).collect()
    }

    /// Arrays with so many more elements at the end of a dimension that is behind the others.
    fn filled(self, b: &mut Emit, xs: &[NodeId], dim: usize, fill: u64) -> Vec<NodeId> {
        let (low, high) = if self.reverse { (fill as i64, 0) } else { (0, fill as i64) };
        xs.iter().zip(self.inits).map(|(&x, &init)| b.pad_dim(x, init, dim, (low, high))).collect()
    }

    /// The first `n` elements of [`Running::filled`] arrays.
    fn unfilled(self, b: &mut Emit, x: NodeId, dim: usize, n: u64) -> NodeId {
        let skip = if self.reverse { b.dims(x)[dim] - n } else { 0 };
        b.slice_dim(x, dim, skip, skip + n, 1)
    }

    /// What came before, of dimensions `map` of results, combined with these.
    fn combined(
        self,
        b: &mut Emit,
        before: &[NodeId],
        xs: &[NodeId],
        map: &[usize],
    ) -> Result<Vec<NodeId>, CompileError> {
        let dims = b.dims(xs[0]).to_vec();
        let before: Vec<NodeId> = before.iter().map(|&x| b.broadcast(x, map, &dims)).collect();
        self.ordered(b, &before, xs, &dims)
    }

    /// Combines what came first with what came then, in the order in which they lie in windows.
    fn ordered(
        self,
        b: &mut Emit,
        before: &[NodeId],
        xs: &[NodeId],
        dims: &[u64],
    ) -> Result<Vec<NodeId>, CompileError> {
        let all = if self.reverse { [xs, before].concat() } else { [before, xs].concat() };
        b.apply(self.body, &all, dims)
    }

    /// Along a dimension of more than a block, and not the last: blocks beside each other.
    fn blocks(self, b: &mut Emit, xs: &[NodeId], dim: usize) -> Result<Vec<NodeId>, CompileError> {
        let dims = b.dims(xs[0]).to_vec();
        let columns = dims[dim].div_ceil(BLOCK);
        let columns = if columns < ROWS { columns } else { columns.next_multiple_of(ROWS) };
        let xs = self.filled(b, xs, dim, columns * BLOCK - dims[dim]);
        let tiled = [&dims[..dim], &[columns, BLOCK], &dims[dim + 1..]].concat();
        let tiles: Vec<NodeId> = xs.iter().map(|&x| b.reshape(x, &tiled)).collect();
        let by_blocks = |b: &mut Emit, xs: &[NodeId], along: usize| {
            let (inner, totals) = self.turns(b, xs, along)?;
            let before = self.along(b, &totals, dim)?;
            let before = self.exclusive(b, &before, dim);
            let map: Vec<usize> = (0..tiled.len()).filter(|&d| d != along).collect();
            self.combined(b, &before, &inner, &map)
        };
        let done = if columns.is_multiple_of(ROWS) {
            by_blocks(b, &tiles, dim + 1)?
        } else {
            let mut order: Vec<usize> = (0..tiled.len()).collect();
            order.swap(dim, dim + 1);
            turned(b, &tiles, &order, |b, xs| by_blocks(b, xs, dim))?
        };
        let whole = [&dims[..dim], &[columns * BLOCK], &dims[dim + 1..]].concat();
        let join = |b: &mut Emit, x| {
            let x = b.reshape(x, &whole);
            self.unfilled(b, x, dim, dims[dim])
        };
        Ok(done.into_iter().map(|x| join(b, x)).collect())
    }

    /// Along few long rows: lines of these beside each other, the blocks of a line one below the other.
    fn lines(self, b: &mut Emit, xs: &[NodeId]) -> Result<Vec<NodeId>, CompileError> {
        let dims = b.dims(xs[0]).to_vec();
        let (rows, n) = (dims[0], dims[1]);
        let lines = n.div_ceil(LINE);
        let all = rows * lines;
        let xs = self.filled(b, xs, 1, lines * LINE - n);
        let xs: Vec<NodeId> = xs.iter().map(|&x| b.reshape(x, &[all, LINE])).collect();
        // Of a single line the blocks lie along lanes.
        let tiled: Vec<u64> = [BLOCK, BLOCK].into_iter().chain((all > 1).then_some(all)).collect();
        let (order, map): (&[usize], &[usize]) = if all == 1 { (&[1, 0], &[1]) } else { (&[1, 0, 2], &[1, 2]) };
        let done = turned(b, &xs, &[1, 0], |b, xs| {
            let tiles: Vec<NodeId> = xs.iter().map(|&x| b.reshape(x, &tiled)).collect();
            let done = turned(b, &tiles, order, |b, xs| {
                let (inner, totals) = self.turns(b, xs, 0)?;
                let totals: Vec<NodeId> = totals.iter().map(|&x| b.reshape(x, &[BLOCK, all])).collect();
                let before = self.before_blocks(b, &totals, (rows, lines))?;
                let before: Vec<NodeId> = before.iter().map(|&x| b.reshape(x, &tiled[1..])).collect();
                self.combined(b, &before, &inner, map)
            })?;
            Ok(done.iter().map(|&x| b.reshape(x, &[LINE, all])).collect())
        })?;
        let join = |b: &mut Emit, x| {
            let x = b.reshape(x, &[rows, lines * LINE]);
            self.unfilled(b, x, 1, n)
        };
        Ok(done.into_iter().map(|x| join(b, x)).collect())
    }

    /// What comes before each block of lines, from blocks' totals `[block, row and line]`.
    fn before_blocks(
        self,
        b: &mut Emit,
        totals: &[NodeId],
        (rows, lines): (u64, u64),
    ) -> Result<Vec<NodeId>, CompileError> {
        let (mut runs, of_lines) = self.turns(b, totals, 0)?;
        let all = rows * lines;
        if lines > 1 {
            let of_lines: Vec<NodeId> = of_lines.iter().map(|&x| b.reshape(x, &[rows, lines])).collect();
            let before = self.along(b, &of_lines, 1)?;
            let before = self.exclusive(b, &before, 1);
            let before: Vec<NodeId> = before.iter().map(|&x| b.reshape(x, &[all])).collect();
            runs = self.combined(b, &before, &runs, &[1])?;
        }
        // Before a line's first block comes the last block of the line before.
        let (last, rest) = if self.reverse { (0, 1) } else { (BLOCK - 1, 0) };
        let ends: Vec<NodeId> = runs
            .iter()
            .map(|&x| {
                let x = b.slice_dim(x, 0, last, last + 1, 1);
                b.reshape(x, &[rows, lines])
            })
            .collect();
        let ends = self.exclusive(b, &ends, 1);
        let join = |b: &mut Emit, run, end| {
            let end = b.reshape(end, &[1, all]);
            let run = b.slice_dim(run, 0, rest, rest + BLOCK - 1, 1);
            b.concatenate(&if self.reverse { [run, end] } else { [end, run] }, 0)
        };
        Ok(runs.iter().zip(ends).map(|(&run, end)| join(b, run, end)).collect())
    }

    /// The running reductions of a block along a dimension, and the last results, as windows.
    fn by_windows(self, b: &mut Emit, x: NodeId, dim: usize) -> (Vec<NodeId>, Vec<NodeId>) {
        let n = b.dims(x)[dim];
        let before = n as i64 - 1;
        let edges = if self.reverse { (0, before) } else { (before, 0) };
        let mut window = vec![WindowDim::TRIVIAL; b.rank(x)];
        window[dim] = WindowDim { size: n, ..WindowDim::TRIVIAL };
        let x = b.pad_dim(x, self.inits[0], dim, edges);
        let scan = b.reduce_window(&[x], self.inits, &window, self.body);
        let edge = if self.reverse { 0 } else { n - 1 };
        let total = b.slice_dim(scan, dim, edge, edge + 1, 1);
        let mut rest = b.dims(scan).to_vec();
        rest.remove(dim);
        let total = b.reshape(total, &rest);
        (vec![scan], vec![total])
    }

    /// The running reductions along a dimension, and the last results, in a loop that takes one element of each after the other.
    pub(super) fn turns(
        self,
        b: &mut Emit,
        xs: &[NodeId],
        dim: usize,
    ) -> Result<(Vec<NodeId>, Vec<NodeId>), CompileError> {
        let dims = b.dims(xs[0]).to_vec();
        let (count, n) = (xs.len(), dims[dim]);
        if self.windows && n <= BLOCK {
            return Ok(self.by_windows(b, xs[0], dim));
        }
        let mut part = dims.clone();
        part[dim] = 1;
        let mut rest = dims.clone();
        rest.remove(dim);
        let mut state: Vec<NodeId> = self.inits.iter().map(|&init| b.broadcast(init, &[], &rest)).collect();
        state.extend(xs);
        for &x in xs {
            state.push(b.splat(b.dtype(x), &dims, 0.0));
        }
        let done = b.counted_loop("running", n, &state, |b, turn, s| {
            let zero = b.index(0);
            let mut starts = vec![zero; dims.len()];
            starts[dim] = if self.reverse {
                let last = b.index(n as i64 - 1);
                b.binary(Binary::Sub, last, turn)
            } else {
                turn
            };
            let (before, others) = s.split_at(count);
            let (xs, outs) = others.split_at(count);
            let take = |b: &mut Emit, x| {
                let x = b.dynamic_slice(x, &starts, &part);
                b.reshape(x, &rest)
            };
            let own: Vec<NodeId> = xs.iter().map(|&x| take(b, x)).collect();
            let next = self.ordered(b, before, &own, &rest)?;
            let mut state = [&next[..], xs].concat();
            for (&out, &x) in outs.iter().zip(&next) {
                let x = b.reshape(x, &part);
                state.push(b.dynamic_update_slice(out, x, &starts));
            }
            Ok(state)
        })?;
        Ok((done[2 * count..].to_vec(), done[..count].to_vec()))
    }
}

/// What is made of arrays with their dimensions in another order, turned back.
fn turned(
    b: &mut Emit,
    xs: &[NodeId],
    order: &[usize],
    of: impl FnOnce(&mut Emit, &[NodeId]) -> Result<Vec<NodeId>, CompileError>,
) -> Result<Vec<NodeId>, CompileError> {
    let xs: Vec<NodeId> = xs.iter().map(|&x| b.transpose(x, order)).collect();
    let done = of(b, &xs)?;
    let back = inverse(order);
    Ok(done.iter().map(|&x| b.transpose(x, &back)).collect())
}
