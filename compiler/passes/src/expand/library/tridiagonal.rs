//! Systems of tridiagonal matrices, by elimination with partial pivoting, as LAPACK's `gtsv` does it.

use super::factor::magnitude;
use crate::edit::Emit;
use crate::expand::fold_batch;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId};
use systole_isa::DType;

/// What elimination leaves: the second upper diagonal (in the lower one's place), the diagonal, the upper diagonal, the
/// solution, and for each matrix the first zero of the diagonal (from 1; 0: there is none).
pub struct Solved {
    pub parts: [NodeId; 4],
    pub info: NodeId,
}

/// Element `i` of the last dimension of `[B, n]`.
fn at(b: &mut Emit, x: NodeId, i: NodeId) -> NodeId {
    let (zero, batch) = (b.index(0), b.dims(x)[0]);
    let one = b.dynamic_slice(x, &[zero, i], &[batch, 1]);
    b.reshape(one, &[batch])
}

fn put(b: &mut Emit, x: NodeId, i: NodeId, value: NodeId) -> NodeId {
    let (zero, batch) = (b.index(0), b.dims(x)[0]);
    let value = b.reshape(value, &[batch, 1]);
    b.dynamic_update_slice(x, value, &[zero, i])
}

/// Row `i` of `[B, n, m]`.
fn row(b: &mut Emit, x: NodeId, i: NodeId) -> NodeId {
    let (zero, dims) = (b.index(0), b.dims(x).to_vec());
    let one = b.dynamic_slice(x, &[zero, i, zero], &[dims[0], 1, dims[2]]);
    b.reshape(one, &[dims[0], dims[2]])
}

fn put_row(b: &mut Emit, x: NodeId, i: NodeId, value: NodeId) -> NodeId {
    let (zero, dims) = (b.index(0), b.dims(x).to_vec());
    let value = b.reshape(value, &[dims[0], 1, dims[2]]);
    b.dynamic_update_slice(x, value, &[zero, i, zero])
}

/// `x - f y`, `f` a number for each matrix where `x` and `y` are rows.
fn less(b: &mut Emit, x: NodeId, f: NodeId, y: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let f = if dims.len() == 2 { b.broadcast(f, &[0], &dims) } else { f };
    let product = b.mul(f, y);
    b.sub(x, product)
}

/// Solves for `y`: diagonals `[.., n]` (the first of the lower and the last of the upper are outside the matrix), right
/// sides `[.., n, m]`.
pub fn solve(b: &mut Emit, diagonals: [NodeId; 3], y: NodeId) -> Result<Solved, CompileError> {
    let (given, sides) = (b.dims(diagonals[1]).to_vec(), b.dims(y).to_vec());
    let kind = b.dtype(y);
    let [low, middle, up] = diagonals.map(|x| fold_batch(b, x, 1));
    let y = fold_batch(b, y, 2);
    let (batch, n, m) = (b.dims(y)[0], b.dims(y)[1], b.dims(y)[2]);
    let line = [batch, n];
    let (places, last) = (b.iota(DType::S32, &line, 1), b.index(n as i64 - 1));
    let inside = b.compare(Direction::Lt, places, last);
    let none = b.scalar(kind, 0.0);
    let up = b.select(inside, up, none);
    let done = b.counted_loop("tridiagonal", n.saturating_sub(1), &[low, middle, up, y], |b, i, s| {
        let next = b.with(Binary::Add, i, 1.0);
        let (l, d, u) = (at(b, s[0], next), at(b, s[1], i), at(b, s[2], i));
        let (dn, un) = (at(b, s[1], next), at(b, s[2], next));
        let (here, below) = (row(b, s[3], i), row(b, s[3], next));
        let (size, other) = (magnitude(b, d), magnitude(b, l));
        let swap = b.compare(Direction::Lt, size, other);
        let swap_rows = b.broadcast(swap, &[0], &[batch, m]);
        let (upper, lower) = (b.select(swap, l, d), b.select(swap, d, l));
        let factor = b.binary(Binary::Div, lower, upper);
        let (u0, u1) = (b.select(swap, dn, u), b.select(swap, u, dn));
        let (y0, y1) = (b.select(swap_rows, below, here), b.select(swap_rows, here, below));
        let zero = b.splat(kind, &[batch], 0.0);
        let second = b.select(swap, un, zero);
        let filled = less(b, zero, factor, un);
        let un = b.select(swap, filled, un);
        let dn = less(b, u1, factor, u0);
        let y1 = less(b, y1, factor, y0);
        let low = put(b, s[0], next, second);
        let middle = put(b, s[1], i, upper);
        let middle = put(b, middle, next, dn);
        let up = put(b, s[2], i, u0);
        let up = put(b, up, next, un);
        let y = put_row(b, s[3], i, y0);
        let y = put_row(b, y, next, y1);
        Ok(vec![low, middle, up, y])
    })?;
    let (low, middle, up) = (done[0], done[1], done[2]);
    let rest = b.splat(kind, &[batch, m], 0.0);
    let back = b.counted_loop("tridiagonal_back", n, &[done[3], rest, rest, low, middle, up], |b, t, s| {
        let last = b.index(n as i64 - 1);
        let i = b.sub(last, t);
        // The second upper diagonal's element of row i stands at i + 1; beyond the end anything will do for a zero.
        let next = b.with(Binary::Add, i, 1.0);
        let next = b.binary(Binary::Min, next, last);
        let (d, u, second) = (at(b, s[4], i), at(b, s[5], i), at(b, s[3], next));
        let x = row(b, s[0], i);
        let x = less(b, x, u, s[1]);
        let x = less(b, x, second, s[2]);
        let d = b.broadcast(d, &[0], &[batch, m]);
        let x = b.binary(Binary::Div, x, d);
        let y = put_row(b, s[0], i, x);
        Ok(vec![y, x, s[1], s[3], s[4], s[5]])
    })?;
    let zero = b.scalar(kind, 0.0);
    let zero = b.broadcast(zero, &[], &line);
    let singular = b.compare(Direction::Eq, middle, zero);
    let number = b.with(Binary::Add, places, 1.0);
    let beyond = b.splat(DType::S32, &line, n as f64 + 1.0);
    let first = b.select(singular, number, beyond);
    let first = b.reduce(first, Binary::Min, n as f64 + 1.0, &[1]);
    let clean = b.splat(DType::S32, &[batch], n as f64 + 1.0);
    let none = b.compare(Direction::Eq, first, clean);
    let nought = b.splat(DType::S32, &[batch], 0.0);
    let info = b.select(none, nought, first);
    let [low, middle, up] = [low, middle, up].map(|x| b.reshape(x, &given));
    let x = b.reshape(back[0], &sides);
    Ok(Solved { parts: [low, middle, up, x], info: b.reshape(info, &given[..given.len() - 1]) })
}
