//! Gathers counters during a run and turns them into a [`RunResult`].

mod live;
mod replayed;

use super::activity::{Instructions, Issued, Runs};
use super::waits::Waits;
use super::{CAUSES, Cause, OpProfile, Path, RunResult, SlotCycles, Traffic, UNIT_TABLE, UnitCounters};
use crate::issue::code::{Code, GROUPS, MXU_BIT, SLOT_UNITS};
use crate::unit::dma::{DmaTiming, WayParts};
use crate::unit::mxu::MxuTiming;
pub(crate) use live::Ahead;
use live::{ISSUE, Live, SlotTotals, places};
use replayed::{Own, Replayed};
use std::sync::Arc;
use systole_isa::Slot;
use systole_isa::program::DebugRange;

/// Counters while a program runs.
#[derive(Debug)]
pub(crate) struct Collector {
    runs: Runs,
    run_start: u32,
    pub bundles: u64,
    /// Stalled cycles by bundle and cause.
    waits: Waits,
    /// Stalled cycles in which matrix units, and slot groups with long instructions, were busy.
    mxu_stall: Vec<[u64; CAUSES]>,
    group_overlap: [[u64; CAUSES]; GROUPS],
    /// Cycles beyond one for each bundle that uses a shared group.
    pub group_busy: [i64; GROUPS],
    ops: Vec<OpProfile>,
    current: usize,
    since: u64,
    pub moved: Traffic,
    pub transfers: u64,
    /// Bandwidth, latency, engines and CMEM's bandwidth on the way to the last bundle, in 1/256 cycles.
    path: [i64; 4],
    journal: Option<Vec<Entry>>,
    live: Option<Box<Live>>,
    /// Whose replays are added, but for their runs.
    replayed: Option<usize>,
}

/// What a journal holds: what happened to the counters that are kept by bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Run { op: u32, first: u32, last: u32 },
    Wait { bundle: u32, cause: Cause, cycles: u64 },
}

