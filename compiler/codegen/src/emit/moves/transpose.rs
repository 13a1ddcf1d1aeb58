//! Moves whose destination lanes are source rows: blocks go through the cross-lane unit's transpose buffer.
//!
//! The buffer moves words. Elements of half or a quarter of a word go through it two or four blocks at a time, each block in its
//! own bits of the words.

use super::choose::Roles;
use super::lanes::range_mask;
use super::walk::{Sides, each, nest, stepping};
use crate::kernel::{KernelBuilder, M, V};

/// Emits the whole move. The innermost loop, whichever that is, has blocks in both of two units at a time.
pub fn emit(b: &mut KernelBuilder, bases: &Sides<'_>, roles: &Roles) {
    each(b, bases, roles, &mut |b, sides| {
        let lanes = b.shape().1 as i64;
        let tiles = |at: i64, n: u32| cut(at, i64::from(n), lanes).1 > 1;
        let inside = tiles(sides.src.lane, roles.sub.size) || tiles(sides.dst.lane, roles.lane.size);
        match roles.outer.split_last() {
            Some((inner, outer)) if !inside => nest(b, sides, outer, &mut |b, s| {
                sharing(b, s, inner.size, (inner.step.src.row, inner.step.dst.row), &mut |b, s, u| {
                    columns(b, s, roles, u)
                });
            }),
            _ => nest(b, sides, &roles.outer, &mut |b, s| columns(b, &[*s], roles, 0)),
        }
    });
}

/// As [`stepping`], with as many iterations at a time as the units hold blocks. `f` makes those that share a unit's words.
fn sharing(
    b: &mut KernelBuilder,
    sides: &Sides<'_>,
    trips: u32,
    (src_step, dst_step): (i64, i64),
    f: &mut dyn FnMut(&mut KernelBuilder, &[Sides<'_>], u32),
) {
    let units = b.xlu_units().min(2);
    let group = units * sides.spec.dtype.packing() as u32;
    // Iterations `from..from + count`, spread over the units.
    let mut some = |b: &mut KernelBuilder, s: &Sides<'_>, from: u32, count: u32| {
        let used = units.min(count);
        let mut at = from;
        for u in 0..used {
            let share = (count - (at - from)).div_ceil(used - u);
            let mut all = Vec::new();
            for i in (at..at + share).map(i64::from) {
                let (src, dst) = match i {
                    0 => (s.src.rows, s.dst.rows),
                    _ => (b.s_addi(s.src.rows, (i * src_step) as i32), b.s_addi(s.dst.rows, (i * dst_step) as i32)),
                };
                let mut own = *s;
                (own.src.rows, own.dst.rows) = (src, dst);
                all.push(own);
            }
            f(b, &all, u);
            at += share;
        }
    };
    let whole = trips / group;
    let steps = (i64::from(group) * src_step, i64::from(group) * dst_step);
    stepping(b, sides, whole, steps, &mut |b, s| some(b, s, 0, group));
    some(b, sides, whole * group, trips % group);
}

/// A part of a run of lanes within one tile: elements `first..first + count`, lane of the first, and the tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    first: i64,
    count: i64,
    lane: i64,
    tile: i64,
}

/// Cuts a run of `n` elements from lane position `at` on into parts of one tile: before, whole tiles (how many), after.
fn cut(at: i64, n: i64, lanes: i64) -> (Option<Part>, i64, Part, Option<Part>) {
    let tile = at.div_euclid(lanes);
    let lane = at.rem_euclid(lanes);
    let head = if lane == 0 { 0 } else { (lanes - lane).min(n) };
    let before = (head > 0).then_some(Part { first: 0, count: head, lane, tile });
    let whole = (n - head) / lanes;
    let next = tile + (lane != 0) as i64;
    let one = Part { first: head, count: lanes, lane: 0, tile: next };
    let rest = n - head - whole * lanes;
    let after = (rest > 0).then_some(Part { first: head + whole * lanes, count: rest, lane: 0, tile: next + whole });
    (before, whole, one, after)
}

