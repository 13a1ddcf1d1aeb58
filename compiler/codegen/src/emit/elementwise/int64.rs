//! `s64` and `u64`, held as low and high 32-bit words.

use super::compare::words;
use super::convert::saturate;
use super::float32::round_to;
use super::int32::is_signed;
use super::{float64, functions, refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, M, V};
use systole_hlo::graph::elementwise::{Arithmetic, BinaryFunction, Integer, Logic, Signs, UnaryKind};
use systole_hlo::graph::{Direction, Unary};
use systole_isa::{DType, Op};

/// The words of a 64-bit value.
#[derive(Clone, Copy)]
pub(super) struct Wide {
    pub lo: V,
    pub hi: V,
}

impl Wide {
    pub(super) fn of(x: &Value) -> Wide {
        Wide { lo: x.all()[0], hi: x.all()[1] }
    }

    pub(super) fn value(self, dtype: DType) -> Value {
        Value::words(dtype, &[self.lo, self.hi])
    }
}

pub(super) fn imm(b: &mut KernelBuilder, v: i64) -> Wide {
    Wide { lo: b.v_imm(v as i32), hi: b.v_imm((v >> 32) as i32) }
}

pub(super) fn add(b: &mut KernelBuilder, x: Wide, y: Wide) -> Wide {
    let lo = b.addi(x.lo, y.lo);
    let carry = b.test(Op::VLtU, lo, x.lo);
    let c = b.sel(carry, 1, 0);
    let hi = b.addi(x.hi, y.hi);
    Wide { lo, hi: b.addi(hi, c) }
}

pub(super) fn sub(b: &mut KernelBuilder, x: Wide, y: Wide) -> Wide {
    let borrow = b.test(Op::VLtU, x.lo, y.lo);
    let c = b.sel(borrow, 1, 0);
    let hi = b.subi(x.hi, y.hi);
    Wide { lo: b.subi(x.lo, y.lo), hi: b.subi(hi, c) }
}

/// Low 64 bits of the product.
fn mul(b: &mut KernelBuilder, x: Wide, y: Wide) -> Wide {
    let hi = b.v2(Op::VMulHiU, x.lo, y.lo);
    let (p, q) = (b.muli(x.lo, y.hi), b.muli(x.hi, y.lo));
    let hi = b.addi(hi, p);
    Wide { lo: b.muli(x.lo, y.lo), hi: b.addi(hi, q) }
}

/// High 64 bits of the unsigned product.
fn mul_high_unsigned(b: &mut KernelBuilder, x: Wide, y: Wide) -> Wide {
    let zero = b.v_imm(0);
    let product = |b: &mut KernelBuilder, p, q| Wide { lo: b.muli(p, q), hi: b.v2(Op::VMulHiU, p, q) };
    let low = b.v2(Op::VMulHiU, x.lo, y.lo);
    let first = product(b, x.lo, y.hi);
    let second = product(b, x.hi, y.lo);
    let top = product(b, x.hi, y.hi);
    let t = add(b, first, Wide { lo: low, hi: zero });
    let u = add(b, second, Wide { lo: t.lo, hi: zero });
    let r = add(b, top, Wide { lo: t.hi, hi: zero });
    add(b, r, Wide { lo: u.hi, hi: zero })
}

pub(super) fn select(b: &mut KernelBuilder, m: M, x: Wide, y: Wide) -> Wide {
    Wide { lo: b.select(m, x.lo, y.lo), hi: b.select(m, x.hi, y.hi) }
}

fn negate(b: &mut KernelBuilder, x: Wide) -> Wide {
    let zero = imm(b, 0);
    sub(b, zero, x)
}

fn magnitude(b: &mut KernelBuilder, x: Wide) -> Wide {
    let n = negate(b, x);
    let m = b.test(Op::VLtS, x.hi, 0);
    select(b, m, n, x)
}

/// Compares two values of 64-bit words.
pub fn compare(b: &mut KernelBuilder, d: Direction, signed: bool, x: &Value, y: &Value) -> M {
    wide_compare(b, d, signed, Wide::of(x), Wide::of(y))
}

