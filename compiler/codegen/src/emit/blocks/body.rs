//! What is done block by block, seen as arrays walked by an iteration.

use crate::emit::loops::spec::{Access, ExprOp, Input, LaneMap, LoopSpec, ReduceSpec};
use crate::emit::loops::{flatten, merge_reduce, part_rows, side_by_side, tiles_to_kept, tiles_to_reduced, widened};
use crate::emit::moves;
use crate::emit::moves::spec::{MoveSpec, Side};
use crate::emit::rows::PickSpec;
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, Class, DType};

/// Code over an iteration space whose operands lie in vector memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Body {
    Loop(LoopSpec),
    Reduce(ReduceSpec),
    Move(MoveSpec),
    Pick(Box<PickSpec>),
}

/// A place for every index of an iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// That of the first index.
    pub offset: i64,
    /// From each index of a dimension to the next.
    pub steps: Vec<i64>,
}

impl Line {
    /// How far before and behind its first place those of an iteration of such sizes are.
    pub fn reach(&self, sizes: &[u32]) -> (i64, i64) {
        let ends = self.steps.iter().zip(sizes).map(|(step, &n)| step * (i64::from(n) - 1));
        ends.fold((0, 0), |(low, high), e| (low + e.min(0), high + e.max(0)))
    }
}

/// How the elements of an array follow the iteration (see [`Side`]; here steps of lanes are 0 where lanes follow the columns).
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    pub dtype: DType,
    /// Element rows.
    pub rows: Line,
    /// Lane positions.
    pub lanes: Line,
    pub plane_rows: i64,
    /// Tiles of columns, and element rows between them.
    pub tiles: (u32, i64),
    pub component_rows: i64,
    /// The lane position starts anywhere.
    pub any_lane: bool,
    pub is_output: bool,
}

impl Body {
    /// Dimensions merged as far as they go.
    pub fn normal(&self, (sublanes, lanes): (u32, u32)) -> Body {
        let mut body = self.clone();
        match &mut body {
            Body::Loop(s) => flatten(s, (sublanes, lanes)),
            Body::Reduce(s) => merge_reduce(s, lanes),
            Body::Move(s) => {
                moves::flatten(s, lanes);
                // A single element is one block.
                if s.sizes.is_empty() {
                    s.sizes.push(1);
                    for side in [&mut s.src, &mut s.dst] {
                        side.rows.push(0);
                        side.lanes.push(0);
                    }
                }
            }
            Body::Pick(_) => {}
        }
        body
    }

    /// Sizes of the iteration dimensions: of loops, the outer ones and the rows; of picks the tiles of lanes and the rows.
    pub fn sizes(&self) -> Vec<u32> {
        match self {
            Body::Loop(LoopSpec { outer, rows, .. }) | Body::Reduce(ReduceSpec { outer, rows, .. }) => {
                outer.iter().copied().chain([*rows]).collect()
            }
            Body::Move(s) => s.sizes.clone(),
            Body::Pick(s) => vec![s.columns, s.rows],
        }
    }

    pub fn set_size(&mut self, d: usize, size: u32) {
        match self {
            Body::Loop(LoopSpec { outer, rows, .. }) | Body::Reduce(ReduceSpec { outer, rows, .. }) => {
                *outer.get_mut(d).unwrap_or(rows) = size;
            }
            Body::Move(s) => s.sizes[d] = size,
            Body::Pick(s) => *[&mut s.columns, &mut s.rows][d] = size,
        }
    }

    /// A move with `unit` steps of dimension `d` apart from the rest of it, which is a dimension of its own around all others.
    pub fn parted(&self, d: usize, unit: u32) -> Option<Body> {
        let Body::Move(s) = self else { return None };
        let count = s.sizes.get(d)? / unit.max(1);
        if count < 2 || count * unit != s.sizes[d] {
            return None;
        }
        let mut parted = s.clone();
        parted.sizes[d] = unit;
        parted.sizes.insert(0, count);
        for side in [&mut parted.src, &mut parted.dst] {
            side.rows.insert(0, side.rows[d] * i64::from(unit));
            side.lanes.insert(0, side.lanes[d] * i64::from(unit));
        }
        Some(Body::Move(parted))
    }

    /// A reduction along lanes with its tiles of columns as the last of the reduced dimensions, where `rows` is given with so many rows
    /// apart from the rest of them: blocks are then parts of long rows.
    pub fn tiled(&self, lanes: u32, rows: Option<u32>) -> Option<Body> {
        let Body::Reduce(s) = self else { return None };
        let mut tiled = s.clone();
        if !tiles_to_reduced(&mut tiled, lanes) {
            return None;
        }
        if let Some(rows) = rows {
            part_rows(&mut tiled, rows)?;
        }
        Some(Body::Reduce(tiled))
    }

