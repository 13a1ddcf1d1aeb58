//! Joins what was recorded with the program and the counters of the run.

use super::{
    Buffer, DescInfo, DeviceMeta, Kernel, Level, LinkInfo, Memory, Meta, NO_OP, OpInfo, OpRow, Profile, Recorded,
    Spans, Trace, UnitRow,
};
use crate::report::text::bound_in_words;
use crate::report::{HostReport, report};
use crate::{Mode, Report, RunResult};
use std::collections::HashMap;
use systole_isa::dma::DmaDesc;
use systole_isa::program::DebugRange;
use systole_isa::{ChipConfig, DType, Program, Space, write_program};

/// Largest source text that is kept, in bytes.
const MAX_SOURCE: usize = 16 << 20;

/// What ran.
pub struct Run<'a> {
    /// The path or name that the user gave.
    pub name: &'a str,
    pub chip: &'a ChipConfig,
    pub program: &'a Program,
    /// The text that was compiled, if there is one.
    pub source: &'a str,
    pub mode: Mode,
    pub level: Level,
    pub report: &'a Report,
    /// Flags of the command that compiled and ran it, so that it can be done again.
    pub flags: Vec<String>,
    /// Chips along each axis.
    pub topology: Vec<u32>,
    pub links: Vec<(LinkInfo, Spans)>,
    /// The run goes on: the program is left out.
    pub partial: bool,
}

/// What one device did.
pub struct Device<'a> {
    pub chip: u32,
    pub core: u32,
    pub meta: DeviceMeta,
    pub trace: Trace,
    pub result: &'a RunResult,
}

