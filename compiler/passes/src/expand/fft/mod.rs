//! Fourier transforms as matrix products with tables of roots of unity.
//!
//! A length that splits, `n = p * q`, is done in two steps with twiddle factors between (Cooley and Tukey) until the
//! parts are at most [`MAX_DIRECT`]; a part that does not split and is longer is done as a convolution of a power-of-two
//! length (Bluestein). f32 products ask for the highest precision. Of real signals only the half of the bins that says
//! everything is computed: `real.rs`. Of many signals each lies along a column (`columns.rs`), of few along a row.

mod butterfly;
mod chirp;
mod columns;
mod real;
mod table;

use super::fold_batch;
use crate::edit::Emit;
use crate::simplify::splat_number;
use columns::Columns;
pub use columns::Room;
use systole_hlo::graph::{ArrayShape, Binary, FftKind, NodeId, Op, PadDim, Unary};
use table::{Pair, Roots, Wanted, each, product, root, table, times};

/// The longest transform that is one product with a full table.
const MAX_DIRECT: u64 = 128;
/// The longest length without small factors that still is one product.
const MAX_PRIME: u64 = 512;
/// The longest first step that is made of additions and single products instead of a table.
const MAX_BUTTERFLY: u64 = 16;

/// `fft` over the last dimensions.
pub fn lower(b: &mut Emit, x: NodeId, kind: FftKind, lengths: &[u64], (to, room): (&ArrayShape, Room)) -> NodeId {
    let part = to.dtype.real();
    let rank = b.rank(x);
    let mut p = if b.dtype(x).is_complex() {
        Pair { re: b.unary(Unary::Real, x), im: Some(b.unary(Unary::Imag, x)) }
    } else {
        Pair { re: x, im: None }
    };
    p = Pair { re: b.convert(p.re, part), im: p.im.map(|i| b.convert(i, part)) };
    if lengths.contains(&0) || to.elements() == 0 {
        return b.splat(to.dtype, &to.dims, 0.0);
    }
    let inverse = matches!(kind, FftKind::Ifft | FftKind::Irfft);
    let sign = if inverse { 1.0 } else { -1.0 };
    let last = rank - 1;
    let scale = 1.0 / lengths.iter().map(|&n| n as f64).product::<f64>();
    if kind == FftKind::Irfft {
        // Other dimensions first: only the last one is half a spectrum.
        for d in (rank - lengths.len()..last).rev() {
            p = one(b, p, (d, b.dims(p.re)[d]), (sign, Wanted::All), room);
        }
        let n = lengths[lengths.len() - 1];
        if let Some(columns) = Columns::of(b, p.re, (last, n), room) {
            let full = columns.done(b, p, &mut |b, p| {
                let p = real::half_of(b, p, n, 1);
                Pair { re: columns::from_half(b, p, n, scale), im: None }
            });
            return full.re;
        }
        let full = along(b, p, last, &mut |b, p| real::from_half(b, p, n));
        return b.with(Binary::Mul, full.re, scale);
    }
    let wanted = if kind == FftKind::Rfft { Wanted::Half } else { Wanted::All };
    p = one(b, p, (last, b.dims(p.re)[last]), (sign, wanted), room);
    for d in (rank - lengths.len()..last).rev() {
        p = one(b, p, (d, b.dims(p.re)[d]), (sign, Wanted::All), room);
    }
    if inverse {
        p = each(b, p, &mut |b, x| b.with(Binary::Mul, x, scale));
    }
    let im = p.im.unwrap_or_else(|| b.splat(part, &to.dims, 0.0));
    b.binary(Binary::Complex, p.re, im)
}

/// Transforms dimension `d`, of length `n`.
fn one(b: &mut Emit, p: Pair, (d, n): (usize, u64), (sign, wanted): (f64, Wanted), room: Room) -> Pair {
    let Some(columns) = Columns::of(b, p.re, (d, n), room) else {
        return along(b, p, d, &mut |b, p| transform(b, p, sign, wanted));
    };
    let some = if p.im.is_none() { Pair { re: without_zeros(b, p.re, d), im: None } } else { p };
    columns.done(b, some, &mut |b, p| columns::transform(b, p, n, (sign, wanted)))
}

/// An array without the zeros that it is padded with at the end of dimension `d`.
fn without_zeros(b: &Emit, x: NodeId, d: usize) -> NodeId {
    let Op::Pad { dims } = b.op(x) else { return x };
    let behind =
        dims.iter().enumerate().all(|(i, p)| *p == PadDim { high: if i == d { p.high } else { 0 }, ..PadDim::NONE });
    let inner = b.operand(x, 0);
    let zero = splat_number(b, b.operand(x, 1)) == Some(0.0);
    if behind && zero && dims[d].high > 0 && b.dims(inner)[d] > 0 { inner } else { x }
}

