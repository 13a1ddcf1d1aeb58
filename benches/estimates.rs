//! The plan's estimates against the simulator: every kernel of a set of programs, simulated alone.
//!
//! `cargo bench --bench estimates [-- [--chip NAME] FILE...]` plans the modules (default: the examples, and the models of the
//! conformance suites where those lie beside the checkout), and prints for every family of kernels the median and the 95th
//! percentile of `|estimate / simulated - 1|`. With `--all`, every kernel's line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use systole_runtime::tune::Measured;
use systole_runtime::{Client, CompileOptions, source};

/// The HLO files of a folder.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut all: Vec<PathBuf> = found.filter(|p| p.extension().is_some_and(|e| e == "hlo")).collect();
    all.sort();
    all
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

fn line(name: &str, mut errors: Vec<f64>) {
    errors.sort_by(f64::total_cmp);
    let (median, p95) = (100.0 * percentile(&errors, 0.5), 100.0 * percentile(&errors, 0.95));
    println!("{name:10} {:6} kernels   median {median:6.1} %   95th percentile {p95:6.1} %", errors.len());
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let chip = words.iter().position(|w| w == "--chip").map(|i| words.drain(i..i + 2).nth(1).unwrap_or_default());
    let all = words.iter().position(|w| w == "--all").map(|i| words.remove(i)).is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["examples", "../shared/conformance/models", "../shared/conformance/large"];
    let files: Vec<PathBuf> = match words.is_empty() {
        true => folders.iter().flat_map(|f| modules(&root.join(f))).collect(),
        false => words.iter().map(PathBuf::from).collect(),
    };
    let client = Client::new(chip.as_deref().unwrap_or("tpu-v5e")).expect("a preset");
    let mut found: Vec<Measured> = Vec::new();
    for file in files {
        let name = file.to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).expect("a module");
        let Ok(program) = source::read_one(&name, &bytes, client.chip(), false, &mut Vec::new()) else { continue };
        match client.plan_source(program, &name, &CompileOptions::default()) {
            Ok(plan) => found.extend(client.measure(&plan)),
            Err(e) => println!("{name}: {e}"),
        }
    }
    let error = |m: &Measured| (m.estimate / m.cycles.max(1) as f64 - 1.0).abs();
    if all {
        found.sort_by(|a, b| error(b).total_cmp(&error(a)));
        for m in &found {
            println!(
                "{:8} {:30} {:12.0} {:12} {:+7.1} %",
                m.family,
                m.name,
                m.estimate,
                m.cycles,
                100.0 * (m.estimate / m.cycles.max(1) as f64 - 1.0)
            );
        }
    }
    let mut families: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    found.iter().for_each(|m| families.entry(m.family).or_default().push(error(m)));
    families.into_iter().for_each(|(name, errors)| line(name, errors));
    line("all", found.iter().map(error).collect());
}
