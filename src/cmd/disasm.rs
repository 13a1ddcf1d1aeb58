//! `systole disasm`: a program as assembly. Assembling it again gives the same file.

use crate::args::{ChipArgs, CompileArgs};
use crate::{output, session};
use systole_isa::asm;
use systole_runtime::{Mode, RuntimeError};

/// Flags of `systole disasm`.
#[derive(clap::Args)]
pub struct Args {
    /// A compiled program (text is compiled first)
    file: String,
    /// The file to write; default: standard output
    #[arg(short, long, value_name = "FILE.s")]
    output: Option<String>,
    #[command(flatten)]
    chip: ChipArgs,
    #[command(flatten)]
    compile: CompileArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let opened = session::open(&a.file, &a.chip)?;
    let (client, program) = opened.program(&a.file, &a.compile, Mode::Full, None)?;
    let text =
        asm::disassemble(&program, client.chip()).map_err(|e| RuntimeError::Source(format!("{}: {e}", a.file)))?;
    match &a.output {
        Some(path) => output::write(path, text.as_bytes()),
        None => output::print(&text),
    }
}
