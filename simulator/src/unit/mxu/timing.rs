//! When a matrix unit takes rows and weights and gives results.
//!
//! Commands (stage, latch, push) take effect in program order:
//! - a push of one register's rows enters the array when the array is free, at the format's rows per cycle, after the
//!   latch before it; its results can be popped [`MxuConfig::fill_cycles`](systole_isa::chip::MxuConfig::fill_cycles) after
//!   its last row entered;
//! - stages fill the one staging set at `weight_rows_per_cycle`, from the latch before them on;
//! - a latch happens once the rows pushed before it have entered and the staged weights are complete.
//!
//! Where the sums stay (`mxu.dataflow = "output"`), weights stream beside the rows: stages take no time of their own, but a tile
//! takes as many cycles as the array has rows (the contracted dimension goes by) however few rows of results there are, and the
//! sums leave through the rows when the tile is through: as much again behind it as where weights stay.
//!
//! Back-pressure: an instruction waits at issue while its queue (pushes and stages have one each, of `queue_rows`) is
//! full. With the FIFO full and the array's pipeline full behind it, a push stays in the queue until a pop makes room;
//! the time at which it enters is then unknown until that pop issues, and so is that of all later commands.
//!
//! Times with the suffix 16 are in sixteenths of a cycle.

use super::ring::Ring;
use crate::issue::code::{NEVER, Packed};
use crate::stats::Cause;
use std::collections::VecDeque;
use systole_isa::chip::{ChipConfig, Dataflow};

/// Ends a list in a captured state; a time that is not known yet.
const LATER: u32 = u32::MAX;
/// A captured state in which nothing is under way, in place of its words.
const AT_REST: u32 = u32::MAX - 1;
/// A captured state that is that of the unit before, in place of its words.
const SAME: u32 = u32::MAX - 2;
/// Cycles from the last issue that a captured state may reach.
const MOST: u64 = 1 << 26;

/// Ready times that an instruction changed, for the issue stage's resources.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gate {
    pub push: Packed,
    pub stage: Packed,
    pub pop: Packed,
}

/// Start times of a queue with a fixed number of places.
#[derive(Debug)]
struct Queue {
    starts: Ring,
    places: u64,
    issued: u64,
    started: u64,
}

impl Queue {
    fn new(places: usize) -> Queue {
        let places = places.max(1);
        // As if all places had been taken and left.
        let before = places as u64;
        Queue { starts: Ring::new(places), places: before, issued: before, started: before }
    }

    #[inline(always)]
    fn start(&mut self, cycle: u64) {
        self.starts.set(self.started, cycle);
        self.started += 1;
    }

    /// The numbers of the last entries that started, as many as there are places.
    #[inline(always)]
    fn taken(&self) -> (u64, u64) {
        (self.started - self.places, self.started)
    }

    /// Whether entries started when another queue's did, but for those that are past at a cycle.
    #[inline(always)]
    fn same(&self, other: &Queue, cycle: u64) -> bool {
        self.starts.same(self.started, (&other.starts, other.started), self.places, cycle)
    }

    /// When the next entry may issue: once the entry that many places before it has started.
    #[inline(always)]
    fn ready(&self) -> Packed {
        let waits_for = self.issued - self.places;
        if waits_for >= self.started { NEVER } else { pack(self.starts.get(waits_for)) }
    }
}

fn pack(cycle: u64) -> Packed {
    cycle << 4 | Cause::Mxu as u64
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Stage { issue: u64, d16: u64 },
    Latch { issue: u64 },
    Push { issue: u64, d16: u64, to: To },
}

#[derive(Clone, Copy, Debug)]
enum To {
    Fifo,
    /// Accumulator rows from this one on.
    Rows(u32),
}

