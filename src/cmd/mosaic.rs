//! `systole mosaic`: the Pallas kernels of a program as text.

use crate::args::ChipArgs;
use crate::{output, session};
use std::fmt::Write;
use systole_compiler::graph::{Module, Op};
use systole_mosaic::{Call, Kernel, Role, Space, config, walk};
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
    for (c, node) in module.computations.iter().flat_map(|c| c.nodes.iter().map(move |n| (c, n))) {
        let Op::CustomCall { target, config, .. } = &node.op else { continue };
        if target != config::TARGET {
            continue;
        }
        let kernel = Call::parse(config).and_then(|c| c.module()).map_err(|e| format!("`{}`: {e}", node.name))?;
        let _ = writeln!(out, "// kernel of `{}`", node.name);
        let mut sizes: Vec<Vec<u64>> = Vec::new();
        let arrays = node.operands.iter().map(|o| &c.node(*o).shape).chain([&node.shape]);
        arrays.for_each(|s| sizes.extend(s.leaves().iter().map(|a| a.dims.clone())));
        out.push_str(&memory(&kernel, &sizes).map_err(|e| format!("`{}`: {e}", node.name))?);
        out.push_str(&systole_mosaic::print(&kernel, places));
    }
    Ok(out)
}

/// Windows and memory of a kernel, a line each: sizes, bytes, and how often blocks are copied. `sizes`: of the call's arrays.
fn memory(module: &systole_mosaic::Module, sizes: &[Vec<u64>]) -> Result<String, systole_mosaic::Error> {
    let kernel = Kernel::of(module)?;
    let mut out = String::new();
    let mut total = 0;
    for (i, (_, m, role)) in kernel.arguments.iter().enumerate() {
        let element = m.element.dtype();
        let bytes = |dims: &[u64]| dims.iter().product::<u64>().saturating_mul(u64::from(element.bits())) / 8;
        let line = match role {
            Role::Window(w) => {
                let places = if w.synchronous || kernel.steps().is_some_and(|n| n < 2) { 1 } else { 2 };
                total += bytes(&w.bounds) * places;
                let text = format!("window, {element} block {:?}, {places} of {} bytes", w.bounds, bytes(&w.bounds));
                let walked = sizes.get(i).and_then(|s| walk(&kernel, w, s));
                text + &walked.map_or(String::new(), |w| {
                    format!(": {} copies, {} blocks, each {} times", w.copies, w.blocks, w.times())
                })
            }
            Role::Prefetch => format!("scalars before the first step, {element} {:?}", m.sizes().unwrap_or_default()),
            Role::Whole => format!("all of the array, {element} {:?}", m.sizes().unwrap_or_default()),
            Role::Scratch => {
                let dims = m.sizes().unwrap_or_default();
                total += if m.space == Space::Vmem { bytes(&dims) } else { 0 };
                format!("scratch, {element} {dims:?}, {} bytes", bytes(&dims))
            }
        };
        let space = match m.space {
            Space::Vmem => "vector memory",
            Space::Smem => "scalar memory",
            Space::Hbm => "HBM",
            Space::Semaphore => "semaphores",
        };
        let _ = writeln!(out, "// argument {i}: {line} ({space})");
    }
    let size = |g: &Option<u64>| g.map_or("?".to_string(), |n| n.to_string());
    let grid: Vec<String> = kernel.grid.iter().map(size).collect();
    let _ = writeln!(out, "// grid [{}]; windows and scratch take {total} bytes of vector memory", grid.join(", "));
    Ok(out)
}