fn wide_compare(b: &mut KernelBuilder, d: Direction, signed: bool, x: Wide, y: Wide) -> M {
    match d {
        Direction::Eq | Direction::Ne => {
            let (l, h) = (b.xor(x.lo, y.lo), b.xor(x.hi, y.hi));
            let any = b.or(l, h);
            let zero = b.v_imm(0);
            words(b, d, false, any, zero)
        }
        Direction::Gt => wide_compare(b, Direction::Lt, signed, y, x),
        Direction::Ge => wide_compare(b, Direction::Le, signed, y, x),
        Direction::Lt | Direction::Le => {
            let low = words(b, d, false, x.lo, y.lo);
            let equal = b.cmp(Op::VEqI, x.hi, y.hi);
            let high = words(b, Direction::Lt, signed, x.hi, y.hi);
            let both = b.m_and(equal, low);
            b.m_or(high, both)
        }
    }
}

/// A unary operation.
pub fn unary(b: &mut KernelBuilder, op: Unary, x: &Value) -> Value {
    let (t, w, signed) = (x.dtype, Wide::of(x), is_signed(x.dtype));
    let r = match op.kind() {
        UnaryKind::Signs(Signs::Abs) if signed => magnitude(b, w),
        UnaryKind::Signs(Signs::Abs) => w,
        UnaryKind::Signs(Signs::Neg) => negate(b, w),
        UnaryKind::Logic(Logic::Not) => Wide { lo: b.xor(w.lo, -1), hi: b.xor(w.hi, -1) },
        UnaryKind::Signs(Signs::Sign) => {
            let any = b.or(w.lo, w.hi);
            let bit = b.v2(Op::VMinU, any, 1);
            let hi = if signed { b.sar(w.hi, 31) } else { b.v_imm(0) };
            Wide { lo: b.or(bit, hi), hi }
        }
        UnaryKind::Count(c) => functions::count64(b, c, w),
        UnaryKind::Function(_)
        | UnaryKind::RealFunction(_)
        | UnaryKind::Rounding(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_) => refused(op, t),
    };
    r.value(t)
}

/// The number of leading zero bits.
pub(super) fn leading_zeros(b: &mut KernelBuilder, w: Wide) -> Wide {
    let zero = b.v_imm(0);
    let (low, high) = (b.v1(Op::VClz, w.lo), b.v1(Op::VClz, w.hi));
    let empty = b.test(Op::VEqI, w.hi, 0);
    let all = b.addi(low, 32);
    Wide { lo: b.sel(empty, all, high), hi: zero }
}

/// The number of bits that are set.
pub(super) fn ones(b: &mut KernelBuilder, w: Wide) -> Wide {
    let zero = b.v_imm(0);
    let (low, high) = (b.v1(Op::VPopcnt, w.lo), b.v1(Op::VPopcnt, w.hi));
    Wide { lo: b.addi(low, high), hi: zero }
}

/// Arithmetic of two numbers.
pub fn arithmetic(b: &mut KernelBuilder, op: Arithmetic, x: &Value, y: &Value) -> Value {
    let (t, signed) = (x.dtype, is_signed(x.dtype));
    let (x, y) = (Wide::of(x), Wide::of(y));
    let r = match op {
        Arithmetic::Add => add(b, x, y),
        Arithmetic::Sub => sub(b, x, y),
        Arithmetic::Mul => mul(b, x, y),
        Arithmetic::Max | Arithmetic::Min => {
            let less = wide_compare(b, Direction::Lt, signed, x, y);
            if op == Arithmetic::Max { select(b, less, y, x) } else { select(b, less, x, y) }
        }
        Arithmetic::Div => divide(b, signed, x, y).0,
        Arithmetic::Rem => divide(b, signed, x, y).1,
    };
    r.value(t)
}

/// Bits of two numbers.
pub fn bits(b: &mut KernelBuilder, op: Integer, x: &Value, y: &Value) -> Value {
    let t = x.dtype;
    let (x, y) = (Wide::of(x), Wide::of(y));
    let each = |b: &mut KernelBuilder, op| Wide { lo: b.v2(op, x.lo, y.lo), hi: b.v2(op, x.hi, y.hi) };
    let r = match op {
        Integer::And => each(b, Op::VAnd),
        Integer::Or => each(b, Op::VOr),
        Integer::Xor => each(b, Op::VXor),
        Integer::Shl | Integer::Shr | Integer::Sar => shift(b, op, x, y),
    };
    r.value(t)
}

