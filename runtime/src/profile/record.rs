//! The recorder: an observer that writes down what it is told, within bounds.

use super::{Detail, Level, Samples, Spans, Trace, Transfer};
use crate::report::rows::peak_flops_per_cycle;
use systole_isa::program::{DebugOp, DebugRange};
use systole_isa::{ChipConfig, DType, Program};
use systole_simulator::{Cause, DmaEvent, Observer, Sample};

/// Bounds of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Spans of a lane.
    pub spans: usize,
    /// Counters over time.
    pub samples: usize,
}

impl Limits {
    /// Those of a recording of a level, where nobody asks for others. Spans tell what happened when; counters beside them show how
    /// busy units were, for which a wide terminal has some four hundred columns. Where bundles are recorded too, they are finer.
    pub fn of(level: Level) -> Limits {
        let samples = match level {
            Level::Ops | Level::Kernels => 512,
            Level::Bundles => 4096,
        };
        Limits { spans: 1 << 20, samples }
    }
}

/// Cycles of a window of time in which transfers and bundles are kept or left out together.
const WINDOW: u64 = 4096;
/// Most windows of which one is kept; where even that is too much, the first spans stay.
const MAX_STRIDE: u64 = 1 << 30;
/// Spans that one skipped loop may add; beyond, its iterations are joined.
const MAX_REPEATED: u64 = 1 << 12;
/// Least and largest first interval between samples, in cycles. It doubles whenever the samples are many. Runs of more than the
/// largest times the samples begin with it: of an estimate that is far too long (of branches that are not taken) no harm comes.
const FIRST_INTERVAL: (u64, u64) = (1 << 10, 1 << 14);

/// Writes down a run. `inner` sees everything too, and decides whether the run goes on.
pub struct Recorder<'a> {
    pub level: Level,
    limits: Limits,
    pub trace: Trace,
    pub detail: Detail,
    /// Of the transfers of skipped loops, one of so many is there.
    pub thinned: u64,
    interval: u64,
    /// The op that runs, for transfers.
    op: u32,
    /// First bundle of every op range, for transfers' ops.
    ranges: Vec<DebugRange>,
    /// First bundle of every kernel, ascending by bundle: (bundle, kernel).
    entries: Vec<(u32, u32)>,
    inner: &'a mut dyn Observer,
}

/// What a recorder leaves: see [`super::DeviceMeta`].
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub trace: Trace,
    pub detail: Detail,
}

impl<'a> Recorder<'a> {
    /// A recorder of a run of a program on a chip.
    pub fn new(
        level: Level,
        limits: Limits,
        (program, chip): (&Program, &ChipConfig),
        inner: &'a mut dyn Observer,
    ) -> Recorder<'a> {
        // Most programs take at most three times what their work takes at the peaks.
        let interval = 3 * least_cycles(program, chip) / limits.samples.max(1) as u64;
        let mut entries: Vec<(u32, u32)> =
            program.debug.kernels.iter().enumerate().map(|(i, k)| (k.start, i as u32)).collect();
        entries.sort_unstable();
        Recorder {
            level,
            limits,
            trace: Trace::default(),
            detail: Detail::ALL,
            thinned: 1,
            interval: interval.clamp(FIRST_INTERVAL.0, FIRST_INTERVAL.1),
            op: DebugRange::NONE,
            ranges: program.debug.ranges.clone(),
            entries,
            inner,
        }
    }

    /// The op that runs, as the last sample said.
    pub fn running(&self) -> Option<u32> {
        (self.op != DebugRange::NONE).then_some(self.op)
    }

    /// What is written down so far.
    pub fn so_far(&self) -> Recorded {
        Recorded { trace: self.trace.clone(), detail: self.detail() }
    }

    /// What was written down.
    pub fn finish(self) -> Recorded {
        Recorded { detail: self.detail(), trace: self.trace }
    }

    /// How much of the run that is: of skipped loops, some transfers are not there.
    fn detail(&self) -> Detail {
        Detail {
            transfer_stride: self.detail.transfer_stride.max(self.thinned),
            bundle_stride: self.detail.bundle_stride.max(self.thinned),
            ..self.detail
        }
    }

    /// The kernel that begins at a bundle.
    fn kernel_at(&self, bundle: u32) -> u32 {
        let i = self.entries.partition_point(|e| e.0 <= bundle);
        i.checked_sub(1).map_or(0, |i| self.entries[i].1)
    }

    /// The op of a bundle; that of the caller in shared subroutines.
    fn op_at(&self, bundle: u32) -> u32 {
        let i = self.ranges.partition_point(|r| r.start <= bundle);
        match i.checked_sub(1).map(|i| self.ranges[i].op) {
            Some(DebugRange::CALLER) | None => self.op,
            Some(op) => op,
        }
    }

    fn bound_ops(&mut self) {
        bound(&mut self.trace.ops, &mut self.detail.op_window, self.limits.spans);
    }

    fn bound_transfers(&mut self) {
        while self.trace.transfers.len() > self.limits.spans {
            let room = if self.detail.transfer_stride < MAX_STRIDE { usize::MAX } else { self.limits.spans };
            self.detail.transfer_stride = (self.detail.transfer_stride * 2).min(MAX_STRIDE);
            let wanted = |t: &Transfer| keeps(self.detail.transfer_stride, t.issued);
            self.trace.transfers.retain(wanted);
            self.trace.transfers.truncate(room);
        }
    }

    fn bound_bundles(&mut self) {
        while self.trace.runs.len().max(self.trace.waits.len()) > self.limits.spans {
            let room = if self.detail.bundle_stride < MAX_STRIDE { usize::MAX } else { self.limits.spans };
            self.detail.bundle_stride = (self.detail.bundle_stride * 2).min(MAX_STRIDE);
            thin(&mut self.trace.runs, self.detail.bundle_stride, room);
            thin(&mut self.trace.waits, self.detail.bundle_stride, room);
        }
    }

    /// Halves the samples when they are many.
    fn bound_samples(&mut self) {
        let s = &mut self.trace.samples;
        if s.cycle.len() < self.limits.samples {
            return;
        }
        let odd = |i: usize| i % 2 == 1;
        let n = s.units.count.max(1);
        for column in [&mut s.cycle, &mut s.bundles, &mut s.hbm_read, &mut s.hbm_write] {
            keep(column, odd);
        }
        for column in [&mut s.units.busy, &mut s.units.stalled, &mut s.units.useful] {
            keep(column, |i| odd(i / n));
        }
        self.interval *= 2;
    }
}

