//! What the interface's opaque pointers point to.

pub(crate) use crate::buffer::Buffer;
pub(crate) use crate::client::{Client, Device};
pub(crate) use crate::event::Event;
pub(crate) use crate::executable::LoadedExecutable;

use crate::client;
use crate::error::Error;
use crate::executable;
use crate::ffi::common::{ErrorFunctionTable, MemoryFunctionTable};
use std::sync::Arc;

/// An error. Newer callers look at the table at its beginning.
#[repr(C)]
pub struct Failure {
    pub(crate) table: &'static ErrorFunctionTable,
    pub(crate) error: Error,
}

/// A program; it outlives the loaded program that it was asked of.
pub struct Executable(pub(crate) Arc<executable::Executable>);

/// A memory. Newer callers look at the table at its beginning.
#[repr(C)]
pub struct Memory {
    pub(crate) table: &'static MemoryFunctionTable,
    pub(crate) memory: &'static client::Memory,
    pub(crate) client: &'static Client,
}
