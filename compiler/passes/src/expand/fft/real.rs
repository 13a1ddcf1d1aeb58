//! Real signals: half of the bins say everything, and half of the work computes them.

use super::columns::last_table;
use super::table::{Pair, Roots, Wanted, each, product, root, table, times};
use super::{MAX_DIRECT, parts, transform};
use crate::edit::Emit;
use systole_hlo::graph::{Direction, DotDims, NodeId, Precision};
use systole_isa::DType;

/// The bins `0..=n / 2` of a real signal, `[rows, bins]`, of those bins `e + m * f` whose `e` is at most `m / 2`: `[f, e, rows]`.
///
/// Bin `e + m * f` is the conjugate of bin `m - e + m * (q - 1 - f)`.
pub fn bins(b: &mut Emit, x: Pair, (m, q): (u64, u64)) -> Pair {
    let dims = b.dims(x.re).to_vec();
    let (h, rows, half) = (dims[1], dims[2], m * q / 2);
    let blocks = half / m + 1;
    let part = |b: &mut Emit, x: NodeId, negative: bool| {
        let own = b.slice_dim(x, 0, 0, blocks, 1);
        let all = if m == h {
            own
        } else {
            let other = b.slice_dim(x, 0, q - blocks, q, 1);
            let other = b.slice_dim(other, 1, 1, m - h + 1, 1);
            let other = b.reverse(other, &[0, 1]);
            let other = if negative { b.neg(other) } else { other };
            b.concatenate(&[own, other], 1)
        };
        let all = b.reshape(all, &[blocks * m, rows]);
        let all = b.slice_dim(all, 0, 0, half + 1, 1);
        b.transpose(all, &[1, 0])
    };
    Pair { re: part(b, x.re, false), im: x.im.map(|i| part(b, i, true)) }
}

/// The real signal of length `n`, unscaled, of `[rows, bins]`: the first half of its spectrum, cut off or zero behind that.
pub fn from_half(b: &mut Emit, p: Pair, n: u64) -> Pair {
    let p = half_of(b, p, n, 1);
    match parts(n) {
        Some((m, q)) if m.is_multiple_of(2) && q.is_multiple_of(2) && m.max(q) <= MAX_DIRECT => by_parts(b, p, (m, q)),
        _ => {
            let whole = mirrored(b, p, n);
            transform(b, whole, 1.0, Wanted::Real)
        }
    }
}

/// Half a spectrum, `n / 2 + 1` bins along dimension `d`, whose imaginary parts are zero where a real signal's are.
pub fn half_of(b: &mut Emit, p: Pair, n: u64, d: usize) -> Pair {
    let half = n / 2 + 1;
    let have = b.dims(p.re)[d];
    let p = each(b, p, &mut |b, x| {
        let zero = b.scalar(b.dtype(x), 0.0);
        b.pad_dim(x, zero, d, (0, half as i64 - have as i64))
    });
    let im = p.im.map(|i| {
        let dims = b.dims(i).to_vec();
        let bin = b.iota(DType::S32, &dims, d);
        let zero = b.scalar(DType::S32, 0.0);
        let mut edge = b.compare(Direction::Eq, bin, zero);
        if n.is_multiple_of(2) {
            let middle = b.index(n as i64 / 2);
            let other = b.compare(Direction::Eq, bin, middle);
            edge = b.or(edge, other);
        }
        let none = b.scalar(b.dtype(i), 0.0);
        b.select(edge, none, i)
    });
    Pair { im, ..p }
}

/// The whole spectrum: bins n/2 + 1 .. n are the conjugates of bins (n - 1) / 2 .. 1.
fn mirrored(b: &mut Emit, p: Pair, n: u64) -> Pair {
    let whole = |b: &mut Emit, x: NodeId, negative: bool| {
        let part = b.slice_dim(x, 1, 1, n.div_ceil(2), 1);
        let tail = b.reverse(part, &[1]);
        let tail = if negative { b.neg(tail) } else { tail };
        b.concatenate(&[x, tail], 1)
    };
    Pair { re: whole(b, p.re, false), im: p.im.map(|i| whole(b, i, true)) }
}

/// `n = m * q`, both even: bin `e + m * f`, element `a * q + c`. The first step, over `f`, is done for `e` up to `m / 2` only:
/// its results for other `e` are the conjugates of those for `m - e`, so that the second step, over `e`, counts them twice.
fn by_parts(b: &mut Emit, p: Pair, (m, q): (u64, u64)) -> Pair {
    let rows = b.dims(p.re)[0];
    let dtype = b.dtype(p.re);
    let (h, half, n) = (m / 2 + 1, m * q / 2, m * q);
    // Bins of block f and, from the middle on, the conjugates of those of block q - 1 - f, the other way round.
    let blocks = |b: &mut Emit, x: NodeId, negative: bool| -> [NodeId; 2] {
        let x = b.transpose(x, &[1, 0]);
        let own = b.slice_dim(x, 0, 0, half, 1);
        let own = b.reshape(own, &[q / 2, m, rows]);
        let own = b.slice_dim(own, 1, 0, h, 1);
        let other = b.slice_dim(x, 0, 1, half + 1, 1);
        let other = b.reshape(other, &[q / 2, m, rows]);
        let other = b.slice_dim(other, 1, m - h, m, 1);
        let other = b.reverse(other, &[0, 1]);
        [own, if negative { b.neg(other) } else { other }]
    };
    let re = blocks(b, p.re, false);
    let re = b.concatenate(&re, 0);
    let im = p.im.map(|i| {
        let im = blocks(b, i, true);
        b.concatenate(&im, 0)
    });
    let roots = Roots { ins: q, outs: q, wanted: Wanted::All, angle: &|c, f| root(c, f, q, 1.0) };
    let x = product(b, Pair { re, im }, &roots, 0, false);
    // Turned, and counted twice but at the ends.
    let t = table(b, dtype, [q, h], |c, e| root(c, e, n, 1.0));
    let x = times(b, x, t, &[0, 1]);
    let x = Pair { im: x.im.map(|i| b.slice_dim(i, 1, 1, h - 1, 1)), ..x };
    let x = match x.im {
        Some(im) => b.concatenate(&[x.re, im], 1),
        None => x.re,
    };
    let x = last_step(b, x, m);
    let x = b.reshape(x, &[n, rows]);
    Pair { re: b.transpose(x, &[1, 0]), im: None }
}

/// `[c, numbers, rows]` to `[a, c, rows]`: the numbers are those of [`last_table`].
fn last_step(b: &mut Emit, x: NodeId, m: u64) -> NodeId {
    let dtype = b.dtype(x);
    let t = last_table(b, dtype, m, 1.0);
    let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotDims::default() };
    b.dot(t, x, dims, Precision::Highest, dtype)
}
