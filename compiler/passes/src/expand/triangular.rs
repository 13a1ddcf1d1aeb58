//! Triangular systems.
//!
//! Small f32 systems are solved for a whole batch at once, by the inverse of the matrix with its columns scaled to a unit
//! diagonal: the batch lies along lanes, and every multiplication is added with one rounding. Large ones go block by block
//! of rows: the products with the rows known before are taken off, and what is left is multiplied with the inverse of the
//! diagonal block (f32; a kernel inverts all of them at once) or solved row by row.

use super::linear::{Blocks, UNROLLED, conjugate, extended, part, places, product};
use super::many::Many;
use super::{fold_batch, known};
use crate::edit::Emit;
use crate::options::PassOptions;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId, Op, TriangularTranspose};
use systole_isa::DType;

/// Unknowns up to which a system is small.
const SMALL: u64 = 8;

/// Right sides, for every unknown, up to which many systems are solved by substitution: products with inverses take more of them at once.
const COLUMNS: u64 = 4;

/// How a triangular system is posed.
#[derive(Clone, Copy)]
pub struct Triangular {
    pub left: bool,
    pub lower: bool,
    pub unit_diagonal: bool,
    pub transpose: TriangularTranspose,
}

/// `triangular-solve` of `[.., n, n]` and `[.., n, m]` (or `[.., m, n]`).
pub fn triangular_solve(
    b: &mut Emit,
    a: NodeId,
    y: NodeId,
    t: Triangular,
    options: &PassOptions,
) -> Result<NodeId, CompileError> {
    let given = b.dims(y).to_vec();
    let dtype = b.dtype(y);
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let (a, y) = (fold_batch(b, a, 2), fold_batch(b, y, 2));
    let (a, mut y) = (b.convert(a, wide), b.convert(y, wide));
    let a = if t.unit_diagonal { with_ones(b, a) } else { a };
    // Pose it as op(A) X = Y: X A = Y is A^T X^T = Y^T.
    let turned = (t.transpose != TriangularTranspose::No) == t.left;
    if !t.left {
        y = b.transpose(y, &[0, 2, 1]);
    }
    let (batch, n, columns) = (b.dims(a)[0], b.dims(a)[1], b.dims(y)[2]);
    let many = Many::of(wide, n, batch, options).filter(|_| columns <= COLUMNS * n);
    let mut x = if wide == DType::F32 && (1..=SMALL).contains(&n) {
        small(b, a, y, t.lower, turned)
    } else if let Some(many) = many {
        many.solve(b, (a, turned), y, t.lower)
    } else {
        let a = if t.transpose == TriangularTranspose::Adjoint { conjugate(b, a) } else { a };
        large(b, (a, turned), y, t.lower, options)?
    };
    if !t.left {
        x = b.transpose(x, &[0, 2, 1]);
    }
    let x = b.convert(x, dtype);
    Ok(b.reshape(x, &given))
}

/// `[B, n, n]` with ones on the diagonal.
fn with_ones(b: &mut Emit, a: NodeId) -> NodeId {
    let dims = b.dims(a).to_vec();
    let diagonal = places(b, &dims, Direction::Eq);
    let one = b.scalar(b.dtype(a), 1.0);
    b.select(diagonal, one, a)
}

/// `x * y + z` of f32 arrays with one rounding: the product is exact in f64.
fn multiply_add(b: &mut Emit, x: NodeId, y: NodeId, z: NodeId) -> NodeId {
    let [x, y, z] = [x, y, z].map(|v| b.convert(v, DType::F64));
    let exact = b.mul(x, y);
    let sum = b.add(exact, z);
    b.convert(sum, DType::F32)
}

/// Row `i` of the first dimension, without it.
fn row(b: &mut Emit, x: NodeId, i: u64) -> NodeId {
    let dims = b.dims(x)[1..].to_vec();
    let one = b.slice_dim(x, 0, i, i + 1, 1);
    b.reshape(one, &dims)
}

/// The inverse of triangles `[n, n, B]`, its rows as `[n, B]` each. With the columns divided by the diagonal, a row of the
/// inverse is the row of the identity less the products with the rows that are known.
fn inverse(b: &mut Emit, a: NodeId, lower: bool) -> Vec<NodeId> {
    let (n, batch) = (b.dims(a)[0], b.dims(a)[2]);
    let line = [n, batch];
    let mut pivots = Vec::new();
    let mut rows = Vec::new();
    for i in 0..n {
        let r = row(b, a, i);
        pivots.push(row(b, r, i));
        rows.push(r);
    }
    let column = b.iota(DType::S32, &line, 0);
    let unit = |b: &mut Emit, i: u64| {
        let at = b.index(i as i64);
        let at = b.compare(Direction::Eq, column, at);
        let (one, none) = (b.splat(DType::F32, &line, 1.0), b.scalar(DType::F32, 0.0));
        b.select(at, one, none)
    };
    let mut known: Vec<Option<NodeId>> = vec![None; n as usize];
    let order: Vec<u64> = if lower { (0..n).collect() } else { (0..n).rev().collect() };
    for &i in &order {
        let mut sum = unit(b, i);
        for k in if lower { 0..i } else { i + 1..n } {
            let Some(other) = known[k as usize] else { continue };
            let entry = row(b, rows[i as usize], k);
            let entry = b.binary(Binary::Div, entry, pivots[k as usize]);
            let entry = b.neg(entry);
            let entry = b.broadcast(entry, &[1], &line);
            sum = multiply_add(b, entry, other, sum);
        }
        known[i as usize] = Some(sum);
    }
    let scaled = |(r, pivot): (NodeId, NodeId)| {
        let pivot = b.broadcast(pivot, &[1], &line);
        b.binary(Binary::Div, r, pivot)
    };
    known.into_iter().flatten().zip(pivots).map(scaled).collect()
}

