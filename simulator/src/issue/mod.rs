//! The in-order issue stage: predecoded code, the loop that walks bundles, and the state of registers and values.

mod branch;
pub(crate) mod code;
pub(crate) mod cores;
mod fetch;
mod form;
mod host;
pub(crate) mod memo;
pub(crate) mod predecode;
pub(crate) mod remote;
mod rounds;
pub(crate) mod run;
mod scan;
mod skip;
mod special;
mod stall;
mod timed;
mod trace;
mod uses;
pub(crate) mod values;
