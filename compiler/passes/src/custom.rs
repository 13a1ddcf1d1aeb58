//! Custom calls that mean an operation: they never reach a host.
//!
//! Annotations give their operand back; the others become what their name says.

use super::edit::Emit;
use super::expand::library;
use systole_hlo::graph::{Literal, NodeId, Op, Shape, Unary};

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
    is_identity(target)
        || matches!(
            target,
            "tpu_custom_call"
                | "TopK"
                | "mhlo.topk"
                | "ApproxTopK"
                | "AllocateBuffer"
                | "PadToStatic"
                | "SliceToDynamic"
        )
        || elementwise(target).is_some()
        || library::is_known(target)
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
        // The exact answer is one of those that an approximate one may be.
        ("ApproxTopK", Shape::Tuple(parts)) => {
            let Op::CustomCall { calls, .. } = op else { return None };
            let to = parts.first()?.as_array()?.dims.clone();
            let sorted = parts.len();
            let dims = b.dims(*operands.first()?).to_vec();
            let dim = (0..dims.len()).find(|d| to.get(*d) != dims.get(*d)).unwrap_or(dims.len().saturating_sub(1));
            let arrays: Vec<NodeId> = operands.iter().take(sorted).copied().collect();
            let shapes = arrays.iter().map(|x| b.shape(*x).clone()).collect();
            let op = Op::Sort { dim, stable: true, body: *calls.first()? };
            let all = b.emit(op, &arrays, super::make::one_or_tuple(shapes));
            let all = b.elements_of(all);
            let first: Vec<NodeId> = all.into_iter().map(|x| b.slice_dim(x, dim, 0, to[dim], 1)).collect();
            Some(b.tuple(&first))
        }
        (_, Shape::Array(_)) => {
            let op = elementwise(target).filter(|_| operands.len() == 1)?;
            Some(b.emit(Op::Unary(op), operands, shape.clone()))
        }
        _ => None,
    }
}

/// Elementwise operations that portable programs write as calls: `mhlo.erf`, `chlo.tan`.
fn elementwise(target: &str) -> Option<Unary> {
    let name = target.strip_prefix("mhlo.").or_else(|| target.strip_prefix("chlo."))?;
    Unary::from_name(&name.replace('_', "-"))
}
