//! Operations with kernels of their own.

use super::lower::{Lower, Region, Val};
use crate::error::CompileError;
use crate::graph::NodeId;

impl<'a> Lower<'a> {
    /// Gathers, scatters, sorts and the like.
    pub fn special(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        Err(self.no_lowering(r.comp, id))
    }
}
