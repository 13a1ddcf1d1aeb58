//! The report of a run as data: what `--report json` prints, and what tables, pages and the dashboard start from;
//! [`text`] is the same as a page for people. `docs/json.md` describes the form, [`SCHEMA`] is its version.
//!
//! For every unit `busy` + all of `stall` + `idle` is `cycles`, exactly, and `useful <= busy`. The cycles of the operations
//! sum to `cycles`, their flops to `flops`.

pub mod bound;
pub mod category;
pub mod glossary;
pub mod kernels;
pub mod op;
pub mod pod;
pub mod rows;
pub mod setup;
pub mod text;

use crate::cost::draws::Drawn;
use crate::cost::energy::Flops;
use crate::cost::{self, AreaReport, EnergyReport, Links, Work};
pub use setup::{InputsFrom, Setup};

use crate::Mode;
use crate::origin::Origin;
use op::Member;
use rows::{Done, Scale};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use systole_isa::program::HostArray;
use systole_isa::{ChipConfig, DType, Layout, Program};
use systole_simulator::stats::{CAUSE_TABLE, CAUSES, Cause};
use systole_simulator::{PodRun, RunResult};

/// Version of the form. It grows when a field changes its meaning or goes; new fields leave it.
pub const SCHEMA: u32 = 1;

/// A unit's cycles: `busy + sum(stall) + idle = cycles`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitReport {
    /// Its chip.
    pub chip: u32,
    /// Its core, among those of the chip.
    pub core: u32,
    /// Its name.
    pub unit: String,
    /// Cycles of work that the program needs, over the unit's capacity.
    pub useful: f64,
    /// Cycles in which it works.
    pub busy: u64,
    /// Cycles in which it waits, by cause.
    pub stall: BTreeMap<Cow<'static, str>, u64>,
    /// Cycles in which there is nothing for it.
    pub idle: u64,
}

/// HBM traffic of the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HbmReport {
    /// Bytes read, whole bursts.
    pub read_bytes: u64,
    /// Bytes written, whole bursts.
    pub write_bytes: u64,
    /// Of the device's peak bandwidth.
    pub share: f64,
}

/// CMEM traffic of the device, on chips that have one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CmemReport {
    /// Bytes read, whole bursts.
    pub read_bytes: u64,
    /// Bytes written, whole bursts.
    pub write_bytes: u64,
    /// Of the bandwidth at which the device's copies read it, or of that at which they write it: the larger share.
    pub share: f64,
}

/// Traffic of the interconnect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IciReport {
    /// Bytes that crossed links.
    pub bytes: u64,
    /// Of what all links could have carried.
    pub share: f64,
}

/// Flops of one operand type, and the peak that they are compared with: the rate of one pass of that type (of bf16, where
/// the chip's matrix units lack the type; of the vector ALUs for f64 and integers beyond 8 bits).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakReport {
    /// Element type of the operands.
    pub operand: String,
    /// Flops of the run.
    pub flops: f64,
    /// The peak of the device.
    pub peak_flops_per_s: f64,
    /// Share of the run's time that the flops take at that peak.
    pub share: f64,
}

/// Cycles that the run's end depends on (see [`systole_simulator::Path`]); `core` is the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathReport {
    /// HBM bandwidth.
    pub hbm: f64,
    /// Latency of copies.
    pub latency: f64,
    /// Copy engines.
    pub dma: f64,
    /// CMEM bandwidth.
    #[serde(default)]
    pub cmem: f64,
    /// Waits for other devices.
    #[serde(default)]
    pub ici: f64,
    /// Of these, waits for what other devices have not sent yet.
    #[serde(default)]
    pub peers: f64,
    /// What the core does itself, or waits for otherwise.
    pub core: f64,
    /// What bounds the run next, if what bounds it is better.
    #[serde(default)]
    pub next: String,
    /// Cycles that it takes by itself: the least time of the run, whatever the bound.
    #[serde(default)]
    pub next_cycles: f64,
}

