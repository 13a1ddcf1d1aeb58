//! Fourier transforms as matrix products with tables of roots of unity.
//!
//! A length that splits, `n = p * q`, is done in two steps with twiddle factors between (Cooley and Tukey) until the
//! parts are at most [`MAX_DIRECT`]; a part that does not split and is longer is done as a convolution of a power-of-two
//! length (Bluestein). f32 products ask for the highest precision.

use super::fold_batch;
use crate::edit::Emit;
use std::f64::consts::TAU;
use systole_hlo::graph::number::element_bytes;
use systole_hlo::graph::{ArrayShape, Binary, DotDims, FftKind, Literal, NodeId, PadDim, Precision, Unary};
use systole_isa::DType;

/// The longest transform that is one product with a full table.
const MAX_DIRECT: u64 = 128;
/// The longest length without small factors that still is one product.
const MAX_PRIME: u64 = 512;
/// The longest first step that is made of additions and single products instead of a table.
const MAX_BUTTERFLY: u64 = 16;

/// Real and imaginary parts, `[rows, n]`.
#[derive(Clone, Copy)]
struct Pair {
    re: NodeId,
    im: Option<NodeId>,
}

/// `fft` over the last dimensions.
pub fn lower(b: &mut Emit, x: NodeId, kind: FftKind, lengths: &[u64], to: &ArrayShape) -> NodeId {
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
    let last = rank - 1;
    if kind == FftKind::Irfft {
        // Other dimensions first: only the last one is half a spectrum.
        for d in (rank - lengths.len()..last).rev() {
            p = along(b, p, d, true);
        }
        p = mirrored(b, p, last, lengths[lengths.len() - 1]);
        let full = along(b, p, last, true);
        let scale = 1.0 / lengths.iter().map(|&n| n as f64).product::<f64>();
        return b.with(Binary::Mul, full.re, scale);
    }
    p = along(b, p, last, inverse);
    if kind == FftKind::Rfft {
        let half = to.dims[last];
        p = Pair { re: b.slice_dim(p.re, last, 0, half, 1), im: p.im.map(|i| b.slice_dim(i, last, 0, half, 1)) };
    }
    for d in (rank - lengths.len()..last).rev() {
        p = along(b, p, d, inverse);
    }
    if inverse {
        let scale = 1.0 / lengths.iter().map(|&n| n as f64).product::<f64>();
        p = Pair { re: b.with(Binary::Mul, p.re, scale), im: p.im.map(|i| b.with(Binary::Mul, i, scale)) };
    }
    let im = p.im.unwrap_or_else(|| b.splat(part, &to.dims, 0.0));
    b.binary(Binary::Complex, p.re, im)
}

/// The whole spectrum of a real signal of length `n` from its first half.
fn mirrored(b: &mut Emit, p: Pair, d: usize, n: u64) -> Pair {
    let have = b.dims(p.re)[d];
    let half = n / 2 + 1;
    let cut = |b: &mut Emit, x: NodeId| {
        let zero = b.scalar(b.dtype(x), 0.0);
        let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; b.rank(x)];
        pads[d].high = half as i64 - have as i64;
        b.pad(x, zero, &pads)
    };
    // Bins n/2 + 1 .. n are the conjugates of bins (n - 1) / 2 .. 1.
    let tail = |b: &mut Emit, x: NodeId| {
        let part = b.slice_dim(x, d, 1, n.div_ceil(2), 1);
        b.reverse(part, &[d])
    };
    let re = cut(b, p.re);
    let more = tail(b, re);
    let im = p.im.map(|i| {
        let i = cut(b, i);
        // The imaginary parts of bins 0 and n/2 have no meaning for a real signal.
        let bin = b.iota(DType::S32, b.dims(i).to_vec().as_slice(), d);
        let zero = b.scalar(DType::S32, 0.0);
        let mut edge = b.compare(systole_hlo::graph::Direction::Eq, bin, zero);
        if n.is_multiple_of(2) {
            let middle = b.index(n as i64 / 2);
            let other = b.compare(systole_hlo::graph::Direction::Eq, bin, middle);
            edge = b.or(edge, other);
        }
        let none = b.scalar(b.dtype(i), 0.0);
        let i = b.select(edge, none, i);
        let t = tail(b, i);
        let t = b.neg(t);
        b.concatenate(&[i, t], d)
    });
    Pair { re: b.concatenate(&[re, more], d), im }
}

