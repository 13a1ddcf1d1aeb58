//! Evaluation of expressions into instructions, and the combination of lanes and sublanes.

use super::spec::{Body, ExprId, ExprNode, ExprOp, Reduction};
use crate::emit::elementwise;
use crate::emit::memory::{from_memory, to_memory};
use crate::emit::value::Value;
use crate::kernel::{KernelBuilder, M, V};
use systole_hlo::graph::elementwise::Neutral;
use systole_hlo::graph::{Binary, Direction, Order};
use systole_isa::{DType, Op};

/// Emits one operation whose arguments have been evaluated. Inputs, parameters, indices and lane reductions are the caller's.
pub fn emit_node(b: &mut KernelBuilder, node: &ExprNode, args: &[Value]) -> Value {
    match &node.op {
        ExprOp::Const(bytes) => elementwise::constant(b, bytes, node.dtype),
        ExprOp::Unary(op) => elementwise::unary(b, *op, &args[0], node.dtype),
        ExprOp::Binary(op) => elementwise::binary(b, *op, &args[0], &args[1]),
        ExprOp::MultiplyAdd => elementwise::multiply_add(b, &args[0], &args[1], &args[2]),
        ExprOp::Compare(direction, order) => elementwise::compare(b, *direction, *order, &args[0], &args[1]),
        ExprOp::Select => elementwise::select(b, &args[0], &args[1], &args[2]),
        ExprOp::Clamp => elementwise::clamp(b, &args[0], &args[1], &args[2]),
        ExprOp::Convert => elementwise::convert(b, &args[0], node.dtype),
        ExprOp::BitcastConvert => elementwise::bitcast_same_width(b, &args[0], node.dtype),
        ExprOp::ReducePrecision(e, m) => elementwise::reduce_precision(b, &args[0], *e, *m),
        ExprOp::Input(_) | ExprOp::Param(_) | ExprOp::Index(_) | ExprOp::LaneReduce(..) => {
            unreachable!("evaluated by the caller")
        }
    }
}

/// The values of nodes, of which `given` knows those that are not computed.
pub fn emit_nodes(
    b: &mut KernelBuilder,
    nodes: &[ExprNode],
    mut given: impl FnMut(&mut KernelBuilder, &ExprOp) -> Option<Value>,
) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let value = match given(b, &node.op) {
            Some(value) => value,
            None => {
                let args: smallvec::SmallVec<[Value; 3]> = node.args.iter().map(|&a| values[a as usize]).collect();
                emit_node(b, node, &args)
            }
        };
        values.push(value);
    }
    values
}

/// Applies a reduction body: accumulators and values in, new accumulators out.
#[allow(clippy::wildcard_enum_match_arm, reason = "parameters are known, everything else is computed")]
pub fn emit_body(b: &mut KernelBuilder, body: &Body, acc: &[Value], x: &[Value]) -> Vec<Value> {
    let values = emit_nodes(b, &body.nodes, |_, op| match *op {
        ExprOp::Param(i) if (i as usize) < acc.len() => Some(acc[i as usize]),
        ExprOp::Param(i) => Some(x[i as usize - acc.len()]),
        _ => None,
    });
    body.roots.iter().map(|&r| values[r as usize]).collect()
}

/// The operation of result `i` of a body, if it is one of accumulator `i` and its own value, in either order.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for parameters alone")]
fn of_own(body: &Body, i: usize) -> Option<&ExprOp> {
    let node = &body.nodes[body.roots[i] as usize];
    let param = |id: &ExprId| match body.nodes[*id as usize].op {
        ExprOp::Param(p) => Some(p as usize),
        _ => None,
    };
    let mut args: smallvec::SmallVec<[_; 3]> = node.args.iter().map(param).collect();
    args.sort_unstable();
    (args[..] == [Some(i), Some(i + body.roots.len())]).then_some(&node.op)
}

