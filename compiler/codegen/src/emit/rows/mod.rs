//! Kernels that pick rows by index: [`gather`] from HBM, [`near`] from vector memory, [`scatter`] into tables, [`pick`] and [`single`] of
//! single elements.
//!
//! Indices go to scalar memory a chunk at a time; each names a row. A gather from HBM copies its rows by DMA, all of a chunk in
//! flight at once; a scatter combines row after row, in order.

mod gather;
mod near;
mod pick;
mod scatter;
mod single;
mod windows;

pub use gather::{gather_kernel, gather_needs};
pub use near::{near_kernel, near_needs};
pub use pick::{PERMUTATION_CYCLES, PickSpec, emit_pick, pick_kernel};
pub use scatter::{ScatterSpec, in_place_chunk, in_place_plane, in_place_words, scatter_kernel};
use serde::{Deserialize, Serialize};
pub use single::{ELEMENT_CYCLES, singles_kernel, singles_needs};

use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, S};
use systole_isa::{ChipConfig, DType, Op};

/// Most indices handled at a time; two such chunks are in scalar memory.
pub const CHUNK: u32 = 512;

/// Indices handled at a time where each needs `rows` word rows of scratch: a sixteenth of vector memory at most.
fn chunk(rows: u32, chip: &ChipConfig) -> u32 {
    let memory = chip.vmem.bytes / 16 / (chip.core.lanes as u64 * 4);
    (memory / rows.max(1) as u64).clamp(8, CHUNK as u64) as u32 / 8 * 8
}

/// A table of rows `[R, W]` and the array of picked rows `[n, W]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowsSpec {
    pub dtype: DType,
    /// Number of indices.
    pub count: u32,
    /// The first of them: those before are another core's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u32,
    /// Planes of a row (`W` over lanes), and the element rows of a plane in the table and in the picked array.
    pub planes: u32,
    pub table_plane: u32,
    pub rows_plane: u32,
    /// Element rows of a row in each plane, where rows are slabs of several dimensions: whole word rows, in a type of words.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub height: u32,
    /// Element rows of a component in both.
    pub table_component: u32,
    pub rows_component: u32,
    /// First word of scalar memory for two chunks of [`CHUNK`] indices.
    pub smem: u32,
    /// Gathers of single elements of a table of one dimension in vector memory, one after the other ([`singles_kernel`]).
    #[serde(default, skip_serializing_if = "is_false")]
    pub single: bool,
    /// Gathers of rows of a table in vector memory ([`near_kernel`]).
    #[serde(default, skip_serializing_if = "is_false")]
    pub near: bool,
}

/// What is in HBM besides the table of a gather.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Far {
    pub indices: bool,
    /// Picked rows, or updates.
    pub rows: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(x: &bool) -> bool {
    !*x
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(x: &u32) -> bool {
    *x == 0
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one(x: &u32) -> bool {
    *x == 1
}

/// Slabs of which eight, two sets of them under way, take at most a quarter of vector memory are gathered as rows are.
#[must_use]
pub fn can_be_slabs(bytes: u64, chip: &ChipConfig) -> bool {
    bytes.saturating_mul(64) <= chip.vmem.bytes
}

impl RowsSpec {
    fn packing(&self) -> u32 {
        self.dtype.packing() as u32
    }

    /// Whether planes that lie so many element rows apart share words: those of an array of one row, which follow each other.
    fn joined(&self, plane: u32) -> bool {
        self.planes > 1 && !plane.is_multiple_of(self.packing())
    }

    /// Word rows that the planes of `rows` rows take, of an array whose planes lie so many element rows apart.
    fn word_rows(&self, rows: u32, plane: u32) -> u32 {
        let one = if self.joined(plane) {
            self.planes.div_ceil(self.packing())
        } else {
            rows.div_ceil(self.packing()) * self.planes * self.height
        };
        one * self.dtype.components() as u32
    }

    /// Word rows of a picked row.
    fn slab(&self) -> u32 {
        self.planes * self.height * self.dtype.components() as u32
    }
}

/// Starts the copy of the indices from number `first` on to a place in scalar memory.
fn fetch(b: &mut KernelBuilder, (indices, buf): (S, BufferRef), (first, to): (S, u32), desc: u32, sem: u32) {
    let offset = b.def_s(Op::SShlI, &[first.into(), 2.into()]);
    let dst = b.s_imm(to as i32);
    let args = DmaArgs { desc, src: indices, src_offset: offset, dst, dst_offset: S::ZERO, sem };
    let touched = [buf, BufferRef::SCALAR_MEMORY];
    b.dma_start(args, &touched, &touched);
}
