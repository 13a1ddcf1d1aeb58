//! The command `systole`: parses the request, runs a subcommand, gives the exit code.
//!
//! Exit codes: 0 success, 1 the program failed (a fault, a check), 2 the request was wrong. A closed pipe is success.
//! A panic is a bug of this program; it is reported as one in a line, without a trace.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]
// `output` writes: a panic because nobody reads is no way to end.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod args;
mod cmd;
#[cfg(feature = "evaluator")]
mod fuzz;
mod live;
mod memory;
mod output;
mod progress;
mod record;
mod session;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use systole_runtime::RuntimeError;

/// A TPU-style accelerator in software: compiles XLA programs for a modeled chip and runs them on it.
#[derive(Parser)]
#[command(name = "systole", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands: name, summary, type of the flags, and how it is run. The flags of one are made when the command line names it (or
/// its help do): making all at every start would take longer than a small run.
macro_rules! commands {
    ($($(#[$on:meta])? $variant:ident($args:ty) $name:literal $about:literal |$a:ident| $run:expr;)+) => {
        enum Command { $($(#[$on])? $variant($args)),+ }

        impl Subcommand for Command {
            fn augment_subcommands(command: clap::Command) -> clap::Command {
                $($(#[$on])? let command = command.subcommand(clap::Command::new($name).about($about).defer(|c| {
                    <$args as clap::Args>::augment_args(c).about($about).long_about(None)
                }));)+
                command.subcommand_required(true).arg_required_else_help(true)
            }

            fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
                Command::augment_subcommands(command)
            }

            fn has_subcommand(name: &str) -> bool {
                $($(#[$on])? if name == $name { return true; })+
                false
            }
        }

        impl FromArgMatches for Command {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Command, clap::Error> {
                $($(#[$on])? if let Some(own) = matches.subcommand_matches($name) {
                    return <$args as FromArgMatches>::from_arg_matches(own).map(Command::$variant);
                })+
                Err(clap::Error::raw(clap::error::ErrorKind::MissingSubcommand, "a subcommand is due"))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Command::from_arg_matches(matches)?;
                Ok(())
            }
        }

        /// The command with all flags in place, for those who look at the whole tree.
        fn whole() -> clap::Command {
            let command = Cli::command();
            $($(#[$on])? let command = command.mut_subcommand($name, |c| {
                <$args as clap::Args>::augment_args(c).about($about).long_about(None).defer(|c| c)
            });)+
            command
        }

        fn dispatch(cli: Cli) -> Result<(), RuntimeError> {
            match cli.command { $($(#[$on])? Command::$variant($a) => $run),+ }
        }
    };
}

commands! {
    Run(cmd::run::Args) "run" "Compiles a program and runs it on the simulated chip" |a| cmd::run::run(&a);
    Compile(cmd::compile::Args) "compile" "Compiles a program into a file that runs without its source" |a| cmd::compile::run(&a);
    Opt(cmd::opt::Args) "opt" "Runs passes over a program and prints it" |a| cmd::opt::run(&a);
    Partition(cmd::partition::Args) "partition" "Prints the program of every device of an annotated program, and how every value is divided" |a| cmd::partition::run(&a);
    Plan(cmd::plan::Args) "plan" "Shows what the compiler decides: kernels, memory, order; a plan compiles like a program" |a| cmd::plan::run(&a);
    Mosaic(cmd::mosaic::Args) "mosaic" "Prints the Pallas kernels of a program" |a| cmd::mosaic::run(&a);
    Tune(cmd::tune::Args) "tune" "Finds better tiles and cuts than the estimates choose, by simulating kernels" |a| cmd::tune::run(&a);
    Compare(cmd::compare::Args) "compare" "Compares programs, plans or recorded runs: what differs, and what it costs" |a| cmd::compare::run(&a);
    Asm(cmd::asm::Args) "asm" "Assembles a program written by hand" |a| cmd::asm::run(&a);
    Disasm(cmd::disasm::Args) "disasm" "Prints a program as assembly" |a| cmd::disasm::run(&a);
    #[cfg(feature = "evaluator")]
    Check(cmd::check::Args) "check" "Compares the chip's answers with the reference evaluator's" |a| cmd::check::run(&a);
    #[cfg(feature = "evaluator")]
    Fuzz(cmd::fuzz::Args) "fuzz" "Compares random programs on the reference evaluator and on simulated chips" |a| cmd::fuzz::run(&a);
    Sweep(cmd::sweep::Args) "sweep" "Runs programs over many chips and parameters: points, tables, fronts" |a| cmd::sweep::run(&a);
    Chips(cmd::chips::Args) "chips" "Lists, shows and checks chip descriptions" |a| cmd::chips::run(&a);
    Profile(cmd::profile::Args) "profile" "Shows a recorded run as tables, or compares two" |a| cmd::profile::run(&a);
    Trace(cmd::trace::Args) "trace" "Writes a recorded run for other viewers: Perfetto, Chrome, XProf" |a| cmd::trace::run(&a);
    Report(cmd::report::Args) "report" "Writes a recorded run as one page of HTML" |a| cmd::report::run(&a);
    Top(cmd::top::Args) "top" "Runs a program and shows where its cycles go" |a| cmd::top::run(&a);
    Completions(cmd::completions::Args) "completions" "Prints a script that completes the command's flags in a shell" |a| cmd::completions::run(&a, whole());
    Man(cmd::completions::ManArgs) "man" "Writes manual pages" |a| cmd::completions::man(&a, whole());
}

fn main() -> ExitCode {
    memory::recycle();
    memory::expect_use();
    let cli = Cli::parse();
    std::panic::set_hook(Box::new(|info| {
        output::say(format_args!("systole: internal error (a bug in systole): {info}"));
    }));
    // What is deep in a run asks for the stack itself.
    let work = std::panic::AssertUnwindSafe(|| {
        if matches!(cli.command, Command::Run(_)) { dispatch(cli) } else { session::deep(|| dispatch(cli)) }
    });
    let Ok(result) = std::panic::catch_unwind(work) else { return ExitCode::from(1) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            output::say(e.to_string().trim_end());
            ExitCode::from(if e.is_request() { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_fuzz::{Choices, executions, mutate, on_choices};

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
        let parsed = |bytes: &[u8]| {
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
                let _ = (run.options(systole_runtime::Mode::Full, 1), run.pod_options());
            }
        };
        match executions() {
            None => on_choices("command_lines", 3_000, parsed),
            Some(asked) => bolero::check!().with_iterations(asked).with_max_len(64).for_each(parsed),
        }
    }
}
