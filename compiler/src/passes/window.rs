//! `reduce-window`: padding and base dilation of windowed reductions become an explicit `pad` with the initial value;
//! sums and products of 16-bit and 8-bit floats are taken in f32.

use super::edit::Emit;
use super::simplify::combiner;
use crate::error::CompileError;
use crate::graph::{Binary, Node, NodeId, Op, PadDim, WindowDim};
use systole_isa::DType;

/// Rewrites a windowed reduction.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Result<Option<NodeId>, CompileError> {
    let Op::ReduceWindow { window, body } = &n.op else { return Ok(None) };
    let (xs, inits) = operands.split_at(operands.len() / 2);
    let pads: Vec<PadDim> =
        window.iter().map(|w| PadDim { low: w.pad_low, high: w.pad_high, interior: w.base_dilation - 1 }).collect();
    let padded: Vec<NodeId> = xs.iter().zip(inits).map(|(&x, &init)| b.pad(x, init, &pads)).collect();
    let plain: Vec<WindowDim> = window
        .iter()
        .map(|w| WindowDim { size: w.size, stride: w.stride, window_dilation: w.window_dilation, ..WindowDim::TRIVIAL })
        .collect();
    if let (Some(op), &[x]) = (wide_sum(b, *body, b.dtype(operands[0])), &padded[..]) {
        let from = b.dtype(x);
        let (x, init) = (b.convert(x, DType::F32), b.convert(inits[0], DType::F32));
        let body = b.body(op, DType::F32);
        let r = b.reduce_window(&[x], &[init], &plain, body);
        return Ok(Some(b.convert(r, from)));
    }
    Ok(Some(b.reduce_window(&padded, inits, &plain, *body)))
}

/// The operation of a body that has to be computed in f32 instead of a narrower float type.
fn wide_sum(b: &Emit, body: crate::graph::CompId, dtype: DType) -> Option<Binary> {
    let narrow = matches!(dtype, DType::BF16 | DType::F16) || dtype.is_f8();
    combiner(b, body).filter(|op| narrow && matches!(op, Binary::Add | Binary::Mul))
}

/// Takes sums and products of narrow floats in f32.
pub fn accumulate(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Result<Option<NodeId>, CompileError> {
    let Op::Reduce { dims, body } = &n.op else { return Ok(None) };
    let &[x, init] = operands else { return Ok(None) };
    let from = b.dtype(x);
    let Some(op) = wide_sum(b, *body, from) else { return Ok(None) };
    let (x, init) = (b.convert(x, DType::F32), b.convert(init, DType::F32));
    let body = b.body(op, DType::F32);
    let r = b.reduce_by(&[x], &[init], dims, body);
    Ok(Some(b.convert(r, from)))
}
