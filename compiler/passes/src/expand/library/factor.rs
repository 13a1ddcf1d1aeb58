//! Matrix factors that programs ask for by custom calls: LU, QR, Hessenberg forms, products of reflectors.
//!
//! Arrays are batches of matrices; a step works on the whole batch at once, in the element type itself (f32 for 16-bit
//! floats), in the [`Form`] that fills the lanes. Factors are packed as LAPACK packs them.

use super::form::Axis::{self, Batch, Column, Row};
use super::form::Form;
use super::panels;
use crate::edit::Emit;
use crate::expand::fold_batch;
use crate::expand::linear::{conjugate, real_only};
use crate::options::PassOptions;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId, Unary};
use systole_isa::DType;

/// The axes of matrices, and of vectors along their rows.
const ALL: &[Axis] = &[Batch, Row, Column];
const ROWS: &[Axis] = &[Batch, Row];

/// The elements of `x` where `mask` holds, zero elsewhere.
pub(super) fn keep(b: &mut Emit, mask: NodeId, x: NodeId) -> NodeId {
    let none = b.scalar(b.dtype(x), 0.0);
    b.select(mask, x, none)
}

pub(super) fn sum(b: &mut Emit, x: NodeId, dim: usize) -> NodeId {
    b.reduce(x, Binary::Add, 0.0, &[dim])
}

/// A real array in the type of `like`.
fn as_type(b: &mut Emit, x: NodeId, dtype: DType) -> NodeId {
    b.convert(x, dtype)
}

pub(super) fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

/// LU factors of `[.., m, n]` with partial pivoting: packed factors, the row swapped with each (from 0), the
/// permutation of rows.
pub fn lu(b: &mut Emit, x: NodeId, options: &PassOptions) -> Result<[NodeId; 3], CompileError> {
    let given = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let (a, [_, m, n]) = widened(b, x);
    let lanes = options.chip.tile.1;
    let [packed, pivots, order] = match panels::width(b, a, lanes) {
        Some(panel) => panels::lu(b, a, panel, options)?,
        None => {
            // Rows of tall matrices fill the lanes.
            let form = match Form::of(b, a, lanes) {
                Form::Apart if m >= u64::from(lanes) && m >= 2 * n => Form::Turned,
                form @ (Form::Apart | Form::Beside | Form::Turned) => form,
            };
            columns(b, a, form)?
        }
    };
    let outer = &given[..given.len() - 2];
    let packed = b.convert(packed, dtype);
    let packed = b.reshape(packed, &given);
    let pivots = b.reshape(pivots, &[outer, &[m.min(n)]].concat());
    let order = b.reshape(order, &[outer, &[m]].concat());
    Ok([packed, pivots, order])
}