/// `op(A) X = Y` of `[B, n, n]` and `[B, n, m]` with few unknowns. Sums are taken in two parts, of even and odd terms.
fn small(b: &mut Emit, a: NodeId, y: NodeId, lower: bool, turned: bool) -> NodeId {
    let [batch, n, m] = b.dims(y)[..] else { return y };
    let matrix = b.transpose(a, &[1, 2, 0]);
    let rows = inverse(b, matrix, lower);
    // The longer of batch and right sides lies along lanes.
    let (order, whole, across) = match batch > m {
        true => ([1, 2, 0], [n, m, batch], 2),
        false => ([1, 0, 2], [n, batch, m], 1),
    };
    let right = b.transpose(y, &order);
    let all: Vec<NodeId> = rows.iter().map(|&r| b.reshape(r, &[1, n, batch])).collect();
    let stacked = b.concatenate(&all, 0);
    // Column k of op(A)'s inverse.
    let columns = if turned { stacked } else { b.transpose(stacked, &[1, 0, 2]) };
    let none = b.splat(DType::F32, &whole, 0.0);
    let mut sums = [none, none];
    for k in 0..n {
        let factor = row(b, columns, k);
        let factor = b.broadcast(factor, &[0, across], &whole);
        let value = row(b, right, k);
        let value = b.broadcast(value, &[1, 2], &whole);
        let sum = &mut sums[k as usize % 2];
        *sum = multiply_add(b, factor, value, *sum);
    }
    let x = if n > 1 { b.add(sums[0], sums[1]) } else { sums[0] };
    let back = if batch > m { [2, 0, 1] } else { [1, 0, 2] };
    b.transpose(x, &back)
}

/// `A X = Y` (of `A`'s transpose, if it is to be turned) of `[B, n, n]` and `[B, n, m]`, block by block of rows.
fn large(
    b: &mut Emit,
    (a, turned): (NodeId, bool),
    y: NodeId,
    lower: bool,
    options: &PassOptions,
) -> Result<NodeId, CompileError> {
    let kind = b.dtype(a);
    let [batch, n, m] = b.dims(y)[..] else { return Ok(y) };
    let blocks = Blocks::of(kind, n, options);
    let (size, rows) = (blocks.size, blocks.rows());
    let a = extended(b, a, rows);
    let none = b.scalar(kind, 0.0);
    let y = if rows > n { b.pad_dim(y, none, 1, (0, (rows - n) as i64)) } else { y };
    let triangle = places(b, &[batch, rows, rows], if lower { Direction::Ge } else { Direction::Le });
    let a = b.select(triangle, a, none);
    let whole = if turned { b.transpose(a, &[0, 2, 1]) } else { a };
    // Kernels take as many right sides as there are lanes; more are multiplied with the inverse.
    let direct = !blocks.native || m <= u64::from(options.chip.tile.1);
    if blocks.count <= 1 && direct {
        let x = solve_block(b, whole, y, lower != turned, &blocks)?;
        return Ok(if rows > n { b.slice_dim(x, 1, 0, n, 1) } else { x });
    }
    // All blocks' inverses at once, whichever way round: systems of the same matrix share them.
    let inverses = if blocks.native { Some(inverses(b, (a, turned), lower, &blocks)?) } else { None };
    let (a, lower) = (whole, lower != turned);
    if blocks.count <= UNROLLED {
        // One column would lie along rows; a tile of them costs the same.
        let wide = if m == 1 { u64::from(options.chip.tile.0) } else { m };
        let y = if wide > m { b.pad_dim(y, none, 2, (0, (wide - m) as i64)) } else { y };
        let x = written_out(b, a, y, lower, (&blocks, inverses))?;
        return Ok(part(b, x, (0, 0), (n, m)));
    }
    let start = b.splat(kind, &[batch, rows, m], 0.0);
    let state: Vec<NodeId> = [start, a, y].into_iter().chain(inverses).collect();
    let done = b.counted_loop("triangular", blocks.count, &state, |b, counter, s| {
        let zero = b.index(0);
        let last = b.index(blocks.count as i64 - 1);
        let i = if lower { counter } else { b.sub(last, counter) };
        let at = b.with(Binary::Mul, i, size as f64);
        let known = b.dynamic_slice(s[1], &[zero, at, zero], &[batch, size, rows]);
        let known = product(b, known, s[0], [2, 1]);
        let want = b.dynamic_slice(s[2], &[zero, at, zero], &[batch, size, m]);
        let want = b.sub(want, known);
        let x = match s.get(3) {
            Some(&inverses) => {
                let first = b.with(Binary::Mul, i, batch as f64);
                let inverse = b.dynamic_slice(inverses, &[first, zero, zero], &[batch, size, size]);
                product(b, inverse, want, [2, 1])
            }
            None => {
                let block = b.dynamic_slice(s[1], &[zero, at, at], &[batch, size, size]);
                by_rows(b, block, want, lower)?
            }
        };
        let next = b.dynamic_update_slice(s[0], x, &[zero, at, zero]);
        Ok([&[next], &s[1..]].concat())
    })?;
    let x = done[0];
    Ok(if rows > n { b.slice_dim(x, 1, 0, n, 1) } else { x })
}

