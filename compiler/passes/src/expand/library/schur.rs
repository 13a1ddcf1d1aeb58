//! Schur's form of square matrices by shifted QR steps on their Hessenberg form.
//!
//! A step has two shifts, the eigenvalues of the last two rows (Francis), and chases the bulge that they make down the
//! matrix by reflectors of three rows. It works on the last block that is not finished: finished are blocks of one or two
//! rows. All matrices of a batch step together, each on a block of its own. Blocks of two are then made triangular where
//! their eigenvalues are of the element type; other blocks get equal diagonal elements, as LAPACK leaves them.
//!
//! Matrices have a row and a column of zeros more than they need, so that three rows can be taken at every place.

use super::factor::{self, Reflector, keep, magnitude, reflected, reflected_right, reflector, sum};
use super::form::Form;
use super::jacobi::{diagonal, identity};
use crate::edit::Emit;
use crate::expand::linear::{conjugate, real_only};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId, PadDim, Unary};
use systole_isa::DType;

/// Steps without success after which other shifts are tried.
const STUCK: f64 = 10.0;

/// Steps for every row, of small matrices at least for ten.
const STEPS: u64 = 30;

/// `A = Z T Z^H` of matrices `[B, n, n]`.
pub struct Schur {
    /// T.
    pub form: NodeId,
    /// Z.
    pub vectors: NodeId,
    /// 0, or the row (from 1) at which the steps were too many.
    pub info: NodeId,
}

/// Distance of 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    if dtype.real() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// The matrix with so many rows and columns of zeros more at the end.
fn padded(b: &mut Emit, x: NodeId, more: [i64; 3]) -> NodeId {
    let zero = b.scalar(b.dtype(x), 0.0);
    b.pad(x, zero, &more.map(|high| PadDim::edges(0, high)))
}

/// One element of every row of `[B, m]`, at the place that `[B]` says (zero where there is none).
fn pick(b: &mut Emit, x: NodeId, place: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let (at, place) = (b.iota(DType::S32, &dims, 1), b.broadcast(place, &[0], &dims));
    let chosen = b.compare(Direction::Eq, at, place);
    let kept = keep(b, chosen, x);
    sum(b, kept, 1)
}

/// The diagonal, and those below and above it with a zero at the end: each `[B, n]`.
struct Diagonals {
    main: NodeId,
    below: NodeId,
    above: NodeId,
}

fn diagonals(b: &mut Emit, h: NodeId, n: u64) -> Diagonals {
    let part = |b: &mut Emit, row: u64, column: u64| {
        let x = b.slice_dim(h, 1, row, row + n, 1);
        let x = b.slice_dim(x, 2, column, column + n, 1);
        diagonal(b, x)
    };
    Diagonals { main: part(b, 0, 0), below: part(b, 1, 0), above: part(b, 0, 1) }
}

