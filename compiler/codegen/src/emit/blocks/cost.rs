//! What a cut costs in cycles: the copies of its blocks, the work on them, and how these follow each other.

use super::share::{Share, shares};
use super::window::{Purpose, Window};
use super::{Body, Choice};
use crate::emit::moves;
use systole_isa::ChipConfig;

/// Cycles around a block: looks at semaphores, starts of copies, the loop.
const BLOCK: f64 = 60.0;
/// Cycles of an inner loop of a block besides its work: filling and draining its pipeline.
const LOOP: f64 = 60.0;

/// Cycles from a copy's start to its first byte.
pub(super) fn latency(chip: &ChipConfig) -> f64 {
    (chip.hbm_latency_cycles() + u64::from(chip.dma.issue_cycles)) as f64
}

/// Cycles of all of HBM for the copies of a block, in and out, and of the copy engines for both.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    read: f64,
    written: f64,
    engines: f64,
}

impl Moved {
    pub fn add(&mut self, w: &Window, p: Purpose, (row_bytes, packing): (u64, u64), chip: &ChipConfig) {
        let bytes = w.runs.bytes(row_bytes, packing) as f64;
        let cycles = bytes / chip.hbm_bytes_per_cycle().max(1e-9);
        let dma = &chip.dma;
        let engine = (w.runs.count() as f64 / dma.chunks_per_cycle).max(bytes / dma.bytes_per_cycle);
        let engine = engine.max(f64::from(dma.descriptor_cycles)) / f64::from(dma.engines.max(1));
        for (to, is) in [(&mut self.read, p.read), (&mut self.written, p.written)] {
            if is {
                *to += cycles;
                self.engines += engine;
            }
        }
    }
}

/// What the blocks of a cut take, each by itself.
pub(super) struct Times {
    /// Cycles from a copy's start to its first byte.
    pub latency: f64,
    /// Copies of, and work on, a whole block and the block behind the last whole one (no work: there is none).
    pub whole: (Moved, f64),
    pub rest: (Moved, f64),
    /// One block is finished before the next begins.
    pub serial: bool,
}

impl Times {
    /// Cycles of so many whole blocks behind each other, and so many blocks behind these, with all of HBM's bandwidth.
    fn row(&self, blocks: u32, rests: u32) -> f64 {
        let work = |(_, work): (Moved, f64)| work + BLOCK;
        let alone = |block: (Moved, f64)| {
            let m = block.0;
            let ways = f64::from(u8::from(m.read > 0.0) + u8::from(m.written > 0.0));
            ways * self.latency + m.read + m.written + work(block)
        };
        let row = match blocks {
            0 => 0.0,
            _ if self.serial => f64::from(blocks) * alone(self.whole),
            1 => alone(self.whole),
            _ => {
                // The next copies begin when a set of windows is free: two blocks take an answer of the memory and the work.
                let (m, work) = (self.whole.0, work(self.whole));
                let copies = (m.read + m.written).max(m.engines);
                let period = copies.max(work).max((self.latency + copies + work) / 2.0);
                f64::from(blocks - 1) * period + alone(self.whole)
            }
        };
        row + if rests > 0 { f64::from(rests) * alone(self.rest) } else { 0.0 }
    }
}

impl Choice {
    /// Cycles of HBM for all copies inside of the outer loops.
    pub(super) fn traffic(&self) -> f64 {
        let of = |(m, _): (Moved, f64)| m.read + m.written;
        f64::from(self.blocks) * of(self.times.whole) + of(self.times.rest)
    }

    /// Cycles of the cut on one core; of one shared out among `cores` cores, of one that does as many times what the core with the largest
    /// share does, as HBM's bandwidth is divided among them.
    pub(super) fn cycles(&self, cores: u32) -> u64 {
        let rest = u32::from(self.rest > 0);
        let of_share = |share: Share| {
            let times = cores * (share.end - share.first);
            match self.around.split_first() {
                None => self.times.row(times, if share.last { cores * rest } else { 0 }),
                Some((_, inner)) => {
                    let inner = inner.iter().map(|&n| f64::from(n)).product::<f64>();
                    f64::from(times) * inner * self.times.row(self.blocks, rest)
                }
            }
        };
        let count = self.around.first().copied().unwrap_or(self.blocks);
        let cycles = shares(count, cores, false).into_iter().map(of_share).fold(0.0, f64::max);
        cycles.min(u64::MAX as f64 / 4.0) as u64
    }
}

/// Cycles of a body on a block: its registers through the fullest slot, and its loops.
pub(super) fn work(body: &Body, sizes: &[u32], (d, steps): (usize, u32), chip: &ChipConfig) -> f64 {
    let (sublanes, lanes) = (chip.core.sublanes, chip.core.lanes);
    let size = |i: usize| f64::from(if i == d { steps } else { sizes[i] });
    let Some(row) = body.row_dimension() else {
        let elements: f64 = (0..sizes.len()).map(size).product();
        let registers = elements / f64::from(sublanes * lanes);
        let Body::Move(whole) = body else { return registers };
        let mut spec = whole.clone();
        spec.sizes.iter_mut().enumerate().for_each(|(i, n)| *n = size(i) as u32);
        return registers.max(moves::piece_cycles(&spec, (sublanes, lanes)));
    };
    let loops: f64 = (0..sizes.len()).filter(|&i| i != row).map(size).product();
    let registers = (size(row) / f64::from(sublanes)).ceil();
    loops * (LOOP + body.rows_cycles(registers, chip))
}

/// Cycles of a body by itself, with all of its arrays in vector memory.
pub fn whole_work(body: &Body, chip: &ChipConfig) -> f64 {
    let body = body.normal((chip.core.sublanes, chip.core.lanes));
    let sizes = body.sizes();
    let first = sizes.first().copied().unwrap_or(1);
    work(&body, &sizes, (0, first), chip)
}
