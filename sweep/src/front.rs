//! Which designs no other is better than, and how sure that is.

use crate::spec::Objective;

/// A design over all programs of the sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Places of its rows.
    pub rows: Vec<usize>,
    /// Objectives, in the order of the specification: sums over the programs of what adds up, else means.
    pub values: Vec<f64>,
    /// The same in every draw.
    pub draws: Vec<Vec<f64>>,
    /// Ran with every program and breaks no constraint.
    pub feasible: bool,
    pub front: bool,
    /// Not surely dominated: some design is better in less than 95 % of the draws.
    pub perhaps: bool,
}

/// How a design stands to the front, from the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrontKind {
    /// Another is better, surely.
    Dominated,
    /// Another is better, but not in enough of the draws.
    Perhaps,
    Front,
}

impl Design {
    /// How it stands to the front.
    pub fn kind(&self) -> FrontKind {
        match (self.front, self.perhaps) {
            (true, _) => FrontKind::Front,
            (false, true) => FrontKind::Perhaps,
            (false, false) => FrontKind::Dominated,
        }
    }
}

/// A design must be dominated in so many of the draws to be called so.
pub const SURE: f64 = 0.95;

/// Whether `a` is at least as good as `b` everywhere and better somewhere. Smaller is better.
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(x, y)| x <= y) && a.iter().zip(b).any(|(x, y)| x < y)
}

/// Values with the sign by which smaller is better.
pub fn costs(objectives: &[Objective], values: &[f64]) -> Vec<f64> {
    objectives.iter().zip(values).map(|(o, v)| if o.largest { -v } else { *v }).collect()
}

/// Places of the points that no other dominates. Points are taken in order of their first value, so that only what is
/// on the front so far must be looked at.
pub fn front(points: &[Vec<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    let compare = |a: &usize, b: &usize| {
        let pairs = points[*a].iter().zip(&points[*b]);
        pairs.map(|(x, y)| x.total_cmp(y)).find(|o| o.is_ne()).unwrap_or(a.cmp(b))
    };
    order.sort_by(compare);
    let mut found: Vec<usize> = Vec::new();
    for i in order {
        if !found.iter().any(|&f| dominates(&points[f], &points[i])) {
            found.push(i);
        }
    }
    found.sort_unstable();
    found
}

/// Marks the designs on the front, and those that may be: dominated in less than [`SURE`] of the draws.
pub fn mark(designs: &mut [Design], objectives: &[Objective]) {
    let able: Vec<usize> = (0..designs.len()).filter(|&i| designs[i].feasible).collect();
    let points: Vec<Vec<f64>> = able.iter().map(|&i| costs(objectives, &designs[i].values)).collect();
    for f in front(&points) {
        designs[able[f]].front = true;
    }
    let draws = able.iter().map(|&i| designs[i].draws.len()).min().unwrap_or(0);
    let mut times = vec![0usize; able.len()];
    for d in 0..draws {
        let drawn: Vec<Vec<f64>> = able.iter().map(|&i| costs(objectives, &designs[i].draws[d])).collect();
        front(&drawn).into_iter().for_each(|f| times[f] += 1);
    }
    for (place, n) in able.into_iter().zip(times) {
        let dominated = 1.0 - n as f64 / draws.max(1) as f64;
        designs[place].perhaps = dominated < SURE;
    }
}

/// The volume between points and a corner that is worse in everything, by recursion over the last value.
pub fn hypervolume(points: &[Vec<f64>], corner: &[f64]) -> f64 {
    let inside: Vec<&Vec<f64>> = points.iter().filter(|p| p.iter().zip(corner).all(|(x, c)| x < c)).collect();
    let Some(last) = corner.len().checked_sub(1) else { return 0.0 };
    if inside.is_empty() {
        return 0.0;
    }
    if last == 0 {
        return corner[0] - inside.iter().map(|p| p[0]).fold(f64::INFINITY, f64::min);
    }
    let mut order = inside;
    order.sort_by(|a, b| a[last].total_cmp(&b[last]));
    let mut volume = 0.0;
    let mut slice: Vec<Vec<f64>> = Vec::new();
    for (i, p) in order.iter().enumerate() {
        slice.push(p[..last].to_vec());
        let next = order.get(i + 1).map_or(corner[last], |n| n[last]);
        if next > p[last] {
            volume += (next - p[last]) * hypervolume(&slice, &corner[..last]);
        }
    }
    volume
}
