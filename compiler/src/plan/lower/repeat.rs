//! Moves that do a reshape on the way: elements that are repeated along lanes, each put where it belongs straight from the array, and
//! transposes of split dimensions.

use super::moving::{Position, refine};
use super::{Lower, Region, Val};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, Op};

impl<'a> Lower<'a> {
    /// A reshape of a broadcast that repeats elements: as an array that would have a row of lanes for each of them.
    pub(super) fn repeat(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let repeated = r.comp.node(node.operands[0]);
        let sizes = |id: NodeId| r.comp.node(id).shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
        let Op::Broadcast { dims } = &repeated.op else { return Err(self.no_lowering(r.comp, id)) };
        let refined = refine(&sizes(node.operands[0]), &sizes(id));
        let Some((sizes, middle, to)) = refined else { return Err(self.no_lowering(r.comp, id)) };
        let from = Position { dims: dims.iter().map(|&d| middle.dims[d].clone()).collect() };
        let src = self.lanes(r, repeated.operands[0]);
        Ok(self.moved(r, id, &src, &sizes, &from, &to))
    }

    /// A transpose of a reshape that splits dimensions, from what that splits.
    pub(super) fn split_transpose(&mut self, r: &mut Region<'a>, id: NodeId, at: &[usize]) -> Val {
        let split = r.comp.node(r.comp.node(id).operands[0]);
        let src = self.lanes(r, split.operands[0]);
        let dims = split.shape.as_array().expect("movement makes arrays").dims.clone();
        let (sizes, mut from, split) = refine(&src.dims, &dims).expect("grouping asked for it");
        let mut to = Position::identity(dims.len());
        for (d, position) in split.dims.into_iter().enumerate() {
            to.dims[at[d]] = position;
        }
        // In the order of the result, the last factor of a dimension first in its terms.
        let order: Vec<usize> = to.dims.iter().flat_map(|d| d.0.iter().rev().map(|t| t.0)).collect();
        let sizes: Vec<u64> = order.iter().map(|&i| sizes[i]).collect();
        for term in from.dims.iter_mut().chain(&mut to.dims).flat_map(|d| &mut d.0) {
            term.0 = order.iter().position(|&i| i == term.0).expect("every factor is in the result");
        }
        self.moved(r, id, &src, &sizes, &from, &to)
    }
}