/// A function of two numbers.
pub fn function(b: &mut KernelBuilder, f: BinaryFunction, x: &Value, y: &Value) -> Value {
    let (p, q) = (Wide::of(x), Wide::of(y));
    functions::of_two_wide(b, f, p, q, x.dtype).value(x.dtype)
}

/// The upper half of the product.
pub(super) fn mul_high(b: &mut KernelBuilder, x: Wide, y: Wide, t: DType) -> Wide {
    let mut r = mul_high_unsigned(b, x, y);
    if is_signed(t) {
        // Each negative operand counted 2^64 times the other one too much.
        for (p, q) in [(x, y), (y, x)] {
            let s = b.sar(p.hi, 31);
            let extra = Wide { lo: b.and(q.lo, s), hi: b.and(q.hi, s) };
            r = sub(b, r, extra);
        }
    }
    r
}

/// Shifts by the amount as an unsigned number; at least 64 gives zeros, or the sign.
fn shift(b: &mut KernelBuilder, op: Integer, x: Wide, y: Wide) -> Wide {
    // Amounts of 2^32 and more count as 64; 32-bit shifts by amounts outside 0..32 give 0 (or the sign).
    let huge = b.test(Op::VNeI, y.hi, 0);
    let n = b.v2(Op::VMinU, y.lo, 64);
    let n = b.sel(huge, 64, n);
    let (over, back) = (b.subi(n, 32), b.subi(32, n));
    let far = b.test(Op::VLeS, 32, n);
    if op == Integer::Shl {
        let (a, c) = (b.shl(x.hi, n), b.shr(x.lo, back));
        let near = b.or(a, c);
        let beyond = b.shl(x.lo, over);
        return Wide { lo: b.shl(x.lo, n), hi: b.sel(far, beyond, near) };
    }
    let down = if op == Integer::Shr { Op::VShr } else { Op::VSar };
    let (a, c) = (b.shr(x.lo, n), b.shl(x.hi, back));
    let near = b.or(a, c);
    let beyond = b.v2(down, x.hi, over);
    Wide { lo: b.sel(far, beyond, near), hi: b.v2(down, x.hi, n) }
}

/// Quotient and remainder: truncated; by zero all ones and the dividend; the least number by -1 is itself and 0.
fn divide(b: &mut KernelBuilder, signed: bool, x: Wide, y: Wide) -> (Wide, Wide) {
    let (n, d) = if signed { (magnitude(b, x), magnitude(b, y)) } else { (x, y) };
    let (q, r) = divide_unsigned(b, n, d);
    let (mut q, mut r) = (q, r);
    if signed {
        let signs = b.xor(x.hi, y.hi);
        let (mq, mr) = (b.test(Op::VLtS, signs, 0), b.test(Op::VLtS, x.hi, 0));
        let (nq, nr) = (negate(b, q), negate(b, r));
        q = select(b, mq, nq, q);
        r = select(b, mr, nr, r);
    }
    let any = b.or(y.lo, y.hi);
    let by_zero = b.test(Op::VEqI, any, 0);
    let ones = imm(b, -1);
    (select(b, by_zero, ones, q), select(b, by_zero, x, r))
}

/// Long division by estimates in f64: each takes at least 50 bits off the remainder, so two and a correction do.
///
/// An estimate is a little low (the quotient is scaled down by 1 - 2^-51), so that remainders stay positive.
fn divide_unsigned(b: &mut KernelBuilder, n: Wide, d: Wide) -> (Wide, Wide) {
    let as_f64 = |b: &mut KernelBuilder, w: Wide| {
        let p = b.pair(w.lo, w.hi);
        b.p1(Op::PCvtU64, p)
    };
    let df = as_f64(b, d);
    let mut q = imm(b, 0);
    let mut r = n;
    for _ in 0..2 {
        let rf = as_f64(b, r);
        let estimate = b.divd(rf, df);
        let low = b.muld(estimate, 1.0 - f64::EPSILON * 4.0);
        let e = b.p1(Op::PCvtToU64, low);
        let (lo, hi) = b.unpair(e);
        let e = Wide { lo, hi };
        let taken = mul(b, e, d);
        r = sub(b, r, taken);
        q = add(b, q, e);
    }
    // What is left is below 2 d.
    let enough = wide_compare(b, Direction::Ge, false, r, d);
    let (less, one) = (sub(b, r, d), imm(b, 1));
    let more = add(b, q, one);
    (select(b, enough, more, q), select(b, enough, less, r))
}

