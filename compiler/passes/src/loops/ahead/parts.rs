//! The parts of a loop's body: head, tail and rest.

use crate::loops::{element_of_parameter, is_handed_on};
use crate::options::PassOptions;
use crate::pieces::cost::Costs;
use std::collections::BTreeSet;
use systole_hlo::analysis::uses::uses;
use systole_hlo::graph::{Binary, Computation, Effect, Family, Node, NodeId, Op};

/// Messages that a collective takes at least to be worth an array in the state.
const WORTH: f64 = 16.0;

/// The parts of a body. Nodes are its own; nodes of no part are the rest.
pub struct Parts {
    /// The state carries nodes of the head to the iteration that needs them.
    pub head: End,
    /// The state carries nodes of the rest to the next iteration, for those of the tail.
    pub tail: End,
    /// State elements that the tail makes, and so are an iteration late.
    pub late: Vec<bool>,
    /// State elements to which every iteration adds a constant: element, and the node of the sum.
    pub counters: Vec<(usize, NodeId)>,
    /// Nodes that follow from counters and from what does not change, cheap to compute once more.
    pub again: Vec<bool>,
    /// Collectives begun in the rest: the head's and the tail's, in order, before the node in the rest.
    pub begun: Vec<(NodeId, NodeId)>,
}

/// One end of a body, which another iteration does.
pub struct End {
    /// Which nodes are its own.
    own: Vec<bool>,
    /// What the state carries because of it.
    pub carried: Vec<NodeId>,
}

impl End {
    fn new(nodes: usize) -> End {
        End { own: vec![false; nodes], carried: Vec::new() }
    }

    /// Whether a node is its own.
    pub fn has(&self, id: NodeId) -> bool {
        self.own[id.index()]
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        !self.own.contains(&true)
    }
}

impl Parts {
    /// The parts of a body with a head or a tail worth it.
    pub fn of(c: &Computation, all: &[Computation], o: &PassOptions) -> Option<Parts> {
        let root = c.node(c.root);
        let known = root.op == Op::Tuple && c.params.len() == 1 && c.ids().all(|id| is_known(c, all, id));
        if !known {
            return None;
        }
        let users = uses(c);
        let costs = Costs::new(c, &users, o);
        let large = |id: NodeId| costs.collective(id) > WORTH * o.chip.rates.message;
        let count = root.operands.len();
        let unchanged: Vec<bool> = (0..count).map(|i| is_handed_on(c, i)).collect();
        let counters: Vec<(usize, NodeId)> = (0..count).filter_map(|i| Some((i, counter(c, i)?))).collect();
        let (steady, again) = steady(c, &unchanged, &counters);
        let mut parts = Parts {
            head: End::new(c.nodes.len()),
            tail: End::new(c.nodes.len()),
            late: vec![false; count],
            counters,
            again,
            begun: Vec::new(),
        };
        parts.find_head(c, &users, &steady, &large);
        parts.find_tail(c, &users, &unchanged, &large);
        if parts.head.is_empty() && parts.tail.is_empty() {
            return None;
        }
        parts.spread(c, &costs);
        Some(parts)
    }

