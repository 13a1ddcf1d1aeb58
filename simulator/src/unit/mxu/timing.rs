//! When a matrix unit takes rows and weights and gives results.
//!
//! Commands (stage, latch, push) take effect in program order:
//! - a push of one register's rows enters the array when the array is free, at the format's rows per cycle, after the
//!   latch before it; its results can be popped `rows + cols + extra_latency` cycles after its last row entered;
//! - stages fill the one staging set at `weight_rows_per_cycle`, from the latch before them on;
//! - a latch happens once the rows pushed before it have entered and the staged weights are complete.
//!
//! Back-pressure: an instruction waits at issue while its queue (pushes and stages have one each, of `queue_rows`) is
//! full. With the FIFO full and the array's pipeline full behind it, a push stays in the queue until a pop makes room;
//! the time at which it enters is then unknown until that pop issues, and so is that of all later commands.
//!
//! Times with the suffix 16 are in sixteenths of a cycle.

use crate::issue::code::{NEVER, Packed};
use crate::stats::Cause;
use std::collections::VecDeque;
use systole_isa::chip::ChipConfig;

/// Ready times that an instruction changed, for the issue stage's resources.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gate {
    pub push: Packed,
    pub stage: Packed,
    pub pop: Packed,
}

/// Times by number, for as many of the last numbers as were asked for.
#[derive(Debug)]
struct Ring {
    times: Vec<u64>,
    mask: u64,
}

impl Ring {
    fn new(places: usize) -> Ring {
        let n = places.max(1).next_power_of_two();
        Ring { times: vec![0; n], mask: n as u64 - 1 }
    }

    #[inline(always)]
    fn get(&self, number: u64) -> u64 {
        self.times[(number & self.mask) as usize]
    }

    #[inline(always)]
    fn set(&mut self, number: u64, time: u64) {
        let at = (number & self.mask) as usize;
        self.times[at] = time;
    }
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
        Queue { starts: Ring::new(places), places: places as u64, issued: 0, started: 0 }
    }

    #[inline(always)]
    fn start(&mut self, cycle: u64) {
        self.starts.set(self.started, cycle);
        self.started += 1;
    }

    /// When the next entry may issue: once the entry that many places before it has started.
    #[inline(always)]
    fn ready(&self) -> Packed {
        if self.issued < self.places {
            return 0;
        }
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
    in_free16: u64,
    weights: u64,
    stage_free16: u64,
    pushes: Queue,
    stages: Queue,
    /// Places of FIFO and pipeline, pop times by number, ready times of results by number.
    places: u64,
    pops: Ring,
    results: Ring,
    fifo_started: u64,
    popped: u64,
    /// Ready time of each group of `sublanes` accumulator rows.
    accumulators: Vec<Packed>,
    pending: VecDeque<Command>,
    /// The run of rows that streams last, for stalls that overlap it; and all streaming time.
    run_start16: u64,
    busy16: u64,
}

