//! Scalar code: integer and `pred` values of rank 0 that the scalar unit computes.

use super::{Lower, Region, Val};
use crate::plan::step::ScalarOp;
use systole_hlo::error::CompileError;
use systole_hlo::graph::elementwise::{BinaryKind, UnaryKind};
use systole_hlo::graph::{Binary, Computation, NodeId, Op};
use systole_isa::DType;

/// Whether scalars of this type live in scalar memory.
pub fn is_scalar_type(t: DType) -> bool {
    matches!(t, DType::Pred | DType::S8 | DType::S16 | DType::S32 | DType::U8 | DType::U16 | DType::U32)
}

/// Which nodes are scalar code: rank 0 integers computed from such alone. `param` says which parameters are words;
/// `params` gives tuple parameters' leaves.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is no scalar")]
pub fn scalar_nodes(comp: &Computation, param: &dyn Fn(usize) -> bool, params: &[Val]) -> Vec<bool> {
    let mut is = vec![false; comp.nodes.len()];
    for id in comp.ids() {
        let n = comp.node(id);
        let fits = n.shape.as_array().is_some_and(|a| a.dims.is_empty() && is_scalar_type(a.dtype));
        if !fits {
            continue;
        }
        let all = n.operands.iter().all(|o| is[o.index()]);
        is[id.index()] = match &n.op {
            Op::Parameter { index } => param(*index),
            Op::Constant(_) | Op::ReplicaId | Op::PartitionId => true,
            Op::Unary(u) => all && matches!(u.kind(), UnaryKind::Logic(_) | UnaryKind::Signs(_)),
            Op::Binary(b) => all && matches!(b.kind(), BinaryKind::Arithmetic(_) | BinaryKind::Integer(_)),
            Op::Compare { .. } | Op::Select | Op::Clamp | Op::Convert | Op::Copy => all,
            Op::Reshape => all,
            Op::GetTupleElement { index } => match &comp.node(n.operands[0]).op {
                Op::Parameter { index: p } => {
                    matches!(params.get(*p), Some(Val::Tuple(t)) if matches!(t.get(*index), Some(Val::Word(..))))
                }
                // Loops' results are decided when they are lowered.
                _ => false,
            },
            _ => false,
        };
    }
    is
}

impl<'a> Lower<'a> {
    /// Lowers a node that [`scalar_nodes`] chose.
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is no scalar, and has no lowering as one")]
    pub fn scalar_node(&mut self, r: &Region<'a>, id: NodeId, params: &[Val]) -> Result<Val, CompileError> {
        let n = r.comp.node(id);
        let dtype = n.shape.as_array().map_or(DType::S32, |a| a.dtype);
        let word = |i: usize| match &r.values[n.operands[i].index()] {
            Some(Val::Word(w, t)) => (*w, *t),
            _ => unreachable!("operands of scalar nodes are scalar"),
        };
        let value = match &n.op {
            Op::Parameter { index } => return Ok(params[*index].clone()),
            Op::GetTupleElement { index } => {
                return match &r.values[n.operands[0].index()] {
                    Some(Val::Tuple(t)) => Ok(t[*index].clone()),
                    _ => Err(CompileError::internal("plan", format!("`{}` takes from no tuple", n.name))),
                };
            }
            Op::Constant(l) => ScalarOp::Const(l.integer(0).unwrap_or(0) as i32),
            Op::ReplicaId | Op::PartitionId => {
                let device = self.scalar(ScalarOp::Device, dtype);
                let partitions = self.plan.pod.shape.partitions as i32;
                let count = self.scalar(ScalarOp::Const(partitions), dtype);
                let part = if n.op == Op::ReplicaId { Binary::Div } else { Binary::Rem };
                ScalarOp::Binary(part, device, count)
            }
            Op::Unary(u) => ScalarOp::Unary(*u, word(0).0),
            Op::Binary(b) => ScalarOp::Binary(*b, word(0).0, word(1).0),
            Op::Compare { direction, .. } => {
                // Comparisons follow the operands' signedness.
                let (a, t) = word(0);
                let w = self.scalar_compare(*direction, a, word(1).0, t);
                return Ok(Val::Word(w, DType::Pred));
            }
            Op::Select => ScalarOp::Select(word(0).0, word(1).0, word(2).0),
            Op::Clamp => {
                let low = self.scalar(ScalarOp::Binary(Binary::Max, word(0).0, word(1).0), dtype);
                ScalarOp::Binary(Binary::Min, low, word(2).0)
            }
            Op::Convert if dtype == DType::Pred => {
                let (a, t) = word(0);
                let zero = self.scalar(ScalarOp::Const(0), t);
                return Ok(Val::Word(self.scalar_compare(systole_hlo::graph::Direction::Ne, a, zero, t), DType::Pred));
            }
            Op::Convert => ScalarOp::Convert(word(0).0),
            Op::Copy | Op::Reshape => return Ok(Val::Word(word(0).0, dtype)),
            _ => return Err(self.no_lowering(r.comp, id)),
        };
        Ok(Val::Word(self.scalar(value, dtype), dtype))
    }

    /// A comparison of two scalars of type `t`, as 0 or 1.
    fn scalar_compare(
        &mut self,
        direction: systole_hlo::graph::Direction,
        a: crate::plan::step::Word,
        b: crate::plan::step::Word,
        t: DType,
    ) -> crate::plan::step::Word {
        // The step's type is the operands', which decides the signedness.
        self.scalar(ScalarOp::Compare(direction, a, b), t)
    }
}
