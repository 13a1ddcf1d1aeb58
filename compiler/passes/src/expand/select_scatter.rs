//! `select-and-scatter`, by window positions: a chain of comparisons finds the position selected in each window (the
//! first in row-major order wins ties), then each position gives its sources to the places it selects.

use crate::edit::Emit;
use crate::make::whole;
use crate::options::PassOptions;
use crate::simplify::{combiner, is_identity, scalar_of};
use systole_hlo::error::{CompileError, Resource};
use systole_hlo::graph::{Binary, CompId, NodeId, Op, PadDim, SliceDim, WindowDim};
use systole_isa::{DType, Layout};

/// Window positions at most.
const MAX_TAPS: u64 = 4096;
/// Arrays of the operand's size that the work has at the same time.
const ARRAYS: u64 = 6;

/// operand, source, initial value. Where arrays do not stay in vector memory, some images come after the others: what is between the
/// operand and the result stays there then.
pub fn lower(
    b: &mut Emit,
    window: &[WindowDim],
    computations: (CompId, CompId),
    operands: &[NodeId],
    options: &PassOptions,
) -> Result<NodeId, CompileError> {
    let (x, source, init) = (operands[0], operands[1], operands[2]);
    let (dims, dtype) = (b.dims(x).to_vec(), b.dtype(x));
    // What nothing else takes is made in strips with its gradient, where that is worth it.
    let shared = is_shared(b, x);
    let Some((dim, some)) = images(window, (&dims, dtype), options).filter(|_| shared) else {
        return together(b, window, computations, operands);
    };
    let state = [b.splat(dtype, &dims, 0.0), x, source, init];
    let known = scalar_of(b, init).cloned();
    let done = b.counted_loop("images", dims[dim] / some, &state, |b, i, s| {
        let mut starts = vec![b.index(0); dims.len()];
        starts[dim] = b.with(Binary::Mul, i, some as f64);
        let parts = [s[1], s[2]].map(|x| {
            let mut sizes = b.dims(x).to_vec();
            sizes[dim] = some;
            b.dynamic_slice(x, &starts, &sizes)
        });
        let init = known.map_or(s[3], |l| b.constant(l));
        let made = together(b, window, computations, &[parts[0], parts[1], init])?;
        let all = b.dynamic_update_slice(s[0], made, &starts);
        Ok([&[all], &s[1..]].concat())
    })?;
    Ok(done[0])
}

/// Whether others take an array too, or what it is with edges.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation only puts edges around an array")]
fn is_shared(b: &Emit, x: NodeId) -> bool {
    match b.op(x) {
        _ if b.uses(x) > 1 => true,
        Op::Pad { .. } => is_shared(b, b.node(x).operands[0]),
        _ => false,
    }
}

/// A dimension that no window reaches along, and how many of its places come at a time, where all together do not stay in vector
/// memory and these do.
fn images(window: &[WindowDim], (dims, dtype): (&[u64], DType), options: &PassOptions) -> Option<(usize, u64)> {
    let (sublanes, lanes) = options.chip.tile;
    let needs = |dims: &[u64]| Layout::row_major(dtype, dims, sublanes, lanes).bytes().saturating_mul(ARRAYS);
    let apart = |&d: &usize| window[d] == WindowDim::TRIVIAL && dims[d] > 1;
    let dim = (0..dims.len().saturating_sub(2)).find(apart).filter(|_| needs(dims) > options.chip.vmem_bytes)?;
    let mut part = dims.to_vec();
    let mut fits = |some: u64| {
        part[dim] = some;
        needs(&part) <= options.chip.vmem_bytes
    };
    let most = (1..dims[dim]).take_while(|&some| fits(some)).last()?;
    (1..=most).rev().find(|some| dims[dim].is_multiple_of(*some)).map(|some| (dim, some))
}

