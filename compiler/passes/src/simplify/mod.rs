//! Local rules that emission applies to every operation.
//!
//! A rule looks at the operation and at what defines its operands, which are already in simplest form, and gives a simpler
//! equivalent or nothing. Rules keep every bit of the result, but for the signs of zeros and the flushing of subnormals
//! where XLA's own simplifications do not keep them either. Each has a label, counted and limited by the draft's fuel.

mod arith;
mod control;
mod fold;
mod narrow;
mod product;
mod reduce;
mod shape;
mod slice;

use super::edit::Emit;
use systole_hlo::graph::{Literal, NodeId, Op, Shape};

pub use arith::embeds;
pub use fold::{as_index, scalar_of, splat_number};
pub use reduce::{combiner, identity, is_identity};
pub use shape::degenerate_map;

/// A simpler form of an operation that is about to be emitted.
#[allow(clippy::wildcard_enum_match_arm, reason = "there is no rule for the others: they stay as they are")]
pub fn rules(b: &mut Emit, op: &Op, operands: &[NodeId], shape: &Shape) -> Option<NodeId> {
    if let Some(empty) = empty(b, op, shape) {
        return Some(empty);
    }
    let simpler = match op {
        Op::Reshape => shape::reshape(b, operands[0], shape),
        Op::Broadcast { dims } => shape::broadcast(b, operands[0], dims, shape),
        Op::Transpose { permutation } => shape::transpose(b, operands[0], permutation),
        Op::Iota { dim } => shape::iota(b, *dim, shape),
        Op::Constant(literal) => shape::constant(b, literal),
        Op::Reverse { dims } => slice::reverse(b, operands[0], dims),
        Op::Slice { dims } => slice::slice(b, operands[0], dims),
        Op::Concatenate { dim } => slice::concatenate(b, operands, *dim),
        Op::Pad { dims } => slice::pad(b, operands[0], operands[1], dims),
        Op::DynamicSlice { sizes } => slice::dynamic_slice(b, operands, sizes),
        Op::DynamicUpdateSlice => slice::dynamic_update_slice(b, operands),
        Op::Unary(u) => arith::unary(b, *u, operands[0]),
        Op::Binary(o) => arith::binary(b, *o, operands[0], operands[1]),
        Op::Select => arith::select(b, operands, shape),
        Op::Clamp => arith::clamp(b, operands, shape),
        Op::Convert => shape
            .as_array()
            .and_then(|to| narrow::convert(b, operands[0], to))
            .or_else(|| arith::convert(b, operands[0], shape)),
        Op::BitcastConvert => arith::bitcast_convert(b, operands[0], shape),
        Op::Reduce { dims, body } => reduce::reduce(b, operands, dims, *body, shape),
        Op::GetTupleElement { index } => control::element(b, operands[0], *index),
        Op::Conditional { branches } => control::conditional(b, branches, operands),
        _ => None,
    };
    simpler.or_else(|| fold::fold(b, op, operands, shape))
}

/// An array without elements is a constant whatever computes it.
fn empty(b: &mut Emit, op: &Op, shape: &Shape) -> Option<NodeId> {
    let a = shape.as_array()?;
    if a.elements() > 0 || matches!(op, Op::Constant(_) | Op::Parameter { .. } | Op::GetTupleElement { .. } | Op::Copy)
    {
        return None;
    }
    if op.has_effect() || a.dynamic.contains(&true) || !b.draft.fire("empty") {
        return None;
    }
    let literal = Literal::new(a.dtype, &a.dims, Vec::new());
    Some(b.constant(literal))
}
