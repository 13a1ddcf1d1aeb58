//! Memories: HBM in sparse pages, vector memory, scalar memory with known bits.

mod block;
pub(crate) mod hbm;
pub(crate) mod smem;
pub(crate) use block::Block;
pub(crate) use hbm::{Hbm, Known};
pub(crate) use smem::Smem;
