//! Profiles: what is recorded agrees with the counters, files come back, damage is told, exports hold the same totals.

use std::sync::OnceLock;
use systole_isa::program::PodShape;
use systole_runtime::export::{chrome, html, perfetto, xplane};
use systole_runtime::profile::{
    self, FileError, Level, Limits, Profile, Recorded, Recorder, Run, diff, memory, roofline, table,
};
use systole_runtime::{
    Attached, Client, CompileOptions, Mode, NoObserver, Observer, PodOptions, PodRun, Queues, Ran, RunOptions, pod,
};

const MLP: &str = include_str!("../../../examples/mlp.hlo");

fn record(chip: &str, text: &str, mode: Mode, level: Level, limits: Limits) -> Profile {
    recorded(chip, text, mode, level, limits).0
}

/// The profile of a run, and its file.
fn recorded(chip: &str, text: &str, mode: Mode, level: Level, limits: Limits) -> (Profile, Vec<u8>) {
    let client = Client::new(chip).expect("a preset");
    let exe = client.compile_hlo(text, &CompileOptions::default()).expect("it compiles");
    let arrays = exe.program.params.iter().enumerate();
    let inputs: Vec<_> =
        arrays.map(|(i, p)| systole_runtime::generate::input(0, i as u64, p.layout.dtype, &p.layout.dims)).collect();
    let mut nobody = NoObserver;
    let mut recorder = Recorder::new(level, limits, (&exe.program, client.chip()), &mut nobody);
    let done = client.device(0).run_with(&exe, &inputs, &RunOptions::new(mode), &mut recorder).expect("no fault");
    let ran = Ran { source: text, ..Ran::new("mlp.hlo", client.chip(), &exe.program, mode) };
    joined(&Run { ran: &ran, run: &PodRun::alone(done.result), level }, vec![recorder.finish()])
}

/// The profile of a run, and its file, which is read to the same.
fn joined(run: &Run<'_>, recorded: Vec<Recorded>) -> (Profile, Vec<u8>) {
    let file = profile::bytes(run, &recorded);
    let p = Profile::new(run, recorded, systole_isa::write_code(run.ran.program));
    assert!(profile::read(&file).is_ok_and(|read| read == p), "what is read is what was written");
    (p, file)
}

fn mlp() -> &'static Profile {
    &mlp_and_file().0
}

fn mlp_and_file() -> &'static (Profile, Vec<u8>) {
    static P: OnceLock<(Profile, Vec<u8>)> = OnceLock::new();
    P.get_or_init(|| recorded("tiny", MLP, Mode::TimingOnly, Level::Bundles, Limits::of(Level::Bundles)))
}

/// Cycles of every op by its spans are those of its counters, and nothing is over its time.
fn check_sums(p: &Profile) {
    for (d, t) in p.meta.devices.iter().zip(&p.traces) {
        let spans = t.ops.totals();
        for o in &d.ops {
            let id = o.op.unwrap_or(profile::NO_OP);
            let sum = spans.iter().find(|s| s.0 == id).map_or(0, |s| s.1);
            assert_eq!(sum, o.cycles, "{}", p.row_name(o));
        }
        assert_eq!(d.ops.iter().map(|o| o.cycles).sum::<u64>(), d.counts.cycles);
        for u in &d.units {
            assert_eq!(u.busy + u.stalled() + u.idle, d.counts.cycles, "{}", u.unit);
            assert!(u.useful <= u.busy as f64);
        }
        assert!(t.samples.cycle.windows(2).all(|w| w[0] < w[1]));
    }
    // The report is that of the slowest device.
    let slowest = p.meta.devices.iter().find(|d| d.counts.cycles == p.meta.cycles).expect("one is the slowest");
    let report = p.report();
    assert_eq!((report.cycles, report.ops.len()), (p.meta.cycles, slowest.ops.len()));
    for (r, o) in report.ops.iter().zip(&slowest.ops) {
        assert_eq!((r.name.as_str(), r.cycles, r.flops), (p.row_name(o), o.cycles, o.flops));
    }
    assert_eq!(report.ops.iter().map(|o| o.flops).sum::<f64>(), report.flops);
    assert_eq!(report.units.len(), slowest.units.len());
}

#[test]
fn recordings_agree_with_counters() {
    let p = mlp();
    check_sums(p);
    let (d, t) = (&p.meta.devices[0], &p.traces[0]);
    assert_eq!(t.transfers.len() as u64, d.counts.transfers);
    assert_eq!(t.transfers.iter().map(|x| x.read as u64).sum::<u64>(), d.counts.hbm_read);
    let issued: u64 = t.runs.len.iter().map(|l| *l as u64).sum();
    assert_eq!(issued, d.counts.bundles);
    let issue = d.units.iter().find(|u| u.unit == "issue").expect("the issue stage");
    assert_eq!(t.waits.iter().map(|s| s.end - s.start).sum::<u64>(), issue.stalled());
    assert_eq!(t.issues.executions.iter().sum::<u64>(), d.counts.bundles);
    assert!(!t.kernels.is_empty() && t.kernels.iter().all(|k| (k.id as usize) < p.meta.kernels.len()));
    for m in [profile::Memory::Vmem, profile::Memory::Hbm] {
        let peak = memory::peak(&memory::occupancy(p, m)).bytes;
        assert!(peak > 0 && peak <= memory::size(p, m), "{peak}");
    }
}

