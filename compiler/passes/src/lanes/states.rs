//! `state-orders`: loops carry arrays of narrow rows with a longer dimension along lanes.
//!
//! Where all that a body does with an element of its state, and what it makes of it, is done with the dimensions in another order
//! ([`lanes`](super)), that is how the loop carries it: it is transposed once before the loop and once behind it, not in every turn. What
//! the body does so is asked of `lanes` itself, of a body that takes its state in that order. Loops that share a body are left alone.

use super::{Turned, order_of_slices};
use crate::edit::Draft;
use crate::loops::forms::{Form, change, change_callee, elements};
use crate::loops::{element_of_parameter, for_own_loops, is_handed_on};
use crate::make::inverse;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Computation, Module, NodeId, Op, Shape};

/// Runs the pass; `tile` is the chip's sublanes and lanes.
///
/// # Errors
/// None.
pub fn run(
    mut module: Module,
    draft: &mut Draft,
    (tile, vmem_bytes): ((u32, u32), u64),
) -> Result<Module, CompileError> {
    for_own_loops(&mut module, |module, index, id, called| {
        let Some(parts) = elements(module, index, id, called) else { return };
        let body = module.computation(called.1);
        let forms = parts.iter().enumerate().map(|(i, part)| match order(part, tile) {
            Some(order) if !is_handed_on(body, i) => Form::Order(order),
            Some(_) | None => Form::Own,
        });
        let forms = kept(body, forms.collect(), (tile, vmem_bytes));
        if forms.iter().any(|f| *f != Form::Own) && draft.fire("state-order") {
            change(module, index, id, called, &forms);
        }
    });
    Ok(module)
}

/// The order of an array's dimensions that takes much less memory than its own.
fn order(s: &Shape, tile: (u32, u32)) -> Option<Vec<usize>> {
    let plain = |a: &&ArrayShape| !a.dynamic.contains(&true) && a.elements() > 0;
    order_of_slices(s.as_array().filter(plain)?, 1, tile)
}

/// The forms that a body works in if it has its state so; of the others it has the program's.
fn kept(body: &Computation, mut forms: Vec<Form>, chip: ((u32, u32), u64)) -> Vec<Form> {
    loop {
        if forms.iter().all(|f| *f == Form::Own) {
            return forms;
        }
        let mut changed = body.clone();
        change_callee(&mut changed, &forms);
        let turned = Turned::new(&changed, chip);
        let mut left = false;
        for (i, form) in forms.iter_mut().enumerate() {
            if let Form::Order(order) = form
                && !(is_taken(&changed, i, order, &turned) && is_given(&changed, i, order, &turned))
            {
                (*form, left) = (Form::Own, true);
            }
        }
        if !left {
            return forms;
        }
    }
}

/// Whether all that reads an element of the state does so in this order.
fn is_taken(body: &Computation, element: usize, order: &[usize], turned: &Turned<'_>) -> bool {
    let reads = body.ids().filter(|&n| element_of_parameter(body, n) == Some(element));
    let users = |of: NodeId| body.ids().filter(move |&n| body.node(n).operands.contains(&of));
    let back = Op::Transpose { permutation: inverse(order) };
    let mut whole = reads.flat_map(users).filter(|&n| n != body.root);
    whole.all(|n| body.node(n).op == back && users(n).all(|user| turned.takes(user, n, order)))
}

/// Whether what an element of the state becomes is made in this order.
fn is_given(body: &Computation, element: usize, order: &[usize], turned: &Turned<'_>) -> bool {
    let next = body.node(body.node(body.root).operands[element]);
    let turns = matches!(&next.op, Op::Transpose { permutation } if permutation == order);
    turns && turned.makes(next.operands[0], order)
}
