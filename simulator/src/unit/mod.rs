//! The units of a core. Each has `timing` (when: occupancy and queues, no tensor data) and `function` (what: pure over
//! its operands, no time), as far as it needs more than the issue stage's registers.

pub(crate) mod dma;
pub(crate) mod eup;
pub(crate) mod mxu;
pub(crate) mod scalar;
pub(crate) mod vector;
pub(crate) mod vmem;
pub(crate) mod xlu;
