//! Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations.
//!
//! Rows and columns are paired first half with second half; a step rotates all pairs at once and then moves every index
//! but the first one place on, so that a sweep of n - 1 steps meets every pair once and ends as it began. The number of
//! sweeps depends on size and type alone.

use crate::edit::Emit;
use crate::expand::{fold_batch, runs, sort};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, DotDims, NodeId, Op, Order, PadDim, Precision, Shape, Unary};
use systole_isa::DType;

/// Sweeps that bring off-diagonal elements below the rounding of the type (quadratic convergence).
fn sweeps(n: u64, dtype: DType) -> u64 {
    let more = if dtype == DType::F64 { 2 } else { 0 };
    6 + more + u64::from(n.max(2).ilog2())
}

/// The matrix with another row (and column, if `square`) of zeros where its columns are odd in number.
fn even(b: &mut Emit, x: NodeId, square: bool) -> NodeId {
    let n = b.dims(x)[2];
    if n.is_multiple_of(2) {
        return x;
    }
    let zero = b.scalar(b.dtype(x), 0.0);
    b.pad(x, zero, &[PadDim::NONE, PadDim::edges(0, i64::from(square)), PadDim::edges(0, 1)])
}

/// The diagonal of `[B, n, n]`.
pub(super) fn diagonal(b: &mut Emit, x: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let (row, column) = (b.iota(DType::S32, &dims, 1), b.iota(DType::S32, &dims, 2));
    let at = b.compare(Direction::Eq, row, column);
    let none = b.scalar(b.dtype(x), 0.0);
    let kept = b.select(at, x, none);
    b.reduce(kept, Binary::Add, 0.0, &[2])
}

pub(super) fn identity(b: &mut Emit, dtype: DType, batch: u64, n: u64) -> NodeId {
    let dims = [batch, n, n];
    let (row, column) = (b.iota(DType::S32, &dims, 1), b.iota(DType::S32, &dims, 2));
    let at = b.compare(Direction::Eq, row, column);
    b.convert(at, dtype)
}

/// Cosines and sines of the rotations that take `apq` away between diagonal elements `app` and `aqq`.
fn angles(b: &mut Emit, app: NodeId, aqq: NodeId, apq: NodeId) -> (NodeId, NodeId) {
    let difference = b.sub(aqq, app);
    let twice = b.add(apq, apq);
    let tau = b.binary(Binary::Div, difference, twice);
    let square = b.mul(tau, tau);
    let root = b.with(Binary::Add, square, 1.0);
    let root = b.unary(Unary::Sqrt, root);
    let size = b.unary(Unary::Abs, tau);
    let sum = b.add(size, root);
    let zero = b.scalar(b.dtype(tau), 0.0);
    let (one, minus) = (b.scalar(b.dtype(tau), 1.0), b.scalar(b.dtype(tau), -1.0));
    let up = b.compare(Direction::Ge, tau, zero);
    let sign = b.select(up, one, minus);
    let t = b.binary(Binary::Div, sign, sum);
    let none = b.compare(Direction::Eq, apq, zero);
    let t = b.select(none, zero, t);
    let square = b.mul(t, t);
    let c = b.with(Binary::Add, square, 1.0);
    let c = b.unary(Unary::Sqrt, c);
    let c = b.binary(Binary::Div, one, c);
    let s = b.mul(t, c);
    (c, s)
}

/// Rotates the halves of dimension `dim` of `[B, ..]` against each other, then moves its indices on.
fn turn(b: &mut Emit, x: NodeId, dim: usize, c: NodeId, s: NodeId) -> NodeId {
    let n = b.dims(x)[dim];
    let k = n / 2;
    let (p, q) = (b.slice_dim(x, dim, 0, k, 1), b.slice_dim(x, dim, k, n, 1));
    let dims = b.dims(p).to_vec();
    let (c, s) = (b.broadcast(c, &[0, dim], &dims), b.broadcast(s, &[0, dim], &dims));
    let (cp, sq, sp, cq) = (b.mul(c, p), b.mul(s, q), b.mul(s, p), b.mul(c, q));
    let (p, q) = (b.sub(cp, sq), b.add(sp, cq));
    if k < 2 {
        return b.concatenate(&[p, q], dim);
    }
    let parts = [
        b.slice_dim(p, dim, 0, 1, 1),
        b.slice_dim(q, dim, 0, 1, 1),
        b.slice_dim(p, dim, 1, k - 1, 1),
        b.slice_dim(q, dim, 1, k, 1),
        b.slice_dim(p, dim, k - 1, k, 1),
    ];
    let some: Vec<NodeId> = parts.into_iter().filter(|x| b.dims(*x)[dim] > 0).collect();
    b.concatenate(&some, dim)
}

