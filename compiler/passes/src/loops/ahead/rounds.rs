//! The loop written anew: iterations beside the head of the next and the tail of the last.

use super::element_of_parameter;
use super::parts::{End, Parts};
use crate::edit::Emit;
use std::collections::BTreeSet;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Computation, NodeId, Op};

/// Rounds below which a loop is written out.
const LEAST_ROUNDS: u64 = 2;

/// Writes a loop in rounds of two iterations.
pub struct Rounds<'a> {
    pub body: &'a Computation,
    pub parts: &'a Parts,
    /// The last channel that a collective has.
    pub channels: &'a mut u64,
}

/// What goes from one iteration to the next.
struct Carried {
    state: Vec<NodeId>,
    /// What the iteration's head gave.
    gathered: Vec<NodeId>,
    /// What the last iteration left to its tail.
    partial: Vec<NodeId>,
}

impl Carried {
    fn all(&self) -> Vec<NodeId> {
        [&self.state[..], &self.gathered, &self.partial].concat()
    }

    /// Of nodes in the order of [`Carried::all`].
    fn of(all: &[NodeId], parts: &Parts) -> Carried {
        let (state, rest) = all.split_at(parts.late.len());
        let (gathered, partial) = rest.split_at(parts.head.carried.len());
        Carried { state: state.to_vec(), gathered: gathered.to_vec(), partial: partial.to_vec() }
    }
}

/// New nodes of the body's, for one iteration as one part sees it.
type Map = Vec<Option<NodeId>>;

/// Whether an iteration does the head of the next one and the tail of the last one.
#[derive(Clone, Copy)]
struct Beside {
    head: bool,
    tail: bool,
}