/// The same of `[B, m, n]`, a column after the other, in a form.
pub(super) fn columns(b: &mut Emit, a: NodeId, form: Form) -> Result<[NodeId; 3], CompileError> {
    let dims = [0, 1, 2].map(|d| b.dims(a)[d]);
    let a = form.enter(b, a);
    let [batch, m, n] = dims;
    let k = m.min(n);
    let order = form.number(b, ROWS, Row, dims);
    let pivots = b.splat(DType::S32, &form.sizes(ROWS, [batch, k, n]), 0.0);
    let done = b.counted_loop("lu", k, &[a, pivots, order], |b, j, s| {
        let place = form.number(b, ROWS, Row, dims);
        let column = form.take(b, s[0], ALL, (Column, j));
        // The largest element at or below the diagonal, the first of equal ones.
        let size = magnitude(b, column);
        let open = b.compare(Direction::Ge, place, j);
        let low = b.scalar(b.dtype(size), -1.0);
        let size = b.select(open, size, low);
        let best = form.reduce(b, size, ROWS, Row, (Binary::Max, -1.0));
        let best = form.along(b, best, dims);
        let is_best = b.compare(Direction::Eq, size, best);
        let last = b.index(m as i64);
        let candidate = b.select(is_best, place, last);
        let found = form.reduce(b, candidate, ROWS, Row, (Binary::Min, m as f64));
        // Not-a-numbers leave the row where it is.
        let none = b.compare(Direction::Ge, found, last);
        let pivot = b.select(none, j, found);
        let pivots = form.put(b, s[1], ROWS, (Row, j), pivot);
        // Rows j and pivot change places.
        let chosen = form.along(b, pivot, dims);
        let chosen = b.compare(Direction::Eq, place, chosen);
        let chosen_all = form.spread(b, chosen, ROWS, dims);
        let upper = form.take(b, s[0], ALL, (Row, j));
        let picked = keep(b, chosen_all, s[0]);
        let picked = form.sum(b, picked, ALL, Row);
        let upper = form.spread(b, upper, &[Batch, Column], dims);
        let a = b.select(chosen_all, upper, s[0]);
        let a = form.put(b, a, ALL, (Row, j), picked);
        let here = form.take(b, s[2], ROWS, (Row, j));
        let there = keep(b, chosen, s[2]);
        let there = form.sum(b, there, ROWS, Row);
        let here = form.along(b, here, dims);
        let order = b.select(chosen, here, s[2]);
        let order = form.put(b, order, ROWS, (Row, j), there);
        // The column below becomes multipliers, the rest loses their product with the row.
        let value = form.take(b, picked, &[Batch, Column], (Column, j));
        let value = form.along(b, value, dims);
        let column = form.take(b, a, ALL, (Column, j));
        let quotient = b.binary(Binary::Div, column, value);
        let nought = b.scalar(b.dtype(value), 0.0);
        let singular = b.compare(Direction::Eq, value, nought);
        let factor = b.select(singular, column, quotient);
        let below = b.compare(Direction::Gt, place, j);
        let factor = keep(b, below, factor);
        let left = form.spread(b, factor, ROWS, dims);
        let right = form.spread(b, picked, &[Batch, Column], dims);
        let across = form.number(b, ALL, Column, dims);
        let behind = b.compare(Direction::Gt, across, j);
        let right = keep(b, behind, right);
        let product = b.mul(left, right);
        let rest = b.sub(a, product);
        let at = b.compare(Direction::Eq, across, j);
        let below = form.spread(b, below, ROWS, dims);
        let at = b.and(at, below);
        let next = b.select(at, left, rest);
        Ok(vec![next, pivots, order])
    })?;
    let packed = form.leave(b, done[0]);
    let [pivots, order] = [done[1], done[2]].map(|v| form.turn_vector(b, v));
    Ok([packed, pivots, order])
}

/// The size by which pivots are chosen: of a complex number the sum of its parts' sizes.
pub(super) fn magnitude(b: &mut Emit, x: NodeId) -> NodeId {
    if !b.dtype(x).is_complex() {
        return b.unary(Unary::Abs, x);
    }
    let (re, im) = (b.unary(Unary::Real, x), b.unary(Unary::Imag, x));
    let (re, im) = (b.unary(Unary::Abs, re), b.unary(Unary::Abs, im));
    b.add(re, im)
}

/// Householder's QR of `[.., m, n]`: R with the reflectors below its diagonal, and their factors.
pub fn qr(b: &mut Emit, x: NodeId, lanes: u32) -> Result<[NodeId; 2], CompileError> {
    let k = b.dims(x).iter().rev().take(2).copied().min().unwrap_or(0);
    reduced(b, x, ("qr", k, lanes), false)
}

/// The Hessenberg form of square matrices `[.., n, n]`, packed with the reflectors below the first lower diagonal, and
/// their factors.
pub fn hessenberg(b: &mut Emit, x: NodeId, lanes: u32) -> Result<[NodeId; 2], CompileError> {
    let k = b.dims(x).last().map_or(0, |n| n.saturating_sub(1));
    reduced(b, x, ("hessenberg", k, lanes), true)
}

/// Matrices as they are factored, and as they came.
struct Entered {
    given: Vec<u64>,
    dtype: DType,
    /// `[batch, m, n]` in the form, of the type that they are factored in.
    a: NodeId,
    form: Form,
    kind: DType,
    /// Batch, m, n.
    dims: [u64; 3],
}

/// `[.., m, n]` as `[batch, m, n]` of the type that it is factored in, and these sizes.
fn widened(b: &mut Emit, x: NodeId) -> (NodeId, [u64; 3]) {
    let kind = wide(b.dtype(x));
    let a = fold_batch(b, x, 2);
    let a = b.convert(a, kind);
    let dims = [0, 1, 2].map(|d| b.dims(a)[d]);
    (a, dims)
}

impl Entered {
    fn new(b: &mut Emit, x: NodeId, lanes: u32) -> Entered {
        let (given, dtype) = (b.dims(x).to_vec(), b.dtype(x));
        let (a, dims) = widened(b, x);
        let kind = b.dtype(a);
        let form = Form::of(b, a, lanes);
        Entered { given, dtype, a: form.enter(b, a), form, kind, dims }
    }

