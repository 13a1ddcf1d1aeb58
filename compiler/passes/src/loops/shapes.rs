//! `state-shapes`: loops carry arrays without dimensions of size 1.
//!
//! What a scan keeps of each iteration often ends in such a dimension (statistics of rows that keep their dimensions): along lanes
//! it would fill one of them, and what the body takes out or puts in would be laid out anew in every iteration. The state has the
//! array without it; the body, the condition and the loop's users reshape it, and these reshapes meet those of `squeeze`. Loops
//! that share a body are left alone.

use super::copied::{Copied, copied};
use super::{for_own_loops, is_by_element, used_elements};
use crate::edit::Draft;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, Module, Node, NodeId, Op, Shape};

/// Runs the pass.
///
/// # Errors
/// None.
pub fn run(mut module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    for_own_loops(&mut module, |module, index, id, (condition, body)| {
        if let Some(states) = states(module, index, id, (condition, body))
            && draft.fire("state-shape")
        {
            squeeze_caller(&mut module.computations[index], id, &states);
            squeeze_callee(&mut module.computations[condition.index()], &states);
            squeeze_callee(&mut module.computations[body.index()], &states);
        }
    });
    Ok(module)
}

/// An array's shape without dimensions of size 1, where it has some and others too.
fn squeezed(s: &Shape) -> Option<Shape> {
    let a = s.as_array()?;
    let dims: Vec<u64> = a.dims.iter().copied().filter(|&d| d != 1).collect();
    let fits = !a.dynamic.contains(&true) && dims.len() < a.dims.len() && !dims.is_empty() && a.elements() > 0;
    fits.then(|| Shape::array(a.dtype, &dims))
}

/// The state's shapes without dimensions of size 1, if any has some and every element is used by itself.
fn states(m: &Module, at: usize, id: NodeId, (condition, body): (CompId, CompId)) -> Option<Vec<Shape>> {
    let caller = &m.computations[at];
    let node = caller.node(id);
    let Shape::Tuple(parts) = &node.shape else { return None };
    let by_element = |c: CompId| is_by_element(m.computation(c));
    let tuples = [caller.node(node.operands[0]), m.computation(body).node(m.computation(body).root)];
    let apart = by_element(condition) && by_element(body) && used_elements(caller, id, parts.len()).is_some();
    let some = parts.iter().any(|p| squeezed(p).is_some());
    (some && apart && tuples.iter().all(|t| t.op == Op::Tuple))
        .then(|| parts.iter().map(|p| squeezed(p).unwrap_or_else(|| p.clone())).collect())
}

/// A node that takes an element of a state, as it is now and as its users expect it.
fn read(new: &mut Copied, n: Node, shape: &Shape) -> NodeId {
    if n.shape == *shape {
        return new.push(n);
    }
    let whole = n.shape.clone();
    let small = new.push(Node { shape: shape.clone(), ..n.clone() });
    new.made(&n, Op::Reshape, vec![small], whole)
}

/// An array in the shape that a state has it in.
fn given(new: &mut Copied, of: &Node, x: NodeId, shape: &Shape) -> NodeId {
    let n = &new.nodes[x.index()];
    if n.shape == *shape {
        return x;
    }
    // What was only read goes on as it came.
    if n.op == Op::Reshape && new.nodes[n.operands[0].index()].shape == *shape {
        return n.operands[0];
    }
    new.made(of, Op::Reshape, vec![x], shape.clone())
}

#[allow(clippy::wildcard_enum_match_arm, reason = "only elements of the state change")]
fn squeeze_caller(c: &mut Computation, id: NodeId, states: &[Shape]) {
    let mut done = None;
    copied(c, |new, i, mut n| {
        if i == id.index() {
            let start = new.nodes[n.operands[0].index()].clone();
            let operands = start.operands.iter().zip(states).map(|(&o, s)| given(new, &start, o, s)).collect();
            n.shape = Shape::Tuple(states.to_vec());
            n.operands = vec![new.made(&start, Op::Tuple, operands, n.shape.clone())];
            let id = new.push(n);
            done = Some(id);
            return id;
        }
        match n.op {
            Op::GetTupleElement { index } if done.is_some() && n.operands.first().copied() == done => {
                read(new, n, &states[index])
            }
            _ => new.push(n),
        }
    });
}

/// A condition or body.
#[allow(clippy::wildcard_enum_match_arm, reason = "only elements of the state change")]
fn squeeze_callee(c: &mut Computation, states: &[Shape]) {
    let (param, root) = (c.params[0], c.root);
    let is_body = c.node(root).op == Op::Tuple;
    let mut state = None;
    copied(c, |new, i, mut n| {
        if i == param.index() {
            n.shape = Shape::Tuple(states.to_vec());
            let id = new.push(n);
            state = Some(id);
            return id;
        }
        match n.op {
            Op::GetTupleElement { index } if n.operands.first().copied() == state => read(new, n, &states[index]),
            Op::Tuple if i == root.index() && is_body => {
                n.operands = n.operands.clone().iter().zip(states).map(|(&o, s)| given(new, &n, o, s)).collect();
                n.shape = Shape::Tuple(states.to_vec());
                new.push(n)
            }
            _ => new.push(n),
        }
    });
}
