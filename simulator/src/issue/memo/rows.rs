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

/// Numbers of the rows of most programs.
const EXPECTED: usize = 1 << 18;

/// The largest number of a sum of rows.
const LARGEST: u64 = i32::MAX as u64;

/// Adds rows of `all` to a sum, each so many times; the numbers fit. All are of the sum's width.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn add(sum: &mut [i32], all: &[i32], rows: &[(u32, u64)]) {
    let width = sum.len();
    for &(row, times) in rows {
        let row = &all[row as usize * width..][..width];
        for (sum, n) in sum.iter_mut().zip(row) {
            *sum = sum.wrapping_add(n.wrapping_mul(times as i32));
        }
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
    /// Rows to add, each so many times.
    list: Vec<(u32, u64)>,
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
        if begin == 0 {
            // Growing would copy all of them, into memory that nobody has touched yet.
            self.all.reserve(EXPECTED);
        }
        self.width = row.len().next_multiple_of(FILL);
        self.all.extend(row.iter().map(|n| *n as i32));
        self.all.resize(begin + self.width, 0);
        self.most.push(most as u32);
        number as u32
    }

    /// Keeps the sum of rows, each so many times: its number, or none if one of them is none or the numbers may be too large.
    fn compose(&mut self, rows: &[(u32, u64)]) -> u32 {
        let most = if rows.iter().any(|r| r.0 == NONE) { u64::MAX } else { self.most(rows) };
        if most > LARGEST {
            return NONE;
        }
        let (begin, number) = (self.all.len(), self.most.len());
        self.all.resize(begin + self.width, 0);
        let (known, sum) = self.all.split_at_mut(begin);
        add(sum, known, rows);
        self.most.push(most as u32);
        number as u32
    }

    /// What no number of a sum of rows is larger than.
    fn most(&self, rows: &[(u32, u64)]) -> u64 {
        let most = |&(row, times): &(u32, u64)| u64::from(self.most[row as usize]).saturating_mul(times);
        rows.iter().fold(0, |sum, row| sum.saturating_add(most(row)))
    }

    /// Adds rows to the sum, each so many times; it is told before its numbers become too large.
    fn add(&mut self, rows: &[(u32, u64)], stats: &mut Collector) {
        let more = self.most(rows);
        if self.sum.most.saturating_add(more) > LARGEST {
            self.tell(stats);
        }
        match (more <= LARGEST, rows) {
            (true, _) => {
                self.sum.most += more;
                self.sum.of.resize(self.width, 0);
                add(&mut self.sum.of, &self.all, rows);
            }
            (false, &[(row, times)]) => stats.add_row(&self.all[row as usize * self.width..][..self.width], times),
            (false, _) => rows.chunks(1).for_each(|row| self.add(row, stats)),
        }
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
        let (mut dirty, mut list) = (std::mem::take(&mut self.dirty), std::mem::take(&mut self.rows.list));
        for at in dirty.drain(..) {
            let times = std::mem::take(&mut self.all[at as usize].pending);
            self.add_shown(at, times);
            match self.row(at, details, stats, code) {
                NONE => stats.add_row(&self.make(at, details, stats, code), times),
                row => list.push((row, times)),
            }
        }
        self.rows.add(&list, stats);
        list.clear();
        (self.dirty, self.rows.list) = (dirty, list);
        self.rows.tell(stats);
    }

    /// [`Links::show`] of a composed round: one whose row is too large is pending at its links.
    fn show_lap(&mut self, lap: u32, details: &Details, stats: &mut Collector, code: &Code) {
        if self.laps.all[lap as usize].row == NONE {
            let parts = std::mem::take(&mut self.laps.all[lap as usize].parts);
            let rows = parts.iter().map(|p| (self.row(p.link, details, stats, code), 1 + u64::from(p.again)));
            let rows: Vec<(u32, u64)> = rows.collect();
            let row = self.rows.compose(&rows);
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
        let row = [(known.row, times)];
        self.rows.add(&row, stats);
    }

    /// The number of a link's row, made if it has none; none if it is too large.
    #[inline]
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
