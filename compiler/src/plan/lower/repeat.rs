//! Moves that do a reshape on the way: elements and rows that are repeated, each put where it belongs straight from the array, and
//! transposes of split dimensions.

use super::moving::{Position, move_spec, refine, scatters_lanes};
use super::{Lower, Region, Val};
use crate::plan::view::{Form, View};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, Op};

impl<'a> Lower<'a> {
    /// A reshape of a broadcast that repeats elements or rows: as an array that would have a row of lanes, or a register, for each of
    /// them.
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
        match self.split_and_merged(r, id, &src, (&sizes, &from, &to)) {
            Some(done) => done,
            None => self.moved(r, id, &src, &sizes, &from, &to),
        }
    }

    /// The same where only a reshape reads it that puts the dimensions together in another way (pixels as patches, say): moved to
    /// where that wants its elements, if there are rows to fill registers with besides what changes lanes.
    fn split_and_merged(
        &mut self,
        r: &Region<'a>,
        id: NodeId,
        src: &View,
        (sizes, from, to): (&[u64], &Position, &Position),
    ) -> Option<Val> {
        let (user, merged) = self.merging_reshape(r, id)?;
        let own = r.comp.node(id).shape.as_array()?;
        let (factors, middle, joined) = refine(&own.dims, &merged)?;
        let whole = |f: usize| middle.dims.iter().position(|d| d.0[..] == [(f, 1)]);
        let of: Vec<usize> = (0..factors.len()).map(whole).collect::<Option<_>>()?;
        let joined = joined.of(&Position { dims: of.iter().map(|&d| to.dims[d].clone()).collect() });
        let dst = self.array(&r.comp.node(id).name, own.dtype, &merged, Form::Lanes);
        let spec = move_spec(sizes, src, from, &dst, &joined);
        let rows = (0..spec.sizes.len()).filter(|&d| (spec.src.lanes[d], spec.dst.lanes[d]) == (0, 0));
        let most = rows.filter(|&d| spec.dst.rows[d] != 0).map(|d| spec.sizes[d]).max().unwrap_or(1);
        if scatters_lanes(&spec) || most < self.chip.core.sublanes / 2 {
            return None;
        }
        self.push_merged(r, (id, user), spec, (src.buf, dst.buf));
        // The reshape goes by the layout.
        Some(Val::Array(View { dims: own.dims.clone(), ..dst }))
    }
}
