//! `systole fuzz`: random programs on the reference evaluator and on simulated chips.

use crate::args::chip_named;
use crate::fuzz::rows::rows;
use crate::fuzz::run::{Failure, check, program};
use crate::fuzz::shrink::shrink;
use crate::output;
use std::fmt::Write;
use systole_runtime::{Client, RuntimeError, npz};

/// Flags of `systole fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// Seed of the programs
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many programs
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Number of the first program (its seed and number make a program again)
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Chips to run on; may be given many times; default: tiny and tpu-v5e
    #[arg(long, value_name = "NAME|FILE")]
    chip: Vec<String>,
    /// Random legal schedules and latencies as well
    #[arg(long)]
    chaos: bool,
    /// Folder for programs that fail, and their inputs
    #[arg(long, value_name = "DIR", default_value = "fuzz-failures")]
    failures: String,
    /// Prints how often each operation was made
    #[arg(long)]
    coverage: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request, or a program that fails.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let chips = if a.chip.is_empty() { vec!["tiny".to_string(), "tpu-v5e".to_string()] } else { a.chip.clone() };
    let clients: Vec<Client> = chips.iter().map(|c| chip_named(c).map(Client::with_chip)).collect::<Result<_, _>>()?;
    // A panic is one of the things that are looked for: it is reported with its program.
    std::panic::set_hook(Box::new(|_| {}));
    let mut counts = vec![0; rows().len()];
    let (mut failed, mut large) = (0u64, 0u64);
    for number in a.first..a.first.saturating_add(a.count) {
        let p = program(a.seed, number, &mut counts);
        for (client, chip) in clients.iter().zip(&chips) {
            let chaos = a.chaos.then_some(number);
            match check(&p, client, chaos) {
                Ok(()) => {}
                Err(Failure::Large) => large += 1,
                Err(failure) => {
                    failed += 1;
                    report(a, number, chip, &failure.to_string())?;
                    let small = shrink(&p, client, chaos);
                    let again = check(&small, client, chaos).err().unwrap_or(failure);
                    let name = format!("{}/seed{}-{number}-{chip}", a.failures, a.seed);
                    std::fs::create_dir_all(&a.failures)
                        .map_err(|e| RuntimeError::Request(format!("{}: {e}", a.failures)))?;
                    let way = small.way.flags(client.chip());
                    let text = format!("// {again}\n//{way}\n{}", small.text());
                    output::write(&format!("{name}.hlo"), text.as_bytes())?;
                    let inputs: Vec<_> =
                        small.inputs().into_iter().enumerate().map(|(i, x)| (format!("arg{i}"), x)).collect();
                    let inputs: Vec<_> = inputs.iter().map(|(n, x)| (n.clone(), x)).collect();
                    npz::write(&format!("{name}.npz"), &inputs)?;
                    report(a, number, chip, &format!("smaller: {name}.hlo: {again}"))?;
                    break;
                }
            }
        }
    }
    summary(a, &counts, failed, large)
}

fn report(a: &Args, number: u64, chip: &str, text: &str) -> Result<(), RuntimeError> {
    let text: String = text.chars().take(600).collect();
    output::print(&format!("seed {} program {number} on {chip}: {text}\n", a.seed))
}

fn summary(a: &Args, counts: &[u64], failed: u64, large: u64) -> Result<(), RuntimeError> {
    let made = counts.iter().filter(|c| **c > 0).count();
    let mut text = format!(
        "seed {}: {} programs, {failed} failed, {large} too large for a chip; {made} of {} operations made\n",
        a.seed,
        a.count,
        counts.len()
    );
    for (r, n) in rows().iter().zip(counts) {
        if a.coverage || *n == 0 && a.count >= 1000 {
            let _ = writeln!(text, "  {:24} {n}", r.opcode);
        }
    }
    output::print(&text)?;
    match failed {
        0 => Ok(()),
        n => Err(RuntimeError::Check(format!("{n} of {} programs failed", a.count))),
    }
}
