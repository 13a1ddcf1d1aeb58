//! Loop state whose initial value nothing sees: iterations write all of it, part by part, and read none of it.

use std::collections::BTreeSet;
use systole_hlo::analysis::counted::{CountedLoop, counted_loop};
use systole_hlo::analysis::uses::uses;
use systole_hlo::graph::{Binary, Computation, Module, NodeId, Op};

/// How far a start index is followed to the counter.
const DEPTH: u32 = 6;

/// Which elements of a loop's state have an initial value that nothing sees.
pub fn elements(module: &Module, comp: &Computation, id: NodeId) -> Vec<bool> {
    let count = comp.node(id).shape.leaves().len();
    let none = vec![false; count];
    let Op::While { condition, body } = comp.node(id).op else { return none };
    let Some(counted) = counted_loop(module, comp, id) else { return none };
    let (head, body) = (module.computation(condition), module.computation(body));
    let root = body.node(body.root);
    if root.op != Op::Tuple || root.operands.len() != count {
        return none;
    }
    let users = uses(body);
    let element = |i: usize| {
        let last = root.operands[i];
        let n = body.node(last);
        if n.op != Op::DynamicUpdateSlice || !elements_of(head, i).is_empty() {
            return false;
        }
        let own = elements_of(body, i);
        // Only the update takes the state, and only the next iteration takes that.
        let taken = own.iter().flat_map(|e| &users[e.index()]).all(|&u| u == last) && own.contains(&n.operands[0]);
        taken && !own.contains(&n.operands[1]) && users[last.index()] == [body.root] && covers(body, last, &counted)
    };
    (0..count).map(element).collect()
}

/// Nodes of a computation whose values nothing needs but loops that do not see them.
pub fn nodes(module: &Module, comp: &Computation, users: &[Vec<NodeId>]) -> BTreeSet<NodeId> {
    let mut unseen = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for id in comp.ids().filter(|&id| matches!(comp.node(id).op, Op::While { .. })) {
        let state = comp.node(id).operands[0];
        if comp.node(state).op != Op::Tuple || users[state.index()] != [id] {
            continue;
        }
        for (&o, is_unseen) in comp.node(state).operands.iter().zip(elements(module, comp, id)) {
            let all = users[o.index()].iter().all(|&u| u == state);
            if is_unseen && all && comp.root != o {
                unseen.insert(o)
            } else {
                seen.insert(o)
            };
        }
    }
    &unseen - &seen
}

/// The nodes that take an element of a computation's parameter.
fn elements_of(c: &Computation, i: usize) -> Vec<NodeId> {
    let is = |id: &NodeId| {
        let n = c.node(*id);
        n.op == (Op::GetTupleElement { index: i }) && matches!(c.node(n.operands[0]).op, Op::Parameter { .. })
    };
    c.ids().filter(is).collect()
}

/// Whether the updates of all iterations together reach every element of the array.
fn covers(body: &Computation, update: NodeId, counted: &CountedLoop) -> bool {
    let n = body.node(update);
    let dims = |id: NodeId| body.node(id).shape.as_array().map_or(&[][..], |a| &a.dims);
    let (whole, part) = (dims(update), dims(n.operands[1]));
    let cut: Vec<usize> = (0..whole.len()).filter(|&d| part[d] != whole[d]).collect();
    let (Some(init), Some(trips)) = (counted.init, counted.trips.filter(|t| *t > 0)) else { return false };
    let &[d] = &cut[..] else { return cut.is_empty() };
    let Some((scale, offset)) = linear(body, n.operands[2 + d], counted.counter, DEPTH) else { return false };
    let place = |trip: u64| {
        i128::from(scale) * (i128::from(init) + i128::from(counted.step) * i128::from(trip)) + i128::from(offset)
    };
    let (first, last) = (place(0), place(trips - 1));
    let (size, all) = (i128::from(part[d]), i128::from(whole[d]));
    let fits = i128::from(i32::MIN)..=i128::from(i32::MAX);
    let step = i128::from(scale) * i128::from(counted.step);
    step.abs() <= size
        && first.min(last) <= 0
        && first.max(last) + size >= all
        && fits.contains(&first)
        && fits.contains(&last)
}

/// A scalar as a multiple of the loop's counter and a constant.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not known to be linear is taken for none")]
fn linear(c: &Computation, id: NodeId, counter: usize, depth: u32) -> Option<(i64, i64)> {
    let depth = depth.checked_sub(1)?;
    let n = c.node(id);
    let operand = |i: usize| linear(c, n.operands[i], counter, depth);
    match &n.op {
        Op::Constant(l) if l.elements() == 1 => Some((0, l.integer(0)?)),
        Op::GetTupleElement { index } if *index == counter => {
            matches!(c.node(n.operands[0]).op, Op::Parameter { .. }).then_some((1, 0))
        }
        Op::Reshape | Op::Copy => operand(0),
        Op::Binary(Binary::Add) => {
            let ((a, b), (x, y)) = (operand(0)?, operand(1)?);
            Some((a.checked_add(x)?, b.checked_add(y)?))
        }
        Op::Binary(Binary::Mul) => {
            let (p, q) = (operand(0)?, operand(1)?);
            let ((a, b), by) = if q.0 == 0 {
                (p, q.1)
            } else if p.0 == 0 {
                (q, p.1)
            } else {
                return None;
            };
            Some((a.checked_mul(by)?, b.checked_mul(by)?))
        }
        _ => None,
    }
}
