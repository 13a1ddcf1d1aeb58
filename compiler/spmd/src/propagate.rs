//! How shardings spread from where the program names them to every value.
//!
//! In Shardy's order: user priorities outside; then three rounds, each with all directions of the earlier ones
//! (elementwise operations and edges of data flow; everything along factors that cost nothing; everything); within a round, a
//! worklist until nothing changes, in which elementwise operations and edges go first: what a product's result flows into is known
//! before the next product is. A factor's atoms are those of the tensor with most of them; a tensor that cannot take
//! one (it is used, closed, kept replicated) stays behind. Where two factors want an atom, the one has it whose source would lose
//! more without it.
//!
//! Atoms are only ever added, so it ends. Whatever comes out is right: resolution makes operations of any shardings.

use crate::ir::{Kind as NodeKind, Node, Program, Region, ValueId};
use crate::mesh::{Axes, Axis, Mesh};
use crate::rule::{self, Kind, Round, Rule};
use crate::sharding::Sharding;
use std::collections::VecDeque;
use systole_hlo::graph::Module;

/// Values that a rule relates.
struct Equation {
    rule: Rule,
    tensors: Vec<ValueId>,
    round: Round,
    /// Atoms that are not to be used here.
    manual: Axes,
}

/// Finds a sharding for every value.
pub fn propagate(program: &mut Program, module: &Module, mesh: &Mesh) {
    lift(program);
    let mut all = Vec::new();
    equations(&program.entry, module, program, &mut all);
    let mut priorities: Vec<u32> = program.values.iter().flat_map(|v| v.spec.dims.iter().map(|d| d.priority)).collect();
    priorities.push(0);
    priorities.sort_unstable();
    priorities.dedup();
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); program.values.len()];
    for (i, e) in all.iter().enumerate() {
        e.tensors.iter().for_each(|v| users[v.index()].push(i as u32));
    }
    for priority in priorities {
        for stage in 0..3 {
            let (mut first, mut queue): (VecDeque<u32>, VecDeque<u32>) =
                (VecDeque::new(), (0..all.len() as u32).collect());
            let mut queued = vec![true; all.len()];
            while let Some(i) = first.pop_front().or_else(|| queue.pop_front()) {
                queued[i as usize] = false;
                for v in step(&all[i as usize], (stage, priority), program, mesh) {
                    for &u in &users[v.index()] {
                        if !std::mem::replace(&mut queued[u as usize], true) {
                            let plain = all[u as usize].round == Round::Elementwise;
                            (if plain { &mut first } else { &mut queue }).push_back(u);
                        }
                    }
                }
            }
        }
    }
}

/// Gives what a closed constraint asks for to the value that it constrains, if nobody else asks for anything: then no
/// exchange stands between the two.
fn lift(program: &mut Program) {
    let mut asked: Vec<(ValueId, ValueId)> = Vec::new();
    program.entry.walk(&mut |n: &Node| {
        if matches!(n.kind, NodeKind::Constrain) {
            asked.push((n.inputs()[0], n.results[0]));
        }
    });
    let fixed: rustc_hash::FxHashSet<ValueId> = program.entry.params.iter().copied().collect();
    for &(from, to) in asked.iter().rev() {
        let wish = program.value(to).spec.clone();
        let others = asked.iter().filter(|(f, _)| *f == from);
        let agree = others.map(|(_, t)| &program.value(*t).spec).all(|s| s.sharding == wish.sharding);
        let spec = &mut program.values[from.index()].spec;
        if wish.is_closed() && agree && !spec.given && !fixed.contains(&from) {
            *spec = wish;
        }
    }
}

