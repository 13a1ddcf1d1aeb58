//! Cycles in which nothing issues: what they are counted for, and bundles that can never issue.

use super::code::*;
use super::memo;
use super::run::{Core, Step};
use crate::fault::FaultKind;
use crate::stats::{Cause, SLOTS};
use crate::unit::mxu::MxuTiming;

impl Core<'_> {
    /// Accounts for the cycles until `t` in which nothing issued.
    pub(super) fn stalled(&mut self, head: &Head, t: Packed) -> Step<()> {
        if t == NEVER {
            return Err(self.never(head));
        }
        let (from, to) = (self.next, t >> 4);
        let cause = Cause::from_code(t & 15);
        self.stats.stall(self.pc as usize, cause, to - from);
        self.waited_for_others(cause, from, to);
        if let Some(r) = &mut self.recorder {
            r.waits.push((self.pc, cause, (to - from) as u32));
        }
        if self.watched {
            self.observer.wait(self.pc, cause, from, to);
        }
        self.mxus_stalled(cause, from, to);
        let mut long = head.units & self.l.code.long_units;
        while long != 0 {
            let slot = SLOTS[long.trailing_zeros() as usize] as usize;
            long &= long - 1;
            let last = self.l.code.resources.group(slot, self.group_units[slot]);
            let overlap = to.min(self.ready[last] >> 4).saturating_sub(from);
            self.stats.group_overlap(slot, cause, overlap);
            if let Some(r) = &mut self.recorder {
                r.overlaps.push((slot as u8, cause, overlap as u32));
            }
        }
        Ok(())
    }

    /// Counts what of a stall matrix units are idle: mostly all of them alike.
    fn mxus_stalled(&mut self, cause: Cause, from: u64, to: u64) {
        let used = self.l.code.mxus_used;
        if used == 0 {
            return;
        }
        let idle = |m: &MxuTiming| to - from - m.overlap(from, to);
        let one = &self.mxus[used.trailing_zeros() as usize];
        let first = idle(one);
        let (mut others, mut alike) = (used & (used - 1), true);
        while others != 0 && alike {
            let other = &self.mxus[others.trailing_zeros() as usize];
            alike = other.streams_like(one) || idle(other) == first;
            others &= others - 1;
        }
        if alike {
            self.stats.mxus_stall(cause, first);
            if let Some(r) = &mut self.recorder {
                r.mxu_stalls.push((memo::ALL, cause, first as u32));
            }
            return;
        }
        for u in 0..self.mxus.len() {
            if used >> u & 1 == 0 {
                continue;
            }
            let idle = to - from - self.mxus[u].overlap(from, to);
            self.stats.mxu_stall(u, cause, idle);
            if let Some(r) = &mut self.recorder {
                r.mxu_stalls.push((u as u8, cause, idle as u32));
            }
        }
    }

    /// The fault of a bundle that can never issue.
    fn never(&self, head: &Head) -> FaultKind {
        let r = self.l.code.resources;
        for (u, m) in self.mxus.iter().enumerate() {
            let reads = &self.l.code.reads[head.reads as usize..head.reads as usize + head.nreads as usize];
            let waits = |q: usize| {
                let resource = r.mxu(u, q);
                self.ready[resource] == NEVER && reads.as_flattened().contains(&(resource as u16))
            };
            if waits(MXU_POP) {
                return if m.empty() {
                    FaultKind::EmptyFifo { unit: format!("mxu{u}") }
                } else {
                    FaultKind::Deadlock { waits_for: format!("a result of mxu{u} that is stuck behind a full queue") }
                };
            }
            if waits(MXU_PUSH) || waits(MXU_STAGE) {
                let waits_for = format!("room in mxu{u}: its FIFO and queues are full and only later instructions pop");
                return FaultKind::Deadlock { waits_for };
            }
        }
        FaultKind::Deadlock { waits_for: "matrix-unit rows that are stuck behind a full FIFO".to_string() }
    }
}
