//! What a move kernel does: copy elements between two arrays along affine maps.

use serde::{Deserialize, Serialize};
use systole_isa::DType;

/// One side of a move. Element `i` of the iteration is at lane position `L = lane_offset + sum(lanes[d] * i[d])` (plus
/// a lane start passed in a register where `dynamic_lane`) and element row
/// `row_offset + sum(rows[d] * i[d]) + floor(L / lanes of the chip) * plane_rows`, lane `L mod lanes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Side {
    /// Element-row coefficient of every iteration dimension.
    pub rows: Vec<i64>,
    /// Lane coefficient of every iteration dimension.
    pub lanes: Vec<i64>,
    pub row_offset: i64,
    pub lane_offset: i64,
    pub plane_rows: i64,
    /// Element rows of one component of the array.
    pub component_rows: i64,
    /// Every lane of a source row holds the row's element / a destination row's element goes to every lane.
    pub replicated: bool,
    /// The lane position starts at a value passed in a register.
    pub dynamic_lane: bool,
}

/// A copy of `product(sizes)` elements of type `dtype` (every component of it). Source and destination never overlap; no two
/// iterations write one element; elements of the destination that no iteration names keep their value.
///
/// Kernel parameters: element-row base of the source, of the destination, then the lane starts of the dynamic sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MoveSpec {
    pub dtype: DType,
    pub sizes: Vec<u32>,
    pub src: Side,
    pub dst: Side,
}
