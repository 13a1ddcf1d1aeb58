//! What a kernel does for others now and then: it takes the exchange under way further.

use crate::kernel::{KernelBuilder, S};

/// A kernel without parameters that is called between steps if the semaphore holds as many bytes as the word `wanted` of
/// scalar memory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hook {
    pub kernel: u32,
    pub wanted: u32,
    pub semaphore: u32,
}

impl Hook {
    /// Whether there is something to do. Registers that are live where [`Hook::call`] is have to be saved
    /// ([`KernelBuilder::save_around_calls`]).
    pub fn there(&self, b: &mut KernelBuilder) -> S {
        let wanted = b.smem_load(S::ZERO, self.wanted as i32);
        b.sync_test(self.semaphore, wanted)
    }

    /// Does it.
    pub fn call(&self, b: &mut KernelBuilder, there: S) {
        b.if_(there, |b| b.call(self.kernel, &[]));
    }
}
