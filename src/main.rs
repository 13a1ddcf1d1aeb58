//! The command `systole`.

mod cmd;

use clap::Parser;
use std::process::ExitCode;

/// A TPU-style accelerator in software: compiles XLA programs for a modeled chip and runs them on it.
#[derive(Parser)]
#[command(name = "systole", version, about)]
enum Command {
    /// Compiles a program (HLO text, assembly or a compiled file) and runs it on the simulated chip
    Run(cmd::run::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Run(a) => cmd::run::run(a),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}", e.to_string().trim_end());
            ExitCode::from(if e.is_request() { 2 } else { 1 })
        }
    }
}
