//! Convolutions of types that the matrix unit lacks: a product and sum over the channels for each window position.

use super::{Spec, positions};
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, NodeId};
use systole_isa::DType;

/// Window positions that are unrolled at most; more make a loop.
const MAX_TAPS: u64 = 32;

/// Sums over window positions.
pub fn lower(b: &mut Emit, s: &Spec) -> Result<NodeId, CompileError> {
    let sizes: Vec<u64> = s.window.iter().map(|w| w.size).collect();
    if s.taps() > MAX_TAPS {
        return looped(b, s, &sizes);
    }
    let mut sum: Option<NodeId> = None;
    for tap in positions(&sizes) {
        let (seen, kernel) = (s.seen(b, &tap), s.kernel_at(b, &tap));
        let product = product(b, s, seen, kernel);
        sum = Some(match sum {
            Some(sum) => plus(b, s.to, sum, product),
            None => product,
        });
    }
    let result = s.result(b);
    let Some(sum) = sum else { return Ok(b.splat(s.to, &result, 0.0)) };
    // Sums begin with zero: products that are all -0 give 0. What is reduced over several channels has begun so.
    let begun = s.inputs(b) > 1 || s.to == DType::Pred || s.to.is_integer();
    Ok(if begun { sum } else { b.with(Binary::Add, sum, 0.0) })
}

fn plus(b: &mut Emit, to: DType, x: NodeId, y: NodeId) -> NodeId {
    b.binary(if to == DType::Pred { Binary::Or } else { Binary::Add }, x, y)
}

/// `[N, outputs.., C] x [C, Cout]`, as multiplication and reduction over a leading C.
fn product(b: &mut Emit, s: &Spec, seen: NodeId, kernel: NodeId) -> NodeId {
    let result = s.result(b);
    let rank = result.len();
    let all = [&[s.inputs(b)][..], &result].concat();
    let order: Vec<usize> = std::iter::once(rank - 1).chain(0..rank - 1).collect();
    let seen = b.transpose(seen, &order);
    let map: Vec<usize> = (0..rank).collect();
    let seen = b.broadcast(seen, &map, &all);
    let kernel = b.broadcast(kernel, &[0, rank], &all);
    let product = b.mul(seen, kernel);
    let add = if s.to == DType::Pred { Binary::Or } else { Binary::Add };
    b.reduce(product, add, 0.0, &[0])
}

/// A loop over window positions.
fn looped(b: &mut Emit, s: &Spec, sizes: &[u64]) -> Result<NodeId, CompileError> {
    let result = s.result(b);
    let zero = b.splat(s.to, &result, 0.0);
    let state = [zero, s.x, s.kernel];
    let done = b.counted_loop("taps", s.taps(), &state, |b, counter, state| {
        let inner = Spec { x: state[1], kernel: state[2], ..s.clone() };
        let mut place = Vec::new();
        let mut rest = counter;
        for &n in sizes.iter().rev() {
            place.insert(0, b.with(Binary::Rem, rest, n as f64));
            rest = b.with(Binary::Div, rest, n as f64);
        }
        let seen = dynamic_seen(b, &inner, &place);
        let kernel = dynamic_kernel(b, &inner, &place);
        let product = product(b, &inner, seen, kernel);
        let sum = plus(b, s.to, state[0], product);
        Ok(vec![sum, state[1], state[2]])
    })?;
    Ok(done[0])
}

fn dynamic_seen(b: &mut Emit, s: &Spec, place: &[NodeId]) -> NodeId {
    let outputs = s.outputs(b);
    let mut sizes = b.dims(s.x).to_vec();
    let zero = b.index(0);
    let mut starts = vec![zero; sizes.len()];
    for (d, w) in s.window.iter().enumerate() {
        sizes[d + 1] = (outputs[d] - 1) * w.stride + 1;
        starts[d + 1] = b.with(Binary::Mul, place[d], w.window_dilation as f64);
    }
    let part = b.dynamic_slice(s.x, &starts, &sizes);
    let mut dims = whole(&sizes);
    for (d, w) in s.window.iter().enumerate() {
        dims[d + 1].stride = w.stride;
    }
    b.slice(part, &dims)
}

fn dynamic_kernel(b: &mut Emit, s: &Spec, place: &[NodeId]) -> NodeId {
    let n = s.spatial();
    let dims = b.dims(s.kernel).to_vec();
    let zero = b.index(0);
    let starts = [place, &[zero, zero]].concat();
    let sizes = [&vec![1; n][..], &dims[n..]].concat();
    let part = b.dynamic_slice(s.kernel, &starts, &sizes);
    b.reshape(part, &dims[n..])
}
