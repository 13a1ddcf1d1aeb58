//! A plan for a larger chip may be the plan for a part of it: programs take no longer on more, and compute the same.

use systole_compiler::plan::{Plan, text, verify};
use systole_isa::ChipConfig;
use systole_isa::chip::Part;
use systole_runtime::{Array, Client, CompileOptions, Mode, NoObserver, RunOptions, Ways, generate, source};

fn client(preset: &str, set: &str) -> Client {
    let mut chip = ChipConfig::from_preset(preset).expect("a preset");
    chip.apply_sets(&[set.to_string()]).expect("in range");
    Client::with_chip(chip)
}

fn plan(client: &Client, program: &str, options: &CompileOptions) -> Plan {
    let read = source::read_one("m", program.as_bytes(), client.chip(), false, &mut Vec::new()).expect("a program");
    client.plan_source(read, "m", options).expect("a plan")
}

/// Results and cycles.
fn run(client: &Client, program: &str, options: &CompileOptions) -> (Vec<Array>, u64) {
    let exe = client.compile_text(program, options).expect("it compiles");
    let params = exe.program.params.iter().enumerate();
    let inputs: Vec<Array> = params
        .map(|(i, p)| generate::input(1, i as u64, p.layout.dtype, p.host_dims.as_ref().unwrap_or(&p.layout.dims)))
        .collect();
    let done =
        client.device(0).run_with(&exe, &inputs, &RunOptions::new(Mode::Full), &mut NoObserver).expect("no fault");
    (done.outputs, done.result.cycles)
}

/// A program uses a part of a larger chip, and takes no longer there than on the preset.
fn check(preset: &str, set: &str, program: &str, part: Part) {
    let (known, large) = (Client::new(preset).expect("a preset"), client(preset, set));
    let options = CompileOptions::default();
    let made = plan(&large, program, &options);
    assert_eq!(made.head.part, part, "{preset} with {set}");
    let read = text::parse(&text::to_text(&made)).expect("a plan");
    assert!(read == made, "{preset} with {set}: another plan");
    verify::verify(&read, large.chip()).expect("it goes together");
    let program_of = |p: &Plan| large.compile_plan(p, &options).expect("a program");
    let compiled = large.compile_text(program, &options).expect("it compiles");
    assert_eq!(program_of(&read).code, compiled.program.code, "{preset} with {set}: other code");
    let ((want, before), (got, now)) = (run(&known, program, &options), run(&large, program, &options));
    assert!(want == got, "{preset} with {set}: other results");
    assert!(now as f64 <= 1.02 * before as f64, "{preset} with {set}: {before}, then {now} cycles");
    // What is asked for is not chosen.
    let all = options.by(Ways { part: Some(Part::default()), ..Ways::default() });
    assert!(plan(&large, program, &all).head.part.is_all());
    assert!(run(&large, program, &all).1 >= now, "{preset} with {set}: the whole is faster");
}

const MLP: &str = include_str!("../../../examples/mlp.hlo");
const RESNET: &str = include_str!("../../../examples/resnet.hlo");

#[test]
fn many_units_may_rest() {
    let units = |n| Part { matrix_units: Some(n), ..Part::default() };
    check("tpu-v5e", "mxu.count=16", MLP, units(4));
    check("tiny", "mxu.count=16", RESNET, units(8));
}

#[test]
fn many_registers_may_rest() {
    check("tpu-v4", "core.vector_registers=128", RESNET, Part { vector_registers: Some(32), ..Part::default() });
}

#[test]
fn plans_for_a_part_fit_it() {
    let large = client("tpu-v5e", "vmem.bytes=256 MiB");
    let options = CompileOptions::default();
    assert!(plan(&large, MLP, &options).head.part.is_all(), "equal code is no reason");
    let text = text::to_text(&plan(&large, MLP, &options));
    let with = text.replacen("cores: 1", "part: (vmem_bytes: Some(1024)), cores: 1", 1);
    let read = text::parse(&with).expect("a plan");
    assert!(verify::verify(&read, large.chip()).is_err(), "it needs more vector memory than that");
}