    /// A reduction that keeps its columns with the tiles of these as a dimension around all others.
    pub fn by_columns(&self, lanes: u32) -> Option<Body> {
        let Body::Reduce(s) = self else { return None };
        let mut by_columns = s.clone();
        tiles_to_kept(&mut by_columns, lanes).then_some(Body::Reduce(by_columns))
    }

    /// Whether blocks of a dimension are independent of each other.
    pub fn may_cut(&self, d: usize) -> bool {
        match self {
            Body::Loop(_) | Body::Move(_) | Body::Pick(_) => true,
            Body::Reduce(s) if d == s.outer.len() => !s.reduce_rows,
            Body::Reduce(s) => d < s.kept_outer as usize,
        }
    }

    /// Whether a dimension may be cut into blocks that each go on from what those before have left in the results: it is
    /// reduced, and partial results lose nothing in the results' types.
    pub fn resumes(&self, d: usize) -> bool {
        let Body::Reduce(s) = self else { return false };
        let reduced = if d == s.outer.len() { s.reduce_rows } else { d >= s.kept_outer as usize };
        reduced && !widened(&s.reduction, &s.expr.nodes)
    }

    /// The dimension that code walks by whole registers of rows.
    pub fn row_dimension(&self) -> Option<usize> {
        match self {
            Body::Loop(LoopSpec { outer, .. }) | Body::Reduce(ReduceSpec { outer, .. }) => Some(outer.len()),
            Body::Move(_) => None,
            Body::Pick(_) => Some(1),
        }
    }

    /// Cycles of a register of rows, all its tiles of columns: what the fullest slots take.
    pub fn register_cycles(&self, chip: &ChipConfig) -> f64 {
        let c = &chip.core;
        let (tiles, loads, stores, operations) = self.effort(c.lanes);
        let per = |n: usize, slots: u32| n as f64 / f64::from(slots.max(1));
        let busiest = per(loads, c.vload_slots).max(per(stores, c.vstore_slots)).max(per(operations, c.valu_slots));
        let turn = f64::from(chip.timing.get(Class::XluRotate).interval);
        f64::from(tiles) * busiest.max(turn * per(self.shifted(), c.xlu_slots))
    }

    /// Cycles of so many registers of rows, of all their tiles of columns: where these are summed up one by one, each waits for the one
    /// before it, but those of several blocks of rows for each other.
    pub fn rows_cycles(&self, registers: f64, chip: &ChipConfig) -> f64 {
        let each = self.register_cycles(chip);
        let Body::Reduce(s) = self else { return registers * each };
        let Some(most) = side_by_side(s, chip.core.lanes).filter(|_| s.reduce_columns) else { return registers * each };
        let together = registers.clamp(1.0, f64::from(most));
        let tiles = f64::from(s.columns.div_ceil(chip.core.lanes));
        let waits = tiles * f64::from(chip.timing.get(Class::Valu).latency);
        // Bundles are whole.
        registers * (each * together).ceil().max(waits) / together
    }

    /// Inputs whose lanes are shifted.
    fn shifted(&self) -> usize {
        let (Body::Loop(LoopSpec { inputs, .. }) | Body::Reduce(ReduceSpec { inputs, .. })) = self else { return 0 };
        let shifted = |i: &&Input| matches!(i, Input::Array(Access { lane: LaneMap::Shifted { .. }, .. }));
        inputs.iter().filter(shifted).count()
    }

    /// Tiles of columns, and of one register of a tile the loads, the stores and the operations.
    fn effort(&self, lanes: u32) -> (u32, usize, usize, usize) {
        let arrays = |inputs: &[Input]| inputs.iter().filter(|i| matches!(i, Input::Array(_))).count();
        let operations = |nodes: usize, inputs: usize| nodes.saturating_sub(inputs);
        match self {
            Body::Loop(s) => {
                let n = operations(s.expr.nodes.len(), s.inputs.len());
                (s.columns.div_ceil(lanes), arrays(&s.inputs), s.outputs.len(), n)
            }
            Body::Reduce(s) => {
                let n = operations(s.expr.nodes.len(), s.inputs.len()) + s.outputs.len();
                (s.columns.div_ceil(lanes), arrays(&s.inputs), 0, n)
            }
            Body::Move(_) => (1, 1, 1, 0),
            // Of each tile of the table a load, a permutation, a comparison, a selection.
            Body::Pick(s) => (1, s.tiles as usize + 1, 1, 3 * s.tiles as usize),
        }
    }

