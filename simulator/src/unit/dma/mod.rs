//! DMA engines and semaphores.

mod function;
mod geometry;
mod race;
mod timing;

pub(crate) use function::{Memories, gather, perform, perform_known, scatter};
pub(crate) use geometry::{Geometry, Side};
pub(crate) use race::{Access, RaceChecker, Transfer, memory_name};
pub(crate) use timing::{DmaTiming, Semaphores};
