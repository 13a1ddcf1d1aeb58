//! `systole sweep`: designs by the hundred. Plans points, runs them here or on a cluster, collects, prices, reports.

use crate::output;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use systole_runtime::RuntimeError;
use systole_sweep::engine::{Request, hq, local, parallel, slurm};
use systole_sweep::search::{self, Search};
use systole_sweep::table::Table;
use systole_sweep::{Plan, Spec, Store, execute, html, store};

/// Flags of `systole sweep`. Without a subcommand: plan, run here, collect and report.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// The sweep's specification
    #[arg(value_name = "SPEC.toml")]
    spec: Option<String>,
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(clap::Args, Clone)]
struct Folder {
    /// Folder of the sweep (default: the specification's name with `.sweep`)
    #[arg(short, long, value_name = "DIR")]
    output: Option<String>,
}

#[derive(clap::Args, Clone)]
struct RunFlags {
    /// Who runs the points
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// Points at once (default: by cores and memory here, no limit on clusters)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    workers: Option<u32>,
    /// Most points of a task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: Option<u32>,
    /// Longest time of a task, as the engine writes it
    #[arg(long, value_name = "TIME")]
    time_limit: Option<String>,
    /// Waits until the cluster is done
    #[arg(long)]
    wait: bool,
    /// Runs failed points again
    #[arg(long)]
    retry_failed: bool,
    /// Hosts of GNU parallel: a file, a line each
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// The command that workers run (default: this one)
    #[arg(long, value_name = "FILE")]
    worker_command: Option<PathBuf>,
    /// A further flag for the engine, e.g. `--engine-flag=--partition=long`; may be given many times
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    engine_flag: Vec<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// Processes on this machine
    Local,
    /// Job arrays of Slurm
    Slurm,
    /// HyperQueue
    Hq,
    /// GNU parallel
    Parallel,
}

#[derive(clap::Subcommand)]
enum What {
    /// Points, codes and runs that a specification makes, and how long they take; writes the folder
    Plan {
        /// The specification
        spec: String,
        #[command(flatten)]
        folder: Folder,
        /// Writes nothing
        #[arg(long)]
        dry_run: bool,
        /// Does not run a point to estimate the time
        #[arg(long)]
        no_estimate: bool,
    },
    /// Runs the points that have no result
    Run {
        /// The sweep's folder
        dir: String,
        #[command(flatten)]
        flags: RunFlags,
    },
    /// The same after an interruption
    Resume {
        /// The sweep's folder
        dir: String,
        #[command(flatten)]
        flags: RunFlags,
    },
    /// How far it is, and why points failed
    Status {
        /// The sweep's folder
        dir: String,
    },
    /// Writes table.csv and table.json
    Collect {
        /// The sweep's folder
        dir: String,
        /// Writes table.parquet too
        #[cfg(feature = "parquet")]
        #[arg(long)]
        parquet: bool,
    },
    /// The table with other costs, from the stored counters
    Price {
        /// The sweep's folder
        dir: String,
        /// A cost, e.g. `costs.mac_bf16=0.7` or `costs.node=N3`; may be given many times
        #[arg(long = "set", value_name = "costs.KEY=VALUE", required = true)]
        set: Vec<String>,
        /// File of the table (default: standard output)
        #[arg(short, long, value_name = "FILE.csv")]
        output: Option<String>,
    },
    /// Writes the page report.html
    Report {
        /// The sweep's folder
        dir: String,
        /// File of the page
        #[arg(short, long, value_name = "FILE.html")]
        output: Option<String>,
    },
    /// Looks for the front with fewer points than the grid has (NSGA-II)
    Search {
        /// The specification
        spec: String,
        #[command(flatten)]
        folder: Folder,
        /// Designs at once
        #[arg(long, default_value_t = 24)]
        population: usize,
        /// Rounds
        #[arg(long, default_value_t = 10)]
        generations: usize,
        /// Seed of its choices
        #[arg(long, default_value_t = 0)]
        seed: u64,
        #[command(flatten)]
        flags: RunFlags,
    },
    /// Runs the points of a task (engines call it)
    #[command(hide = true)]
    Task {
        dir: String,
        #[arg(long)]
        tasks: PathBuf,
        #[arg(long, required_unless_present = "entry")]
        number: Option<usize>,
        /// The number is in HQ_ENTRY
        #[arg(long)]
        entry: bool,
    },
}

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

