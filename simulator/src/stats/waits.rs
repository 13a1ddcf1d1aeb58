//! Stalled cycles by bundle and cause: most bundles never wait, those that do wait for one or two causes.

use super::{CAUSES, Cause};

/// Cycles that a bundle waited for a cause.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cycles: u64,
    /// The place of the bundle's next entry; [`NONE`] behind the last.
    next: u32,
    cause: Cause,
}

/// No entry. Not zero: memory that is read before it is written is faulted in twice.
const NONE: u32 = u32::MAX;

/// Stalled cycles of a program's bundles.
#[derive(Debug)]
pub(super) struct Waits {
    /// By bundle: the place of its first entry; [`NONE`] where it never waited.
    first: Vec<u32>,
    entries: Vec<Entry>,
}

impl Waits {
    pub fn new(bundles: usize) -> Waits {
        Waits { first: vec![NONE; bundles], entries: Vec::new() }
    }

    /// A bundle waited `cycles` more.
    #[inline(always)]
    pub fn add(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        let mut at = self.first[bundle];
        while let Some(e) = self.entries.get_mut(at as usize) {
            if e.cause == cause {
                e.cycles += cycles;
                return;
            }
            at = e.next;
        }
        let next = std::mem::replace(&mut self.first[bundle], self.entries.len() as u32);
        self.entries.push(Entry { cycles, next, cause });
    }

    /// What a bundle waited by cause; none if it never did.
    pub fn of(&self, bundle: usize) -> Option<[u64; CAUSES]> {
        let mut at = self.first[bundle];
        let mut out = (at != NONE).then_some([0; CAUSES])?;
        while let Some(e) = self.entries.get(at as usize) {
            out[e.cause as usize] += e.cycles;
            at = e.next;
        }
        Some(out)
    }

    /// What each bundle waited in all.
    pub fn totals(&self) -> Vec<u64> {
        (0..self.first.len()).map(|b| self.of(b).map_or(0, |w| w.iter().sum())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_sums_by_bundle_and_cause() {
        let mut w = Waits::new(3);
        for (bundle, cause, cycles) in
            [(2, Cause::Slot, 5), (0, Cause::Register, 1), (2, Cause::Register, 2), (2, Cause::Slot, 7)]
        {
            w.add(bundle, cause, cycles);
        }
        let of = w.of(2).expect("it waited");
        assert_eq!((of[Cause::Slot as usize], of[Cause::Register as usize], of.iter().sum::<u64>()), (12, 2, 14));
        assert_eq!((w.of(1), w.totals()), (None, vec![1, 0, 14]));
    }
}