/// Makes negligible elements below the diagonal zero; gives the matrix and the first and last row of the last block of
/// three rows or more, both 0 where there is none.
fn window(b: &mut Emit, h: NodeId, n: u64) -> [NodeId; 3] {
    let dims = b.dims(h).to_vec();
    let line = [dims[0], n];
    let d = diagonals(b, h, n);
    let (main, below) = (magnitude(b, d.main), magnitude(b, d.below));
    let next = b.slice_dim(main, 1, 1, n, 1);
    let next = {
        let zero = b.scalar(b.dtype(next), 0.0);
        b.pad_dim(next, zero, 1, (0, 1))
    };
    let around = b.add(main, next);
    // Beside zeros on the diagonal the whole matrix is the measure.
    let all = magnitude(b, h);
    let norm = b.reduce(all, Binary::Max, 0.0, &[1, 2]);
    let norm = b.broadcast(norm, &[0], &line);
    let zero = b.scalar(b.dtype(around), 0.0);
    let nothing = b.compare(Direction::Eq, around, zero);
    let around = b.select(nothing, norm, around);
    let least = b.with(Binary::Mul, around, epsilon(b.dtype(around)));
    let small = b.compare(Direction::Le, below, least);
    let small = b.convert(small, DType::S32);
    let wide = padded_line(b, small, dims[2] - n);
    let wide = b.broadcast(wide, &[0, 2], &dims);
    let zero = b.index(0);
    let small_here = b.compare(Direction::Ne, wide, zero);
    let (row, column) = (b.iota(DType::S32, &dims, 1), b.iota(DType::S32, &dims, 2));
    let under = b.with(Binary::Add, column, 1.0);
    let under = b.compare(Direction::Eq, row, under);
    let gone = b.and(small_here, under);
    let none = b.scalar(b.dtype(h), 0.0);
    let h = b.select(gone, none, h);
    // Block of three: two open elements in a row, the last of them gives its end.
    let (first, second) = (b.slice_dim(small, 1, 0, n - 2, 1), b.slice_dim(small, 1, 1, n - 1, 1));
    let either = b.add(first, second);
    let places = b.iota(DType::S32, &[dims[0], n - 2], 1);
    let ends = b.with(Binary::Add, places, 2.0);
    let both = b.compare(Direction::Eq, either, zero);
    let ends = b.select(both, ends, zero);
    let last = b.reduce(ends, Binary::Max, 0.0, &[1]);
    let places = b.iota(DType::S32, &line, 1);
    let after = b.with(Binary::Add, places, 1.0);
    let end = b.broadcast(last, &[0], &line);
    let inside = b.compare(Direction::Lt, after, end);
    let closed = b.compare(Direction::Ne, small, zero);
    let starts = b.and(inside, closed);
    let starts = b.select(starts, after, zero);
    let first = b.reduce(starts, Binary::Max, 0.0, &[1]);
    [h, first, last]
}

/// `[B, n]` with zeros at the end.
fn padded_line(b: &mut Emit, x: NodeId, more: u64) -> NodeId {
    let zero = b.scalar(b.dtype(x), 0.0);
    b.pad_dim(x, zero, 1, (0, more as i64))
}

/// The first column of (H - s)(H - t) over its element below the diagonal, s and t the shifts: `[B, 3]`.
fn first_column(b: &mut Emit, h: NodeId, n: u64, [first, last, stuck]: [NodeId; 3]) -> NodeId {
    let d = diagonals(b, h, n);
    let batch = b.dims(first)[0];
    let before = b.with(Binary::Add, last, -1.0);
    let second = b.with(Binary::Add, first, 1.0);
    let (z, low, up) = (pick(b, d.main, first), pick(b, d.below, first), pick(b, d.above, first));
    let (z1, low1) = (pick(b, d.main, second), pick(b, d.below, second));
    let (x, y) = (pick(b, d.main, last), pick(b, d.main, before));
    let (below, above) = (pick(b, d.below, before), pick(b, d.above, before));
    let w = b.mul(below, above);
    // Other shifts where the usual ones do not help.
    let earlier = b.with(Binary::Add, last, -2.0);
    let other = pick(b, d.below, earlier);
    let (size, other) = (magnitude(b, below), magnitude(b, other));
    let size = b.add(size, other);
    let size = b.convert(size, b.dtype(h));
    let offset = b.with(Binary::Mul, size, 0.75);
    let odd = b.add(x, offset);
    let square = b.mul(size, size);
    let odd_w = b.with(Binary::Mul, square, -0.4375);
    let count = b.with(Binary::Rem, stuck, STUCK);
    let turn = b.index(STUCK as i64 - 1);
    let turn = b.compare(Direction::Eq, count, turn);
    let (x, y, w) = (b.select(turn, odd, x), b.select(turn, odd, y), b.select(turn, odd_w, w));
    let (r, s) = (b.sub(x, z), b.sub(y, z));
    let product = b.mul(r, s);
    let product = b.sub(product, w);
    let p = b.binary(Binary::Div, product, low);
    let p = b.add(p, up);
    let q = b.sub(z1, z);
    let q = b.sub(q, r);
    let q = b.sub(q, s);
    let parts = [p, q, low1].map(|x| b.reshape(x, &[batch, 1]));
    b.concatenate(&parts, 1)
}

