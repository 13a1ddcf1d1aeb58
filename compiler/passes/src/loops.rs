//! `loops`: loops carry only what changes and is wanted.
//!
//! - a state element that the body returns unchanged and that starts as a scalar constant is that constant inside;
//! - a state element that neither the condition, nor the other elements, nor the loop's users need is dropped.
//!
//! Every loop gets a body of its own first ([`own`]), unless there are very many.

pub mod ahead;
pub mod chunks;
mod copied;
pub mod counters;
pub mod fills;
pub(crate) mod forms;
pub mod invariant;
pub mod joined;
mod own;
pub mod shapes;
pub mod stacks;
pub mod twice;
pub mod unroll;

use super::edit::Draft;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, Module, NodeId, Op, Shape};

/// Simplifies all loops of a module.
pub fn run(module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    let mut module = own::run(module);
    let callers = callers(&module);
    // Callers first, so that what an outer loop learns reaches the loops in it.
    for index in (0..module.computations.len()).rev() {
        for id in module.computations[index].ids() {
            let Some((condition, body)) = own_loop(&module.computations[index], id, &callers) else { continue };
            sink_constants(&mut module, index, id, condition, body, draft);
            drop_elements(&mut module, index, id, condition, body, draft);
        }
    }
    Ok(module)
}

/// How many operations call each computation.
fn callers(module: &Module) -> Vec<usize> {
    let mut callers = vec![0usize; module.computations.len()];
    for n in module.computations.iter().flat_map(|c| &c.nodes) {
        n.op.called().iter().for_each(|c| callers[c.index()] += 1);
    }
    callers
}

/// Condition and body of a loop that nothing else calls.
fn own_loop(caller: &Computation, id: NodeId, callers: &[usize]) -> Option<(CompId, CompId)> {
    let Op::While { condition, body } = caller.node(id).op else { return None };
    let own = callers[condition.index()] == 1 && callers[body.index()] == 1 && condition != body;
    own.then_some((condition, body))
}

/// Shows each loop that nothing else calls to a rewrite: the index of the computation that it is in, and its node, condition and
/// body. Nodes that a rewrite puts in lie before the loop, so the loops behind it come first.
pub(crate) fn for_own_loops(
    module: &mut Module,
    mut rewrite: impl FnMut(&mut Module, usize, NodeId, (CompId, CompId)),
) {
    let callers = callers(module);
    for index in 0..module.computations.len() {
        let nodes: Vec<NodeId> = module.computations[index].ids().collect();
        for id in nodes.into_iter().rev() {
            if let Some(called) = own_loop(&module.computations[index], id, &callers) {
                rewrite(module, index, id, called);
            }
        }
    }
}

/// Operands of the tuple that a computation returns, if it does.
fn root_operands(c: &Computation) -> Option<Vec<NodeId>> {
    let root = c.node(c.root);
    (root.op == Op::Tuple).then(|| root.operands.clone())
}

/// Which element of the parameter a node is.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for elements of a state alone")]
pub fn element_of_parameter(c: &Computation, id: NodeId) -> Option<usize> {
    match c.node(id).op {
        Op::GetTupleElement { index } if c.params.first() == Some(&c.node(id).operands[0]) => Some(index),
        _ => None,
    }
}

/// Whether a body hands an element of its state on as it is.
pub fn is_handed_on(body: &Computation, element: usize) -> bool {
    let root = body.node(body.root);
    let next = root.operands.get(element).filter(|_| root.op == Op::Tuple);
    next.is_some_and(|&n| element_of_parameter(body, n) == Some(element))
}

/// Whether a condition or body uses its parameter element by element.
pub fn is_by_element(c: &Computation) -> bool {
    let param = c.params.first().copied();
    c.ids().all(|n| !c.node(n).operands.iter().any(|o| Some(*o) == param) || element_of_parameter(c, n).is_some())
}

