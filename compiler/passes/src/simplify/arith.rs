//! Rules for elementwise operations.

use super::fold::{number, scalar_of, splat_number};
use crate::edit::Emit;
use crate::make::{array, unsigned};
use systole_hlo::graph::{Binary, Direction, Literal, NodeId, Op, Shape, Unary};
use systole_isa::DType;

pub fn unary(b: &mut Emit, op: Unary, x: NodeId) -> Option<NodeId> {
    if !b.dtype(x).is_complex() && op == Unary::Real {
        return b.draft.fire("real-of-real").then_some(x);
    }
    match (op, b.op(x).clone()) {
        (Unary::Neg, Op::Unary(Unary::Neg)) | (Unary::Not, Op::Unary(Unary::Not)) => {
            let y = b.operand(x, 0);
            b.draft.fire("unary-twice").then_some(y)
        }
        (Unary::Abs, Op::Unary(Unary::Abs)) => b.draft.fire("abs-abs").then_some(x),
        (Unary::Real, Op::Binary(Binary::Complex)) => {
            let y = b.operand(x, 0);
            b.draft.fire("real-complex").then_some(y)
        }
        (Unary::Imag, Op::Binary(Binary::Complex)) => {
            let y = b.operand(x, 1);
            b.draft.fire("imag-complex").then_some(y)
        }
        _ => None,
    }
}

/// Whether a literal is all ones of its type.
#[allow(clippy::wildcard_enum_match_arm, reason = "of all others, whole bytes of ones")]
fn is_all_ones(l: &Literal) -> bool {
    match l.dtype {
        DType::Pred => l.integer(0) == Some(1),
        _ => l.dtype.is_integer() && l.element(0).iter().all(|&e| e == 0xff) && l.dtype.bits() >= 8,
    }
}

