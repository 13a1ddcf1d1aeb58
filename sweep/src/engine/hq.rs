//! HyperQueue: a task a line of the tasks' file.
//!
//! `hq submit --wait` reports success even where tasks failed, so nothing is concluded from it: what has no result is missing.

use super::{Request, absolute, output, work};
use crate::bad;
use crate::plan::Plan;
use crate::store::Store;
use std::process::Command;
use systole_runtime::RuntimeError;

/// Submits all that is missing; the job's number, if there was anything.
///
/// # Errors
/// What HyperQueue says.
pub fn run(store: &Store, plan: &Plan, request: &Request) -> Result<Option<String>, RuntimeError> {
    let Some(work) = work(store, plan, request, request.workers.unwrap_or(8))? else { return Ok(None) };
    let (dir, exe, file) = (absolute(&store.dir)?, absolute(&request.exe)?, absolute(&work.file)?);
    let entries: Vec<serde_json::Value> = (0..work.tasks).map(|n| serde_json::json!(n)).collect();
    let json = file.with_extension("entries.json");
    let text = serde_json::to_vec(&entries).map_err(|e| bad(e.to_string()))?;
    crate::store::write_whole(&json, &text)?;
    let log = dir.join("log").join("hq-%{JOB_ID}");
    let mut command = Command::new("hq");
    command.args(["submit", "--output-mode", "quiet", "--name", "systole-sweep", "--crash-limit", "3"]);
    command.arg("--stream").arg(&log).arg("--from-json").arg(&json);
    if let Some(t) = &request.time_limit {
        command.args(["--time-limit", t]);
    }
    if request.wait {
        command.arg("--wait");
    }
    command.args(&request.extra).arg("--").arg(&exe).args(["sweep", "task"]).arg(&dir);
    command.arg("--tasks").arg(&file).arg("--entry");
    // The job's number comes first, whatever `--wait` adds.
    let said = output(&mut command)?;
    Ok(Some(said.split_whitespace().next().unwrap_or_default().to_string()))
}
