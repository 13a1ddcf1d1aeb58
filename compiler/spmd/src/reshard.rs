//! From one sharding to another: which exchanges, in which order.
//!
//! Sums that are pending come first (reduce-scatter where the target is divided along them, else all-reduce). Then, as long
//! as the shardings differ: take the own part of what is replicated (no exchange); permute whole parts where dimensions are
//! divided into as many parts as they should be; move atoms from one dimension to another (all-to-all); and only then gather.
//! Dimensions whose parts are uneven before or after are gathered and cut anew.

use crate::mesh::{Axes, Axis, Mesh};
use crate::sharding::Sharding;

/// A step of a reshard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Combines along atoms; dimension `dim` is divided by them afterwards, as its most minor ones.
    ReduceScatter {
        dim: usize,
        axes: Vec<Axis>,
    },
    AllReduce {
        axes: Vec<Axis>,
    },
    /// Takes the own part along atoms, which become the most minor ones of the dimension.
    Slice {
        dim: usize,
        axes: Vec<Axis>,
    },
    /// Whole parts change places.
    Permute {
        from: Sharding,
        to: Sharding,
    },
    /// The most minor atoms of `from` become the most minor ones of `to`.
    AllToAll {
        from: usize,
        to: usize,
        axes: Vec<Axis>,
    },
    /// Gathers along the most minor atoms of a dimension.
    AllGather {
        dim: usize,
        axes: Vec<Axis>,
    },
    /// Cuts a gathered dimension to its size.
    Trim {
        dim: usize,
    },
}

/// The steps from `from`, where parts of a reduction along `pending` are left to combine, to `to`.
pub fn plan(mesh: &Mesh, whole: &[u64], from: &Sharding, pending: &[Axis], to: &Sharding) -> Vec<Step> {
    let mut p = Plan { mesh, now: from.clone(), steps: Vec::new() };
    p.combine(whole, pending, to);
    let mut middle = to.clone();
    for (d, &n) in whole.iter().enumerate() {
        let divided = p.now.is_uneven(d, n, mesh);
        if (divided || to.is_uneven(d, n, mesh)) && p.now.dims[d] != to.dims[d] {
            let axes = std::mem::take(&mut p.now.dims[d]);
            if !axes.is_empty() {
                p.steps.push(Step::AllGather { dim: d, axes });
            }
            if divided {
                p.steps.push(Step::Trim { dim: d });
            }
            middle.dims[d].clear();
        }
    }
    p.even(&middle);
    for d in 0..whole.len() {
        if middle.dims[d] != to.dims[d] {
            p.steps.push(Step::Slice { dim: d, axes: to.dims[d].clone() });
        }
    }
    p.steps
}

struct Plan<'a> {
    mesh: &'a Mesh,
    now: Sharding,
    steps: Vec<Step>,
}

