//! Which slices loops read where they lie.

use super::Rows;
use systole_hlo::graph::{Computation, NodeId, Op};
use systole_isa::Layout;

/// Whether a slice may be read where it lies by the loops that use it: along lanes it begins at a whole tile, without steps.
pub(super) fn is_cut(comp: &Computation, id: NodeId, lanes: u64) -> bool {
    let n = comp.node(id);
    let Op::Slice { dims } = &n.op else { return false };
    dims.last().is_some_and(|last| last.start % lanes == 0 && last.stride == 1)
}

/// Whether a slice that begins within a tile of lanes may be read where it lies: a loop has all of its rows' tiles at hand, so that windows
/// of whole rows must have room.
pub(super) fn is_shifted_cut(comp: &Computation, id: NodeId, rows: Rows) -> bool {
    /// Registers of rows that a window has where copies begin and end by words of the narrowest type, and windows of a kernel.
    const REGISTERS: u64 = 4;
    const WINDOWS: u64 = 12;
    let n = comp.node(id);
    let (Op::Slice { dims }, Some(a)) = (&n.op, n.shape.as_array()) else { return false };
    let (Some(last), Some(&columns)) = (dims.last(), a.dims.last()) else { return false };
    let within = last.start % rows.lanes != 0 && last.stride == 1;
    let window = columns.next_multiple_of(rows.lanes) * REGISTERS * rows.sublanes * 4;
    within && columns > 1 && window * WINDOWS <= rows.vmem / 3 && a.elements() >= columns * rows.sublanes
}

/// Whether a slice has single rows of a large array, as many as do not fill whole registers: the last register of a loop over them
/// would reach far behind the array, which only vector memory has room for.
pub(super) fn reaches_beyond(comp: &Computation, id: NodeId, rows: Rows) -> bool {
    let n = comp.node(id);
    let (Some(from), Some(to)) = (comp.node(n.operands[0]).shape.as_array(), n.shape.as_array()) else { return false };
    let rank = to.rank();
    let single = rank > 2 && from.dims[rank - 2] > 1 && to.dims[rank - 2] == 1;
    let around = to.dims[..rank.saturating_sub(2)].iter().rfind(|&&d| d > 1);
    single
        && around.is_some_and(|n| !n.is_multiple_of(rows.sublanes))
        && Layout::row_major(from.dtype, &from.dims, rows.sublanes as u32, rows.lanes as u32).bytes() > rows.vmem / 2
}
