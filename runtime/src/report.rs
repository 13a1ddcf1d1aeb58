//! The report of a run as data: what `--report json` prints.

use serde::Serialize;
use systole_isa::{ChipConfig, Program};
use systole_simulator::stats::{CAUSE_TABLE, Cause};
use systole_simulator::RunResult;

/// A unit's cycles: `busy + sum(stall) + idle = cycles`.
#[derive(Clone, Debug, Serialize)]
pub struct UnitReport {
    pub chip: u32,
    pub core: u32,
    pub unit: String,
    /// Cycles of work that the program needs, over the unit's capacity.
    pub useful: f64,
    pub busy: u64,
    pub stall: std::collections::BTreeMap<&'static str, u64>,
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
    pub ops: Vec<OpReport>,
    pub host: HostReport,
}

/// Peak flops per cycle of one core for products of the program's operand type.
fn peak_per_cycle(chip: &ChipConfig, program: &Program) -> f64 {
    let name = program.peak_dtype.map_or("bf16", |t| t.name());
    let rate = |n: &str| chip.mxu.types.iter().find(|t| t.operand == n).map(|t| t.rows_per_cycle);
    let rows = rate(name)
        .or_else(|| rate("bf16"))
        .or_else(|| chip.mxu.types.first().map(|t| t.rows_per_cycle))
        .unwrap_or(1.0);
    2.0 * chip.mxu.count as f64 * chip.mxu.rows as f64 * chip.mxu.cols as f64 * rows
}

/// What limited `cycles`, from the busiest unit and the stalls.
fn bound(busy: &[(&'static str, f64)], cycles: f64, stall: &[u64]) -> &'static str {
    let best = busy.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("issue", 0.0));
    if best.1 >= 0.5 * cycles {
        return best.0;
    }
    let waits: [(&'static str, u64); 4] = [
        ("hbm", stall[Cause::Hbm as usize] + stall[Cause::Dma as usize]),
        ("sync", stall[Cause::Sync as usize]),
        ("host", stall[Cause::Host as usize]),
        ("issue", stall[Cause::Register as usize] + stall[Cause::Fetch as usize] + stall[Cause::Slot as usize]),
    ];
    let worst = waits.iter().max_by_key(|w| w.1).copied().unwrap_or(("issue", 0));
    if worst.1 as f64 > best.1 { worst.0 } else { best.0 }
}

/// The report of a run on one device.
pub fn report(chip: &ChipConfig, program: &Program, r: &RunResult, host: HostReport) -> Report {
    let cycles = r.cycles.max(1) as f64;
    let peak = peak_per_cycle(chip, program);
    let devices_share = chip.hbm.bandwidth / chip.cores as f64 * chip.cores_per_device as f64;
    let time_s = r.cycles as f64 / chip.clock_hz;
    let peak_share = program.flops / (cycles * peak * chip.cores_per_device as f64);
    let mxus = chip.mxu.count.max(1) as f64;
    let units: Vec<UnitReport> = r
        .units
        .iter()
        .map(|u| {
            let useful = if u.unit.starts_with("mxu") {
                (program.flops / peak / mxus * mxus).min(u.busy as f64)
            } else {
                u.useful.min(u.busy as f64)
            };
            UnitReport {
                chip: 0,
                core: 0,
                unit: u.unit.clone(),
                useful,
                busy: u.busy,
                stall: CAUSE_TABLE
                    .iter()
                    .filter(|c| c.0 != Cause::None)
                    .map(|c| (c.1, u.stall[c.0 as usize]))
                    .collect(),
                idle: u.idle,
            }
        })
        .collect();
    let busy = |prefix: &str| {
        r.units.iter().filter(|u| u.unit.starts_with(prefix)).map(|u| u.busy as f64).fold(0.0, f64::max)
    };
    let load: Vec<(&'static str, f64)> = vec![
        ("mxu", busy("mxu")),
        ("vpu", ["valu", "vload", "vstore", "eup"].iter().map(|u| busy(u)).fold(0.0, f64::max)),
        ("xlu", busy("xlu")),
        ("hbm", r.hbm_cycles),
    ];
    let no_stalls = [0; systole_simulator::stats::CAUSES];
    let issue_stalls = r.units.iter().find(|u| u.unit == "issue").map_or(&no_stalls, |u| &u.stall);
    let rows_per_cycle = peak / (2.0 * mxus * chip.mxu.rows as f64 * chip.mxu.cols as f64);
    let hbm_per_cycle = devices_share * chip.hbm.efficiency / chip.clock_hz;
    let ops = r
        .ops
        .iter()
        .map(|o| {
            let d = o.op.and_then(|i| program.debug.ops.get(i as usize));
            let bytes = o.hbm_read + o.hbm_write;
            let load: Vec<(&'static str, f64)> = vec![
                ("mxu", o.mxu_rows as f64 / mxus / rows_per_cycle),
                ("hbm", bytes as f64 / hbm_per_cycle),
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
            }
        })
        .collect();
    Report {
        chip: chip.name.clone(),
        chips: 1,
        cores: 1,
        clock_hz: chip.clock_hz,
        cycles: r.cycles,
        time_s,
        flops: program.flops,
        peak_share,
        bound: bound(&load, cycles, issue_stalls),
        units,
        hbm: HbmReport {
            read_bytes: r.hbm_read,
            write_bytes: r.hbm_write,
            share: (r.hbm_read + r.hbm_write) as f64 / (time_s.max(1e-12) * devices_share),
        },
        ici: IciReport { bytes: 0, share: 0.0 },
        ops,
        host,
    }
}
