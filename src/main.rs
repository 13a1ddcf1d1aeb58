//! The command `systole`: parses the request, runs a subcommand, gives the exit code.
//!
//! Exit codes: 0 success, 1 the program failed (a fault, a check), 2 the request was wrong. A closed pipe is success.
//! A panic is a bug of this program; it is reported as one in a line, without a trace.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod args;
mod cmd;
#[cfg(feature = "evaluator")]
mod fuzz;
mod live;
mod output;
mod progress;
mod record;
mod session;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use systole_runtime::RuntimeError;

/// A TPU-style accelerator in software: compiles XLA programs for a modeled chip and runs them on it.
#[derive(Parser)]
#[command(name = "systole", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compiles a program and runs it on the simulated chip
    Run(cmd::run::Args),
    /// Compiles a program into a file that runs without its source
    Compile(cmd::compile::Args),
    /// Runs passes over a program and prints it
    Opt(cmd::opt::Args),
    /// Prints the program of every device of an annotated program, and how every value is divided
    Partition(cmd::partition::Args),
    /// Shows what the compiler decides: kernels, memory, order; a plan compiles like a program
    Plan(cmd::plan::Args),
    /// Prints the Pallas kernels of a program
    Mosaic(cmd::mosaic::Args),
    /// Finds better tiles and cuts than the estimates choose, by simulating kernels
    Tune(cmd::tune::Args),
    /// Compares programs, plans or recorded runs: what differs, and what it costs
    Compare(cmd::compare::Args),
    /// Assembles a program written by hand
    Asm(cmd::asm::Args),
    /// Prints a program as assembly
    Disasm(cmd::disasm::Args),
    /// Compares the chip's answers with the reference evaluator's
    #[cfg(feature = "evaluator")]
    Check(cmd::check::Args),
    /// Compares random programs on the reference evaluator and on simulated chips
    #[cfg(feature = "evaluator")]
    Fuzz(cmd::fuzz::Args),
    /// Runs programs over many chips and parameters: points, tables, fronts
    Sweep(cmd::sweep::Args),
    /// Lists, shows and checks chip descriptions
    Chips(cmd::chips::Args),
    /// Shows a recorded run as tables, or compares two
    Profile(cmd::profile::Args),
    /// Writes a recorded run for other viewers: Perfetto, Chrome, XProf
    Trace(cmd::trace::Args),
    /// Writes a recorded run as one page of HTML
    Report(cmd::report::Args),
    /// Runs a program and shows where its cycles go
    Top(cmd::top::Args),
    /// Prints a script that completes the command's flags in a shell
    Completions(cmd::completions::Args),
    /// Writes manual pages
    Man(cmd::completions::ManArgs),
}

fn dispatch(cli: Cli) -> Result<(), RuntimeError> {
    match cli.command {
        Command::Run(a) => cmd::run::run(&a),
        Command::Compile(a) => cmd::compile::run(&a),
        Command::Opt(a) => cmd::opt::run(&a),
        Command::Partition(a) => cmd::partition::run(&a),
        Command::Plan(a) => cmd::plan::run(&a),
        Command::Mosaic(a) => cmd::mosaic::run(&a),
        Command::Tune(a) => cmd::tune::run(&a),
        Command::Compare(a) => cmd::compare::run(&a),
        Command::Asm(a) => cmd::asm::run(&a),
        Command::Disasm(a) => cmd::disasm::run(&a),
        #[cfg(feature = "evaluator")]
        Command::Check(a) => cmd::check::run(&a),
        #[cfg(feature = "evaluator")]
        Command::Fuzz(a) => cmd::fuzz::run(&a),
        Command::Sweep(a) => cmd::sweep::run(&a),
        Command::Chips(a) => cmd::chips::run(&a),
        Command::Profile(a) => cmd::profile::run(&a),
        Command::Trace(a) => cmd::trace::run(&a),
        Command::Report(a) => cmd::report::run(&a),
        Command::Top(a) => cmd::top::run(&a),
        Command::Completions(a) => cmd::completions::run(&a, Cli::command()),
        Command::Man(a) => cmd::completions::man(&a, Cli::command()),
    }
}

/// Stack of the working thread in bytes: programs nest deeply.
const STACK: usize = 512 << 20;

fn main() -> ExitCode {
    let cli = Cli::parse();
    std::panic::set_hook(Box::new(|info| eprintln!("systole: internal error (a bug in systole): {info}")));
    let work = std::thread::Builder::new().stack_size(STACK).spawn(move || dispatch(cli));
    let result = match work.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => return ExitCode::from(1),
        Err(e) => Err(RuntimeError::Request(format!("cannot start: {e}"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}", e.to_string().trim_end());
            ExitCode::from(if e.is_request() { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_fuzz::{Choices, executions, mutate};

    /// Command lines, an argument a line.
    const LINES: [&str; 9] = [
        "run\na.hlo\n--chip\ntpu-v4\n--set\nmxu.rows=256\n--timing-only\n--seed\n3\n--report\nnone",
        "run\na.hlo\n--replicas\n8\n--topology\n2x4:torus\n--device-order\n0,1,2\n--fault\n0-1\n--collective\nring",
        "run\na.hlo\n--inputs\nx.npz\n--outputs\ny.npz\n--profile\np.sysp\n--profile-level\nbundles\n--assume\nw=3",
        "compile\na.mlir\n-o\nb.sys\n--precision\nhighest\n--fold\nnone\n--max-resident\n65536\n--dump\nd",
        "chips\nshow\ntiny\n--set\nhbm.bandwidth=1.5 TB/s",
        "profile\na.sysp\n--top\n5\n--json\n--diff\nb.sysp",
        "trace\na.sysp\n--format\nperfetto\n-o\nt.json",
        "top\na.sysp",
        "asm\na.s\n-o\nb.sys\n--chip=tiny",
    ];

    #[test]
    fn command_lines_give_a_request_or_a_message() {
        let corpus: Vec<Vec<u8>> = LINES.iter().map(|l| l.as_bytes().to_vec()).collect();
        let words = ["--chip", "--set", "--cores", "--chaos", "--topology", "--help", "ring", "full", "nan", "1e999"];
        bolero::check!().with_iterations(executions(3_000)).with_max_len(64).for_each(move |bytes: &[u8]| {
            let input = mutate(&mut Choices::new(bytes), &corpus, &words);
            let text = String::from_utf8_lossy(&input).into_owned();
            let line = std::iter::once("systole").chain(text.split('\n'));
            let Ok(cli) = Cli::try_parse_from(line) else { return };
            // What is worked out of the flags before a file is opened.
            let (chip, compile, run) = match &cli.command {
                Command::Run(a) => (&a.run.chip, &a.run.compile, Some(&a.run)),
                Command::Compile(a) => (&a.chip, &a.compile, None),
                _ => return,
            };
            // A chip file would be read.
            if chip.chip.as_ref().is_some_and(|c| c.contains(['/', '.'])) {
                return;
            }
            if let Ok(chip) = chip.chip_or("tiny") {
                let _ = compile.options_for(&chip, (1, 1));
            }
            if let Some(run) = run {
                let _ = (run.options(systole_runtime::Mode::Full), run.pod_options());
            }
        });
    }
}
