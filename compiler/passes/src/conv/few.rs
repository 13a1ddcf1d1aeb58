//! Few channels on one side (colours): places along lanes on that side alone.
//!
//! An image of three channels fills three lanes of a row, and as few columns of a product. As `[C, places]` it is small, so what the
//! window's positions see of it lies below each other, `taps * C` rows of places, at hardly any cost; the other side, of many channels,
//! is taken as it is stored, `[places, D]`, once, without edges around it and without a copy for each position:
//!
//! ```text
//! gradient of a kernel:   [taps * C, places] x [places, D]        -> [taps * C, D]
//! convolution to few:     [taps * C, D]      x [D, places]        -> [taps * C, places], moved by a tap each and added
//! ```

use super::{ROW_GROUP, Spec, images, positions};
use crate::dot::types::sum_type;
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::graph::{DotDims, NodeId, Op, PadDim, SliceDim};

/// Channels that are few: a group of rows has as many.
const FEW: u64 = ROW_GROUP;
/// Channels of the other side for each of the few, at least.
const WIDER: u64 = 4;
/// Places for each lane, at least.
const PLACES: u64 = 32;

/// A side of a convolution as it is stored, `[N, spatial.., C]`, and the zeros around its places (low, high).
struct Stored {
    x: NodeId,
    edges: Vec<(i64, i64)>,
}

impl Stored {
    /// Of `x`, `[N, spatial.., C]`, what it was before zeros were put around its places.
    fn of(b: &Emit, x: NodeId) -> Stored {
        let n = b.rank(x) - 2;
        let own = Stored { x, edges: vec![(0, 0); n] };
        let Op::Pad { dims } = b.op(x) else { return own };
        let none = PadDim { low: 0, high: 0, interior: 0 };
        let outside = |p: &PadDim| p.interior == 0 && p.low >= 0 && p.high >= 0;
        let zero = b.literal(b.operand(x, 1)).is_some_and(|l| l.element(0).iter().all(|&byte| byte == 0));
        if !zero || dims[0] != none || dims[n + 1] != none || !dims.iter().all(outside) {
            return own;
        }
        Stored { x: b.operand(x, 0), edges: dims[1..=n].iter().map(|p| (p.low, p.high)).collect() }
    }

    fn spatial(&self, b: &Emit) -> Vec<u64> {
        let dims = b.dims(self.x);
        dims[1..dims.len() - 1].to_vec()
    }

    /// `[places, C]`: rows that are stored together, so that nothing moves.
    fn rows(&self, b: &mut Emit) -> Option<NodeId> {
        let dims = b.dims(self.x).to_vec();
        let (channels, places) = dims.split_last()?;
        let count = places.iter().product();
        let together = places.last()?.is_multiple_of(ROW_GROUP);
        (together && count >= PLACES).then(|| b.reshape(self.x, &[count, *channels]))
    }
}

/// The gradient of a kernel between few channels and many. `s` is padded and of one group, its window larger than its output.
pub fn gradient(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let n = s.spatial();
    let (channels, features, outputs) = (s.batch(b), s.features(b), s.outputs(b));
    let few = channels.min(features);
    let taps: u64 = outputs.iter().product();
    let dense = s.window.iter().all(|w| w.window_dilation == 1);
    let fits = few < FEW && few * WIDER <= channels.max(features) && few * taps <= 2 * s.lanes;
    if !dense || !fits {
        return None;
    }
    let x = match images::natural(b, s.x) {
        (x, Some((value, dims))) => b.pad(x, value, &dims),
        (x, None) => x,
    };
    let x = Stored::of(b, x);
    let order: Vec<usize> = std::iter::once(n).chain(0..n).chain([n + 1]).collect();
    let y = Stored { x: b.transpose(s.kernel, &order), edges: vec![(0, 0); n] };
    // Of `x`, what is seen at a place of `y`; of `y`, what sees a place of `x`: that is before it.
    let reach: Vec<u64> = outputs.iter().zip(&s.window).map(|(&o, w)| (o - 1) * w.stride).collect();
    let own = channels < features;
    let (narrow, wide) = if own { (&x, &y) } else { (&y, &x) };
    let edges: Vec<(i64, i64)> = match own {
        true => x.edges.clone(),
        false => x.edges.iter().zip(&reach).map(|(&(low, high), &r)| (r as i64 - low, r as i64 - high)).collect(),
    };
    let (places, spatial) = (b.dims(wide.x)[..=n].iter().product::<u64>(), wide.spatial(b));
    let rows = (places >= PLACES * s.lanes).then(|| wide.rows(b)).flatten()?;
    b.draft.fire("conv-few-gradient").then_some(())?;
    let turned = channels_first(b, narrow.x, &edges);
    let parts: Vec<NodeId> = positions(&outputs)
        .iter()
        .map(|position| {
            let mut dims = whole(b.dims(turned));
            for (d, (at, w)) in position.iter().zip(&s.window).enumerate() {
                let start = if own { at * w.stride } else { reach[d] - at * w.stride };
                dims[d + 2] = SliceDim { start, limit: start + spatial[d], stride: 1 };
            }
            b.slice(turned, &dims)
        })
        .collect();
    let seen = b.concatenate(&parts, 0);
    let seen = b.reshape(seen, &[taps * few, places]);
    let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotDims::default() };
    let sum = b.dot(seen, rows, dims, s.precision, sum_type(s.to));
    let sum = b.convert(sum, s.to);
    let sum = b.reshape(sum, &[&outputs[..], &[few, channels.max(features)]].concat());
    // `[C, outputs.., Cout]`.
    let (c, f) = if own { (n, n + 1) } else { (n + 1, n) };
    let order: Vec<usize> = std::iter::once(c).chain(0..n).chain([f]).collect();
    Some(b.transpose(sum, &order))
}

