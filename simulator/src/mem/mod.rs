//! Memories: HBM in sparse pages, vector memory, scalar memory with known bits.

mod block;
mod extent;
pub(crate) mod hbm;
mod later;
pub(crate) mod smem;
pub(crate) use block::Block;
pub(crate) use hbm::{Hbm, Known};
pub(crate) use smem::Smem;
