//! Convolutions of inputs that are spread out with zeros (transposed ones, gradients of strided ones) without the zeros.
//!
//! Of an input with `d - 1` zeros between its places, results whose numbers are the same modulo `d` see the same window positions of every
//! place: they are a convolution of the input itself by those positions alone. The `d` results are put beside each other.

use super::{Spec, padded, typed};
use crate::edit::{Emit, Rewritten};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, PadDim, SliceDim, WindowDim};

/// Zeros between places at most, and channels at least, in parts of the lanes: what is put beside each other moves by so many.
const MOST: i64 = 4;
const CHANNELS: u64 = 2;
/// Places of a line at least: of shorter ones tiles are mostly what is left over, once for each convolution.
const PLACES: u64 = 16;

/// The convolution, if a dimension of its input is spread out so that this is worth it.
fn lower(b: &mut Emit, s: &Spec) -> Rewritten {
    let wide = s.features(b) * CHANNELS >= s.lanes;
    let outputs = s.outputs(b);
    let apart = |(i, w): (usize, &WindowDim)| {
        let d = w.base_dilation as i64;
        let plain = w.stride == 1 && w.window_dilation == 1 && w.size > 1;
        plain && (2..=MOST).contains(&d) && outputs[i] >= PLACES * d as u64
    };
    let some = wide && s.batch(b) * s.inputs(b) > 0 && b.dims(s.x).iter().chain(&outputs).all(|n| *n > 0);
    match s.window.iter().enumerate().position(|(i, w)| apart((i, w))).filter(|_| some) {
        Some(dim) if b.draft.fire("conv-phases") => Ok(Some(along(b, s, (dim, outputs[dim]))?)),
        Some(_) | None => Ok(None),
    }
}

/// The convolution, without the zeros between its input's places where that is worth it.
pub(super) fn any(b: &mut Emit, s: &Spec) -> Result<NodeId, CompileError> {
    if let Some(done) = lower(b, s)? {
        return Ok(done);
    }
    let s = padded(b, s.clone());
    typed(b, s)
}

/// The convolution by results `r`, `r + d`, .. along a spatial dimension that has so many of them.
fn along(b: &mut Emit, s: &Spec, (dim, outputs): (usize, u64)) -> Result<NodeId, CompileError> {
    let w = s.window[dim];
    let d = w.base_dilation;
    let mut s = s.clone();
    if w.reversal {
        s.kernel = b.reverse(s.kernel, &[dim]);
    }
    let places = b.dims(s.x)[dim + 1] as i64;
    let each = outputs.div_ceil(d);
    let mut parts = Vec::new();
    for r in 0..d {
        // Window position t sees place (r + d q - low + t) / d of the input for result number r + d q.
        let first = (w.pad_low - r as i64).rem_euclid(d as i64);
        if first as u64 >= w.size {
            parts.push(None);
            continue;
        }
        let low = -((r as i64 - w.pad_low + first) / d as i64);
        let mut cut = super::super::make::whole(b.dims(s.kernel));
        cut[dim] = SliceDim { start: first as u64, limit: w.size, stride: d };
        let mut part = s.clone();
        part.kernel = b.slice(s.kernel, &cut);
        let size = (w.size - first as u64).div_ceil(d);
        let high = each as i64 - 1 + size as i64 - places - low;
        part.window[dim] = WindowDim { size, pad_low: low, pad_high: high, ..WindowDim::TRIVIAL };
        parts.push(Some(part));
    }
    let axis = dim + 1;
    let mut sizes = s.result(b);
    sizes[axis] = each;
    if let Some(together) = together(b, &parts, dim) {
        // Results beside each other along channels are those of one place after the other.
        let all = any(b, &together)?;
        sizes[axis] *= d;
        return Ok(first_of(b, all, (&sizes, axis, outputs)));
    }
    let mut results = Vec::new();
    for part in &parts {
        results.push(match part {
            Some(part) => Some(any(b, part)?),
            None => None,
        });
    }
    let mut made = results.iter().enumerate().filter_map(|(r, x)| Some((r, (*x)?)));
    if let (Some((r, one)), None) = (made.next(), made.next()) {
        // All others are zeros.
        let none = PadDim { low: 0, high: 0, interior: 0 };
        let mut pads = vec![none; b.rank(one)];
        let last = r as i64 + (each as i64 - 1) * d as i64;
        pads[axis] = PadDim { low: r as i64, high: outputs as i64 - 1 - last, interior: d - 1 };
        let zero = b.scalar(s.to, 0.0);
        return Ok(b.pad(one, zero, &pads));
    }
    let parts: Vec<NodeId> = results.iter().map(|x| x.unwrap_or_else(|| b.splat(s.to, &sizes, 0.0))).collect();
    Ok(beside(b, &parts, (axis, outputs)))
}

/// Arrays of equal sizes whose places along a dimension take turns, up to so many.
fn beside(b: &mut Emit, parts: &[NodeId], (axis, outputs): (usize, u64)) -> NodeId {
    let dims = b.dims(parts[0]).to_vec();
    let last = dims.len() - 1;
    let pairs = if axis + 1 == last {
        // Beside each other along channels: those of one place follow each other.
        b.concatenate(parts, last)
    } else {
        let mut one = dims.clone();
        one.insert(axis + 1, 1);
        let parts: Vec<NodeId> = parts.iter().map(|&p| b.reshape(p, &one)).collect();
        b.concatenate(&parts, axis + 1)
    };
    let mut all = dims;
    all[axis] *= parts.len() as u64;
    first_of(b, pairs, (&all, axis, outputs))
}

/// An array under other sizes, and of these the first places along a dimension.
fn first_of(b: &mut Emit, x: NodeId, (sizes, axis, outputs): (&[u64], usize, u64)) -> NodeId {
    let whole = b.reshape(x, sizes);
    if sizes[axis] == outputs { whole } else { b.slice_dim(whole, axis, 0, outputs, 1) }
}

/// Convolutions that see the same windows of the same input, as one of all their channels, along the last dimension of places.
fn together(b: &mut Emit, parts: &[Option<Spec>], dim: usize) -> Option<Spec> {
    let all: Vec<&Spec> = parts.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let first = all.first()?;
    let same = all.iter().all(|s| s.window == first.window);
    if !same || first.groups != 1 || dim + 1 != first.spatial() {
        return None;
    }
    let kernels: Vec<NodeId> = all.iter().map(|s| s.kernel).collect();
    let kernel = b.concatenate(&kernels, first.spatial() + 1);
    Some(Spec { kernel, ..(*first).clone() })
}
