//! `invariant`: what is the same in every turn of a loop, and is no mere arithmetic, is done once before it.
//!
//! Transposes, gathers, products and reductions of what a loop does not change, and functions that take many instructions, are
//! done in front of it, and the loop gets their results. Plain elementwise work stays where it is: a fused kernel does it
//! on the way, while an array made of it would have to be read each turn.

use super::{element_of_parameter, is_handed_on};
use crate::edit::{Draft, Emit, Rewritten, calls_effect};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Binary, CompId, Computation, Family, Node, NodeId, Op, Shape, Unary};

/// All that is made before a loop takes one part in so many of vector memory at most, but for what turns take parts of (one in so many at most); each of it is at most so many times larger than
/// what it is made of.
const SHARE: u64 = 8;
const GROWTH: u64 = 2;

/// Rewrites a loop on a chip of so much vector memory.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], vmem: u64) -> Rewritten {
    let Op::While { condition, body } = n.op else { return Ok(None) };
    let Op::Tuple = b.op(operands[0]) else { return Ok(None) };
    let [condition, body] = [condition, body].map(|c| b.draft.computations[c.index()].clone());
    if body.node(body.root).op != Op::Tuple || !super::is_by_element(&body) || !super::is_by_element(&condition) {
        return Ok(None);
    }
    let same = same(&body, b.draft);
    let mut moved = moved(&body, &same);
    let mut left = vmem / SHARE;
    let sliced = sliced(&body);
    moved.retain(|&id| {
        let bytes = bytes(&body.node(id).shape);
        let fits = bytes <= left && bytes <= GROWTH.saturating_mul(made_of(&body, id));
        left -= if fits { bytes } else { 0 };
        fits || sliced[id.index()] && body.node(id).op.family() == Family::Move
    });
    if moved.is_empty() || !b.draft.fire("invariant") {
        return Ok(None);
    }
    let state = b.elements_of(operands[0]);
    let outside = made(b, &body, (&moved, &state));
    let all = [&state[..], &outside].concat();
    let shape = Shape::Tuple(all.iter().map(|&s| b.shape(s).clone()).collect());
    let condition = again(b, &condition, (&shape, all.len()), &[])?;
    let body = again(b, &body, (&shape, all.len()), &moved)?;
    b.on_behalf_of(n);
    let init = b.tuple(&all);
    let done = b.emit(Op::While { condition, body }, &[init], shape);
    let results: Vec<NodeId> = (0..state.len()).map(|i| b.element(done, i)).collect();
    Ok(Some(b.tuple(&results)))
}

/// Which nodes of a body have the same value in every turn.
fn same(c: &Computation, draft: &Draft) -> Vec<bool> {
    let mut same = vec![false; c.nodes.len()];
    for id in c.ids() {
        let n = c.node(id);
        let apart = matches!(n.op.family(), Family::Control | Family::Exchange | Family::Host | Family::Transfer);
        let free = !apart && !n.op.has_effect() && !calls_effect(&n.op, &draft.computations);
        let fixed = n.shape.leaves().iter().all(|a| !a.dynamic.contains(&true));
        same[id.index()] = match element_of_parameter(c, id) {
            Some(i) => is_handed_on(c, i),
            None => {
                let value = !matches!(n.op, Op::Parameter { .. } | Op::Rng { .. } | Op::OptBarrier);
                free && fixed && value && id != c.root && n.operands.iter().all(|o| same[o.index()])
            }
        };
    }
    same
}

/// Whether an operation is worth an array of its own.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not named is done as fast as its result is read")]
fn is_worth(n: &Node) -> bool {
    let array = n.shape.as_array().is_some_and(|a| a.elements() > 1);
    array
        && match &n.op {
            Op::Transpose { .. } | Op::Binary(Binary::Pow | Binary::Atan2) => true,
            Op::Unary(u) => matches!(u, Unary::Sin | Unary::Cos | Unary::Tan | Unary::Erf),
            op => matches!(op.family(), Family::Reduce | Family::Contraction | Family::Indexed | Family::Sort),
        }
}

/// What is made before the loop: what is worth it and is used in turns, directly or by arithmetic that is done in them.
fn moved(c: &Computation, same: &[bool]) -> Vec<NodeId> {
    let mut inside: Vec<bool> = c.ids().map(|id| !same[id.index()]).collect();
    let mut moved = Vec::new();
    for id in c.ids().collect::<Vec<_>>().into_iter().rev() {
        if !inside[id.index()] {
            continue;
        }
        for &o in &c.node(id).operands {
            if inside[o.index()] || moved.contains(&o) {
                continue;
            }
            if same[o.index()] && is_worth(c.node(o)) {
                moved.push(o);
            } else {
                inside[o.index()] = true;
            }
        }
    }
    moved.sort_unstable();
    moved
}