/// Transforms dimension `d`.
fn along(b: &mut Emit, p: Pair, d: usize, inverse: bool) -> Pair {
    let rank = b.rank(p.re);
    let mut order: Vec<usize> = (0..rank).filter(|&i| i != d).collect();
    order.push(d);
    let moved: Vec<u64> = order.iter().map(|&i| b.dims(p.re)[i]).collect();
    let enter = |b: &mut Emit, x: NodeId| {
        let x = b.transpose(x, &order);
        fold_batch(b, x, 1)
    };
    let inner = Pair { re: enter(b, p.re), im: p.im.map(|i| enter(b, i)) };
    let done = transform(b, inner, if inverse { 1.0 } else { -1.0 });
    let back = crate::make::inverse(&order);
    let leave = |b: &mut Emit, x: NodeId| {
        let x = b.reshape(x, &moved);
        b.transpose(x, &back)
    };
    Pair { re: leave(b, done.re), im: done.im.map(|i| leave(b, i)) }
}

/// The largest factor of `n` up to [`MAX_DIRECT`] that is not 1.
fn factor(n: u64) -> Option<u64> {
    (2..=MAX_DIRECT.min(n / 2)).rev().find(|f| n.is_multiple_of(*f))
}

/// Transforms the last dimension of `[rows, n]`, sign of the exponent given, unscaled.
fn transform(b: &mut Emit, p: Pair, sign: f64) -> Pair {
    let n = b.dims(p.re)[1];
    if n == 1 {
        return p;
    }
    if n <= MAX_DIRECT {
        return direct(b, p, n, sign);
    }
    match factor(n) {
        Some(q) if q >= 4 || n <= MAX_DIRECT * 2 => split(b, p, n, q, sign),
        _ if n <= MAX_PRIME => direct(b, p, n, sign),
        Some(q) => split(b, p, n, q, sign),
        None => bluestein(b, p, n, sign),
    }
}

/// A table `f(i, j)` of two parts.
fn table(b: &mut Emit, part: DType, dims: [u64; 2], angle: impl Fn(u64, u64) -> f64) -> Pair {
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    for i in 0..dims[0] {
        for j in 0..dims[1] {
            let a = angle(i, j);
            cos.extend(element_bytes(part, a.cos()));
            sin.extend(element_bytes(part, a.sin()));
        }
    }
    let re = b.constant(Literal::new(part, &dims, cos));
    let im = b.constant(Literal::new(part, &dims, sin));
    Pair { re, im: Some(im) }
}

/// The angle of root number `i * j` of `n`, its multiple reduced exactly.
fn root(i: u64, j: u64, n: u64, sign: f64) -> f64 {
    let k = (u128::from(i) * u128::from(j) % u128::from(n)) as f64;
    sign * TAU * k / n as f64
}

/// One product with the full table.
fn direct(b: &mut Emit, p: Pair, n: u64, sign: f64) -> Pair {
    let part = b.dtype(p.re);
    let t = table(b, part, [n, n], |i, j| root(i, j, n, sign));
    matrix(b, p, t)
}

/// `[rows, n] x [n, m]` of complex numbers.
fn matrix(b: &mut Emit, x: Pair, t: Pair) -> Pair {
    contracted(b, x, t, &mut |x, t| (x, t, 1, 0))
}

/// A table `[m, n]` times dimension `d` of an array: `[m, other dimensions]`.
fn product(b: &mut Emit, t: Pair, x: Pair, d: usize) -> Pair {
    contracted(b, x, t, &mut |x, t| (t, x, 1, d))
}