/// Cycles that a program takes at the peaks of the chip: its products, each executed once, or its arguments and results.
fn least_cycles(program: &Program, chip: &ChipConfig) -> u64 {
    let rate = |o: &DebugOp| peak_flops_per_cycle(chip, o.peak.unwrap_or(DType::BF16)).max(1.0);
    let products = program.debug.ops.iter().filter(|o| o.flops > 0.0).map(|o| o.flops / rate(o));
    let arrays = program.params.iter().chain(&program.results).map(|a| a.layout.bytes() as f64);
    // Far beyond what any interval depends on.
    products.sum::<f64>().max(arrays.sum::<f64>() / chip.hbm_bytes_per_cycle()).min(1e15) as u64
}

fn keep(column: &mut Vec<u64>, wanted: impl Fn(usize) -> bool) {
    let mut i = 0;
    column.retain(|_| {
        i += 1;
        wanted(i - 1)
    });
}

fn keeps(stride: u64, cycle: u64) -> bool {
    stride == 1 || (cycle / WINDOW).is_multiple_of(stride)
}

fn thin(spans: &mut Spans, stride: u64, room: usize) {
    let mut out = Spans::default();
    spans.iter().filter(|s| keeps(stride, s.start)).take(room).for_each(|s| out.push(s.id, s.start, s.end));
    *spans = out;
}

/// Joins spans over growing windows until they are few.
fn bound(spans: &mut Spans, window: &mut u64, limit: usize) {
    while spans.len() > limit {
        *window = match *window {
            0 => (spans.end() / limit as u64).max(1).next_power_of_two(),
            w => w.saturating_mul(2),
        };
        spans.fold(*window);
    }
}

/// Repeats the spans whose last cycle is in `from < c <= from + period` as an observer is told. Where that is many, groups
/// of repetitions are joined. Returns the cycles that were joined.
fn repeat(spans: &mut Spans, from: u64, period: u64, times: u64) -> u64 {
    let first = spans.iter_ends_after(from);
    let again: Vec<_> = (first..spans.len()).filter_map(|i| spans.get(i)).collect();
    if again.is_empty() {
        return 0;
    }
    if again.len() as u64 * times <= MAX_REPEATED {
        for k in 1..=times {
            again.iter().for_each(|s| spans.push(s.id, s.start + k * period, s.end + k * period));
        }
        return 0;
    }
    let mut joined = Spans::default();
    again.iter().for_each(|s| joined.push(s.id, s.start, s.end));
    let sums = joined.totals();
    let groups = (MAX_REPEATED / sums.len() as u64).clamp(1, times);
    let begin = again[0].start;
    for g in 0..groups {
        let (a, b) = (times * g / groups, times * (g + 1) / groups);
        let mut at = begin + (a + 1) * period;
        for (id, cycles) in &sums {
            spans.push(*id, at, at + cycles * (b - a));
            at += cycles * (b - a);
        }
    }
    period * times.div_ceil(groups)
}

impl Spans {
    /// First span whose last cycle is after `cycle`, in a lane that is written in order of ends.
    fn iter_ends_after(&self, cycle: u64) -> usize {
        let mut i = self.len();
        while i > 0 && self.start[i - 1] + self.len[i - 1] as u64 > cycle + 1 {
            i -= 1;
        }
        i
    }
}

