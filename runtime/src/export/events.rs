//! The events that all trace formats share: slices on tracks, flows from copies to their consumers, counters.

use crate::profile::memory::{occupancy, of_arrays};
use crate::profile::{Lane, LaneKind, Memory, NO_OP, OpInfo, Profile, Spans};

/// A track: where slices are.
#[derive(Clone, Debug)]
pub struct Track {
    /// Index of the device, and number of the track within it.
    pub device: usize,
    pub number: u32,
    pub name: String,
    pub kind: LaneKind,
    pub slices: Spans,
}

/// A counter's values by cycle.
#[derive(Clone, Debug)]
pub struct Counter {
    pub device: usize,
    pub name: String,
    pub unit: &'static str,
    pub values: Vec<(u64, f64)>,
}

/// A flow: the end of a transfer lets an operation go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub device: usize,
    /// Index of the transfer, and the cycle in which what waited for it ran again.
    pub transfer: u32,
    pub cycle: u64,
}

/// Everything that is drawn.
pub struct Events {
    pub tracks: Vec<Track>,
    pub counters: Vec<Counter>,
    pub flows: Vec<Flow>,
}

/// Values of a counter.
const POINTS: usize = 2000;

/// Gathers the events of a profile; `most`: slices of a track.
pub fn gather(p: &Profile, most: usize) -> Events {
    let lanes = Lane::all(p);
    let mut tracks = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        let Some(spans) = lane.spans(p) else { continue };
        let mut slices = spans.clone();
        if matches!(lane.kind, LaneKind::Ops | LaneKind::Kernels | LaneKind::Regions(_)) {
            let mut window = (slices.end() / most.max(1) as u64).max(1);
            while slices.len() > most {
                slices.fold(window);
                window = window.saturating_mul(2);
            }
        } else if slices.len() > most {
            let step = slices.len().div_ceil(most.max(1));
            let mut fewer = Spans::default();
            slices.iter().step_by(step).for_each(|s| fewer.push(s.id, s.start, s.end));
            slices = fewer;
        }
        tracks.push(Track {
            device: lane.device,
            number: number as u32 + 1,
            name: lane.name.clone(),
            kind: lane.kind,
            slices,
        });
    }
    let shown: Vec<(usize, u32)> = tracks
        .iter()
        .filter(|t| t.kind == LaneKind::Engine)
        .flat_map(|t| t.slices.id.iter().map(|id| (t.device, *id)))
        .collect();
    let flows = shown.into_iter().filter_map(|(device, id)| flow(p, device, id)).collect();
    Events { tracks, counters: counters(p), flows }
}

/// Where the transfer's data are used first: for a copy to vector memory the first cycle of an operation at or after its end.
fn flow(p: &Profile, device: usize, id: u32) -> Option<Flow> {
    let trace = p.traces.get(device)?;
    let t = trace.transfers.get(id as usize)?;
    let to = p.meta.descs.get(t.desc as usize)?.to;
    if to == Memory::Hbm {
        return None;
    }
    let (i, at) = trace.ops.at(t.end)?;
    // Spans of no op in between are the main program's waits.
    let user = if at.id == NO_OP { trace.ops.get(i + 1)? } else { at };
    Some(Flow { device, transfer: id, cycle: user.start.max(t.end) })
}

fn counters(p: &Profile) -> Vec<Counter> {
    let mut out = Vec::new();
    for (device, (d, t)) in p.meta.devices.iter().zip(&p.traces).enumerate() {
        let points = (t.samples.cycle.len() + 1).clamp(1, POINTS) as u64;
        let edges: Vec<u64> =
            (0..=points).map(|i| (d.counts.cycles as u128 * i as u128 / points as u128) as u64).collect();
        let spans = || edges.windows(2).filter(|w| w[1] > w[0]);
        for (u, row) in d.units.iter().enumerate() {
            let values = spans().map(|w| (w[0], 100.0 * t.samples.unit(u, w[0], w[1], row, d.counts.cycles).busy));
            out.push(Counter { device, name: format!("{} busy", row.unit), unit: "%", values: values.collect() });
        }
        let scale = p.meta.chip.clock_hz / 1e9;
        let values = spans().map(|w| (w[0], scale * t.samples.hbm(w[0], w[1], d)));
        out.push(Counter { device, name: "HBM bandwidth".into(), unit: "GB/s", values: values.collect() });
    }
    for m in of_arrays(p) {
        let values = occupancy(p, m).into_iter().map(|l| (l.cycle, l.bytes as f64));
        out.push(Counter { device: 0, name: format!("{} in use", m.name()), unit: "bytes", values: values.collect() });
    }
    out
}

/// Text of a slice.
pub fn label(p: &Profile, lanes: &[Lane], track: &Track, id: u32) -> String {
    lanes.get(track.number as usize - 1).map_or(String::new(), |l| l.label(p, id))
}

/// Name of a device's process.
pub fn device_name(p: &Profile, device: usize) -> String {
    let (chip, core) = p.meta.devices.get(device).map_or((0, 0), |d| (d.counts.chip, d.counts.core));
    format!("{} chip {chip} core {core}", p.meta.report.chip)
}

/// What viewers show of an operation besides its numbers: where it comes from, and what its code computes too.
pub fn described(op: &OpInfo) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    if let Some(o) = &op.origin {
        out.extend([("source", o.place()), ("scope", o.name.clone())]);
    }
    let members: Vec<String> = op.members.iter().map(|m| format!("{} ({})", m.name, m.opcode)).collect();
    out.push(("members", members.join(", ")));
    out.retain(|d| !d.1.is_empty());
    out
}
