//! f32, and the types that are held as f32: bf16, f16 and 8-bit floats.

use super::{functions, refused};
use crate::emit::Value;
use crate::emit::memory::{pack_f8, unpack_f8};
use crate::kernel::{KernelBuilder, V};
use systole_hlo::graph::Unary;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryFunction, Rounding, Signs, Test, UnaryKind};
use systole_isa::{DType, Op};

pub(crate) const SIGN: u32 = 0x8000_0000;
pub(crate) const ABS: u32 = 0x7fff_ffff;
pub(crate) const INF: u32 = 0x7f80_0000;

/// Rounds an f32 result to the precision of the type it stands for.
#[allow(clippy::wildcard_enum_match_arm, reason = "only 8-bit floats are left")]
pub fn round_to(b: &mut KernelBuilder, v: V, dtype: DType) -> V {
    match dtype {
        DType::F32 => v,
        DType::BF16 => b.v1(Op::VRndBf16, v),
        DType::F16 => b.v1(Op::VRndF16, v),
        t => {
            debug_assert!(t.is_f8());
            let bits = pack_f8(b, v, t);
            unpack_f8(b, bits, t)
        }
    }
}

/// A unary operation.
pub fn unary(b: &mut KernelBuilder, op: Unary, x: &Value) -> Value {
    let (t, v) = (x.dtype, x.v());
    let exact = match op.kind() {
        UnaryKind::Signs(Signs::Abs) => b.and(v, ABS),
        UnaryKind::Signs(Signs::Neg) => b.xor(v, SIGN),
        UnaryKind::Signs(Signs::Sign) => sign(b, v),
        UnaryKind::Rounding(Rounding::Ceil) => b.v1(Op::VCeilF, v),
        UnaryKind::Rounding(Rounding::Floor) => b.v1(Op::VFloorF, v),
        UnaryKind::Rounding(Rounding::RoundEven) => b.v1(Op::VRneF, v),
        UnaryKind::Rounding(Rounding::RoundAfz) => round_afz(b, v),
        UnaryKind::Test(Test::IsFinite) => {
            let a = b.and(v, ABS);
            return Value::mask(b.test(Op::VLtS, a, INF));
        }
        UnaryKind::Function(f) => {
            let r = functions::function32(b, f, v);
            round_to(b, r, t)
        }
        UnaryKind::RealFunction(f) => {
            let r = functions::real_function32(b, f, v);
            round_to(b, r, t)
        }
        UnaryKind::Part(_) | UnaryKind::Count(_) | UnaryKind::Logic(_) => refused(op, t),
    };
    Value::word(t, exact)
}

/// Rounds to the nearest integer value, halves away from zero: adds the largest number below 1/2 and truncates.
fn round_afz(b: &mut KernelBuilder, v: V) -> V {
    let s = b.and(v, SIGN);
    let half = b.or(s, 0x3eff_ffffu32);
    let r = b.add(v, half);
    b.v1(Op::VTruncF, r)
}

/// -1, ±0, 1 or NaN.
fn sign(b: &mut KernelBuilder, v: V) -> V {
    let s = b.and(v, SIGN);
    let one = b.or(s, 1.0f32.to_bits());
    let nonzero = b.test(Op::VNeF, v, 0.0);
    let r = b.sel(nonzero, one, s);
    let nan = b.test(Op::VNeF, v, v);
    b.sel(nan, v, r)
}

/// Arithmetic of two numbers.
pub fn arithmetic(b: &mut KernelBuilder, op: Arithmetic, x: &Value, y: &Value) -> Value {
    let t = x.dtype;
    let (x, y) = (x.v(), y.v());
    let r = match op {
        Arithmetic::Max => return Value::word(t, b.v2(Op::VMaxF, x, y)),
        Arithmetic::Min => return Value::word(t, b.v2(Op::VMinF, x, y)),
        Arithmetic::Rem => return Value::word(t, remainder(b, x, y)),
        Arithmetic::Add => b.add(x, y),
        Arithmetic::Sub => b.sub(x, y),
        Arithmetic::Mul => b.mul(x, y),
        Arithmetic::Div => b.div(x, y),
    };
    Value::word(t, round_to(b, r, t))
}

/// A function of two numbers.
pub fn function(b: &mut KernelBuilder, f: BinaryFunction, x: &Value, y: &Value) -> Value {
    let t = x.dtype;
    let r = functions::of_two32(b, f, x.v(), y.v(), t);
    Value::word(t, round_to(b, r, t))
}

/// The exact remainder with x's sign (C's `fmod`).
///
/// Works on magnitudes in f64. A step subtracts the rounded quotient times y; the quotient has 53 bits and y 24, so the
/// difference is exact, and its size drops by 2^52 until it is at most about y/2. The exponents of f32 are at most 254
/// apart: five steps.
fn remainder(b: &mut KernelBuilder, x: V, y: V) -> V {
    let (ax, ay, ny) = (b.and(x, ABS), b.and(y, ABS), b.or(y, SIGN));
    let mut r = b.def_p(Op::PCvtF32, &[ax.into()]);
    let py = b.def_p(Op::PCvtF32, &[ay.into()]);
    let pn = b.def_p(Op::PCvtF32, &[ny.into()]);
    for _ in 0..5 {
        let q = b.divd(r, pn);
        let n = b.p1(Op::PRneD, q);
        r = b.fmad(n, py, r);
    }
    let negative = b.ptest(Op::PLtD, r, 0.0);
    let up = b.addd(r, py);
    let (low, high) = (b.def_v(Op::PCvtToF32, &[r.into()]), b.def_v(Op::PCvtToF32, &[up.into()]));
    let r = b.sel(negative, high, low);
    let (r, s) = (b.and(r, ABS), b.and(x, SIGN));
    let r = b.or(r, s);
    // A finite x is its own remainder by an infinity.
    let (xf, yi) = (b.test(Op::VLtS, ax, INF), b.test(Op::VEqI, ay, INF));
    let own = b.m_and(xf, yi);
    b.sel(own, x, r)
}