/// Products of the parts of `x` and `t`; `sides` gives the left and the right operand and their contracted dimensions.
fn contracted(
    b: &mut Emit,
    x: Pair,
    t: Pair,
    sides: &mut dyn FnMut(NodeId, NodeId) -> (NodeId, NodeId, usize, usize),
) -> Pair {
    let part = b.dtype(x.re);
    let mut dot = |x: NodeId, t: NodeId| {
        let (l, r, lhs, rhs) = sides(x, t);
        let dims = DotDims { lhs_contracting: vec![lhs], rhs_contracting: vec![rhs], ..DotDims::default() };
        b.dot(l, r, dims, Precision::Highest, part)
    };
    let (rr, ri) = (dot(x.re, t.re), t.im.map(|t| dot(x.re, t)));
    let (ir, ii) = (x.im.map(|i| dot(i, t.re)), x.im.zip(t.im).map(|(i, t)| dot(i, t)));
    let re = match ii {
        Some(ii) => b.sub(rr, ii),
        None => rr,
    };
    let im = match (ri, ir) {
        (Some(x), Some(y)) => Some(b.add(x, y)),
        (x, y) => x.or(y),
    };
    Pair { re, im }
}

/// Elementwise complex product; the dimensions of `t` are those numbered `map` of `x`.
fn times(b: &mut Emit, x: Pair, t: Pair, map: &[usize]) -> Pair {
    let dims = b.dims(x.re).to_vec();
    let tr = b.broadcast(t.re, map, &dims);
    let rr = b.mul(x.re, tr);
    let Some(ti) = t.im else {
        return Pair { re: rr, im: x.im.map(|i| b.mul(i, tr)) };
    };
    let ti = b.broadcast(ti, map, &dims);
    let ri = b.mul(x.re, ti);
    match x.im {
        None => Pair { re: rr, im: Some(ri) },
        Some(i) => {
            let (ii, ir) = (b.mul(i, ti), b.mul(i, tr));
            Pair { re: b.sub(rr, ii), im: Some(b.add(ri, ir)) }
        }
    }
}

fn each(b: &mut Emit, p: Pair, f: &mut dyn FnMut(&mut Emit, NodeId) -> NodeId) -> Pair {
    Pair { re: f(b, p.re), im: p.im.map(|i| f(b, i)) }
}

/// `n = m * q`: element `i = a * q + c`, bin `k = e + m * f`.
///
/// The parts keep `c` and the rows in the lanes as long as they can: the first step leaves `[e, rows, c]`, and the second
/// one's product gives `[f, e, rows]`, all bins above the rows.
fn split(b: &mut Emit, p: Pair, n: u64, q: u64, sign: f64) -> Pair {
    let m = n / q;
    let rows = b.dims(p.re)[0];
    let part = b.dtype(p.re);
    let x = if m <= MAX_BUTTERFLY && m.is_power_of_two() {
        let parts: Vec<Pair> =
            (0..m).map(|a| each(b, p, &mut |b, x| b.slice_dim(x, 1, a * q, (a + 1) * q, 1))).collect();
        let bins = butterfly(b, &parts, sign);
        stacked(b, &bins)
    } else if m <= MAX_DIRECT {
        let x = each(b, p, &mut |b, x| b.reshape(x, &[rows, m, q]));
        let t = table(b, part, [m, m], |i, j| root(i, j, m, sign));
        product(b, t, x, 1)
    } else {
        let x = each(b, p, &mut |b, x| {
            let x = b.reshape(x, &[rows, m, q]);
            let x = b.transpose(x, &[0, 2, 1]);
            b.reshape(x, &[rows * q, m])
        });
        let x = transform(b, x, sign);
        each(b, x, &mut |b, x| {
            let x = b.reshape(x, &[rows, q, m]);
            b.transpose(x, &[2, 0, 1])
        })
    };
    let t = table(b, part, [m, q], |e, c| root(e, c, n, sign));
    let x = times(b, x, t, &[0, 2]);
    if q <= MAX_DIRECT {
        let t = table(b, part, [q, q], |i, j| root(i, j, q, sign));
        let x = product(b, t, x, 2);
        return each(b, x, &mut |b, x| {
            let x = b.reshape(x, &[n, rows]);
            b.transpose(x, &[1, 0])
        });
    }
    let x = each(b, x, &mut |b, x| b.reshape(x, &[m * rows, q]));
    let x = transform(b, x, sign);
    each(b, x, &mut |b, x| {
        let x = b.reshape(x, &[m, rows, q]);
        let x = b.transpose(x, &[1, 2, 0]);
        b.reshape(x, &[rows, n])
    })
}

