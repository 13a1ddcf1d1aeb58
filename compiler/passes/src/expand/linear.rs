//! Cholesky factors, block by block: the factor of a diagonal block, the columns below it as a product with its inverse,
//! and the products of earlier columns taken off before. What is common to factorisations.
//!
//! Products are of the highest precision.

use super::fold_batch;
use super::many::Many;
use super::triangular::solve_block;
use crate::edit::Emit;
use crate::options::PassOptions;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, DotDims, Literal, NodeId, Op, PadDim, Precision, Shape, Unary};
use systole_isa::DType;

/// Diagonal blocks up to which a factorisation is written out.
pub(super) const UNROLLED: u64 = 32;

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
pub(super) fn places(b: &mut Emit, dims: &[u64], direction: Direction) -> NodeId {
    let (row, column) = (b.iota(DType::S32, dims, 1), b.iota(DType::S32, dims, 2));
    b.compare(direction, row, column)
}

/// A NaN of a type.
pub(super) fn nan(b: &mut Emit, dtype: DType) -> NodeId {
    let part = systole_hlo::graph::number::element_bytes(dtype.real(), f64::NAN);
    let bytes = if dtype.is_complex() { part.repeat(2) } else { part };
    b.constant(Literal::splat(dtype, &[], &bytes))
}

/// The product of matrices `[B, ..]` over one dimension of each, in the highest precision.
pub(super) fn product(b: &mut Emit, x: NodeId, y: NodeId, over: [usize; 2]) -> NodeId {
    let dims = DotDims {
        lhs_batch: vec![0],
        rhs_batch: vec![0],
        lhs_contracting: vec![over[0]],
        rhs_contracting: vec![over[1]],
    };
    let dtype = b.dtype(x);
    b.dot(x, y, dims, Precision::Highest, dtype)
}

/// The sizes of diagonal blocks: one for the whole matrix, or blocks that a kernel takes, or such that few steps are left
/// to single columns.
pub(super) struct Blocks {
    pub size: u64,
    pub count: u64,
    /// Whether kernels of their own take the blocks.
    pub native: bool,
    /// Blocks of a batch that such a kernel has room for.
    together: u64,
}

impl Blocks {
    /// Blocks of matrices of `n` rows on the chip of the options.
    pub fn of(dtype: DType, n: u64, options: &PassOptions) -> Blocks {
        const OTHERS: u64 = 32;
        /// The part of vector memory for a kernel's three arrays.
        const SHARE: u64 = 2;
        let (sub, lanes) = (u64::from(options.chip.tile.0), u64::from(options.chip.tile.1));
        let native = dtype == DType::F32 && lanes >= sub && lanes.is_multiple_of(sub);
        let size = match native {
            true => n.next_multiple_of(sub).min(lanes),
            false if n < 2 * OTHERS => n,
            false => OTHERS,
        };
        let together = options.chip.vmem_bytes / SHARE / (3 * 4 * size.max(1) * lanes.max(1));
        Blocks { size: size.max(1), count: n.div_ceil(size.max(1)), native, together: together.max(1) }
    }

    pub fn rows(&self) -> u64 {
        self.size * self.count
    }

    /// An operation that kernels take of arrays `[B, ..]`: on as many matrices at a time as there is room for. The last ones may be
    /// done twice.
    pub(super) fn emit(&self, b: &mut Emit, op: &Op, operands: &[NodeId]) -> Result<NodeId, CompileError> {
        let last = operands[operands.len() - 1];
        let (dtype, dims) = (b.dtype(last), b.dims(last).to_vec());
        let batch = dims[0];
        if batch <= self.together {
            return Ok(b.emit(op.clone(), operands, Shape::array(dtype, &dims)));
        }
        let count = batch.div_ceil(self.together);
        let some = batch.div_ceil(count);
        let start = b.splat(dtype, &dims, 0.0);
        let state = [operands, &[start]].concat();
        let done = b.counted_loop("some", count, &state, |b, i, s| {
            let zero = b.index(0);
            let at = b.with(Binary::Mul, i, some as f64);
            let at = b.with(Binary::Min, at, (batch - some) as f64);
            let mut parts = Vec::new();
            for &x in &s[..operands.len()] {
                let sizes = [&[some], &b.dims(x)[1..]].concat();
                parts.push(b.dynamic_slice(x, &[at, zero, zero], &sizes));
            }
            let sizes = [&[some], &dims[1..]].concat();
            let made = b.emit(op.clone(), &parts, Shape::array(dtype, &sizes));
            let mut next = s.to_vec();
            next[operands.len()] = b.dynamic_update_slice(s[operands.len()], made, &[at, zero, zero]);
            Ok(next)
        })?;
        Ok(done[operands.len()])
    }
}

