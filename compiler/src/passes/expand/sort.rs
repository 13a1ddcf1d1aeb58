//! Sorts along the last dimension of `[rows, n]`, and the k largest elements.

use crate::error::CompileError;
use crate::graph::{CompId, Direction, NodeId, Op, Order, Shape};
use crate::passes::edit::Emit;
use crate::passes::make::{inverse, one_or_tuple};
use systole_isa::DType;

/// The sorted dimension last, all others merged.
pub fn lower(b: &mut Emit, dim: usize, stable: bool, body: CompId, operands: &[NodeId]) -> NodeId {
    let dims = b.dims(operands[0]).to_vec();
    if dims.get(dim).is_none_or(|&n| n <= 1) {
        return if operands.len() == 1 { operands[0] } else { b.tuple(operands) };
    }
    let order: Vec<usize> = (0..dims.len()).filter(|&d| d != dim).chain([dim]).collect();
    let moved: Vec<u64> = order.iter().map(|&d| dims[d]).collect();
    let rows: u64 = moved[..moved.len() - 1].iter().product();
    let flat = if rows == 1 { vec![dims[dim]] } else { vec![rows, dims[dim]] };
    let inputs: Vec<NodeId> = operands
        .iter()
        .map(|&x| {
            let x = b.transpose(x, &order);
            b.reshape(x, &flat)
        })
        .collect();
    let shapes: Vec<Shape> = inputs.iter().map(|&x| Shape::array(b.dtype(x), &flat)).collect();
    let op = Op::Sort { dim: flat.len() - 1, stable, body };
    let sorted = b.emit(op, &inputs, one_or_tuple(shapes));
    let results: Vec<NodeId> = b
        .elements_of(sorted)
        .into_iter()
        .map(|x| {
            let x = b.reshape(x, &moved);
            b.transpose(x, &inverse(&order))
        })
        .collect();
    if operands.len() == 1 { results[0] } else { b.tuple(&results) }
}

/// The `k` largest (or smallest) elements of the last dimension in order, with their places; of equal ones the first.
pub fn top_k(b: &mut Emit, x: NodeId, k: u64, largest: bool) -> Result<NodeId, CompileError> {
    let dims = b.dims(x).to_vec();
    let dtype = b.dtype(x);
    let last = dims.len() - 1;
    let places = b.iota(DType::S32, &dims, last);
    let direction = if largest { Direction::Gt } else { Direction::Lt };
    let order = if dtype.is_float() { Order::Total } else { Order::Partial };
    let body = b.computation("top_k", |b| {
        let scalar = Shape::array(dtype, &[]);
        let index = Shape::array(DType::S32, &[]);
        let (p, q) = (b.parameter(scalar.clone()), b.parameter(scalar));
        b.parameter(index.clone());
        b.parameter(index);
        Ok(b.raw(Op::Compare { direction, order }, &[p, q], Shape::array(DType::Pred, &[])))
    })?;
    let sorted = lower(b, last, true, body, &[x, places]);
    let parts: Vec<NodeId> = b.elements_of(sorted).into_iter().map(|e| b.slice_dim(e, last, 0, k, 1)).collect();
    Ok(b.tuple(&parts))
}
