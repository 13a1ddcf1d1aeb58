//! Reductions that pick one of two pairs: the largest or smallest value and, where several are equal, the one that comes first.
//!
//! Such a body is recognised by what it does ([`PickBody`]). Places that are taken in the order of their indices need no comparison of
//! these, and the lanes of a register are combined by value first, then by the index of those that have it.

use super::eval::{Along, each_half, emit_body, own_opcode_of, reduce_lanes, reduce_lanes_by};
use super::spec::{Body, ExprId, ExprNode, ExprOp, Index, Reduction};
use crate::emit::elementwise;
use crate::emit::value::Value;
use crate::kernel::{KernelBuilder, M};
use systole_hlo::analysis::pick::{Part, PickBody};
use systole_hlo::graph::{Binary, Direction, Order, Unary};
use systole_isa::dtype::DTypeClass;
use systole_isa::{DType, Op};

/// Halves the range of indices, so that those of either sign stay clear of the ends.
const MIDDLE: i32 = 1 << 30;
/// The smallest normal f32: magnitudes from here on are not flushed.
const NORMAL: i32 = 0x0080_0000;

/// Which pair a body picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    /// Number of the value's result; the other is the index.
    value: usize,
    largest: bool,
    /// Later places have larger indices.
    in_order: bool,
}

impl Pick {
    /// The pick that a reduction is, of indices that are numbers of places; `rising`: whether an index grows along the places in
    /// the order in which they are taken.
    pub(super) fn of(r: &Reduction, nodes: &[ExprNode], rising: impl Fn(&Index) -> bool) -> Option<Pick> {
        let [_, _] = r.args[..] else { return None };
        let place = |&i: &usize| index_of(r, nodes, i).is_some();
        let index = (0..2).find(place)?;
        let (value, number) = (1 - index, index_of(r, nodes, index)?);
        let dtype = nodes[r.args[value] as usize].dtype;
        let zero = |bytes: &[u8]| bytes.iter().all(|&b| b == 0);
        let from_zero = matches!(&nodes[r.inits[index] as usize].op, ExprOp::Const(bytes) if zero(bytes));
        let upwards =
            number.offset >= 0 && number.row >= 0 && number.column >= 0 && number.outer.iter().all(|&c| c >= 0);
        let (body, float) = (pick_body(&r.body), dtype.class() == DTypeClass::Float);
        let largest = [true, false].into_iter().find(|&l| body.picks(value, float, l))?;
        let word = dtype != DType::Pred && dtype.components() == 1;
        (word && from_zero && upwards).then(|| Pick { value, largest, in_order: rising(number) })
    }

    fn index(self) -> usize {
        1 - self.value
    }

    /// Takes later places' pairs into the accumulators, in place.
    pub(super) fn take(self, b: &mut KernelBuilder, acc: &[Value], x: &[Value]) {
        let stays = self.earlier(b, acc, x);
        let (number, later) = (acc[self.index()].v(), x[self.index()].v());
        b.set_v(number, Op::VSel, &[stays.into(), number.into(), later.into()]);
        let (old, new) = (&acc[self.value], &x[self.value]);
        match own_opcode_of(extreme(self.largest), old.dtype) {
            Some(op) => b.set_v(old.v(), op, &[old.v().into(), new.v().into()]),
            None => {
                let best = self.best(b, old, new);
                b.copy_v(old.v(), best.v());
            }
        }
    }

    /// The pairs of `acc` and of later places combined.
    pub(super) fn later(self, b: &mut KernelBuilder, acc: &[Value], x: &[Value]) -> Vec<Value> {
        let stays = self.earlier(b, acc, x);
        self.chosen(b, stays, (acc, x))
    }

    /// Pairs of any places combined.
    pub(super) fn merged(self, b: &mut KernelBuilder, x: &[Value], y: &[Value]) -> Vec<Value> {
        let stays = self.first(b, x, y);
        self.chosen(b, stays, (x, y))
    }

    /// Pairs of any places taken into the accumulators, in place.
    pub(super) fn merge(self, b: &mut KernelBuilder, acc: &[Value], x: &[Value]) {
        for (a, new) in acc.iter().zip(self.merged(b, acc, x)) {
            b.copy_v(a.v(), new.v());
        }
    }

    fn best(self, b: &mut KernelBuilder, x: &Value, y: &Value) -> Value {
        elementwise::binary(b, extreme(self.largest), x, y)
    }

    fn chosen(self, b: &mut KernelBuilder, stays: M, (x, y): (&[Value], &[Value])) -> Vec<Value> {
        let best = self.best(b, &x[self.value], &y[self.value]);
        let (number, other) = (&x[self.index()], &y[self.index()]);
        let number = Value::word(number.dtype, b.select(stays, number.v(), other.v()));
        if self.value == 0 { vec![best, number] } else { vec![number, best] }
    }

    /// Where the accumulators stay, of pairs at later places.
    fn earlier(self, b: &mut KernelBuilder, acc: &[Value], x: &[Value]) -> M {
        if self.in_order { self.stays(b, &acc[self.value], &x[self.value]) } else { self.first(b, acc, x) }
    }

