//! Windows larger than the output, as the gradient of a kernel has: a dot for each output position.
//!
//! The window covers nearly all of the input and the output is as small as a kernel, so each output position is one dot
//! that contracts the whole window with the channels. The kernel operand is turned once, `[Cout, K]`; the parts of the
//! input are `[K, N]`. Of a depthwise kernel (each batch group is one image, with its own feature) it is products and
//! sums, without the matrix unit.

use super::{ROW_GROUP, Spec, images, padded, positions};
use crate::dot::types::{self, TypePlan, sum_type};
use crate::edit::{Emit, Rewritten};
use crate::make::{inverse, whole};
use systole_hlo::graph::{Binary, DotDims, NodeId, Op, PadDim, SliceDim, WindowDim};
use systole_isa::DType;

/// Output positions at most.
const MAX_OUTPUTS: u64 = 64;
/// Elements of the input that a step of a sum over many images takes: what vector memory holds beside other things.
const PART: u64 = 1 << 20;

/// Whether the window is larger than the output.
pub fn applies(b: &Emit, s: &Spec) -> bool {
    let outputs: u64 = s.outputs(b).iter().product();
    outputs <= MAX_OUTPUTS && s.taps() > outputs
}

/// What the window reaches at an output position, along one dimension.
fn window_at(w: &WindowDim, place: u64) -> SliceDim {
    let start = place * w.stride;
    SliceDim { start, limit: start + (w.size - 1) * w.window_dilation + 1, stride: w.window_dilation }
}

/// The convolution as dots.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation hides an order")]
pub fn lower(b: &mut Emit, s: &Spec) -> NodeId {
    let n = s.spatial();
    let outputs = s.outputs(b);
    // Edges go around few images as they are stored: these would fill a part of every register of rows.
    let edges = match b.op(s.x) {
        Op::Pad { dims } if !s.inputs(b).is_multiple_of(ROW_GROUP) => Some(dims.clone()),
        _ => None,
    };
    let inside = edges.as_ref().map_or(s.x, |_| b.node(s.x).operands[0]);
    // Spatial dimensions and channels of the input, in the order they are stored in where a transpose hides that.
    let stored: Vec<usize> = match b.op(inside) {
        Op::Transpose { permutation } => inverse(permutation).to_vec(),
        _ => Vec::new(),
    };
    let mut inner: Vec<usize> = (1..=n + 1).collect();
    if !stored.is_empty() {
        let position = inverse(&stored);
        inner.sort_by_key(|&d| position[d]);
    }
    let x_order: Vec<usize> = inner.iter().copied().chain([0]).collect();
    let x = match edges {
        Some(edges) => {
            let turned = b.transpose(inside, &x_order);
            let value = b.node(s.x).operands[1];
            let edges: Vec<PadDim> = x_order.iter().map(|&d| edges[d]).collect();
            b.pad(turned, value, &edges)
        }
        None => b.transpose(s.x, &x_order),
    };
    // Kernel dimension of input dimension d: spatial d - 1, channels n.
    let k_order: Vec<usize> = std::iter::once(n + 1).chain(inner.iter().map(|&d| d - 1)).collect();
    let kernel = b.transpose(s.kernel, &k_order);
    let (features, batch) = (s.features(b), s.batch(b));
    let contracted = s.taps() * s.inputs(b);
    let kernel = b.reshape(kernel, &[features, contracted]);
    let mut parts = Vec::new();
    for place in positions(&outputs) {
        let mut dims = whole(b.dims(x));
        for (i, &d) in inner.iter().enumerate().filter(|p| *p.1 <= n) {
            dims[i] = window_at(&s.window[d - 1], place[d - 1]);
        }
        let seen = b.slice(x, &dims);
        let seen = b.reshape(seen, &[contracted, batch]);
        let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotDims::default() };
        let d = b.dot(kernel, seen, dims, s.precision, s.to);
        parts.push(b.reshape(d, &[1, features, batch]));
    }
    let all = b.concatenate(&parts, 0);
    let all = b.reshape(all, &[&outputs[..], &[features, batch]].concat());
    let order: Vec<usize> = std::iter::once(n + 1).chain(0..n).chain([n]).collect();
    b.transpose(all, &order)
}

