//! `fills`: one value repeated that something updates in place is an array of that alone.
//!
//! Zeros that a loop fills, or that slices and rows are put into, have to be in memory; the zeros that elementwise operations
//! compare with or choose from do not, and are none while equal ones are not the same node. Shared, they would be written once,
//! kept beside everything from then on, and read by all of these.

use crate::edit::{Draft, Emit, Rewritten, rewrite};
use std::collections::{BTreeMap, BTreeSet};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Module, Node, NodeId, Op};

/// Runs the pass.
pub fn run(module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    // The local rules have been applied; equal nodes that are made here must not become one.
    draft.simplify = false;
    rewrite(module, draft, &mut rule)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the other operations make arrays of their own")]
fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    match &n.op {
        Op::While { .. } if *b.op(operands[0]) == Op::Tuple && b.uses(operands[0]) == 1 => {
            let state = b.node(operands[0]).clone();
            let Some(own) = owned(b, &state.operands) else { return Ok(None) };
            let state = b.push(Op::Tuple, &own, state.shape);
            Ok(Some(b.push(n.op.clone(), &[state], n.shape.clone())))
        }
        Op::DynamicUpdateSlice | Op::Scatter { .. } if n.shape.as_array().is_some() => {
            let Some(own) = owned(b, &operands[..1]) else { return Ok(None) };
            let operands = [&own, &operands[1..]].concat();
            Ok(Some(b.push(n.op.clone(), &operands, n.shape.clone())))
        }
        _ => Ok(None),
    }
}

/// The operands with repeated values that others use too as nodes of their own; nothing where there are none.
fn owned(b: &mut Emit, operands: &[NodeId]) -> Option<Vec<NodeId>> {
    let taken = |id: NodeId| operands.iter().filter(|o| **o == id).count() as u32;
    let shared: BTreeSet<NodeId> =
        operands.iter().copied().filter(|&id| b.uses(id) > taken(id) && b.elements(id) > 1 && is_fill(b, id)).collect();
    if shared.is_empty() || !b.draft.fire("own-fill") {
        return None;
    }
    let mut own = BTreeMap::new();
    for id in shared {
        let fill = b.node(id).clone();
        own.insert(id, b.push(fill.op, &fill.operands, fill.shape));
    }
    Some(operands.iter().map(|o| own.get(o).copied().unwrap_or(*o)).collect())
}

/// Whether an array is one value repeated.
fn is_fill(b: &Emit, id: NodeId) -> bool {
    let n = b.node(id);
    let repeated = matches!(n.op, Op::Broadcast { .. }) && b.rank(n.operands[0]) == 0;
    repeated || b.literal(id).is_some_and(|l| l.as_splat().is_some())
}