/// One step of the bulge: rows and columns k .. k + 3 of the matrices whose block `first ..= last` it is in.
fn chase(b: &mut Emit, k: NodeId, s: &[NodeId]) -> Vec<NodeId> {
    let [h, z, start, first, last] = s else { unreachable!("the state of the chase") };
    let (zero, kind) = (b.index(0), b.dtype(*h));
    let (hd, zd) = (b.dims(*h).to_vec(), b.dims(*z).to_vec());
    let (batch, size) = (hd[0], hd[1]);
    let three = [batch, 3];
    let left = b.with(Binary::Add, k, -1.0);
    let left = b.binary(Binary::Max, left, zero);
    let column = b.dynamic_slice(*h, &[zero, k, left], &[batch, 3, 1]);
    let column = b.reshape(column, &three);
    let at_first = b.compare(Direction::Eq, *first, k);
    let begin = b.broadcast(at_first, &[0], &three);
    let column = b.select(begin, *start, column);
    let (from, to) = (b.compare(Direction::Le, *first, k), b.compare(Direction::Gt, *last, k));
    let active = b.and(from, to);
    // Rows of the block only.
    let place = b.iota(DType::S32, &three, 1);
    let row = b.add(place, k);
    let end = b.broadcast(*last, &[0], &three);
    let inside = b.compare(Direction::Le, row, end);
    let spread = b.broadcast(active, &[0], &three);
    let inside = b.and(inside, spread);
    let column = keep(b, inside, column);
    let Reflector { tau, v, .. } = reflector(b, Form::Apart, column, zero);
    let turned = conjugate(b, tau);
    let wide = [batch, 3, size];
    let rows = b.dynamic_slice(*h, &[zero, k, zero], &wide);
    let less = reflected(b, Form::Apart, v, rows, turned, wide);
    let rows = b.sub(rows, less);
    // What the reflector takes away is nothing, not rounding.
    let behind = b.compare(Direction::Lt, *first, k);
    let behind = b.and(behind, active);
    let behind = b.broadcast(behind, &[0], &wide);
    let (down, across) = (b.iota(DType::S32, &wide, 1), b.iota(DType::S32, &wide, 2));
    let under = b.compare(Direction::Gt, down, zero);
    let there = b.compare(Direction::Eq, across, left);
    let gone = b.and(under, there);
    let gone = b.and(gone, behind);
    let none = b.scalar(kind, 0.0);
    let rows = b.select(gone, none, rows);
    let h = b.dynamic_update_slice(*h, rows, &[zero, k, zero]);
    let mut right = |x: NodeId, rows: u64| {
        let tall = [batch, rows, 3];
        let columns = b.dynamic_slice(x, &[zero, zero, k], &tall);
        let less = reflected_right(b, Form::Apart, v, columns, tau, tall);
        let columns = b.sub(columns, less);
        b.dynamic_update_slice(x, columns, &[zero, zero, k])
    };
    vec![right(h, size), right(*z, zd[1]), *start, *first, *last]
}