    /// What large collectives that are steady need, and the arrays that others take of it.
    fn find_head(&mut self, c: &Computation, users: &[Vec<NodeId>], steady: &[bool], large: &dyn Fn(NodeId) -> bool) {
        let mut seeds: Vec<NodeId> = c.ids().filter(|&id| steady[id.index()] && large(id)).collect();
        // Only its own iteration knows what takes a collective as a whole tuple.
        seeds
            .retain(|&id| users[id.index()].iter().all(|&u| c.node(id).shape.as_array().is_some() || is_element(c, u)));
        let mut exchanged = vec![false; c.nodes.len()];
        let mut open = seeds.clone();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut self.head.own[id.index()], true) {
                open.extend(&c.node(id).operands);
            }
        }
        for id in c.ids() {
            let n = c.node(id);
            let inside = |o: &NodeId| exchanged[o.index()];
            exchanged[id.index()] = self.head.has(id) && (is_collective(n) || n.operands.iter().any(inside))
                || is_element(c, id) && n.operands.iter().any(inside);
            self.head.own[id.index()] |= exchanged[id.index()];
        }
        let wanted = |u: &NodeId| !self.head.has(*u);
        let gathered = c.ids().filter(|id| exchanged[id.index()] && users[id.index()].iter().any(wanted));
        self.head.carried = gathered.collect();
    }

    /// Large collectives that only accumulated elements need, and all that follows from them and from these elements.
    fn find_tail(
        &mut self,
        c: &Computation,
        users: &[Vec<NodeId>],
        unchanged: &[bool],
        large: &dyn Fn(NodeId) -> bool,
    ) {
        let results = &c.node(c.root).operands;
        let mut sums: Vec<bool> = (0..results.len()).map(|e| !unchanged[e] && is_sum(c, e)).collect();
        self.counters.iter().for_each(|k| sums[k.0] = false);
        // What a late element decides is none that could wait for it.
        let above: Vec<bool> = follow(c, &|e| sums[e]);
        let own = |late: &[bool], id: NodeId| element_of_parameter(c, id).is_some_and(|e| late[e]);
        loop {
            let only = only_for(c, users, &sums);
            let mut tail = vec![false; c.nodes.len()];
            for id in c.ids().filter(|id| only[id.index()] && !self.head.has(*id)) {
                let n = c.node(id);
                tail[id.index()] = large(id) && !above[id.index()] || n.operands.iter().any(|o| tail[o.index()]);
            }
            let late: Vec<bool> = results.iter().enumerate().map(|(i, r)| sums[i] && tail[r.index()]).collect();
            // What reads a late element is late itself.
            for id in c.ids().filter(|id| only[id.index()]) {
                let n = c.node(id);
                tail[id.index()] |= n.operands.iter().any(|o| tail[o.index()] || own(&late, *o));
            }
            let kept: Vec<bool> = (0..sums.len())
                .map(|i| {
                    late[i]
                        && c.ids()
                            .filter(|&id| own(&late, id) && element_of_parameter(c, id) == Some(i))
                            .all(|id| users[id.index()].iter().all(|u| tail[u.index()] && *u != c.root))
                })
                .collect();
            if kept == sums {
                (self.tail.own, self.late) = (tail, late);
                break;
            }
            sums = kept;
        }
        let mut partial = BTreeSet::new();
        for id in c.ids().filter(|id| self.tail.has(*id)) {
            for &o in &c.node(id).operands {
                let at_hand = self.tail.has(o) || self.again[o.index()] || own(&self.late, o);
                if !at_hand {
                    partial.insert(o);
                }
            }
        }
        if partial.iter().any(|&o| c.node(o).shape.as_array().is_none()) {
            self.tail = End::new(c.nodes.len());
            self.late.fill(false);
        } else {
            self.tail.carried = partial.into_iter().collect();
        }
    }

    /// Whether a node is done by the rest of an iteration.
    pub fn is_rest(&self, id: NodeId) -> bool {
        !self.head.has(id) && !self.tail.has(id)
    }

    /// Says where in the rest the exchanges of head and tail begin. All exchanges keep their order, so that one that the
    /// rest waits for is not put behind more than what the work before it hides.
    fn spread(&mut self, c: &Computation, costs: &Costs<'_>) {
        let of = |end: &End| -> Vec<NodeId> { c.ids().filter(|i| end.has(*i) && is_collective(c.node(*i))).collect() };
        // The tail first: what it sends is overwritten by this iteration's.
        let moved: Vec<NodeId> = [of(&self.tail), of(&self.head)].concat();
        let mut moved = moved.into_iter().peekable();
        let mut room = 0.0;
        let mut start = None;
        for id in c.ids() {
            let n = c.node(id);
            if !self.is_rest(id) || matches!(n.op, Op::Parameter { .. }) {
                continue;
            }
            let first = *start.get_or_insert(id);
            if !is_collective(n) {
                room += costs.work(id);
                continue;
            }
            while let Some(x) = moved.next_if(|&x| costs.collective(x) <= room) {
                room -= costs.collective(x);
                self.begun.push((x, first));
            }
            (room, start) = (0.0, None);
        }
        let last = start.unwrap_or(c.root);
        self.begun.extend(moved.map(|x| (x, last)));
    }
}

fn is_collective(n: &Node) -> bool {
    matches!(n.op, Op::Collective { .. })
}

fn is_element(c: &Computation, id: NodeId) -> bool {
    matches!(c.node(id).op, Op::GetTupleElement { .. })
}

