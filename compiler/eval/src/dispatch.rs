//! From an instruction to the function that means it.

use super::error::{Fault, malformed};
use super::ops::elementwise::{self, Kernel};
use super::ops::reduce::Reduced;
use super::ops::{contract, conv, custom, fft, gather, linalg, movement, norm, random, reduce, sort, window};
use super::run::Machine;
use super::scalar::Scalar;
use super::value::{Tensor, Value};
use systole_hlo::graph::{ArrayShape, CompId, Node, Op, Shape};
use systole_isa::DType;

/// Where an instruction is: its computation and its index there.
pub(super) type Place = (CompId, usize);

impl Machine<'_> {
    /// Runs one instruction on the values of its operands, which have these shapes.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are defined on arrays, where each is named")]
    pub(super) fn apply(
        &mut self,
        place: Place,
        node: &Node,
        shapes: &[&Shape],
        args: Vec<Value>,
    ) -> Result<Value, Fault> {
        if args.len() < least_operands(&node.op) {
            return Err(malformed(format!("{} operands are too few", args.len())));
        }
        match &node.op {
            Op::Parameter { .. } | Op::Constant(_) => Err(malformed("not an operation on operands")),
            Op::Tuple | Op::GetTupleElement { .. } | Op::OptBarrier | Op::AfterAll | Op::AddDependency | Op::Domain => {
                structural(&node.op, args)
            }
            Op::AsyncUpdate | Op::AsyncDone | Op::CopyStart | Op::CopyDone => asynchronous(&node.op, args),
            Op::Call { body } | Op::Fusion { body, .. } => Ok(self.run(*body, args)?),
            Op::AsyncStart { body } => {
                let result = self.run(*body, args.clone())?;
                let mut parts = vec![Value::Tuple(args), result];
                if let Shape::Tuple(t) = &node.shape {
                    parts.extend(t.iter().skip(2).map(Value::zeros));
                }
                Ok(Value::Tuple(parts))
            }
            Op::While { condition, body } => {
                let state = args.into_iter().next().ok_or_else(|| malformed("a loop without state"))?;
                self.while_loop(*condition, *body, state)
            }
            Op::Conditional { branches } => self.conditional(branches, args),
            Op::CustomCall { .. } => custom::custom_call(self, node, &args),
            Op::Infeed { .. } | Op::Outfeed { .. } => custom::feed(self, node, args),
            Op::Send { .. } | Op::SendDone { .. } | Op::Recv { .. } | Op::RecvDone { .. } => self.transfer(node, args),
            Op::Collective { kind, devices } => self.collective(place, node, kind, devices, args),
            Op::ReplicaId => Ok(Tensor::scalar(DType::U32, Scalar::I(self.network.replica(self.device) as i64)).into()),
            Op::PartitionId => {
                Ok(Tensor::scalar(DType::U32, Scalar::I(self.network.partition(self.device) as i64)).into())
            }
            Op::DynamicUpdateSlice => update_slice(args),
            Op::Select if matches!(args[1], Value::Tuple(_) | Value::Token) => {
                let chosen = if args[0].as_array().is_some_and(|p| p.index(0) != 0) { 1 } else { 2 };
                args.into_iter().nth(chosen).ok_or_else(|| malformed("select of two values"))
            }
            Op::Copy if !matches!(args[0], Value::Array(_)) => structural(&Op::OptBarrier, args),
            _ => self.over_arrays(place, node, shapes, &args),
        }
    }

    fn over_arrays(&mut self, place: Place, node: &Node, shapes: &[&Shape], args: &[Value]) -> Result<Value, Fault> {
        let args: Option<Vec<&Tensor>> = args.iter().map(Value::as_array).collect();
        let args = args.ok_or_else(|| malformed("an operand is not an array"))?;
        if let Some(result) = node.shape.as_array() {
            let types: Vec<DType> = args.iter().map(|t| t.dtype).collect();
            if let Some(kernel) = Kernel::new(&node.op, &types, result.dtype) {
                return Ok(elementwise::over_arrays(kernel, &args, result.dtype)?.into());
            }
            if let Some(moved) = moves(&node.op, shapes, result, &args) {
                return Ok(moved?.into());
            }
        }
        self.computed(place, node, &args)
    }

    /// Operations that are neither elementwise nor moves.
    #[allow(clippy::wildcard_enum_match_arm, reason = "what has no meaning here is a fault that names it")]
    fn computed(&mut self, place: Place, node: &Node, args: &[&Tensor]) -> Result<Value, Fault> {
        let array = || node.shape.as_array().ok_or_else(|| malformed("the result is not an array"));
        let one = |t: Tensor| Ok(Value::Array(t));
        match &node.op {
            Op::Map { body, .. } => one(reduce::map(self, args, *body, array()?.dtype)?),
            Op::Scatter(s) => pack(&node.shape, gather::scatter(self, args, s)?),
            Op::Dot { dims, precision } => one(contract::dot(self.opts, args, dims, *precision, array()?.dtype)?),
            Op::RaggedDot { .. } | Op::ScaledDot { .. } => one(contract::special(self.opts, args, &node.op, array()?)?),
            Op::Convolution(c) => one(conv::convolution(self.opts, args[0], args[1], c, array()?)?),
            Op::Reduce { dims, body } => pack(&node.shape, reduce::reduce(self, &Reduced::new(args, *body)?, dims)?),
            Op::Scan { dim, carries, reverse, body } => {
                tuple(reduce::scan(self, args, (*dim, *carries, *reverse, *body))?)
            }
            Op::ReduceWindow { window, body } => {
                pack(&node.shape, window::reduce_window(self, &Reduced::new(args, *body)?, window)?)
            }
            Op::SelectAndScatter { window, select, scatter } => {
                one(window::select_and_scatter(self, args, window, *select, *scatter)?)
            }
            Op::BatchNormTraining { epsilon, feature } => tuple(norm::training(args, *epsilon, *feature)),
            Op::BatchNormInference { epsilon, feature } => one(norm::inference(args, *epsilon, *feature)),
            Op::BatchNormGrad { epsilon, feature } => tuple(norm::grad(args, *epsilon, *feature)),
            Op::Sort { dim, body, .. } => pack(&node.shape, sort::sort(self, args, *dim, *body)?),
            Op::TopK { k, largest } => tuple(sort::top_k(args[0], *k as usize, *largest)),
            Op::Cholesky { lower } => one(linalg::cholesky(args[0], *lower)?),
            Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
                one(linalg::triangular_solve(args[0], args[1], (*left, *lower, *unit_diagonal), *transpose)?)
            }
            Op::Fft { kind, lengths } => one(fft::fft(args[0], *kind, lengths)?),
            Op::Rng { distribution } => one(random::rng(self, place, args, *distribution, array()?)?),
            Op::RngBitGenerator { algorithm } => random::bit_generator(args[0], *algorithm, &node.shape),
            Op::RngGetAndUpdateState { delta } => one(random::state(self, *delta, array()?)),
            op => Err(Fault::Unsupported(format!("{op:?}").chars().take(60).collect())),
        }
    }
}

