//! What replays add to the counters that samples tell of, as rows of numbers: one for each link, and one for each composed round.
//!
//! A sample that had to look up the waits of every link that was replayed would cost more than the replays. So what one replay adds is
//! put together once ([`Collector::row`]), and a sample adds rows, many times over.

use super::super::code::Code;
use super::links::Links;
use super::table::{Details, NONE};
use crate::stats::Collector;
use multiversion::multiversion;

/// A row is filled up to a multiple of so many numbers, for loops over wide vectors without a rest.
const FILL: usize = 32;

/// The largest number of a sum of rows.
const LARGEST: u64 = i32::MAX as u64;

/// Adds the numbers of a row so many times, which fit.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn add(sum: &mut [i32], row: &[i32], times: i32) {
    for (sum, n) in sum.iter_mut().zip(row) {
        *sum = sum.wrapping_add(n.wrapping_mul(times));
    }
}

/// All rows, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Rows {
    all: Vec<i32>,
    width: usize,
    /// What no number of each row is larger than.
    most: Vec<u32>,
    sum: Sum,
    /// For the next row.
    scratch: Vec<i64>,
}

/// The sum of rows that is not told yet.
#[derive(Debug, Default)]
struct Sum {
    of: Vec<i32>,
    /// None of its numbers is larger.
    most: u64,
}

impl Rows {
    /// Keeps a row: its number, or none if its numbers are too large.
    fn keep(&mut self, row: &[i64]) -> u32 {
        let most = row.iter().fold(0, |most, n| n.unsigned_abs() | most);
        if most > LARGEST {
            return NONE;
        }
        let (begin, number) = (self.all.len(), self.most.len());
        self.width = row.len().next_multiple_of(FILL);
        self.all.extend(row.iter().map(|n| *n as i32));
        self.all.resize(begin + self.width, 0);
        self.most.push(most as u32);
        number as u32
    }

    fn row(&self, number: u32) -> &[i32] {
        &self.all[number as usize * self.width..][..self.width]
    }

    /// Adds a row to the sum so many times, which is told before its numbers become too large.
    fn add(&mut self, number: u32, times: u64, stats: &mut Collector) {
        let more = u64::from(self.most[number as usize]).saturating_mul(times);
        if self.sum.most.saturating_add(more) > LARGEST {
            self.tell(stats);
        }
        let row = &self.all[number as usize * self.width..][..self.width];
        if more > LARGEST {
            return stats.add_row(row, times);
        }
        self.sum.most += more;
        if self.sum.of.len() != row.len() {
            self.sum.of.resize(row.len(), 0);
        }
        add(&mut self.sum.of, row, times as i32);
    }

    /// Adds the sum to what samples tell of.
    fn tell(&mut self, stats: &mut Collector) {
        stats.add_row(&self.sum.of, 1);
        self.sum.of.fill(0);
        self.sum.most = 0;
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.most.clear();
    }
}

impl Links {
    /// Adds what is pending to what samples tell of: it is shown then.
    pub fn show(&mut self, details: &Details, stats: &mut Collector, code: &Code) {
        for lap in std::mem::take(&mut self.laps.dirty) {
            self.show_lap(lap, details, stats, code);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for at in dirty.drain(..) {
            let times = std::mem::take(&mut self.all[at as usize].pending);
            self.add_shown(at, times);
            match self.row(at, details, stats, code) {
                NONE => stats.add_row(&self.make(at, details, stats, code), times),
                row => self.rows.add(row, times, stats),
            }
        }
        self.dirty = dirty;
        self.rows.tell(stats);
    }

    /// [`Links::show`] of a composed round: one whose row is too large is pending at its links.
    fn show_lap(&mut self, lap: u32, details: &Details, stats: &mut Collector, code: &Code) {
        if self.laps.all[lap as usize].row == NONE {
            let parts = std::mem::take(&mut self.laps.all[lap as usize].parts);
            let mut sum: Vec<i64> = Vec::new();
            let fits = parts.iter().all(|part| {
                let row = self.row(part.link, details, stats, code);
                if row != NONE {
                    let row = self.rows.row(row);
                    sum.resize(row.len(), 0);
                    sum.iter_mut().zip(row).for_each(|(s, n)| *s += i64::from(*n) * (1 + i64::from(part.again)));
                }
                row != NONE
            });
            let row = if fits { self.rows.keep(&sum) } else { NONE };
            let known = &mut self.laps.all[lap as usize];
            (known.row, known.parts) = (row, parts);
            if row == NONE {
                return self.add_lap(lap);
            }
        }
        let known = &mut self.laps.all[lap as usize];
        let times = std::mem::take(&mut known.pending);
        if known.shown == 0 {
            self.laps.shown.push(lap);
        }
        known.shown += times;
        let row = known.row;
        self.rows.add(row, times, stats);
    }

    /// The number of a link's row, made if it has none; none if it is too large.
    fn row(&mut self, at: u32, details: &Details, stats: &Collector, code: &Code) -> u32 {
        if self.all[at as usize].row == NONE {
            let row = self.make(at, details, stats, code);
            self.all[at as usize].row = self.rows.keep(&row);
            self.rows.scratch = row;
        }
        self.all[at as usize].row
    }

    /// What a replay of a link adds.
    fn make(&mut self, at: u32, details: &Details, stats: &Collector, code: &Code) -> Vec<i64> {
        let (link, mut row) = (&self.all[at as usize], std::mem::take(&mut self.rows.scratch));
        stats.row((link.first, link.last), code, &mut row, |ahead| details.put_ahead(link.id, 1, ahead));
        row
    }
}
