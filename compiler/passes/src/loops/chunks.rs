//! `chunks`: long loops that take a small part of large arrays each turn, and put one down, do some turns on parts of many.
//!
//! A scan over time takes place `t` of arrays that do not stay in vector memory and puts down place `t` of others: each turn waits for
//! HBM once or more, which for small parts is mostly latency. Here a loop brings a chunk of each array for a number of turns at
//! once, an inner loop does these turns on the chunks in vector memory, and what they put down leaves as a chunk again. An
//! inner loop whose turns are elementwise is one kernel, too.
//!
//! Turns that carry nothing from one to the next are left alone: cores share those.

use super::unroll::{Counted, counted};
use super::{element_of_parameter, is_handed_on};
use crate::edit::{Emit, Rewritten};
use crate::simplify::{as_index, splat_number};
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Binary, Computation, Family, Node, NodeId, Op, Shape};
use systole_isa::DType;

/// Operations of a turn at most: they may be there twice.
const MOST_NODES: usize = 512;
/// Turns of a chunk at least, and turns of a loop so that it has chunks.
const FEWEST: u64 = 8;
/// Bytes of a turn's part of one array up to which waiting for it takes longer than bringing it.
const SMALL: u64 = 512 << 10;
/// Arrays that take less than one part in so many of vector memory together stay there.
const STAYS: u64 = 4;
/// Chunks take one part in so many of vector memory together.
const SHARE: u64 = 8;
/// Rows that copies begin at, in tiles of the narrowest elements.
const ALIGNED: u64 = 4;

/// What vector memory holds, and the chip's sublanes and lanes.
#[derive(Clone, Copy)]
pub struct Room {
    pub bytes: u64,
    pub tile: (u32, u32),
}

/// The place along one dimension that a turn takes or puts down: `first` in turn 0, `step` (1 or -1) further each turn.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    dim: usize,
    first: i64,
    step: i64,
}

impl Part {
    /// The first place of `size` turns of which the first is number 0.
    fn low(&self, size: u64) -> i64 {
        if self.step < 0 { self.first + 1 - size as i64 } else { self.first }
    }
}

/// What an element of the state is to a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Handed on: the counter's own next value, what does not change, and what each turn makes anew.
    Whole,
    /// Does not change, and only such a part of it is read.
    Taken(Part),
    /// Such a part of it is written, and nothing else happens to it.
    Put(Part),
}

/// A loop's turns.
struct Turns<'a> {
    body: &'a Computation,
    counter: usize,
    trips: u64,
    roles: Vec<Role>,
}

/// Rewrites a loop.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], room: Room) -> Rewritten {
    let Op::While { condition, body } = n.op else { return Ok(None) };
    let Op::Tuple = b.op(operands[0]) else { return Ok(None) };
    let Some(Counted { trips, counter, step }) = counted(b, operands[0], condition, body) else { return Ok(None) };
    let first = b.operand(operands[0], counter);
    if trips < 2 * FEWEST || step != 1 || splat_number(b, first) != Some(0.0) || b.dtype(first) != DType::S32 {
        return Ok(None);
    }
    let body = b.draft.computations[body.index()].clone();
    if body.nodes.len() > MOST_NODES || body.node(body.root).op != Op::Tuple || !is_plain(&body) {
        return Ok(None);
    }
    let turns = Turns { roles: roles(&body, counter, trips), body: &body, counter, trips };
    let Some(size) = turns.chunk(room) else { return Ok(None) };
    if !b.draft.fire("chunks") {
        return Ok(None);
    }
    b.on_behalf_of(n);
    let mut state = b.elements_of(operands[0]);
    let whole = trips / size;
    if whole > 1 {
        state = b.counted_loop("chunks", whole, &state, |b, number, s| {
            let first = b.with(Binary::Mul, number, size as f64);
            turns.some(b, s, (first, size))
        })?;
    } else {
        let first = b.index(0);
        state = turns.some(b, &state, (first, size))?;
    }
    if trips % size > 0 {
        b.on_behalf_of(n);
        let first = b.index((whole * size) as i64);
        state = turns.some(b, &state, (first, trips % size))?;
    }
    b.on_behalf_of(n);
    state[counter] = b.index(trips as i64);
    Ok(Some(b.tuple(&state)))
}

