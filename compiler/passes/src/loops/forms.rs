//! States of loops in another form than the program has them in: reshaped, or with their dimensions in another order.
//!
//! The body, the condition and the loop's users bring what they take back into the program's form, and what they give into the
//! state's.

use super::copied::{Copied, copied};
use super::{is_by_element, used_elements};
use crate::make::inverse;
use systole_hlo::graph::{CompId, Computation, Module, Node, NodeId, Op, Shape};

/// How a loop carries an element of its state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// As the program has it.
    Own,
    /// Reshaped.
    Shape(Shape),
    /// With its dimensions in this order.
    Order(Vec<usize>),
}

impl Form {
    /// The shape of a state that the program has in shape `own`.
    fn shape(&self, own: &Shape) -> Shape {
        match self {
            Form::Own => own.clone(),
            Form::Shape(shape) => shape.clone(),
            Form::Order(order) => own.as_array().map_or_else(
                || own.clone(),
                |a| Shape::array(a.dtype, &order.iter().map(|&d| a.dims[d]).collect::<Vec<_>>()),
            ),
        }
    }

    /// What makes the form of the program's array, and the array of the form.
    fn ways(&self) -> Option<(Op, Op)> {
        match self {
            Form::Own => None,
            Form::Shape(_) => Some((Op::Reshape, Op::Reshape)),
            Form::Order(order) => {
                let turn = |order: &[usize]| Op::Transpose { permutation: order.to_vec() };
                Some((turn(order), turn(&inverse(order))))
            }
        }
    }
}

/// The shapes of a loop's state, if every element is used by itself.
pub(crate) fn elements(m: &Module, at: usize, id: NodeId, (condition, body): (CompId, CompId)) -> Option<&[Shape]> {
    let caller = &m.computations[at];
    let node = caller.node(id);
    let Shape::Tuple(parts) = &node.shape else { return None };
    let by_element = |c: CompId| is_by_element(m.computation(c));
    let tuples = [caller.node(node.operands[0]), m.computation(body).node(m.computation(body).root)];
    let apart = by_element(condition) && by_element(body) && used_elements(caller, id, parts.len()).is_some();
    (apart && tuples.iter().all(|t| t.op == Op::Tuple)).then_some(parts)
}

/// Gives the elements of a loop's state their forms.
pub(crate) fn change(m: &mut Module, at: usize, id: NodeId, (condition, body): (CompId, CompId), forms: &[Form]) {
    change_caller(&mut m.computations[at], id, forms);
    change_callee(&mut m.computations[condition.index()], forms);
    change_callee(&mut m.computations[body.index()], forms);
}

fn shape_of(forms: &[Form], own: &Shape) -> Shape {
    match own {
        Shape::Tuple(parts) => Shape::Tuple(forms.iter().zip(parts).map(|(f, own)| f.shape(own)).collect()),
        Shape::Array(_) | Shape::Token => own.clone(),
    }
}

/// A node that takes an element of a state, as it is now and as its users expect it.
fn read(new: &mut Copied, n: Node, form: &Form) -> NodeId {
    let Some((_, back)) = form.ways() else { return new.push(n) };
    let whole = n.shape.clone();
    let carried = new.push(Node { shape: form.shape(&whole), ..n.clone() });
    new.made(&n, back, vec![carried], whole)
}

/// An array in the form that a state has it in.
fn given(new: &mut Copied, of: &Node, x: NodeId, form: &Form) -> NodeId {
    let Some((way, back)) = form.ways() else { return x };
    let n = &new.nodes[x.index()];
    let shape = form.shape(&n.shape);
    // What was only read goes on as it came.
    if n.op == back && new.nodes[n.operands[0].index()].shape == shape {
        return n.operands[0];
    }
    new.made(of, way, vec![x], shape)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "only elements of the state change")]
fn change_caller(c: &mut Computation, id: NodeId, forms: &[Form]) {
    let mut done = None;
    copied(c, |new, i, mut n| {
        if i == id.index() {
            let start = new.nodes[n.operands[0].index()].clone();
            let operands = start.operands.iter().zip(forms).map(|(&o, f)| given(new, &start, o, f)).collect();
            n.shape = shape_of(forms, &n.shape);
            n.operands = vec![new.made(&start, Op::Tuple, operands, n.shape.clone())];
            let id = new.push(n);
            done = Some(id);
            return id;
        }
        match n.op {
            Op::GetTupleElement { index } if done.is_some() && n.operands.first().copied() == done => {
                read(new, n, &forms[index])
            }
            _ => new.push(n),
        }
    });
}

/// Gives the elements of the state that a condition or body takes, and a body returns, their forms.
#[allow(clippy::wildcard_enum_match_arm, reason = "only elements of the state change")]
pub(crate) fn change_callee(c: &mut Computation, forms: &[Form]) {
    let (param, root) = (c.params[0], c.root);
    let is_body = c.node(root).op == Op::Tuple;
    let mut state = None;
    copied(c, |new, i, mut n| {
        if i == param.index() {
            n.shape = shape_of(forms, &n.shape);
            let id = new.push(n);
            state = Some(id);
            return id;
        }
        match n.op {
            Op::GetTupleElement { index } if n.operands.first().copied() == state => read(new, n, &forms[index]),
            Op::Tuple if i == root.index() && is_body => {
                n.operands = n.operands.clone().iter().zip(forms).map(|(&o, f)| given(new, &n, o, f)).collect();
                n.shape = shape_of(forms, &n.shape);
                new.push(n)
            }
            _ => new.push(n),
        }
    });
}
