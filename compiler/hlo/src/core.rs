//! Programs of core operations: what the passes make and planning takes.

use crate::error::CompileError;
use crate::graph::{Family, Module};
use std::ops::Deref;

/// A module all of whose operations are core operations.
#[derive(Clone, Debug)]
pub struct CoreModule(Module);

impl CoreModule {
    /// A module that the passes are done with.
    ///
    /// # Errors
    /// The first operation that planning does not know, with its place.
    pub fn new(module: Module) -> Result<CoreModule, CompileError> {
        for n in module.computations.iter().flat_map(|c| &c.nodes) {
            if n.op.family() == Family::Expanded {
                let message = format!("{} of {} has no lowering for the chip yet", n.op.name(), n.name);
                return Err(CompileError::unsupported(n.span, message));
            }
        }
        Ok(CoreModule(module))
    }
}

impl Deref for CoreModule {
    type Target = Module;

    fn deref(&self) -> &Module {
        &self.0
    }
}
