//! Matrix factors that programs ask for by custom calls: LU, QR, Hessenberg forms, products of reflectors.
//!
//! Arrays are batches of matrices; a step works on the whole batch at once, in the element type itself (f32 for 16-bit
//! floats). Factors are packed as LAPACK packs them.

use crate::edit::Emit;
use crate::expand::fold_batch;
use crate::expand::linear::{conjugate, real_only};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId, Unary};
use systole_isa::DType;

/// An array over the first dimension with one or two of the matrix dimensions, spread over `[B, m, n]`.
fn spread(b: &mut Emit, x: NodeId, map: &[usize], dims: &[u64; 3]) -> NodeId {
    b.broadcast(x, map, dims)
}

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
pub fn lu(b: &mut Emit, x: NodeId) -> Result<[NodeId; 3], CompileError> {
    let given = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let a = fold_batch(b, x, 2);
    let a = b.convert(a, wide(dtype));
    let dims = [b.dims(a)[0], b.dims(a)[1], b.dims(a)[2]];
    let [batch, m, n] = dims;
    let k = m.min(n);
    let (rows, row) = ([batch, m], [batch, 1, n]);
    let order = b.iota(DType::S32, &rows, 1);
    let pivots = b.splat(DType::S32, &[batch, k], 0.0);
    let done = b.counted_loop("lu", k, &[a, pivots, order], |b, j, s| {
        let zero = b.index(0);
        let place = b.iota(DType::S32, &rows, 1);
        let column = b.dynamic_slice(s[0], &[zero, zero, j], &[batch, m, 1]);
        let column = b.reshape(column, &rows);
        // The largest element at or below the diagonal, the first of equal ones.
        let size = magnitude(b, column);
        let open = b.compare(Direction::Ge, place, j);
        let low = b.scalar(b.dtype(size), -1.0);
        let size = b.select(open, size, low);
        let best = b.reduce(size, Binary::Max, -1.0, &[1]);
        let best = b.broadcast(best, &[0], &rows);
        let is_best = b.compare(Direction::Eq, size, best);
        let last = b.index(m as i64);
        let candidate = b.select(is_best, place, last);
        let found = b.reduce(candidate, Binary::Min, m as f64, &[1]);
        // Not-a-numbers leave the row where it is.
        let none = b.compare(Direction::Ge, found, last);
        let pivot = b.select(none, j, found);
        let pivots = b.reshape(pivot, &[batch, 1]);
        let pivots = b.dynamic_update_slice(s[1], pivots, &[zero, j]);
        // Rows j and pivot change places.
        let chosen = b.broadcast(pivot, &[0], &rows);
        let chosen = b.compare(Direction::Eq, place, chosen);
        let chosen_all = spread(b, chosen, &[0, 1], &dims);
        let upper = b.dynamic_slice(s[0], &[zero, j, zero], &row);
        let upper = b.reshape(upper, &[batch, n]);
        let picked = keep(b, chosen_all, s[0]);
        let picked = sum(b, picked, 1);
        let upper = spread(b, upper, &[0, 2], &dims);
        let a = b.select(chosen_all, upper, s[0]);
        let picked_row = b.reshape(picked, &row);
        let a = b.dynamic_update_slice(a, picked_row, &[zero, j, zero]);
        let here = b.dynamic_slice(s[2], &[zero, j], &[batch, 1]);
        let there = keep(b, chosen, s[2]);
        let there = sum(b, there, 1);
        let there = b.reshape(there, &[batch, 1]);
        let flat = b.reshape(here, &[batch]);
        let here = b.broadcast(flat, &[0], &rows);
        let order = b.select(chosen, here, s[2]);
        let order = b.dynamic_update_slice(order, there, &[zero, j]);
        // The column below becomes multipliers, the rest loses their product with the row.
        let value = b.dynamic_slice(picked, &[zero, j], &[batch, 1]);
        let value = b.reshape(value, &[batch]);
        let value = b.broadcast(value, &[0], &rows);
        let column = b.dynamic_slice(a, &[zero, zero, j], &[batch, m, 1]);
        let column = b.reshape(column, &rows);
        let quotient = b.binary(Binary::Div, column, value);
        let nought = b.scalar(b.dtype(value), 0.0);
        let nought = b.broadcast(nought, &[], &rows);
        let singular = b.compare(Direction::Eq, value, nought);
        let factor = b.select(singular, column, quotient);
        let below = b.compare(Direction::Gt, place, j);
        let factor = keep(b, below, factor);
        let left = spread(b, factor, &[0, 1], &dims);
        let right = spread(b, picked, &[0, 2], &dims);
        let across = b.iota(DType::S32, &dims, 2);
        let behind = b.compare(Direction::Gt, across, j);
        let right = keep(b, behind, right);
        let product = b.mul(left, right);
        let rest = b.sub(a, product);
        let at = b.compare(Direction::Eq, across, j);
        let below = spread(b, below, &[0, 1], &dims);
        let at = b.and(at, below);
        let next = b.select(at, left, rest);
        Ok(vec![next, pivots, order])
    })?;
    let outer = &given[..given.len() - 2];
    let packed = b.convert(done[0], dtype);
    let packed = b.reshape(packed, &given);
    let pivots = b.reshape(done[1], &[outer, &[k]].concat());
    let order = b.reshape(done[2], &[outer, &[m]].concat());
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
pub fn qr(b: &mut Emit, x: NodeId) -> Result<[NodeId; 2], CompileError> {
    let k = b.dims(x).iter().rev().take(2).copied().min().unwrap_or(0);
    reduced(b, x, ("qr", k), false)
}

/// The Hessenberg form of square matrices `[.., n, n]`, packed with the reflectors below the first lower diagonal, and
/// their factors.
pub fn hessenberg(b: &mut Emit, x: NodeId) -> Result<[NodeId; 2], CompileError> {
    let k = b.dims(x).last().map_or(0, |n| n.saturating_sub(1));
    reduced(b, x, ("hessenberg", k), true)
}

/// Matrices as `[batch, m, n]` of the type that they are factored in, that type, and the sizes.
fn widened(b: &mut Emit, x: NodeId) -> (NodeId, DType, [u64; 3]) {
    let kind = wide(b.dtype(x));
    let a = fold_batch(b, x, 2);
    let a = b.convert(a, kind);
    (a, kind, [b.dims(a)[0], b.dims(a)[1], b.dims(a)[2]])
}

/// The first `k` columns of `[.., m, n]` made zero by reflectors, which stay there, and their factors: below the diagonal by
/// `H^H A`, or below the first lower diagonal by `H^H A H` (`similar`).
fn reduced(b: &mut Emit, x: NodeId, (name, k): (&str, u64), similar: bool) -> Result<[NodeId; 2], CompileError> {
    let given = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let (a, kind, dims) = widened(b, x);
    let [batch, m, _] = dims;
    let rows = [batch, m];
    let taus = b.splat(kind, &[batch, k], 0.0);
    let done = b.counted_loop(name, k, &[a, taus], |b, j, s| {
        let zero = b.index(0);
        let column = b.dynamic_slice(s[0], &[zero, zero, j], &[batch, m, 1]);
        let column = b.reshape(column, &rows);
        let pivot = if similar { b.with(Binary::Add, j, 1.0) } else { j };
        let Reflector { tau, beta, v, at, below } = reflector(b, column, pivot);
        let a = if similar {
            // A H: v has nothing in the columns up to j.
            let less = reflected_right(b, v, s[0], tau, &dims);
            b.sub(s[0], less)
        } else {
            s[0]
        };
        // H^H of what is right of the column.
        let turned = conjugate(b, tau);
        let across = b.iota(DType::S32, &dims, 2);
        let behind = b.compare(Direction::Gt, across, j);
        let right = keep(b, behind, a);
        let less = reflected(b, v, right, turned, &dims);
        let next = b.sub(a, less);
        let at_column = b.compare(Direction::Eq, across, j);
        let stored = b.broadcast(beta, &[0], &rows);
        let stored = b.select(at, stored, column);
        let stored = b.select(below, v, stored);
        let stored = spread(b, stored, &[0, 1], &dims);
        let next = b.select(at_column, stored, next);
        let tau = b.reshape(tau, &[batch, 1]);
        let taus = b.dynamic_update_slice(s[1], tau, &[zero, j]);
        Ok(vec![next, taus])
    })?;
    let packed = b.convert(done[0], dtype);
    let packed = b.reshape(packed, &given);
    let taus = b.convert(done[1], dtype);
    let taus = b.reshape(taus, &[&given[..given.len() - 2], &[k]].concat());
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

/// The reflector that takes away what is below row `j` of columns `[B, m]`.
pub(super) fn reflector(b: &mut Emit, column: NodeId, j: NodeId) -> Reflector {
    let kind = b.dtype(column);
    let rows = b.dims(column).to_vec();
    let batch = rows[0];
    let zero = b.index(0);
    let place = b.iota(DType::S32, &rows, 1);
    // In units of the largest element: squares neither vanish nor overflow.
    let open = b.compare(Direction::Ge, place, j);
    let size = magnitude(b, column);
    let size = keep(b, open, size);
    let most = b.reduce(size, Binary::Max, 0.0, &[1]);
    let (nothing, whole) = (b.scalar(b.dtype(most), 0.0), b.scalar(b.dtype(most), 1.0));
    let empty = b.compare(Direction::Eq, most, nothing);
    let most = b.select(empty, whole, most);
    let most = b.convert(most, kind);
    let divisor = b.broadcast(most, &[0], &rows);
    let column = b.binary(Binary::Div, column, divisor);
    let alpha = b.dynamic_slice(column, &[zero, j], &[batch, 1]);
    let alpha = b.reshape(alpha, &[batch]);
    let below = b.compare(Direction::Gt, place, j);
    let tail = keep(b, below, column);
    let mirror = conjugate(b, tail);
    let square = b.mul(tail, mirror);
    let square = real_only(b, square);
    let rest = sum(b, square, 1);
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
    let divisor = b.broadcast(divisor, &[0], &rows);
    let v = b.binary(Binary::Div, tail, divisor);
    let at = b.compare(Direction::Eq, place, j);
    let unit = b.scalar(kind, 1.0);
    let v = b.select(at, unit, v);
    let beta = b.mul(beta, most);
    Reflector { tau, beta, v, at, below }
}

/// `tau v (v^H A)`: what a reflector takes from `a`.
pub(super) fn reflected(b: &mut Emit, v: NodeId, a: NodeId, tau: NodeId, dims: &[u64; 3]) -> NodeId {
    let mirror = conjugate(b, v);
    let mirror = spread(b, mirror, &[0, 1], dims);
    let product = b.mul(mirror, a);
    let along = sum(b, product, 1);
    let along = spread(b, along, &[0, 2], dims);
    let v = spread(b, v, &[0, 1], dims);
    let tau = spread(b, tau, &[0], dims);
    let scaled = b.mul(v, tau);
    b.mul(scaled, along)
}

/// `tau (A v) v^H`: what a reflector on the right takes from `a`.
pub(super) fn reflected_right(b: &mut Emit, v: NodeId, a: NodeId, tau: NodeId, dims: &[u64; 3]) -> NodeId {
    let across = spread(b, v, &[0, 2], dims);
    let product = b.mul(a, across);
    let along = sum(b, product, 2);
    let along = spread(b, along, &[0, 1], dims);
    let mirror = conjugate(b, v);
    let mirror = spread(b, mirror, &[0, 2], dims);
    let factor = spread(b, tau, &[0], dims);
    let less = b.mul(along, mirror);
    b.mul(less, factor)
}

/// The product of the reflectors below the diagonal of `[.., m, n]`, its first n columns.
pub fn reflectors(b: &mut Emit, x: NodeId, taus: NodeId) -> Result<NodeId, CompileError> {
    let given = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let (a, kind, dims) = widened(b, x);
    let [batch, m, _] = dims;
    let k = b.dims(taus).last().copied().unwrap_or(0);
    let taus = b.reshape(taus, &[batch, k]);
    let taus = b.convert(taus, kind);
    let (down, across) = (b.iota(DType::S32, &dims, 1), b.iota(DType::S32, &dims, 2));
    let diagonal = b.compare(Direction::Eq, down, across);
    let one = b.splat(kind, &dims, 1.0);
    let identity = keep(b, diagonal, one);
    let rows = [batch, m];
    let done = b.counted_loop("reflectors", k, &[identity, a, taus], |b, i, s| {
        let zero = b.index(0);
        let last = b.index(k as i64 - 1);
        let j = b.sub(last, i);
        let place = b.iota(DType::S32, &rows, 1);
        let column = b.dynamic_slice(s[1], &[zero, zero, j], &[batch, m, 1]);
        let column = b.reshape(column, &rows);
        let below = b.compare(Direction::Gt, place, j);
        let v = keep(b, below, column);
        let at = b.compare(Direction::Eq, place, j);
        let unit = b.scalar(kind, 1.0);
        let v = b.select(at, unit, v);
        let tau = b.dynamic_slice(s[2], &[zero, j], &[batch, 1]);
        let tau = b.reshape(tau, &[batch]);
        let less = reflected(b, v, s[0], tau, &dims);
        let next = b.sub(s[0], less);
        Ok(vec![next, s[1], s[2]])
    })?;
    let product = b.convert(done[0], dtype);
    Ok(b.reshape(product, &given))
}
