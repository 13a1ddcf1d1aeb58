//! What a core replayed that its counters do not know yet.
//!
//! Devices of a pod take turns by the hundred thousand, and between two waits each replays a few transitions. To add up at the end of each turn
//! what these do costs more than the replays: hardly one of them comes twice in a turn, and none of the device's counters is in the
//! host's caches when its turn comes. So such a core writes down in one row which they were, and they are added up many at a time.

use super::table::{NONE, Pool, Table};
use crate::issue::run::Core;
use crate::stats::{Collector, Totals};
use crate::unit::mxu::MxuTiming;
use std::sync::PoisonError;

/// Bits of a number, above them those of its kind, and above these whether two words with how often it was follow.
const NUMBER: u32 = 29;
const COUNTED: u32 = 1 << 31;
/// Words beyond which a log is added up.
const LONG: usize = 1 << 14;

/// What a word of a log names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Link,
    Transition,
    /// The place of the operation that links behind it were replayed for.
    Operation,
}

/// What a core replayed by a table.
#[derive(Debug)]
pub(crate) struct Log {
    /// Which table's numbers are meant.
    table: u64,
    words: Vec<u32>,
    /// The last operation that is named.
    op: u32,
}

impl Log {
    fn new(table: u64) -> Log {
        Log { table, words: Vec::new(), op: NONE }
    }

    fn put(&mut self, kind: Kind, number: u32, times: u64) {
        debug_assert!(number >> NUMBER == 0, "tables hold fewer");
        let word = (kind as u32) << NUMBER | number;
        match times {
            1 => self.words.push(word),
            _ => self.words.extend([word | COUNTED, times as u32, (times >> 32) as u32]),
        }
    }

    /// A link was replayed for the operation of a place.
    pub(super) fn link(&mut self, link: u32, op: usize, times: u64) {
        if self.op != op as u32 {
            self.op = op as u32;
            self.put(Kind::Operation, self.op, 1);
        }
        self.put(Kind::Link, link, times);
    }

    pub(super) fn transition(&mut self, id: u32, times: u64) {
        self.put(Kind::Transition, id, times);
    }

    /// Gives away what it holds, one by one: kind, number, and how often.
    fn take(&mut self, mut each: impl FnMut(Kind, u32, u64)) {
        let mut words = self.words.drain(..);
        while let Some(word) = words.next() {
            let mut part = || words.next().map_or(0, u64::from);
            let times = if word & COUNTED == 0 { 1 } else { part() | part() << 32 };
            let kind = match word >> NUMBER & 3 {
                0 => Kind::Link,
                1 => Kind::Transition,
                _ => Kind::Operation,
            };
            each(kind, word & ((1 << NUMBER) - 1), times);
        }
        drop(words);
        self.op = NONE;
    }
}

/// What a log came to, in the order in which it was first written: the same for devices that do the same, wherever their turns end.
#[derive(Debug, PartialEq)]
pub(crate) struct Counts {
    table: u64,
    /// Place of the operation, link, and how often.
    links: Vec<(u32, u32, u64)>,
    transitions: Vec<(u32, u64)>,
}

/// Where counts were put last, by number.
#[derive(Debug, Default)]
pub(super) struct Places {
    links: Vec<u32>,
    transitions: Vec<u32>,
}

impl Places {
    /// The place of a number in a list; none of a list before is lower than its length now, or it is another's.
    fn of(places: &mut Vec<u32>, number: u32) -> &mut u32 {
        if places.len() <= number as usize {
            places.resize(number as usize + 1, NONE);
        }
        &mut places[number as usize]
    }
}

impl Table {
    /// What a log of this table comes to; it is empty then.
    fn counts(&mut self, log: &mut Log) -> Counts {
        let Places { links: of_links, transitions: of_transitions } = &mut self.places;
        let (mut links, mut transitions): (Vec<(u32, u32, u64)>, Vec<(u32, u64)>) = (Vec::new(), Vec::new());
        let mut op = NONE;
        log.take(|kind, number, times| match kind {
            Kind::Link => {
                let place = Places::of(of_links, number);
                match links.get_mut(*place as usize).filter(|l| (l.0, l.1) == (op, number)) {
                    Some(known) => known.2 += times,
                    None => {
                        *place = links.len() as u32;
                        links.push((op, number, times));
                    }
                }
            }
            Kind::Transition => {
                let place = Places::of(of_transitions, number);
                match transitions.get_mut(*place as usize).filter(|t| t.0 == number) {
                    Some(known) => known.1 += times,
                    None => {
                        *place = transitions.len() as u32;
                        transitions.push((number, times));
                    }
                }
            }
            Kind::Operation => op = number,
        });
        Counts { table: log.table, links, transitions }
    }