/// `[C, N, spatial..]` of `[N, spatial.., C]`, with zeros around its places; less than none are cut off.
fn channels_first(b: &mut Emit, x: NodeId, edges: &[(i64, i64)]) -> NodeId {
    let rank = b.rank(x);
    let order: Vec<usize> = std::iter::once(rank - 1).chain(0..rank - 1).collect();
    let x = b.transpose(x, &order);
    let zero = b.scalar(b.dtype(x), 0.0);
    let none = PadDim { low: 0, high: 0, interior: 0 };
    let spatial = edges.iter().map(|&(low, high)| PadDim { low, high, interior: 0 });
    let dims: Vec<PadDim> = [none, none].into_iter().chain(spatial).collect();
    b.pad(x, zero, &dims)
}

/// A convolution of many channels to few: the product for every window position at once. `s` is padded and of one group.
pub fn features(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let n = s.spatial();
    let (channels, few, taps) = (s.inputs(b), s.features(b), s.taps());
    let dense = s.window.iter().all(|w| w.stride == 1);
    let fits = few < FEW && few * WIDER <= channels && few * taps <= s.lanes;
    let x = Stored::of(b, s.x);
    let places: u64 = b.dims(x.x)[..=n].iter().product();
    if !dense || !fits || taps == 1 || places < PLACES * s.lanes {
        return None;
    }
    let outputs = s.outputs(b);
    let spatial = x.spatial(b);
    let rows = x.rows(b)?;
    b.draft.fire("conv-few-features").then_some(())?;
    // `[taps * Cout, C]`.
    let kernel = b.reshape(s.kernel, &[taps, channels, few]);
    let kernel = b.transpose(kernel, &[0, 2, 1]);
    let kernel = b.reshape(kernel, &[taps * few, channels]);
    let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotDims::default() };
    let products = b.dot(kernel, rows, dims, s.precision, sum_type(s.to));
    let products = b.reshape(products, &[&[taps * few, b.dims(x.x)[0]][..], &spatial].concat());
    let zero = b.scalar(b.dtype(products), 0.0);
    let none = PadDim { low: 0, high: 0, interior: 0 };
    let around = x.edges.iter().map(|&(low, high)| PadDim { low, high, interior: 0 });
    let pads: Vec<PadDim> = [none, none].into_iter().chain(around).collect();
    let products = b.pad(products, zero, &pads);
    let sizes: Vec<u64> = s.window.iter().map(|w| w.size).collect();
    let mut sum = None;
    for (tap, position) in (0..).zip(positions(&sizes)) {
        let mut dims = whole(b.dims(products));
        dims[0] = SliceDim { start: tap * few, limit: (tap + 1) * few, stride: 1 };
        for (d, (at, w)) in position.iter().zip(&s.window).enumerate() {
            let start = at * w.window_dilation;
            dims[d + 2] = SliceDim { start, limit: start + outputs[d], stride: 1 };
        }
        let part = b.slice(products, &dims);
        sum = Some(match sum {
            Some(sum) => b.add(sum, part),
            None => part,
        });
    }
    let sum = b.convert(sum?, s.to);
    let order: Vec<usize> = (1..n + 2).chain([0]).collect();
    Some(b.transpose(sum, &order))
}