/// Whether a node may be in a body that is taken apart: the state only element by element, arrays of known sizes, nothing
/// outside but exchanges.
fn is_known(c: &Computation, all: &[Computation], id: NodeId) -> bool {
    let n = c.node(id);
    let whole = n.operands.contains(&c.params[0]) && element_of_parameter(c, id).is_none();
    let fixed = n.shape.leaves().iter().all(|a| !a.dynamic.contains(&true));
    let outside = |c: &Computation| c.nodes.iter().any(|n| n.op.has_effect());
    let quiet = is_collective(n) || n.op.effect() == Effect::Pure || n.op == Op::OptBarrier || is_control(&n.op);
    !whole && fixed && quiet && !n.op.called().iter().any(|k| reaches(all, k.index(), &outside))
}

/// Whether a computation, or one that it calls, is so.
fn reaches(all: &[Computation], at: usize, found: &dyn Fn(&Computation) -> bool) -> bool {
    found(&all[at]) || all[at].nodes.iter().any(|n| n.op.called().iter().any(|c| reaches(all, c.index(), found)))
}

fn is_control(op: &Op) -> bool {
    matches!(op, Op::While { .. } | Op::Conditional { .. } | Op::Parameter { .. })
}

/// The sum that is the next value of element `i`, if it is the element and an integer constant.
fn counter(c: &Computation, i: usize) -> Option<NodeId> {
    let next = c.node(c.root).operands[i];
    let n = c.node(next);
    let sum = matches!(n.op, Op::Binary(Binary::Add | Binary::Sub)) && n.shape.as_array()?.dtype.is_integer();
    let [x, y] = n.operands[..] else { return None };
    let scalar = n.shape.as_array()?.dims.is_empty();
    (sum && scalar && element_of_parameter(c, x) == Some(i) && matches!(c.node(y).op, Op::Constant(_))).then_some(next)
}

/// Nodes that follow from counters and from what does not change, exchanges among them; and those that are cheap and need
/// no exchange.
fn steady(c: &Computation, unchanged: &[bool], counters: &[(usize, NodeId)]) -> (Vec<bool>, Vec<bool>) {
    let (mut steady, mut again) = (vec![false; c.nodes.len()], vec![false; c.nodes.len()]);
    for id in c.ids() {
        let n = c.node(id);
        let known = |e: usize| unchanged[e] || counters.iter().any(|k| k.0 == e);
        let cheap = is_cheap(&n.op);
        let of = |which: &[bool]| n.operands.iter().all(|o| which[o.index()]);
        let element = element_of_parameter(c, id);
        steady[id.index()] = element.map_or_else(|| (cheap || is_collective(n)) && of(&steady), known);
        again[id.index()] = element.map_or_else(|| cheap && of(&again), known);
    }
    (steady, again)
}

/// Operations that may be done once more: none that are much work.
fn is_cheap(op: &Op) -> bool {
    let elementwise = op.is_elementwise() || matches!(op, Op::Constant(_) | Op::Iota { .. } | Op::Copy);
    let moved = *op == Op::Bitcast || op.family() == Family::Move && *op != Op::DynamicUpdateSlice;
    let known = matches!(op, Op::OptBarrier | Op::GetTupleElement { .. } | Op::PartitionId | Op::ReplicaId);
    elementwise || moved || known
}

/// Nodes that follow from some elements of the state.
fn follow(c: &Computation, from: &dyn Fn(usize) -> bool) -> Vec<bool> {
    let mut reached = vec![false; c.nodes.len()];
    for id in c.ids() {
        let above = c.node(id).operands.iter().any(|o| reached[o.index()]);
        reached[id.index()] = above || element_of_parameter(c, id).is_some_and(from);
    }
    reached
}

/// Whether nothing but the next value of a state element follows from it.
fn is_sum(c: &Computation, element: usize) -> bool {
    let reached = follow(c, &|e| e == element);
    c.node(c.root).operands.iter().enumerate().all(|(e, r)| e == element || !reached[r.index()])
}

/// Nodes whose every use ends in state elements that are `sums`.
fn only_for(c: &Computation, users: &[Vec<NodeId>], sums: &[bool]) -> Vec<bool> {
    let results = &c.node(c.root).operands;
    let mut only = vec![false; c.nodes.len()];
    for id in c.ids().filter(|&id| id != c.root).collect::<Vec<_>>().into_iter().rev() {
        let ends = |u: &NodeId| match *u == c.root {
            true => results.iter().zip(sums).all(|(r, s)| *r != id || *s),
            false => only[u.index()],
        };
        let used = &users[id.index()];
        only[id.index()] = !used.is_empty() && used.iter().all(ends);
    }
    only
}
