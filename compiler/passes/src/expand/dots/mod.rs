//! Products that are no plain ones.

pub mod ragged;
pub mod scaled;
