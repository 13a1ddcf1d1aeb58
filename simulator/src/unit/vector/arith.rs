//! f32 and 32-bit integer arithmetic, bit operations, selection, comparisons.

use super::{bits, f, maximum, minimum};
use multiversion::multiversion;
use systole_isa::opcodes::{CompareFn, LaneFn, MaskFn, SelectFn};

#[inline(always)]
fn map1(d: &mut [u32], a: &[u32], g: impl Fn(u32) -> u32) {
    d.iter_mut().zip(a).for_each(|(d, &a)| *d = g(a));
}

#[inline(always)]
fn map2(d: &mut [u32], a: &[u32], b: &[u32], g: impl Fn(u32, u32) -> u32) {
    d.iter_mut().zip(a).zip(b).for_each(|((d, &a), &b)| *d = g(a, b));
}

#[inline(always)]
fn map3(d: &mut [u32], a: &[u32], b: &[u32], c: &[u32], g: impl Fn(u32, u32, u32) -> u32) {
    d.iter_mut().zip(a).zip(b).zip(c).for_each(|(((d, &a), &b), &c)| *d = g(a, b, c));
}

#[inline(always)]
fn test(d: &mut [u32], a: &[u32], b: &[u32], g: impl Fn(u32, u32) -> bool) {
    map2(d, a, b, |a, b| if g(a, b) { !0 } else { 0 });
}

#[inline(always)]
fn signed(x: u32) -> i32 {
    x as i32
}

/// `a / b` and remainder with the machine's rules for zero and overflow.
#[inline(always)]
fn div_signed(a: u32, b: u32) -> u32 {
    if b == 0 { !0 } else { signed(a).wrapping_div(signed(b)) as u32 }
}

#[inline(always)]
fn rem_signed(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { signed(a).wrapping_rem(signed(b)) as u32 }
}

/// One vector ALU operation, lane by lane: `d = function(a, b, c)`; operands that it does not have are not looked at.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx512cd+avx2+fma+bmi1+lzcnt+popcnt",
    "x86_64+avx2+fma+bmi1+lzcnt+popcnt"
))]
pub(crate) fn execute(function: LaneFn, d: &mut [u32], a: &[u32], b: &[u32], c: &[u32]) {
    match function {
        LaneFn::VMov => d.copy_from_slice(a),
        LaneFn::VAddF => map2(d, a, b, |a, b| bits(f(a) + f(b))),
        LaneFn::VSubF => map2(d, a, b, |a, b| bits(f(a) - f(b))),
        LaneFn::VMulF => map2(d, a, b, |a, b| bits(f(a) * f(b))),
        LaneFn::VFmaF => map3(d, a, b, c, |a, b, c| bits(f(a).mul_add(f(b), f(c)))),
        LaneFn::VDivF => map2(d, a, b, |a, b| bits(f(a) / f(b))),
        LaneFn::VMinF => map2(d, a, b, minimum),
        LaneFn::VMaxF => map2(d, a, b, maximum),
        LaneFn::VFloorF => map1(d, a, |a| f(a).floor().to_bits()),
        LaneFn::VCeilF => map1(d, a, |a| f(a).ceil().to_bits()),
        LaneFn::VRneF => map1(d, a, |a| f(a).round_ties_even().to_bits()),
        LaneFn::VTruncF => map1(d, a, |a| f(a).trunc().to_bits()),
        LaneFn::VAddI => map2(d, a, b, u32::wrapping_add),
        LaneFn::VSubI => map2(d, a, b, u32::wrapping_sub),
        LaneFn::VMulI => map2(d, a, b, u32::wrapping_mul),
        LaneFn::VMulHiS => map2(d, a, b, |a, b| ((signed(a) as i64 * signed(b) as i64) >> 32) as u32),
        LaneFn::VMulHiU => map2(d, a, b, |a, b| ((a as u64 * b as u64) >> 32) as u32),
        LaneFn::VDivS => map2(d, a, b, div_signed),
        LaneFn::VDivU => map2(d, a, b, |a, b| a.checked_div(b).unwrap_or(!0)),
        LaneFn::VRemS => map2(d, a, b, rem_signed),
        LaneFn::VRemU => map2(d, a, b, |a, b| a.checked_rem(b).unwrap_or(a)),
        LaneFn::VMinS => map2(d, a, b, |a, b| signed(a).min(signed(b)) as u32),
        LaneFn::VMaxS => map2(d, a, b, |a, b| signed(a).max(signed(b)) as u32),
        LaneFn::VMinU => map2(d, a, b, u32::min),
        LaneFn::VMaxU => map2(d, a, b, u32::max),
        LaneFn::VAnd => map2(d, a, b, |a, b| a & b),
        LaneFn::VOr => map2(d, a, b, |a, b| a | b),
        LaneFn::VXor => map2(d, a, b, |a, b| a ^ b),
        LaneFn::VShl => map2(d, a, b, |a, b| if b < 32 { a << (b & 31) } else { 0 }),
        LaneFn::VShr => map2(d, a, b, |a, b| if b < 32 { a >> (b & 31) } else { 0 }),
        LaneFn::VSar => map2(d, a, b, |a, b| (signed(a) >> b.min(31)) as u32),
        LaneFn::VClz => map1(d, a, u32::leading_zeros),
        LaneFn::VPopcnt => map1(d, a, u32::count_ones),
    }
}

/// Lanes of `a` where the mask is set, else of `b`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn select(function: SelectFn, d: &mut [u32], mask: &[u32], a: &[u32], b: &[u32]) {
    match function {
        SelectFn::VSel => map3(d, a, b, mask, |a, b, m| a & m | b & !m),
    }
}

/// A mask from two registers.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn compare(function: CompareFn, d: &mut [u32], a: &[u32], b: &[u32]) {
    match function {
        CompareFn::VEqF => test(d, a, b, |a, b| f(a) == f(b)),
        CompareFn::VNeF => test(d, a, b, |a, b| f(a) != f(b)),
        CompareFn::VLtF => test(d, a, b, |a, b| f(a) < f(b)),
        CompareFn::VLeF => test(d, a, b, |a, b| f(a) <= f(b)),
        CompareFn::VEqI => test(d, a, b, |a, b| a == b),
        CompareFn::VNeI => test(d, a, b, |a, b| a != b),
        CompareFn::VLtS => test(d, a, b, |a, b| signed(a) < signed(b)),
        CompareFn::VLeS => test(d, a, b, |a, b| signed(a) <= signed(b)),
        CompareFn::VLtU => test(d, a, b, |a, b| a < b),
        CompareFn::VLeU => test(d, a, b, |a, b| a <= b),
    }
}

/// A mask from two masks.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn masks(function: MaskFn, d: &mut [u32], a: &[u32], b: &[u32]) {
    match function {
        MaskFn::MAnd => map2(d, a, b, |a, b| a & b),
        MaskFn::MOr => map2(d, a, b, |a, b| a | b),
        MaskFn::MXor => map2(d, a, b, |a, b| a ^ b),
    }
}
