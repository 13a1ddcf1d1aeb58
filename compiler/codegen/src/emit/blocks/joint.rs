//! One window for what a body reads of an array at several places.
//!
//! The taps of a filter are the same array again and again, a few rows further each time. A window of all rows between the first
//! and the last place brings it once, where copies for each place would bring most of its rows several times.

use super::Operand;
use super::body::Walk;
use super::window::{Purpose, Window};

/// A window that several operands share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The first of them, which brings it.
    pub leader: usize,
    /// Where the one that is least far in the array begins, and element rows from there to where the last begins.
    low: i64,
    reach: i64,
}

/// Makes a walk's window, if there is one.
pub type Make<'a> = dyn Fn(&Walk, Purpose) -> Option<Window> + 'a;

impl Joint {
    /// The window, as its leader walks it.
    pub fn whole(&self, own: &Walk, p: Purpose, made: &Make<'_>) -> Option<Window> {
        let window = made(&own.from(self.low), Purpose { reach: self.reach, ..p })?;
        Some(self.moved(own.rows.offset - self.low, window))
    }

    /// The leader's window, as another operand walks it.
    pub fn part(&self, own: &Walk, leader: &Window, leads: &Walk) -> Window {
        let window = Window { within: Some(self.leader), ..leader.clone() };
        self.moved(own.rows.offset - leads.rows.offset, window)
    }

    fn moved(&self, rows: i64, mut window: Window) -> Window {
        window.walk.rows.offset += rows;
        window
    }
}

/// The windows that operands share, by operand: of those that walk one array alike, neighbours for as long as a copy for all is
/// no larger than one for each.
pub fn joints(
    walks: &[Option<Walk>],
    operands: &[Operand],
    purposes: &[Purpose],
    made: &Make<'_>,
) -> Vec<Option<Joint>> {
    let mut all = vec![None; walks.len()];
    for (first, o) in operands.iter().enumerate() {
        let of = |i: usize| i == first || operands[i].same == Some(first as u32);
        if !o.hbm || (0..operands.len()).filter(|&i| of(i)).count() < 2 {
            continue;
        }
        let mut left: Vec<(usize, &Walk)> =
            walks.iter().enumerate().filter(|w| of(w.0)).filter_map(|(i, w)| Some((i, w.as_ref()?))).collect();
        left.sort_by_key(|(_, w)| w.rows.offset);
        while let Some(&(_, like)) = left.first() {
            let alike = |w: &Walk| w.from(like.rows.offset) == *like;
            let (group, others) = left.into_iter().partition(|(_, w)| alike(w));
            left = others;
            neighbours(&group, purposes, made, &mut all);
        }
    }
    all
}

/// Shares among operands that walk an array alike, in the order of where they begin.
fn neighbours(group: &[(usize, &Walk)], purposes: &[Purpose], made: &Make<'_>, all: &mut [Option<Joint>]) {
    let rows = |w: &Walk, p: Purpose| made(w, p).map(|w| w.runs.total());
    let mut rest = group;
    while let Some(((at, low), mut more)) = rest.split_first() {
        let mut taken = 1;
        let mut bytes = rows(low, purposes[*at]);
        while let (Some((next, w)), Some(so_far)) = (more.first(), bytes) {
            let reach = w.rows.offset - low.rows.offset;
            let joined = rows(low, Purpose { reach, ..purposes[*at] });
            let apart = rows(w, purposes[*next]).map(|own| so_far + own);
            match (joined, apart) {
                (Some(joined), Some(apart)) if joined <= apart => bytes = Some(joined),
                _ => break,
            }
            taken += 1;
            more = &more[1..];
        }
        let (these, others) = rest.split_at(taken);
        rest = others;
        if let ([_, _, ..], Some(leader)) = (these, these.iter().map(|t| t.0).min()) {
            let reach = these.iter().map(|t| t.1.rows.offset - low.rows.offset).max().unwrap_or(0);
            these.iter().for_each(|t| all[t.0] = Some(Joint { leader, low: low.rows.offset, reach }));
        }
    }
}
