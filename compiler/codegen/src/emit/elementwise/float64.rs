//! f64: arithmetic by the chip's pair instructions, rounding and conversions; functions are in [`super::functions`].

use super::int32::is_signed;
use super::int64::{self, Wide};
use super::{Family, family, functions, refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, M, P};
use systole_hlo::graph::elementwise::{Arithmetic, Rounding, Signs, Test, UnaryKind};
use systole_hlo::graph::{Direction, Unary};
use systole_isa::{DType, Op};

const SIGN: u32 = 0x8000_0000;
const ABS: u32 = 0x7fff_ffff;
/// The high word of infinity.
pub(super) const INF: u32 = 0x7ff0_0000;

/// The register pair of an f64 value (or of any two words).
pub fn pair(b: &mut KernelBuilder, x: &Value) -> P {
    let w = Wide::of(x);
    // Constants are made once, not in every round of a loop.
    match (b.constant_of(w.lo), b.constant_of(w.hi)) {
        (Some(lo), Some(hi)) => b.p_imm(i64::from(hi) << 32 | i64::from(lo as u32)),
        _ => b.pair(w.lo, w.hi),
    }
}

/// The f64 value of a register pair.
pub fn value(b: &mut KernelBuilder, p: P) -> Value {
    let (lo, hi) = b.unpair(p);
    Value::words(DType::F64, &[lo, hi])
}

/// Magnitude, by bits.
pub(super) fn abs(b: &mut KernelBuilder, p: P) -> P {
    let (lo, hi) = b.unpair(p);
    let hi = b.and(hi, ABS);
    b.pair(lo, hi)
}

/// Negation, by bits.
pub(super) fn neg(b: &mut KernelBuilder, p: P) -> P {
    let (lo, hi) = b.unpair(p);
    let hi = b.xor(hi, SIGN);
    b.pair(lo, hi)
}

/// The magnitude of `a` with the sign of `s`.
pub(super) fn with_sign_of(b: &mut KernelBuilder, a: P, s: P) -> P {
    let (lo, hi) = b.unpair(a);
    let sign = b.def_v(Op::PHi, &[s.into()]);
    let (hi, sign) = (b.and(hi, ABS), b.and(sign, SIGN));
    let hi = b.or(hi, sign);
    b.pair(lo, hi)
}

/// A unary operation.
pub fn unary(b: &mut KernelBuilder, op: Unary, x: &Value) -> Value {
    let w = Wide::of(x);
    let p = |b: &mut KernelBuilder| b.pair(w.lo, w.hi);
    let r = match op.kind() {
        UnaryKind::Signs(Signs::Abs) => return Wide { hi: b.and(w.hi, ABS), ..w }.value(DType::F64),
        UnaryKind::Signs(Signs::Neg) => return Wide { hi: b.xor(w.hi, SIGN), ..w }.value(DType::F64),
        UnaryKind::Signs(Signs::Sign) => return sign(b, x),
        UnaryKind::Test(Test::IsFinite) => {
            let a = b.and(w.hi, ABS);
            return Value::mask(b.test(Op::VLtS, a, INF));
        }
        UnaryKind::Rounding(f) => {
            let p = p(b);
            match f {
                Rounding::RoundEven => b.p1(Op::PRneD, p),
                Rounding::Floor => step_back(b, p, true),
                Rounding::Ceil => step_back(b, p, false),
                Rounding::RoundAfz => round_afz(b, p),
            }
        }
        UnaryKind::Function(f) => {
            let p = p(b);
            functions::function64(b, f, p)
        }
        UnaryKind::RealFunction(f) => {
            let p = p(b);
            functions::real_function64(b, f, p)
        }
        UnaryKind::Part(_) | UnaryKind::Count(_) | UnaryKind::Logic(_) => refused(op, DType::F64),
    };
    value(b, r)
}

/// -1, ±0, 1 or NaN.
fn sign(b: &mut KernelBuilder, x: &Value) -> Value {
    let w = Wide::of(x);
    let p = b.pair(w.lo, w.hi);
    let (zero, own) = (b.ptest(Op::PEqD, p, 0.0), b.ptest(Op::PEqD, p, p));
    let s = b.and(w.hi, SIGN);
    let one = b.or(s, 0x3ff0_0000);
    let hi = b.sel(zero, s, one);
    Wide { lo: b.sel(own, 0, w.lo), hi: b.sel(own, hi, w.hi) }.value(DType::F64)
}

