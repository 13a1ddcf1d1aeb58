//! f32 and 32-bit integer arithmetic, bit operations, selection, comparisons.

use super::{bits, f, maximum, minimum};
use multiversion::multiversion;
use systole_isa::Op;

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

/// One vector ALU operation with a vector result: `d = op(a, b, c)`; absent operands are empty, a mask comes as `c`.
/// `false` if the opcode is not one of these.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx512cd+avx2+fma+bmi1+lzcnt+popcnt",
    "x86_64+avx2+fma+bmi1+lzcnt+popcnt"
))]
pub(crate) fn execute(op: Op, d: &mut [u32], a: &[u32], b: &[u32], c: &[u32]) -> bool {
    match op {
        Op::VMov => d.copy_from_slice(a),
        Op::VAddF => map2(d, a, b, |a, b| bits(f(a) + f(b))),
        Op::VSubF => map2(d, a, b, |a, b| bits(f(a) - f(b))),
        Op::VMulF => map2(d, a, b, |a, b| bits(f(a) * f(b))),
        Op::VFmaF => map3(d, a, b, c, |a, b, c| bits(f(a).mul_add(f(b), f(c)))),
        Op::VDivF => map2(d, a, b, |a, b| bits(f(a) / f(b))),
        Op::VMinF => map2(d, a, b, minimum),
        Op::VMaxF => map2(d, a, b, maximum),
        Op::VFloorF => map1(d, a, |a| f(a).floor().to_bits()),
        Op::VCeilF => map1(d, a, |a| f(a).ceil().to_bits()),
        Op::VRneF => map1(d, a, |a| f(a).round_ties_even().to_bits()),
        Op::VTruncF => map1(d, a, |a| f(a).trunc().to_bits()),
        Op::VAddI => map2(d, a, b, u32::wrapping_add),
        Op::VSubI => map2(d, a, b, u32::wrapping_sub),
        Op::VMulI => map2(d, a, b, u32::wrapping_mul),
        Op::VMulHiS => map2(d, a, b, |a, b| ((signed(a) as i64 * signed(b) as i64) >> 32) as u32),
        Op::VMulHiU => map2(d, a, b, |a, b| ((a as u64 * b as u64) >> 32) as u32),
        Op::VDivS => map2(d, a, b, div_signed),
        Op::VDivU => map2(d, a, b, |a, b| a.checked_div(b).unwrap_or(!0)),
        Op::VRemS => map2(d, a, b, rem_signed),
        Op::VRemU => map2(d, a, b, |a, b| a.checked_rem(b).unwrap_or(a)),
        Op::VMinS => map2(d, a, b, |a, b| signed(a).min(signed(b)) as u32),
        Op::VMaxS => map2(d, a, b, |a, b| signed(a).max(signed(b)) as u32),
        Op::VMinU => map2(d, a, b, u32::min),
        Op::VMaxU => map2(d, a, b, u32::max),
        Op::VAnd => map2(d, a, b, |a, b| a & b),
        Op::VOr => map2(d, a, b, |a, b| a | b),
        Op::VXor => map2(d, a, b, |a, b| a ^ b),
        Op::VShl => map2(d, a, b, |a, b| if b < 32 { a << (b & 31) } else { 0 }),
        Op::VShr => map2(d, a, b, |a, b| if b < 32 { a >> (b & 31) } else { 0 }),
        Op::VSar => map2(d, a, b, |a, b| (signed(a) >> b.min(31)) as u32),
        Op::VClz => map1(d, a, u32::leading_zeros),
        Op::VPopcnt => map1(d, a, u32::count_ones),
        Op::VSel => map3(d, a, b, c, |a, b, m| a & m | b & !m),
        _ => return false,
    }
    true
}

/// One operation with a mask result. `false` if the opcode is not one of these.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn masks(op: Op, d: &mut [u32], a: &[u32], b: &[u32]) -> bool {
    match op {
        Op::VEqF => test(d, a, b, |a, b| f(a) == f(b)),
        Op::VNeF => test(d, a, b, |a, b| f(a) != f(b)),
        Op::VLtF => test(d, a, b, |a, b| f(a) < f(b)),
        Op::VLeF => test(d, a, b, |a, b| f(a) <= f(b)),
        Op::VEqI => test(d, a, b, |a, b| a == b),
        Op::VNeI => test(d, a, b, |a, b| a != b),
        Op::VLtS => test(d, a, b, |a, b| signed(a) < signed(b)),
        Op::VLeS => test(d, a, b, |a, b| signed(a) <= signed(b)),
        Op::VLtU => test(d, a, b, |a, b| a < b),
        Op::VLeU => test(d, a, b, |a, b| a <= b),
        Op::MAnd => map2(d, a, b, |a, b| a & b),
        Op::MOr => map2(d, a, b, |a, b| a | b),
        Op::MXor => map2(d, a, b, |a, b| a ^ b),
        _ => return false,
    }
    true
}