/// Transforms of the same element of every part: bin by bin (sizes: powers of two), by halves.
fn butterfly(b: &mut Emit, x: &[Pair], sign: f64) -> Vec<Pair> {
    let n = x.len();
    if n == 1 {
        return x.to_vec();
    }
    let pick = |first: usize| x.iter().skip(first).step_by(2).copied().collect::<Vec<_>>();
    let (even, odd) = (butterfly(b, &pick(0), sign), butterfly(b, &pick(1), sign));
    let turned: Vec<Pair> = odd.iter().enumerate().map(|(k, &p)| turn(b, p, (k as u64, n as u64), sign)).collect();
    let mut both = |f: fn(&mut Emit, NodeId, NodeId) -> NodeId, negative: bool| -> Vec<Pair> {
        let bin = |(&x, &y): (&Pair, &Pair)| {
            let im = match (x.im, y.im) {
                (Some(i), Some(j)) => Some(f(b, i, j)),
                (None, Some(j)) => Some(if negative { b.neg(j) } else { j }),
                (i, None) => i,
            };
            Pair { re: f(b, x.re, y.re), im }
        };
        even.iter().zip(&turned).map(bin).collect()
    };
    let mut bins = both(|b, x, y| b.add(x, y), false);
    bins.extend(both(|b, x, y| b.sub(x, y), true));
    bins
}

/// A number times root `k` of `n`; quarters of a turn without multiplications.
fn turn(b: &mut Emit, p: Pair, (k, n): (u64, u64), sign: f64) -> Pair {
    if k == 0 {
        return p;
    }
    if 4 * k == n {
        // i * sign: (re, im) to (-im, re) or (im, -re).
        let zero = |b: &mut Emit| {
            let dims = b.dims(p.re).to_vec();
            b.splat(b.dtype(p.re), &dims, 0.0)
        };
        let im = p.im.unwrap_or_else(|| zero(b));
        return if sign > 0.0 {
            Pair { re: b.neg(im), im: Some(p.re) }
        } else {
            Pair { re: im, im: Some(b.neg(p.re)) }
        };
    }
    let a = root(k, 1, n, sign);
    let (c, s) = (a.cos(), a.sin());
    let (rc, rs) = (b.with(Binary::Mul, p.re, c), b.with(Binary::Mul, p.re, s));
    match p.im {
        None => Pair { re: rc, im: Some(rs) },
        Some(i) => {
            let (ic, is) = (b.with(Binary::Mul, i, c), b.with(Binary::Mul, i, s));
            Pair { re: b.sub(rc, is), im: Some(b.add(rs, ic)) }
        }
    }
}

/// Arrays `[rows, q]` as `[number, rows, q]`.
fn stacked(b: &mut Emit, bins: &[Pair]) -> Pair {
    let part = b.dtype(bins[0].re);
    let dims = b.dims(bins[0].re).to_vec();
    let one = [&[1], &dims[..]].concat();
    let mut stack = |items: &[NodeId]| {
        let items: Vec<NodeId> = items.iter().map(|&x| b.reshape(x, &one)).collect();
        b.concatenate(&items, 0)
    };
    let re: Vec<NodeId> = bins.iter().map(|x| x.re).collect();
    let re = stack(&re);
    if bins.iter().all(|x| x.im.is_none()) {
        return Pair { re, im: None };
    }
    let im: Vec<NodeId> = bins
        .iter()
        .map(|x| match x.im {
            Some(i) => i,
            None => b.splat(part, &dims, 0.0),
        })
        .collect();
    let items: Vec<NodeId> = im.iter().map(|&x| b.reshape(x, &one)).collect();
    Pair { re, im: Some(b.concatenate(&items, 0)) }
}

