//! Combining the lanes or the sublanes of one register: reductions by trees of rotations.

use super::{Value, operand::Ops};
use crate::graph::op::Binary;
use crate::kernel::{KernelBuilder, M, V};
use systole_isa::{DType, Op};

/// Which way a rotation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    Lanes,
    Sublanes,
}

/// The value with every element moved `amount` places up along an axis, around its end.
pub fn rotate(b: &mut KernelBuilder, x: &Value, axis: Axis, amount: i32) -> Value {
    let mut turn = |v: V| match axis {
        Axis::Lanes => b.rot_lane(v, amount),
        Axis::Sublanes => b.rot_sublane(v, amount),
    };
    if x.all().is_empty() {
        let v = b.sel(x.m(), 1, 0);
        let v = match axis {
            Axis::Lanes => b.rot_lane(v, amount),
            Axis::Sublanes => b.rot_sublane(v, amount),
        };
        return Value::mask(b.test(Op::VNeI, v, 0));
    }
    let words: Vec<V> = x.all().iter().map(|&v| turn(v)).collect();
    Value::words(x.dtype, &words)
}

/// Combines several values elementwise along an axis until every place holds the combination of all.
///
/// `combine` gets (this half, the other half) of all values. The axis must be a power of two long; the order of
/// combination is a tree by halves, so `combine` should be associative and commutative.
pub fn reduce_many(
    b: &mut KernelBuilder,
    values: &[Value],
    axis: Axis,
    mut combine: impl FnMut(&mut KernelBuilder, &[Value], &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let (sublanes, lanes) = b.shape();
    let mut half = if axis == Axis::Lanes { lanes } else { sublanes } / 2;
    let mut values = values.to_vec();
    while half > 0 {
        let other: Vec<Value> = values.iter().map(|v| rotate(b, v, axis, half as i32)).collect();
        values = combine(b, &values, &other);
        half /= 2;
    }
    values
}

/// Every lane of the result is the combination of its sublane's lanes.
pub fn lane_reduce(
    b: &mut KernelBuilder,
    value: Value,
    mut combine: impl FnMut(&mut KernelBuilder, Value, Value) -> Value,
) -> Value {
    reduce_many(b, &[value], Axis::Lanes, |b, x, y| vec![combine(b, x[0], y[0])])[0]
}

/// Every sublane of the result is the combination of all sublanes of its lane.
pub fn sublane_reduce(
    b: &mut KernelBuilder,
    value: Value,
    mut combine: impl FnMut(&mut KernelBuilder, Value, Value) -> Value,
) -> Value {
    reduce_many(b, &[value], Axis::Sublanes, |b, x, y| vec![combine(b, x[0], y[0])])[0]
}

/// Reduces the lanes by a binary operation: f32 sums, maxima and minima by one instruction, the rest by a tree.
///
/// bf16 and f16 maxima and minima take it too; their sums do not round between steps and are f32's.
pub fn lane_reduce_op(b: &mut KernelBuilder, op: Binary, value: Value) -> Value {
    let held_as_f32 = value.dtype.is_float() && value.dtype != DType::F64;
    let one = match op {
        Binary::Add if value.dtype == DType::F32 => Some(Op::XSumLane),
        Binary::Max if held_as_f32 => Some(Op::XMaxLane),
        Binary::Min if held_as_f32 => Some(Op::XMinLane),
        _ => None,
    };
    match one {
        Some(op) => Value::word(value.dtype, b.v(op, &[value.v()])),
        None => lane_reduce(b, value, |b, x, y| super::elementwise::binary(b, op, &x, &y)),
    }
}

/// Reduces the sublanes by a binary operation.
pub fn sublane_reduce_op(b: &mut KernelBuilder, op: Binary, value: Value) -> Value {
    sublane_reduce(b, value, |b, x, y| super::elementwise::binary(b, op, &x, &y))
}

/// `value` where the mask is set, else the constant `fill` (the neutral element of a reduction to come).
pub fn masked(b: &mut KernelBuilder, value: Value, mask: M, fill: &Value) -> Value {
    super::elementwise::select(b, &Value::mask(mask), &value, fill)
}