#[test]
fn small_limits_keep_sums() {
    let limits = Limits { spans: 16, samples: 8 };
    let p = record("tiny", MLP, Mode::TimingOnly, Level::Bundles, limits);
    let (d, t) = (&p.meta.devices[0], &p.traces[0]);
    assert_eq!(d.ops, mlp().meta.devices[0].ops);
    assert_eq!(d.units, mlp().meta.devices[0].units);
    for (lane, spans) in [&t.ops, &t.kernels, &t.runs, &t.waits].into_iter().enumerate() {
        assert!(spans.len() <= 17, "lane {lane} has {} spans", spans.len());
    }
    assert!(t.samples.cycle.len() <= 8 && t.transfers.len() <= 16);
    check_sums(&p);
}

#[test]
fn loops_that_are_skipped_are_recorded() {
    let text = "HloModule m\ncond { s = (s32[], f32[8,128]) parameter(0) i = s32[] get-tuple-element(s), index=0 \
                n = s32[] constant(3000) ROOT c = pred[] compare(i, n), direction=LT }\n\
                body { s = (s32[], f32[8,128]) parameter(0) i = s32[] get-tuple-element(s), index=0 \
                x = f32[8,128] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) \
                y = f32[8,128] add(x, x) ROOT t = (s32[], f32[8,128]) tuple(j, y) }\n\
                ENTRY e { i = s32[] constant(0) x = f32[8,128] parameter(0) t = (s32[], f32[8,128]) tuple(i, x) \
                w = (s32[], f32[8,128]) while(t), condition=cond, body=body \
                ROOT r = f32[8,128] get-tuple-element(w), index=1 }";
    let skipped = record("tiny", text, Mode::TimingOnly, Level::Kernels, Limits::of(Level::Kernels));
    let full = record("tiny", text, Mode::Full, Level::Kernels, Limits::of(Level::Kernels));
    check_sums(&skipped);
    check_sums(&full);
    assert_eq!(skipped.meta.devices[0].ops, full.meta.devices[0].ops);
    assert_eq!(skipped.meta.devices[0].units, full.meta.devices[0].units);
    let calls = |p: &Profile| p.traces[0].kernels.totals();
    assert_eq!(calls(&skipped), calls(&full));
}

#[test]
fn files_come_back_and_damage_is_told() {
    let file = &mlp_and_file().1;
    assert_eq!(profile::read(b"ELF"), Err(FileError::Foreign));
    assert_eq!(profile::read(b""), Err(FileError::Foreign));
    for cut in (1..file.len()).step_by(97).chain([7, 8, 11, 12, 20, file.len() - 1]) {
        let error = profile::read(&file[..cut]).expect_err("cut");
        assert!(matches!(error, FileError::Truncated { .. }), "{cut}: {error}");
    }
    for at in (0..file.len()).step_by(61) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x55;
        // A section whose kind is not known is passed over: damage there is a part that is missing.
        let near = &file[at.saturating_sub(3)..(at + 4).min(file.len())];
        let kind = near.windows(4).any(|w| w == b"text");
        assert!(profile::read(&damaged).is_err() || kind || damaged[at..].len() < 64, "byte {at}");
    }
    let mut newer = file.clone();
    newer[8] = 200;
    assert!(profile::read(&newer).expect_err("newer").to_string().contains("newer systole"));
    let mut longer = file.clone();
    longer.push(0);
    assert!(matches!(profile::read(&longer), Err(FileError::Damaged(_))));
}

#[test]
fn tables_and_comparisons_name_what_changed() {
    let p = mlp();
    let page = table::page(p, 3);
    for word in ["operation", "category", "stalled by", "VMEM", "sum", "bound by"] {
        assert!(page.contains(word), "{word} in {page}");
    }
    let ops = &p.meta.devices[0].ops;
    assert_eq!(ops.iter().map(|o| o.cycles).sum::<u64>(), p.meta.cycles);
    let mut other = p.clone();
    other.meta.devices[0].ops[1].cycles += 500;
    other.meta.devices[0].ops[1].stall[4] += 500;
    other.meta.cycles += 500;
    let changed = diff::page(p, &other, 10);
    assert!(changed.contains("+500 cycles waiting for hbm") && changed.contains("slower"), "{changed}");
    assert!(diff::page(p, p, 10).contains("0 of "), "nothing changes");
}

