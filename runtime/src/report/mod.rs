//! The report of a run as data: what `--report json` prints; [`text`] is the same as a page for people.
//!
//! For every unit `busy` + all of `stall` + `idle` is `cycles`, exactly, and `useful <= busy`. The cycles of the operations
//! sum to `cycles`.

pub mod pod;
pub mod text;

use crate::cost::{self, AreaReport, EnergyReport, Work};
use serde::Serialize;
use std::collections::BTreeMap;
use systole_isa::{ChipConfig, DType, Program};
use systole_simulator::stats::{CAUSE_TABLE, CAUSES, Cause, OpProfile};
use systole_simulator::{RunResult, UnitCounters};

/// A unit's cycles: `busy + sum(stall) + idle = cycles`.
#[derive(Clone, Debug, Serialize)]
pub struct UnitReport {
    pub chip: u32,
    pub core: u32,
    pub unit: String,
    /// Cycles of work that the program needs, over the unit's capacity.
    pub useful: f64,
    pub busy: u64,
    pub stall: BTreeMap<&'static str, u64>,
    pub idle: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct HbmReport {
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Of the device's peak bandwidth.
    pub share: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct IciReport {
    pub bytes: u64,
    pub share: f64,
}

/// An HLO operation: its cycles exclude those of others.
#[derive(Clone, Debug, Serialize)]
pub struct OpReport {
    pub name: String,
    pub opcode: String,
    pub start: u64,
    pub cycles: u64,
    pub flops: f64,
    pub bytes: u64,
    pub bound: &'static str,
    /// Energy of one device, idle power apart.
    pub joules: f64,
}

/// What the host spent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostReport {
    pub parse_s: f64,
    pub compile_s: f64,
    pub simulate_s: f64,
    pub peak_rss_bytes: u64,
    pub cycles_per_s: f64,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub chip: String,
    pub chips: u32,
    pub cores: u32,
    pub clock_hz: f64,
    pub cycles: u64,
    pub time_s: f64,
    pub flops: f64,
    pub peak_share: f64,
    pub bound: &'static str,
    pub units: Vec<UnitReport>,
    pub hbm: HbmReport,
    pub ici: IciReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<pod::PodReport>,
    pub ops: Vec<OpReport>,
    /// Energy of all devices.
    pub energy: EnergyReport,
    /// Area of a chip.
    pub area: AreaReport,
    pub host: HostReport,
}

/// What the program ran on, in the numbers that shares are of.
struct Capacity {
    /// Flops per cycle of the device, and of one of its matrix units, in one pass of the program's operand type.
    flops: f64,
    unit_flops: f64,
    /// HBM bytes per cycle that the device reaches.
    hbm: f64,
    /// Rows per cycle of all matrix units that run the program.
    rows: f64,
}

impl Capacity {
    fn of(chip: &ChipConfig, program: &Program, cores: u32) -> Capacity {
        let flops = chip.peak_flops_per_cycle(program.peak_dtype.unwrap_or(DType::BF16)).max(1.0);
        // Rows of an operation are those of all cores that run the program.
        let per_core = flops / chip.cores_per_device.max(1) as f64;
        let cells = (2 * chip.mxu.rows as u64 * chip.mxu.cols as u64).max(1) as f64;
        Capacity {
            flops,
            unit_flops: per_core / chip.mxu.count.max(1) as f64,
            hbm: chip.hbm_bytes_per_cycle(),
            rows: per_core * f64::from(cores) / cells,
        }
    }
}

/// What limited `cycles`: the load that takes at least half of them, else the longest wait or load.
fn bound(load: &[(&'static str, f64)], cycles: f64, stall: &[u64; CAUSES]) -> &'static str {
    let best = load.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("issue", 0.0));
    if best.1 >= 0.5 * cycles {
        return best.0;
    }
    let of = |causes: &[Cause]| causes.iter().map(|&c| stall[c as usize]).sum::<u64>();
    let waits = [
        ("hbm", of(&[Cause::Hbm, Cause::Dma])),
        ("mxu", of(&[Cause::Mxu])),
        ("issue", of(&[Cause::Register, Cause::Fetch, Cause::Slot])),
        ("sync", of(&[Cause::Sync])),
        ("host", of(&[Cause::Host])),
        ("ici", of(&[Cause::Link])),
    ];
    let worst = waits.iter().rev().max_by_key(|w| w.1).copied().unwrap_or(("issue", 0));
    if worst.1 as f64 > best.1 { worst.0 } else { best.0 }
}

/// A unit's cycles. Matrix units share the program's multiply-adds by the rows that each streamed.
fn unit(u: &UnitCounters, cycles: u64, mxu_cycles: f64, mxu_busy: f64) -> UnitReport {
    let useful = if u.unit.starts_with("mxu") { mxu_cycles * u.busy as f64 / mxu_busy.max(1.0) } else { u.useful };
    let causes = CAUSE_TABLE.iter().filter(|c| c.0 != Cause::None);
    let stall: BTreeMap<&'static str, u64> = causes.map(|c| (c.1, u.stall[c.0 as usize])).collect();
    let idle = cycles.saturating_sub(u.busy + stall.values().sum::<u64>());
    UnitReport {
        chip: 0,
        core: u.core,
        unit: u.unit.clone(),
        useful: useful.min(u.busy as f64),
        busy: u.busy,
        stall,
        idle,
    }
}

fn operation(o: &OpProfile, program: &Program, capacity: &Capacity, joules: f64) -> OpReport {
    let d = o.op.and_then(|i| program.debug.ops.get(i as usize));
    let bytes = o.hbm_read + o.hbm_write;
    let load = [
        ("mxu", o.mxu_rows as f64 / capacity.rows),
        ("hbm", bytes as f64 / capacity.hbm),
        ("vpu", o.cycles.saturating_sub(o.stall.iter().sum()) as f64 * 0.99),
    ];
    OpReport {
        name: d.map_or("(none)".into(), |d| d.name.clone()),
        opcode: d.map_or(String::new(), |d| d.opcode.clone()),
        start: o.start,
        cycles: o.cycles,
        flops: d.map_or(0.0, |d| d.flops * o.entries.max(1) as f64),
        bytes,
        bound: bound(&load, o.cycles as f64, &o.stall),
        joules,
    }
}

/// The report of a run on one device.
pub fn report(chip: &ChipConfig, program: &Program, r: &RunResult, host: HostReport) -> Report {
    let cycles = r.cycles.max(1) as f64;
    let cores = r.units.iter().map(|u| u.core + 1).max().unwrap_or(1);
    let capacity = Capacity::of(chip, program, cores);
    let time_s = chip.seconds(r.cycles);
    let most = |units: &[&str]| {
        let chosen = r.units.iter().filter(|u| units.iter().any(|p| u.unit.starts_with(p)));
        chosen.map(|u| u.busy as f64).fold(0.0, f64::max)
    };
    let load = [
        ("mxu", most(&["mxu"])),
        ("vpu", most(&["valu", "vload", "vstore", "eup"])),
        ("xlu", most(&["xlu"])),
        ("hbm", r.hbm_cycles),
    ];
    let no_stalls = [0; CAUSES];
    let stalls = r.units.iter().find(|u| u.unit == "issue").map_or(&no_stalls, |u| &u.stall);
    let mxu_busy: f64 = r.units.iter().filter(|u| u.unit.starts_with("mxu")).map(|u| u.busy as f64).sum();
    let mxu_cycles = program.flops / capacity.unit_flops;
    let seconds = chip.seconds(r.cycles.max(1));
    let works: Vec<(Work, u64)> = r.ops.iter().map(|o| (Work::of_op(chip, program, o), o.cycles)).collect();
    let mut work = Work::default();
    works.iter().for_each(|w| work += &w.0);
    let energy = cost::energy_report(chip, &work, r.cycles, 1, program.flops, capacity.flops * chip.clock_hz, &works);
    let prices = cost::Prices::of(chip);
    let op = |(o, w): (&OpProfile, &(Work, u64))| {
        operation(o, program, &capacity, cost::energy::dynamic(chip, &w.0, &prices).total())
    };
    Report {
        chip: chip.name.clone(),
        chips: 1,
        cores: chip.cores_per_device,
        clock_hz: chip.clock_hz,
        cycles: r.cycles,
        time_s,
        flops: program.flops,
        peak_share: if r.cycles == 0 { 0.0 } else { program.flops / (cycles * capacity.flops) },
        bound: bound(&load, cycles, stalls),
        units: r.units.iter().map(|u| unit(u, r.cycles, mxu_cycles, mxu_busy)).collect(),
        hbm: HbmReport {
            read_bytes: r.hbm_read,
            write_bytes: r.hbm_write,
            share: if r.cycles == 0 {
                0.0
            } else {
                (r.hbm_read + r.hbm_write) as f64 / (seconds * chip.device_hbm_bandwidth())
            },
        },
        ici: IciReport { bytes: 0, share: 0.0 },
        pod: None,
        ops: r.ops.iter().zip(&works).map(op).collect(),
        area: cost::area_report(chip, energy.peak_power_w),
        energy,
        host,
    }
}