/// The one binary operation that a body is, if it is one on its two parameters in either order.
pub fn simple_body(body: &Body) -> Option<Binary> {
    if body.roots.len() == 1 { own_operation(body, 0) } else { None }
}

/// The operation that combines accumulator `i` with its own value, if it is one and takes nothing else.
fn own_operation(body: &Body, i: usize) -> Option<Binary> {
    if let ExprOp::Binary(op) = of_own(body, i)? { Some(*op) } else { None }
}

/// Whether a body combines each accumulator with its own value alone, by an operation whose order does not matter.
pub fn each_alone(body: &Body) -> bool {
    let free = [Binary::Add, Binary::Mul, Binary::Max, Binary::Min, Binary::And, Binary::Or, Binary::Xor];
    (0..body.roots.len()).all(|i| matches!(of_own(body, i), Some(ExprOp::Binary(op)) if free.contains(op)))
}

/// The order of the one strict comparison that a body is, if it is one of its two parameters.
pub fn simple_compare(body: &Body) -> Option<Order> {
    if body.roots.len() != 1 {
        return None;
    }
    if let ExprOp::Compare(Direction::Lt | Direction::Gt, order) = of_own(body, 0)? { Some(*order) } else { None }
}

/// Applies `f` to every component register of a value (`pred` goes through 0/1 words).
pub fn map_words(b: &mut KernelBuilder, x: &Value, mut f: impl FnMut(&mut KernelBuilder, V) -> V) -> Value {
    if x.dtype == DType::Pred {
        let w = to_memory(b, x)[0];
        let w = f(b, w);
        return from_memory(b, DType::Pred, &[w]);
    }
    let words: smallvec::SmallVec<[V; 4]> = x.all().iter().map(|&v| f(b, v)).collect();
    Value::words(x.dtype, &words)
}

/// `a` where the mask is set, else `b`, of any type.
pub fn select_mask(b: &mut KernelBuilder, m: M, x: &Value, y: &Value) -> Value {
    if m == M::ALL {
        return *x;
    }
    elementwise::select(b, &Value::mask(m), x, y)
}

/// Copies `x` into the registers of `to`.
pub fn assign(b: &mut KernelBuilder, to: &Value, x: &Value) {
    if x.dtype == DType::Pred {
        b.copy_m(to.m(), x.m());
        return;
    }
    for (d, s) in to.all().iter().zip(x.all()) {
        b.copy_v(*d, *s);
    }
}

/// A value in fresh registers that may be redefined.
pub fn variable(b: &mut KernelBuilder, x: &Value) -> Value {
    if x.dtype == DType::Pred {
        let m = b.new_m();
        b.copy_m(m, x.m());
        return Value::mask(m);
    }
    let words: smallvec::SmallVec<[V; 4]> = x.all().iter().map(|&v| b.v_copy(v)).collect();
    Value::words(x.dtype, &words)
}

/// acc = body(acc, x), in place.
pub fn accumulate(b: &mut KernelBuilder, body: &Body, acc: &[Value], x: &[Value]) {
    // Where each is combined with its own value alone, none has to wait for another's.
    let opcodes: Option<Vec<Op>> = acc.iter().enumerate().map(|(i, a)| own_opcode(body, i, a.dtype)).collect();
    if let Some(opcodes) = opcodes {
        for ((a, x), op) in acc.iter().zip(x).zip(opcodes) {
            b.set_v(a.v(), op, &[a.v().into(), x.v().into()]);
        }
        return;
    }
    let new = emit_body(b, body, acc, x);
    let new: Vec<Value> = if new.len() > 1 { new.iter().map(|v| variable(b, v)).collect() } else { new };
    for (a, n) in acc.iter().zip(&new) {
        assign(b, a, n);
    }
}

/// The instruction that combines accumulator `i` of a type with its own value, if it is one and takes nothing else.
pub fn own_opcode(body: &Body, i: usize, dtype: DType) -> Option<Op> {
    own_opcode_of(own_operation(body, i)?, dtype)
}

