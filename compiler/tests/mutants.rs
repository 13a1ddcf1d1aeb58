//! Whole programs with one thing wrong in their bundles: the checker finds it. `MUTANTS=n` in the environment makes `n` of
//! each kind for each program and chip, and takes models of the conformance suites too.

#[path = "../codegen/src/schedule/tests/mutate.rs"]
mod mutate;

use mutate::{DROPPED, Numbers, dropped, replaced, swapped};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use systole_compiler::compile::{CompileOptions, ScheduledCode, plan_module, schedule_code};
use systole_compiler::front::parse_hlo;
use systole_compiler::schedule::Scheduled;
use systole_isa::{Bundle, ChipConfig, Effect};

/// Examples in the repository, and models with many kinds of kernels from the suites beside it.
fn programs(many: bool) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut out = vec![root.join("examples/mlp.hlo"), root.join("examples/transformer_block.hlo")];
    if many {
        let models = ["mlp", "gpt_decode_step", "moe_top2", "lstm_scan", "segment_sum_gnn", "int8_matmul"];
        let folders = ["../shared/conformance/models", "../../shared/conformance/models"].map(|f| root.join(f));
        match folders.iter().find(|f| f.exists()) {
            Some(f) => out.extend(models.iter().map(|m| f.join(m).with_extension("hlo"))),
            None => eprintln!("no conformance suites beside the checkout: the examples only"),
        }
    }
    out
}

fn scheduled(path: &Path, chip: &ChipConfig) -> ScheduledCode {
    let text = std::fs::read_to_string(path).expect("a program");
    let (module, _) = parse_hlo(&text).expect("a module");
    let options = CompileOptions::for_chip(chip);
    let plan = plan_module(module, chip, &options, &text).expect("a plan");
    schedule_code(&plan, chip, &options).expect("bundles")
}

#[test]
fn mutants_of_whole_programs_are_caught() {
    let many: Option<usize> = std::env::var("MUTANTS").ok().and_then(|n| n.parse().ok());
    let mut table: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    let mut numbers = Numbers(7);
    for name in ["tiny", "tpu-v5e"] {
        let chip = ChipConfig::from_preset(name).expect("a preset");
        for path in programs(many.is_some()) {
            let it = scheduled(&path, &chip);
            let proved = |bundles: Vec<Bundle>| {
                Scheduled { bundles, ..it.scheduled.clone() }.verify(&it.code.unit, &chip, &it.options)
            };
            let right = &it.scheduled.bundles;
            proved(right.clone()).unwrap_or_else(|e| panic!("{} on {name}: {}", path.display(), e[0]));
            let mut note = |what, mutant: Option<Vec<Bundle>>| {
                let Some(m) = mutant else { return };
                let row = table.entry(what).or_default();
                row[0] += 1;
                row[1] += u32::from(proved(m).is_err());
            };
            for _ in 0..many.unwrap_or(2) {
                for &(what, effect) in DROPPED {
                    note(what, dropped(right, effect, &mut numbers));
                }
                note("dependent bundles swapped", swapped(right, false, &mut numbers));
                note("store and load swapped", swapped(right, true, &mut numbers));
                note("an operand replaced", replaced(right, &mut numbers));
            }
        }
    }
    let (mut all, mut caught) = (0, 0);
    for (what, [of, found]) in &table {
        println!("{found:5} of {of:5} caught: {what}");
        // Arithmetic and loads may be dropped where nothing uses them, and bundles swapped that touch different places.
        if DROPPED.iter().any(|d| d.0 == *what && !matches!(d.1, Effect::None | Effect::VmemLoad)) {
            (all, caught) = (all + of, caught + found);
        }
    }
    assert!(all > 50 && caught * 100 >= all * 99, "{caught} of {all} mutants with an effect caught: {table:?}");
}