pub fn binary(b: &mut Emit, op: Binary, x: NodeId, y: NodeId) -> Option<NodeId> {
    if let Some(same) = same_operands(b, op, x, y) {
        return Some(same);
    }
    if op == Binary::Complex {
        return complex(b, x, y);
    }
    if let Some(right) = scalar_of(b, y).cloned()
        && let Some(r) = by_right(b, op, x, y, &right)
    {
        return Some(r);
    }
    let left = scalar_of(b, x).cloned()?;
    let commutes =
        matches!(op, Binary::Add | Binary::Mul | Binary::And | Binary::Or | Binary::Xor | Binary::Max | Binary::Min);
    if commutes { by_right(b, op, y, x, &left) } else { None }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
fn same_operands(b: &mut Emit, op: Binary, x: NodeId, y: NodeId) -> Option<NodeId> {
    if x != y {
        return None;
    }
    let dtype = b.dtype(x);
    let exact = dtype.is_integer() || dtype == DType::Pred;
    match op {
        Binary::And | Binary::Or => b.draft.fire("same-and-or").then_some(x),
        Binary::Max | Binary::Min if exact => b.draft.fire("same-max-min").then_some(x),
        Binary::Sub | Binary::Xor if exact => {
            let dims = b.dims(x).to_vec();
            b.draft.fire("same-zero").then(|| b.splat(dtype, &dims, 0.0))
        }
        _ => None,
    }
}

fn complex(b: &mut Emit, x: NodeId, y: NodeId) -> Option<NodeId> {
    let parts = matches!(b.op(x), Op::Unary(Unary::Real)) && matches!(b.op(y), Op::Unary(Unary::Imag));
    if !parts {
        return None;
    }
    let (from, other) = (b.operand(x, 0), b.operand(y, 0));
    (from == other && b.dtype(from).is_complex() && b.draft.fire("complex-of-parts")).then_some(from)
}

/// `x op y` where `y` is a splat of the literal `l`.
#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
fn by_right(b: &mut Emit, op: Binary, x: NodeId, y: NodeId, l: &Literal) -> Option<NodeId> {
    let exact = l.dtype.is_integer() || l.dtype == DType::Pred;
    if is_all_ones(l) {
        return match op {
            Binary::And => b.draft.fire("and-ones").then_some(x),
            Binary::Or => b.draft.fire("or-ones").then_some(y),
            Binary::Mul | Binary::Min if l.dtype == DType::Pred => b.draft.fire("and-ones").then_some(x),
            _ if l.dtype == DType::Pred => None,
            _ => by_number(b, op, x, y, number(l)?, exact),
        };
    }
    by_number(b, op, x, y, number(l)?, exact)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
fn by_number(b: &mut Emit, op: Binary, x: NodeId, y: NodeId, v: f64, exact: bool) -> Option<NodeId> {
    let dtype = b.dtype(x);
    let zero = v == 0.0;
    match op {
        Binary::Mul if v == 1.0 && dtype != DType::Pred => b.draft.fire("multiply-one").then_some(x),
        Binary::Mul | Binary::And if zero && exact => b.draft.fire("multiply-zero").then_some(y),
        Binary::Add if zero && (exact || v.is_sign_negative()) => b.draft.fire("add-zero").then_some(x),
        Binary::Sub if zero && !v.is_sign_negative() => b.draft.fire("subtract-zero").then_some(x),
        Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr | Binary::Sar if zero => {
            b.draft.fire("bits-zero").then_some(x)
        }
        Binary::Div if v == 1.0 => b.draft.fire("divide-one").then_some(x),
        Binary::Div if dtype.is_float() => {
            let by = reciprocal(dtype, v)?;
            b.draft.fire("divide-number").then(|| divided(b, x, by))
        }
        Binary::Rem if dtype.is_float() => {
            let (by, _) = reciprocal(dtype, v.abs()).filter(|&(_, exact)| exact)?;
            b.draft.fire("remainder-power-of-two").then(|| remainder(b, x, v.abs(), by))
        }
        Binary::Max if v == f64::NEG_INFINITY && dtype.is_float() => b.draft.fire("maximum-lowest").then_some(x),
        Binary::Min if v == f64::INFINITY && dtype.is_float() => b.draft.fire("minimum-highest").then_some(x),
        Binary::Pow if dtype.is_float() => power(b, x, v),
        _ => None,
    }
}

/// The reciprocal by which to multiply instead of dividing by `v`, as XLA does, and whether that is the same in the type itself: of
/// powers of two. Neither `v` nor it may lie beyond the normal numbers, where much is lost.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other float has this range")]
fn reciprocal(dtype: DType, v: f64) -> Option<(f64, bool)> {
    let exact = v.to_bits() & ((1 << 52) - 1) == 0;
    let range = match dtype {
        DType::F16 => 8.0,
        DType::F64 => 900.0,
        _ => 60.0,
    };
    let usual = v.is_finite() && v != 0.0 && v.abs().log2().abs() <= range;
    let inverse = if dtype == DType::F64 { 1.0 / v } else { f64::from(1.0 / v as f32) };
    (usual && !dtype.is_byte_float()).then_some((inverse, exact))
}

/// `x` times the reciprocal of a number; narrow floats in f32, where it is much the same as the quotient.
fn divided(b: &mut Emit, x: NodeId, (inverse, exact): (f64, bool)) -> NodeId {
    let dtype = b.dtype(x);
    if exact || matches!(dtype, DType::F32 | DType::F64) {
        return b.with(Binary::Mul, x, inverse);
    }
    let wide = b.convert(x, DType::F32);
    let product = b.with(Binary::Mul, wide, inverse);
    b.convert(product, dtype)
}

/// The remainder of `x` by a power of two, whose reciprocal is `by`, with x's sign: all steps are exact.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other float has no more digits than f32, and its range")]
fn remainder(b: &mut Emit, x: NodeId, power: f64, by: f64) -> NodeId {
    let (dtype, dims) = (b.dtype(x), b.dims(x).to_vec());
    let size = b.unary(Unary::Abs, x);
    let quotient = b.with(Binary::Mul, size, by);
    let quotient = b.unary(Unary::Floor, quotient);
    let whole = b.with(Binary::Mul, quotient, power);
    let rest = b.sub(size, whole);
    // Numbers this large are multiples of the power; infinities and NaN leave NaN.
    let digits = match dtype {
        DType::F16 => 11,
        DType::F64 => 53,
        _ => 24,
    };
    let limit = b.splat(dtype, &dims, power * 2f64.powi(digits));
    let below = b.compare(Direction::Lt, size, limit);
    let nothing = b.sub(size, size);
    let rest = b.select(below, rest, nothing);
    let bits = unsigned(dtype.bits());
    let (rest, sign) = (b.bitcast(rest, bits), b.bitcast(x, bits));
    let sign = b.with(Binary::And, sign, 2f64.powi(dtype.bits() as i32 - 1));
    let signed = b.or(rest, sign);
    b.bitcast(signed, dtype)
}

fn power(b: &mut Emit, x: NodeId, v: f64) -> Option<NodeId> {
    if v == 1.0 {
        return b.draft.fire("power-one").then_some(x);
    }
    if v == 2.0 {
        return b.draft.fire("power-two").then(|| b.mul(x, x));
    }
    if v == 3.0 {
        return b.draft.fire("power-three").then(|| {
            let square = b.mul(x, x);
            b.mul(square, x)
        });
    }
    if v == -1.0 {
        return b.draft.fire("power-reciprocal").then(|| one_over(b, x));
    }
    // Narrow values would be rounded at each step.
    if b.dtype(x).bits() < 32 {
        return None;
    }
    if v == 4.0 || v == -2.0 {
        return b.draft.fire("power-square").then(|| {
            let root = if v > 0.0 { b.mul(x, x) } else { one_over(b, x) };
            b.mul(root, root)
        });
    }
    let (op, times) = match v {
        0.5 => (Unary::Sqrt, 0),
        -0.5 => (Unary::Rsqrt, 0),
        1.5 => (Unary::Sqrt, 1),
        -1.5 => (Unary::Rsqrt, 2),
        _ => return None,
    };
    b.draft.fire("power-root").then(|| {
        // Powers of infinity and of zero do not ask for their signs, as roots do.
        let (x, root) = if has_no_sign(b, x, SEEN) {
            (x, b.unary(op, x))
        } else {
            let dims = b.dims(x).to_vec();
            let dtype = b.dtype(x);
            let [most, least] = [f64::INFINITY, f64::NEG_INFINITY].map(|v| b.splat(dtype, &dims, v));
            let is = b.compare(Direction::Eq, x, least);
            let x = b.select(is, most, x);
            let root = b.unary(op, x);
            (x, b.unary(Unary::Abs, root))
        };
        match times {
            0 => root,
            1 => b.mul(x, root),
            _ => {
                let square = b.mul(root, root);
                b.mul(square, root)
            }
        }
    })
}

/// Operations that are followed to see what sign a value has.
const SEEN: u32 = 8;

/// Whether no element has a minus sign, zeros included, unless it is no number.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not named may have any sign")]
fn has_no_sign(b: &Emit, x: NodeId, left: u32) -> bool {
    if let Some(v) = splat_number(b, x) {
        return v.is_sign_positive();
    }
    if left == 0 || b.dtype(x).is_complex() {
        return false;
    }
    let of = |i: usize| has_no_sign(b, b.operand(x, i), left - 1);
    match b.op(x) {
        Op::Unary(Unary::Abs | Unary::Exp) => true,
        Op::Unary(Unary::Sqrt) | Op::Broadcast { .. } | Op::Reshape | Op::Transpose { .. } | Op::Slice { .. } => of(0),
        Op::Binary(Binary::Mul) => b.operand(x, 0) == b.operand(x, 1) || of(0) && of(1),
        Op::Binary(Binary::Add | Binary::Div | Binary::Max | Binary::Min) => of(0) && of(1),
        Op::Select => of(1) && of(2),
        Op::Reduce { body, .. } => {
            let keeps = |o| matches!(o, Binary::Add | Binary::Max | Binary::Min | Binary::Mul);
            super::reduce::combiner(b, *body).is_some_and(keeps) && of(0) && of(1)
        }
        _ => false,
    }
}

fn one_over(b: &mut Emit, x: NodeId) -> NodeId {
    let dims = b.dims(x).to_vec();
    let one = b.splat(b.dtype(x), &dims, 1.0);
    b.binary(Binary::Div, one, x)
}

pub fn select(b: &mut Emit, operands: &[NodeId], shape: &Shape) -> Option<NodeId> {
    let (pred, on_true, on_false) = (operands[0], operands[1], operands[2]);
    shape.as_array()?;
    if on_true == on_false {
        return b.draft.fire("select-same").then_some(on_true);
    }
    if let Some(known) = scalar_of(b, pred).and_then(|l| l.integer(0)) {
        return b.draft.fire("select-known").then_some(if known != 0 { on_true } else { on_false });
    }
    if b.dtype(on_true) == DType::Pred && b.rank(pred) == b.rank(on_true) {
        let known = |x: NodeId| scalar_of(b, x).and_then(|l| l.integer(0));
        match (known(on_true), known(on_false)) {
            (Some(1), Some(0)) => return b.draft.fire("select-itself").then_some(pred),
            (Some(0), Some(1)) => return b.draft.fire("select-itself").then(|| b.not(pred)),
            _ => {}
        }
    }
    if b.rank(pred) == 0 && b.rank(on_true) > 0 {
        let dims = b.dims(on_true).to_vec();
        return b.draft.fire("select-broadcast").then(|| {
            let wide = b.broadcast(pred, &[], &dims);
            b.select(wide, on_true, on_false)
        });
    }
    if matches!(b.op(pred), Op::Unary(Unary::Not)) {
        let inner = b.operand(pred, 0);
        return b.draft.fire("select-not").then(|| b.select(inner, on_false, on_true));
    }
    None
}

/// `clamp(a, x, b)` is `min(max(a, x), b)`; bounds may be scalars.
pub fn clamp(b: &mut Emit, operands: &[NodeId], _shape: &Shape) -> Option<NodeId> {
    b.draft.fire("clamp-min-max").then(|| {
        let low = b.binary(Binary::Max, operands[0], operands[1]);
        b.binary(Binary::Min, low, operands[2])
    })
}

/// Whether every value of `from` is a value of `to`.
#[allow(clippy::wildcard_enum_match_arm, reason = "other types are not looked at")]
pub fn embeds(from: DType, to: DType) -> bool {
    use systole_isa::dtype::DTypeClass as C;
    let mantissa = |t: DType| match t {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 0,
    };
    match (from.class(), to.class()) {
        _ if from == to => true,
        (C::Pred, C::Signed | C::Unsigned | C::Float) => true,
        (C::Signed, C::Signed) | (C::Unsigned, C::Unsigned) => from.bits() <= to.bits(),
        (C::Unsigned, C::Signed) => from.bits() < to.bits(),
        (C::Signed | C::Unsigned, C::Float) => from.bits() <= mantissa(to),
        (C::Float, C::Float) => match (from, to) {
            (DType::BF16, DType::F32 | DType::F64) | (DType::F16, DType::F32 | DType::F64) => true,
            (DType::F32, DType::F64) => true,
            (f, DType::F32 | DType::F64 | DType::BF16) if f.is_byte_float() => true,
            _ => false,
        },
        _ => false,
    }
}

pub fn convert(b: &mut Emit, x: NodeId, shape: &Shape) -> Option<NodeId> {
    use systole_isa::dtype::DTypeClass as C;
    let to = array(shape).dtype;
    let from = b.dtype(x);
    if from == to {
        return b.draft.fire("convert-same").then_some(x);
    }
    if !matches!(b.op(x), Op::Convert) {
        return None;
    }
    let y = b.operand(x, 0);
    let first = b.dtype(y);
    if !embeds(first, from) {
        return None;
    }
    let integer = |t: DType| matches!(t.class(), C::Signed | C::Unsigned);
    let direct = first == to
        || (first.is_float() && from.is_float())
        || (integer(first) && integer(from) && (integer(to) || to.is_float()))
        || (first == DType::Pred && (integer(to) || to.is_float()));
    (direct && b.draft.fire("convert-convert")).then(|| b.convert(y, to))
}

pub fn bitcast_convert(b: &mut Emit, x: NodeId, shape: &Shape) -> Option<NodeId> {
    let to = array(shape);
    if b.dtype(x) == to.dtype {
        return b.draft.fire("bitcast-same").then_some(x);
    }
    if b.dtype(x).bits() != to.dtype.bits() || !matches!(b.op(x), Op::BitcastConvert) {
        return None;
    }
    let y = b.operand(x, 0);
    (b.dtype(y).bits() == to.dtype.bits() && b.draft.fire("bitcast-bitcast")).then(|| b.bitcast(y, to.dtype))
}
