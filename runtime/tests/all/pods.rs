//! Programs on several devices: answers of every collective by every algorithm, one device standing for all, exchanges
//! behind other work, transfers, faults, deadlocks.

mod turns;

use systole_compiler::plan::collective::Algorithm;
use systole_compiler::plan::guide::Guide;
use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, DType};
use systole_runtime::pod::{self, Attached, PodExecution, PodOptions};
use systole_runtime::{
    Array, Client, CompileOptions, Executable, Mode, Observer, Queues, RunOptions, RuntimeError, generate,
};

const SUM: &str = "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }\n";

fn client() -> Client {
    Client::new("tiny").expect("a preset")
}

fn compiled(text: &str, replicas: u32, topology: &str, algorithm: Option<Algorithm>) -> Executable {
    compiled_by(&client(), text, replicas, topology, algorithm)
}

fn compiled_by(c: &Client, text: &str, replicas: u32, topology: &str, algorithm: Option<Algorithm>) -> Executable {
    let topology = pod::topology(Some(topology), c.chip(), replicas).expect("it fits");
    let shape = PodShape { replicas, topology: Some(topology), ..PodShape::default() };
    let guide = Guide { collective: algorithm, ..Guide::default() };
    let options = CompileOptions { guide, ..CompileOptions::default().on(shape) };
    c.compile_text(text, &options).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn run(
    exe: &Executable,
    inputs: &[Vec<Array>],
    mode: Mode,
    options: &PodOptions,
) -> Result<PodExecution, RuntimeError> {
    run_by(&client(), exe, inputs, mode, options)
}

fn run_by(
    c: &Client,
    exe: &Executable,
    inputs: &[Vec<Array>],
    mode: Mode,
    options: &PodOptions,
) -> Result<PodExecution, RuntimeError> {
    c.run_pod(exe, inputs, &RunOptions::new(mode), options, Attached::default())
}

fn numbers(a: &Array) -> Vec<i32> {
    a.bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Element `i` of device `d`'s operand.
fn element(d: usize, i: usize) -> i32 {
    (d * 1000 + i * 7) as i32
}

fn operands(devices: usize, rows: usize, columns: usize) -> Vec<Vec<Array>> {
    let one = |d: usize| {
        let bytes = (0..rows * columns).flat_map(|i| element(d, i).to_le_bytes()).collect();
        vec![Array::new(DType::S32, &[rows as u64, columns as u64], bytes)]
    };
    (0..devices).map(one).collect()
}

/// What device number `rank` of a group gets, by rows.
fn expected(kind: &str, group: &[usize], rank: usize, rows: usize, columns: usize) -> Vec<i32> {
    let n = group.len();
    let sum = |i: usize| group.iter().map(|&d| element(d, i)).sum::<i32>();
    let part = rows / n * columns;
    match kind {
        "all-reduce" => (0..rows * columns).map(sum).collect(),
        "all-gather" => group.iter().flat_map(|&d| (0..rows * columns).map(move |i| element(d, i))).collect(),
        "reduce-scatter" => (0..part).map(|i| sum(rank * part + i)).collect(),
        _ => group.iter().flat_map(|&d| (0..part).map(move |i| element(d, rank * part + i))).collect(),
    }
}

fn program(kind: &str, groups: &str, n: usize, rows: usize, columns: usize) -> String {
    let out = match kind {
        "all-gather" => rows * n,
        "reduce-scatter" => rows / n,
        _ => rows,
    };
    let more = match kind {
        "all-reduce" => ", to_apply=add",
        "reduce-scatter" => ", dimensions={0}, to_apply=add",
        _ => ", dimensions={0}",
    };
    format!(
        "HloModule m\n{SUM}ENTRY e {{ x = s32[{rows},{columns}] parameter(0) \
         ROOT r = s32[{out},{columns}] {kind}(x), replica_groups={groups}{more} }}"
    )
}

#[test]
fn every_algorithm_gives_the_answers() {
    let all: Vec<Vec<usize>> = vec![(0..8).collect()];
    let halves: Vec<Vec<usize>> = vec![vec![0, 2, 4, 6], vec![7, 1, 5, 3]];
    for (groups, text) in [(&all, "{{0,1,2,3,4,5,6,7}}"), (&halves, "{{0,2,4,6},{7,1,5,3}}")] {
        let n = groups[0].len();
        for kind in ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"] {
            for (topology, algorithm, rows, columns) in [
                ("2x4", Algorithm::Ring, 64, 20),
                ("ring:8", Algorithm::Ring, 256, 8),
                ("ring:8", Algorithm::Direct, 24, 3),
                ("2x4:torus", Algorithm::Direct, 8, 9),
            ] {
                let exe = compiled(&program(kind, text, n, rows, columns), 8, topology, Some(algorithm));
                let done = run(&exe, &operands(8, rows, columns), Mode::Full, &PodOptions::default());
                let done = done.unwrap_or_else(|e| panic!("{kind} {topology} {algorithm:?}: {e}"));
                for g in groups {
                    for (rank, &d) in g.iter().enumerate() {
                        let want = expected(kind, g, rank, rows, columns);
                        assert_eq!(numbers(&done.outputs[d][0]), want, "{kind} {topology} {algorithm:?} device {d}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_device_stands_for_all() {
    for kind in ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"] {
        for algorithm in [Algorithm::Ring, Algorithm::Direct] {
            let text = program(kind, "{}", 16, 512, 8);
            let text = text.replace("replica_groups={}", "replica_groups=[1,16]<=[16]");
            let exe = compiled(&text, 16, "4x4:torus", Some(algorithm));
            let inputs = vec![vec![Array { dtype: DType::S32, dims: vec![512, 8], bytes: Vec::new() }]];
            let time = |all_devices: bool| {
                let options = PodOptions { all_devices, ..PodOptions::default() };
                run(&exe, &inputs, Mode::TimingOnly, &options).expect("it runs").run
            };
            let (one, all) = (time(false), time(true));
            assert_eq!((one.devices.len(), all.devices.len()), (1, 16));
            for d in &all.devices {
                assert_eq!(d.cycles, one.devices[0].cycles, "{kind} {algorithm:?}");
            }
        }
    }
}

/// Runs a collective of `n` devices, all in one group, on rings and compares every device's answer with what is known of it.
fn answered(c: &Client, text: &str, (kind, topology): (&str, &str), (n, rows): (usize, usize)) -> PodExecution {
    let all: Vec<usize> = (0..n).collect();
    let exe = compiled_by(c, text, n as u32, topology, Some(Algorithm::Ring));
    let done = run_by(c, &exe, &operands(n, rows, 256), Mode::Full, &PodOptions::default());
    let done = done.unwrap_or_else(|e| panic!("{kind} {topology}: {e}"));
    for (rank, out) in done.outputs.iter().enumerate() {
        assert!(numbers(&out[0]) == expected(kind, &all, rank, rows, 256), "{kind} {topology} device {rank}");
    }
    done
}

#[test]
fn unequal_axes_share_the_array_over_all_links() {
    let c = Client::new("tpu-v5e").expect("a preset");
    // Lines with unequal shares, and cycles that share no link.
    for (topology, n) in [("2x4:torus", 8), ("4x2:torus", 8), ("3x4:torus", 12)] {
        let group = (0..n).map(|d| d.to_string()).collect::<Vec<_>>().join(",");
        for kind in ["all-reduce", "all-gather", "reduce-scatter"] {
            let rows = if kind == "all-gather" { 512 } else { 512 * n };
            let text = program(kind, &format!("{{{{{group}}}}}"), n, rows, 256);
            let done = answered(&c, &text, (kind, topology), (n, rows));
            assert_eq!(done.run.links.len(), 4 * n, "{kind} {topology}: links without work");
            let busy: Vec<f64> = done.run.links.iter().map(|l| l.busy).collect();
            let most = busy.iter().copied().fold(0.0, f64::max);
            let least = busy.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(least > 0.6 * most, "{kind} {topology}: links work from {least} to {most} cycles");
        }
    }
}

/// Steps too short for HBM: what comes in is sent on from slots in vector memory, of which there are few.
#[test]
fn long_rings_gather_through_slots() {
    for (chip, topology, n, rows) in
        [("tiny", "ring:8", 8, 640), ("tpu-v5e", "4x16", 64, 8), ("tpu-v4", "4x4x4", 64, 8)]
    {
        let c = Client::new(chip).expect("a preset");
        for kind in ["all-reduce", "all-gather"] {
            let rows = if kind == "all-gather" { rows } else { rows * n };
            let text = program(kind, &format!("[1,{n}]<=[{n}]"), n, rows, 256);
            answered(&c, &text, (kind, topology), (n, rows));
        }
    }
}

/// Steps of a program on 32 devices, with how many devices have to be simulated on a torus of 4x8.
const STEPS: [(&str, usize); 7] = [
    ("all-reduce(x), channel_id=1, replica_groups=[4,8]<=[32], use_global_device_ids=true, to_apply=add", 1),
    ("all-reduce(x), channel_id=1, replica_groups=[8,4]<=[4,8]T(1,0), use_global_device_ids=true, to_apply=add", 1),
    ("all-reduce(x), channel_id=1, replica_groups=[8,4]<=[32], use_global_device_ids=true, to_apply=add", 4),
    ("all-to-all(x), channel_id=1, replica_groups=[4,8]<=[4,2,4]T(0,2,1), dimensions={0}", 1),
    ("collective-permute(x), channel_id=1, source_target_pairs={{0,8},{8,16},{16,24},{24,0},{1,9}}", 32),
    ("conditional(lower, x, x), true_computation=sum, false_computation=alone", 4),
    ("dynamic-slice(wide, row, zero), dynamic_slice_sizes={512,8}", 1),
];

#[test]
fn one_device_stands_for_those_that_are_alike() {
    for (step, simulated) in STEPS {
        let text = format!(
            "HloModule m, num_partitions=32\n{SUM}sum {{ p = s32[512,8] parameter(0) ROOT q = s32[512,8] all-reduce(p), \
             channel_id=7, replica_groups=[4,8]<=[32], use_global_device_ids=true, to_apply=add }}\n\
             alone {{ p = s32[512,8] parameter(0) r = s32[512,8] add(p, p) ROOT q = s32[512,8] multiply(r, p) }}\n\
             ENTRY e {{ x = s32[512,8] parameter(0) id = u32[] partition-id() eight = u32[] constant(8) \
             stage = u32[] divide(id, eight) two = u32[] constant(2) lower = pred[] compare(stage, two), direction=LT \
             zero = u32[] constant(0) row = u32[] multiply(id, eight) \
             wide = s32[1024,8] concatenate(x, x), dimensions={{0}} ROOT r = s32[512,8] {step} }}"
        );
        let pod = PodShape {
            partitions: 32,
            topology: Some(pod::topology(Some("4x8:torus"), client().chip(), 32).expect("it fits")),
            ..PodShape::default()
        };
        let options = CompileOptions::default().on(pod);
        let exe = client().compile_text(&text, &options).expect("it compiles");
        let inputs = vec![vec![Array { dtype: DType::S32, dims: vec![512, 8], bytes: Vec::new() }]];
        let time = |all_devices: bool| {
            let options = PodOptions { all_devices, ..PodOptions::default() };
            run(&exe, &inputs, Mode::TimingOnly, &options).expect("it runs").run
        };
        let (some, all) = (time(false), time(true));
        assert_eq!((some.devices.len(), all.devices.len()), (simulated, 32), "{step}");
        let alike = exe.program.pod.distances().unwrap_or(&[4, 8]).to_vec();
        let mut cycles = some.devices.iter().map(|d| d.cycles);
        let first: Vec<Option<u64>> =
            (0..32).map(|d| (d / 8 < alike[0] && d % 8 < alike[1]).then(|| cycles.next()).flatten()).collect();
        for d in 0..32u32 {
            let stands = (d / 8 % alike[0]) * 8 + d % 8 % alike[1];
            assert_eq!(Some(all.devices[d as usize].cycles), first[stands as usize], "{step}: device {d} of {alike:?}");
        }
        let bytes = |r: &systole_simulator::PodRun| r.traffic.iter().map(|t| t.link_bytes).sum::<u64>();
        assert_eq!(bytes(&some) * u64::from(some.stands_for), bytes(&all), "{step}");
    }
}

/// Whether the device takes part in the run.
#[derive(Default)]
struct Begun(bool);

impl Observer for Begun {
    fn begin(&mut self) {
        self.0 = true;
    }
}

#[test]
fn every_simulated_device_begins() {
    let text = program("all-reduce", "[1,16]<=[16]", 16, 512, 8);
    let exe = compiled(&text, 16, "4x4:torus", None);
    let inputs = vec![vec![Array { dtype: DType::S32, dims: vec![512, 8], bytes: Vec::new() }]];
    for all_devices in [false, true] {
        let mut watched: Vec<Begun> = (0..16).map(|_| Begun::default()).collect();
        let mut queues: Vec<Queues> = (0..16).map(|_| Queues::default()).collect();
        let watchers = watched.iter_mut().map(|w| w as &mut dyn Observer).collect();
        let (run, pod) = (RunOptions::new(Mode::TimingOnly), PodOptions { all_devices, ..PodOptions::default() });
        client()
            .run_pod(&exe, &inputs, &run, &pod, Attached { queues: &mut queues, watchers, ..Attached::default() })
            .expect("it runs");
        let begun = watched.iter().filter(|w| w.0).count();
        assert_eq!(begun, if all_devices { 16 } else { 1 });
    }
}

#[test]
fn broken_links_are_gone_round_or_named() {
    let exe = compiled(&program("all-reduce", "{}", 4, 64, 8), 4, "ring:4", Some(Algorithm::Ring));
    let inputs = operands(4, 64, 8);
    let with = |faults: &[&str]| {
        let faults = faults.iter().map(|f| pod::link_fault(f).expect("well formed")).collect();
        run(&exe, &inputs, Mode::Full, &PodOptions { faults, ..PodOptions::default() })
    };
    let sound = with(&[]).expect("it runs");
    let time = |r: &PodExecution| r.run.devices.iter().map(|d| d.cycles).max();
    for fault in ["link:1-2:x0.01", "link:1-2:down", "link:2-1:down@2000"] {
        let done = with(&[fault]).expect("another way is left");
        assert_eq!(done.outputs[3], sound.outputs[3], "{fault}");
        assert!(time(&done) > time(&sound), "{fault}");
    }
    let cut = with(&["link:1-2:down", "link:0-1:down"]).expect_err("device 1 is cut off");
    assert!(!cut.is_request() && cut.to_string().contains("is down"), "{cut}");
    let none = with(&["link:0-2:down"]).expect_err("no such link");
    assert!(none.is_request() && none.to_string().contains("no link"), "{none}");
}

#[test]
fn a_collective_that_not_everybody_runs_is_a_deadlock() {
    let text = format!(
        "HloModule m\n{SUM}meet {{ x = s32[8,8] parameter(0) ROOT r = s32[8,8] all-reduce(x), replica_groups={{}}, \
         to_apply=add }}\nalone {{ ROOT x = s32[8,8] parameter(0) }}\nENTRY e {{ x = s32[8,8] parameter(0) \
         id = u32[] replica-id() zero = u32[] constant(0) first = pred[] compare(id, zero), direction=EQ \
         ROOT r = s32[8,8] conditional(first, x, x), true_computation=meet, false_computation=alone }}"
    );
    let exe = compiled(&text, 2, "ring:2", None);
    let error = run(&exe, &operands(2, 8, 8), Mode::Full, &PodOptions::default()).expect_err("device 1 never comes");
    let text = error.to_string();
    assert!(
        !error.is_request()
            && text.contains("deadlock")
            && text.contains("waits in %")
            && text.contains("for device 1 (ended)"),
        "{text}"
    );
    assert!(text.contains("devices that have ended and send nothing more: 1"), "{text}");
}

#[test]
fn devices_know_their_numbers() {
    let text =
        "HloModule m\nENTRY e { a = u32[] replica-id() b = u32[] partition-id() ROOT t = (u32[], u32[]) tuple(a, b) }";
    let c = client();
    let chip: &ChipConfig = c.chip();
    let topology = pod::topology(None, chip, 4).expect("it fits");
    let shape = PodShape { replicas: 2, partitions: 2, topology: Some(topology), ..PodShape::default() };
    let exe = c.compile_text(text, &CompileOptions::default().on(shape)).expect("it compiles");
    let done = run(&exe, &[Vec::new()], Mode::NumericOnly, &PodOptions::default()).expect("it runs");
    let ids: Vec<Vec<i32>> = done.outputs.iter().map(|o| o.iter().flat_map(numbers).collect()).collect();
    assert_eq!(ids, [[0, 0], [0, 1], [1, 0], [1, 1]]);
    assert!(pod::topology(Some("2x2"), chip, 5).is_err());
}

/// A product of some depth and an all-reduce that do not need each other, or one of them alone.
fn layer(depth: u32, product: bool, reduction: bool) -> String {
    let dot = "d = bf16[2048,2048] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let sum = "r = f32[4096,1024] all-reduce(x), replica_groups={}, to_apply=add";
    let (lines, results) = match (product, reduction) {
        (true, true) => (format!("{dot} {sum}"), "(bf16[2048,2048], f32[4096,1024]) tuple(d, r)"),
        (true, false) => (dot.to_string(), "(bf16[2048,2048]) tuple(d)"),
        _ => (sum.to_string(), "(f32[4096,1024]) tuple(r)"),
    };
    format!(
        "HloModule m\nadd {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n\
         ENTRY e {{ a = bf16[2048,{depth}] parameter(0) b = bf16[{depth},2048] parameter(1) \
         x = f32[4096,1024] parameter(2) {lines} ROOT t = {results} }}"
    )
}

/// Cycles of a timing-only run.
fn cycles(c: &Client, text: &str, devices: u32, topology: &str) -> f64 {
    let topology = pod::topology(Some(topology), c.chip(), devices).expect("it fits");
    let shape = PodShape { replicas: devices, topology: Some(topology), ..PodShape::default() };
    let exe = c.compile_text(text, &CompileOptions::default().on(shape)).expect("it compiles");
    let inputs = vec![generate::placeholders(&exe.program, 0)];
    let (options, pods) = (RunOptions::new(Mode::TimingOnly), PodOptions::default());
    let done = c.run_pod(&exe, &inputs, &options, &pods, Attached::default());
    done.expect("it runs").run.devices[0].cycles as f64
}

#[test]
fn every_hop_has_its_latency() {
    let c = client();
    let hop = c.chip().ici.hop_latency_s * c.chip().clock_hz;
    assert!(hop > 10.0, "{hop} cycles");
    let arrival = |to: usize| {
        let text = format!(
            "HloModule m\nENTRY e {{ x = s32[8,128] parameter(0) \
             ROOT r = s32[8,128] collective-permute(x), source_target_pairs={{{{0,{to}}}}} }}"
        );
        let exe = compiled(&text, 8, "ring:8", None);
        let options = PodOptions { all_devices: true, ..PodOptions::default() };
        let done = run(&exe, &operands(8, 8, 128), Mode::Full, &options).expect("it runs");
        done.run.devices[to].cycles as f64
    };
    let times: Vec<f64> = (1..=4).map(arrival).collect();
    for more in times.windows(2).map(|t| t[1] - t[0]) {
        // A hop more is its latency more, and at most the time of the message on another link.
        assert!(more >= hop - 1.0 && more < hop + 4096.0, "{times:?}, a hop {hop}");
    }
}

#[test]
fn exchanges_hide_behind_products() {
    let cases = [
        ("tpu-v5e", 4, "ring:4", 8192, 0.89),
        ("tpu-v5e", 8, "ring:8", 10240, 0.89),
        ("tpu-v5e", 8, "2x4", 16384, 0.89),
        // Two cores share the product, and one of them does all that the exchange asks of a core.
        ("tpu-v4", 8, "2x2x2", 10240, 0.85),
        ("tpu-v4", 8, "ring:8", 14336, 0.86),
    ];
    for (chip, devices, topology, depth, least) in cases {
        let c = Client::new(chip).expect("a preset");
        let [product, reduction, both] = [(true, false), (false, true), (true, true)]
            .map(|(p, r)| cycles(&c, &layer(depth, p, r), devices, topology));
        assert!(product > reduction, "{chip} {topology}: {product} {reduction}");
        let hidden = (product + reduction - both) / reduction;
        assert!(
            hidden > least,
            "{chip} {topology}: product {product}, reduction {reduction}, both {both}: {hidden} hidden"
        );
    }
}

/// Two layers of a backward pass: each gradient's all-reduce may run beside the products of the layer behind.
fn backward(products: bool, reductions: bool) -> String {
    let mut lines = String::new();
    let mut results: Vec<&str> = Vec::new();
    let dots = "d1 = bf16[1024,1024] dot(x1, g), lhs_contracting_dims={0}, rhs_contracting_dims={0} \
                g1 = bf16[8192,1024] dot(g, w1), lhs_contracting_dims={1}, rhs_contracting_dims={1} \
                d0 = bf16[1024,1024] dot(x0, g1), lhs_contracting_dims={0}, rhs_contracting_dims={0} \
                g0 = bf16[8192,1024] dot(g1, w0), lhs_contracting_dims={1}, rhs_contracting_dims={1} ";
    if products {
        lines += dots;
        results.push("g0");
    }
    for (i, name) in ["r1", "r0"].into_iter().enumerate() {
        let from = if products { ["d1", "d0"][i] } else { ["w1", "w0"][i] };
        if reductions {
            lines += &format!("{name} = bf16[1024,1024] all-reduce({from}), replica_groups={{}}, to_apply=add ");
        }
        results.push(if reductions { name } else { from });
    }
    let shape = |r: &&str| if *r == "g0" { "bf16[8192,1024]" } else { "bf16[1024,1024]" };
    let shapes: Vec<&str> = results.iter().map(shape).collect();
    format!(
        "HloModule m\nadd {{ a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] add(a, b) }}\n\
         ENTRY e {{ g = bf16[8192,1024] parameter(0) w0 = bf16[1024,1024] parameter(1) w1 = bf16[1024,1024] parameter(2) \
         x0 = bf16[8192,1024] parameter(3) x1 = bf16[8192,1024] parameter(4) {lines} ROOT t = ({}) tuple({}) }}",
        shapes.join(", "),
        results.join(", ")
    )
}

#[test]
fn gradients_are_reduced_beside_the_next_layer() {
    let c = Client::new("tpu-v5e").expect("a preset");
    let [products, reductions, both] =
        [(true, false), (false, true), (true, true)].map(|(p, r)| cycles(&c, &backward(p, r), 4, "ring:4"));
    let hidden = (products + reductions - both) / reductions;
    assert!(hidden > 0.85, "products {products}, reductions {reductions}, both {both}: {hidden} hidden");
}

#[test]
fn hidden_exchanges_give_the_answers() {
    let text = format!(
        "HloModule m\n{SUM}ENTRY e {{ x = s32[512,64] parameter(0) \
         f = f32[512,64] convert(x) y = f32[64,512] transpose(f), dimensions={{1,0}} \
         r = s32[512,64] all-reduce(x), replica_groups={{}}, to_apply=add \
         d = f32[512,512] dot(f, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} \
         k = f32[512] iota(), iota_dimension=0 \
         ROOT t = (s32[512,64], f32[512,512]) tuple(r, d) }}"
    );
    let exe = compiled(&text, 4, "ring:4", Some(Algorithm::Ring));
    let inputs = operands(4, 512, 64);
    for mode in [Mode::Full, Mode::NumericOnly] {
        let done = run(&exe, &inputs, mode, &PodOptions::default()).expect("it runs");
        let want = expected("all-reduce", &[0, 1, 2, 3], 0, 512, 64);
        assert!(done.outputs.iter().all(|o| numbers(&o[0]) == want));
        assert_ne!(done.outputs[0][1].bytes, done.outputs[1][1].bytes, "every device has its own product");
    }
}

/// A transfer of `x` by pairs, in the order of `steps`.
fn transfer(pairs: &str, steps: &[&str]) -> String {
    let pairs = format!("frontend_attributes={{_xla_send_recv_source_target_pairs={pairs}}}");
    let line = |s: &&str| match *s {
        "recv" => format!("v = (s32[8,8], u32[], token[]) recv(k), channel_id=1, {pairs} "),
        "send" => format!("s = (s32[8,8], u32[], token[]) send(x, k), channel_id=1, {pairs} "),
        "recv-done" => "w = (s32[8,8], token[]) recv-done(v), channel_id=1 ".to_string(),
        _ => "t = token[] send-done(s), channel_id=1 ".to_string(),
    };
    format!(
        "HloModule m\nENTRY e {{ x = s32[8,8] parameter(0) k = token[] after-all() {} \
         ROOT r = s32[8,8] get-tuple-element(w), index=0 }}",
        steps.iter().map(line).collect::<String>()
    )
}

#[test]
fn what_is_sent_arrives_or_is_zero() {
    for steps in [["recv", "send", "recv-done", "send-done"], ["send", "recv", "send-done", "recv-done"]] {
        let exe = compiled(&transfer("{{0,1},{1,2},{2,0}}", &steps), 4, "2x2", None);
        let inputs = operands(4, 8, 8);
        let done = run(&exe, &inputs, Mode::Full, &PodOptions::default()).expect("it runs");
        for (device, source) in [(0, Some(2)), (1, Some(0)), (2, Some(1)), (3, None)] {
            let want = source.map_or(vec![0; 64], |s: usize| numbers(&inputs[s][0]));
            assert_eq!(numbers(&done.outputs[device][0]), want, "{steps:?} device {device}");
        }
    }
}

#[test]
fn a_cycle_of_transfers_is_a_deadlock() {
    let text = transfer("{{0,1},{1,0}}", &["send", "send-done", "recv", "recv-done"]);
    let exe = compiled(&text, 2, "ring:2", None);
    let error = run(&exe, &operands(2, 8, 8), Mode::Full, &PodOptions::default()).expect_err("both wait");
    let text = error.to_string();
    assert!(!error.is_request() && text.contains("deadlock"), "{text}");
    assert!(
        text.contains("device 0 (chip 0) waits in %s for device 1 (in %s)")
            && text.contains("device 1 (chip 1) waits in %s for device 0 (in %s)"),
        "{text}"
    );
}

#[test]
fn small_reductions_go_axis_by_axis() {
    let groups = "{{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}}";
    let c = Client::new("tpu-v5e").expect("a preset");
    let exe = compiled_by(&c, &program("all-reduce", groups, 16, 256, 128), 16, "4x4:torus", None);
    assert_eq!(exe.program.pod.algorithm("r"), "direct by axis");
    let inputs = operands(16, 256, 128);
    let done = run_by(&c, &exe, &inputs, Mode::Full, &PodOptions::default()).expect("it runs");
    let want = expected("all-reduce", &(0..16).collect::<Vec<usize>>(), 0, 256, 128);
    assert!(done.outputs.iter().all(|o| numbers(&o[0]) == want));
    let time = |all_devices: bool| {
        let options = PodOptions { all_devices, ..PodOptions::default() };
        let run = run_by(&c, &exe, &inputs, Mode::TimingOnly, &options).expect("it runs").run;
        (run.stands_for, run.devices.iter().map(|d| d.cycles).collect::<Vec<u64>>())
    };
    let (one, all) = (time(false), time(true));
    assert_eq!((one.0, all.0), (16, 1));
    assert_eq!(all.1, vec![one.1[0]; 16]);
}

/// An exchange along either axis of a 4x4 torus, of arrays of different sizes.
fn across(kinds: [&str; 2], rows: [usize; 2], used: [bool; 2]) -> String {
    let groups = ["{{0,4,8,12},{1,5,9,13},{2,6,10,14},{3,7,11,15}}", "{{0,1,2,3},{4,5,6,7},{8,9,10,11},{12,13,14,15}}"];
    let (mut lines, mut shapes, mut names) = (String::new(), Vec::new(), Vec::new());
    for i in (0..2).filter(|&i| used[i]) {
        let (out, more) = match kinds[i] {
            "all-gather" => (rows[i] * 4, "dimensions={0}"),
            "reduce-scatter" => (rows[i] / 4, "dimensions={0}, to_apply=add"),
            _ => (rows[i], "to_apply=add"),
        };
        let shape = format!("s32[{out},128]");
        lines += &format!("r{i} = {shape} {}(x{i}), replica_groups={}, {more}\n", kinds[i], groups[i]);
        shapes.push(shape);
        names.push(format!("r{i}"));
    }
    format!(
        "HloModule m\n{SUM}ENTRY e {{ x0 = s32[{},128] parameter(0) x1 = s32[{},128] parameter(1) {lines} \
         ROOT t = ({}) tuple({}) }}",
        rows[0],
        rows[1],
        shapes.join(", "),
        names.join(", ")
    )
}

#[test]
fn exchanges_on_links_of_their_own_run_side_by_side() {
    let c = Client::new("tpu-v5e").expect("a preset");
    let cases = [
        (["all-reduce", "all-reduce"], [8192, 8192]),
        (["all-gather", "reduce-scatter"], [2048, 8192]),
        (["all-reduce", "all-gather"], [4096, 4096]),
        (["reduce-scatter", "all-reduce"], [8192, 1024]),
    ];
    for (kinds, rows) in cases {
        let [first, second, both] = [[true, false], [false, true], [true, true]].map(|used| across(kinds, rows, used));
        let [first, second, time] = [&first, &second, &both].map(|t| cycles(&c, t, 16, "4x4:torus"));
        // One of them is hidden, but for what the core does for both.
        let longer = first.max(second);
        assert!(time < 1.15 * longer, "{kinds:?} {rows:?}: {first} and {second}, together {time}");

        let exe = compiled_by(&c, &both, 16, "4x4:torus", None);
        let operand = |d: usize, i: usize| operands(d + 1, rows[i], 128).remove(d).remove(0);
        let inputs: Vec<Vec<Array>> = (0..16).map(|d| vec![operand(d, 0), operand(d, 1)]).collect();
        for (mode, chaos) in [(Mode::Full, None), (Mode::NumericOnly, None), (Mode::Full, Some(7))] {
            let mut options = RunOptions::new(mode);
            options.chaos = chaos;
            let done = c.run_pod(&exe, &inputs, &options, &PodOptions::default(), Attached::default());
            let done = done.unwrap_or_else(|e| panic!("{kinds:?}: {e}"));
            for d in 0..16 {
                let column: Vec<usize> = (0..4).map(|k| d % 4 + 4 * k).collect();
                let row: Vec<usize> = (0..4).map(|k| d / 4 * 4 + k).collect();
                for (i, (group, rank)) in [(column, d / 4), (row, d % 4)].iter().enumerate() {
                    let want = expected(kinds[i], group, *rank, rows[i], 128);
                    assert_eq!(numbers(&done.outputs[d][i]), want, "{kinds:?} {mode:?} {chaos:?} device {d}");
                }
            }
        }
    }
}

#[test]
fn exchanges_hide_behind_loops_in_blocks() {
    let program = |work: bool, reduction: bool| {
        let (mut lines, mut shapes, mut names) = (String::new(), Vec::new(), Vec::new());
        if work {
            lines += "t = f32[8192,8192] tanh(y) u = f32[8192,8192] cosine(t) v = f32[8192,8192] sine(u) ";
            shapes.push("f32[8192,8192]");
            names.push("v");
        }
        if reduction {
            lines += "r = f32[4096,1024] all-reduce(x), replica_groups={}, to_apply=add ";
            shapes.push("f32[4096,1024]");
            names.push("r");
        }
        format!(
            "HloModule m\nadd {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n\
             ENTRY e {{ x = f32[4096,1024] parameter(0) y = f32[8192,8192] parameter(1) {lines} \
             ROOT t0 = ({}) tuple({}) }}",
            shapes.join(", "),
            names.join(", ")
        )
    };
    for (chip, topology) in [("tpu-v5e", "2x4"), ("tpu-v4", "2x2x2")] {
        let c = Client::new(chip).expect("a preset");
        let [work, reduction, both] =
            [(true, false), (false, true), (true, true)].map(|(w, r)| cycles(&c, &program(w, r), 8, topology));
        assert!(work > reduction, "{chip}: {work} {reduction}");
        let hidden = (work + reduction - both) / reduction;
        assert!(hidden > 0.8, "{chip} {topology}: work {work}, reduction {reduction}, both {both}: {hidden} hidden");
    }
}

/// Groups of four that number every other device of a mesh, or the rows of one, in any order of the devices.
#[test]
fn devices_are_put_where_their_groups_are_joined_best() {
    let c = Client::new("tpu-v5e").expect("a preset");
    let rows = "{{0,1,2,3},{4,5,6,7},{8,9,10,11},{12,13,14,15}}";
    let apart = "{{0,2,4,6},{1,3,5,7}}";
    for (groups, devices, topology) in [(rows, 16, "4x4"), (apart, 8, "2x4")] {
        let text = format!(
            "HloModule m\n{SUM}ENTRY e {{ x = s32[8192,128] parameter(0) \
             ROOT r = s32[8192,128] all-reduce(x), replica_groups={groups}, to_apply=add }}"
        );
        let topology = pod::topology(Some(topology), c.chip(), devices).expect("it fits");
        let shape = PodShape { replicas: devices, topology: Some(topology), ..PodShape::default() };
        let compiled = |any_order| {
            let options = CompileOptions { any_order, ..CompileOptions::default().on(shape.clone()) };
            c.compile_text(&text, &options).expect("it compiles")
        };
        let inputs = operands(devices as usize, 8192, 128);
        let [named, free] =
            [false, true].map(|any| run_by(&c, &compiled(any), &inputs, Mode::Full, &PodOptions::default()));
        let (named, free) = (named.expect("it runs"), free.expect("it runs"));
        assert!(named.outputs == free.outputs, "{groups}: other answers");
        let (named, free) = (named.run.cycles() as f64, free.run.cycles() as f64);
        // Four devices in a square have two links each, of four in a row the outer ones have one.
        assert!(free < 0.6 * named, "{groups}: {named} by number, {free} in any order");
    }
}