/// Steps until every block is finished, or there were too many.
fn steps(b: &mut Emit, h: NodeId, z: NodeId, n: u64) -> Result<[NodeId; 3], CompileError> {
    let batch = b.dims(h)[0];
    let most = (STEPS * n.max(10)) as i64;
    let [h, first, last] = window(b, h, n);
    let stuck = b.splat(DType::S32, &[batch], 0.0);
    let far = b.reduce(last, Binary::Max, 0.0, &[0]);
    let zero = b.index(0);
    let done = b.while_loop(
        "schur",
        &[zero, far, h, z, first, last, stuck],
        |b, s| {
            let (zero, most) = (b.index(0), b.index(most));
            let (open, early) = (b.compare(Direction::Gt, s[1], zero), b.compare(Direction::Lt, s[0], most));
            Ok(b.and(open, early))
        },
        |b, s| {
            let &[count, far, h, z, first, last, stuck] = s else { unreachable!("the state of the steps") };
            let start = first_column(b, h, n, [first, last, stuck]);
            let zero = b.index(0);
            let open = b.compare(Direction::Gt, last, zero);
            let beyond = b.index(n as i64);
            let begin = b.select(open, first, beyond);
            let begin = b.reduce(begin, Binary::Min, n as f64, &[0]);
            let chased = b.while_loop(
                "schur.chase",
                &[begin, far, h, z, start, first, last],
                |b, s| Ok(b.compare(Direction::Lt, s[0], s[1])),
                |b, s| {
                    let mut next = chase(b, s[0], &s[2..]);
                    next.splice(0..0, [b.with(Binary::Add, s[0], 1.0), s[1]]);
                    Ok(next)
                },
            )?;
            let [h, first, end] = window(b, chased[2], n);
            let far = b.reduce(end, Binary::Max, 0.0, &[0]);
            let same = b.compare(Direction::Eq, end, last);
            let again = b.with(Binary::Add, stuck, 1.0);
            let none = b.index(0);
            let stuck = b.select(same, again, none);
            Ok(vec![b.with(Binary::Add, count, 1.0), far, h, chased[3], first, end, stuck])
        },
    )?;
    let (zero, number) = (b.index(0), b.with(Binary::Add, done[5], 1.0));
    let open = b.compare(Direction::Gt, done[5], zero);
    Ok([done[2], done[3], b.select(open, number, zero)])
}

/// The first column (u0, u1) of the unitary matrix that makes a block [a b; c d] triangular, and where it does; of real
/// blocks with complex eigenvalues the one that makes a and d equal.
fn block_turn(b: &mut Emit, [a, up, c, d]: [NodeId; 4]) -> [NodeId; 3] {
    let kind = b.dtype(a);
    let p = b.sub(a, d);
    let p = b.with(Binary::Mul, p, 0.5);
    let (pp, bc) = (b.mul(p, p), b.mul(up, c));
    let square = b.add(pp, bc);
    let (none, one) = (b.scalar(kind, 0.0), b.scalar(kind, 1.0));
    let triangular = b.compare(Direction::Eq, c, none);
    let unit = |b: &mut Emit, x: NodeId, y: NodeId| {
        let (mx, my) = (conjugate(b, x), conjugate(b, y));
        let (xx, yy) = (b.mul(x, mx), b.mul(y, my));
        let size = b.add(xx, yy);
        let size = real_only(b, size);
        let size = b.unary(Unary::Sqrt, size);
        let size = b.convert(size, kind);
        (b.binary(Binary::Div, x, size), b.binary(Binary::Div, y, size))
    };
    // The eigenvector (p + root, c), with the root of the larger sum.
    let real = if kind.is_complex() { b.compare(Direction::Eq, a, a) } else { b.compare(Direction::Ge, square, none) };
    let inside = if kind.is_complex() { square } else { keep(b, real, square) };
    let root = b.unary(Unary::Sqrt, inside);
    let (high, low) = (b.add(p, root), b.sub(p, root));
    let (size, other) = (magnitude(b, high), magnitude(b, low));
    let higher = b.compare(Direction::Ge, size, other);
    let z = b.select(higher, high, low);
    let (mut u0, mut u1) = unit(b, z, c);
    if !kind.is_complex() {
        // Half the angle of (b + c, a - d).
        let sigma = b.add(up, c);
        let difference = b.with(Binary::Mul, p, 2.0);
        let size = b.unary(Unary::Abs, sigma);
        let (s, _) = unit(b, size, difference);
        let half = b.with(Binary::Add, s, 1.0);
        let half = b.with(Binary::Mul, half, 0.5);
        let cosine = b.unary(Unary::Sqrt, half);
        let (_, t) = unit(b, sigma, difference);
        let twice = b.with(Binary::Mul, cosine, 2.0);
        let sine = b.binary(Binary::Div, t, twice);
        let sine = b.neg(sine);
        let up = b.compare(Direction::Ge, sigma, none);
        let other = b.neg(sine);
        let sine = b.select(up, sine, other);
        let equal = b.compare(Direction::Eq, p, none);
        let (cosine, sine) = (b.select(equal, one, cosine), b.select(equal, none, sine));
        u0 = b.select(real, u0, cosine);
        u1 = b.select(real, u1, sine);
    }
    [b.select(triangular, one, u0), b.select(triangular, none, u1), real]
}

