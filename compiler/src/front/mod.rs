//! Front ends: program texts to [`crate::graph::Module`].

pub mod hlo_text;

pub use hlo_text::parse_hlo;
