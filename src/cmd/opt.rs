//! `systole opt`: passes over a program, alone or in a row, and the program after them as text.

use crate::args::{ChipArgs, CompileArgs};
use crate::{output, session};
use systole_compiler::graph::print::to_text;
use systole_compiler::pipeline::{PASSES, PassOptions, run_passes, select};
use systole_runtime::RuntimeError;
use systole_runtime::source::Source;

/// Flags of `systole opt`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, StableHLO text or an HLO proto
    #[arg(required_unless_present = "list")]
    module: Option<String>,
    /// The passes to run, in this order (default: all, in theirs)
    #[arg(long, value_name = "PASS,PASS,..", value_delimiter = ',')]
    passes: Option<Vec<String>>,
    /// The last pass to run
    #[arg(long, value_name = "PASS")]
    until: Option<String>,
    /// Rewrites that may be made in all: bisects a wrong answer to one of them
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// Also says how often each rewrite was made, as comments
    #[arg(long)]
    rewrites: bool,
    /// Lists the passes instead, in the order they run
    #[arg(long)]
    list: bool,
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
    if a.list {
        let width = PASSES.iter().map(|p| p.name.len()).max().unwrap_or(0);
        let lines = PASSES.iter().map(|p| format!("{:width$}  {}\n", p.name, p.summary));
        return output::print(&lines.collect::<String>());
    }
    let path = a.module.as_deref().unwrap_or_default();
    let passes = select(a.passes.as_deref(), a.until.as_deref()).map_err(RuntimeError::Request)?;
    let opened = session::open(path, &a.chip)?;
    let chip = opened.client.chip().clone();
    let asked = a.compile.options_for(&chip, opened.source.devices())?;
    let Source::Module { module, .. } = opened.source else {
        return Err(RuntimeError::Request(format!("{path}: already compiled; passes work on HLO and StableHLO")));
    };
    let options = PassOptions { fuel: a.fuel, verify: true, ..asked.for_chip(&chip).passes };
    let passed = run_passes(*module, &passes, &options, &mut |_, _| {})
        .map_err(|e| RuntimeError::Compile(format!("{path}: {e}")))?;
    let mut text = String::new();
    if a.rewrites {
        text.extend(passed.fired.iter().map(|(label, n)| format!("// {n} {label}\n")));
    }
    output::print(&(text + &to_text(&passed.module)))
}
