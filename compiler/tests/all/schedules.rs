//! Schedules: pins that hold are in the plan, pins that cannot are errors with their line.

use std::sync::Arc;
use systole_codegen::emit::blocks::BlockCut;
use systole_codegen::emit::mxu::{Contraction, Tile};
use systole_compiler::compile::{CompileOptions, generate, plan_module};
use systole_compiler::front::parse_hlo;
use systole_compiler::plan::action::Action;
use systole_compiler::plan::alone::called;
use systole_compiler::plan::guide::{CostModel, Dice, Schedule, Tuned, TunedKernel, is_named, words};
use systole_compiler::plan::spec::{KernelSpec, Way};
use systole_compiler::plan::{Plan, explain::explain};
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

const PROGRAM: &str = include_str!("../programs/two_products.hlo");

fn chip() -> ChipConfig {
    ChipConfig::from_preset("tpu-v5e").expect("a preset")
}

fn planned(change: impl FnOnce(&mut CompileOptions)) -> Result<Plan, CompileError> {
    let mut options = CompileOptions::for_chip(&chip());
    change(&mut options);
    let (module, _) = parse_hlo(PROGRAM).expect("a module");
    plan_module(module, &chip(), &options, PROGRAM)
}

/// The plan of a program of its own.
fn scheduled_on(chip: &ChipConfig, text: &str, schedule: &str) -> Result<Plan, CompileError> {
    let mut options = CompileOptions::for_chip(chip);
    options.guide.schedule = Schedule::parse(schedule)?;
    let (module, _) = parse_hlo(text).expect("a module");
    plan_module(module, chip, &options, text)
}

fn scheduled(text: &str) -> Result<Plan, CompileError> {
    let schedule = Schedule::parse(text)?;
    planned(|o| o.guide.schedule = schedule)
}

fn product(plan: &Plan) -> (&Contraction, &Tile) {
    let of = |k: &KernelSpec| matches!(k, KernelSpec::Product { .. });
    match &plan.kernels.iter().find(|k| of(&k.spec)).expect("a product").spec {
        KernelSpec::Product { contraction, tile, .. } => (contraction, tile),
        _ => unreachable!("found as a product"),
    }
}

/// Names of the operations in the order of their calls.
fn order(plan: &Plan) -> Vec<&str> {
    let mut op = 0;
    let mut names = Vec::new();
    for a in &plan.actions {
        match a {
            Action::Mark(o) => op = *o as usize,
            Action::Call { .. } => names.push(plan.ops[op].name.as_str()),
            _ => {}
        }
    }
    names
}

#[test]
fn tiles_are_pinned() {
    let usual = scheduled("").expect("a plan");
    let other = product(&usual).1.rows / 2;
    let plan = scheduled(&format!("tile y (rows: {other})")).expect("a plan");
    assert_eq!(product(&plan).1.rows, other);
    generate(&plan, &chip(), &CompileOptions::for_chip(&chip()), None).expect("a program");
    let e = scheduled("\ntile y (rows: 77777)").expect_err("no such tile").to_string();
    assert!(e.contains("line 2") && e.contains("`y`"), "{e}");
}

/// Loops of loads and arithmetic alone, with loads of one place several rounds apart: cores share the rows of the product.
#[test]
fn loops_that_load_one_place_in_several_rounds_are_proved() {
    let text = include_str!("../programs/loads_of_one_place.hlo");
    let chip = ChipConfig::from_preset("tpu-v4").expect("a preset");
    for cores in [1, 2] {
        let options = CompileOptions { cores, verify: true, ..CompileOptions::for_chip(&chip) };
        let (module, _) = parse_hlo(text).expect("a module");
        let plan = plan_module(module, &chip, &options, text).expect("a plan");
        generate(&plan, &chip, &options, None).expect("a program");
    }
}

#[test]
fn places_are_pinned() {
    use systole_codegen::emit::mxu::Place;
    for (text, place) in [("keep w", Place::Vmem), ("stream w", Place::Hbm)] {
        let plan = scheduled(text).expect(text);
        assert_eq!(product(&plan).0.rhs.place, place, "{text}");
    }
}

#[test]
fn fusion_and_order_are_pinned() {
    assert_eq!(order(&scheduled("").expect("a plan")), ["y", "u", "v"]);
    assert_eq!(order(&scheduled("alone t").expect("a plan")), ["y", "t", "u", "v"]);
    assert_eq!(order(&scheduled("before v y").expect("a plan")), ["v", "y", "u"]);
    let e = scheduled("before u y").expect_err("u needs y").to_string();
    assert!(e.contains("line 1"), "{e}");
}

