//! Which iteration dimensions lie along lanes and sublanes.

use super::spec::{MoveSpec, Side};
use std::ops::{AddAssign, Mul};

/// A place in an array, or a step from one to another: element rows and lane positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub row: i64,
    pub lane: i64,
}

impl At {
    pub const ZERO: At = At { row: 0, lane: 0 };

    /// Where a side begins.
    fn of(side: &Side) -> At {
        At { row: side.row_offset, lane: side.lane_offset }
    }

    /// A side's step along dimension `d`.
    fn step(side: &Side, d: usize) -> At {
        At { row: side.rows[d], lane: side.lanes[d] }
    }
}

/// Places in the arrays on both sides of a move, or a step of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Both {
    pub src: At,
    pub dst: At,
}

impl Both {
    /// Of each side of a move.
    pub fn of(spec: &MoveSpec, at: impl Fn(&Side) -> At) -> Both {
        Both { src: at(&spec.src), dst: at(&spec.dst) }
    }
}

impl Mul<i64> for Both {
    type Output = Both;

    fn mul(self, n: i64) -> Both {
        let times = |at: At| At { row: at.row * n, lane: at.lane * n };
        Both { src: times(self.src), dst: times(self.dst) }
    }
}

impl AddAssign for Both {
    fn add_assign(&mut self, more: Both) {
        for (at, more) in [(&mut self.src, more.src), (&mut self.dst, more.dst)] {
            at.row += more.row;
            at.lane += more.lane;
        }
    }
}

/// One iteration dimension of a move: its size, and a step of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    pub size: u32,
    pub step: Both,
}

impl Axis {
    /// A dimension of size 1.
    pub const ONE: Axis = Axis { size: 1, step: Both { src: At::ZERO, dst: At::ZERO } };

    fn moves_lanes(&self) -> bool {
        self.step.src.lane != 0 || self.step.dst.lane != 0
    }

    /// Steps after which both sides are at the same lanes again.
    fn period(&self, lanes: i64) -> i64 {
        period(self.step.src.lane, lanes).max(period(self.step.dst.lane, lanes))
    }

    /// `count` times `n` steps at once, which come round to the same lanes: in rows alone.
    fn again(&self, n: i64, count: u32, planes: (i64, i64), lanes: i64) -> Axis {
        let rows = |at: At, plane: i64| At { row: n * at.row + n * at.lane / lanes * plane, lane: 0 };
        Axis { size: count, step: Both { src: rows(self.step.src, planes.0), dst: rows(self.step.dst, planes.1) } }
    }
}

/// A move with its dimensions sorted into roles.
#[derive(Clone, Debug, PartialEq)]
pub struct Roles {
    /// Along the destination's lanes (coefficient at least 1 there).
    pub lane: Axis,
    /// Along sublanes: of source and destination, or (in a transpose) along the source's lanes and the destination's rows.
    pub sub: Axis,
    /// Loops that leave the lane positions alone, smallest first.
    pub outer: Vec<Axis>,
    /// Dimensions that change a lane position: unrolled.
    pub unrolled: Vec<Axis>,
    /// Where it begins.
    pub begin: Both,
}

