//! A body of its own for every loop.
//!
//! Functions that are called twice, and equal layers, have loops with the same body. What one of them carries may lie otherwise than what
//! another does, so passes that decide such things leave bodies alone that several loops share: here each gets a copy. Kernels that are the same
//! are made once in the end.

use crate::edit::prune;
use systole_hlo::graph::{CompId, Computation, Module, Op};

/// Nodes of all bodies at most, and how many times those of the program: of more loops they stay shared.
const MOST: (usize, usize) = (1 << 16, 4);

/// Computations that loops and branches run, which are theirs alone; others (what a reduction combines by) stay shared.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation runs what can have loops in it")]
fn is_owner(op: &Op) -> bool {
    matches!(op, Op::While { .. } | Op::Conditional { .. })
}

/// Gives every loop and branch its own computations.
pub(super) fn run(module: Module) -> Module {
    let Some(order) = order(&module) else { return module };
    let shared = shared(&module);
    // What is called comes before what calls it: shared ones as they were, copies from the last on.
    let kept: Vec<usize> = (0..module.computations.len()).filter(|&i| shared[i]).collect();
    let mut ids = vec![CompId(u32::MAX); module.computations.len()];
    for (new, &old) in kept.iter().enumerate() {
        ids[old] = CompId(new as u32);
    }
    let place = |at: usize| CompId((kept.len() + order.len() - 1 - at) as u32);
    let mut computations: Vec<Computation> = Vec::with_capacity(kept.len() + order.len());
    for &old in &kept {
        let mut c = module.computations[old].clone();
        for n in &mut c.nodes {
            n.op.for_each_called(|c| *c = ids[c.index()]);
        }
        computations.push(c);
    }
    for (old, first) in order.iter().rev() {
        let mut c = module.computations[*old].clone();
        let mut next = *first;
        for n in &mut c.nodes {
            let owner = is_owner(&n.op);
            n.op.for_each_called(|c| {
                *c = if owner { place(next) } else { ids[c.index()] };
                next += usize::from(owner);
            });
        }
        computations.push(c);
    }
    prune(Module { entry: place(0), computations, ..module })
}

/// Every computation that something owns, callers first, and where in this list those begin that it owns itself; `None` if none would be
/// copied, or too many.
fn order(module: &Module) -> Option<Vec<(usize, usize)>> {
    let size = |c: usize| module.computations[c].nodes.len();
    let all: usize = (0..module.computations.len()).map(size).sum();
    let most = MOST.0.max(MOST.1 * all);
    let mut order = vec![(module.entry.index(), 0)];
    let mut taken = vec![false; module.computations.len()];
    let (mut sum, mut copies, mut at) = (0usize, false, 0);
    while let Some(&(c, _)) = order.get(at) {
        order[at].1 = order.len();
        sum += size(c) + 1;
        copies |= std::mem::replace(&mut taken[c], true);
        if sum > most {
            return None;
        }
        for n in module.computations[c].nodes.iter().filter(|n| is_owner(&n.op)) {
            order.extend(n.op.called().iter().map(|c| (c.index(), 0)));
        }
        at += 1;
    }
    copies.then_some(order)
}

/// Which computations something calls that does not own them, with all that these call.
fn shared(module: &Module) -> Vec<bool> {
    let mut shared = vec![false; module.computations.len()];
    for (index, c) in module.computations.iter().enumerate().rev() {
        let all = shared[index];
        for n in c.nodes.iter().filter(|n| all || !is_owner(&n.op)) {
            n.op.called().iter().for_each(|c| shared[c.index()] = true);
        }
    }
    shared
}
