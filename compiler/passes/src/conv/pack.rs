//! Few input channels: window positions along the last spatial dimensions become channels, so that the matrix unit
//! contracts more at once.

use super::Spec;
use crate::edit::Emit;
use crate::make::{whole, window_outputs};
use systole_hlo::graph::{SliceDim, WindowDim};

/// Packing stops at this many channels for the innermost spatial dimension, at [`MAX_MORE`] for the others.
const MAX_INNER: u64 = 256;
const MAX_MORE: u64 = 128;
/// Convolutions of at least this many channels are left alone.
const ENOUGH: u64 = 32;

/// The convolution with one spatial dimension's window packed into the channels, if that is worth it.
pub fn packed(b: &mut Emit, s: &Spec) -> Option<Spec> {
    let channels = s.inputs(b);
    let d = (0..s.spatial()).rev().find(|&d| s.window[d].size > 1)?;
    let inner = s.window[d + 1..].iter().all(|w| w.size == 1 && w.stride == 1) && d + 1 == s.spatial();
    let limit = if inner { MAX_INNER } else { MAX_MORE };
    if channels * s.window[d].size > limit || (inner && channels >= ENOUGH) {
        return None;
    }
    if !b.draft.fire("conv-pack") {
        return None;
    }
    let w = s.window[d];
    let outputs = window_outputs(b.dims(s.x)[d + 1], &w);
    let mut parts = Vec::new();
    for tap in 0..w.size {
        let mut dims = whole(b.dims(s.x));
        let start = tap * w.window_dilation;
        dims[d + 1] = SliceDim { start, limit: start + (outputs - 1) * w.stride + 1, stride: w.stride };
        parts.push(b.slice(s.x, &dims));
    }
    let n = s.spatial();
    let x = b.concatenate(&parts, n + 1);
    // The packed window dimension moves next to the channels: [.., k, .., C, Cout] -> [.., 1, .., k * C, Cout].
    let kernel_dims = b.dims(s.kernel).to_vec();
    let order: Vec<usize> = (0..n).filter(|&i| i != d).chain([d, n, n + 1]).collect();
    let kernel = b.transpose(s.kernel, &order);
    let mut sizes = kernel_dims;
    sizes[d] = 1;
    sizes[n] = w.size * channels;
    let kernel = b.reshape(kernel, &sizes);
    let mut window = s.window.clone();
    window[d] = WindowDim::TRIVIAL;
    Some(Spec { x, kernel, window, ..s.clone() })
}