/// The counters that are not kept by bundle, at some cycle.
#[derive(Debug)]
pub(crate) struct Tally {
    bundles: u64,
    mxu_stall: Vec<[u64; CAUSES]>,
    group_overlap: [[u64; CAUSES]; GROUPS],
    group_busy: [i64; GROUPS],
    ops: Vec<OpProfile>,
    current: usize,
    since: u64,
    moved: Traffic,
    transfers: u64,
    path: [i64; 4],
    live: (SlotTotals, Vec<i64>),
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
            runs: Runs::new(bundles),
            run_start: 0,
            bundles: 0,
            waits: Waits::new(bundles),
            mxu_stall: vec![[0; CAUSES]; mxus + 1],
            group_overlap: [[0; CAUSES]; GROUPS],
            group_busy: [0; GROUPS],
            ops: profile,
            current: ops,
            since: 0,
            moved: Traffic::default(),
            transfers: 0,
            path: [0; 4],
            journal: None,
            live: None,
            replayed: None,
        }
    }

    /// Bundles `run_start..=last` issued in a row; the next is `next`.
    #[inline(always)]
    pub fn jump(&mut self, last: u32, next: u32) {
        // The run may have ended where another operation began.
        if self.run_start <= last {
            self.ran(self.run_start, last);
        }
        self.run_start = next;
    }

    /// Bundles `first..=last`, where a row of bundles begins, issued `times` times more, each time with a jump back behind them.
    pub fn rounds(&mut self, first: u32, last: u32, times: u64) {
        debug_assert!(self.run_start == first && self.journal.is_none());
        self.runs.add(self.current as u32, first, last, times);
        self.bundles += u64::from(last + 1 - first) * times;
        if let Some(l) = &mut self.live {
            l.run(first, last, times);
        }
    }

    /// A row of bundles goes on at `first`; what issued before it is counted.
    pub fn begin(&mut self, first: u32) {
        if self.run_start < first {
            self.ran(self.run_start, first - 1);
        }
        self.run_start = first;
    }

    /// A row of bundles begins at `next`; so many before it issued, and are counted by [`Collector::replayed`].
    #[inline(always)]
    pub fn began(&mut self, next: u32, bundles: u64) {
        self.run_start = next;
        self.bundles += bundles;
    }

    /// The place of the present operation.
    pub fn place(&self) -> usize {
        self.current
    }

    /// Bundles `first..=last` issued in a row for the present operation.
    #[inline(always)]
    fn ran(&mut self, first: u32, last: u32) {
        let op = self.current as u32;
        self.runs.add(op, first, last, 1);
        self.bundles += (last + 1 - first) as u64;
        if let Some(l) = &mut self.live {
            l.run(first, last, 1);
        }
        if let Some(j) = &mut self.journal {
            j.push(Entry::Run { op, first, last });
        }
    }

    /// The bundle waited `cycles`.
    #[inline(always)]
    pub fn stall(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        self.op_stall(cause, cycles);
        self.waited(bundle, cause, cycles);
    }

    /// The present operation waited `cycles`.
    #[inline(always)]
    pub fn op_stall(&mut self, cause: Cause, cycles: u64) {
        self.ops[self.current].stall[cause as usize] += cycles;
    }

    /// The present operation waited `cycles` for messages that were not on their way.
    pub fn peers(&mut self, cycles: u64) {
        self.ops[self.current].peers += cycles;
    }

    /// A bundle waited `cycles`, which its operation's counters have.
    #[inline(always)]
    pub fn waited(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        if let Some(l) = &mut self.live {
            l.stall(bundle, cause, cycles);
        }
        self.waits.add(bundle, cause, cycles);
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
            moved: self.moved,
            transfers: self.transfers,
            path: self.path,
            live: self.live.as_ref().map(|l| (l.now.clone(), l.ahead.clone())).unwrap_or_default(),
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
        let moved = |now: &mut Traffic, before: Traffic| *now += (*now - before) * times;
        moved(&mut self.moved, before.moved);
        grow(&mut self.transfers, before.transfers);
        self.path.iter_mut().zip(before.path).for_each(|(now, then)| *now += (*now - then) * times as i64);
        self.group_busy.iter_mut().zip(before.group_busy).for_each(|(a, b)| *a += (*a - b) * times as i64);
        let overlaps = self.group_overlap.iter_mut().flatten().zip(before.group_overlap.iter().flatten());
        overlaps.for_each(|(a, b)| grow(a, *b));
        let stalls = self.mxu_stall.iter_mut().flatten().zip(before.mxu_stall.iter().flatten());
        stalls.for_each(|(a, b)| grow(a, *b));
        for (a, b) in self.ops.iter_mut().zip(&before.ops) {
            moved(&mut a.traffic, b.traffic);
            for (x, y) in [(&mut a.cycles, b.cycles), (&mut a.entries, b.entries), (&mut a.peers, b.peers)] {
                grow(x, y);
            }
            a.stall.iter_mut().zip(b.stall).for_each(|(x, y)| grow(x, y));
        }
        if let Some(l) = &mut self.live {
            let (then, ahead) = &before.live;
            l.now.sums.iter_mut().zip(then.sums).for_each(|(a, b)| grow(a, b));
            l.now.stall.iter_mut().flatten().zip(then.stall.iter().flatten()).for_each(|(a, b)| grow(a, *b));
            l.ahead.iter_mut().zip(ahead).for_each(|(a, b)| *a += (*a - b) * times as i64);
        }
        for e in journal {
            match *e {
                Entry::Run { op, first, last } => self.runs.add(op, first, last, times),
                Entry::Wait { bundle, cause, cycles } => self.waits.add(bundle as usize, cause, cycles * times),
            }
        }
        if self.since != before.since {
            self.since += cycles;
        }
    }

    /// All matrix units that the program uses were idle for `cycles` of a stall.
    #[inline(always)]
    pub fn mxus_stall(&mut self, cause: Cause, cycles: u64) {
        if let Some(all) = self.mxu_stall.last_mut() {
            all[cause as usize] += cycles;
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

    /// From cycle `now` and bundle `next` on, cycles belong to `op`. Returns the op before and since when, if it changed.
    #[inline(always)]
    pub fn enter(&mut self, op: u32, next: u32, now: u64) -> Option<(u32, u64)> {
        let to = place(op, self.ops.len() - 1);
        if op == DebugRange::CALLER || to == self.current { None } else { Some(self.change(to, next, now)) }
    }

    /// [`Collector::enter`] of an operation in its place, another than the present one.
    fn change(&mut self, to: usize, next: u32, now: u64) -> (u32, u64) {
        if self.run_start < next {
            self.ran(self.run_start, next - 1);
            self.run_start = next;
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
        before
    }

    /// The op that cycles belong to.
    pub fn op(&self) -> u32 {
        self.ops[self.current].op.unwrap_or(DebugRange::NONE)
    }

    /// All operations so far; the cycles of the current one are those up to its last entry.
    pub fn ops(&self) -> &[OpProfile] {
        &self.ops
    }

    /// The op that cycles belong to, and since when.
    pub fn current(&self) -> (u32, u64) {
        (self.op(), self.since)
    }

    /// A transfer started.
    pub fn transfer(&mut self, moved: Traffic) {
        self.transfers += 1;
        self.moved += moved;
        self.ops[self.current].traffic += moved;
    }

    /// The core waited for a copy: what the way to its cycle has more than the way to the last bundle's, as
    /// [`crate::unit::dma::Blame::relative`] tells.
    pub fn path(&mut self, more: WayParts) {
        let [bandwidth, latency, engine, cmem] = more.map(|m| m as i64);
        for (sum, m) in self.path.iter_mut().zip([bandwidth, latency * 256, engine * 256, cmem]) {
            *sum += m;
        }
    }

    /// Closes the run at `cycles`; `last` is the bundle that ended it. `totals`: what was made for another device that ran the program,
    /// or nothing.
    pub fn finish(
        mut self,
        (last, cycles): (u32, u64),
        timed: bool,
        skipped: u64,
        parts: Parts<'_>,
        totals: &mut Totals,
    ) -> RunResult {
        self.jump(last, 0);
        self.waits.add_up();
        self.ops[self.current].cycles += cycles - self.since;
        let own = (self.replayed, self.runs.all());
        if !totals.own.contains(&own) {
            let runs = totals.runs(&own);
            if !totals.issued.is_of(&runs, self.ops.len(), parts.code.heads.len()) {
                totals.set(Issued::new(runs, self.ops.len(), parts.code), &parts);
            }
            totals.own.push(own);
        }
        for (o, a) in self.ops.iter_mut().zip(&totals.issued.activities) {
            o.mxu_rows = a.rows();
            o.activity = *a;
        }
        let executions = Arc::clone(&totals.issued.executions);
        let units = if timed { self.units(&self.slot_totals(totals, &parts), cycles, &parts) } else { Vec::new() };
        let slots = if timed { totals.taken } else { SlotCycles::default() };
        // They are large: only where each goes is sorted.
        let mut order: Vec<&OpProfile> = self.ops.iter().filter(|o| o.entries > 0).collect();
        order.sort_unstable_by_key(|o| (o.start, o.op));
        let ops = order.into_iter().cloned().collect();
        RunResult {
            cycles: if timed { cycles } else { 0 },
            bundles: self.bundles,
            units,
            slots,
            ops,
            traffic: self.moved,
            hbm_cycles: parts.dma.hbm_busy as f64 / 256.0,
            path: Path::of(self.path),
            dma_transfers: self.transfers,
            executions,
            waits: self.waits.totals(),
            skipped_cycles: skipped,
            cores: Vec::new(),
        }
    }

    /// Cycles of the slot units, and what they waited.
    fn slot_totals(&self, totals: &Totals, parts: &Parts<'_>) -> SlotTotals {
        let mut t = SlotTotals { sums: totals.sums, ..SlotTotals::default() };
        self.waits.each(|bundle, cause, cycles| {
            if totals.issued.executions[bundle] == 0 {
                return;
            }
            for place in places(parts.code.heads[bundle].units) {
                t.stall[place][cause as usize] += cycles;
            }
        });
        t
    }

    fn units(&self, totals: &SlotTotals, cycles: u64, parts: &Parts<'_>) -> Vec<UnitCounters> {
        let mut units = Vec::new();
        self.put_units(totals, cycles, parts, &mut units);
        units
    }

    /// Counters of all units, in place of others; names that are there stay.
    fn put_units(&self, totals: &SlotTotals, cycles: u64, parts: &Parts<'_>, units: &mut Vec<UnitCounters>) {
        let code = parts.code;
        if units.is_empty() {
            let named = UNIT_TABLE.iter().map(|row| row.0.to_string());
            let named = named.chain((0..parts.mxus.len()).map(|u| format!("mxu{u}")));
            units.extend(named.map(|unit| UnitCounters { unit, ..UnitCounters::default() }));
        }
        let mut places = units.iter_mut();
        let mut put = |useful: f64, busy: u64, stall: [u64; CAUSES]| {
            let Some(of) = places.next() else { return };
            let mut left = cycles.saturating_sub(busy);
            // A stall that overlaps several runs of rows may be counted too long; never beyond the total.
            let stall = stall.map(|s| {
                let s = s.min(left);
                left -= s;
                s
            });
            (of.busy, of.stall, of.idle) = (busy.min(cycles), stall, left);
            of.useful = useful.min(of.busy as f64);
        };
        for (unit, slot) in SLOTS.iter().enumerate().take(SLOT_UNITS) {
            let group = *slot as usize;
            let (mut busy, mut stall, work) = (totals.sums[unit], totals.stall[unit], totals.sums[SLOT_UNITS + unit]);
            if code.long[group] {
                busy = busy.saturating_add_signed(self.group_busy[group]);
                stall.iter_mut().zip(self.group_overlap[group]).for_each(|(s, o)| *s = s.saturating_sub(o));
            }
            let useful = (work as f64 / parts.slots[unit].max(1) as f64).min(busy as f64);
            put(useful, busy, stall);
        }
        let busy = parts.dma.busy.min(cycles);
        put(parts.dma.served().min(busy as f64), busy, [0; CAUSES]);
        put(self.bundles as f64, self.bundles, totals.stall[ISSUE]);
        for (u, m) in parts.mxus.iter().enumerate() {
            let all = &self.mxu_stall[self.mxu_stall.len() - 1];
            let used = code.mxus_used >> u & 1 == 1;
            let stall = std::array::from_fn(|c| if used { self.mxu_stall[u][c] + all[c] } else { 0 });
            put(m.busy() as f64, m.busy(), stall);
        }
    }
}

/// Kinds of slots that are counted: those of the slot units, and those of matrix units.
pub(crate) const SLOT_KINDS: usize = SLOT_UNITS + 2;

/// Slots of the slot units in the order of the unit table, then those of matrix units. Branches count as scalar in the unit bits.
pub(crate) const SLOTS: [Slot; SLOT_KINDS] =
    [Slot::Scalar, Slot::Valu, Slot::Vload, Slot::Vstore, Slot::Eup, Slot::Xlu, Slot::MxuPush, Slot::MxuPop];

/// Totals that follow from how often bundles issued.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    issued: Issued,
    /// As [`SlotTotals::sums`].
    sums: [u64; 2 * SLOT_UNITS],
    taken: SlotCycles,
    /// What they follow from: the last few that came to the same runs.
    own: Vec<Own>,
    /// What replays added.
    replayed: Vec<Replayed>,
}

impl Totals {
    fn set(&mut self, issued: Issued, parts: &Parts<'_>) {
        let executions = &issued.executions;
        let of: Vec<(&Instructions, u64)> = parts.code.activity.issued(&issued).collect();
        let mut sums = [0; 2 * SLOT_UNITS];
        for &(i, n) in &of {
            sums.iter_mut().zip(parts.of_bundle(i)).for_each(|(s, c)| *s += n * u64::from(c));
        }
        for (bundle, unit, cycles) in parts.kept() {
            sums[unit] += executions[bundle] * cycles;
        }
        (self.sums, self.taken) = (sums, parts.taken(&of));
        self.issued = issued;
        self.own.clear();
    }
}

/// What a run leaves for its result.
pub(crate) struct Parts<'a> {
    pub code: &'a Code,
    pub dma: &'a DmaTiming,
    pub mxus: &'a [MxuTiming],
    pub slots: [u32; SLOT_KINDS],
}