    /// Where `x` stays: of two that both would, the one with the smaller index does.
    fn first(self, b: &mut KernelBuilder, x: &[Value], y: &[Value]) -> M {
        let (v, w) = (&x[self.value], &y[self.value]);
        let (stays, other) = (self.stays(b, v, w), self.stays(b, w, v));
        let less = elementwise::compare(b, Direction::Lt, Order::Partial, &x[self.index()], &y[self.index()]).m();
        let alone = b.m_not(other);
        let wins = b.m_or(less, alone);
        b.m_and(stays, wins)
    }

    /// Where the earlier pair stays: also where both values are equal, and where its own is no number.
    fn stays(self, b: &mut KernelBuilder, old: &Value, new: &Value) -> M {
        let direction = if self.largest { Direction::Ge } else { Direction::Le };
        let m = elementwise::compare(b, direction, Order::Partial, old, new).m();
        if old.dtype.class() != DTypeClass::Float {
            return m;
        }
        let nan = elementwise::compare(b, Direction::Ne, Order::Partial, old, old).m();
        b.m_or(m, nan)
    }

    /// Combines all lanes; the result is in every lane.
    pub(super) fn lanes(self, b: &mut KernelBuilder, x: &[Value]) -> Vec<Value> {
        let own = &x[self.value];
        let best = reduce_lanes_by(b, extreme(self.largest), own);
        let mut has = elementwise::compare(b, Direction::Eq, Order::Partial, own, &best).m();
        if own.dtype.class() == DTypeClass::Float {
            // If one is no number, so is the best, which nothing is equal to.
            let nan = elementwise::compare(b, Direction::Ne, Order::Partial, own, own).m();
            has = b.m_or(has, nan);
        }
        let number = &x[self.index()];
        let sortable = as_float(b, number);
        let first = b.sel(has, sortable, f32::MAX);
        let first = b.v(Op::XMinLane, &[first]);
        let first = from_float(b, first, number.dtype);
        if self.value == 0 { vec![best, first] } else { vec![first, best] }
    }
}

/// Combines all lanes by a body, which may be a pick; the result is in every lane.
pub(super) fn combine_lanes(b: &mut KernelBuilder, (body, pick): (&Body, Option<Pick>), x: &[Value]) -> Vec<Value> {
    match pick {
        Some(pick) => pick.lanes(b, x),
        None => reduce_lanes(b, body, x),
    }
}

/// Combines all sublanes in the same way; the result is in every sublane.
pub(super) fn combine_sublanes(b: &mut KernelBuilder, (body, pick): (&Body, Option<Pick>), x: &[Value]) -> Vec<Value> {
    match pick {
        Some(pick) => each_half(b, x, Along::Sublanes, |b, acc, other| pick.merged(b, acc, other)),
        None => each_half(b, x, Along::Sublanes, |b, acc, other| emit_body(b, body, acc, other)),
    }
}

fn extreme(largest: bool) -> Binary {
    if largest { Binary::Max } else { Binary::Min }
}

/// Integers from 0 on as floats in the same order, none of which is flushed: the cross-lane unit compares floats alone.
fn as_float(b: &mut KernelBuilder, x: &Value) -> crate::kernel::V {
    let t = b.subi(x.v(), MIDDLE);
    let signs = b.sar(t, 31);
    let flip = b.shr(signs, 1);
    let magnitude = b.xor(t, flip);
    b.addi(magnitude, NORMAL)
}

fn from_float(b: &mut KernelBuilder, x: crate::kernel::V, dtype: DType) -> Value {
    let magnitude = b.subi(x, NORMAL);
    let signs = b.sar(x, 31);
    let flip = b.shr(signs, 1);
    let t = b.xor(magnitude, flip);
    Value::word(dtype, b.addi(t, MIDDLE))
}

/// The index that argument `i` is, if it is one; what lies outside of an array may have the initial value instead.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for two operations alone")]
fn index_of<'a>(r: &Reduction, nodes: &'a [ExprNode], i: usize) -> Option<&'a Index> {
    let node = |id: ExprId| &nodes[id as usize];
    let n = node(r.args[i]);
    match &n.op {
        _ if n.dtype != DType::S32 => None,
        ExprOp::Index(index) => Some(index),
        ExprOp::Select if n.args[2] == r.inits[i] => match &node(n.args[1]).op {
            ExprOp::Index(index) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

/// A body as what [`PickBody`] knows.
#[allow(clippy::wildcard_enum_match_arm, reason = "whatever else a body does, it is no pick")]
fn pick_body(body: &Body) -> PickBody {
    let part = |n: &ExprNode| match &n.op {
        ExprOp::Param(i) => Part::Param(*i as usize),
        ExprOp::Const(bytes) if n.dtype == DType::Pred => Part::Truth(bytes.first().is_some_and(|&b| b != 0)),
        ExprOp::Unary(Unary::Not) => Part::Not,
        ExprOp::Binary(op) => Part::Binary(*op),
        ExprOp::Select => Part::Select,
        ExprOp::Compare(direction, Order::Partial) => Part::Compare(*direction),
        _ => Part::Other,
    };
    let node = |n: &ExprNode| (part(n), n.args.iter().map(|&a| a as usize).collect());
    PickBody { nodes: body.nodes.iter().map(node).collect(), roots: body.roots.iter().map(|&r| r as usize).collect() }
}
