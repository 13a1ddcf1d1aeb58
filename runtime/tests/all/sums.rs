//! Totals of runs on several devices are the sums of their parts.

use systole_isa::ChipConfig;
use systole_isa::MxuFormat;
use systole_isa::chip::Cost;
use systole_isa::program::PodShape;
use systole_runtime::cost::{Area, Prices, Work, energy};
use systole_runtime::{
    Attached, Client, CompileOptions, Mode, NoObserver, PodOptions, Ran, Report, RunOptions, generate, pod, report,
};
use systole_simulator::stats::{Activity, Traffic};

/// Two rounds of an exchange beside products.
const PROGRAM: &str = include_str!("../programs/exchanges_in_a_loop.hlo");

fn run(chip: &str, pod: (u32, &str), all: bool) -> Report {
    run_text(PROGRAM, chip, pod, all)
}

fn run_text(text: &str, chip: &str, (devices, topology): (u32, &str), all: bool) -> Report {
    let chip = ChipConfig::from_preset(chip).expect("a preset");
    let client = Client::with_chip(chip.clone());
    let mut options = CompileOptions::default();
    let topology = pod::topology(Some(topology), &chip, devices).expect("a topology");
    options.asked.pod = PodShape { replicas: devices, topology: Some(topology), ..PodShape::default() };
    let exe = client.compile_hlo(text, &options).expect("it compiles");
    let inputs = vec![generate::placeholders(&exe.program, 0)];
    let mode = RunOptions::new(Mode::TimingOnly);
    let pods = PodOptions { all_devices: all, ..PodOptions::default() };
    let done = client.run_pod(&exe, &inputs, &mode, &pods, Attached::default()).expect("no fault");
    report(&Ran::new("m", &chip, &exe.program, Mode::TimingOnly), &done.run)
}

#[test]
fn parts_of_a_pod_sum_to_its_totals() {
    for (chip, devices, topology) in [("tpu-v5e", 4, "2x2"), ("tpu-v4", 4, "2x2x1"), ("tpu-v3", 8, "2x2")] {
        for all in [false, true] {
            let r = run(chip, (devices, topology), all);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
            let cycles = r.cycles as f64;
            let p = &r.path;
            assert!(near(p.hbm + p.cmem + p.latency + p.dma + p.ici + p.core, cycles), "{chip}: {p:?} of {cycles}");
            assert!(p.ici > 0.0, "{chip}: {p:?}");
            assert_eq!(r.ops.iter().map(|o| o.cycles).sum::<u64>(), r.cycles, "{chip}");
            assert_eq!(r.flops, 2.0 * 2.0 * 256f64.powi(3), "{chip}");
            assert!(near(r.ops.iter().map(|o| o.flops).sum(), r.flops), "{chip}");
            // Every device does the same; what crosses links is energy of the operation that sends it.
            let joules: f64 = r.ops.iter().map(|o| o.joules).sum::<f64>() * f64::from(devices);
            assert!((joules / r.energy.dynamic_joules - 1.0).abs() < 1e-3, "{chip}: {joules} of {:?}", r.energy);
            let links = r.energy.units["ici"];
            let sent = r.ops.iter().find(|o| o.opcode == "all-reduce").expect("the exchange").joules;
            assert!(links > 0.0 && sent * f64::from(devices) > links, "{chip}: {sent} and {links}");
            // What the exchange took of the links is what the links were busy.
            let pod = r.pod.as_ref().expect("a pod");
            let between: Vec<_> = pod.axes.iter().filter(|a| a.axis >= 0).collect();
            let count: f64 = between.iter().map(|a| f64::from(a.links)).sum();
            let busy = between.iter().map(|a| a.share * f64::from(a.links)).sum::<f64>();
            assert_eq!(count, 8.0, "{chip}: both directions of four neighbours");
            assert!(near(r.ici.share, busy / count), "{chip}: {:?} of {busy}", r.ici);
            let c = &pod.collectives[0];
            if devices == 4 {
                let took = c.share * c.cycles as f64 * count;
                assert!((took / (busy * cycles) - 1.0).abs() < 0.02, "{chip}: {c:?}, busy {busy}");
            }
            let (units, causes) = (r.energy.units.values().sum::<f64>(), r.energy.purposes.values().sum::<f64>());
            assert!(near(units, r.energy.joules) && near(causes, r.energy.joules), "{chip}");
        }
    }
}

