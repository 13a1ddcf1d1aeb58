//! `split-slices`: slices of a dimension that was split, as slices of the dimension.
//!
//! `x.reshape(.., 3, heads, width)[:, 0]` and `x.reshape(.., pairs, 2)[.., 0]` take parts of a dimension of `x` that lie side by side, or every
//! second element. The split array has short dimensions last, which take many times the memory, and all of it would be made for its
//! parts. Where all that uses it are slices, directly or behind one transpose, the parts are taken before the split.

use super::edit::{Draft, Emit, reachable, rewrite};
use super::make::whole;
use std::collections::BTreeSet;
use std::ops::Range;
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Computation, Module, NodeId, Op, SliceDim};

/// Runs the pass.
pub fn run(module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    let wanted = reachable(&module);
    let mut found: BTreeSet<(usize, NodeId)> = BTreeSet::new();
    for (i, c) in module.computations.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        found.extend(slices(c).into_iter().map(|id| (i, id)));
    }
    if found.is_empty() {
        return Ok(module);
    }
    rewrite(module, draft, &mut |b, n, operands| {
        let Op::Slice { dims } = &n.op else { return Ok(None) };
        Ok(if found.contains(&b.place()) { part(b, operands[0], dims) } else { None })
    })
}

/// The slices of a computation that take all there is to see of a split array, if they can be taken before.
fn slices(c: &Computation) -> Vec<NodeId> {
    let users = uses(c);
    let mut found = Vec::new();
    for id in c.ids().filter(|&id| c.node(id).op == Op::Reshape && id != c.root) {
        let mut all = Vec::new();
        if are_parts(c, &users, id, &mut all) && all.iter().all(|&s| is_before(c, s, id)) {
            found.extend(all);
        }
    }
    found
}

/// Whether all users of a node are slices, or transposes for such: which are put into the list.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others want the split array")]
fn are_parts(c: &Computation, users: &[Vec<NodeId>], id: NodeId, all: &mut Vec<NodeId>) -> bool {
    let behind_transpose = c.node(id).op != Op::Reshape;
    users[id.index()].iter().all(|&u| match c.node(u).op {
        Op::Slice { .. } => {
            all.push(u);
            true
        }
        Op::Transpose { .. } if !behind_transpose && u != c.root => are_parts(c, users, u, all),
        _ => false,
    })
}

/// Whether a slice can be taken before a reshape.
fn is_before(c: &Computation, slice: NodeId, reshape: NodeId) -> bool {
    let sizes = |id: NodeId| c.node(id).shape.as_array().filter(|a| !a.dynamic.contains(&true)).map(|a| &a.dims[..]);
    let (Op::Slice { dims }, Some(from), Some(to)) =
        (&c.node(slice).op, sizes(c.node(reshape).operands[0]), sizes(reshape))
    else {
        return false;
    };
    let before = if let Op::Transpose { permutation } = &c.node(c.node(slice).operands[0]).op {
        turned(dims, permutation)
    } else {
        dims.clone()
    };
    Before::of(from, to, &before).is_some()
}

/// The slice of what a transpose is made of.
fn turned(dims: &[SliceDim], permutation: &[usize]) -> Vec<SliceDim> {
    let mut before = dims.to_vec();
    permutation.iter().zip(dims).for_each(|(&p, d)| before[p] = *d);
    before
}

/// The slice of `x`, taken before what is the last to split its dimensions.
fn part(b: &mut Emit, x: NodeId, dims: &[SliceDim]) -> Option<NodeId> {
    if let Op::Transpose { permutation } = b.op(x).clone() {
        let inner = part(b, b.operand(x, 0), &turned(dims, &permutation))?;
        return Some(b.transpose(inner, &permutation));
    }
    if *b.op(x) != Op::Reshape {
        return None;
    }
    let from = b.operand(x, 0);
    let before = Before::of(b.dims(from), b.dims(x), dims)?;
    b.draft.fire("split-slice").then_some(())?;
    let sizes: Vec<u64> = dims.iter().map(|d| (d.limit - d.start).div_ceil(d.stride)).collect();
    let y = b.reshape(from, &before.shape);
    let y = b.slice(y, &before.slice);
    Some(b.reshape(y, &sizes))
}

/// A slice before a reshape.
struct Before {
    /// The shape to slice, with parts of a dimension apart that lie between others.
    shape: Vec<u64>,
    slice: Vec<SliceDim>,
}

impl Before {
    /// What slice of an array `from` the slice of the array `to` is which that is reshaped to; `None` if no dimension is split, or a slice
    /// takes more than one part of one.
    fn of(from: &[u64], to: &[u64], dims: &[SliceDim]) -> Option<Before> {
        let mut before = Before { shape: Vec::new(), slice: Vec::new() };
        let mut splits = false;
        for (own, pieces) in groups(from, to)? {
            let is_whole = pieces.clone().all(|i| dims[i] == whole(to)[i]);
            if is_whole {
                before.shape.extend(&from[own.clone()]);
                before.slice.extend(whole(&from[own]));
                continue;
            }
            if own.len() != 1 {
                return None;
            }
            splits |= pieces.len() > 1;
            before.cut(&to[pieces.clone()], &dims[pieces])?;
        }
        splits.then_some(before)
    }

    /// One dimension, of which a slice takes one of the pieces that it was split into in part.
    fn cut(&mut self, pieces: &[u64], dims: &[SliceDim]) -> Option<()> {
        let all = whole(pieces);
        let at = (0..pieces.len()).find(|&i| dims[i] != all[i])?;
        let (size, s) = (pieces[at], dims[at]);
        if (at + 1..pieces.len()).any(|i| dims[i] != all[i]) {
            return None;
        }
        let [outer, inner] = [&pieces[..at], &pieces[at + 1..]].map(|p| p.iter().product::<u64>());
        let block = SliceDim { start: s.start * inner, limit: s.limit * inner, stride: 1 };
        match (outer, inner) {
            (1, 1) => (self.shape.push(size), self.slice.push(s)),
            (1, _) if s.stride == 1 => (self.shape.push(size * inner), self.slice.push(block)),
            (_, 1) if s.limit - s.start == 1 => {
                let every = SliceDim { start: s.start, limit: s.start + (outer - 1) * size + 1, stride: size };
                (self.shape.push(outer * size), self.slice.push(every))
            }
            (_, inner) if inner > 1 && s.stride == 1 => {
                self.shape.extend([outer, size * inner]);
                (self.slice.extend(whole(&[outer])), self.slice.push(block))
            }
            _ => return None,
        };
        Some(())
    }
}

/// The shortest runs of dimensions of `from` that are reshaped to runs of `to`; `None` of arrays without elements.
fn groups(from: &[u64], to: &[u64]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    if from.contains(&0) {
        return None;
    }
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        let (first, other) = (i, j);
        let (mut x, mut y) = (from.get(i).copied().unwrap_or(1), to.get(j).copied().unwrap_or(1));
        (i, j) = ((i + 1).min(from.len()), (j + 1).min(to.len()));
        while x != y {
            if x < y {
                x *= from.get(i)?;
                i += 1;
            } else {
                y *= to.get(j)?;
                j += 1;
            }
        }
        found.push((first..i, other..j));
    }
    Some(found)
}