/// The one instruction that an operation of values of a type is, of those that reductions have.
pub(super) fn own_opcode_of(op: Binary, dtype: DType) -> Option<Op> {
    match (op, dtype) {
        (Binary::Add, DType::F32) => Some(Op::VAddF),
        (Binary::Max, DType::F32 | DType::BF16 | DType::F16) => Some(Op::VMaxF),
        (Binary::Min, DType::F32 | DType::BF16 | DType::F16) => Some(Op::VMinF),
        (Binary::Mul, DType::F32) => Some(Op::VMulF),
        (Binary::Add, DType::S32 | DType::U32) => Some(Op::VAddI),
        (Binary::Max, DType::S32) => Some(Op::VMaxS),
        (Binary::Min, DType::S32) => Some(Op::VMinS),
        _ => None,
    }
}

/// Combines all lanes; the result is in every lane.
pub fn reduce_lanes(b: &mut KernelBuilder, body: &Body, x: &[Value]) -> Vec<Value> {
    if let (Some(op), [v]) = (simple_body(body), x)
        && let Some(op) = across_lanes(op, v.dtype)
    {
        return vec![Value::word(v.dtype, b.v(op, &[v.v()]))];
    }
    each_half(b, x, Along::Lanes, |b, acc, rotated| emit_body(b, body, acc, rotated))
}

/// The same of one operation.
pub(super) fn reduce_lanes_by(b: &mut KernelBuilder, op: Binary, x: &Value) -> Value {
    if let Some(op) = across_lanes(op, x.dtype) {
        return Value::word(x.dtype, b.v(op, &[x.v()]));
    }
    each_half(b, &[*x], Along::Lanes, |b, acc, rotated| vec![elementwise::binary(b, op, &acc[0], &rotated[0])])[0]
}

/// The instruction that combines all lanes by an operation.
fn across_lanes(op: Binary, dtype: DType) -> Option<Op> {
    match (op, dtype) {
        (Binary::Add, DType::F32) => Some(Op::XSumLane),
        (Binary::Max, DType::F32 | DType::BF16 | DType::F16) => Some(Op::XMaxLane),
        (Binary::Min, DType::F32 | DType::BF16 | DType::F16) => Some(Op::XMinLane),
        _ => None,
    }
}

/// The dimension of a register along which values are combined.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along {
    Lanes,
    Sublanes,
}

