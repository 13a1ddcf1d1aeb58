//! What can be computed in pieces: the operations around a collective that share a dimension with it.
//!
//! A *cut* of an array takes every `k`-th part of a dimension's inner `size / outer` elements, for each of its outer ones:
//! with `outer` 1 a run of the dimension, with `outer` the devices of a group the same part of what each contributes. A
//! region is grown along a cut from a collective to operands and users as long as one piece of a result needs only one
//! piece of an operand.

use rustc_hash::FxHashMap;
use systole_hlo::graph::{CollectiveKind, Computation, NodeId, Op};

/// Along what an array is cut: a dimension, and how many outer parts of it each piece has some of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    pub dim: usize,
    pub outer: u64,
}

/// Operations that are computed piece by piece, each with the cut of its result.
pub type Region = FxHashMap<NodeId, Cut>;

fn dims(c: &Computation, id: NodeId) -> Option<&[u64]> {
    let a = c.node(id).shape.as_array()?;
    (!a.dynamic.contains(&true)).then_some(&a.dims)
}

/// The cut of every operand (none: all of it is needed) of which a piece of a node's result is made; none if it cannot be
/// made of pieces.
#[allow(clippy::wildcard_enum_match_arm, reason = "an operation without a rule is not cut")]
pub fn operand_cuts(c: &Computation, id: NodeId, cut: Cut) -> Option<Vec<Option<Cut>>> {
    let n = c.node(id);
    let result = dims(c, id)?;
    let Cut { dim, outer } = cut;
    let operand = |i: usize| dims(c, n.operands[i]);
    let same = |dim: usize| Some(Cut { dim, outer });
    let first = |cut: Option<Cut>| -> Vec<Option<Cut>> {
        let mut all = vec![None; n.operands.len()];
        all[0] = cut;
        all
    };
    match &n.op {
        op if *op == Op::Copy || op.is_elementwise() => {
            let each = (0..n.operands.len()).map(|i| match operand(i)? {
                [] => Some(None),
                own => (own.len() == result.len()).then(|| same(dim)),
            });
            each.collect()
        }
        Op::Broadcast { dims: map } => {
            let from = map.iter().position(|&d| d == dim).filter(|&p| operand(0).is_some_and(|o| o[p] == result[dim]));
            Some(vec![from.and_then(same)])
        }
        Op::Transpose { permutation } => Some(vec![same(permutation[dim])]),
        Op::Reshape => {
            let from = reshaped(result, cut, operand(0)?)?;
            Some(vec![Some(from)])
        }
        Op::Slice { dims } => {
            let s = dims[dim];
            (s.start == 0 && s.stride == 1 && s.limit == operand(0)?[dim]).then(|| vec![same(dim)])
        }
        Op::Concatenate { dim: along } => (*along != dim).then(|| vec![same(dim); n.operands.len()]),
        Op::Pad { dims } => {
            let p = dims[dim];
            (p.low == 0 && p.high == 0 && p.interior == 0).then(|| first(same(dim)))
        }
        Op::Reverse { dims } => (!dims.contains(&dim)).then(|| vec![same(dim)]),
        Op::Reduce { dims: gone, .. } if n.operands.len() == 2 => {
            let kept = (0..operand(0)?.len()).filter(|d| !gone.contains(d)).nth(dim)?;
            Some(first(same(kept)))
        }
        Op::Dot { dims: d, .. } => {
            let free = |rank: usize, batch: &[usize], contracting: &[usize]| -> Vec<usize> {
                (0..rank).filter(|x| !batch.contains(x) && !contracting.contains(x)).collect()
            };
            let lhs = free(operand(0)?.len(), &d.lhs_batch, &d.lhs_contracting);
            let rhs = free(operand(1)?.len(), &d.rhs_batch, &d.rhs_contracting);
            let batch = d.lhs_batch.len();
            Some(match dim.checked_sub(batch) {
                None => vec![same(d.lhs_batch[dim]), same(d.rhs_batch[dim])],
                Some(i) if i < lhs.len() => vec![same(lhs[i]), None],
                Some(i) => vec![None, same(*rhs.get(i - lhs.len())?)],
            })
        }
        Op::Iota { dim: along } => (*along != dim).then(Vec::new),
        Op::Collective { kind, .. } if n.operands.len() == 1 => match kind {
            CollectiveKind::AllReduce { .. } => Some(vec![same(dim)]),
            CollectiveKind::AllGather { dim: along } if *along == dim => {
                let group = result[dim] / operand(0)?[dim].max(1);
                outer.is_multiple_of(group).then(|| vec![Some(Cut { dim, outer: outer / group })])
            }
            CollectiveKind::ReduceScatter { dim: along, .. } if *along == dim => {
                let group = operand(0)?[dim] / result[dim].max(1);
                Some(vec![Some(Cut { dim, outer: outer * group })])
            }
            CollectiveKind::AllGather { .. } | CollectiveKind::ReduceScatter { .. } => Some(vec![same(dim)]),
            CollectiveKind::AllToAll { .. }
            | CollectiveKind::Permute { .. }
            | CollectiveKind::Broadcast
            | CollectiveKind::RaggedAllToAll
            | CollectiveKind::Reduce { .. } => None,
        },
        _ => None,
    }
}

