//! Loops of several results: roots over the same points that read the same arrays, or one another, share a kernel.
//!
//! Each root is a kernel of its own to begin with. Those that share enough of what they read and compute (the moments and the
//! weights of an optimiser's step, the statistics and the numerators of a softmax, the two words of a random number) become
//! one: what they share is read and computed once, and what only they read of each other is not stored. All of a kernel's
//! roots are computed at one time, so nothing outside may lie between them; that is what [`Graph::parts`] proves, and the
//! order of [`Groups::order`] has the roots of a kernel side by side.

use super::again::{BYTES_OF_WORK, LANES};
use super::fuse::{Fuser, Leaf, MOST_OPERANDS};
use super::group::{Groups, cost, is_lane_reduce, is_pointwise, strip};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use systole_hlo::graph::{Computation, Family, Module, NodeId, Op};

/// Share of what one of two kernels reads, writes and computes that it must have in common with the other.
const COMMON: f64 = 0.2;
/// Results of a kernel at most.
const MOST_RESULTS: usize = 8;
/// Operations of a kernel of several results at most: longer code has more values than registers.
const MOST_NODES: usize = 256;
/// Kernels between two whose results others wait for: arrays live longer while they do.
const MOST_BETWEEN: usize = 48;
/// Kernels that are looked at for one.
const MOST_CANDIDATES: usize = 12;
/// Nodes that are walked over all of a computation.
const MOST_WALKED: usize = 1 << 24;

/// A root, or the roots of a kernel so far.
struct Kernel {
    roots: Vec<NodeId>,
    /// Sizes of the points.
    dims: Vec<u64>,
    /// What is read, with its bytes.
    leaves: Vec<(Leaf, f64)>,
    /// Operations that are computed.
    nodes: FxHashSet<NodeId>,
}

/// Sets of roots that share a kernel.
#[derive(Default)]
pub struct Sets {
    pub all: Vec<Vec<NodeId>>,
    /// Roots that cannot.
    apart: FxHashSet<NodeId>,
    rounds: u32,
}

/// Rounds in which sets may grow: with each, more is owned by one kernel.
const ROUNDS: u32 = 6;

impl Sets {
    /// Joins roots of a computation that was grouped with these sets; true if the sets are others now. If they are not, the order
    /// of the groups is set. `scalars` are no arrays, what is `alone` has a kernel of its own.
    pub fn join(
        &mut self,
        groups: &mut Groups,
        (module, comp): (&Module, &Computation),
        scalars: &[bool],
        alone: &dyn Fn(NodeId) -> bool,
    ) -> bool {
        let graph = Graph::new(comp, groups, scalars);
        let (kernels, of, readers) = Default::default();
        let mut j = Join { module, comp, graph, kernels, of, readers };
        let before: Vec<Vec<NodeId>> = std::mem::take(&mut self.all);
        for set in &before {
            // What one of them is computed from may be an array by now, of which it is a view.
            let stays = |id: &NodeId| groups.is_root(*id) && j.may_join(groups, *id);
            let roots: Vec<NodeId> = set.iter().copied().filter(stays).collect();
            if roots.len() < 2 {
                continue;
            }
            match j.kernel(groups, roots.clone()).filter(|_| j.graph.parts(&roots)) {
                Some(kernel) => {
                    j.graph.contract(&roots);
                    j.add(kernel);
                }
                None => self.apart.extend(roots),
            }
        }
        self.rounds += 1;
        if self.rounds <= ROUNDS {
            for id in comp.ids() {
                if scalars[id.index()] || !groups.is_root(id) || self.apart.contains(&id) {
                    continue;
                }
                if !j.of.contains_key(&id) {
                    if alone(id) || !j.may_join(groups, id) {
                        continue;
                    }
                    let Some(kernel) = j.kernel(groups, vec![id]) else { continue };
                    j.add(kernel);
                }
                while j.joined(groups, id) {}
            }
        } else if self.rounds > 2 * ROUNDS {
            // Whatever stands in the way of an end: every root by itself.
            j.kernels.clear();
        }
        let several = j.kernels.values().filter(|k| k.roots.len() > 1).map(|k| k.roots.clone());
        self.all = several.collect();
        let changed = self.all != before;
        if !changed && !self.all.is_empty() {
            groups.order = j.graph.order(comp);
        }
        changed
    }
}

struct Join<'a> {
    module: &'a Module,
    comp: &'a Computation,
    graph: Graph,
    /// By their first root.
    kernels: BTreeMap<NodeId, Kernel>,
    /// The kernel of a root.
    of: FxHashMap<NodeId, NodeId>,
    /// Roots that read an array.
    readers: FxHashMap<NodeId, Vec<NodeId>>,
}

