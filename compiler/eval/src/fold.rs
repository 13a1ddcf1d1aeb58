//! Single instructions on known values, for constant folding.

use super::error::malformed;
use super::process::Network;
use super::run::Machine;
use super::value::{Tensor, Value};
use super::{EvalError, EvalOptions, NoHost};
use systole_hlo::graph::{CompId, Effect, Literal, Module, Node, NodeId, Op, Shape};

/// Elements of a folded value, or of an operand, at most.
pub const MAX_FOLDED: u64 = 1 << 16;

/// Instructions that folding one instruction may run in the computations it calls.
const MAX_STEPS: u64 = 1 << 12;

/// Evaluates one instruction of a computation on given operands, within a small budget.
///
/// # Errors
/// If the instruction is not pure, or as [`super::evaluate`].
pub fn evaluate_node(module: &Module, comp: CompId, node: NodeId, operands: &[Value]) -> Result<Value, EvalError> {
    let c = module.computation(comp);
    let n = c.node(node);
    if let Op::Constant(l) = &n.op {
        return Ok(Value::Array(Tensor::from_literal(l)));
    }
    if !is_pure(module, n) {
        return Err(EvalError::Unsupported { node: n.name.clone(), why: "its result is not decided here".to_string() });
    }
    let opts = EvalOptions { max_elements: MAX_FOLDED, max_steps: MAX_STEPS, ..EvalOptions::default() };
    let (network, mut host) = (Network::single(), NoHost);
    let mut machine = Machine::new(module, &opts, &mut host, &network, 0);
    machine.budget(n)?;
    let shapes: Vec<&Shape> = n.operands.iter().map(|&o| &c.node(o).shape).collect();
    if shapes.len() != operands.len() {
        return Err(malformed("wrong number of operands").at(&n.name));
    }
    machine.apply((comp, node.index()), n, &shapes, operands.to_vec()).map_err(|f| f.at(&n.name))
}

/// The value of an array instruction all of whose operands are constants (or iotas), if it is pure, small and cheap.
///
/// A constant or an iota itself is not folded: there is nothing to gain.
#[allow(clippy::wildcard_enum_match_arm, reason = "only what is known without running is folded")]
pub fn fold_constant(module: &Module, comp: CompId, node: NodeId) -> Option<Literal> {
    let c = module.computation(comp);
    let n = c.node(node);
    if n.operands.is_empty() || !is_small(&n.shape) || !is_cheap(module, comp, n) {
        return None;
    }
    let operand = |&o: &NodeId| {
        let source = c.node(o);
        match &source.op {
            Op::Constant(l) if l.elements() as u64 <= MAX_FOLDED => Some(Value::Array(Tensor::from_literal(l))),
            Op::Iota { .. } if is_small(&source.shape) => evaluate_node(module, comp, o, &[]).ok(),
            _ => None,
        }
    };
    let operands = n.operands.iter().map(operand).collect::<Option<Vec<_>>>()?;
    let value = evaluate_node(module, comp, node, &operands).ok()?;
    let t = value.as_array()?;
    // A dynamic size is not something that a constant can have.
    let shape = n.shape.as_array()?;
    (t.dims.iter().map(|&d| d as u64).eq(shape.dims.iter().copied())).then(|| t.to_literal())
}

/// An array of few elements.
fn is_small(shape: &Shape) -> bool {
    shape.as_array().is_some_and(|a| {
        let n = a.dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        n.is_some_and(|n| n <= MAX_FOLDED) && a.dynamic.iter().all(|d| !d)
    })
}

/// Whether the work is about that of touching each element a few times.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others cost about their size, which is bounded elsewhere")]
fn is_cheap(module: &Module, comp: CompId, n: &Node) -> bool {
    let c = module.computation(comp);
    let elements = |o: NodeId| c.node(o).shape.as_array().map_or(u64::MAX, |a| a.elements());
    match &n.op {
        Op::Dot { .. } | Op::Convolution(_) | Op::RaggedDot { .. } | Op::ScaledDot { .. } => {
            n.operands.iter().all(|&o| elements(o) <= 1 << 10)
        }
        Op::ReduceWindow { .. } | Op::SelectAndScatter { .. } => n.operands.iter().all(|&o| elements(o) <= 1 << 8),
        Op::Cholesky { .. } | Op::TriangularSolve { .. } | Op::Fft { .. } | Op::Sort { .. } => {
            n.operands.iter().all(|&o| elements(o) <= 1 << 10)
        }
        _ => true,
    }
}

/// Whether the result depends on the operands alone and nothing else happens, called computations included.
fn is_pure(module: &Module, n: &Node) -> bool {
    let pure = |c: &CompId| module.computation(*c).nodes.iter().all(|n| is_pure(module, n));
    n.op.effect() == Effect::Pure && n.op.called().iter().all(pure)
}
