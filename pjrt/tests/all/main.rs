//! The plugin through its modules; `python/` tests it from JAX.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod clients;
mod compilations;
mod direct;
mod events;
mod live;
mod options;
mod protos;
mod queues;
mod strides;
mod tokens;
mod types;
