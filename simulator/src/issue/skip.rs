//! Skips the steady state of counted loops in timing-only runs.
//!
//! At the taken branch of a counted loop the machine's state is written down relative to the current cycle. If it is the
//! same at three visits that are one (or two) iterations apart, and registers moved by the same amounts, the next
//! iterations are traced (see [`super::trace`]). A clean trace proves that all further iterations take the same time and
//! add the same to every counter; then the remaining iterations but the last few are skipped at once: times shift, and
//! counters and registers grow by so many times what one iteration adds. The result is the same, to the cycle, as
//! without skipping.
//!
//! Transfers need not repeat: their residues on engines and HBM move from round to round even where the core never notices. Where
//! only they differ and no wait held up its bundle, rounds are skipped but for the transfers that they start and the waits that
//! they take ([`super::rounds`]), which are done one by one; it ends with the first round in which a wait is not met in time.
//!
//! Where nothing matches, looking backs off exponentially.

use super::code::*;
use super::memo::{NONE, Table, Used};
use super::rounds::Rounds;
use super::run::{Core, SCALARS};
use super::trace::{Trace, What};
use crate::options::Mode;
use crate::stats::Tally;
use crate::unit::dma::Blame;
use systole_isa::Space;

/// Iterations left below which looking is not worth it, and bundles that skipping must save.
const MIN_ITERATIONS: u32 = 12;
const MIN_BUNDLES: u64 = 6000;
/// Longest period of iterations that repeats.
const MAX_PERIOD: usize = 2;
/// Snapshots for two periods of the longest.
const SNAPSHOTS: usize = 2 * MAX_PERIOD + 1;
const MAX_BACK_OFF: u32 = 1 << 14;
/// Least back-off where a round costs little.
const SELDOM: u32 = 1 << 9;
/// Greatest back-off where a loop has few iterations.
const SHORT_BACK_OFF: u32 = 1 << 6;

/// The machine at a visit of a loop's branch.
#[derive(Debug)]
struct Snapshot {
    /// The core's state, and that of transfers.
    state: Vec<u64>,
    outside: Vec<u64>,
    /// What the cycle of the last bundle depends on: changes where a wait holds one up.
    blame: Blame,
    scalars: [i32; SCALARS],
    now: u64,
    bundles: u64,
    /// Value of the loop's counter.
    left: u32,
}

impl Snapshot {
    fn deltas(&self, earlier: &Snapshot) -> [i32; SCALARS] {
        std::array::from_fn(|i| self.scalars[i].wrapping_sub(earlier.scalars[i]))
    }

    /// Whether waits never held up the core since an earlier snapshot.
    fn flows(&self, earlier: &Snapshot) -> bool {
        self.blame == earlier.blame
    }

    /// Whether transfers are in the same state at three visits.
    fn outside_repeats(&self, b: &Snapshot, c: &Snapshot) -> bool {
        self.outside == b.outside && b.outside == c.outside
    }

    /// Whether the core is, and registers move, in the same way at three visits.
    fn repeats(&self, b: &Snapshot, c: &Snapshot) -> bool {
        self.state == b.state
            && b.state == c.state
            && self.deltas(b) == b.deltas(c)
            && self.now - b.now == b.now - c.now
    }
}

/// What is known of the loop that is being looked at.
#[derive(Debug)]
struct Candidate {
    back_edge: u32,
    snapshots: Vec<Snapshot>,
    /// While tracing: the period, and the counters and state when the second half of the trace began.
    period: usize,
    tally: Option<Tally>,
}

/// Loops that may be looked at together: nested ones.
const MAX_CANDIDATES: usize = 8;
/// Bundles after which a trace that never comes round is given up.
const MAX_TRACE: u64 = 1 << 24;

/// Visits until a branch is looked at first, and the back-off after its first failure.
const FRESH: (u32, u32) = (2, 4);

/// The search for steady states.
#[derive(Debug)]
pub(super) struct Skipper {
    /// Visits of each bundle's branch until it is looked at again, and the back-off after a failure; zeros before its first visit.
    wait: Vec<(u32, u32)>,
    candidates: Vec<Candidate>,
    pub trace: Option<Box<Trace>>,
    pub skipped: u64,
    /// What of ready times code uses.
    used: Vec<Used>,
}

