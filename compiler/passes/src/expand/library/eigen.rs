//! Eigenvalues and eigenvectors of square matrices that need not be symmetric, from Schur's form.

use super::factor::{keep, magnitude, sum, wide};
use super::schur::{Schur, schur, triangular, values};
use crate::edit::Emit;
use crate::expand::fold_batch;
use crate::expand::linear::{conjugate, real_only};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, DotDims, NodeId, Precision, Unary};
use systole_isa::DType;

/// Eigenvectors (columns) of triangular matrices `[B, n, n]`, a row at a time from the last. `lower`: of lower ones, from
/// the first.
fn triangular_vectors(b: &mut Emit, t: NodeId, lower: bool) -> Result<NodeId, CompileError> {
    let (dims, kind) = (b.dims(t).to_vec(), b.dtype(t));
    let (batch, n) = (dims[0], dims[1]);
    let empty = b.splat(kind, &dims, 0.0);
    let done = b.counted_loop("eigenvectors", n, &[empty, t], |b, i, s| {
        let (zero, last) = (b.index(0), b.index(n as i64 - 1));
        let i = if lower { i } else { b.sub(last, i) };
        let row = b.dynamic_slice(s[1], &[zero, i, zero], &[batch, 1, n]);
        let row = b.reshape(row, &[batch, n]);
        let spread = b.broadcast(row, &[0, 1], &dims);
        let product = b.mul(spread, s[0]);
        let along = sum(b, product, 1);
        let line = [batch, n];
        let place = b.iota(DType::S32, &line, 1);
        let here = b.compare(Direction::Eq, place, i);
        let own = keep(b, here, row);
        let own = sum(b, own, 1);
        let own = b.broadcast(own, &[0], &line);
        let values = super::jacobi::diagonal(b, s[1]);
        let gap = b.sub(own, values);
        // Equal eigenvalues: as far apart as rounding tells.
        let size = magnitude(b, s[1]);
        let norm = b.reduce(size, Binary::Max, 0.0, &[1, 2]);
        let real = b.dtype(norm);
        let (rounding, tiny, large) =
            if real == DType::F64 { (f64::EPSILON, 1e-290, 1e100) } else { (f64::from(f32::EPSILON), 1e-30, 1e15) };
        let least = b.with(Binary::Mul, norm, rounding);
        let least = b.with(Binary::Max, least, tiny);
        let least = b.broadcast(least, &[0], &line);
        let distance = magnitude(b, gap);
        let close = b.compare(Direction::Lt, distance, least);
        let least = b.convert(least, kind);
        let gap = b.select(close, least, gap);
        let value = b.binary(Binary::Div, along, gap);
        let value = b.neg(value);
        let direction = if lower { Direction::Lt } else { Direction::Gt };
        let inside = b.compare(direction, place, i);
        let value = keep(b, inside, value);
        let one = b.scalar(kind, 1.0);
        let value = b.select(here, one, value);
        // Vectors of nearly equal eigenvalues grow: their length does not matter.
        let size = magnitude(b, value);
        let limit = b.scalar(real, large);
        let over = b.compare(Direction::Gt, size, limit);
        let less = b.binary(Binary::Div, limit, size);
        let whole = b.scalar(real, 1.0);
        let factor = b.select(over, less, whole);
        let factor = b.convert(factor, kind);
        let value = b.mul(value, factor);
        let factor = b.broadcast(factor, &[0, 2], &dims);
        let vectors = b.mul(s[0], factor);
        let value = b.reshape(value, &[batch, 1, n]);
        Ok(vec![b.dynamic_update_slice(vectors, value, &[zero, i, zero]), s[1]])
    })?;
    Ok(done[0])
}

