//! Loops whose iterations have nothing to do with each other: they may run in any order, and side by side.
//!
//! Such a loop counts, and each iteration writes a part of its own of the arrays that the loop makes: they are updated at places
//! that depend on the counter alone, and read nowhere but where the same iteration writes them.

use super::counted::counted_loop;
use super::uses::uses;
use crate::graph::{Binary, CompId, Computation, Module, NodeId, Op};
use std::ops::Range;

/// Iterations of a loop of which every place is looked at.
const MOST: u64 = 1 << 14;
/// How far a number is followed to the counter.
const DEPTH: u32 = 16;

/// A loop whose iterations are independent of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApartLoop {
    /// Which state element counts, from what, and what each iteration adds.
    pub counter: usize,
    pub init: i64,
    pub step: i64,
    pub trips: u64,
    /// The arrays that the loop makes.
    pub made: Vec<Made>,
}

/// An array that a loop makes part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The state element, and what updates it in the body.
    pub element: usize,
    pub update: NodeId,
    /// The dimension along which parts lie, and the places of it that each part has.
    pub dim: usize,
    pub parts: Vec<Range<u64>>,
}

impl Made {
    /// The places along the dimension that runs of `each` iterations write, if no two runs have one in common: of every run with
    /// what lies between it and the next.
    pub fn runs(&self, each: u64, size: u64) -> Option<Vec<Range<u64>>> {
        let runs = self.parts.chunks(usize::try_from(each.max(1)).ok()?);
        let hull = |r: &[Range<u64>]| {
            let first = r.iter().map(|p| p.start).min().unwrap_or(0);
            first..r.iter().map(|p| p.end).max().unwrap_or(first)
        };
        let hulls: Vec<Range<u64>> = runs.map(hull).collect();
        let mut order: Vec<usize> = (0..hulls.len()).collect();
        order.sort_by_key(|&i| hulls[i].start);
        if order.windows(2).any(|w| hulls[w[0]].end > hulls[w[1]].start) {
            return None;
        }
        let mut out = vec![0..0; hulls.len()];
        for (n, &i) in order.iter().enumerate() {
            let start = if n == 0 { 0 } else { hulls[i].start };
            out[i] = start..order.get(n + 1).map_or(size, |&next| hulls[next].start);
        }
        Some(out)
    }
}

/// Recognises a loop of independent iterations. `node` is a `while` of `comp`, on a flat state.
pub fn apart_loop(module: &Module, comp: &Computation, node: NodeId) -> Option<ApartLoop> {
    let counted = counted_loop(module, comp, node)?;
    let (init, trips) = (counted.init?, counted.trips.filter(|t| (2..=MOST).contains(t))?);
    let Op::While { condition, body } = comp.node(node).op else { return None };
    if acts(module, body) || acts(module, condition) {
        return None;
    }
    let body = module.computation(body);
    let root = body.node(body.root);
    let users = uses(body);
    let counter = |i: u64| init + i as i64 * counted.step;
    let mut made = Vec::new();
    for (element, &next) in root.operands.iter().enumerate() {
        if element == counted.counter || element_of(body, next) == Some(element) {
            continue;
        }
        let n = body.node(next);
        let own = n.op == Op::DynamicUpdateSlice && element_of(body, n.operands[0]) == Some(element);
        if !own || users[next.index()] != [body.root] {
            return None;
        }
        // What is read of the array is what is written.
        let (starts, update) = (&n.operands[2..], body.node(n.operands[1]).shape.as_array()?);
        let elements = body.ids().filter(|&id| element_of(body, id) == Some(element));
        for reader in elements.flat_map(|id| users[id.index()].iter().map(move |&u| (id, u))) {
            let (id, user) = (reader.0, body.node(reader.1));
            let same = matches!(&user.op, Op::DynamicSlice { sizes } if *sizes == update.dims)
                && user.operands[0] == id
                && user.operands[1..] == *starts;
            if reader.1 != next && !same || user.operands.iter().filter(|o| **o == id).count() > 1 {
                return None;
            }
        }
        let dims = &n.shape.as_array()?.dims;
        let parts = |dim: usize| -> Option<Vec<Range<u64>>> {
            let room = i64::try_from(dims[dim] - update.dims[dim]).ok()?;
            let part = |i: u64| {
                let start = value(body, starts[dim], (counted.counter, counter(i)), DEPTH)?.clamp(0, room) as u64;
                Some(start..start + update.dims[dim])
            };
            (0..trips).map(part).collect()
        };
        let moves = |d: &usize| dims[*d] != update.dims[*d];
        let disjoint = |p: &Vec<Range<u64>>| p.windows(2).all(|w| w[0].end <= w[1].start || w[1].end <= w[0].start);
        let (dim, parts) = (0..dims.len()).filter(moves).find_map(|d| parts(d).filter(disjoint).map(|p| (d, p)))?;
        made.push(Made { element, update: next, dim, parts });
    }
    (!made.is_empty()).then_some(ApartLoop { counter: counted.counter, init, step: counted.step, trips, made })
}