#[test]
fn exports_hold_the_same_totals() {
    let p = mlp();
    for most in [1_000_000, 16] {
        let mut json = Vec::new();
        chrome::write(p, most, &mut json).expect("memory takes all");
        let trace: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let op_track = events.iter().find(|e| e["args"]["name"] == "op").expect("a track of operations");
        for o in p.meta.devices[0].ops.iter().filter(|o| o.op.is_some()) {
            let of =
                |e: &&serde_json::Value| e["ph"] == "X" && e["tid"] == op_track["tid"] && e["name"] == p.row_name(o);
            let cycles: u64 = events.iter().filter(of).filter_map(|e| e["args"]["cycles"].as_u64()).sum();
            assert_eq!(cycles, o.cycles, "{} with {most} slices", p.row_name(o));
        }
    }
    assert!(perfetto::write(p, 1000).len() > 1000);
    assert!(xplane::write(p, 1000).len() > 1000);
    let page = html::page(p);
    for part in ["<svg", "Roofline", "Timeline", "Memory over time", "Stalls", "Links", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=") && !page.contains("href="), "nothing is asked for from elsewhere");
}

/// A run on `partitions` devices of a 2x2 of tiny chips.
fn record_pod(text: &str, all_devices: bool) -> Profile {
    let client = Client::new("tiny").expect("a preset");
    let topology = Some(pod::topology(Some("2x2:torus"), client.chip(), 4).expect("a topology"));
    let shape = PodShape { partitions: 4, topology, ..PodShape::default() };
    let options = CompileOptions::default().on(shape);
    let exe = client.compile_hlo(text, &options).expect("it compiles");
    let program = std::sync::Arc::clone(&exe.program);
    let params = program.params.iter().enumerate();
    let inputs =
        params.map(|(i, p)| systole_runtime::generate::input(0, i as u64, p.layout.dtype, &p.layout.dims)).collect();
    let mut nobody: Vec<NoObserver> = (0..4).map(|_| NoObserver).collect();
    let mut recorders: Vec<Recorder<'_>> = nobody
        .iter_mut()
        .map(|n| Recorder::new(Level::Kernels, Limits::of(Level::Kernels), (&program, client.chip()), n))
        .collect();
    let watchers = recorders.iter_mut().map(|r| r as &mut dyn Observer).collect();
    let mut queues: Vec<Queues> = (0..4).map(|_| Queues::default()).collect();
    let pod_options = PodOptions { all_devices, ..PodOptions::default() };
    let run = RunOptions::new(Mode::TimingOnly);
    let done = client.run_pod(
        &exe,
        &[inputs],
        &run,
        &pod_options,
        Attached { queues: &mut queues, watchers, ..Attached::default() },
    );
    let done = done.expect("no fault").run;
    let ran = Ran { source: text, ..Ran::new("pod.hlo", client.chip(), &program, Mode::TimingOnly) };
    let recorded = recorders.into_iter().map(Recorder::finish).collect();
    joined(&Run { ran: &ran, run: &done, level: Level::Kernels }, recorded).0
}

#[test]
fn sums_agree_on_several_devices() {
    let text = "HloModule p, num_partitions=4\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n\
                ENTRY e { x = f32[64,128] parameter(0) w = f32[128,128] parameter(1) \
                d = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} \
                r = f32[64,128] all-reduce(d), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, \
                to_apply=add ROOT t = f32[64,128] tanh(r) }";
    for all_devices in [true, false] {
        let p = record_pod(text, all_devices);
        check_sums(&p);
        assert_eq!(p.meta.devices.len(), if all_devices { 4 } else { 1 });
        assert!(p.meta.links.len() >= 8, "both directions of four pairs, {} links", p.meta.links.len());
        for (l, spans) in p.meta.links.iter().zip(&p.links) {
            let covered: u64 = spans.iter().map(|s| s.end - s.start).sum();
            assert!(spans.end() <= p.meta.cycles && l.busy <= p.meta.cycles, "{l:?}");
            assert!(covered.abs_diff(l.busy) <= 1 + spans.len() as u64, "{covered} cycles in spans: {l:?}");
            assert!(spans.iter().all(|s| p.op_name(s.id) == "r"), "only the collective sends");
        }
        assert!(p.meta.links.iter().any(|l| l.busy > 0));
        // A roof of the links that the chip has in this pod; by itself it has none.
        let ici = |p: &Profile| {
            let roofs = roofline::roofs(p, &p.meta.devices[0]);
            roofs.iter().find(|r| r.name == "ICI").map(|r| r.bytes / p.meta.chip.link_bytes_per_cycle())
        };
        assert_eq!((ici(&p), ici(mlp())), (Some(4.0), None));
        let mut json = Vec::new();
        chrome::write(&p, 1000, &mut json).expect("memory takes all");
        let trace: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        for (d, meta) in p.meta.devices.iter().enumerate() {
            let track = events.iter().find(|e| e["pid"] == d && e["args"]["name"] == "op").expect("operations");
            let own = events.iter().filter(|e| e["ph"] == "X" && e["pid"] == d && e["tid"] == track["tid"]);
            let cycles: u64 = own.filter_map(|e| e["args"]["cycles"].as_u64()).sum();
            let named: u64 = meta.ops.iter().filter(|o| o.op.is_some()).map(|o| o.cycles).sum();
            assert_eq!(cycles, named, "device {d}");
        }
    }
}
