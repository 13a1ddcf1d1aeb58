//! The state of the issue stage relative to the last issue: everything but the cycle itself that decides when later
//! bundles issue and what units do meanwhile. First in a state is what the code uses of registers, queues and groups.

use super::super::code::*;
use super::super::run::Core;
use super::table::Table;

/// A ready time that depends on instructions to come.
const LATER: u32 = u32::MAX;
/// A state has a word for so many registers, a bit for each that is not ready, and behind it when those are.
const REGISTERS_A_WORD: usize = 32;

impl Core<'_> {
    /// Writes the state to `out`: the latest cycle behind the last issue that is in it; `None` if it is out of range.
    pub(in super::super) fn capture(&self, used: &[u16], out: &mut Vec<u32>) -> Option<u32> {
        out.clear();
        let base = self.now << 4;
        let mut last = 0u64;
        let soon = base + 32;
        for some in used.chunks(REGISTERS_A_WORD) {
            let place = out.len();
            let busy = |all: u32, &r: &u16| all << 1 | u32::from(self.ready[r as usize & (RESOURCES - 1)] >= soon);
            let all = some.iter().rev().fold(0, busy);
            out.push(all);
            let mut left = all;
            while left != 0 {
                let t = self.ready[some[left.trailing_zeros() as usize] as usize & (RESOURCES - 1)];
                left &= left - 1;
                out.push(if t == NEVER { LATER } else { (t - base) as u32 });
                last = last.max(if t == NEVER { 0 } else { t - base });
            }
            debug_assert_eq!(out.len() - place, 1 + all.count_ones() as usize);
        }
        let mut last = last >> 4;
        let mut units = self.l.code.mxus_used;
        while units != 0 {
            let u = units.trailing_zeros() as usize;
            units &= units - 1;
            last = last.max(self.mxus[u].capture(self.now, out)?);
        }
        (last < 1 << 26 || last == u32::MAX as u64).then_some(last as u32)
    }

    /// Makes a state that [`Core::capture`] wrote that of the machine whose last issue was now.
    pub(in super::super) fn restore(&mut self, used: &[u16], words: &[u32]) {
        let base = self.now << 4;
        let mut rest = words;
        for some in used.chunks(REGISTERS_A_WORD) {
            some.iter().for_each(|&r| self.ready[r as usize & (RESOURCES - 1)] = 0);
            let Some((&all, behind)) = rest.split_first() else { return };
            let (times, behind) = behind.split_at(all.count_ones() as usize);
            let mut left = all;
            for &w in times {
                let r = some[left.trailing_zeros() as usize];
                left &= left - 1;
                self.ready[r as usize & (RESOURCES - 1)] = if w == LATER { NEVER } else { base + w as u64 };
            }
            rest = behind;
        }
        let mut units = self.l.code.mxus_used;
        while units != 0 {
            let u = units.trailing_zeros() as usize;
            units &= units - 1;
            rest = self.mxus[u].restore(self.now, rest);
        }
        let code = &self.l.code;
        let last = |slot: usize| self.ready[code.resources.group(slot, self.group_units[slot])] >> 4;
        self.shared_until = (0..GROUPS).filter(|g| code.shared[*g]).map(last).max().unwrap_or(0);
    }

    /// The state of registers, queues and units is that of now, not only a number of the table's.
    pub(super) fn refresh(&mut self, table: &mut Table) {
        if !self.fresh {
            let words = std::mem::take(&mut table.words);
            self.restore(&table.used, table.body(&words, self.body));
            table.words = words;
            self.fresh = true;
        }
    }
}

/// Registers, queues and groups that code waits for.
pub(in super::super) fn used(code: &Code, units: &[usize; GROUPS]) -> Vec<u16> {
    let groups = (0..GROUPS).filter(|g| code.shared[*g]).flat_map(|g| (1..=units[g]).map(move |n| (g, n)));
    let groups = groups.map(|(g, n)| code.resources.group(g, n));
    let mut used = [false; RESOURCES];
    groups.chain(code.reads.iter().map(|&r| r as usize)).for_each(|r| used[r & (RESOURCES - 1)] = true);
    (0..RESOURCES).filter(|&r| used[r]).map(|r| r as u16).collect()
}
