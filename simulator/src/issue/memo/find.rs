//! What a piece does from a state that is new: found by the plain walk, and kept.

use super::super::code::*;
use super::super::run::{Core, Step as Result, behind};
use super::pieces::{Piece, Step};
use super::table::{NONE, Table, Transition};
use super::walk::KEEPING;
use smallvec::SmallVec;

impl Core<'_> {
    /// Does a piece by the plain walk; `issued` is told each bundle's cycle. Where the branch at its end goes.
    pub(super) fn straight(&mut self, p: &Piece, mut issued: impl FnMut(u32, u64)) -> Result<Option<u32>> {
        let code = &self.l.code;
        let traced = self.tracing();
        let mut bundle = p.first;
        while bundle <= p.last {
            if !traced {
                bundle += self.plain(bundle, p.last)?;
                if bundle > p.last {
                    break;
                }
            }
            self.pc = bundle;
            let head = &code.heads[bundle as usize];
            self.issue(head, code)?;
            issued(bundle, self.now);
            if head.flags & FLAG_WAIT != 0 {
                self.take_waits(head);
            }
            if head.units >> STARTS_BIT & 1 == 1 {
                self.start_specials::<true>(head)?;
            } else if head.nspecials > 0 {
                self.start_units(head);
            }
            self.trace_bundle(head);
            let taken = if head.flags & FLAG_BRANCH != 0 { self.decide()? } else { None };
            self.scalar_ops::<false>(head)?;
            if head.flags & FLAG_BRANCH != 0 {
                return Ok(taken);
            }
            bundle += 1;
        }
        Ok(None)
    }

    /// Issues bundles of a piece from `first` on by the plain walk, up to the first that asks for more than registers, queues and matrix
    /// units, which others look at no more closely either: how many.
    #[inline(always)]
    fn plain(&mut self, first: u32, last: u32) -> Result<u32> {
        let code = &self.l.code;
        let (mut floor, mut now, mut next) = (self.floor, self.now, self.next);
        let mut done = 0;
        for head in &code.heads[first as usize..=last as usize] {
            if !head.is_plain() {
                break;
            }
            let t = self.ready_from(head, code, floor);
            if t >> 4 > next {
                (self.pc, self.now, self.next) = (first + done, now, next);
                self.stalled(head, t)?;
            }
            now = t >> 4;
            self.define(head, code, now);
            next = now + 1;
            floor = behind(head, next);
            if head.nspecials > 0 {
                self.now = now;
                self.start_units(head);
            }
            done += 1;
        }
        if done > 0 {
            (self.pc, self.floor, self.now, self.next) = (first + done - 1, floor, now, next);
        }
        Ok(done)
    }

    /// Does a piece by the plain walk, and keeps what it did: where its branch goes, and the transition.
    pub(super) fn find(
        &mut self,
        table: &mut Table,
        number: u32,
        p: &Piece,
        floor: u32,
        rows: u32,
    ) -> Result<(Option<u32>, u32)> {
        self.refresh(table);
        table.charge(number, KEEPING, &mut self.stats);
        let (body, base) = (self.body, self.now);
        let first = match p.waits || p.looks {
            // A wait that held it up for long alone decides when it issues: it was ready before.
            true => self.earliest(&self.l.code.heads[p.first as usize]).saturating_sub(base << 4),
            false => 0,
        };
        let group_busy = self.stats.group_busy;
        let streamed: SmallVec<[u64; 8]> = self.mxus.iter_mut().map(|m| *m.busy16_mut()).collect();

        let mut recorder = table.recorder.take().unwrap_or_default();
        recorder.clear();
        self.recorder = Some(recorder);
        self.body = NONE;
        let (offsets, mut event) = (table.offsets.len(), p.steps);
        let taken = self.straight(p, |bundle, now| {
            while event < p.end {
                match table.steps[event as usize] {
                    Step::At { bundle: b } | Step::Waits { bundle: b } if b == bundle => {
                        table.offsets.push((now - base) as u32);
                    }
                    Step::At { .. } | Step::Waits { .. } => break,
                    Step::Scalar(_) | Step::Parallel { .. } | Step::Transfer { .. } => {}
                    Step::Remote { .. } | Step::Signal { .. } => {}
                }
                event += 1;
            }
        })?;
        let recorder = self.recorder.take().unwrap_or_default();
        let duration = self.now - base;
        let exit_floor = self.floor - (self.now << 4);
        let exit = self.interned(table);
        if exit == NONE || (duration | exit_floor | first) > u32::MAX as u64 / 4 || table.is_full() {
            if table.is_full() {
                table.make_room(&mut self.stats, &mut self.mxus);
            }
            return Ok((taken, NONE));
        }
        self.body = exit;
        let stalls = table.stalls.len();
        for &(_, cause, cycles) in &recorder.waits {
            match table.stalls[stalls..].iter_mut().find(|s| s.0 == cause) {
                Some(s) => s.1 += cycles,
                None => table.stalls.push((cause, cycles)),
            }
        }
        recorder.put(&mut table.details);
        if self.stats.group_busy != group_busy {
            for (group, (after, before)) in self.stats.group_busy.iter().zip(group_busy).enumerate() {
                if *after != before {
                    table.details.group_busy.push((group as u8, after - before));
                }
            }
        }
        for (unit, (m, before)) in self.mxus.iter_mut().zip(streamed).enumerate() {
            let streamed = *m.busy16_mut() - before;
            if streamed > 0 {
                table.details.streamed.push((unit as u8, streamed));
            }
        }
        table.recorder = Some(recorder);
        let t = Transition {
            body,
            floor,
            rows,
            piece: number,
            first: first as u32,
            duration: duration as u32,
            exit,
            exit_floor: exit_floor as u32,
            next: [NONE; 2],
            link: NONE,
            offsets: offsets as u32,
            stalls: stalls as u32,
            nstalls: (table.stalls.len() - stalls) as u32,
            pending: 0,
            shown: 0,
        };
        Ok((taken, table.add(t)))
    }
}