/// An HLO operation: its cycles exclude those of others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpReport {
    /// Its name; `(none)` is code of no operation, the launch included.
    pub name: String,
    /// Its opcode.
    pub opcode: String,
    /// Kind of work.
    pub category: String,
    /// Line in the module's text, from 1; 0 if unknown.
    pub line: u32,
    /// Where it comes from in the user's program, if the module says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Operations that the same code computes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// Cycle in which its code first ran.
    pub start: u64,
    /// Cycles in which its code ran.
    pub cycles: u64,
    /// Executions.
    pub times: u64,
    /// How often control entered its code: more than `times` where it is left and resumed.
    pub entries: u64,
    /// Useful flops of all executions.
    pub flops: f64,
    /// Element type whose peak the flops are compared with; empty without flops.
    pub operand: String,
    /// HBM bytes read and written.
    pub bytes: u64,
    /// HBM bytes read.
    pub hbm_read: u64,
    /// HBM bytes written.
    pub hbm_write: u64,
    /// CMEM bytes read and written.
    #[serde(default, skip_serializing_if = "none_of_it")]
    pub cmem: u64,
    /// Rows streamed by matrix units.
    pub mxu_rows: u64,
    /// Cycles in which its code waited, by cause; causes that do not occur are left out.
    pub stall: BTreeMap<Cow<'static, str>, u64>,
    /// What bounds it.
    pub bound: String,
    /// Energy of one device, idle power apart.
    pub joules: f64,
}

/// What the host spent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// Seconds for reading the program.
    pub parse_s: f64,
    /// Seconds for compiling it.
    pub compile_s: f64,
    /// Seconds for the simulation.
    pub simulate_s: f64,
    /// Most resident memory of the process.
    pub peak_rss_bytes: u64,
    /// Simulated cycles in a second.
    pub cycles_per_s: f64,
}

/// A category's operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CategoryReport {
    /// Its name.
    pub category: String,
    /// Cycles of its operations.
    pub cycles: u64,
    /// How many there are.
    pub ops: u64,
}

/// Operations of one scope of the user's program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeReport {
    /// Names from the outermost scope to this one.
    pub path: Vec<String>,
    /// Cycles of its operations, those of inner scopes included.
    pub cycles: u64,
    /// Useful flops, likewise.
    pub flops: f64,
    /// HBM bytes, likewise.
    pub bytes: u64,
    /// Operations, likewise.
    pub ops: u64,
}

/// A line of the program that a kernel was written in, with what its code took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineReport {
    /// Its file, line and function.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// May be empty.
    pub function: String,
    /// Which part of it: a traced region, the copies of a window ("window of operand 1"), or elements that change lanes or
    /// sublanes ("relayout of .."); may be empty.
    pub part: String,
    /// Cycles in which its code issued or waited.
    pub cycles: u64,
    /// Cycles of these in which it waited.
    pub waited: u64,
}

/// A region that a kernel names (`jax.named_scope`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegionReport {
    /// Names from the outermost region to this one.
    pub path: Vec<String>,
    /// Cycles in which its code issued or waited, that of inner regions included.
    pub cycles: u64,
    /// Cycles of these in which it waited.
    pub waited: u64,
}

/// A part of the vector memory that a kernel keeps for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoomReport {
    /// The kernel's name.
    pub kernel: String,
    /// What is there: a window, an argument, vectors on their way, spilled registers.
    pub what: String,
    /// Its size.
    pub bytes: u64,
}

/// Something that holds a kernel back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LintReport {
    /// `exposed copies`, `relayouts`, `spills`, `padding` or `matrix units`.
    pub kind: String,
    /// The line that it is about most.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// May be empty.
    pub function: String,
    /// Cycles that it takes; of spills, the loads and stores.
    pub cycles: u64,
    /// What it is, in words.
    pub text: String,
}

/// What one device (or core of a device) did, as a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounts {
    /// Its chip.
    pub chip: u32,
    /// Its core.
    pub core: u32,
    /// Cycles of its run.
    pub cycles: u64,
    /// HBM bytes read.
    pub hbm_read: u64,
    /// HBM bytes written.
    pub hbm_write: u64,
    /// Copies started.
    pub transfers: u64,
    /// Bundles issued.
    pub bundles: u64,
}