/// A convolution whose `groups` batch groups are an image and a feature each, over the whole of it: a sum for each output
/// position and group, some images at a time. `None` if it is something else.
pub fn depthwise(b: &mut Emit, s: &Spec, groups: u64) -> Rewritten {
    let n = s.spatial();
    let outputs = s.outputs(b);
    let places: u64 = outputs.iter().product();
    let alone = s.batch(b) == groups && s.features(b) == groups && s.groups == 1;
    if groups == 1 || !alone || !(1..=MAX_OUTPUTS).contains(&places) || s.taps() <= places || s.inputs(b) == 0 {
        return Ok(None);
    }
    let plan = types::plan(b.dtype(s.x), b.dtype(s.kernel), s.to, s.taps() * s.inputs(b));
    let (element, sum) = match plan {
        TypePlan::Matrix { operand, result } => (operand, sum_type(result)),
        TypePlan::Expand { element } if element != DType::Pred => (element, element),
        TypePlan::Expand { .. } | TypePlan::Complex { .. } => return Ok(None),
    };
    // Channels first, groups along the lanes: `[C, spatial.., groups]` of both.
    let (x, kernel) = (b.convert(s.x, element), b.convert(s.kernel, element));
    let s = padded(b, Spec { x, kernel, ..s.clone() });
    let x = match images::natural(b, s.x) {
        (x, Some((value, edges))) => b.pad(x, value, &edges),
        (x, None) => x,
    };
    let kernel = b.transpose(s.kernel, &[&[n][..], &(0..n).collect::<Vec<_>>(), &[n + 1]].concat());
    let places = positions(&outputs);
    let images = b.dims(x)[0];
    let fitting = (PART / (b.elements(x) / images).max(1)).clamp(1, images);
    let part = (1..=fitting).rev().find(|c| images.is_multiple_of(*c)).unwrap_or(1);
    let sums = if part == images {
        place_sums(b, &s, (x, kernel), &places, sum)
    } else {
        let zero = b.splat(sum, &[places.len() as u64, groups], 0.0);
        let done = b.counted_loop("gradient", images / part, &[zero, x, kernel], |b, counter, state| {
            let mut starts = vec![b.index(0); n + 2];
            starts[0] = b.with(Binary::Mul, counter, part as f64);
            let mut some = |array: NodeId| {
                let sizes = [&[part][..], &b.dims(array)[1..]].concat();
                b.dynamic_slice(array, &starts, &sizes)
            };
            let parts = (some(state[1]), some(state[2]));
            let sums = place_sums(b, &s, parts, &places, sum);
            Ok(vec![b.add(state[0], sums), state[1], state[2]])
        })?;
        done[0]
    };
    let result = b.convert(sums, s.to);
    Ok(Some(b.reshape(result, &[&[1][..], &outputs, &[groups]].concat())))
}

/// For every output position the sums of `[C, window.., groups]` products: `[positions, groups]`.
fn place_sums(b: &mut Emit, s: &Spec, (x, kernel): (NodeId, NodeId), places: &[Vec<u64>], sum: DType) -> NodeId {
    let groups = b.dims(x)[s.spatial() + 1];
    let all: Vec<usize> = (0..=s.spatial()).collect();
    let mut sums = Vec::new();
    for place in places {
        let mut dims = whole(b.dims(x));
        for (d, w) in s.window.iter().enumerate() {
            dims[d + 1] = window_at(w, place[d]);
        }
        let seen = b.slice(x, &dims);
        let (seen, weights) = (b.convert(seen, sum), b.convert(kernel, sum));
        let products = b.mul(seen, weights);
        let total = b.reduce(products, Binary::Add, 0.0, &all);
        sums.push(b.reshape(total, &[1, groups]));
    }
    b.concatenate(&sums, 0)
}
