//! Reductions and what is beside them: where they begin, in what order they combine, which of their results are one, what several of them share.

pub mod initial;
pub mod ordered;
pub mod picks;
pub mod siblings;
pub mod sums;
