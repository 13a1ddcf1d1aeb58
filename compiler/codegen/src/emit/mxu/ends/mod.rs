//! Both ends of a kernel.
//!
//! - [`opening`]: the first steps, whose rows come in pieces, and what all wait for;
//! - [`closing`]: the last part, with units along `k`.

mod closing;
mod opening;

pub(super) use closing::Closing;
pub(super) use opening::{open_streams, start_streams};