/// Whether any piece can be made of the operands as they are: of a broadcast along other dimensions.
pub fn is_free(cuts: &[Option<Cut>]) -> bool {
    cuts.iter().all(Option::is_none)
}

/// The cut of an array of other dimensions whose pieces are the same elements: it cuts as many runs into as many parts.
fn reshaped(dims: &[u64], cut: Cut, to: &[u64]) -> Option<Cut> {
    let runs = |d: &[u64], i: usize| d[..i].iter().product::<u64>();
    let wanted = runs(dims, cut.dim) * cut.outer;
    let same = |dim: usize| {
        let before = runs(to, dim).max(1);
        let cut = Cut { dim, outer: wanted / before };
        let fits = wanted.is_multiple_of(before) && to[dim].is_multiple_of(cut.outer) && to[dim] > cut.outer;
        fits.then_some(cut)
    };
    (0..to.len()).find_map(same)
}

/// The cut of a node's result if its operands are cut so.
#[allow(clippy::wildcard_enum_match_arm, reason = "an operation without a rule is not cut")]
fn result_cut(c: &Computation, id: NodeId, operand: NodeId, cut: Cut) -> Option<Cut> {
    let n = c.node(id);
    if n.op == Op::Reshape {
        return reshaped(dims(c, operand)?, cut, dims(c, id)?);
    }
    let outer = match &n.op {
        Op::Collective { kind: CollectiveKind::AllGather { dim }, .. } if *dim == cut.dim => {
            cut.outer * (dims(c, id)?[*dim] / dims(c, operand)?[*dim].max(1))
        }
        Op::Collective { kind: CollectiveKind::ReduceScatter { dim, .. }, .. } if *dim == cut.dim => {
            let group = dims(c, operand)?[*dim] / dims(c, id)?[*dim].max(1);
            cut.outer.is_multiple_of(group).then(|| cut.outer / group)?
        }
        _ => cut.outer,
    };
    let fits = |&dim: &usize| {
        let cuts = operand_cuts(c, id, Cut { dim, outer });
        let of = |cuts: Vec<Option<Cut>>| n.operands.iter().zip(cuts).all(|(&o, own)| o != operand || own == Some(cut));
        cuts.is_some_and(of)
    };
    (0..dims(c, id)?.len()).find(fits).map(|dim| Cut { dim, outer })
}

/// Whether an array can be cut into so many pieces whose parts are whole rows of registers or more.
fn divides(c: &Computation, id: NodeId, cut: Cut, pieces: u64) -> bool {
    let Some(size) = dims(c, id).and_then(|d| d.get(cut.dim).copied()) else { return false };
    size.is_multiple_of(cut.outer * pieces)
}