fn read_spec(path: &str) -> Result<(Spec, String), RuntimeError> {
    let text = systole_runtime::files::read_text(path).map_err(|e| bad(format!("{path}: {e}")))?;
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    Ok((Spec::parse(&text, path, folder)?, text))
}

fn folder_of(spec: &str, folder: &Folder) -> PathBuf {
    match &folder.output {
        Some(d) => PathBuf::from(d),
        None => Path::new(spec).with_extension("sweep"),
    }
}

fn request(f: &RunFlags) -> Result<Request, RuntimeError> {
    Ok(Request {
        exe: match &f.worker_command {
            Some(path) => path.clone(),
            None => std::env::current_exe().map_err(|e| bad(format!("the path of systole: {e}")))?,
        },
        workers: f.workers.map(|n| n as usize),
        chunk: f.chunk.map(|n| n as usize),
        time_limit: f.time_limit.clone(),
        wait: f.wait,
        failures: f.retry_failed,
        extra: f.engine_flag.clone(),
        hosts: f.hosts.clone(),
    })
}

/// A flag that Ctrl-C sets: what is done is kept.
fn interrupted() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Without the handler the signal ends the process, and stored results are kept as well.
        let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}

/// Progress on standard error.
fn bar(points: usize) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new(points as u64);
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn run_local(store: &Store, plan: &Plan, request: &Request, stop: &AtomicBool) -> Result<bool, RuntimeError> {
    let bar = bar(plan.points.len());
    let mut whole = true;
    local::run(store, plan, request, &mut |p| {
        bar.set_position(p.done as u64);
        bar.set_message(format!("{:.1} points/s, {:.0} s left, {} failed", p.rate, p.left_s, p.failed));
        whole = !stop.load(Ordering::Relaxed);
        whole
    })?;
    bar.finish_and_clear();
    Ok(whole)
}

/// Runs what is missing; whether it is complete now.
fn run_with(store: &Store, flags: &RunFlags) -> Result<bool, RuntimeError> {
    let plan = store.plan()?;
    let request = request(flags)?;
    match flags.engine {
        Engine::Local => {
            if !run_local(store, &plan, &request, &interrupted())? {
                let again = format!("systole sweep resume {}", store.dir.display());
                return Err(bad(format!("interrupted; what is done is kept: {again}")));
            }
        }
        Engine::Slurm => {
            let jobs = slurm::run(store, &plan, &request)?;
            let said =
                if jobs.is_empty() { "nothing is missing".into() } else { format!("job arrays {}", jobs.join(", ")) };
            output::print(&format!("slurm: {said}\n"))?;
            if !flags.wait {
                return Ok(false);
            }
        }
        Engine::Hq => {
            let job = hq::run(store, &plan, &request)?;
            output::print(&format!("hq: {}\n", job.map_or("nothing is missing".into(), |j| format!("job {j}"))))?;
            if !flags.wait {
                return Ok(false);
            }
        }
        Engine::Parallel => {
            let tasks = parallel::run(store, &plan, &request)?;
            output::print(&format!("parallel: {tasks} tasks\n"))?;
        }
    }
    Ok(store.missing(&plan, false)?.is_empty())
}

/// The sweep of a folder.
struct Opened {
    store: Store,
    spec: Spec,
    plan: Plan,
}

fn open(dir: &str) -> Result<Opened, RuntimeError> {
    let store = Store::open(Path::new(dir))?;
    let (spec, plan) = (store.spec()?, store.plan()?);
    Ok(Opened { store, spec, plan })
}

impl Opened {
    fn table(&self, sets: &[String]) -> Result<Table, RuntimeError> {
        Table::new(&self.spec, &self.plan, &self.store.results()?, sets)
    }

    fn collect(&self) -> Result<Table, RuntimeError> {
        let table = self.table(&[])?;
        store::write_whole(&self.store.dir.join("table.csv"), &table.csv()?)?;
        store::write_whole(&self.store.dir.join("table.json"), &table.json()?)?;
        Ok(table)
    }

