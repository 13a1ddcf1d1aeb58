//! Move kernels: transposes, slices, concatenations, pads, reversals, relayouts.

pub mod spec;
