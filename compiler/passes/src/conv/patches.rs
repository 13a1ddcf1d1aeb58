//! Gradients of kernels whose windows lie beside each other (patches): a product over all of them.
//!
//! Where windows neither overlap nor leave anything out, an image is a matrix of its patches, `[patches, window * C]`, and the gradient of
//! the kernel is that matrix times what came back for each patch: `[window * C, patches] x [patches, D]`.

use super::{Spec, images};
use crate::dot::types::sum_type;
use crate::edit::Emit;
use systole_hlo::graph::{DotDims, NodeId};

/// The gradient as a product, if its windows are patches. `s` is padded and of one group.
pub fn gradient(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let n = s.spatial();
    let outputs = s.outputs(b);
    let beside = s.window.iter().zip(&outputs).all(|(w, &o)| w.stride == 1 && w.window_dilation == o && o > 1);
    let inside = b.dims(s.x)[1..=n].to_vec();
    let whole = s.window.iter().zip(&outputs).zip(inside).all(|((w, &o), size)| w.size * o == size);
    if n == 0 || !beside || !whole || !b.draft.fire("conv-patches") {
        return None;
    }
    let x = match images::natural(b, s.x) {
        (x, Some((value, dims))) => b.pad(x, value, &dims),
        (x, None) => x,
    };
    let (images, channels, features) = (s.inputs(b), s.batch(b), s.features(b));
    // `[N, patches and places in them by turns.., C]`.
    let split: Vec<u64> = s.window.iter().zip(&outputs).flat_map(|(w, &o)| [w.size, o]).collect();
    let x = b.reshape(x, &[&[images][..], &split, &[channels]].concat());
    let order: Vec<usize> =
        (0..1).chain((0..n).map(|d| 2 * d + 1)).chain((0..n).map(|d| 2 * d + 2)).chain([2 * n + 1]).collect();
    let x = b.transpose(x, &order);
    let patches = images * s.taps();
    let seen = outputs.iter().product::<u64>() * channels;
    let x = b.reshape(x, &[patches, seen]);
    let order: Vec<usize> = std::iter::once(n).chain(0..n).chain([n + 1]).collect();
    let y = b.transpose(s.kernel, &order);
    let y = b.reshape(y, &[patches, features]);
    let dims = DotDims { lhs_contracting: vec![0], rhs_contracting: vec![0], ..DotDims::default() };
    let sum = b.dot(x, y, dims, s.precision, sum_type(s.to));
    let sum = b.convert(sum, s.to);
    let sum = b.reshape(sum, &[&outputs[..], &[channels, features]].concat());
    let order: Vec<usize> = std::iter::once(n).chain(0..n).chain([n + 1]).collect();
    Some(b.transpose(sum, &order))
}
