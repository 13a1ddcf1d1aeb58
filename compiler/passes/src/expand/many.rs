//! Many small matrices: Cholesky factors and triangular systems of all of them at once.
//!
//! The batch lies along lanes and sublanes, rows and columns before it (`[n, n, B / lanes, lanes]`), so that a step of the algorithm is an
//! elementwise operation on full registers, and a part of the matrices is a slice that is not moved. Steps are written out: the rest
//! of the matrices becomes smaller with each.

use super::linear::nan;
use crate::edit::Emit;
use crate::make::whole;
use crate::options::PassOptions;
use systole_hlo::graph::{Binary, Direction, NodeId, PadDim, SliceDim, Unary};
use systole_isa::DType;

/// Rows of a small matrix at most.
const SMALL: u64 = 32;
/// Vector memory has room for so many batches of matrices that fill one register for every element.
const ROOM: u64 = 4;

/// How a batch of matrices lies.
pub(super) struct Many {
    batch: u64,
    /// The batch in full registers: rows of lanes, lanes.
    full: [u64; 2],
}

impl Many {
    /// For so many matrices of `n` rows, if they are small and many.
    pub fn of(dtype: DType, n: u64, batch: u64, options: &PassOptions) -> Option<Many> {
        let (sub, lanes) = (u64::from(options.chip.tile.0), u64::from(options.chip.tile.1));
        let full = [batch.div_ceil(lanes).next_multiple_of(sub), lanes];
        let fits = n * n * sub * lanes * u64::from(dtype.bits()) / 8 * ROOM <= options.chip.vmem_bytes;
        (dtype == DType::F32 && (2..=SMALL).contains(&n) && fits && batch >= lanes).then_some(Many { batch, full })
    }

    /// `[B, r, c]` with the batch behind: `[r, c, B / lanes, lanes]`; `turned`: of the transposes.
    fn spread(&self, b: &mut Emit, x: NodeId, turned: bool) -> NodeId {
        let x = b.transpose(x, if turned { &[2, 1, 0] } else { &[1, 2, 0] });
        let more = (self.full[0] * self.full[1] - self.batch) as i64;
        let one = b.scalar(b.dtype(x), 1.0);
        let x = b.pad(x, one, &[PadDim::NONE, PadDim::NONE, PadDim::edges(0, more)]);
        let dims = [&b.dims(x)[..2], &self.full].concat();
        b.reshape(x, &dims)
    }

    /// Back to `[B, r, c]`.
    fn gathered(&self, b: &mut Emit, x: NodeId) -> NodeId {
        let dims = [&b.dims(x)[..2], &[self.full[0] * self.full[1]]].concat();
        let x = b.reshape(x, &dims);
        let x = b.slice_dim(x, 2, 0, self.batch, 1);
        b.transpose(x, &[2, 0, 1])
    }

    /// The lower factors of matrices `[B, n, n]` of which the lower triangle is read: zero above the diagonal, and NaN in all of it where a
    /// matrix is not positive definite.
    pub fn cholesky(&self, b: &mut Emit, a: NodeId) -> NodeId {
        let n = b.dims(a)[1];
        let mut rest = self.spread(b, a, false);
        let none = b.scalar(b.dtype(a), 0.0);
        let mut columns = Vec::new();
        for j in 0..n {
            let left = n - j;
            let pivot = part(b, rest, 0..1, 0..1);
            let root = b.unary(Unary::Sqrt, pivot);
            let mut column = root;
            if left > 1 {
                let below = part(b, rest, 1..left, 0..1);
                let roots = along(b, root, &[left - 1, 1]);
                let below = b.binary(Binary::Div, below, roots);
                column = b.concatenate(&[root, below], 0);
                let (l, r) = (along(b, below, &[left - 1; 2]), across(b, below));
                let known = b.mul(l, r);
                let behind = part(b, rest, 1..left, 1..left);
                rest = b.sub(behind, known);
            }
            columns.push(b.pad_dim(column, none, 0, (j as i64, 0)));
        }
        // What is not positive has no root, and all that is made with it has none: the last pivot with the rest.
        let last = part(b, columns[n as usize - 1], n - 1..n, 0..1);
        let ok = b.compare(Direction::Eq, last, last);
        let ok = along(b, ok, &[n, 1]);
        let bad_value = nan(b, b.dtype(a));
        let checked = columns.iter().enumerate().map(|(j, &c)| {
            let dims = b.dims(c).to_vec();
            let row = b.iota(DType::S32, &dims, 0);
            let first = b.index(j as i64);
            let inside = b.compare(Direction::Ge, row, first);
            let bad = b.select(inside, bad_value, none);
            b.select(ok, c, bad)
        });
        let checked: Vec<NodeId> = checked.collect();
        let factor = b.concatenate(&checked, 1);
        self.gathered(b, factor)
    }

    /// The solutions `[B, n, m]` of triangular systems `[B, n, n]`, of which the triangle `lower` is read; `turned`: of the transposes.
    pub fn solve(&self, b: &mut Emit, (a, turned): (NodeId, bool), y: NodeId, lower: bool) -> NodeId {
        let n = b.dims(a)[1];
        let (a, mut rest) = (self.spread(b, a, turned), self.spread(b, y, false));
        let m = b.dims(rest)[1];
        let mut rows = Vec::new();
        for step in 0..n {
            // Rows that are left: those behind, or those before.
            let left = n - step;
            let (row, others, from) = match lower != turned {
                true => (step, 1..left, step + 1),
                false => (left - 1, 0..left - 1, 0),
            };
            let own = if lower != turned { 0 } else { left - 1 };
            let pivot = part(b, a, row..row + 1, row..row + 1);
            let pivot = along(b, pivot, &[1, m]);
            let known = part(b, rest, own..own + 1, 0..m);
            let known = b.binary(Binary::Div, known, pivot);
            rows.push(known);
            if left > 1 {
                let entries = part(b, a, from..from + left - 1, row..row + 1);
                let (l, r) = (along(b, entries, &[left - 1, m]), along(b, known, &[left - 1, m]));
                let known = b.mul(l, r);
                let behind = part(b, rest, others, 0..m);
                rest = b.sub(behind, known);
            }
        }
        if lower == turned {
            rows.reverse();
        }
        let x = b.concatenate(&rows, 0);
        self.gathered(b, x)
    }
}

/// Some rows and columns of all matrices.
fn part(b: &mut Emit, x: NodeId, rows: std::ops::Range<u64>, columns: std::ops::Range<u64>) -> NodeId {
    let mut cut = whole(b.dims(x));
    cut[0] = SliceDim { start: rows.start, limit: rows.end, stride: 1 };
    cut[1] = SliceDim { start: columns.start, limit: columns.end, stride: 1 };
    b.slice(x, &cut)
}

/// Single rows or columns again and again, to so many of both.
fn along(b: &mut Emit, x: NodeId, to: &[u64; 2]) -> NodeId {
    let from = b.dims(x).to_vec();
    let kept: Vec<usize> = (0..4).filter(|&d| d >= 2 || from[d] != 1).collect();
    let dims: Vec<u64> = kept.iter().map(|&d| from[d]).collect();
    let x = b.reshape(x, &dims);
    b.broadcast(x, &kept, &[&to[..], &from[2..]].concat())
}

/// Columns `[n, 1, ..]` as rows of `[n, n, ..]`.
fn across(b: &mut Emit, x: NodeId) -> NodeId {
    let from = b.dims(x).to_vec();
    let x = b.reshape(x, &[from[0], from[2], from[3]]);
    b.broadcast(x, &[1, 2, 3], &[from[0], from[0], from[2], from[3]])
}
