//! `stacks`: what a loop takes slice by slice, updates, and puts down slice by slice is updated where it is.
//!
//! A scan over layers takes the caches of layer `i` from a stack, writes a few rows, and puts the result down as layer `i` of
//! another stack: both stacks exist, and every slice is copied from one to the other. Where the loop runs once for every slice
//! and looks at nothing else of either stack, the rows are written into the first one, which then is the result.

use crate::edit::Draft;
use crate::loops::{self, callers, element_of_parameter};
use std::collections::BTreeSet;
use systole_hlo::analysis::counted::counted_loop;
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, Module, Node, NodeId, Op, Shape};

/// Runs the pass.
pub fn run(mut module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    let callers = callers(&module);
    let mut changed = false;
    for index in 0..module.computations.len() {
        let ids: Vec<NodeId> = module.computations[index].ids().collect();
        for id in ids {
            let Op::While { condition, body } = module.computations[index].node(id).op else { continue };
            if callers[body.index()] != 1 || condition == body {
                continue;
            }
            while let Some(s) = stacked(&module, index, id, (condition, body)) {
                if !draft.fire("stacks") {
                    break;
                }
                update_in_place(&mut module.computations[body.index()], &s);
                take_first(&mut module.computations[index], id, &s);
                changed = true;
            }
        }
    }
    // The second stacks are dropped.
    if changed { loops::run(module, draft) } else { Ok(module) }
}

/// A loop that makes one stack of another.
struct Stacked {
    /// State elements: the stack that slices are taken from, and the one they are put into.
    from: usize,
    to: usize,
    /// In the body: the first stack, the slice's place in it, and its update.
    stack: NodeId,
    starts: Vec<NodeId>,
    update: NodeId,
    /// Whether the slice is updated without its first dimension.
    squeezed: bool,
}

/// Looks through reshapes.
fn behind(c: &Computation, mut id: NodeId) -> NodeId {
    while c.node(id).op == Op::Reshape {
        id = c.node(id).operands[0];
    }
    id
}

fn is_zero(c: &Computation, id: NodeId) -> bool {
    matches!(&c.node(id).op, Op::Constant(l) if l.dims.is_empty() && l.integer(0) == Some(0))
}

/// Whether `starts` are those of slice number `counter`, all of it.
fn is_slice(c: &Computation, starts: &[NodeId], counter: usize) -> bool {
    let Some((first, rest)) = starts.split_first() else { return false };
    element_of_parameter(c, *first) == Some(counter) && rest.iter().all(|&s| is_zero(c, s))
}

fn dims(c: &Computation, id: NodeId) -> &[u64] {
    c.node(id).shape.as_array().map_or(&[], |a| &a.dims)
}

fn stacked(module: &Module, at: usize, id: NodeId, (condition, body): (CompId, CompId)) -> Option<Stacked> {
    let caller = &module.computations[at];
    let counted = counted_loop(module, caller, id)?;
    let (c, head) = (module.computation(body), module.computation(condition));
    let root = c.node(c.root);
    let ahead = counted.init == Some(0) && counted.step == 1;
    if root.op != Op::Tuple || !ahead || caller.root == id {
        return None;
    }
    let elements = |comp: &Computation, i: usize| -> Vec<NodeId> {
        comp.ids().filter(|&n| element_of_parameter(comp, n) == Some(i)).collect()
    };
    let users = uses(c);
    let users_of =
        |nodes: &[NodeId]| -> Vec<NodeId> { nodes.iter().flat_map(|n| users[n.index()].iter().copied()).collect() };
    for (to, &last) in root.operands.iter().enumerate() {
        let (put, own) = (c.node(last), elements(c, to));
        let size = dims(c, last).first().copied();
        let whole = put.op == Op::DynamicUpdateSlice && own.contains(&put.operands[0]);
        if !whole || size.is_none() || counted.trips != size || !is_slice(c, &put.operands[2..], counted.counter) {
            continue;
        }
        let slice = [&[1][..], &dims(c, last)[1..]].concat();
        if dims(c, put.operands[1]) != slice || users_of(&own) != [last] || users[last.index()] != [c.root] {
            continue;
        }
        let updated = behind(c, put.operands[1]);
        let change = c.node(updated);
        if change.op != Op::DynamicUpdateSlice {
            continue;
        }
        let taken = behind(c, change.operands[0]);
        let cut = c.node(taken);
        if !matches!(cut.op, Op::DynamicSlice { .. }) || dims(c, taken) != slice {
            continue;
        }
        let Some(from) = element_of_parameter(c, cut.operands[0]) else { continue };
        // Only the update sees the slice, and only it is taken from the stack.
        let mut way = change.operands[0];
        let mut alone = users[way.index()] == [updated];
        while way != taken {
            let next = c.node(way).operands[0];
            alone &= users[next.index()] == [way];
            way = next;
        }
        let stacks = elements(c, from);
        let kept = root.operands.get(from).is_some_and(|r| stacks.contains(r));
        let seen: BTreeSet<NodeId> = users_of(&stacks).into_iter().collect();
        let squeezed = dims(c, updated) == &slice[1..];
        let outside = elements(head, from).is_empty() && elements(head, to).is_empty();
        let alike = c.node(cut.operands[0]).shape.same(&put.shape) && (squeezed || dims(c, updated) == slice);
        let known = seen.iter().all(|&u| u == taken || u == c.root);
        if alone && kept && known && outside && alike && is_slice(c, &cut.operands[1..], counted.counter) && from != to
        {
            let starts = cut.operands[1..].to_vec();
            return Some(Stacked { from, to, stack: cut.operands[0], starts, update: updated, squeezed });
        }
    }
    None
}

