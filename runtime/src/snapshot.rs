//! The state of a run as plain data, for dashboards: what is shown is exactly what is in a [`Snapshot`].
//!
//! Snapshots can be written and read again (serde), so that a recorded one shows the same.

use crate::report::Report;
use crate::report::text::{bound_in_words, metric, time};
use serde::{Deserialize, Serialize};
use systole_isa::ChipConfig;

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    Compiling,
    Running { cycle: u64, bundles: u64 },
    Done,
    Failed(String),
}

/// A unit's cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitLine {
    pub unit: String,
    pub useful: f64,
    pub busy: u64,
    /// Stalled cycles by cause, causes in alphabetical order.
    pub stall: Vec<(String, u64)>,
    pub idle: u64,
}

/// An operation's cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpLine {
    pub name: String,
    pub opcode: String,
    pub cycles: u64,
    pub flops: f64,
    pub bytes: u64,
    pub bound: String,
}

/// A run at some moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub program: String,
    /// The chip in a line or two of text each; empty until it is known.
    pub chip: Vec<String>,
    pub phase: Phase,
    pub cycles: u64,
    /// Totals as lines of text.
    pub totals: Vec<String>,
    pub bound: String,
    pub bound_words: String,
    pub units: Vec<UnitLine>,
    /// Longest first.
    pub ops: Vec<OpLine>,
}

/// The chip's main numbers as lines.
fn chip_lines(c: &ChipConfig) -> Vec<String> {
    vec![
        format!("{} at {}Hz", c.name, metric(c.clock_hz)),
        format!("{} matrix units of {} x {}", c.mxu.count, c.mxu.rows, c.mxu.cols),
        format!("{} x {} lanes, {} vector ALUs", c.core.sublanes, c.core.lanes, c.core.valu_slots),
        format!("VMEM {} KiB", c.vmem.bytes >> 10),
        format!("HBM {} MiB, {}B/s", c.device_hbm_bytes() >> 20, metric(c.device_hbm_bandwidth())),
    ]
}

impl Snapshot {
    /// Before the program is compiled.
    pub fn compiling(program: &str) -> Snapshot {
        Snapshot {
            program: program.to_string(),
            chip: Vec::new(),
            phase: Phase::Compiling,
            cycles: 0,
            totals: Vec::new(),
            bound: String::new(),
            bound_words: String::new(),
            units: Vec::new(),
            ops: Vec::new(),
        }
    }

    /// While it runs.
    pub fn running(program: &str, chip: &ChipConfig, cycle: u64, bundles: u64) -> Snapshot {
        let phase = Phase::Running { cycle, bundles };
        Snapshot { chip: chip_lines(chip), phase, cycles: cycle, ..Snapshot::compiling(program) }
    }

    /// When it is over.
    pub fn done(program: &str, chip: &ChipConfig, r: &Report) -> Snapshot {
        let mut ops: Vec<&crate::report::OpReport> = r.ops.iter().filter(|o| o.cycles > 0).collect();
        ops.sort_by_key(|o| (std::cmp::Reverse(o.cycles), o.start));
        let op = |o: &&crate::report::OpReport| OpLine {
            name: o.name.clone(),
            opcode: o.opcode.clone(),
            cycles: o.cycles,
            flops: o.flops,
            bytes: o.bytes,
            bound: o.bound.to_string(),
        };
        let unit = |u: &crate::report::UnitReport| UnitLine {
            unit: u.unit.clone(),
            useful: u.useful,
            busy: u.busy,
            stall: u.stall.iter().map(|s| (s.0.to_string(), *s.1)).collect(),
            idle: u.idle,
        };
        Snapshot {
            chip: chip_lines(chip),
            phase: Phase::Done,
            cycles: r.cycles,
            totals: vec![
                format!("{} cycles, {}", r.cycles, time(r.time_s)),
                format!("{}flop, {:.1} % of peak", metric(r.flops), r.peak_share * 100.0),
                format!(
                    "HBM {}B, {:.1} % of bandwidth",
                    metric((r.hbm.read_bytes + r.hbm.write_bytes) as f64),
                    r.hbm.share * 100.0
                ),
            ],
            bound: r.bound.to_string(),
            bound_words: bound_in_words(r.bound).to_string(),
            units: r.units.iter().map(unit).collect(),
            ops: ops.iter().map(op).collect(),
            ..Snapshot::compiling(program)
        }
    }
}