/// Does something to `[rows, n]`, the rows all dimensions but `d`, which may have another size afterwards.
fn along(b: &mut Emit, p: Pair, d: usize, f: &mut dyn FnMut(&mut Emit, Pair) -> Pair) -> Pair {
    let rank = b.rank(p.re);
    let mut order: Vec<usize> = (0..rank).filter(|&i| i != d).collect();
    order.push(d);
    let mut moved: Vec<u64> = order.iter().map(|&i| b.dims(p.re)[i]).collect();
    let inner = each(b, p, &mut |b, x| {
        let x = b.transpose(x, &order);
        fold_batch(b, x, 1)
    });
    let done = f(b, inner);
    moved[rank - 1] = b.dims(done.re)[1];
    let back = crate::make::inverse(&order);
    each(b, done, &mut |b, x| {
        let x = b.reshape(x, &moved);
        b.transpose(x, &back)
    })
}

/// The largest factor of `n` up to [`MAX_DIRECT`] that is not 1.
fn factor(n: u64) -> Option<u64> {
    (2..=MAX_DIRECT.min(n / 2)).rev().find(|f| n.is_multiple_of(*f))
}

/// The two parts in which a length is done, unless it is one product or has no such parts.
fn parts(n: u64) -> Option<(u64, u64)> {
    let q = factor(n).filter(|_| n > MAX_DIRECT)?;
    (q >= 4 || n <= MAX_DIRECT * 2 || n > MAX_PRIME).then_some((n / q, q))
}

/// Transforms the last dimension of `[rows, n]`, sign of the exponent given, unscaled.
fn transform(b: &mut Emit, p: Pair, sign: f64, wanted: Wanted) -> Pair {
    let n = b.dims(p.re)[1];
    if n == 1 {
        return p;
    }
    if let Some(parts) = parts(n) {
        return split(b, p, parts, sign, wanted);
    }
    if n <= MAX_PRIME {
        let outs = wanted.of(n);
        let roots = Roots { ins: n, outs, wanted, angle: &|i, j| root(i, j, n, sign) };
        return product(b, p, &roots, 1, true);
    }
    let all = chirp::transform(b, p, n, sign);
    wanted.cut(b, all, 1, n)
}

/// `n = m * q`: element `i = a * q + c`, bin `k = e + m * f`.
///
/// The parts keep `c` and the rows in the lanes as long as they can: the first step leaves `[e, rows, c]`, and the second
/// one's product gives `[f, e, rows]`, all bins above the rows. Of a real signal the bins with the first half of `e` say
/// everything.
fn split(b: &mut Emit, p: Pair, (m, q): (u64, u64), sign: f64, wanted: Wanted) -> Pair {
    let n = m * q;
    let rows = b.dims(p.re)[0];
    let part = b.dtype(p.re);
    let half = wanted == Wanted::Half && p.im.is_none();
    let first = if half { Wanted::Half } else { Wanted::All };
    let h = first.of(m);
    let x = if m <= MAX_BUTTERFLY && m.is_power_of_two() {
        let parts: Vec<Pair> =
            (0..m).map(|a| each(b, p, &mut |b, x| b.slice_dim(x, 1, a * q, (a + 1) * q, 1))).collect();
        let bins = butterfly::bins(b, &parts, sign);
        butterfly::stacked(b, &bins[..h as usize])
    } else if m <= MAX_DIRECT {
        let x = each(b, p, &mut |b, x| b.reshape(x, &[rows, m, q]));
        let roots = Roots { ins: m, outs: h, wanted: first, angle: &|i, j| root(i, j, m, sign) };
        product(b, x, &roots, 1, false)
    } else {
        let x = each(b, p, &mut |b, x| {
            let x = b.reshape(x, &[rows, m, q]);
            let x = b.transpose(x, &[0, 2, 1]);
            b.reshape(x, &[rows * q, m])
        });
        let x = transform(b, x, sign, first);
        each(b, x, &mut |b, x| {
            let x = b.reshape(x, &[rows, q, h]);
            b.transpose(x, &[2, 0, 1])
        })
    };
    let t = table(b, part, [h, q], |e, c| root(e, c, n, sign));
    let x = times(b, x, t, &[0, 2]);
    let second = if wanted == Wanted::Real { Wanted::Real } else { Wanted::All };
    let x = if q <= MAX_DIRECT {
        let roots = Roots { ins: q, outs: q, wanted: second, angle: &|i, j| root(i, j, q, sign) };
        product(b, x, &roots, 2, false)
    } else {
        let x = each(b, x, &mut |b, x| b.reshape(x, &[h * rows, q]));
        let x = transform(b, x, sign, second);
        each(b, x, &mut |b, x| {
            let x = b.reshape(x, &[h, rows, q]);
            b.transpose(x, &[2, 0, 1])
        })
    };
    if half {
        return real::bins(b, x, (m, q));
    }
    let x = each(b, x, &mut |b, x| {
        let x = b.reshape(x, &[n, rows]);
        b.transpose(x, &[1, 0])
    });
    wanted.cut(b, x, 1, n)
}
