//! Halos: parts with the edges of their neighbours' parts.

use crate::make::{Out, Scope};
use crate::mesh::{Axis, Mesh};
use crate::rule::Edges;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Direction, NodeId, Op, Shape};
use systole_isa::DType;

/// A part of dimension `dim`, divided along `axes`, with what it needs of the parts before and behind it. The ends of the whole
/// array are continued with `fill` (zeros without).
pub fn with_edges(
    out: &mut Out<'_>,
    s: &mut Scope,
    x: NodeId,
    dim: usize,
    axes: &[Axis],
    e: Edges,
    fill: Option<NodeId>,
) -> Result<NodeId, CompileError> {
    let n = out.array(s, x)?.dims[dim];
    let mut parts = Vec::new();
    if e.low > 0 {
        let edge = out.slice(s, x, dim, n - e.low, n)?;
        let moved = out.permute(s, edge, &neighbours(out.mesh, axes, false))?;
        parts.push(continued(out, s, moved, axes, 0, fill)?);
    }
    match u64::try_from(e.high) {
        Ok(0) => parts.push(x),
        Ok(high) => {
            parts.push(x);
            let edge = out.slice(s, x, dim, 0, high)?;
            let moved = out.permute(s, edge, &neighbours(out.mesh, axes, true))?;
            parts.push(continued(out, s, moved, axes, out.mesh.size(axes) - 1, fill)?);
        }
        Err(_) => parts.push(out.slice(s, x, dim, 0, n - e.high.unsigned_abs())?),
    }
    match parts[..] {
        [one] => Ok(one),
        _ => out.op(s, Op::Concatenate { dim }, &parts),
    }
}

/// Who sends to whom: every place to the next one along atoms, or to the one before.
fn neighbours(mesh: &Mesh, axes: &[Axis], back: bool) -> Vec<(u64, u64)> {
    let last = mesh.size(axes) - 1;
    let pair = |place: u64| {
        let c = mesh.coordinate(place, axes);
        let to = if back { c.checked_sub(1)? } else { Some(c + 1).filter(|c| *c <= last)? };
        Some((place, place - mesh.place(axes, c) + mesh.place(axes, to)))
    };
    (0..mesh.devices()).filter_map(pair).collect()
}

/// An edge, which the device at coordinate `end` got from nobody: zeros, or `fill`.
fn continued(
    out: &mut Out<'_>,
    s: &mut Scope,
    edge: NodeId,
    axes: &[Axis],
    end: u64,
    fill: Option<NodeId>,
) -> Result<NodeId, CompileError> {
    let Some(fill) = fill else { return Ok(edge) };
    let dims = out.array(s, edge)?.dims;
    let fill = out.spread(s, fill, &dims)?;
    let at = out.coordinate(s, axes)?;
    let end = out.scalar(s, DType::S32, end as f64);
    let is_end = out.compare(s, Direction::Eq, at, end)?;
    let is_end = out.shaped(s, Op::Broadcast { dims: Vec::new() }, &[is_end], Shape::array(DType::Pred, &dims))?;
    out.op(s, Op::Select, &[is_end, fill, edge])
}
