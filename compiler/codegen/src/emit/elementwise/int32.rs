//! Integers of at most 32 bits, held sign- or zero-extended in 32-bit lanes.

use super::refused;
use crate::emit::Value;
use crate::kernel::{KernelBuilder, V};
use systole_hlo::graph::elementwise::{Count, Logic, Signs, UnaryKind};
use systole_hlo::graph::{Binary, Unary};
use systole_isa::{DType, Op, dtype::DTypeClass};

pub(crate) fn is_signed(dtype: DType) -> bool {
    dtype.class() == DTypeClass::Signed
}

/// All ones in the type's width.
pub(crate) fn width_mask(dtype: DType) -> u32 {
    u32::MAX >> (32 - dtype.bits())
}

/// Wraps 32-bit lanes to the type's width and extends them again.
pub fn narrow(b: &mut KernelBuilder, v: V, dtype: DType) -> V {
    let spare = 32 - dtype.bits() as i32;
    if spare == 0 {
        v
    } else if is_signed(dtype) {
        let up = b.shl(v, spare);
        b.sar(up, spare)
    } else {
        b.and(v, width_mask(dtype))
    }
}

/// The lanes with the bits above the type's width cleared.
pub(crate) fn zero_extended(b: &mut KernelBuilder, v: V, dtype: DType) -> V {
    if is_signed(dtype) && dtype.bits() < 32 { b.and(v, width_mask(dtype)) } else { v }
}

/// A unary operation.
pub fn unary(b: &mut KernelBuilder, op: Unary, x: &Value) -> Value {
    let t = x.dtype;
    let (v, signed) = (x.v(), is_signed(t));
    let r = match op.kind() {
        UnaryKind::Signs(Signs::Abs) if signed => {
            let n = b.subi(0, v);
            let m = b.v2(Op::VMaxS, v, n);
            narrow(b, m, t)
        }
        UnaryKind::Signs(Signs::Abs) => v,
        UnaryKind::Signs(Signs::Neg) => {
            let n = b.subi(0, v);
            narrow(b, n, t)
        }
        UnaryKind::Logic(Logic::Not) => {
            let n = b.xor(v, -1);
            if signed { n } else { narrow(b, n, t) }
        }
        UnaryKind::Signs(Signs::Sign) if signed => {
            let m = b.v2(Op::VMaxS, v, -1);
            b.v2(Op::VMinS, m, 1)
        }
        UnaryKind::Signs(Signs::Sign) => b.v2(Op::VMinU, v, 1),
        UnaryKind::Count(Count::Clz) => {
            let z = zero_extended(b, v, t);
            let n = b.v1(Op::VClz, z);
            let spare = 32 - t.bits() as i32;
            if spare == 0 { n } else { b.subi(n, spare) }
        }
        UnaryKind::Count(Count::Popcnt) => {
            // XLA counts the bits of a byte that holds the sign-extended value.
            let z = zero_extended(b, v, if is_signed(t) && t.bits() < 8 { DType::S8 } else { t });
            let n = b.v1(Op::VPopcnt, z);
            if t.bits() < 8 { narrow(b, n, t) } else { n }
        }
        UnaryKind::Function(_)
        | UnaryKind::RealFunction(_)
        | UnaryKind::Rounding(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_) => refused(op, t),
    };
    Value::word(t, r)
}

/// A binary operation.
pub fn binary(b: &mut KernelBuilder, op: Binary, x: &Value, y: &Value) -> Value {
    let t = x.dtype;
    let (x, y, signed) = (x.v(), y.v(), is_signed(t));
    let pick = |s: Op, u: Op| if signed { s } else { u };
    let r = match op {
        Binary::And => b.and(x, y),
        Binary::Or => b.or(x, y),
        Binary::Xor => b.xor(x, y),
        Binary::Max => b.v2(pick(Op::VMaxS, Op::VMaxU), x, y),
        Binary::Min => b.v2(pick(Op::VMinS, Op::VMinU), x, y),
        Binary::Rem => b.v2(pick(Op::VRemS, Op::VRemU), x, y),
        Binary::Add => {
            let r = b.addi(x, y);
            narrow(b, r, t)
        }
        Binary::Sub => {
            let r = b.subi(x, y);
            narrow(b, r, t)
        }
        Binary::Mul => {
            let r = b.muli(x, y);
            narrow(b, r, t)
        }
        Binary::Div => {
            let r = b.v2(pick(Op::VDivS, Op::VDivU), x, y);
            narrow(b, r, t)
        }
        Binary::MulHi if t.bits() == 32 => b.v2(pick(Op::VMulHiS, Op::VMulHiU), x, y),
        Binary::MulHi => {
            let r = b.muli(x, y);
            let bits = t.bits() as i32;
            if signed { b.sar(r, bits) } else { b.shr(r, bits) }
        }
        Binary::Pow => power(b, x, y, t),
        Binary::Shl | Binary::Shr | Binary::Sar => shift(b, op, x, y, t),
        Binary::Atan2 | Binary::Complex => refused(op, t),
    };
    Value::word(t, r)
}

/// Shifts. An amount of at least the width (as an unsigned number) gives zeros, or the sign.
#[allow(clippy::wildcard_enum_match_arm, reason = "the caller has only shifts")]
fn shift(b: &mut KernelBuilder, op: Binary, x: V, y: V, t: DType) -> V {
    let signed = is_signed(t);
    match op {
        Binary::Shl => {
            let r = b.shl(x, y);
            narrow(b, r, t)
        }
        Binary::Shr => {
            let z = zero_extended(b, x, t);
            let r = b.shr(z, y);
            if signed { narrow(b, r, t) } else { r }
        }
        _ if signed || t.bits() == 32 => b.sar(x, y),
        _ => {
            let spare = 32 - t.bits() as i32;
            let up = b.shl(x, spare);
            let s = b.sar(up, spare);
            let r = b.sar(s, y);
            narrow(b, r, t)
        }
    }
}

/// Integer power by repeated squaring, modulo the width; a negative exponent gives 0, 1 or -1.
fn power(b: &mut KernelBuilder, x: V, y: V, t: DType) -> V {
    let mut r = b.v_imm(1);
    let mut base = x;
    // As XLA does: the low six bits of the exponent, and whatever its type, the highest is a sign.
    let bits = (t.bits() as i32).min(6);
    for bit in 0..bits {
        let product = b.muli(r, base);
        let mask = b.and(y, 1i32 << bit);
        let skip = b.test(Op::VEqI, mask, 0);
        r = b.sel(skip, r, product);
        if bit + 1 < bits {
            base = b.muli(base, base);
        }
    }
    r = narrow(b, r, t);
    let spare = 32 - t.bits().max(8) as i32;
    let signed = |b: &mut KernelBuilder, v: V| {
        if spare == 0 {
            return v;
        }
        let up = b.shl(v, spare);
        b.sar(up, spare)
    };
    let (x, y) = (signed(b, x), signed(b, y));
    // x is 1 or -1 if x + 1 is at most 2 as an unsigned number and not 1; their powers above are right already.
    let up = b.addi(x, 1);
    let low = b.and(up, -3);
    let unit = b.test(Op::VEqI, low, 0);
    let whole = b.test(Op::VLeS, 0, y);
    let keep = b.m_or(unit, whole);
    r = b.sel(keep, r, 0);
    r
}