/// Eigenvectors (columns) and eigenvalues of symmetric matrices `[.., n, n]`; `lower`: the triangle that is read.
/// Sorted ascending if asked for.
pub fn eigh(b: &mut Emit, x: NodeId, lower: bool, sorted: bool) -> Result<[NodeId; 2], CompileError> {
    let given = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let kind = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let a = fold_batch(b, x, 2);
    let a = b.convert(a, kind);
    let dims = b.dims(a).to_vec();
    let (batch, n) = (dims[0], dims[1]);
    // What the other triangle holds does not matter.
    let (row, column) = (b.iota(DType::S32, &dims, 1), b.iota(DType::S32, &dims, 2));
    let direction = if lower { Direction::Ge } else { Direction::Le };
    let read = b.compare(direction, row, column);
    let mirror = b.transpose(a, &[0, 2, 1]);
    let a = b.select(read, a, mirror);
    let a = even(b, a, true);
    let size = b.dims(a)[1];
    let k = size / 2;
    let vectors = identity(b, kind, batch, size);
    let steps = sweeps(n, kind) * (size.max(2) - 1);
    let done = b.counted_loop("eigh", steps, &[a, vectors], |b, _, s| {
        let all = diagonal(b, s[0]);
        let (app, aqq) = (b.slice_dim(all, 1, 0, k, 1), b.slice_dim(all, 1, k, size, 1));
        let corner = b.slice_dim(s[0], 1, 0, k, 1);
        let corner = b.slice_dim(corner, 2, k, size, 1);
        let apq = diagonal(b, corner);
        let (c, sine) = angles(b, app, aqq, apq);
        let rows = turn(b, s[0], 1, c, sine);
        let next = turn(b, rows, 2, c, sine);
        let vectors = turn(b, s[1], 1, c, sine);
        Ok(vec![next, vectors])
    })?;
    let values = diagonal(b, done[0]);
    let values = b.slice_dim(values, 1, 0, n, 1);
    let vectors = b.slice_dim(done[1], 1, 0, n, 1);
    let vectors = b.slice_dim(vectors, 2, 0, n, 1);
    let (values, vectors) = if sorted { order(b, values, vectors, Direction::Lt)? } else { (values, vectors) };
    let vectors = b.transpose(vectors, &[0, 2, 1]);
    let vectors = b.convert(vectors, dtype);
    let values = b.convert(values, dtype);
    let outer = &given[..given.len() - 2];
    Ok([b.reshape(vectors, &given), b.reshape(values, &[outer, &[n]].concat())])
}

/// Values `[B, n]` in order, and the rows of `[B, n, m]` with them.
fn order(b: &mut Emit, values: NodeId, rows: NodeId, direction: Direction) -> Result<(NodeId, NodeId), CompileError> {
    let dims = b.dims(values).to_vec();
    let dtype = b.dtype(values);
    if dims[1] < 2 {
        return Ok((values, rows));
    }
    let places = b.iota(DType::S32, &dims, 1);
    let body = b.computation("by_value", |b| {
        let (scalar, index) = (Shape::array(dtype, &[]), Shape::array(DType::S32, &[]));
        let (p, q) = (b.parameter(scalar.clone()), b.parameter(scalar));
        b.parameter(index.clone());
        b.parameter(index);
        Ok(b.raw(Op::Compare { direction, order: Order::Total }, &[p, q], Shape::array(DType::Pred, &[])))
    })?;
    let sort = sort::lower(b, 1, body, &[values, places], runs::Room::ENOUGH)?;
    let parts = b.elements_of(sort);
    // Rows move by a product with a matrix of ones and zeros, which is exact.
    let square = [dims[0], dims[1], dims[1]];
    let from = b.broadcast(parts[1], &[0, 1], &square);
    let at = b.iota(DType::S32, &square, 2);
    let chosen = b.compare(Direction::Eq, from, at);
    let chosen = b.convert(chosen, b.dtype(rows));
    let product =
        DotDims { lhs_contracting: vec![2], rhs_contracting: vec![1], lhs_batch: vec![0], rhs_batch: vec![0] };
    let kind = b.dtype(rows);
    Ok((parts[0], b.dot(chosen, rows, product, Precision::Highest, kind)))
}

