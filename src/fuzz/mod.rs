//! Random programs: made from a table of operations, run on the reference evaluator and on the simulated chip, compared.
//!
//! A program is made with facts about every value: how large it can be, whether it is exact, and how far rounding can have
//! taken it. So no inexact number decides a comparison, an order or an integer, and every result has a tolerance of its own
//! that follows from the operations before it.

pub mod program;
pub mod random;
pub mod rows;
pub mod run;
pub mod shrink;

mod calls;
mod elementwise;
mod movement;
mod numeric;
