//! DMA descriptors: the static geometry of a copy.

use serde::{Deserialize, Serialize};

/// A memory that DMA reaches.
#[allow(missing_docs, reason = "the names are the documentation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Space {
    Hbm,
    Vmem,
    Smem,
}

/// One dimension of a strided copy: `count` steps, and the byte distance between steps on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DmaDim {
    /// Number of steps.
    pub count: u32,
    /// Bytes between steps in the source.
    pub src_stride: i64,
    /// Bytes between steps in the destination.
    pub dst_stride: i64,
}

/// A strided copy of up to four dimensions (outermost first) of contiguous chunks. Base addresses and byte offsets
/// come from scalar registers at the `dma.start`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DmaDesc {
    /// Memory read.
    pub src: Space,
    /// Memory written.
    pub dst: Space,
    /// Bytes of a contiguous chunk.
    pub chunk: u32,
    /// Strided dimensions, outermost first.
    pub dims: Vec<DmaDim>,
}

/// Most dimensions of a descriptor besides the chunk.
pub const MAX_DMA_DIMS: usize = 4;

/// Bytes that one unit of a base address stands for in HBM.
pub const HBM_GRANULE: u64 = 512;

impl DmaDesc {
    /// A contiguous copy.
    pub fn contiguous(src: Space, dst: Space, bytes: u32) -> DmaDesc {
        DmaDesc { src, dst, chunk: bytes, dims: Vec::new() }
    }

    /// Bytes that the copy moves.
    pub fn bytes(&self) -> u64 {
        self.dims.iter().map(|d| d.count as u64).product::<u64>() * self.chunk as u64
    }
}
