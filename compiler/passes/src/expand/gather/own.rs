//! Indices that say their own place.
//!
//! `x[arange(n), i]` names a place along the first dimension by its own number: that dimension is a batching dimension, written as an
//! index. What is done for those (each row by itself, without addresses) holds for it too.

use super::known::{MOST_NODES, Places};
use crate::edit::Emit;
use systole_hlo::graph::{Batching, IndexMap, NodeId, Op};

/// The dimension numbers with indices that say their own place as batching dimensions of an operand of `dims`, and the rest of the indices.
pub fn batched(b: &mut Emit, map: &IndexMap, indices: NodeId, dims: &[u64]) -> (IndexMap, NodeId) {
    batching(b, map, indices, dims).unwrap_or_else(|| (map.clone(), indices))
}

/// The same with indices that count up by one from 0 along a dimension of theirs as batching dimensions of an operand of `dims`, and the
/// rest of the indices; `None` if there are no such, or no others.
fn batching(b: &mut Emit, map: &IndexMap, indices: NodeId, dims: &[u64]) -> Option<(IndexMap, NodeId)> {
    let of = b.dims(indices).to_vec();
    if map.start.len() < 2 || map.vector >= of.len() || matches!(b.op(indices), Op::Constant(_)) {
        return None;
    }
    let mut to = IndexMap { start: Vec::new(), ..map.clone() };
    let mut rest = Vec::new();
    for (j, &dim) in map.start.iter().enumerate() {
        let column = column(b, indices, map.vector, j as u64);
        let own = counted(b, column, &of, map.vector);
        let free = |e: &usize| of[*e] == dims[dim] && !to.batching.indices.contains(e);
        match own.filter(|e| map.collapsed.contains(&dim) && free(e)) {
            Some(e) => {
                to.batching.operand.push(dim);
                to.batching.indices.push(e);
                to.collapsed.retain(|&d| d != dim);
            }
            None => {
                to.start.push(dim);
                // A second one along the same dimension, as plainly as it may be said.
                let plain = own.map(|e| {
                    let sizes = b.dims(column).to_vec();
                    b.iota(b.dtype(column), &sizes, e)
                });
                rest.push(plain.unwrap_or(column));
            }
        }
    }
    let found = !rest.is_empty() && rest.len() < map.start.len();
    if !found || !b.draft.fire("own-index") {
        return None;
    }
    // Both lists in the order of the operand's dimensions.
    let mut pairs: Vec<(usize, usize)> = to.batching.pairs().collect();
    pairs.sort_unstable();
    let (operand, indices) = pairs.into_iter().unzip();
    to.batching = Batching { operand, indices };
    let rest = b.concatenate(&rest, map.vector);
    Some((to, rest))
}

/// One index of each vector, `[.., 1, ..]`: what was put beside others, as it was before.
pub fn column(b: &mut Emit, indices: NodeId, vector_dim: usize, j: u64) -> NodeId {
    if let Op::Concatenate { dim } = *b.op(indices)
        && dim == vector_dim
    {
        let mut at = 0;
        for part in b.node(indices).operands.clone() {
            let size = b.dims(part)[dim];
            if j < at + size {
                return b.slice_dim(part, dim, j - at, j - at + 1, 1);
            }
            at += size;
        }
    }
    b.slice_dim(indices, vector_dim, j, j + 1, 1)
}

/// Whether all of an array of integers is known to be within `0..=max`.
pub fn within(b: &Emit, x: NodeId, max: u64) -> bool {
    let range = Places::of(b, x, &mut { MOST_NODES }).map(|p| p.range(b.dims(x)));
    range.is_some_and(|(low, high)| low >= 0 && high as u64 <= max)
}

/// Whether an array of one dimension counts from 0 by ones.
pub fn counts(b: &Emit, x: NodeId) -> bool {
    let of = b.dims(x).to_vec();
    of.len() == 1 && counted(b, x, &of, 1).is_some()
}

/// The dimension along which an array counts from 0 by ones, if it is the same along all others.
fn counted(b: &Emit, x: NodeId, of: &[u64], vector_dim: usize) -> Option<usize> {
    let places = Places::of(b, x, &mut { MOST_NODES })?;
    let mut moving = (0..of.len()).filter(|&e| places.step[e] != 0);
    let e = moving.next().filter(|&e| e != vector_dim && places.step[e] == 1)?;
    (places.offset == 0 && moving.next().is_none()).then_some(e)
}
