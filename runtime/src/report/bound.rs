//! What bounds a run or an operation: the resource that would have to be better for it to take less time.
//!
//! Of a whole run the way to its end is known ([`Path`]): cycles of HBM bandwidth, of latency and of copy engines that
//! nothing hid. What is left is the core's own time, which its units and waits divide. Of an operation the waits and the
//! work that its code asked for are known.

use systole_simulator::{CAUSES, Cause, Path, RunResult};

/// What bounds, the units and counters that show it, and the parameters of the chip that change it.
pub struct Meaning {
    pub name: &'static str,
    pub words: &'static str,
    /// Keys of parameters, or the beginnings of keys.
    pub parameters: &'static [&'static str],
}

const fn meaning(name: &'static str, words: &'static str, parameters: &'static [&'static str]) -> Meaning {
    Meaning { name, words, parameters }
}

/// Everything that can bound.
pub const TABLE: &[Meaning] = &[
    meaning("mxu", "the matrix units: streaming rows, or waiting for their results", &["mxu.", "timing.mxu", "clock"]),
    meaning("valu", "vector arithmetic (valu)", &["core.valu_slots", "timing.valu", "clock"]),
    meaning("vload", "loads of vector registers (vload)", &["core.vload_slots", "vmem.read_ports", "clock"]),
    meaning("vstore", "stores of vector registers (vstore)", &["core.vstore_slots", "vmem.write_ports", "clock"]),
    meaning("eup", "the transcendental unit (eup)", &["core.eup_slots", "timing.eup", "clock"]),
    meaning(
        "xlu",
        "the cross-lane unit (xlu): transposes, rotations, reductions",
        &["core.xlu_slots", "timing.xlu", "clock"],
    ),
    meaning("scalar", "scalar instructions and branches", &["core.scalar_slots", "timing.scalar", "clock"]),
    meaning("hbm", "HBM bandwidth", &["hbm.bandwidth", "hbm.efficiency"]),
    meaning("latency", "the latency of copies that nothing hides", &["hbm.latency", "dma.issue_cycles"]),
    meaning(
        "dma",
        "the copy engines: bytes or chunks in a cycle",
        &["dma.bytes_per_cycle", "dma.chunks_per_cycle", "dma.engines", "dma.descriptor_cycles", "dma.in_flight"],
    ),
    meaning("ici", "the interconnect", &["ici."]),
    meaning("issue", "the issue of instructions: latencies, slots, code fetch", &["timing.", "imem.bytes", "clock"]),
    meaning("sync", "synchronisation", &["timing.", "clock"]),
    meaning("host", "the host: its calls, and the cost of the launch", &["host.", "core.launch_cycles"]),
];

/// What a name of the table means, in words.
pub fn words(bound: &str) -> &'static str {
    TABLE.iter().find(|m| m.name == bound).map_or("unknown", |m| m.words)
}

/// The longest wait: its name and cycles.
fn longest_wait(stall: &[u64; CAUSES]) -> (&'static str, u64) {
    let of = |causes: &[Cause]| causes.iter().map(|&c| stall[c as usize]).sum::<u64>();
    let waits = [
        ("hbm", of(&[Cause::Hbm])),
        ("latency", of(&[Cause::Latency])),
        ("dma", of(&[Cause::Dma])),
        ("mxu", of(&[Cause::Mxu])),
        ("issue", of(&[Cause::Register, Cause::Fetch, Cause::Slot])),
        ("sync", of(&[Cause::Sync])),
        ("host", of(&[Cause::Host])),
        ("ici", of(&[Cause::Link])),
    ];
    waits.iter().rev().max_by_key(|w| w.1).copied().unwrap_or(("issue", 0))
}

