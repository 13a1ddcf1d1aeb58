//! `systole completions` and `systole man`: what shells and manuals know of the command, from its own flags.

use clap::Command;
use clap_complete::Shell;
use std::io::Write;
use systole_runtime::RuntimeError;

/// The flags of `completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell that the script is for
    pub shell: Shell,
}

/// Prints a completion script: `systole completions bash > ~/.local/share/bash-completion/completions/systole`.
pub fn run(args: &Args, mut command: Command) -> Result<(), RuntimeError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "systole", &mut script);
    // A closed pipe is success.
    let _ = std::io::stdout().write_all(&script);
    Ok(())
}

/// `systole man`.
pub mod man {
    use clap::Command;
    use systole_runtime::RuntimeError;

    /// The flags of `man`.
    #[derive(clap::Args)]
    pub struct Args {
        /// Folder to write the pages to, `systole.1` and one for each subcommand
        pub folder: std::path::PathBuf,
    }

    /// Writes the manual pages.
    pub fn run(args: &Args, command: Command) -> Result<(), RuntimeError> {
        let wrong = |e: std::io::Error| RuntimeError::Request(format!("{}: {e}", args.folder.display()));
        std::fs::create_dir_all(&args.folder).map_err(wrong)?;
        clap_mangen::generate_to(command, &args.folder).map_err(wrong)
    }
}
