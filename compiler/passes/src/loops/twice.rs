//! `twice`: counted loops that hand the old value of a state on to another one, done two iterations at a time.
//!
//! A step of a wave equation makes a new state of the last two, and the last one becomes the last but one: an array is copied in every
//! iteration. Of two iterations written out, the first one's result is where the last but one was and the second one's where
//! the last was, and nothing is copied.

use super::element_of_parameter;
use super::unroll::{Counted, counted, iteration};
use crate::edit::{Emit, Rewritten};
use systole_hlo::graph::{Binary, Computation, Family, Node, NodeId, Op};

/// Operations of an iteration at most: all of them are there twice, or three times.
const MOST_NODES: usize = 128;
/// Bytes of an array whose copy is worth that.
const LARGE: u64 = 256 << 10;
/// Iterations at least.
const FEWEST: u64 = 4;

/// The states and what two iterations make of them take at most one part in so many of vector memory: elsewhere they come and go anyway.
const SHARE: u64 = 4;

/// Rewrites a loop on a chip of so much vector memory; of an odd number of iterations the first comes before it.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], vmem: u64) -> Rewritten {
    let Op::While { condition, body } = n.op else { return Ok(None) };
    let Op::Tuple = b.op(operands[0]) else { return Ok(None) };
    let Some(Counted { trips, counter, step }) = counted(b, operands[0], condition, body) else { return Ok(None) };
    let body = b.draft.computations[body.index()].clone();
    let bytes: u64 = n.shape.leaves().iter().map(|a| a.elements() * u64::from(a.dtype.bits()) / 8).sum();
    let worth = trips >= FEWEST && body.nodes.len() <= MOST_NODES && bytes <= vmem / SHARE;
    if !worth || !hands_on(&body) || !is_plain(&body) || !b.draft.fire("twice") {
        return Ok(None);
    }
    let mut start = operands[0];
    if trips % 2 == 1 {
        let state = b.elements_of(start);
        let state = iteration(b, &body, &state);
        b.on_behalf_of(n);
        start = b.tuple(&state);
    }
    let two = b.computation(&body.name, |b| {
        let all = b.parameter(n.shape.clone());
        let mut state = b.elements_of(all);
        let count = state[counter];
        for _ in 0..2 {
            state = iteration(b, &body, &state);
        }
        b.on_behalf_of(n);
        // One step, by which the loop is known to be counted.
        state[counter] = b.with(Binary::Add, count, 2.0 * step as f64);
        Ok(b.tuple(&state))
    })?;
    Ok(Some(b.emit(Op::While { condition, body: two }, &[start], n.shape.clone())))
}

/// Whether the next value of a large state is the old one of another.
fn hands_on(body: &Computation) -> bool {
    let next = body.node(body.root);
    let hands = |(i, &id): (usize, &NodeId)| {
        let bytes = body.node(id).shape.as_array().map_or(0, |a| a.elements() * u64::from(a.dtype.bits()) / 8);
        bytes >= LARGE && element_of_parameter(body, id).is_some_and(|from| from != i)
    };
    next.op == Op::Tuple && next.operands.iter().enumerate().any(hands)
}

/// Whether a body has neither loops nor anything that others see.
fn is_plain(body: &Computation) -> bool {
    let apart = [Family::Control, Family::Exchange, Family::Host, Family::Transfer];
    body.nodes.iter().all(|n| !n.op.has_effect() && !apart.contains(&n.op.family()))
}