impl Join<'_> {
    fn dims(&self, id: NodeId) -> &[u64] {
        self.comp.node(id).shape.as_array().map_or(&[], |a| &a.dims)
    }

    /// Whether a root is a loop's result that may be computed beside others.
    fn may_join(&self, groups: &Groups, id: NodeId) -> bool {
        let node = self.comp.node(id);
        let loops = is_pointwise(self.comp, id) || is_lane_reduce(self.comp, id);
        // These may be views of what they read.
        let mut from = id;
        while matches!(self.comp.node(from).op, Op::Reshape) || from == id && node.op == Op::Convert {
            from = self.comp.node(from).operands[0];
            if groups.is_root(from) {
                break;
            }
        }
        let view = from != id && groups.is_root(from);
        loops
            && !view
            && !groups.long.contains(&id)
            && !matches!(node.op, Op::Constant(_) | Op::Slice { .. })
            && node.shape.as_array().is_some_and(|a| a.elements() > 0 && a.rank() > 0)
    }

    /// Whether a root has one element for each row of points of these sizes.
    fn is_row(&self, id: NodeId, dims: &[u64]) -> bool {
        dims.last().is_some_and(|&c| c > 1) && strip(self.dims(id)) == strip(&dims[..dims.len() - 1])
    }

    /// The sizes of points that do for both of these roots: those of one, of which the other's are the rows.
    fn common<'d>(&self, a: (&[NodeId], &'d [u64]), b: (&[NodeId], &'d [u64])) -> Option<&'d [u64]> {
        let rows = |(roots, dims): (&[NodeId], &[u64]), of: &[u64]| {
            let all = strip(dims) == strip(&of[..of.len().saturating_sub(1)]);
            all && roots.iter().all(|&r| self.is_row(r, of) && !is_lane_reduce(self.comp, r))
        };
        match () {
            () if a.1 == b.1 => Some(a.1),
            () if rows(b, a.1) => Some(a.1),
            () if rows(a, b.1) => Some(b.1),
            () => None,
        }
    }

    /// Bytes of a root in memory: one element a row fills its lanes.
    fn bytes(&self, id: NodeId, dims: &[u64]) -> f64 {
        let lanes = if self.is_row(id, dims) && self.dims(id) != dims { LANES } else { 1.0 };
        self.array_bytes(id) * lanes
    }

    fn array_bytes(&self, id: NodeId) -> f64 {
        let a = self.comp.node(id).shape.as_array();
        a.map_or(0.0, |a| a.elements() as f64 * f64::from(a.dtype.bits()).max(8.0) / 8.0)
    }

    /// The kernel of some roots; `None` if there is none.
    fn kernel(&self, groups: &Groups, roots: Vec<NodeId>) -> Option<Kernel> {
        let dims = groups.points(self.comp, &roots);
        let mut f = Fuser::of(self.module, self.comp, groups, &roots, &dims);
        for &r in &roots {
            let map = f.map_of(r);
            f.value(r, &map).ok()?;
        }
        // A root that is wanted at other points too is better read.
        if !roots.iter().all(|&r| f.is_once(r)) || f.leaves.len() + roots.len() > MOST_OPERANDS {
            return None;
        }
        // One element a row fills its lanes.
        let whole = |l: &Leaf| groups.is_root(l.node) && self.is_in_rows(groups, l.node);
        let bytes = |l: &Leaf| self.array_bytes(l.node) * if whole(l) { LANES } else { 1.0 };
        let leaves = f.leaves.iter().map(|l| (l.clone(), bytes(l))).collect();
        let nodes = f.computed().collect();
        Some(Kernel { roots, dims, leaves, nodes })
    }

    /// Whether a root's array has one element a row.
    fn is_in_rows(&self, groups: &Groups, id: NodeId) -> bool {
        is_lane_reduce(self.comp, id) || groups.space[id.index()] != id
    }

    fn add(&mut self, kernel: Kernel) {
        let first = kernel.roots[0];
        for &r in &kernel.roots {
            self.of.insert(r, first);
        }
        for (l, _) in &kernel.leaves {
            let all = self.readers.entry(l.node).or_default();
            if !all.contains(&first) {
                all.push(first);
            }
        }
        self.kernels.insert(first, kernel);
    }

    /// Joins the kernel of a root with one before it, if there is one with which that pays.
    fn joined(&mut self, groups: &Groups, id: NodeId) -> bool {
        let own = self.of[&id];
        let me = &self.kernels[&own];
        let mut found: Vec<NodeId> = Vec::new();
        for (l, _) in &me.leaves {
            let near = self.readers.get(&l.node).into_iter().flatten().chain(self.of.get(&l.node)).rev();
            for k in near.take(MOST_CANDIDATES).filter_map(|k| self.of.get(k)) {
                if *k != own && !found.contains(k) {
                    found.push(*k);
                }
            }
        }
        let mut ranked: Vec<(f64, NodeId)> =
            found.into_iter().filter_map(|k| Some((self.worth(groups, &self.kernels[&k], me)?, k))).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        ranked.truncate(MOST_CANDIDATES);
        for (_, other) in ranked {
            let mut roots: Vec<NodeId> = [other, own].iter().flat_map(|k| self.kernels[k].roots.clone()).collect();
            roots.sort_unstable();
            if !self.graph.parts(&roots) {
                continue;
            }
            let Some(kernel) = self.kernel(groups, roots).filter(|k| k.nodes.len() <= MOST_NODES) else { continue };
            self.kernels.remove(&other);
            self.kernels.remove(&own);
            self.graph.contract(&kernel.roots);
            self.add(kernel);
            return true;
        }
        false
    }

    /// The share of two kernels that they have in common, if it is enough.
    fn worth(&self, groups: &Groups, a: &Kernel, b: &Kernel) -> Option<f64> {
        if a.roots.len() + b.roots.len() > MOST_RESULTS {
            return None;
        }
        let dims = self.common((&a.roots, &a.dims), (&b.roots, &b.dims))?;
        let linked = |x: &Kernel, y: &Kernel| y.leaves.iter().any(|l| x.roots.contains(&l.0.node));
        if a.dims != b.dims && !linked(a, b) && !linked(b, a) {
            return None;
        }
        if self.waits(groups, a, b) {
            return None;
        }
        let of = |k: &Kernel| -> f64 {
            let read: f64 = k.leaves.iter().map(|l| l.1).sum();
            let written: f64 = k.roots.iter().map(|&r| self.bytes(r, dims)).sum();
            read + written + k.nodes.iter().map(|&n| self.work(n)).sum::<f64>()
        };
        let same: f64 = a.leaves.iter().filter(|l| b.leaves.contains(l)).map(|l| l.1).sum();
        let handed = |x: &Kernel, y: &Kernel| -> f64 {
            let of: Vec<&(Leaf, f64)> = y.leaves.iter().filter(|l| x.roots.contains(&l.0.node)).collect();
            of.iter().map(|l| l.1).sum()
        };
        let again: f64 = a.nodes.intersection(&b.nodes).map(|&n| self.work(n)).sum();
        let common = same + handed(a, b) + handed(b, a) + again;
        let share = common / of(a).min(of(b)).max(1.0);
        (share >= COMMON).then_some(share)
    }

    /// Bytes that an operation's work is worth.
    #[allow(clippy::wildcard_enum_match_arm, reason = "an estimate: every other operation works on its elements")]
    fn work(&self, id: NodeId) -> f64 {
        let n = self.comp.node(id);
        let free = matches!(n.op, Op::Constant(_) | Op::Iota { .. } | Op::Broadcast { .. } | Op::Reshape);
        let elements = match &n.op {
            Op::Reduce { .. } => return 0.0,
            _ => n.shape.as_array().map_or(0, |a| a.elements()) as f64,
        };
        if free { 0.0 } else { elements * f64::from(cost(&n.op)) * BYTES_OF_WORK }
    }

    /// Whether much would wait for the later of two kernels.
    fn waits(&self, groups: &Groups, a: &Kernel, b: &Kernel) -> bool {
        let (Some(&last), Some(&end)) = (a.roots.iter().max(), b.roots.iter().max()) else { return true };
        let end = end.max(last);
        let late = |r: &NodeId| {
            let users = &groups.users[r.index()];
            users.iter().all(|u| *u > end || *u == self.comp.root)
        };
        let first = a.roots.iter().chain(&b.roots).filter(|r| !late(r)).min();
        first.is_some_and(|&first| self.graph.between(first, end) > MOST_BETWEEN)
    }
}

