//! What bounds a run or an operation: the resource that would have to be better for it to take less time.
//!
//! Of a whole run the way to its end is known ([`Path`]): cycles of HBM bandwidth, of latency and of copy engines that
//! nothing hid. What is left is the core's own time, which its units and waits divide. Of an operation the waits and the
//! work that its code asked for are known.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use systole_simulator::{CAUSE_TABLE, CAUSES, Cause, Path, RunResult, SlotCycles, UNIT_TABLE, UnitCounters};

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
    meaning(
        "mxu",
        "the matrix units: streaming rows, being given rows and weights, or waiting for their results",
        &["mxu.", "core.mxu_push_slots", "core.mxu_pop_slots", "timing.mxu", "clock"],
    ),
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
    meaning("cmem", "CMEM bandwidth", &["cmem.read_bandwidth", "cmem.write_bandwidth"]),
    meaning(
        "latency",
        "the latency of copies that nothing hides",
        &["hbm.latency", "cmem.latency", "dma.issue_cycles"],
    ),
    meaning(
        "dma",
        "the copy engines: bytes or chunks in a cycle",
        &["dma.bytes_per_cycle", "dma.chunks_per_cycle", "dma.engines", "dma.descriptor_cycles", "dma.in_flight"],
    ),
    meaning("ici", "the interconnect", &["ici."]),
    meaning("peers", "other devices: what they had not sent yet", &[]),
    meaning("issue", "the issue of instructions: latencies, slots, code fetch", &["timing.", "imem.bytes", "clock"]),
    meaning("sync", "synchronisation", &["timing.", "clock"]),
    meaning("host", "the host: its calls, and the cost of the launch", &["host.", "core.launch_cycles"]),
];

/// What waits for copies are called by.
const COPIES: [Cause; 4] = [Cause::Hbm, Cause::Cmem, Cause::Latency, Cause::Dma];

/// What a name of the table means, in words.
pub fn words(bound: &str) -> &'static str {
    TABLE.iter().find(|m| m.name == bound).map_or("unknown", |m| m.words)
}

/// Waits of a run or of an operation.
#[derive(Clone, Copy)]
pub struct Waits {
    pub stall: [u64; CAUSES],
    /// Of those for messages, what was before they were on their way.
    pub peers: u64,
}

impl Waits {
    fn without(mut self, causes: &[Cause]) -> Waits {
        causes.iter().for_each(|&c| self.stall[c as usize] = 0);
        self
    }

    /// Waits for messages that are on their way.
    fn links(&self) -> u64 {
        self.stall[Cause::Link as usize].saturating_sub(self.peers)
    }

    /// The longest: its name and cycles.
    fn longest(&self) -> (&'static str, u64) {
        self.longest_of(&CAUSE_TABLE.map(|c| c.0))
    }

    /// The longest of some causes.
    fn longest_of(&self, causes: &[Cause]) -> (&'static str, u64) {
        let mut waits: SmallVec<[(&str, u64); CAUSES + 1]> = SmallVec::new();
        for &c in causes {
            if c == Cause::Link {
                waits.push(("peers", self.peers));
            }
            let cycles = if c == Cause::Link { self.links() } else { self.stall[c as usize] };
            match waits.iter_mut().find(|w| w.0 == wait(c)) {
                Some(w) => w.1 += cycles,
                None => waits.push((wait(c), cycles)),
            }
        }
        // Of equal ones the last by name.
        waits.into_iter().max_by_key(|w| (w.1, w.0)).unwrap_or(("issue", 0))
    }
}

/// What has to be better for less of a wait.
fn wait(c: Cause) -> &'static str {
    match c {
        Cause::Hbm => "hbm",
        Cause::Cmem => "cmem",
        Cause::Latency => "latency",
        Cause::Dma => "dma",
        Cause::Mxu => "mxu",
        Cause::None | Cause::Register | Cause::Fetch | Cause::Slot => "issue",
        Cause::Sync => "sync",
        Cause::Host => "host",
        Cause::Link => "ici",
    }
}

