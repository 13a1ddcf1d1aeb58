//! The subcommands, one file each.

pub mod asm;
#[cfg(feature = "evaluator")]
pub mod check;
pub mod chips;
pub mod compare;
pub mod compile;
pub mod completions;
pub mod disasm;
#[cfg(feature = "evaluator")]
pub mod fuzz;
pub mod mosaic;
pub mod opt;
pub mod partition;
pub mod plan;
pub mod profile;
pub mod report;
pub mod run;
pub mod sweep;
pub mod top;
pub mod trace;
pub mod tune;

pub use completions::man;