/// What is evaluated, in what order it may be.
struct Graph {
    /// What each node that is evaluated needs before it; none of the others.
    before: Vec<Vec<NodeId>>,
    evaluated: Vec<bool>,
    /// Kernels before each node.
    count: Vec<u32>,
    /// The roots of a node's kernel, where there are several.
    set: FxHashMap<NodeId, usize>,
    sets: Vec<Vec<NodeId>>,
    walked: std::cell::Cell<usize>,
}

impl Graph {
    fn new(comp: &Computation, groups: &Groups, scalars: &[bool]) -> Graph {
        let evaluated: Vec<bool> = comp
            .ids()
            .map(|id| scalars[id.index()] || groups.is_root(id) || comp.node(id).shape.as_array().is_none())
            .collect();
        let mut before = vec![Vec::new(); comp.nodes.len()];
        let mut effect: Option<NodeId> = None;
        for id in comp.ids().filter(|id| evaluated[id.index()]) {
            let mut seen: FxHashSet<NodeId> = FxHashSet::default();
            let mut stack = comp.node(id).operands.to_vec();
            while let Some(o) = stack.pop() {
                if !seen.insert(o) {
                    continue;
                }
                if evaluated[o.index()] {
                    before[id.index()].push(o);
                } else {
                    stack.extend_from_slice(&comp.node(o).operands);
                }
            }
            // What reaches beyond the program keeps its order.
            let op = &comp.node(id).op;
            if op.has_effect() || matches!(op.family(), Family::Exchange | Family::Host | Family::Transfer) {
                before[id.index()].extend(effect.replace(id));
            }
        }
        let mut count = Vec::with_capacity(evaluated.len());
        let mut so_far = 0;
        for id in comp.ids() {
            count.push(so_far);
            so_far += u32::from(groups.is_root(id) && !scalars[id.index()]);
        }
        Graph { before, evaluated, count, set: FxHashMap::default(), sets: Vec::new(), walked: Default::default() }
    }