#[test]
fn links_that_carry_nothing_count() {
    // Of the twenty links of 2x4 chips without wraps, a shift along the longer axis uses six.
    let text = "HloModule m\nENTRY e { x = f32[512,512] parameter(0)\n\
                ROOT r = f32[512,512] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,3},{4,5},{5,6},{6,7}} }";
    let r = run_text(text, "tpu-v5e", (8, "2x4"), true);
    let pod = r.pod.expect("a pod");
    let links: Vec<(i32, u32)> = pod.axes.iter().map(|a| (a.axis, a.links)).collect();
    let carried = pod.links.iter().filter(|l| l.bytes >= 512 * 512 * 4).count();
    assert_eq!((links, carried), (vec![(0, 8), (1, 12)], 6));
    let c = &pod.collectives[0];
    assert!((0.25..0.31).contains(&c.share), "{c:?}");
    assert!(r.ici.share <= c.share && r.ici.share > 0.2, "{:?}", r.ici);
}

#[test]
fn multiply_adds_are_the_rows_times_the_cells_they_pass() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let client = Client::with_chip(chip.clone());
    let cells = f64::from(chip.mxu.rows) * f64::from(chip.mxu.cols);
    // Products that fill the array, and one that fills a quarter of it.
    for (m, k, n, fills) in [(512, 256, 256, 1.0), (512, 64, 64, 0.25)] {
        let text = format!(
            "HloModule m\nENTRY e {{ a = bf16[{m},{k}] parameter(0) b = bf16[{k},{n}] parameter(1) \
             ROOT d = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
        );
        let exe = client.compile_hlo(&text, &CompileOptions::default()).expect("it compiles");
        let mode = RunOptions::new(Mode::TimingOnly);
        let inputs = generate::placeholders(&exe.program, 0);
        let run = client.device(0).run_with(&exe, &inputs, &mode, &mut NoObserver).expect("no fault").result;
        let work = Work::of_run(&chip, &exe.program, &run);
        let [useful, padding] = [work.useful, work.padding].map(|w| w.iter().sum::<f64>());
        assert_eq!(useful, f64::from(m * k * n));
        let rows: u64 = MxuFormat::ALL.iter().map(|&f| run.activity()[Activity::rows(f)]).sum();
        assert_eq!(useful + padding, rows as f64 * cells);
        assert!(useful / (useful + padding) <= fills, "{useful} of {}", useful + padding);
    }
}

/// A coefficient on which neither energy nor area depends is no part of the model.
#[test]
fn every_coefficient_counts() {
    let mut chip = ChipConfig::from_preset("tpu-v4").expect("a preset");
    chip.clock_hz *= 1.25;
    let traffic = Traffic { hbm_read: 1 << 40, hbm_write: 1 << 40, cmem_read: 1 << 40, cmem_write: 1 << 40 };
    let mut work = Work { traffic, ..Work::default() };
    (work.useful, work.padding, work.link_bytes) = ([1e15; 3], [1e15; 3], 1 << 40);
    Activity::ALL.iter().for_each(|&a| work.activity[a] = 1 << 40);
    let all = |prices: &Prices| {
        let area = Area::of(&chip, prices);
        let limits = area.constraints(prices, 100.0);
        format!("{:?} {} {limits:?}", energy::energy(&chip, &work, 1.0, 1, prices), area.total())
    };
    let prices = Prices::of(&chip);
    // What a chip's system takes besides is added in reports.
    for &cost in Cost::ALL.iter().filter(|c| !matches!(c, Cost::Supply | Cost::Board)) {
        let other = prices.with(cost, 1.5 * prices.get(cost) + 0.5);
        assert!(all(&other) != all(&prices), "nothing depends on `{}`", cost.info().0);
    }
}