/// Singular values of `[.., m, n]` (descending), left vectors `[.., m, k]` and right ones `[.., k, n]`, k the smaller of
/// m and n.
pub fn svd(b: &mut Emit, x: NodeId) -> Result<[NodeId; 3], CompileError> {
    let given = b.dims(x).to_vec();
    let outer = given[..given.len() - 2].to_vec();
    let dtype = b.dtype(x);
    let kind = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let a = fold_batch(b, x, 2);
    let a = b.convert(a, kind);
    let (batch, m, n) = (b.dims(a)[0], b.dims(a)[1], b.dims(a)[2]);
    // Rows of the state are the shorter side's vectors.
    let flip = m >= n;
    let rows = if flip { b.transpose(a, &[0, 2, 1]) } else { a };
    let (count, length) = (m.min(n), m.max(n));
    let rows = {
        let turned = b.transpose(rows, &[0, 2, 1]);
        let padded = even(b, turned, false);
        b.transpose(padded, &[0, 2, 1])
    };
    let size = b.dims(rows)[1];
    let k = size / 2;
    let vectors = identity(b, kind, batch, size);
    let steps = sweeps(count, kind) * (size.max(2) - 1);
    let done = b.counted_loop("svd", steps, &[rows, vectors], |b, _, s| {
        let (p, q) = (b.slice_dim(s[0], 1, 0, k, 1), b.slice_dim(s[0], 1, k, size, 1));
        let mut inner = |x, y| {
            let product = b.mul(x, y);
            b.reduce(product, Binary::Add, 0.0, &[2])
        };
        let (app, aqq, apq) = (inner(p, p), inner(q, q), inner(p, q));
        let (c, sine) = angles(b, app, aqq, apq);
        let next = turn(b, s[0], 1, c, sine);
        let vectors = turn(b, s[1], 1, c, sine);
        Ok(vec![next, vectors])
    })?;
    let long = b.slice_dim(done[0], 1, 0, count, 1);
    let short = b.slice_dim(done[1], 1, 0, count, 1);
    let short = b.slice_dim(short, 2, 0, count, 1);
    let square = b.mul(long, long);
    let square = b.reduce(square, Binary::Add, 0.0, &[2]);
    let values = b.unary(Unary::Sqrt, square);
    let both = b.concatenate(&[long, short], 2);
    let (values, both) = order(b, values, both, Direction::Gt)?;
    let long = b.slice_dim(both, 2, 0, length, 1);
    let short = b.slice_dim(both, 2, length, length + count, 1);
    let dims = b.dims(long).to_vec();
    let spread = b.broadcast(values, &[0, 1], &dims);
    let zero = b.scalar(kind, 0.0);
    let none = b.compare(Direction::Eq, spread, zero);
    let unit = b.binary(Binary::Div, long, spread);
    let long = b.select(none, zero, unit);
    let (left, right) = if flip { (long, short) } else { (short, long) };
    let left = b.transpose(left, &[0, 2, 1]);
    let mut out = |x, last: &[u64]| {
        let x = b.convert(x, dtype);
        b.reshape(x, &[&outer[..], last].concat())
    };
    Ok([out(values, &[count]), out(left, &[m, count]), out(right, &[count, n])])
}
