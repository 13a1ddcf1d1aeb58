//! Stalled cycles by bundle and cause: most bundles never wait, those that do wait for one or two causes.

use super::{CAUSES, Cause};

/// Cycles that a bundle waited for a cause.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cycles: u64,
    /// One more than the place of the bundle's next entry; zero behind the last.
    next: u32,
    cause: Cause,
}

/// Stalled cycles of a program's bundles. Memory is touched where something waits.
#[derive(Debug)]
pub(super) struct Waits {
    /// By bundle: one more than the place of its first entry; zero where it never waited.
    first: Vec<u32>,
    entries: Vec<Entry>,
}

impl Waits {
    pub fn new(bundles: usize) -> Waits {
        Waits { first: vec![0; bundles], entries: Vec::new() }
    }

    /// A bundle waited `cycles` more.
    #[inline(always)]
    pub fn add(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        let mut at = self.first[bundle];
        while let Some(e) = self.entries.get_mut((at as usize).wrapping_sub(1)) {
            if e.cause == cause {
                e.cycles += cycles;
                return;
            }
            at = e.next;
        }
        self.entries.push(Entry { cycles, next: self.first[bundle], cause });
        self.first[bundle] = self.entries.len() as u32;
    }

    /// What a bundle waited by cause; none if it never did.
    pub fn of(&self, bundle: usize) -> Option<[u64; CAUSES]> {
        let mut at = self.first[bundle];
        let mut out = (at != 0).then_some([0; CAUSES])?;
        while let Some(e) = self.entries.get((at as usize).wrapping_sub(1)) {
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
