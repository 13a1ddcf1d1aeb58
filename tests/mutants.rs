//! Whole programs with one thing wrong in their bundles: the checker finds it. Each is also run on random data: a mutant
//! that is proved must do what the program does, and what share of those that do something else is found is held.
//!
//! `MUTANTS=n` in the environment makes `n` of each kind for each program and chip, and takes models of the conformance
//! suites too.

#[path = "../compiler/codegen/tests/all/schedules/mutate.rs"]
mod mutate;

use mutate::{DROPPED, Numbers, dropped, replaced, swapped};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use systole_compiler::compile::{CompileOptions, ScheduledCode, generate, plan_module, schedule_code};
use systole_compiler::front::parse_hlo;
use systole_compiler::schedule::Scheduled;
use systole_isa::encode::encode_bundles;
use systole_isa::{Bundle, ChipConfig, Program};
use systole_runtime::{Array, Client, Mode, NoObserver, RunOptions, generate as inputs};

/// Examples in the repository, and models with many kinds of kernels from the suites beside it.
fn programs(many: bool) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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

/// Sets of random data for every mutant, and more for those that are proved.
const EVERY: u64 = 2;
const PROVED: u64 = 6;

/// A program that can be proved and run with other bundles than its own.
struct Subject {
    chip: ChipConfig,
    made: ScheduledCode,
    program: Program,
    /// Inputs, and what the program's own bundles make of them: first those that every mutant runs on, then those for mutants
    /// that the checker proves; the cycles that they take.
    runs: Vec<(Vec<Array>, Vec<Array>)>,
    cycles: u64,
}

impl Subject {
    fn new(path: &Path, preset: &str) -> Subject {
        let chip = ChipConfig::from_preset(preset).expect("a preset");
        let text = std::fs::read_to_string(path).expect("a program");
        let (module, _) = parse_hlo(&text).expect("a module");
        let options = CompileOptions::for_chip(&chip);
        let plan = plan_module(module, &chip, &options, &text).expect("a plan");
        let made = schedule_code(&plan, &chip, &options).expect("bundles");
        let program = generate(&plan, &chip, &options, None).expect("a program");
        let mut it = Subject { chip, made, program, runs: Vec::new(), cycles: u64::MAX };
        let own = it.made.scheduled.bundles.clone();
        it.verify(own.clone()).unwrap_or_else(|e| panic!("{} on {preset}: {e}", path.display()));
        for seed in 1..=EVERY + PROVED {
            let arguments = it.program.params.iter().enumerate();
            let data: Vec<Array> =
                arguments.map(|(i, p)| inputs::input(seed, i as u64, p.layout.dtype, p.dims())).collect();
            let (right, cycles) = it.run(&own, &data).unwrap_or_else(|e| panic!("{} on {preset}: {e}", path.display()));
            it.runs.push((data, right));
            // Seconds of one that never ends are enough.
            it.cycles = 20 * cycles;
        }
        it
    }

    fn verify(&self, bundles: Vec<Bundle>) -> Result<(), String> {
        let changed = Scheduled { bundles, ..self.made.scheduled.clone() };
        changed.verify(&self.made.code.unit, &self.chip).map_err(|e| e[0].to_string())
    }

    /// Results and cycles, or the fault.
    fn run(&self, bundles: &[Bundle], data: &[Array]) -> Result<(Vec<Array>, u64), String> {
        let code = encode_bundles(bundles, &self.chip).map_err(|e| e.to_string())?;
        let client = Client::with_chip(self.chip.clone());
        let exe = client.load(Program { code, ..self.program.clone() }).map_err(|e| e.to_string())?;
        let options = RunOptions { max_cycles: self.cycles, ..RunOptions::new(Mode::Full) };
        let done = client.device(0).run_with(&exe, data, &options, &mut NoObserver).map_err(|e| e.to_string())?;
        Ok((done.outputs, done.result.cycles))
    }

    /// Whether the bundles give other results than the program's own, or a fault. Values of inputs are all different, so what
    /// is read too early or too late is another one; more sets of them are for what maxima, masks or rounding hide of it.
    fn differs(&self, bundles: &[Bundle], proved: bool) -> bool {
        let sets = if proved { self.runs.len() } else { EVERY as usize };
        self.runs[..sets].iter().any(|(data, right)| self.run(bundles, data).map_or(true, |(got, _)| got != *right))
    }
}

/// Mutants of a kind: made, refused by the checker, that run differently, and of these refused.
#[derive(Default)]
struct Row {
    made: u32,
    caught: u32,
    different: u32,
    different_caught: u32,
}

/// Mutants by kind, and those that are proved and run differently.
#[derive(Default)]
struct Found {
    table: BTreeMap<&'static str, Row>,
    escaped: Vec<String>,
}

/// What becomes of `times` mutants of each kind of a program for a chip.
fn mutants(path: &Path, preset: &str, times: usize, mut numbers: Numbers) -> Found {
    let it = Subject::new(path, preset);
    let mut found = Found::default();
    let mut note = |what, mutant: Option<Vec<Bundle>>| {
        let Some(m) = mutant else { return };
        let caught = it.verify(m.clone()).is_err();
        let different = it.differs(&m, !caught);
        let row = found.table.entry(what).or_default();
        row.made += 1;
        row.caught += u32::from(caught);
        row.different += u32::from(different);
        row.different_caught += u32::from(different && caught);
        if different && !caught {
            let at = m.iter().zip(&it.made.scheduled.bundles).position(|(a, b)| a != b);
            found.escaped.push(format!("{what}: {} on {preset}, bundle {at:?}", path.display()));
        }
    };
    let right = &it.made.scheduled.bundles;
    for _ in 0..times {
        for &(what, effect) in DROPPED {
            note(what, dropped(right, effect, &mut numbers));
        }
        note("dependent bundles swapped", swapped(right, false, &mut numbers));
        note("store and load swapped", swapped(right, true, &mut numbers));
        note("an operand replaced", replaced(right, &mut numbers));
    }
    found
}

#[test]
fn mutants_of_whole_programs_are_caught() {
    let many: Option<usize> = std::env::var("MUTANTS").ok().and_then(|n| n.parse().ok());
    let all: Vec<(PathBuf, &str)> =
        ["tiny", "tpu-v5e"].iter().flat_map(|chip| programs(many.is_some()).into_iter().map(|p| (p, *chip))).collect();
    let of = |(i, (path, preset)): (usize, &(PathBuf, &str))| {
        mutants(path, preset, many.unwrap_or(2), Numbers(7 + i as u64))
    };
    let found: Vec<Found> = all.par_iter().enumerate().map(of).collect();
    let mut table: BTreeMap<&str, Row> = BTreeMap::new();
    for (what, r) in found.iter().flat_map(|f| &f.table) {
        let row = table.entry(what).or_default();
        row.made += r.made;
        row.caught += r.caught;
        row.different += r.different;
        row.different_caught += r.different_caught;
    }
    for (what, r) in &table {
        println!(
            "{:5} made, {:5} refused; {:5} run differently, {:5} of these refused: {what}",
            r.made, r.caught, r.different, r.different_caught
        );
    }
    let different: u32 = table.values().map(|r| r.different).sum();
    let escaped: Vec<String> = found.into_iter().flat_map(|f| f.escaped).collect();
    assert!(different > 50, "{different} mutants run differently");
    assert!(escaped.is_empty(), "proved, and run differently:\n{}", escaped.join("\n"));
}
