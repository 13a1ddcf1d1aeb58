//! Which iteration dimensions lie along lanes and sublanes.

use super::spec::MoveSpec;

/// One iteration dimension of a move: size and coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    pub size: u32,
    pub src_row: i64,
    pub src_lane: i64,
    pub dst_row: i64,
    pub dst_lane: i64,
}

impl Axis {
    /// A dimension of size 1.
    pub const ONE: Axis = Axis { size: 1, src_row: 0, src_lane: 0, dst_row: 0, dst_lane: 0 };

    fn moves_lanes(&self) -> bool {
        self.src_lane != 0 || self.dst_lane != 0
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
    pub src_lane: i64,
    pub dst_lane: i64,
    pub src_row: i64,
    pub dst_row: i64,
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
    /// The same with loops over what comes again: unrolled are the steps of one period, and those that whole periods leave over.
    pub fn by_periods(self, planes: (i64, i64), lanes: i64) -> Vec<Roles> {
        let points: u64 = self.unrolled.iter().map(|a| u64::from(a.size)).product();
        let repeated = |a: &Axis| period(a.src_lane, lanes).max(period(a.dst_lane, lanes));
        let most = (self.unrolled.iter().enumerate())
            .filter(|(_, a)| i64::from(a.size) > repeated(a))
            .max_by_key(|(_, a)| i64::from(a.size) / repeated(a));
        let Some((at, &a)) = most.filter(|_| points > MANY) else { return vec![self] };
        let n = repeated(&a);
        let (count, rest) = (i64::from(a.size) / n, i64::from(a.size) % n);
        let mut whole = self.clone();
        whole.unrolled[at].size = n as u32;
        let rows = |row: i64, lane: i64, plane: i64| n * row + n * lane / lanes * plane;
        let (src_row, dst_row) = (rows(a.src_row, a.src_lane, planes.0), rows(a.dst_row, a.dst_lane, planes.1));
        whole.outer.push(Axis { size: count as u32, src_row, dst_row, src_lane: 0, dst_lane: 0 });
        whole.outer.sort_by_key(|a| a.size);
        let mut all = whole.by_periods(planes, lanes);
        if rest > 0 {
            let mut left = self;
            left.unrolled[at].size = rest as u32;
            left.src_row += count * src_row;
            left.dst_row += count * dst_row;
            all.extend(left.by_periods(planes, lanes));
        }
        all
    }

    /// A long run of lanes as rows of it along sublanes, where no dimension lies there: registers are filled. Before and after them is
    /// what is left until rows of the destination begin, and behind the last of them.
    pub fn by_rows(self, planes: (i64, i64), (sublanes, lanes): (u32, i64)) -> Vec<Roles> {
        let a = self.lane;
        let (step, size) = (a.dst_lane, i64::from(a.size));
        let n = period(a.src_lane, lanes).max(period(step, lanes));
        let ends = || self.unrolled.iter().map(|u| u.dst_lane * (i64::from(u.size) - 1));
        let (low, high): (i64, i64) = (ends().map(|e| e.min(0)).sum(), ends().map(|e| e.max(0)).sum());
        let plain = self.sub == Axis::ONE && a.src_row == 0 && a.dst_row == 0 && step > 0 && high - low < step;
        let begins = |&i: &i64| (self.dst_lane + low + i * step) % lanes == 0;
        let Some(first) = (0..n).find(begins).filter(|_| plain) else { return vec![self] };
        let count = (size - first) / n;
        if count < i64::from(sublanes) {
            return vec![self];
        }
        let (src_row, dst_row) = (n * a.src_lane / lanes * planes.0, n * step / lanes * planes.1);
        let sub = Axis { size: count as u32, src_row, dst_row, ..Axis::ONE };
        // So many elements of the run from one of them on, in rows of their own.
        let part = |from: i64, size: i64, down: i64, sub: Axis| Roles {
            lane: Axis { size: size as u32, ..a },
            sub,
            src_lane: self.src_lane + from * a.src_lane,
            dst_lane: self.dst_lane + from * step,
            src_row: self.src_row + down * src_row,
            dst_row: self.dst_row + down * dst_row,
            ..self.clone()
        };
        let rest = size - first - count * n;
        let mut all = vec![part(first, n, 0, sub)];
        all.extend((first > 0).then(|| part(0, first, 0, Axis::ONE)));
        all.extend((rest > 0).then(|| part(first, rest, count, Axis::ONE)));
        all
    }
}

fn axes(spec: &MoveSpec) -> Vec<Axis> {
    (0..spec.sizes.len())
        .map(|d| Axis {
            size: spec.sizes[d],
            src_row: spec.src.rows[d],
            src_lane: spec.src.lanes[d],
            dst_row: spec.dst.rows[d],
            dst_lane: spec.dst.lanes[d],
        })
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
                let one = a.src_row == b.src_row * n
                    && a.src_lane == b.src_lane * n
                    && a.dst_row == b.dst_row * n
                    && a.dst_lane == b.dst_lane * n;
                if i != j && one {
                    all[j].size *= a.size;
                    all.remove(i);
                    changed = true;
                    break 'search;
                }
            }
        }
    }
    spec.sizes = all.iter().map(|a| a.size).collect();
    spec.src.rows = all.iter().map(|a| a.src_row).collect();
    spec.src.lanes = all.iter().map(|a| a.src_lane).collect();
    spec.dst.rows = all.iter().map(|a| a.dst_row).collect();
    spec.dst.lanes = all.iter().map(|a| a.dst_lane).collect();
}