impl Observer for Recorder<'_> {
    fn begin(&mut self) {
        self.inner.begin();
    }

    fn progress(&mut self, cycle: u64, bundles: u64) -> bool {
        self.inner.progress(cycle, bundles)
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn wants_bundles(&self) -> bool {
        self.level == Level::Bundles || self.inner.wants_bundles()
    }

    fn wants_details(&self) -> bool {
        self.inner.wants_details()
    }

    fn sample_interval(&self) -> Option<u64> {
        Some(self.interval)
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let s = &mut self.trace.samples;
        s.units.count = sample.units.len();
        s.cycle.push(sample.cycle);
        s.bundles.push(sample.bundles);
        s.hbm_read.push(sample.traffic.hbm_read);
        s.hbm_write.push(sample.traffic.hbm_write);
        s.units.busy.extend(sample.units.iter().map(|u| u.busy));
        s.units.stalled.extend(sample.units.iter().map(|u| u.stalled));
        s.units.useful.extend(sample.units.iter().map(|u| u.useful));
        self.op = sample.op;
        self.bound_samples();
        self.inner.sample(sample);
    }

    fn dma(&mut self, e: &DmaEvent) {
        if self.level >= Level::Kernels && keeps(self.detail.transfer_stride, e.issued) {
            let short = |v: u64| v.min(u32::MAX as u64) as u32;
            self.trace.transfers.push(Transfer {
                issued: e.issued,
                start: e.start,
                end: e.end,
                desc: e.desc,
                op: self.op_at(e.bundle),
                read: short(e.traffic.hbm_read),
                write: short(e.traffic.hbm_write),
            });
            self.bound_transfers();
        }
        self.inner.dma(e);
    }

    fn op(&mut self, op: u32, start: u64, end: u64) {
        self.op = op;
        self.trace.ops.push(op, start, end);
        self.bound_ops();
        self.inner.op(op, start, end);
    }

    fn kernel(&mut self, entry: u32, start: u64, end: u64) {
        if self.level >= Level::Kernels {
            let id = self.kernel_at(entry);
            self.trace.kernels.push(id, start, end);
            bound(&mut self.trace.kernels, &mut self.detail.kernel_window, self.limits.spans);
        }
        self.inner.kernel(entry, start, end);
    }

    fn bundle(&mut self, bundle: u32, cycle: u64) {
        if self.level == Level::Bundles && keeps(self.detail.bundle_stride, cycle) {
            let r = &mut self.trace.runs;
            let last = r.len().checked_sub(1);
            match last.map(|i| (i, r.start[i] + r.len[i] as u64, r.id[i] + r.len[i])) {
                Some((i, end, next)) if end == cycle && next == bundle => r.len[i] += 1,
                _ => {
                    r.push(bundle, cycle, cycle + 1);
                    self.bound_bundles();
                }
            }
        }
        self.inner.bundle(bundle, cycle);
    }

    fn wait(&mut self, bundle: u32, cause: Cause, start: u64, end: u64) {
        if self.level == Level::Bundles && keeps(self.detail.bundle_stride, start) {
            self.trace.waits.push(bundle << 4 | cause as u32, start, end);
            self.bound_bundles();
        }
        self.inner.wait(bundle, cause, start, end);
    }

    fn repeated(&mut self, from: u64, period: u64, times: u64) {
        let joined = repeat(&mut self.trace.ops, from, period, times);
        self.detail.op_window = self.detail.op_window.max(joined);
        self.bound_ops();
        let joined = repeat(&mut self.trace.kernels, from, period, times);
        self.detail.kernel_window = self.detail.kernel_window.max(joined);
        bound(&mut self.trace.kernels, &mut self.detail.kernel_window, self.limits.spans);
        let t = &mut self.trace.transfers;
        let again = t[t.partition_point(|t| t.issued <= from)..].to_vec();
        let step = (again.len() as u64 * times).div_ceil(MAX_REPEATED).max(1);
        let shown = if again.is_empty() { 0 } else { times };
        for k in (1..=shown).step_by(step as usize) {
            for a in again.iter().filter(|a| keeps(self.detail.transfer_stride, a.issued + k * period)) {
                let by = k * period;
                t.push(Transfer { issued: a.issued + by, start: a.start + by, end: a.end + by, ..*a });
            }
        }
        self.thinned = self.thinned.max(step);
        self.bound_transfers();
        for spans in [&mut self.trace.runs, &mut self.trace.waits] {
            let first = spans.iter_ends_after(from);
            let again: Vec<_> = (first..spans.len()).filter_map(|i| spans.get(i)).collect();
            let step = (again.len() as u64 * times).div_ceil(MAX_REPEATED).max(1);
            let rounds = if again.is_empty() { 0 } else { times };
            for k in (1..=rounds).step_by(step as usize) {
                let shown = again.iter().filter(|a| keeps(self.detail.bundle_stride, a.start + k * period));
                shown.for_each(|a| spans.push(a.id, a.start + k * period, a.end + k * period));
            }
            self.thinned = self.thinned.max(step);
        }
        self.bound_bundles();
        self.inner.repeated(from, period, times);
    }
}

/// The samples of a run with nothing sampled.
impl Samples {
    pub fn is_empty(&self) -> bool {
        self.cycle.is_empty()
    }
}