impl MxuTiming {
    pub fn new(chip: &ChipConfig, latch_latency: u64, block16: u32) -> MxuTiming {
        let (m, c) = (&chip.mxu, &chip.core);
        let fill = m.rows as u64 + m.cols as u64 + m.extra_latency as u64;
        let in_flight = (fill * 16).div_ceil(block16.max(1) as u64);
        let places = (m.fifo_rows / c.sublanes) as u64 + in_flight;
        let queue = (m.queue_rows / c.sublanes).max(1) as usize;
        MxuTiming {
            fill,
            sublanes: c.sublanes,
            latch: latch_latency.saturating_sub(1),
            in_free16: 0,
            weights: 0,
            stage_free16: 0,
            pushes: Queue::new(queue),
            stages: Queue::new(queue),
            places: places.max(1),
            pops: Ring::new(places as usize),
            results: Ring::new(places as usize),
            fifo_started: 0,
            popped: 0,
            accumulators: vec![0; m.accumulator_rows.div_ceil(c.sublanes) as usize],
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

    /// Appends the state that decides later times, relative to cycle `now`, the last issue; `false` if commands are
    /// stuck in the queue.
    pub fn relative(&self, now: u64, out: &mut Vec<u64>) -> bool {
        let after = |t: u64| t.saturating_sub(now + 1);
        let after16 = |t: u64| t.saturating_sub((now + 1) << 4);
        out.extend([
            after16(self.in_free16),
            after(self.weights),
            after16(self.stage_free16),
            after16(self.run_start16),
        ]);
        for q in [&self.pushes, &self.stages] {
            let first = q.started.saturating_sub(q.places);
            // Places that were never taken count as free.
            out.extend((0..q.places - (q.started - first)).map(|_| 0));
            out.extend((first..q.started).map(|n| after(q.starts.get(n))));
        }
        out.push(self.fifo_started - self.popped);
        out.extend((self.popped..self.fifo_started).map(|n| after(self.results.get(n))));
        out.extend(self.accumulators.iter().map(|&t| if t == NEVER { NEVER } else { after(t >> 4) }));
        self.pending.is_empty()
    }

    /// Moves all times by `cycles`.
    pub fn shift(&mut self, cycles: u64) {
        self.in_free16 += cycles << 4;
        self.weights += cycles;
        self.stage_free16 += cycles << 4;
        self.run_start16 += cycles << 4;
        for ring in [&mut self.pushes.starts, &mut self.stages.starts, &mut self.pops, &mut self.results] {
            ring.times.iter_mut().for_each(|t| *t += cycles);
        }
        self.accumulators.iter_mut().filter(|t| **t != NEVER).for_each(|t| *t += cycles << 4);
    }

    /// Streaming time in sixteenths, for counting repetitions.
    pub fn busy16_mut(&mut self) -> &mut u64 {
        &mut self.busy16
    }

    /// Cycles in which rows streamed.
    pub fn busy(&self) -> u64 {
        self.busy16 / 16
    }

    /// Cycles of `from..to` in which rows stream.
    pub fn overlap(&self, from: u64, to: u64) -> u64 {
        let (s, e) = (self.run_start16 / 16, self.in_free16.div_ceil(16));
        to.min(e).saturating_sub(from.max(s))
    }

    /// A stage at cycle `issue`: when the next one may issue.
    #[inline(always)]
    pub fn stage(&mut self, issue: u64, d16: u32) -> Packed {
        self.stages.issued += 1;
        self.command(Command::Stage { issue, d16: d16 as u64 });
        self.stages.ready()
    }

    #[inline(always)]
    pub fn latch(&mut self, issue: u64) {
        self.command(Command::Latch { issue });
    }

    /// A push at cycle `issue`: when the next one may issue, and when the oldest result can be popped.
    #[inline(always)]
    pub fn push(&mut self, issue: u64, d16: u32) -> (Packed, Packed) {
        self.pushes.issued += 1;
        self.command(Command::Push { issue, d16: d16 as u64, to: To::Fifo });
        (self.pushes.ready(), self.pop_ready())
    }

    /// A push into accumulators at cycle `issue`: when the next one may issue.
    pub fn push_rows(&mut self, issue: u64, d16: u32, row: u32) -> Packed {
        self.pushes.issued += 1;
        for g in self.groups(row) {
            self.accumulators[g] = NEVER;
        }
        self.command(Command::Push { issue, d16: d16 as u64, to: To::Rows(row) });
        self.pushes.ready()
    }

    /// Takes the oldest result at cycle `issue`; whether commands that waited for room may have taken effect.
    #[inline(always)]
    pub fn pop(&mut self, issue: u64) -> bool {
        self.pops.set(self.popped, issue);
        self.popped += 1;
        if self.pending.is_empty() {
            return false;
        }
        self.go_on();
        true
    }

    #[cold]
    fn go_on(&mut self) {
        while let Some(&c) = self.pending.front() {
            if !self.execute(c) {
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

    #[inline(always)]
    fn command(&mut self, c: Command) {
        if !self.pending.is_empty() || !self.execute(c) {
            self.pending.push_back(c);
        }
    }

    /// Lets a command take effect; `false` if that time is not known yet.
    fn execute(&mut self, c: Command) -> bool {
        match c {
            Command::Stage { issue, d16 } => {
                let start16 = ((issue + 1) << 4).max(self.stage_free16).max(self.weights << 4);
                self.stage_free16 = start16 + d16;
                self.stages.start(start16 >> 4);
            }
            Command::Latch { issue } => {
                let at16 = ((issue + 1) << 4).max(self.in_free16).max(self.stage_free16);
                self.weights = at16.div_ceil(16) + self.latch;
            }
            Command::Push { issue, d16, to } => {
                let mut start16 = ((issue + 1) << 4).max(self.in_free16).max(self.weights << 4);
                if let To::Fifo = to
                    && self.fifo_started >= self.places
                {
                    let waits_for = self.fifo_started - self.places;
                    if waits_for >= self.popped {
                        return false;
                    }
                    start16 = start16.max((self.pops.get(waits_for) + 1) << 4);
                }
                if start16 > self.in_free16 {
                    self.run_start16 = start16;
                }
                self.in_free16 = start16 + d16;
                self.busy16 += d16;
                self.pushes.start(start16 >> 4);
                let ready = self.in_free16.div_ceil(16) - 1 + self.fill;
                match to {
                    To::Fifo => {
                        self.results.set(self.fifo_started, ready);
                        self.fifo_started += 1;
                    }
                    To::Rows(row) => {
                        for g in self.groups(row) {
                            self.accumulators[g] = pack(ready);
                        }
                    }
                }
            }
        }
        true
    }
}