/// Columns of length one whose largest element is real (those in `real` are real but for the type).
fn normalised(b: &mut Emit, x: NodeId, real: Option<NodeId>) -> NodeId {
    let (dims, kind) = (b.dims(x).to_vec(), b.dtype(x));
    let line = [dims[0], dims[2]];
    let mirror = conjugate(b, x);
    let square = b.mul(x, mirror);
    let square = real_only(b, square);
    let norm = sum(b, square, 1);
    let norm = b.unary(Unary::Sqrt, norm);
    let most = b.reduce(square, Binary::Max, 0.0, &[1]);
    let most = b.broadcast(most, &[0, 2], &dims);
    let is_most = b.compare(Direction::Eq, square, most);
    // The first of the largest.
    let place = b.iota(DType::S32, &dims, 1);
    let beyond = b.index(dims[1] as i64);
    let place_of = b.select(is_most, place, beyond);
    let first = b.reduce(place_of, Binary::Min, dims[1] as f64, &[1]);
    let first = b.broadcast(first, &[0, 2], &dims);
    let chosen = b.compare(Direction::Eq, place, first);
    let largest = keep(b, chosen, x);
    let largest = sum(b, largest, 1);
    let (re, im) = (b.unary(Unary::Real, largest), b.unary(Unary::Imag, largest));
    let (rr, ii) = (b.mul(re, re), b.mul(im, im));
    let size = b.add(rr, ii);
    let size = b.unary(Unary::Sqrt, size);
    let back = b.neg(im);
    let phase = b.binary(Binary::Complex, re, back);
    let size = b.convert(size, kind);
    let phase = b.binary(Binary::Div, phase, size);
    let one = b.splat(kind, &line, 1.0);
    let phase = match real {
        Some(real) => b.select(real, one, phase),
        None => phase,
    };
    let norm = b.convert(norm, kind);
    let factor = b.binary(Binary::Div, phase, norm);
    let factor = b.broadcast(factor, &[0, 2], &dims);
    let y = b.mul(x, factor);
    let (re, im) = (b.unary(Unary::Real, y), b.unary(Unary::Imag, y));
    let flat = match real {
        Some(real) => {
            let real = b.broadcast(real, &[0, 2], &dims);
            b.or(chosen, real)
        }
        None => chosen,
    };
    let none = b.scalar(b.dtype(im), 0.0);
    let im = b.select(flat, none, im);
    b.binary(Binary::Complex, re, im)
}

/// Products of batches of matrices.
fn product(b: &mut Emit, x: NodeId, y: NodeId) -> NodeId {
    let dims = DotDims { lhs_contracting: vec![2], rhs_contracting: vec![1], lhs_batch: vec![0], rhs_batch: vec![0] };
    let kind = b.dtype(x);
    b.dot(x, y, dims, Precision::Highest, kind)
}

/// `geev`: eigenvalues (real matrices: real, imaginary parts), vectors from the left and the right where they are asked
/// for (else zeros), and what failed. `x` is `[.., n, n]`.
pub fn eig(b: &mut Emit, x: NodeId, asked: [bool; 2], lanes: u32) -> Result<Vec<NodeId>, CompileError> {
    let (given, dtype) = (b.dims(x).to_vec(), b.dtype(x));
    let outer = &given[..given.len() - 2];
    let n = given[given.len() - 1];
    let s = folded(b, x, lanes)?;
    let mut parts: Vec<NodeId> = values(b, &s);
    let real = parts.get(1).map(|&im| {
        let zero = b.scalar(b.dtype(im), 0.0);
        b.compare(Direction::Eq, im, zero)
    });
    parts.iter_mut().for_each(|v| *v = b.reshape(*v, &[outer, &[n]].concat()));
    let complex = if asked.contains(&true) && !dtype.is_complex() { triangular(b, &s)? } else { s };
    for (left, asked) in [true, false].into_iter().zip(asked) {
        let vectors = if asked {
            let t = if left { b.transpose(complex.form, &[0, 2, 1]) } else { complex.form };
            let y = triangular_vectors(b, t, left)?;
            let y = if left { conjugate(b, y) } else { y };
            let v = product(b, complex.vectors, y);
            normalised(b, v, real)
        } else {
            b.splat(dtype.complex(), &[b.dims(complex.form)[0], n, n], 0.0)
        };
        parts.push(b.reshape(vectors, &given));
    }
    parts.push(b.reshape(complex.info, outer));
    Ok(parts.into_iter().map(|p| out(b, p, dtype)).collect())
}

/// `gees`: T, Z, the eigenvalues, how many were chosen (none are), what failed.
pub fn schur_parts(b: &mut Emit, x: NodeId, lanes: u32) -> Result<Vec<NodeId>, CompileError> {
    let (given, dtype) = (b.dims(x).to_vec(), b.dtype(x));
    let outer = &given[..given.len() - 2];
    let n = given[given.len() - 1];
    let s = folded(b, x, lanes)?;
    let mut parts = vec![b.reshape(s.form, &given), b.reshape(s.vectors, &given)];
    for v in values(b, &s) {
        parts.push(b.reshape(v, &[outer, &[n]].concat()));
    }
    parts.push(b.splat(DType::S32, outer, 0.0));
    parts.push(b.reshape(s.info, outer));
    Ok(parts.into_iter().map(|p| out(b, p, dtype)).collect())
}

fn folded(b: &mut Emit, x: NodeId, lanes: u32) -> Result<Schur, CompileError> {
    let kind = wide(b.dtype(x));
    let a = fold_batch(b, x, 2);
    let a = b.convert(a, kind);
    schur(b, a, lanes)
}

/// A part in the type that the call gives: 16-bit floats are computed as f32.
fn out(b: &mut Emit, x: NodeId, dtype: DType) -> NodeId {
    if b.dtype(x) == wide(dtype) { b.convert(x, dtype) } else { x }
}
