//! Memory over time: how much of each is taken, and by what.

use super::{Buffer, Memory, Profile};

/// Bytes taken from a cycle on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub cycle: u64,
    pub bytes: u64,
}

/// Occupancy of a memory as steps, by cycle. The first is at cycle 0.
pub fn occupancy(p: &Profile, memory: Memory) -> Vec<Level> {
    let mut changes: Vec<(u64, i128)> = Vec::new();
    for b in p.meta.buffers.iter().filter(|b| b.memory == memory) {
        changes.push((b.from, b.bytes as i128));
        changes.push((b.to, -(b.bytes as i128)));
    }
    changes.sort_unstable();
    let mut out = vec![Level { cycle: 0, bytes: 0 }];
    let mut now: i128 = 0;
    for (cycle, by) in changes {
        now += by;
        let bytes = now.clamp(0, u64::MAX as i128) as u64;
        match out.last_mut() {
            Some(l) if l.cycle == cycle => l.bytes = bytes,
            _ => out.push(Level { cycle, bytes }),
        }
    }
    out
}

/// The step with most bytes.
pub fn peak(levels: &[Level]) -> Level {
    levels.iter().copied().max_by_key(|l| (l.bytes, std::cmp::Reverse(l.cycle))).unwrap_or(Level { cycle: 0, bytes: 0 })
}

/// Most bytes taken in cycles `from..to`.
pub fn most(levels: &[Level], from: u64, to: u64) -> u64 {
    let first = levels.partition_point(|l| l.cycle <= from).saturating_sub(1);
    levels[first..].iter().take_while(|l| l.cycle < to.max(from + 1)).map(|l| l.bytes).max().unwrap_or(0)
}

/// Buffers that are there at a cycle, largest first.
pub fn live(p: &Profile, memory: Memory, cycle: u64) -> Vec<&Buffer> {
    let there = |b: &&Buffer| b.memory == memory && b.from <= cycle && cycle < b.to;
    let mut all: Vec<&Buffer> = p.meta.buffers.iter().filter(there).collect();
    all.sort_by_key(|b| (std::cmp::Reverse(b.bytes), b.address));
    all
}

/// Bytes of a memory that a device has.
pub fn size(p: &Profile, memory: Memory) -> u64 {
    match memory {
        Memory::Hbm => p.meta.chip.device_hbm_bytes(),
        Memory::Vmem => p.meta.chip.vmem.bytes,
        Memory::Smem => p.meta.chip.smem.bytes,
    }
}
