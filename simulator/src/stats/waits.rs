//! Stalled cycles by bundle and cause: most bundles never wait, those that do wait for one or two causes.

use super::Cause;

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

/// Waits that are written down before those of one bundle and cause are joined.
const LATE: usize = 1 << 11;

/// Stalled cycles of a program's bundles.
#[derive(Debug)]
pub(super) struct Waits {
    bundles: usize,
    /// By bundle: the place of its first entry; [`NONE`] where it never waited. Empty before the first is added.
    first: Vec<u32>,
    entries: Vec<Entry>,
    /// What is not added yet, and whether something may be.
    late: Vec<(u32, Cause, u64)>,
    defers: bool,
    /// How many are written down before they are joined.
    limit: usize,
}

impl Waits {
    pub fn new(bundles: usize) -> Waits {
        Waits { bundles, first: Vec::new(), entries: Vec::new(), late: Vec::new(), defers: false, limit: LATE }
    }

    /// From now on waits are written down one behind the other and added up at the end. Where many devices take turns, none
    /// finds its sums in the host's caches when its turn comes.
    pub fn defer(&mut self) {
        self.defers = true;
    }

    /// The end of it.
    pub fn sum_at_once(&mut self) {
        self.add_up();
        self.defers = false;
    }

    /// Adds others, whose waits are all added up.
    pub fn add_all(&mut self, other: &Waits) {
        if self.first.is_empty() {
            (self.first, self.entries) = (other.first.clone(), other.entries.clone());
            return;
        }
        for bundle in (0..other.first.len()).filter(|b| other.first[*b] != NONE) {
            let mut at = other.first[bundle];
            while let Some(e) = other.entries.get(at as usize) {
                self.sum(bundle, e.cause, e.cycles);
                at = e.next;
            }
        }
    }

    /// A bundle waited `cycles` more.
    #[inline(always)]
    pub fn add(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        if !self.defers {
            return self.sum(bundle, cause, cycles);
        }
        self.late.push((bundle as u32, cause, cycles));
        if self.late.len() >= self.limit {
            self.join();
        }
    }

    /// Joins what was written down of one bundle and cause.
    #[inline(never)]
    fn join(&mut self) {
        self.late.sort_unstable_by_key(|w| (w.0, w.1));
        self.late.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            kept.2 += if same { next.2 } else { 0 };
            same
        });
        self.limit = LATE.max(2 * self.late.len());
    }

    /// Adds what was written down.
    #[inline(never)]
    pub fn add_up(&mut self) {
        let mut late = std::mem::take(&mut self.late);
        for (bundle, cause, cycles) in late.drain(..) {
            self.sum(bundle as usize, cause, cycles);
        }
        self.late = late;
    }

    #[inline(always)]
    fn sum(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        if self.first.is_empty() {
            self.first = vec![NONE; self.bundles];
        }
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

    /// Tells of each wait: bundle, cause and cycles, as far as they are added up.
    pub fn each(&self, mut tell: impl FnMut(usize, Cause, u64)) {
        for (bundle, &first) in self.first.iter().enumerate() {
            let mut at = first;
            while let Some(e) = self.entries.get(at as usize) {
                tell(bundle, e.cause, e.cycles);
                at = e.next;
            }
        }
    }

    /// What each bundle waited in all, as far as it is added up.
    pub fn totals(&self) -> Vec<u64> {
        let mut all = vec![0; self.bundles];
        self.each(|bundle, _, cycles| all[bundle] += cycles);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::CAUSES;
    use super::*;

    impl Waits {
        /// What a bundle waited by cause, as far as it is added up; none if it never did.
        fn of(&self, of: usize) -> Option<[u64; CAUSES]> {
            let mut out = None;
            self.each(|bundle, cause, cycles| {
                if bundle == of {
                    out.get_or_insert([0; CAUSES])[cause as usize] += cycles;
                }
            });
            out
        }
    }

    #[test]
    fn waits_are_sums_by_bundle_and_cause() {
        let mut w = Waits::new(3);
        assert_eq!((w.of(2), w.totals()), (None, vec![0; 3]));
        for (bundle, cause, cycles) in
            [(2, Cause::Slot, 5), (0, Cause::Register, 1), (2, Cause::Register, 2), (2, Cause::Slot, 7)]
        {
            w.add(bundle, cause, cycles);
        }
        let of = w.of(2).expect("it waited");
        assert_eq!((of[Cause::Slot as usize], of[Cause::Register as usize], of.iter().sum::<u64>()), (12, 2, 14));
        assert_eq!((w.of(1), w.totals()), (None, vec![1, 0, 14]));
    }

    #[test]
    fn waits_that_are_added_up_later_have_the_same_sums() {
        let (mut at_once, mut late) = (Waits::new(50), Waits::new(50));
        late.defer();
        for i in 0..3 * LATE + 7 {
            let (bundle, cause, cycles) = (i * i % 49, Cause::from_code(i as u64 % 3), i as u64 % 11);
            at_once.add(bundle, cause, cycles);
            late.add(bundle, cause, cycles);
        }
        late.add_up();
        assert!((0..50).all(|b| at_once.of(b) == late.of(b)));
        assert_eq!(at_once.totals(), late.totals());
    }
}
