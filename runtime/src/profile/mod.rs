//! A recorded run: what every unit, copy and operation did when, with everything that is needed to show it again.
//!
//! A [`Recorder`] watches a run, [`Profile::new`] joins what it saw with the program and the counters. [`write`] keeps what it
//! saw, the program and the counters in a file, and [`read`] joins them. Tables, exports and the dashboard start from a
//! [`Profile`] and nothing else.
//!
//! Totals (cycles of operations and units, bytes) come from the counters of the run and are exact at any level. Spans are
//! exact as long as they are few; beyond [`Limits`], spans of operations and kernels are joined (their sums stay exact) and
//! transfers and bundles are sampled by windows of time.

pub mod code;
mod columns;
mod counters;
pub mod diff;
mod file;
mod join;
mod lane;
pub mod memory;
mod pod;
mod record;
pub mod region;
pub mod roofline;
mod schema;
pub mod scope;
mod spans;
pub mod table;

pub use file::{FileError, MAGIC, VERSION, bytes, is_profile, read, section, write};
pub use join::Run;
pub use lane::{Lane, LaneKind};
pub use record::{Limits, Recorded, Recorder};
pub use spans::{Cover, Index, Span, Spans};

pub use crate::report::category::{self, Category};
pub use crate::report::op::{Member, OpInfo, OpRow, UnitRow};
use crate::report::{DeviceCounts, Report, Setup};
pub use schema::schema;
use serde::{Deserialize, Serialize};
use systole_isa::ChipConfig;
pub use systole_simulator::CAUSE_TABLE;

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Spans of operations, counters over time.
    Ops,
    /// Also kernels and transfers.
    #[default]
    Kernels,
    /// Also every run of bundles and every wait.
    Bundles,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Ops => "ops",
            Level::Kernels => "kernels",
            Level::Bundles => "bundles",
        }
    }
}

/// A subroutine of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    pub name: String,
    pub start: u32,
    pub bundles: u32,
}

/// A memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    Hbm,
    Vmem,
    Smem,
    Cmem,
}

impl Memory {
    pub fn name(self) -> &'static str {
        match self {
            Memory::Hbm => "HBM",
            Memory::Vmem => "VMEM",
            Memory::Smem => "SMEM",
            Memory::Cmem => "CMEM",
        }
    }
}

/// An array's place in a memory from one cycle to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Buffer {
    pub name: String,
    pub memory: Memory,
    pub address: u64,
    pub bytes: u64,
    /// From cycle `from` until before `to`.
    pub from: u64,
    pub to: u64,
}

/// A copy descriptor as people name it.
#[derive(Clone, Debug, PartialEq)]
pub struct DescInfo {
    pub from: Memory,
    pub to: Memory,
    /// Bytes of a transfer.
    pub bytes: u64,
}

/// A link between chips, with what it carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkInfo {
    pub from_chip: u32,
    pub to_chip: u32,
    /// Axis of the topology.
    pub axis: u32,
    pub bytes: u64,
    /// Cycles in which it carried data.
    pub busy: u64,
}

/// Everything about a profile but its spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// The report of the run: what ran on what, and its totals ([`Profile::report`] adds devices and memories).
    pub report: Report,
    pub chip: ChipConfig,
    /// Chips along each axis.
    pub topology: Vec<u32>,
    pub level: Level,
    pub cycles: u64,
    pub ops: Vec<OpInfo>,
    pub kernels: Vec<Kernel>,
    pub buffers: Vec<Buffer>,
    pub descs: Vec<DescInfo>,
    pub devices: Vec<DeviceMeta>,
    pub links: Vec<LinkInfo>,
}

/// A device's counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceMeta {
    /// Transfers are all that were started; fewer are recorded where they were sampled.
    pub counts: DeviceCounts,
    pub detail: Detail,
    /// Operations by first start; units in the order of [`UnitSamples`].
    pub ops: Vec<OpRow>,
    pub units: Vec<UnitRow>,
}

