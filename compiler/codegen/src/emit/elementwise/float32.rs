//! f32, and the types that are held as f32: bf16, f16 and floats of a byte.

use super::{functions, refused};
use crate::emit::Value;
use crate::emit::memory::{pack_f8, unpack_f8};
use crate::kernel::{KernelBuilder, M, V};
use systole_hlo::graph::Unary;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryFunction, Rounding, Signs, Test, UnaryKind};
use systole_isa::{DType, Op};

pub(crate) const SIGN: u32 = 0x8000_0000;
pub(crate) const ABS: u32 = 0x7fff_ffff;
pub(crate) const INF: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fc0_0000;

/// Rounds an f32 result to the precision of the type it stands for.
#[allow(clippy::wildcard_enum_match_arm, reason = "only floats of a byte are left")]
pub fn round_to(b: &mut KernelBuilder, v: V, dtype: DType) -> V {
    match dtype {
        DType::F32 => v,
        DType::BF16 => b.v1(Op::VRndBf16, v),
        DType::F16 => b.v1(Op::VRndF16, v),
        t => {
            debug_assert!(t.is_byte_float());
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
        // Exact, but for the NaN that a type of numbers alone lacks.
        Arithmetic::Rem if t != DType::F4E2M1FN => return Value::word(t, remainder(b, x, y)),
        Arithmetic::Rem => remainder(b, x, y),
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

/// Bits that a step of [`remainder`] takes off the quotient, and steps for the largest of them: exponents of f32 are at most 276 apart,
/// subnormal numbers with theirs.
const STEP: u32 = 21;
const STEPS: u32 = 276 / STEP;
/// An exponent of up to 276 times this, shifted right by [`PER_STEP_SHIFT`], is its quotient by [`STEP`].
const PER_STEP: u32 = 391;
const PER_STEP_SHIFT: u32 = 13;

/// The exact remainder with x's sign (C's `fmod`).
///
/// Long division of the significands, both in [1, 2), by as many steps as the exponents are apart. A step takes the rounded quotient times y off
/// what is left, which is at most 2/3 of y before it is shifted: the quotient, of at most 2^21, is within 3/4 of the true one, and what is
/// left then is at most 3/4 of y and a multiple of y's last place, so that the multiply-add is exact.
fn remainder(b: &mut KernelBuilder, x: V, y: V) -> V {
    let (ax, ay) = (b.and(x, ABS), b.and(y, ABS));
    let (mx, ex, _) = significand(b, ax);
    let (my, ey, small) = significand(b, ay);
    let one = b.reg(1.0);
    let inverse = b.div(one, my);
    let inverse = b.xor(inverse, SIGN);
    let apart = b.subi(ex, ey);
    let whole = b.muli(apart, PER_STEP);
    let whole = b.shr(whole, PER_STEP_SHIFT);
    let in_steps = b.muli(whole, STEP);
    let rest = b.subi(apart, in_steps);
    let rest = b.shl(rest, 23);
    let mut left = b.addi(mx, rest);
    for step in 0..=STEPS {
        if step > 0 {
            let more = b.test(Op::VLtS, step - 1, whole);
            let scale = b.sel(more, (1u32 << STEP) as f32, 1.0);
            left = b.mul(left, scale);
        }
        let q = b.mul(left, inverse);
        let q = b.v1(Op::VRneF, q);
        left = b.fma(q, my, left);
    }
    let negative = b.test(Op::VLtF, left, 0.0);
    let up = b.add(left, my);
    let r = b.sel(negative, up, left);
    // Times what y's significand was divided by.
    let less = b.sel(small, SUBNORMAL_EXPONENT, 0u32);
    let scale = b.addi(ey, less);
    let scale = b.shl(scale, 23);
    let r = b.mul(r, scale);
    let lower = b.mul(r, 1.0 / SUBNORMAL);
    let r = b.sel(small, lower, r);
    // A smaller x is its own remainder; what is not finite has none, nor has anything by zero.
    let own = b.test(Op::VLtS, ax, ay);
    let r = b.sel(own, ax, r);
    let s = b.and(x, SIGN);
    let r = b.or(r, s);
    let (xf, yn) = (b.test(Op::VLtS, ax, INF), b.test(Op::VLtS, INF, ay));
    let y0 = b.test(Op::VEqI, ay, 0u32);
    let none = b.m_not(xf);
    let none = b.m_or(none, yn);
    let none = b.m_or(none, y0);
    b.sel(none, NAN, r)
}

/// What a subnormal number is multiplied by to be a normal one, and the exponent of that.
const SUBNORMAL: f32 = (1u32 << SUBNORMAL_EXPONENT) as f32;
const SUBNORMAL_EXPONENT: u32 = 24;

/// The significand of a magnitude, in [1, 2), its biased exponent, and whether it is subnormal.
fn significand(b: &mut KernelBuilder, a: V) -> (V, V, M) {
    let small = b.test(Op::VLtS, a, 1u32 << 23);
    let up = b.mul(a, SUBNORMAL);
    let a = b.sel(small, up, a);
    let exponent = b.shr(a, 23);
    let less = b.sel(small, SUBNORMAL_EXPONENT, 0u32);
    let exponent = b.subi(exponent, less);
    let s = b.and(a, (1u32 << 23) - 1);
    (b.or(s, 1.0f32.to_bits()), exponent, small)
}
