//! What tuning finds is a schedule that holds, and with which the whole program takes the cycles that it says.

use std::time::Duration;
use systole_runtime::source::Source;
use systole_runtime::{Attached, Client, CompileOptions, Inputs, Mode, PodOptions, RunOptions};

/// Two products, the second with what is done to its result, and a reduction in blocks.
const TEXT: &str = "HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = bf16[16,2048] parameter(0)
  u = bf16[2048,3072] parameter(1)
  w = bf16[3072,2048] parameter(2)
  l = f32[8192,1024] parameter(3)
  h = bf16[16,3072] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = bf16[16,3072] tanh(h)
  y = bf16[16,2048] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)
  s = f32[1024] reduce(l, z), dimensions={0}, to_apply=add
  ROOT r = (bf16[16,2048], f32[1024]) tuple(y, s)
}
";

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