/// `[B, n, n]` with ones on the diagonal behind, to `to` rows.
pub(super) fn extended(b: &mut Emit, a: NodeId, to: u64) -> NodeId {
    let n = b.dims(a)[1];
    if n == to {
        return a;
    }
    let kind = b.dtype(a);
    let none = b.scalar(kind, 0.0);
    let more = PadDim::edges(0, (to - n) as i64);
    let a = b.pad(a, none, &[PadDim::NONE, more, more]);
    let dims = b.dims(a).to_vec();
    let diagonal = places(b, &dims, Direction::Eq);
    let row = b.iota(DType::S32, &dims, 1);
    let limit = b.index(n as i64);
    let behind = b.compare(Direction::Ge, row, limit);
    let at = b.and(diagonal, behind);
    let one = b.scalar(kind, 1.0);
    b.select(at, one, a)
}

/// The factor of diagonal blocks `[B, k, k]` of which the lower triangle is read; zero above the diagonal.
fn factor_block(b: &mut Emit, a: NodeId, blocks: &Blocks) -> Result<NodeId, CompileError> {
    if !blocks.native {
        return by_columns(b, a);
    }
    let dims = b.dims(a).to_vec();
    let lower = places(b, &dims, Direction::Ge);
    let turned = b.transpose(a, &[0, 2, 1]);
    let whole = b.select(lower, a, turned);
    blocks.emit(b, &Op::Cholesky { lower: true }, &[whole])
}

/// `cholesky` of `[.., n, n]`.
pub fn cholesky(b: &mut Emit, x: NodeId, lower: bool, options: &PassOptions) -> Result<NodeId, CompileError> {
    let given = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let a = fold_batch(b, x, 2);
    let mut a = b.convert(a, wide);
    let dims = b.dims(a).to_vec();
    if !lower {
        a = b.transpose(a, &[0, 2, 1]);
        a = conjugate(b, a);
    }
    let mut factor = match Many::of(wide, dims[1], dims[0], options) {
        Some(many) => many.cholesky(b, a),
        None => in_blocks(b, a, options)?,
    };
    if !lower {
        factor = b.transpose(factor, &[0, 2, 1]);
        factor = conjugate(b, factor);
    }
    let factor = b.convert(factor, dtype);
    Ok(b.reshape(factor, &given))
}

/// The lower factors of `[B, n, n]`, block by block.
fn in_blocks(b: &mut Emit, a: NodeId, options: &PassOptions) -> Result<NodeId, CompileError> {
    let n = b.dims(a)[1];
    let blocks = Blocks::of(b.dtype(a), n, options);
    let a = extended(b, a, blocks.rows());
    let mut factor = match blocks.count {
        0 => a,
        1 => factor_block(b, a, &blocks)?,
        2..=UNROLLED => written_out(b, a, &blocks)?,
        _ => by_blocks(b, a, &blocks)?,
    };
    if blocks.rows() > n {
        factor = b.slice_dim(factor, 1, 0, n, 1);
        factor = b.slice_dim(factor, 2, 0, n, 1);
    }
    Ok(checked(b, factor))
}

/// A block of every matrix `[B, rows, columns]`: from the first row and column on, so many.
pub(super) fn part(b: &mut Emit, x: NodeId, (row, column): (u64, u64), (rows, columns): (u64, u64)) -> NodeId {
    let x = b.slice_dim(x, 1, row, row + rows, 1);
    b.slice_dim(x, 2, column, column + columns, 1)
}

/// Solutions for the identity: the inverse of lower blocks `[B, k, k]`.
pub(super) fn inverse_of(b: &mut Emit, factor: NodeId, blocks: &Blocks) -> Result<NodeId, CompileError> {
    let dims = b.dims(factor).to_vec();
    let kind = b.dtype(factor);
    let one = b.splat(kind, &dims, 1.0);
    let diagonal = places(b, &dims, Direction::Eq);
    let none = b.scalar(kind, 0.0);
    let identity = b.select(diagonal, one, none);
    let inverse = solve_block(b, factor, identity, true, blocks)?;
    Ok(conjugate(b, inverse))
}