    /// Kernels between two nodes.
    fn between(&self, a: NodeId, b: NodeId) -> usize {
        self.count[b.index()].abs_diff(self.count[a.index()]) as usize
    }

    fn contract(&mut self, roots: &[NodeId]) {
        let number = self.sets.len();
        self.sets.push(roots.to_vec());
        for &r in roots {
            if let Some(old) = self.set.insert(r, number) {
                self.sets[old].clear();
            }
        }
    }

    /// Whether these roots can be computed at one time: nothing outside needs one of them and is needed by another.
    fn parts(&self, roots: &[NodeId]) -> bool {
        // What lies before all of them, and before every kernel that reaches beyond that, needs none of them.
        let mut lowest = roots.iter().copied().min();
        loop {
            let spans = |s: &&Vec<NodeId>| s.iter().any(|&r| Some(r) >= lowest) && s.iter().any(|&r| Some(r) < lowest);
            let Some(next) = self.sets.iter().filter(spans).flatten().copied().min() else { break };
            lowest = Some(next);
        }
        let outside = |id: &NodeId| !roots.contains(id);
        let mut seen: FxHashSet<NodeId> = FxHashSet::default();
        let all = roots.iter().flat_map(|r| &self.before[r.index()]).copied();
        let mut stack: Vec<NodeId> = all.filter(outside).collect();
        while let Some(at) = stack.pop() {
            if Some(at) < lowest || !seen.insert(at) {
                continue;
            }
            let own = [at];
            let same = self.set.get(&at).map_or(&own[..], |&s| &self.sets[s][..]);
            for &m in same {
                seen.insert(m);
                for &o in &self.before[m.index()] {
                    if !outside(&o) {
                        return false;
                    }
                    stack.push(o);
                }
            }
            self.walked.set(self.walked.get() + same.len());
            if self.walked.get() > MOST_WALKED {
                return false;
            }
        }
        true
    }

    /// All nodes: each behind what it needs, kernels of several roots where their last one stands.
    fn order(&self, comp: &Computation) -> Vec<NodeId> {
        let of = |id: NodeId| self.set.get(&id).map_or(id, |&s| self.sets[s].iter().copied().max().unwrap_or(id));
        let mut open: FxHashMap<NodeId, usize> = FxHashMap::default();
        let mut behind: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
        for id in comp.ids() {
            let own = of(id);
            let n = open.entry(own).or_default();
            for &b in &self.before[id.index()] {
                if of(b) != own {
                    *n += 1;
                    behind.entry(of(b)).or_default().push(own);
                }
            }
        }
        let mut ready: BinaryHeap<Reverse<NodeId>> =
            open.iter().filter(|(_, n)| **n == 0).map(|(id, _)| Reverse(*id)).collect();
        let mut order = Vec::with_capacity(comp.nodes.len());
        while let Some(Reverse(at)) = ready.pop() {
            match self.set.get(&at) {
                Some(&s) => order.extend_from_slice(&self.sets[s]),
                None => order.push(at),
            }
            for next in behind.remove(&at).unwrap_or_default() {
                if let Some(n) = open.get_mut(&next) {
                    *n -= 1;
                    if *n == 0 {
                        ready.push(Reverse(next));
                    }
                }
            }
        }
        debug_assert_eq!(order.len(), comp.nodes.len(), "kernels of several roots wait for each other");
        debug_assert!(self.evaluated.len() == order.len(), "every node has its place");
        order
    }
}
