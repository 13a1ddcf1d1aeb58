//! Instructions that touch more than registers: what they wait for at issue and what they start.

use super::code::*;
use super::remote::Blocked;
use super::run::{Core, Effect, SCALARS};
use super::trace::{Event, What};
use crate::fault::FaultKind;
use crate::options::{DmaEvent, Mode};
use crate::stats::{Cause, SLOTS};
use crate::unit::dma::{self, By, Geometry, Memories, Transfer, later, memory_name};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{Effect as IsaEffect, Inst, Space};

type Step<T> = Result<T, FaultKind>;

impl Core<'_> {
    fn specials(&self, head: &Head) -> std::ops::Range<usize> {
        head.specials as usize..head.specials as usize + head.nspecials as usize
    }

    pub(super) fn scalar_value(&self, reg: u8) -> (i32, bool) {
        let r = reg as usize & (SCALARS - 1);
        (self.scalars[r], self.known >> r & 1 == 1)
    }

    /// The latest of `t` and what the bundle's special operations wait for.
    pub(super) fn gate(&mut self, head: &Head, mut t: Packed) -> Step<Packed> {
        let mut tests = false;
        self.due.message = (0, 0);
        for i in self.specials(head) {
            match self.l.code.specials[i] {
                Special::Drain { unit, row } => {
                    let row = self.scalar_value(row).0.max(0) as u32;
                    t = t.max(self.mxus[unit as usize].rows_ready(row));
                }
                Special::Wait { sem, bytes, .. } => t = t.max(self.wait_ready(sem, bytes as u64)?),
                Special::WaitS { sem, reg, .. } => {
                    let bytes = self.wait_bytes(sem, reg);
                    t = t.max(self.wait_ready(sem, bytes)?);
                }
                Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::PushAcc { .. } => {}
                Special::Pop { .. } | Special::TransposePush { .. } | Special::DmaStart { .. } => {}
                Special::DmaRemote { .. } | Special::Signal { .. } | Special::Group { .. } => {}
                Special::Cores { .. } => t = t.max(self.cores_ready(t)?),
                Special::Test => tests = true,
            }
        }
        if tests && self.timed() {
            self.look(t >> 4)?;
        }
        Ok(t)
    }

    /// When a bundle may issue, but for what it waits for from outside the core.
    pub(super) fn earliest(&self, head: &Head) -> Packed {
        let code = &self.l.code;
        let reads = &code.reads[head.reads as usize..][..head.nreads as usize];
        let t = reads.as_flattened().iter().fold(self.floor, |t, &r| t.max(self.ready[r as usize & (RESOURCES - 1)]));
        self.specials(head).fold(t, |t, i| {
            let Special::Drain { unit, row } = code.specials[i] else { return t };
            t.max(self.mxus[unit as usize].rows_ready(self.scalar_value(row).0.max(0) as u32))
        })
    }

    /// When the transfers that a bundle waits for are complete.
    pub(super) fn wait_time(&mut self, head: &Head) -> Step<Packed> {
        let mut t = 0;
        self.due.message = (0, 0);
        for i in self.specials(head) {
            t = t.max(match self.l.code.specials[i] {
                Special::Wait { sem, bytes, .. } => self.wait_ready(sem, bytes as u64)?,
                Special::WaitS { sem, reg, .. } => {
                    let bytes = self.wait_bytes(sem, reg);
                    self.wait_ready(sem, bytes)?
                }
                Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::PushAcc { .. } => 0,
                Special::Pop { .. } | Special::Drain { .. } | Special::TransposePush { .. } => 0,
                Special::Group { .. } | Special::DmaStart { .. } | Special::DmaRemote { .. } => 0,
                Special::Signal { .. } | Special::Cores { .. } | Special::Test => 0,
            });
        }
        Ok(t)
    }

    /// Bytes that a `dma.waits` takes; all there will be if its register is unknown.
    fn wait_bytes(&self, sem: u8, reg: u8) -> u64 {
        match self.scalar_value(reg) {
            (bytes, true) => bytes as u32 as u64,
            (_, false) => self.semaphores.total(sem as usize),
        }
    }

    fn wait_ready(&mut self, sem: u8, bytes: u64) -> Step<Packed> {
        match self.semaphores.ready(sem as usize, bytes) {
            Ok((at, by)) => {
                match by {
                    Some(By::Copy(blame)) => self.due.copy = later(self.due.copy, (at, blame)),
                    Some(By::Link(sent)) => self.due.message = self.due.message.max((at, sent)),
                    None => {}
                }
                let cause = by.map_or(Cause::None, |by| by.cause(self.blame));
                Ok(at << 4 | cause as u64)
            }
            Err(have) => Err(self.blocked(sem, bytes, have)),
        }
    }

    /// Nothing issues from a cycle on until another, because of the wait that was looked at last: what of it other devices
    /// took to send.
    pub(super) fn waited_for_others(&mut self, cause: Cause, from: u64, until: u64) {
        if cause == Cause::Link {
            self.stats.peers(self.due.message.1.min(until).saturating_sub(from));
        }
    }

    /// A wait that cannot be satisfied by what is under way: in a pod, others may still send.
    fn blocked(&mut self, sem: u8, bytes: u64, have: u64) -> FaultKind {
        let waits_for = match &mut self.remote {
            // No fault yet: where it becomes one the pod says who waits for whom.
            Some(r) => {
                r.blocked = Some(Blocked::Semaphore { semaphore: sem as u32, need: bytes, have });
                String::new()
            }
            None => format!("{bytes} bytes on semaphore {sem}, which will hold no more than {have}"),
        };
        FaultKind::Deadlock { waits_for }
    }

    /// Takes the bytes of the bundle's waits; transfers that are complete by now take effect.
    pub(super) fn take_waits(&mut self, head: &Head) {
        let (at, blame) = std::mem::take(&mut self.due.copy);
        if at == self.now {
            self.stats.path(blame.relative(self.blame));
            self.blame = blame;
        }
        for i in self.specials(head) {
            let (sem, bytes, latency) = match self.l.code.specials[i] {
                Special::Wait { sem, bytes, latency } => (sem, bytes as u64, latency),
                Special::WaitS { sem, reg, latency } => (sem, self.wait_bytes(sem, reg), latency),
                Special::Cores { share, latency } => {
                    self.pass_cores(share, latency);
                    continue;
                }
                Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::PushAcc { .. } => {
                    continue;
                }
                Special::Pop { .. } | Special::Drain { .. } | Special::TransposePush { .. } => continue,
                Special::Group { .. } | Special::DmaStart { .. } | Special::DmaRemote { .. } => continue,
                Special::Signal { .. } | Special::Test => continue,
            };
            self.note(What::Wait { sem, bytes });
            self.semaphores.take(sem as usize, bytes, self.now);
            if let Some(r) = &mut self.race {
                r.wait(sem as u32, bytes);
            }
            self.floor = self.floor.max((self.now + latency.max(1) as u64) << 4 | Cause::Sync as u64);
            self.apply_effects(self.now);
        }
    }

    /// Tells a trace what happens outside the core.
    #[inline(always)]
    fn note(&mut self, what: What) {
        if let Some(skipper) = &mut self.skipper
            && let Some(trace) = &mut skipper.trace
        {
            trace.events.push(Event { at: self.now, what });
        }
    }

    /// Performs the transfers that end by cycle `until`, in order of completion.
    pub(super) fn apply_effects(&mut self, until: u64) {
        if self.effects.is_empty() {
            return;
        }
        let mut due: Vec<Effect> = self.effects.iter().copied().filter(|e| e.end <= until).collect();
        self.effects.retain(|e| e.end > until);
        due.sort_by_key(|e| e.end);
        for e in due {
            let g = &self.l.geometry[e.desc as usize];
            match self.values.as_deref_mut() {
                Some(v) => {
                    let mut m = Memories { hbm: self.hbm, vmem: &mut v.vmem, smem: self.smem };
                    dma::perform(g, e.src, e.dst, &mut m);
                }
                None => dma::perform_known(g, e.src, e.dst, e.known, self.hbm, self.smem),
            }
        }
    }

    /// Starts what the bundle starts at cycle `now`.
    pub(super) fn start_specials<const TIMING: bool>(&mut self, head: &Head) -> Step<()> {
        let l = self.l;
        for &special in &l.code.specials[self.specials(head)] {
            match special {
                Special::DmaStart { start } => self.start_dma(start)?,
                Special::DmaRemote { start } => self.start_remote(start)?,
                Special::Signal { device, sem, count } => self.signal(device, sem, count)?,
                Special::Stage { .. }
                | Special::Latch { .. }
                | Special::Push { .. }
                | Special::PushAcc { .. }
                | Special::Pop { .. }
                | Special::Drain { .. }
                | Special::TransposePush { .. }
                | Special::Group { .. }
                | Special::Wait { .. }
                | Special::WaitS { .. }
                | Special::Cores { .. }
                | Special::Test => {
                    if TIMING {
                        self.start_unit(special);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the units of a slot group that are free first.
    fn keep_units(&mut self, group: usize, count: usize, interval: u64) {
        let (now, last) = (self.now, self.group_units[group]);
        let first = self.l.code.resources.group(group, 1);
        let free = &mut self.ready[first..first + last];
        let until = free[last - 1] >> 4;
        free[..count.min(last)].fill((now + interval) << 4 | Cause::Slot as u64);
        free.sort_unstable();
        self.shared_until = self.shared_until.max(now + interval);
        self.stats.group_busy[group] += (now + interval).saturating_sub(until.max(now + 1)) as i64;
    }

    /// The cycle of a bundle is counted for the groups that it uses, but earlier instructions may be using them too.
    #[cold]
    pub(super) fn share_units(&mut self, head: &Head) {
        for (unit, slot) in SLOTS.iter().enumerate().take(SLOT_UNITS) {
            let group = *slot as usize;
            if self.l.code.shared[group] && head.units >> unit & 1 == 1 {
                let last = self.l.code.resources.group(group, self.group_units[group]);
                self.stats.group_busy[group] -= (self.ready[last] >> 4 > self.now) as i64;
            }
        }
    }

    /// Starts what a bundle starts at cycle `now` that starts no transfer and does not signal.
    #[inline(always)]
    pub(super) fn start_units(&mut self, head: &Head) {
        let l = self.l;
        l.code.specials(head).iter().for_each(|&special| self.start_unit(special));
    }

    #[inline(always)]
    fn start_unit(&mut self, special: Special) {
        let now = self.now;
        let r = self.l.code.resources;
        match special {
            Special::Stage { unit, d16 } => {
                self.ready[r.mxu(unit as usize, MXU_STAGE)] = self.mxus[unit as usize].stage(now, d16);
            }
            Special::Latch { unit } => self.mxus[unit as usize].latch(now),
            Special::Push { unit, d16 } => {
                let (push, pop) = self.mxus[unit as usize].push(now, d16);
                self.ready[r.mxu(unit as usize, MXU_PUSH)] = push;
                if let Some(pop) = pop {
                    self.ready[r.mxu(unit as usize, MXU_POP)] = pop;
                }
            }
            Special::PushAcc { unit, d16, row } => {
                let row = self.scalar_value(row).0.max(0) as u32;
                self.ready[r.mxu(unit as usize, MXU_PUSH)] = self.mxus[unit as usize].push_rows(now, d16, row);
            }
            Special::Pop { unit, retires: true } => {
                let m = &mut self.mxus[unit as usize];
                if m.pop(now) {
                    let gate = m.gate();
                    self.ready[r.mxu(unit as usize, MXU_PUSH)] = gate.push;
                    self.ready[r.mxu(unit as usize, MXU_STAGE)] = gate.stage;
                }
                self.ready[r.mxu(unit as usize, MXU_POP)] = m.pop_ready();
            }
            Special::TransposePush { unit, latency } => {
                let at = &mut self.ready[r.xlu(unit as usize)];
                *at = (*at).max((now + latency.max(1) as u64) << 4 | Cause::Register as u64);
            }
            Special::Group { group, count, interval } => {
                self.keep_units(group as usize, count as usize, interval as u64);
            }
            Special::Pop { retires: false, .. } | Special::Drain { .. } => {}
            Special::Wait { .. } | Special::WaitS { .. } | Special::DmaStart { .. } => {}
            Special::DmaRemote { .. } | Special::Signal { .. } | Special::Cores { .. } | Special::Test => {}
        }
    }

    /// Byte address of one side from its base and offset registers, and whether it is known.
    pub(super) fn address(&self, space: Space, base: u8, offset: u8) -> (i64, bool) {
        let ((base, base_known), (offset, offset_known)) = (self.scalar_value(base), self.scalar_value(offset));
        (self.address_at(space, base, offset), base_known && offset_known)
    }

    /// Byte address of one side from its base, in the space's units, and its offset in bytes.
    #[inline]
    pub(super) fn address_at(&self, space: Space, base: i32, offset: i32) -> i64 {
        let unit = match space {
            Space::Hbm => HBM_GRANULE as i64,
            Space::Vmem => self.l.chip.row_bytes() as i64,
            Space::Smem => 4,
        };
        base as u32 as i64 * unit + offset as i64
    }

    /// Bytes of a memory.
    #[inline]
    pub(super) fn bytes_of(&self, space: Space) -> u64 {
        match space {
            Space::Hbm => self.hbm.size(),
            Space::Vmem => self.l.chip.vmem.bytes,
            Space::Smem => self.l.chip.smem.bytes,
        }
    }

    /// Checks a side's range. In an unknown address the registers that are not known count as zero, and it is clamped
    /// to the memory.
    pub(super) fn range(&self, space: Space, side: &dma::Side, at: (i64, bool)) -> Step<i64> {
        let size = self.bytes_of(space);
        if !at.1 {
            return Ok(at.0.min(size as i64 - side.hi).max(-side.lo));
        }
        let (lo, hi) = (at.0 + side.lo, at.0 + side.hi);
        if lo < 0 || hi > size as i64 {
            return Err(FaultKind::OutOfRange {
                memory: memory_name(space),
                unit: "byte",
                first: lo,
                last: hi - 1,
                size,
            });
        }
        Ok(at.0)
    }

    pub(super) fn start_dma(&mut self, start: u32) -> Step<()> {
        let s = self.l.code.starts[start as usize];
        let g: &Geometry = &self.l.geometry[s.desc as usize];
        let from = self.address(g.src, s.src, s.src_offset);
        let to = self.address(g.dst, s.dst, s.dst_offset);
        let src = self.range(g.src, &g.from, from)?;
        let dst = self.range(g.dst, &g.to, to)?;
        self.begin_dma(&s, (src, from.1), (dst, to.1))
    }

    /// Starts a transfer between byte addresses that are in range, each known or not.
    #[inline(always)]
    pub(super) fn begin_dma(&mut self, s: &Start, from: (i64, bool), to: (i64, bool)) -> Step<()> {
        let g: &Geometry = &self.l.geometry[s.desc as usize];
        let (src, dst) = (from.0, to.0);
        self.note(What::Transfer { desc: s.desc, sem: s.sem, src, dst, known: from.1 && to.1 });
        if let Some(race) = &mut self.race {
            let t = Transfer { desc: s.desc, sem: s.sem as u32, bundle: self.pc, bytes: g.bytes, src, dst, peer: None };
            if let Some(c) = race.start(&self.l.geometry, t) {
                return Err(c.fault(self.l, "DMA over", c.memory(&self.l.geometry)));
            }
        }
        self.note_hbm(s.desc, src, dst);
        let mut end = 0;
        let mut by = By::Copy(self.blame);
        if self.options.mode != Mode::NumericOnly {
            let slot = self.dma.start(g, src, dst, (self.now, self.blame));
            (end, by) = (slot.end, By::Copy(slot.blame));
            self.stats.transfer(slot.moved);
            if self.events {
                self.observer.dma(&DmaEvent {
                    bundle: self.pc,
                    desc: s.desc,
                    semaphore: s.sem as u32,
                    bytes: g.bytes,
                    traffic: slot.moved,
                    issued: self.now,
                    start: slot.begin,
                    end,
                });
            }
        }
        self.semaphores.add(s.sem as usize, end, g.bytes, by);
        let moves_known = g.dst != Space::Vmem && g.bytes > 0;
        if self.values.is_some() || moves_known {
            if !to.1 {
                // It may write anywhere; in HBM, anywhere in the array that its base points into.
                match g.dst {
                    Space::Smem => self.smem.forget_all(),
                    Space::Hbm if self.scalar_value(s.dst).1 => {
                        let (start, end) = self.l.region(dst.max(0) as u64);
                        self.hbm.forget(start, end);
                    }
                    Space::Hbm => self.hbm.forget(0, self.hbm.size()),
                    Space::Vmem => {}
                }
            }
            self.effects.push(Effect { desc: s.desc, src, dst, end, known: from.1 && to.1 });
        }
        Ok(())
    }

    /// The end of the program: all semaphores must be back at zero.
    pub(super) fn halt(&mut self) -> Step<()> {
        let left = self.semaphores.unbalanced();
        // In a pod, messages may still be on their way: its end looks again.
        if !left.is_empty() && self.remote.is_none() {
            return Err(FaultKind::Unbalanced { semaphores: left });
        }
        self.apply_effects(u64::MAX);
        Ok(())
    }
}

/// Whether a fault of that kind is about the instruction.
pub(super) fn concerns(i: &Inst, kind: &FaultKind) -> bool {
    let effect = i.op.info().effect;
    let vector_memory = matches!(effect, IsaEffect::VmemLoad | IsaEffect::VmemStore);
    let scalar_memory = matches!(effect, IsaEffect::SmemLoad | IsaEffect::SmemStore);
    match kind {
        FaultKind::OutOfRange { memory, unit, .. } => match (*memory, *unit) {
            (_, "byte") => matches!(effect, IsaEffect::DmaStart | IsaEffect::DmaRemote),
            ("VMEM", _) => vector_memory,
            ("SMEM", _) => scalar_memory,
            _ => matches!(effect, IsaEffect::MxuAccumulate | IsaEffect::MxuDrain),
        },
        FaultKind::Race { access, memory, .. } => match (*access, *memory) {
            ("DMA over", _) => matches!(effect, IsaEffect::DmaStart | IsaEffect::DmaRemote),
            ("store to", "VMEM") => effect == IsaEffect::VmemStore,
            ("load from", "VMEM") => effect == IsaEffect::VmemLoad,
            _ => scalar_memory,
        },
        FaultKind::Deadlock { waits_for } if waits_for.contains("semaphore") => effect == IsaEffect::DmaWait,
        FaultKind::Deadlock { waits_for } if waits_for.contains("core") => effect == IsaEffect::Cores,
        FaultKind::Deadlock { .. } => matches!(
            effect,
            IsaEffect::MxuPush
                | IsaEffect::MxuStage
                | IsaEffect::MxuAccumulate
                | IsaEffect::MxuPop
                | IsaEffect::MxuDrain
        ),
        FaultKind::EmptyFifo { unit } if unit.starts_with("mxu") => effect == IsaEffect::MxuPop,
        FaultKind::EmptyFifo { .. } => effect == IsaEffect::XluPop,
        FaultKind::Protocol { .. } => matches!(effect, IsaEffect::XluPush | IsaEffect::MxuStage),
        FaultKind::Trap { .. } => effect == IsaEffect::Trap,
        FaultKind::UnknownBranch { .. }
        | FaultKind::CallDepth { .. }
        | FaultKind::ReturnWithoutCall
        | FaultKind::Host { .. } => effect == IsaEffect::Control,
        FaultKind::LinkDown { .. } => effect == IsaEffect::DmaRemote,
        FaultKind::CoreRace { .. } => effect == IsaEffect::DmaStart,
        FaultKind::Unbalanced { .. } | FaultKind::EndOfCode | FaultKind::MaxCycles { .. } | FaultKind::Interrupted => {
            false
        }
    }
}
