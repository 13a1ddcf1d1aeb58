//! Analyses: pure functions of a graph.

pub mod apart;
pub mod counted;
pub mod devices;
pub mod network;
pub mod order;
pub mod parts;
pub mod pick;
pub mod pieces;
pub mod uses;

pub use apart::{ApartLoop, apart_loop};
pub use counted::{CountedLoop, counted_loop};
pub use network::Network;
pub use order::commutes;
pub use pieces::pieces;
pub use uses::uses;