/// Floor or ceiling: the nearest integer, and one step back where that went too far.
fn step_back(b: &mut KernelBuilder, x: P, down: bool) -> P {
    let n = b.p1(Op::PRneD, x);
    let far = if down { b.ptest(Op::PLtD, x, n) } else { b.ptest(Op::PLtD, n, x) };
    let back = b.addd(n, if down { -1.0 } else { 1.0 });
    let r = b.psel(far, back, n);
    with_sign_of(b, r, x)
}

/// Nearest integer, halves away from zero.
fn round_afz(b: &mut KernelBuilder, x: P) -> P {
    let a = abs(b, x);
    let floor = step_back(b, a, true);
    let rest = b.subd(a, floor);
    let up = b.ptest(Op::PLeD, 0.5, rest);
    let next = b.addd(floor, 1.0);
    let r = b.psel(up, next, floor);
    with_sign_of(b, r, x)
}

/// Arithmetic of two numbers.
pub fn arithmetic(b: &mut KernelBuilder, op: Arithmetic, x: &Value, y: &Value) -> Value {
    let (p, q) = (pair(b, x), pair(b, y));
    let r = match op {
        Arithmetic::Add => b.addd(p, q),
        Arithmetic::Sub => b.subd(p, q),
        Arithmetic::Mul => b.muld(p, q),
        Arithmetic::Div => b.divd(p, q),
        Arithmetic::Max | Arithmetic::Min => return extreme(b, op, x, y),
        Arithmetic::Rem => remainder(b, p, q),
    };
    value(b, r)
}

/// `x * y + z`, rounded once.
pub fn multiply_add(b: &mut KernelBuilder, x: &Value, y: &Value, z: &Value) -> Value {
    let (p, q, r) = (pair(b, x), pair(b, y), pair(b, z));
    let sum = b.fmad(p, q, r);
    value(b, sum)
}

/// Maximum or minimum; NaN if either is; -0 is below +0.
fn extreme(b: &mut KernelBuilder, op: Arithmetic, x: &Value, y: &Value) -> Value {
    let (p, q) = (pair(b, x), pair(b, y));
    let (u, w) = (sortable(b, x), sortable(b, y));
    let less = int64::compare(b, Direction::Lt, true, &u, &w);
    let (first, second) = if op == Arithmetic::Max { (y, x) } else { (x, y) };
    let r = int64::select(b, less, Wide::of(first), Wide::of(second));
    let (pn, qn) = (b.ptest(Op::PEqD, p, p), b.ptest(Op::PEqD, q, q));
    let r = int64::select(b, pn, r, Wide::of(x));
    let own = b.m_not(pn);
    let keep = b.m_or(own, qn);
    int64::select(b, keep, r, Wide::of(y)).value(DType::F64)
}

/// The exact remainder with x's sign (C's `fmod`).
///
/// As in f32 a step takes 52 bits off the quotient and is exact. So that no quotient overflows, the first half of the
/// steps divides by y times a power of two that makes it at least 1.
fn remainder(b: &mut KernelBuilder, x: P, y: P) -> P {
    let (ax, ay) = (abs(b, x), abs(b, y));
    let mut big = ay;
    for power in [1000, 22] {
        let small = b.ptest(Op::PLtD, big, 1.0);
        let up = b.muld(big, f64::from_bits((1023 + power) << 52));
        big = b.psel(small, up, big);
    }
    let r = b.addd(ax, 0.0);
    for d in [big, ay] {
        let minus = neg(b, d);
        b.loop_static(21, |b| {
            let q = b.divd(r, minus);
            let n = b.p1(Op::PRneD, q);
            b.set_p(r, Op::PFmaD, &[n.into(), d.into(), r.into()]);
        });
    }
    let negative = b.ptest(Op::PLtD, r, 0.0);
    let up = b.addd(r, ay);
    let t = b.psel(negative, up, r);
    let t = with_sign_of(b, t, x);
    // A finite x is its own remainder by an infinity.
    let (finite, infinite) = (b.ptest(Op::PLtD, ax, f64::INFINITY), b.ptest(Op::PEqD, ay, f64::INFINITY));
    let own = b.m_and(finite, infinite);
    b.psel(own, x, t)
}