impl Parts<'_> {
    /// Cycles in which instructions took all slots of a kind: those of bundles, and how often they issued.
    fn taken(&self, issued: &[(&Instructions, u64)]) -> SlotCycles {
        let mut sums = [(0u64, 0u64); SLOT_KINDS];
        for &(i, n) in issued {
            for (kind, (all, kept)) in sums.iter_mut().enumerate() {
                *all += if u32::from(i.count[kind]) >= self.slots[kind].max(1) { n } else { 0 };
                *kept += n * u64::from(i.kept[kind]);
            }
        }
        let cycles = |kind: usize| sums[kind].0 as f64 + sums[kind].1 as f64 / f64::from(self.slots[kind].max(1));
        SlotCycles { units: std::array::from_fn(cycles), push: cycles(SLOT_UNITS), pop: cycles(SLOT_UNITS + 1) }
    }

    /// Bundles whose instructions keep a unit of a long group: (bundle, slot unit, cycles).
    fn kept(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.code.kept.iter().filter_map(|k| {
            let unit = (0..SLOT_UNITS).find(|u| SLOTS[*u] as usize == k.1 as usize && self.code.long[k.1 as usize])?;
            Some((k.0 as usize, unit, k.2 as u64))
        })
    }

    /// Cycles that one issue of a bundle of these instructions makes each slot unit busy (0 where instructions may keep the only
    /// one longer: those are counted apart), then the instructions of each.
    fn of_bundle(&self, i: &Instructions) -> [u8; 2 * SLOT_UNITS] {
        let mut out = [0; 2 * SLOT_UNITS];
        out[SLOT_UNITS..].copy_from_slice(&i.count[..SLOT_UNITS]);
        for (unit, slot) in SLOTS.iter().enumerate().take(SLOT_UNITS) {
            let counted = !self.code.long[*slot as usize] || self.code.shared[*slot as usize];
            // Branches are the scalar unit's.
            let issues = i.count[unit] > 0 || *slot == Slot::Scalar && i.branch;
            out[unit] = (counted && issues) as u8;
        }
        out
    }
}

const _: () = assert!(SLOT_UNITS < MXU_BIT as usize);
