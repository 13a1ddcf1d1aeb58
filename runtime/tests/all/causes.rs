//! What a run is said to be bound by is what would have to be better: the parameter that is named changes the time, and by
//! more than the others do. Programs run again as they are on chips with one parameter changed.

use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, Program};
use systole_runtime::{
    Attached, Client, CompileOptions, Mode, PodOptions, Queues, Ran, Report, RunOptions, Ways, report,
};
use systole_runtime::{generate, pod};

fn run(chip: &ChipConfig, program: &Program) -> Report {
    let client = Client::with_chip(chip.clone());
    let exe = client.load(program.clone()).expect("the same code fits");
    let inputs = generate::placeholders(program, 0);
    let options = RunOptions::new(Mode::TimingOnly);
    let pod = PodOptions::default();
    let done = client
        .run_pod(&exe, &[inputs], &options, &pod, Attached { queues: &mut [Queues::default()], ..Attached::default() })
        .expect("no fault");
    report(&Ran::new("test", chip, program, Mode::TimingOnly), &done.run)
}

/// Programs of many kinds: what they do, and their text.
fn programs() -> Vec<(&'static str, String)> {
    let two = |op: &str, dtype: &str, shape: &str| {
        format!(
            "HloModule m\nENTRY e {{ a = {dtype}[{shape}] parameter(0) b = {dtype}[{shape}] parameter(1) \
             ROOT c = {dtype}[{shape}] {op}(a, b) }}"
        )
    };
    let dot = |m: u64, k: u64, n: u64| {
        format!(
            "HloModule m\nENTRY e {{ a = bf16[{m},{k}] parameter(0) b = bf16[{k},{n}] parameter(1) \
             ROOT c = bf16[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
        )
    };
    // Every step of the loop reads one row at an index that the row before it gives.
    let chase = "HloModule m\nbody { s = (s32[], s32[4096,128]) parameter(0) i = s32[] get-tuple-element(s), index=0\n\
                 t = s32[4096,128] get-tuple-element(s), index=1 z = s32[] constant(0) n = s32[] constant(1)\n\
                 r = s32[1,128] dynamic-slice(t, i, z), dynamic_slice_sizes={1,128}\n\
                 u = s32[1,128] add(r, r) j = s32[] add(i, n)\n\
                 w = s32[4096,128] dynamic-update-slice(t, u, j, z) ROOT o = (s32[], s32[4096,128]) tuple(j, w) }\n\
                 cond { s = (s32[], s32[4096,128]) parameter(0) i = s32[] get-tuple-element(s), index=0\n\
                 n = s32[] constant(200) ROOT c = pred[] compare(i, n), direction=LT }\n\
                 ENTRY e { t = s32[4096,128] parameter(0) z = s32[] constant(0) s = (s32[], s32[4096,128]) tuple(z, t)\n\
                 l = (s32[], s32[4096,128]) while(s), condition=cond, body=body\n\
                 ROOT r = s32[4096,128] get-tuple-element(l), index=1 }";
    vec![
        ("large sum", two("add", "f32", "4096,4096")),
        ("large bf16 product of elements", two("multiply", "bf16", "8192,2048")),
        ("small sum", two("add", "f32", "8,128")),
        ("large product", dot(2048, 2048, 2048)),
        ("thin product", dot(8, 4096, 4096)),
        ("tiny product", dot(128, 128, 128)),
        ("row after row", chase.to_string()),
        ("softmax", SOFTMAX.to_string()),
        ("reversed rows", one("ROOT r = f32[4096,1000] reverse(a), dimensions={1}", "f32[4096,1000]")),
        (
            "sums of rows",
            one(
                "z = f32[] constant(0) ROOT r = f32[4096] reduce(a, z), dimensions={1}, to_apply=add",
                "f32[4096,2048]",
            ),
        ),
        (
            "many powers",
            one(
                "b = f32[1024,1024] power(a, a) c = f32[1024,1024] atan2(b, a) ROOT r = f32[1024,1024] power(c, b)",
                "f32[1024,1024]",
            ),
        ),
        ("sorted", one("ROOT r = f32[64,1024] sort(a), dimensions={1}, to_apply=less", "f32[64,1024]")),
        ("gathered rows", GATHER.to_string()),
        ("turned and turned back", TURNED.to_string()),
    ]
}

