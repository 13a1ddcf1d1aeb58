//! `systole asm`: a program file from assembly.

use crate::args::{ChipArgs, DEFAULT_CHIP};
use crate::output;
use std::path::Path;
use systole_isa::{asm, container};
use systole_runtime::RuntimeError;

/// Flags of `systole asm`.
#[derive(clap::Args)]
pub struct Args {
    /// Assembly text
    file: String,
    /// The file to write; default: FILE with the ending .sys
    #[arg(short, long, value_name = "FILE.sys")]
    output: Option<String>,
    #[command(flatten)]
    chip: ChipArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// All mistakes of the text.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let bytes = output::read(&a.file)?;
    let text = String::from_utf8(bytes)
        .map_err(|e| RuntimeError::Source(format!("{}: no text (byte {})", a.file, e.utf8_error().valid_up_to())))?;
    let wrong = |e: asm::AsmError| RuntimeError::Source(e.to_string());
    let chip = if a.chip.chip.is_some() {
        Some(a.chip.chip_or(DEFAULT_CHIP)?)
    } else if a.chip.set.is_empty() {
        None
    } else {
        Some(a.chip.with_sets(asm::assemble_with_chip(&text, &a.file, None).map_err(wrong)?.1)?)
    };
    let program = asm::assemble(&text, &a.file, chip.as_ref()).map_err(wrong)?;
    let path = match &a.output {
        Some(path) => path.clone(),
        None => Path::new(&a.file).with_extension("sys").to_string_lossy().into_owned(),
    };
    output::write(&path, &container::write_program(&program))
}