/// What comes at a product's end is in its kernel, unless it shall have one of its own.
#[test]
fn ends_of_products_are_pinned_apart() {
    let text = include_str!("../programs/product_and_end.hlo");
    let calls = |schedule: &str| {
        let plan = scheduled_on(&chip(), text, schedule).expect("a plan");
        order(&plan).iter().map(|n| (*n).to_string()).collect::<Vec<_>>()
    };
    assert_eq!(calls(""), ["y"]);
    assert_eq!(calls("alone t"), ["y", "t"]);
}

#[test]
fn pins_that_cannot_hold_say_what_could() {
    let e = scheduled("tile y (rows: 77777)").map(drop).expect_err("no such tile").to_string();
    assert!(e.starts_with("schedule, line 1") && e.contains("the best are\n  variant "), "{e}");
    let e = scheduled("stream x\ncut v (size: 7)").map(drop).expect_err("no such cut").to_string();
    assert!(e.starts_with("schedule, line 2") && e.contains("the best are\n  blocks of "), "{e}");
    // Its arrays are in vector memory.
    let e = scheduled("cut y (size: 8)").map(drop).expect_err("nothing to cut").to_string();
    assert!(e.contains("is done in blocks"), "{e}");
}

#[test]
fn all_lines_that_do_not_hold_are_named() {
    let e = scheduled("tile y (rows: 77777)\nstream x\nkeep nothing\ncut v (size: 7)").expect_err("three of them");
    assert_eq!(e.pins(), Some(vec![1, 3, 4]), "{e}");
    assert!(e.to_string().ends_with("nor do these lines hold: 3, 4"), "{e}");
}

/// What a plan decided holds as a schedule, though such tiles fit only once less is kept in vector memory.
#[test]
fn decisions_of_a_plan_hold_as_pins() {
    let text = include_str!("../programs/chain_of_products.hlo");
    let chip = ChipConfig::from_preset("tpu-v4").expect("a preset");
    let made = |schedule: &str| scheduled_on(&chip, text, schedule).expect("a plan");
    let plan = made("");
    let mut pins = String::new();
    for called in called(&plan) {
        let KernelSpec::Product { tile: t, .. } = &plan.kernels[called.kernel].spec else { continue };
        let ([l, r, o], op) = (t.windows, &plan.ops[called.ops[0] as usize].name);
        pins += &format!(
            "tile {op} (variant: {}, units: {}, rows: {}, splits: {}, groups: {}, windows: ({l}, {r}, {o}))\n",
            t.variant, t.units, t.rows, t.splits, t.groups
        );
    }
    assert!(pins.lines().count() >= 2 && !pins.contains("(0, 0, 0)"), "{pins}");
    let specs = |plan: &Plan| plan.kernels.iter().map(|k| k.spec.clone()).collect::<Vec<_>>();
    assert_eq!(specs(&made(&pins)), specs(&plan));
}

/// Either way of a scatter into a table that vector memory does not hold; blocks of another size are none.
#[test]
fn tables_of_scatters_are_pinned() {
    let text = include_str!("../programs/scatter_into_a_table.hlo");
    let mut chip = ChipConfig::from_preset("tiny").expect("a preset");
    chip.apply_sets(&["vmem.bytes=96KiB"]).expect("an override");
    let block = |schedule: &str| {
        let plan = scheduled_on(&chip, text, schedule).expect(schedule);
        generate(&plan, &chip, &CompileOptions::for_chip(&chip), None).expect("a program");
        let of = |k: &KernelSpec| if let KernelSpec::Scatter(s) = k { Some(s.block) } else { None };
        plan.kernels.iter().find_map(|k| of(&k.spec)).expect("a scatter")
    };
    // In place is the other way here.
    let usual = block("");
    assert!(usual > 0);
    assert_eq!(block("table added (block: 0)"), 0);
    assert_eq!(block(&format!("table added (block: {usual})")), usual);
    let e = scheduled_on(&chip, text, "table added (block: 8)").expect_err("no such blocks").to_string();
    assert!(e.contains("line 1") && e.contains(&format!("tables in blocks of {usual} rows")), "{e}");
}