    /// Matrices of these sizes in the type and dimensions that they came in.
    fn leave(&self, b: &mut Emit, done: NodeId) -> NodeId {
        let done = self.form.leave(b, done);
        let done = b.convert(done, self.dtype);
        b.reshape(done, &self.given)
    }

    /// The dimensions before the matrices' own.
    fn outer(&self) -> &[u64] {
        &self.given[..self.given.len() - 2]
    }
}

/// The first `k` columns of `[.., m, n]` made zero by reflectors, which stay there, and their factors: below the diagonal by
/// `H^H A`, or below the first lower diagonal by `H^H A H` (`similar`).
fn reduced(
    b: &mut Emit,
    x: NodeId,
    (name, k, lanes): (&str, u64, u32),
    similar: bool,
) -> Result<[NodeId; 2], CompileError> {
    let entered = Entered::new(b, x, lanes);
    let Entered { a, form, kind, dims, .. } = entered;
    let [batch, _, n] = dims;
    let taus = b.splat(kind, &form.sizes(ROWS, [batch, k, n]), 0.0);
    let done = b.counted_loop(name, k, &[a, taus], |b, j, s| {
        let column = form.take(b, s[0], ALL, (Column, j));
        let pivot = if similar { b.with(Binary::Add, j, 1.0) } else { j };
        let Reflector { tau, beta, v, at, below } = reflector(b, form, column, pivot);
        let a = if similar {
            // A H: v has nothing in the columns up to j.
            let less = reflected_right(b, form, v, s[0], tau, dims);
            b.sub(s[0], less)
        } else {
            s[0]
        };
        // H^H of what is right of the column.
        let turned = conjugate(b, tau);
        let across = form.number(b, ALL, Column, dims);
        let behind = b.compare(Direction::Gt, across, j);
        let right = keep(b, behind, a);
        let less = reflected(b, form, v, right, turned, dims);
        let next = b.sub(a, less);
        let at_column = b.compare(Direction::Eq, across, j);
        let stored = form.along(b, beta, dims);
        let stored = b.select(at, stored, column);
        let stored = b.select(below, v, stored);
        let stored = form.spread(b, stored, ROWS, dims);
        let next = b.select(at_column, stored, next);
        let taus = form.put(b, s[1], ROWS, (Row, j), tau);
        Ok(vec![next, taus])
    })?;
    let packed = entered.leave(b, done[0]);
    let taus = form.turn_vector(b, done[1]);
    let taus = b.convert(taus, entered.dtype);
    let taus = b.reshape(taus, &[entered.outer(), &[k]].concat());
    Ok([packed, taus])
}

/// Householder's reflector of a column.
pub(super) struct Reflector {
    pub tau: NodeId,
    /// What the column's element at the pivot becomes.
    beta: NodeId,
    /// One at the pivot, zero above it.
    pub v: NodeId,
    /// The pivot's row, and those below it.
    at: NodeId,
    below: NodeId,
}

/// The reflector that takes away what is below row `j` of columns, a vector along rows for each matrix.
pub(super) fn reflector(b: &mut Emit, form: Form, column: NodeId, j: NodeId) -> Reflector {
    let kind = b.dtype(column);
    let size = |axis| b.dims(column)[form.place(ROWS, axis)];
    let dims = [size(Batch), size(Row), 1];
    let batch = dims[0];
    let place = form.number(b, ROWS, Row, dims);
    // In units of the largest element: squares neither vanish nor overflow.
    let open = b.compare(Direction::Ge, place, j);
    let size = magnitude(b, column);
    let size = keep(b, open, size);
    let most = form.reduce(b, size, ROWS, Row, (Binary::Max, 0.0));
    let (nothing, whole) = (b.scalar(b.dtype(most), 0.0), b.scalar(b.dtype(most), 1.0));
    let empty = b.compare(Direction::Eq, most, nothing);
    let most = b.select(empty, whole, most);
    let most = b.convert(most, kind);
    let divisor = form.along(b, most, dims);
    let column = b.binary(Binary::Div, column, divisor);
    let alpha = form.take(b, column, ROWS, (Row, j));
    let below = b.compare(Direction::Gt, place, j);
    let tail = keep(b, below, column);
    let mirror = conjugate(b, tail);
    let square = b.mul(tail, mirror);
    let square = real_only(b, square);
    let rest = form.sum(b, square, ROWS, Row);
    let (re, im) = (b.unary(Unary::Real, alpha), b.unary(Unary::Imag, alpha));
    let (re2, im2) = (b.mul(re, re), b.mul(im, im));
    let other = b.add(rest, im2);
    let all = b.add(re2, other);
    let norm = b.unary(Unary::Sqrt, all);
    let minus = b.neg(norm);
    let none = b.splat(b.dtype(re), &[batch], 0.0);
    let positive = b.compare(Direction::Ge, re, none);
    let beta = b.select(positive, minus, norm);
    // A column that is one already has no reflector.
    let trivial = b.compare(Direction::Eq, other, none);
    let difference = b.sub(beta, re);
    let tau = b.binary(Binary::Div, difference, beta);
    let tau = if kind.is_complex() {
        let turn = b.binary(Binary::Div, im, beta);
        let turn = b.neg(turn);
        b.binary(Binary::Complex, tau, turn)
    } else {
        tau
    };
    let nought = b.splat(kind, &[batch], 0.0);
    let tau = b.select(trivial, nought, tau);
    let beta = as_type(b, beta, kind);
    let beta = b.select(trivial, alpha, beta);
    let divisor = b.sub(alpha, beta);
    let one = b.splat(kind, &[batch], 1.0);
    let divisor = b.select(trivial, one, divisor);
    let divisor = form.along(b, divisor, dims);
    let v = b.binary(Binary::Div, tail, divisor);
    let at = b.compare(Direction::Eq, place, j);
    let unit = b.scalar(kind, 1.0);
    let v = b.select(at, unit, v);
    let beta = b.mul(beta, most);
    Reflector { tau, beta, v, at, below }
}

