//! The PJRT plugin: a shared library through which JAX runs programs on the simulated chip.
//!
//! ```text
//! PJRT_NAMES_AND_LIBRARY_PATHS=systole:target/release/libsystole_pjrt.so JAX_PLATFORMS=systole python train.py
//! ```
//!
//! `ffi` has the C interface's structures, `boundary` its calls: the only code here that touches foreign memory. Everything
//! else is safe: [`client`] (devices, options), `compile`, `execute` (a queue, a thread that works it off), [`event`],
//! [`buffer`], [`collect`] (reports and profiles of what ran), [`host`] (functions of the host that programs call).
//!
//! Invariants: no panic crosses the boundary; every call of the interface works or answers UNIMPLEMENTED; clients and
//! their devices live as long as the process, so what Python still holds stays valid.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod boundary;
pub mod buffer;
pub mod client;
pub mod collect;
pub mod compile;
mod cost;
pub mod direct;
pub mod error;
pub mod event;
pub mod executable;
mod execute;
mod ffi;
pub mod host;
pub mod live;
pub mod options;
pub mod proto;
pub mod queue;
pub mod strides;
pub mod types;

pub use boundary::{GetPjrtApi, python};