/// Occupancy of one matrix unit.
#[derive(Debug)]
pub(crate) struct MxuTiming {
    /// Cycles from a row's entry to its result; sublanes; extra cycles of a latch.
    fill: u64,
    sublanes: u32,
    latch: u64,
    /// Where sums stay: cycles that a tile takes at least. Zero where weights stay.
    tile: u64,
    in_free16: u64,
    weights: u64,
    stage_free16: u64,
    pushes: Queue,
    stages: Queue,
    /// Places of FIFO and pipeline, ready times of results by number.
    places: u64,
    results: Ring,
    fifo_started: u64,
    popped: u64,
    /// Ready time of each group of `sublanes` accumulator rows.
    accumulators: Vec<Packed>,
    /// Latest cycle that is known of them.
    accumulated: u64,
    pending: VecDeque<Command>,
    /// The run of rows that streams last, for stalls that overlap it; and all streaming time.
    run_start16: u64,
    busy16: u64,
}

impl MxuTiming {
    pub fn new(chip: &ChipConfig, latch_latency: u64, block16: u32) -> MxuTiming {
        let (m, c) = (&chip.mxu, &chip.core);
        let tile = match m.dataflow {
            Dataflow::Weight => 0,
            Dataflow::Output => m.rows as u64,
        };
        let fill = tile + m.fill_cycles() as u64;
        let in_flight = (fill * 16).div_ceil(block16.max(1) as u64);
        let places = (m.fifo_rows / c.sublanes) as u64 + in_flight;
        let queue = (m.queue_rows / c.sublanes).max(1) as usize;
        MxuTiming {
            fill,
            sublanes: c.sublanes,
            latch: latch_latency.saturating_sub(1),
            tile,
            in_free16: 0,
            weights: 0,
            stage_free16: 0,
            pushes: Queue::new(queue),
            stages: Queue::new(queue),
            places: places.max(1),
            results: Ring::new(places as usize),
            fifo_started: 0,
            popped: 0,
            accumulators: vec![0; m.accumulator_rows.div_ceil(c.sublanes) as usize],
            accumulated: 0,
            pending: VecDeque::new(),
            run_start16: 0,
            busy16: 0,
        }
    }

    /// The current ready times of the unit's queues.
    #[inline(always)]
    pub fn gate(&self) -> Gate {
        Gate { push: self.pushes.ready(), stage: self.stages.ready(), pop: self.pop_ready() }
    }

    /// When the oldest result can be popped.
    #[inline(always)]
    pub fn pop_ready(&self) -> Packed {
        if self.popped < self.fifo_started { pack(self.results.get(self.popped)) } else { NEVER }
    }

    /// Whether the FIFO is empty with nothing on its way.
    pub fn empty(&self) -> bool {
        self.popped >= self.fifo_started
            && !self.pending.iter().any(|c| matches!(c, Command::Push { to: To::Fifo, .. }))
    }

    /// Appends the state that decides later times, relative to cycle `now`, the last issue: the latest cycle in it behind
    /// `now`, `None` if that is beyond what words hold.
    pub fn capture(&self, now: u64, out: &mut Vec<u32>) -> Option<u64> {
        let rest = self.in_free16.max(self.stage_free16).div_ceil(16).max(self.weights).max(self.accumulated);
        if rest <= now + 1 && self.fifo_started == self.popped && self.pending.is_empty() {
            out.push(AT_REST);
            return Some(1);
        }
        let mut last = self.weights.saturating_sub(now + 1);
        out.extend([last as u32, (self.fifo_started - self.popped) as u32]);
        // What is past needs no words. Times ascend: the last ones are to come.
        last = last.max(self.pushes.starts.capture(self.pushes.taken(), now + 1, out));
        last = last.max(self.stages.starts.capture(self.stages.taken(), now + 1, out));
        last = last.max(self.results.capture((self.popped, self.fifo_started), now + 1, out));
        if self.accumulated > now + 1 || !self.pending.is_empty() {
            for (g, &t) in self.accumulators.iter().enumerate() {
                if t == NEVER {
                    out.extend([g as u32, LATER]);
                } else if t >> 4 > now + 1 {
                    last = last.max((t >> 4) - (now + 1));
                    out.extend([g as u32, ((t >> 4) - (now + 1)) as u32]);
                }
            }
        }
        out.push(LATER);
        let mut after16 = |t: u64| {
            let t = t.saturating_sub((now + 1) << 4);
            last = last.max(t.div_ceil(16));
            t as u32
        };
        out.extend([after16(self.in_free16), after16(self.stage_free16), after16(self.run_start16)]);
        out.push(self.pending.len() as u32);
        for c in &self.pending {
            let (kind, issue, d16, row) = match *c {
                Command::Latch { issue } => (0, issue, 0, 0),
                Command::Stage { issue, d16 } => (1, issue, d16, 0),
                Command::Push { issue, d16, to: To::Fifo } => (2, issue, d16, 0),
                Command::Push { issue, d16, to: To::Rows(row) } => (3, issue, d16, row),
            };
            out.extend([kind, u32::try_from(now - issue).ok()?, d16 as u32, row]);
        }
        // What is stuck depends on how long it has waited.
        let stuck = if self.pending.is_empty() { 0 } else { u32::MAX as u64 };
        (last < MOST).then_some((last + 1).max(stuck))
    }

