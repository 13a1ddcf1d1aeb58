//! Front ends: program texts and files to [`systole_hlo::graph::Module`].

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod builder;
pub mod hlo_proto;
pub mod hlo_text;
pub mod stablehlo;
pub mod vhlo;

pub use hlo_text::parse_hlo;
pub use stablehlo::parse_stablehlo;
