//! Counters of units that are kept while the program runs, for samples.

use super::{Collector, Parts, SLOTS};
use crate::issue::code::{Code, SLOT_UNITS};
use crate::stats::{CAUSES, Cause, UnitCounters, UnitSample};

/// Counters of the slot units that are kept while the program runs, for samples: O(1) for a run of bundles.
#[derive(Debug)]
pub(super) struct Live {
    /// Sums over the bundles before each: cycles busy and instructions, by unit; modulo 2^32.
    before: Vec<[u32; 2 * SLOT_UNITS]>,
    units: Vec<u32>,
    pub now: SlotTotals,
    /// What was replayed of which [`SlotTotals::sums`] know, but no other counter yet ([`Ahead`]).
    pub ahead: Vec<i64>,
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

/// Places of [`Ahead`] behind the stalls: cycles that a unit of a long group is kept, then for each matrix unit what it streamed
/// (sixteenths of cycles) and how long it was idle by itself. Before these, how long all that the program uses were idle.
const KEPT: usize = ISSUE + 1;
const ALL_MXUS: usize = KEPT + SLOT_UNITS;
const MXUS: usize = ALL_MXUS + 1;

/// What replays add to the counters that samples tell of, besides runs of bundles: cycles by unit, of all causes.
pub(crate) struct Ahead<'a> {
    pub of: &'a mut [i64],
    pub code: &'a Code,
}

impl Ahead<'_> {
    /// A bundle waited.
    #[inline]
    pub fn wait(&mut self, bundle: u32, cycles: i64) {
        let places = &PLACES[self.code.heads[bundle as usize].units as usize & (PLACES.len() - 1)];
        if let Some((of, _)) = self.of.split_first_chunk_mut::<WIDE>() {
            of.iter_mut().zip(places).for_each(|(of, place)| *of += cycles & place);
        }
    }

    /// A matrix unit was idle, or all that the program uses were.
    pub fn mxu_stall(&mut self, unit: Option<usize>, cycles: i64) {
        self.of[unit.map_or(ALL_MXUS, |unit| MXUS + 2 * unit + 1)] += cycles;
    }

    /// A slot group was busy in a stall.
    pub fn overlap(&mut self, group: usize, cycles: i64) {
        self.long(group).for_each(|unit| self.of[unit] -= cycles);
    }

    /// A slot group was kept.
    pub fn kept(&mut self, group: usize, cycles: i64) {
        self.long(group).for_each(|unit| self.of[KEPT + unit] += cycles);
    }

    /// A matrix unit streamed for so many sixteenths of cycles.
    pub fn streamed(&mut self, unit: usize, sixteenths: i64) {
        self.of[MXUS + 2 * unit] += sixteenths;
    }

    /// The slot units of a group, if its instructions may keep them.
    fn long(&self, group: usize) -> impl Iterator<Item = usize> + use<> {
        let long = self.code.long[group];
        (0..SLOT_UNITS).filter(move |u| long && SLOTS[*u] as usize == group)
    }
}

impl Collector {
    /// Keeps counters for samples from now on: called before the first bundle.
    pub fn watch(&mut self, parts: &Parts<'_>) {
        let activity = &parts.code.activity;
        let forms: Vec<_> = activity.instructions.iter().map(|i| parts.of_bundle(i).map(u32::from)).collect();
        let mut before = Vec::with_capacity(activity.of.len() + 1);
        let mut sum = [0u32; 2 * SLOT_UNITS];
        before.push(sum);
        let count = |sum: &mut [u32; 2 * SLOT_UNITS], form: &u32| {
            sum.iter_mut().zip(&forms[*form as usize]).for_each(|(s, n)| *s = s.wrapping_add(*n));
            *sum
        };
        // They are in the order of bundles.
        for (bundle, unit, cycles) in parts.kept() {
            before.extend(activity.of[before.len() - 1..bundle].iter().map(|form| count(&mut sum, form)));
            sum[unit] = sum[unit].wrapping_add(cycles as u32);
        }
        before.extend(activity.of[before.len() - 1..].iter().map(|form| count(&mut sum, form)));
        let units = parts.code.heads.iter().map(|h| h.units).collect();
        let ahead = vec![0; MXUS + 2 * parts.mxus.len()];
        self.live = Some(Box::new(Live { before, units, now: SlotTotals::default(), ahead }));
    }

    /// Whether samples are taken.
    pub fn watched(&self) -> bool {
        self.live.is_some()
    }

    /// Bundles `first..=last` issued in a row `times` times, as samples count it.
    pub fn live_run(&mut self, first: u32, last: u32, times: u64) {
        if let Some(l) = &mut self.live {
            l.run(first, last, times);
        }
    }

    /// What was replayed that samples know of and no other counter; nothing where none are taken.
    pub fn ahead(&mut self) -> &mut [i64] {
        self.live.as_mut().map_or(&mut [], |l| &mut l.ahead)
    }

