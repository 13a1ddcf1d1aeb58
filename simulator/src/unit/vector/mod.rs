//! The vector ALUs: pure functions over registers of 32-bit lanes. A mask is a register of all-ones or zero lanes.

mod arith;
mod convert;
mod pair;

pub(crate) use arith::{compare, execute, masks, select};
pub(crate) use convert::{convert, round_bf16};
pub(crate) use pair::{Pair, compare_pairs, from_lanes, pairs, to_lanes};

/// A subnormal as signed zero.
#[inline(always)]
pub(crate) fn flush(x: u32) -> u32 {
    if x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x }
}

/// Lane bits as f32, subnormals flushed.
#[inline(always)]
pub(crate) fn f(x: u32) -> f32 {
    f32::from_bits(flush(x))
}

/// A result's lane bits, subnormals flushed.
#[inline(always)]
pub(crate) fn bits(x: f32) -> u32 {
    flush(x.to_bits())
}

/// Larger value: NaN if either is, +0 above -0.
#[inline(always)]
pub(crate) fn maximum(a: u32, b: u32) -> u32 {
    extremum(a, b, |x, y| x > y, |x, y| x & y)
}

/// Smaller value: NaN if either is, -0 below +0.
#[inline(always)]
pub(crate) fn minimum(a: u32, b: u32) -> u32 {
    extremum(a, b, |x, y| x < y, |x, y| x | y)
}

#[inline(always)]
fn extremum(a: u32, b: u32, wins: impl Fn(f32, f32) -> bool, tie: impl Fn(u32, u32) -> u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let r = if wins(x, y) { x.to_bits() } else { y.to_bits() };
    // Equal values have equal bits, but for zeros, where the sign decides.
    let r = if x == y { tie(x.to_bits(), y.to_bits()) } else { r };
    if x.is_nan() { a | 0x0040_0000 } else { r }
}
