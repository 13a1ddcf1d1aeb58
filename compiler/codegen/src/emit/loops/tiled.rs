//! Reductions of long rows, in a form that can be cut within the rows.

use super::eval::identity;
use super::spec::{Access, Expr, ExprId, ExprNode, ExprOp, Index, Input, LaneMap, ReduceSpec};
use smallvec::{SmallVec, smallvec};
use systole_hlo::graph::{Direction, Order};
use systole_isa::DType;

/// Tiles of columns become the last of the reduced dimensions; false if there is only one, or columns are not reduced. What lies
/// behind the last column is replaced by what leaves results alone.
pub fn tiles_to_reduced(spec: &mut ReduceSpec, lanes: u32) -> bool {
    let tiles = spec.columns.div_ceil(lanes);
    if !spec.reduce_columns || tiles < 2 || !spec.expr.reductions.is_empty() {
        return false;
    }
    spec.outer.push(tiles);
    let arrays = spec.inputs.iter_mut().filter_map(|i| if let Input::Array(a) = i { Some(a) } else { None });
    for a in arrays.chain(&mut spec.outputs) {
        add_tiles(a);
    }
    for n in &mut spec.expr.nodes {
        if let ExprOp::Index(i) = &mut n.op {
            i.outer.push(i.column * i64::from(lanes));
        }
    }
    if !spec.columns.is_multiple_of(lanes) {
        mask_columns(spec, lanes);
    }
    spec.columns = lanes;
    true
}

fn add_tiles(a: &mut Access) {
    let step = match &mut a.lane {
        LaneMap::Tile { tile_rows } => std::mem::take(tile_rows),
        // The tile behind is as far as ever.
        LaneMap::Shifted { tile_rows, .. } => *tile_rows,
        LaneMap::Replicated => 0,
        LaneMap::Indexed { index, .. } => {
            index.outer.push(0);
            0
        }
    };
    a.outer.push(step);
}

/// Tiles of columns that stay become the outermost of the kept dimensions; false if there is only one, or columns are reduced. Behind
/// the last column results are anything, as there is nothing.
pub fn tiles_to_kept(spec: &mut ReduceSpec, lanes: u32) -> bool {
    let tiles = spec.columns.div_ceil(lanes);
    let by_tile = |a: &Access| matches!(a.lane, LaneMap::Tile { .. });
    if spec.reduce_columns || tiles < 2 || !spec.expr.reductions.is_empty() || !spec.outputs.iter().all(by_tile) {
        return false;
    }
    spec.outer.insert(0, tiles);
    spec.kept_outer += 1;
    spec.apart = false;
    let arrays = spec.inputs.iter_mut().filter_map(|i| if let Input::Array(a) = i { Some(a) } else { None });
    arrays.chain(&mut spec.outputs).for_each(tile_outermost);
    for n in &mut spec.expr.nodes {
        if let ExprOp::Index(i) = &mut n.op {
            i.outer.insert(0, i.column * i64::from(lanes));
        }
    }
    spec.columns = lanes;
    true
}

/// An operand's tiles as the outermost dimension.
pub(super) fn tile_outermost(a: &mut Access) {
    let step = match &mut a.lane {
        LaneMap::Tile { tile_rows } => std::mem::take(tile_rows),
        // The tile behind is as far as ever.
        LaneMap::Shifted { tile_rows, .. } => *tile_rows,
        LaneMap::Replicated => 0,
        LaneMap::Indexed { index, .. } => {
            index.outer.insert(0, 0);
            0
        }
    };
    a.outer.insert(0, step);
}

/// Arguments become what leaves results alone from the last column on.
fn mask_columns(spec: &mut ReduceSpec, lanes: u32) {
    let mut outer: SmallVec<[i64; 4]> = smallvec![0; spec.outer.len()];
    outer.last_mut().into_iter().for_each(|c| *c = i64::from(lanes));
    let column = ExprOp::Index(Index { outer, column: 1, ..Index::default() });
    let number = push(&mut spec.expr, column, &[], DType::S32);
    let count = ExprOp::Const(SmallVec::from_slice(&spec.columns.to_le_bytes()));
    let count = push(&mut spec.expr, count, &[], DType::S32);
    let inside = ExprOp::Compare(Direction::Lt, Order::Partial);
    let inside = push(&mut spec.expr, inside, &[number, count], DType::Pred);
    for i in 0..spec.reduction.args.len() {
        let arg = spec.reduction.args[i];
        let dtype = spec.expr.nodes[arg as usize].dtype;
        let alone = match identity(&spec.reduction, dtype) {
            Some(bytes) => push(&mut spec.expr, ExprOp::Const(SmallVec::from_vec(bytes)), &[], dtype),
            None => spec.reduction.inits[i],
        };
        spec.reduction.args[i] = push(&mut spec.expr, ExprOp::Select, &[inside, arg, alone], dtype);
    }
}

fn push(expr: &mut Expr, op: ExprOp, args: &[ExprId], dtype: DType) -> ExprId {
    expr.nodes.push(ExprNode { op, args: SmallVec::from_slice(args), dtype });
    expr.nodes.len() as ExprId - 1
}

/// Kept rows as groups of `rows` and, around all other dimensions, how many of them there are; `None` if that leaves a rest.
pub fn part_rows(spec: &mut ReduceSpec, rows: u32) -> Option<()> {
    let count = spec.rows / rows.max(1);
    if spec.reduce_rows || count < 2 || count * rows != spec.rows {
        return None;
    }
    spec.rows = rows;
    spec.outer.insert(0, count);
    spec.kept_outer += 1;
    spec.apart = true;
    let rows = i64::from(rows);
    let arrays = spec.inputs.iter_mut().filter_map(|i| if let Input::Array(a) = i { Some(a) } else { None });
    for a in arrays.chain(&mut spec.outputs) {
        a.outer.insert(0, a.row * rows);
        if let LaneMap::Indexed { index, .. } = &mut a.lane {
            index.outer.insert(0, index.row * rows);
        }
    }
    for n in &mut spec.expr.nodes {
        if let ExprOp::Index(i) = &mut n.op {
            i.outer.insert(0, i.row * rows);
        }
    }
    Some(())
}
