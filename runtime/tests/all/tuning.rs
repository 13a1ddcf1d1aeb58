//! What tuning finds is a schedule that holds, and with which the whole program takes the cycles that it says.

use std::time::Duration;
use systole_runtime::source::Source;
use systole_runtime::{Attached, Client, CompileOptions, Inputs, Mode, PodOptions, RunOptions};

/// Two products, the second with what is done to its result, and a reduction in blocks.
const TEXT: &str = include_str!("../programs/products_and_a_sum.hlo");

#[test]
fn a_found_schedule_holds_and_gains_what_it_says() {
    let client = Client::new("tpu-v5e").expect("a preset");
    let (module, _) = systole_compiler::front::parse_hlo(TEXT).expect("a module");
    let source = Source::Module { module: Box::new(module), text: TEXT.to_string() };
    let options = CompileOptions::default();
    let found = client.tune(&source, "m", &options, Duration::from_secs(600)).expect("a schedule");
    let (planned, tuned) = found.program;
    assert!(tuned <= planned && found.pins.0 <= found.pins.1, "{:?} {:?}", found.program, found.pins);
    assert_eq!(found.schedule.lines().count(), found.pins.0);
    let cycles = |schedule: &str| {
        let options = client.with_schedule(&options, schedule).expect("a schedule");
        let program = client.compile_source(source.clone(), "m", &options, None).expect("a program");
        let exe = client.load(program).expect("loads");
        let run = RunOptions::new(Mode::TimingOnly);
        let drawn = |_| Inputs::Drawn(0);
        let done = client.finish_pod(&exe, &drawn, &run, &PodOptions::default(), Attached::default());
        done.expect("runs").run.cycles()
    };
    assert_eq!((cycles(""), cycles(&found.schedule)), found.program);
}
