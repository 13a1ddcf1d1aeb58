//! Computations on two pairs of a value and an index that pick one of them: the largest or smallest value and, of equal ones, the
//! first.
//!
//! Such a computation is recognised by what it does, not by how it is written: values and indices are compared and chosen only, so
//! its results for every order of two pairs say all about it.

use crate::graph::{Binary, Computation, Direction, Op, Order, Unary};
use std::cmp::Ordering;
use systole_isa::DType;

/// What a node of a computation does, as far as a pick may do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Part `n` modulo 2 of the first pair, or from 2 on of the second.
    Param(usize),
    Truth(bool),
    Not,
    Binary(Binary),
    Select,
    /// By the usual rules of floats.
    Compare(Direction),
    Other,
}

/// A computation on two pairs, its nodes with their operands in topological order.
#[derive(Clone, Debug)]
pub struct PickBody {
    pub nodes: Vec<(Part, Vec<usize>)>,
    pub roots: Vec<usize>,
}

/// How two values lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Below,
    Equal,
    Above,
    FirstNan,
    SecondNan,
    BothNan,
}

/// What a node is where it is known how values and indices lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Truth(bool),
    Param(usize),
}

impl PickBody {
    /// The computation of a reduction of two arrays.
    #[allow(clippy::wildcard_enum_match_arm, reason = "whatever else a computation does, it is no pick")]
    pub fn of(comp: &Computation) -> PickBody {
        let part = |id| match &comp.node(id).op {
            Op::Parameter { index } => Part::Param(*index),
            Op::Constant(l) if l.dtype == DType::Pred && l.elements() == 1 => Part::Truth(l.element(0) != [0]),
            Op::Unary(Unary::Not) => Part::Not,
            Op::Binary(op) => Part::Binary(*op),
            Op::Select => Part::Select,
            Op::Compare { direction, order: Order::Partial } => Part::Compare(*direction),
            _ => Part::Other,
        };
        let node = |id| (part(id), comp.node(id).operands.iter().map(|o| o.index()).collect());
        let root = comp.node(comp.root);
        let roots = if root.op == Op::Tuple { root.operands.iter().map(|o| o.index()).collect() } else { Vec::new() };
        let below = comp.ids().filter(|&id| id != comp.root || root.op != Op::Tuple);
        PickBody { nodes: below.map(node).collect(), roots }
    }

    /// Whether it picks the largest or smallest value, the first of equal ones, and (`nan`: there may be such) what is no number before
    /// all others. Part `value` of the pairs is the value.
    pub fn picks(&self, value: usize, nan: bool, largest: bool) -> bool {
        use Lie::{Above, Below, BothNan, Equal, FirstNan, SecondNan};
        let all = [Below, Equal, Above, FirstNan, SecondNan, BothNan];
        let values = if nan { &all[..] } else { &all[..3] };
        let index = 1 - value;
        let one = |lie: Lie, numbers: Lie| {
            let Some(got) = self.outcome(value, (lie, numbers)) else { return false };
            let first = match lie {
                Below => Some(!largest),
                Above => Some(largest),
                FirstNan => Some(true),
                SecondNan => Some(false),
                Equal => None,
                // Either is as good: what is combined first is not said.
                BothNan => return is(got[value], value) && is(got[index], index),
            };
            match (first, numbers) {
                (Some(first), _) => {
                    let from = if first { 0 } else { 2 };
                    got[value] == Known::Param(from + value) && got[index] == Known::Param(from + index)
                }
                (None, Below) => is(got[value], value) && got[index] == Known::Param(index),
                (None, Above) => is(got[value], value) && got[index] == Known::Param(2 + index),
                (None, Equal | FirstNan | SecondNan | BothNan) => is(got[value], value) && is(got[index], index),
            }
        };
        self.roots.len() == 2 && values.iter().all(|&lie| [Below, Equal, Above].into_iter().all(|n| one(lie, n)))
    }