/// Signed 64-bit integers in the total order of the bits: the other bits of negative numbers are flipped.
pub fn sortable(b: &mut KernelBuilder, x: &Value) -> Value {
    let w = Wide::of(x);
    let s = b.sar(w.hi, 31);
    let flip = b.shr(s, 1);
    Wide { lo: b.xor(w.lo, s), hi: b.xor(w.hi, flip) }.value(DType::S64)
}

/// Compares by IEEE 754.
pub fn compare(b: &mut KernelBuilder, d: Direction, x: &Value, y: &Value) -> M {
    let (p, q) = (pair(b, x), pair(b, y));
    match d {
        Direction::Eq => b.ptest(Op::PEqD, p, q),
        Direction::Ne => {
            let e = b.ptest(Op::PEqD, p, q);
            b.m_not(e)
        }
        Direction::Lt => b.ptest(Op::PLtD, p, q),
        Direction::Le => b.ptest(Op::PLeD, p, q),
        Direction::Gt => b.ptest(Op::PLtD, q, p),
        Direction::Ge => b.ptest(Op::PLeD, q, p),
    }
}

/// An integer or a narrower float as f64.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other family goes through integers of 64 bits")]
pub fn widen(b: &mut KernelBuilder, x: &Value) -> Value {
    match family(x.dtype) {
        Family::Float32 => {
            let p = b.def_p(Op::PCvtF32, &[x.v().into()]);
            value(b, p)
        }
        _ => {
            let wide = if is_signed(x.dtype) { DType::S64 } else { DType::U64 };
            let w = int64::from_integer(b, x, wide);
            int64::to_float64(b, &w)
        }
    }
}

/// A float as a 64-bit integer: truncated, saturated.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other family is widened first")]
pub fn to_int64(b: &mut KernelBuilder, x: &Value, to: DType) -> Value {
    let p = match family(x.dtype) {
        Family::Float32 => b.def_p(Op::PCvtF32, &[x.v().into()]),
        _ => pair(b, x),
    };
    let i = b.p1(if is_signed(to) { Op::PCvtToS64 } else { Op::PCvtToU64 }, p);
    let (lo, hi) = b.unpair(i);
    Value::words(to, &[lo, hi])
}

/// f64 as an integer of at most 32 bits: truncated, saturated.
pub fn to_int32(b: &mut KernelBuilder, x: &Value, to: DType) -> Value {
    let w = to_int64(b, x, if is_signed(to) { DType::S64 } else { DType::U64 });
    int64::saturated(b, &w, to)
}

/// See [`super::reduce_precision`].
pub fn reduce_precision(b: &mut KernelBuilder, x: &Value, exponent: u32, mantissa: u32) -> Value {
    let w = Wide::of(x);
    let mut r = w;
    if mantissa < 52 {
        let shift = 52 - mantissa;
        let last = if shift < 32 { b.shr(w.lo, shift as i32) } else { b.shr(w.hi, shift as i32 - 32) };
        let last = b.and(last, 1);
        let zero = b.v_imm(0);
        let half = int64::imm(b, (1i64 << (shift - 1)) - 1);
        let bias = int64::add(b, half, Wide { lo: last, hi: zero });
        let up = int64::add(b, w, bias);
        let mask = -1i64 << shift;
        r = Wide { lo: b.and(up.lo, mask as i32), hi: b.and(up.hi, (mask >> 32) as i32) };
    }
    let sign = b.and(w.hi, SIGN);
    if exponent < 11 {
        let range = (1i32 << (exponent - 1)) - 1;
        let zero = b.v_imm(0);
        let e = b.and(r.hi, INF);
        let over = b.test(Op::VLtS, (1023 + range) << 20, e);
        let under = b.test(Op::VLeS, e, (1023 - range) << 20);
        let inf = b.or(sign, INF);
        r = int64::select(b, over, Wide { lo: zero, hi: inf }, r);
        r = int64::select(b, under, Wide { lo: zero, hi: sign }, r);
    }
    let p = b.pair(w.lo, w.hi);
    let number = b.ptest(Op::PEqD, p, p);
    int64::select(b, number, r, w).value(DType::F64)
}