/// What one device (or core of a device) did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceReport {
    #[serde(flatten)]
    pub counts: DeviceCounts,
    /// Operations, longest first.
    pub ops: Vec<OpReport>,
    /// Categories, longest first.
    pub categories: Vec<CategoryReport>,
    /// Scopes, each behind the one around it, longest first.
    pub scopes: Vec<ScopeReport>,
    /// Units.
    pub units: Vec<UnitReport>,
}

/// Occupancy of a memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryReport {
    /// Its name.
    pub memory: String,
    /// Most bytes taken at a time.
    pub peak_bytes: u64,
    /// First cycle of that.
    pub cycle: u64,
    /// Its size.
    pub bytes: u64,
}

/// An array of the program's entry that does not lie in HBM row-major in its own shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntryReport {
    /// Its name, or `result` with a number.
    pub name: String,
    /// Its shape to the host.
    pub shape: String,
    /// How it lies: sizes, major to minor.
    pub lies_as: Vec<u64>,
    /// Bytes of HBM that it takes.
    pub bytes: u64,
    /// Bytes that it would take row-major in its own shape.
    pub row_major_bytes: u64,
}

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// The chip with everything that was changed of it, in a line.
    pub chip: String,
    /// What ran on what.
    pub setup: Setup,
    /// Chips that the program ran on.
    pub chips: u32,
    /// Cores that make a device of the chip.
    pub cores: u32,
    /// The chip's clock.
    pub clock_hz: f64,
    /// Cycles of the slowest device.
    pub cycles: u64,
    /// Their time in seconds.
    pub time_s: f64,
    /// Useful flops of that device: multiply-adds of products and convolutions, twice.
    pub flops: f64,
    /// Share of the time that the flops take at the peaks of their operand types.
    pub peak_share: f64,
    /// The same by operand type.
    pub peaks: Vec<PeakReport>,
    /// What bounds the run.
    pub bound: String,
    /// The same in words.
    pub bound_words: String,
    /// What the run's end depends on.
    pub path: PathReport,
    /// Units of the slowest device.
    pub units: Vec<UnitReport>,
    /// HBM traffic of the slowest device.
    pub hbm: HbmReport,
    /// CMEM traffic of the slowest device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmem: Option<CmemReport>,
    /// Traffic of the interconnect.
    pub ici: IciReport,
    /// The interconnect in detail, of runs on several devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<pod::PodReport>,
    /// Operations of the slowest device, by first start.
    pub ops: Vec<OpReport>,
    /// Of kernels that bring lines of their own (Pallas): these, longest first. Their cycles are part of those of the
    /// operations that call the kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineReport>,
    /// Of such kernels: the regions that they name, with what is in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionReport>,
    /// Of such kernels: what they keep in vector memory for themselves, largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooms: Vec<RoomReport>,
    /// Of such kernels: what holds them back, in words, what takes most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lint: Vec<LintReport>,
    /// Entry arrays that do not lie row-major in their own shapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entry: Vec<EntryReport>,
    /// Energy of all devices.
    pub energy: EnergyReport,
    /// Area of a chip.
    pub area: AreaReport,
    /// What the host spent.
    pub host: HostReport,
    /// Of recorded runs: how much was recorded (`ops`, `kernels` or `bundles`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Of recorded runs: chips along each axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology: Vec<u32>,
    /// Of recorded runs: every simulated device, or core of the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceReport>,
    /// Of recorded runs: occupancy of memories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryReport>,
    /// Of the dashboard: what the view shows (see docs/dashboard.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<serde_json::Value>,
}

/// What ran: everything that a report needs besides the counters.
pub struct Ran<'a> {
    pub setup: Setup,
    pub chip: &'a ChipConfig,
    pub program: &'a Program,
    /// The text that was compiled; empty if it is unknown.
    pub source: &'a str,
    pub host: HostReport,
    /// What the partitioner could not divide, the largest first.
    pub whole: Vec<pod::WholeReport>,
}

