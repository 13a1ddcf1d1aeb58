//! Loops and branches whose state has dynamic sizes: the state becomes arrays of the bounds, with their sizes beside them.
//!
//! The old bodies are called with the arrays put together again, and their results are taken apart.

use super::bounds;
use crate::edit::{Draft, Emit, Rewritten, rewrite};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, CompId, Module, Node, NodeId, Op, Shape};
use systole_isa::DType;

/// The pass: modules without such state stay as they are.
pub fn run(module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    let nodes = module.computations.iter().flat_map(|c| c.nodes.iter().map(move |n| (c, n)));
    let carries = nodes.into_iter().any(|(c, n)| {
        matches!(n.op, Op::While { .. } | Op::Conditional { .. })
            && (is_sized(&n.shape) || n.operands.iter().any(|&o| is_sized(&c.node(o).shape)))
    });
    if carries { rewrite(module, draft, &mut rule) } else { Ok(module) }
}

/// Rewrites a `while` or a `conditional`.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation carries values around")]
fn rule(b: &mut Emit, n: &Node, x: &[NodeId]) -> Rewritten {
    match &n.op {
        Op::While { condition, body } if is_sized(&n.shape) => {
            let state = apart(b, x[0]);
            let condition = wrapped(b, *condition, &n.shape, false)?;
            let body = wrapped(b, *body, &n.shape, true)?;
            let init = b.tuple(&state);
            let shape = b.shape(init).clone();
            let done = b.emit(Op::While { condition, body }, &[init], shape);
            let leaves = b.elements_of(done);
            Ok(Some(together(b, &mut leaves.into_iter(), &n.shape)))
        }
        Op::Conditional { branches } => {
            if !is_sized(&n.shape) && !x.iter().any(|&o| is_sized(b.shape(o))) {
                return Ok(None);
            }
            let mut operands = vec![x[0]];
            let mut inner = Vec::new();
            for (&branch, &arg) in branches.iter().zip(&x[1..]) {
                let given = b.shape(arg).clone();
                inner.push(wrapped(b, branch, &given, true)?);
                let leaves = apart(b, arg);
                operands.push(b.tuple(&leaves));
            }
            let shape = Shape::Tuple(leaf_shapes(&n.shape));
            let done = b.emit(Op::Conditional { branches: inner }, &operands, shape);
            let leaves = b.elements_of(done);
            Ok(Some(together(b, &mut leaves.into_iter(), &n.shape)))
        }
        _ => Ok(None),
    }
}

fn is_sized(shape: &Shape) -> bool {
    shape.leaves().iter().any(|a| is_dynamic(a))
}

fn is_dynamic(a: &ArrayShape) -> bool {
    a.dynamic.contains(&true)
}

/// The shapes of the leaves as they are carried.
fn leaf_shapes(shape: &Shape) -> Vec<Shape> {
    match shape {
        Shape::Tuple(t) => t.iter().flat_map(leaf_shapes).collect(),
        Shape::Array(a) if is_dynamic(a) => {
            let size = Shape::array(DType::S32, &[]);
            [bounds(shape)].into_iter().chain(std::iter::repeat_n(size, a.rank())).collect()
        }
        Shape::Array(_) | Shape::Token => vec![shape.clone()],
    }
}

fn helper(target: &str) -> Op {
    Op::CustomCall { target: target.into(), config: String::new(), has_side_effect: false, calls: Vec::new() }
}

/// The leaves of a value, arrays of dynamic size as arrays of the bounds and all their sizes.
fn apart(b: &mut Emit, x: NodeId) -> Vec<NodeId> {
    let shape = b.shape(x).clone();
    match &shape {
        Shape::Tuple(t) => (0..t.len())
            .flat_map(|i| {
                let e = b.element(x, i);
                apart(b, e)
            })
            .collect(),
        Shape::Array(a) if is_dynamic(a) => {
            let parts = b.emit(helper("PadToStatic"), &[x], Shape::Tuple(leaf_shapes(&shape)));
            b.elements_of(parts)
        }
        Shape::Array(_) | Shape::Token => vec![x],
    }
}

/// The value of a shape from its leaves.
fn together(b: &mut Emit, leaves: &mut impl Iterator<Item = NodeId>, shape: &Shape) -> NodeId {
    match shape {
        Shape::Tuple(t) => {
            let parts: Vec<NodeId> = t.iter().map(|s| together(b, leaves, s)).collect();
            b.tuple(&parts)
        }
        Shape::Array(a) if is_dynamic(a) => {
            let parts: Vec<NodeId> = leaves.take(a.rank() + 1).collect();
            b.emit(helper("SliceToDynamic"), &parts, shape.clone())
        }
        Shape::Array(_) | Shape::Token => leaves.next().expect("there are as many leaves as the shape has"),
    }
}

/// A computation of a value's leaves that calls another one with the value; with `open`, its result is taken apart too.
fn wrapped(b: &mut Emit, inner: CompId, given: &Shape, open: bool) -> Result<CompId, CompileError> {
    let result = b.draft.computations[inner.index()].result().clone();
    b.computation("carried", |b| {
        let param = b.parameter(Shape::Tuple(leaf_shapes(given)));
        let leaves = b.elements_of(param);
        let value = together(b, &mut leaves.into_iter(), given);
        let done = b.emit(Op::Call { body: inner }, &[value], result);
        Ok(if open {
            let leaves = apart(b, done);
            b.tuple(&leaves)
        } else {
            done
        })
    })
}
