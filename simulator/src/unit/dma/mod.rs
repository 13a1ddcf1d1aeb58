//! DMA engines and semaphores.

mod blame;
mod function;
mod geometry;
mod race;
mod timing;

pub(crate) use blame::{Blame, Due, Parts as WayParts, later};
pub(crate) use function::{Memories, gather, perform, perform_known, scatter};
pub(crate) use geometry::{Geometry, Side};
pub(crate) use race::{Access, RaceChecker, Transfer, memory_name};
pub(crate) use timing::{By, DmaTiming, Semaphores};