    fn report(&self, path: &Path) -> Result<(), RuntimeError> {
        let results = self.store.results()?;
        let table = Table::new(&self.spec, &self.plan, &results, &[])?;
        let page = html::page(&self.spec, &self.plan, &table, &results)?;
        store::write_whole(path, page.as_bytes())
    }
}

/// Says how a table came out; an error if points failed.
fn summary(table: &Table, dir: &Path) -> Result<(), RuntimeError> {
    let (ok, failed, missing) = table.counts();
    let fronts = table.designs.iter().filter(|d| d.front).count();
    let mut text = format!("{ok} points done, {failed} failed, {missing} missing; {fronts} designs on the front\n");
    for (name, n) in &table.removed {
        text += &format!("  {n} break: {name}\n");
    }
    text += &format!("  {}\n", dir.join("table.csv").display());
    output::print(&text)?;
    if failed > 0 {
        return Err(RuntimeError::Failed(format!("{failed} points failed: their rows say why")));
    }
    Ok(())
}

fn describe(spec: &Spec, plan: &Plan) -> String {
    let (codes, runs) = plan.counts();
    let refused = plan.points.iter().filter(|p| p.refused.is_some()).count();
    format!(
        "{}: {} points of {} programs on {} chips; {codes} codes, {runs} runs, {} removed by conditions, {refused} refused\n",
        spec.name,
        plan.points.len(),
        spec.space.programs.len(),
        spec.space.chips.len(),
        plan.removed
    )
}

/// Runs a point of every program to say how long all take.
fn estimate(spec: &Spec, plan: &Plan, bytes: &std::collections::BTreeMap<String, Vec<u8>>) -> String {
    let workers = local::workers();
    let (mut total, mut notes) = (0.0, String::new());
    for p in &spec.space.programs {
        let points: Vec<_> = plan.points.iter().filter(|q| q.case.program == p.name && q.refused.is_none()).collect();
        let Some(first) = points.first() else { continue };
        let part = Plan { points: points.iter().map(|p| (*p).clone()).collect(), ..plan.clone() };
        let (codes, runs) = part.counts();
        match execute::measure(spec, plan, first, bytes) {
            Ok((compile, run)) => {
                total += compile * codes as f64 + run * runs as f64;
                notes += &format!("  {}: {codes} x {compile:.2} s to compile, {runs} x {run:.3} s to run\n", p.name);
            }
            Err(e) => notes += &format!("  {}: {}\n", p.name, e.to_string().lines().next().unwrap_or_default()),
        }
    }
    let wall = total / workers as f64;
    format!("{notes}  about {total:.0} s of a core, {wall:.0} s with {workers} workers\n")
}

fn planned(path: &str, folder: &Folder) -> Result<(Store, Spec, Plan), RuntimeError> {
    let (spec, text) = read_spec(path)?;
    let (plan, bytes) = Plan::new(&spec)?;
    let store = Store::create(&folder_of(path, folder), &text, &plan, &bytes)?;
    Ok((store, spec, plan))
}

fn finish(store: Store) -> Result<(), RuntimeError> {
    let opened = open(&store.dir.to_string_lossy())?;
    let table = opened.collect()?;
    opened.report(&store.dir.join("report.html"))?;
    summary(&table, &store.dir)
}