/// How much of what a device did is in its [`Trace`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Spans of ops were joined over windows of so many cycles (0: they are exact).
    pub op_window: u64,
    pub kernel_window: u64,
    /// One window of time of so many is recorded (1: all).
    pub transfer_stride: u64,
    pub bundle_stride: u64,
}

impl Detail {
    /// All of it.
    pub const ALL: Detail = Detail { op_window: 0, kernel_window: 0, transfer_stride: 1, bundle_stride: 1 };
}

/// A transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub issued: u64,
    /// Cycles in which the engine begins, and in which the last byte is in place.
    pub start: u64,
    pub end: u64,
    pub desc: u32,
    pub op: u32,
    /// HBM bytes, whole bursts.
    pub read: u32,
    pub write: u32,
}

/// Counters at cycles, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    pub cycle: Vec<u64>,
    pub bundles: Vec<u64>,
    pub hbm_read: Vec<u64>,
    pub hbm_write: Vec<u64>,
    pub units: UnitSamples,
}

/// Cycles of units, in the order of the device's: of unit `u` at sample `i` in `[i * count + u]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitSamples {
    /// Units.
    pub count: usize,
    pub busy: Vec<u64>,
    /// All stalls.
    pub stalled: Vec<u64>,
    /// Rounded; of matrix units those in which rows streamed.
    pub useful: Vec<u64>,
}

/// What a unit did between two cycles, as shares of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    pub busy: f64,
    pub stalled: f64,
}

impl Samples {
    /// The values of a column at a cycle, linear between samples. `last`: the value at the end, `end`.
    fn value(&self, column: impl Fn(usize) -> u64, cycle: u64, end: (u64, u64)) -> f64 {
        let i = self.cycle.partition_point(|c| *c <= cycle);
        let before = i.checked_sub(1).map_or((0, 0), |j| (self.cycle[j], column(j)));
        let after = if i < self.cycle.len() { (self.cycle[i], column(i)) } else { end };
        let span = after.0.saturating_sub(before.0).max(1) as f64;
        let part = (cycle.saturating_sub(before.0) as f64 / span).min(1.0);
        before.1 as f64 + part * (after.1 as f64 - before.1 as f64)
    }

    /// Shares of unit `u` over cycles `from..to`; `total` is its row at the end of the run of `cycles`.
    pub fn unit(&self, u: usize, from: u64, to: u64, total: &UnitRow, cycles: u64) -> Share {
        let over = to.saturating_sub(from).max(1) as f64;
        let n = self.units.count;
        let busy = |c| self.value(|i| self.units.busy[i * n + u], c, (cycles, total.busy));
        let stalled = |c| self.value(|i| self.units.stalled[i * n + u], c, (cycles, total.stalled()));
        let share = |v: f64| (v / over).clamp(0.0, 1.0);
        Share { busy: share(busy(to) - busy(from)), stalled: share(stalled(to) - stalled(from)) }
    }

    /// The part of unit `u`'s busy cycles in `from..to` that was useful, as the counters say.
    fn useful(&self, u: usize, from: u64, to: u64, total: &UnitRow, cycles: u64) -> f64 {
        let n = self.units.count;
        let at = |column: &[u64], c, end| self.value(|i| column.get(i * n + u).copied().unwrap_or(0), c, (cycles, end));
        let busy = at(&self.units.busy, to, total.busy) - at(&self.units.busy, from, total.busy);
        let all = total.useful.round() as u64;
        let useful = at(&self.units.useful, to, all) - at(&self.units.useful, from, all);
        if busy > 0.0 { (useful / busy).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// HBM bytes per cycle over cycles `from..to` of a device.
    pub fn hbm(&self, from: u64, to: u64, d: &DeviceMeta) -> f64 {
        let total = (d.counts.cycles, d.counts.hbm_read + d.counts.hbm_write);
        let at = |c| self.value(|i| self.hbm_read[i] + self.hbm_write[i], c, total);
        ((at(to) - at(from)) / to.saturating_sub(from).max(1) as f64).max(0.0)
    }
}

/// What one device did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Spans of operations: every cycle belongs to one (or to none of them: [`NO_OP`]).
    pub ops: Spans,
    /// Calls of kernels by number.
    pub kernels: Spans,
    /// By issue.
    pub transfers: Vec<Transfer>,
    /// Runs of bundles by their first, a bundle a cycle.
    pub runs: Spans,
    /// Waits by `bundle * 16 + cause`.
    pub waits: Spans,
    pub samples: Samples,
    pub issues: Issues,
}

/// How often every bundle issued, and cycles it waited; empty where that was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issues {
    pub executions: Vec<u64>,
    pub waited: Vec<u64>,
}