/// The equations of a region and those below.
fn equations(region: &Region, module: &Module, program: &Program, out: &mut Vec<Equation>) {
    for n in &region.nodes {
        match &n.kind {
            NodeKind::While { condition, body } => {
                equations(condition, module, program, out);
                equations(body, module, program, out);
                let inputs = n.inputs();
                for (i, &state) in n.results.iter().enumerate() {
                    out.push(edge(vec![inputs[i], body.results[i], state], n, program));
                }
            }
            NodeKind::Conditional { branches } => {
                branches.iter().for_each(|b| equations(b, module, program, out));
                for (i, &result) in n.results.iter().enumerate() {
                    let mut tensors: Vec<ValueId> = branches.iter().map(|b| b.results[i]).collect();
                    tensors.push(result);
                    out.push(edge(tensors, n, program));
                }
            }
            NodeKind::Op(_) | NodeKind::Constrain | NodeKind::ToLocal(_) | NodeKind::ToGlobal(_) => {
                let tensors = n.inputs().into_iter().chain(n.results.iter().copied()).collect();
                let rule = rule::rule(n, module, program);
                // A whole array's manual atoms are its own affair.
                let manual = match n.kind {
                    NodeKind::ToLocal(_) | NodeKind::ToGlobal(_) => Axes::default(),
                    NodeKind::Op(_) | NodeKind::While { .. } | NodeKind::Conditional { .. } | NodeKind::Constrain => {
                        n.manual
                    }
                };
                out.push(Equation { rule, tensors, round: rule::round(n, program), manual });
            }
        }
    }
}

/// Values that are one: the last one is where the others flow.
fn edge(tensors: Vec<ValueId>, n: &Node, program: &Program) -> Equation {
    let dims = program.value(tensors[0]).dims();
    let factors = dims.iter().map(|&size| rule::Factor { size, kind: Kind::Pass, most: u64::MAX }).collect();
    let each: Vec<Vec<usize>> = (0..dims.len()).map(|d| vec![d]).collect();
    let rule = Rule { factors, tensors: vec![each; tensors.len()], operands: tensors.len() - 1 };
    Equation { rule, tensors, round: Round::Elementwise, manual: n.manual }
}

/// Which ways an operation passes shardings on: `(forwards, backwards, also along sums)`.
fn directions(round: Round, stage: u32) -> Option<(bool, bool, bool)> {
    match (round, stage) {
        (Round::Elementwise, 0) => Some((true, true, false)),
        (Round::Slice, 0) => Some((true, false, false)),
        (_, 0) => None,
        (Round::Broadcast, 1) => Some((false, true, false)),
        (_, 1) => Some((true, true, false)),
        _ => Some((true, true, true)),
    }
}

/// One operation's turn; the values that changed.
fn step(e: &Equation, (stage, priority): (u32, u32), program: &mut Program, mesh: &Mesh) -> Vec<ValueId> {
    let Some((forwards, backwards, sums)) = directions(e.round, stage) else { return Vec::new() };
    let lists: Vec<Vec<Vec<Axis>>> = (0..e.tensors.len())
        .map(|t| {
            let spec = &program.value(e.tensors[t]).spec;
            project(&e.rule, t, &visible(spec, priority), mesh)
        })
        .collect();
    // Factors by what their sources have to lose; a source is the tensor with most atoms, then the larger one.
    let mut sources: Vec<(u64, usize, usize)> = Vec::new();
    for (f, factor) in e.rule.factors.iter().enumerate() {
        let may = matches!(factor.kind, Kind::Pass | Kind::Halo) || factor.kind == Kind::Reduce && sums;
        let best = (0..e.tensors.len())
            .filter(|&t| !lists[t][f].is_empty())
            .max_by_key(|&t| (lists[t][f].len(), program.value(e.tensors[t]).bytes(), std::cmp::Reverse(t)));
        if let (true, Some(t)) = (may, best) {
            let bytes = program.value(e.tensors[t]).bytes();
            sources.push((stake(&e.rule, &lists, (t, f), &lists[t][f], bytes, mesh), t, f));
        }
    }
    sources.sort_by_key(|&(bytes, t, f)| (std::cmp::Reverse(bytes), t, f));
    let mut changed = Vec::new();
    for (_, source, f) in sources {
        let list = &lists[source][f];
        let uneven = !e.rule.factors[f].size.is_multiple_of(mesh.size(list));
        for (t, d) in e.rule.places(f).collect::<Vec<_>>() {
            let allowed = if t < e.rule.operands { backwards } else { forwards };
            if t == source || !allowed {
                continue;
            }
            if extend(e, (t, d, f), list, uneven, program, mesh) {
                changed.push(e.tensors[t]);
            }
        }
    }
    changed
}

