//! XProf's XPlane: overview, op profile, HLO statistics, roofline, memory and trace pages read it.
//!
//! A plane for each device with the lines that XProf looks for by name, and a plane with the program's HLO message.
//! Put the file where XProf finds it: `LOGDIR/plugins/profile/RUN/HOST.xplane.pb`.

use super::events::gather;
use super::hlo;
use super::proto::xplane::*;
use crate::profile::{Category, Lane, LaneKind, Memory, NO_OP, Profile, memory};
use prost::Message;
use std::collections::{BTreeMap, HashMap};

/// The program's number.
const PROGRAM: i64 = 1;
/// The step that everything belongs to: XProf finds its time only for the group of this number.
const GROUP: i64 = 0;
/// Events of metadata that are not operations.
const STEP: i64 = 1 << 40;
const MODULE: i64 = STEP + 1;
const NONE: i64 = STEP + 2;
const COPIES: i64 = STEP + 16;

/// Names of statistics by number, of one plane.
#[derive(Default)]
struct Stats {
    names: BTreeMap<i64, XStatMetadata>,
    ids: HashMap<&'static str, i64>,
}

impl Stats {
    fn stat(&mut self, name: &'static str, value: XValue) -> XStat {
        let next = self.ids.len() as i64 + 1;
        let id = *self.ids.entry(name).or_insert(next);
        self.names.entry(id).or_insert_with(|| XStatMetadata { id, name: name.into() });
        XStat { metadata_id: id, value: Some(value) }
    }
}

/// Categories as XProf spells them.
fn category(opcode: &str) -> &'static str {
    match Category::of(opcode) {
        Category::Matrix | Category::Convolution => "convolution fusion",
        Category::Elementwise => "loop fusion",
        Category::Reduction => "reduce",
        Category::Movement => "data formatting",
        Category::Scatter => "gather",
        Category::Collective => "all-reduce",
        Category::Control => "while",
        Category::Other | Category::None => "custom-call",
    }
}

/// The trace as bytes. `most`: events of a line.
pub fn write(p: &Profile, most: usize) -> Vec<u8> {
    let mut planes: Vec<XPlane> = (0..p.meta.devices.len()).map(|d| device_plane(p, d, most)).collect();
    planes.push(metadata_plane(p));
    planes.push(host_plane(p));
    XSpace { planes, hostnames: vec!["systole".into()] }.encode_to_vec()
}

/// Picoseconds of a cycle.
fn picos(p: &Profile, cycle: u64) -> i64 {
    (p.seconds(cycle) * 1e12).round() as i64
}

fn device_plane(p: &Profile, device: usize, most: usize) -> XPlane {
    let (meta, chip) = (&p.meta.devices[device], &p.meta.chip);
    let mut s = Stats::default();
    let giga = |bytes_per_cycle: f64| bytes_per_cycle * chip.clock_hz / 1e9;
    let register = chip.core.sublanes as f64 * chip.row_bytes() as f64;
    let stats = vec![
        s.stat("peak_teraflops_per_second", XValue::Double(crate::profile::roofline::peak(p) * chip.clock_hz / 1e12)),
        s.stat("peak_hbm_bw_gigabytes_per_second", XValue::Double(chip.device_hbm_bandwidth() / 1e9)),
        s.stat("peak_vmem_rd_bw_gigabytes_per_second", XValue::Double(giga(register * chip.vmem.read_ports as f64))),
        s.stat("peak_vmem_wr_bw_gigabytes_per_second", XValue::Double(giga(register * chip.vmem.write_ports as f64))),
        s.stat("device_type_string", XValue::Str(p.meta.report.chip.clone())),
        s.stat("has_megacore", XValue::Int64((chip.cores_per_device > 1) as i64)),
        s.stat("has_merged_vmem", XValue::Int64(0)),
    ];
    let events = gather(p, most);
    let of = |kind: LaneKind| events.tracks.iter().find(move |t| t.device == device && t.kind == kind);
    let empty = crate::profile::Spans::default();
    let ops = of(LaneKind::Ops).map_or(&empty, |t| &t.slices);
    let mut counts: HashMap<u32, u64> = HashMap::new();
    ops.id.iter().for_each(|id| *counts.entry(*id).or_default() += 1);
    let mut metadata = BTreeMap::new();
    for row in &meta.ops {
        let Some(id) = row.op else { continue };
        let Some(op) = p.meta.ops.get(id as usize) else { continue };
        let events = counts.get(&id).copied().unwrap_or(0).max(1) as f64;
        metadata.insert(id as i64 + 1, op_metadata(p, &mut s, id as i64, op, row, events));
    }
    let plain = |id: i64, name: String| XEventMetadata { id, display_name: name.clone(), name, ..Default::default() };
    metadata.insert(STEP, plain(STEP, "1".into()));
    metadata.insert(MODULE, plain(MODULE, format!("{}({PROGRAM})", p.setup().module)));
    metadata.insert(NONE, plain(NONE, "launch".into()));
    let group = vec![s.stat("group_id", XValue::Int64(GROUP))];
    let run = vec![
        s.stat("group_id", XValue::Int64(GROUP)),
        s.stat("run_id", XValue::Int64(1)),
        s.stat("program_id", XValue::Uint64(PROGRAM as u64)),
    ];
    let whole = |metadata_id, stats: Vec<XStat>| XEvent {
        metadata_id,
        offset_ps: 0,
        duration_ps: picos(p, meta.counts.cycles),
        stats,
    };
    let op_events = ops.iter().filter(|x| x.id != NO_OP).map(|x| XEvent {
        metadata_id: x.id as i64 + 1,
        offset_ps: picos(p, x.start),
        duration_ps: picos(p, x.end) - picos(p, x.start),
        stats: group.clone(),
    });
    let op_events: Vec<XEvent> = op_events.collect();
    let mut lines = vec![
        line(
            1,
            "Steps",
            vec![whole(
                STEP,
                vec![s.stat("group_id", XValue::Int64(GROUP)), s.stat("step_name", XValue::Str("1".into()))],
            )],
        ),
        line(2, "XLA Modules", vec![whole(MODULE, run)]),
        line(3, "XLA Ops", op_events),
    ];
    copies(p, device, &events, &mut metadata, &mut lines);
    XPlane {
        id: device as i64 + 1,
        name: format!("/device:TPU:{device}"),
        lines,
        event_metadata: metadata,
        stat_metadata: s.names,
        stats,
    }
}