/// What lives between kernels passes through common memory, where there is one.
const TURNED: &str = include_str!("../programs/turned.hlo");

const SOFTMAX: &str = include_str!("../programs/softmax.hlo");

const GATHER: &str = include_str!("../programs/gather.hlo");

/// A program of one operand, `a`.
fn one(body: &str, shape: &str) -> String {
    format!(
        "HloModule m\nadd {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n\
         less {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }}\n\
         ENTRY e {{ a = {shape} parameter(0) {body} }}"
    )
}

/// What is done to a chip, by what bounds a run.
type Changes = [(&'static str, fn(&mut ChipConfig))];

/// Parameters of copies, exchanges and the core twice as good. A better core is one of twice the clock whose copy engines keep their
/// pace.
const BETTER: &Changes = &[
    ("hbm", |c| c.hbm.bandwidth *= 2.0),
    ("cmem", |c| {
        c.cmem.read_bandwidth *= 2.0;
        c.cmem.write_bandwidth *= 2.0;
    }),
    ("ici", |c| {
        c.ici.link_bandwidth *= 2.0;
        c.ici.hop_latency_s /= 2.0;
    }),
    ("latency", |c| {
        c.hbm.latency_s /= 2.0;
        c.cmem.latency_s /= 2.0;
        c.dma.issue_cycles /= 2;
    }),
    ("dma", |c| {
        c.dma.bytes_per_cycle *= 2.0;
        c.dma.chunks_per_cycle *= 2.0;
        c.dma.descriptor_cycles = c.dma.descriptor_cycles.div_ceil(2);
    }),
    ("core", |c| {
        c.clock_hz *= 2.0;
        c.dma.bytes_per_cycle /= 2.0;
        c.dma.chunks_per_cycle /= 2.0;
        c.dma.descriptor_cycles *= 2;
        c.dma.issue_cycles *= 2;
        c.core.launch_cycles *= 2;
    }),
];

/// Twice the slots, ports or units.
const WIDER: &Changes = &[
    ("valu", |c| c.core.valu_slots *= 2),
    ("vload", |c| {
        c.core.vload_slots *= 2;
        c.vmem.read_ports *= 2;
    }),
    ("vstore", |c| {
        c.core.vstore_slots *= 2;
        c.vmem.write_ports *= 2;
    }),
    ("eup", |c| c.core.eup_slots *= 2),
    ("xlu", |c| c.core.xlu_slots *= 2),
    ("scalar", |c| c.core.scalar_slots *= 2),
    ("mxu", |c| {
        c.mxu.count *= 2;
        c.core.mxu_push_slots *= 2;
        c.core.mxu_pop_slots *= 2;
    }),
];

/// The chip with what is done for that bound; `None`: nothing is.
fn changed(chip: &ChipConfig, changes: &Changes, bound: &str) -> Option<ChipConfig> {
    let (_, change) = changes.iter().find(|c| c.0 == bound)?;
    let mut chip = chip.clone();
    change(&mut chip);
    Some(chip)
}

#[test]
fn the_named_parameter_changes_the_time() {
    let mut seen: std::collections::BTreeSet<String> = Default::default();
    let preset = |name: &str| ChipConfig::from_preset(name).expect("a preset");
    let mut slow = preset("tpu-v4");
    (slow.cmem.read_bandwidth, slow.cmem.write_bandwidth) = (4e11, 4e11);
    // A program for a slow common memory would not use it: one that was compiled for a quick one runs on the slow one too.
    let alike = ["tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v6e"].map(|name| (preset(name), preset(name)));
    for (made_for, chip) in alike.into_iter().chain([(preset("tpu-v4"), slow)]) {
        let client = Client::with_chip(made_for);
        for (what, text) in programs() {
            // Strip by strip, what lives between kernels would stay in vector memory.
            let strips = text.contains(TURNED).then_some(0);
            let options = CompileOptions::default().by(Ways { cores: Some(1), strips, ..Ways::default() });
            let exe = client.compile_hlo(&text, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
            let base = run(&chip, &exe.program);
            seen.insert(base.bound.clone());
            let saved = |bound: &str| {
                let faster = run(&changed(&chip, BETTER, bound).expect("of copies"), &exe.program);
                1.0 - faster.time_s / base.time_s
            };
            let savings: Vec<(&str, f64)> =
                ["hbm", "cmem", "latency", "dma", "core"].into_iter().map(|b| (b, saved(b))).collect();
            let said = format!("{what} on {}: bound by {}, {savings:?}, {:?}", chip.name, base.bound, base.path);
            let next = base.path.next_cycles / base.cycles as f64;
            assert!(
                !base.path.next.is_empty() && base.path.next != base.bound && (0.0..=1.0).contains(&next),
                "{said}"
            );
            let p = &base.path;
            let path = [("hbm", p.hbm), ("cmem", p.cmem), ("latency", p.latency), ("dma", p.dma)];
            for (name, cycles) in path {
                let share = cycles / base.cycles as f64;
                let got = savings.iter().find(|s| s.0 == name).map_or(0.0, |s| s.1);
                // Twice as good takes at most half of its part away, and nothing that has no part helps.
                assert!(got <= 0.5 * share + 0.03, "{said}: {name} is {share} of the way");
                if base.bound == name {
                    // Another way may be nearly as long, so not all of the half need be won; beyond the next nothing is.
                    assert!(got >= 0.08 * share, "{said}: {name} is {share} of the way");
                    assert!(got <= 1.0 - next + 0.03, "{said}: {next} of the time is left");
                    assert!(savings.iter().all(|s| s.1 <= got + 0.02), "{said}");
                }
            }
            if !path.iter().any(|p| p.0 == base.bound) {
                // A unit of the core, its code, or the launch: a better core wins more than better copies do. Where as many copies
                // as may be under way take as long, it does so once these are quicker too.
                let (copies, core) = (&savings[..4], savings[4].1);
                assert!(copies.iter().all(|s| s.1 < 0.34), "{said}");
                let with_latency =
                    changed(&chip, BETTER, "core").and_then(|c| changed(&c, BETTER, "latency")).expect("of copies");
                let both = 1.0 - run(&with_latency, &exe.program).time_s / base.time_s;
                let core = core.max(both - saved("latency"));
                assert!(base.bound == "host" || copies.iter().all(|s| s.1 <= core + 0.02), "{said}");
            }
        }
    }
    for bound in ["hbm", "cmem", "latency", "mxu"] {
        assert!(seen.contains(bound), "no program is bound by {bound}: {seen:?}");
    }
}

/// Four devices that sum up an array, and two that work on theirs: one waits for what the other has made.
const SUMMED: &str = include_str!("../programs/summed.hlo");
const LATE: &str = include_str!("../programs/late.hlo");

#[test]
fn links_and_devices_that_have_not_sent_are_told_apart() {
    for name in ["tpu-v5e", "tpu-v4", "tpu-v3"] {
        let chip = ChipConfig::from_preset(name).expect("a preset");
        for (text, bound) in [(SUMMED, "ici"), (LATE, "peers")] {
            let mut options = CompileOptions::default().by(Ways { cores: Some(1), ..Ways::default() });
            let topology = pod::topology(None, &chip, 4).expect("a topology");
            options.asked.pod = PodShape { partitions: 4, topology: Some(topology), ..PodShape::default() };
            let exe = Client::with_chip(chip.clone()).compile_hlo(text, &options).expect("it compiles");
            let base = run(&chip, &exe.program);
            let p = &base.path;
            let faster = run(&changed(&chip, BETTER, "ici").expect("of links"), &exe.program);
            let (saved, share) = (1.0 - faster.time_s / base.time_s, (p.ici - p.peers) / base.cycles as f64);
            let said = format!("{bound} on {name}: {}, {saved} saved, {p:?} of {}", base.bound, base.cycles);
            assert_eq!(base.bound, bound, "{said}");
            let sum = p.hbm + p.cmem + p.latency + p.dma + p.ici + p.core;
            assert!((sum / base.cycles as f64 - 1.0).abs() < 1e-6, "{said}");
            // Twice as good takes at most half of its part away, a little more where devices then wait less for each other, and
            // where it bounds most of that.
            assert!(saved <= 0.5 * share + 0.06, "{said}");
            assert!(saved >= 0.3 * share - 0.01, "{said}");
            // The exchange itself is called by the same.
            let exchange = base.ops.iter().find(|o| o.opcode.starts_with("all-") || o.opcode.starts_with("collective"));
            assert_eq!(exchange.expect("an exchange").bound, bound, "{said}");
        }
    }
}

#[test]
fn more_of_the_unit_that_is_named_saves_time_or_another_one_is_named() {
    let dot = |t: &str, out: &str, m: u64, k: u64, n: u64| {
        format!(
            "HloModule m\nENTRY e {{ a = {t}[{m},{k}] parameter(0) b = {t}[{k},{n}] parameter(1) \
             ROOT c = {out}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
        )
    };
    // Integers whose registers are loaded in every cycle, by one of two slots; the slots to the matrix units are full.
    let mut all = programs();
    all.push(("integers", dot("s8", "s32", 4096, 4096, 7168)));
    all.push(("wide integers", dot("s32", "s32", 128, 128, 128)));
    let tanh = (0..5).fold(String::new(), |t, i| format!("{t} t{} = f32[512,1024] tanh(t{i})", i + 1));
    let tanh = tanh.replace("tanh(t0)", "tanh(a)");
    all.push(("functions", one(&format!("{tanh} ROOT r = f32[512,1024] tanh(t5)"), "f32[512,1024]")));
    for name in ["tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v6e"] {
        let chip = ChipConfig::from_preset(name).expect("a preset");
        let measured = |chip: &ChipConfig, text: &str| {
            let mut options = CompileOptions::default().by(Ways { cores: Some(1), ..Ways::default() });
            options.guide.scoped_vmem = Some(16 << 20);
            let exe = Client::with_chip(chip.clone()).compile_hlo(text, &options).expect("it compiles");
            run(chip, &exe.program)
        };
        for (what, text) in &all {
            let base = measured(&chip, text);
            // An operation that is nearly all of the run is bound by copies if the run is.
            let copies = |bound: &str| ["hbm", "latency", "dma"].contains(&bound);
            if let Some(o) = base.ops.iter().find(|o| o.cycles as f64 > 0.97 * base.cycles as f64) {
                let near = (base.path.hbm + base.path.latency + base.path.dma) / base.cycles as f64;
                let clear = !(0.4..0.6).contains(&near);
                let said = format!("{what} on {name}: {} and {}, {near}", base.bound, o.bound);
                assert!(!clear || copies(&base.bound) == copies(&o.bound), "{said}");
            }
            let Some(more) = changed(&chip, WIDER, &base.bound) else { continue };
            let now = measured(&more, text);
            let said =
                format!("{what} on {name}: {} of {}, then {} of {}", base.bound, base.cycles, now.bound, now.cycles);
            assert!(now.bound != base.bound || (now.cycles as f64) < 0.95 * base.cycles as f64, "{said}");
        }
    }
}

#[test]
fn waits_are_called_by_what_they_wait_for() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let client = Client::with_chip(chip.clone());
    let stall = |r: &Report, cause: &str| {
        let issue = r.units.iter().find(|u| u.unit == "issue").expect("the issue stage");
        issue.stall[cause] as f64 / r.cycles as f64
    };
    for (what, text) in programs() {
        let exe = client.compile_hlo(&text, &CompileOptions::default()).expect("it compiles");
        let r = run(&chip, &exe.program);
        match what {
            // Steady copies of blocks: every one is shorter than the latency, all together fill the bandwidth.
            "large sum" | "large bf16 product of elements" => {
                assert!(r.hbm.share > 0.8 && stall(&r, "hbm") > 4.0 * stall(&r, "latency"), "{what}: {:?}", r.units);
            }
            "small sum" => {
                assert!(stall(&r, "latency") > 2.0 * stall(&r, "hbm"), "{what}: {:?}", r.units);
            }
            _ => {}
        }
    }
}
