//! Devices of a pod take turns, and write down what they replay until somebody looks: every counter of every device is that of a run
//! without replays, however many threads the devices are spread over.

use systole_compiler::plan::collective::Algorithm;
use systole_compiler::plan::guide::Guide;
use systole_isa::program::PodShape;
use systole_runtime::pod::{self, Attached, PodOptions};
use systole_runtime::{Client, CompileOptions, Mode, RunOptions, generate};
use systole_simulator::PodRun;

const GPT: &str = include_str!("../../../../examples/gpt_adam_pod.hlo");

/// Layers of products whose results are summed over all devices, in a loop: programs with long turns and short ones.
const LOOP: &str = "HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
body {
  s = (s32[], f32[64,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64,128] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  k = f32[] constant(0.5)
  w = f32[128,128] broadcast(k), dimensions={}
  p = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[64,128] all-reduce(p), replica_groups=GROUPS, to_apply=add
  t = f32[64,128] tanh(r)
  ROOT o = (s32[], f32[64,128]) tuple(next, t) }
cond {
  s = (s32[], f32[64,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e {
  x = f32[64,128] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[64,128]) tuple(z, x)
  l = (s32[], f32[64,128]) while(s), condition=cond, body=body
  ROOT r = f32[64,128] get-tuple-element(l), index=1 }";

fn run(chip: &str, text: &str, shape: PodShape, algorithm: Option<Algorithm>) {
    let client = Client::new(chip).expect("a preset");
    let guide = Guide { collective: algorithm, ..Guide::default() };
    let options = CompileOptions { guide, ..CompileOptions::default().on(shape) };
    let exe = client.compile_text(text, &options).unwrap_or_else(|e| panic!("{text}: {e}"));
    let inputs = vec![generate::placeholders(&exe.program, 0)];
    let time = |memo: bool, threads: usize, loop_skip: bool| -> PodRun {
        let options = RunOptions { memo, threads, loop_skip, ..RunOptions::new(Mode::TimingOnly) };
        let pods = PodOptions { all_devices: true, ..PodOptions::default() };
        let done = client.run_pod(&exe, &inputs, &options, &pods, Attached::default());
        let mut run = done.expect("it runs").run;
        run.devices.iter_mut().for_each(|d| d.skipped_cycles = 0);
        run
    };
    let plain = time(false, 1, false);
    for (memo, threads, skip) in
        [(true, 1, false), (true, 2, false), (true, 1, true), (true, 3, true), (false, 2, true)]
    {
        let other = time(memo, threads, skip);
        let how = format!("{chip}, memo {memo}, {threads} threads, skip {skip}");
        assert_eq!(other.devices.len(), plain.devices.len());
        for (d, (a, b)) in other.devices.iter().zip(&plain.devices).enumerate() {
            assert!(a == b, "{how}: device {d}\n{text}");
        }
        assert_eq!(other.links, plain.links, "{how}");
        assert_eq!(other.traffic, plain.traffic, "{how}");
    }
}

#[test]
fn counters_of_devices_that_take_turns_are_those_of_plain_runs() {
    let topology = |chip: &str, name: &str, devices: u32| {
        let client = Client::new(chip).expect("a preset");
        Some(pod::topology(Some(name), client.chip(), devices).expect("a topology"))
    };
    for (chip, name, devices) in [
        ("tiny", "ring:8", 8),
        ("tiny", "2x4", 8),
        ("tpu-v5e", "4x4", 16),
        ("tpu-v4", "2x2x2", 8),
        ("tpu-v3", "2x2", 8),
    ] {
        let groups = format!("{{{{{}}}}}", (0..devices).map(|d| d.to_string()).collect::<Vec<_>>().join(","));
        for algorithm in [None, Some(Algorithm::Ring), Some(Algorithm::Direct)] {
            let topology = topology(chip, name, devices);
            let shape = PodShape { replicas: devices, topology, ..PodShape::default() };
            run(chip, &LOOP.replace("GROUPS", &groups), shape, algorithm);
        }
    }
}

#[test]
fn counters_of_a_training_step_on_many_devices_are_those_of_plain_runs() {
    let client = Client::new("tpu-v5e").expect("a preset");
    let topology = pod::topology(None, client.chip(), 256).expect("a topology");
    let shape = PodShape { partitions: 256, topology: Some(topology), ..PodShape::default() };
    run("tpu-v5e", GPT, shape, None);
}