impl Skipper {
    pub fn new(bundles: usize, used: Vec<Used>) -> Skipper {
        Skipper { wait: vec![(0, 0); bundles], candidates: Vec::new(), trace: None, skipped: 0, used }
    }

    /// The loop does not repeat so far: look again later.
    pub fn fail(&mut self, back_edge: u32) {
        let w = &mut self.wait[back_edge as usize];
        w.0 = w.1;
        w.1 = (w.1 * 2).min(MAX_BACK_OFF);
        self.candidates.retain(|c| c.back_edge != back_edge);
    }

    /// Rounds that a branch ends cost little: it is looked at seldom.
    pub fn look_seldom(&mut self, back_edge: u32) {
        let w = &mut self.wait[back_edge as usize];
        (w.0, w.1) = (w.0.max(SELDOM), w.1.max(SELDOM));
        self.candidates.retain(|c| c.back_edge != back_edge);
    }

    fn candidate(&mut self, back_edge: u32) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|c| c.back_edge == back_edge)
    }
}

impl Core<'_> {
    /// Whether this run may skip loops.
    pub(super) fn may_skip(&self) -> bool {
        let o = self.options;
        o.loop_skip && o.mode == Mode::TimingOnly && o.chaos.is_none() && self.l.code.blocks.of.is_empty()
    }

    /// Whether iterations are being traced.
    #[inline(always)]
    pub(super) fn tracing(&self) -> bool {
        self.skipper.as_ref().is_some_and(|s| s.trace.is_some())
    }

    /// The branch of bundle `at` was taken, backwards.
    #[inline(always)]
    pub(super) fn back_edge(&mut self, at: u32, table: Option<&mut Table>) {
        let Some(skipper) = &mut self.skipper else { return };
        let wait = &mut skipper.wait[at as usize];
        if wait.1 == 0 {
            *wait = FRESH;
        }
        if wait.0 > 1 {
            wait.0 -= 1;
            return;
        }
        self.visit(at, table);
    }

    /// Counts so many taken branches back of bundle `at` that need not be looked at; `false` if one of them has to be.
    #[inline(always)]
    pub(super) fn passes(&mut self, at: u32, times: u32) -> bool {
        let Some(skipper) = &mut self.skipper else { return true };
        let left = &mut skipper.wait[at as usize].0;
        let passes = *left > times;
        *left -= if passes { times } else { 0 };
        passes
    }

    fn visit(&mut self, at: u32, table: Option<&mut Table>) {
        let Branch::Loop { reg, .. } = self.l.code.branches[at as usize] else {
            if let Some(s) = &mut self.skipper {
                s.wait[at as usize] = (u32::MAX, u32::MAX);
            }
            return;
        };
        let left = self.scalars[reg as usize & (SCALARS - 1)] as u32;
        let known = self.known >> (reg & 63) & 1 == 1;
        let Some(mut skipper) = self.skipper.take() else { return };
        match &skipper.trace {
            Some(t) if t.back_edge == at => {
                if !self.traced(&mut skipper, left, table) {
                    skipper.trace = None;
                    self.stats.take_journal();
                    skipper.fail(at);
                }
            }
            Some(t) if self.stats.bundles > t.started + MAX_TRACE => {
                let traced = t.back_edge;
                skipper.trace = None;
                self.stats.take_journal();
                skipper.fail(traced);
            }
            Some(_) => {}
            None if known => self.watch(&mut skipper, at, left, table),
            None => skipper.fail(at),
        }
        self.skipper = Some(skipper);
    }

    /// Takes a snapshot and looks for a repetition among the last ones.
    fn watch(&mut self, skipper: &mut Skipper, at: u32, left: u32, table: Option<&mut Table>) {
        if skipper.candidate(at).is_none() {
            if left < MIN_ITERATIONS {
                // Worth it at the loop's next entry, if at all: the branch goes back so many times less one until then. Where loops are
                // short again and again, some entries go by.
                let w = &mut skipper.wait[at as usize];
                w.0 = left.max(w.1);
                w.1 = (w.1 * 2).min(w.1.max(SHORT_BACK_OFF));
                return;
            }
            if skipper.candidates.len() == MAX_CANDIDATES {
                skipper.candidates.remove(0);
            }
            skipper.candidates.push(Candidate { back_edge: at, snapshots: Vec::new(), period: 0, tally: None });
        }
        let Some(c) = skipper.candidate(at) else { return };
        if let Some(last) = c.snapshots.last() {
            let body = self.stats.bundles - last.bundles;
            if last.left != left.wrapping_add(1) {
                // Another entry of the loop.
                c.snapshots.clear();
                if left < MIN_ITERATIONS {
                    skipper.fail(at);
                    return;
                }
            } else if body.saturating_mul(left as u64) < MIN_BUNDLES {
                skipper.fail(at);
                return;
            }
        }
        let Some(snapshot) = self.snapshot(skipper, left, table) else {
            skipper.fail(at);
            return;
        };
        let free = self.transfers_alone();
        let Some(c) = skipper.candidate(at) else { return };
        c.snapshots.push(snapshot);
        let n = c.snapshots.len();
        for period in (1..=MAX_PERIOD).filter(|p| n > 2 * p) {
            let [a, b, d] = [n - 1, n - 1 - period, n - 1 - 2 * period].map(|i| &c.snapshots[i]);
            let steady = a.outside_repeats(b, d) || free && a.flows(d);
            if steady && a.repeats(b, d) {
                let trace = Trace::new(at, a.deltas(b), self.stats.bundles);
                c.period = period;
                c.snapshots.drain(..n - 1);
                skipper.trace = Some(Box::new(trace));
                return;
            }
        }
        if n >= SNAPSHOTS {
            skipper.fail(at);
        }
    }

    /// An iteration of a trace has ended; `false` to give up.
    fn traced(&mut self, skipper: &mut Skipper, left: u32, mut table: Option<&mut Table>) -> bool {
        let Some(trace) = &mut skipper.trace else { return false };
        trace.mark();
        let (at, broken, done) = (trace.back_edge, trace.broken, trace.marks.len());
        let Some(c) = skipper.candidates.iter().find(|c| c.back_edge == at) else { return false };
        let begin = c.snapshots.first().map_or(0, |s| s.left);
        if broken || left.wrapping_add(done as u32) != begin {
            return false;
        }
        let period = c.period;
        if done == period {
            if let Some(t) = table.as_deref_mut() {
                t.settle(&mut self.stats, &mut self.mxus);
            }
            let units = self.unit_counters().into_iter().map(|c| *c).collect();
            let tally = self.stats.tally(units);
            self.stats.start_journal();
            let snapshot = self.snapshot(skipper, left, table);
            let found = snapshot.is_some();
            if let Some(c) = skipper.candidate(at) {
                c.tally = Some(tally);
                c.snapshots.extend(snapshot);
            }
            return found;
        }
        if done < 2 * period {
            return true;
        }
        self.finish_trace(skipper, left, table).is_some()
    }

    /// Whether transfers are this core's own, and nobody is told of each.
    fn transfers_alone(&self) -> bool {
        self.remote.is_none() && self.mates.is_none() && !self.events
    }

    /// The trace is complete: skips if it proves a steady state.
    fn finish_trace(&mut self, skipper: &mut Skipper, left: u32, mut table: Option<&mut Table>) -> Option<()> {
        let journal = self.stats.take_journal();
        let trace = skipper.trace.take()?;
        let at = trace.back_edge;
        let place = skipper.candidates.iter().position(|c| c.back_edge == at)?;
        let c = skipper.candidates.remove(place);
        let [first, middle] = &c.snapshots[..] else { return None };
        let (end, tally) = (self.snapshot(skipper, left, table.as_deref_mut())?, c.tally?);
        let period = end.now - middle.now;
        let times = (left.saturating_sub(2) / c.period as u32) as u64;
        let mut times = times.min(self.options.max_cycles.saturating_sub(self.now) / period.max(1));
        if times == 0 || !end.repeats(middle, first) || !self.stats.steady(&tally, end.now, middle.now) {
            return None;
        }
        let ranges = self.transfer_ranges(&trace, c.period, times)?;
        let exact = end.outside_repeats(middle, first);
        if exact {
            for (lo, hi) in ranges.into_iter().filter(|r| self.hbm.touches_pages(r.0, r.1)).collect::<Vec<_>>() {
                self.hbm.forget(lo, hi);
            }
        } else {
            if !self.transfers_alone() || !end.flows(first) {
                return None;
            }
            let rounds = Rounds::of(&trace, c.period, [first.now, middle.now], period)?;
            times = self.rounds(&rounds, times);
            if times == 0 {
                return None;
            }
        }
        let deltas = end.deltas(middle);
        for (r, d) in deltas.iter().enumerate() {
            self.scalars[r] = self.scalars[r].wrapping_add(d.wrapping_mul(times as i32));
        }
        self.stats.repeat(&tally, &journal, times, times * period);
        if let Some(t) = table {
            t.repeat(times);
        }
        // Those of transfers count what was done.
        let kept = if exact { tally.units.len() } else { self.mxus.len() };
        for (counter, before) in self.unit_counters().into_iter().zip(tally.units).take(kept) {
            *counter += (*counter - before) * times;
        }
        if self.events {
            self.observer.repeated(middle.now, period, times);
        }
        self.shift(skipper, times * period, exact);
        skipper.skipped += times * period;
        skipper.wait[at as usize] = FRESH;
        Some(())
    }

    /// HBM ranges that `times` more iterations overwrite; `None` if their transfers might differ in more than address.
    fn transfer_ranges(&self, trace: &Trace, period: usize, times: u64) -> Option<Vec<(u64, u64)>> {
        let (a, b) = trace.halves(period)?;
        let burst = self.l.chip.hbm.burst_bytes.max(1) as i64;
        let mut ranges = Vec::new();
        for (a, b) in a.iter().zip(b) {
            let (What::Transfer { desc, src: a_src, dst: a_dst, .. }, What::Transfer { src: b_src, dst: b_dst, .. }) =
                (a.what, b.what)
            else {
                continue;
            };
            let g = &self.l.geometry[desc as usize];
            for (space, side, from, to, writes) in
                [(g.src, &g.from, a_src, b_src, false), (g.dst, &g.to, a_dst, b_dst, true)]
            {
                let step = to - from;
                let last = to.checked_add(step.checked_mul(times as i64)?)?;
                let size = self.bytes_of(space);
                let (lo, hi) = (to.min(last) + side.lo, to.max(last) + side.hi);
                let strays = space == Space::Hbm && (step % burst != 0 || !self.dma.same_memory(to, last));
                if lo < 0 || hi > size as i64 || strays {
                    return None;
                }
                if writes && space == Space::Hbm {
                    ranges.push((lo as u64, hi as u64));
                }
            }
        }
        Some(ranges)
    }

    /// The machine's state relative to now; `None` where it cannot be compared.
    fn snapshot(&mut self, skipper: &Skipper, left: u32, table: Option<&mut Table>) -> Option<Snapshot> {
        let now = self.now;
        let mut s = Vec::with_capacity(64);
        s.push(self.floor - (now << 4));
        s.push(self.known);
        s.push(self.stats.op() as u64);
        s.extend(self.calls.iter().map(|c| c.0 as u64));
        s.push(u64::MAX - 1);
        match table {
            Some(t) => {
                self.body = self.interned(t);
                s.extend([t.numbers().1, self.body as u64]);
                if self.body == NONE {
                    return None;
                }
            }
            None => {
                let mut words = Vec::with_capacity(256);
                self.capture(&skipper.used, &mut words)?;
                s.extend(words.into_iter().map(u64::from));
            }
        }
        let mut outside = Vec::with_capacity(256);
        self.dma.relative((now, self.blame), &mut outside);
        self.semaphores.relative((now, self.blame), &mut outside);
        outside.extend(self.effects.iter().flat_map(|e| [e.desc as u64, e.end.saturating_sub(now)]));
        let (scalars, bundles, blame) = (self.scalars, self.stats.bundles, self.blame);
        Some(Snapshot { state: s, outside, blame, scalars, now, bundles, left })
    }

    /// Counters that units keep themselves.
    fn unit_counters(&mut self) -> Vec<&mut u64> {
        let mut all: Vec<&mut u64> = self.mxus.iter_mut().map(|m| m.busy16_mut()).collect();
        all.extend(self.dma.counters());
        all
    }

    /// Moves all times of the core by `cycles`, and those of transfers.
    fn shift(&mut self, skipper: &Skipper, cycles: u64, transfers: bool) {
        let mut words = Vec::new();
        let moves = self.fresh && self.capture(&skipper.used, &mut words).is_some();
        self.shift_issue(cycles);
        if moves {
            self.restore(&skipper.used, &words);
        }
        if transfers {
            self.dma.shift(cycles);
            self.semaphores.shift(cycles);
            self.effects.iter_mut().for_each(|e| e.end += cycles);
        }
    }
}
