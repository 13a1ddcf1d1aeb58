//! `reduce-window`: padding and base dilation of windowed reductions become an explicit `pad` with what changes nothing;
//! sums and products of 16-bit and 8-bit floats over large windows are taken in f32; long scans are done in blocks.

pub mod pools;

use super::edit::{Emit, Rewritten};
use super::reductions::sums::{rounded, wide_sum};
use super::simplify::{combiner, identity, is_identity, scalar_of};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Node, NodeId, Op, PadDim, Shape, WindowDim};
use systole_isa::DType;

/// Places of a window at most whose sums are taken in a 16-bit or 8-bit type itself.
const NARROW_WINDOW: u64 = 64;

/// Rewrites a windowed reduction, for a chip of so many bytes of vector memory.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], vmem: u64) -> Rewritten {
    let Op::ReduceWindow { window, body } = &n.op else { return Ok(None) };
    let (xs, inits) = operands.split_at(operands.len() / 2);
    lowered(b, Windows { xs, inits, window, body: *body, vmem }).map(Some)
}

/// A windowed reduction, for a chip of `vmem` bytes of vector memory.
#[derive(Clone, Copy)]
struct Windows<'a> {
    xs: &'a [NodeId],
    inits: &'a [NodeId],
    window: &'a [WindowDim],
    body: CompId,
    vmem: u64,
}

/// The results, of several ones a tuple.
fn lowered(b: &mut Emit, whole: Windows<'_>) -> Result<NodeId, CompileError> {
    let Windows { xs, inits, window, body, .. } = whole;
    if let Some(done) = whole_lanes(b, whole)? {
        return Ok(done);
    }
    if let Some(scan) = Scan::of(b.dims(xs[0]), window) {
        if scan.dim > 0 && scan.dim + 1 == window.len() && b.elements(xs[0]) / b.dims(xs[0])[scan.dim] >= MANY_LINES {
            let order: Vec<usize> = [scan.dim].into_iter().chain(0..scan.dim).collect();
            return turned(b, whole, &order);
        }
        return match scan.by_lanes(b, whole)? {
            Some(result) => Ok(result),
            None => scan.blocked(b, whole),
        };
    }
    if let Some(done) = off_lanes(b, whole)? {
        return Ok(done);
    }
    let pads: Vec<PadDim> =
        window.iter().map(|w| PadDim { low: w.pad_low, high: w.pad_high, interior: w.base_dilation - 1 }).collect();
    let plain: Vec<WindowDim> = window
        .iter()
        .map(|w| WindowDim { size: w.size, stride: w.stride, window_dilation: w.window_dilation, ..WindowDim::TRIVIAL })
        .collect();
    let op = combiner(b, body).filter(|_| xs.len() == 1);
    let has_padding = pads.iter().any(|p| p.low > 0 || p.high > 0 || p.interior > 0);
    let neutral = op.and_then(|op| identity(op, b.dtype(xs[0])));
    let (padding, init) = match neutral {
        // Places outside take no part: what fills them changes nothing, and the initial value is combined once, at the end.
        Some(value) => {
            let identity = b.scalar(b.dtype(xs[0]), value);
            (identity, identity)
        }
        None if has_padding => return masked(b, xs, inits, &pads, &plain, body),
        None => (inits[0], inits[0]),
    };
    let &[x] = xs else {
        // Without padding only edges may be cut.
        let cut: Vec<NodeId> = xs.iter().zip(inits).map(|(&x, &init)| b.pad(x, init, &pads)).collect();
        return Ok(b.reduce_window(&cut, inits, &plain, body));
    };
    let from = b.dtype(x);
    let x = b.pad(x, padding, &pads);
    let places: u64 = window.iter().map(|w| w.size).product();
    let (r, op) = match wide_sum(b, body, from) {
        // Small windows round every sum to the element type, as XLA does.
        Some(op) if places <= NARROW_WINDOW && matches!(from, DType::BF16 | DType::F16) => {
            let body = rounded(b, op, from)?;
            (b.reduce_window(&[x], &[init], &plain, body), Some(op))
        }
        Some(op) => {
            let (x, init) = (b.convert(x, DType::F32), b.convert(init, DType::F32));
            let body = b.body(op, DType::F32);
            (b.reduce_window(&[x], &[init], &plain, body), Some(op))
        }
        None => (b.reduce_window(&[x], &[init], &plain, body), op),
    };
    let known = scalar_of(b, inits[0]).cloned();
    let done = match op {
        Some(op) if neutral.is_some() && !known.is_some_and(|l| is_identity(op, &l)) => {
            let init = b.convert(inits[0], b.dtype(r));
            b.binary(op, init, r)
        }
        _ => r,
    };
    Ok(b.convert(done, from))
}

