//! Reductions and what is beside them: where they begin, which of their results are one, what several of them share.

pub mod initial;
pub mod picks;
pub mod siblings;
pub mod sums;