    /// Adds what a log came to to counters.
    fn add_counts(&mut self, counts: &Counts, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        for of_op in counts.links.chunk_by(|a, b| a.0 == b.0) {
            self.links.op = of_op[0].0 as usize;
            of_op.iter().for_each(|&(_, link, times)| self.links.add(link, times));
            self.count_links(stats);
        }
        counts.transitions.iter().for_each(|&(id, times)| self.replayed(id, times));
        self.count(stats, mxus);
    }

    /// Adds what a log of this table holds to its core's counters.
    fn add_up(&mut self, log: &mut Log, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        self.settle(stats, mxus);
        let counts = self.counts(log);
        self.add_counts(&counts, stats, mxus);
    }

    /// Forgets everything, if no other core's log names it: what is pending is counted.
    pub(super) fn make_room(&mut self, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        self.settle(stats, mxus);
        if self.logs == 1
            && let Some(mut log) = self.log.take()
        {
            self.add_up(&mut log, stats, mxus);
            self.logs = 0;
        }
        self.forget();
    }

    /// What was replayed since the counters were settled is written down; a log that has become long is added up.
    fn write_down(&mut self, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        self.unlink(stats);
        let Some(mut log) = self.log.take() else { return self.count(stats, mxus) };
        for id in self.dirty.drain(..) {
            log.transition(id, std::mem::take(&mut self.transitions[id as usize].pending));
        }
        if log.words.len() > LONG {
            self.add_up(&mut log, stats, mxus);
        }
        self.log = Some(log);
    }
}

impl Core<'_> {
    /// Whether nobody looks at the counters before the core's end, and other cores run between what it does.
    fn writes_down(&self) -> bool {
        self.remote.is_some() && self.next_sample == u64::MAX
    }

    /// Begins to write down what is replayed by a table, if the core does so.
    pub(super) fn begin_log(&mut self, table: &mut Table) {
        if self.writes_down() && !table.is_crowded() {
            let own = self.logs.iter().position(|l| l.table == table.numbers().0);
            table.logs += u32::from(own.is_none());
            table.log = Some(own.map_or_else(|| Log::new(table.numbers().0), |at| self.logs.swap_remove(at)));
        }
    }

    /// What was replayed since then is written down, or the counters know it.
    pub(super) fn end_log(&mut self, table: &mut Table) {
        if self.tracing() {
            // A round that is traced is counted as it goes.
            table.settle(&mut self.stats, &mut self.mxus);
        } else {
            table.write_down(&mut self.stats, &mut self.mxus);
        }
        self.logs.extend(table.log.take());
    }

    /// The counters know all that was replayed, and tables may forget. No core of the run may be going on.
    pub(crate) fn add_up(&mut self) {
        let idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = idle.iter().find(|t| self.numbers == Some(t.numbers())) {
            self.keep_state(table);
        }
        drop(idle);
        for counts in self.pool.counts(std::mem::take(&mut self.logs)) {
            self.pool.add(&counts, &mut self.stats, &mut self.mxus);
        }
    }

    /// [`Core::add_up`] at the core's end: what others that replayed the same have added up is taken from them, but for runs.
    pub(in super::super) fn add_up_once(&mut self, totals: &mut Totals) {
        let counts = self.pool.counts(std::mem::take(&mut self.logs));
        let known = totals.replayed(&counts);
        if counts.is_empty() || known.is_none() && !totals.has_room() {
            self.stats.sum_at_once();
            counts.iter().for_each(|c| self.pool.add(c, &mut self.stats, &mut self.mxus));
            return;
        }
        let at = known.unwrap_or_else(|| {
            let mut sums = self.stats.empty(self.l.code.heads.len());
            let before: Vec<u64> = self.mxus.iter_mut().map(|m| *m.busy16_mut()).collect();
            counts.iter().for_each(|c| self.pool.add(c, &mut sums, &mut self.mxus));
            let of = self.mxus.iter_mut().zip(before);
            let streamed = of.map(|(m, before)| std::mem::replace(m.busy16_mut(), before) - before).collect();
            totals.keep(counts, sums, streamed)
        });
        let streamed = self.stats.join(totals, at);
        self.mxus.iter_mut().zip(streamed).for_each(|(m, s)| *m.busy16_mut() += s);
    }
}

impl Pool {
    /// What the logs of a core come to, which goes on with them no more.
    fn counts(&self, mut logs: Vec<Log>) -> Vec<Counts> {
        logs.sort_by_key(|l| l.table);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of = |log: &mut Log| {
            let table = idle.iter_mut().find(|t| t.numbers().0 == log.table)?;
            table.logs -= 1;
            Some(table.counts(log))
        };
        logs.iter_mut().filter_map(&mut of).collect()
    }

    /// Adds what a log came to to its core's counters.
    fn add(&self, counts: &Counts, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter_mut().filter(|t| t.numbers().0 == counts.table).for_each(|t| t.add_counts(counts, stats, mxus));
    }

    /// Whether a table may soon have to forget what logs name.
    pub fn is_crowded(&self) -> bool {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().any(|t| t.logs > 0 && t.is_crowded())
    }
}
