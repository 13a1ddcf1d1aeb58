//! Comparisons, select and clamp.

use super::{Family, family, float64, int64, refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, M, V};
use systole_hlo::graph::{Binary, Direction, Order};
use systole_isa::Op;

use super::int32::is_signed;

/// Whether a comparison is one of equality, or of order with operands swapped (`>` and `>=`).
#[allow(clippy::wildcard_enum_match_arm, reason = "two directions are turned round, all others stay")]
fn oriented(d: Direction) -> (Direction, bool) {
    match d {
        Direction::Gt => (Direction::Lt, true),
        Direction::Ge => (Direction::Le, true),
        d => (d, false),
    }
}

/// Compares two values of one type into a `pred` value. `Order::Total` matters on floats only.
pub fn compare(b: &mut KernelBuilder, direction: Direction, order: Order, x: &Value, y: &Value) -> Value {
    let (d, swap) = oriented(direction);
    let (x, y) = if swap { (y, x) } else { (x, y) };
    let total = order == Order::Total;
    Value::mask(match family(x.dtype) {
        Family::Pred => masks(b, d, x.m(), y.m()),
        Family::Int32 => words(b, d, is_signed(x.dtype), x.v(), y.v()),
        Family::Float32 if total => {
            let (x, y) = (sortable(b, x.v()), sortable(b, y.v()));
            words(b, d, true, x, y)
        }
        Family::Float32 => floats(b, d, x.v(), y.v()),
        Family::Int64 => int64::compare(b, d, is_signed(x.dtype), x, y),
        Family::Float64 if total => {
            let (x, y) = (float64::sortable(b, x), float64::sortable(b, y));
            int64::compare(b, d, true, &x, &y)
        }
        Family::Float64 => float64::compare(b, d, x, y),
        Family::Complex => {
            let parts = [0, 1].map(|i| compare(b, d, order, &x.part(i), &y.part(i)).m());
            match d {
                Direction::Eq => b.m_and(parts[0], parts[1]),
                Direction::Ne => b.m_or(parts[0], parts[1]),
                Direction::Lt | Direction::Le | Direction::Gt | Direction::Ge => refused(d, x.dtype),
            }
        }
    })
}

fn masks(b: &mut KernelBuilder, d: Direction, x: M, y: M) -> M {
    match d {
        Direction::Ne => b.m_xor(x, y),
        Direction::Eq => {
            let n = b.m_xor(x, y);
            b.m_not(n)
        }
        Direction::Lt => {
            let n = b.m_not(x);
            b.m_and(n, y)
        }
        Direction::Le => {
            let n = b.m_not(x);
            b.m_or(n, y)
        }
        Direction::Gt => masks(b, Direction::Lt, y, x),
        Direction::Ge => masks(b, Direction::Le, y, x),
    }
}

/// Compares 32-bit integers.
pub(super) fn words(b: &mut KernelBuilder, d: Direction, signed: bool, x: V, y: V) -> M {
    let op = match (d, signed) {
        (Direction::Eq, _) => Op::VEqI,
        (Direction::Ne, _) => Op::VNeI,
        (Direction::Lt | Direction::Gt, true) => Op::VLtS,
        (Direction::Lt | Direction::Gt, false) => Op::VLtU,
        (Direction::Le | Direction::Ge, true) => Op::VLeS,
        (Direction::Le | Direction::Ge, false) => Op::VLeU,
    };
    if oriented(d).1 { b.cmp(op, y, x) } else { b.cmp(op, x, y) }
}

fn floats(b: &mut KernelBuilder, d: Direction, x: V, y: V) -> M {
    match d {
        Direction::Eq => b.cmp(Op::VEqF, x, y),
        Direction::Ne => b.cmp(Op::VNeF, x, y),
        Direction::Lt => b.cmp(Op::VLtF, x, y),
        Direction::Le => b.cmp(Op::VLeF, x, y),
        Direction::Gt => b.cmp(Op::VLtF, y, x),
        Direction::Ge => b.cmp(Op::VLeF, y, x),
    }
}

/// Signed integers in the total order of the f32 bits: the other bits of negative numbers are flipped.
fn sortable(b: &mut KernelBuilder, v: V) -> V {
    let s = b.sar(v, 31);
    let flip = b.shr(s, 1);
    b.xor(v, flip)
}

/// `x` where the `pred` value is set, else `y`.
pub fn select(b: &mut KernelBuilder, pred: &Value, x: &Value, y: &Value) -> Value {
    let m = pred.m();
    if m == M::ALL {
        return *x;
    }
    if x.all().is_empty() {
        let n = b.m_not(m);
        let (a, c) = (b.m_and(m, x.m()), b.m_and(n, y.m()));
        return Value::mask(b.m_or(a, c));
    }
    let words: Vec<V> = x.all().iter().zip(y.all()).map(|(&x, &y)| b.select(m, x, y)).collect();
    Value::words(x.dtype, &words)
}

/// min(max(low, x), high).
pub fn clamp(b: &mut KernelBuilder, low: &Value, x: &Value, high: &Value) -> Value {
    let r = super::binary(b, Binary::Max, low, x);
    super::binary(b, Binary::Min, &r, high)
}
