//! Gradients of kernels over many images: the images along lanes.
//!
//! The gradient of a kernel sums over images and places: `out[kh, kw, ci, co] = sum of x[n, h + kh, w + kw, ci] * dy[n, h, w, co]`.
//! With images along the lanes of `x` it is a convolution of one large image, `[1, H, W, ci, n]`, with `dy` as its kernel, whose
//! windows move by whole rows: nothing is cut out for a window position, and every weight tile meets all of `(kh, kw, ci)`.
//! Fewer images than lanes share them with their neighbours in `w`: `x` comes `P` times, `w` shifted by one place each time, and a
//! row of `dy` holds `P` places.
//!
//! Arrays too large for vector memory are taken a few rows of `dy` at a time, and the sums added.

use super::{Spec, canonical, flat};
use crate::dot::types::sum_type;
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::graph::{NodeId, Op, PadDim, SliceDim, WindowDim};
use systole_isa::DType;

/// Images at least: copies of `x` are as many as fill the lanes.
const MIN_IMAGES: u64 = 16;
/// Images are whole groups of this many, so that places and images are rows without moving anything.
const GROUP: u64 = 8;
/// Share of the lanes that must be in use, as a fraction.
const FILLED: (u64, u64) = (3, 4);
/// Parts at most: each is some operations of its own.
const MAX_PARTS: u64 = 64;

/// Share of vector memory that what is made of both operands takes, beside other arrays and where it leaves little to them: so that
/// parts are not much shorter than [`LONG`] times what neighbours have in common.
const BESIDE: (u64, u64) = (1, 3);
const ALONE: (u64, u64) = (4, 5);
const LONG: u64 = 4;

/// How images and places lie along lanes.
struct Lanes {
    /// Places of a row, and rows of a line of `dy`.
    places: u64,
    rows: u64,
}

/// The convolution with images along lanes, if that is worth it. `s` is padded and of one group, its window larger than its output.
pub fn lower(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let (n, images) = (s.spatial(), s.inputs(b));
    let last = *s.window.last()?;
    // One window alone has no rows in common with others: what it sees is a matrix.
    let several = s.outputs(b).iter().any(|&n| n > 1);
    if images < MIN_IMAGES || images % GROUP != 0 || last.stride != 1 || !several {
        return None;
    }
    let places = (s.lanes / images).clamp(1, last.size);
    let lanes = Lanes { places, rows: last.size.div_ceil(places) };
    let used = images * last.size;
    let taken = (images * places).next_multiple_of(s.lanes) * lanes.rows;
    if used * FILLED.1 < taken * FILLED.0 {
        return None;
    }
    let whole = Whole::new(b, s, lanes);
    let parts = whole.parts(b, s);
    if parts > MAX_PARTS || !b.draft.fire("conv-images") {
        return None;
    }
    let rows = s.window[0].size;
    let mut sum = None;
    for i in 0..parts {
        let part = whole.part(b, s, (i * rows / parts, (i + 1) * rows / parts));
        sum = Some(match sum {
            Some(sum) => b.add(sum, part),
            None => part,
        });
    }
    let sum = b.convert(sum?, s.to);
    let out = [&s.outputs(b)[..], &[s.batch(b), s.features(b)]].concat();
    let sum = b.reshape(sum, &out);
    let order: Vec<usize> = std::iter::once(n).chain(0..n).chain([n + 1]).collect();
    Some(b.transpose(sum, &order))
}

/// `x` as it is stored, `[N, spatial.., C]`, before it was padded, and the padding with its value.
pub(super) fn natural(b: &mut Emit, x: NodeId) -> (NodeId, Option<(NodeId, Vec<PadDim>)>) {
    let rank = b.rank(x);
    let order: Vec<usize> = std::iter::once(rank - 1).chain(1..rank - 1).chain([0]).collect();
    if let Op::Pad { dims } = b.op(x).clone() {
        let value = b.operand(x, 1);
        let x = b.transpose(b.operand(x, 0), &order);
        return (x, Some((value, order.iter().map(|&d| dims[d]).collect())));
    }
    (b.transpose(x, &order), None)
}

/// Rows `from..to` of the first dimension of an array, cut out before it is transposed.
fn rows_of(b: &mut Emit, x: NodeId, from: u64, to: u64) -> NodeId {
    let Op::Transpose { permutation } = b.op(x).clone() else { return b.slice_dim(x, 0, from, to, 1) };
    let part = b.slice_dim(b.operand(x, 0), permutation[0], from, to, 1);
    b.transpose(part, &permutation)
}

/// The operands of a gradient before they are cut.
struct Whole {
    /// `[N, spatial.., C]`; `[N, spatial.. * C]` if dense.
    x: NodeId,
    /// Elements between neighbours of the last spatial dimension of `x`: its channels if those are one dimension with it, else one.
    step: u64,
    lanes: Lanes,
    /// Type of the sums.
    to: DType,
}

