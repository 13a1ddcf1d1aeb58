//! `systole mosaic`: the Pallas kernels of a program as text.

use crate::args::ChipArgs;
use crate::{output, session};
use std::fmt::Write;
use systole_compiler::graph::{Module, Op};
use systole_mosaic::{Call, config};
use systole_runtime::RuntimeError;
use systole_runtime::source::Source;

/// Flags of `systole mosaic`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, StableHLO (text or bytecode) or an HLO proto
    module: String,
    /// Leaves out the lines of Python behind the operations
    #[arg(long)]
    no_places: bool,
    #[command(flatten)]
    chip: ChipArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// A program that cannot be read, has no kernel, or has one that cannot be read.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let opened = session::open(&a.module, &a.chip)?;
    let Source::Module { module, .. } = opened.source else {
        return Err(RuntimeError::Request(format!("{}: already compiled; its kernels are bundles", a.module)));
    };
    let text = kernels(&module, !a.no_places).map_err(|e| RuntimeError::Compile(format!("{}: {e}", a.module)))?;
    match text.is_empty() {
        true => Err(RuntimeError::Request(format!("{}: no `{}` in the program", a.module, config::TARGET))),
        false => output::print(&text),
    }
}

/// The text of every kernel that the module calls.
fn kernels(module: &Module, places: bool) -> Result<String, String> {
    let mut out = String::new();
    for node in module.computations.iter().flat_map(|c| &c.nodes) {
        let Op::CustomCall { target, config, .. } = &node.op else { continue };
        if target != config::TARGET {
            continue;
        }
        let kernel = Call::parse(config).and_then(|c| c.module()).map_err(|e| format!("`{}`: {e}", node.name))?;
        let _ = writeln!(out, "// kernel of `{}`", node.name);
        out.push_str(&systole_mosaic::print(&kernel, places));
    }
    Ok(out)
}
