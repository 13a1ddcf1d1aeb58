//! `systole trace`: a recorded run in another viewer's format.

use super::profile::open;
use crate::output;
use systole_runtime::export::{chrome, perfetto, xplane};
use systole_runtime::{RuntimeError, files};

/// Flags of `systole trace`.
#[derive(clap::Args)]
pub struct Args {
    /// A profile that `systole run --profile` wrote
    profile: String,
    /// Form of the trace
    #[arg(long, value_enum, default_value = "perfetto")]
    format: Form,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: String,
    /// Most slices of a track: beyond, operations are joined (their sums stay exact) and copies sampled
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(16..))]
    events: u32,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// For ui.perfetto.dev
    Perfetto,
    /// JSON for chrome://tracing
    Chrome,
    /// For XProf: LOGDIR/plugins/profile/RUN/HOST.xplane.pb
    Xplane,
}

/// Runs the subcommand.
///
/// # Errors
/// A file that is no profile, or one that cannot be written.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let p = open(&a.profile)?;
    let most = a.events as usize;
    match a.format {
        Form::Perfetto => output::write(&a.output, &perfetto::write(&p, most)),
        Form::Xplane => output::write(&a.output, &xplane::write(&p, most)),
        Form::Chrome => files::write_by(&a.output, |out| chrome::write(&p, most, out)),
    }
}
