//! `systole partition`: the program of every device of an annotated program, and how every value is divided.

use crate::args::ChipArgs;
use crate::{output, session};
use std::fmt::Write;
use systole_compiler::graph::print::to_text;
use systole_runtime::source::Source;
use systole_runtime::{RuntimeError, spmd};

/// Flags of `systole partition`.
#[derive(clap::Args)]
pub struct Args {
    /// A program annotated with shardings: HLO text, StableHLO text or bytecode, an HLO proto
    module: String,
    /// Devices that share the program (default: as many as its annotations are for)
    #[arg(long)]
    partitions: Option<u32>,
    #[command(flatten)]
    chip: ChipArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request or the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let opened = session::open(&a.module, &a.chip)?;
    let partitions = a.partitions.unwrap_or(opened.source.devices().1);
    let Source::Module { module, text } = opened.source else {
        return Err(RuntimeError::Request(format!(
            "{}: already compiled; HLO and StableHLO can be partitioned",
            a.module
        )));
    };
    if !spmd::is_to_be_partitioned(&module) {
        let message = format!("{}: no shardings for several partitions annotate the program", a.module);
        return Err(RuntimeError::Request(message));
    }
    let done = spmd::partition(&module, &a.module, &text, (partitions, spmd::Unsaid::Free))?;
    let mut out = String::new();
    let mut line = |text: String| {
        let written = writeln!(out, "// {text}");
        debug_assert!(written.is_ok(), "strings take all text");
    };
    let mesh = &done.boundary.mesh;
    for (what, edges) in [("arg", &done.boundary.params), ("out", &done.boundary.results)] {
        for (i, e) in edges.iter().enumerate() {
            line(format!("{what}{i}: {:?} {}", e.dims, e.sharding.spell(mesh)));
        }
    }
    done.listed.iter().for_each(|l| line(format!("{}: {} {}", l.name, l.shape, l.sharding)));
    done.notes.iter().for_each(|n| line(format!("whole: {}; {} bytes more on every device", n.message, n.bytes)));
    done.traffic.iter().filter(|(_, n)| **n > 0).for_each(|(k, n)| line(format!("received: {n} bytes by {k}")));
    output::print(&(out + &to_text(&done.module)))
}
