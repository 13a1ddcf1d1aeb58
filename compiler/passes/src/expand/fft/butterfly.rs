//! Transforms of few numbers by additions and single products.

use super::table::{Pair, root};
use crate::edit::Emit;
use systole_hlo::graph::{Binary, NodeId};

/// Transforms of the same element of every part: bin by bin (sizes: powers of two), by halves.
pub fn bins(b: &mut Emit, x: &[Pair], sign: f64) -> Vec<Pair> {
    let n = x.len();
    if n == 1 {
        return x.to_vec();
    }
    let pick = |first: usize| x.iter().skip(first).step_by(2).copied().collect::<Vec<_>>();
    let (even, odd) = (bins(b, &pick(0), sign), bins(b, &pick(1), sign));
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
pub fn stacked(b: &mut Emit, bins: &[Pair]) -> Pair {
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