    /// Inputs, then outputs; scalars are `None`.
    pub fn walks(&self, lanes: u32) -> Vec<Option<Walk>> {
        match self {
            Body::Loop(s) => {
                let columns = (s.columns, lanes);
                let outputs = s.outputs.iter().map(|o| Some(walk(&o.access, columns, true)));
                inputs(&s.inputs, columns).chain(outputs).collect()
            }
            Body::Reduce(s) => {
                let columns = (s.columns, lanes);
                let outputs = s.outputs.iter().map(|a| Some(walk(a, columns, true)));
                inputs(&s.inputs, columns).chain(outputs).collect()
            }
            Body::Move(s) => vec![Some(walk_side(s.dtype, &s.src, false)), Some(walk_side(s.dtype, &s.dst, true))],
            Body::Pick(s) => {
                let columns = (lanes, lanes);
                let table = walk(&s.table, (s.tiles.saturating_mul(lanes), lanes), false);
                vec![Some(table), Some(walk(&s.indices, columns, false)), Some(walk(&s.out, columns, true))]
            }
        }
    }

    /// Puts an array elsewhere: the parts of `w` but its type.
    pub fn set_walk(&mut self, i: usize, w: &Walk) {
        match self {
            Body::Loop(s) => match s.inputs.get_mut(i) {
                Some(Input::Array(a)) => set_access(a, w),
                Some(Input::Scalar(_)) => {}
                None => set_access(&mut s.outputs[i - s.inputs.len()].access, w),
            },
            Body::Reduce(s) => match s.inputs.get_mut(i) {
                Some(Input::Array(a)) => set_access(a, w),
                Some(Input::Scalar(_)) => {}
                None => set_access(&mut s.outputs[i - s.inputs.len()], w),
            },
            Body::Move(s) => {
                let side = if i == 0 { &mut s.src } else { &mut s.dst };
                side.rows.clone_from(&w.rows.steps);
                side.row_offset = w.rows.offset;
                side.lane_offset = w.lanes.offset;
                side.plane_rows = w.plane_rows;
                side.component_rows = w.component_rows;
            }
            Body::Pick(s) => set_access([&mut s.table, &mut s.indices, &mut s.out][i], w),
        }
    }

    /// Index nodes that follow dimension `d`, with their coefficients.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for indices alone")]
    pub fn index_steps(&self, d: usize) -> Vec<(u32, i64)> {
        let (Body::Loop(LoopSpec { expr, outer, .. }) | Body::Reduce(ReduceSpec { expr, outer, .. })) = self else {
            return Vec::new();
        };
        let nodes = expr.nodes.iter().enumerate().filter_map(|(i, n)| match &n.op {
            ExprOp::Index(index) => {
                let c = if d == outer.len() { index.row } else { index.outer[d] };
                (c != 0).then_some((i as u32, c))
            }
            _ => None,
        });
        nodes.collect()
    }
}

fn inputs(inputs: &[Input], columns: (u32, u32)) -> impl Iterator<Item = Option<Walk>> {
    inputs.iter().map(move |i| match i {
        Input::Array(a) => Some(walk(a, columns, false)),
        Input::Scalar(_) => None,
    })
}

/// Of so many columns on a chip of so many lanes.
fn walk(a: &Access, (columns, lanes): (u32, u32), is_output: bool) -> Walk {
    let steps: Vec<i64> = a.outer.iter().copied().chain([a.row]).collect();
    let mut w = Walk {
        dtype: a.dtype,
        lanes: Line { offset: 0, steps: vec![0; steps.len()] },
        rows: Line { offset: a.offset, steps },
        plane_rows: 0,
        tiles: (1, 0),
        component_rows: a.component_rows,
        any_lane: false,
        is_output,
    };
    match &a.lane {
        LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => {
            w.tiles = (a.tiles(columns, lanes), *tile_rows);
        }
        LaneMap::Replicated => {}
        LaneMap::Indexed { index, plane_rows } => {
            w.lanes = Line { offset: index.offset, steps: index.outer.iter().copied().chain([index.row]).collect() };
            w.plane_rows = *plane_rows;
        }
    }
    w
}

fn set_access(a: &mut Access, w: &Walk) {
    let n = a.outer.len();
    a.outer.copy_from_slice(&w.rows.steps[..n]);
    a.row = w.rows.steps[n];
    a.offset = w.rows.offset;
    a.component_rows = w.component_rows;
    match &mut a.lane {
        LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => *tile_rows = w.tiles.1,
        LaneMap::Replicated => {}
        LaneMap::Indexed { index, plane_rows } => {
            index.offset = w.lanes.offset;
            *plane_rows = w.plane_rows;
        }
    }
}

fn walk_side(dtype: DType, s: &Side, is_output: bool) -> Walk {
    Walk {
        dtype,
        rows: Line { offset: s.row_offset, steps: s.rows.clone() },
        lanes: Line {
            offset: s.lane_offset,
            // Every lane of a replicated source row holds the element.
            steps: if s.replicated { vec![0; s.rows.len()] } else { s.lanes.clone() },
        },
        plane_rows: s.plane_rows,
        tiles: (1, 0),
        component_rows: s.component_rows,
        any_lane: s.dynamic_lane,
        is_output,
    }
}