impl Rounds<'_> {
    /// All iterations, at least three: the last state.
    pub fn all(mut self, b: &mut Emit, name: &str, state: &[NodeId], trips: u64) -> Result<Vec<NodeId>, CompileError> {
        let whole = Beside { head: !self.parts.head.is_empty(), tail: !self.parts.tail.is_empty() };
        let mut at = Carried { state: state.to_vec(), gathered: Vec::new(), partial: Vec::new() };
        if whole.head {
            let mut head = self.elements(b, &at.state, 0);
            self.collectives(b, &mut head, &self.parts.head)?;
            at.gathered = self.values(b, &mut head, &self.parts.head.carried)?;
        }
        if whole.tail {
            at = self.iteration(b, at, Beside { tail: false, ..whole })?;
        }
        let between = trips - u64::from(whole.head) - u64::from(whole.tail);
        let rounds = if between / 2 < LEAST_ROUNDS { 0 } else { between / 2 };
        if rounds > 0 {
            let parts = self.parts;
            let all = b.counted_loop(name, rounds, &at.all(), |b, _, s| {
                let mut at = Carried::of(s, parts);
                for _ in 0..2 {
                    at = self.iteration(b, at, whole)?;
                }
                Ok(at.all())
            })?;
            at = Carried::of(&all, parts);
        }
        for _ in 2 * rounds..between {
            at = self.iteration(b, at, whole)?;
        }
        if whole.head {
            at = self.iteration(b, at, Beside { head: false, ..whole })?;
        }
        if whole.tail {
            let mut tail = self.last(b, &at);
            self.collectives(b, &mut tail, &self.parts.tail)?;
            self.put_late(b, &mut tail, &mut at.state)?;
        }
        Ok(at.state)
    }

    /// One iteration, beside the parts of others.
    fn iteration(&mut self, b: &mut Emit, at: Carried, beside: Beside) -> Result<Carried, CompileError> {
        let (c, parts) = (self.body, self.parts);
        let mut rest = self.elements(b, &at.state, 0);
        parts.head.carried.iter().zip(&at.gathered).for_each(|(old, new)| rest[old.index()] = Some(*new));
        let mut head = if beside.head { self.elements(b, &at.state, 1) } else { Map::new() };
        let mut tail = if beside.tail { self.last(b, &at) } else { Map::new() };
        let results = &c.node(c.root).operands;
        let wanted: Vec<NodeId> = (results.iter().zip(&parts.late).filter(|(_, late)| !**late).map(|(r, _)| *r))
            .chain(parts.tail.carried.iter().copied())
            .collect();
        let live = needed(c, &wanted, &rest, parts);
        for id in c.ids() {
            for &(x, _) in parts.begun.iter().filter(|x| x.1 == id) {
                if beside.tail && parts.tail.has(x) {
                    self.value(b, &mut tail, x)?;
                } else if beside.head && parts.head.has(x) {
                    self.value(b, &mut head, x)?;
                }
            }
            if live[id.index()] {
                self.value(b, &mut rest, id)?;
            }
        }
        let mut state = at.state.clone();
        for (e, r) in results.iter().enumerate().filter(|(e, _)| !parts.late[*e]) {
            state[e] = self.value(b, &mut rest, *r)?;
        }
        if beside.tail {
            self.put_late(b, &mut tail, &mut state)?;
        }
        let partial = self.values(b, &mut rest, &parts.tail.carried)?;
        let gathered = if beside.head { self.values(b, &mut head, &parts.head.carried)? } else { at.gathered };
        Ok(Carried { state, gathered, partial })
    }

    /// The state elements as an iteration so many further on sees them; those that it only makes, as they are.
    fn elements(&self, b: &mut Emit, state: &[NodeId], further: i32) -> Map {
        let c = self.body;
        let mut now = state.to_vec();
        for &(e, sum) in &self.parts.counters {
            let n = c.node(sum);
            let step = c.node(n.operands[1]);
            b.on_behalf_of(n);
            let step = b.emit(step.op.clone(), &[], step.shape.clone());
            let back = if n.op == Op::Binary(Binary::Add) { Binary::Sub } else { Binary::Add };
            match further {
                0 => {}
                1.. => now[e] = b.emit(n.op.clone(), &[now[e], step], n.shape.clone()),
                _ => now[e] = b.emit(Op::Binary(back), &[now[e], step], n.shape.clone()),
            }
        }
        c.ids().map(|id| element_of_parameter(c, id).map(|e| now[e])).collect()
    }

    /// What the tail of the last iteration starts from.
    fn last(&self, b: &mut Emit, at: &Carried) -> Map {
        let mut map = self.elements(b, &at.state, -1);
        self.parts.tail.carried.iter().zip(&at.partial).for_each(|(old, new)| map[old.index()] = Some(*new));
        map
    }

    /// The collectives of an end, in order.
    fn collectives(&mut self, b: &mut Emit, map: &mut Map, end: &End) -> Result<(), CompileError> {
        for (x, _) in self.parts.begun.iter().filter(|x| end.has(x.0)) {
            self.value(b, map, *x)?;
        }
        Ok(())
    }

    /// The state elements that are late.
    fn put_late(&mut self, b: &mut Emit, tail: &mut Map, state: &mut [NodeId]) -> Result<(), CompileError> {
        let c = self.body;
        for (e, &r) in c.node(c.root).operands.iter().enumerate().filter(|(e, _)| self.parts.late[*e]) {
            state[e] = self.value(b, tail, r)?;
        }
        Ok(())
    }

    fn values(&mut self, b: &mut Emit, map: &mut Map, of: &[NodeId]) -> Result<Vec<NodeId>, CompileError> {
        of.iter().map(|&id| self.value(b, map, id)).collect()
    }

    /// A node for the iteration that a map is of, with what it needs.
    fn value(&mut self, b: &mut Emit, map: &mut Map, id: NodeId) -> Result<NodeId, CompileError> {
        let c = self.body;
        let mut missing = BTreeSet::new();
        let mut open = vec![id];
        while let Some(n) = open.pop() {
            if map[n.index()].is_none() && missing.insert(n) {
                open.extend(&c.node(n).operands);
            }
        }
        let unknown = || CompileError::internal("ahead", "a part of an iteration needs the whole state");
        for id in missing {
            let n = c.node(id);
            let operands: Option<Vec<NodeId>> = n.operands.iter().map(|o| map[o.index()]).collect();
            if matches!(n.op, Op::Parameter { .. }) {
                return Err(unknown());
            }
            b.on_behalf_of(n);
            let op = self.fresh(&n.op);
            map[id.index()] = Some(b.emit(op, &operands.ok_or_else(unknown)?, n.shape.clone()));
        }
        map[id.index()].ok_or_else(unknown)
    }

    /// The operation with a channel of its own.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for collectives alone")]
    fn fresh(&mut self, op: &Op) -> Op {
        let mut op = op.clone();
        match &mut op {
            Op::Collective { devices, .. } if devices.channel.is_some() => {
                *self.channels += 1;
                devices.channel = Some(*self.channels);
            }
            _ => {}
        }
        op
    }
}

/// Nodes of the rest that some results need, and its collectives with what they need.
fn needed(c: &Computation, wanted: &[NodeId], known: &Map, parts: &Parts) -> Vec<bool> {
    let mut live = vec![false; c.nodes.len()];
    let own = c.ids().filter(|&id| parts.is_rest(id) && c.node(id).op.has_effect());
    let mut open: Vec<NodeId> = own.chain(wanted.iter().copied()).collect();
    while let Some(id) = open.pop() {
        if known[id.index()].is_none() && !std::mem::replace(&mut live[id.index()], true) {
            open.extend(&c.node(id).operands);
        }
    }
    live
}
