//! Concatenations: every part moved to where it goes.

use super::Target;
use crate::plan::group::windows_of;
use crate::plan::lower::moving::{Position, move_spec, refine};
use crate::plan::lower::{Lower, Region, Val};
use crate::plan::step::Use;
use crate::plan::view::{Form, View};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, Op};

impl<'a> Lower<'a> {
    pub(super) fn concatenate(&mut self, r: &mut Region<'a>, id: NodeId, dim: usize) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let (dtype, dims) = self.shape(r, id);
        let n = dims.len();
        if let Some(w) = windows_of(r.comp, id) {
            // One move for all windows; the last iteration dimension counts them.
            let src = self.lanes(r, w.source);
            if w.inserted {
                // The dimension that was inserted counts them.
                let mut from = Position::default();
                for (d, s) in w.first.iter().enumerate() {
                    from.dims.push((vec![(d + (d >= dim) as usize, s.stride as i64)], s.start as i64));
                }
                from.dims[w.along].0.push((dim, w.step));
                return Ok(self.moved(r, id, &src, &dims, &from, &Position::identity(n)));
            }
            let mut sizes = dims.clone();
            sizes[dim] /= w.count;
            let (mut from, mut to) = (Position::identity(n), Position::identity(n));
            for (d, s) in w.first.iter().enumerate() {
                from.dims[d] = (vec![(d, s.stride as i64)], s.start as i64);
            }
            from.dims[w.along].0.push((n, w.step));
            to.dims[dim].0.push((n, sizes[dim] as i64));
            sizes.push(w.count);
            return Ok(self.moved(r, id, &src, &sizes, &from, &to));
        }
        if let Some(done) = self.merged_concatenate(r, id, dim) {
            return Ok(done);
        }
        let dst = self.array(&node.name, dtype, &dims, Form::Lanes);
        let result = self.is_result(r, id) && !self.is_joined_near(r, (id, dim), &dst);
        let to = Target { usage: Use::Update, op: self.debug_op(r, id, 0.0), result };
        self.put_parts(r, (id, dim), &dst, &mut vec![0; n], to);
        Ok(Val::Array(dst))
    }

    /// Whether a concatenation is put together in vector memory: in HBM each part that ends within tiles would bring what is there
    /// already, and take it back.
    fn is_joined_near(&self, r: &Region<'a>, (id, dim): (NodeId, usize), dst: &View) -> bool {
        let mut at = 0;
        let whole = r.comp.node(id).operands.iter().all(|&o| {
            let sizes = &self.shape(r, o).1;
            let begin = at;
            at += sizes[dim];
            self.part(&dst.dims, sizes, &|d, tile| d != dim || begin % tile == 0) != Use::Update
        });
        !whole && self.has_room(dst)
    }

    /// Whether an array that is put together may stay in vector memory until it is whole.
    fn has_room(&self, dst: &View) -> bool {
        /// The part of vector memory that such an array may take.
        const ROOM: u64 = 4;
        dst.layout.bytes() <= (self.chip.vmem.bytes / ROOM).min(self.plan.residency.largest)
    }

    /// Moves the parts of a concatenation along `dim`, which begins at the place `at`, to where they go.
    fn put_parts(&mut self, r: &mut Region<'a>, (id, dim): (NodeId, usize), dst: &View, at: &mut [i64], to: Target) {
        let begin = at[dim];
        for &o in &r.comp.node(id).operands {
            let (_, sizes) = self.shape(r, o);
            if let Op::Concatenate { dim } = r.comp.node(o).op
                && r.groups.nested.contains(&o)
            {
                self.put_parts(r, (o, dim), dst, at, to);
            } else {
                let (src, from) = self.source(r, o);
                let place = Position { dims: at.iter().enumerate().map(|(d, &at)| (vec![(d, 1)], at)).collect() };
                let spec = move_spec(&sizes, &src, &from, dst, &place);
                let usage = self.part(&dst.dims, &sizes, &|d, tile| at[d] % tile as i64 == 0);
                // Before the first part there is nothing to keep.
                let first = usage == Use::Update && at.iter().all(|&at| at == 0);
                let to = Target { usage: if first { Use::First } else { usage }, ..to };
                self.push_move_dynamic(spec, (src.buf, Vec::new()), (dst.buf, Vec::new()), [None, None], to);
            }
            at[dim] += sizes[dim] as i64;
        }
        at[dim] = begin;
    }

    /// A node's array, and its dimensions over the node's: of what moves rows for others, those of the array that it takes them from.
    fn source(&mut self, r: &mut Region<'a>, id: NodeId) -> (View, Position) {
        let comp = r.comp;
        let rank = comp.node(id).shape.as_array().map_or(0, |a| a.rank());
        if !r.groups.pieces.contains(&id) {
            return (self.lanes(r, id), Position::identity(rank));
        }
        let operand = comp.node(id).operands[0];
        let (view, position) = self.source(r, operand);
        let sizes = |id: NodeId| comp.node(id).shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
        let before = Position::before(&comp.node(id).op, &sizes(operand), &sizes(id));
        (view, position.of(&before.expect("grouping asked for it")))
    }

    /// A concatenation that only a reshape reads, put where the reshape wants its elements, as [`Lower::merged_transpose`].
    fn merged_concatenate(&mut self, r: &mut Region<'a>, id: NodeId, dim: usize) -> Option<Val> {
        let &[user] = &r.groups.users[id.index()][..] else { return None };
        let is_reshape = matches!(r.comp.node(user).op, Op::Reshape) && r.groups.is_root(user) && r.comp.root != id;
        let merged = r.comp.node(user).shape.as_array().filter(|_| is_reshape)?.dims.clone();
        let (dtype, dims) = self.shape(r, id);
        let layout = |dims: &[u64]| crate::plan::view::layout_of(dtype, dims, Form::Lanes, self.chip);
        let nested = r.comp.node(id).operands.iter().any(|o| r.groups.nested.contains(o));
        if nested || merged.len() >= dims.len() || crate::plan::view::same_places(&layout(&dims), &layout(&merged)) {
            return None;
        }
        let (sizes, middle, to) = refine(&dims, &merged)?;
        let &[(factor, 1)] = &middle.dims[dim].0[..] else { return None };
        let dst = self.array(&r.comp.node(id).name, dtype, &merged, Form::Lanes);
        let (op, result) = (self.debug_op(r, id, 0.0), self.is_result(r, user) && !self.has_room(&dst));
        let mut at = 0;
        for &o in &r.comp.node(id).operands {
            let (src, from) = self.source(r, o);
            let own = self.shape(r, o).1[dim];
            let (mut sizes, mut to) = (sizes.clone(), to.clone());
            sizes[factor] = own;
            for (terms, offset) in &mut to.dims {
                *offset += terms.iter().filter(|t| t.0 == factor).map(|t| t.1 * at).sum::<i64>();
            }
            at += own as i64;
            let spec = move_spec(&sizes, &src, &from.of(&middle), &dst, &to);
            let target = Target { usage: Use::Update, op, result };
            self.push_move_dynamic(spec, (src.buf, Vec::new()), (dst.buf, Vec::new()), [None, None], target);
        }
        // The reshape goes by the layout.
        Some(Val::Array(View { dims, ..dst }))
    }
}