/// A sharding without the dimensions whose turn has not come.
fn visible(spec: &crate::sharding::Spec, priority: u32) -> Sharding {
    let dims = spec.sharding.dims.iter().zip(&spec.dims);
    Sharding { dims: dims.map(|(l, d)| if d.priority <= priority { l.clone() } else { Vec::new() }).collect() }
}

/// Continues a factor's atoms in a tensor along `list`; whether any was added.
fn extend(
    e: &Equation,
    (t, d, f): (usize, usize, usize),
    list: &[Axis],
    uneven: bool,
    program: &mut Program,
    mesh: &Mesh,
) -> bool {
    let v = e.tensors[t];
    let mut changed = false;
    loop {
        let spec = &program.value(v).spec;
        let own = project(&e.rule, t, &spec.sharding, mesh);
        let have = &own[f];
        if !list.starts_with(have) || list.len() == have.len() {
            return changed;
        }
        let next = list[have.len()];
        if !spec.takes(d, next) || e.manual.has(next) {
            return changed;
        }
        let factors = &e.rule.tensors[t][d];
        let at = factors.iter().position(|x| *x == f).unwrap_or(0);
        let full = |x: &usize| mesh.size(&own[*x]) == e.rule.factors[*x].size;
        let first = factors[..at].iter().all(full) && factors[at + 1..].iter().all(|x| own[*x].is_empty());
        let parts = mesh.size(have) * mesh.atom(next).size;
        let factor = &e.rule.factors[f];
        let pads = uneven && factors.len() == 1 && factor.kind == Kind::Pass;
        let even = (factor.size.is_multiple_of(parts) || pads) && parts <= factor.most;
        // Everything in the dimension's list is in its factors.
        let whole: usize = factors.iter().map(|x| own[*x].len()).sum();
        if !first || !even || whole != spec.sharding.dims[d].len() {
            return changed;
        }
        program.values[v.index()].spec.sharding.dims[d].push(next);
        changed = true;
    }
}

/// What a tensor that has atoms on a factor loses if others take them for another factor: it is gathered, or only turned (an
/// all-to-all moves one part of as many as there are) if that other factor is one of its own and costs nothing.
pub fn stake(
    rule: &Rule,
    lists: &[Vec<Vec<Axis>>],
    (tensor, factor): (usize, usize),
    list: &[Axis],
    bytes: u64,
    mesh: &Mesh,
) -> u64 {
    let wants = |g: usize| lists.iter().any(|l| l[g].iter().any(|a| list.contains(a)));
    let turns = |&g: &usize| g != factor && rule.factors[g].kind == Kind::Pass && wants(g);
    let turned = rule.tensors[tensor].iter().flatten().any(turns);
    if turned { bytes / mesh.size(list).max(1) } else { bytes }
}

/// A tensor's atoms by factor. What a dimension of several factors has beyond them is left out.
pub fn project(rule: &Rule, tensor: usize, sharding: &Sharding, mesh: &Mesh) -> Vec<Vec<Axis>> {
    let mut out = vec![Vec::new(); rule.factors.len()];
    for (factors, axes) in rule.tensors[tensor].iter().zip(&sharding.dims) {
        if let [one] = factors[..] {
            out[one].clone_from(axes);
            continue;
        }
        let mut axes = axes.iter().copied().peekable();
        for &f in factors {
            let mut left = rule.factors[f].size;
            while let Some(a) = axes.next_if(|a| left.is_multiple_of(mesh.atom(*a).size) && left > 1) {
                out[f].push(a);
                left /= mesh.atom(a).size;
            }
            if left > 1 {
                break;
            }
        }
    }
    out
}