/// Long rows, all of which together are too much for vector memory, end where a register does: then strips of them come one
/// after the other.
fn whole_lanes(b: &mut Emit, whole: Windows<'_>) -> Rewritten {
    let Windows { xs, inits, window, vmem, .. } = whole;
    let dims = b.dims(xs[0]).to_vec();
    let Some(last) = dims.len().checked_sub(1) else { return Ok(None) };
    let first = window.iter().position(|w| *w != WindowDim::TRIVIAL).unwrap_or(last);
    let rows = dims[first..last].iter().product::<u64>().next_multiple_of(ROWS);
    let small = rows.saturating_mul(dims[last]).saturating_mul(4) <= vmem / 2;
    if first == last || window[last] != WindowDim::TRIVIAL || small {
        return Ok(None);
    }
    if dims[last].is_multiple_of(LINE) {
        // What few rows need is a few loops.
        let few = window[first].size <= BLOCK && dims[first] <= BLOCK;
        return if few { doubled(b, whole, first) } else { Ok(None) };
    }
    // Short rows would become many times as long.
    if dims[last] < LINE * STRIPS {
        return Ok(None);
    }
    let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; dims.len()];
    pads[last].high = (dims[last].next_multiple_of(LINE * STRIPS) - dims[last]) as i64;
    let padded: Vec<NodeId> = xs.iter().zip(inits).map(|(&x, &init)| b.pad(x, init, &pads)).collect();
    let done = parts(b, Windows { xs: &padded, ..whole })?;
    let results: Vec<NodeId> = done.into_iter().map(|x| b.slice_dim(x, last, 0, dims[last], 1)).collect();
    Ok(Some(b.joined(&results)))
}

/// Rows that arrays in vector memory have a multiple of.
const ROWS: u64 = 32;
/// Strips that long rows can be cut into at least.
const STRIPS: u64 = 64;

/// Elements from which on no window lies along lanes: there every element takes a row of its own.
const LARGE: u64 = 1 << 14;

/// Windows along the last dimension of a large array: another dimension is last, or they are reduced by shifts.
fn off_lanes(b: &mut Emit, whole: Windows<'_>) -> Rewritten {
    let Windows { xs, window, .. } = whole;
    let dims = b.dims(xs[0]).to_vec();
    let Some(last) = dims.len().checked_sub(1) else { return Ok(None) };
    if window[last] == WindowDim::TRIVIAL || b.elements(xs[0]) < LARGE {
        return Ok(None);
    }
    let free = (0..last).filter(|&d| window[d] == WindowDim::TRIVIAL && dims[d] > 1).max_by_key(|&d| dims[d]);
    if let Some(free) = free {
        let order: Vec<usize> = (0..dims.len()).filter(|&d| d != free).chain([free]).collect();
        return turned(b, whole, &order).map(Some);
    }
    doubled(b, whole, last)
}

/// A windowed reduction of arrays with their dimensions in another order, turned back.
fn turned(b: &mut Emit, whole: Windows<'_>, order: &[usize]) -> Result<NodeId, CompileError> {
    let xs: Vec<NodeId> = whole.xs.iter().map(|&x| b.transpose(x, order)).collect();
    let window: Vec<WindowDim> = order.iter().map(|&d| whole.window[d]).collect();
    let done = parts(b, Windows { xs: &xs, window: &window, ..whole })?;
    let back = super::make::inverse(order);
    let results: Vec<NodeId> = done.iter().map(|&x| b.transpose(x, &back)).collect();
    Ok(b.joined(&results))
}

