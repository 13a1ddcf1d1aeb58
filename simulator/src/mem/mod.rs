//! Memories: HBM in sparse pages, vector memory, scalar memory with known bits.

pub(crate) mod hbm;
pub(crate) mod smem;
pub(crate) use hbm::{Hbm, Known};
pub(crate) use smem::Smem;
