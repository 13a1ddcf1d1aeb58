//! `systole plan`: what the compiler decided, as text that it reads again.

use crate::args::{ChipArgs, CompileArgs};
use crate::{output, session};
use systole_compiler::plan::explain::explain;
use systole_compiler::plan::text;
use systole_runtime::RuntimeError;

/// Flags of `systole plan`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text or StableHLO text, or a plan
    module: String,
    /// The file to write; default: standard output
    #[arg(short, long, value_name = "FILE.plan")]
    output: Option<String>,
    /// Explains the operations whose names match (`*` stands for any text): what was chosen over what
    #[arg(long, value_name = "OP")]
    explain: Option<String>,
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
    let opened = session::open(&a.module, &a.chip)?;
    let (client, plan) = opened.plan(&a.module, &a.compile)?;
    let text = match &a.explain {
        Some(pattern) => explain(&plan, client.chip(), pattern),
        None => text::to_text(&plan),
    };
    if let (Some(pattern), true) = (&a.explain, text.is_empty()) {
        return Err(RuntimeError::Request(format!("{}: no operation `{pattern}` in the plan", a.module)));
    }
    match &a.output {
        Some(path) => output::write(path, text.as_bytes()),
        None => output::print(&text),
    }
}