/// Whether a body has neither loops nor anything that others see.
fn is_plain(body: &Computation) -> bool {
    let apart = [Family::Control, Family::Exchange, Family::Host, Family::Transfer];
    let fixed = |s: &Shape| s.leaves().iter().all(|a| !a.dynamic.contains(&true));
    body.nodes.iter().all(|n| !n.op.has_effect() && !apart.contains(&n.op.family()) && fixed(&n.shape))
}

/// A scalar as `.0` plus `.1` times the counter.
#[allow(clippy::wildcard_enum_match_arm, reason = "any other operation makes something else")]
fn linear(c: &Computation, id: NodeId, counter: usize) -> Option<(i64, i64)> {
    if element_of_parameter(c, id) == Some(counter) {
        return Some((0, 1));
    }
    let n = c.node(id);
    let both = || Some((linear(c, n.operands[0], counter)?, linear(c, n.operands[1], counter)?));
    let (first, step) = match &n.op {
        Op::Constant(l) if l.dims.is_empty() => (i64::try_from(as_index(l)?).ok()?, 0),
        Op::Binary(Binary::Add) => {
            let (x, y) = both()?;
            (x.0.checked_add(y.0)?, x.1 + y.1)
        }
        Op::Binary(Binary::Sub) => {
            let (x, y) = both()?;
            (x.0.checked_sub(y.0)?, x.1 - y.1)
        }
        _ => return None,
    };
    (step.abs() <= 1 && first.abs() < i64::from(i32::MAX)).then_some((first, step))
}

/// The part of an array of sizes `dims` that begins at `starts` and has sizes `sizes`, if turns take one place after the other, all of them
/// inside.
fn part(c: &Computation, starts: &[NodeId], (dims, sizes): (&[u64], &[u64]), of: (usize, u64)) -> Option<Part> {
    let mut found = None;
    for (dim, &start) in starts.iter().enumerate() {
        match linear(c, start, of.0)? {
            (0, 0) if sizes[dim] == dims[dim] => {}
            (first, step) if step != 0 && sizes[dim] == 1 && found.is_none() => found = Some(Part { dim, first, step }),
            _ => return None,
        }
    }
    let p = found?;
    let low = p.low(of.1);
    // Lanes do not move between registers for free.
    (p.dim + 1 < dims.len() && low >= 0 && low as u64 + of.1 <= dims[p.dim]).then_some(p)
}

fn sizes(c: &Computation, id: NodeId) -> &[u64] {
    c.node(id).shape.as_array().map_or(&[], |a| &a.dims)
}

/// What every element of the state is.
fn roles(c: &Computation, counter: usize, trips: u64) -> Vec<Role> {
    let users = uses(c);
    let next = &c.node(c.root).operands;
    let of = |i: usize| -> Vec<NodeId> { c.ids().filter(|&id| element_of_parameter(c, id) == Some(i)).collect() };
    let role = |(i, &last): (usize, &NodeId)| {
        let own = of(i);
        let mut seen: Vec<NodeId> = own.iter().flat_map(|o| users[o.index()].iter().copied()).collect();
        if own.contains(&last) {
            seen.retain(|u| *u != c.root);
            let cut = |u: &NodeId| {
                let n = c.node(*u);
                let takes = matches!(n.op, Op::DynamicSlice { .. }) && own.contains(&n.operands[0]);
                takes.then(|| part(c, &n.operands[1..], (sizes(c, n.operands[0]), sizes(c, *u)), (counter, trips)))?
            };
            let mut parts = seen.iter().map(cut);
            // As the next value of others it is read whole.
            let elsewhere = next.iter().enumerate().any(|(j, o)| j != i && own.contains(o));
            return match parts.next() {
                Some(Some(first)) if !elsewhere && parts.all(|p| p == Some(first)) => Role::Taken(first),
                Some(_) | None => Role::Whole,
            };
        }
        let n = c.node(last);
        let alone =
            seen == [last] && users[last.index()] == [c.root] && next.iter().filter(|o| **o == last).count() == 1;
        if n.op != Op::DynamicUpdateSlice || !own.contains(&n.operands[0]) || own.contains(&n.operands[1]) || !alone {
            return Role::Whole;
        }
        let sizes = (sizes(c, last), sizes(c, n.operands[1]));
        part(c, &n.operands[2..], sizes, (counter, trips)).map_or(Role::Whole, Role::Put)
    };
    next.iter().enumerate().map(role).collect()
}

