//! GNU parallel: a line a task, on this machine or on a file's hosts that share the folder.

use super::{Request, absolute, quoted, work};
use crate::bad;
use crate::plan::Plan;
use crate::store::Store;
use std::io::Write;
use std::process::{Command, Stdio};
use systole_runtime::RuntimeError;

/// Runs all that is missing and waits; how many tasks there were.
///
/// # Errors
/// If parallel cannot be started. Tasks that fail leave rows, or points that are missing.
pub fn run(store: &Store, plan: &Plan, request: &Request) -> Result<usize, RuntimeError> {
    let workers = request.workers.unwrap_or_else(super::local::workers).max(1);
    let Some(work) = work(store, plan, request, workers)? else { return Ok(0) };
    let (dir, exe, file) = (absolute(&store.dir)?, absolute(&request.exe)?, absolute(&work.file)?);
    let log = dir.join("log").join("parallel.tsv");
    let mut command = Command::new("parallel");
    command.args([&format!("-j{workers}"), "--will-cite", "--joblog"]).arg(&log).args(["--retries", "2"]);
    if let Some(t) = &request.time_limit {
        command.args(["--timeout", t]);
    }
    if let Some(hosts) = &request.hosts {
        command.arg("--sshloginfile").arg(hosts);
    }
    command.args(&request.extra);
    command.arg(format!("{} sweep task {} --tasks {} --number {{}}", quoted(&exe), quoted(&dir), quoted(&file)));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let fail = |e: std::io::Error| bad(format!("parallel: {e} (is it installed?)"));
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut input) = child.stdin.take() {
        let lines: String = (0..work.tasks).map(|n| format!("{n}\n")).collect();
        input.write_all(lines.as_bytes()).map_err(fail)?;
    }
    // Its status is the number of tasks that failed; their points say why.
    child.wait().map_err(fail)?;
    Ok(work.tasks)
}
