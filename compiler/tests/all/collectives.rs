//! Ways of collectives round a topology: cycles through its places, and how they are chosen from.

use std::collections::BTreeSet;
use systole_compiler::compile::{CompileOptions, plan_module};
use systole_compiler::front::parse_hlo;
use systole_compiler::plan::collective::combinations::{compositions, orders, partitions, sets};
use systole_compiler::plan::collective::cycle::{round, short, through_box};
use systole_compiler::plan::collective::disjoint::disjoint_cycles;
use systole_compiler::plan::collective::lines::{Line, Way};
use systole_compiler::plan::collective::shares::Split;
use systole_isa::ChipConfig;
use systole_isa::program::PodShape;
use systole_isa::topology::Topology;

#[test]
fn rings_on_a_line_never_go_further_than_two() {
    for n in 2..17u32 {
        let r = round(n, false);
        assert_eq!(r.len(), n as usize);
        for i in 0..r.len() {
            let (a, b) = (r[i], r[(i + 1) % r.len()]);
            assert!(a.abs_diff(b) <= 2, "{r:?}");
        }
    }
    assert_eq!(round(5, true), [0, 1, 2, 3, 4]);
}

#[test]
fn cycles_through_boxes_visit_every_place_by_single_steps() {
    for sizes in
        [vec![2, 2], vec![2, 4], vec![3, 4], vec![4, 3], vec![5, 6], vec![2, 2, 4], vec![3, 3, 2], vec![2, 3, 3, 2]]
    {
        let c = through_box(&sizes).expect("an even number of places");
        let all: BTreeSet<&Vec<u32>> = c.iter().collect();
        assert_eq!((c.len(), all.len()), (sizes.iter().product::<u32>() as usize, c.len()), "{sizes:?}");
        for i in 0..c.len() {
            let (a, b) = (&c[i], &c[(i + 1) % c.len()]);
            assert_eq!(a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).sum::<u32>(), 1, "{sizes:?}: {a:?} {b:?}");
        }
    }
    assert_eq!(through_box(&[3, 3]), None);
}

#[test]
fn round_trips_become_short() {
    // The corners of a line of eight, in an order that goes to and fro.
    let at = [0u32, 7, 1, 6, 2, 5, 3, 4];
    let far = |a: usize, b: usize| at[a].abs_diff(at[b]);
    let t = short(8, far);
    assert_eq!((0..8).map(|i| far(t[i], t[(i + 1) % 8])).sum::<u32>(), 14);
}

#[test]
fn cycles_visit_every_place_and_share_no_link() {
    for sizes in
        [vec![3, 4], vec![3, 5], vec![4, 8], vec![6, 10], vec![8, 16], vec![3, 4, 5], vec![4, 4, 8], vec![4, 8, 8]]
    {
        let cycles = disjoint_cycles(&sizes).unwrap_or_else(|| panic!("{sizes:?}: none found"));
        assert_eq!(cycles.len(), sizes.len());
        let mut links = BTreeSet::new();
        for c in &cycles {
            let places: BTreeSet<&Vec<u32>> = c.iter().collect();
            assert_eq!((c.len(), places.len()), (sizes.iter().product::<u32>() as usize, c.len()), "{sizes:?}");
            for (i, from) in c.iter().enumerate() {
                let to = &c[(i + 1) % c.len()];
                let far = |a: usize| (from[a] + sizes[a] - to[a]) % sizes[a];
                let moved: Vec<usize> = (0..sizes.len()).filter(|&a| far(a) != 0).collect();
                assert!(moved.len() == 1 && [1, sizes[moved[0]] - 1].contains(&far(moved[0])), "{from:?} {to:?}");
                assert!(links.insert([from.min(to).clone(), from.max(to).clone()]), "{sizes:?}: {from:?} {to:?}");
            }
        }
    }
}

#[test]
fn partitions_begin_with_the_finest() {
    let counts: Vec<usize> = (1..5).map(|n| partitions(n).len()).collect();
    assert_eq!(counts, [1, 2, 5, 15]);
    assert_eq!(partitions(3)[0], [vec![0], vec![1], vec![2]]);
}

#[test]
fn orders_sets_and_compositions_are_complete() {
    assert_eq!(orders(3).len(), 6);
    assert_eq!(sets(6, 3).len(), 20);
    assert_eq!(compositions(12, 3).len(), 55);
    assert!(compositions(12, 3).iter().all(|c| c.iter().sum::<u32>() == 12 && !c.contains(&0)));
}

/// The cycles that are estimated for a gathering by rings over a topology of these many devices.
fn gathering(chip: &ChipConfig, topology: &str, devices: u32, rows: u32) -> f64 {
    let text = format!(
        "HloModule m
        ENTRY e {{ x = f32[{rows},1024] parameter(0)
          ROOT g = f32[{},1024] all-gather(x), replica_groups={{}}, dimensions={{0}} }}",
        rows * devices
    );
    let mut options = CompileOptions::for_chip(chip);
    let topology = Some(Topology::parse(topology, chip).expect("a topology"));
    options.passes.asked.pod = PodShape { replicas: devices, topology, ..PodShape::default() };
    let (module, _) = parse_hlo(&text).expect("a module");
    let plan = plan_module(module, chip, &options, &text).expect("it fits");
    let reason = &plan.choices[0].reason;
    let ring = reason.split_once(" ring ").and_then(|r| r.1.split_once(',')).expect(reason);
    ring.0.parse().expect(reason)
}

fn line(n: u32, shared: u32) -> Line {
    Line { n, mult: 1, both_ways: true, shared, rings: Vec::new(), of: Vec::new(), links: 1 }
}

#[test]
fn shares_keep_all_links_busy() {
    let chip = ChipConfig::from_preset("tpu-v4").expect("a preset");
    // The time of all bytes over all links of a device, without latencies.
    for lines in [vec![line(4, 1), line(8, 1)], vec![line(8, 2), line(16, 1)], vec![line(4, 1), line(4, 1), line(8, 1)]]
    {
        let devices: f64 = lines.iter().map(|l| f64::from(l.n)).product();
        let links: f64 = lines.iter().map(|l| l.bytes_per_cycle(&chip)).sum();
        let ideal = (devices - 1.0) / devices / links;
        let best = Way::new(lines).splits(&chip).iter().map(Split::rate).fold(f64::INFINITY, f64::min);
        assert!(best < 1.09 * ideal, "{best} of {ideal}");
    }
}

#[test]
fn plans_keep_all_links_busy() {
    // Axes, each with its length and whether it wraps around, and times the ideal that are allowed.
    for (preset, topology, axes, most) in [
        ("tpu-v4", "4x8", &[(4, true), (8, true)][..], 1.01),
        ("tpu-v5e", "4x16", &[(4, false), (16, true)], 1.03),
        ("tpu-v4", "2x4x8:mesh,mesh,mesh", &[(2, false), (4, false), (8, false)], 1.12),
    ] {
        let chip = ChipConfig::from_preset(preset).expect("a preset");
        let devices: u32 = axes.iter().map(|a| a.0).product();
        // The time of all bytes over all links of a device; the difference of two sizes is without latencies.
        let rows = 1024;
        let links: f64 = axes.iter().map(|a| if a.1 { 2.0 } else { 1.0 } * chip.link_bytes_per_cycle()).sum();
        let ideal = f64::from(rows * 4096 * (devices - 1)) / links;
        let took = gathering(&chip, topology, devices, 2 * rows) - gathering(&chip, topology, devices, rows);
        assert!(took < most * ideal, "{topology}: {took} of {ideal}");
    }
}