/// All images at once.
fn together(
    b: &mut Emit,
    window: &[WindowDim],
    (select, scatter): (CompId, CompId),
    operands: &[NodeId],
) -> Result<NodeId, CompileError> {
    let (x, source, init) = (operands[0], operands[1], operands[2]);
    let taps: u64 = window.iter().map(|w| w.size).product();
    if taps > MAX_TAPS {
        let detail = " (window positions of select-and-scatter)".to_string();
        return Err(CompileError::Limit { resource: Resource::WindowTaps, need: taps, have: MAX_TAPS, detail });
    }
    let dims = b.dims(x).to_vec();
    let outputs = b.dims(source).to_vec();
    let edges = |w: &WindowDim| PadDim::edges(w.pad_low, w.pad_high);
    let pads: Vec<PadDim> = window.iter().map(edges).collect();
    let has_padding = pads.iter().any(|p| p.low > 0 || p.high > 0);
    let padded = b.pad(x, init, &pads);
    let inside = has_padding.then(|| {
        let (yes, no) = (b.splat(DType::Pred, &dims, 1.0), b.scalar(DType::Pred, 0.0));
        b.pad(yes, no, &pads)
    });
    let padded_dims = b.dims(padded).to_vec();
    let sizes: Vec<u64> = window.iter().map(|w| w.size).collect();
    let places = positions(&sizes);
    let mut best: Option<(NodeId, NodeId, Option<NodeId>)> = None;
    for (t, place) in places.iter().enumerate() {
        let cut = seen(window, place, &outputs, &padded_dims);
        let value = b.slice(padded, &cut);
        let valid = inside.map(|m| b.slice(m, &cut));
        let tap = b.splat(DType::S32, &outputs, t as f64);
        best = Some(match best {
            None => (value, tap, valid),
            Some((held, index, any)) => {
                let keep = b.apply(select, &[held, value], &outputs)?[0];
                let mut take = b.not(keep);
                let mut found = None;
                if let (Some(any), Some(valid)) = (any, valid) {
                    let first = b.not(any);
                    let either = b.or(first, take);
                    take = b.and(valid, either);
                    found = Some(b.or(any, valid));
                }
                (b.select(take, value, held), b.select(take, tap, index), found)
            }
        });
    }
    let Some((_, chosen, found)) = best else { return Ok(b.broadcast(init, &[], &dims)) };
    let empty = dims.iter().chain(&outputs).any(|&n| n == 0);
    if !empty && window.last().is_none_or(|w| w.size == 1 && w.stride == 1) && pads.iter().all(|p| p.low >= 0) {
        return collected(b, window, scatter, (source, init, chosen, found), &dims);
    }
    scattered(b, window, &places, scatter, (source, init, chosen, found), &padded_dims, &pads)
}

/// Each place collects the sources of the windows that selected it: of every dimension's windows that may see it, the
/// first first. Places are walked as blocks of a stride, so that sources and selections are broadcast, not spread.
fn collected(
    b: &mut Emit,
    window: &[WindowDim],
    scatter: CompId,
    (source, init, chosen, found): (NodeId, NodeId, NodeId, Option<NodeId>),
    dims: &[u64],
) -> Result<NodeId, CompileError> {
    let outputs = b.dims(source).to_vec();
    let outside = b.splat(DType::S32, &outputs, -1.0);
    let chosen = found.map_or(chosen, |f| b.select(f, chosen, outside));
    // Positions are stored in as few bits as hold them.
    let taps: u64 = window.iter().map(|w| w.size).product();
    let stored = if taps <= i8::MAX as u64 { DType::S8 } else { DType::S32 };
    let chosen = b.convert(chosen, stored);
    let blocks: Vec<u64> =
        (0..dims.len()).map(|d| (window[d].pad_low as u64 + dims[d]).div_ceil(window[d].stride)).collect();
    // Blocks and, where they have more than one place, the places in them.
    let (mut sizes, mut map) = (Vec::new(), Vec::new());
    let mut within = vec![None; dims.len()];
    for (d, w) in window.iter().enumerate() {
        // Rows along sublanes are blocks, not the few places in them: those come before and are put in place at the end.
        let before = d + 2 == dims.len();
        if w.stride > 1 && before {
            within[d] = Some(sizes.len());
            sizes.push(w.stride);
        }
        map.push(sizes.len());
        sizes.push(blocks[d]);
        if w.stride > 1 && !before {
            within[d] = Some(sizes.len());
            sizes.push(w.stride);
        }
    }
    let seen: Vec<u64> = window.iter().map(|w| w.size.div_ceil(w.stride)).collect();
    let mut result = b.broadcast(init, &[], &sizes);
    // A first source is the sum with a start that changes nothing.
    let op = combiner(b, scatter);
    let mut plain = op.is_some_and(|op| scalar_of(b, init).is_some_and(|l| is_identity(op, l)));
    for back in positions(&seen).into_iter().rev() {
        let shift: Vec<PadDim> = (0..dims.len())
            .map(|d| {
                let high = blocks[d] as i64 - back[d] as i64 - outputs[d] as i64;
                PadDim::edges(back[d] as i64, high)
            })
            .collect();
        let (zero, none) = (b.scalar(b.dtype(source), 0.0), b.scalar(stored, -1.0));
        let (values, taps) = (b.pad(source, zero, &shift), b.pad(chosen, none, &shift));
        let (values, taps) = (b.broadcast(values, &map, &sizes), b.broadcast(taps, &map, &sizes));
        let taps = b.convert(taps, DType::S32);
        // The number of the position at which such a window sees the place, and whether it has it.
        let mut number = b.splat(DType::S32, &sizes, 0.0);
        let mut inside: Option<NodeId> = None;
        let mut scale = 1;
        for d in (0..dims.len()).rev() {
            let w = &window[d];
            let first = b.splat(DType::S32, &sizes, (back[d] * w.stride) as f64);
            let place = match within[d] {
                Some(at) => {
                    let own = b.iota(DType::S32, &sizes, at);
                    b.add(own, first)
                }
                None => first,
            };
            if (back[d] + 1) * w.stride > w.size {
                let limit = b.index(w.size as i64);
                let ok = b.compare(systole_hlo::graph::Direction::Lt, place, limit);
                inside = Some(inside.map_or(ok, |i| b.and(i, ok)));
            }
            let part = b.with(systole_hlo::graph::Binary::Mul, place, scale as f64);
            number = b.add(number, part);
            scale *= w.size;
        }
        let mut hit = b.compare(systole_hlo::graph::Direction::Eq, taps, number);
        if let Some(inside) = inside {
            hit = b.and(hit, inside);
        }
        let first = std::mem::take(&mut plain);
        let combined = if first { values } else { b.apply(scatter, &[result, values], &sizes)?[0] };
        result = b.select(hit, combined, result);
    }
    let whole: Vec<u64> = (0..dims.len()).map(|d| blocks[d] * window[d].stride).collect();
    let order: Vec<usize> = (0..dims.len()).flat_map(|d| [Some(map[d]), within[d]]).flatten().collect();
    let result = b.transpose(result, &order);
    let mut result = b.reshape(result, &whole);
    for (d, w) in window.iter().enumerate() {
        let low = w.pad_low as u64;
        if whole[d] != dims[d] {
            result = b.slice_dim(result, d, low, low + dims[d], 1);
        }
    }
    Ok(result)
}

