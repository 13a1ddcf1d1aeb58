//! Engines: who runs the tasks of a sweep.
//!
//! A task is `systole sweep task DIR --tasks FILE --number N`: it runs the points of a line of the file and stores their
//! results. Tasks may be run twice, in any order, and die at any time. An engine starts tasks for what is missing and nothing
//! else; what is missing is asked of the results alone, never of an engine's word.

pub mod hq;
pub mod local;
pub mod parallel;
pub mod slurm;

use crate::bad;
use crate::plan::Plan;
use crate::store::Store;
use std::path::{Path, PathBuf};
use std::process::Command;
use systole_runtime::RuntimeError;

/// What every engine is told.
#[derive(Clone, Debug)]
pub struct Request {
    /// The command `systole`, as workers reach it.
    pub exe: PathBuf,
    /// Workers at once; engines that have queues of their own take it as a limit.
    pub workers: Option<usize>,
    /// Most points of a task.
    pub chunk: Option<usize>,
    /// Longest time of a task, as the engine writes it.
    pub time_limit: Option<String>,
    /// Waits until the engine has no task left.
    pub wait: bool,
    /// Runs failed points again too.
    pub failures: bool,
    /// Further words for the engine's own command.
    pub extra: Vec<String>,
    /// Machines of GNU parallel: a file, a line each.
    pub hosts: Option<PathBuf>,
}

/// Work to be done: a file of tasks, and how many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    pub file: PathBuf,
    pub tasks: usize,
    pub points: usize,
}

/// Points of a task: some tasks a worker, so that work is even at the end.
pub fn chunk_size(points: usize, workers: usize) -> usize {
    (points / (workers.max(1) * 8)).clamp(1, 64)
}

/// The tasks for what is missing; none if nothing is.
///
/// # Errors
/// If the folder is damaged or cannot be written.
pub fn work(store: &Store, plan: &Plan, request: &Request, workers: usize) -> Result<Option<Work>, RuntimeError> {
    let missing = store.missing(plan, request.failures)?;
    if missing.is_empty() {
        return Ok(None);
    }
    let chunk = request.chunk.unwrap_or_else(|| chunk_size(missing.len(), workers));
    let (file, tasks) = store.tasks(plan, &missing, chunk)?;
    Ok(Some(Work { file, tasks, points: missing.len() }))
}

/// Runs an engine's command; its output.
fn output(command: &mut Command) -> Result<String, RuntimeError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|e| bad(format!("{name}: {e} (is it installed?)")))?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(bad(format!("{name}: {} {}", error.trim(), text.trim())))
}

/// A path from the root: workers may start elsewhere.
fn absolute(path: &Path) -> Result<PathBuf, RuntimeError> {
    path.canonicalize().map_err(|e| bad(format!("{}: {e}", path.display())))
}

/// A word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}