#[test]
fn pins_are_read_as_they_are_written() {
    let tile =
        Tile { variant: 1, units: 2, outer: 3, rows: 4, splits: 5, groups: 6, windows: [7, 8, 9], close: 2, open: 3 };
    let line = |way: Way| {
        let (keyword, numbers) = words(way);
        Schedule::parse(&format!("{keyword} y {numbers}")).expect("a schedule")
    };
    let pin = line(Way::Tile(tile)).tile("y").expect("a tile").0;
    assert!(pin.allows(&tile) && !pin.allows(&Tile { close: 1, ..tile }) && !pin.allows(&Tile { open: 1, ..tile }));
    let cut = BlockCut { outer: 1, dimension: 2, size: 3 };
    let pin = line(Way::Cut(cut)).cut("y").expect("a cut").0;
    assert!(pin.allows(&cut) && !pin.allows(&BlockCut { size: 4, ..cut }));
    let pin = line(Way::Table { block: 8 }).table("y").expect("a table").0;
    assert!(pin.allows(8) && !pin.allows(0));
}

#[test]
fn pins_of_nothing_are_refused() {
    for text in [
        "tile nothing (rows: 8)",
        "keep nothing",
        "alone nothing",
        "before a b",
        "exchange y ring",
        "tile v (rows: 8)",
        "table y (block: 0)",
    ] {
        match scheduled(text) {
            Err(CompileError::Schedule { line: 1, .. }) => {}
            other => panic!("{text}: {:?}", other.map(|_| "a plan")),
        }
    }
}

#[test]
fn a_cost_model_and_a_database_decide() {
    #[derive(Debug)]
    struct Few;
    impl CostModel for Few {
        fn product(&self, _: &Contraction, tile: &Tile, _: f64) -> f64 {
            f64::from(tile.rows)
        }
    }
    let usual = planned(|_| {}).expect("a plan");
    let few = planned(|o| o.guide.cost = Some(Arc::new(Few))).expect("a plan");
    assert!(product(&few).1.rows < product(&usual).1.rows);
    let (contraction, tile) = product(&few);
    let line = TunedKernel::Tile(chip().fingerprint(), contraction.clone(), *tile).to_line();
    let tuned = Tuned::parse(&line, &chip()).expect("a database");
    let again = planned(|o| o.guide.tuned = Some(Arc::new(tuned))).expect("a plan");
    assert_eq!(product(&again), product(&few));
}

#[test]
fn dice_decide_alike_from_one_seed() {
    let tile = |seed| *product(&planned(|o| o.guide.cost = Some(Arc::new(Dice(seed)))).expect("a plan")).1;
    let thrown: Vec<_> = (0..8).map(tile).collect();
    assert_eq!(thrown, (0..8).map(tile).collect::<Vec<_>>());
    assert!(thrown.iter().any(|t| *t != thrown[0]), "{thrown:?}");
}

#[test]
fn windows_stay_in_their_scope() {
    let bytes = 1 << 20;
    let plan = planned(|o| o.guide.scoped_vmem = Some(bytes)).expect("a plan");
    let rows = plan.kernels.iter().map(|k| u64::from(k.needs.scratch_rows)).max().expect("kernels");
    assert!(rows * chip().row_bytes() <= bytes, "{rows} rows");
}

#[test]
fn alternatives_are_explained() {
    let plan = planned(|_| {}).expect("a plan");
    let text = explain(&plan, &chip(), "y");
    assert!(text.contains("product of 512 x 1*256 x 384") && text.contains("rather than"), "{text}");
    let text = explain(&plan, &chip(), "t");
    assert!(text.contains("computed in the kernel of u"), "{text}");
}

#[test]
fn patterns() {
    for (pattern, name, yes) in [
        ("dot.1", "dot.1", true),
        ("dot.1", "dot.12", false),
        ("dot*", "dot.12", true),
        ("*.12", "dot.12", true),
        ("d*t*2", "dot.12", true),
        ("d*x*2", "dot.12", false),
        ("*", "", true),
    ] {
        assert_eq!(is_named(pattern, name), yes, "{pattern} {name}");
    }
}

#[test]
fn wrong_lines_are_named() {
    for (text, message) in [
        ("tile dot.1 (rows: x)", "line 1"),
        ("\n// a comment\ntile dot.1 (row: 3)", "line 3"),
        ("keep", "of which operation"),
        ("keep a b", "`b` behind the name"),
        ("move a", "`move` pins nothing"),
        ("exchange a square", "`ring`, `direct` or `axes`"),
    ] {
        let e = Schedule::parse(text).expect_err(text).to_string();
        assert!(e.contains(message), "{text}: {e}");
    }
    let s = Schedule::parse("tile dot.* (rows: 8) // eight\nkeep x").expect("a schedule");
    assert_eq!(s.tile("dot.3").map(|t| t.0.rows), Some(Some(8)));
    let e = Schedule::of_file("a.txt", "keep x\nkeep").expect_err("nothing is kept").to_string();
    assert!(e.starts_with("a.txt, line 2"), "{e}");
}
