//! Slurm: job arrays of tasks, and a dependent job that collects.
//!
//! Only files are written and `sbatch --parsable` is called; Slurm does the rest. Arrays are cut to the cluster's greatest
//! index. Workers take as many threads as the job has.

use super::{Request, absolute, output, quoted, work};
use crate::bad;
use crate::plan::Plan;
use crate::store::Store;
use std::process::Command;
use std::time::Duration;
use systole_runtime::RuntimeError;

/// Points of a task where nothing is said: tasks of minutes, not of seconds.
const CHUNK: usize = 50;

/// The greatest number of tasks of an array, as the cluster says.
fn most_tasks() -> Result<usize, RuntimeError> {
    let text = output(Command::new("scontrol").args(["show", "config"]))?;
    let line = text.lines().find(|l| l.trim_start().starts_with("MaxArraySize"));
    let size = line.and_then(|l| l.split('=').nth(1)).and_then(|v| v.trim().parse::<usize>().ok());
    // The size is one more than the greatest index.
    size.filter(|n| *n > 0).ok_or_else(|| bad("scontrol show config: no MaxArraySize"))
}

/// The script of tasks `first..first + count` of a file.
fn script(
    store: &Store,
    request: &Request,
    file: &std::path::Path,
    first: usize,
    count: usize,
) -> Result<String, RuntimeError> {
    let (dir, exe, file) = (absolute(&store.dir)?, absolute(&request.exe)?, absolute(file)?);
    let throttle = request.workers.map_or(String::new(), |n| format!("%{n}"));
    let log = dir.join("log");
    let mut text = format!(
        "#!/bin/sh\n#SBATCH --job-name=systole-sweep\n#SBATCH --array=0-{}{throttle}\n#SBATCH --cpus-per-task=1\n\
         #SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output={}/slurm-%A_%a.log\n",
        count - 1,
        log.display()
    );
    if let Some(t) = &request.time_limit {
        text += &format!("#SBATCH --time={t}\n");
    }
    for e in &request.extra {
        text += &format!("#SBATCH {e}\n");
    }
    text += &format!(
        "exec {} sweep task {} --tasks {} --number $(({first} + SLURM_ARRAY_TASK_ID))\n",
        quoted(&exe),
        quoted(&dir),
        quoted(&file)
    );
    Ok(text)
}

/// Submits all that is missing; the arrays' job numbers.
///
/// # Errors
/// What Slurm says.
pub fn run(store: &Store, plan: &Plan, request: &Request) -> Result<Vec<String>, RuntimeError> {
    let most = most_tasks()?;
    let request = Request { chunk: request.chunk.or(Some(CHUNK)), ..request.clone() };
    let Some(work) = work(store, plan, &request, 1)? else { return Ok(Vec::new()) };
    let mut jobs = Vec::new();
    for (i, first) in (0..work.tasks).step_by(most).enumerate() {
        let count = (work.tasks - first).min(most);
        let name = work.file.file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
        let path = store.dir.join("log").join(format!("slurm-{name}-{i}.sh"));
        crate::store::write_whole(&path, script(store, &request, &work.file, first, count)?.as_bytes())?;
        let said = output(Command::new("sbatch").arg("--parsable").arg(&path))?;
        jobs.push(said.trim().split(';').next().unwrap_or_default().to_string());
    }
    let (dir, exe) = (absolute(&store.dir)?, absolute(&request.exe)?);
    let collect = format!(
        "#!/bin/sh\n#SBATCH --job-name=systole-collect\n#SBATCH --output={}/slurm-collect-%j.log\nexec {} sweep collect {}\n",
        dir.join("log").display(),
        quoted(&exe),
        quoted(&dir)
    );
    let path = store.dir.join("log").join("slurm-collect.sh");
    crate::store::write_whole(&path, collect.as_bytes())?;
    let after = format!("--dependency=afterany:{}", jobs.join(":"));
    output(Command::new("sbatch").args(["--parsable", &after]).arg(&path))?;
    if request.wait {
        wait(&jobs)?;
    }
    Ok(jobs)
}

/// Tasks of jobs that are queued or running.
///
/// # Errors
/// What Slurm says.
pub fn left(jobs: &[String]) -> Result<usize, RuntimeError> {
    let done = Command::new("squeue").args(["-h", "-r", "-j", &jobs.join(",")]).output();
    let done = done.map_err(|e| bad(format!("squeue: {e}")))?;
    // Jobs that are long gone are no longer known.
    Ok(String::from_utf8_lossy(&done.stdout).lines().filter(|l| !l.trim().is_empty()).count())
}

fn wait(jobs: &[String]) -> Result<(), RuntimeError> {
    while left(jobs)? > 0 {
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}
