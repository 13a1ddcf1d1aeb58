//! Arrays whose elements are repeated along lanes, each put where it belongs straight from the array.

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
}
