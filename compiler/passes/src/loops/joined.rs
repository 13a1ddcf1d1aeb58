//! States of loops as the entry's arrays lie: with their last dimensions joined.
//!
//! A scan over layers takes slice `i` of stacks in turn `i` (weights of narrow heads, caches), or puts it down. Where such a stack comes
//! from an array that lies joined ([`rule::compact`]), or goes to one, the loop carries it joined, and its turns take and put down
//! joined slices: these alone are moved, if at all, instead of the whole stacks before and behind the loop, in their own forms that take several
//! times the memory. Loops that share a body are left alone.

use super::forms::{Form, change, elements};
use super::{element_of_parameter, for_own_loops, is_handed_on};
use crate::edit::Draft;
use crate::transfers::joined::States;
use crate::transfers::rule;
use systole_hlo::analysis::counted::counted_loop;
use systole_hlo::graph::{ArrayShape, CompId, Computation, Module, Node, NodeId, Op, Shape};

/// Turns of a loop, each of which takes one slice, for every slice of a stack.
const TURNS: u64 = 2;
/// Bytes of a slice that is carried joined, at least: moving smaller ones costs the time that a move takes to begin, in every turn.
const SLICE: u64 = 1 << 16;

/// Gives states of loops the entry's forms, and says which; `tile` is the chip's sublanes and lanes.
pub fn run(module: &mut Module, draft: &mut Draft, tile: (u32, u32)) -> States {
    let mut states = States::new();
    for_own_loops(module, |module, index, id, called| {
        let Some(parts) = elements(module, index, id, called) else { return };
        let form = |(i, part): (usize, &Shape)| {
            let joined = part.as_array().and_then(|a| joined(module, (index, id, called), (i, a), tile));
            joined.map_or(Form::Own, Form::Shape)
        };
        let forms: Vec<Form> = parts.iter().enumerate().map(form).collect();
        if forms.iter().any(|f| *f != Form::Own) && draft.fire("joined-state") {
            let changed = forms.iter().enumerate().filter(|(_, f)| **f != Form::Own);
            states.extend(changed.map(|(i, _)| (called.1.index(), i)));
            change(module, index, id, called, &forms);
        }
    });
    states
}

/// The shape in which a loop carries an element of its state, an array, if that is not its own.
fn joined(
    module: &Module,
    (at, id, (condition, body)): (usize, NodeId, (CompId, CompId)),
    (element, a): (usize, &ArrayShape),
    tile: (u32, u32),
) -> Option<Shape> {
    let dims = rule::compact(a, tile)?;
    let kept = dims.len() - 1;
    let (caller, body) = (&module.computations[at], module.computation(body));
    (kept > 0 && dims[..kept] == a.dims[..kept]).then_some(())?;
    let trips = counted_loop(module, caller, id)?.trips?;
    let slice = a.elements() / a.dims[0].max(1) * u64::from(a.dtype.bits()) / 8;
    let is_stack = trips <= a.dims[0].saturating_mul(TURNS) && slice >= SLICE;
    let in_condition = users(module.computation(condition), |c, n| element_of_parameter(c, n) == Some(element));
    let lies = |x: &Node| x.op == Op::Reshape;
    let init = caller.node(caller.node(caller.node(id).operands[0]).operands[element]);
    let comes = lies(init) && caller.node(init.operands[0]).shape.as_array().is_some_and(|f| f.dims == dims);
    let element_of_loop = |c: &Computation, n: NodeId| {
        c.node(n).op == Op::GetTupleElement { index: element } && c.node(n).operands == [id]
    };
    let behind = users(caller, element_of_loop);
    let given = |n: &NodeId| lies(caller.node(*n)) && caller.node(*n).shape.as_array().is_some_and(|t| t.dims == dims);
    let goes = !is_handed_on(body, element) && behind.iter().any(given);
    let fits = is_stack && in_condition.is_empty() && (comes || goes) && in_parts(body, element, kept);
    fits.then(|| Shape::array(a.dtype, &dims))
}

/// What uses the nodes that are asked for.
fn users(c: &Computation, of: impl Fn(&Computation, NodeId) -> bool) -> Vec<NodeId> {
    c.ids().filter(|&n| c.node(n).operands.iter().any(|&o| of(c, o))).collect()
}

/// Whether a body only takes parts of an element of its state and puts some down, all of the dimensions behind the first `kept`.
#[allow(clippy::wildcard_enum_match_arm, reason = "any other use wants the whole array")]
fn in_parts(c: &Computation, element: usize, kept: usize) -> bool {
    let dims = |n: NodeId| c.node(n).shape.as_array().map_or(&[][..], |a| &a.dims);
    let mut forms: Vec<bool> = c.ids().map(|n| element_of_parameter(c, n) == Some(element)).collect();
    for id in c.ids() {
        let n = c.node(id);
        let Some(&first) = n.operands.first() else { continue };
        let others = n.operands[1..].iter().any(|o| forms[o.index()]);
        if id == c.root {
            let own = |(i, o): (usize, &NodeId)| forms[o.index()] == (i == element);
            return n.operands.iter().enumerate().all(own);
        }
        if !others && !forms[first.index()] || element_of_parameter(c, id).is_some() {
            continue;
        }
        let whole = dims(first);
        let fits = match &n.op {
            Op::DynamicSlice { sizes } => n.operands.len() == whole.len() + 1 && sizes[kept..] == whole[kept..],
            Op::DynamicUpdateSlice => {
                forms[id.index()] = true;
                n.operands.len() == whole.len() + 2 && dims(n.operands[1])[kept..] == whole[kept..]
            }
            _ => false,
        };
        if others || !fits {
            return false;
        }
    }
    false
}