fn line(id: i64, name: &str, events: Vec<XEvent>) -> XLine {
    let duration_ps = events.iter().map(|e| e.offset_ps + e.duration_ps).max().unwrap_or(0);
    XLine { id, name: name.into(), timestamp_ns: 0, events, duration_ps }
}

/// An operation's metadata: `n` events share what it did.
fn op_metadata(
    p: &Profile,
    s: &mut Stats,
    id: i64,
    op: &crate::profile::OpInfo,
    row: &crate::profile::OpRow,
    n: f64,
) -> XEventMetadata {
    let each = |v: u64| (v as f64 / n).round() as u64;
    let access = |operation_type, bytes| MemoryAccess { operation_type, memory_space: 1, bytes_accessed: each(bytes) };
    let breakdown = MemoryAccessBreakdown { memory_accessed: vec![access(1, row.hbm_read), access(2, row.hbm_write)] };
    let (file, source_line) = hlo::origin(p, op);
    let flops = (row.flops / n).round() as u64;
    let stats = vec![
        s.stat("hlo_category", XValue::Str(category(&op.opcode).into())),
        s.stat("program_id", XValue::Uint64(PROGRAM as u64)),
        s.stat("symbol_id", XValue::Uint64(id as u64 + 1)),
        s.stat("tf_op", XValue::Str(format!("{}:", hlo::framework_name(op)))),
        s.stat("flops", XValue::Uint64(flops)),
        s.stat("model_flops", XValue::Uint64(flops)),
        s.stat("bytes_accessed", XValue::Uint64(each(row.bytes()))),
        s.stat("memory_access_breakdown", XValue::Bytes(breakdown.encode_to_vec())),
        s.stat("source", XValue::Str(format!("{file}:{source_line}"))),
    ];
    let name = format!("%{}", hlo::text(p, op).trim_start_matches('%'));
    XEventMetadata { id: id + 1, name, metadata: Vec::new(), display_name: op.name.clone(), stats }
}

/// Regions that kernels name, and copies, as lines of their own.
fn copies(
    p: &Profile,
    device: usize,
    events: &super::events::Events,
    metadata: &mut BTreeMap<i64, XEventMetadata>,
    lines: &mut Vec<XLine>,
) {
    let lanes = Lane::all(p);
    let mut names: HashMap<String, i64> = HashMap::new();
    for t in events.tracks.iter().filter(|t| t.device == device) {
        let line_name = match t.kind {
            LaneKind::Engine => format!("Async XLA Ops {}", t.name),
            LaneKind::Regions(_) => format!("XLA TraceMe {}", t.name),
            LaneKind::Ops
            | LaneKind::Kernels
            | LaneKind::Unit(_)
            | LaneKind::Runs
            | LaneKind::Waits
            | LaneKind::Link(_) => continue,
        };
        let made = t.slices.iter().map(|x| {
            let name = super::events::label(p, &lanes, t, x.id);
            let next = COPIES + names.len() as i64;
            let id = *names.entry(name).or_insert(next);
            let duration_ps = picos(p, x.end) - picos(p, x.start);
            XEvent { metadata_id: id, offset_ps: picos(p, x.start), duration_ps, stats: Vec::new() }
        });
        let made = made.collect();
        lines.push(line(lines.len() as i64 + 1, &line_name, made));
    }
    for (name, id) in names {
        metadata.insert(id, XEventMetadata { id, display_name: name.clone(), name, ..Default::default() });
    }
}

