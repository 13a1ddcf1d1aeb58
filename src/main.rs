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

/// The subcommands: the module of `cmd` with the flags (`Args`) and `run`, whose name is the subcommand's, a summary, and what `run` takes
/// besides the flags. The flags of one are made when the command line names it (or its help do): making all at every start would take
/// longer than a small run.
macro_rules! commands {
    ($($(#[$on:meta])? $variant:ident $name:ident $about:literal $(with $more:expr)?;)+) => {
        enum Command { $($(#[$on])? $variant(cmd::$name::Args)),+ }

        impl Subcommand for Command {
            fn augment_subcommands(command: clap::Command) -> clap::Command {
                $($(#[$on])? let command = command.subcommand(clap::Command::new(stringify!($name)).about($about).defer(|c| {
                    <cmd::$name::Args as clap::Args>::augment_args(c).about($about).long_about(None)
                }));)+
                command.subcommand_required(true).arg_required_else_help(true)
            }

            fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
                Command::augment_subcommands(command)
            }

            fn has_subcommand(name: &str) -> bool {
                $($(#[$on])? if name == stringify!($name) { return true; })+
                false
            }
        }

        impl FromArgMatches for Command {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Command, clap::Error> {
                Command::from_arg_matches_mut(&mut matches.clone())
            }

            fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Command, clap::Error> {
                let Some((name, mut own)) = matches.remove_subcommand() else {
                    return Err(clap::Error::raw(clap::error::ErrorKind::MissingSubcommand, "a subcommand is due"));
                };
                $($(#[$on])? if name == stringify!($name) {
                    return <cmd::$name::Args as FromArgMatches>::from_arg_matches_mut(&mut own).map(Command::$variant);
                })+
                Err(clap::Error::raw(clap::error::ErrorKind::InvalidSubcommand, "no such subcommand"))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Command::from_arg_matches(matches)?;
                Ok(())
            }
        }

        /// The command with all flags in place, for those who look at the whole tree.
        fn whole() -> clap::Command {
            let command = Cli::command();
            $($(#[$on])? let command = command.mut_subcommand(stringify!($name), |c| {
                <cmd::$name::Args as clap::Args>::augment_args(c).about($about).long_about(None).defer(|c| c)
            });)+
            command
        }

        fn dispatch(cli: Cli) -> Result<(), RuntimeError> {
            match cli.command { $($(#[$on])? Command::$variant(a) => cmd::$name::run(&a $(, $more)?)),+ }
        }
    };
}

commands! {
    Run run "Compiles a program and runs it on the simulated chip";
    Compile compile "Compiles a program into a file that runs without its source";
    Opt opt "Runs passes over a program and prints it";
    Partition partition "Prints the program of every device of an annotated program, and how every value is divided";
    Plan plan "Shows what the compiler decides: kernels, memory, order; a plan compiles like a program";
    Mosaic mosaic "Prints the Pallas kernels of a program";
    Tune tune "Finds better tiles and cuts than the estimates choose, by simulating kernels";
    Compare compare "Compares programs, plans or recorded runs: what differs, and what it costs";
    Asm asm "Assembles a program written by hand";
    Disasm disasm "Prints a program as assembly";
    #[cfg(feature = "evaluator")]
    Check check "Compares the chip's answers with the reference evaluator's";
    #[cfg(feature = "evaluator")]
    Fuzz fuzz "Compares random programs on the reference evaluator and on simulated chips";
    Sweep sweep "Runs programs over many chips and parameters: points, tables, fronts";
    Chips chips "Lists, shows and checks chip descriptions";
    Profile profile "Shows a recorded run as tables, or compares two";
    Trace trace "Writes a recorded run for other viewers: Perfetto, Chrome, XProf";
    Report report "Writes a recorded run as one page of HTML";
    Top top "Runs a program and shows where its cycles go";
    Completions completions "Prints a script that completes the command's flags in a shell" with whole();
    Man man "Writes manual pages" with whole();
}

/// [`Cli::parse`], but that what describes the flags is left to the end of the process.
fn parsed() -> Cli {
    let mut command = Cli::command();
    let mut matches = command.get_matches_mut();
    let cli = Cli::from_arg_matches_mut(&mut matches).unwrap_or_else(|e| e.format(&mut command).exit());
    std::mem::forget(command);
    cli
}

fn main() -> ExitCode {
    memory::recycle();
    memory::expect_use();
    let cli = parsed();
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
                let _ = (run.options(systole_runtime::Mode::Full, 1), run.world.pod_options());
            }
        };
        match executions() {
            None => on_choices("command_lines", 3_000, parsed),
            Some(asked) => bolero::check!().with_iterations(asked).with_max_len(64).for_each(parsed),
        }
    }
}