/// The fewest operands that an operation makes sense with.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the verifier has counted operands; this is the least that evaluation reads"
)]
fn least_operands(op: &Op) -> usize {
    match op {
        Op::Select | Op::Clamp | Op::SelectAndScatter { .. } | Op::Scatter(_) => 3,
        Op::BatchNormTraining { .. } => 3,
        Op::BatchNormInference { .. } | Op::BatchNormGrad { .. } => 5,
        Op::Binary(_) | Op::Compare { .. } | Op::Pad { .. } | Op::DynamicUpdateSlice | Op::Gather(_) => 2,
        Op::Dot { .. } | Op::Convolution(_) | Op::Reduce { .. } | Op::ReduceWindow { .. } => 2,
        Op::TriangularSolve { .. } | Op::Rng { .. } | Op::SetDimensionSize { .. } => 2,
        Op::RaggedDot { .. } => 3,
        Op::ScaledDot { .. } => 4,
        Op::Parameter { .. } | Op::Constant(_) | Op::Iota { .. } | Op::Tuple | Op::AfterAll => 0,
        Op::Call { .. } | Op::Fusion { .. } | Op::CustomCall { .. } | Op::AsyncStart { .. } => 0,
        Op::ReplicaId | Op::PartitionId | Op::RngGetAndUpdateState { .. } | Op::Collective { .. } => 0,
        Op::Recv { .. } | Op::Infeed { .. } | Op::Outfeed { .. } => 0,
        _ => 1,
    }
}

/// Several results as the instruction's shape wants them: alone or in a tuple.
fn pack(shape: &Shape, mut results: Vec<Tensor>) -> Result<Value, Fault> {
    match (shape, results.len()) {
        (Shape::Array(_), 1) => Ok(Value::Array(results.remove(0))),
        _ => tuple(results),
    }
}

