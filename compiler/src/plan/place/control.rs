//! Loops and branches: what is in vector memory stays at one place in every iteration and branch.

use super::Placer;
use super::reach::{Near, buffers_of, sliced_in, written_in};
use crate::plan::action::Action;
use crate::plan::step::{Arg, BufferKind, Step, Unit, Use, Word};
use crate::plan::view::BufId;
use systole_hlo::error::CompileError;

/// Rounds of a loop from which on an array's copy in each of them counts for more than that the first is not hidden: of arrays that
/// come within the latency of memory, and of others.
const FEW_TURNS: u64 = 4;
const MANY_TURNS: u64 = 16;
/// Rounds of loops of which nobody knows how many they are.
const UNKNOWN_TURNS: u64 = 8;

impl<'a> Placer<'a> {
    /// Waits for all copies, and pins what is resident: its place is the same in every iteration or branch.
    pub(super) fn enter(&mut self, inner: &[&'a [Step]]) -> Result<Vec<BufId>, CompileError> {
        self.inside += 1;
        let mut out = Vec::new();
        let mut used = Vec::new();
        for s in inner {
            buffers_of(s, &mut used);
        }
        used.sort_unstable();
        used.dedup();
        let all: Vec<BufId> = self.memory.places.ids().collect();
        let total: u64 = used.iter().map(|b| self.memory.rows_of(*b)).sum();
        let crowded = total > self.memory.vmem.room().1;
        self.memory.sliced.extend(sliced_in(inner));
        for &b in &all {
            self.memory.settle(b, &mut out);
            let resident = self.memory.places[b.index()].row.is_some();
            if crowded && resident && used.binary_search(&b).is_err() && self.memory.places[b.index()].pinned == 0 {
                self.memory.put_out(b, self.now, &mut out)?;
                self.memory.settle(b, &mut out);
            }
        }
        // Loop state that is not there yet gets its place now.
        for &b in &used {
            let outside = self.memory.life.writes[b.index()].first().is_some_and(|w| *w < self.now);
            let kind = &self.plan.buffers[b.index()].kind;
            if outside && *kind == BufferKind::State {
                self.resident(b, true, &used, &mut out)?;
                self.memory.settle(b, &mut out);
            } else if *kind == BufferKind::FarState {
                self.in_hbm(b, Use::Update, &mut out)?;
            }
        }
        // What a loop only reads is kept; what it makes anew each time round, part by part, stays where its parts are written.
        let mut written = Vec::new();
        inner.iter().for_each(|s| written_in(s, &mut written));
        for &b in self.plan.residency.kept.iter().filter(|b| used.binary_search(b).is_ok() && !written.contains(b)) {
            let there = self.memory.places[b.index()].in_hbm;
            if there && self.memory.rows_of(b) <= self.memory.vmem.room().0 / 2 {
                self.resident(b, true, &used, &mut out)?;
                self.memory.settle(b, &mut out);
            }
        }
        self.copies(out);
        let mut pinned = Vec::new();
        for &b in &all {
            let p = &mut self.memory.places[b.index()];
            if p.row.is_some() {
                p.pinned += 1;
                pinned.push(b);
            }
        }
        Ok(pinned)
    }

    /// Back to the memory that [`Placer::enter`] left: everything else goes, and nothing of it is needed any more.
    fn restore(&mut self, pinned: &[BufId]) -> Result<(), CompileError> {
        let mut out = Vec::new();
        for b in self.memory.places.ids() {
            self.memory.settle(b, &mut out);
            if self.memory.places[b.index()].row.is_some() && pinned.binary_search(&b).is_err() {
                self.memory.release(b, &mut out);
            }
        }
        self.copies(out);
        Ok(())
    }

    /// Notes the large arrays that a call within a loop takes parts of, and that come from HBM for it: nothing keeps them till
    /// the next time.
    pub(super) fn note_reloads(&mut self, args: &[Arg]) {
        for a in args {
            let Arg::Array { buf, usage, unit, dynamic, .. } = a else { continue };
            let p = &self.memory.places[buf.index()];
            let comes = p.in_hbm && p.pinned == 0 && (p.row.is_none() || p.incoming.is_some());
            let part = *unit != Unit::Granules && *usage != Use::Write && !dynamic.is_empty();
            if self.inside > 0 && comes && part && self.memory.is_large(*buf) {
                self.reloaded.push(*buf);
            }
        }
    }

    /// Which of the buffers have their contents in HBM too.
    pub(super) fn in_hbm_flags(&self, pinned: &[BufId]) -> Vec<bool> {
        pinned.iter().map(|b| self.memory.places[b.index()].in_hbm).collect()
    }

    /// Takes back what code that may not run says about HBM.
    pub(super) fn reset_in_hbm(&mut self, pinned: &[BufId], flags: &[bool]) {
        for (b, flag) in pinned.iter().zip(flags) {
            self.memory.places[b.index()].in_hbm &= flag;
        }
    }

    pub(super) fn unpin(&mut self, pinned: &[BufId]) {
        self.inside -= 1;
        let mut out = Vec::new();
        for &b in pinned {
            self.memory.places[b.index()].pinned -= 1;
            if self.memory.places[b.index()].pinned == 0 && self.memory.life.last[b.index()] < self.now {
                self.memory.release(b, &mut out);
                self.memory.give_granules(b, &mut out);
            }
        }
        self.copies(out);
    }

    /// Brings in, before a loop, the arrays that its kernels read in vector memory and nothing in it writes: otherwise they would
    /// come in every time round. That is where there is room for all that the loop has to do with; large arrays, whose copies the
    /// first round could hide, only for many rounds.
    fn bring_in(&mut self, inner: &[&'a [Step]], turns: Option<u64>) -> Result<(), CompileError> {
        let turns = turns.unwrap_or(UNKNOWN_TURNS);
        let (mut used, mut written) = (Vec::new(), Vec::new());
        let mut near = Near::default();
        for s in inner {
            buffers_of(s, &mut used);
            written_in(s, &mut written);
            near.add(s);
        }
        used.sort_unstable();
        used.dedup();
        let scratch = near.kernels.iter().map(|&k| u64::from(self.scratch_rows(k))).max().unwrap_or(0);
        let needed = used.iter().map(|b| self.memory.rows_of(*b)).sum::<u64>() + scratch;
        if turns < FEW_TURNS || needed > self.memory.vmem.room().1 / 4 * 3 {
            return Ok(());
        }
        let chip = self.memory.chip;
        let short = chip.hbm_latency_cycles() as f64 * chip.hbm_bytes_per_cycle();
        let mut out = Vec::new();
        for b in near.arrays(|b| self.memory.is_large(b)) {
            let p = &self.memory.places[b.index()];
            let comes = p.in_hbm && p.row.is_none() && !written.contains(&b);
            if !comes || turns < MANY_TURNS && self.memory.bytes_of(b) as f64 > short {
                continue;
            }
            if self.memory.semaphores_free() < 2 {
                near.read.keys().for_each(|b| self.memory.settle(*b, &mut out));
            }
            self.resident(b, true, &used, &mut out)?;
        }
        self.copies(out);
        Ok(())
    }

    pub(super) fn while_(
        &mut self,
        (head, cond, body): (&'a [Step], Word, &'a [Step]),
        (turns, shared, op): (Option<u64>, bool, u32),
    ) -> Result<(), CompileError> {
        self.bring_in(&[head, body], turns)?;
        let pinned = self.enter(&[head, body])?;
        self.now += 1;
        // Whether HBM copies are valid must not depend on the iteration: what the loop writes is not in HBM.
        let mut used = Vec::new();
        written_in(head, &mut used);
        written_in(body, &mut used);
        for b in &used {
            if self.memory.places[b.index()].row.is_some() {
                self.memory.places[b.index()].in_hbm = false;
            }
        }
        let in_hbm = self.in_hbm_flags(&pinned);
        let (apart, rounds) = (self.apart, self.memory.rounds);
        self.apart |= shared;
        self.memory.rounds = rounds.saturating_mul(turns.unwrap_or(UNKNOWN_TURNS));
        let mut head = self.inner(head)?;
        if turns.is_none() {
            // Whether it goes on may have to be assumed, by its name.
            head.push(Action::Mark(op));
        }
        let body = self.branch(body, &pinned)?;
        (self.apart, self.memory.rounds) = (apart, rounds);
        if shared {
            self.note_shared_loop((&head, &body), &used, op);
        }
        self.actions.push(Action::While { head, cond, body, shared });
        self.reset_in_hbm(&pinned, &in_hbm);
        self.unpin(&pinned);
        self.finish_step();
        Ok(())
    }

    /// What steps become that leave memory as they found it.
    fn branch(&mut self, steps: &'a [Step], pinned: &[BufId]) -> Result<Vec<Action>, CompileError> {
        let outer = std::mem::take(&mut self.actions);
        let done = self.steps(steps).and_then(|()| self.restore(pinned));
        let inner = std::mem::replace(&mut self.actions, outer);
        done.map(|()| inner)
    }

    pub(super) fn switch(&mut self, index: Word, branches: &'a [Vec<Step>]) -> Result<(), CompileError> {
        let inner: Vec<&'a [Step]> = branches.iter().map(Vec::as_slice).collect();
        let mut pinned = self.enter(&inner)?;
        let mut used = Vec::new();
        for b in branches {
            written_in(b, &mut used);
        }
        // Results of the branches are kept at one place: taken before the branches.
        let mut out = Vec::new();
        for &b in &used {
            let is_slot = self.plan.buffers[b.index()].kind == BufferKind::State;
            if is_slot && self.memory.places[b.index()].row.is_none() {
                self.resident(b, false, &used, &mut out)?;
                self.memory.places[b.index()].pinned += 1;
                pinned.push(b);
            }
        }
        self.copies(out);
        pinned.sort_unstable();
        for b in &used {
            if self.memory.places[b.index()].row.is_some() {
                self.memory.places[b.index()].in_hbm = false;
            }
        }
        let mut placed = Vec::new();
        for b in branches {
            let in_hbm = self.in_hbm_flags(&pinned);
            self.now += 1;
            placed.push(self.branch(b, &pinned)?);
            self.reset_in_hbm(&pinned, &in_hbm);
        }
        self.actions.push(Action::Switch { index, branches: placed });
        self.unpin(&pinned);
        Ok(())
    }
}
