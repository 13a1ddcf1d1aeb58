//! `systole report`: a recorded run as a page of HTML.

use super::profile::open;
use crate::output;
use systole_runtime::RuntimeError;
use systole_runtime::export::html;

/// Flags of `systole report`.
#[derive(clap::Args)]
pub struct Args {
    /// A profile that `systole run --profile` wrote
    profile: String,
    /// File to write
    #[arg(short, long, value_name = "FILE.html", default_value = "report.html")]
    output: String,
}

/// Runs the subcommand.
///
/// # Errors
/// A file that is no profile, or one that cannot be written.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    output::write(&a.output, html::page(&open(&a.profile)?).as_bytes())
}