fn tuple(results: Vec<Tensor>) -> Result<Value, Fault> {
    Ok(Value::Tuple(results.into_iter().map(Value::Array).collect()))
}

/// Operations whose elements are the operands' own; `None` for others.
#[allow(clippy::wildcard_enum_match_arm, reason = "the caller asks the other families next")]
fn moves(op: &Op, shapes: &[&Shape], result: &ArrayShape, args: &[&Tensor]) -> Option<Result<Tensor, Fault>> {
    Some(match op {
        Op::Iota { dim } => Ok(movement::iota(*dim, result)),
        Op::Broadcast { dims } => movement::broadcast(args[0], dims, result),
        Op::Reshape => movement::reshape(args[0], result),
        Op::DynamicReshape => movement::dynamic_reshape(args[0], &args[1..]),
        Op::Bitcast => match shapes.first().and_then(|s| s.as_array()) {
            Some(from) => movement::bitcast(args[0], from, result),
            None => Err(malformed("the operand is not an array")),
        },
        Op::BitcastConvert => movement::bitcast_convert(args[0], result),
        Op::Transpose { permutation } => Ok(movement::transpose(args[0], permutation)),
        Op::Reverse { dims } => Ok(movement::reverse(args[0], dims)),
        Op::Slice { dims } => Ok(movement::slice(args[0], dims)),
        Op::Concatenate { dim } => movement::concatenate(args, *dim),
        Op::Pad { dims } => Ok(movement::pad(args[0], args[1], dims)),
        Op::DynamicSlice { sizes } => movement::dynamic_slice(args[0], &args[1..], sizes),
        Op::Gather(g) => gather::gather(args[0], args[1], g),
        Op::GetDimensionSize { dim } => {
            Ok(Tensor::scalar(DType::S32, Scalar::I(args[0].dims.get(*dim).map_or(0, |&d| d as i64))))
        }
        Op::SetDimensionSize { dim } => movement::set_dimension_size(args[0], args[1], *dim),
        _ => return None,
    })
}

/// Operations that put values together, take them apart or pass them on.
fn structural(op: &Op, args: Vec<Value>) -> Result<Value, Fault> {
    match (op, args.len()) {
        (Op::Tuple, _) => Ok(Value::Tuple(args)),
        (Op::AfterAll, _) => Ok(Value::Token),
        (Op::GetTupleElement { index }, _) => match args.into_iter().next() {
            Some(Value::Tuple(t)) => t.into_iter().nth(*index).ok_or_else(|| malformed("no such tuple element")),
            _ => Err(malformed("the operand is not a tuple")),
        },
        (Op::OptBarrier, n) if n > 1 => Ok(Value::Tuple(args)),
        _ => args.into_iter().next().ok_or_else(|| malformed("no operand")),
    }
}

/// The later parts of asynchronous pairs, and asynchronous copies.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others of the family hand their operand on")]
fn asynchronous(op: &Op, args: Vec<Value>) -> Result<Value, Fault> {
    let first = args.into_iter().next().ok_or_else(|| malformed("no operand"))?;
    let part = |v: Value, i: usize| match v {
        Value::Tuple(t) => t.into_iter().nth(i).ok_or_else(|| malformed("too few parts")),
        v @ (Value::Array(_) | Value::Token) => Ok(v),
    };
    match op {
        Op::AsyncDone => part(first, 1),
        Op::CopyDone => part(first, 0),
        Op::CopyStart => {
            let context = Tensor::scalar(DType::U32, Scalar::I(0));
            Ok(Value::Tuple(vec![first.clone(), first, context.into()]))
        }
        _ => Ok(first),
    }
}

/// `dynamic-update-slice`, in place where nobody else holds the operand.
fn update_slice(args: Vec<Value>) -> Result<Value, Fault> {
    let arrays = args.into_iter().map(|v| match v {
        Value::Array(t) => Ok(t),
        Value::Tuple(_) | Value::Token => Err(malformed("an operand is not an array")),
    });
    let mut arrays = arrays.collect::<Result<Vec<_>, _>>()?;
    let rest = arrays.split_off(1);
    let target = arrays.pop().ok_or_else(|| malformed("no operand"))?;
    let (update, indices) = rest.split_first().ok_or_else(|| malformed("no update"))?;
    Ok(movement::dynamic_update_slice(target, update, &indices.iter().collect::<Vec<_>>())?.into())
}