impl<'a> Device<'a> {
    /// The recording of a device's run.
    pub fn new(chip: u32, core: u32, recorded: Recorded, result: &'a RunResult) -> Device<'a> {
        let meta = DeviceMeta {
            chip,
            core,
            op_window: recorded.op_window,
            kernel_window: recorded.kernel_window,
            transfer_stride: recorded.transfer_stride,
            bundle_stride: recorded.bundle_stride,
            ..DeviceMeta::default()
        };
        Device { chip, core, meta, trace: recorded.trace, result }
    }
}

fn memory(space: Space) -> Memory {
    match space {
        Space::Hbm => Memory::Hbm,
        Space::Vmem => Memory::Vmem,
        Space::Smem => Memory::Smem,
    }
}

fn desc(d: &DmaDesc) -> DescInfo {
    let bytes = d.dims.iter().fold(d.chunk as u64, |n, x| n.saturating_mul(x.count as u64));
    DescInfo { from: memory(d.src), to: memory(d.dst), bytes }
}

/// First and last cycle of every op of a trace.
fn extents(trace: &Trace) -> HashMap<u32, (u64, u64)> {
    let mut out: HashMap<u32, (u64, u64)> = HashMap::new();
    for s in trace.ops.iter() {
        out.entry(s.id).and_modify(|e| e.1 = e.1.max(s.end)).or_insert((s.start, s.end));
    }
    out
}

fn buffers(program: &Program, trace: &Trace, cycles: u64) -> Vec<Buffer> {
    let extents = extents(trace);
    let made = program.debug.buffers.iter().filter(|b| b.bytes > 0).map(|b| {
        let at = |op: u32, none: u64, pick: fn(&(u64, u64)) -> u64| match op {
            DebugRange::NONE => none,
            op => extents.get(&op).map_or(none, pick),
        };
        let from = at(b.first, 0, |e| e.0);
        let to = at(b.last, cycles, |e| e.1).max(from + 1);
        Buffer { name: b.name.clone(), memory: memory(b.space), address: b.address, bytes: b.bytes, from, to }
    });
    made.collect()
}

/// Rows of a device or core; `report` is of the device alone.
fn op_rows(program: &Program, result: &RunResult, report: &Report) -> Vec<OpRow> {
    // Cores of a device may come to operations in another order.
    let described = |i: usize| {
        let op = result.ops[i].op.and_then(|op| program.debug.ops.get(op as usize));
        let name = op.map_or("(none)", |o| o.name.as_str());
        let same = |r: &&crate::report::OpReport| r.name == name;
        report.ops.get(i).filter(same).or_else(|| report.ops.iter().find(same))
    };
    let rows = result.ops.iter().enumerate().map(|(i, o)| OpRow {
        op: o.op,
        start: o.start,
        cycles: o.cycles,
        entries: o.entries,
        flops: described(i).map_or(0.0, |d| d.flops),
        hbm_read: o.hbm_read,
        hbm_write: o.hbm_write,
        mxu_rows: o.mxu_rows,
        stall: o.stall,
        bound: described(i).map_or(String::new(), |d| d.bound.to_string()),
    });
    rows.collect()
}

impl Profile {
    /// The profile of a run. Devices in order of their number.
    pub fn new(run: Run<'_>, devices: Vec<Device<'_>>) -> Profile {
        let program = run.program;
        let cycles = devices.iter().map(|d| d.result.cycles).max().unwrap_or(0);
        let cores = run.report.pod.is_none();
        let mut traces = Vec::new();
        let mut metas = Vec::new();
        for d in devices {
            let mut trace = d.trace;
            trace.executions = d.result.executions.clone();
            trace.waited = d.result.waits.clone();
            // The lane ends where the run ends.
            let end = trace.ops.end();
            trace.ops.push(NO_OP, end, d.result.cycles);
            // The report of a run on several devices is that of the slowest.
            let own = match cores {
                true => None,
                false => Some(report(run.chip, program, d.result, HostReport::default())),
            };
            let own = own.as_ref().unwrap_or(run.report);
            // The cores of one device have one report; of several devices each has its own.
            let place = if cores { d.meta.core } else { 0 };
            let useful = |unit: &str, counted: f64| {
                own.units
                    .iter()
                    .find(|u| u.unit == unit && u.core == place)
                    .map_or(counted, |u| u.useful.min(u.busy as f64))
            };
            let units = d.result.units.iter().map(|u| UnitRow {
                unit: u.unit.clone(),
                useful: useful(&u.unit, u.useful),
                busy: u.busy,
                stall: u.stall,
                idle: u.idle,
            });
            metas.push(DeviceMeta {
                cycles: d.result.cycles,
                ops: op_rows(program, d.result, own),
                units: units.collect(),
                hbm_read: d.result.hbm_read,
                hbm_write: d.result.hbm_write,
                bundles: d.result.bundles,
                transfers: d.result.dma_transfers,
                ..d.meta
            });
            traces.push(trace);
        }
        let ops = program.debug.ops.iter().map(|o| OpInfo {
            name: o.name.clone(),
            opcode: o.opcode.clone(),
            line: o.line,
            flops: o.flops,
        });
        let kernels =
            program.debug.kernels.iter().map(|k| Kernel { name: k.name.clone(), start: k.start, bundles: k.bundles });
        let (links, link_spans) = run.links.into_iter().unzip();
        let meta = Meta {
            program: run.name.to_string(),
            module: program.name.clone(),
            chip: run.chip.clone(),
            flags: run.flags,
            topology: run.topology,
            level: run.level,
            mode: match run.mode {
                Mode::Full => "full",
                Mode::TimingOnly => "timing-only",
                Mode::NumericOnly => "numeric-only",
            }
            .to_string(),
            cycles,
            flops: run.report.flops,
            peak_flops: run.chip.peak_flops_per_cycle(program.peak_dtype.unwrap_or(DType::BF16)),
            peak_share: run.report.peak_share,
            bound: run.report.bound.to_string(),
            bound_words: bound_in_words(run.report.bound).to_string(),
            ops: ops.collect(),
            kernels: kernels.collect(),
            buffers: traces.first().map_or_else(Vec::new, |t| buffers(program, t, cycles)),
            descs: program.descs.iter().map(desc).collect(),
            devices: metas,
            links,
            report: serde_json::to_value(run.report).unwrap_or_default(),
        };
        let code =
            if run.partial { Vec::new() } else { write_program(&Program { constants: Vec::new(), ..program.clone() }) };
        let source = if run.source.len() <= MAX_SOURCE { run.source.to_string() } else { String::new() };
        Profile { meta, traces, links: link_spans, source, code }
    }
}
