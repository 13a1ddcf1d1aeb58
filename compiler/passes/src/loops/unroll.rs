//! `unroll`: short counted loops over elementwise work, written out.
//!
//! An iteration of a loop passes its whole state through memory, which costs far more than a few operations on every
//! element: the rounds of a counter-based random generator, say, which JAX writes as a loop. Written out they become one
//! fused kernel, and what depends on the counter alone becomes constants.

use super::{element_of_parameter, is_handed_on};
use crate::edit::{Emit, Rewritten};
use crate::simplify::{as_index, splat_number};
use systole_hlo::graph::{Binary, CompId, Computation, Direction, Node, NodeId, Op, Shape};

/// Iterations that are written out at most, and operations of them all.
const MOST_TRIPS: u64 = 16;
const MOST_NODES: u64 = 512;

/// Rewrites a loop.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    let Op::While { condition, body } = n.op else { return Ok(None) };
    let Op::Tuple = b.op(operands[0]) else { return Ok(None) };
    let Some(Counted { trips, .. }) = counted(b, operands[0], condition, body) else { return Ok(None) };
    let body = b.draft.computations[body.index()].clone();
    let work = body.nodes.len() as u64;
    if trips > MOST_TRIPS || trips * work > MOST_NODES || !is_simple(&body) || !b.draft.fire("unroll") {
        return Ok(None);
    }
    let mut state = b.elements_of(operands[0]);
    for _ in 0..trips {
        state = iteration(b, &body, &state);
    }
    b.on_behalf_of(n);
    Ok(Some(b.tuple(&state)))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
fn constant(c: &Computation, id: NodeId) -> Option<i128> {
    match &c.node(id).op {
        Op::Constant(l) if l.dims.is_empty() => as_index(l),
        _ => None,
    }
}

/// How often a loop runs, and the number of the state that counts, by `step` in each iteration.
pub(super) struct Counted {
    pub trips: u64,
    pub counter: usize,
    pub step: i128,
}

/// How often a loop runs, if a counter among its state says so: from a constant by a constant up to a constant.
pub(super) fn counted(b: &Emit, start: NodeId, condition: CompId, body: CompId) -> Option<Counted> {
    let (condition, body) = (&b.draft.computations[condition.index()], &b.draft.computations[body.index()]);
    let test = condition.node(condition.root);
    if !matches!(test.op, Op::Compare { direction: Direction::Lt, .. }) {
        return None;
    }
    let counter = element_of_parameter(condition, test.operands[0])?;
    let of_start = |i: usize| splat_number(b, b.operand(start, i)).filter(|v| v.fract() == 0.0).map(|v| v as i128);
    let next = body.node(body.root);
    let limit = match constant(condition, test.operands[1]) {
        Some(limit) => limit,
        None => of_start(element_of_parameter(condition, test.operands[1]).filter(|&i| is_handed_on(body, i))?)?,
    };
    let sum = body.node(*next.operands.get(counter).filter(|_| next.op == Op::Tuple)?);
    if sum.op != Op::Binary(Binary::Add) {
        return None;
    }
    let (x, y) = (sum.operands[0], sum.operands[1]);
    let step = match (element_of_parameter(body, x), element_of_parameter(body, y)) {
        (Some(i), _) if i == counter => constant(body, y)?,
        (_, Some(i)) if i == counter => constant(body, x)?,
        _ => return None,
    };
    let first = of_start(counter)?;
    let last = first + (limit - first).max(0);
    // A counter that would wrap is left to the loop.
    let wide = sum.shape.as_array().is_some_and(|a| a.dtype.bits() >= 32);
    let trips = |step| ((last - first + step - 1) / step) as u64;
    (step > 0 && wide && last < i128::from(i32::MAX)).then(|| Counted { trips: trips(step), counter, step })
}

/// Whether a body does nothing but compute every element from those at its place.
fn is_simple(c: &Computation) -> bool {
    let plain = |op: &Op| matches!(op, Op::Broadcast { .. } | Op::Reshape | Op::Slice { .. } | Op::Iota { .. });
    let static_sizes = |s: &Shape| s.leaves().iter().all(|a| !a.dynamic.contains(&true));
    c.ids().all(|id| {
        let n = c.node(id);
        let known = n.op.is_elementwise() || plain(&n.op) || matches!(n.op, Op::Constant(_) | Op::Parameter { .. });
        static_sizes(&n.shape)
            && (known || element_of_parameter(c, id).is_some() || (id == c.root && n.op == Op::Tuple))
    })
}

/// One iteration: the next state.
pub(super) fn iteration(b: &mut Emit, body: &Computation, state: &[NodeId]) -> Vec<NodeId> {
    let mut map: Vec<Option<NodeId>> = Vec::with_capacity(body.nodes.len());
    for id in body.ids() {
        let n = body.node(id);
        let operands: Vec<NodeId> = n.operands.iter().filter_map(|o| map[o.index()]).collect();
        if id == body.root {
            return operands;
        }
        map.push(match (&n.op, element_of_parameter(body, id)) {
            (Op::Parameter { .. }, _) => None,
            (_, Some(i)) => Some(state[i]),
            _ => {
                b.on_behalf_of(n);
                Some(b.emit(n.op.clone(), &operands, n.shape.clone()))
            }
        });
    }
    Vec::new()
}
