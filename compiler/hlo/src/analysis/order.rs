//! Whether the order of two arguments matters to a computation that combines them.

use super::pick::PickBody;
use crate::graph::{Binary, Computation, Direction, Op, Shape};

/// Nodes of a computation that is looked at; what larger ones do is not known.
const LOOKED: usize = 128;

/// Whether a computation of `n` values and `n` others gives the same when both change places, as far as its form tells: it is the same graph then,
/// or it picks one of two pairs.
pub fn commutes(comp: &Computation) -> bool {
    if comp.nodes.len() > LOOKED || !comp.params.len().is_multiple_of(2) {
        return false;
    }
    let mut forms = Vec::new();
    let half = comp.params.len() / 2;
    let own = roots(comp, &mut forms, |i| i);
    own == roots(comp, &mut forms, |i| (i + half) % (2 * half)) || pick(comp).is_some_and(|p| !p.nan)
}

/// A computation that picks one of two pairs of a value and an index: the better value, and of equal ones the smaller index.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// Number of the value in a pair.
    pub value: usize,
    pub largest: bool,
    /// A value may be no number, which is better than all that are. Of two such values either may be taken, the first or the second.
    pub nan: bool,
}

/// The pick that a computation is.
pub fn pick(comp: &Computation) -> Option<Pick> {
    let body = PickBody::of(comp);
    let value_type = |value: usize| comp.node(*comp.params.get(value)?).shape.as_array().map(|a| a.dtype);
    (0..2).find_map(|value| {
        let nan = value_type(value)?.is_float();
        let largest = [true, false].into_iter().find(|&l| body.picks(value, nan, l))?;
        Some(Pick { value, largest, nan })
    })
}

/// What a node computes, by the numbers of what it takes.
#[derive(PartialEq)]
struct Form<'a> {
    op: Op,
    shape: &'a Shape,
    operands: Vec<usize>,
}

/// Numbers of the results' forms, with parameter `i` as what `param` says.
fn roots<'a>(comp: &'a Computation, forms: &mut Vec<Form<'a>>, param: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut known: Vec<usize> = Vec::with_capacity(comp.nodes.len());
    for n in &comp.nodes {
        let operands: Vec<usize> = n.operands.iter().map(|o| known[o.index()]).collect();
        let (op, operands) = turned(&n.op, operands, &param);
        let form = Form { op, shape: &n.shape, operands };
        let number = forms.iter().position(|f| *f == form).unwrap_or_else(|| {
            forms.push(form);
            forms.len() - 1
        });
        known.push(number);
    }
    let root = comp.node(comp.root);
    let results = if root.op == Op::Tuple { &root.operands[..] } else { &[comp.root] };
    results.iter().map(|r| known[r.index()]).collect()
}

/// An operation with its operands in the order that all forms of it have.
#[allow(clippy::wildcard_enum_match_arm, reason = "operands of all others stay where they are")]
fn turned(op: &Op, mut operands: Vec<usize>, param: impl Fn(usize) -> usize) -> (Op, Vec<usize>) {
    use Binary::{Add, And, Max, Min, Mul, Or, Xor};
    let op = match *op {
        Op::Parameter { index } => Op::Parameter { index: param(index) },
        Op::Binary(Add | Mul | Max | Min | And | Or | Xor) => {
            operands.sort_unstable();
            op.clone()
        }
        Op::Compare { direction, order } => {
            let direction = match direction {
                Direction::Gt | Direction::Ge => {
                    operands.reverse();
                    if direction == Direction::Gt { Direction::Lt } else { Direction::Le }
                }
                Direction::Eq | Direction::Ne => {
                    operands.sort_unstable();
                    direction
                }
                Direction::Lt | Direction::Le => direction,
            };
            Op::Compare { direction, order }
        }
        _ => op.clone(),
    };
    (op, operands)
}
