//! Gradients of kernels over long rows of few channels: places along lanes.
//!
//! The gradient of a kernel sums over images and places: `out[tap, ci, co] = sum of x[n, .., t + tap, ci] * dy[n, .., t, co]`. Of few
//! channels both operands fill few lanes. As `[n, .., c, t]` they are full, what every output position sees of `x` lies below the others
//! as `taps * ci` channels, and a product contracts the places of each row: `[co, t] x [taps * ci, t]`. The products are added.

use super::{Spec, images, positions};
use crate::dot::types::sum_type;
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::graph::{Binary, DotDims, NodeId, SliceDim};

/// Channels of either side at least: of fewer a register's sublanes are not full.
const CHANNELS: u64 = 8;
/// Part of the lanes that they fill at most: rows of more are not much shorter turned.
const NARROW: u64 = 2;
/// Share of the lanes that places must fill, as a fraction.
const FILLED: (u64, u64) = (3, 4);
/// Channels below each other at most, as long as they are not much longer than the results.
const CONTRACTED: u64 = 1024;
/// How much less the products take than what they are made of.
const LESS: u64 = 2;
/// Part of vector memory that what the output positions of a part see takes, and parts at most: each is some operations of its own.
const BESIDE: u64 = 4;
const MAX_PARTS: u64 = 64;

/// The convolution with places along lanes, if that is worth it. `s` is padded and of one group, its window larger than its output.
pub fn lower(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let n = s.spatial();
    let last = *s.window.last()?;
    let (channels, features, images) = (s.batch(b), s.features(b), s.inputs(b));
    let outputs = s.outputs(b);
    let seen = outputs.iter().product::<u64>() * channels;
    let few = |c: u64| c >= CHANNELS && c * NARROW <= s.lanes;
    let rows = images * s.window[..n - 1].iter().map(|w| w.size).product::<u64>();
    let places = last.size.next_multiple_of(s.lanes);
    let full = last.size * FILLED.1 >= places * FILLED.0;
    let small = rows == 1 || features * seen.next_multiple_of(s.lanes) * LESS <= (seen + features) * places;
    if !few(channels) || !few(features) || seen > CONTRACTED || last.window_dilation != 1 || !full || !small {
        return None;
    }
    if !b.draft.fire("conv-places") {
        return None;
    }
    // `[N, spatial.., C]` with the last two at each other's place.
    let order: Vec<usize> = (0..n).chain([n + 1, n]).collect();
    let (x, padding) = images::natural(b, s.x);
    let mut x = b.transpose(x, &order);
    if let Some((value, dims)) = padding {
        let dims: Vec<_> = order.iter().map(|&d| dims[d]).collect();
        x = b.pad(x, value, &dims);
    }
    let order: Vec<usize> = std::iter::once(n).chain(0..n - 1).chain([n + 1, n - 1]).collect();
    let y = b.transpose(s.kernel, &order);
    let bytes = rows * seen * places * u64::from(b.dtype(x).bits()) / 8;
    // Images, or where one is too large rows of the first dimension, in parts that lie in vector memory.
    let parts = (bytes * BESIDE).div_ceil(s.vmem_bytes.max(1));
    let (along, count) = if parts <= images || n == 1 { (0, images) } else { (1, s.window[0].size) };
    let parts = parts.min(count).min(MAX_PARTS);
    let mut sum = None;
    for i in 0..parts {
        let part = of_rows(b, s, (x, y), (along, i * count / parts, (i + 1) * count / parts));
        sum = Some(match sum {
            Some(sum) => b.add(sum, part),
            None => part,
        });
    }
    let sum = b.convert(sum?, s.to);
    let sum = b.reshape(sum, &[&[features][..], &outputs, &[channels]].concat());
    let order: Vec<usize> = std::iter::once(n + 1).chain(1..=n).chain([0]).collect();
    Some(b.transpose(sum, &order))
}

/// The sums over rows `from..to` of dimension `along` (0: images, 1: the first spatial one of `y`) of `[N, spatial.., C, T]` and
/// `[N, spatial.., Cout, T]`: `[Cout, taps * C]`.
fn of_rows(b: &mut Emit, s: &Spec, (x, y): (NodeId, NodeId), (along, from, to): (usize, u64, u64)) -> NodeId {
    let n = s.spatial();
    let (last, outputs) = (s.window[n - 1], s.outputs(b));
    let y = b.slice_dim(y, along, from, to, 1);
    let parts: Vec<NodeId> = positions(&outputs)
        .iter()
        .map(|position| {
            let mut dims = whole(b.dims(x));
            if along == 0 {
                (dims[0].start, dims[0].limit) = (from, to);
            }
            for (d, (at, w)) in position.iter().zip(&s.window).enumerate() {
                let (first, size) = if along == d + 1 { (from, to - from) } else { (0, w.size) };
                let start = at * w.stride + first * w.window_dilation;
                let limit = start + (size - 1) * w.window_dilation + 1;
                let d = if d + 1 == n { n + 1 } else { d + 1 };
                dims[d] = SliceDim { start, limit, stride: w.window_dilation };
            }
            b.slice(x, &dims)
        })
        .collect();
    let x = b.concatenate(&parts, n);
    let (seen, features) = (b.dims(x)[n], b.dims(y)[n]);
    let rows = b.dims(y)[..n].iter().product();
    let x = b.reshape(x, &[rows, seen, last.size]);
    let y = b.reshape(y, &[rows, features, last.size]);
    let batch = || vec![0];
    let dims = DotDims { lhs_contracting: vec![2], rhs_contracting: vec![2], lhs_batch: batch(), rhs_batch: batch() };
    let products = b.dot(y, x, dims, s.precision, sum_type(s.to));
    b.reduce(products, Binary::Add, 0.0, &[0])
}