/// Steps of a dimension after which it is at the same lane again.
pub fn period(step: i64, lanes: i64) -> i64 {
    let (mut a, mut b) = (lanes, step.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    lanes / a
}

/// Combinations of dimensions that change a lane position, from which on those that come round to the same lanes are loops.
const MANY: u64 = 64;

impl Roles {
    /// Begins `n` steps of a dimension further on.
    fn shift(&mut self, along: &Axis, n: i64) {
        self.begin += along.step * n;
    }

    /// The same with loops over what comes again: unrolled are the steps of one period, and those that whole periods leave over.
    pub fn by_periods(self, planes: (i64, i64), lanes: i64) -> Vec<Roles> {
        let points: u64 = self.unrolled.iter().map(|a| u64::from(a.size)).product();
        let most = (self.unrolled.iter().enumerate())
            .filter(|(_, a)| i64::from(a.size) > a.period(lanes))
            .max_by_key(|(_, a)| i64::from(a.size) / a.period(lanes));
        let Some((at, &a)) = most.filter(|_| points > MANY) else { return vec![self] };
        let n = a.period(lanes);
        let (count, rest) = (i64::from(a.size) / n, i64::from(a.size) % n);
        let mut whole = self.clone();
        whole.unrolled[at].size = n as u32;
        let again = a.again(n, count as u32, planes, lanes);
        whole.outer.push(again);
        whole.outer.sort_by_key(|a| a.size);
        let mut all = whole.by_periods(planes, lanes);
        if rest > 0 {
            let mut left = self;
            left.unrolled[at].size = rest as u32;
            left.shift(&again, count);
            all.extend(left.by_periods(planes, lanes));
        }
        all
    }

    /// A long run of lanes as rows of it along sublanes, where no dimension lies there: registers are filled. Before and after them is
    /// what is left until rows of the destination begin, and behind the last of them.
    pub fn by_rows(self, planes: (i64, i64), (sublanes, lanes): (u32, i64)) -> Vec<Roles> {
        let a = self.lane;
        let (step, size) = (a.step.dst.lane, i64::from(a.size));
        let n = a.period(lanes);
        let ends = || self.unrolled.iter().map(|u| u.step.dst.lane * (i64::from(u.size) - 1));
        let (low, high): (i64, i64) = (ends().map(|e| e.min(0)).sum(), ends().map(|e| e.max(0)).sum());
        let plain =
            self.sub == Axis::ONE && a.step.src.row == 0 && a.step.dst.row == 0 && step > 0 && high - low < step;
        let begins = |&i: &i64| (self.begin.dst.lane + low + i * step) % lanes == 0;
        let Some(first) = (0..n).find(begins).filter(|_| plain) else { return vec![self] };
        let count = (size - first) / n;
        if count < i64::from(sublanes) {
            return vec![self];
        }
        let again = a.again(n, count as u32, planes, lanes);
        // So many elements of the run from one of them on, in rows of their own.
        let part = |from: i64, size: i64, down: i64, sub: Axis| {
            let mut own = Roles { lane: Axis { size: size as u32, ..a }, sub, ..self.clone() };
            own.shift(&a, from);
            own.shift(&again, down);
            own
        };
        let rest = size - first - count * n;
        let mut all = vec![part(first, n, 0, again)];
        all.extend((first > 0).then(|| part(0, first, 0, Axis::ONE)));
        all.extend((rest > 0).then(|| part(first, rest, count, Axis::ONE)));
        all
    }
}

fn axes(spec: &MoveSpec) -> Vec<Axis> {
    (0..spec.sizes.len())
        .map(|d| Axis { size: spec.sizes[d], step: Both::of(spec, |side| At::step(side, d)) })
        .collect()
}

/// Turns steps of whole tiles of lanes into steps of rows.
pub fn whole_tiles(spec: &mut MoveSpec, lanes: i64) {
    for side in [&mut spec.src, &mut spec.dst] {
        for (row, lane) in side.rows.iter_mut().zip(&mut side.lanes) {
            if *lane % lanes == 0 {
                *row += *lane / lanes * side.plane_rows;
                *lane = 0;
            }
        }
    }
}

/// Merges dimensions that both sides walk in one stride.
pub fn merge(spec: &mut MoveSpec) {
    let mut all = axes(spec);
    all.retain(|a| a.size != 1);
    let mut changed = true;
    while changed {
        changed = false;
        'search: for i in 0..all.len() {
            for j in 0..all.len() {
                let (a, b) = (all[i], all[j]);
                let n = b.size as i64;
                if i != j && a.step == b.step * n {
                    all[j].size *= a.size;
                    all.remove(i);
                    changed = true;
                    break 'search;
                }
            }
        }
    }
    spec.sizes = all.iter().map(|a| a.size).collect();
    (spec.src.rows, spec.src.lanes) = all.iter().map(|a| (a.step.src.row, a.step.src.lane)).unzip();
    (spec.dst.rows, spec.dst.lanes) = all.iter().map(|a| (a.step.dst.row, a.step.dst.lane)).unzip();
}

/// Turns a dimension around: index `i` becomes `size - 1 - i`.
fn flip(a: &mut Axis, r: &mut Roles) {
    r.shift(a, a.size as i64 - 1);
    *a = Axis { size: a.size, step: a.step * -1 };
}

/// Sorts the dimensions into roles, and whether the destination's lanes are source rows: otherwise they are source lanes, or one
/// lane for all.
pub fn choose(spec: &MoveSpec, lanes: i64) -> (Roles, bool) {
    let mut all = axes(spec);
    let mut r = Roles {
        lane: Axis::ONE,
        sub: Axis::ONE,
        outer: Vec::new(),
        unrolled: Vec::new(),
        begin: Both::of(spec, At::of),
    };
    // Of elements that lie side by side and are repeated a few times, as many go at once as a register of results has.
    let spread = all.iter().any(|a| a.step.src.lane != 0 && a.step.dst.lane != 0);
    let few = |a: &Axis| i64::from(a.size) * i64::from(a.size) <= lanes;
    let repeats = |a: &Axis| spread && a.step.src == At::ZERO && few(a);
    // Rows become lanes by transposing, which makes neighbours only.
    let lane = (0..all.len())
        .filter(|&d| all[d].step.dst.lane != 0)
        .filter(|&d| all[d].step.dst.lane.abs() == 1 || all[d].step.src.row == 0 || all[d].step.src.lane != 0)
        .min_by_key(|&d| (repeats(&all[d]), all[d].step.dst.lane.abs(), std::cmp::Reverse(all[d].size)));
    if let Some(d) = lane {
        let mut a = all.remove(d);
        if a.step.dst.lane < 0 {
            flip(&mut a, &mut r);
        }
        r.lane = a;
    }
    let transpose = r.lane.step.src.row != 0 && r.lane.step.src.lane == 0;
    let sub = if transpose {
        (0..all.len())
            .find(|&d| all[d].step.src.lane.abs() == 1 && all[d].step.dst.row != 0 && all[d].step.dst.lane == 0)
    } else {
        (0..all.len()).filter(|&d| !all[d].moves_lanes() && all[d].step.dst.row != 0).max_by_key(|&d| (all[d].size, d))
    };
    if let Some(d) = sub {
        let mut a = all.remove(d);
        if transpose && a.step.src.lane < 0 {
            flip(&mut a, &mut r);
        }
        r.sub = a;
    }
    for a in all {
        if a.moves_lanes() { r.unrolled.push(a) } else { r.outer.push(a) }
    }
    r.outer.sort_by_key(|a| a.size);
    (r, transpose)
}