/// A windowed reduction by doubling distances along one dimension, and the rest as it is; `None` if it is none of one
/// operation.
fn doubled(b: &mut Emit, whole: Windows<'_>, dim: usize) -> Rewritten {
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
    let r = if scalar_of(b, init).is_some_and(|l| is_identity(op, l)) { r } else { b.binary(op, init, r) };
    Ok(Some(b.convert(r, from)))
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
    Some(if scalar_of(b, init).is_some_and(|l| is_identity(op, l)) { r } else { b.binary(op, init, r) })
}

/// Windows along a dimension, reduced by doubling distances.
fn shifted_sums(b: &mut Emit, x: NodeId, (dim, w): (usize, &WindowDim), op: Binary, neutral: f64) -> NodeId {
    let zero = b.scalar(b.dtype(x), neutral);
    let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; b.rank(x)];
    pads[dim] = PadDim { low: w.pad_low, high: w.pad_high, interior: w.base_dilation - 1 };
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

/// Any computation over windows that reach outside: each value carries whether it lies inside.
fn masked(
    b: &mut Emit,
    xs: &[NodeId],
    inits: &[NodeId],
    pads: &[PadDim],
    plain: &[WindowDim],
    body: CompId,
) -> Result<NodeId, CompileError> {
    let n = xs.len();
    let dims = b.dims(xs[0]).to_vec();
    let (yes, no) = (b.scalar(DType::Pred, 1.0), b.scalar(DType::Pred, 0.0));
    let inside = b.broadcast(yes, &[], &dims);
    let inside = b.pad(inside, no, pads);
    let mut padded: Vec<NodeId> = xs.iter().zip(inits).map(|(&x, &init)| b.pad(x, init, pads)).collect();
    padded.push(inside);
    let types: Vec<DType> = padded.iter().map(|&x| b.dtype(x)).collect();
    let masked = b.computation("masked", |b| {
        let params: Vec<NodeId> = types.iter().chain(&types).map(|&t| b.parameter(Shape::array(t, &[]))).collect();
        let (left, right) = params.split_at(n + 1);
        let both = b.apply(body, &[&left[..n], &right[..n]].concat(), &[])?;
        let mut out = Vec::new();
        for i in 0..n {
            let first = b.select(left[n], both[i], right[i]);
            out.push(b.select(right[n], first, left[i]));
        }
        out.push(b.or(left[n], right[n]));
        Ok(b.tuple(&out))
    })?;
    let starts: Vec<NodeId> = inits.iter().copied().chain([yes]).collect();
    let done = b.reduce_window(&padded, &starts, plain, masked);
    let parts = b.elements_of(done);
    Ok(b.joined(&parts[..n]))
}

/// Elements of a line of a scan by doubling distances.
const LINE: u64 = 128;
/// Scans along the last dimension from which on they are made along rows, with the dimension first.
const MANY_LINES: u64 = 64;
/// Lines of which on all chips registers are full if each line has one element there.
const BESIDE: u64 = 1024;
/// Elements of a block of a scan.
const BLOCK: u64 = 16;

/// A windowed reduction whose windows are all prefixes (or all suffixes) of one dimension.
struct Scan {
    dim: usize,
    reverse: bool,
    /// Whether a result leaves its own element out; there is one result more then.
    exclusive: bool,
}

impl Scan {
    fn of(dims: &[u64], window: &[WindowDim]) -> Option<Scan> {
        let real: Vec<usize> = (0..dims.len()).filter(|&d| window[d] != WindowDim::TRIVIAL).collect();
        let &[dim] = &real[..] else { return None };
        let (w, n) = (&window[dim], dims[dim] as i64);
        let plain = w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1 && !w.reversal;
        if !plain || w.size as i64 != n || dims[dim] <= BLOCK {
            return None;
        }
        let reach = |pad: i64, other: i64| other == 0 && (pad == n - 1 || pad == n);
        let reverse = !reach(w.pad_low, w.pad_high);
        if reverse && !reach(w.pad_high, w.pad_low) {
            return None;
        }
        Some(Scan { dim, reverse, exclusive: w.pad_low.max(w.pad_high) == n })
    }

