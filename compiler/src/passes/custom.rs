//! Custom calls that mean an operation: they never reach a host.
//!
//! Annotations give their operand back; the others become what their name says.

use super::edit::Emit;
use crate::graph::{Literal, NodeId, Op, Shape};

/// Annotations that compute nothing.
const IDENTITIES: [&str; 9] = [
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "LayoutConstraint",
    "MoveToHost",
    "MoveToDevice",
    "mhlo.copy",
    "Barrier",
];

/// Whether a call gives its operands back.
pub fn is_identity(target: &str) -> bool {
    IDENTITIES.contains(&target) || target.starts_with("xla.sdy.")
}

/// Whether the compiler knows the target itself.
pub fn is_known(target: &str) -> bool {
    is_identity(target) || matches!(target, "TopK" | "mhlo.topk" | "AllocateBuffer")
}

/// What a call means as an operation, where it means one: the node of that operation.
pub(super) fn lower(b: &mut Emit, op: &Op, operands: &[NodeId], shape: &Shape) -> Option<NodeId> {
    let Op::CustomCall { target, config, .. } = op else { return None };
    match (target.as_str(), shape) {
        ("TopK" | "mhlo.topk", Shape::Tuple(parts)) => {
            let k = parts.first()?.as_array()?.dims.last().copied()?;
            let largest = !config.replace(' ', "").contains("largest=false");
            Some(b.emit(Op::TopK { k, largest }, operands, shape.clone()))
        }
        ("AllocateBuffer", Shape::Array(a)) => {
            let zero = vec![0; a.dtype.host_bytes()];
            Some(b.emit(Op::Constant(Literal::splat(a.dtype, &a.dims, &zero)), &[], shape.clone()))
        }
        _ => None,
    }
}