/// `tau v (v^H A)`: what a reflector takes from `a`.
pub(super) fn reflected(b: &mut Emit, form: Form, v: NodeId, a: NodeId, tau: NodeId, dims: [u64; 3]) -> NodeId {
    let mirror = conjugate(b, v);
    let mirror = form.spread(b, mirror, ROWS, dims);
    let product = b.mul(mirror, a);
    let along = form.sum(b, product, ALL, Row);
    let along = form.spread(b, along, &[Batch, Column], dims);
    let v = form.spread(b, v, ROWS, dims);
    let tau = form.spread(b, tau, &[Batch], dims);
    let scaled = b.mul(v, tau);
    b.mul(scaled, along)
}

/// `tau (A v) v^H`: what a reflector on the right takes from `a`; `v` is a vector along columns.
pub(super) fn reflected_right(b: &mut Emit, form: Form, v: NodeId, a: NodeId, tau: NodeId, dims: [u64; 3]) -> NodeId {
    let across = form.spread(b, v, &[Batch, Column], dims);
    let product = b.mul(a, across);
    let along = form.sum(b, product, ALL, Column);
    let along = form.spread(b, along, ROWS, dims);
    let mirror = conjugate(b, v);
    let mirror = form.spread(b, mirror, &[Batch, Column], dims);
    let factor = form.spread(b, tau, &[Batch], dims);
    let less = b.mul(along, mirror);
    b.mul(less, factor)
}

/// The product of the reflectors below the diagonal of `[.., m, n]`, its first n columns.
pub fn reflectors(b: &mut Emit, x: NodeId, taus: NodeId, lanes: u32) -> Result<NodeId, CompileError> {
    let entered = Entered::new(b, x, lanes);
    let Entered { a, form, kind, dims, .. } = entered;
    let k = b.dims(taus).last().copied().unwrap_or(0);
    let taus = b.reshape(taus, &[dims[0], k]);
    let taus = b.convert(taus, kind);
    let taus = form.turn_vector(b, taus);
    let (down, across) = (form.number(b, ALL, Row, dims), form.number(b, ALL, Column, dims));
    let diagonal = b.compare(Direction::Eq, down, across);
    let one = b.splat(kind, &form.sizes(ALL, dims), 1.0);
    let identity = keep(b, diagonal, one);
    let done = b.counted_loop("reflectors", k, &[identity, a, taus], |b, i, s| {
        let last = b.index(k as i64 - 1);
        let j = b.sub(last, i);
        let place = form.number(b, ROWS, Row, dims);
        let column = form.take(b, s[1], ALL, (Column, j));
        let below = b.compare(Direction::Gt, place, j);
        let v = keep(b, below, column);
        let at = b.compare(Direction::Eq, place, j);
        let unit = b.scalar(kind, 1.0);
        let v = b.select(at, unit, v);
        let tau = form.take(b, s[2], ROWS, (Row, j));
        let less = reflected(b, form, v, s[0], tau, dims);
        let next = b.sub(s[0], less);
        Ok(vec![next, s[1], s[2]])
    })?;
    Ok(entered.leave(b, done[0]))
}
