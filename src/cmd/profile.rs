//! `systole profile`: a recorded run as tables, or compared with another.

use crate::output;
use systole_runtime::RuntimeError;
use systole_runtime::profile::table::By;
use systole_runtime::profile::{self, Profile, diff, table};
use systole_runtime::report::glossary;

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
    /// Groups the operations: by named scope, by line of the user's program, by kind of work
    #[arg(long, value_enum, conflicts_with_all = ["diff", "json"])]
    by: Option<Group>,
    /// Says below the tables what their words mean
    #[arg(long)]
    explain: bool,
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

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Named scopes of the user's program, as a tree
    Scope,
    /// Lines of the user's program
    Line,
    /// Kinds of work
    Category,
}

/// Runs the subcommand.
///
/// # Errors
/// A file that is no profile.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let first = open(&a.profile)?;
    if let Some(other) = a.diff.as_deref().map(open).transpose()? {
        return match a.json {
            true => output::json(&diff::data(&first, &other)),
            false => output::print(&diff::page(&first, &other, a.top)),
        };
    }
    if a.json {
        return output::json(&first.report());
    }
    let by = a.by.map(|by| match by {
        Group::Scope => By::Scope,
        Group::Line => By::Line,
        Group::Category => By::Category,
    });
    let mut page = by.map_or_else(|| table::page(&first, a.top), |by| table::page_by(&first, by, a.top));
    if a.explain {
        page += &format!("\n{}", glossary::page(&first.report()));
    }
    output::print(&page)
}