fn sink_constants(m: &mut Module, at: usize, id: NodeId, condition: CompId, body: CompId, draft: &mut Draft) {
    let caller = &m.computations[at];
    let start = caller.node(caller.node(id).operands[0]);
    if start.op != Op::Tuple {
        return;
    }
    let mut known = Vec::new();
    for (i, &o) in start.operands.iter().enumerate() {
        if let (true, Op::Constant(l)) = (is_handed_on(m.computation(body), i), &caller.node(o).op) {
            known.push((i, l.clone()));
        }
    }
    for c in [condition, body] {
        let c = &mut m.computations[c.index()];
        for id in c.ids() {
            let Some(index) = element_of_parameter(c, id) else { continue };
            let Some((_, literal)) = known.iter().find(|k| k.0 == index) else { continue };
            if !draft.fire("loop-constant") {
                return;
            }
            let n = &mut c.nodes[id.index()];
            n.op = Op::Constant(literal.clone());
            n.operands.clear();
        }
    }
}

/// Elements of the loop's result that its users name; `None` if they use it as a whole.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for elements of a state alone")]
pub fn used_elements(c: &Computation, id: NodeId, count: usize) -> Option<Vec<bool>> {
    let mut used = vec![false; count];
    if c.root == id {
        return None;
    }
    for n in c.nodes.iter().filter(|n| n.operands.contains(&id)) {
        match n.op {
            Op::GetTupleElement { index } => used[index] = true,
            _ => return None,
        }
    }
    Some(used)
}

/// Marks what nodes need, backwards from those marked; gives the parameter's elements needed, `None` if all.
fn needed(c: &Computation, live: &mut [bool], count: usize) -> Option<Vec<bool>> {
    let mut elements = vec![false; count];
    for i in (0..c.nodes.len()).rev() {
        if !live[i] {
            continue;
        }
        if let Some(e) = element_of_parameter(c, NodeId(i as u32)) {
            elements[e] = true;
            continue;
        }
        for o in &c.nodes[i].operands {
            if c.params.first() == Some(o) {
                return None;
            }
            live[o.index()] = true;
        }
    }
    Some(elements)
}

fn drop_elements(m: &mut Module, at: usize, id: NodeId, condition: CompId, body: CompId, draft: &mut Draft) {
    let Shape::Tuple(parts) = m.computations[at].node(id).shape.clone() else { return };
    let count = parts.len();
    let Some(next) = root_operands(m.computation(body)) else { return };
    let Some(mut keep) = used_elements(&m.computations[at], id, count) else { return };
    let effect = |c: &Computation, live: &mut Vec<bool>| {
        for (i, n) in c.nodes.iter().enumerate() {
            // What calls or acts is kept whole.
            live[i] |= n.op.has_effect() || matches!(n.op, Op::While { .. } | Op::Conditional { .. });
        }
    };
    let test = m.computation(condition);
    let mut live = vec![false; test.nodes.len()];
    live[test.root.index()] = true;
    effect(test, &mut live);
    let Some(wanted) = needed(test, &mut live, count) else { return };
    keep.iter_mut().zip(&wanted).for_each(|(k, w)| *k |= w);
    loop {
        let c = m.computation(body);
        let mut live = vec![false; c.nodes.len()];
        effect(c, &mut live);
        next.iter().zip(&keep).filter(|(_, k)| **k).for_each(|(n, _)| live[n.index()] = true);
        let Some(wanted) = needed(c, &mut live, count) else { return };
        let before = keep.clone();
        keep.iter_mut().zip(&wanted).for_each(|(k, w)| *k |= w);
        if keep == before {
            break;
        }
    }
    if keep.iter().all(|&k| k) || !draft.fire("loop-element") {
        return;
    }
    let place: Vec<usize> = keep
        .iter()
        .scan(0, |n, &k| {
            let p = *n;
            *n += usize::from(k);
            Some(p)
        })
        .collect();
    let shape = Shape::Tuple(parts.into_iter().zip(&keep).filter(|(_, k)| **k).map(|(p, _)| p).collect());
    narrow_caller(&mut m.computations[at], id, &shape, &keep, &place);
    narrow_body(&mut m.computations[condition.index()], &shape, &keep, &place, false);
    narrow_body(&mut m.computations[body.index()], &shape, &keep, &place, true);
}

