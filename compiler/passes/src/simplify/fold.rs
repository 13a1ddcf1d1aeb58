//! Known values: scalars behind constants and splats, and small operations evaluated at compile time.

use crate::edit::Emit;
use systole_hlo::graph::number::decode_float;
#[cfg(feature = "evaluator")]
use systole_hlo::graph::{Binary, Unary};
use systole_hlo::graph::{Literal, NodeId, Op, Shape};
use systole_isa::DType;

/// The scalar that every element of a node equals, if it is a constant or a splat.
#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
pub fn scalar_of<'a>(b: &'a Emit, x: NodeId) -> Option<&'a Literal> {
    let literal = match b.op(x) {
        Op::Constant(l) => l,
        Op::Broadcast { .. } => b.literal(b.operand(x, 0))?,
        _ => return None,
    };
    (literal.dims.is_empty() || literal.as_splat().is_some()).then_some(literal)
}

/// The real number that every element of a node equals, if it is known and real.
pub fn splat_number(b: &Emit, x: NodeId) -> Option<f64> {
    number(scalar_of(b, x)?)
}

/// The first element as a real number (64-bit integers only if exact).
pub fn number(l: &Literal) -> Option<f64> {
    if l.dtype.is_float() {
        let mut bits = [0; 8];
        bits[..l.dtype.host_bytes()].copy_from_slice(l.element(0));
        return Some(decode_float(l.dtype, u64::from_le_bytes(bits)));
    }
    let i = as_index(l)?;
    let f = i as f64;
    (f as i128 == i).then_some(f)
}

/// The first element of an integer literal.
pub fn as_index(l: &Literal) -> Option<i128> {
    let i = l.integer(0)?;
    Some(if l.dtype == DType::U64 { i128::from(i as u64) } else { i128::from(i) })
}

/// Elements of constants that folding makes and reads at most, splats aside: index arithmetic, not tables.
#[cfg(feature = "evaluator")]
const MAX_ELEMENTS: u64 = 64;

/// Evaluates an operation on small constants; an elementwise operation on splats is one on scalars.
pub fn fold(b: &mut Emit, op: &Op, operands: &[NodeId], shape: &Shape) -> Option<NodeId> {
    if !b.draft.fold || operands.is_empty() {
        return None;
    }
    splats(b, op, operands, shape).or_else(|| evaluated(b, op, operands, shape))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
fn splats(b: &mut Emit, op: &Op, operands: &[NodeId], shape: &Shape) -> Option<NodeId> {
    let to = shape.as_array()?;
    let bitcast = matches!(op, Op::BitcastConvert) && b.dtype(operands[0]).bits() != to.dtype.bits();
    if !op.is_elementwise() || bitcast || to.dims.is_empty() || to.dynamic.contains(&true) {
        return None;
    }
    let scalars: Vec<NodeId> = operands
        .iter()
        .map(|&x| match b.op(x) {
            Op::Broadcast { .. } if b.rank(b.operand(x, 0)) == 0 => Some(b.operand(x, 0)),
            _ => None,
        })
        .collect::<Option<_>>()?;
    if !scalars.iter().all(|&s| b.literal(s).is_some()) || !b.draft.fire("fold-splat") {
        return None;
    }
    let one = b.emit(op.clone(), &scalars, Shape::array(to.dtype, &[]));
    let dims = to.dims.clone();
    Some(b.broadcast(one, &[], &dims))
}

#[cfg(not(feature = "evaluator"))]
fn evaluated(_: &mut Emit, _: &Op, _: &[NodeId], _: &Shape) -> Option<NodeId> {
    None
}

/// Whether an elementwise operation on these types has one right answer, bit for bit, so that evaluator and chip agree:
/// what is exact, and what is rounded correctly once. Other functions are left to the chip.
#[cfg(feature = "evaluator")]
#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
fn is_exact(op: &Op, types: &[DType]) -> bool {
    let integers = types.iter().all(|t| !t.is_float() && !t.is_complex());
    let complex = types.iter().any(|t| t.is_complex());
    match op {
        Op::Compare { .. } | Op::Select | Op::Clamp | Op::Convert | Op::BitcastConvert | Op::ReducePrecision { .. } => {
            true
        }
        Op::Unary(u) => {
            let exact = matches!(
                u,
                Unary::Abs
                    | Unary::Neg
                    | Unary::Sign
                    | Unary::Floor
                    | Unary::Ceil
                    | Unary::RoundAfz
                    | Unary::RoundEven
                    | Unary::IsFinite
            );
            integers || matches!(u, Unary::Real | Unary::Imag) || exact && !complex
        }
        Op::Binary(o) => {
            let rounded =
                matches!(o, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Max | Binary::Min);
            integers || *o == Binary::Complex || rounded && !complex
        }
        _ => false,
    }
}

/// Runs one operation on constants by the reference evaluator.
#[cfg(feature = "evaluator")]
fn evaluated(b: &mut Emit, op: &Op, operands: &[NodeId], shape: &Shape) -> Option<NodeId> {
    use systole_eval::{Tensor, Value, evaluate_node};
    use systole_hlo::graph::{CompId, Computation, Module, Node};
    let to = shape.as_array()?;
    let moves = matches!(
        op,
        Op::Reshape
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Concatenate { .. }
            | Op::Pad { .. }
            | Op::Reverse { .. }
    );
    let types: Vec<DType> = operands.iter().map(|&o| b.dtype(o)).collect();
    if !(moves || op.is_elementwise() && is_exact(op, &types)) {
        return None;
    }
    if to.elements() > MAX_ELEMENTS || operands.iter().any(|&o| b.elements(o) > MAX_ELEMENTS) {
        return None;
    }
    let values: Vec<Value> = operands
        .iter()
        .map(|&o| {
            let l = b.literal(o)?;
            Some(Value::Array(Tensor::from_literal(l)))
        })
        .collect::<Option<_>>()?;
    if !b.draft.fire("fold") {
        return None;
    }
    let node = |op: Op, operands: Vec<NodeId>, shape: Shape| Node {
        name: "folded".into(),
        op,
        operands,
        shape,
        span: Default::default(),
        attributes: Vec::new(),
    };
    let mut nodes: Vec<Node> = operands
        .iter()
        .enumerate()
        .map(|(index, &o)| node(Op::Parameter { index }, Vec::new(), b.shape(o).clone()))
        .collect();
    let params: Vec<NodeId> = (0..operands.len() as u32).map(NodeId).collect();
    nodes.push(node(op.clone(), params.clone(), shape.clone()));
    let root = NodeId(operands.len() as u32);
    let mut module = Module::empty("fold");
    module.push(Computation { name: "fold".into(), nodes, params, root });
    let value = evaluate_node(&module, CompId(0), root, &values).ok()?;
    let literal = value.as_array()?.to_literal();
    (literal.dims == to.dims && literal.dtype == to.dtype).then(|| b.constant(literal))
}