    /// Writes for [`MxuTiming::capture`] that the state is that of the unit before, if it is, something is under way and nothing else is.
    pub fn capture_same(&self, before: &MxuTiming, now: u64, out: &mut Vec<u32>) -> bool {
        let past16 = (now + 1) << 4;
        let past = |a: u64, b: u64| a == b || a.max(b) <= past16;
        let count = self.fifo_started - self.popped;
        let same = (count > 0 || self.in_free16.max(self.stage_free16).max(self.weights << 4) > past16)
            && past(self.in_free16, before.in_free16)
            && count == before.fifo_started - before.popped
            && past(self.stage_free16, before.stage_free16)
            && past(self.run_start16, before.run_start16)
            && past(self.weights << 4, before.weights << 4)
            && self.accumulated.max(before.accumulated) <= now + 1
            && self.pending.is_empty()
            && before.pending.is_empty()
            && self.pushes.same(&before.pushes, now + 1)
            && self.stages.same(&before.stages, now + 1)
            && self.results.same(self.fifo_started, (&before.results, before.fifo_started), count, now + 1);
        if same {
            out.push(SAME);
        }
        same
    }

    /// Whether words begin with what [`MxuTiming::capture_same`] wrote.
    pub fn is_same(words: &[u32]) -> bool {
        words.first() == Some(&SAME)
    }

    /// Takes over the state of the unit before, which took over one itself, as [`MxuTiming::capture_same`] found that it is.
    pub fn restore_same(&mut self, before: &MxuTiming) {
        for (own, other) in [(&mut self.pushes, &before.pushes), (&mut self.stages, &before.stages)] {
            (own.issued, own.started) = (other.issued, other.started);
            own.starts.copy(&other.starts, own.taken());
        }
        (self.popped, self.fifo_started) = (before.popped, before.fifo_started);
        self.results.copy(&before.results, (self.popped, self.fifo_started));
        (self.weights, self.run_start16) = (before.weights, before.run_start16);
        (self.in_free16, self.stage_free16) = (before.in_free16, before.stage_free16);
        self.rest();
    }

    /// Nothing waits for room, and nothing is added up.
    fn rest(&mut self) {
        self.pending.clear();
        if self.accumulated > 0 {
            self.accumulators.fill(0);
            self.accumulated = 0;
        }
    }

