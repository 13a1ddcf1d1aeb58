//! Running reductions: windows that are all prefixes, or all suffixes, of one dimension.

use super::chunks::Chunks;
use super::running::Running;
use super::{BLOCK, LINE, Windows, is_plain, lowered};
use crate::edit::{Emit, Rewritten};
use crate::make::inverse;
use crate::reductions::sums::wide_sum;
use crate::simplify::{combiner, is_identity, scalar_of};
use crate::strips::LARGE;
use std::collections::BTreeSet;
use systole_hlo::graph::{ArrayShape, Binary, Family, NodeId, WindowDim};
use systole_isa::Layout;

/// Scans along the last dimension from which on they are made along rows, with the dimension first.
pub(super) const MANY_LINES: u64 = 64;
/// Lines of which on all chips registers are full if each line has one element there.
pub(super) const BESIDE: u64 = 1024;
/// Elements that windows reduce as they are; the second of arrays that fill no register, where turns of a loop wait for each other.
const FEW: u64 = 4;
const FEW_OF_FEW: u64 = 8;
/// Operations above a scan that are looked at.
const LOOKED: usize = 64;

/// A windowed reduction whose windows are all prefixes (or all suffixes) of one dimension.
pub(super) struct Scan {
    dim: usize,
    pub(super) reverse: bool,
    /// Whether a result leaves its own element out; there is one result more then.
    exclusive: bool,
}

/// Windows that are all prefixes, or all suffixes, of one dimension.
pub(super) fn as_scan(b: &mut Emit, whole: Windows<'_>) -> Rewritten {
    Scan::of(b.dims(whole.xs[0]), whole.window).map_or(Ok(None), |scan| scan.lowered(b, whole))
}

impl Scan {
    fn of(dims: &[u64], window: &[WindowDim]) -> Option<Scan> {
        let real: Vec<usize> = (0..dims.len()).filter(|&d| window[d] != WindowDim::TRIVIAL).collect();
        let &[dim] = &real[..] else { return None };
        let (w, n) = (&window[dim], dims[dim] as i64);
        let plain = w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1 && !w.reversal;
        let few = if dims.iter().product::<u64>() < BESIDE { FEW_OF_FEW } else { FEW };
        if !plain || w.size as i64 != n || dims[dim] <= few {
            return None;
        }
        let reach = |pad: i64, other: i64| other == 0 && (pad == n - 1 || pad == n);
        let reverse = !reach(w.pad_low, w.pad_high);
        if reverse && !reach(w.pad_high, w.pad_low) {
            return None;
        }
        Some(Scan { dim, reverse, exclusive: w.pad_low.max(w.pad_high) == n })
    }

    /// The running reduction, of several results a tuple; `None`: so short a one is a reduction over windows like others.
    fn lowered(&self, b: &mut Emit, whole: Windows<'_>) -> Rewritten {
        let Windows { xs, inits, body, .. } = whole;
        let dims = b.dims(xs[0]);
        let (n, last) = (dims[self.dim], self.dim + 1 == dims.len());
        if n <= BLOCK && is_plain(b, whole) {
            return Ok(None);
        }
        if last
            && b.elements(xs[0]) / n < MANY_LINES
            && let Some(done) = self.by_lanes(b, whole)?
        {
            return Ok(Some(done));
        }
        let idle = is_plain(b, whole) && combiner(b, body).is_some_and(|op| starts_idle(b, op, inits[0]));
        let windows = idle && wide_sum(b, body, b.dtype(xs[0])).is_none() && is_of_strips(b, whole);
        let mut done = Running { inits, body, reverse: self.reverse, idle, windows }.along(b, xs, self.dim)?;
        if self.exclusive {
            done = done.iter().zip(inits).map(|(&x, &init)| self.shifted(b, x, init)).collect();
        }
        Ok(Some(b.joined(&done)))
    }

