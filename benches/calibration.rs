//! Compares simulated times with the published ones of `calibration.toml`.
//!
//! `cargo bench --bench calibration [-- WORD...]` runs the series whose names contain one of the words (default: all),
//! timing-only. The error of a point is `|simulated + floor - measured| / measured`. A point is scored if its time was
//! measured on the device, or is at least three times its floor (where long calls have a longer one: three times that). Series are summed up in two groups: those whose points were
//! used for choosing parameters of the chip files, and those that were not.
//!
//! Softmax and layer norm are eager: a program for every operation, one after the other.

use serde::Deserialize;
use systole_isa::ChipConfig;
use systole_isa::chip::Quantity;
use systole_isa::program::PodShape;
use systole_runtime::pod::{self, Attached, PodOptions};
use systole_runtime::{Client, CompileOptions, Mode, Ran, RunOptions, generate, report, source};

#[derive(Deserialize)]
struct Calibration {
    series: Vec<Series>,
}

/// Points that share all but their shape.
#[derive(Deserialize)]
struct Series {
    name: String,
    chip: String,
    op: String,
    dtype: String,
    timing: String,
    source: String,
    /// What long calls have besides the device's time, where the source says so: short ones have less, and what lies between is
    /// not known.
    #[serde(default)]
    long_floor: f64,
    #[serde(default)]
    set: Vec<String>,
    /// The most that one kernel may use of vector memory.
    scoped_vmem: Option<String>,
    /// The parameters that were chosen with these points.
    chosen: Option<String>,
    /// Of Pallas kernels: the file.
    #[serde(default)]
    kernel: String,
    /// Of collectives: devices, their topology, and who exchanges with whom (`ROWS`: those along the last axis).
    #[serde(default)]
    devices: u32,
    #[serde(default)]
    topology: String,
    #[serde(default)]
    groups: String,
    /// Of collectives: the algorithm that was measured, where it is not the one that a compiler would choose here.
    collective: Option<String>,
    /// Of products: the type of the result, where it is not the operands'.
    result: Option<String>,
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    shape: Vec<u64>,
    us: f64,
    floor: f64,
}

const REDUCERS: &str = "
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
";

/// Softmax over rows, operation by operation.
const SOFTMAX: [&str; 5] = [
    "x = f32[M,N] parameter(0)
  low = f32[] constant(-inf)
  ROOT top = f32[M] reduce(x, low), dimensions={1}, to_apply=max",
    "x = f32[M,N] parameter(0)
  top = f32[M] parameter(1)
  tops = f32[M,N] broadcast(top), dimensions={0}
  ROOT d = f32[M,N] subtract(x, tops)",
    "d = f32[M,N] parameter(0)
  ROOT p = f32[M,N] exponential(d)",
    "p = f32[M,N] parameter(0)
  zero = f32[] constant(0)
  ROOT sum = f32[M] reduce(p, zero), dimensions={1}, to_apply=add",
    "p = f32[M,N] parameter(0)
  sum = f32[M] parameter(1)
  sums = f32[M,N] broadcast(sum), dimensions={0}
  ROOT r = f32[M,N] divide(p, sums)",
];

