//! Runs points: programs are compiled once for all points with the same code (of all tasks, as far as they see each other's), run once for all with the same counters.

use crate::bad;
use crate::outcome::{Counters, OpCounters, Outcome};
use crate::plan::{Base, Plan, Point};
use crate::spec::{Code, Sample, Spec};
use crate::store::Store;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, Program};
use systole_runtime::cost::Work;
use systole_runtime::executions::Executions;
use systole_runtime::report::{Report, report};
use systole_runtime::source;
use systole_runtime::{
    Assume, Attached, Client, CompileOptions, Executable, Mode, PodOptions, Queues, RunOptions, RunResult,
    RuntimeError, generate, options, pod,
};
use systole_simulator::PodRun;

/// Operations that are kept of a run.
const KEPT: usize = 12;

/// What a point's run gave, in full.
pub struct Ran {
    pub chip: ChipConfig,
    pub program: Program,
    pub report: Report,
    pub work: Work,
    pub ops: Vec<OpCounters>,
}

/// How a point's program is compiled.
fn options(point: &Point, chip: &ChipConfig, module: (u32, u32)) -> Result<CompileOptions, RuntimeError> {
    let get = |key: &str| point.case.options.get(key);
    let count = |key: &str| -> Result<Option<u32>, RuntimeError> {
        let Some(text) = get(key) else { return Ok(None) };
        let n = text.parse().ok().filter(|n| *n > 0);
        n.map(Some).ok_or_else(|| bad(format!("{key}: `{text}` is no number from 1 on")))
    };
    let mut o = CompileOptions::default();
    o.ways.cores = count("program.cores")?;
    for name in ["precision", "collective"] {
        let Some(value) = get(&format!("program.{name}")) else { continue };
        options::set(&mut o, name, value, chip).map_err(|e| bad(format!("program.{name}: `{value}`: {e}")))?;
    }
    let (replicas, partitions) = match (count("program.replicas")?, count("program.partitions")?) {
        (None, None) => module,
        (r, p) => (r.unwrap_or(1), p.unwrap_or(1)),
    };
    let shape = get("program.topology");
    if (replicas, partitions) != (1, 1) || shape.is_some() {
        let devices = replicas.saturating_mul(partitions);
        let topology = Some(pod::topology(shape.map(String::as_str), chip, devices)?);
        o.asked.pod = PodShape { replicas, partitions, topology, ..PodShape::default() };
    }
    // One process runs one point at a time: proofs of every schedule are for tests.
    o.verify = false;
    Ok(o)
}

/// The program of a point's code.
fn compiled(spec: &Spec, point: &Point, base: &Base, bytes: &[u8]) -> Result<Program, RuntimeError> {
    let client = Client::with_chip(point.compiled_for(base, spec.code)?);
    let source = source::read_one(&point.case.program, bytes, client.chip(), false, &mut Vec::new())?;
    let options = options(point, client.chip(), source.devices())?;
    client.compile_source(source, &point.case.program, &options, None)
}

/// The program of a point's code: one that another task made, or compiled and, where points of a grid share codes, kept for others.
fn code(store: &Store, spec: &Spec, point: &Point, base: &Base, bytes: &[u8]) -> Result<Program, RuntimeError> {
    if let Some(kept) = store.code(&point.code) {
        return Ok(kept);
    }
    let made = compiled(spec, point, base, bytes)?;
    if spec.code == Code::Shared && matches!(spec.space.sample, Sample::Grid) {
        store.keep(&point.code, &made)?;
    }
    Ok(made)
}

/// Runs a compiled program for timing alone.
fn timed(spec: &Spec, client: &Client, exe: &Executable) -> Result<PodRun, RuntimeError> {
    let mut options = RunOptions::new(Mode::TimingOnly);
    options.max_cycles = spec.max_cycles.unwrap_or(u64::MAX);
    for a in &spec.assume {
        let wrong = || bad(format!("assume `{a}`: NAME=N is expected"));
        let (name, n) = a.split_once('=').ok_or_else(wrong)?;
        options.assume.push(Assume { name: name.to_string(), trips: n.parse().map_err(|_| wrong())? });
    }
    let inputs = generate::placeholders(&exe.program, 0);
    let mut queues = vec![Queues::default(); exe.program.pod.devices() as usize];
    let pods = PodOptions::default();
    Ok(client.run_pod(exe, &[inputs], &options, &pods, Attached { queues: &mut queues, ..Attached::default() })?.run)
}