/// Of which nodes turns use parts alone: such arrays need not be near, and to make all of one for a part of it would take longer the larger
/// it is.
fn sliced(c: &Computation) -> Vec<bool> {
    let mut sliced = vec![true; c.nodes.len()];
    for n in &c.nodes {
        let part = |o: &NodeId| {
            let size = |s: &Shape| s.as_array().map_or(0, ArrayShape::elements);
            size(&n.shape).saturating_mul(SHARE) <= size(&c.node(*o).shape)
        };
        let takes = matches!(n.op, Op::DynamicSlice { .. });
        n.operands.iter().filter(|o| !(takes && part(o))).for_each(|o| sliced[o.index()] = false);
    }
    sliced
}

fn bytes(s: &Shape) -> u64 {
    s.leaves().iter().map(|a| a.elements().saturating_mul(u64::from(a.dtype.bits())) / 8).sum()
}

/// Bytes of the arrays that a node is made of in the end.
fn made_of(c: &Computation, id: NodeId) -> u64 {
    let mut needed = vec![false; c.nodes.len()];
    needed[id.index()] = true;
    let mut sum = 0;
    for i in (0..=id.index()).rev().filter(|i| *i < c.nodes.len()) {
        if !std::mem::take(&mut needed[i]) {
            continue;
        }
        let n = &c.nodes[i];
        let source = element_of_parameter(c, NodeId(i as u32)).is_some() || matches!(n.op, Op::Constant(_));
        if source || n.operands.is_empty() {
            sum += if source { bytes(&n.shape) } else { 0 };
        } else {
            n.operands.iter().for_each(|o| needed[o.index()] = true);
        }
    }
    sum
}

/// Makes nodes of a body outside, where `state` is its state.
fn made(b: &mut Emit, c: &Computation, (moved, state): (&[NodeId], &[NodeId])) -> Vec<NodeId> {
    let mut needed = vec![false; c.nodes.len()];
    moved.iter().for_each(|m| needed[m.index()] = true);
    for id in c.ids().collect::<Vec<_>>().into_iter().rev() {
        if needed[id.index()] && element_of_parameter(c, id).is_none() {
            c.node(id).operands.iter().for_each(|o| needed[o.index()] = true);
        }
    }
    let mut map: Vec<Option<NodeId>> = vec![None; c.nodes.len()];
    for id in c.ids().filter(|id| needed[id.index()]) {
        let n = c.node(id);
        map[id.index()] = match element_of_parameter(c, id) {
            Some(i) => Some(state[i]),
            None => {
                b.on_behalf_of(n);
                let operands: Vec<NodeId> = n.operands.iter().filter_map(|o| map[o.index()]).collect();
                Some(b.emit(n.op.clone(), &operands, n.shape.clone()))
            }
        };
    }
    moved.iter().filter_map(|m| map[m.index()]).collect()
}

/// A computation on a state of that shape and so many elements, whose last elements are the nodes `moved`; a body hands them on.
fn again(
    b: &mut Emit,
    c: &Computation,
    (shape, all): (&Shape, usize),
    moved: &[NodeId],
) -> Result<CompId, CompileError> {
    b.computation(&c.name, |b| {
        let parameter = b.parameter(shape.clone());
        let state: Vec<NodeId> = (0..all).map(|i| b.element(parameter, i)).collect();
        let (own, made) = state.split_at(all - moved.len());
        let mut map: Vec<Option<NodeId>> = Vec::with_capacity(c.nodes.len());
        for id in c.ids() {
            let n = c.node(id);
            let before = moved.binary_search(&id).ok().map(|i| made[i]);
            let element = element_of_parameter(c, id).and_then(|i| own.get(i).copied());
            map.push(match (before.or(element), &n.op) {
                (Some(known), _) => Some(known),
                (None, Op::Parameter { .. }) => None,
                (None, op) => {
                    b.on_behalf_of(n);
                    let mut operands: Vec<NodeId> = n.operands.iter().filter_map(|o| map[o.index()]).collect();
                    if id == c.root && !moved.is_empty() {
                        operands.extend(made);
                        Some(b.tuple(&operands))
                    } else {
                        Some(b.emit(op.clone(), &operands, n.shape.clone()))
                    }
                }
            });
        }
        map[c.root.index()].ok_or_else(|| CompileError::internal("invariant", "a computation has no root"))
    })
}
