//! Loop kernels: fused elementwise operations, broadcasts and reductions on the vector unit.

mod address;
mod bases;
mod beside;
pub mod eval;
mod lanes;
mod pick;
mod recurrence;
mod reduce;
mod row;
mod simplify;
mod slide;
pub mod spec;
mod staged;
mod tiled;

pub(in crate::emit) use address::Affine;
pub use bases::Bases;
pub(in crate::emit) use beside::RowBlocks;
pub use eval::{repeatable, widened};
pub use recurrence::{RecurrenceSpec, recurrence_kernel};
pub use reduce::{emit_reduce, reduce_kernel, side_by_side};
pub use row::{emit_loop, flatten, loop_kernel};
pub use simplify::merge_reduce;
pub use staged::{Units, column_free, group, operations, register, scratch_rows, work};
pub use tiled::{part_rows, tiles_to_kept, tiles_to_reduced};