/// Operations of a device, longest first.
fn operations(chip: &ChipConfig, program: &Program, r: &RunResult) -> Vec<OpCounters> {
    let executions = Executions::new(program);
    let one = |o: &systole_simulator::OpProfile| {
        let d = o.op.and_then(|i| program.debug.ops.get(i as usize));
        OpCounters {
            name: d.map_or("(none)".to_string(), |d| d.name.clone()),
            opcode: d.map_or(String::new(), |d| d.opcode.clone()),
            cycles: o.cycles,
            work: Work::of_op(chip, program, o, executions.of(r, o)),
        }
    };
    let mut ops: Vec<OpCounters> = r.ops.iter().map(one).collect();
    ops.sort_by(|a, b| b.cycles.cmp(&a.cycles).then_with(|| a.name.cmp(&b.name)));
    ops
}

fn finished(chip: &ChipConfig, program: &Program, done: &PodRun) -> Ran {
    let ran = systole_runtime::Ran::new(&program.name, chip, program, Mode::TimingOnly);
    let report = report(&ran, done);
    let work = Work::of_pod(chip, program, done);
    let slowest = done.devices.iter().max_by_key(|d| d.cycles);
    let ops = slowest.map(|r| operations(chip, program, r)).unwrap_or_default();
    Ran { chip: chip.clone(), program: program.clone(), report, work, ops }
}

fn counters(ran: Ran) -> Counters {
    let Ran { chip, program, report, work, mut ops } = ran;
    ops.truncate(KEPT);
    let mut busy: BTreeMap<String, f64> = BTreeMap::new();
    for u in &report.units {
        let kind = if u.unit.starts_with("mxu") { "mxu" } else { u.unit.as_str() };
        let share = u.busy as f64 / report.cycles.max(1) as f64;
        let most = busy.entry(kind.to_string()).or_default();
        *most = most.max(share);
    }
    busy.insert("hbm".into(), report.hbm.share);
    // Where products of several types ran, what their rates come to together.
    let at_peak = report.peak_share * report.cycles as f64;
    Counters {
        cycles: report.cycles,
        devices: program.pod.devices(),
        flops: report.flops,
        peak_per_cycle: match at_peak > 0.0 {
            true => report.flops / at_peak,
            false => chip.peak_flops_per_cycle(systole_isa::DType::BF16),
        },
        bound: report.bound.to_string(),
        busy,
        work,
        ops,
    }
}

/// Runs one point from its program's bytes: to look at it more closely.
///
/// # Errors
/// What the point's row says.
pub fn one(store: &Store, plan: &Plan, spec: &Spec, point: &Point) -> Result<Ran, RuntimeError> {
    if let Some(why) = &point.refused {
        return Err(bad(why.clone()));
    }
    let path = store.program(plan, &point.case.program)?;
    let bytes = std::fs::read(&path).map_err(|e| bad(format!("{}: {e}", path.display())))?;
    let base = plan.base(point)?;
    let program = code(store, spec, point, base, &bytes)?;
    let client = Client::with_chip(point.chip(base)?);
    let exe = client.load(program)?;
    let done = timed(spec, &client, &exe)?;
    Ok(finished(client.chip(), &exe.program, &done))
}

/// Seconds that a point takes to compile and to run.
///
/// # Errors
/// What the point's row says.
pub fn measure(
    spec: &Spec,
    plan: &Plan,
    point: &Point,
    bytes: &BTreeMap<String, Vec<u8>>,
) -> Result<(f64, f64), RuntimeError> {
    let start = Instant::now();
    let base = plan.base(point)?;
    let program = compiled(spec, point, base, bytes.get(&point.case.program).map_or(&[][..], Vec::as_slice))?;
    let compile = start.elapsed().as_secs_f64();
    let client = Client::with_chip(point.chip(base)?);
    let exe = client.load(program)?;
    timed(spec, &client, &exe)?;
    Ok((compile, start.elapsed().as_secs_f64() - compile))
}

