//! Whole programs by the built command: cycles, share of the chip's peak, and what the simulation itself costs.
//!
//! `cargo bench --bench programs [-- WORD...]` runs the programs whose names contain one of the words (default: all):
//! matrix products, and the large models of the conformance suites where those lie beside the checkout. All are timing-only
//! from HLO text but those marked `full`, which compute their numbers, and those marked `binary`, which are compiled before
//! and run without skipping loops. `CPU s` is the user and system time of the whole process.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program to run.
struct Row {
    name: String,
    module: PathBuf,
    chip: &'static str,
    way: Way,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Timing,
    Full,
    Binary,
}

fn matmul(n: u64, chip: &'static str, way: Way, folder: &Path) -> Row {
    let text = format!(
        "HloModule matmul\nENTRY main {{\n  a = bf16[{n},{n}] parameter(0)\n  b = bf16[{n},{n}] parameter(1)\n  \
         ROOT c = bf16[{n},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
    );
    let module = folder.join(format!("matmul_{n}.hlo"));
    std::fs::write(&module, text).expect("the folder is writable");
    Row { name: format!("matmul {n}^3 bf16"), module, chip, way }
}

fn rows(folder: &Path) -> Vec<Row> {
    let mut rows = vec![
        matmul(4096, "tpu-v5e", Way::Timing, folder),
        matmul(1024, "tpu-v5e", Way::Timing, folder),
        matmul(1024, "array128", Way::Timing, folder),
        matmul(512, "array128", Way::Timing, folder),
        matmul(4096, "tpu-v5e", Way::Binary, folder),
    ];
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance/large");
    let models = [
        ("resnet50_b8_bf16", Way::Timing),
        ("gpt2_small_prefill1024_bf16", Way::Timing),
        ("llama7b_layer_s2048_bf16", Way::Timing),
        ("llama7b_decode4_b8_kv2048_bf16", Way::Timing),
        ("gpt2_small_prefill1024_bf16", Way::Binary),
        ("resnet50_b8_bf16", Way::Binary),
        ("llama7b_layer_s2048_bf16", Way::Binary),
        ("llama7b_decode4_b8_kv2048_bf16", Way::Binary),
        ("resnet50_b1_f32", Way::Full),
        ("gpt2_small_prefill128_f32", Way::Full),
    ];
    for (name, way) in models {
        let module = suites.join(format!("{name}.hlo"));
        if module.exists() {
            rows.push(Row { name: name.into(), module, chip: "tpu-v5e", way });
        }
    }
    rows
}

/// User and system time of the children that have ended, in seconds (clock ticks of 10 ms).
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (ticks(13) + ticks(14)) / 100.0
}

fn run(row: &Row, folder: &Path) -> Result<(), String> {
    let systole = || Command::new(env!("CARGO_BIN_EXE_systole"));
    let mut module = row.module.clone();
    if row.way == Way::Binary {
        module = folder.join("program.sys");
        let done = systole().arg("compile").arg(&row.module).args(["--chip", row.chip, "-o"]).arg(&module).output();
        done.map_err(|e| e.to_string())?;
    }
    let before = children_seconds();
    let start = std::time::Instant::now();
    let mut command = systole();
    command.arg("run").arg(&module).args(["--report", "json"]);
    match row.way {
        Way::Timing => command.args(["--chip", row.chip, "--timing-only"]),
        Way::Full => command.args(["--chip", row.chip, "--outputs"]).arg(folder.join("out.npz")),
        Way::Binary => command.args(["--timing-only", "--no-loop-skip"]),
    };
    let out = command.output().map_err(|e| e.to_string())?;
    let (wall, cpu) = (start.elapsed().as_secs_f64(), children_seconds() - before);
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).trim().to_string());
    }
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).map_err(|e| e.to_string())?;
    let number = |key: &str| report[key].as_f64().unwrap_or(f64::NAN);
    let cycles = number("cycles");
    let memory = report["host"]["peak_rss_bytes"].as_f64().unwrap_or(f64::NAN) / (1 << 20) as f64;
    let way = match row.way {
        Way::Timing => "timing",
        Way::Full => "full",
        Way::Binary => "binary",
    };
    println!(
        "{:<32} {:<9} {way:<7} {cycles:>10} {:>6.1} % {:>7.2} {wall:>7.2} {:>9.1} {memory:>7.0}",
        row.name,
        row.chip,
        number("peak_share") * 100.0,
        cpu,
        cycles / cpu.max(0.01) / 1e6,
    );
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    println!("program                          chip      way         cycles    peak   CPU s  wall s Mcycles/s     MiB");
    for row in rows(&folder) {
        if !words.is_empty() && !words.iter().any(|w| row.name.contains(w.as_str())) {
            continue;
        }
        if let Err(e) = run(&row, &folder) {
            println!("{:<32} {:<9} {e}", row.name, row.chip);
        }
    }
}
