//! `systole compile`: a program file from text.

use crate::args::{ChipArgs, CompileArgs};
use crate::progress::Progress;
use crate::{output, session};
use std::path::Path;
use systole_isa::{asm, container};
use systole_runtime::{Mode, RuntimeError};

/// Flags of `systole compile`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text or StableHLO text
    module: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE.sys")]
    output: String,
    #[command(flatten)]
    pub chip: ChipArgs,
    #[command(flatten)]
    pub compile: CompileArgs,
    /// Writes the text of every stage to this folder
    #[arg(long, value_name = "DIR")]
    dump: Option<String>,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request or the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let _progress = Progress::start("compiling");
    let opened = session::open(&a.module, &a.chip)?;
    let mut failed = None;
    let mut keep = |name: &str, text: &str| {
        if let (Some(dir), None) = (&a.dump, &failed) {
            failed = stage(dir, name, text).err();
        }
    };
    let dump: Option<&mut dyn FnMut(&str, &str)> = if a.dump.is_some() { Some(&mut keep) } else { None };
    let (client, program) = opened.program(&a.module, &a.compile, Mode::Full, dump)?;
    if let Some(e) = failed {
        return Err(e);
    }
    if let Some(dir) = &a.dump {
        let text = asm::disassemble(&program, client.chip()).map_err(|e| RuntimeError::Compile(e.to_string()))?;
        stage(dir, "program.s", &text)?;
    }
    output::write(&a.output, &container::write_program(&program))
}

/// Writes a stage's text.
fn stage(dir: &str, name: &str, text: &str) -> Result<(), RuntimeError> {
    std::fs::create_dir_all(dir).map_err(|e| RuntimeError::Request(format!("{dir}: {e}")))?;
    output::write(&Path::new(dir).join(name).to_string_lossy(), text.as_bytes())
}