impl Plan<'_> {
    /// Combines what is pending.
    fn combine(&mut self, whole: &[u64], pending: &[Axis], to: &Sharding) {
        let mut left = Axes::of(pending);
        for (d, &n) in whole.iter().enumerate() {
            let axes: Vec<Axis> = to.dims[d].iter().copied().filter(|a| left.has(*a)).collect();
            let parts = self.mesh.size(&self.now.dims[d]) * self.mesh.size(&axes);
            if !axes.is_empty() && n.is_multiple_of(parts) && !to.is_uneven(d, n, self.mesh) {
                left = left.without(Axes::of(&axes));
                self.now.dims[d].extend(&axes);
                self.steps.push(Step::ReduceScatter { dim: d, axes });
            }
        }
        if !left.is_empty() {
            // In the program's order, so that neighbours in the mesh are neighbours in groups.
            self.steps.push(Step::AllReduce { axes: left.list() });
        }
    }

    /// From what is now to a sharding, both even.
    fn even(&mut self, to: &Sharding) {
        while self.now != *to {
            if self.slice(to) || self.permute(to) || self.all_to_all(to) || self.balance(to) || self.reorder(to) {
                continue;
            }
            self.gather(to);
        }
    }

    /// Takes parts along atoms that nothing is divided by yet.
    fn slice(&mut self, to: &Sharding) -> bool {
        let mut any = false;
        for d in 0..to.dims.len() {
            let have = self.now.dims[d].len();
            if !to.dims[d].starts_with(&self.now.dims[d]) {
                continue;
            }
            let used = self.now.used();
            let axes: Vec<Axis> = to.dims[d][have..].iter().copied().take_while(|a| !used.has(*a)).collect();
            if !axes.is_empty() {
                self.now.dims[d].extend(&axes);
                self.steps.push(Step::Slice { dim: d, axes });
                any = true;
            }
        }
        any
    }

    /// Whole parts change places, where every dimension has as many as it should.
    fn permute(&mut self, to: &Sharding) -> bool {
        let counts = |s: &Sharding| -> Vec<u64> { s.dims.iter().map(|d| self.mesh.size(d)).collect() };
        if counts(&self.now) != counts(to) {
            return false;
        }
        self.steps.push(Step::Permute { from: self.now.clone(), to: to.clone() });
        self.now = to.clone();
        true
    }

    /// Moves the most minor atoms of a dimension to where they belong, if they come next there.
    fn all_to_all(&mut self, to: &Sharding) -> bool {
        for d in 0..to.dims.len() {
            for e in (0..to.dims.len()).filter(|e| *e != d) {
                if !to.dims[e].starts_with(&self.now.dims[e]) {
                    continue;
                }
                let next = &to.dims[e][self.now.dims[e].len()..];
                // What is to stay in `d` stays.
                let most = next.len().min(self.now.dims[d].len());
                let fits = |n: &usize| self.now.dims[d].ends_with(&next[..*n]);
                let Some(n) = (1..=most).rev().find(fits) else { continue };
                let axes = next[..n].to_vec();
                let left = self.now.dims[d].len() - n;
                self.now.dims[d].truncate(left);
                self.now.dims[e].extend(&axes);
                self.steps.push(Step::AllToAll { from: d, to: e, axes });
                return true;
            }
        }
        false
    }

    /// Where there are as many parts in all as there should be, moves atoms from dimensions of too many parts to those of too
    /// few: a permutation does the rest.
    fn balance(&mut self, to: &Sharding) -> bool {
        let parts = |s: &Sharding| -> Vec<u64> { s.dims.iter().map(|d| self.mesh.size(d)).collect() };
        let (now, want) = (parts(&self.now), parts(to));
        if now.iter().product::<u64>() != want.iter().product::<u64>() {
            return false;
        }
        for d in 0..now.len() {
            for e in 0..now.len() {
                // The most atoms of the minor end that bring neither beyond its aim.
                let fits = |n: &usize| {
                    let moved = self.mesh.size(&self.now.dims[d][self.now.dims[d].len() - n..]);
                    now[d] % (want[d] * moved) == 0 && want[e] % (now[e] * moved) == 0
                };
                let Some(n) = (1..=self.now.dims[d].len()).rev().find(fits).filter(|_| d != e) else { continue };
                let left = self.now.dims[d].len() - n;
                let axes = self.now.dims[d].split_off(left);
                self.now.dims[e].extend(&axes);
                self.steps.push(Step::AllToAll { from: d, to: e, axes });
                return true;
            }
        }
        false
    }

    /// Brings atoms into an order in which those that stay come first, in the target's order, then those that move to
    /// another dimension, then those to be gathered: one permutation instead of a larger gather.
    fn reorder(&mut self, to: &Sharding) -> bool {
        let mut better = self.now.clone();
        let mut useful = false;
        for d in 0..to.dims.len() {
            let now = &self.now.dims[d];
            let stay: Vec<Axis> = {
                // As far as the target's atoms are here.
                let here = |a: &&Axis| now.contains(a);
                to.dims[d].iter().take_while(here).copied().collect()
            };
            let moves =
                |a: &Axis| (0..to.dims.len()).any(|e| e != d && to.dims[e].get(self.now.dims[e].len()) == Some(a));
            let rest: Vec<Axis> = now.iter().copied().filter(|a| !stay.contains(a)).collect();
            let (moving, gone): (Vec<Axis>, Vec<Axis>) = rest.into_iter().partition(moves);
            useful |= !stay.is_empty() || !moving.is_empty();
            // What moves goes first: it is taken from the minor end.
            better.dims[d] = [stay, gone, moving].concat();
        }
        if !useful || better == self.now {
            return false;
        }
        self.steps.push(Step::Permute { from: self.now.clone(), to: better.clone() });
        self.now = better;
        true
    }

    /// Gathers what stands in the way along one dimension.
    fn gather(&mut self, to: &Sharding) {
        for d in 0..to.dims.len() {
            let common = self.now.dims[d].iter().zip(&to.dims[d]).take_while(|(a, b)| a == b).count();
            if common < self.now.dims[d].len() {
                let axes = self.now.dims[d].split_off(common);
                self.steps.push(Step::AllGather { dim: d, axes });
                return;
            }
        }
    }
}