/// Rows (`dim` 1) or columns (2) k and k + 1 turned by the unitary matrix with the first column u.
fn turned(b: &mut Emit, x: NodeId, k: NodeId, dim: usize, [u0, u1]: [NodeId; 2]) -> NodeId {
    let (zero, mut sizes) = (b.index(0), b.dims(x).to_vec());
    let mut at = [zero; 3];
    at[dim] = k;
    sizes[dim] = 2;
    let pair = b.dynamic_slice(x, &at, &sizes);
    let (p, q) = (b.slice_dim(pair, dim, 0, 1, 1), b.slice_dim(pair, dim, 1, 2, 1));
    let line = b.dims(p).to_vec();
    let (m0, m1) = (conjugate(b, u0), conjugate(b, u1));
    let [u0, u1, m0, m1] = [u0, u1, m0, m1].map(|u| b.broadcast(u, &[0], &line));
    // Rows by the conjugate transpose from the left, columns by the matrix from the right.
    let (f0, f1, g0, g1) = if dim == 1 { (m0, m1, u0, u1) } else { (u0, u1, m0, m1) };
    let (a, c) = (b.mul(f0, p), b.mul(f1, q));
    let first = b.add(a, c);
    let (a, c) = (b.mul(g0, q), b.mul(g1, p));
    let second = b.sub(a, c);
    let pair = b.concatenate(&[first, second], dim);
    b.dynamic_update_slice(x, pair, &at)
}

/// Blocks of two in their final form.
fn blocks(b: &mut Emit, h: NodeId, z: NodeId, n: u64) -> Result<[NodeId; 2], CompileError> {
    let done = b.counted_loop("schur.blocks", n.saturating_sub(1), &[h, z], |b, k, s| {
        let (zero, batch) = (b.index(0), b.dims(s[0])[0]);
        let elements = |b: &mut Emit, h: NodeId| {
            let two = b.dynamic_slice(h, &[zero, k, k], &[batch, 2, 2]);
            let four = b.reshape(two, &[batch, 4]);
            [0, 1, 2, 3].map(|i| {
                let one = b.slice_dim(four, 1, i, i + 1, 1);
                b.reshape(one, &[batch])
            })
        };
        let given = elements(b, s[0]);
        let [u0, u1, real] = block_turn(b, given);
        let rows = turned(b, s[0], k, 1, [u0, u1]);
        let both = turned(b, rows, k, 2, [u0, u1]);
        let vectors = turned(b, s[1], k, 2, [u0, u1]);
        // Exact where it is known what comes out.
        let [a, up, c, d] = elements(b, both);
        let none = b.splat(b.dtype(a), &[batch], 0.0);
        let c = b.select(real, none, c);
        let middle = b.add(a, d);
        let middle = b.with(Binary::Mul, middle, 0.5);
        let (a, d) = (b.select(real, a, middle), b.select(real, d, middle));
        let parts = [a, up, c, d].map(|x| b.reshape(x, &[batch, 1]));
        let block = b.concatenate(&parts, 1);
        let block = b.reshape(block, &[batch, 2, 2]);
        Ok(vec![b.dynamic_update_slice(both, block, &[zero, k, k]), vectors])
    })?;
    Ok([done[0], done[1]])
}

