//! Copies of whole arrays: places that are taken over instead, or a transfer.

use super::Placer;
use super::reach::{reads, returns};
use crate::plan::action::{Action, Spot};
use crate::plan::step::{BufferKind, Step, Use};
use crate::plan::view::BufId;
use systole_hlo::error::CompileError;

/// The part of vector memory up to which an array that is copied whole is kept there.
const COPIED: (u64, u64) = (2, 5);

impl Placer<'_> {
    /// Whether `dst`, a copy of `src`, may take over its memory: `src` is not read again, or is a loop state that the copy
    /// becomes again at the loop's end.
    fn may_take_over(&self, src: BufId, dst: BufId, rest: &[Step]) -> bool {
        let kind = |b: BufId| &self.plan.buffers[b.index()].kind;
        // A state in HBM is there at the end of every iteration, where rows of its values are given back.
        let state = matches!(kind(dst), BufferKind::State | BufferKind::FarState);
        if state || self.memory.places[src.index()].row.is_none() {
            return false;
        }
        if self.memory.places[dst.index()].row.is_some() {
            return false;
        }
        if *kind(src) == BufferKind::Temp && self.memory.life.last[src.index()] == self.now {
            return true;
        }
        if *kind(src) != BufferKind::State
            || self.memory.life.next_read(src, self.now).is_some_and(|_| reads(rest, src))
        {
            return false;
        }
        returns(src, dst, rest)
    }

    /// The state in HBM whose memory `dst` may have, a copy of it or of what has its memory: it becomes the state again.
    fn may_share(&self, src: BufId, dst: BufId, rest: &[Step]) -> Option<BufId> {
        let kind = |b: BufId| &self.plan.buffers[b.index()].kind;
        let state = match self.memory.places[src.index()].lent {
            Some(state) if self.memory.life.last[src.index()] == self.now => state,
            _ => src,
        };
        let free = *kind(state) == BufferKind::FarState
            && *kind(dst) == BufferKind::Temp
            && self.memory.places[dst.index()].granule.is_none()
            && self.memory.places[dst.index()].row.is_none()
            && self.memory.granules_of(dst) <= self.memory.granules_of(state)
            && self.memory.may_lie(dst, &self.memory.places[state.index()])
            && !reads(rest, state)
            && returns(state, dst, rest);
        free.then_some(state)
    }

    /// Whether `dst`, a copy of an array in HBM that is not read again, may take over its memory.
    fn may_inherit(&self, src: BufId, dst: BufId) -> bool {
        let kind = |b: BufId| &self.plan.buffers[b.index()].kind;
        let (s, d) = (&self.memory.places[src.index()], &self.memory.places[dst.index()]);
        let own = matches!(kind(src), BufferKind::Temp | BufferKind::FarState) && !s.granule_kept && s.row.is_none();
        (own || self.plan.donated.contains(&src))
            && matches!(kind(dst), BufferKind::Temp | BufferKind::FarState)
            && self.memory.life.last[src.index()] == self.now
            && (s.in_hbm && s.granule.is_some() && s.pinned == 0)
            && (d.row.is_none() && d.granule.is_none() && !d.granule_kept)
            && self.plan.buffers[src.index()].layout == self.plan.buffers[dst.index()].layout
            && self.memory.granules_of(src) == self.memory.granules_of(dst)
            && self.memory.may_lie(dst, s)
    }

    /// Whether an array has no contents: nothing ever writes it.
    fn is_nothing(&self, buf: BufId) -> bool {
        self.plan.buffers[buf.index()].kind == BufferKind::Temp && self.memory.life.writes[buf.index()].is_empty()
    }

    pub(super) fn copy(&mut self, src: BufId, dst: BufId, rest: &[Step]) -> Result<(), CompileError> {
        let mut out = Vec::new();
        let (s, d) = (&self.memory.places[src.index()], &self.memory.places[dst.index()]);
        if s.row.is_some() && s.row == d.row {
            // Updated in place: the borrower gives the rows back.
            self.memory.settle(src, &mut out);
            self.memory.places[src.index()].row = None;
            self.memory.places[src.index()].borrowed = false;
            self.memory.places[dst.index()].borrowed = false;
            self.written(dst, &mut out);
            self.copies(out);
            return Ok(());
        }
        if self.may_take_over(src, dst, rest) {
            self.memory.settle(src, &mut out);
            let state = self.plan.buffers[src.index()].kind == BufferKind::State;
            let p = &mut self.memory.places[src.index()];
            let (row, borrowed) = (p.row, p.borrowed || state);
            if !state {
                p.row = None;
                p.borrowed = false;
            }
            let d = &mut self.memory.places[dst.index()];
            (d.row, d.borrowed, d.in_hbm) = (row, borrowed, false);
            self.copies(out);
            return Ok(());
        }
        if let Some(state) = self.may_share(src, dst, rest) {
            self.in_hbm(src, Use::Read, &mut out)?;
            let granule = self.memory.granule(src)?;
            let p = &mut self.memory.places[dst.index()];
            (p.granule, p.granule_kept, p.in_hbm, p.lent) = (Some(granule), true, true, Some(state));
            self.copies(out);
            return Ok(());
        }
        let kind = |b: BufId| &self.plan.buffers[b.index()].kind;
        let last = self.memory.life.last[src.index()] == self.now && !self.is_nothing(src);
        if *kind(dst) == BufferKind::FarState && *kind(src) == BufferKind::Temp && last {
            self.in_hbm(src, Use::Read, &mut out)?;
            self.memory.release(src, &mut out);
        }
        if self.may_inherit(src, dst) {
            self.memory.release(src, &mut out);
            let s = &mut self.memory.places[src.index()];
            let (granule, kept) = if s.granule_kept { (s.granule, true) } else { (s.granule.take(), false) };
            s.in_hbm = kept;
            let d = &mut self.memory.places[dst.index()];
            (d.granule, d.granule_kept, d.in_hbm) = (granule, kept, true);
            self.copies(out);
            return Ok(());
        }
        let streamed = self.plan.residency.streamed.contains(self.memory.name_of(dst));
        // What is copied whole is there twice, and copies within vector memory go through registers.
        let most = self.plan.residency.largest.min(self.memory.chip.vmem.bytes / COPIED.1 * COPIED.0);
        let large = self.memory.bytes_of(dst) > most || streamed;
        let places = &self.memory.places;
        let kind = &self.plan.buffers[dst.index()].kind;
        let far = *kind == BufferKind::FarState;
        let nothing = self.is_nothing(src);
        if far || large && places[dst.index()].row.is_none() && *kind != BufferKind::State {
            if !nothing {
                self.in_hbm(src, Use::Read, &mut out)?;
            }
            self.in_hbm(dst, Use::Write, &mut out)?;
            self.copies(out);
            if nothing {
                return Ok(());
            }
            let (from, to) = (self.memory.granule(src)?, self.memory.granule(dst)?);
            let bytes = self.memory.bytes_of(dst);
            if from != to && bytes > 0 {
                self.actions.push(Action::Move { from: Spot::Hbm(from), to: Spot::Hbm(to), bytes });
            }
            return Ok(());
        }
        self.resident(dst, false, &[src, dst], &mut out)?;
        let row = self.row(dst)?;
        self.memory.settle(src, &mut out);
        self.memory.settle(dst, &mut out);
        self.written(dst, &mut out);
        self.copies(out);
        let bytes = self.memory.bytes_of(dst);
        if bytes > 0 && !nothing {
            let from = self.spot(src)?;
            self.actions.push(Action::Move { from, to: Spot::Vmem(row), bytes });
        }
        Ok(())
    }
}
