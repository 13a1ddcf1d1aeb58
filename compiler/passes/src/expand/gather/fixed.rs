//! Starts that are the same number for every slice.
//!
//! `x[i, :3]` and `x[i, 2]` name a place along the second dimension that is known when the program is compiled: the operand is cut there
//! once, and only the other dimensions are indexed.

use super::known::{MOST_NODES, Places};
use super::own::column;
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::graph::{IndexMap, NodeId, SliceDim};

/// Starts that are known apart from those that are not.
pub struct Fixed {
    /// Dimensions of the operand with their starts.
    pub starts: Vec<(usize, i64)>,
    /// The dimension numbers of the other starts.
    pub map: IndexMap,
    /// The other starts.
    pub indices: NodeId,
}

impl Fixed {
    /// The part of an operand of `dims` that the known starts name, of slices of `sizes`: one that would reach beyond the end is moved back.
    pub fn part(&self, dims: &[u64], sizes: &[u64]) -> Vec<SliceDim> {
        let mut cut = whole(dims);
        for &(d, at) in &self.starts {
            cut[d].start = at.clamp(0, (dims[d] - sizes[d]) as i64) as u64;
            cut[d].limit = cut[d].start + sizes[d];
        }
        cut
    }
}

/// The starts that are one number each, and the rest, where there are both and `fits` holds for all of the former.
pub fn apart(b: &mut Emit, map: &IndexMap, indices: NodeId, fits: impl Fn(usize, i64) -> bool) -> Option<Fixed> {
    if map.start.len() < 2 || map.vector >= b.rank(indices) {
        return None;
    }
    let (mut starts, mut moving, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (j, &dim) in map.start.iter().enumerate() {
        let column = column(b, indices, map.vector, j as u64);
        let places = Places::of(b, column, &mut { MOST_NODES });
        match places.filter(|p| p.step.iter().all(|&s| s == 0)) {
            Some(p) => starts.push((dim, p.offset)),
            None => {
                moving.push(dim);
                rest.push(column);
            }
        }
    }
    let both = !starts.is_empty() && !rest.is_empty();
    if !both || !starts.iter().all(|&(dim, at)| fits(dim, at)) || !b.draft.fire("fixed-start") {
        return None;
    }
    let indices = b.concatenate(&rest, map.vector);
    Some(Fixed { starts, map: IndexMap { start: moving, ..map.clone() }, indices })
}
