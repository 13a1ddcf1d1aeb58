//! The independent checker.

use systole_isa::{Bundle, ChipConfig};

/// A rule that the bundles break.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckError {
    pub bundle: usize,
    pub message: String,
}

/// Checks.
pub fn check(_bundles: &[Bundle], _chip: &ChipConfig) -> Result<(), Vec<CheckError>> {
    Ok(())
}
