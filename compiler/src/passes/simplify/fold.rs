//! Known values: scalars behind constants and splats, and small operations evaluated at compile time.

use crate::graph::number::decode_float;
use crate::graph::{Literal, NodeId, Op, Shape};
use crate::passes::edit::Emit;
use systole_isa::DType;

/// The scalar that every element of a node equals, if it is a constant or a splat.
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

/// Evaluates an operation on small constants.
pub fn fold(_b: &mut Emit, _op: &Op, _operands: &[NodeId], _shape: &Shape) -> Option<NodeId> {
    None
}
