//! Parameters that several kernels read, kept in vector memory.
//!
//! A parameter lies in HBM, and every loop or move that reads it streams it. Where several do (statistics, then what they normalise;
//! neighbours on every side), it is better brought in once, if it fits beside others and the kernels do not take longer than its
//! way in.

use super::STREAMED_BYTES;
use crate::plan::group::{Owner, cost, is_pointwise};
use crate::plan::lower::{Lower, Region, Val};
use crate::plan::step::BufferKind;
use std::collections::BTreeSet;
use systole_hlo::graph::{Family, NodeId, Op};

/// The part of vector memory (one in so many) that such parameters may take.
const ROOM: u64 = 2;
/// Kernels from the first that reads a parameter to the last, at most: it takes up room as long.
const NEAR: usize = 24;
/// What keeping them has to be better by: the first kernel waits for all of the array.
const MARGIN: f64 = 1.1;
/// Cycles that a kernel takes for a register besides its arithmetic, and those of a move.
const PASS: f64 = 1.0;
const MOVED: f64 = 3.0;

impl<'a> Lower<'a> {
    /// Decides which of the program's parameters are kept.
    pub fn keep_for_readers(&mut self, r: &Region<'a>, params: &[Val]) {
        if !std::ptr::eq(self.module.entry(), r.comp) {
            return;
        }
        for id in r.comp.ids() {
            let Op::Parameter { index } = r.comp.node(id).op else { continue };
            let Some(Val::Array(view)) = params.get(index) else { continue };
            let (buf, bytes) = (view.buf, view.layout.bytes());
            let room = (self.chip.vmem.bytes / ROOM).min(self.plan.residency.largest);
            let given = matches!(self.plan.buffers[buf.index()].kind, BufferKind::Param(_));
            let fits = given && bytes > STREAMED_BYTES && self.plan.can_keep(buf, room);
            if fits && self.readers(r, id).is_some_and(|all| self.keeping_pays(r, id, &all, bytes)) {
                self.plan.residency.kept.push(buf);
            }
        }
    }

    /// The loops and moves that read an array; `None` if anything else does.
    fn readers(&self, r: &Region<'a>, id: NodeId) -> Option<BTreeSet<NodeId>> {
        let mut all = BTreeSet::new();
        let mut open = vec![id];
        while let Some(at) = open.pop() {
            for &u in &r.groups.users[at.index()] {
                let root = match r.groups.owner[u.index()] {
                    Owner::Root => r.groups.lead.get(&u).copied().unwrap_or(u),
                    Owner::In(root) => r.groups.lead.get(&root).copied().unwrap_or(root),
                    Owner::Inline => {
                        open.push(u);
                        continue;
                    }
                    // Reductions of several results are their own.
                    Owner::None => u,
                };
                let node = r.comp.node(root);
                let moves =
                    node.op.family() == Family::Move && !matches!(node.op, Op::Reshape | Op::DynamicUpdateSlice);
                if !moves && !is_pointwise(r.comp, root) && !matches!(node.op, Op::Reduce { .. }) {
                    return None;
                }
                all.insert(root);
            }
        }
        let (first, last) = (*all.first()?, *all.last()?);
        let kernels = r.comp.ids().filter(|&id| (first..=last).contains(&id) && r.groups.is_root(id)).count();
        (kernels <= NEAR).then_some(all)
    }

    /// Whether the readers of an array of so many bytes take less if it comes in once than if each of them streams it.
    fn keeping_pays(&self, r: &Region<'a>, id: NodeId, readers: &BTreeSet<NodeId>, bytes: u64) -> bool {
        if readers.len() < 2 {
            return false;
        }
        let chip = self.chip;
        let once = bytes as f64 / chip.hbm_bytes_per_cycle().max(1e-9);
        let register = f64::from(chip.core.sublanes * chip.core.lanes);
        let elements = |id: NodeId| r.comp.node(id).shape.as_array().map_or(0, |a| a.elements()) as f64;
        // What a reader takes, from vector memory and streamed.
        let times = |&root: &NodeId| {
            let node = r.comp.node(root);
            // Slices read what they are made of.
            let slices = matches!(node.op, Op::Slice { .. } | Op::DynamicSlice { .. });
            let part = if slices { elements(root) / elements(id).max(1.0) } else { 1.0 };
            let streamed = once * part.min(1.0);
            if node.op.family() == Family::Move {
                let near = elements(root) / register * MOVED;
                return (near, streamed.max(near));
            }
            let members = r.groups.members(r.comp, root);
            let all = || std::iter::once(root).chain(members.iter().copied());
            let arithmetic = |id: NodeId| {
                let op = &r.comp.node(id).op;
                let work = if matches!(op, Op::Reduce { .. }) { 0 } else { cost(op) };
                elements(id) * f64::from(work)
            };
            let work = all().map(arithmetic).sum::<f64>() / f64::from(chip.core.valu_slots.max(1));
            let points = all().map(elements).fold(elements(id), f64::max);
            let near = (work + points * PASS) / register;
            (near, streamed.max(near))
        };
        let all: Vec<(f64, f64)> = readers.iter().map(times).collect();
        let sum = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>();
        (once + sum(|t| t.0)) * MARGIN < sum(|t| t.1)
    }
}