/// The load that takes at least half of `cycles`, else the longest wait or load.
pub fn most(load: &[(&'static str, f64)], cycles: f64, stall: &[u64; CAUSES]) -> &'static str {
    let best = load.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("issue", 0.0));
    if best.1 >= 0.5 * cycles && best.1 > 0.0 {
        return best.0;
    }
    let worst = longest_wait(stall);
    if worst.1 as f64 > best.1 { worst.0 } else { best.0 }
}

/// What bounds an operation: `load` are cycles of work that its code asked of matrix units and HBM. Where neither takes half
/// of its cycles, it is what it waits for longest, or its own instructions.
pub fn of_op(load: &[(&'static str, f64)], cycles: u64, stall: &[u64; CAUSES]) -> &'static str {
    let issued = cycles.saturating_sub(stall.iter().sum()) as f64;
    let named = most(load, cycles as f64, stall);
    let half = load.iter().any(|l| l.0 == named && l.1 > 0.0 && l.1 >= 0.5 * cycles as f64);
    if half || longest_wait(stall).1 as f64 > issued { named } else { "issue" }
}

/// What bounds a run, and what does next.
pub struct Bounds {
    /// A name of [`TABLE`].
    pub bound: &'static str,
    /// What the time is up to if `bound` is better: the longest way beside it, and the cycles that it takes by itself.
    pub next: (&'static str, f64),
}

/// What bounds a device's run. `launch`: cycles that the host takes to begin and to see the end; `hbm`: cycles that its bytes
/// take at the bandwidth.
pub fn of_run(r: &RunResult, launch: u64, hbm: f64) -> Bounds {
    let Path { bandwidth, latency, engine } = r.path;
    let launch = launch.min(r.cycles) as f64;
    let own = (r.cycles as f64 - bandwidth - latency - engine - launch).max(0.0);
    let copies = [("hbm", bandwidth), ("latency", latency), ("dma", engine), ("host", launch)];
    let copy = copies.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("hbm", 0.0));
    // Copies that the core waits for are on the way already; what is left is its own.
    let issue = r.units.iter().find(|u| u.unit == "issue").map_or([0; CAUSES], |u| u.stall);
    let mut stall = issue;
    for cause in [Cause::Hbm, Cause::Latency, Cause::Dma] {
        stall[cause as usize] = 0;
    }
    let busy =
        |unit: &str| r.units.iter().filter(|u| u.unit.starts_with(unit)).map(|u| u.busy as f64).fold(0.0, f64::max);
    let named = |name: &'static str| (name, busy(name));
    let load = ["mxu", "valu", "vload", "vstore", "eup", "xlu", "scalar"].map(named);
    if copy.1 < own {
        return Bounds { bound: most(&load, own, &stall), next: ("hbm", hbm.min(r.cycles as f64)) };
    }
    let waits: u64 = issue.iter().zip(&stall).map(|(all, rest)| all - rest).sum();
    let working = r.cycles.saturating_sub(waits) as f64;
    Bounds { bound: copy.0, next: (most(&load, working, &stall), working) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_isa::ChipConfig;
    use systole_isa::chip::params;
    use systole_simulator::UnitCounters;

    fn run(path: Path, units: &[(&str, u64)], waits: &[(Cause, u64)]) -> RunResult {
        let unit = |&(name, busy): &(&str, u64)| UnitCounters {
            core: 0,
            unit: name.to_string(),
            useful: 0.0,
            busy,
            stall: [0; CAUSES],
            idle: 1000 - busy,
        };
        let mut units: Vec<UnitCounters> = units.iter().map(unit).collect();
        let mut issue = unit(&("issue", 0));
        waits.iter().for_each(|&(c, n)| issue.stall[c as usize] = n);
        units.push(issue);
        RunResult { cycles: 1000, path, units, ..RunResult::default() }
    }

    #[test]
    fn the_way_to_the_end_decides() {
        let path = |bandwidth, latency, engine| Path { bandwidth, latency, engine };
        // A unit that is busy half of the time does not bound a run whose copies' latency nothing hides.
        assert_eq!(of_run(&run(path(100.0, 880.0, 0.0), &[("mxu0", 500)], &[]), 0, 0.0).bound, "latency");
        assert_eq!(of_run(&run(path(800.0, 100.0, 0.0), &[("mxu0", 790)], &[]), 0, 0.0).bound, "hbm");
        assert_eq!(of_run(&run(path(100.0, 100.0, 700.0), &[("mxu0", 900)], &[]), 0, 0.0).bound, "dma");
        assert_eq!(of_run(&run(path(300.0, 100.0, 0.0), &[("mxu0", 790), ("valu", 200)], &[]), 0, 0.0).bound, "mxu");
        assert_eq!(
            of_run(&run(path(0.0, 0.0, 0.0), &[("valu", 300), ("xlu", 400)], &[(Cause::Mxu, 450)]), 0, 0.0).bound,
            "mxu"
        );
        assert_eq!(of_run(&run(path(0.0, 0.0, 0.0), &[("valu", 300)], &[(Cause::Link, 600)]), 0, 0.0).bound, "ici");
        assert_eq!(of_run(&run(path(100.0, 100.0, 0.0), &[("valu", 100)], &[]), 700, 0.0).bound, "host");
    }

    #[test]
    fn the_longest_way_beside_the_bound_is_said() {
        let path = |bandwidth, latency, engine| Path { bandwidth, latency, engine };
        // Copies that the core hardly waits for: better ones save these waits and no more.
        let close = run(path(940.0, 10.0, 0.0), &[("mxu0", 800)], &[(Cause::Hbm, 70), (Cause::Latency, 20)]);
        assert_eq!(of_run(&close, 0, 950.0).next, ("mxu", 910.0));
        let own = run(path(100.0, 0.0, 0.0), &[("mxu0", 800)], &[(Cause::Hbm, 70)]);
        assert_eq!(of_run(&own, 0, 640.0).next, ("hbm", 640.0));
    }

    #[test]
    fn an_operation_is_bound_by_half_of_its_cycles_or_its_longest_wait() {
        let mut stall = [0; CAUSES];
        stall[Cause::Mxu as usize] = 250;
        assert_eq!(of_op(&[("mxu", 650.0), ("hbm", 100.0)], 1000, &stall), "mxu");
        assert_eq!(of_op(&[("mxu", 100.0), ("hbm", 700.0)], 1000, &stall), "hbm");
        assert_eq!(of_op(&[("mxu", 100.0), ("hbm", 100.0)], 1000, &stall), "issue");
        stall[Cause::Latency as usize] = 600;
        assert_eq!(of_op(&[("mxu", 100.0), ("hbm", 100.0)], 1000, &stall), "latency");
        assert_eq!(of_op(&[("mxu", 0.0), ("hbm", 0.0)], 0, &[0; CAUSES]), "issue");
    }

    #[test]
    fn every_bound_names_parameters_that_there_are() {
        let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
        let mut keys: Vec<String> = params::all().map(|p| p.key.to_string()).collect();
        keys.extend(chip.timing.0.iter().map(|(c, _)| format!("timing.{}", c.name())));
        for m in TABLE {
            for p in m.parameters {
                assert!(keys.iter().any(|k| k.starts_with(p)), "{}: {p}", m.name);
            }
        }
    }
}
