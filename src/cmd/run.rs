//! `systole run`: compile, give inputs, simulate, report.

use std::collections::BTreeMap;
use std::time::Instant;
use systole_compiler::graph::Precision;
use systole_isa::ChipConfig;
use systole_runtime::report::HostReport;
use systole_runtime::{
    Array, Assume, Client, CompileOptions, Mode, NoObserver, RunOptions, RuntimeError, generate, npz, report, source,
};

/// Flags of `systole run`.
#[derive(clap::Args)]
pub struct Args {
    /// HLO text, assembly, or a compiled program
    module: String,
    /// Chip preset or chip file
    #[arg(long, default_value = "tpu-v5e")]
    chip: String,
    /// Overrides a chip parameter, e.g. `mxu.rows=256`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Inputs: arrays arg0, arg1, .. of an .npz file (else drawn from the seed)
    #[arg(long)]
    inputs: Option<String>,
    /// Writes the results out0, out1, .. to an .npz file
    #[arg(long)]
    outputs: Option<String>,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value_t = 1)]
    replicas: u32,
    #[arg(long, default_value_t = 1)]
    partitions: u32,
    /// Least precision of f32 products: default, high or highest
    #[arg(long, default_value = "default")]
    precision: String,
    /// Cycles only, no tensor data
    #[arg(long, conflicts_with = "numeric_only")]
    timing_only: bool,
    /// Numbers only, no cycles
    #[arg(long)]
    numeric_only: bool,
    /// Simulates every iteration of loops
    #[arg(long)]
    no_loop_skip: bool,
    /// Trip count of a loop whose condition depends on data (timing-only), by HLO name
    #[arg(long, value_name = "NAME=N")]
    assume: Vec<String>,
    /// `none`: no constants are evaluated at compile time
    #[arg(long, default_value = "small")]
    fold: String,
    /// Random legal schedules and latencies from this seed
    #[arg(long)]
    chaos: Option<u64>,
    /// `json`: the report as data
    #[arg(long)]
    report: Option<String>,
}

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// The chip of `--chip` with its `--set` overrides.
pub fn chip(name: &str, set: &[String]) -> Result<ChipConfig, RuntimeError> {
    let mut chip = if std::path::Path::new(name).extension().is_some_and(|e| e == "toml") {
        let text = std::fs::read_to_string(name).map_err(|e| bad(format!("{name}: {e}")))?;
        ChipConfig::from_toml(&text, name).map_err(|e| bad(e.to_string()))?
    } else {
        ChipConfig::from_preset(name).map_err(|e| bad(e.to_string()))?
    };
    chip.apply_sets(set).map_err(|e| bad(e.to_string()))?;
    Ok(chip)
}

fn precision(name: &str) -> Result<Precision, RuntimeError> {
    match name {
        "default" => Ok(Precision::Default),
        "high" => Ok(Precision::High),
        "highest" => Ok(Precision::Highest),
        _ => Err(bad(format!("unknown precision `{name}` (default, high or highest)"))),
    }
}

/// Inputs by number from a file's arrays.
fn from_file(path: &str, count: usize) -> Result<Vec<Array>, RuntimeError> {
    let mut all: BTreeMap<String, Array> = npz::read(path)?;
    (0..count)
        .map(|i| {
            let name = format!("arg{i}");
            let found = all.remove(&name).or_else(|| all.remove(&format!("dev0.{name}")));
            found.ok_or_else(|| bad(format!("{path}: no array `{name}` (the program takes {count})")))
        })
        .collect()
}

/// Runs the subcommand.
pub fn run(a: Args) -> Result<(), RuntimeError> {
    if a.replicas != 1 || a.partitions != 1 {
        return Err(bad("programs for several devices are not run by this version"));
    }
    let client = Client::with_chip(chip(&a.chip, &a.set)?);
    let mut host = HostReport::default();
    let start = Instant::now();
    let bytes = std::fs::read(&a.module).map_err(|e| bad(format!("{}: {e}", a.module)))?;
    let mut warnings = Vec::new();
    let source = source::read(&a.module, &bytes, client.chip(), false, &mut warnings)?;
    for w in &warnings {
        eprintln!("{}", w.trim_end());
    }
    host.parse_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let options = CompileOptions {
        precision: precision(&a.precision)?,
        fold: a.fold != "none",
        chaos: a.chaos,
        ..CompileOptions::default()
    };
    let program = client.compile_source(source, &a.module, &options, None)?;
    let exe = client.load(program)?;
    host.compile_s = start.elapsed().as_secs_f64();
    let mode = match (a.timing_only, a.numeric_only) {
        (true, _) => Mode::TimingOnly,
        (_, true) => Mode::NumericOnly,
        _ => Mode::Full,
    };
    let params = &exe.program.params;
    let inputs = match &a.inputs {
        Some(path) => from_file(path, params.len())?,
        None => params
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let elements = p.layout.dims.iter().product::<u64>();
                if mode == Mode::TimingOnly && (p.layout.dtype.is_float() || elements > 1024) {
                    Array { dtype: p.layout.dtype, dims: p.layout.dims.clone(), bytes: Vec::new() }
                } else {
                    generate::input(a.seed, i as u64, p.layout.dtype, &p.layout.dims)
                }
            })
            .collect(),
    };
    let mut run = RunOptions::new(mode);
    run.loop_skip = !a.no_loop_skip;
    run.chaos = a.chaos;
    run.threads = std::thread::available_parallelism().map_or(1, usize::from);
    for s in &a.assume {
        let (name, n) = s.split_once('=').ok_or_else(|| bad(format!("--assume {s}: NAME=N is expected")))?;
        let trips = n.parse().map_err(|_| bad(format!("--assume {s}: `{n}` is no number")))?;
        run.assume.push(Assume { name: name.to_string(), trips });
    }
    let start = Instant::now();
    let done = client.device(0).run_with(&exe, &inputs, &run, &mut NoObserver)?;
    host.simulate_s = start.elapsed().as_secs_f64();
    host.peak_rss_bytes = peak_rss();
    host.cycles_per_s = done.result.cycles as f64 / host.simulate_s.max(1e-9);
    if let Some(path) = &a.outputs {
        let named: Vec<(String, &Array)> =
            done.outputs.iter().enumerate().map(|(i, o)| (format!("out{i}"), o)).collect();
        npz::write(path, &named)?;
    }
    let report = report(client.chip(), &exe.program, &done.result, host);
    if a.report.as_deref() == Some("json") {
        let text = serde_json::to_string_pretty(&report).map_err(|e| bad(e.to_string()))?;
        println!("{text}");
    } else {
        println!("{} cycles, {:.3e} s, {:.1} % of peak", report.cycles, report.time_s, report.peak_share * 100.0);
    }
    Ok(())
}

/// Peak resident memory of this process in bytes, where the system tells.
fn peak_rss() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map_or(0, |k| k * 1024)
}
