//! Integer and pred arithmetic, in `i64` of which the type's bits count.

use systole_hlo::graph::Direction;
use systole_hlo::graph::elementwise::{Arithmetic, Integer, Logic, Signs};
use systole_isa::{DType, dtype::DTypeClass};

/// An integer operation of two operands; its result still needs [`wrap`].
pub type IntBinary = fn(DType, i64, i64) -> i64;
/// An integer operation of one operand; its result still needs [`wrap`].
pub type IntUnary = fn(DType, i64) -> i64;

pub(super) fn is_signed(t: DType) -> bool {
    t.class() == DTypeClass::Signed
}

/// The value modulo the type's width, sign- or zero-extended (`pred`: 0 or 1).
pub fn wrap(t: DType, v: i64) -> i64 {
    let spare = 64 - t.bits();
    match t.class() {
        DTypeClass::Pred => (v != 0) as i64,
        DTypeClass::Signed => v << spare >> spare,
        DTypeClass::Unsigned | DTypeClass::Float | DTypeClass::Complex => (((v as u64) << spare) >> spare) as i64,
    }
}

/// What touches the sign only.
pub(super) fn signs(op: Signs) -> IntUnary {
    match op {
        Signs::Abs => |t, x| if is_signed(t) { x.wrapping_abs() } else { x },
        Signs::Neg => |_, x| x.wrapping_neg(),
        Signs::Sign => |t, x| if is_signed(t) { x.signum() } else { (x != 0) as i64 },
    }
}

/// Bit by bit.
pub(super) fn logic(op: Logic) -> IntUnary {
    match op {
        Logic::Not => |t, x| if t == DType::Pred { 1 - x } else { !x },
    }
}

/// The number of the type's bits.
pub(super) fn width(t: DType) -> u32 {
    if t == DType::Pred { 1 } else { t.bits() }
}

/// The type's bits, zeros above them.
pub(super) fn unsigned_bits(t: DType, x: i64) -> u64 {
    let spare = 64 - width(t);
    ((x as u64) << spare) >> spare
}

/// Arithmetic of two numbers.
pub(super) fn arithmetic(op: Arithmetic) -> IntBinary {
    match op {
        Arithmetic::Add => |t, a, b| if t == DType::Pred { a | b } else { a.wrapping_add(b) },
        Arithmetic::Sub => |t, a, b| if t == DType::Pred { a ^ b } else { a.wrapping_sub(b) },
        Arithmetic::Mul => |t, a, b| if t == DType::Pred { a & b } else { a.wrapping_mul(b) },
        Arithmetic::Div => divide,
        Arithmetic::Rem => remainder,
        Arithmetic::Max => |t, a, b| if less(t, a, b) { b } else { a },
        Arithmetic::Min => |t, a, b| if less(t, b, a) { b } else { a },
    }
}

/// Bits of two numbers.
pub(super) fn bits(op: Integer) -> IntBinary {
    match op {
        Integer::And => |_, a, b| a & b,
        Integer::Or => |_, a, b| a | b,
        Integer::Xor => |_, a, b| a ^ b,
        Integer::Shl => |t, a, b| if in_range(t, b) { a << b } else { 0 },
        Integer::Shr => |t, a, b| if in_range(t, b) { (unsigned_bits(t, a) >> b) as i64 } else { 0 },
        Integer::Sar => arithmetic_right,
    }
}

fn less(t: DType, a: i64, b: i64) -> bool {
    if is_signed(t) { a < b } else { (a as u64) < (b as u64) }
}

/// A shift amount below the width; negative ones are read unsigned and are not.
fn in_range(t: DType, b: i64) -> bool {
    (b as u64) < width(t) as u64
}

fn arithmetic_right(t: DType, a: i64, b: i64) -> i64 {
    let spare = 64 - width(t);
    let a = a << spare >> spare;
    if in_range(t, b) { a >> b } else { a >> 63 }
}

/// The upper half of the product of twice the width.
pub(super) fn mul_hi(t: DType, a: i64, b: i64) -> i64 {
    if is_signed(t) {
        ((a as i128 * b as i128) >> t.bits()) as i64
    } else {
        ((a as u64 as u128 * b as u64 as u128) >> t.bits()) as i64
    }
}

/// By zero: all ones. `MIN / -1`: `MIN`.
fn divide(t: DType, a: i64, b: i64) -> i64 {
    match (b, is_signed(t)) {
        (0, _) => -1,
        (_, true) => a.wrapping_div(b),
        (_, false) => ((a as u64) / (b as u64)) as i64,
    }
}

/// By zero: the dividend. `MIN % -1`: 0.
fn remainder(t: DType, a: i64, b: i64) -> i64 {
    match (b, is_signed(t)) {
        (0, _) => a,
        (_, true) => a.wrapping_rem(b),
        (_, false) => ((a as u64) % (b as u64)) as i64,
    }
}

/// By repeated squaring over the exponent's low six bits; exponents that are negative when read as signed give 0 but
/// for the bases 1 and -1. That is XLA's way, also for unsigned types.
pub(super) fn power(t: DType, a: i64, b: i64) -> i64 {
    let spare = 64 - t.bits().max(8);
    let (signed_base, signed_exponent) = (a << spare >> spare, b << spare >> spare);
    if signed_exponent < 0 {
        return match signed_base {
            1 => 1,
            -1 if b & 1 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut e) = (1i64, a, b & 63);
    while e > 0 {
        if e & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        e >>= 1;
    }
    result
}

/// A comparison of integers or preds.
pub fn compare(t: DType, direction: Direction, a: i64, b: i64) -> bool {
    match direction {
        Direction::Eq => a == b,
        Direction::Ne => a != b,
        Direction::Lt => less(t, a, b),
        Direction::Gt => less(t, b, a),
        Direction::Le => !less(t, b, a),
        Direction::Ge => !less(t, a, b),
    }
}
