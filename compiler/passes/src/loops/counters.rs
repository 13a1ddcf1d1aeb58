//! `counters`: 64-bit counters of loops that stay small count in 32 bits, as scalar code does.
//!
//! Where the first value, the limit and the step of a counted loop are constants and every value that the counter takes is
//! an `s32`, the state has an `s32` in its place; what else reads the counter reads it converted. Loops that share a body
//! are left alone.

use super::copied::{Copied, copied};
use super::{for_own_loops, is_by_element, used_elements};
use crate::edit::Draft;
use systole_hlo::analysis::{CountedLoop, counted_loop};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Computation, Literal, Module, Node, NodeId, Op, Order, Shape};
use systole_isa::DType;

/// Narrows the counters of a module's loops.
pub fn run(mut module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    for_own_loops(&mut module, |module, index, id, (condition, body)| {
        if let Some(l) = narrowed(module, index, id, condition, body)
            && draft.fire("narrow-counter")
        {
            let first = l.init.unwrap_or_default();
            narrow_caller(&mut module.computations[index], id, l.counter, first);
            narrow_callee(&mut module.computations[condition.index()], &l, false);
            narrow_callee(&mut module.computations[body.index()], &l, true);
        }
    });
    Ok(module)
}

/// The loop, if its counter has 64 bits and needs 32, and is used element by element.
fn narrowed(m: &Module, at: usize, id: NodeId, condition: CompId, body: CompId) -> Option<CountedLoop> {
    let caller = &m.computations[at];
    let node = caller.node(id);
    let l = counted_loop(m, caller, id)?;
    let Shape::Tuple(parts) = &node.shape else { return None };
    let wide = parts.get(l.counter)?.as_array()?;
    let trips = i128::from(l.trips?);
    let last = i128::from(l.init?) + trips * i128::from(l.step);
    let fits = |v: i128| i32::try_from(v).is_ok();
    let small = [i128::from(l.init?), i128::from(l.limit), i128::from(l.step), last].into_iter().all(fits);
    let by_element = |c: CompId| is_by_element(m.computation(c));
    let apart = by_element(condition) && by_element(body) && used_elements(caller, id, parts.len()).is_some();
    let tuple = caller.node(node.operands[0]).op == Op::Tuple;
    (matches!(wide.dtype, DType::S64 | DType::U64) && wide.dims.is_empty() && small && apart && tuple).then_some(l)
}

fn narrow() -> Shape {
    Shape::array(DType::S32, &[])
}

/// The shape of a state with a narrow counter.
fn with_narrow(shape: &Shape, counter: usize) -> Shape {
    match shape {
        Shape::Tuple(t) => {
            let part = |(i, s): (usize, &Shape)| if i == counter { narrow() } else { s.clone() };
            Shape::Tuple(t.iter().enumerate().map(part).collect())
        }
        Shape::Array(_) | Shape::Token => shape.clone(),
    }
}

impl Copied {
    fn constant(&mut self, of: &Node, v: i64) -> NodeId {
        let literal = Literal::new(DType::S32, &[], (v as i32).to_le_bytes().to_vec());
        self.made(of, Op::Constant(literal), Vec::new(), narrow())
    }

    /// Reads the counter: narrow, and as the others expect it.
    fn read(&mut self, n: Node) -> [NodeId; 2] {
        let wide = n.shape.clone();
        let small = self.push(Node { shape: narrow(), ..n.clone() });
        [small, self.made(&n, Op::Convert, vec![small], wide)]
    }
}

fn narrow_caller(c: &mut Computation, id: NodeId, counter: usize, first: i64) {
    let mut done = None;
    copied(c, |new, i, mut n| {
        if i == id.index() {
            let start = new.nodes[n.operands[0].index()].clone();
            let mut operands = start.operands.clone();
            operands[counter] = new.constant(&n, first);
            let state = with_narrow(&n.shape, counter);
            n.operands = vec![new.made(&start, Op::Tuple, operands, state.clone())];
            n.shape = state;
            let id = new.push(n);
            done = Some(id);
            return id;
        }
        let counts = n.op == Op::GetTupleElement { index: counter } && n.operands.first().copied() == done;
        if counts && done.is_some() { new.read(n)[1] } else { new.push(n) }
    });
}

/// A condition or body.
fn narrow_callee(c: &mut Computation, l: &CountedLoop, is_body: bool) {
    let (param, root) = (c.params[0], c.root);
    let mut new_param = None;
    let mut small = None;
    copied(c, |new, i, mut n| {
        if i == param.index() {
            n.shape = with_narrow(&n.shape, l.counter);
            let id = new.push(n);
            new_param = Some(id);
            return id;
        }
        if n.op == (Op::GetTupleElement { index: l.counter }) && n.operands.first().copied() == new_param {
            let [narrow, wide] = new.read(n);
            small = Some(narrow);
            return wide;
        }
        if i != root.index() {
            return new.push(n);
        }
        let Some(counter) = small else { return new.push(n) };
        if is_body {
            let step = new.constant(&n, l.step);
            n.operands[l.counter] = new.made(&n, Op::Binary(Binary::Add), vec![counter, step], narrow());
            n.shape = with_narrow(&n.shape, l.counter);
            return new.push(n);
        }
        let limit = new.constant(&n, l.limit);
        let op = Op::Compare { direction: l.direction, order: Order::Partial };
        new.made(&n, op, vec![counter, limit], Shape::array(DType::Pred, &[]))
    });
}