    /// Scans blocks, then the blocks' totals, and combines: XLA's own decomposition, with its repeated initial values.
    fn blocked(&self, b: &mut Emit, whole: Windows<'_>) -> Result<NodeId, CompileError> {
        let Windows { xs, inits, body, .. } = whole;
        let dims = b.dims(xs[0]).to_vec();
        let (n, rank) = (dims[self.dim], dims.len());
        let columns = n.div_ceil(BLOCK);
        let fill = (columns * BLOCK - n) as i64;
        let (low, high) = if self.reverse { (fill, 0) } else { (0, fill) };
        let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; rank];
        pads[self.dim] = PadDim { low, high, interior: 0 };
        let tiled: Vec<u64> = [&dims[..self.dim], &[columns, BLOCK], &dims[self.dim + 1..]].concat();
        let blocks: Vec<NodeId> = xs
            .iter()
            .zip(inits)
            .map(|(&x, &init)| {
                let x = b.pad(x, init, &pads);
                b.reshape(x, &tiled)
            })
            .collect();
        let prefix = |size: u64, reach: i64| {
            let (pad_low, pad_high) = if self.reverse { (0, reach) } else { (reach, 0) };
            WindowDim { size, pad_low, pad_high, ..WindowDim::TRIVIAL }
        };
        let mut window = vec![WindowDim::TRIVIAL; rank + 1];
        window[self.dim + 1] = prefix(BLOCK, BLOCK as i64 - 1);
        let inner = parts(b, Windows { xs: &blocks, window: &window, ..whole })?;
        let edge = if self.reverse { 0 } else { BLOCK - 1 };
        let column_dims: Vec<u64> = [&dims[..self.dim], &[columns], &dims[self.dim + 1..]].concat();
        let totals: Vec<NodeId> = inner
            .iter()
            .map(|&x| {
                let x = b.slice_dim(x, self.dim + 1, edge, edge + 1, 1);
                b.reshape(x, &column_dims)
            })
            .collect();
        let mut window = vec![WindowDim::TRIVIAL; rank];
        window[self.dim] = prefix(columns, columns as i64);
        let before = parts(b, Windows { xs: &totals, window: &window, ..whole })?;
        let start = u64::from(self.reverse);
        let map: Vec<usize> = (0..=rank).filter(|&d| d != self.dim + 1).collect();
        let before: Vec<NodeId> = before
            .iter()
            .map(|&x| {
                let x = b.slice_dim(x, self.dim, start, start + columns, 1);
                b.broadcast(x, &map, &tiled)
            })
            .collect();
        let all = b.apply(body, &[&before[..], &inner].concat(), &tiled)?;
        let filled: Vec<u64> = [&dims[..self.dim], &[columns * BLOCK], &dims[self.dim + 1..]].concat();
        let (low, high) = (low as u64, low as u64 + n);
        let mut results = Vec::new();
        for (&x, &init) in all.iter().zip(inits) {
            let x = b.reshape(x, &filled);
            let x = b.slice_dim(x, self.dim, low, high, 1);
            results.push(if self.exclusive { self.shifted(b, x, init) } else { x });
        }
        Ok(b.joined(&results))
    }

    /// A scan of one array along its last dimension from what changes nothing: in lines of [`LINE`], many of them with their places
    /// as the first dimension, few by doubling distances; then over the lines' totals.
    fn by_lanes(&self, b: &mut Emit, whole: Windows<'_>) -> Rewritten {
        let (&[x], &[init]) = (whole.xs, whole.inits) else { return Ok(None) };
        let dims = b.dims(x).to_vec();
        let n = dims[self.dim];
        let dtype = b.dtype(x);
        let Some(op) = combiner(b, whole.body) else { return Ok(None) };
        let neutral = scalar_of(b, init).is_some_and(|l| is_identity(op, l));
        if self.dim + 1 != dims.len() || n <= LINE || !neutral || wide_sum(b, whole.body, dtype).is_some() {
            return Ok(None);
        }
        let pad = |low: i64, high: i64| {
            if self.reverse { PadDim { low: high, high: low, interior: 0 } } else { PadDim { low, high, interior: 0 } }
        };
        let along = |rank: usize, p: PadDim| {
            let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; rank];
            pads[rank - 1] = p;
            pads
        };
        let lines = n.div_ceil(LINE);
        let lead = &dims[..self.dim];
        let fill = (lines * LINE - n) as i64;
        let filled = b.pad(x, init, &along(dims.len(), pad(0, fill)));
        let mut scan = b.reshape(filled, &[lead, &[lines, LINE]].concat());
        let rank = dims.len() + 1;
        // Many lines are scanned beside each other, an element of each after the other.
        let many = b.elements(scan) / LINE >= BESIDE;
        let order: Vec<usize> = [rank - 1].into_iter().chain(0..rank - 1).collect();
        if many {
            scan = b.transpose(scan, &order);
            let reach = pad(LINE as i64 - 1, 0);
            let mut window = vec![WindowDim::TRIVIAL; rank];
            window[0] = WindowDim { size: LINE, pad_low: reach.low, pad_high: reach.high, ..WindowDim::TRIVIAL };
            scan = lowered(b, Windows { xs: &[scan], window: &window, ..whole })?;
        } else {
            let mut distance = 1;
            while distance < LINE as i64 {
                let before = b.pad(scan, init, &along(rank, pad(distance, -distance)));
                scan = b.binary(op, before, scan);
                distance *= 2;
            }
        }
        let place = if many { 0 } else { rank - 1 };
        let edge = if self.reverse { 0 } else { LINE - 1 };
        let totals = b.slice_dim(scan, place, edge, edge + 1, 1);
        let totals = b.reshape(totals, &[lead, &[lines]].concat());
        // The totals before each line, and after it in a reversed scan.
        let mut window = vec![WindowDim::TRIVIAL; dims.len()];
        let reach = pad(lines as i64 - 1, 0);
        window[self.dim] = WindowDim { size: lines, pad_low: reach.low, pad_high: reach.high, ..WindowDim::TRIVIAL };
        let before = lowered(b, Windows { xs: &[totals], window: &window, ..whole })?;
        let before = b.pad(before, init, &along(dims.len(), pad(1, -1)));
        let map: Vec<usize> = (0..rank).filter(|&d| d != place).collect();
        let tiled = b.dims(scan).to_vec();
        let before = b.broadcast(before, &map, &tiled);
        let done = b.binary(op, before, scan);
        let done = if many { b.transpose(done, &super::make::inverse(&order)) } else { done };
        let done = b.reshape(done, &[lead, &[lines * LINE]].concat());
        let skip = if self.reverse { fill as u64 } else { 0 };
        let done = b.slice_dim(done, self.dim, skip, skip + n, 1);
        Ok(Some(if self.exclusive { self.shifted(b, done, init) } else { done }))
    }

    /// An inclusive scan with the initial value before it.
    fn shifted(&self, b: &mut Emit, x: NodeId, init: NodeId) -> NodeId {
        let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; b.rank(x)];
        pads[self.dim] = if self.reverse {
            PadDim { low: 0, high: 1, interior: 0 }
        } else {
            PadDim { low: 1, high: 0, interior: 0 }
        };
        b.pad(x, init, &pads)
    }
}

/// The results one by one of a windowed reduction that is part of another.
fn parts(b: &mut Emit, part: Windows<'_>) -> Result<Vec<NodeId>, CompileError> {
    let done = lowered(b, part)?;
    Ok(b.elements_of(done))
}

/// Takes sums and products of narrow floats in f32.
pub fn accumulate(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    let Op::Reduce { dims, body } = &n.op else { return Ok(None) };
    let &[x, init] = operands else { return Ok(None) };
    let from = b.dtype(x);
    let Some(op) = wide_sum(b, *body, from) else { return Ok(None) };
    let (x, init) = (b.convert(x, DType::F32), b.convert(init, DType::F32));
    let body = b.body(op, DType::F32);
    let r = b.reduce_by(&[x], &[init], dims, body);
    Ok(Some(b.convert(r, from)))
}