/// Values combined with those half of the lanes (or sublanes) away, then a quarter, and so on: the result is in every one.
pub(super) fn each_half(
    b: &mut KernelBuilder,
    x: &[Value],
    along: Along,
    combine: impl Fn(&mut KernelBuilder, &[Value], &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let (sublanes, lanes) = b.shape();
    let (mut n, rotate): (u32, fn(&mut KernelBuilder, V, i32) -> V) = match along {
        Along::Lanes => (lanes, KernelBuilder::rot_lane),
        Along::Sublanes => (sublanes, KernelBuilder::rot_sublane),
    };
    let mut acc = x.to_vec();
    while n > 1 {
        n /= 2;
        let rotated: Vec<Value> = acc.iter().map(|v| map_words(b, v, |b, w| rotate(b, w, n as i32))).collect();
        acc = combine(b, &acc, &rotated);
    }
    acc
}

/// Bytes of the value that leaves every other value of the type alone under a simple body.
#[allow(clippy::wildcard_enum_match_arm, reason = "other types are reduced as these")]
fn identity_bytes(op: Binary, t: DType) -> Option<Vec<u8>> {
    use systole_isa::dtype::DTypeClass as C;
    let n = t.host_bytes();
    let float = |v: f64| match t {
        DType::F32 => Some((v as f32).to_le_bytes().to_vec()),
        DType::F64 => Some(v.to_le_bytes().to_vec()),
        DType::BF16 => Some(half::bf16::from_f64(v).to_le_bytes().to_vec()),
        DType::F16 => Some(half::f16::from_f64(v).to_le_bytes().to_vec()),
        _ => None,
    };
    let bits = |v: u64| v.to_le_bytes()[..n].to_vec();
    let width = 8 * n as u32;
    Some(match (op.neutral()?, t.class()) {
        (Neutral::Zero, C::Float) => return float(-0.0),
        (Neutral::One, C::Float) => return float(1.0),
        (Neutral::Least, C::Float) => return float(f64::NEG_INFINITY),
        (Neutral::Greatest, C::Float) => return float(f64::INFINITY),
        (Neutral::Zero | Neutral::Least, C::Pred) => vec![0],
        (Neutral::One | Neutral::Greatest | Neutral::Ones, C::Pred) => vec![1],
        (Neutral::Zero, C::Signed | C::Unsigned) | (Neutral::Least, C::Unsigned) => bits(0),
        (Neutral::One, C::Signed | C::Unsigned) => bits(1),
        (Neutral::Ones, C::Signed | C::Unsigned) | (Neutral::Greatest, C::Unsigned) => bits(u64::MAX),
        (Neutral::Least, C::Signed) => (width >= 8).then(|| bits(1 << (width - 1)))?,
        (Neutral::Greatest, C::Signed) => (width >= 8).then(|| bits((1 << (width - 1)) - 1))?,
        (Neutral::Ones, C::Float) | (_, C::Complex) => return None,
    })
}

/// Bytes of the value that leaves others alone under a reduction of one array of that type, if it is known.
pub fn identity(reduction: &Reduction, t: DType) -> Option<Vec<u8>> {
    let op = simple_body(&reduction.body).filter(|_| reduction.args.len() == 1 && t.bits() >= 8)?;
    identity_bytes(op, t)
}

/// Whether initial values may be taken in once for every part of what is reduced: they leave others alone, or taking them in again
/// changes nothing. Of bodies that are not simple XLA says so.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
pub fn repeatable(reduction: &Reduction, nodes: &[ExprNode]) -> bool {
    let Some(op) = simple_body(&reduction.body) else { return true };
    if matches!(op, Binary::Max | Binary::Min | Binary::And | Binary::Or) {
        return true;
    }
    reduction.inits.iter().map(|&i| &nodes[i as usize]).all(|n| match &n.op {
        ExprOp::Const(bytes) => {
            let zero = op == Binary::Add && bytes.iter().all(|&b| b == 0);
            zero || identity_bytes(op, n.dtype).is_some_and(|known| known[..] == bytes[..])
        }
        _ => false,
    })
}

/// Values that leave others alone under the body, if they are known; else the initial values, which XLA may apply any number
/// of times. The flag says which: `true` for known identities, and then the initial values remain to be combined.
pub fn neutral(b: &mut KernelBuilder, body: &Body, inits: &[Value]) -> (Vec<Value>, bool) {
    let identity = |(i, init): (usize, &Value)| {
        let bytes = identity_bytes(own_operation(body, i)?, init.dtype)?;
        (init.dtype.bits() >= 8).then_some((bytes, init.dtype))
    };
    let known: Option<Vec<_>> = inits.iter().enumerate().map(identity).collect();
    match known {
        Some(all) => (all.iter().map(|(bytes, dtype)| elementwise::constant(b, bytes, *dtype)).collect(), true),
        None => (inits.to_vec(), false),
    }
}

/// Whether sums of this reduction are kept in f32 though its type is narrower: additions of bf16 or f16 values, which
/// are rounded once at the end, as XLA does.
pub fn widened(reduction: &Reduction, nodes: &[ExprNode]) -> bool {
    let [arg] = reduction.args[..] else { return false };
    matches!(nodes[arg as usize].dtype, DType::BF16 | DType::F16) && simple_body(&reduction.body) == Some(Binary::Add)
}

/// The body with every type replaced by f32, for [`widened`] reductions.
pub fn widen_body(body: &Body) -> Body {
    let mut body = body.clone();
    for n in &mut body.nodes {
        n.dtype = DType::F32;
    }
    body
}