/// What the core's own cycles go to, of which `issued` issue instructions: the load that takes at least half of them, else the
/// longest wait or load, or what stands in the way of fuller instructions.
pub fn most(load: &[(&'static str, f64)], cycles: f64, issued: f64, waits: &Waits) -> &'static str {
    let best = load.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("issue", 0.0));
    if best.1 >= 0.5 * cycles && best.1 > 0.0 {
        return best.0;
    }
    let worst = waits.longest();
    let rest = issued - best.1;
    if worst.1 as f64 > best.1.max(rest) {
        worst.0
    } else if best.1 > 0.0 && best.1 >= rest {
        best.0
    } else {
        "issue"
    }
}

/// What bounds an operation. `mxu` are the cycles that its rows take in matrix units, `hbm` those that its bytes take at the
/// bandwidth. Better copies take their waits away; a better core leaves the bytes.
pub fn of_op(mxu: f64, hbm: f64, cycles: u64, waits: &Waits) -> &'static str {
    let all = cycles as f64;
    let copies: u64 = COPIES.iter().map(|&c| waits.stall[c as usize]).sum();
    let core = cycles.saturating_sub(copies) as f64;
    if copies > 0 && copies as f64 >= core.min(all - hbm) {
        // Bytes that fill most of the time make a copy's latency longer too.
        return if hbm >= 0.5 * all { "hbm" } else { waits.longest_of(&COPIES).0 };
    }
    let issued = cycles.saturating_sub(waits.stall.iter().sum()) as f64;
    most(&[("mxu", mxu)], core, issued, &waits.without(&COPIES))
}

/// What bounds a run, and what does next.
pub struct Bounds {
    /// A name of [`TABLE`].
    pub bound: &'static str,
    /// Cycles in which the core waited for messages that were on their way, and for those that were not yet.
    pub links: f64,
    pub peers: f64,
    /// What the time is up to if `bound` is better: the longest way beside it, and the cycles that it takes by itself.
    pub next: (&'static str, f64),
}

/// What bounds a device's run. `launch`: cycles that the host takes to begin and to see the end; `bytes`: the memory whose
/// bytes take longest at what it sustains, and these cycles.
///
/// Twice as good takes half of a part of the way to the end away, or less where another way is nearly as long: the core's
/// work and its other waits beside copies; for all but bandwidth also the bytes. What saves most bounds the run, and of what
/// saves as much the longer part.
pub fn of_run(r: &RunResult, launch: u64, bytes: (&'static str, f64)) -> Bounds {
    let Path { bandwidth, latency, engine, cmem } = r.path;
    let cycles = r.cycles as f64;
    let launch = launch.min(r.cycles) as f64;
    let own = (cycles - r.path.copies() - launch).max(0.0);
    let bytes = (bytes.0, bytes.1.min(cycles));
    // Copies that the core waits for are on the way already; what is left is its own.
    let issue = r.units.iter().find(|u| u.unit == "issue").map_or([0; CAUSES], |u| u.stall);
    let all: u64 = issue.iter().sum();
    let peers = r.ops.iter().map(|o| o.peers).sum::<u64>().min(issue[Cause::Link as usize]);
    let waits = Waits { stall: issue, peers }.without(&COPIES);
    let load = loads(r);
    let issued = r.cycles.saturating_sub(all) as f64;
    let copying: u64 = COPIES.iter().map(|&c| issue[c as usize]).sum();
    let working = r.cycles.saturating_sub(copying) as f64;
    let work = (most(&load, working, issued, &waits), working);
    let beside = |name| {
        let work = if name == "host" { (work.0, work.1 - launch) } else { work };
        if bytes.0 != name && bytes.1 > work.1 { bytes } else { work }
    };
    let saved = |part: f64, next: f64| (0.5 * part).min(cycles - next).max(0.0);
    let copies = [("hbm", bandwidth), ("cmem", cmem), ("latency", latency), ("dma", engine), ("host", launch)];
    let copies = copies.map(|(name, part)| (saved(part, beside(name).1), part, name));
    let core = (saved(own, bytes.1), own, "core");
    let most_saved = [core].into_iter().chain(copies).max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let bound = most_saved.map_or("core", |m| m.2);
    let links = (waits.links() as f64).min(own);
    let ways = |bound, next| Bounds { bound, links, peers: (peers as f64).min(own - links), next };
    if bound != "core" {
        return ways(bound, beside(bound));
    }
    let bound = most(&load, own, issued, &waits);
    // What is left where messages take no time, or are on their way at once.
    let (gone, rest) = match bound {
        "ici" => (links, peers),
        "peers" => (peers as f64, waits.links()),
        _ => return ways(bound, bytes),
    };
    let mut left = Waits { peers: if bound == "ici" { peers } else { 0 }, ..waits };
    left.stall[Cause::Link as usize] = rest;
    let work = (own - gone).max(0.0);
    ways(bound, if work > bytes.1 { (most(&load, work, issued, &left), work) } else { bytes })
}

/// Cycles in which what the core has of each kind was full: the array of the matrix unit that works most, or the slots that
/// lead to and from it; the slots of other units. While a run is not over, what is known of their work.
fn loads(r: &RunResult) -> Vec<(&'static str, f64)> {
    let of = |unit: &str, cycles: fn(&UnitCounters) -> f64| {
        r.units.iter().filter(|u| u.unit.starts_with(unit)).map(cycles).fold(0.0, f64::max)
    };
    let s = &r.slots;
    let over = *s != SlotCycles::default();
    let slots = UNIT_TABLE.iter().zip(&s.units);
    let mut out: Vec<(&'static str, f64)> =
        slots.map(|(u, &full)| (u.0, if over { full } else { of(u.0, |u| u.useful) })).collect();
    out.push(("mxu", arrays(r).max(s.push).max(s.pop)));
    out
}

/// Cycles in which the matrix unit that works most was busy, of cores all of whose units work: code that leaves some of them to
/// rest does not lack units.
fn arrays(r: &RunResult) -> f64 {
    let mut cores: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for u in r.units.iter().filter(|u| u.unit.starts_with("mxu")) {
        let (most, least) = cores.entry(u.core).or_insert((0, u64::MAX));
        (*most, *least) = (u.busy.max(*most), u.busy.min(*least));
    }
    let full = cores.into_values().filter(|c| c.1 > 0);
    full.map(|c| c.0 as f64).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_isa::ChipConfig;
    use systole_isa::chip::params;
    use systole_simulator::{OpProfile, UnitCounters};

    /// A run of 1,000 cycles: full slots of units (of matrix units: busy arrays), and waits.
    fn run(path: Path, units: &[(&str, u64)], waits: &[(Cause, u64)]) -> RunResult {
        let unit = |&(name, busy): &(&str, u64)| UnitCounters {
            core: 0,
            unit: name.to_string(),
            useful: 0.0,
            busy,
            stall: [0; CAUSES],
            idle: 1000 - busy,
        };
        let mut all: Vec<UnitCounters> = units.iter().map(unit).collect();
        let mut issue = unit(&("issue", 0));
        waits.iter().for_each(|&(c, n)| issue.stall[c as usize] = n);
        all.push(issue);
        let mut slots = SlotCycles { push: 1.0, ..SlotCycles::default() };
        for (name, full) in units {
            if let Some(u) = UNIT_TABLE.iter().position(|u| u.0 == *name) {
                slots.units[u] = *full as f64;
            }
        }
        RunResult { cycles: 1000, path, units: all, slots, ..RunResult::default() }
    }

    fn bound(path: [f64; 3], units: &[(&str, u64)], waits: &[(Cause, u64)]) -> &'static str {
        let [bandwidth, latency, engine] = path;
        of_run(&run(Path { bandwidth, latency, engine, cmem: 0.0 }, units, waits), 0, ("hbm", 0.0)).bound
    }

    #[test]
    fn the_way_to_the_end_decides() {
        // A unit that is busy half of the time does not bound a run whose copies' latency nothing hides.
        assert_eq!(bound([100.0, 880.0, 0.0], &[("mxu0", 500)], &[(Cause::Latency, 500)]), "latency");
        assert_eq!(bound([800.0, 100.0, 0.0], &[("mxu0", 790)], &[(Cause::Hbm, 150)]), "hbm");
        assert_eq!(bound([100.0, 100.0, 700.0], &[("mxu0", 900)], &[(Cause::Dma, 90)]), "dma");
        assert_eq!(bound([300.0, 100.0, 0.0], &[("mxu0", 790), ("valu", 200)], &[]), "mxu");
        assert_eq!(bound([0.0; 3], &[("valu", 300), ("xlu", 400)], &[(Cause::Mxu, 450)]), "mxu");
        assert_eq!(bound([0.0; 3], &[("valu", 300)], &[(Cause::Link, 600)]), "ici");
        let launched = run(Path { bandwidth: 100.0, latency: 100.0, ..Path::default() }, &[("valu", 100)], &[]);
        assert_eq!(of_run(&launched, 700, ("hbm", 0.0)).bound, "host");
    }

    #[test]
    fn what_would_save_most_bounds() {
        // Copies begin as soon as their places are free, and HBM has hardly a pause between them: a shorter latency fills it.
        let path = Path { bandwidth: 380.0, latency: 570.0, ..Path::default() };
        let copies = run(path, &[("mxu0", 500)], &[(Cause::Latency, 130), (Cause::Hbm, 60)]);
        let of = |bytes: f64| of_run(&copies, 0, ("hbm", bytes));
        assert_eq!((of(930.0).bound, of(930.0).next), ("hbm", ("mxu", 810.0)));
        assert_eq!((of(700.0).bound, of(700.0).next), ("latency", ("mxu", 810.0)));
        assert_eq!(of(850.0).next, ("mxu", 810.0));
        // Work that the core would do in less time, beside bytes that take as long as the run.
        let path = Path { bandwidth: 400.0, ..Path::default() };
        let beside = run(path, &[("valu", 700)], &[(Cause::Hbm, 100)]);
        assert_eq!(of_run(&beside, 0, ("hbm", 990.0)).bound, "hbm");
        assert_eq!(of_run(&beside, 0, ("hbm", 600.0)).bound, "valu");
    }

    #[test]
    fn slots_that_are_rarely_full_do_not_bound() {
        assert_eq!(bound([0.0; 3], &[("vload", 700), ("valu", 300)], &[]), "vload");
        // Every cycle issues something, but no kind of slot is what it lacks.
        assert_eq!(bound([0.0; 3], &[("vload", 300), ("valu", 300)], &[]), "issue");
        // Units of which some rest are not what it lacks.
        assert_eq!(bound([0.0; 3], &[("mxu0", 800), ("mxu1", 700), ("valu", 300)], &[]), "mxu");
        assert_eq!(bound([0.0; 3], &[("mxu0", 900), ("mxu1", 0), ("vload", 700)], &[]), "vload");
        // What matrix units are given bounds as their arrays do.
        let mut given = run(Path::default(), &[("mxu0", 400), ("vload", 500)], &[]);
        given.slots.push = 750.0;
        assert_eq!(of_run(&given, 0, ("hbm", 0.0)).bound, "mxu");
    }

    #[test]
    fn the_longest_way_beside_the_bound_is_said() {
        let path = |bandwidth, latency, engine| Path { bandwidth, latency, engine, cmem: 0.0 };
        // Copies that the core hardly waits for: better ones save these waits and no more.
        let close = run(path(940.0, 10.0, 0.0), &[("mxu0", 800)], &[(Cause::Hbm, 70), (Cause::Latency, 20)]);
        assert_eq!(of_run(&close, 0, ("hbm", 950.0)).next, ("mxu", 910.0));
        let own = run(path(100.0, 0.0, 0.0), &[("mxu0", 800)], &[(Cause::Hbm, 70)]);
        assert_eq!(of_run(&own, 0, ("hbm", 640.0)).next, ("hbm", 640.0));
    }

    #[test]
    fn waits_for_other_devices_are_on_the_way() {
        let path = Path { bandwidth: 100.0, ..Path::default() };
        let of = |links, busy| of_run(&run(path, &[("mxu0", busy)], &[(Cause::Link, links)]), 0, ("hbm", 150.0));
        let far = of(700, 190);
        assert_eq!((far.bound, far.links, far.next), ("ici", 700.0, ("mxu", 200.0)));
        let near = of(800, 90);
        assert_eq!((near.bound, near.links, near.next), ("ici", 800.0, ("hbm", 150.0)));
        assert_eq!((of(10, 850).bound, of(10, 850).links), ("mxu", 10.0));
        // Messages that were not sent yet: nothing of the interconnect would make them come earlier.
        let mut late = run(path, &[("mxu0", 90)], &[(Cause::Link, 800)]);
        late.ops.push(OpProfile { peers: 650, ..OpProfile::default() });
        let late = of_run(&late, 0, ("cmem", 160.0));
        assert_eq!((late.bound, late.links, late.peers, late.next), ("peers", 150.0, 650.0, ("ici", 250.0)));
    }

    #[test]
    fn an_operation_is_bound_by_what_would_save_most() {
        let of = |mxu: f64, hbm: f64, waits: &[(Cause, u64)]| {
            let mut stall = [0; CAUSES];
            waits.iter().for_each(|&(c, n)| stall[c as usize] = n);
            of_op(mxu, hbm, 1000, &Waits { stall, peers: 0 })
        };
        assert_eq!(of(650.0, 100.0, &[(Cause::Mxu, 250)]), "mxu");
        // Copies that take most of the time behind work that takes all of it.
        assert_eq!(of(600.0, 700.0, &[(Cause::Hbm, 10)]), "mxu");
        assert_eq!(of(300.0, 700.0, &[]), "issue");
        // Copies that take all of the time beside work that takes most of it.
        assert_eq!(of(700.0, 980.0, &[(Cause::Hbm, 200)]), "hbm");
        assert_eq!(of(0.0, 640.0, &[(Cause::Hbm, 140), (Cause::Latency, 260)]), "hbm");
        assert_eq!(of(100.0, 100.0, &[(Cause::Latency, 600)]), "latency");
        assert_eq!(of(100.0, 100.0, &[(Cause::Register, 600)]), "issue");
        assert_eq!(of(100.0, 100.0, &[(Cause::Host, 600)]), "host");
        assert_eq!(of_op(0.0, 0.0, 0, &Waits { stall: [0; CAUSES], peers: 0 }), "issue");
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
