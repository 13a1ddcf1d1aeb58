//! The state of the issue stage relative to the last issue: everything but the cycle itself that decides when later
//! bundles issue and what units do meanwhile. First in a state is what the code uses of registers, queues and groups.

use super::super::code::*;
use super::super::run::Core;
use super::table::Table;
use crate::unit::mxu::MxuTiming;
use multiversion::multiversion;

/// A ready time that depends on instructions to come.
const LATER: u32 = u32::MAX;
/// A state has a word for so many resources, a bit for each that is not ready, and behind it when those are.
const A_WORD: usize = u32::BITS as usize;

/// Resources that code waits for, of some that are one behind the other: the first of them all, and a bit for each.
pub(in super::super) type Used = (u16, u32);

/// For each block of resources the used ones that are ready at `soon` or later. On the host's widest vectors: this is asked of every
/// state that is written down.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2", "x86_64+avx2"))]
fn later(ready: &[Packed; RESOURCES], soon: Packed, used: &[Used], out: &mut [u32; RESOURCES / A_WORD]) {
    let blocks = ready.as_chunks::<A_WORD>().0;
    for (out, &(first, of)) in out.iter_mut().zip(used) {
        let Some(block) = blocks.get(usize::from(first) / A_WORD) else { continue };
        *out = of & block.iter().enumerate().fold(0, |all, (i, t)| all | u32::from(*t >= soon) << i);
    }
}

impl Core<'_> {
    /// Writes the state to `out`: the latest cycle behind the last issue that is in it; `None` if it is out of range.
    pub(in super::super) fn capture(&self, used: &[Used], out: &mut Vec<u32>) -> Option<u32> {
        out.clear();
        let base = self.now << 4;
        let mut last = 0u64;
        let mut blocks = [0; RESOURCES / A_WORD];
        later(&self.ready, base + 32, used, &mut blocks);
        for (&(first, _), all) in used.iter().zip(blocks) {
            out.push(all);
            let ready = &self.ready[usize::from(first)..][..A_WORD];
            let mut left = all;
            while left != 0 {
                let t = ready[left.trailing_zeros() as usize];
                left &= left - 1;
                out.push(if t == NEVER { LATER } else { (t - base) as u32 });
                last = last.max(if t == NEVER { 0 } else { t - base });
            }
        }
        let mut last = last >> 4;
        let mut units = self.l.code.mxus_used;
        let mut before: Option<&MxuTiming> = None;
        while units != 0 {
            let unit = &self.mxus[units.trailing_zeros() as usize];
            units &= units - 1;
            if !before.is_some_and(|b| unit.capture_same(b, self.now, out)) {
                last = last.max(unit.capture(self.now, out)?);
            }
            before = Some(unit);
        }
        (last < 1 << 26 || last == u32::MAX as u64).then_some(last as u32)
    }

    /// Makes a state that [`Core::capture`] wrote that of the machine whose last issue was now.
    pub(in super::super) fn restore(&mut self, used: &[Used], words: &[u32]) {
        let base = self.now << 4;
        let mut rest = words;
        for &(first, _) in used {
            let ready = &mut self.ready[usize::from(first)..][..A_WORD];
            // Nobody looks at what is not used.
            ready.fill(0);
            let Some((&all, behind)) = rest.split_first() else { return };
            let (times, behind) = behind.split_at(all.count_ones() as usize);
            let mut left = all;
            for &w in times {
                let at = left.trailing_zeros() as usize;
                left &= left - 1;
                ready[at] = if w == LATER { NEVER } else { base + w as u64 };
            }
            rest = behind;
        }
        let mut units = self.l.code.mxus_used;
        let mut before = 0;
        while units != 0 {
            let u = units.trailing_zeros() as usize;
            units &= units - 1;
            if MxuTiming::is_same(rest) {
                let (units, own) = self.mxus.split_at_mut(u);
                own[0].restore_same(&units[before]);
                rest = &rest[1..];
            } else {
                rest = self.mxus[u].restore(self.now, rest);
            }
            before = u;
        }
        let code = &self.l.code;
        let last = |slot: usize| self.ready[code.resources.group(slot, self.group_units[slot])] >> 4;
        self.shared_until = (0..GROUPS).filter(|g| code.shared[*g]).map(last).max().unwrap_or(0);
    }

    /// Keeps the words of the state in which the core leaves a table, if it is only a number of the table's.
    pub(super) fn keep_state(&mut self, table: &Table) {
        if !self.fresh {
            self.left.clear();
            self.left.extend_from_slice(table.body(&table.words, self.body));
        }
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
pub(in super::super) fn used(code: &Code, units: &[usize; GROUPS]) -> Vec<Used> {
    let mut all = code.waited;
    for group in (0..GROUPS).filter(|g| code.shared[*g]) {
        for r in (1..=units[group]).map(|n| code.resources.group(group, n)) {
            all[r / A_WORD] |= 1 << (r % A_WORD);
        }
    }
    let blocks = all.into_iter().enumerate().filter(|b| b.1 != 0);
    blocks.map(|(i, of)| ((i * A_WORD) as u16, of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ready_is_found_by_block() {
        let ready = std::array::from_fn(|i| [0, 99, 100, 101, NEVER - 1, NEVER][i * 7 % 6]);
        let used: [Used; 3] = [(0, !0), (64, 0x8421_8421), (992, 1 << 31 | 0x7777)];
        let mut out = [0; RESOURCES / A_WORD];
        later(&ready, 100, &used, &mut out);
        let expected = used.map(|(first, of)| {
            let late = (0..A_WORD).filter(|i| of >> i & 1 == 1 && ready[usize::from(first) + i] >= 100);
            late.fold(0, |all, i| all | 1 << i)
        });
        assert_eq!(out[..3], expected);
        assert!(out[3..].iter().all(|b| *b == 0));
    }
}