/// Turns a dimension around: index `i` becomes `size - 1 - i`.
fn flip(a: &mut Axis, r: &mut Roles) {
    let last = a.size as i64 - 1;
    r.src_row += a.src_row * last;
    r.src_lane += a.src_lane * last;
    r.dst_row += a.dst_row * last;
    r.dst_lane += a.dst_lane * last;
    *a = Axis { size: a.size, src_row: -a.src_row, src_lane: -a.src_lane, dst_row: -a.dst_row, dst_lane: -a.dst_lane };
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
        src_lane: spec.src.lane_offset,
        dst_lane: spec.dst.lane_offset,
        src_row: spec.src.row_offset,
        dst_row: spec.dst.row_offset,
    };
    // Of elements that lie side by side and are repeated a few times, as many go at once as a register of results has.
    let spread = all.iter().any(|a| a.src_lane != 0 && a.dst_lane != 0);
    let few = |a: &Axis| i64::from(a.size) * i64::from(a.size) <= lanes;
    let repeats = |a: &Axis| spread && (a.src_lane, a.src_row) == (0, 0) && few(a);
    // Rows become lanes by transposing, which makes neighbours only.
    let lane = (0..all.len())
        .filter(|&d| all[d].dst_lane != 0)
        .filter(|&d| all[d].dst_lane.abs() == 1 || all[d].src_row == 0 || all[d].src_lane != 0)
        .min_by_key(|&d| (repeats(&all[d]), all[d].dst_lane.abs(), std::cmp::Reverse(all[d].size)));
    if let Some(d) = lane {
        let mut a = all.remove(d);
        if a.dst_lane < 0 {
            flip(&mut a, &mut r);
        }
        r.lane = a;
    }
    let transpose = r.lane.src_row != 0 && r.lane.src_lane == 0;
    let sub = if transpose {
        (0..all.len()).find(|&d| all[d].src_lane.abs() == 1 && all[d].dst_row != 0 && all[d].dst_lane == 0)
    } else {
        (0..all.len()).filter(|&d| !all[d].moves_lanes() && all[d].dst_row != 0).max_by_key(|&d| (all[d].size, d))
    };
    if let Some(d) = sub {
        let mut a = all.remove(d);
        if transpose && a.src_lane < 0 {
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