/// The inverses of the diagonal blocks, those of the first block of all matrices first: `[blocks * B, k, k]`.
fn inverses(b: &mut Emit, (a, turned): (NodeId, bool), lower: bool, blocks: &Blocks) -> Result<NodeId, CompileError> {
    let size = blocks.size;
    if let Some(known) = known::inverses(b, a, lower, blocks)? {
        let all = b.concatenate(&known, 0);
        return Ok(if turned { b.transpose(all, &[0, 2, 1]) } else { all });
    }
    let diagonal: Vec<NodeId> = (0..blocks.count).map(|i| part(b, a, (i * size, i * size), (size, size))).collect();
    let diagonal = b.concatenate(&diagonal, 0);
    let dims = b.dims(diagonal).to_vec();
    let zeros = b.splat(b.dtype(a), &dims, 0.0);
    let identity = with_ones(b, zeros);
    let all = solve_block(b, diagonal, identity, lower, blocks)?;
    Ok(if turned { b.transpose(all, &[0, 2, 1]) } else { all })
}

/// `A X = Y` block by block without a loop: what is known is taken off all that is left.
fn written_out(
    b: &mut Emit,
    a: NodeId,
    y: NodeId,
    lower: bool,
    (blocks, inverses): (&Blocks, Option<NodeId>),
) -> Result<NodeId, CompileError> {
    let (size, batch, m) = (blocks.size, b.dims(y)[0], b.dims(y)[2]);
    let mut rest = y;
    let mut parts = Vec::new();
    for i in 0..blocks.count {
        let left = blocks.rows() - (i + 1) * size;
        // Of the matrix, and of what is left: the block's first row, and the first row behind it.
        let (at, own, behind) = if lower { (i * size, 0, size) } else { (left, left, 0) };
        let want = part(b, rest, (own, 0), (size, m));
        let x = match inverses {
            Some(all) => {
                let first = at / size * batch;
                let inverse = b.slice_dim(all, 0, first, first + batch, 1);
                product(b, inverse, want, [2, 1])
            }
            None => {
                let block = part(b, a, (at, at), (size, size));
                by_rows(b, block, want, lower)?
            }
        };
        parts.push(x);
        if left > 0 {
            let factor = part(b, a, (if lower { at + size } else { 0 }, at), (left, size));
            let known = product(b, factor, x, [2, 1]);
            let more = part(b, rest, (behind, 0), (left, m));
            rest = b.sub(more, known);
        }
    }
    if !lower {
        parts.reverse();
    }
    Ok(b.concatenate(&parts, 1))
}

/// `A X = Y` of diagonal blocks.
pub(super) fn solve_block(
    b: &mut Emit,
    a: NodeId,
    y: NodeId,
    lower: bool,
    blocks: &Blocks,
) -> Result<NodeId, CompileError> {
    if !blocks.native {
        return by_rows(b, a, y, lower);
    }
    let op = Op::TriangularSolve { left: true, lower, unit_diagonal: false, transpose: TriangularTranspose::No };
    blocks.emit(b, &op, &[a, y])
}

/// `A X = Y` of `[B, n, n]` and `[B, n, m]`: row by row of the unknowns.
fn by_rows(b: &mut Emit, a: NodeId, y: NodeId, lower: bool) -> Result<NodeId, CompileError> {
    let wide = b.dtype(a);
    let (batch, n, m) = (b.dims(y)[0], b.dims(y)[1], b.dims(y)[2]);
    let dims = [batch, n, m];
    let start = b.splat(wide, &dims, 0.0);
    let done = b.counted_loop("rows", n, &[start, a, y], |b, counter, s| {
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
        let x = b.sub(want, sum);
        let pivot = b.dynamic_slice(row, &[zero, i], &[batch, 1]);
        let pivot = b.reshape(pivot, &[batch]);
        let pivot = b.broadcast(pivot, &[0], &[batch, m]);
        let x = b.binary(Binary::Div, x, pivot);
        let x = b.reshape(x, &[batch, 1, m]);
        let next = b.dynamic_update_slice(s[0], x, &[zero, i, zero]);
        Ok(vec![next, s[1], s[2]])
    })?;
    Ok(done[0])
}
