//! `reduce-window`: padding and base dilation of windowed reductions become an explicit `pad` with what changes nothing;
//! sums and products of floats of 16 bits and of a byte over large windows are taken in f32; running reductions, and long windows by any computation, are
//! made of fewer steps.

mod chunks;
pub mod pools;
mod running;
mod scan;
pub mod spans;

use self::scan::as_scan;
use self::spans::{by_distances, by_spans, doubled};
use super::edit::{Emit, Rewritten};
use super::options::Facts;
use super::reductions::sums::{rounded, wide_sum};
use super::simplify::{combiner, identity, is_identity, scalar_of};
use systole_hlo::analysis::commutes;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Node, NodeId, Op, PadDim, Shape, WindowDim};
use systole_isa::DType;

/// Places of a window at most whose sums are taken in a 16-bit or 8-bit type itself.
const NARROW_WINDOW: u64 = 64;
/// Elements of a line of a scan by doubling distances.
const LINE: u64 = 128;
/// Elements of a block of a scan.
const BLOCK: u64 = 16;

/// Rewrites a windowed reduction for a chip.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], chip: &Facts) -> Rewritten {
    let Op::ReduceWindow { window, body } = &n.op else { return Ok(None) };
    let (xs, inits) = operands.split_at(operands.len() / 2);
    if n.shape.leaves().iter().any(|a| a.dims.contains(&0)) {
        // No window fits.
        let nothing: Vec<NodeId> = n.shape.leaves().iter().map(|a| b.splat(a.dtype, &a.dims, 0.0)).collect();
        return Ok(Some(b.joined(&nothing)));
    }
    lowered(b, Windows { xs, inits, window, body: *body, chip }).map(Some)
}

/// A windowed reduction, for a chip.
#[derive(Clone, Copy)]
struct Windows<'a> {
    xs: &'a [NodeId],
    inits: &'a [NodeId],
    window: &'a [WindowDim],
    body: CompId,
    chip: &'a Facts,
}

/// Whether one array is reduced by one operation that has a value which changes nothing.
fn is_plain(b: &Emit, whole: Windows<'_>) -> bool {
    let &[x] = whole.xs else { return false };
    combiner(b, whole.body).is_some_and(|op| identity(op, b.dtype(x)).is_some())
}

/// The results, of several ones a tuple.
fn lowered(b: &mut Emit, whole: Windows<'_>) -> Result<NodeId, CompileError> {
    let Windows { xs, inits, window, body, .. } = whole;
    for way in [one_by_one, whole_lanes, as_scan, by_spans, by_distances, off_lanes] {
        if let Some(done) = way(b, whole)? {
            return Ok(done);
        }
    }
    let pads: Vec<PadDim> = window.iter().map(WindowDim::padding).collect();
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

/// Windows of several dimensions by a computation that tells an order: along one dimension after the other, from the last on. A kernel
/// takes the points of a window in an order of its own.
fn one_by_one(b: &mut Emit, whole: Windows<'_>) -> Rewritten {
    let Windows { window, body, .. } = whole;
    let reduced: Vec<usize> =
        (0..window.len()).filter(|&d| window[d] != WindowDim::TRIVIAL && window[d].size > 1).collect();
    let (&[_, .., last], false) = (&reduced[..], commutes(&b.draft.computations[body.index()])) else {
        return Ok(None);
    };
    let mut along = vec![WindowDim::TRIVIAL; window.len()];
    along[last] = window[last];
    let mut rest = window.to_vec();
    rest[last] = WindowDim::TRIVIAL;
    let done = parts(b, Windows { window: &along, ..whole })?;
    lowered(b, Windows { xs: &done, window: &rest, ..whole }).map(Some)
}

/// Long rows, all of which together are too much for vector memory, end where a register does: then strips of them come one
/// after the other.
fn whole_lanes(b: &mut Emit, whole: Windows<'_>) -> Rewritten {
    let Windows { xs, inits, window, chip, .. } = whole;
    let dims = b.dims(xs[0]).to_vec();
    let Some(last) = dims.len().checked_sub(1) else { return Ok(None) };
    let first = window.iter().position(|w| *w != WindowDim::TRIVIAL).unwrap_or(last);
    let rows = dims[first..last].iter().product::<u64>().next_multiple_of(ROWS);
    let small = rows.saturating_mul(dims[last]).saturating_mul(4) <= chip.vmem_bytes / 2;
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
    let more = (dims[last].next_multiple_of(LINE * STRIPS) - dims[last]) as i64;
    let padded: Vec<NodeId> = xs.iter().zip(inits).map(|(&x, &init)| b.pad_dim(x, init, last, (0, more))).collect();
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
