//! Programs on all cores of a device, and of every device of a pod, give the answers of one core.

use systole_compiler::plan::guide::Guide;
use systole_isa::ChipConfig;
use systole_isa::program::PodShape;
use systole_runtime::pod::{self, Attached, PodOptions};
use systole_runtime::{Array, Client, CompileOptions, Executable, Mode, NoObserver, RunOptions, Ways, generate};

fn client() -> Client {
    let mut chip = ChipConfig::from_preset("tiny").expect("the preset exists");
    chip.apply_sets(&["cores=2".to_string(), "cores_per_device=2".to_string()]).expect("in range");
    Client::with_chip(chip)
}

const PROGRAMS: [(&str, &str); 4] = [
    (
        "products, elementwise, reductions",
        "HloModule m
        add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
        ENTRY main {
          a = f32[100,72]{1,0} parameter(0)
          b = f32[72,56]{1,0} parameter(1)
          d = f32[100,56]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          t = f32[100,56]{1,0} tanh(d)
          z = f32[] constant(0)
          r = f32[100]{0} reduce(t, z), dimensions={1}, to_apply=add
          w = f32[100,56]{1,0} broadcast(r), dimensions={0}
          ROOT o = f32[100,56]{1,0} multiply(t, w)
        }",
    ),
    (
        "a loop with a product",
        "HloModule m
        cond { p = (s32[], f32[48,48]{1,0}) parameter(0) i = s32[] get-tuple-element(p), index=0
          n = s32[] constant(3) ROOT c = pred[] compare(i, n), direction=LT }
        body { p = (s32[], f32[48,48]{1,0}) parameter(0) i = s32[] get-tuple-element(p), index=0
          x = f32[48,48]{1,0} get-tuple-element(p), index=1
          one = s32[] constant(1) j = s32[] add(i, one)
          y = f32[48,48]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          h = f32[] constant(0.125) hh = f32[48,48]{1,0} broadcast(h), dimensions={}
          k = f32[48,48]{1,0} multiply(y, hh)
          ROOT r = (s32[], f32[48,48]{1,0}) tuple(j, k) }
        ENTRY main { x = f32[48,48]{1,0} parameter(0) z = s32[] constant(0)
          t = (s32[], f32[48,48]{1,0}) tuple(z, x)
          w = (s32[], f32[48,48]{1,0}) while(t), condition=cond, body=body
          ROOT o = f32[48,48]{1,0} get-tuple-element(w), index=1 }",
    ),
    (
        "a convolution in rows that lie apart",
        "HloModule m
        ENTRY main { x = f32[2,9,9,4]{3,2,1,0} parameter(0) w = f32[3,3,4,24]{3,2,1,0} parameter(1)
          c = f32[2,7,7,24]{3,2,1,0} convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
          ROOT t = f32[24,7,7,2]{3,2,1,0} transpose(c), dimensions={3,1,2,0} }",
    ),
    (
        "a gather and a sort, which one core does",
        "HloModule m
        less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
        ENTRY main { x = f32[64,40]{1,0} parameter(0) i = s32[12,1]{1,0} parameter(1)
          g = f32[12,40]{1,0} gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=1, slice_sizes={1,40}
          ROOT s = f32[12,40]{1,0} sort(g), dimensions={1}, to_apply=less }",
    ),
];

fn run(client: &Client, text: &str, options: &CompileOptions, mode: Mode) -> (Vec<Array>, u64, bool) {
    let exe = client.compile_text(text, options).expect("it compiles");
    let params = exe.program.params.iter().enumerate();
    let inputs: Vec<Array> = params.map(|(i, p)| generate::input(7, i as u64, p.layout.dtype, p.dims())).collect();
    let done = client.device(0).run_with(&exe, &inputs, &RunOptions::new(mode), &mut NoObserver).expect("no fault");
    let cores = done.result.units.iter().any(|u| u.core == 1);
    (done.outputs, done.result.cycles, cores)
}

/// Options for so many cores, and arrays of at most so many bytes kept in vector memory.
fn on_cores(cores: Option<u32>) -> CompileOptions {
    CompileOptions::default().by(Ways { cores, ..Ways::default() })
}

fn shared(cores: u32, max_resident: Option<u64>) -> CompileOptions {
    let guide = Guide { max_resident, ..Guide::default() };
    CompileOptions { guide, ..on_cores(Some(cores)) }
}

#[test]
fn cores_share_work_and_change_no_answer() {
    let c = client();
    for (name, text) in PROGRAMS {
        for max_resident in [None, Some(0)] {
            let on = |n| shared(n, max_resident);
            let (want, ..) = run(&c, text, &on(1), Mode::Full);
            let (got, cycles, both) = run(&c, text, &on(2), Mode::Full);
            assert!(both || max_resident.is_none(), "{name}: one core did all");
            assert!(want == got, "{name}, {max_resident:?}: other answers");
            assert_eq!(run(&c, text, &on(2), Mode::TimingOnly).1, cycles, "{name}, {max_resident:?}");
        }
    }
}