/// All parts of the destination's lanes, of iterations that share a unit's words.
fn columns(b: &mut KernelBuilder, all: &[Sides<'_>], roles: &Roles, unit: u32) {
    let lanes = b.shape().1 as i64;
    let (sides, l) = (&all[0], roles.lane);
    debug_assert_eq!(l.step.dst.lane, 1, "a transposed run has neighbouring lanes");
    let (before, whole, one, after) = cut(sides.dst.lane, l.size as i64, lanes);
    if let Some(p) = before {
        rows(b, all, roles, p, unit);
    }
    let steps = (lanes * l.step.src.row, sides.spec.dst.plane_rows);
    debug_assert!(whole < 2 || all.len() == 1, "tiles inside of an iteration share words themselves");
    if cut(sides.src.lane, i64::from(roles.sub.size), lanes).1 > 1 {
        stepping(b, sides, whole as u32, steps, &mut |b, s| rows(b, &[*s], roles, one, unit));
    } else if whole > 1 {
        sharing(b, sides, whole as u32, steps, &mut |b, s, u| rows(b, s, roles, one, u));
    } else if whole == 1 {
        rows(b, all, roles, one, unit);
    }
    if let Some(p) = after {
        rows(b, all, roles, p, unit);
    }
}

/// All parts of the source's lanes, for one part of the destination's.
fn rows(b: &mut KernelBuilder, all: &[Sides<'_>], roles: &Roles, to: Part, unit: u32) {
    let lanes = b.shape().1 as i64;
    let (sides, t) = (&all[0], roles.sub);
    let (before, whole, one, after) = cut(sides.src.lane, t.size as i64, lanes);
    if let Some(p) = before {
        block(b, all, roles, (p, to), unit);
    }
    let steps = (sides.spec.src.plane_rows, lanes * t.step.dst.row);
    debug_assert!(whole < 2 || all.len() == 1, "tiles inside of an iteration share words themselves");
    if whole > 1 {
        sharing(b, sides, whole as u32, steps, &mut |b, s, u| block(b, s, roles, (one, to), u));
    } else if whole == 1 {
        block(b, all, roles, (one, to), unit);
    }
    if let Some(p) = after {
        block(b, all, roles, (p, to), unit);
    }
}

/// One block of each of the iterations that share a unit's words: `to.count` source rows by `from.count` source lanes.
fn block(b: &mut KernelBuilder, all: &[Sides<'_>], roles: &Roles, (from, to): (Part, Part), unit: u32) {
    let (sub, lanes) = (b.shape().0 as i64, b.shape().1 as i64);
    let (l, t) = (roles.lane, roles.sub);
    let spec = all[0].spec;
    let bits = spec.dtype.storage_bits() as i32;
    let source = from.tile * spec.src.plane_rows + to.first * l.step.src.row;
    let mut row = 0;
    while row < to.count {
        let mut words = None;
        for (i, sides) in all.iter().enumerate() {
            let v = load_rows(b, sides, source + row * l.step.src.row, l.step.src.row, (to.count - row).min(sub));
            words = Some(match words {
                None => v,
                Some(words) => {
                    let own = b.shl(v, i as i32 * bits);
                    b.or(words, own)
                }
            });
        }
        if let Some(words) = words {
            b.xlu_tpush(unit, words);
        }
        row += sub;
    }
    let lane_mask = range_mask(b, to.lane, to.lane + to.count);
    // Every register of the transposed block must be taken, also those that hold nothing of the move.
    for p in 0..lanes / sub {
        let v = b.xlu_tpop(unit);
        // Sublane s is source lane p * sub + s, element `first` + that of the run.
        let (low, high) = ((from.lane - p * sub).max(0), (from.lane + from.count - p * sub).min(sub));
        if low >= high {
            continue;
        }
        let v = if to.lane == 0 { v } else { b.rot_lane(v, to.lane as i32) };
        let element = from.first + p * sub - from.lane;
        let mask = sublane_range(b, low, high);
        let mask = match (mask == M::ALL, lane_mask == M::ALL) {
            (true, _) => lane_mask,
            (_, true) => mask,
            _ => b.m_and(mask, lane_mask),
        };
        let at = (to.tile * spec.dst.plane_rows + element * t.step.dst.row, t.step.dst.row);
        // Stores take the lowest bits of a word.
        for (i, sides) in all.iter().enumerate() {
            let own = if i == 0 { v } else { b.shr(v, i as i32 * bits) };
            sides.store(b, own, sides.dst.rows, at, mask);
        }
    }
}

/// `count` rows along sublanes; rows behind them are not read where that might leave the array.
fn load_rows(b: &mut KernelBuilder, sides: &Sides<'_>, at: i64, stride: i64, count: i64) -> V {
    let sub = b.shape().0 as i64;
    if count == sub || (stride >= 0 && (sub - count) * stride <= sub * 4) {
        return sides.load(b, sides.src.rows, at, stride);
    }
    let mut v = sides.load(b, sides.src.rows, at, 0);
    for i in 1..count {
        let row = sides.load(b, sides.src.rows, at + i * stride, 0);
        let m = b.sublane_is(i as u32);
        v = b.select(m, row, v);
    }
    v
}

fn sublane_range(b: &mut KernelBuilder, low: i64, high: i64) -> M {
    let below = b.sublanes_below(high as u32);
    if low == 0 {
        return below;
    }
    let before = b.sublanes_below(low as u32);
    let after = b.m_not(before);
    if below == M::ALL { after } else { b.m_and(after, below) }
}