    /// The row of numbers of what one replay of bundles `first..=last` adds for samples: of [`SlotTotals::sums`], then what `put`
    /// puts into [`Collector::ahead`], in place of others; none where no samples are taken.
    pub fn row(&self, (first, last): (u32, u32), code: &Code, row: &mut Vec<i64>, put: impl FnOnce(&mut Ahead<'_>)) {
        row.clear();
        let Some(live) = &self.live else { return };
        row.extend(live.of_run(first, last).map(i64::from));
        row.resize(2 * SLOT_UNITS + live.ahead.len(), 0);
        put(&mut Ahead { of: &mut row[2 * SLOT_UNITS..], code });
    }

    /// Adds a row of [`Collector::row`], with whatever fills it up, so many times.
    #[inline]
    pub fn add_row<N: Copy + Into<i64>>(&mut self, row: &[N], times: u64) {
        let Some(live) = &mut self.live else { return };
        let Some((sums, ahead)) = row.split_first_chunk::<{ 2 * SLOT_UNITS }>() else { return };
        for (now, &more) in live.now.sums.iter_mut().zip(sums) {
            // None of them is negative.
            *now += more.into() as u64 * times;
        }
        for (now, &more) in live.ahead.iter_mut().zip(ahead) {
            *now += more.into() * times as i64;
        }
    }

    /// Counters after `cycles`, of which the last ended in a jump, in place of others: by cause, if all that was replayed is
    /// counted; of a collector that [`Collector::watch`]es.
    pub fn sample_causes(&self, cycles: u64, parts: &Parts<'_>, units: &mut Vec<UnitCounters>) {
        if let Some(live) = &self.live {
            self.put_units(&live.now, cycles, parts, units);
        }
    }

    /// [`Collector::sample_causes`] of all causes together, whether all that was replayed is counted or not.
    pub fn sample(&self, cycles: u64, parts: &Parts<'_>, units: &mut Vec<UnitSample>) {
        let Some(Live { now, ahead, .. }) = self.live.as_deref() else { return };
        units.clear();
        let mut put = |useful: u64, busy: u64, stalled: i64| {
            let busy = busy.min(cycles);
            let stalled = u64::try_from(stalled).unwrap_or(0).min(cycles - busy);
            units.push(UnitSample { busy, stalled, useful: useful.min(busy) });
        };
        let sum = |causes: &[u64; CAUSES]| causes.iter().sum::<u64>() as i64;
        for (unit, slot) in SLOTS.iter().enumerate().take(SLOT_UNITS) {
            let group = *slot as usize;
            let (mut busy, mut stalled) = (now.sums[unit], sum(&now.stall[unit]) + ahead[unit]);
            if parts.code.long[group] {
                busy = busy.saturating_add_signed(self.group_busy[group] + ahead[KEPT + unit]);
                stalled -= sum(&self.group_overlap[group]);
            }
            let slots = u64::from(parts.slots[unit].max(1));
            put((now.sums[SLOT_UNITS + unit] + slots / 2) / slots, busy, stalled);
        }
        put(parts.dma.served().round() as u64, parts.dma.busy, 0);
        put(self.bundles, self.bundles, sum(&now.stall[ISSUE]) + ahead[ISSUE]);
        let all = self.mxu_stall.last().map_or(0, sum) + ahead[ALL_MXUS];
        for (u, m) in parts.mxus.iter().enumerate() {
            let used = parts.code.mxus_used >> u & 1 == 1;
            let busy = m.busy_with(ahead[MXUS + 2 * u] as u64);
            let stalled = if used { sum(&self.mxu_stall[u]) + all + ahead[MXUS + 2 * u + 1] } else { 0 };
            put(busy, busy, stalled);
        }
    }
}

impl Live {
    /// What bundles `first..=last` add to [`SlotTotals::sums`].
    #[inline]
    fn of_run(&self, first: u32, last: u32) -> [u32; 2 * SLOT_UNITS] {
        let (a, b) = (&self.before[first as usize], &self.before[last as usize + 1]);
        std::array::from_fn(|i| b[i].wrapping_sub(a[i]))
    }

    /// Bundles `first..=last` issued so many times.
    #[inline]
    pub fn run(&mut self, first: u32, last: u32, times: u64) {
        let more = self.of_run(first, last);
        self.now.sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += u64::from(more) * times);
    }

    pub fn stall(&mut self, bundle: usize, cause: Cause, cycles: u64) {
        for place in places(self.units[bundle]) {
            self.now.stall[place][cause as usize] += cycles;
        }
    }
}

/// Numbers of a row of [`PLACES`], for whole vectors.
const WIDE: usize = (ISSUE + 1).next_multiple_of(4);

/// By the slot units that a bundle has instructions for: all bits where its waits count, none elsewhere ([`places`]).
static PLACES: [[i64; WIDE]; 1 << SLOT_UNITS] = {
    let mut all = [[0; WIDE]; 1 << SLOT_UNITS];
    let mut units = 0;
    while units < all.len() {
        let mut place = 0;
        while place <= ISSUE {
            all[units][place] = if place == ISSUE || units >> place & 1 == 1 { -1 } else { 0 };
            place += 1;
        }
        units += 1;
    }
    all
};

/// Where waits of a bundle with instructions for some units count.
pub(super) fn places(units: u32) -> impl Iterator<Item = usize> {
    let mut left = units & ((1 << SLOT_UNITS) - 1) | 1 << ISSUE;
    std::iter::from_fn(move || {
        let place = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (place < u32::BITS).then_some(place as usize)
    })
}
