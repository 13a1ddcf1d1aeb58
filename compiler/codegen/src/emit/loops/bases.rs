//! The registers that the code of a loop or reduction starts from.

use super::spec::ExprId;
use crate::kernel::{BufferRef, KernelBuilder, S};
use rustc_hash::FxHashMap;

/// Registers that a body's code starts from.
#[derive(Clone, Debug, Default)]
pub struct Bases {
    /// For each input (element-row base address, or the scalar's value), then for each output: its register and buffer.
    pub args: Vec<(S, BufferRef)>,
    /// Values at which index nodes start, by node; at which lane positions of indexed inputs start, by input.
    pub index: FxHashMap<ExprId, S>,
    pub lane: FxHashMap<usize, S>,
    /// The first word row of the scratch area, where the code needs one.
    pub scratch: Option<(S, BufferRef)>,
}

impl Bases {
    /// One parameter and one buffer for each of `n` arguments.
    pub fn params(b: &mut KernelBuilder, n: usize) -> Bases {
        let args = (0..n).map(|_| (b.param(), b.buffer())).collect();
        Bases { args, ..Bases::default() }
    }
}
