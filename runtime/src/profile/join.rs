//! Joins what was recorded with the program and the counters of the run.

use super::{
    Buffer, DescInfo, DeviceMeta, Issues, Kernel, Level, Memory, Meta, NO_OP, OpRow, Profile, Recorded, Trace, UnitRow,
    pod,
};
use crate::RunResult;
use crate::cost::Links;
use crate::report::rows::{Scale, infos};
use crate::report::{DeviceCounts, Ran, report};
use std::collections::HashMap;
use systole_isa::dma::DmaDesc;
use systole_isa::program::DebugRange;
use systole_isa::{Program, Space};
use systole_simulator::PodRun;

/// A run to make a profile of.
pub struct Run<'a> {
    pub ran: &'a Ran<'a>,
    pub run: &'a PodRun,
    pub level: Level,
}

/// What one device, or one core of a device, did.
struct Lane<'a> {
    chip: u32,
    core: u32,
    result: &'a RunResult,
    ops: Vec<OpRow>,
    units: Vec<UnitRow>,
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

fn buffers(program: &Program, hbm: u64, trace: &Trace, cycles: u64) -> Vec<Buffer> {
    let extents = extents(trace);
    let made = program.debug.buffers.iter().filter(|b| b.bytes > 0).map(|b| {
        let at = |op: u32, none: u64, pick: fn(&(u64, u64)) -> u64| match op {
            DebugRange::NONE => none,
            op => extents.get(&op).map_or(none, pick),
        };
        let from = at(b.first, 0, |e| e.0);
        let to = at(b.last, cycles, |e| e.1).max(from + 1);
        // CMEM's addresses are behind HBM's.
        let near = b.space == Space::Hbm && b.address >= hbm;
        let memory = if near { Memory::Cmem } else { memory(b.space) };
        Buffer { name: b.name.clone(), memory, address: b.address, bytes: b.bytes, from, to }
    });
    made.collect()
}

/// Takes from the samples of useful work what the counters of the whole run take as padding.
fn trim(trace: &mut Trace, result: &RunResult, units: &[UnitRow]) {
    let n = trace.samples.units.count;
    for (u, row) in units.iter().enumerate().take(n) {
        let counted = result.units.iter().find(|c| c.unit == row.unit).map_or(0.0, |c| c.useful);
        if counted > 0.0 && !row.unit.starts_with("mxu") {
            let part = (row.useful / counted).min(1.0);
            let useful = trace.samples.units.useful.iter_mut().skip(u).step_by(n);
            useful.for_each(|v| *v = (*v as f64 * part).round() as u64);
        }
    }
}

/// The simulated devices of a run; where several cores of each ran, these.
fn lanes<'a>(scale: &Scale<'_>, run: &'a PodRun) -> Vec<Lane<'a>> {
    let topology = scale.program.pod.topology.as_ref();
    let mut out = Vec::new();
    for (d, result) in run.devices.iter().enumerate() {
        let (chip, core) = topology.map_or((d as u32, 0), |t| (t.chip_of(d as u32), t.core_of(d as u32)));
        let rows = scale.ops(result, &scale.done(result));
        let units = scale.units(result, &rows);
        if result.cores.is_empty() {
            let units = units.into_iter().map(|u| u.1).collect();
            out.push(Lane { chip, core, result, ops: rows, units });
            continue;
        }
        for (i, c) in result.cores.iter().enumerate() {
            let own = units.iter().filter(|u| u.0 == i as u32).map(|u| u.1.clone());
            out.push(Lane { chip, core: i as u32, result: c, ops: scale.core_ops(result, c), units: own.collect() });
        }
    }
    out
}

impl Profile {
    /// The profile of a run. `recorded`: of every simulated device, or of every core where one device has several. `code`: the
    /// program as [`systole_isa::write_code`] has it; empty where nobody will ask for it.
    pub fn new(what: &Run<'_>, recorded: Vec<Recorded>, code: Vec<u8>) -> Profile {
        let (ran, program) = (what.ran, what.ran.program);
        let scale = Scale::new(ran.chip, program, Links::of(what.run));
        let hbm = ran.chip.device_hbm_bytes();
        let cycles = what.run.devices.iter().map(|d| d.cycles).max().unwrap_or(0);
        let mut traces = Vec::new();
        let mut devices = Vec::new();
        for (lane, recorded) in lanes(&scale, what.run).into_iter().zip(recorded) {
            let (result, mut trace) = (lane.result, recorded.trace);
            trace.issues = Issues { executions: result.executions.to_vec(), waited: result.waits.clone() };
            trim(&mut trace, result, &lane.units);
            // The lane ends where the run ends.
            let end = trace.ops.end();
            trace.ops.push(NO_OP, end, result.cycles);
            devices.push(DeviceMeta {
                counts: DeviceCounts {
                    chip: lane.chip,
                    core: lane.core,
                    cycles: result.cycles,
                    hbm_read: result.traffic.hbm_read,
                    hbm_write: result.traffic.hbm_write,
                    transfers: result.dma_transfers,
                    bundles: result.bundles,
                },
                ops: lane.ops,
                units: lane.units,
                detail: recorded.detail,
            });
            traces.push(trace);
        }
        let kernels =
            program.debug.kernels.iter().map(|k| Kernel { name: k.name.clone(), start: k.start, bundles: k.bundles });
        let (links, link_spans) = pod::links(program, what.run).into_iter().unzip();
        let meta = Meta {
            report: report(ran, what.run),
            chip: ran.chip.clone(),
            topology: program.pod.topology.as_ref().map_or(vec![1], |t| t.dims.clone()),
            level: what.level,
            cycles,
            ops: infos(program, ran.source),
            kernels: kernels.collect(),
            buffers: traces.first().map_or_else(Vec::new, |t| buffers(program, hbm, t, cycles)),
            descs: program.descs.iter().map(desc).collect(),
            devices,
            links,
        };
        Profile { meta, traces, links: link_spans, source: ran.source.to_string(), code }
    }
}
