//! Rules for products of which not all is wanted.

use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::analysis::pieces;
use systole_hlo::graph::{NodeId, Op, SliceDim};

/// A slice of the rows of a product with a table, which may have been transposed and reshaped since, as the product of these rows of the
/// table alone. `x` is used by nothing else.
pub fn rows(b: &mut Emit, x: NodeId, dims: &[SliceDim]) -> Option<NodeId> {
    (reaches(b, x, dims) && b.draft.fire("slice-product")).then(|| sliced(b, x, dims))
}

/// Whether a slice has all of a dimension of `n`.
fn is_all(s: &SliceDim, n: u64) -> bool {
    (s.start, s.limit, s.stride) == (0, n, 1)
}

/// Whether a slice comes down to one of the rows of a product with a table.
#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
fn reaches(b: &Emit, x: NodeId, dims: &[SliceDim]) -> bool {
    match b.op(x) {
        Op::Transpose { permutation } => reaches(b, b.operand(x, 0), &turned(permutation, dims)),
        Op::Reshape => before_reshape(b, x, dims).is_some_and(|dims| reaches(b, b.operand(x, 0), &dims)),
        Op::Dot { dims: of, .. } => {
            let first = of.lhs_batch.len();
            let rows = first..b.rank(b.operand(x, 0)) - of.lhs_contracting.len();
            let sizes = b.dims(x);
            let fits = |(d, s): (usize, &SliceDim)| is_all(s, sizes[d]) || rows.contains(&d) && s.stride == 1;
            is_table(b, b.operand(x, 0)) && dims.iter().enumerate().all(fits)
        }
        _ => false,
    }
}

/// Whether an array is a constant, or one that is repeated.
#[allow(clippy::wildcard_enum_match_arm, reason = "nothing else is known when the program is made")]
fn is_table(b: &Emit, x: NodeId) -> bool {
    match b.op(x) {
        Op::Constant(_) => true,
        Op::Broadcast { .. } | Op::Reshape => is_table(b, b.operand(x, 0)),
        _ => false,
    }
}

/// A slice of a transpose as one of what it transposes.
fn turned(permutation: &[usize], dims: &[SliceDim]) -> Vec<SliceDim> {
    crate::make::inverse(permutation).into_iter().map(|d| dims[d]).collect()
}

/// A slice of a reshape as one of what it reshapes, if it takes whole runs of that.
fn before_reshape(b: &Emit, x: NodeId, dims: &[SliceDim]) -> Option<Vec<SliceDim>> {
    let from = b.dims(b.operand(x, 0)).to_vec();
    let (sizes, of_from, of_x) = pieces(&from, b.dims(x))?;
    let mut wanted = whole(&from);
    for ((s, &n), own) in dims.iter().zip(b.dims(x)).zip(&of_x) {
        if is_all(s, n) {
            continue;
        }
        if own.is_empty() {
            return None;
        }
        // The slice is one of the dimension's first piece, and this the first one of a dimension before.
        let first = own.start;
        let inner: u64 = sizes[own.clone()][1..].iter().product();
        let d = of_from.iter().position(|pieces| pieces.start == first && !pieces.is_empty())?;
        let around: u64 = sizes[of_from[d].clone()][1..].iter().product();
        if s.stride != 1 || s.start % inner != 0 || s.limit % inner != 0 {
            return None;
        }
        wanted[d] = SliceDim { start: s.start / inner * around, limit: s.limit / inner * around, stride: 1 };
    }
    Some(wanted)
}

/// The slice that [`reaches`] a product.
#[allow(clippy::wildcard_enum_match_arm, reason = "it was asked for before")]
fn sliced(b: &mut Emit, x: NodeId, dims: &[SliceDim]) -> NodeId {
    let sizes: Vec<u64> = dims.iter().map(|d| d.limit - d.start).collect();
    match b.op(x).clone() {
        Op::Transpose { permutation } => {
            let inner = sliced(b, b.operand(x, 0), &turned(&permutation, dims));
            b.transpose(inner, &permutation)
        }
        Op::Reshape => {
            let before = before_reshape(b, x, dims).expect("it was asked for");
            let inner = sliced(b, b.operand(x, 0), &before);
            b.reshape(inner, &sizes)
        }
        Op::Dot { dims: of, precision } => {
            let (table, y, to) = (b.operand(x, 0), b.operand(x, 1), b.dtype(x));
            let mut rows = whole(b.dims(table));
            let free = (0..rows.len()).filter(|d| !of.lhs_batch.contains(d) && !of.lhs_contracting.contains(d));
            for (d, s) in free.zip(&dims[of.lhs_batch.len()..]) {
                rows[d] = *s;
            }
            let table = b.slice(table, &rows);
            b.dot(table, y, of, precision, to)
        }
        _ => b.slice(x, dims),
    }
}