/// Which place sends its part to which: `(source, target)` for every place.
pub fn pairs(mesh: &Mesh, from: &Sharding, to: &Sharding) -> Vec<(u64, u64)> {
    let (a, b) = (from.dims.concat(), to.dims.concat());
    let (in_a, in_b) = (Axes::of(&a), Axes::of(&b));
    let only = |list: &[Axis], other: Axes| -> Vec<Axis> { list.iter().copied().filter(|x| !other.has(*x)).collect() };
    let neither = only(&mesh.all(), in_a.and(in_b));
    // Beside the part's number, what tells apart the devices that have the same part.
    let rest_a = [only(&b, in_a), neither.clone()].concat();
    let rest_b = [only(&a, in_b), neither].concat();
    (0..mesh.devices())
        .map(|target| {
            let part = mesh.coordinate(target, &b);
            let copy = mesh.coordinate(target, &rest_b);
            (mesh.place(&a, part) + mesh.place(&rest_a, copy), target)
        })
        .collect()
}

/// Bytes that a device receives in a step of an array whose part has `bytes` before it: what crosses links at the least, by
/// the usual count (an all-reduce twice).
pub fn received(mesh: &Mesh, step: &Step, bytes: u64) -> u64 {
    let share = |axes: &[Axis]| {
        let n = mesh.size(axes);
        bytes / n.max(1) * (n - 1)
    };
    match step {
        Step::ReduceScatter { axes, .. } | Step::AllToAll { axes, .. } => share(axes),
        Step::AllReduce { axes } => 2 * share(axes),
        Step::AllGather { axes, .. } => bytes * (mesh.size(axes) - 1),
        Step::Permute { .. } => bytes,
        Step::Slice { .. } | Step::Trim { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Piece;

    fn mesh(sizes: &[u64]) -> Mesh {
        let devices = sizes.iter().product();
        let mut stride = 1;
        let mut pieces = Vec::new();
        for &size in sizes.iter().rev() {
            pieces.push(Piece { stride, size });
            stride *= size;
        }
        Mesh::new(devices, &pieces, None).expect("strides")
    }

    fn steps(m: &Mesh, whole: &[u64], from: &[&[Axis]], pending: &[Axis], to: &[&[Axis]]) -> String {
        let s = |d: &[&[Axis]]| Sharding { dims: d.iter().map(|l| l.to_vec()).collect() };
        let name = |s: &Step| match s {
            Step::ReduceScatter { dim, axes } => format!("reduce-scatter {dim} {axes:?}"),
            Step::AllReduce { axes } => format!("all-reduce {axes:?}"),
            Step::Slice { dim, axes } => format!("slice {dim} {axes:?}"),
            Step::Permute { to, .. } => format!("permute {:?}", to.dims),
            Step::AllToAll { from, to, axes } => format!("all-to-all {from}>{to} {axes:?}"),
            Step::AllGather { dim, axes } => format!("all-gather {dim} {axes:?}"),
            Step::Trim { dim } => format!("trim {dim}"),
        };
        plan(m, whole, &s(from), pending, &s(to)).iter().map(name).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_cheapest_exchange_is_found() {
        let m = mesh(&[2, 2, 2]);
        let w = &[16, 16];
        assert_eq!(steps(&m, w, &[&[], &[]], &[], &[&[0], &[1]]), "slice 0 [0], slice 1 [1]");
        assert_eq!(steps(&m, w, &[&[0], &[]], &[], &[&[], &[0]]), "all-to-all 0>1 [0]");
        assert_eq!(steps(&m, w, &[&[0, 1], &[]], &[], &[&[0], &[1]]), "all-to-all 0>1 [1]");
        assert_eq!(steps(&m, w, &[&[1, 2], &[0]], &[], &[&[0], &[1, 2]]), "all-to-all 0>1 [2], permute [[0], [1, 2]]");
        assert_eq!(steps(&m, w, &[&[0, 1], &[]], &[], &[&[1, 0], &[]]), "permute [[1, 0], []]");
        assert_eq!(steps(&m, w, &[&[0], &[]], &[], &[&[1], &[]]), "permute [[1], []]");
        assert_eq!(steps(&m, w, &[&[0, 1], &[]], &[], &[&[1], &[]]), "permute [[1, 0], []], all-gather 0 [0]");
        assert_eq!(steps(&m, w, &[&[], &[]], &[0, 2], &[&[2], &[]]), "reduce-scatter 0 [2], all-reduce [0]");
        assert_eq!(
            steps(&m, w, &[&[1], &[]], &[0], &[&[0], &[]]),
            "reduce-scatter 0 [0], permute [[0, 1], []], all-gather 0 [1]"
        );
        assert_eq!(steps(&m, &[15, 16], &[&[0], &[]], &[], &[&[1], &[]]), "all-gather 0 [0], trim 0, slice 0 [1]");
    }

    #[test]
    fn every_reshard_ends_where_it_should() {
        for sizes in [&[2u64, 2, 2][..], &[2, 3], &[6], &[4, 2]] {
            let m = mesh(sizes);
            let all = all_shardings(&m, 2);
            for from in &all {
                for to in &all {
                    let mut p = Plan { mesh: &m, now: from.clone(), steps: Vec::new() };
                    p.even(to);
                    assert_eq!(p.now, *to);
                    assert!(p.steps.len() <= 6, "{from:?} {to:?} {:?}", p.steps);
                    let gathers: usize = p.steps.iter().filter(|s| matches!(s, Step::AllGather { .. })).count();
                    assert!(gathers <= from.dims.len());
                }
            }
        }
    }

    #[test]
    fn permutations_are_bijections() {
        let m = mesh(&[2, 3]);
        let all = all_shardings(&m, 2);
        for from in &all {
            for to in &all {
                let count = |s: &Sharding| s.dims.iter().map(|d| m.size(d)).collect::<Vec<_>>();
                if count(from) == count(to) {
                    let mut sources: Vec<u64> = pairs(&m, from, to).iter().map(|p| p.0).collect();
                    sources.sort_unstable();
                    assert_eq!(sources, (0..6).collect::<Vec<_>>());
                }
            }
        }
    }

    /// All ways to put atoms on dimensions in any order.
    fn all_shardings(m: &Mesh, rank: usize) -> Vec<Sharding> {
        let mut out = vec![Sharding::replicated(rank)];
        let mut i = 0;
        while i < out.len() {
            let s = out[i].clone();
            for a in m.all().into_iter().filter(|a| !s.used().has(*a)) {
                for d in 0..rank {
                    let mut next = s.clone();
                    next.dims[d].push(a);
                    if !out.contains(&next) {
                        out.push(next);
                    }
                }
            }
            i += 1;
        }
        out
    }
}
