//! What each operation becomes when tuples, calls and tokens go.

use super::value::Value;
use super::{Form, Inliner, bitcast, flat_tuple, map, plain, rebuilt, scan, splice};
use crate::custom;
use crate::edit::Emit;
use crate::make::array;
use systole_hlo::analysis::devices;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Computation, Node, NodeId, Op, Shape};

type Result<T> = std::result::Result<T, CompileError>;

/// Emits what a node of an old computation becomes.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are copied on their arrays")]
pub(super) fn lower(
    cx: &mut Inliner,
    b: &mut Emit,
    old: &Computation,
    n: &Node,
    operands: &[Value<NodeId>],
) -> Result<Value<NodeId>> {
    let first = || operands.first().cloned().ok_or_else(|| missing(n));
    Ok(match &n.op {
        Op::Tuple => Value::Tuple(operands.to_vec()),
        Op::GetTupleElement { index } => first()?.element(*index).cloned().ok_or_else(|| missing(n))?,
        Op::AddDependency | Op::Domain | Op::Copy => first()?,
        Op::AfterAll => Value::Token,
        Op::OptBarrier => first()?.map(&mut |x| {
            let shape = b.shape(x).clone();
            b.raw(Op::OptBarrier, &[x], shape)
        }),
        Op::CopyStart => Value::Tuple(vec![first()?, first()?, Value::Token]),
        Op::CopyDone => first()?.element(0).cloned().ok_or_else(|| missing(n))?,
        Op::AsyncStart { body } => {
            let result = call(cx, b, *body, operands);
            Value::Tuple(vec![Value::Tuple(operands.to_vec()), result, Value::Token])
        }
        Op::AsyncUpdate => first()?,
        Op::AsyncDone => first()?.element(1).cloned().ok_or_else(|| missing(n))?,
        Op::Call { body } | Op::Fusion { body, .. } => call(cx, b, *body, operands),
        Op::Map { body, .. } => {
            let result =
                map::apply(b, &cx.flat[body.index()].computation, &leaves(operands), &array(&n.shape).dims, n.span)?;
            rebuilt(&n.shape, &result)?
        }
        Op::Scan { dim, carries, reverse, body } => {
            let how = scan::Scan { dim: *dim, carries: *carries, reverse: *reverse, body: *body };
            scan::lower(cx, b, n, &how, &leaves(operands))?
        }
        Op::Bitcast => {
            let from = array(&old.node(n.operands[0]).shape);
            let x = leaves(operands).first().copied().ok_or_else(|| missing(n))?;
            Value::Array(bitcast::lower(b, x, &from, &array(&n.shape)))
        }
        Op::Select if matches!(n.shape, Shape::Tuple(_)) => select_tuple(b, n, operands)?,
        Op::While { condition, body } => {
            let condition = cx.form(b, *condition, Form::Condition)?;
            let body = cx.form(b, *body, Form::State)?;
            flow(b, n, Op::While { condition, body }, &[first()?.leaves()])?
        }
        Op::Conditional { branches } => {
            let branches = branches.iter().map(|&c| cx.form(b, c, Form::State)).collect::<Result<Vec<_>>>()?;
            let states: Vec<Vec<NodeId>> = operands[1..].iter().map(Value::leaves).collect();
            conditional(b, n, Op::Conditional { branches }, first()?.leaves()[0], &states)?
        }
        Op::Infeed { .. } | Op::Outfeed { .. } | Op::Send { .. } | Op::SendDone { .. } => effect(b, n, operands)?,
        Op::Recv { .. } | Op::RecvDone { .. } => effect(b, n, operands)?,
        Op::CustomCall { target, .. } if custom::is_identity(target) => same_structure(b, n, operands)?,
        _ => generic(cx, b, n, operands)?,
    })
}

fn missing(n: &Node) -> CompileError {
    CompileError::internal("inline", format!("{} lacks an operand or tuple element", n.name))
}

fn leaves(operands: &[Value<NodeId>]) -> Vec<NodeId> {
    operands.iter().flat_map(Value::leaves).collect()
}

fn call(cx: &Inliner, b: &mut Emit, body: systole_hlo::graph::CompId, operands: &[Value<NodeId>]) -> Value<NodeId> {
    let flat = &cx.flat[body.index()];
    let result = splice(b, flat, &leaves(operands));
    flat.root.map(&mut |i| result[i])
}

fn select_tuple(b: &mut Emit, n: &Node, operands: &[Value<NodeId>]) -> Result<Value<NodeId>> {
    let pred = operands[0].leaves()[0];
    let (on_true, on_false) = (operands[1].leaves(), operands[2].leaves());
    let parts: Vec<NodeId> = on_true.iter().zip(&on_false).map(|(&x, &y)| b.select(pred, x, y)).collect();
    rebuilt(&n.shape, &parts)
}

/// A loop: its state as a flat tuple.
fn flow(b: &mut Emit, n: &Node, op: Op, states: &[Vec<NodeId>]) -> Result<Value<NodeId>> {
    let tuples: Vec<NodeId> = states.iter().map(|s| b.tuple(s)).collect();
    let done = b.emit(op, &tuples, flat_tuple(&n.shape));
    let elements = b.elements_of(done);
    rebuilt(&n.shape, &elements)
}

fn conditional(b: &mut Emit, n: &Node, op: Op, which: NodeId, states: &[Vec<NodeId>]) -> Result<Value<NodeId>> {
    let mut operands = vec![which];
    for s in states {
        operands.push(b.tuple(s));
    }
    let done = b.emit(op, &operands, flat_tuple(&n.shape));
    let elements = b.elements_of(done);
    rebuilt(&n.shape, &elements)
}

