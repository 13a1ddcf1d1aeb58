//! Cholesky factors and triangular systems: one column or row after the other, over all matrices of a batch at once.
//!
//! Sums are products and reductions on the vector unit in the element type itself; no matrix-unit rounding enters.

use super::fold_batch;
use crate::error::CompileError;
use crate::graph::{Binary, Direction, Literal, NodeId, TriangularTranspose, Unary};
use crate::passes::edit::Emit;
use systole_isa::DType;

/// The conjugate of a complex array; a real one is its own.
pub(super) fn conjugate(b: &mut Emit, x: NodeId) -> NodeId {
    if !b.dtype(x).is_complex() {
        return x;
    }
    let (re, im) = (b.unary(Unary::Real, x), b.unary(Unary::Imag, x));
    let im = b.neg(im);
    b.binary(Binary::Complex, re, im)
}

/// The real part of a complex array; a real one as it is.
pub(super) fn real_only(b: &mut Emit, x: NodeId) -> NodeId {
    if b.dtype(x).is_complex() { b.unary(Unary::Real, x) } else { x }
}

/// Whether `row op column` at each place of `[B, n, n]`.
fn places(b: &mut Emit, dims: &[u64], direction: Direction) -> NodeId {
    let (row, column) = (b.iota(DType::S32, dims, 1), b.iota(DType::S32, dims, 2));
    b.compare(direction, row, column)
}

/// A NaN of a type.
fn nan(b: &mut Emit, dtype: DType) -> NodeId {
    let part = super::super::make::element_bytes(dtype.real(), f64::NAN);
    let bytes = if dtype.is_complex() { part.repeat(2) } else { part };
    b.constant(Literal::splat(dtype, &[], &bytes))
}

/// `cholesky` of `[.., n, n]`: column by column, the rest of the matrix updated each time.
pub fn cholesky(b: &mut Emit, x: NodeId, lower: bool) -> Result<NodeId, CompileError> {
    let given = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let a = fold_batch(b, x, 2);
    let a = b.convert(a, wide);
    let dims = b.dims(a).to_vec();
    let n = dims[1];
    let a = if lower { a } else { b.transpose(a, &[0, 2, 1]) };
    let a = if lower { a } else { conjugate(b, a) };
    let zero = b.splat(wide, &dims, 0.0);
    let column_dims = [dims[0], n];
    let done = b.counted_loop("cholesky", n, &[a, zero], |b, j, s| {
        let zero = b.index(0);
        let column = b.dynamic_slice(s[0], &[zero, zero, j], &[dims[0], n, 1]);
        let column = b.reshape(column, &column_dims);
        let pivot = b.dynamic_slice(column, &[zero, j], &[dims[0], 1]);
        let pivot = b.reshape(pivot, &[dims[0]]);
        let real = b.unary(Unary::Real, pivot);
        let root = b.unary(Unary::Sqrt, real);
        let root_full = if wide.is_complex() { b.convert(root, wide) } else { root };
        let root_full = b.broadcast(root_full, &[0], &column_dims);
        let scaled = b.binary(Binary::Div, column, root_full);
        let row = b.iota(DType::S32, &column_dims, 1);
        let at = b.compare(Direction::Eq, row, j);
        let below = b.compare(Direction::Gt, row, j);
        let none = b.scalar(wide, 0.0);
        let l = b.select(below, scaled, none);
        let l = b.select(at, root_full, l);
        let left = b.broadcast(l, &[0, 1], &dims);
        let other = conjugate(b, l);
        let right = b.broadcast(other, &[0, 2], &dims);
        let product = b.mul(left, right);
        let rest = b.sub(s[0], product);
        let column = b.reshape(l, &[dims[0], n, 1]);
        let factor = b.dynamic_update_slice(s[1], column, &[zero, zero, j]);
        Ok(vec![rest, factor])
    })?;
    let mut factor = done[1];
    // A matrix that is not positive definite gives NaN everywhere.
    let check = b.unary(Unary::Real, factor);
    let sum = b.reduce(check, Binary::Add, 0.0, &[1, 2]);
    let ok = b.compare(Direction::Eq, sum, sum);
    let ok = b.broadcast(ok, &[0], &dims);
    let bad = nan(b, wide);
    let lower_part = places(b, &dims, Direction::Ge);
    let bad = b.broadcast(bad, &[], &dims);
    let none = b.splat(wide, &dims, 0.0);
    let bad = b.select(lower_part, bad, none);
    factor = b.select(ok, factor, bad);
    if !lower {
        factor = b.transpose(factor, &[0, 2, 1]);
        factor = conjugate(b, factor);
    }
    let factor = b.convert(factor, dtype);
    Ok(b.reshape(factor, &given))
}