/// Grows the region of a collective whose result is cut so, into so many pieces; nodes of `taken` stay outside. A node that
/// could be cut in two ways is cut as it was met first: who wants it otherwise takes the whole.
pub fn grow(
    c: &Computation,
    users: &[Vec<NodeId>],
    (from, cut): (NodeId, Cut),
    pieces: u64,
    taken: &dyn Fn(NodeId) -> bool,
) -> Option<Region> {
    let mut region = Region::default();
    let mut open = vec![(from, cut)];
    let able = |id: NodeId, cut: Cut| {
        let n = c.node(id);
        let cuts = operand_cuts(c, id, cut).filter(|_| !n.operands.is_empty() && !taken(id));
        let even = |(&o, own): (&NodeId, &Option<Cut>)| own.is_none_or(|own| divides(c, o, own, pieces));
        divides(c, id, cut, pieces) && cuts.is_some_and(|cuts| n.operands.iter().zip(&cuts).all(even))
    };
    if !able(from, cut) {
        return None;
    }
    while let Some((id, cut)) = open.pop() {
        if region.contains_key(&id) {
            continue;
        }
        region.insert(id, cut);
        let cuts = operand_cuts(c, id, cut)?;
        if is_free(&cuts) {
            // Or a shared splat would join what has nothing to do with each other.
            continue;
        }
        for (&o, own) in c.node(id).operands.iter().zip(cuts) {
            open.extend(own.filter(|&own| able(o, own)).map(|own| (o, own)));
        }
        for &u in &users[id.index()] {
            if let Some(cut) = result_cut(c, u, id, cut).filter(|&cut| able(u, cut)) {
                open.push((u, cut));
            }
        }
    }
    prune(c, users, &mut region);
    Some(region)
}

/// Whether a user of a member takes the whole.
pub fn wants_whole(c: &Computation, region: &Region, user: NodeId, (id, cut): (NodeId, Cut)) -> bool {
    let Some(cuts) = region.get(&user).and_then(|&own| operand_cuts(c, user, own)) else { return true };
    c.node(user).operands.iter().zip(cuts).any(|(&o, own)| o == id && own != Some(cut))
}

/// Leaves out what every user takes as a whole, unless it waits for a collective of the region.
fn prune(c: &Computation, users: &[Vec<NodeId>], region: &mut Region) {
    let mut behind = vec![false; c.nodes.len()];
    for id in c.ids() {
        let n = c.node(id);
        let own = region.contains_key(&id) && matches!(n.op, Op::Collective { .. });
        behind[id.index()] = own || n.operands.iter().any(|o| behind[o.index()]);
    }
    for id in c.ids().rev() {
        let Some(&cut) = region.get(&id) else { continue };
        let whole = users[id.index()].iter().all(|&u| wants_whole(c, region, u, (id, cut)));
        if whole && !behind[id.index()] {
            region.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_cut_the_same_runs() {
        let cut = |dim, outer| Some(Cut { dim, outer });
        for (from, at, to, want) in [
            (&[32, 2, 24][..], (0, 4), &[64, 24][..], cut(0, 4)),
            (&[64, 24], (0, 4), &[4, 16, 24], cut(1, 1)),
            (&[4, 16, 24], (1, 1), &[64, 24], cut(0, 4)),
            (&[8, 24], (0, 1), &[1, 8, 24], cut(1, 1)),
            (&[8, 24], (1, 1), &[192], cut(0, 8)),
            (&[8, 24], (0, 1), &[6, 32], cut(0, 1)),
            (&[8, 24], (1, 1), &[6, 32], None),
        ] {
            assert_eq!(reshaped(from, Cut { dim: at.0, outer: at.1 }, to), want, "{from:?} {at:?} {to:?}");
        }
    }
}