/// The means of the rows of an array are the result.
macro_rules! means {
    ($array:literal) => {
        concat!(
            "
  zero = f32[] constant(0)
  sum = f32[M] reduce(",
            $array,
            ", zero), dimensions={1}, to_apply=add
  n = f32[] constant(N)
  ns = f32[M] broadcast(n), dimensions={}
  ROOT r = f32[M] divide(sum, ns)"
        )
    };
}

/// Layer norm over rows: mean, variance, result.
const LAYERNORM: [&str; 3] = [
    concat!("x = f32[M,N] parameter(0)", means!("x")),
    concat!(
        "x = f32[M,N] parameter(0)
  mean = f32[M] parameter(1)
  means = f32[M,N] broadcast(mean), dimensions={0}
  d = f32[M,N] subtract(x, means)
  q = f32[M,N] multiply(d, d)",
        means!("q")
    ),
    "x = f32[M,N] parameter(0)
  mean = f32[M] parameter(1)
  var = f32[M] parameter(2)
  means = f32[M,N] broadcast(mean), dimensions={0}
  d = f32[M,N] subtract(x, means)
  eps = f32[] constant(1e-05)
  epss = f32[M] broadcast(eps), dimensions={}
  ve = f32[M] add(var, epss)
  w = f32[M] rsqrt(ve)
  ws = f32[M,N] broadcast(w), dimensions={0}
  ROOT r = f32[M,N] multiply(d, ws)",
];

const GELU: &str = "
ENTRY e {
  x = TYPE[N] parameter(0)
  x2 = TYPE[N] multiply(x, x)
  x3 = TYPE[N] multiply(x2, x)
  a = TYPE[] constant(0.044715)
  as = TYPE[N] broadcast(a), dimensions={}
  ax = TYPE[N] multiply(as, x3)
  s = TYPE[N] add(x, ax)
  b = TYPE[] constant(0.797884583)
  bs = TYPE[N] broadcast(b), dimensions={}
  u = TYPE[N] multiply(bs, s)
  t = TYPE[N] tanh(u)
  one = TYPE[] constant(1)
  ones = TYPE[N] broadcast(one), dimensions={}
  t1 = TYPE[N] add(t, ones)
  h = TYPE[] constant(0.5)
  hs = TYPE[N] broadcast(h), dimensions={}
  c = TYPE[N] multiply(t1, hs)
  ROOT r = TYPE[N] multiply(x, c)
}
";

/// A product's program; `epilogue` makes the root of it.
fn product(dtype: &str, [b, m, k, n]: [u64; 4], transposed: bool, epilogue: &str) -> String {
    let out = if dtype == "s8" { "s32" } else { dtype };
    // One product has no batch dimension.
    let (batch, one, first) = if b == 0 { (String::new(), "", 0) } else { (format!("{b},"), "0", 1) };
    let (rhs, contracted) = if transposed { ([n, k], first + 1) } else { ([k, n], first) };
    format!(
        "ENTRY e {{\n  a = {dtype}[{batch}{m},{k}] parameter(0)\n  b = {dtype}[{batch}{},{}] parameter(1)\n  \
         {}c = {out}[{batch}{m},{n}] dot(a, b), lhs_batch_dims={{{one}}}, rhs_batch_dims={{{one}}}, \
         lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{contracted}}}\n{epilogue}}}\n",
        rhs[0],
        rhs[1],
        if epilogue.is_empty() { "ROOT " } else { "" },
        first + 1,
    )
}

/// Devices in rows of so many.
fn rows(devices: u32, members: u64) -> String {
    let row = |first: u64| (first..first + members).map(|d| d.to_string()).collect::<Vec<_>>().join(",");
    let all = (0..u64::from(devices)).step_by(members.max(1) as usize).map(|first| format!("{{{}}}", row(first)));
    format!("{{{}}}", all.collect::<Vec<_>>().join(","))
}

/// The programs of a point, run one after the other, as HLO or StableHLO text.
fn programs(series: &Series, shape: &[u64]) -> Result<Vec<String>, String> {
    let (op, dtype) = (series.op.as_str(), series.dtype.as_str());
    if let ("pallas", &[size]) = (op, shape) {
        let name = series.kernel.replace("SIZE", &size.to_string());
        let path = format!("{}/benches/kernels/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
        return Ok(vec![std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?]);
    }
    let groups = match (series.groups.as_str(), shape.last()) {
        ("ROWS", Some(&members)) => rows(series.devices, members),
        (given, _) => given.to_string(),
    };
    let fill = |text: &str, m: u64, n: u64| {
        let body = text.replace("[M,N]", &format!("[{m},{n}]")).replace("[M]", &format!("[{m}]"));
        body.replace("[N]", &format!("[{n}]")).replace("constant(N)", &format!("constant({n})"))
    };
    let eager = |texts: &[&str], m: u64, n: u64| {
        texts.iter().map(|t| format!("{REDUCERS}ENTRY e {{\n  {}\n}}\n", fill(t, m, n))).collect()
    };
    let texts: Vec<String> = match (op, shape) {
        ("matmul", &[m, k, n]) => {
            let text = product(dtype, [0, m, k, n], false, "");
            let result = series.result.as_deref().unwrap_or(dtype);
            vec![text.replace(&format!("c = {dtype}["), &format!("c = {result}["))]
        }
        ("matmul-t", &[m, k, n]) => vec![product(dtype, [0, m, k, n], true, "")],
        ("matmul-relu", &[m, k, n]) => {
            let relu = format!(
                "  zero = {dtype}[] constant(0)\n  zeros = {dtype}[{m},{n}] broadcast(zero), dimensions={{}}\n  \
                 ROOT r = {dtype}[{m},{n}] maximum(c, zeros)\n"
            );
            vec![product(dtype, [0, m, k, n], false, &relu)]
        }
        ("batched", &[b, m, k, n]) => vec![product(dtype, [b, m, k, n], false, "")],
        ("batched-t", &[b, m, k, n]) => vec![product(dtype, [b, m, k, n], true, "")],
        ("copy", &[bytes]) => {
            let rows = bytes / 4096;
            vec![format!("ENTRY e {{\n  a = f32[{rows},1024] parameter(0)\n  ROOT c = f32[{rows},1024] copy(a)\n}}\n")]
        }
        ("softmax", &[m, n]) => eager(&SOFTMAX, m, n),
        ("layernorm", &[m, n]) => eager(&LAYERNORM, m, n),
        ("gelu", &[n]) => vec![fill(GELU, 1, n)],
        ("all-gather", &[parts, m, n, members]) => vec![format!(
            "ENTRY e {{\n  x = {dtype}[{},{m},{n}] parameter(0)\n  ROOT r = {dtype}[{parts},{m},{n}] all-gather(x), \
             replica_groups={groups}, dimensions={{0}}\n}}\n",
            parts / members
        )],
        ("all-reduce", &[elements]) => vec![format!(
            "add {{ a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT c = TYPE[] add(a, b) }}\nENTRY e {{\n  \
             x = {dtype}[{elements}] parameter(0)\n  ROOT r = {dtype}[{elements}] all-reduce(x), \
             replica_groups={groups}, to_apply=add\n}}\n"
        )],
        _ => return Err(format!("no program for `{op}` of shape {shape:?}")),
    };
    Ok(texts.iter().map(|t| format!("HloModule {op}\n{}", t.replace("TYPE", dtype))).collect())
}

/// Simulated microseconds of a point, its share of peak, and what bounds it (of the longest program).
fn simulate(series: &Series, shape: &[u64]) -> Result<(f64, f64, String), String> {
    let mut chip = ChipConfig::from_preset(&series.chip).map_err(|e| e.to_string())?;
    chip.apply_sets(&series.set).map_err(|e| e.to_string())?;
    let client = Client::with_chip(chip);
    let mut compile = CompileOptions::default();
    if let Some(size) = &series.scoped_vmem {
        let bytes = Quantity::Bytes.parse(size).ok_or_else(|| format!("scoped_vmem = {size}"))?;
        compile.guide.scoped_vmem = Some(bytes as u64);
    }
    if let Some(name) = &series.collective {
        systole_runtime::options::set(&mut compile, "collective", name, client.chip())?;
    }
    if series.devices > 1 {
        let topology = pod::topology(Some(&series.topology), client.chip(), series.devices);
        let topology = Some(topology.map_err(|e| e.to_string())?);
        compile.asked.pod = PodShape { replicas: series.devices, topology, ..PodShape::default() };
    }
    let (mut all, mut longest) = (0.0, (0.0, 0.0, String::new()));
    for text in programs(series, shape)? {
        let one = simulate_one(&client, &text, &compile)?;
        all += one.0;
        longest = if one.0 > longest.0 { one } else { longest };
    }
    Ok((all, longest.1, longest.2))
}

/// Simulated microseconds of a program, its share of peak, and what bounds it.
fn simulate_one(client: &Client, text: &str, compile: &CompileOptions) -> Result<(f64, f64, String), String> {
    let source = source::read_one("point", text.as_bytes(), client.chip(), false, &mut Vec::new());
    let program = client.compile_source(source.map_err(|e| e.to_string())?, "point", compile, None);
    let exe = client.load(program.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let inputs = generate::placeholders(&exe.program, 0);
    let options = RunOptions::new(Mode::TimingOnly);
    let pods = PodOptions::default();
    let done = client.run_pod(&exe, &[inputs], &options, &pods, Attached::default());
    let done = done.map_err(|e| e.to_string())?;
    let r = report(&Ran::new(&exe.program.name, client.chip(), &exe.program, Mode::TimingOnly), &done.run);
    Ok((r.time_s * 1e6, r.peak_share, r.bound))
}

/// The errors of a series' scored points; prints a line for each point.
fn compare(s: &Series, failed: &mut u32) -> Vec<f64> {
    let scope = s.scoped_vmem.as_ref().map_or(String::new(), |b| format!("scoped {b}"));
    println!("\n{} ({}, {} {} {scope}, {})", s.name, s.chip, s.dtype, s.set.join(" "), s.source);
    println!("{:<24} {:>11} {:>11} {:>8} {:>8}  peak  bound", "shape", "measured us", "simulated", "floor", "error");
    let mut own: Vec<f64> = Vec::new();
    for p in &s.points {
        let shape = format!("{:?}", p.shape);
        match simulate(s, &p.shape) {
            Ok((us, peak, bound)) => {
                let long = s.long_floor.max(p.floor);
                let counts = s.timing == "device" || p.us >= 3.0 * long;
                let floor = if counts { long } else { p.floor };
                let error = (us + floor - p.us) / p.us;
                if counts {
                    own.push(error.abs());
                }
                println!(
                    "{shape:<24} {:>11.2} {us:>11.2} {:>8.1} {:>+7.1}%{} {:>4.0}%  {bound}",
                    p.us,
                    floor,
                    error * 100.0,
                    if counts { ' ' } else { '*' },
                    peak * 100.0
                );
            }
            Err(e) => {
                *failed += 1;
                println!("{shape:<24} {:>11.2} failed: {}", p.us, e.lines().next().unwrap_or_default());
            }
        }
    }
    own
}

fn mean(errors: &[f64]) -> f64 {
    100.0 * errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

/// One group's table.
fn table(title: &str, rows: &[(&Series, Vec<f64>)]) {
    println!("\n{title}:");
    for (s, own) in rows.iter().filter(|r| !r.1.is_empty()) {
        println!("| {} | {} | {} | {:.1} % |", s.name, s.chosen.as_deref().unwrap_or(""), own.len(), mean(own));
    }
    let of = |timing: &str| -> Vec<f64> {
        rows.iter().filter(|r| timing.is_empty() || r.0.timing == timing).flat_map(|r| r.1.clone()).collect()
    };
    let (all, device, host) = (of(""), of("device"), of("host"));
    println!("mean error {:.1} % over {} scored points", mean(&all), all.len());
    println!(
        "  on the device {:.1} % of {}, by the host {:.1} % of {}",
        mean(&device),
        device.len(),
        mean(&host),
        host.len()
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let all: Calibration = toml::from_str(include_str!("calibration.toml"))?;
    let mut failed = 0;
    let wanted = |s: &&Series| words.is_empty() || words.iter().any(|w| s.name.contains(w.as_str()));
    let rows: Vec<(&Series, Vec<f64>)> =
        all.series.iter().filter(wanted).map(|s| (s, compare(s, &mut failed))).collect();
    let (used, not): (Vec<_>, Vec<_>) = rows.into_iter().partition(|r| r.0.chosen.is_some());
    table("used for choosing parameters", &used);
    table("not used", &not);
    println!("{failed} failed (* not scored)");
    Ok(())
}