/// Integer power by repeated squaring, modulo 2^64; a negative exponent gives 0, 1 or -1.
/// As XLA does: the low six bits of the exponent, and whatever its type, the highest is a sign.
pub(super) fn power(b: &mut KernelBuilder, x: Wide, y: Wide, _: DType) -> Wide {
    let mut r = imm(b, 1);
    let mut base = x;
    for bit in 0..6 {
        let product = mul(b, r, base);
        let mask = b.and(y.lo, 1i32 << bit);
        let skip = b.test(Op::VEqI, mask, 0);
        r = select(b, skip, r, product);
        base = mul(b, base, base);
    }
    let one = imm(b, 1);
    let up = add(b, x, one);
    let low = b.and(up.lo, -3);
    let rest = b.or(low, up.hi);
    let unit = b.test(Op::VEqI, rest, 0);
    let whole = b.test(Op::VLeS, 0, y.hi);
    let keep = b.m_or(unit, whole);
    let zero = imm(b, 0);
    select(b, keep, r, zero)
}

/// A narrower (or the other 64-bit) integer extended.
pub fn from_integer(b: &mut KernelBuilder, x: &Value, to: DType) -> Value {
    if x.dtype.bits() == 64 {
        return x.retyped(to);
    }
    let lo = x.v();
    let hi = if is_signed(x.dtype) { b.sar(lo, 31) } else { b.v_imm(0) };
    Value::words(to, &[lo, hi])
}

/// To f32 (or a type held as it), rounded once to f32: what f64 cannot hold is folded into a sticky bit first.
pub fn to_float32(b: &mut KernelBuilder, x: &Value, to: DType) -> Value {
    let w = Wide::of(x);
    let size = if is_signed(x.dtype) {
        let s = b.sar(w.hi, 31);
        b.xor(w.hi, s)
    } else {
        w.hi
    };
    let big = b.test(Op::VLeU, 1 << 20, size);
    let tail = b.and(w.lo, 0xfff);
    let some = b.v2(Op::VMinU, tail, 1);
    let sticky = b.shl(some, 11);
    let head = b.and(w.lo, -0x1000);
    let folded = b.or(head, sticky);
    let lo = b.sel(big, folded, w.lo);
    let p = b.pair(lo, w.hi);
    let op = if is_signed(x.dtype) { Op::PCvtS64 } else { Op::PCvtU64 };
    let d = b.p1(op, p);
    let f = b.def_v(Op::PCvtToF32, &[d.into()]);
    Value::word(to, round_to(b, f, to))
}

/// Saturates to a 32-bit or narrower integer.
pub fn saturated(b: &mut KernelBuilder, w: &Value, to: DType) -> Value {
    let w = Wide::of(w);
    let v = if is_signed(to) {
        let (s, own) = (b.sar(w.hi, 31), b.sar(w.lo, 31));
        let fits = b.cmp(Op::VEqI, w.hi, own);
        let end = b.xor(s, i32::MAX);
        b.sel(fits, w.lo, end)
    } else {
        let fits = b.test(Op::VEqI, w.hi, 0);
        b.sel(fits, w.lo, -1)
    };
    Value::word(to, saturate(b, v, to))
}

/// The value as f64.
pub fn to_float64(b: &mut KernelBuilder, x: &Value) -> Value {
    let w = Wide::of(x);
    let p = b.pair(w.lo, w.hi);
    let op = if is_signed(x.dtype) { Op::PCvtS64 } else { Op::PCvtU64 };
    let d = b.p1(op, p);
    float64::value(b, d)
}
