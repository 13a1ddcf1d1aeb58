//! Operations on register pairs: f64 and 64-bit integers, low word in the first register.

use multiversion::multiversion;
use systole_isa::opcodes::{PairCompareFn, PairFn};

/// A pair of registers: low words, high words.
pub(crate) type Pair<'a> = (&'a [u32], &'a [u32]);

#[inline(always)]
fn word(lo: u32, hi: u32) -> u64 {
    (hi as u64) << 32 | lo as u64
}

#[inline(always)]
fn flush(x: u64) -> u64 {
    if x & 0x7ff0_0000_0000_0000 == 0 { x & 1 << 63 } else { x }
}

#[inline(always)]
fn f(x: u64) -> f64 {
    f64::from_bits(flush(x))
}

#[inline(always)]
fn bits(x: f64) -> u64 {
    flush(x.to_bits())
}

#[inline(always)]
fn map(d: (&mut [u32], &mut [u32]), a: Pair<'_>, b: Pair<'_>, g: impl Fn(u64, u64) -> u64) {
    let inputs = a.0.iter().zip(a.1).zip(b.0.iter().zip(b.1));
    for ((lo, hi), ((&al, &ah), (&bl, &bh))) in d.0.iter_mut().zip(d.1).zip(inputs) {
        let r = g(word(al, ah), word(bl, bh));
        (*lo, *hi) = (r as u32, (r >> 32) as u32);
    }
}

/// One operation from pairs to a pair; one-operand operations ignore the others.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn pairs(function: PairFn, d: (&mut [u32], &mut [u32]), a: Pair<'_>, b: Pair<'_>, c: Pair<'_>) {
    match function {
        PairFn::PAddD => map(d, a, b, |a, b| bits(f(a) + f(b))),
        PairFn::PSubD => map(d, a, b, |a, b| bits(f(a) - f(b))),
        PairFn::PMulD => map(d, a, b, |a, b| bits(f(a) * f(b))),
        PairFn::PDivD => map(d, a, b, |a, b| bits(f(a) / f(b))),
        PairFn::PFmaD => {
            for (i, (lo, hi)) in d.0.iter_mut().zip(d.1).enumerate() {
                let r = f(word(a.0[i], a.1[i])).mul_add(f(word(b.0[i], b.1[i])), f(word(c.0[i], c.1[i])));
                (*lo, *hi) = (bits(r) as u32, (bits(r) >> 32) as u32);
            }
        }
        PairFn::PSqrtD => map(d, a, a, |a, _| bits(f(a).sqrt())),
        PairFn::PRneD => map(d, a, a, |a, _| bits(f(a).round_ties_even())),
        PairFn::PCvtS64 => map(d, a, a, |a, _| (a as i64 as f64).to_bits()),
        PairFn::PCvtU64 => map(d, a, a, |a, _| (a as f64).to_bits()),
        PairFn::PCvtToS64 => map(d, a, a, |a, _| f(a) as i64 as u64),
        PairFn::PCvtToU64 => map(d, a, a, |a, _| f(a) as u64),
    }
}

/// f32 lanes to f64 pairs, exact (subnormals flush).
pub(crate) fn from_lanes(d: (&mut [u32], &mut [u32]), a: &[u32]) {
    for ((lo, hi), &a) in d.0.iter_mut().zip(d.1).zip(a) {
        let r = (super::f(a) as f64).to_bits();
        (*lo, *hi) = (r as u32, (r >> 32) as u32);
    }
}

/// f64 pairs to f32 lanes, nearest even.
pub(crate) fn to_lanes(d: &mut [u32], a: Pair<'_>) {
    for (d, (&lo, &hi)) in d.iter_mut().zip(a.0.iter().zip(a.1)) {
        *d = super::bits(f(word(lo, hi)) as f32);
    }
}

/// One comparison of f64 pairs into a mask.
pub(crate) fn compare_pairs(function: PairCompareFn, d: &mut [u32], a: Pair<'_>, b: Pair<'_>) {
    let test: fn(f64, f64) -> bool = match function {
        PairCompareFn::PEqD => |a, b| a == b,
        PairCompareFn::PLtD => |a, b| a < b,
        PairCompareFn::PLeD => |a, b| a <= b,
    };
    for (i, d) in d.iter_mut().enumerate() {
        *d = if test(f(word(a.0[i], a.1[i])), f(word(b.0[i], b.1[i]))) { !0 } else { 0 };
    }
}
