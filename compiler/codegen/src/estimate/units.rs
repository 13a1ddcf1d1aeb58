//! Units as a walk sees them: copies, semaphores, matrix units. Times are cycles.

use std::collections::{BTreeMap, VecDeque};
use systole_isa::{ChipConfig, DmaDesc, MxuFormat, Space};

/// Copy engines, the bandwidth of HBM, and what semaphores will hold.
pub(super) struct Copies<'a> {
    chip: &'a ChipConfig,
    descs: &'a [DmaDesc],
    rate: f64,
    engines: Vec<f64>,
    /// Ends of transfers under way.
    under_way: Vec<f64>,
    hbm: f64,
    /// By semaphore: bytes that are there, and (end, bytes) of what comes, by time.
    semaphores: BTreeMap<i32, (u64, Vec<(f64, u64)>)>,
}

impl<'a> Copies<'a> {
    pub fn new(chip: &'a ChipConfig, descs: &'a [DmaDesc]) -> Copies<'a> {
        let rate = chip.hbm_bytes_per_cycle().max(1e-9);
        let engines = vec![0.0; chip.dma.engines.max(1) as usize];
        Copies { chip, descs, rate, engines, under_way: Vec::new(), hbm: 0.0, semaphores: BTreeMap::new() }
    }

    /// A copy that begins to issue at `now`.
    pub fn start(&mut self, desc: i32, semaphore: i32, now: f64) {
        let Some(d) = usize::try_from(desc).ok().and_then(|i| self.descs.get(i)) else { return };
        let (chunk, runs) = chunks(d);
        let (dma, bytes) = (&self.chip.dma, d.bytes());
        let burst = u64::from(self.chip.hbm.burst_bytes.max(1));
        let sides = u32::from(d.src == Space::Hbm) + u32::from(d.dst == Space::Hbm);
        let engine = (runs as f64 / dma.chunks_per_cycle).max(bytes as f64 / dma.bytes_per_cycle).ceil();
        let engine = engine.max(f64::from(dma.descriptor_cycles));
        let free = self.engines.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("at least one engine");
        let mut begin = (now + f64::from(dma.issue_cycles)).max(*free);
        self.under_way.retain(|end| *end > now);
        self.under_way.sort_by(f64::total_cmp);
        if let Some(more) = self.under_way.len().checked_sub(dma.in_flight.max(1) as usize) {
            begin = begin.max(self.under_way[more]);
        }
        *free = begin + engine;
        let mut end = begin + engine;
        if sides > 0 {
            let moved = runs * chunk.next_multiple_of(burst) * u64::from(sides);
            self.hbm = self.hbm.max(begin) + moved as f64 / self.rate;
            end = end.max(self.hbm) + f64::from(sides) * self.chip.hbm_latency_cycles() as f64;
        }
        self.under_way.push(end);
        let s = self.semaphores.entry(semaphore).or_default();
        let at = s.1.partition_point(|a| a.0 <= end);
        s.1.insert(at, (end, bytes));
    }

    /// When a semaphore holds so many bytes, of what is under way.
    pub fn ready(&self, semaphore: i32, bytes: u64) -> f64 {
        let Some((count, coming)) = self.semaphores.get(&semaphore) else { return 0.0 };
        let mut have = *count;
        let mut at = 0.0;
        for &(end, n) in coming {
            if have >= bytes {
                break;
            }
            have += n;
            at = end;
        }
        at
    }

    /// Bytes that a semaphore holds and will.
    pub fn all(&self, semaphore: i32) -> u64 {
        self.semaphores.get(&semaphore).map_or(0, |s| s.0 + s.1.iter().map(|a| a.1).sum::<u64>())
    }

    /// Takes bytes off a semaphore.
    pub fn take(&mut self, semaphore: i32, bytes: u64, now: f64) {
        let s = self.semaphores.entry(semaphore).or_default();
        let n = s.1.partition_point(|a| a.0 <= now);
        s.0 = (s.0 + s.1.drain(..n).map(|a| a.1).sum::<u64>()).saturating_sub(bytes);
    }

    pub fn shift(&mut self, cycles: f64) {
        self.engines.iter_mut().chain(&mut self.under_way).for_each(|t| *t += cycles);
        self.hbm += cycles;
        self.semaphores.values_mut().flat_map(|s| &mut s.1).for_each(|a| a.0 += cycles);
    }
}