impl<'a> Ran<'a> {
    /// A run of a program of that name, without its text.
    pub fn new(name: &str, chip: &'a ChipConfig, program: &'a Program, mode: Mode) -> Ran<'a> {
        let (setup, host) = (Setup::new(name, chip, program, mode), HostReport::default());
        Ran { setup, chip, program, source: "", host, whole: Vec::new() }
    }
}

/// Stalls by the causes' names; `all`: those that do not occur too.
pub(crate) fn stalls(stall: &[u64; CAUSES], all: bool) -> BTreeMap<Cow<'static, str>, u64> {
    let causes = CAUSE_TABLE.iter().filter(|c| c.0 != Cause::None && (all || stall[c.0 as usize] > 0));
    causes.map(|c| (Cow::Borrowed(c.1), stall[c.0 as usize])).collect()
}

/// The report of a run: of its slowest device, with the interconnect if there are several.
pub fn report(ran: &Ran<'_>, run: &PodRun) -> Report {
    let slowest = run.devices.iter().enumerate().max_by_key(|(i, d)| (d.cycles, std::cmp::Reverse(*i)));
    let nothing = RunResult::default();
    let drawn = Drawn::of(ran.chip);
    let scale = Scale::new(ran.chip, ran.program, Links::of(run));
    let topology = ran.program.pod.topology.as_ref();
    let place =
        slowest.map_or((0, 0), |(d, _)| topology.map_or((d as u32, 0), |t| (t.chip_of(d as u32), t.core_of(d as u32))));
    let slowest = slowest.map_or(&nothing, |s| s.1);
    let done = scale.done(slowest);
    let mut out = device(ran, &drawn, (place, slowest), (&scale, &done));
    if ran.program.pod.devices() > 1 {
        pod::add(&mut out, ran, run);
        let (work, flops) = (Work::of_pod(ran.chip, ran.program, run), mix(&out.peaks));
        out.energy = energy((&scale, &drawn), &work, (slowest, &done), ran.program.pod.devices(), &flops);
    }
    out
}

/// Flops by operand type with their peaks.
pub(crate) fn mix(peaks: &[PeakReport]) -> Vec<Flops> {
    let one = |p: &PeakReport| Some((DType::from_name(&p.operand)?, p.flops, p.peak_flops_per_s));
    peaks.iter().filter_map(one).collect()
}