/// Gives the sources to the positions that each tap selects, one tap after the other.
fn scattered(
    b: &mut Emit,
    window: &[WindowDim],
    places: &[Vec<u64>],
    scatter: CompId,
    (source, init, chosen, found): (NodeId, NodeId, NodeId, Option<NodeId>),
    padded: &[u64],
    pads: &[PadDim],
) -> Result<NodeId, CompileError> {
    let outputs = b.dims(source).to_vec();
    let mut result = b.broadcast(init, &[], padded);
    let (zero, no) = (b.scalar(b.dtype(source), 0.0), b.scalar(DType::Pred, 0.0));
    for (t, place) in places.iter().enumerate() {
        let tap = b.splat(DType::S32, &outputs, t as f64);
        let mut hit = b.compare(systole_hlo::graph::Direction::Eq, chosen, tap);
        if let Some(found) = found {
            hit = b.and(hit, found);
        }
        let spread: Vec<PadDim> = (0..window.len())
            .map(|d| {
                let reach = place[d] + (outputs[d] - 1) * window[d].stride + 1;
                PadDim { low: place[d] as i64, high: padded[d] as i64 - reach as i64, interior: window[d].stride - 1 }
            })
            .collect();
        let (values, hits) = (b.pad(source, zero, &spread), b.pad(hit, no, &spread));
        let combined = b.apply(scatter, &[result, values], padded)?[0];
        result = b.select(hits, combined, result);
    }
    let cut: Vec<PadDim> = pads.iter().map(|p| PadDim::edges(-p.low, -p.high)).collect();
    Ok(b.pad(result, init, &cut))
}

/// The places that one window position sees: one for each window.
fn seen(window: &[WindowDim], place: &[u64], outputs: &[u64], padded: &[u64]) -> Vec<SliceDim> {
    let mut cut = whole(padded);
    for (d, c) in cut.iter_mut().enumerate() {
        let w = &window[d];
        *c = SliceDim { start: place[d], limit: place[d] + (outputs[d] - 1) * w.stride + 1, stride: w.stride };
    }
    cut
}

fn positions(sizes: &[u64]) -> Vec<Vec<u64>> {
    let mut out = vec![Vec::new()];
    for &n in sizes {
        out = out.into_iter().flat_map(|p: Vec<u64>| (0..n).map(move |i| [&p[..], &[i]].concat())).collect();
    }
    out
}