/// Bytes of an array as it lies, with so many places along a dimension.
fn bytes(a: &ArrayShape, (dim, places): (usize, u64), (sublanes, lanes): (u32, u32)) -> u64 {
    let rank = a.dims.len();
    let size = |(d, &n): (usize, &u64)| {
        let n = if d == dim { places } else { n };
        match rank - d {
            1 => n.next_multiple_of(u64::from(lanes)),
            2 => n.next_multiple_of(u64::from(sublanes)),
            _ => n,
        }
    };
    let elements = a.dims.iter().enumerate().map(size).fold(1, u64::saturating_mul);
    elements.saturating_mul(u64::from(a.dtype.bits())) / 8
}

impl Turns<'_> {
    fn parts(&self) -> impl Iterator<Item = (Part, &ArrayShape)> {
        let next = &self.body.node(self.body.root).operands;
        self.roles.iter().zip(next).filter_map(|(role, &last)| match role {
            Role::Taken(p) | Role::Put(p) => Some((*p, self.body.node(last).shape.as_array()?)),
            Role::Whole => None,
        })
    }

    /// Turns of a chunk, if chunks are worth their loop.
    fn chunk(&self, room: Room) -> Option<u64> {
        let all: u64 = self.parts().map(|(p, a)| bytes(a, (p.dim, a.dims[p.dim]), room.tile)).sum();
        let each = |(p, a): (Part, &ArrayShape)| bytes(a, (p.dim, ALIGNED * 8), room.tile) / (ALIGNED * 8);
        let small = self.parts().all(|p| each(p) <= SMALL);
        let carried = (0..self.roles.len())
            .any(|i| self.roles[i] == Role::Whole && i != self.counter && !is_handed_on(self.body, i));
        let turn: u64 = self.parts().map(each).sum();
        if all <= room.bytes / STAYS || !small || !carried || turn == 0 {
            return None;
        }
        let most = (room.bytes / SHARE / turn).min(self.trips / 2);
        // Where turns are rows of tiles, chunks are whole ones.
        let rows = ALIGNED * u64::from(room.tile.0);
        let in_rows = self.parts().any(|(p, a)| p.dim + 2 == a.dims.len());
        let step = if in_rows { rows } else { 1 };
        let even = (most / 2..=most).rev().filter(|k| *k > 0 && k % step == 0).find(|k| self.trips.is_multiple_of(*k));
        let size = even.unwrap_or(most / step * step);
        (size >= FEWEST).then_some(size)
    }

    /// The state after `size` turns, the first of which is number `first`.
    fn some(&self, b: &mut Emit, state: &[NodeId], (first, size): (NodeId, u64)) -> Result<Vec<NodeId>, CompileError> {
        let mut inner = state.to_vec();
        inner[self.counter] = first;
        for (i, role) in self.roles.iter().enumerate() {
            match *role {
                Role::Whole => {}
                Role::Taken(p) => {
                    let mut dims = b.dims(state[i]).to_vec();
                    dims[p.dim] = size;
                    let starts = place(b, (p, size), first, dims.len());
                    inner[i] = b.dynamic_slice(state[i], &starts, &dims);
                }
                Role::Put(p) => {
                    let mut dims = b.dims(state[i]).to_vec();
                    dims[p.dim] = size;
                    let dtype = b.dtype(state[i]);
                    inner[i] = b.splat(dtype, &dims, 0.0);
                }
            }
        }
        let done = b.counted_loop("turns", size, &inner, |b, number, s| Ok(self.turn(b, s, (number, size))))?;
        let mut next = state.to_vec();
        for (i, role) in self.roles.iter().enumerate() {
            match *role {
                Role::Whole if i != self.counter => next[i] = done[i],
                Role::Whole | Role::Taken(_) => {}
                Role::Put(p) => {
                    let starts = place(b, (p, size), first, b.dims(state[i]).len());
                    next[i] = b.dynamic_update_slice(state[i], done[i], &starts);
                }
            }
        }
        Ok(next)
    }

    /// One turn on chunks of `size`: its number in them is `number`, the number of their first is the counter's place in the state.
    #[allow(clippy::wildcard_enum_match_arm, reason = "only what takes and puts down parts changes")]
    fn turn(&self, b: &mut Emit, state: &[NodeId], (number, size): (NodeId, u64)) -> Vec<NodeId> {
        let body = self.body;
        let counter = b.add(state[self.counter], number);
        let mut map: Vec<Option<NodeId>> = Vec::with_capacity(body.nodes.len());
        let part = |array: NodeId| match element_of_parameter(body, array).map(|i| self.roles[i]) {
            Some(Role::Taken(p) | Role::Put(p)) => Some(p),
            Some(Role::Whole) | None => None,
        };
        for id in body.ids() {
            let n = body.node(id);
            let mut operands: Vec<NodeId> = n.operands.iter().filter_map(|o| map[o.index()]).collect();
            if id == body.root {
                operands[self.counter] = state[self.counter];
                return operands;
            }
            b.on_behalf_of(n);
            let made = match (&n.op, element_of_parameter(body, id)) {
                (Op::Parameter { .. }, _) => None,
                (_, Some(i)) if i == self.counter => Some(counter),
                (_, Some(i)) => Some(state[i]),
                (op, None) => {
                    let behind = match op {
                        Op::DynamicSlice { .. } => Some(1),
                        Op::DynamicUpdateSlice => Some(2),
                        _ => None,
                    };
                    let shape = match behind.and_then(|at| Some((at, part(n.operands[0])?))) {
                        Some((at, p)) => {
                            operands.truncate(at);
                            operands.extend(inside(b, (p, size), number, n.operands.len() - at));
                            let mut a = crate::make::array(&n.shape);
                            if at == 2 {
                                a.dims[p.dim] = size;
                            }
                            Shape::array(a.dtype, &a.dims)
                        }
                        None => n.shape.clone(),
                    };
                    Some(b.emit(op.clone(), &operands, shape))
                }
            };
            map.push(made);
        }
        Vec::new()
    }
}

/// Where the chunk of `size` turns begins in its array, whose first turn is number `first`.
fn place(b: &mut Emit, (p, size): (Part, u64), first: NodeId, rank: usize) -> Vec<NodeId> {
    let low = p.low(size);
    let at = if p.step > 0 {
        if low == 0 { first } else { b.with(Binary::Add, first, low as f64) }
    } else {
        let low = b.index(low);
        b.sub(low, first)
    };
    starts(b, at, (p.dim, rank))
}

/// Where the part of turn `number` of a chunk of `size` turns is in it.
fn inside(b: &mut Emit, (p, size): (Part, u64), number: NodeId, rank: usize) -> Vec<NodeId> {
    let at = if p.step > 0 {
        number
    } else {
        let last = b.index(size as i64 - 1);
        b.sub(last, number)
    };
    starts(b, at, (p.dim, rank))
}

fn starts(b: &mut Emit, at: NodeId, (dim, rank): (usize, usize)) -> Vec<NodeId> {
    let zero = b.index(0);
    let mut starts = vec![zero; rank];
    starts[dim] = at;
    starts
}