#[test]
fn as_many_cores_as_make_it_faster() {
    let chip = ChipConfig::from_preset("tpu-v4").expect("the preset exists");
    let c = Client::with_chip(chip);
    let product = |n: u32| {
        format!(
            "HloModule m\nENTRY main {{ a = bf16[{n},{n}]{{1,0}} parameter(0) b = bf16[{n},{n}]{{1,0}} parameter(1)
            ROOT d = bf16[{n},{n}]{{1,0}} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
        )
    };
    let cycles = |n: u32, cores| {
        let options = on_cores(cores);
        let exe = c.compile_text(&product(n), &options).expect("it compiles");
        let mut machine = systole_simulator::Machine::new(std::sync::Arc::new(
            systole_simulator::load(exe.program.clone(), c.chip()).expect("it loads"),
        ));
        machine.run(&RunOptions::new(Mode::TimingOnly), &mut NoObserver).expect("no fault").cycles
    };
    for n in [64, 2048] {
        assert_eq!(cycles(n, None), cycles(n, Some(1)).min(cycles(n, Some(2))), "{n}");
    }
    assert!((cycles(2048, Some(1)) as f64) > 1.7 * cycles(2048, Some(2)) as f64);
}

/// A reduction over the devices and a chain of products that do not need each other, in a loop; the sum of both at its end.
const TRAINING: &str = include_str!("../programs/training.hlo");

fn on_pod(c: &Client, text: &str, devices: u32, options: CompileOptions) -> Executable {
    let topology = pod::topology(None, c.chip(), devices).expect("it fits");
    let pod = PodShape { replicas: devices, topology: Some(topology), ..PodShape::default() };
    c.compile_text(text, &options.on(pod)).expect("it compiles")
}

#[test]
fn cores_share_the_work_of_every_device_of_a_pod() {
    let c = client();
    for max_resident in [None, Some(0)] {
        let on = |n| on_pod(&c, TRAINING, 4, shared(n, max_resident));
        let run = |exe: &Executable, options: &RunOptions| {
            let inputs: Vec<Vec<Array>> = (0..4)
                .map(|d| (0..2).map(|i| generate::input(d, i, systole_isa::DType::F32, &[256, 128])).collect())
                .collect();
            let pods = PodOptions::default();
            c.run_pod(exe, &inputs, options, &pods, Attached::default()).expect("no fault")
        };
        let want = run(&on(1), &RunOptions::new(Mode::Full)).outputs;
        let exe = on(2);
        assert!(max_resident.is_none() || exe.cores() == 2, "one core did all");
        let full = run(&exe, &RunOptions::new(Mode::Full));
        assert!(full.outputs == want, "{max_resident:?}: other answers");
        assert!(run(&exe, &RunOptions::new(Mode::NumericOnly)).outputs == want, "{max_resident:?}: without times");
        for chaos in 1..4 {
            let options = RunOptions { chaos: Some(chaos), ..RunOptions::new(Mode::Full) };
            assert!(run(&exe, &options).outputs == want, "{max_resident:?}, latencies {chaos}");
        }
        for (loop_skip, memo) in [(true, true), (false, true), (false, false)] {
            let options = RunOptions { loop_skip, memo, ..RunOptions::new(Mode::TimingOnly) };
            assert_eq!(run(&exe, &options).run.cycles(), full.run.cycles(), "{max_resident:?}: {loop_skip} {memo}");
        }
    }
}

#[test]
fn pods_run_on_as_many_cores_as_make_them_faster() {
    let c = Client::new("tpu-v4").expect("the preset exists");
    let layer = |n: u32| {
        format!(
            "HloModule m\nf {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
            ENTRY main {{ a = bf16[{n},{n}] parameter(0) x = f32[{n},256] parameter(1)
            d = bf16[{n},{n}] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
            r = f32[{n},256] all-reduce(x), replica_groups={{}}, to_apply=f
            ROOT t = (bf16[{n},{n}], f32[{n},256]) tuple(d, r) }}"
        )
    };
    let cycles = |n: u32, cores| {
        let exe = on_pod(&c, &layer(n), 8, on_cores(cores));
        let inputs = vec![generate::placeholders(&exe.program, 0)];
        let (options, pods) = (RunOptions::new(Mode::TimingOnly), PodOptions::default());
        let done = c.run_pod(&exe, &inputs, &options, &pods, Attached::default());
        done.expect("no fault").run.cycles()
    };
    for n in [128, 4096] {
        assert_eq!(cycles(n, None), cycles(n, Some(1)).min(cycles(n, Some(2))), "{n}");
    }
    assert!((cycles(4096, Some(1)) as f64) > 1.7 * cycles(4096, Some(2)) as f64);
}
