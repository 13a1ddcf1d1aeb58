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

/// Whether what lies along lanes of a slice of a large array becomes rows of a loop: the loop takes it from vector memory, which has no room
/// for all of the array.
pub(super) fn stands_in_rows(comp: &Computation, (users, id): (&[Vec<NodeId>], NodeId), rows: Rows) -> bool {
    let n = comp.node(id);
    let Some(from) = comp.node(n.operands[0]).shape.as_array() else { return false };
    let bytes = Layout::row_major(from.dtype, &from.dims, rows.sublanes as u32, rows.lanes as u32).bytes();
    bytes > rows.vmem / 2 && stands(comp, users, id)
}

/// Whether an array, or a reshape of it with the same last dimension, is broadcast with its last dimension as another one.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation takes lanes for rows")]
fn stands(comp: &Computation, users: &[Vec<NodeId>], id: NodeId) -> bool {
    let size = |id: NodeId| comp.node(id).shape.as_array().and_then(|a| a.dims.last().copied());
    users[id.index()].iter().any(|&u| {
        let n = comp.node(u);
        match &n.op {
            Op::Broadcast { dims } => {
                let rank = n.shape.as_array().map_or(0, |a| a.rank());
                size(id).is_some_and(|n| n > 1) && dims.last().is_some_and(|d| d + 1 < rank)
            }
            Op::Reshape => size(u) == size(id) && stands(comp, users, u),
            _ => false,
        }
    })
}