/// A code that was made, or why not.
type Made = Result<Program, String>;

/// What is kept between points.
#[derive(Default)]
struct Last {
    code: Option<(String, Made)>,
    run: Option<(String, Result<Counters, String>)>,
    program: Option<(String, Vec<u8>)>,
}

/// The text of an error in one line.
fn line(e: &RuntimeError) -> String {
    let text = e.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines.join(" / ").chars().take(600).collect()
}

/// Runs something of which a bug may panic.
fn guarded<T>(what: impl FnOnce() -> Result<T, RuntimeError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(Ok(t)) => Ok(t),
        Ok(Err(e)) => Err(line(&e)),
        Err(p) => {
            let text = p.downcast_ref::<String>().cloned().or_else(|| p.downcast_ref::<&str>().map(|s| s.to_string()));
            Err(format!("internal error (a bug in systole): {}", text.unwrap_or_default()))
        }
    }
}

fn run_point(store: &Store, plan: &Plan, spec: &Spec, point: &Point, last: &mut Last) -> Result<Counters, String> {
    if let Some(why) = &point.refused {
        return Err(why.clone());
    }
    if let Some((run, result)) = &last.run
        && *run == point.run
    {
        return result.clone();
    }
    let base = plan.base(point).map_err(|e| line(&e))?;
    if last.program.as_ref().is_none_or(|p| p.0 != point.case.program) {
        let path = store.program(plan, &point.case.program).map_err(|e| line(&e))?;
        let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        last.program = Some((point.case.program.clone(), bytes));
    }
    if last.code.as_ref().is_none_or(|c| c.0 != point.code) {
        let bytes = last.program.as_ref().map_or(&[][..], |p| &p.1);
        last.code = Some((point.code.clone(), guarded(|| code(store, spec, point, base, bytes))));
    }
    let result = match last.code.as_ref().map(|c| &c.1) {
        Some(Ok(program)) => guarded(|| {
            let client = Client::with_chip(point.chip(base)?);
            let exe = client.load(program.clone())?;
            let done = timed(spec, &client, &exe)?;
            Ok(counters(finished(client.chip(), &exe.program, &done)))
        }),
        Some(Err(why)) => Err(why.clone()),
        None => Err("no code".to_string()),
    };
    last.run = Some((point.run.clone(), result.clone()));
    result
}

/// Results are stored this often while a task runs.
const STORED_EVERY: Duration = Duration::from_secs(2);

/// Runs points in order and stores their results under `name`; how many failed. What is done is stored every two
/// seconds, so that little is lost if the process ends.
///
/// # Errors
/// If the folder is damaged or cannot be written. Points that fail are results.
pub fn task(store: &Store, ids: &[String], name: &str) -> Result<usize, RuntimeError> {
    let (plan, spec) = (store.plan()?, store.spec()?);
    let by_id: BTreeMap<&str, &Point> = plan.points.iter().map(|p| (p.case.id.as_str(), p)).collect();
    let mut last = Last::default();
    let mut outcomes = Vec::new();
    let mut stored = Instant::now();
    for id in ids {
        let point = by_id.get(id.as_str()).ok_or_else(|| bad(format!("no point {id} is in the plan")))?;
        let result = run_point(store, &plan, &spec, point, &mut last);
        outcomes.push(match result {
            Ok(run) => Outcome { id: id.clone(), reason: None, run: Some(run) },
            Err(why) => Outcome { id: id.clone(), reason: Some(why), run: None },
        });
        if stored.elapsed() >= STORED_EVERY {
            store.put(name, &outcomes)?;
            stored = Instant::now();
        }
    }
    store.put(name, &outcomes)?;
    Ok(outcomes.iter().filter(|o| o.run.is_none()).count())
}
