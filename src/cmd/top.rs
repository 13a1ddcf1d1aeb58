//! `systole top`: the terminal dashboard.

use crate::args::{ModeArgs, RunArgs};
use crate::{output, session};
use std::sync::Arc;
use systole_runtime::snapshot::Snapshot;
use systole_runtime::{Observer, RuntimeError, report};
use systole_tui::Shared;

/// Flags of `systole top`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    mode: ModeArgs,
    /// Prints one frame as text when the run is over, and needs no terminal
    #[arg(long)]
    once: bool,
    /// Columns of that frame
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(40..=500))]
    width: u16,
    /// Lines of that frame
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(12..=500))]
    height: u16,
}

/// Tells the dashboard how far the run is, and stops it when the user leaves.
struct Watch(Arc<Shared>);

impl Observer for Watch {
    fn progress(&mut self, cycle: u64, bundles: u64) -> bool {
        self.0.progress(cycle, bundles);
        !self.0.stopped()
    }
}

/// Compiles and runs; the last snapshot has the counters.
fn work(a: &Args, shared: &Arc<Shared>) -> Result<Snapshot, RuntimeError> {
    let mut ready = session::prepare(&a.run)?;
    let mode = a.mode.mode();
    let inputs = ready.inputs(&a.run, mode)?;
    shared.show(Snapshot::running(&a.run.module, ready.client.chip(), 0, 0));
    let done = ready.run(&a.run, &inputs, mode, &mut Watch(Arc::clone(shared)))?;
    let chip = ready.client.chip();
    let report = report(chip, &ready.exe.program, &done.result, ready.host.clone());
    Ok(Snapshot::done(&a.run.module, chip, &report))
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request, or a fault of the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let shared = Arc::new(Shared::new(Snapshot::compiling(&a.run.module)));
    if a.once {
        return output::print(&systole_tui::frame(&work(a, &shared)?, a.width, a.height));
    }
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().stack_size(crate::STACK).spawn_scoped(scope, || {
            let result = work(a, &shared);
            match &result {
                Ok(s) => shared.show(s.clone()),
                Err(e) => shared.fail(&e.to_string()),
            }
            result.map(|_| ())
        });
        let worker = worker.map_err(|e| RuntimeError::Request(format!("cannot start: {e}")))?;
        let shown = systole_tui::run(&shared).map_err(|e| RuntimeError::Request(format!("terminal: {e}")));
        let left = shared.stopped_early();
        shared.stop();
        let result = worker.join().unwrap_or_else(|_| Err(RuntimeError::Check("the run panicked".into())));
        shown?;
        if left { Ok(()) } else { result }
    })
}