fn run_search(spec_path: &str, folder: &Folder, s: &Search, flags: &RunFlags) -> Result<(), RuntimeError> {
    if flags.engine != Engine::Local {
        return Err(bad("a search decides after every round: it runs on this machine (--engine local)"));
    }
    let (spec, text) = read_spec(spec_path)?;
    let (plan, bytes) = Plan::empty(&spec)?;
    let dir = folder_of(spec_path, folder);
    if !dir.join("plan.json").exists() {
        Store::create(&dir, &text, &plan, &bytes)?;
    }
    let store = Store::open(&dir)?;
    let (request, stop) = (request(flags)?, interrupted());
    let mut evaluate = |plan: &Plan| match run_local(&store, plan, &request, &stop)? {
        true => Ok(()),
        false => Err(bad("interrupted; what is done is kept, the same command goes on")),
    };
    let spec = store.spec()?;
    let found = search::run(&store, &spec, s, &mut evaluate, &mut |round, designs| {
        output::say(format_args!("round {round}: {designs} designs"));
    })?;
    let saved = found.grid.saturating_sub(found.designs as u64);
    output::print(&format!("{} designs were run, the grid has {}: {saved} saved\n", found.designs, found.grid))?;
    finish(store)
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request; points that failed.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let Some(what) = &a.what else {
        let spec = a.spec.as_deref().ok_or_else(|| bad("a specification is expected"))?;
        let (store, spec, plan) = planned(spec, &a.folder)?;
        output::say(describe(&spec, &plan).trim_end());
        if !run_with(&store, &a.run)? {
            return Ok(());
        }
        return finish(store);
    };
    match what {
        What::Plan { spec, folder, dry_run, no_estimate } => {
            let (parsed, text) = read_spec(spec)?;
            let (plan, bytes) = Plan::new(&parsed)?;
            let mut said = describe(&parsed, &plan);
            if !no_estimate {
                said += &estimate(&parsed, &plan, &bytes);
            }
            if !dry_run {
                let store = Store::create(&folder_of(spec, folder), &text, &plan, &bytes)?;
                said += &format!("  systole sweep run {}\n", store.dir.display());
            }
            output::print(&said)
        }
        What::Run { dir, flags } | What::Resume { dir, flags } => {
            let store = Store::open(Path::new(dir))?;
            if run_with(&store, flags)? { finish(store) } else { status(dir) }
        }
        What::Status { dir } => status(dir),
        What::Collect { dir, .. } => {
            let opened = open(dir)?;
            let table = opened.collect()?;
            #[cfg(feature = "parquet")]
            if let What::Collect { parquet: true, .. } = what {
                store::write_whole(&opened.store.dir.join("table.parquet"), &table.parquet()?)?;
            }
            summary(&table, &opened.store.dir)
        }
        What::Price { dir, set, output: file } => {
            let csv = open(dir)?.table(set)?.csv()?;
            match file {
                Some(f) => store::write_whole(Path::new(f), &csv),
                None => output::print(&String::from_utf8_lossy(&csv)),
            }
        }
        What::Report { dir, output: file } => {
            let opened = open(dir)?;
            let path = file.as_ref().map_or_else(|| opened.store.dir.join("report.html"), PathBuf::from);
            opened.report(&path)?;
            output::print(&format!("{}\n", path.display()))
        }
        What::Search { spec, folder, population, generations, seed, flags } => {
            let s = Search { population: *population, generations: *generations, seed: *seed };
            run_search(spec, folder, &s, flags)
        }
        What::Task { dir, tasks, number, entry } => task(dir, tasks, *number, *entry),
    }
}

fn task(dir: &str, tasks: &Path, number: Option<usize>, entry: bool) -> Result<(), RuntimeError> {
    let number = match (number, entry) {
        (Some(n), _) => n,
        (None, _) => {
            let text = std::env::var("HQ_ENTRY").map_err(|_| bad("HQ_ENTRY is not set"))?;
            text.trim().parse().map_err(|_| bad(format!("HQ_ENTRY: `{text}` is no number")))?
        }
    };
    let store = Store::open(Path::new(dir))?;
    let ids = Store::task(tasks, number)?;
    let stem = tasks.file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
    let failed = execute::task(&store, &ids, &format!("{stem}-{number}"))?;
    if failed > 0 {
        return Err(RuntimeError::Failed(format!("{failed} points failed: their rows say why")));
    }
    Ok(())
}

fn status(dir: &str) -> Result<(), RuntimeError> {
    let o = open(dir)?;
    let results = o.store.results()?;
    let mut reasons: std::collections::BTreeMap<&str, usize> = Default::default();
    let (mut ok, mut failed) = (0, 0);
    for p in &o.plan.points {
        match results.get(&p.case.id) {
            Some(r) if r.run.is_some() => ok += 1,
            Some(r) => {
                failed += 1;
                *reasons.entry(r.reason.as_deref().unwrap_or_default()).or_default() += 1;
            }
            None => {}
        }
    }
    let missing = o.plan.points.len() - ok - failed;
    let mut text = format!("{} points: {ok} done, {failed} failed, {missing} missing\n", o.plan.points.len());
    for (reason, n) in reasons {
        text += &format!("  {n} x {reason}\n");
    }
    output::print(&text)
}
