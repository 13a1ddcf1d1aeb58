//! Memory over time: how much of each is taken, and by what.

use super::{Buffer, Memory, Profile};

/// Bytes taken from a cycle on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub cycle: u64,
    pub bytes: u64,
}

/// Counts how many ranges of addresses cover each place, and how many bytes are covered at all.
struct Coverage {
    /// Every address at which a range begins or ends, ascending.
    bounds: Vec<u64>,
    /// A tree over the places between them, the root first: ranges that cover a node's whole part, and bytes covered in it.
    covers: Vec<u32>,
    bytes: Vec<u64>,
}

impl Coverage {
    fn new(ranges: impl Iterator<Item = (u64, u64)>) -> Coverage {
        let mut bounds: Vec<u64> = ranges.flat_map(|(a, b)| [a, b]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let nodes = 4 * bounds.len().max(1);
        Coverage { bounds, covers: vec![0; nodes], bytes: vec![0; nodes] }
    }

    /// Adds a range or takes it away.
    fn change(&mut self, range: (u64, u64), taken: bool) {
        let at = |x: u64| self.bounds.partition_point(|b| *b < x);
        let (from, to) = (at(range.0), at(range.1));
        let places = self.bounds.len().saturating_sub(1);
        if from < to {
            self.node(1, (0, places), (from, to), taken);
        }
    }

    fn node(&mut self, node: usize, (lo, hi): (usize, usize), (from, to): (usize, usize), taken: bool) {
        if to <= lo || hi <= from {
            return;
        }
        if from <= lo && hi <= to {
            let c = &mut self.covers[node];
            *c = if taken { *c + 1 } else { c.saturating_sub(1) };
        } else {
            let middle = lo.midpoint(hi);
            self.node(2 * node, (lo, middle), (from, to), taken);
            self.node(2 * node + 1, (middle, hi), (from, to), taken);
        }
        self.bytes[node] = match (self.covers[node] > 0, hi - lo > 1) {
            (true, _) => self.bounds[hi] - self.bounds[lo],
            (false, true) => self.bytes[2 * node] + self.bytes[2 * node + 1],
            (false, false) => 0,
        };
    }

    fn total(&self) -> u64 {
        self.bytes.get(1).copied().unwrap_or(0)
    }
}

/// Occupancy of a memory as steps, by cycle. The first is at cycle 0. Addresses count once: the times of arrays of a loop
/// span all its rounds, in which they take turns at the same addresses.
pub fn occupancy(p: &Profile, memory: Memory) -> Vec<Level> {
    let range = |b: &Buffer| (b.address, b.address.saturating_add(b.bytes));
    let all: Vec<&Buffer> = p.meta.buffers.iter().filter(|b| b.memory == memory).collect();
    let mut changes: Vec<(u64, bool, (u64, u64))> = Vec::new();
    for b in &all {
        changes.push((b.from, true, range(b)));
        changes.push((b.to, false, range(b)));
    }
    changes.sort_unstable();
    let mut covered = Coverage::new(all.iter().map(|b| range(b)));
    let mut out = vec![Level { cycle: 0, bytes: 0 }];
    for (cycle, taken, range) in changes {
        covered.change(range, taken);
        let bytes = covered.total();
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

/// The memories that arrays lie in: vector memory, HBM, and CMEM where the chip has it.
pub fn of_arrays(p: &Profile) -> Vec<Memory> {
    let all = [Memory::Vmem, Memory::Hbm, Memory::Cmem].into_iter();
    all.filter(|&m| m != Memory::Cmem || size(p, m) > 0).collect()
}

/// Bytes of a memory that a device has.
pub fn size(p: &Profile, memory: Memory) -> u64 {
    match memory {
        Memory::Hbm => p.meta.chip.device_hbm_bytes(),
        Memory::Vmem => p.meta.chip.vmem.bytes,
        Memory::Smem => p.meta.chip.smem.bytes,
        Memory::Cmem => p.meta.chip.device_cmem_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_count_once() {
        let ranges = [(0, 10), (5, 20), (30, 40), (0, 10), (0, 40)];
        let mut c = Coverage::new(ranges.into_iter());
        let mut totals = Vec::new();
        for r in ranges {
            c.change(r, true);
            totals.push(c.total());
        }
        assert_eq!(totals, [10, 20, 30, 30, 40]);
        let mut totals = Vec::new();
        for r in ranges.into_iter().rev() {
            c.change(r, false);
            totals.push(c.total());
        }
        assert_eq!(totals, [30, 30, 20, 10, 0]);
        assert_eq!(Coverage::new(std::iter::empty()).total(), 0);
    }
}