/// The program's message, where XProf's memory and graph pages look for it.
fn metadata_plane(p: &Profile) -> XPlane {
    let mut s = Stats::default();
    let stat = s.stat("Hlo Proto", XValue::Bytes(hlo::message(p, PROGRAM).encode_to_vec()));
    let name = format!("{}({PROGRAM})", p.setup().module);
    let module =
        XEventMetadata { id: PROGRAM, display_name: String::new(), name, stats: vec![stat], metadata: Vec::new() };
    XPlane {
        id: 1000,
        name: "/host:metadata".into(),
        event_metadata: BTreeMap::from([(PROGRAM, module)]),
        stat_metadata: s.names,
        ..XPlane::default()
    }
}

fn host_plane(p: &Profile) -> XPlane {
    let mut s = Stats::default();
    let event = XEvent { metadata_id: 1, offset_ps: 0, duration_ps: picos(p, p.meta.cycles), stats: Vec::new() };
    let plain = |id: i64, name: &str| XEventMetadata {
        id,
        name: name.to_string(),
        display_name: name.to_string(),
        ..Default::default()
    };
    let memory = memory_events(p, &mut s);
    let names = [plain(1, "launch"), plain(TAKEN, "MemoryAllocation"), plain(GIVEN, "MemoryDeallocation")];
    XPlane {
        id: 1001,
        name: "/host:CPU".into(),
        lines: vec![line(1, "systole", vec![event]), line(2, "memory", memory)],
        event_metadata: names.into_iter().map(|m| (m.id, m)).collect(),
        stats: utilization(p, &mut s),
        stat_metadata: s.names,
    }
}

/// What the overview says of the matrix units and of HBM: means over the devices, in per cent.
fn utilization(p: &Profile, s: &mut Stats) -> Vec<XStat> {
    let (mut mxu, mut mxus, mut hbm) = (0.0, 0.0f64, 0.0);
    for d in &p.meta.devices {
        let cycles = d.counts.cycles.max(1) as f64;
        for u in d.units.iter().filter(|u| u.unit.starts_with("mxu")) {
            mxu += u.busy as f64 / cycles;
            mxus += 1.0;
        }
        hbm += (d.counts.hbm_read + d.counts.hbm_write) as f64 / (cycles * p.meta.chip.hbm_bytes_per_cycle());
    }
    let devices = p.meta.devices.len().max(1) as f64;
    vec![
        s.stat("matrix_unit_utilization_percent", XValue::Double(100.0 * mxu / mxus.max(1.0))),
        s.stat("hbm_utilization_percent", XValue::Double((100.0 * hbm / devices).min(100.0))),
    ]
}

/// Event numbers of arrays that are taken and given back.
const TAKEN: i64 = 2;
const GIVEN: i64 = 3;

/// Arrays as they come and go, as XProf's memory profile reads them: each memory is an allocator.
fn memory_events(p: &Profile, s: &mut Stats) -> Vec<XEvent> {
    let mut events: Vec<(u64, XEvent)> = Vec::new();
    for m in [Memory::Hbm, Memory::Vmem] {
        let size = memory::size(p, m);
        let top = memory::peak(&memory::occupancy(p, m)).bytes;
        // What ends goes before what begins in the same cycle.
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        for (i, b) in p.meta.buffers.iter().enumerate().filter(|(_, b)| b.memory == m) {
            changes.push((b.from, true, i));
            changes.push((b.to, false, i));
        }
        changes.sort_unstable();
        let mut now = 0u64;
        for (cycle, taken, i) in changes {
            let b = &p.meta.buffers[i];
            now = if taken { now.saturating_add(b.bytes) } else { now.saturating_sub(b.bytes) };
            let count = |v: u64| XValue::Int64(v.min(i64::MAX as u64) as i64);
            let stats = vec![
                s.stat("allocator_name", XValue::Str(m.name().into())),
                s.stat("bytes_reserved", XValue::Int64(0)),
                s.stat("bytes_allocated", count(now)),
                s.stat("bytes_available", count(size.saturating_sub(now))),
                s.stat("fragmentation", XValue::Double(0.0)),
                s.stat("peak_bytes_in_use", count(top)),
                s.stat("requested_bytes", count(b.bytes)),
                s.stat("allocation_bytes", count(b.bytes)),
                s.stat("addr", XValue::Uint64(b.address)),
                s.stat("tf_op", XValue::Str(b.name.clone())),
                s.stat("group_id", XValue::Int64(GROUP)),
                s.stat("region_type", XValue::Str("array".into())),
                s.stat("data_type", XValue::Str("bytes".into())),
                s.stat("shape", XValue::Str(format!("[{}]", b.bytes))),
            ];
            let metadata_id = if taken { TAKEN } else { GIVEN };
            events.push((cycle, XEvent { metadata_id, offset_ps: picos(p, cycle), duration_ps: 0, stats }));
        }
    }
    events.sort_by_key(|e| e.0);
    events.into_iter().map(|e| e.1).collect()
}
