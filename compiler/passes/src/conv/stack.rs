//! Channels that fill half of the lanes or less: lines of an image as channels of one.
//!
//! The matrix unit contracts and gives as many channels as there are lanes, however few are used. `f` lines that follow each
//! other along the last spatial dimension but one become one line of `f` times the channels, on both sides: the kernel has, for
//! each of the `f` lines of results, the original one at that line's place, and zeros. A window of `k` lines takes
//! `ceil((k - 1 + f) / f)` of the new ones for `f` lines of results: for two lines and a window of three, a third of the work.

use super::{Spec, canonical};
use crate::edit::Emit;
use systole_hlo::graph::{NodeId, Op, PadDim};

/// Factor by which there must be less work.
const WORTH: u64 = 2;
/// Places of a result, for each lane, from which that pays for the moves.
const PLACES: u64 = 32;
/// Window positions from which it does.
const TAPS: u64 = 9;

/// The convolution on stacked lines, if that is worth it.
pub fn lower(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let n = s.spatial();
    let d = n.checked_sub(2)?;
    let w = s.window[d];
    let (channels, features) = (s.inputs(b), s.features(b));
    let f = s.lanes / channels.max(features).max(1);
    let result = s.result(b);
    let places: u64 = result[..=n].iter().product();
    let plain = w.stride == 1 && w.window_dilation == 1 && s.taps() >= TAPS;
    if !plain || f < 2 || result[d + 1] < f || places < PLACES * s.lanes {
        return None;
    }
    let (groups, taps) = (result[d + 1].div_ceil(f), (w.size - 1 + f).div_ceil(f));
    if f * w.size < WORTH * taps || !b.draft.fire("conv-stack") {
        return None;
    }
    let x = stacked(b, s, (d, f), (groups + taps - 1) * f);
    let kernel = shifted(b, s, (d, f), taps);
    let mut window = s.window.clone();
    window[d].size = taps;
    let y = canonical(b, &Spec { x, kernel, window, ..s.clone() });
    // Lines beside each other again.
    let sizes = b.dims(y).to_vec();
    let y = b.reshape(y, &[&sizes[..=n], &[f, features]].concat());
    let order: Vec<usize> = (0..d + 2).chain([n + 1]).chain(d + 2..n + 1).chain([n + 2]).collect();
    let y = b.transpose(y, &order);
    let mut lines = result.clone();
    lines[d + 1] = groups * f;
    let y = b.reshape(y, &lines);
    Some(b.slice_dim(y, d + 1, 0, result[d + 1], 1))
}

/// The input with zeros up to `lines` lines, `f` of them beside each other.
fn stacked(b: &mut Emit, s: &Spec, (d, f): (usize, u64), lines: u64) -> NodeId {
    let n = s.spatial();
    let more = lines - b.dims(s.x)[d + 1];
    let mut dims = vec![PadDim { low: 0, high: 0, interior: 0 }; n + 2];
    let (mut x, mut zero) = (s.x, b.scalar(b.dtype(s.x), 0.0));
    if let Op::Pad { dims: own } = b.op(s.x).clone()
        && b.operand(s.x, 1) == zero
    {
        (x, zero, dims) = (b.operand(s.x, 0), b.operand(s.x, 1), own);
    }
    dims[d + 1].high += more as i64;
    let x = b.pad(x, zero, &dims);
    let sizes = b.dims(x).to_vec();
    let x = b.reshape(x, &[&sizes[..=d], &[lines / f, f], &sizes[d + 2..]].concat());
    let order: Vec<usize> = (0..d + 2).chain(d + 3..n + 2).chain([d + 2, n + 2]).collect();
    let x = b.transpose(x, &order);
    let mut merged = sizes;
    merged[d + 1] = lines / f;
    merged[n + 1] *= f;
    b.reshape(x, &merged)
}

/// The kernel for `f` lines of results: moved by one line for each, among zeros, beside each other.
fn shifted(b: &mut Emit, s: &Spec, (d, f): (usize, u64), taps: u64) -> NodeId {
    let n = s.spatial();
    let zero = b.scalar(b.dtype(s.kernel), 0.0);
    let more = taps * f - s.window[d].size;
    let mut parts = Vec::new();
    for j in 0..f {
        let mut dims = vec![PadDim { low: 0, high: 0, interior: 0 }; n + 2];
        (dims[d].low, dims[d].high) = (j as i64, (more - j) as i64);
        parts.push(b.pad(s.kernel, zero, &dims));
    }
    let all = b.concatenate(&parts, n + 1);
    let sizes = b.dims(all).to_vec();
    let all = b.reshape(all, &[&sizes[..d], &[taps, f], &sizes[d + 1..]].concat());
    let order: Vec<usize> = (0..d + 1).chain(d + 2..n + 1).chain([d + 1, n + 1, n + 2]).collect();
    let all = b.transpose(all, &order);
    let mut merged = sizes;
    merged[d] = taps;
    merged[n] *= f;
    b.reshape(all, &merged)
}
