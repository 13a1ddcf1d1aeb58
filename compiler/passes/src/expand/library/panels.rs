//! LU factors of large matrices, some columns at a time: these are factored by themselves, the rows of all others follow them, and what
//! is right of them loses a product of matrices, where single columns would each pass over all of the matrix.

use super::factor::columns;
use super::form::Form;
use crate::edit::Emit;
use crate::expand::linear::product;
use crate::expand::triangular::{Triangular, triangular_solve};
use crate::options::PassOptions;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, NodeId, TriangularTranspose};
use systole_isa::DType;

/// Columns of a panel are a multiple of this.
const COLUMNS: u64 = 32;
/// Panels at most: each has its own code, of which loops keep the best where all of it stays in instruction memory.
const PANELS: u64 = 8;

/// Columns that are factored together of matrices `[B, m, n]`, if there are several panels.
pub(super) fn width(b: &Emit, a: NodeId, lanes: u32) -> Option<u64> {
    let &[_, m, n] = b.dims(a) else { return None };
    let k = m.min(n);
    let panel = k.div_ceil(PANELS).max(u64::from(lanes) / 2).next_multiple_of(COLUMNS);
    let plain = b.dtype(a) == DType::F32 && Form::of(b, a, lanes) == Form::Apart;
    (plain && k >= 2 * panel).then_some(panel)
}

/// The packed factors of `[B, m, n]`, the row swapped with each, and the permutation of rows, from panels of so many columns.
pub(super) fn lu(b: &mut Emit, a: NodeId, panel: u64, options: &PassOptions) -> Result<[NodeId; 3], CompileError> {
    let [batch, m, n] = [0, 1, 2].map(|d| b.dims(a)[d]);
    let k = m.min(n);
    // Of the rows that have no place yet: their numbers, what is left of the panel and right of it.
    let mut numbers = b.iota(DType::S32, &[batch, m], 1);
    let mut left: Option<NodeId> = None;
    let mut rest = a;
    let (mut strips, mut order, mut pivots) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < k {
        let wide = panel.min(k - at);
        let own = b.slice_dim(rest, 2, 0, wide, 1);
        let [packed, swapped, moved] = columns(b, own, Form::Turned)?;
        pivots.push(b.with(Binary::Add, swapped, at as f64));
        numbers = in_order(b, numbers, moved);
        order.push(b.slice_dim(numbers, 1, 0, wide, 1));
        numbers = b.slice_dim(numbers, 1, wide, m - at, 1);
        let above = |b: &mut Emit, x: NodeId| b.slice_dim(x, 1, 0, wide, 1);
        let below = |b: &mut Emit, x: NodeId| b.slice_dim(x, 1, wide, m - at, 1);
        let known: Vec<NodeId> = left.map(|x| in_order(b, x, moved)).into_iter().chain([packed]).collect();
        let known = b.concatenate(&known, 2);
        let mut strip = vec![above(b, known)];
        left = Some(below(b, known));
        if n > at + wide {
            let right = b.slice_dim(rest, 2, wide, n - at, 1);
            let right = in_order(b, right, moved);
            let triangle =
                Triangular { left: true, lower: true, unit_diagonal: true, transpose: TriangularTranspose::No };
            let (first, own) = (above(b, right), above(b, packed));
            let upper = triangular_solve(b, own, first, triangle, options)?;
            strip.push(upper);
            if m > at + wide {
                let (others, own) = (below(b, right), below(b, packed));
                let less = product(b, own, upper, [2, 1]);
                rest = b.sub(others, less);
            }
        }
        strips.push(b.concatenate(&strip, 2));
        at += wide;
    }
    strips.extend(left.filter(|_| m > k));
    order.push(numbers);
    Ok([b.concatenate(&strips, 1), b.concatenate(&pivots, 1), b.concatenate(&order, 1)])
}

/// Rows `[B, r, ..]` in another order, which is `[B, r]`.
fn in_order(b: &mut Emit, x: NodeId, order: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let (batch, rows) = (dims[0], dims[1]);
    let table = b.reshape(x, &[&[batch * rows], &dims[2..]].concat());
    let first = b.iota(DType::S32, &[batch, rows], 0);
    let first = b.with(Binary::Mul, first, rows as f64);
    let places = b.add(order, first);
    let places = b.reshape(places, &[batch * rows]);
    let moved = b.gather_rows(table, places, false);
    b.reshape(moved, &dims)
}
