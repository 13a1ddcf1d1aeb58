//! Dynamic slices and updates of large arrays that begin somewhere within a row of lanes: the rows of lanes that hold the part are brought
//! from HBM and put back there, and only these are cut at an element. A vector is taken as rows of lanes.
//! Where loops may keep an array in vector memory, it is cut there.

use super::index::{MANY, as_s32};
use crate::edit::Emit;
use crate::options::Facts;
use systole_hlo::graph::{Binary, NodeId};

/// What of an array holds a part of it: whole rows of lanes.
struct Window {
    /// The array, and its shape as it was.
    array: NodeId,
    dims: Vec<u64>,
    /// Where the window begins, and its sizes.
    starts: Vec<NodeId>,
    sizes: Vec<u64>,
    /// Where in it the part begins.
    rest: Vec<NodeId>,
    /// The part is one of the window as a vector.
    flat: bool,
}

impl Window {
    /// The window of a part of `sizes` from `starts` on. `None`: the part is better taken as it is.
    fn of(b: &mut Emit, x: NodeId, starts: &[NodeId], sizes: &[u64], chip: &Facts) -> Option<Window> {
        let lanes = u64::from(chip.tile.1);
        let dims = b.dims(x).to_vec();
        let (&n, &size, &start) = (dims.last()?, sizes.last()?, starts.last()?);
        let count = (size + lanes).saturating_sub(2) / lanes + 1;
        let whole = n.div_ceil(lanes);
        if sizes.contains(&0) || count > whole / 2 || i32::try_from(n).is_err() {
            return None;
        }
        let flat = dims.len() == 1;
        // Where the last lanes have no elements, nothing of that size can begin at a row of lanes: a vector is copied first, if there is no
        // other way.
        if !(n.is_multiple_of(lanes) || flat && bytes(b, x) > chip.vmem_bytes) {
            return None;
        }
        let start = as_s32(b, start, n - size, true);
        let row = b.with(Binary::Div, start, lanes as f64);
        let first = b.with(Binary::Min, row, (whole - count) as f64);
        let begin = b.with(Binary::Mul, first, lanes as f64);
        let rest = b.sub(start, begin);
        let zero = b.index(0);
        if !flat {
            let outer = dims.len() - 1;
            return Some(Window {
                array: x,
                dims,
                starts: [&starts[..outer], &[begin]].concat(),
                sizes: [&sizes[..outer], &[count * lanes]].concat(),
                rest: [&vec![zero; outer][..], &[rest]].concat(),
                flat,
            });
        }
        let padded = if n == whole * lanes {
            x
        } else {
            let zero = b.scalar(b.dtype(x), 0.0);
            b.pad_dim(x, zero, 0, (0, (whole * lanes - n) as i64))
        };
        let array = b.reshape(padded, &[whole, lanes]);
        Some(Window { array, dims, starts: vec![first, zero], sizes: vec![count, lanes], rest: vec![rest], flat })
    }

    /// The window's elements, as the part is cut from them.
    fn near(&self, b: &mut Emit) -> NodeId {
        let part = b.dynamic_slice(self.array, &self.starts, &self.sizes);
        if self.flat { b.reshape(part, &[self.sizes.iter().product()]) } else { part }
    }
}

/// Bytes of an array's elements in chip memory.
fn bytes(b: &Emit, x: NodeId) -> u64 {
    let dtype = b.dtype(x);
    b.elements(x).saturating_mul(u64::from(dtype.storage_bits() * dtype.components() as u32)) / 8
}

/// `sizes` elements of an array from `starts` on; `once`: cut by code that runs once.
pub fn slice(
    b: &mut Emit,
    x: NodeId,
    starts: &[NodeId],
    sizes: &[u64],
    (chip, once): (&Facts, bool),
) -> Option<NodeId> {
    if !(once && b.elements(x) >= MANY || bytes(b, x) > chip.vmem_bytes) {
        return None;
    }
    let window = Window::of(b, x, starts, sizes, chip)?;
    let near = window.near(b);
    Some(b.dynamic_slice(near, &window.rest, sizes))
}

/// An array with `part` in it from `starts` on; `once`: put there by code that runs once. What fits in vector memory is updated there.
pub fn update(
    b: &mut Emit,
    x: NodeId,
    part: NodeId,
    starts: &[NodeId],
    (chip, once): (&Facts, bool),
) -> Option<NodeId> {
    // The new array may be another one than the old.
    let arrays = if once { 2 } else { 1 };
    if bytes(b, x).saturating_mul(arrays) <= chip.vmem_bytes {
        return None;
    }
    let sizes = b.dims(part).to_vec();
    let window = Window::of(b, x, starts, &sizes, chip)?;
    let near = window.near(b);
    let new = b.dynamic_update_slice(near, part, &window.rest);
    let new = b.reshape(new, &window.sizes);
    let all = b.dynamic_update_slice(window.array, new, &window.starts);
    let flat = if window.flat { vec![b.elements(all)] } else { window.dims.clone() };
    let all = b.reshape(all, &flat);
    Some(if flat == window.dims { all } else { b.slice_dim(all, 0, 0, window.dims[0], 1) })
}
