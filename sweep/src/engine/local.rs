//! Workers on this machine: a process a task, so many at once.
//!
//! A worker that dies (killed, out of memory) does not take others with it: its points are run again one by one, and one that
//! ends its worker again is a row that says so.

use super::{Request, Work, work};
use crate::bad;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::store::Store;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use systole_runtime::RuntimeError;

/// Bytes of memory that a worker is taken to need.
const WORKER_BYTES: u64 = 1 << 30;

/// How far a sweep is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub done: usize,
    pub failed: usize,
    pub points: usize,
    /// Points a second since the start, and seconds left at that rate.
    pub rate: f64,
    pub left_s: f64,
}

/// Workers that the machine has room for.
pub fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let free = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map(|k| k * 1024);
    let room = free.map_or(cores, |bytes| (bytes / WORKER_BYTES).max(1) as usize);
    cores.min(room)
}

/// A line of a file of tasks.
struct Task {
    file: PathBuf,
    number: usize,
    /// It is a single point whose task died before.
    again: bool,
}

impl Task {
    /// All tasks of a file.
    fn all(file: &Path, tasks: usize, again: bool) -> impl Iterator<Item = Task> {
        (0..tasks).map(move |number| Task { file: file.to_path_buf(), number, again })
    }
}

struct Worker {
    child: Child,
    task: Task,
}

fn start(store: &Store, request: &Request, task: Task) -> Result<Worker, RuntimeError> {
    let mut command = Command::new(&request.exe);
    let number = task.number.to_string();
    command.args(["sweep", "task"]).arg(&store.dir).arg("--tasks").arg(&task.file).args(["--number", &number]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|e| bad(format!("{}: {e}", request.exe.display())))?;
    Ok(Worker { child, task })
}

/// Kills what runs: at an early end nothing is left behind.
struct Running(Vec<Worker>);

impl Drop for Running {
    fn drop(&mut self) {
        for w in &mut self.0 {
            // It may have ended by itself.
            let _ = w.child.kill();
            let _ = w.child.wait();
        }
    }
}

/// Runs all that is missing. `tell` hears of progress, and says whether to go on.
///
/// # Errors
/// If workers cannot be started, or the folder cannot be written.
pub fn run(
    store: &Store,
    plan: &Plan,
    request: &Request,
    tell: &mut dyn FnMut(&Progress) -> bool,
) -> Result<(), RuntimeError> {
    let most = request.workers.unwrap_or_else(workers).max(1);
    let Some(Work { file, tasks, points }) = work(store, plan, request, most)? else { return Ok(()) };
    let mut queue: VecDeque<Task> = Task::all(&file, tasks, false).collect();
    let mut running = Running(Vec::new());
    let begin = Instant::now();
    let before = plan.points.len().saturating_sub(points);
    let mut looked = Instant::now() - Duration::from_secs(1);
    while !queue.is_empty() || !running.0.is_empty() {
        while running.0.len() < most
            && let Some(task) = queue.pop_front()
        {
            running.0.push(start(store, request, task)?);
        }
        let mut i = 0;
        while i < running.0.len() {
            let ended = running.0[i].child.try_wait().map_err(|e| bad(format!("worker: {e}")))?;
            let Some(status) = ended else {
                i += 1;
                continue;
            };
            let worker = running.0.swap_remove(i);
            // 0: all well; 1: some points failed, and are rows.
            if !matches!(status.code(), Some(0 | 1)) {
                died(store, plan, &worker.task, &status.to_string(), &mut queue)?;
            }
        }
        if looked.elapsed() >= Duration::from_millis(500) {
            looked = Instant::now();
            let results = store.results()?;
            let done = results.len();
            let failed = results.values().filter(|o| o.run.is_none()).count();
            let rate = done.saturating_sub(before) as f64 / begin.elapsed().as_secs_f64().max(1e-3);
            let left_s = (plan.points.len().saturating_sub(done)) as f64 / rate.max(1e-9);
            if !tell(&Progress { done, failed, points: plan.points.len(), rate, left_s }) {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let results = store.results()?;
    let failed = results.values().filter(|o| o.run.is_none()).count();
    let rate = points as f64 / begin.elapsed().as_secs_f64().max(1e-3);
    tell(&Progress { done: results.len(), failed, points: plan.points.len(), rate, left_s: 0.0 });
    Ok(())
}

/// A worker died: its points that have no result are tasks of one point each, or rows if they were.
fn died(store: &Store, plan: &Plan, task: &Task, status: &str, queue: &mut VecDeque<Task>) -> Result<(), RuntimeError> {
    let done = store.results()?;
    let mut left = Store::task(&task.file, task.number)?;
    left.retain(|id| !done.contains_key(id));
    if left.is_empty() {
        return Ok(());
    }
    if task.again {
        let outcomes: Vec<Outcome> = left
            .into_iter()
            .map(|id| Outcome { id, reason: Some(format!("the worker ended twice: {status}")), run: None })
            .collect();
        return store.put(&format!("died-{}", outcomes[0].id), &outcomes);
    }
    let (file, tasks) = store.tasks(plan, &left, 1)?;
    queue.extend(Task::all(&file, tasks, true));
    Ok(())
}
