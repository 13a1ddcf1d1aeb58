//! Dynamic slices and updates of long vectors: as of rows of lanes, of which those that hold the part are brought from HBM and put
//! back there, and only these are cut at an element.

use super::index::{MANY, as_s32};
use crate::edit::Emit;
use crate::options::Facts;
use systole_hlo::graph::{Binary, NodeId};

/// The part of vector memory beyond which a vector stays in HBM.
const SHARE: (u64, u64) = (1, 4);

/// A vector as rows of lanes, and where a part of it lies.
struct Rows {
    /// `[rows, lanes]`.
    table: NodeId,
    /// The first of the rows that hold the part, of type s32, and how many there are.
    first: NodeId,
    count: u64,
    /// Where in these the part begins.
    rest: NodeId,
    lanes: u64,
}

impl Rows {
    /// The rows of a part of `size` elements from `start` on. `None`: the vector is better taken as it is.
    fn of(b: &mut Emit, x: NodeId, start: NodeId, size: u64, chip: &Facts) -> Option<Rows> {
        let (n, lanes) = (b.elements(x), u64::from(chip.tile.1));
        let (whole, count) = (n.div_ceil(lanes), (size + lanes - 2) / lanes + 1);
        // A vector whose last row has elements to spare has to be copied first.
        let least = if n.is_multiple_of(lanes) { 0 } else { beyond(chip) };
        if count > whole / 2 || bytes(b, x) <= least || i32::try_from(n).is_err() {
            return None;
        }
        let padded = if n == whole * lanes {
            x
        } else {
            let zero = b.scalar(b.dtype(x), 0.0);
            b.pad_dim(x, zero, 0, (0, (whole * lanes - n) as i64))
        };
        let table = b.reshape(padded, &[whole, lanes]);
        let start = as_s32(b, start, n - size, true);
        let row = b.with(Binary::Div, start, lanes as f64);
        let first = b.with(Binary::Min, row, (whole - count) as f64);
        let before = b.with(Binary::Mul, first, lanes as f64);
        let rest = b.sub(start, before);
        Some(Rows { table, first, count, rest, lanes })
    }

    /// The elements of the rows that hold the part.
    fn near(&self, b: &mut Emit) -> NodeId {
        let zero = b.index(0);
        let part = b.dynamic_slice(self.table, &[self.first, zero], &[self.count, self.lanes]);
        b.reshape(part, &[self.count * self.lanes])
    }
}

fn bytes(b: &Emit, x: NodeId) -> u64 {
    let dtype = b.dtype(x);
    b.elements(x).saturating_mul(u64::from(dtype.storage_bits() * dtype.components() as u32)) / 8
}

/// Bytes beyond which a vector stays in HBM.
fn beyond(chip: &Facts) -> u64 {
    chip.vmem_bytes / SHARE.1 * SHARE.0
}

/// `size` elements of a vector from `start` on.
pub fn slice(b: &mut Emit, x: NodeId, start: NodeId, size: u64, chip: &Facts) -> Option<NodeId> {
    if b.elements(x) < MANY || size == 0 {
        return None;
    }
    let rows = Rows::of(b, x, start, size, chip)?;
    let near = rows.near(b);
    Some(b.dynamic_slice(near, &[rows.rest], &[size]))
}

/// A vector with `part` in it from `start` on. Vectors that fit in vector memory are updated there.
pub fn update(b: &mut Emit, x: NodeId, part: NodeId, start: NodeId, chip: &Facts) -> Option<NodeId> {
    let size = b.elements(part);
    if bytes(b, x) <= beyond(chip) || size == 0 {
        return None;
    }
    let rows = Rows::of(b, x, start, size, chip)?;
    let near = rows.near(b);
    let new = b.dynamic_update_slice(near, part, &[rows.rest]);
    let new = b.reshape(new, &[rows.count, rows.lanes]);
    let zero = b.index(0);
    let table = b.dynamic_update_slice(rows.table, new, &[rows.first, zero]);
    let (n, all) = (b.elements(x), b.elements(table));
    let flat = b.reshape(table, &[all]);
    Some(if n == all { flat } else { b.slice_dim(flat, 0, 0, n, 1) })
}
