//! A kernel with all that a program must have for it.

use super::Kernel;
use serde::{Deserialize, Serialize};
use systole_isa::DmaDesc;
use systole_isa::program::HostCall;

/// What a kernel needs besides its arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// Word rows of vector memory, to be provided at its scratch parameter.
    pub scratch_rows: u32,
    pub semaphores: u32,
}

/// A kernel's code. Descriptors and semaphores are numbered from 0, to be renumbered by the caller.
#[derive(Clone, Debug)]
pub struct KernelCode {
    pub kernel: Kernel,
    /// Kernels that only this one calls, by numbers from 0.
    pub callees: Vec<Kernel>,
    pub descs: Vec<DmaDesc>,
    /// Calls of the host, numbered from 0 too.
    pub host_calls: Vec<HostCall>,
    pub needs: Needs,
}

impl KernelCode {
    /// A kernel that copies nothing.
    pub fn plain(kernel: Kernel, needs: Needs) -> KernelCode {
        KernelCode::copying(kernel, Vec::new(), needs)
    }

    /// A kernel with its own copies.
    pub fn copying(kernel: Kernel, descs: Vec<DmaDesc>, needs: Needs) -> KernelCode {
        KernelCode { kernel, callees: Vec::new(), descs, host_calls: Vec::new(), needs }
    }
}
