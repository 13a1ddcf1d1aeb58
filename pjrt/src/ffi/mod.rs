//! The structures of the PJRT C interface (version 0.112), by hand.

pub mod buffer;
pub mod common;
pub mod device;
pub mod executable;
pub mod handle;
mod layout;
