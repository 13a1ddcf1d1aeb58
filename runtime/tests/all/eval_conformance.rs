//! The reference evaluator against the answers of XLA's CPU backend, on the conformance suites beside the checkout.
//!
//! Without the suites the tests pass and say so. By default a small sample runs; `SYSTOLE_CONFORMANCE=all` runs every
//! numeric case, `SYSTOLE_CONFORMANCE=NAME` the cases whose name contains NAME.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use systole_compiler::eval::scalar::Scalar;
use systole_compiler::eval::{EvalOptions, Host, NoHost, Tensor, Value, evaluate, evaluate_devices};
use systole_compiler::front::parse_hlo;
use systole_compiler::graph::Module;
use systole_isa::DType;
use systole_runtime::Array;

/// Cases that run by default.
const SAMPLE: [&str; 14] = [
    "abs_f32_1",
    "batch_norm_grad_a",
    "cholesky_b_true",
    "conditional_index_2",
    "conv_grouped_f32",
    "dot_batch_c64",
    "fft_rfft",
    "gather_nd",
    "all_reduce_iota_groups",
    "reduce_variadic_argmax_a",
    "rng_three_fry_u32",
    "scatter_variadic",
    "sort_stable_kv",
    "while_data_dependent",
];

/// One line of a manifest.
struct Case {
    name: String,
    replicas: usize,
    partitions: usize,
    rtol: f64,
    atol: f64,
    triangle: Option<bool>,
    numeric: bool,
    seed: u64,
    fill: Vec<serde_json::Value>,
}

fn suite(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = root.ancestors().map(|a| a.join("shared/conformance").join(name));
    beside.into_iter().find(|p| p.join("manifest.json").exists())
}

fn cases(dir: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(dir.join("manifest.json")).expect("the manifest is readable");
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).expect("the manifest is JSON");
    let case = |c: &serde_json::Value| Case {
        name: c["name"].as_str().unwrap_or_default().to_string(),
        replicas: c["replicas"].as_u64().unwrap_or(1) as usize,
        partitions: c["partitions"].as_u64().unwrap_or(1) as usize,
        rtol: c["rtol"].as_f64().unwrap_or(0.0),
        atol: c["atol"].as_f64().unwrap_or(0.0),
        triangle: c["triangle"].as_str().map(|t| t == "true"),
        numeric: c["numeric"].as_bool().unwrap_or(true),
        seed: c["seed"].as_u64().unwrap_or(0),
        fill: c["fill"].as_array().cloned().unwrap_or_default(),
    };
    all.iter().map(case).collect()
}

/// The arrays of an archive by name, in host bytes.
fn read_npz(path: &Path) -> BTreeMap<String, Tensor> {
    let arrays = systole_runtime::npz::read(&path.to_string_lossy()).expect("the archive is readable");
    arrays.into_iter().map(|(name, array)| (name, tensor(array))).collect()
}

fn tensor(array: Array) -> Tensor {
    let dims: Vec<usize> = array.dims.iter().map(|&d| d as usize).collect();
    Tensor::new(array.dtype, &dims, array.bytes)
}

/// The seeded inputs of the large cases (the suite's `fill.py` in Rust).
fn filled(seed: u64, p: u64, q: &serde_json::Value) -> Tensor {
    let dtype = DType::from_name(q["dtype"].as_str().expect("a type")).expect("a known type");
    let dims: Vec<usize> =
        q["shape"].as_array().expect("a shape").iter().map(|d| d.as_u64().unwrap_or(0) as usize).collect();
    let (lo, hi) = (q["lo"].as_f64().unwrap_or(0.0), q["hi"].as_f64().unwrap_or(1.0));
    let mut data = Vec::new();
    for j in 0..dims.iter().product::<usize>() as u64 {
        let base = j.wrapping_add((p + 1) << 40).wrapping_add(seed.wrapping_shl(56));
        let mut z = base.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let k = (z ^ z >> 31) >> 40;
        let u = lo as f32 + (hi as f32 - lo as f32) * (k as f32 / (1 << 24) as f32);
        match dtype {
            DType::S32 => data.extend((lo as i64 + (k % (hi - lo) as u64) as i64).to_le_bytes()[..4].iter()),
            DType::F32 => data.extend(u.to_le_bytes()),
            t => {
                let mut b = [0; 16];
                systole_compiler::eval::scalar::encode(t, Scalar::F(u as f64), &mut b);
                data.extend(&b[..t.host_bytes()]);
            }
        }
    }
    Tensor::new(dtype, &dims, data)
}