    /// The results for values and indices that lie so; `None` if it does more than compare and choose.
    fn outcome(&self, value: usize, (values, numbers): (Lie, Lie)) -> Option<Vec<Known>> {
        let lie = |part: usize| if part % 2 == value { values } else { numbers };
        let mut known: Vec<Known> = Vec::with_capacity(self.nodes.len());
        for (part, args) in &self.nodes {
            let args: Vec<Known> = args.iter().map(|&a| known.get(a).copied()).collect::<Option<_>>()?;
            known.push(step(*part, &args, lie)?);
        }
        self.roots.iter().map(|&r| known.get(r).copied()).collect()
    }
}

/// Whether something is the first or second pair's part of that number.
fn is(known: Known, part: usize) -> bool {
    known == Known::Param(part) || known == Known::Param(2 + part)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "whatever else a computation does, it is no pick")]
fn step(part: Part, args: &[Known], lie: impl Fn(usize) -> Lie) -> Option<Known> {
    use Known::{Param, Truth};
    Some(match (part, args) {
        (Part::Param(i), []) if i < 4 => Param(i),
        (Part::Truth(t), []) => Truth(t),
        (Part::Not, &[Truth(x)]) => Truth(!x),
        (Part::Binary(op), &[Truth(x), Truth(y)]) => Truth(match op {
            Binary::And => x & y,
            Binary::Or => x | y,
            Binary::Xor => x ^ y,
            _ => return None,
        }),
        (Part::Select, &[Truth(true), x, _]) => x,
        (Part::Select, &[Truth(false), _, y]) => y,
        (Part::Compare(direction), &[Param(x), Param(y)]) if x % 2 == y % 2 => {
            Truth(direction.holds(between(lie(x), x / 2 == 1, y / 2 == 1)))
        }
        // The smaller one of two that are numbers.
        (Part::Binary(Binary::Min), &[Param(x), Param(y)]) if x % 2 == y % 2 => {
            let order = between(lie(x), x / 2 == 1, y / 2 == 1)?;
            if order.is_gt() { Param(y) } else { Param(x) }
        }
        _ => return None,
    })
}

/// How the first or second of two things lies to the first or second; `None` where one of them is no number.
fn between(lie: Lie, x: bool, y: bool) -> Option<Ordering> {
    let nan = |second: bool| match lie {
        Lie::FirstNan => !second,
        Lie::SecondNan => second,
        Lie::BothNan => true,
        Lie::Below | Lie::Equal | Lie::Above => false,
    };
    let order = match lie {
        Lie::Below => Ordering::Less,
        Lie::Above => Ordering::Greater,
        Lie::Equal | Lie::FirstNan | Lie::SecondNan | Lie::BothNan => Ordering::Equal,
    };
    match (x, y) {
        _ if nan(x) || nan(y) => None,
        (false, true) => Some(order),
        (true, false) => Some(order.reverse()),
        (false, false) | (true, true) => Some(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An argmax or argmin as JAX writes it; `strict`: the comparison of values, `tie`: of indices.
    fn check(strict: Direction, tie: Direction, nan: bool, largest: bool, expected: bool) {
        let or = |x, y| (Part::Binary(Binary::Or), vec![x, y]);
        let nodes = vec![
            (Part::Param(0), vec![]),
            (Part::Param(1), vec![]),
            (Part::Param(2), vec![]),
            (Part::Param(3), vec![]),
            (Part::Compare(strict), vec![0, 2]),
            (Part::Compare(Direction::Ne), vec![0, 0]),
            or(4, if nan { 5 } else { 4 }),
            (Part::Compare(Direction::Eq), vec![0, 2]),
            (Part::Compare(tie), vec![1, 3]),
            (Part::Binary(Binary::And), vec![7, 8]),
            or(6, 9),
            (Part::Select, vec![6, 0, 2]),
            (Part::Select, vec![10, 1, 3]),
        ];
        assert_eq!(PickBody { nodes, roots: vec![11, 12] }.picks(0, true, largest), expected);
    }

    #[test]
    fn picks_are_known_by_what_they_do() {
        check(Direction::Gt, Direction::Lt, true, true, true);
        check(Direction::Lt, Direction::Lt, true, false, true);
        check(Direction::Lt, Direction::Lt, true, true, false);
        // The last of equal ones, and NaN that loses.
        check(Direction::Gt, Direction::Gt, true, true, false);
        check(Direction::Gt, Direction::Lt, false, true, false);
    }
}
