//! Compares simulated times with the published ones of `calibration.toml`.
//!
//! `cargo bench --bench calibration [-- WORD...]` runs the series whose names contain one of the words (default: all),
//! timing-only. The error of a point is `|simulated + floor - measured| / measured`. A point is scored if its time was
//! measured on the device, or is at least three times its floor.

use serde::Deserialize;
use systole_isa::ChipConfig;
use systole_isa::program::PodShape;
use systole_runtime::pod::{self, PodOptions};
use systole_runtime::report::HostReport;
use systole_runtime::{Array, Client, CompileOptions, Mode, NoObserver, RunOptions, report};

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
    #[serde(default)]
    set: Vec<String>,
    /// Of collectives: devices, their topology, and who exchanges with whom.
    #[serde(default)]
    devices: u32,
    #[serde(default)]
    topology: String,
    #[serde(default)]
    groups: String,
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    shape: Vec<u64>,
    us: f64,
    floor: f64,
}

const SCALAR_REDUCERS: &str = "
max { a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT c = TYPE[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
";

const SOFTMAX: &str = "
ENTRY e {
  x = TYPE[M,N] parameter(0)
  low = TYPE[] constant(-inf)
  top = TYPE[M] reduce(x, low), dimensions={1}, to_apply=max
  tops = TYPE[M,N] broadcast(top), dimensions={0}
  d = TYPE[M,N] subtract(x, tops)
  p = TYPE[M,N] exponential(d)
  pf = f32[M,N] convert(p)
  zero = f32[] constant(0)
  sum = f32[M] reduce(pf, zero), dimensions={1}, to_apply=add
  s = TYPE[M] convert(sum)
  ss = TYPE[M,N] broadcast(s), dimensions={0}
  ROOT r = TYPE[M,N] divide(p, ss)
}
";

const LAYERNORM: &str = "
ENTRY e {
  x = TYPE[M,N] parameter(0)
  f = f32[M,N] convert(x)
  zero = f32[] constant(0)
  n = f32[] constant(N)
  ns = f32[M] broadcast(n), dimensions={}
  sum = f32[M] reduce(f, zero), dimensions={1}, to_apply=add
  mean = f32[M] divide(sum, ns)
  means = f32[M,N] broadcast(mean), dimensions={0}
  d = f32[M,N] subtract(f, means)
  q = f32[M,N] multiply(d, d)
  qs = f32[M] reduce(q, zero), dimensions={1}, to_apply=add
  var = f32[M] divide(qs, ns)
  eps = f32[] constant(1e-05)
  epss = f32[M] broadcast(eps), dimensions={}
  ve = f32[M] add(var, epss)
  w = f32[M] rsqrt(ve)
  ws = f32[M,N] broadcast(w), dimensions={0}
  y = f32[M,N] multiply(d, ws)
  ROOT r = TYPE[M,N] convert(y)
}
";

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

/// The program of a point as HLO text.
fn program(series: &Series, shape: &[u64]) -> Result<String, String> {
    let (op, dtype, groups) = (series.op.as_str(), series.dtype.as_str(), &series.groups);
    let fill = |text: &str, m: u64, n: u64| {
        let body = text.replace("[M,N]", &format!("[{m},{n}]")).replace("[M]", &format!("[{m}]"));
        body.replace("[N]", &format!("[{n}]")).replace("constant(N)", &format!("constant({n})"))
    };
    let text = match (op, shape) {
        ("matmul", &[m, k, n]) => {
            let out = if dtype == "s8" { "s32" } else { dtype };
            format!(
                "ENTRY e {{\n  a = {dtype}[{m},{k}] parameter(0)\n  b = {dtype}[{k},{n}] parameter(1)\n  \
                 ROOT c = {out}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
            )
        }
        ("copy", &[bytes]) => {
            let rows = bytes / 4096;
            format!("ENTRY e {{\n  a = f32[{rows},1024] parameter(0)\n  ROOT c = f32[{rows},1024] copy(a)\n}}\n")
        }
        ("softmax", &[m, n]) => SCALAR_REDUCERS.to_string() + &fill(SOFTMAX, m, n),
        ("layernorm", &[m, n]) => SCALAR_REDUCERS.to_string() + &fill(LAYERNORM, m, n),
        ("gelu", &[n]) => fill(GELU, 1, n),
        ("all-gather", &[parts, m, n, members]) => format!(
            "ENTRY e {{\n  x = {dtype}[{},{m},{n}] parameter(0)\n  ROOT r = {dtype}[{parts},{m},{n}] all-gather(x), \
             replica_groups={groups}, dimensions={{0}}\n}}\n",
            parts / members
        ),
        ("all-reduce", &[elements]) => format!(
            "add {{ a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT c = TYPE[] add(a, b) }}\nENTRY e {{\n  \
             x = {dtype}[{elements}] parameter(0)\n  ROOT r = {dtype}[{elements}] all-reduce(x), \
             replica_groups={groups}, to_apply=add\n}}\n"
        ),
        _ => return Err(format!("no program for `{op}` of shape {shape:?}")),
    };
    Ok(format!("HloModule {op}\n{}", text.replace("TYPE", dtype)))
}

/// Simulated microseconds of a point, its share of peak, and what bounds it.
fn simulate(series: &Series, shape: &[u64]) -> Result<(f64, f64, &'static str), String> {
    let mut chip = ChipConfig::from_preset(&series.chip).map_err(|e| e.to_string())?;
    chip.apply_sets(&series.set).map_err(|e| e.to_string())?;
    let client = Client::with_chip(chip);
    let text = program(series, shape)?;
    let mut compile = CompileOptions::default();
    if series.devices > 1 {
        let topology = pod::topology(Some(&series.topology), client.chip(), series.devices);
        let topology = Some(topology.map_err(|e| e.to_string())?);
        compile.pod = PodShape { replicas: series.devices, topology, ..PodShape::default() };
    }
    let exe = client.compile_hlo(&text, &compile).map_err(|e| e.to_string())?;
    let params = exe.program.params.iter();
    let inputs: Vec<Array> =
        params.map(|p| Array { dtype: p.layout.dtype, dims: p.layout.dims.clone(), bytes: Vec::new() }).collect();
    let options = RunOptions::new(Mode::TimingOnly);
    if series.devices > 1 {
        let (mut none, pods) = (NoObserver, PodOptions::default());
        let done = client.run_pod(&exe, &[inputs], &options, &pods, &mut none, &mut [], Vec::new());
        let done = done.map_err(|e| e.to_string())?;
        let r = report::pod::report(client.chip(), &exe.program, &done.run, HostReport::default());
        return Ok((r.time_s * 1e6, r.peak_share, r.bound));
    }
    let done = client.device(0).run_with(&exe, &inputs, &options, &mut NoObserver).map_err(|e| e.to_string())?;
    let r = report::report(client.chip(), &exe.program, &done.result, HostReport::default());
    Ok((r.time_s * 1e6, r.peak_share, r.bound))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let all: Calibration = toml::from_str(include_str!("calibration.toml"))?;
    let mut scored: Vec<f64> = Vec::new();
    let mut failed = 0;
    for s in all.series.iter().filter(|s| words.is_empty() || words.iter().any(|w| s.name.contains(w.as_str()))) {
        println!("\n{} ({}, {} {}, {})", s.name, s.chip, s.dtype, s.set.join(" "), s.source);
        println!(
            "{:<24} {:>11} {:>11} {:>8} {:>8}  peak  bound",
            "shape", "measured us", "simulated", "floor", "error"
        );
        let mut own: Vec<f64> = Vec::new();
        for p in &s.points {
            let shape = format!("{:?}", p.shape);
            match simulate(s, &p.shape) {
                Ok((us, peak, bound)) => {
                    let error = (us + p.floor - p.us) / p.us;
                    let counts = s.timing == "device" || p.us >= 3.0 * p.floor;
                    if counts {
                        own.push(error.abs());
                    }
                    println!(
                        "{shape:<24} {:>11.2} {us:>11.2} {:>8.1} {:>+7.1}%{} {:>4.0}%  {bound}",
                        p.us,
                        p.floor,
                        error * 100.0,
                        if counts { ' ' } else { '*' },
                        peak * 100.0
                    );
                }
                Err(e) => {
                    failed += 1;
                    println!("{shape:<24} {:>11.2} failed: {}", p.us, e.lines().next().unwrap_or_default());
                }
            }
        }
        if !own.is_empty() {
            println!("mean error {:.1} % of {} scored", 100.0 * own.iter().sum::<f64>() / own.len() as f64, own.len());
        }
        scored.extend(own);
    }
    let mean = scored.iter().sum::<f64>() / scored.len().max(1) as f64;
    println!("\nmean error {:.1} % over {} scored points, {failed} failed (* not scored)", mean * 100.0, scored.len());
    Ok(())
}