/// Why two arrays are not close, if they are not.
fn difference(got: &Tensor, want: &Tensor, case: &Case) -> Option<String> {
    if got.dims != want.dims || got.dtype != want.dtype {
        return Some(format!("{}{:?} for {}{:?}", got.dtype, got.dims, want.dtype, want.dims));
    }
    let columns = want.dims.last().copied().unwrap_or(1).max(1);
    let rows = want.dims.iter().rev().nth(1).copied().unwrap_or(1).max(1);
    let mut bad = 0;
    let mut first = None;
    for i in 0..want.elements() {
        let (c, r) = (i % columns, i / columns % rows);
        if case.triangle.is_some_and(|lower| if lower { c > r } else { c < r }) {
            continue;
        }
        let (g, w) = (got.get(i), want.get(i));
        let near = |g: f64, w: f64, size: f64| {
            g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= case.rtol * size + case.atol
        };
        let ok = match (g, w) {
            (Scalar::I(g), Scalar::I(w)) => g == w,
            (Scalar::F(g), Scalar::F(w)) => near(g, w, w.abs()),
            (g, w) => {
                let (g, w) = (g.complex(), w.complex());
                let size = w.0.hypot(w.1);
                near(g.0, w.0, size) && near(g.1, w.1, size)
            }
        };
        if !ok {
            bad += 1;
            first.get_or_insert((i, g, w));
        }
    }
    first.map(|(i, g, w)| format!("{bad} of {} differ, first {i}: {g:?} for {w:?}", want.elements()))
}

fn arguments(data: &BTreeMap<String, Tensor>, prefix: &str) -> Vec<Value> {
    (0..).map_while(|i| data.get(&format!("{prefix}arg{i}")).cloned().map(Value::Array)).collect()
}

fn run_case(dir: &Path, case: &Case, file: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(dir.join(file)).map_err(|e| e.to_string())?;
    let (module, _) = parse_hlo(&text).map_err(|d| format!("does not parse: {}", d[0].message))?;
    let data = read_npz(&dir.join(format!("{}.npz", case.name)));
    let opts = EvalOptions::default();
    let n = case.replicas * case.partitions;
    if n == 1 {
        let inputs = if case.fill.is_empty() {
            arguments(&data, "")
        } else {
            let fill = |(p, q): (usize, _)| Value::Array(filled(case.seed, p as u64, q));
            case.fill.iter().enumerate().map(fill).collect()
        };
        let out = evaluate(&module, &inputs, &opts).map_err(|e| e.to_string())?;
        return compare(out, &data, "", case);
    }
    let inputs: Vec<Vec<Value>> = (0..n).map(|d| arguments(&data, &format!("dev{d}."))).collect();
    let mut hosts: Vec<Box<dyn Host + Send>> = (0..n).map(|_| Box::new(NoHost) as Box<dyn Host + Send>).collect();
    let outs = evaluate_devices(&module, (case.replicas, case.partitions), &inputs, &opts, &mut hosts);
    for (d, out) in outs.map_err(|e| e.to_string())?.into_iter().enumerate() {
        compare(out, &data, &format!("dev{d}."), case)?;
    }
    Ok(())
}

fn compare(out: Value, data: &BTreeMap<String, Tensor>, prefix: &str, case: &Case) -> Result<(), String> {
    let got = out.into_leaves();
    let want: Vec<&Tensor> = (0..).map_while(|i| data.get(&format!("{prefix}out{i}"))).collect();
    if want.is_empty() || got.len() < want.len() {
        return Err(format!("{} results for {}", got.len(), want.len()));
    }
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        if let Some(why) = difference(g, w, case) {
            return Err(format!("{prefix}out{i}: {why}"));
        }
    }
    Ok(())
}

/// Runs the chosen cases of a suite and fails with a line for each that is wrong.
fn run_suite(name: &str, spmd: bool, by_default: impl Fn(&Case) -> bool) {
    let Some(dir) = suite(name) else {
        eprintln!("skipped: no suite {name} beside the checkout");
        return;
    };
    let wanted = std::env::var("SYSTOLE_CONFORMANCE").ok();
    let chosen = |c: &Case| match wanted.as_deref() {
        Some("all") => true,
        Some(part) => c.name.contains(part),
        None => by_default(c),
    };
    let (mut run, mut failures) = (0, Vec::new());
    for case in cases(&dir).iter().filter(|c| c.numeric && chosen(c)) {
        let file = if spmd { format!("{}.spmd.hlo", case.name) } else { format!("{}.hlo", case.name) };
        let start = std::time::Instant::now();
        if let Err(why) = run_case(&dir, case, &file) {
            failures.push(format!("{}: {why}", case.name));
        }
        if start.elapsed().as_secs_f64() > 1.0 {
            eprintln!("{} took {:.1} s", case.name, start.elapsed().as_secs_f64());
        }
        run += 1;
    }
    eprintln!("{name}: {} of {run} right", run - failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn ops() {
    run_suite("ops", false, |c| SAMPLE.contains(&c.name.as_str()));
}

#[test]
fn models() {
    run_suite("models", false, |c| c.name == "mlp" || c.name == "moe_top2");
}

#[test]
fn partitioned() {
    run_suite("dist", true, |c| c.name == "shardmap_collectives");
}

#[test]
fn large() {
    run_suite("large", false, |_| false);
}

/// The parser is used as the command uses it.
#[test]
fn parses_what_it_runs() {
    let module: Result<(Module, _), _> = parse_hlo("HloModule m\nENTRY e { ROOT c = s32[] constant(7) }");
    let (module, _) = module.expect("it parses");
    let out = evaluate(&module, &[], &EvalOptions::default()).expect("it runs").into_leaves();
    assert_eq!(out[0].get(0), Scalar::I(7));
}
