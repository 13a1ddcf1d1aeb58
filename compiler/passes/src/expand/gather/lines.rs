//! Slices of rows that begin anywhere along them, many of them.
//!
//! One after the other each would wait for its own copy, or for all of its array. So the rows of lanes that hold them are gathered as
//! rows of a table, and shifted together: a register of a slice is of the two rows of lanes that it begins and ends in.

use super::{Indexed, LINE, linear, picked_in_rows};
use crate::edit::Emit;
use systole_hlo::graph::{Binary, Gather, NodeId};
use systole_isa::DType;

/// Slices that are worth it, and rows of lanes of each at most: a copy of many is as fast as it can be.
const LEAST: u64 = 16;
const MOST: u64 = 64;

/// `[n, slice sizes..]` without sizes of 1, where slices have several elements along the last dimension and one along each other.
pub fn lower(b: &mut Emit, x: NodeId, indexed: &[Indexed], g: &Gather, n: u64) -> Option<NodeId> {
    let dims = b.dims(x).to_vec();
    let (last, &size) = (dims.len().checked_sub(1)?, dims.last()?);
    let width = g.slice_sizes[last];
    let (start, rows): (Vec<&Indexed>, Vec<&Indexed>) = indexed.iter().partition(|i| i.dim == last);
    let single = (0..last).all(|d| g.slice_sizes[d] == 1);
    let lines = width.div_ceil(LINE);
    let [start] = start[..] else { return None };
    let worth =
        n >= LEAST && (2..=MOST * LINE).contains(&width) && size > 2 * LINE && i32::try_from(b.elements(x)).is_ok();
    if !single || !worth || !b.draft.fire("gather-lines") {
        return None;
    }
    // The table of rows of lanes, with one behind those that slices end in.
    let each = (size / LINE + 1).max(size.div_ceil(LINE));
    let none = b.scalar(b.dtype(x), 0.0);
    let x = b.pad_dim(x, none, last, (0, (each * LINE - size) as i64));
    let count = b.elements(x) / LINE;
    let table = b.reshape(x, &[count, LINE]);
    // A register's rows of lanes, and lanes of theirs.
    let rows: Vec<Indexed> = rows.into_iter().map(Indexed::copy).collect();
    let row = linear(b, &rows, &dims, n);
    let row = b.with(Binary::Mul, row, each as f64);
    let within = b.with(Binary::Div, start.index, LINE as f64);
    let first = b.add(row, within);
    let all = [n, lines + 1];
    let (first, behind) = (b.broadcast(first, &[0], &all), b.iota(DType::S32, &all, 1));
    let index = b.add(first, behind);
    let highest = b.scalar(DType::S32, (count - 1) as f64);
    let highest = b.broadcast(highest, &[], &all);
    let index = b.binary(Binary::Min, index, highest);
    let index = b.reshape(index, &[n * (lines + 1)]);
    let found = b.gather_rows(table, index, false);
    let found = b.reshape(found, &[n, lines + 1, LINE]);
    let (begins, ends) = (b.slice_dim(found, 1, 0, lines, 1), b.slice_dim(found, 1, 1, lines + 1, 1));
    let both = b.concatenate(&[begins, ends], 2);
    let both = b.reshape(both, &[n * lines, 2 * LINE]);
    let lane = b.with(Binary::Rem, start.index, LINE as f64);
    let lane = b.broadcast(lane, &[0], &[n, lines, LINE]);
    let lane = b.reshape(lane, &[n * lines, LINE]);
    let own = b.iota(DType::S32, &[n * lines, LINE], 1);
    let lane = b.add(lane, own);
    let shifted = picked_in_rows(b, both, lane);
    let shifted = b.reshape(shifted, &[n, lines * LINE]);
    Some(b.slice_dim(shifted, 1, 0, width, 1))
}