/// Energy of a run: the work of all devices, and the flops of one, which is the one of `r`.
fn energy(
    (scale, drawn): (&Scale<'_>, &Drawn),
    work: &Work,
    (r, done): (&RunResult, &[Done]),
    devices: u32,
    flops: &[Flops],
) -> EnergyReport {
    let operations = r.ops.iter().zip(done).map(|(o, d)| (scale.with_links(d, o.op), o.cycles));
    cost::energy_report((scale.chip, drawn), work, r.cycles, devices, flops, operations)
}

/// The report of one device; `place`: its chip, and its first core there.
fn device(
    ran: &Ran<'_>,
    drawn: &Drawn,
    (place, r): ((u32, u32), &RunResult),
    (scale, done): (&Scale<'_>, &[Done]),
) -> Report {
    let (chip, program) = (ran.chip, ran.program);
    let rows = scale.ops(r, done);
    let units = scale.units(r, &rows);
    let peaks = scale.peaks(&rows, r.cycles);
    let mut infos = rows::infos(program, ran.source);
    let bytes = r.traffic.hbm() as f64;
    let seconds = chip.seconds(r.cycles);
    let hbm_share = if r.cycles == 0 { 0.0 } else { bytes / (seconds * chip.device_hbm_bandwidth()) };
    let common = cmem(chip, r);
    let common_share = common.as_ref().map_or(0.0, |c| c.share);
    let (near, far) = (common_share * r.cycles as f64, bytes / chip.hbm_bytes_per_cycle());
    let bytes = if near > far { ("cmem", near) } else { ("hbm", far) };
    let bound::Bounds { bound, links, peers, next } = bound::of_run(r, u64::from(chip.core.launch_cycles), bytes);
    let path = r.path;
    let flops = total(rows.iter().map(|o| o.flops));
    let mut work = Work::default();
    done.iter().for_each(|d| work += &d.work);
    let energy = energy((scale, drawn), &work, (r, done), 1, &mix(&peaks));
    let unit_reports: Vec<UnitReport> =
        units.iter().map(|(core, u)| rows::unit_report(place.0, place.1 + core, u)).collect();
    let lines = kernels::Lines::new(program, chip, r);
    // A device has one row of each operation.
    let op = |row: &op::OpRow| rows::op_report(row, row.op.and_then(|i| infos.get_mut(i as usize)).map(std::mem::take));
    Report {
        schema: SCHEMA,
        chip: ran.setup.chip.label(),
        setup: ran.setup.clone(),
        chips: 1,
        cores: chip.cores_per_device,
        clock_hz: chip.clock_hz,
        cycles: r.cycles,
        time_s: seconds,
        flops,
        peak_share: total(peaks.iter().map(|p| p.share)),
        peaks,
        bound: bound.to_string(),
        bound_words: bound::words(bound).to_string(),
        path: PathReport {
            hbm: path.bandwidth,
            latency: path.latency,
            dma: path.engine,
            cmem: path.cmem,
            ici: links + peers,
            peers,
            core: (r.cycles as f64 - path.copies() - links - peers).max(0.0),
            next: next.0.to_string(),
            next_cycles: next.1,
        },
        hbm: HbmReport { read_bytes: r.traffic.hbm_read, write_bytes: r.traffic.hbm_write, share: hbm_share },
        cmem: common,
        ops: rows.iter().map(op).collect(),
        lines: lines.rows(),
        regions: lines.regions(),
        rooms: kernels::rooms(program),
        lint: lines.lint(&unit_reports),
        entry: entry(program),
        units: unit_reports,
        area: cost::area_report(chip, drawn, energy.peak_power_w),
        energy,
        host: ran.host.clone(),
        ..Report::default()
    }
}

fn none_of_it(bytes: &u64) -> bool {
    *bytes == 0
}

/// What copies moved to and from CMEM.
fn cmem(chip: &ChipConfig, r: &RunResult) -> Option<CmemReport> {
    let rates = (chip.device_cmem_bytes() > 0).then(|| chip.cmem_bytes_per_cycle())?;
    let share = |bytes: u64, rate: f64| bytes as f64 / (rate * r.cycles.max(1) as f64);
    let (read_bytes, write_bytes) = (r.traffic.cmem_read, r.traffic.cmem_write);
    Some(CmemReport { read_bytes, write_bytes, share: share(read_bytes, rates.0).max(share(write_bytes, rates.1)) })
}

/// The entry arrays that do not lie row-major in their own shapes.
fn entry(program: &Program) -> Vec<EntryReport> {
    let several = program.results.len() > 1;
    let results = program
        .results
        .iter()
        .enumerate()
        .map(|(i, a)| (a, if several { format!("result {i}") } else { "result".into() }));
    let all = program.params.iter().map(|a| (a, a.name.clone())).chain(results);
    let one = |(a, name): (&HostArray, String)| {
        let own = Layout::row_major(a.layout.dtype, a.dims(), a.layout.sublanes, a.layout.lanes);
        let lies_as = a.layout.physical();
        (a.host_dims.is_some() || a.layout.minor_to_major != own.minor_to_major).then(|| EntryReport {
            name,
            shape: format!("{}[{}]", own.dtype, sizes(&own.dims)),
            lies_as,
            bytes: a.layout.bytes(),
            row_major_bytes: own.bytes(),
        })
    };
    all.filter_map(one).collect()
}

/// Sizes with commas between.
pub(crate) fn sizes(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// A sum that is 0 of nothing (`Iterator::sum` of floats begins with -0).
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |a, b| a + b)
}