    /// A scan of one array along its last dimension from what changes nothing: in lines of [`LINE`], many of them with their places
    /// as the first dimension, few by doubling distances; then over the lines' totals.
    fn by_lanes(&self, b: &mut Emit, whole: Windows<'_>) -> Rewritten {
        let (&[x], &[init]) = (whole.xs, whole.inits) else { return Ok(None) };
        let dims = b.dims(x).to_vec();
        let n = dims[self.dim];
        let dtype = b.dtype(x);
        let Some(op) = combiner(b, whole.body) else { return Ok(None) };
        let neutral = starts_idle(b, op, init);
        if self.dim + 1 != dims.len() || !neutral || wide_sum(b, whole.body, dtype).is_some() {
            return Ok(None);
        }
        if n <= LINE {
            let done = self.by_distances(b, x, init, op);
            return Ok(Some(if self.exclusive { self.shifted(b, done, init) } else { done }));
        }
        if let Some(c) = Chunks::of(dtype, &dims, whole.chip) {
            let done = c.scanned(b, self, whole, op)?;
            return Ok(Some(if self.exclusive { self.shifted(b, done, init) } else { done }));
        }
        let lines = n.div_ceil(LINE);
        let lead = &dims[..self.dim];
        let fill = (lines * LINE - n) as i64;
        let filled = b.pad_dim(x, init, self.dim, self.edges(0, fill));
        let scan = b.reshape(filled, &[lead, &[lines, LINE]].concat());
        let rank = dims.len() + 1;
        // Many lines are scanned beside each other, an element of each after the other.
        let many = b.elements(scan) / LINE >= BESIDE;
        let order: Vec<usize> = [rank - 1].into_iter().chain(0..rank - 1).collect();
        let (scan, totals) = if many {
            let scan = b.transpose(scan, &order);
            let (inits, reverse) = (whole.inits, self.reverse);
            let running = Running { inits, body: whole.body, reverse, idle: true, windows: false };
            let (scans, totals) = running.turns(b, &[scan], 0)?;
            (scans[0], totals[0])
        } else {
            let scan = self.by_distances(b, scan, init, op);
            let edge = if self.reverse { 0 } else { LINE - 1 };
            (scan, b.slice_dim(scan, rank - 1, edge, edge + 1, 1))
        };
        let totals = b.reshape(totals, &[lead, &[lines]].concat());
        // The totals before each line, and after it in a reversed scan.
        let mut window = vec![WindowDim::TRIVIAL; dims.len()];
        let (pad_low, pad_high) = self.edges(lines as i64 - 1, 0);
        window[self.dim] = WindowDim { size: lines, pad_low, pad_high, ..WindowDim::TRIVIAL };
        let before = lowered(b, Windows { xs: &[totals], window: &window, ..whole })?;
        let before = b.pad_dim(before, init, self.dim, self.edges(1, -1));
        let place = if many { 0 } else { rank - 1 };
        let map: Vec<usize> = (0..rank).filter(|&d| d != place).collect();
        let tiled = b.dims(scan).to_vec();
        let before = b.broadcast(before, &map, &tiled);
        let done = b.binary(op, before, scan);
        let done = if many { b.transpose(done, &inverse(&order)) } else { done };
        let done = b.reshape(done, &[lead, &[lines * LINE]].concat());
        let skip = if self.reverse { fill as u64 } else { 0 };
        let done = b.slice_dim(done, self.dim, skip, skip + n, 1);
        Ok(Some(if self.exclusive { self.shifted(b, done, init) } else { done }))
    }

    /// Elements along the last dimension combined with those before them, at doubling distances; `init` changes nothing.
    fn by_distances(&self, b: &mut Emit, x: NodeId, init: NodeId, op: Binary) -> NodeId {
        let (mut scan, mut distance) = (x, 1);
        let rank = b.rank(x);
        while distance < b.dims(x)[rank - 1] as i64 {
            let before = b.pad_dim(scan, init, rank - 1, self.edges(distance, -distance));
            scan = b.binary(op, before, scan);
            distance *= 2;
        }
        scan
    }

    /// Edges of a dimension, low and high: before what is scanned, and behind it.
    fn edges(&self, before: i64, behind: i64) -> (i64, i64) {
        if self.reverse { (behind, before) } else { (before, behind) }
    }

    /// An inclusive scan with the initial value before it.
    fn shifted(&self, b: &mut Emit, x: NodeId, init: NodeId) -> NodeId {
        b.pad_dim(x, init, self.dim, if self.reverse { (0, 1) } else { (1, 0) })
    }
}

/// Whether what is scanned does not stay in vector memory, or is made of such an array by operations that are done strip by strip: a loop
/// over all of it would take rows from all over the array in every turn, and end such a chain.
fn is_of_strips(b: &Emit, whole: Windows<'_>) -> bool {
    let bytes = |a: &ArrayShape| Layout::row_major(a.dtype, &a.dims, whole.chip.tile.0, whole.chip.tile.1).bytes();
    let large =
        |id: NodeId| b.shape(id).as_array().is_some_and(|a| bytes(a) > whole.chip.vmem_bytes / LARGE.1 * LARGE.0);
    let mut open = whole.xs.to_vec();
    let mut seen = BTreeSet::new();
    if whole.xs.iter().any(|&x| large(x)) {
        return true;
    }
    while let Some(id) = open.pop().filter(|_| seen.len() < LOOKED) {
        let op = b.op(id);
        let family = matches!(op.family(), Family::Move | Family::Reduce | Family::Contraction);
        if !seen.insert(id) || !(family || op.is_elementwise()) {
            continue;
        }
        if large(id) {
            return true;
        }
        open.extend(&b.node(id).operands);
    }
    false
}

/// Whether an initial value changes nothing.
pub(super) fn starts_idle(b: &Emit, op: Binary, init: NodeId) -> bool {
    scalar_of(b, init).is_some_and(|l| is_identity(op, l))
}
