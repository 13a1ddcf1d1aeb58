//! Rules for tuples and branches.

use super::fold::{as_index, scalar_of};
use crate::edit::Emit;
use systole_hlo::graph::{CompId, NodeId, Op};

pub fn element(b: &mut Emit, tuple: NodeId, index: usize) -> Option<NodeId> {
    if !matches!(b.op(tuple), Op::Tuple) {
        return None;
    }
    let part = b.operand(tuple, index);
    b.draft.fire("element-tuple").then_some(part)
}

/// A branch that is known is computed in place.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the verifier lets pred and s32 alone choose; every other operation is copied"
)]
pub fn conditional(b: &mut Emit, branches: &[CompId], operands: &[NodeId]) -> Option<NodeId> {
    let which = if branches.len() == 1 {
        0
    } else {
        let literal = scalar_of(b, operands[0])?;
        let value = as_index(literal)?;
        match literal.dtype {
            systole_isa::DType::Pred => usize::from(value == 0),
            _ => usize::try_from(value).ok().filter(|&i| i < branches.len()).unwrap_or(branches.len() - 1),
        }
    };
    if !b.draft.fire("conditional-known") {
        return None;
    }
    let body = b.draft.computations[branches[which].index()].clone();
    let mut map: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for n in &body.nodes {
        let inputs: Vec<NodeId> = n.operands.iter().map(|o| map[o.index()]).collect();
        map.push(match n.op {
            Op::Parameter { .. } => operands[which + 1],
            _ => {
                b.on_behalf_of(n);
                b.emit(n.op.clone(), &inputs, n.shape.clone())
            }
        });
    }
    Some(map[body.root.index()])
}