/// The square part of a matrix.
fn cut(b: &mut Emit, x: NodeId, n: u64) -> NodeId {
    let x = b.slice_dim(x, 1, 0, n, 1);
    b.slice_dim(x, 2, 0, n, 1)
}

/// Schur's form of `[B, n, n]`.
pub fn schur(b: &mut Emit, x: NodeId, lanes: u32) -> Result<Schur, CompileError> {
    let (dims, kind) = (b.dims(x).to_vec(), b.dtype(x));
    let (batch, n) = (dims[0], dims[1]);
    let info = b.splat(DType::S32, &[batch], 0.0);
    if n < 2 {
        return Ok(Schur { form: x, vectors: identity(b, kind, batch, n), info });
    }
    let [packed, taus] = factor::hessenberg(b, x, lanes)?;
    let (row, column) = (b.iota(DType::S32, &dims, 1), b.iota(DType::S32, &dims, 2));
    let under = b.with(Binary::Add, column, 1.0);
    let kept = b.compare(Direction::Le, row, under);
    let h = keep(b, kept, packed);
    let h = padded(b, h, [0, 1, 1]);
    let low = b.slice_dim(packed, 1, 1, n, 1);
    let low = b.slice_dim(low, 2, 0, n - 1, 1);
    let q = factor::reflectors(b, low, taus, lanes)?;
    let zero = b.scalar(kind, 0.0);
    let q = b.pad(q, zero, &[PadDim::NONE, PadDim::edges(1, 0), PadDim::edges(1, 1)]);
    let (zd, one) = (b.dims(q).to_vec(), b.scalar(kind, 1.0));
    let (row, column) = (b.iota(DType::S32, &zd, 1), b.iota(DType::S32, &zd, 2));
    let sum = b.add(row, column);
    let corner = b.index(0);
    let corner = b.compare(Direction::Eq, sum, corner);
    let z = b.select(corner, one, q);
    let [h, z, info] = if n > 2 { steps(b, h, z, n)? } else { [h, z, info] };
    let [h, z] = blocks(b, h, z, n)?;
    Ok(Schur { form: cut(b, h, n), vectors: cut(b, z, n), info })
}

/// The triangular form over complex numbers of one over real numbers.
pub fn triangular(b: &mut Emit, real: &Schur) -> Result<Schur, CompileError> {
    let (n, kind) = (b.dims(real.form)[1], b.dtype(real.form).complex());
    let [h, z] = [real.form, real.vectors].map(|x| b.convert(x, kind));
    if n < 2 {
        return Ok(Schur { form: h, vectors: z, info: real.info });
    }
    let [h, z] = blocks(b, h, z, n)?;
    Ok(Schur { form: h, vectors: z, info: real.info })
}

/// Eigenvalues `[B, n]` of the blocks: of real matrices real and imaginary parts, of pairs the upper one first.
pub fn values(b: &mut Emit, s: &Schur) -> Vec<NodeId> {
    let (n, kind) = (b.dims(s.form)[1], b.dtype(s.form));
    let main = diagonal(b, s.form);
    if kind.is_complex() {
        return vec![main];
    }
    let h = padded(b, s.form, [0, 1, 1]);
    let d = diagonals(b, h, n);
    let [low, up] = [d.below, d.above].map(|x| {
        let size = b.unary(Unary::Abs, x);
        b.unary(Unary::Sqrt, size)
    });
    let size = b.mul(low, up);
    let zero = b.scalar(kind, 0.0);
    let second = b.pad_dim(size, zero, 1, (1, -1));
    vec![main, b.sub(size, second)]
}
