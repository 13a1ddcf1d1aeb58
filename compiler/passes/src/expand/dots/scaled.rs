//! Scaled dots: products of operands each of whose blocks of elements has a factor.

use crate::edit::Emit;
use systole_hlo::graph::{DotDims, NodeId, Precision};
use systole_isa::DType;

/// The product of both operands times their factors, in f32; `None` of other operands than real floats.
pub fn lower(b: &mut Emit, x: &[NodeId], dims: &DotDims, precision: Precision, dtype: DType) -> Option<NodeId> {
    if !x.iter().all(|&x| b.dtype(x).is_float() && b.dtype(x) != DType::F64) {
        return None;
    }
    let (lhs, rhs) = (scaled(b, x[0], x[2]), scaled(b, x[1], x[3]));
    Some(b.dot(lhs, rhs, dims.clone(), precision, dtype))
}

/// An array times its factors: one for all, or along every dimension one for each of so many equal blocks.
fn scaled(b: &mut Emit, x: NodeId, scale: NodeId) -> NodeId {
    let (sizes, blocks) = (b.dims(x).to_vec(), b.dims(scale).to_vec());
    let (x, scale) = (b.convert(x, DType::F32), b.convert(scale, DType::F32));
    let all = if blocks.is_empty() {
        b.broadcast(scale, &[], &sizes)
    } else {
        let within: Vec<u64> = blocks.iter().zip(&sizes).flat_map(|(&n, &size)| [n, size / n]).collect();
        let places: Vec<usize> = (0..blocks.len()).map(|d| 2 * d).collect();
        let repeated = b.broadcast(scale, &places, &within);
        b.reshape(repeated, &sizes)
    };
    b.mul(x, all)
}
