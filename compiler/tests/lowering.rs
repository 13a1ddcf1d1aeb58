//! Lowers every program of the conformance suites beside the checkout; skips when they are absent.

use std::path::{Path, PathBuf};
use systole_compiler::front::parse_hlo;
use systole_compiler::graph::{Module, Precision};
use systole_compiler::pipeline::{PassOptions, lower_to_core};
use systole_isa::DType;

fn options() -> PassOptions {
    PassOptions {
        fold: true,
        fuel: None,
        precision: Precision::Default,
        mxu_types: vec![DType::BF16, DType::S8],
        mxu_cols: 128,
        seed: 0,
        verify: true,
    }
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance").join(folder);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance").join(folder);
    let Ok(entries) = std::fs::read_dir(&root).or_else(|_| std::fs::read_dir(&beside)) else { return Vec::new() };
    let mut out: Vec<PathBuf> = entries
        .filter_map(|e| e.ok())
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "hlo"))
        .collect();
    out.sort();
    out
}

fn lower(path: &Path) -> Result<Module, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let (module, _) =
        parse_hlo(&text).map_err(|d| d.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))?;
    lower_to_core(module, &options(), &mut |_, _| {}).map_err(|e| e.to_string())
}

#[test]
fn conformance_programs_lower_to_core_operations() {
    let mut failures = Vec::new();
    for folder in ["ops", "models", "large"] {
        for path in programs(folder) {
            let start = std::time::Instant::now();
            let result = lower(&path);
            let name = path.file_name().map(|n| n.to_string_lossy().to_string()).unwrap_or_default();
            match result {
                Ok(m) => println!(
                    "{name}: {} nodes, {:.1?}",
                    m.computations.iter().map(|c| c.nodes.len()).sum::<usize>(),
                    start.elapsed()
                ),
                Err(e) if e.contains("no lowering for the chip yet") => println!("{folder}/{name}: {e}"),
                Err(e) => failures.push(format!("{folder}/{name}: {e}")),
            }
        }
    }
    assert!(failures.is_empty(), "{} programs fail:\n{}", failures.len(), failures.join("\n"));
}
