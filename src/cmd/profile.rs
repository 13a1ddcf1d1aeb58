//! `systole profile`: a recorded run as tables, or compared with another.

use crate::output;
use systole_runtime::RuntimeError;
use systole_runtime::profile::{self, Profile, diff, table};

/// Flags of `systole profile`.
#[derive(clap::Args)]
pub struct Args {
    /// A profile that `systole run --profile` wrote
    profile: String,
    /// Compares with this one: what changed, operation by operation
    #[arg(long, value_name = "OTHER.sysp")]
    diff: Option<String>,
    /// Prints the same as data
    #[arg(long)]
    json: bool,
    /// Operations in the tables
    #[arg(long, default_value_t = table::TOP)]
    top: usize,
}

/// Reads a profile.
///
/// # Errors
/// If there is none, or it is damaged; the message names the file.
pub fn open(path: &str) -> Result<Profile, RuntimeError> {
    profile::read(&output::read(path)?).map_err(|e| RuntimeError::Request(format!("{path}: {e}")))
}

/// Runs the subcommand.
///
/// # Errors
/// A file that is no profile.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let first = open(&a.profile)?;
    let other = a.diff.as_deref().map(open).transpose()?;
    let data = match (&other, a.json) {
        (None, false) => return output::print(&table::page(&first, a.top)),
        (Some(o), false) => return output::print(&diff::page(&first, o, a.top)),
        (None, true) => table::data(&first),
        (Some(o), true) => diff::data(&first, o),
    };
    let text = serde_json::to_string_pretty(&data).map_err(|e| RuntimeError::Request(e.to_string()))?;
    output::print(&(text + "\n"))
}
