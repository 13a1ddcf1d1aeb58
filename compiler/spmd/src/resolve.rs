//! How an operation is divided: for every factor the atoms that all its tensors are to have.
//!
//! After propagation operands and results of an operation may still disagree. Among all `(factor, atoms)` that some tensor has,
//! the one is taken whose tensors have most to lose (see [`stake`]), then the cheaper kind, then the more atoms; what overlaps
//! with it is dropped; and again. Tensors with other shardings are resharded. An atom divides one factor of an operation, or one
//! of each part of it that has tensors of its own (the operands of a barrier).

use crate::mesh::{Axes, Axis, Mesh};
use crate::propagate::{project, stake};
use crate::rule::{Factor, Kind, Rule};
use crate::sharding::Sharding;

/// The atoms of every factor.
pub type Division = Vec<Vec<Axis>>;

/// Chooses the division of an operation from the shardings of its tensors and their bytes.
pub fn resolve(rule: &Rule, shardings: &[&Sharding], bytes: &[u64], manual: Axes, mesh: &Mesh) -> Division {
    let lists: Vec<Vec<Vec<Axis>>> = (0..shardings.len()).map(|t| project(rule, t, shardings[t], mesh)).collect();
    let mut chosen: Division = vec![Vec::new(); rule.factors.len()];
    let mut open: Vec<bool> = rule.factors.iter().map(|f| f.kind != Kind::Whole).collect();
    let parts = parts(rule);
    let mut used = vec![manual; rule.factors.len()];
    loop {
        let mut best: Option<((u64, std::cmp::Reverse<Kind>, u64), usize, Vec<Axis>)> = None;
        for (f, factor) in rule.factors.iter().enumerate().filter(|(f, _)| open[*f]) {
            for t in 0..lists.len() {
                let list = usable(&lists[t][f], used[parts[f]], factor, mesh);
                if list.is_empty() {
                    continue;
                }
                // Who has less of it takes its part for nothing.
                let have = |x: &usize| {
                    let own = &lists[*x][f];
                    own.starts_with(&list) || !own.is_empty() && list.starts_with(own)
                };
                let stake = |x: usize| stake(rule, &lists, (x, f), &list, bytes[x], mesh);
                let weight = (0..lists.len()).filter(have).map(stake).fold(0, u64::saturating_add);
                let key = (weight, std::cmp::Reverse(factor.kind), mesh.size(&list));
                if best.as_ref().is_none_or(|(k, ..)| key > *k) {
                    best = Some((key, f, list));
                }
            }
        }
        let Some((_, f, list)) = best else { break };
        used[parts[f]] = used[parts[f]].and(Axes::of(&list));
        open[f] = false;
        chosen[f] = list;
    }
    let all = used.into_iter().fold(manual, Axes::and);
    move_whole(rule, &lists, &mut chosen, all, mesh);
    fit(rule, &mut chosen, mesh);
    chosen
}

/// For every factor the first one that tensors join it with. Sums join all: their results are parts of what every operand has.
fn parts(rule: &Rule) -> Vec<usize> {
    if rule.factors.iter().any(|f| f.kind != Kind::Pass) {
        return vec![0; rule.factors.len()];
    }
    let mut part: Vec<usize> = (0..rule.factors.len()).collect();
    for tensor in &rule.tensors {
        let joined: Vec<usize> = tensor.iter().flatten().map(|&f| part[f]).collect();
        if let Some(&first) = joined.iter().min() {
            part.iter_mut().filter(|p| joined.contains(p)).for_each(|p| *p = first);
        }
    }
    part
}

/// The part of a list that is free and divides a factor.
fn usable(list: &[Axis], used: Axes, factor: &Factor, mesh: &Mesh) -> Vec<Axis> {
    let free = list.iter().take_while(|a| !used.has(**a)).count();
    let even = |n: &usize| factor.size.is_multiple_of(mesh.size(&list[..*n])) && mesh.size(&list[..*n]) <= factor.most;
    // Padding may be anywhere but in what is summed up or moved.
    match factor.kind {
        Kind::Pass if !even(&free) => list[..free].to_vec(),
        Kind::Pass | Kind::Reduce | Kind::Halo | Kind::Whole => {
            (0..=free).rev().find(even).map_or_else(Vec::new, |n| list[..n].to_vec())
        }
    }
}

/// What divides a factor that must be whole may divide another one meanwhile, if all tensors have that.
fn move_whole(rule: &Rule, lists: &[Vec<Vec<Axis>>], chosen: &mut Division, used: Axes, mesh: &Mesh) {
    let mut used = used;
    let tensors = lists.len();
    for (f, _) in rule.factors.iter().enumerate().filter(|(_, x)| x.kind == Kind::Whole) {
        for list in lists.iter().take(rule.operands).map(|l| &l[f]) {
            for &a in list {
                if used.has(a) {
                    continue;
                }
                let everywhere = |g: &usize| {
                    let ranked = (0..tensors).filter(|x| !rule.tensors[*x].is_empty()).count();
                    rule.factors[*g].kind == Kind::Pass && rule.places(*g).count() == ranked
                };
                let fits = |g: &usize| rule.factors[*g].size.is_multiple_of(mesh.size(&chosen[*g]) * mesh.atom(a).size);
                if let Some(g) = (0..rule.factors.len()).filter(everywhere).find(fits) {
                    chosen[g].push(a);
                    used = used.with(a);
                }
            }
        }
    }
}

/// Drops what dimensions of several factors cannot say: a minor factor's atoms where a major one is not fully divided.
fn fit(rule: &Rule, chosen: &mut Division, mesh: &Mesh) {
    let mut again = true;
    while again {
        again = false;
        for factors in rule.tensors.iter().flatten().filter(|f| f.len() > 1) {
            let mut full = true;
            for &f in factors {
                let parts = mesh.size(&chosen[f]);
                if !chosen[f].is_empty() && (!full || !rule.factors[f].size.is_multiple_of(parts)) {
                    chosen[f].clear();
                    again = true;
                }
                full &= rule.factors[f].size == mesh.size(&chosen[f]);
            }
        }
    }
}

/// The sharding of a tensor under a division.
pub fn sharding(rule: &Rule, tensor: usize, division: &Division) -> Sharding {
    let dims = rule.tensors[tensor].iter();
    Sharding { dims: dims.map(|fs| fs.iter().flat_map(|f| division[*f].iter().copied()).collect()).collect() }
}

/// The atoms along which the results are parts of a reduction.
pub fn reduced(rule: &Rule, division: &Division) -> Vec<Axis> {
    let sums = rule.factors.iter().zip(division).filter(|(f, _)| f.kind == Kind::Reduce);
    sums.flat_map(|(_, axes)| axes.iter().copied()).collect()
}