    /// Takes over a state that [`MxuTiming::capture`] wrote, as that of cycle `now`; the words behind it.
    pub fn restore<'w>(&mut self, now: u64, words: &'w [u32]) -> &'w [u32] {
        let at = |w: u32| now + 1 + w as u64;
        let at16 = |w: u32| ((now + 1) << 4) + w as u64;
        for q in [&mut self.pushes, &mut self.stages] {
            (q.started, q.issued) = (q.places, q.places);
        }
        self.popped = self.places;
        self.fifo_started = self.places;
        self.rest();
        let (&weights, mut words) = words.split_first().unwrap_or((&AT_REST, &[]));
        if weights == AT_REST {
            for q in [&mut self.pushes, &mut self.stages] {
                q.starts.pass(0, q.places);
            }
            self.weights = now + 1;
            (self.in_free16, self.stage_free16, self.run_start16) = (at16(0), at16(0), at16(0));
            return words;
        }
        self.weights = at(weights);
        self.fifo_started += words[0] as u64;
        words = &words[1..];
        let queues = [&mut self.pushes, &mut self.stages].map(|q| (&mut q.starts, (0, q.started)));
        for (times, numbers) in queues.into_iter().chain([(&mut self.results, (self.popped, self.fifo_started))]) {
            words = times.restore(numbers, now + 1, words);
        }
        while words[0] != LATER {
            let time = if words[1] == LATER { NEVER } else { pack(at(words[1])) };
            self.accumulators[words[0] as usize] = time;
            self.accumulated = self.accumulated.max(if time == NEVER { now } else { time >> 4 });
            words = &words[2..];
        }
        (self.in_free16, self.stage_free16, self.run_start16) = (at16(words[1]), at16(words[2]), at16(words[3]));
        let (commands, rest) = words[5..].split_at(4 * words[4] as usize);
        for c in commands.chunks_exact(4) {
            let (issue, d16) = (now - c[1] as u64, c[2] as u64);
            self.pending.push_back(match c[0] {
                0 => Command::Latch { issue },
                1 => {
                    self.stages.issued += 1;
                    Command::Stage { issue, d16 }
                }
                kind => {
                    self.pushes.issued += 1;
                    Command::Push { issue, d16, to: if kind == 2 { To::Fifo } else { To::Rows(c[3]) } }
                }
            });
        }
        rest
    }

    /// Streaming time in sixteenths, for counting repetitions.
    pub fn busy16_mut(&mut self) -> &mut u64 {
        &mut self.busy16
    }

    /// Cycles in which rows streamed.
    pub fn busy(&self) -> u64 {
        self.busy_with(0)
    }

    /// [`MxuTiming::busy`] with so many sixteenths that it does not know of yet.
    pub fn busy_with(&self, sixteenths: u64) -> u64 {
        (self.busy16 + sixteenths) / 16
    }

    /// Cycles of `from..to` in which rows stream.
    pub fn overlap(&self, from: u64, to: u64) -> u64 {
        let (s, e) = (self.run_start16 / 16, self.in_free16.div_ceil(16));
        to.min(e).saturating_sub(from.max(s))
    }

    /// Whether rows stream in the cycles in which another unit's do.
    #[inline(always)]
    pub fn streams_like(&self, other: &MxuTiming) -> bool {
        (self.run_start16, self.in_free16) == (other.run_start16, other.in_free16)
    }

    /// A stage at cycle `issue`: when the next one may issue.
    #[inline(always)]
    pub fn stage(&mut self, issue: u64, d16: u32) -> Packed {
        self.stages.issued += 1;
        if self.pending.is_empty() {
            self.take_stage(issue, d16 as u64);
        } else {
            self.pending.push_back(Command::Stage { issue, d16: d16 as u64 });
        }
        self.stages.ready()
    }

    #[inline(always)]
    pub fn latch(&mut self, issue: u64) {
        if self.pending.is_empty() {
            self.take_weights(issue);
        } else {
            self.pending.push_back(Command::Latch { issue });
        }
    }

    /// A push at cycle `issue`: when the next one may issue, and when the oldest result can be popped, if that is another than before.
    #[inline(always)]
    pub fn push(&mut self, issue: u64, d16: u32) -> (Packed, Option<Packed>) {
        self.pushes.issued += 1;
        let none = self.popped >= self.fifo_started;
        self.stream(issue, d16 as u64, To::Fifo);
        (self.pushes.ready(), none.then(|| self.pop_ready()))
    }

    /// A push into accumulators at cycle `issue`: when the next one may issue.
    pub fn push_rows(&mut self, issue: u64, d16: u32, row: u32) -> Packed {
        self.pushes.issued += 1;
        for g in self.groups(row) {
            self.accumulators[g] = NEVER;
        }
        self.accumulated = self.accumulated.max(issue);
        self.stream(issue, d16 as u64, To::Rows(row));
        self.pushes.ready()
    }

    /// Takes the oldest result at cycle `issue`; whether commands that waited for room may have taken effect.
    #[inline(always)]
    pub fn pop(&mut self, issue: u64) -> bool {
        self.popped += 1;
        if self.pending.is_empty() {
            return false;
        }
        self.go_on(issue);
        true
    }

    /// A pop at cycle `pop` made room for one more result.
    #[cold]
    fn go_on(&mut self, pop: u64) {
        while let Some(&c) = self.pending.front() {
            if !self.execute(c, pop) {
                break;
            }
            self.pending.pop_front();
        }
    }

    /// When the accumulator rows from `row` on are complete.
    pub fn rows_ready(&self, row: u32) -> Packed {
        self.groups(row).map(|g| self.accumulators[g]).max().unwrap_or(0)
    }

    fn groups(&self, row: u32) -> std::ops::Range<usize> {
        let last = self.accumulators.len();
        let first = (row / self.sublanes) as usize;
        first.min(last)..((row + self.sublanes).div_ceil(self.sublanes) as usize).min(last)
    }

    /// Pushes rows, behind what is pending.
    #[inline(always)]
    fn stream(&mut self, issue: u64, d16: u64, to: To) {
        // Whatever made room was popped before this issues.
        if !self.pending.is_empty() || !self.enter(issue, d16, to, issue) {
            self.pending.push_back(Command::Push { issue, d16, to });
        }
    }

    /// Lets a command take effect behind a pop; `false` if that time is not known yet.
    fn execute(&mut self, c: Command, pop: u64) -> bool {
        match c {
            Command::Stage { issue, d16 } => self.take_stage(issue, d16),
            Command::Latch { issue } => self.take_weights(issue),
            Command::Push { issue, d16, to } => return self.enter(issue, d16, to, pop),
        }
        true
    }

    /// A stage takes effect.
    #[inline(always)]
    fn take_stage(&mut self, issue: u64, d16: u64) {
        if self.tile > 0 {
            return self.stages.start(issue + 1);
        }
        let start16 = ((issue + 1) << 4).max(self.stage_free16).max(self.weights << 4);
        self.stage_free16 = start16 + d16;
        self.stages.start(start16 >> 4);
    }

    /// A latch takes effect.
    #[inline(always)]
    fn take_weights(&mut self, issue: u64) {
        let at16 = ((issue + 1) << 4).max(self.in_free16).max(self.stage_free16);
        self.weights = at16.div_ceil(16) + self.latch;
        if self.tile > 0 {
            // The next tile begins when all of this one's contracted dimension has gone by.
            self.stage_free16 = (self.weights + self.tile) << 4;
        }
    }

    /// Rows enter the array, if they need room in the FIFO behind cycle `room`; `false` if the time is not known yet.
    #[inline(always)]
    fn enter(&mut self, issue: u64, d16: u64, to: To, room: u64) -> bool {
        let mut start16 = ((issue + 1) << 4).max(self.in_free16).max(self.weights << 4);
        if let To::Fifo = to {
            if self.fifo_started >= self.popped + self.places {
                return false;
            }
            start16 = start16.max((room + 1) << 4);
        }
        if start16 > self.in_free16 {
            self.run_start16 = start16;
        }
        self.in_free16 = start16 + d16;
        self.busy16 += d16;
        self.pushes.start(start16 >> 4);
        let through16 = if self.tile > 0 { self.in_free16.max(self.stage_free16) } else { self.in_free16 };
        let ready = through16.div_ceil(16) - 1 + self.fill;
        match to {
            To::Fifo => {
                self.results.set(self.fifo_started, ready);
                self.fifo_started += 1;
            }
            To::Rows(row) => {
                for g in self.groups(row) {
                    self.accumulators[g] = pack(ready);
                }
                self.accumulated = self.accumulated.max(ready);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
