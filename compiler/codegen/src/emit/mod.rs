//! Emission: HLO values as vector registers, and the instruction sequences of HLO's element operations.
//!
//! - [`value`]: what registers hold an element of each type;
//! - [`memory`]: moving values between registers and vector memory;
//! - [`elementwise`]: every elementwise operation of every element type;
//! - [`mxu`]: kernels for matrix products and convolutions;
//! - [`loops`], [`moves`], [`rows`]: kernels of fused elementwise operations and reductions, of data movement, of rows by
//!   index;
//! - [`factor`]: kernels for the diagonal blocks of factorisations;
//! - [`fetch`]: parts of arrays in HBM brought into vector memory as they lie;
//! - [`blocks`]: loops and moves over arrays in HBM, block by block;
//! - [`mosaic`]: kernels that Pallas wrote.
//!
//! Element operations append straight-line code to a [`crate::kernel::KernelBuilder`] and handles one register of
//! `sublanes x lanes` elements at a time; loops, addresses and tiling belong to the kernels.

pub mod blocks;
pub mod elementwise;
pub mod factor;
pub mod fetch;
pub mod hbm;
pub mod hook;
pub mod loops;
pub mod memory;
pub mod mosaic;
pub mod moves;
pub mod mxu;
pub mod operand;
pub mod rows;
pub mod sort;
pub mod value;

pub use value::Value;
