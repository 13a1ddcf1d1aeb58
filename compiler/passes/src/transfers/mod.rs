//! How the entry's arrays lie in HBM, where they come from the host and go to it.
//!
//! Without a word of the user that follows from an array's shape alone ([`rule`]), so that what a program costs does not depend on
//! which of its operations stand at its border; operations that work in other forms are chip code. [`joined`] lets
//! operations that do not care work on arrays as they lie (and products with little matrices over channels: `groups`); loops carry
//! them so (`loops/joined.rs`), and [`narrow`] moves what does. `--entry-layout auto` lets the program choose ([`chosen`]).
//!
//! The host's arrays are in row-major order without padding: an array may be transferred under any shape of as many elements. The
//! entry's layout keeps the shape that the host knows.

pub mod chosen;
mod groups;
pub mod joined;
pub mod narrow;
pub mod rule;

use super::edit::Draft;
use systole_hlo::error::CompileError;
use systole_hlo::graph::Module;

/// Who decides how the entry's arrays lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryLayouts {
    /// Their shapes, by [`rule::compact`].
    #[default]
    Default,
    /// The program, where that saves memory; else their shapes.
    Auto,
}

impl EntryLayouts {
    /// The one of that name.
    pub fn from_name(name: &str) -> Option<EntryLayouts> {
        match name {
            "default" => Some(EntryLayouts::Default),
            "auto" => Some(EntryLayouts::Auto),
            _ => None,
        }
    }
}

/// Layouts that the program wants, and those by the rule where it wants none.
///
/// # Errors
/// Too large a program.
pub fn by_program(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let module = chosen::run(module, draft, tile)?;
    rule::run(module, draft, tile)
}

/// Reshapes between narrow rows and full lanes, through columns.
///
/// # Errors
/// Too large a program.
pub fn narrow_rows(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let mut narrow = narrow::NarrowRows::new(tile);
    super::edit::rewrite(module, draft, &mut |b, n, x| Ok(narrow.rule(b, n, x)))
}
