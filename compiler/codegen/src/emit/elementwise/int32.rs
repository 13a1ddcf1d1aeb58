//! Integers of at most 32 bits, held sign- or zero-extended in 32-bit lanes.

use super::{functions, refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, V};
use systole_hlo::graph::Unary;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryFunction, Integer, Logic, Signs, UnaryKind};
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
        UnaryKind::Count(c) => functions::count32(b, c, v, t),
        UnaryKind::Function(_)
        | UnaryKind::RealFunction(_)
        | UnaryKind::Rounding(_)
        | UnaryKind::Part(_)
        | UnaryKind::Test(_) => refused(op, t),
    };
    Value::word(t, r)
}

/// The number of leading zero bits.
pub(super) fn leading_zeros(b: &mut KernelBuilder, v: V, t: DType) -> V {
    let z = zero_extended(b, v, t);
    let n = b.v1(Op::VClz, z);
    let spare = 32 - t.bits() as i32;
    if spare == 0 { n } else { b.subi(n, spare) }
}

/// The number of bits that are set.
pub(super) fn ones(b: &mut KernelBuilder, v: V, t: DType) -> V {
    // XLA counts the bits of a byte that holds the sign-extended value.
    let z = zero_extended(b, v, if is_signed(t) && t.bits() < 8 { DType::S8 } else { t });
    let n = b.v1(Op::VPopcnt, z);
    if t.bits() < 8 { narrow(b, n, t) } else { n }
}

/// Arithmetic of two numbers.
pub fn arithmetic(b: &mut KernelBuilder, op: Arithmetic, x: &Value, y: &Value) -> Value {
    let t = x.dtype;
    let (x, y, signed) = (x.v(), y.v(), is_signed(t));
    let pick = |s: Op, u: Op| if signed { s } else { u };
    let r = match op {
        Arithmetic::Max => b.v2(pick(Op::VMaxS, Op::VMaxU), x, y),
        Arithmetic::Min => b.v2(pick(Op::VMinS, Op::VMinU), x, y),
        Arithmetic::Rem => b.v2(pick(Op::VRemS, Op::VRemU), x, y),
        Arithmetic::Add => {
            let r = b.addi(x, y);
            narrow(b, r, t)
        }
        Arithmetic::Sub => {
            let r = b.subi(x, y);
            narrow(b, r, t)
        }
        Arithmetic::Mul => {
            let r = b.muli(x, y);
            narrow(b, r, t)
        }
        Arithmetic::Div => {
            let r = b.v2(pick(Op::VDivS, Op::VDivU), x, y);
            narrow(b, r, t)
        }
    };
    Value::word(t, r)
}

/// Bits of two numbers. A shift by at least the width (as an unsigned number) gives zeros, or the sign.
pub fn bits(b: &mut KernelBuilder, op: Integer, x: &Value, y: &Value) -> Value {
    let t = x.dtype;
    let (x, y, signed) = (x.v(), y.v(), is_signed(t));
    let r = match op {
        Integer::And => b.and(x, y),
        Integer::Or => b.or(x, y),
        Integer::Xor => b.xor(x, y),
        Integer::Shl => {
            let r = b.shl(x, y);
            narrow(b, r, t)
        }
        Integer::Shr => {
            let z = zero_extended(b, x, t);
            let r = b.shr(z, y);
            if signed { narrow(b, r, t) } else { r }
        }
        Integer::Sar if signed || t.bits() == 32 => b.sar(x, y),
        Integer::Sar => {
            let spare = 32 - t.bits() as i32;
            let up = b.shl(x, spare);
            let s = b.sar(up, spare);
            let r = b.sar(s, y);
            narrow(b, r, t)
        }
    };
    Value::word(t, r)
}

/// A function of two numbers.
pub fn function(b: &mut KernelBuilder, f: BinaryFunction, x: &Value, y: &Value) -> Value {
    Value::word(x.dtype, functions::of_two_words(b, f, x.v(), y.v(), x.dtype))
}

/// The upper half of the product.
pub(super) fn mul_high(b: &mut KernelBuilder, x: V, y: V, t: DType) -> V {
    if t.bits() == 32 {
        return b.v2(if is_signed(t) { Op::VMulHiS } else { Op::VMulHiU }, x, y);
    }
    let r = b.muli(x, y);
    let bits = t.bits() as i32;
    if is_signed(t) { b.sar(r, bits) } else { b.shr(r, bits) }
}

/// Integer power by repeated squaring, modulo the width; a negative exponent gives 0, 1 or -1.
pub(super) fn power(b: &mut KernelBuilder, x: V, y: V, t: DType) -> V {
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