/// A transform of any length as a convolution with a chirp, by transforms of a power-of-two length.
fn bluestein(b: &mut Emit, p: Pair, n: u64, sign: f64) -> Pair {
    let long = (2 * n - 1).next_power_of_two();
    let part = b.dtype(p.re);
    let rows = b.dims(p.re)[0];
    let square = |i: u64| {
        let k = (u128::from(i) * u128::from(i) % u128::from(2 * n)) as f64;
        std::f64::consts::PI * k / n as f64
    };
    let flat = |b: &mut Emit, t: Pair| {
        each(b, t, &mut |b, x| {
            let len = b.dims(x)[1];
            b.reshape(x, &[len])
        })
    };
    let chirp = table(b, part, [1, n], |_, i| sign * square(i));
    let chirp = flat(b, chirp);
    let x = times(b, p, chirp, &[1]);
    let grown = each(b, x, &mut |b, x| {
        let zero = b.scalar(part, 0.0);
        let none = PadDim { low: 0, high: 0, interior: 0 };
        b.pad(x, zero, &[none, PadDim { high: (long - n) as i64, ..none }])
    });
    // The conjugate chirp at 0 .. n and, wrapped, at the end; its spectrum is a constant.
    let spectrum = chirp_spectrum(n, long, -sign);
    let filter = table_of(b, part, &spectrum);
    let x = transform(b, grown, -1.0);
    let x = times(b, x, filter, &[1]);
    let x = transform(b, x, 1.0);
    let x = each(b, x, &mut |b, x| {
        let x = b.slice_dim(x, 1, 0, n, 1);
        let x = b.with(Binary::Mul, x, 1.0 / long as f64);
        b.reshape(x, &[rows, n])
    });
    times(b, x, chirp, &[1])
}

fn table_of(b: &mut Emit, part: DType, values: &[(f64, f64)]) -> Pair {
    let bytes = |pick: &dyn Fn(&(f64, f64)) -> f64| values.iter().flat_map(|v| element_bytes(part, pick(v))).collect();
    let dims = [values.len() as u64];
    let re = b.constant(Literal::new(part, &dims, bytes(&|v| v.0)));
    let im = b.constant(Literal::new(part, &dims, bytes(&|v| v.1)));
    Pair { re, im: Some(im) }
}

/// The spectrum of the wrapped chirp `exp(sign * i * pi * k^2 / n)`, by a plain radix-2 transform.
fn chirp_spectrum(n: u64, long: u64, sign: f64) -> Vec<(f64, f64)> {
    let mut signal = vec![(0.0, 0.0); long as usize];
    for i in 0..n {
        let k = (u128::from(i) * u128::from(i) % u128::from(2 * n)) as f64;
        let a = sign * std::f64::consts::PI * k / n as f64;
        signal[i as usize] = (a.cos(), a.sin());
        if i > 0 {
            signal[(long - i) as usize] = (a.cos(), a.sin());
        }
    }
    let bits = long.trailing_zeros();
    let mut x: Vec<(f64, f64)> = (0..long).map(|i| signal[(i.reverse_bits() >> (64 - bits)) as usize]).collect();
    let mut half = 1usize;
    while half < long as usize {
        for start in (0..long as usize).step_by(half * 2) {
            for k in 0..half {
                let a = -TAU * k as f64 / (half * 2) as f64;
                let (c, s) = (a.cos(), a.sin());
                let (u, v) = (x[start + k], x[start + k + half]);
                let t = (v.0 * c - v.1 * s, v.0 * s + v.1 * c);
                x[start + k] = (u.0 + t.0, u.1 + t.1);
                x[start + k + half] = (u.0 - t.0, u.1 - t.1);
            }
        }
        half *= 2;
    }
    x
}