/// Puts the update into the first stack, and takes the slice from there for whoever uses it.
fn update_in_place(c: &mut Computation, s: &Stacked) {
    let change = c.node(s.update).clone();
    let whole = c.node(s.stack).shape.clone();
    let made = |op: Op, operands: Vec<NodeId>, shape: Shape| Node { op, operands, shape, ..change.clone() };
    let part = |a: &systole_hlo::graph::ArrayShape, one: bool| {
        let dims = if one { [&[1][..], &a.dims[..]].concat() } else { a.dims.clone() };
        Shape::array(a.dtype, &dims)
    };
    let at = s.update.index();
    let mut fresh: Vec<Node> = Vec::new();
    let next = |fresh: &[Node]| NodeId((at + fresh.len()) as u32);
    // The update with the stack's first dimension, and where it goes.
    let mut starts = vec![s.starts[0]];
    let mut update = change.operands[1];
    if s.squeezed {
        if let Some(a) = c.node(update).shape.as_array() {
            fresh.push(made(Op::Reshape, vec![update], part(a, true)));
            update = NodeId(at as u32);
        }
        starts.extend(&change.operands[2..]);
    } else {
        starts.extend(&change.operands[3..]);
    }
    let stack = next(&fresh);
    fresh.push(made(Op::DynamicUpdateSlice, [&[s.stack, update][..], &starts[..]].concat(), whole));
    let Some(own) = change.shape.as_array() else { return };
    let slice = part(own, s.squeezed);
    let sizes = slice.as_array().map(|a| a.dims.clone()).unwrap_or_default();
    let taken = next(&fresh);
    fresh.push(made(Op::DynamicSlice { sizes }, [&[stack][..], &s.starts[..]].concat(), slice));
    // In the place of the slice's own update.
    let last = made(Op::Reshape, vec![taken], change.shape.clone());
    let moved = fresh.len() as u32;
    let shifted = |id: NodeId| if id.index() >= at { NodeId(id.0 + moved) } else { id };
    for n in &mut c.nodes[at..] {
        n.operands.iter_mut().for_each(|o| *o = shifted(*o));
    }
    c.root = shifted(c.root);
    c.params.iter_mut().for_each(|p| *p = shifted(*p));
    c.nodes[at] = last;
    for (i, n) in fresh.into_iter().enumerate() {
        c.nodes.insert(at + i, Node { name: format!("{}.{}", n.name, i), ..n });
    }
    let second = c.ids().find(|&n| element_of_parameter(c, n) == Some(s.to));
    let root = c.root.index();
    c.nodes[root].operands[s.from] = stack;
    if let Some(second) = second {
        c.nodes[root].operands[s.to] = second;
    }
}

/// The loop's users take the first stack instead of the second.
#[allow(clippy::wildcard_enum_match_arm, reason = "only reads of the element change")]
fn take_first(c: &mut Computation, id: NodeId, s: &Stacked) {
    for n in &mut c.nodes {
        match &mut n.op {
            Op::GetTupleElement { index } if n.operands[0] == id && *index == s.to => *index = s.from,
            _ => {}
        }
    }
}