/// Bytes of a copy's chunks, and how many there are: chunks that follow each other on both sides are one.
fn chunks(d: &DmaDesc) -> (u64, u64) {
    let (mut chunk, mut runs) = (i64::from(d.chunk), 1);
    for dim in d.dims.iter().rev() {
        if runs == 1 && dim.src_stride == chunk && dim.dst_stride == chunk {
            chunk *= i64::from(dim.count);
        } else {
            runs *= u64::from(dim.count);
        }
    }
    (chunk as u64, runs)
}

/// A matrix unit.
#[derive(Clone)]
pub(super) struct Array {
    /// Cycles from a row's entry to its result.
    fill: f64,
    /// Instructions that a queue holds.
    queue: usize,
    entered: f64,
    weights: f64,
    staged: f64,
    /// When what waits in the queues of pushes and of stages leaves them.
    pushes: VecDeque<f64>,
    stages: VecDeque<f64>,
    /// When results are ready, in the FIFO and by accumulator row.
    results: VecDeque<f64>,
    rows: BTreeMap<i32, f64>,
}

impl Array {
    pub fn new(chip: &ChipConfig) -> Array {
        let m = &chip.mxu;
        Array {
            fill: f64::from(m.fill_cycles()),
            queue: (m.queue_rows / chip.core.sublanes.max(1)).max(1) as usize,
            entered: 0.0,
            weights: 0.0,
            staged: 0.0,
            pushes: VecDeque::new(),
            stages: VecDeque::new(),
            results: VecDeque::new(),
            rows: BTreeMap::new(),
        }
    }

    /// When the next push, and the next stage, finds room in its queue.
    pub fn room(&self, push: bool) -> f64 {
        let queue = if push { &self.pushes } else { &self.stages };
        queue.len().checked_sub(self.queue).map_or(0.0, |n| queue[n])
    }

    pub fn stage(&mut self, now: f64, cycles: f64) {
        let start = (now + 1.0).max(self.staged).max(self.weights);
        self.staged = start + cycles;
        queue(&mut self.stages, start, self.queue);
    }

    pub fn latch(&mut self, now: f64, latency: f64) {
        self.weights = (now + 1.0).max(self.entered).max(self.staged) + latency - 1.0;
    }

    /// A push into the FIFO, or to an accumulator row if it is known (else to all of them).
    pub fn push(&mut self, now: f64, cycles: f64, to: Option<Option<i32>>) {
        let start = (now + 1.0).max(self.entered).max(self.weights);
        self.entered = start + cycles;
        queue(&mut self.pushes, start, self.queue);
        let ready = self.entered - 1.0 + self.fill;
        match to {
            None => self.results.push_back(ready),
            Some(row) => {
                self.rows.insert(row.unwrap_or(-1), ready);
            }
        }
    }

    /// When the next result can be popped.
    pub fn popped(&self) -> f64 {
        self.results.front().copied().unwrap_or(0.0)
    }

    pub fn pop(&mut self) {
        self.results.pop_front();
    }

    /// When an accumulator row is ready.
    pub fn drained(&self, row: Option<i32>) -> f64 {
        let of = |row: i32| self.rows.get(&row).copied().unwrap_or(0.0);
        row.map_or(0.0, of).max(of(-1))
    }

    pub fn shift(&mut self, cycles: f64) {
        [&mut self.entered, &mut self.weights, &mut self.staged].into_iter().for_each(|t| *t += cycles);
        let queues = self.pushes.iter_mut().chain(&mut self.stages).chain(&mut self.results);
        queues.chain(self.rows.values_mut()).for_each(|t| *t += cycles);
    }
}

fn queue(q: &mut VecDeque<f64>, start: f64, places: usize) {
    q.push_back(start);
    if q.len() > places {
        q.pop_front();
    }
}

/// Cycles that a register's rows take to enter a matrix unit, in the format of that number.
pub(super) fn push_cycles(chip: &ChipConfig, format: i32) -> f64 {
    let format = usize::try_from(format).ok().and_then(|f| MxuFormat::ALL.get(f)).copied();
    chip.mxu_push_cycles(format.unwrap_or(MxuFormat::Bf16))
}
