//! `map`: a scalar computation applied to every element, as elementwise operations on whole arrays.

use crate::edit::Emit;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, NodeId, Op, Shape, Span};

impl Emit<'_> {
    /// A computation of scalars applied to every element of arrays of sizes `dims`; gives its results.
    pub fn apply(&mut self, body: CompId, args: &[NodeId], dims: &[u64]) -> Result<Vec<NodeId>, CompileError> {
        let c = self.draft.computations[body.index()].clone();
        let span = self.span();
        apply(self, &c, args, dims, span)
    }
}

/// Emits a scalar computation's operations over arrays of sizes `dims`; gives the result's leaves.
///
/// # Errors
/// If the computation does anything but elementwise work on scalars.
#[allow(clippy::wildcard_enum_match_arm, reason = "the message for any other operation")]
pub(super) fn apply(
    b: &mut Emit,
    c: &Computation,
    args: &[NodeId],
    dims: &[u64],
    span: Span,
) -> Result<Vec<NodeId>, CompileError> {
    let mut map: Vec<NodeId> = Vec::with_capacity(c.nodes.len());
    for (i, n) in c.nodes.iter().enumerate() {
        let operands: Vec<NodeId> = n.operands.iter().map(|o| map[o.index()]).collect();
        if i == c.root.index() && n.op == Op::Tuple {
            return Ok(operands);
        }
        let Some(scalar) = n.shape.as_array().filter(|a| a.dims.is_empty()) else {
            let message = format!("the scalar computation {} uses an array or tuple ({})", c.name, n.name);
            return Err(CompileError::unsupported(span, message));
        };
        let shape = Shape::array(scalar.dtype, dims);
        map.push(match &n.op {
            Op::Parameter { index } => args[*index],
            Op::Constant(l) => {
                let l = b.constant(l.clone());
                b.broadcast(l, &[], dims)
            }
            Op::Reshape | Op::Broadcast { .. } | Op::Transpose { .. } | Op::OptBarrier => operands[0],
            op if op.is_elementwise() => b.emit(op.clone(), &operands, shape),
            _ => {
                let message = format!("{} of the scalar computation {} is not elementwise", n.name, c.name);
                return Err(CompileError::unsupported(span, message));
            }
        });
    }
    Ok(vec![map[c.root.index()]])
}
