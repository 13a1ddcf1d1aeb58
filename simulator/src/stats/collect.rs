//! Gathers counters during a run and turns them into a [`RunResult`].

use super::{CAUSES, Cause, OpProfile, RunResult, UNIT_TABLE, UnitCounters};
use crate::issue::code::{Code, GROUPS, MXU_BIT, SLOT_UNITS};
use crate::unit::dma::DmaTiming;
use crate::unit::mxu::MxuTiming;
use systole_isa::program::DebugRange;
use systole_isa::{Bundle, Inst, Slot};

/// Counters while a program runs.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Executions by difference: +1 at the first bundle of a run of bundles, -1 after its last.
    runs: Vec<i64>,
    run_start: u32,
    pub bundles: u64,
    /// Stalled cycles by bundle and cause.
    waits: Vec<[u64; CAUSES]>,
    /// Stalled cycles in which matrix units, and slot groups with long instructions, were busy.
    mxu_stall: Vec<[u64; CAUSES]>,
    group_overlap: [[u64; CAUSES]; GROUPS],
    pub group_busy: [u64; GROUPS],
    ops: Vec<OpProfile>,
    current: usize,
    since: u64,
    pub hbm_read: u64,
    pub hbm_write: u64,
    pub transfers: u64,
    journal: Option<Vec<Entry>>,
}

/// What a journal holds: what happened to the counters that are kept by bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Run { first: u32, last: u32 },
    Wait { bundle: u32, cause: Cause, cycles: u64 },
}

/// The counters that are not kept by bundle, at some cycle.
#[derive(Debug)]
pub(crate) struct Tally {
    bundles: u64,
    mxu_stall: Vec<[u64; CAUSES]>,
    group_overlap: [[u64; CAUSES]; GROUPS],
    group_busy: [u64; GROUPS],
    ops: Vec<OpProfile>,
    current: usize,
    since: u64,
    hbm_read: u64,
    hbm_write: u64,
    transfers: u64,
    /// Counters that units keep.
    pub units: Vec<u64>,
}

/// Place of an op in the profile: `(none)` is last.
fn place(op: u32, ops: usize) -> usize {
    (op as usize).min(ops)
}

impl Collector {
    pub fn new(bundles: usize, ops: usize, mxus: usize) -> Collector {
        let mut profile = vec![OpProfile::default(); ops + 1];
        for (i, p) in profile.iter_mut().enumerate().take(ops) {
            p.op = Some(i as u32);
        }
        profile[ops].entries = 1;
        Collector {
            runs: vec![0; bundles + 1],
            run_start: 0,
            bundles: 0,
            waits: vec![[0; CAUSES]; bundles],
            mxu_stall: vec![[0; CAUSES]; mxus],
            group_overlap: [[0; CAUSES]; GROUPS],
            group_busy: [0; GROUPS],
            ops: profile,
            current: ops,
            since: 0,
            hbm_read: 0,
            hbm_write: 0,
            transfers: 0,
            journal: None,
        }
    }

    /// Bundles `run_start..=last` issued in a row; the next is `next`.
    #[inline(always)]
    pub fn jump(&mut self, last: u32, next: u32) {
        self.runs[self.run_start as usize] += 1;
        self.runs[last as usize + 1] -= 1;
        self.bundles += (last + 1 - self.run_start) as u64;
        if let Some(j) = &mut self.journal {
            j.push(Entry::Run { first: self.run_start, last });
        }
        self.run_start = next;
    }

    /// The bundle waited `cycles`.
    #[inline(always)]
    pub fn stall(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        self.waits[bundle][cause as usize] += cycles;
        self.ops[self.current].stall[cause as usize] += cycles;
        if let Some(j) = &mut self.journal {
            j.push(Entry::Wait { bundle: bundle as u32, cause, cycles });
        }
    }