/// How a triangular system is posed.
#[derive(Clone, Copy)]
pub struct Triangular {
    pub left: bool,
    pub lower: bool,
    pub unit_diagonal: bool,
    pub transpose: TriangularTranspose,
}

/// `triangular-solve` of `[.., n, n]` and `[.., n, m]` (or `[.., m, n]`): row by row of the unknowns.
pub fn triangular_solve(b: &mut Emit, a: NodeId, y: NodeId, t: Triangular) -> Result<NodeId, CompileError> {
    let given = b.dims(y).to_vec();
    let dtype = b.dtype(y);
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let (a, y) = (fold_batch(b, a, 2), fold_batch(b, y, 2));
    let (mut a, mut y) = (b.convert(a, wide), b.convert(y, wide));
    // Pose it as op(A) X = Y with a plain matrix: X A = Y is A^T X^T = Y^T.
    let mut lower = t.lower;
    let turned = t.transpose != TriangularTranspose::No;
    if turned == t.left {
        a = b.transpose(a, &[0, 2, 1]);
        lower = !lower;
    }
    if t.transpose == TriangularTranspose::Adjoint {
        a = conjugate(b, a);
    }
    if !t.left {
        y = b.transpose(y, &[0, 2, 1]);
    }
    let (batch, n, m) = (b.dims(y)[0], b.dims(y)[1], b.dims(y)[2]);
    let dims = [batch, n, m];
    let start = b.splat(wide, &dims, 0.0);
    let done = b.counted_loop("triangular", n, &[start, a, y], |b, counter, s| {
        let zero = b.index(0);
        let last = b.index(n as i64 - 1);
        let i = if lower { counter } else { b.sub(last, counter) };
        let row = b.dynamic_slice(s[1], &[zero, i, zero], &[batch, 1, n]);
        let row = b.reshape(row, &[batch, n]);
        let place = b.iota(DType::S32, &[batch, n], 1);
        let solved = b.compare(if lower { Direction::Lt } else { Direction::Gt }, place, i);
        let none = b.scalar(wide, 0.0);
        let known = b.select(solved, row, none);
        let known = b.broadcast(known, &[0, 1], &dims);
        let product = b.mul(known, s[0]);
        let sum = b.reduce(product, Binary::Add, 0.0, &[1]);
        let want = b.dynamic_slice(s[2], &[zero, i, zero], &[batch, 1, m]);
        let want = b.reshape(want, &[batch, m]);
        let mut x = b.sub(want, sum);
        if !t.unit_diagonal {
            let pivot = b.dynamic_slice(row, &[zero, i], &[batch, 1]);
            let pivot = b.reshape(pivot, &[batch]);
            let pivot = b.broadcast(pivot, &[0], &[batch, m]);
            x = b.binary(Binary::Div, x, pivot);
        }
        let x = b.reshape(x, &[batch, 1, m]);
        let next = b.dynamic_update_slice(s[0], x, &[zero, i, zero]);
        Ok(vec![next, s[1], s[2]])
    })?;
    let mut x = done[0];
    if !t.left {
        x = b.transpose(x, &[0, 2, 1]);
    }
    let x = b.convert(x, dtype);
    Ok(b.reshape(x, &given))
}