impl Whole {
    fn new(b: &mut Emit, s: &Spec, lanes: Lanes) -> Whole {
        let (n, channels) = (s.spatial(), s.batch(b));
        let (mut x, padding) = natural(b, s.x);
        let spread = padding.as_ref().is_some_and(|(_, dims)| dims[n].interior != 0);
        // Few channels of what the host gives lie beside each other with their places.
        let dense = channels < flat::ENOUGH && !spread && flat::is_dense(b, x, flat::MAX_DEPTH);
        if dense {
            x = flat::flat(b, x, n);
        }
        if let Some((value, mut dims)) = padding {
            if dense {
                dims.truncate(n + 1);
                dims[n].low *= channels as i64;
                dims[n].high *= channels as i64;
            }
            x = b.pad(x, value, &dims);
        }
        Whole { x, step: if dense { channels } else { 1 }, lanes, to: sum_type(s.to) }
    }

    /// Parts that a gradient is taken in, along the first spatial dimension, so that what is made of both operands lies in vector
    /// memory.
    fn parts(&self, b: &Emit, s: &Spec) -> u64 {
        let lanes = s.lanes;
        let images = s.inputs(b);
        let spatial = &b.dims(self.x)[1..];
        let rows: u64 = spatial.iter().product();
        let bytes = |x: NodeId| b.dtype(x).bits() as u64 / 8;
        let moved = rows * (images * self.lanes.places).next_multiple_of(lanes) * bytes(self.x).max(1);
        let weights = s.taps() * images * s.features(b).next_multiple_of(lanes) * bytes(s.kernel).max(1);
        let of = |(share, all): (u64, u64)| (2 * (moved + weights)).div_ceil((s.vmem_bytes / all * share).max(1));
        // Neighbouring parts reach rows of `x` that both of them move.
        let w = &s.window[0];
        let common = (s.outputs(b)[0] - 1) * w.stride;
        let long = w.size * w.window_dilation / (LONG * common.max(1));
        let parts = of(BESIDE).min(of(ALONE).max(long));
        if s.spatial() == 1 { 1 } else { parts.clamp(1, w.size) }
    }

    /// The sums over rows `from..to` of `dy` (its first spatial dimension): `[1, outputs.., C, Cout]`.
    fn part(&self, b: &mut Emit, s: &Spec, (from, to): (u64, u64)) -> NodeId {
        let n = s.spatial();
        let (Lanes { places, rows }, last) = (&self.lanes, s.window[n - 1]);
        let outputs = s.outputs(b);
        // Rows of places that are not there: zeros.
        let more = places * rows - last.size;
        let mut window = s.window.clone();
        let mut x = self.x;
        let mut kernel = s.kernel;
        if n > 1 {
            let first = &mut window[0];
            first.size = to - from;
            let start = from * first.window_dilation;
            let end = (to - 1) * first.window_dilation + (outputs[0] - 1) * first.stride + 1;
            x = b.slice_dim(x, 1, start, end, 1);
            kernel = rows_of(b, kernel, from, to);
        }
        let high = |b: &mut Emit, x: NodeId, dim: usize, by: u64| {
            let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; b.rank(x)];
            pads[dim].high = by as i64;
            let zero = b.scalar(b.dtype(x), 0.0);
            b.pad(x, zero, &pads)
        };
        kernel = high(b, kernel, n - 1, more);
        x = high(b, x, n, more * last.window_dilation * self.step);
        let step = last.window_dilation * self.step;
        let length = b.dims(x)[n] - (places - 1) * step;
        let mut copies = Vec::new();
        for j in 0..*places {
            let mut dims = whole(b.dims(x));
            dims[n] = SliceDim { start: j * step, limit: j * step + length, stride: 1 };
            copies.push(b.slice(x, &dims));
        }
        let x = b.concatenate(&copies, 0);
        let order: Vec<usize> = (1..b.rank(x)).chain([0]).collect();
        let x = b.transpose(x, &order);
        let x = b.reshape(x, &[&[1][..], b.dims(x)].concat());
        window[n - 1] = WindowDim { size: *rows, window_dilation: step * places, ..last };
        let (images, features) = (s.inputs(b), s.features(b));
        let mut sizes: Vec<u64> = window.iter().map(|w| w.size).collect();
        // Channels of their own are rows too.
        if b.rank(x) == n + 3 {
            window.push(WindowDim::TRIVIAL);
            sizes.push(1);
        }
        let kernel = b.reshape(kernel, &[&sizes[..], &[images * places, features]].concat());
        canonical(b, &Spec { x, kernel, window, to: self.to, ..s.clone() })
    }
}
