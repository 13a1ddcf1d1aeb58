//! Loop kernels: fused elementwise operations, broadcasts and reductions on the vector unit.

mod address;
pub mod eval;
mod reduce;
mod row;
mod simplify;
pub mod spec;

pub use reduce::reduce_kernel;
pub use row::loop_kernel;
