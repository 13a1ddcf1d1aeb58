//! Instruction fetch: which blocks of code are in instruction memory, and when they arrive from HBM.
//!
//! The launch loads as much of the code, from its beginning, as instruction memory holds; a program that fits never
//! waits for code. For larger programs instruction memory is a cache of fixed-size blocks that are replaced in the
//! order in which they came. Entering a block fetches it if it is absent, and ahead of need the blocks after it and the first
//! blocks of what these call, as far as they are a part of instruction memory: more would take the place of what is in use
//! and of each other. Code arrives at the HBM bandwidth, one block after the other, an HBM latency
//! after the request; it does not compete with DMA.

use super::code::{Branch, Code, FLAG_BLOCK, FLAG_BRANCH};
use std::collections::VecDeque;
use systole_isa::chip::ChipConfig;

/// Sequential blocks fetched ahead.
const AHEAD: u32 = 2;
/// First blocks of what is called that are fetched ahead: this part of instruction memory.
const CALLED_SHARE: usize = 4;

/// Blocks of a program that is larger than instruction memory; part of the predecoded code.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Block of each bundle; empty if the program fits.
    pub of: Vec<u32>,
    /// Blocks that code in the block calls or jumps to elsewhere.
    targets: Vec<Vec<u32>>,
    bytes: u64,
    /// Blocks that instruction memory holds.
    capacity: usize,
}

impl Blocks {
    /// Divides code of so many bytes, whose bundles begin at these, into blocks, and flags the bundles that begin one.
    pub fn new(size: u64, begins: impl Iterator<Item = u64>, code: &mut Code, chip: &ChipConfig) -> Blocks {
        if size <= chip.imem.bytes {
            return Blocks::default();
        }
        let bytes = (chip.imem.bytes / 64).clamp(512, 16 << 10);
        let mut of = Vec::with_capacity(code.heads.len());
        let (mut block, mut end) = (0, bytes);
        for (at, head) in begins.zip(&mut code.heads) {
            while at >= end {
                (block, end) = (block + 1, end + bytes);
            }
            if of.last() != Some(&block) {
                head.flags |= FLAG_BLOCK;
            }
            of.push(block);
        }
        let mut targets = vec![Vec::new(); of.last().map_or(0, |b| *b as usize + 1)];
        for (b, head) in code.heads.iter().enumerate().filter(|h| h.1.flags & FLAG_BRANCH != 0) {
            let target = match code.branches[b] {
                Branch::Call { target } | Branch::Jump { target } => target,
                Branch::NotZero { target, .. } | Branch::Zero { target, .. } | Branch::Loop { target, .. } => target,
                Branch::Return | Branch::Halt | Branch::Trap { .. } | Branch::Host { .. } => continue,
            };
            let (from, to) = (of[b], of[target as usize]);
            let list: &mut Vec<u32> = &mut targets[from as usize];
            if from != to && !list.contains(&to) {
                list.push(to);
            }
            debug_assert!(head.flags & FLAG_BRANCH != 0);
        }
        Blocks { of, targets, bytes, capacity: (chip.imem.bytes / bytes).max(AHEAD as u64 + 2) as usize }
    }
}

/// What instruction memory holds.
#[derive(Debug)]
pub(super) struct Fetch {
    /// Arrival of each block; `u64::MAX` if it is absent.
    arrival: Vec<u64>,
    order: VecDeque<u32>,
    /// When the next block may follow, in 1/256 cycles.
    free: u64,
    service: u64,
    latency: u64,
    pub current: u32,
    pub bytes: u64,
}

impl Fetch {
    /// Instruction memory after the launch.
    pub fn new(blocks: &Blocks, chip: &ChipConfig) -> Fetch {
        let count = blocks.targets.len();
        let loaded = blocks.capacity.min(count);
        let mut arrival = vec![u64::MAX; count];
        arrival[..loaded].fill(0);
        Fetch {
            arrival,
            order: (0..loaded as u32).collect(),
            free: 0,
            service: (blocks.bytes as f64 * 256.0 / chip.hbm_bytes_per_cycle()) as u64,
            latency: chip.hbm_latency_cycles(),
            current: 0,
            bytes: 0,
        }
    }

    /// Enters a block at cycle `now`: when its code is there.
    pub fn enter(&mut self, blocks: &Blocks, block: u32, now: u64) -> u64 {
        self.current = block;
        self.request(blocks, block, now);
        let ready = self.arrival[block as usize];
        for next in block + 1..=block + AHEAD {
            self.request(blocks, next, now);
        }
        let ahead = (block..=block + AHEAD).filter_map(|b| blocks.targets.get(b as usize)).flatten();
        for &called in ahead.take(blocks.capacity / CALLED_SHARE) {
            self.request(blocks, called, now);
        }
        ready
    }

    fn request(&mut self, blocks: &Blocks, block: u32, now: u64) {
        let Some(arrival) = self.arrival.get(block as usize) else { return };
        if *arrival != u64::MAX {
            return;
        }
        if self.order.len() >= blocks.capacity {
            // The block in use stays.
            let oldest = self.order.pop_front().expect("the capacity is not zero");
            if oldest == self.current {
                self.order.push_back(oldest);
                if let Some(next) = self.order.pop_front() {
                    self.arrival[next as usize] = u64::MAX;
                }
            } else {
                self.arrival[oldest as usize] = u64::MAX;
            }
        }
        self.free = self.free.max(now << 8) + self.service;
        self.arrival[block as usize] = self.free.div_ceil(256) + self.latency;
        self.order.push_back(block);
        self.bytes += blocks.bytes;
    }
}
