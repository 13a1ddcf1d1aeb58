//! `bitcast` of dumped programs: the same bytes under another shape and layout, as moves that say so.

use crate::edit::Emit;
use crate::make::inverse;
use systole_hlo::graph::{ArrayShape, NodeId};

/// Emits what `bitcast` from one shape and layout to another does to a row-major array.
pub fn lower(b: &mut Emit, x: NodeId, from: &ArrayShape, to: &ArrayShape) -> NodeId {
    let order = |s: &ArrayShape| -> Vec<usize> { s.layout().iter().rev().map(|&d| d as usize).collect() };
    let (major_from, major_to) = (order(from), order(to));
    let physical = b.transpose(x, &major_from);
    let physical = b.bitcast(physical, to.dtype);
    let sizes: Vec<u64> = major_to.iter().map(|&d| to.dims[d]).collect();
    let physical = b.reshape(physical, &sizes);
    b.transpose(physical, &inverse(&major_to))
}