/// The lower factor, block by block without a loop: every step is as large as what is left, whose products it takes off.
fn written_out(b: &mut Emit, a: NodeId, blocks: &Blocks) -> Result<NodeId, CompileError> {
    let (n, size, kind) = (b.dims(a)[1], blocks.size, b.dtype(a));
    let none = b.scalar(kind, 0.0);
    let mut rest = a;
    let mut columns = Vec::new();
    for at in (0..n).step_by(size as usize) {
        let left = n - at - size;
        let block = part(b, rest, (0, 0), (size, size));
        let factor = factor_block(b, block, blocks)?;
        let mut column = factor;
        if left > 0 {
            let inverse = inverse_of(b, factor, blocks)?;
            let below = part(b, rest, (size, 0), (left, size));
            let below = product(b, below, inverse, [2, 2]);
            column = b.concatenate(&[factor, below], 1);
            let other = conjugate(b, below);
            let known = product(b, below, other, [2, 2]);
            let behind = part(b, rest, (size, size), (left, left));
            rest = b.sub(behind, known);
        }
        columns.push(b.pad_dim(column, none, 1, (at as i64, 0)));
    }
    Ok(b.concatenate(&columns, 2))
}

/// The lower factor, one block of columns after the other.
fn by_blocks(b: &mut Emit, a: NodeId, blocks: &Blocks) -> Result<NodeId, CompileError> {
    let dims = b.dims(a).to_vec();
    let (batch, n, size) = (dims[0], dims[1], blocks.size);
    let kind = b.dtype(a);
    let start = b.splat(kind, &dims, 0.0);
    let done = b.counted_loop("cholesky", blocks.count, &[start, a], |b, i, s| {
        let zero = b.index(0);
        let at = b.with(Binary::Mul, i, size as f64);
        let panel = [batch, n, size];
        let rows = b.dynamic_slice(s[0], &[zero, at, zero], &[batch, size, n]);
        let rows = conjugate(b, rows);
        let known = product(b, s[0], rows, [2, 2]);
        let columns = b.dynamic_slice(s[1], &[zero, zero, at], &panel);
        let columns = b.sub(columns, known);
        let block = b.dynamic_slice(columns, &[zero, at, zero], &[batch, size, size]);
        let factor = factor_block(b, block, blocks)?;
        let none = b.scalar(kind, 0.0);
        let inverse = inverse_of(b, factor, blocks)?;
        let below = product(b, columns, inverse, [2, 2]);
        let row = b.iota(DType::S32, &panel, 1);
        let last = b.with(Binary::Add, at, size as f64);
        let behind = b.compare(Direction::Ge, row, last);
        let below = b.select(behind, below, none);
        let columns = b.dynamic_update_slice(below, factor, &[zero, at, zero]);
        let next = b.dynamic_update_slice(s[0], columns, &[zero, zero, at]);
        Ok(vec![next, s[1]])
    })?;
    Ok(done[0])
}

/// The factor of a matrix that is not positive definite: NaN everywhere.
fn checked(b: &mut Emit, factor: NodeId) -> NodeId {
    let dims = b.dims(factor).to_vec();
    let kind = b.dtype(factor);
    let check = b.unary(Unary::Real, factor);
    let sum = b.reduce(check, Binary::Add, 0.0, &[1, 2]);
    let ok = b.compare(Direction::Eq, sum, sum);
    let ok = b.broadcast(ok, &[0], &dims);
    let bad = nan(b, kind);
    let lower_part = places(b, &dims, Direction::Ge);
    let bad = b.broadcast(bad, &[], &dims);
    let none = b.splat(kind, &dims, 0.0);
    let bad = b.select(lower_part, bad, none);
    b.select(ok, factor, bad)
}

/// The lower factor of `[B, n, n]` column by column, the rest of the matrix updated each time.
fn by_columns(b: &mut Emit, a: NodeId) -> Result<NodeId, CompileError> {
    let wide = b.dtype(a);
    let dims = b.dims(a).to_vec();
    let n = dims[1];
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
    Ok(done[1])
}
