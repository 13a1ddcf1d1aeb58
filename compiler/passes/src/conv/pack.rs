//! Few input channels: window positions along the last spatial dimensions become channels, so that the matrix unit
//! contracts more at once. Of a dimension whose positions are too many, some that follow each other do.

use super::Spec;
use crate::edit::Emit;
use crate::make::{whole, window_outputs};
use systole_hlo::graph::{NodeId, PadDim, SliceDim, WindowDim};

/// Packing stops at this many channels for the innermost spatial dimension, at [`MAX_MORE`] for the others.
const MAX_INNER: u64 = 256;
const MAX_MORE: u64 = 128;
/// Convolutions of at least this many channels are left alone.
const ENOUGH: u64 = 32;

/// Times fewer window positions, as a fraction, from which packing some of them is worth the copies.
const WORTH: (u64, u64) = (5, 3);

/// The convolution with one spatial dimension's window packed into the channels, if that is worth it.
pub fn packed(b: &mut Emit, s: &Spec) -> Option<Spec> {
    let channels = s.inputs(b);
    let d = (0..s.spatial()).rev().find(|&d| s.window[d].size > 1)?;
    let inner = s.window[d + 1..].iter().all(|w| w.size == 1 && w.stride == 1) && d + 1 == s.spatial();
    if inner && channels >= ENOUGH {
        return None;
    }
    let w = s.window[d];
    let together = match inner {
        true => Some(w.size).filter(|size| channels * size <= MAX_INNER)?,
        false => outer(&w, channels)?,
    };
    let left = w.size.div_ceil(together);
    if !b.draft.fire("conv-pack") {
        return None;
    }
    let outputs = window_outputs(b.dims(s.x)[d + 1], &w);
    // Places of the packed dimension: windows of `left` positions, `between` apart, give the outputs.
    let between = if left > 1 { together / w.stride } else { 1 };
    let places = outputs + (left - 1) * between;
    let reach = (places - 1) * w.stride + (together - 1) * w.window_dilation + 1;
    let source = longer(b, s, (d, reach));
    let mut parts = Vec::new();
    for tap in 0..together {
        let mut dims = whole(b.dims(source));
        let start = tap * w.window_dilation;
        dims[d + 1] = SliceDim { start, limit: start + (places - 1) * w.stride + 1, stride: w.stride };
        parts.push(b.slice(source, &dims));
    }
    let n = s.spatial();
    let x = b.concatenate(&parts, n + 1);
    let kernel = packed_kernel(b, s, (d, together, left));
    let mut window = s.window.clone();
    window[d] = WindowDim { size: left, window_dilation: between, ..WindowDim::TRIVIAL };
    Some(Spec { x, kernel, window, ..s.clone() })
}

/// The convolution whose innermost window is too long to be packed, with a stride of places as channels: they lie beside each other, and
/// the window that is left is as many times shorter and has no stride.
pub fn folded(b: &mut Emit, s: &Spec) -> Option<Spec> {
    let d = s.spatial().checked_sub(1)?;
    let (w, channels) = (s.window[d], s.inputs(b));
    let pays = w.stride > 1 && w.size >= 2 * w.stride && channels * w.stride <= MAX_INNER;
    if !pays || channels >= ENOUGH || w.window_dilation != 1 || !b.draft.fire("conv-fold") {
        return None;
    }
    let left = w.size.div_ceil(w.stride);
    let places = window_outputs(b.dims(s.x)[d + 1], &w) - 1 + left;
    let source = longer(b, s, (d, places * w.stride));
    let mut dims = whole(b.dims(source));
    dims[d + 1].limit = places * w.stride;
    let source = b.slice(source, &dims);
    let sizes = [&b.dims(source)[..=d], &[places, w.stride * channels]].concat();
    let x = b.reshape(source, &sizes);
    let kernel = packed_kernel(b, s, (d, w.stride, left));
    let mut window = s.window.clone();
    window[d] = WindowDim { size: left, ..WindowDim::TRIVIAL };
    Some(Spec { x, kernel, window, ..s.clone() })
}

/// How many positions of a window along another dimension than the innermost are packed beside so many channels.
pub(super) fn outer(w: &WindowDim, channels: u64) -> Option<u64> {
    if channels * w.size > MAX_MORE { some(w, MAX_MORE / channels) } else { Some(w.size) }
}

/// How many positions of a window of which at most `most` may be packed: whole strides, so that the others are at packed places.
fn some(w: &WindowDim, most: u64) -> Option<u64> {
    let together = most / w.stride * w.stride;
    (w.window_dilation == 1 && together > 1 && w.size.div_ceil(together) * WORTH.0 <= w.size * WORTH.1)
        .then_some(together)
}

/// The input with zeros up to `reach` places along spatial dimension `d`.
fn longer(b: &mut Emit, s: &Spec, (d, reach): (usize, u64)) -> NodeId {
    let more = reach.saturating_sub(b.dims(s.x)[d + 1]);
    let zero = b.scalar(b.dtype(s.x), 0.0);
    let mut dims = vec![PadDim { low: 0, high: 0, interior: 0 }; s.spatial() + 2];
    dims[d + 1].high = more as i64;
    b.pad(s.x, zero, &dims)
}

/// The kernel with `together` window positions of dimension `d` next to the channels, `left` times, the last ones zeros:
/// `[.., k, .., C, Cout]` becomes `[.., left, .., together * C, Cout]`.
fn packed_kernel(b: &mut Emit, s: &Spec, (d, together, left): (usize, u64, u64)) -> NodeId {
    let n = s.spatial();
    let mut sizes = b.dims(s.kernel).to_vec();
    let zero = b.scalar(b.dtype(s.kernel), 0.0);
    let mut dims = vec![PadDim { low: 0, high: 0, interior: 0 }; n + 2];
    dims[d].high = (left * together - sizes[d]) as i64;
    let kernel = b.pad(s.kernel, zero, &dims);
    let kernel = b.reshape(kernel, &[&sizes[..d], &[left, together], &sizes[d + 1..]].concat());
    let order: Vec<usize> = (0..n + 1).filter(|&i| i != d + 1).chain([d + 1, n + 1, n + 2]).collect();
    let kernel = b.transpose(kernel, &order);
    sizes[d] = left;
    sizes[n] *= together;
    b.reshape(kernel, &sizes)
}
