//! Windows larger than the output, as the gradient of a kernel has: a dot for each output position.
//!
//! The window covers nearly all of the input and the output is as small as a kernel, so each output position is one dot
//! that contracts the whole window with the channels. The kernel operand is turned once, `[Cout, K]`; the parts of the
//! input are `[K, N]`.

use super::{Spec, positions};
use crate::graph::{DotDims, NodeId, Op, SliceDim};
use crate::passes::edit::Emit;
use crate::passes::make::{inverse, whole};

/// Output positions at most.
const MAX_OUTPUTS: u64 = 64;

/// Whether the window is larger than the output.
pub fn applies(b: &Emit, s: &Spec) -> bool {
    let outputs: u64 = s.outputs(b).iter().product();
    outputs <= MAX_OUTPUTS && s.taps() > outputs
}

/// The convolution as dots.
pub fn lower(b: &mut Emit, s: &Spec) -> NodeId {
    let n = s.spatial();
    let outputs = s.outputs(b);
    // Spatial dimensions and channels of the input, in the order they are stored in where a transpose hides that.
    let stored: Vec<usize> = match b.op(s.x) {
        Op::Transpose { permutation } => inverse(permutation).to_vec(),
        _ => Vec::new(),
    };
    let mut inner: Vec<usize> = (1..=n + 1).collect();
    if !stored.is_empty() {
        let position = inverse(&stored);
        inner.sort_by_key(|&d| position[d]);
    }
    let x_order: Vec<usize> = inner.iter().copied().chain([0]).collect();
    let x = b.transpose(s.x, &x_order);
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
            let w = &s.window[d - 1];
            let start = place[d - 1] * w.stride;
            dims[i] =
                SliceDim { start, limit: start + (w.size - 1) * w.window_dilation + 1, stride: w.window_dilation };
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
