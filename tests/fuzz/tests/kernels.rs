//! Readers of what the compiler decides and of kernels that others compiled: Mosaic modules, plans, schedules and sweeps.

mod harness;

use harness::target;
use std::sync::LazyLock;
use systole_compiler::front::parse_stablehlo;
use systole_compiler::graph::{Module, Op};
use systole_compiler::plan::guide::{Schedule, Tuned};
use systole_compiler::plan::{text, verify};
use systole_fuzz::{corpus, own};
use systole_isa::ChipConfig;
use systole_mosaic::{Call, Kernel, Role, config, print, walk};
use systole_runtime::{Client, CompileOptions};
use systole_sweep::spec::Spec;

static CLIENT: LazyLock<Client> = LazyLock::new(|| Client::new("tiny").expect("it is a preset"));

/// The bytecode of the kernels of Pallas among the project's tests.
fn kernels() -> Vec<Vec<u8>> {
    let body = |m: Module| {
        let mut nodes = m.computations.iter().flat_map(|c| &c.nodes);
        nodes.find_map(|n| match &n.op {
            Op::CustomCall { target, config, .. } if target == config::TARGET => Some(Call::parse(config).ok()?.body),
            _ => None,
        })
    };
    let programs = own("tests/pallas", "mlir").into_iter();
    programs.filter_map(|t| body(parse_stablehlo(std::str::from_utf8(&t).ok()?).ok()?.0.pop()?)).collect()
}

#[test]
fn mosaic_bytecode() {
    let words = ["tpu.matmul", "vector.load", "stable_mosaic", "arith.constant", "scf.for", "memref", "#tpu"];
    target("mosaic", &words, kernels(), 20_000, |input| {
        let Ok(module) = systole_mosaic::Module::decode(input) else { return };
        let _ = print(&module, true);
        let Ok(kernel) = Kernel::of(&module) else { return };
        for (_, _, role) in &kernel.arguments {
            let Role::Window(window) = role else { continue };
            // Some of the array's blocks are cut.
            let sizes: Vec<u64> = window.bounds.iter().map(|b| b.saturating_mul(3).saturating_sub(1)).collect();
            let _ = walk(&kernel, window, &sizes);
        }
    });
}

/// Plans of the corpus of programs.
fn plans() -> Vec<Vec<u8>> {
    let of = |m: Vec<u8>| {
        let read = systole_runtime::source::read_one("m", &m, CLIENT.chip(), false, &mut Vec::new()).ok()?;
        let plan = CLIENT.plan_source(read, "m", &CompileOptions::default()).ok()?;
        Some(text::to_text(&plan).into_bytes())
    };
    corpus("hlo_text").into_iter().filter_map(of).collect()
}

const PLAN_WORDS: [&str; 16] = [
    "Some",
    "None",
    "true",
    "elementwise",
    "copy",
    "Vmem",
    "Hbm",
    "F32",
    "BF16",
    "F64",
    "Pred",
    "C64",
    "step",
    "Begin",
    "WaitIn",
    "0",
];

/// Plans that go together give code, or a limit.
#[test]
fn damaged_plans() {
    target("plan_code", &PLAN_WORDS, plans(), 1_500, |input| {
        let Ok(plan) = text::parse(&String::from_utf8_lossy(input)) else { return };
        if verify::verify(&plan, CLIENT.chip()).is_ok() {
            let _ = CLIENT.compile_plan(&plan, &CompileOptions::default());
        }
    });
}

#[test]
fn plan_text() {
    target("plan", &PLAN_WORDS, plans(), 5_000, |input| {
        let Ok(plan) = text::parse(&String::from_utf8_lossy(input)) else { return };
        if verify::verify(&plan, CLIENT.chip()).is_err() {
            return;
        }
        let written = text::to_text(&plan);
        let again = text::parse(&written).unwrap_or_else(|e| panic!("{e:?}\n{written}"));
        assert_eq!(text::to_text(&again), written);
    });
}

#[test]
fn schedules_and_tuned_kernels() {
    let chip = ChipConfig::from_preset("tiny").expect("it is a preset");
    let pins = "tile dot.* (rows: 8, depth: 128)\ncut add* (rows: Some(4))\nkeep a\nstream b\nalone c\nexchange d ring\nbefore e f\n";
    let corpus = vec![pins.as_bytes().to_vec(), b"keep * // all\nexchange all-reduce.1 axes\n".to_vec()];
    target("guide", &["tile", "cut", "before", "*", "Some(", "rows"], corpus, 20_000, |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok(schedule) = Schedule::parse(&text) {
            let held = [schedule.alone("a.b.c"), schedule.tile("dot.1").map(|t| t.1)];
            let _ = schedule.idle(&held.into_iter().flatten().collect());
        }
        let _ = Tuned::parse(&text, &chip);
    });
}

#[test]
fn sweep_specification() {
    let spec = r#"
name = "s"
programs = ["a.hlo", { file = "b.hlo", name = "b" }]
chips = ["tiny", "tpu-v5e"]
objectives = ["cycles", "max peak_share"]
conditions = ["core.lanes == 8 || (mxu.count == 1 && hbm.bandwidth < 9e9)"]
constraints = ["watts < 300"]
[parameters]
"mxu.count" = [1, 2]
"hbm.bandwidth" = { from = "8 GB/s", to = "128 GB/s", steps = 5, scale = "log" }
[linked]
"dma.engines" = "mxu.count * 2"
[sample]
"#;
    let words = ["log", "steps", "random", "halton", "min(", "core.lanes", "inf", "nan", "1e308", "GB/s", "(((((", "!"];
    target("sweep", &words, vec![spec.as_bytes().to_vec()], 5_000, |input| {
        let Ok(spec) = Spec::parse(&String::from_utf8_lossy(input), "s.toml", std::path::Path::new(".")) else {
            return;
        };
        for (_, e) in spec.space.linked.iter().chain(&spec.space.conditions).chain(&spec.constraints) {
            let _ = e.eval(&|name| Some(name.len() as f64));
        }
        let _ = spec.space.axes.iter().map(|a| (a.values.at(0.3), a.values.grid().len())).collect::<Vec<_>>();
    });
}