/// Host queues and transfers, without tokens.
#[allow(clippy::wildcard_enum_match_arm, reason = "the caller sends the family alone, and the fault is said")]
fn effect(b: &mut Emit, n: &Node, operands: &[Value<NodeId>]) -> Result<Value<NodeId>> {
    let inputs = leaves(operands);
    let handle = || match operands.first() {
        Some(Value::Handle(h)) => Ok(*h),
        Some(Value::Tuple(t)) if matches!(t.first(), Some(Value::Handle(_))) => match t.first() {
            Some(Value::Handle(h)) => Ok(*h),
            _ => Err(missing(n)),
        },
        _ => Err(CompileError::unsupported(n.span, format!("{} does not take its own start", n.name))),
    };
    let tuple = |node| Value::Tuple(vec![node, Value::Token]);
    Ok(match &n.op {
        Op::Infeed { .. } => {
            let data = b.raw(n.op.clone(), &[], flat_tuple(&n.shape));
            let elements = b.elements_of(data);
            rebuilt(&n.shape, &elements)?
        }
        Op::Outfeed { .. } => {
            b.raw(n.op.clone(), &inputs, Shape::Token);
            Value::Token
        }
        Op::Send { channel, host, .. } => {
            let op = Op::Send { channel: *channel, host: *host, pairs: devices::source_target_pairs(n) };
            Value::Handle(b.raw(op, &inputs, Shape::Token))
        }
        Op::Recv { channel, host, .. } => {
            let op = Op::Recv { channel: *channel, host: *host, pairs: devices::source_target_pairs(n) };
            Value::Handle(b.raw(op, &[], Shape::Token))
        }
        Op::SendDone { .. } => {
            b.raw(n.op.clone(), &[handle()?], Shape::Token);
            Value::Token
        }
        Op::RecvDone { .. } => {
            let shape = match &n.shape {
                Shape::Tuple(t) => plain(t.first().ok_or_else(|| missing(n))?),
                other @ (Shape::Array(_) | Shape::Token) => plain(other),
            };
            let data = b.raw(n.op.clone(), &[handle()?], flat_tuple(&shape));
            let elements = b.elements_of(data);
            tuple(rebuilt(&shape, &elements)?)
        }
        _ => return Err(missing(n)),
    })
}

fn same_structure(b: &Emit, n: &Node, operands: &[Value<NodeId>]) -> Result<Value<NodeId>> {
    let (have, want) = (leaves(operands), n.shape.leaves());
    let same = have.len() == want.len() && have.iter().zip(&want).all(|(x, w)| array(b.shape(*x)).same(w));
    if !same {
        let given: Vec<String> = have.iter().map(|x| b.shape(*x).to_string()).collect();
        let message = format!("{} gives its operands ({}) back, not {}", n.name, given.join(", "), n.shape);
        return Err(CompileError::unsupported(n.span, message));
    }
    match (&n.shape, operands) {
        (Shape::Tuple(t), _) if t.len() == operands.len() && t.len() != 1 => Ok(Value::Tuple(operands.to_vec())),
        (_, [one]) => Ok(one.clone()),
        _ => rebuilt(&n.shape, &leaves(operands)),
    }
}

fn flat_or_plain(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(_) | Shape::Token => plain(shape),
        Shape::Tuple(_) => flat_tuple(shape),
    }
}

/// Integers whose products are wanted as floats are multiplied as floats.
fn as_floats(b: &mut Emit, inputs: &mut [NodeId], shape: &Shape) {
    let Shape::Array(to) = shape else { return };
    let real = if to.dtype.is_complex() { to.dtype.real() } else { to.dtype };
    for x in inputs.iter_mut().take(2) {
        let from = b.dtype(*x);
        if real.is_float() && !from.is_float() && !from.is_complex() {
            *x = b.convert(*x, real);
        }
    }
}

/// Any other operation: arrays in, an array or a flat tuple of arrays out.
fn generic(cx: &mut Inliner, b: &mut Emit, n: &Node, operands: &[Value<NodeId>]) -> Result<Value<NodeId>> {
    let mut op = n.op.clone();
    let mut bodies = Vec::new();
    op.for_each_called(|c| bodies.push(*c));
    let mut forms = bodies.into_iter().map(|c| cx.form(b, c, Form::Scalar)).collect::<Result<Vec<_>>>()?.into_iter();
    op.for_each_called(|c| {
        if let Some(f) = forms.next() {
            *c = f;
        }
    });
    let mut inputs = leaves(operands);
    if matches!(op, Op::Dot { .. } | Op::Convolution(_) | Op::RaggedDot { .. }) {
        as_floats(b, &mut inputs, &n.shape);
    }
    if let Some(meant) = custom::lower(b, &op, &inputs, &flat_or_plain(&n.shape)) {
        return match &n.shape {
            Shape::Array(_) => Ok(Value::Array(meant)),
            Shape::Tuple(_) | Shape::Token => {
                let elements = b.elements_of(meant);
                rebuilt(&n.shape, &elements)
            }
        };
    }
    match &n.shape {
        Shape::Array(_) => Ok(Value::Array(b.emit(op, &inputs, plain(&n.shape)))),
        Shape::Tuple(_) => {
            let node = b.emit(op, &inputs, flat_tuple(&n.shape));
            let elements = b.elements_of(node);
            rebuilt(&n.shape, &elements)
        }
        Shape::Token => {
            b.emit(op, &inputs, Shape::Token);
            Ok(Value::Token)
        }
    }
}
