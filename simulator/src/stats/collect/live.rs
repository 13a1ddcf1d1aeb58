//! Counters of units that are kept while the program runs, for samples.

use super::{Collector, Parts};
use crate::issue::code::SLOT_UNITS;
use crate::stats::{CAUSES, Cause, UnitCounters};

/// Counters of the slot units that are kept while the program runs, for samples: O(1) for a run of bundles.
#[derive(Debug)]
pub(super) struct Live {
    /// Sums over the bundles before each: cycles busy and instructions, by unit; modulo 2^32.
    before: Vec<[u32; 2 * SLOT_UNITS]>,
    units: Vec<u32>,
    pub now: SlotTotals,
}

/// Cycles of the slot units.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotTotals {
    /// Cycles in which instructions of each unit issue (or, where they take longer, keep it), and instructions.
    pub sums: [u64; 2 * SLOT_UNITS],
    /// Waits of the bundles with instructions for each unit; then ([`ISSUE`]) of all.
    pub stall: [[u64; CAUSES]; ISSUE + 1],
}

/// The issue stage's place behind the slot units.
pub(super) const ISSUE: usize = SLOT_UNITS;

impl Collector {
    /// Keeps counters for samples from now on: called before the first bundle.
    pub fn watch(&mut self, parts: &Parts<'_>) {
        let mut before = vec![[0u32; 2 * SLOT_UNITS]; parts.code.heads.len() + 1];
        for b in 0..parts.code.heads.len() {
            before[b + 1] = parts.of_bundle(parts.code.activity.instructions(b)).map(u32::from);
        }
        for (bundle, unit, cycles) in parts.kept() {
            before[bundle + 1][unit] += cycles as u32;
        }
        for b in 0..parts.code.heads.len() {
            let sum = before[b];
            before[b + 1].iter_mut().zip(sum).for_each(|(a, s)| *a = a.wrapping_add(s));
        }
        let units = parts.code.heads.iter().map(|h| h.units).collect();
        self.live = Some(Box::new(Live { before, units, now: SlotTotals::default() }));
    }

    /// What samples count of waits: places of units, causes and cycles.
    pub fn live_stalls(&self, waits: &[(u32, Cause, u32)], mut tell: impl FnMut(u8, Cause, u32)) {
        let Some(live) = &self.live else { return };
        for &(bundle, cause, cycles) in waits {
            live.places(bundle as usize).for_each(|place| tell(place as u8, cause, cycles));
        }
    }

    /// Bundles with instructions for a unit waited, all told; of a collector that [`Collector::watch`]es.
    pub fn live_stall(&mut self, place: u8, cause: Cause, cycles: u64) {
        if let Some(l) = &mut self.live {
            l.now.stall[place as usize][cause as usize] += cycles;
        }
    }

    /// Bundles `first..=last` issued in a row `times` times, as samples count it.
    pub fn live_run(&mut self, first: u32, last: u32, times: u64) {
        if let Some(l) = &mut self.live {
            l.run(first, last, times);
        }
    }

    /// Counters after `cycles`, of which the last ended in a jump, in place of others; of a collector that [`Collector::watch`]es.
    pub fn sample(&self, cycles: u64, parts: &Parts<'_>, units: &mut Vec<UnitCounters>) {
        if let Some(live) = &self.live {
            self.put_units(&live.now, cycles, parts, units);
        }
    }
}

impl Live {
    /// Bundles `first..=last` issued so many times.
    #[inline]
    pub fn run(&mut self, first: u32, last: u32, times: u64) {
        let (a, b) = (&self.before[first as usize], &self.before[last as usize + 1]);
        for ((sum, a), b) in self.now.sums.iter_mut().zip(a).zip(b) {
            *sum += u64::from(b.wrapping_sub(*a)) * times;
        }
    }

    pub fn stall(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        for place in self.places(bundle) {
            self.now.stall[place][cause as usize] += cycles;
        }
    }

    fn places(&self, bundle: usize) -> impl Iterator<Item = usize> + use<> {
        places(self.units[bundle])
    }
}

/// Where waits of a bundle with instructions for some units count.
pub(super) fn places(units: u32) -> impl Iterator<Item = usize> {
    let mut left = units & ((1 << SLOT_UNITS) - 1) | 1 << ISSUE;
    std::iter::from_fn(move || {
        let place = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (place < u32::BITS).then_some(place as usize)
    })
}