/// The caller: a tuple of fewer elements goes in, elements are renumbered.
fn narrow_caller(c: &mut Computation, id: NodeId, shape: &Shape, keep: &[bool], place: &[usize]) {
    let start = c.node(id).operands[0];
    let inputs: Option<Vec<NodeId>> = (c.node(start).op == Op::Tuple)
        .then(|| c.node(start).operands.iter().zip(keep).filter(|(_, k)| **k).map(|(&o, _)| o).collect());
    let mut map: Vec<NodeId> = Vec::new();
    let mut nodes = Vec::new();
    for (i, mut n) in std::mem::take(&mut c.nodes).into_iter().enumerate() {
        n.operands.iter_mut().for_each(|o| *o = map[o.index()]);
        if i == id.index() {
            let from = n.operands[0];
            let mut operands = Vec::new();
            match &inputs {
                Some(list) => operands.extend(list.iter().map(|o| map[o.index()])),
                None => {
                    let Shape::Tuple(parts) = shape else { return };
                    let kept = (0..keep.len()).filter(|&k| keep[k]);
                    for (k, part) in kept.zip(parts) {
                        let mut e = n.clone();
                        e.op = Op::GetTupleElement { index: k };
                        e.operands = vec![from];
                        e.shape = part.clone();
                        operands.push(NodeId(nodes.len() as u32));
                        nodes.push(e);
                    }
                }
            }
            let mut t = n.clone();
            t.op = Op::Tuple;
            t.operands = operands;
            t.shape = shape.clone();
            n.operands = vec![NodeId(nodes.len() as u32)];
            nodes.push(t);
            n.shape = shape.clone();
        } else if n.operands.first().is_some_and(|&o| map.get(id.index()) == Some(&o))
            && i > id.index()
            && let Op::GetTupleElement { index } = &mut n.op
        {
            *index = place[*index];
        }
        map.push(NodeId(nodes.len() as u32));
        nodes.push(n);
    }
    c.nodes = nodes;
    c.params.iter_mut().for_each(|p| *p = map[p.index()]);
    c.root = map[c.root.index()];
}

/// A condition or body: the parameter has fewer elements; what only dropped elements needed is gone.
fn narrow_body(c: &mut Computation, shape: &Shape, keep: &[bool], place: &[usize], is_body: bool) {
    let Some(&param) = c.params.first() else { return };
    let root = c.root;
    if is_body {
        let n = &mut c.nodes[root.index()];
        let mut wanted = keep.iter();
        n.operands.retain(|_| *wanted.next().unwrap_or(&true));
        n.shape = shape.clone();
    }
    let mut live = vec![false; c.nodes.len()];
    live[root.index()] = true;
    live[param.index()] = true;
    for i in (0..c.nodes.len()).rev() {
        let n = &c.nodes[i];
        let flow = matches!(n.op, Op::While { .. } | Op::Conditional { .. });
        if live[i] || flow || n.op.has_effect() {
            live[i] = true;
            n.operands.iter().for_each(|o| live[o.index()] = true);
        }
    }
    let mut map = Vec::new();
    let mut nodes = Vec::new();
    for (i, mut n) in std::mem::take(&mut c.nodes).into_iter().enumerate() {
        map.push(NodeId(nodes.len() as u32));
        if !live[i] {
            continue;
        }
        if i == param.index() {
            n.shape = shape.clone();
        }
        if let Op::GetTupleElement { index } = &mut n.op
            && n.operands[0] == param
        {
            *index = place[*index];
        }
        n.operands.iter_mut().for_each(|o| *o = map[o.index()]);
        nodes.push(n);
    }
    c.nodes = nodes;
    c.params = vec![map[param.index()]];
    c.root = map[root.index()];
}