    /// Begins to write down what happens by bundle.
    pub fn start_journal(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// What was written down since then.
    pub fn take_journal(&mut self) -> Vec<Entry> {
        self.journal.take().unwrap_or_default()
    }

    /// The counters that are not kept by bundle.
    pub fn tally(&self, units: Vec<u64>) -> Tally {
        Tally {
            bundles: self.bundles,
            mxu_stall: self.mxu_stall.clone(),
            group_overlap: self.group_overlap,
            group_busy: self.group_busy,
            ops: self.ops.clone(),
            current: self.current,
            since: self.since,
            hbm_read: self.hbm_read,
            hbm_write: self.hbm_write,
            transfers: self.transfers,
            units,
        }
    }

    /// Whether ops change in the same places between `before` (cycle `then`) and now as they will in another round.
    pub fn steady(&self, before: &Tally, now: u64, then: u64) -> bool {
        self.current == before.current
            && (self.since == before.since || now + 1 - self.since == (then + 1).wrapping_sub(before.since))
    }

    /// Counts `times` more of what happened since `before`; `cycles` pass in all.
    pub fn repeat(&mut self, before: &Tally, journal: &[Entry], times: u64, cycles: u64) {
        let grow = |now: &mut u64, before: u64| *now += (*now - before) * times;
        grow(&mut self.bundles, before.bundles);
        grow(&mut self.hbm_read, before.hbm_read);
        grow(&mut self.hbm_write, before.hbm_write);
        grow(&mut self.transfers, before.transfers);
        self.group_busy.iter_mut().zip(before.group_busy).for_each(|(a, b)| grow(a, b));
        let overlaps = self.group_overlap.iter_mut().flatten().zip(before.group_overlap.iter().flatten());
        overlaps.for_each(|(a, b)| grow(a, *b));
        let stalls = self.mxu_stall.iter_mut().flatten().zip(before.mxu_stall.iter().flatten());
        stalls.for_each(|(a, b)| grow(a, *b));
        for (a, b) in self.ops.iter_mut().zip(&before.ops) {
            for (x, y) in [
                (&mut a.cycles, b.cycles),
                (&mut a.entries, b.entries),
                (&mut a.hbm_read, b.hbm_read),
                (&mut a.hbm_write, b.hbm_write),
                (&mut a.mxu_rows, b.mxu_rows),
            ] {
                grow(x, y);
            }
            a.stall.iter_mut().zip(b.stall).for_each(|(x, y)| grow(x, y));
        }
        for e in journal {
            match *e {
                Entry::Run { first, last } => {
                    self.runs[first as usize] += times as i64;
                    self.runs[last as usize + 1] -= times as i64;
                }
                Entry::Wait { bundle, cause, cycles } => self.waits[bundle as usize][cause as usize] += cycles * times,
            }
        }
        if self.since != before.since {
            self.since += cycles;
        }
    }

    /// A matrix unit was idle for `cycles` of a stall.
    pub fn mxu_stall(&mut self, unit: usize, cause: Cause, cycles: u64) {
        self.mxu_stall[unit][cause as usize] += cycles;
    }

    /// A slot group was busy for `cycles` of a stall of a bundle that needs it.
    pub fn group_overlap(&mut self, group: usize, cause: Cause, cycles: u64) {
        self.group_overlap[group][cause as usize] += cycles;
    }

    /// From cycle `now` on, cycles belong to `op`. Returns the op before and since when, if it changed.
    pub fn enter(&mut self, op: u32, now: u64) -> Option<(u32, u64)> {
        let last = self.ops.len() - 1;
        let to = place(op, last);
        if op == DebugRange::CALLER || to == self.current {
            return None;
        }
        let before = (self.ops[self.current].op.unwrap_or(DebugRange::NONE), self.since);
        self.ops[self.current].cycles += now - self.since;
        self.since = now;
        self.current = to;
        let p = &mut self.ops[to];
        if p.entries == 0 {
            p.start = now;
        }
        p.entries += 1;
        Some(before)
    }

    /// The op that cycles belong to.
    pub fn op(&self) -> u32 {
        self.ops[self.current].op.unwrap_or(DebugRange::NONE)
    }

    /// The op that cycles belong to, and since when.
    pub fn current(&self) -> (u32, u64) {
        (self.op(), self.since)
    }

    /// A transfer started.
    pub fn transfer(&mut self, read: u64, write: u64) {
        self.transfers += 1;
        self.hbm_read += read;
        self.hbm_write += write;
        self.ops[self.current].hbm_read += read;
        self.ops[self.current].hbm_write += write;
    }

    /// Matrix-unit rows pushed.
    #[inline(always)]
    pub fn rows(&mut self, rows: u64) {
        self.ops[self.current].mxu_rows += rows;
    }

    /// Closes the run at `cycles`; `last` is the bundle that ended it.
    pub fn finish(mut self, last: u32, cycles: u64, timed: bool, skipped: u64, parts: Parts<'_>) -> RunResult {
        self.jump(last, 0);
        self.ops[self.current].cycles += cycles - self.since;
        let executions = self.executions();
        let units = if timed { self.units(&executions, cycles, &parts) } else { Vec::new() };
        let mut ops: Vec<OpProfile> = self.ops.into_iter().filter(|o| o.entries > 0).collect();
        ops.sort_by_key(|o| (o.start, o.op));
        RunResult {
            cycles: if timed { cycles } else { 0 },
            bundles: self.bundles,
            units,
            ops,
            hbm_read: self.hbm_read,
            hbm_write: self.hbm_write,
            hbm_cycles: parts.dma.hbm_busy as f64 / 256.0,
            dma_transfers: self.transfers,
            executions,
            waits: self.waits.iter().map(|w| w.iter().sum()).collect(),
            skipped_cycles: skipped,
        }
    }

    /// Times that each bundle issued, up to the last jump.
    fn executions(&self) -> Vec<u64> {
        let mut n = 0;
        let sums = self.runs[..self.waits.len()].iter().map(|d| {
            n += d;
            n as u64
        });
        sums.collect()
    }

    /// Counters after `cycles`, of which the last ended in a jump.
    pub fn sample(&self, cycles: u64, parts: &Parts<'_>) -> Vec<UnitCounters> {
        self.units(&self.executions(), cycles, parts)
    }

    fn units(&self, executions: &[u64], cycles: u64, parts: &Parts<'_>) -> Vec<UnitCounters> {
        let code = parts.code;
        let counters = |unit: &str, useful: f64, busy: u64, stall: [u64; CAUSES]| {
            let mut left = cycles.saturating_sub(busy);
            // A stall that overlaps several runs of rows may be counted too long; never beyond the total.
            let stall = stall.map(|s| {
                let s = s.min(left);
                left -= s;
                s
            });
            let busy = busy.min(cycles);
            UnitCounters { unit: unit.to_string(), useful: useful.min(busy as f64), busy, stall, idle: left }
        };
        let mut out = Vec::new();
        for (unit, row) in UNIT_TABLE.iter().enumerate().take(SLOT_UNITS) {
            let slot = SLOTS[unit];
            let (mut busy, mut stall, mut work) = (0, [0u64; CAUSES], 0u64);
            for (b, head) in code.heads.iter().enumerate() {
                if head.units >> unit & 1 == 1 {
                    busy += executions[b];
                    stall.iter_mut().zip(self.waits[b]).for_each(|(s, w)| *s += w);
                    let count = |i: &&Inst| i.op.info().slot == slot;
                    work += executions[b] * parts.bundles[b].insts.iter().filter(count).count() as u64;
                }
            }
            let group = slot as usize;
            if code.long[group] {
                let kept = code.kept.iter().filter(|k| k.1 as usize == group);
                busy = self.group_busy[group] + kept.map(|k| executions[k.0 as usize] * k.2 as u64).sum::<u64>();
                stall.iter_mut().zip(self.group_overlap[group]).for_each(|(s, o)| *s = s.saturating_sub(o));
            }
            let useful = (work as f64 / parts.slots[unit].max(1) as f64).min(busy as f64);
            out.push(counters(row.0, useful, busy, stall));
        }
        let busy = parts.dma.busy.min(cycles);
        let rate = (parts.dma.hbm_busy as f64 / 256.0).min(busy as f64);
        out.push(counters(UNIT_TABLE[6].0, rate, busy, [0; CAUSES]));
        let mut all = [0u64; CAUSES];
        self.waits.iter().for_each(|w| all.iter_mut().zip(w).for_each(|(a, w)| *a += w));
        out.push(counters(UNIT_TABLE[7].0, self.bundles as f64, self.bundles, all));
        for (u, m) in parts.mxus.iter().enumerate() {
            let stall = if code.mxus_used >> u & 1 == 1 { self.mxu_stall[u] } else { [0; CAUSES] };
            out.push(counters(&format!("mxu{u}"), m.busy() as f64, m.busy(), stall));
        }
        out
    }
}

/// Slots of the slot units in the order of the unit table. Branches count as scalar in the unit bits.
pub(crate) const SLOTS: [Slot; SLOT_UNITS] =
    [Slot::Scalar, Slot::Valu, Slot::Vload, Slot::Vstore, Slot::Eup, Slot::Xlu];

/// What a run leaves for its result.
pub(crate) struct Parts<'a> {
    pub code: &'a Code,
    pub bundles: &'a [Bundle],
    pub dma: &'a DmaTiming,
    pub mxus: &'a [MxuTiming],
    pub slots: [u32; SLOT_UNITS],
}

const _: () = assert!(SLOT_UNITS < MXU_BIT as usize);
