//! `systole tune`: better tiles and cuts than the estimates choose, found by simulating kernels.

use crate::args::{ChipArgs, CompileArgs};
use crate::{output, session};
use std::time::Duration;
use systole_runtime::RuntimeError;

/// Flags of `systole tune`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text or StableHLO text
    module: String,
    /// The schedule file to write, for `--schedule`; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Adds what was found to a database of kernels, for `--schedule-db`
    #[arg(long, value_name = "FILE")]
    database: Option<String>,
    /// Seconds to search for, e.g. `60s`
    #[arg(long, default_value = "60s")]
    budget: String,
    #[command(flatten)]
    chip: ChipArgs,
    #[command(flatten)]
    compile: CompileArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request or the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let bad = |m: String| RuntimeError::Request(m);
    let seconds: f64 = a.budget.trim_end_matches('s').parse().unwrap_or(f64::NAN);
    if !(0.0..=1e6).contains(&seconds) {
        return Err(bad(format!("--budget {}: seconds are expected", a.budget)));
    }
    let opened = session::open(&a.module, &a.chip)?;
    let (client, source, options) = opened.module(&a.module, &a.compile)?;
    let found = client.tune(&source, &a.module, &options, Duration::from_secs_f64(seconds))?;
    let cut = if found.cut_short { ", cut short" } else { "" };
    output::say(format_args!("{} kernels, {} simulations{cut}", found.kernels, found.tried));
    for (name, before, after, way) in &found.better {
        let gain = 100.0 * (1.0 - *after as f64 / (*before).max(1) as f64);
        output::say(format_args!("{name}: {before} -> {after} cycles ({gain:.1} % less): {way}"));
    }
    let ((before, after), (kept, pins)) = (found.program, found.pins);
    let gain = 100.0 * (1.0 - after as f64 / before.max(1) as f64);
    output::say(format_args!("the program: {before} -> {after} cycles ({gain:.1} % less) with {kept} of {pins} pins"));
    if let Some(path) = &a.database {
        let mut all = match systole_runtime::files::read_text(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(bad(format!("{path}: {e}"))),
        };
        all += &found.database;
        output::write(path, all.as_bytes())?;
    }
    match &a.output {
        Some(path) => output::write(path, found.schedule.as_bytes()),
        None => output::print(&found.schedule),
    }
}
