//! What replays add to counters, once for all cores that replayed the same: devices of a symmetric pod do.

use super::super::activity::{Run, Runs};
use super::{Collector, Totals};
use crate::issue::memo::Counts;
use crate::stats::Cause;

/// Most rows of replays that are known at a time: where devices differ there is little to share.
const MOST: usize = 32;

/// What the replays of some logs add.
#[derive(Debug)]
pub(super) struct Replayed {
    counts: Vec<Counts>,
    sums: Collector,
    /// What matrix units streamed, in sixteenths of cycles.
    streamed: Vec<u64>,
}

/// Whose replays they were, among those that are known; and the runs of bundles besides them.
pub(super) type Own = (Option<usize>, Vec<Run>);

impl Totals {
    /// The place of what logs add, if it is known.
    pub fn replayed(&self, counts: &[Counts]) -> Option<usize> {
        self.replayed.iter().position(|r| r.counts == counts)
    }

    /// Whether what other logs add may be kept.
    pub fn has_room(&self) -> bool {
        self.replayed.len() < MOST
    }

    /// Keeps what logs add: its place.
    pub fn keep(&mut self, counts: Vec<Counts>, sums: Collector, streamed: Vec<u64>) -> usize {
        self.replayed.push(Replayed { counts, sums, streamed });
        self.replayed.len() - 1
    }

    /// Runs of bundles, those of replays among them.
    pub(super) fn runs(&mut self, (replayed, own): &Own) -> Vec<Run> {
        if self.own.len() >= MOST {
            self.own.clear();
        }
        let Some(at) = *replayed else { return own.clone() };
        let of = &self.replayed[at].sums.runs;
        let mut all = Runs::new(1);
        all.defer();
        all.sum_at_once();
        of.each().chain(own.iter().copied()).for_each(|(op, first, last, n)| all.add(op, first, last, n));
        all.all()
    }
}

impl Collector {
    /// Bundles `first..=last` issued in a row `times` times for the operation of a place; [`Collector::live_run`] is apart.
    pub fn replayed(&mut self, op: usize, (first, last): (u32, u32), times: u64) {
        debug_assert!(self.journal.is_none(), "nothing is replayed by links while a journal is kept");
        self.runs.add(op as u32, first, last, times);
    }

    /// The operation of a place waited `cycles`.
    pub fn replayed_stall(&mut self, op: usize, cause: Cause, cycles: u64) {
        self.ops[op].stall[cause as usize] += cycles;
    }

    /// Runs of bundles and waits are added up many at a time: others run between what this run does.
    pub fn defer(&mut self) {
        self.waits.defer();
        self.runs.defer();
    }

    /// The end of it: what is still to come comes at once.
    pub fn sum_at_once(&mut self) {
        self.waits.sum_at_once();
        self.runs.sum_at_once();
    }

    /// Counters of the same kind, at zero, for what is added up at once.
    pub fn empty(&self, bundles: usize) -> Collector {
        let mut empty = Collector::new(bundles, self.ops.len() - 1, self.mxu_stall.len() - 1);
        empty.runs.defer();
        empty.runs.sum_at_once();
        empty
    }

    /// Adds what replays added, that of runs apart: what matrix units streamed by it.
    pub fn join<'t>(&mut self, totals: &'t Totals, replayed: usize) -> &'t [u64] {
        let Replayed { sums, streamed, .. } = &totals.replayed[replayed];
        self.replayed = Some(replayed);
        self.waits.add_all(&sums.waits);
        let add = |all: &mut [u64], more: &[u64]| all.iter_mut().zip(more).for_each(|(a, m)| *a += m);
        self.mxu_stall.iter_mut().zip(&sums.mxu_stall).for_each(|(all, more)| add(all, more));
        self.group_overlap.iter_mut().zip(&sums.group_overlap).for_each(|(all, more)| add(all, more));
        self.group_busy.iter_mut().zip(sums.group_busy).for_each(|(all, more)| *all += more);
        self.ops.iter_mut().zip(&sums.ops).for_each(|(all, more)| add(&mut all.stall, &more.stall));
        streamed
    }
}