/// Whether a computation, or one that it calls, does more than computing values, or has others do it.
fn acts(module: &Module, comp: CompId) -> bool {
    module.computation(comp).nodes.iter().any(|n| {
        let outside = n.op.has_effect() || matches!(n.op, Op::CustomCall { .. });
        outside || n.op.called().iter().any(|c| acts(module, *c))
    })
}

/// The state element that a node of a body is.
#[allow(clippy::wildcard_enum_match_arm, reason = "nothing else takes an element of the state")]
fn element_of(c: &Computation, id: NodeId) -> Option<usize> {
    match c.node(id).op {
        Op::GetTupleElement { index } if c.params.first() == Some(&c.node(id).operands[0]) => Some(index),
        _ => None,
    }
}

/// The value of a scalar that is computed from the counter (its state element, and what it is) alone.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not followed is not known")]
fn value(c: &Computation, id: NodeId, counter: (usize, i64), depth: u32) -> Option<i64> {
    let depth = depth.checked_sub(1)?;
    let n = c.node(id);
    let of = |i: usize| value(c, n.operands[i], counter, depth);
    let found = match &n.op {
        Op::Constant(l) if l.elements() == 1 => l.integer(0)?,
        Op::GetTupleElement { .. } if element_of(c, id) == Some(counter.0) => counter.1,
        Op::Copy | Op::Reshape | Op::Convert => of(0)?,
        Op::Binary(Binary::Add) => of(0)?.checked_add(of(1)?)?,
        Op::Binary(Binary::Sub) => of(0)?.checked_sub(of(1)?)?,
        Op::Binary(Binary::Mul) => of(0)?.checked_mul(of(1)?)?,
        Op::Binary(Binary::Min) => of(0)?.min(of(1)?),
        Op::Binary(Binary::Max) => of(0)?.max(of(1)?),
        Op::Clamp => of(1)?.max(of(0)?).min(of(2)?),
        Op::Select => return if of(0)? != 0 { of(1) } else { of(2) },
        Op::Compare { direction, .. } => {
            let order = of(0)?.cmp(&of(1)?);
            i64::from(direction.holds(Some(order)))
        }
        _ => return None,
    };
    // What its type would wrap around is not followed.
    let dtype = n.shape.as_array()?.dtype;
    let (low, high) = match dtype {
        systole_isa::DType::Pred => (0, 1),
        t => crate::graph::number::integer_range(t)?,
    };
    (low..=high).contains(&i128::from(found)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(parts: &[Range<u64>]) -> Made {
        Made { element: 1, update: NodeId(0), dim: 0, parts: parts.to_vec() }
    }

    #[test]
    fn runs_have_what_lies_behind_them() {
        let m = made(&[4..8, 8..12, 16..20, 20..24]);
        assert_eq!(m.runs(2, 32), Some(vec![0..16, 16..32]));
        assert_eq!(m.runs(3, 32), Some(vec![0..20, 20..32]));
        // Backwards.
        let m = made(&[24..32, 16..24, 8..16, 0..8]);
        assert_eq!(m.runs(2, 32), Some(vec![16..32, 0..16]));
    }

    #[test]
    fn runs_that_meet_are_none() {
        // Every second part on the other side.
        assert_eq!(made(&[0..8, 16..24, 8..16, 24..32]).runs(2, 32), None);
    }
}