impl Issues {
    /// Of one bundle.
    pub fn of(&self, bundle: usize) -> (Option<u64>, Option<u64>) {
        (self.executions.get(bundle).copied(), self.waited.get(bundle).copied())
    }
}

/// The id of spans of no operation.
pub const NO_OP: u32 = u32::MAX;

/// A recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub meta: Meta,
    /// In the order of [`Meta::devices`].
    pub traces: Vec<Trace>,
    /// What crossed each of [`Meta::links`]: spans with the id of the op that sent.
    pub links: Vec<Spans>,
    /// The text that was compiled; empty if it is unknown or large.
    pub source: String,
    /// The program without its constants, as a program file; empty where it is unknown.
    pub code: Vec<u8>,
}

impl Profile {
    /// Name of op `id`; `(none)` for none.
    pub fn op_name(&self, id: u32) -> &str {
        self.meta.ops.get(id as usize).map_or("(none)", |o| o.name.as_str())
    }

    /// Name of the op of a row.
    pub fn row_name(&self, row: &OpRow) -> &str {
        self.op_name(row.op.unwrap_or(NO_OP))
    }

    /// The op of a row, if it has one.
    pub fn row_op(&self, row: &OpRow) -> Option<&OpInfo> {
        row.op.and_then(|i| self.meta.ops.get(i as usize))
    }

    pub fn row_category(&self, row: &OpRow) -> Category {
        self.row_op(row).map_or(Category::None, |o| Category::of(&o.opcode))
    }

    /// The text of the op's line in the source.
    pub fn line(&self, op: &OpInfo) -> Option<&str> {
        let line = (op.line as usize).checked_sub(1)?;
        self.source.lines().nth(line).map(str::trim)
    }

    /// The part of a unit's busy cycles in `from..to` that was useful. Of a matrix unit it is that of the operation that runs
    /// there: how much of the rows that were streamed for it it needs.
    pub fn useful_part(&self, device: usize, unit: usize, from: u64, to: u64) -> f64 {
        let (Some(d), Some(t)) = (self.meta.devices.get(device), self.traces.get(device)) else { return 0.0 };
        let Some(row) = d.units.get(unit) else { return 0.0 };
        if !row.unit.starts_with("mxu") {
            return t.samples.useful(unit, from, to, row, d.counts.cycles);
        }
        let running = t.ops.at(from.midpoint(to)).and_then(|(_, s)| d.ops.iter().find(|o| o.op == Some(s.id)));
        running.filter(|o| o.mxu_rows > 0).map_or_else(
            || if row.busy > 0 { row.useful / row.busy as f64 } else { 0.0 },
            |o| {
                let cells = 2.0 * f64::from(self.meta.chip.mxu.rows) * f64::from(self.meta.chip.mxu.cols);
                (o.flops / (o.mxu_rows as f64 * cells).max(1e-9)).clamp(0.0, 1.0)
            },
        )
    }

    /// What ran on what.
    pub fn setup(&self) -> &Setup {
        &self.meta.report.setup
    }

    /// Seconds of a number of cycles.
    pub fn seconds(&self, cycles: u64) -> f64 {
        self.meta.chip.seconds(cycles)
    }
}
