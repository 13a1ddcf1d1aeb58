//! Loops that count: how often they run is known, or known once an initial value is.

use crate::graph::{Computation, Direction, Module, NodeId, Op};
use systole_isa::{DType, dtype::DTypeClass};

/// A loop whose condition compares one state element with a constant and whose body adds a constant to that element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedLoop {
    /// Which state element counts.
    pub counter: usize,
    /// Its initial value, if constant.
    pub init: Option<i64>,
    /// What it is compared with.
    pub limit: i64,
    /// `counter direction limit` is the condition.
    pub direction: Direction,
    /// What the body adds to it; not 0.
    pub step: i64,
    /// How often the loop runs, if the initial value is constant and the counter reaches the limit without overflow.
    pub trips: Option<u64>,
}

/// Looks through operations that pass an integer on unchanged.
#[allow(clippy::wildcard_enum_match_arm, reason = "any other operation makes the value itself")]
fn source(c: &Computation, mut id: NodeId) -> NodeId {
    loop {
        let n = c.node(id);
        match n.op {
            Op::Copy | Op::OptBarrier => id = n.operands[0],
            Op::Reshape if c.node(n.operands[0]).shape.as_array().is_some_and(|a| a.elements() == 1) => {
                id = n.operands[0]
            }
            Op::Convert if widens(c, id) => id = n.operands[0],
            Op::GetTupleElement { index } if c.node(n.operands[0]).op == Op::Tuple => {
                id = c.node(n.operands[0]).operands[index]
            }
            _ => return id,
        }
    }
}

/// Whether a conversion goes from an integer type to one that holds all its values.
fn widens(c: &Computation, id: NodeId) -> bool {
    let n = c.node(id);
    match (c.node(n.operands[0]).shape.as_array(), n.shape.as_array()) {
        (Some(from), Some(to)) => {
            let (f, t) = (from.dtype, to.dtype);
            let integer = f.is_integer() && t.is_integer();
            integer
                && if f.class() == t.class() {
                    f.bits() <= t.bits()
                } else {
                    f.bits() < t.bits() && t.class() == DTypeClass::Signed
                }
        }
        _ => false,
    }
}

/// The value of an integer constant.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
fn constant(c: &Computation, id: NodeId) -> Option<i64> {
    match &c.node(source(c, id)).op {
        Op::Constant(l) if l.elements() == 1 && l.dtype != DType::Pred => {
            let v = l.integer(0)?;
            (l.dtype != DType::U64 || v >= 0).then_some(v)
        }
        _ => None,
    }
}

/// The state element that a node is.
#[allow(clippy::wildcard_enum_match_arm, reason = "nothing else takes an element of the state")]
fn state_element(c: &Computation, id: NodeId) -> Option<usize> {
    let n = c.node(source(c, id));
    match n.op {
        Op::GetTupleElement { index } if matches!(c.node(n.operands[0]).op, Op::Parameter { .. }) => Some(index),
        _ => None,
    }
}

fn flipped(d: Direction) -> Direction {
    match d {
        Direction::Lt => Direction::Gt,
        Direction::Le => Direction::Ge,
        Direction::Gt => Direction::Lt,
        Direction::Ge => Direction::Le,
        Direction::Eq | Direction::Ne => d,
    }
}

/// Recognises a counted loop. `node` is a `while` of `computation`, on a flat state.
#[allow(clippy::wildcard_enum_match_arm, reason = "counters of other forms are not recognized")]
pub fn counted_loop(module: &Module, computation: &Computation, node: NodeId) -> Option<CountedLoop> {
    let n = computation.node(node);
    let Op::While { condition, body } = n.op else { return None };
    let (condition, body) = (module.computation(condition), module.computation(body));
    let test = condition.node(source(condition, condition.root));
    let Op::Compare { direction, .. } = test.op else { return None };
    let (x, y) = (test.operands[0], test.operands[1]);
    let (counter, limit, direction) = match (state_element(condition, x), constant(condition, y)) {
        (Some(counter), Some(limit)) => (counter, limit, direction),
        _ => (state_element(condition, y)?, constant(condition, x)?, flipped(direction)),
    };
    let root = body.node(body.root);
    if root.op != Op::Tuple {
        return None;
    }
    let next = body.node(source(body, *root.operands.get(counter)?));
    let step = match &next.op {
        Op::Binary(crate::graph::Binary::Add) => {
            let (p, q) = (next.operands[0], next.operands[1]);
            if state_element(body, p) == Some(counter) {
                constant(body, q)?
            } else if state_element(body, q) == Some(counter) {
                constant(body, p)?
            } else {
                return None;
            }
        }
        Op::Binary(crate::graph::Binary::Sub) if state_element(body, next.operands[0]) == Some(counter) => {
            constant(body, next.operands[1])?.checked_neg()?
        }
        _ => return None,
    };
    if step == 0 {
        return None;
    }
    let start = computation.node(n.operands[0]);
    let init = if start.op == Op::Tuple { constant(computation, *start.operands.get(counter)?) } else { None };
    let dtype = next.shape.as_array()?.dtype;
    let trips = init.and_then(|init| trips(init, limit, step, direction, dtype));
    Some(CountedLoop { counter, init, limit, direction, step, trips })
}

/// How often `for (i = init; i direction limit; i += step)` runs; `None` if for ever or by overflow.
fn trips(init: i64, limit: i64, step: i64, direction: Direction, dtype: DType) -> Option<u64> {
    let (init, limit, step) = (i128::from(init), i128::from(limit), i128::from(step));
    let span = match direction {
        Direction::Lt if step > 0 => (limit - init).max(0),
        Direction::Le if step > 0 => (limit + 1 - init).max(0),
        Direction::Gt if step < 0 => (init - limit).max(0),
        Direction::Ge if step < 0 => (init - limit + 1).max(0),
        Direction::Ne if (limit - init) % step == 0 && (limit - init) / step >= 0 => (limit - init).abs(),
        Direction::Eq => return Some(u64::from(init == limit)),
        Direction::Lt | Direction::Gt | Direction::Le | Direction::Ge => {
            let holds = match direction {
                Direction::Lt => init < limit,
                Direction::Le => init <= limit,
                Direction::Gt => init > limit,
                Direction::Eq | Direction::Ne | Direction::Ge => init >= limit,
            };
            return if holds { None } else { Some(0) };
        }
        Direction::Ne => return None,
    };
    let size = step.abs();
    let count = (span + size - 1) / size;
    let last = init + count * step;
    let (low, high) = crate::graph::number::integer_range(dtype)?;
    (last >= low && last <= high).then(|| u64::try_from(count).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_follow_direction_and_step() {
        let t = |init, limit, step, d| trips(init, limit, step, d, DType::S32);
        assert_eq!(t(0, 10, 1, Direction::Lt), Some(10));
        assert_eq!(t(0, 10, 3, Direction::Lt), Some(4));
        assert_eq!(t(0, 10, 3, Direction::Le), Some(4));
        assert_eq!(t(0, 9, 3, Direction::Le), Some(4));
        assert_eq!(t(10, 0, -2, Direction::Gt), Some(5));
        assert_eq!(t(10, 0, -2, Direction::Ge), Some(6));
        assert_eq!(t(0, 6, 2, Direction::Ne), Some(3));
        assert_eq!(t(0, 5, 2, Direction::Ne), None);
        assert_eq!(t(5, 5, 1, Direction::Lt), Some(0));
        assert_eq!(t(0, 5, -1, Direction::Lt), None);
        assert_eq!(t(0, i64::from(i32::MAX), 2, Direction::Le), None);
    }
}
