//! Lanes of a timeline: one for each thing that can be busy, made ready for quick looks at any part of a run.

use super::code::Code;
use super::region::regions;
use super::{Cover, Index, Level, NO_OP, Profile, Spans, Trace};
use crate::report::text::metric;

/// What a lane shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// Operations; ids are ops.
    Ops,
    /// Kernels; ids are kernels.
    Kernels,
    /// A region that kernels name, by number.
    Regions(usize),
    /// Copies of one engine; ids are transfers.
    Engine,
    /// Shares of a unit over time, from counters.
    Unit(usize),
    /// Bundles by their first; waits by `bundle * 16 + cause`.
    Runs,
    Waits,
    /// A link; ids are ops.
    Link(usize),
}

/// A lane.
#[derive(Clone, Debug)]
pub struct Lane {
    pub kind: LaneKind,
    pub name: String,
    /// Index of the device, or of the link's sender's first.
    pub device: usize,
    /// Spans of its own (engines, regions); others are in the profile.
    own: Spans,
    /// Of a region, its names, outermost first.
    region: Vec<String>,
    index: Index,
}

/// Most lanes of copies of a device.
const MAX_ENGINES: usize = 8;

impl Lane {
    fn new(kind: LaneKind, name: String, device: usize, own: Spans, spans: Option<&Spans>) -> Lane {
        let index = Index::new(spans.unwrap_or(&own));
        Lane { kind, name, device, own, region: Vec::new(), index }
    }

    /// The lanes of a profile, device by device; their names say nothing of the device.
    pub fn all(p: &Profile) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = Vec::new();
        let code = if p.meta.level == Level::Bundles { Code::new(p) } else { Code::default() };
        for (d, (meta, trace)) in p.meta.devices.iter().zip(&p.traces).enumerate() {
            let mut lane = |kind, what: &str, own: Spans, spans: Option<&Spans>| {
                lanes.push(Lane::new(kind, what.to_string(), d, own, spans));
            };
            lane(LaneKind::Ops, "op", Spans::default(), Some(&trace.ops));
            if p.meta.level >= Level::Kernels {
                lane(LaneKind::Kernels, "kernel", Spans::default(), Some(&trace.kernels));
            }
            lanes.extend(named(&code, trace, d));
            let mut lane = |kind, what: &str, own: Spans, spans: Option<&Spans>| {
                lanes.push(Lane::new(kind, what.to_string(), d, own, spans));
            };
            for (u, unit) in meta.units.iter().enumerate() {
                lane(LaneKind::Unit(u), &unit.unit, Spans::default(), None);
            }
            for (e, own) in engines(p, d).into_iter().enumerate() {
                lane(LaneKind::Engine, &format!("dma{e}"), own, None);
            }
            if p.meta.level == Level::Bundles {
                lane(LaneKind::Runs, "bundle", Spans::default(), Some(&trace.runs));
                lane(LaneKind::Waits, "wait", Spans::default(), Some(&trace.waits));
            }
        }
        for (i, (l, spans)) in p.meta.links.iter().zip(&p.links).enumerate() {
            let device = p.meta.devices.iter().position(|d| d.counts.chip == l.from_chip).unwrap_or(0);
            let name = format!("{}>{}", l.from_chip, l.to_chip);
            lanes.push(Lane::new(LaneKind::Link(i), name, device, Spans::default(), Some(spans)));
        }
        lanes
    }

    /// The lane's spans, if it has any.
    pub fn spans<'a>(&'a self, p: &'a Profile) -> Option<&'a Spans> {
        let trace = p.traces.get(self.device)?;
        match self.kind {
            LaneKind::Ops => Some(&trace.ops),
            LaneKind::Kernels => Some(&trace.kernels),
            LaneKind::Runs => Some(&trace.runs),
            LaneKind::Waits => Some(&trace.waits),
            LaneKind::Engine | LaneKind::Regions(_) => Some(&self.own),
            LaneKind::Link(i) => p.links.get(i),
            LaneKind::Unit(_) => None,
        }
    }

    /// What covers cycles `from..to`, and how many of them.
    pub fn cover(&self, p: &Profile, from: u64, to: u64) -> Option<Cover> {
        if let LaneKind::Unit(u) = self.kind {
            let (trace, meta) = (p.traces.get(self.device)?, p.meta.devices.get(self.device)?);
            let share = trace.samples.unit(u, from, to, meta.units.get(u)?, meta.counts.cycles);
            let busy = (share.busy * to.saturating_sub(from) as f64).round() as u64;
            return Some(Cover { id: 0, busy });
        }
        let cover = self.index.cover(self.spans(p)?, from, to)?;
        // Cycles of no operation are not busy.
        Some(if self.kind == LaneKind::Ops && cover.id == NO_OP { Cover { busy: 0, ..cover } } else { cover })
    }

    /// A span's text.
    pub fn label(&self, p: &Profile, id: u32) -> String {
        match self.kind {
            LaneKind::Ops | LaneKind::Link(_) => p.op_name(id).to_string(),
            LaneKind::Kernels => p.meta.kernels.get(id as usize).map_or(String::new(), |k| k.name.clone()),
            LaneKind::Regions(_) => self.region.last().cloned().unwrap_or_default(),
            LaneKind::Engine => {
                let transfer = p.traces.get(self.device).and_then(|t| t.transfers.get(id as usize));
                transfer.map_or(String::new(), |t| {
                    let d = p.meta.descs.get(t.desc as usize);
                    let what = d.map_or(String::new(), |d| {
                        format!(": {}B {} to {}", metric(d.bytes as f64), d.from.name(), d.to.name())
                    });
                    format!("{}{what}", p.op_name(t.op))
                })
            }
            LaneKind::Runs => format!("bundle {id}"),
            LaneKind::Waits => {
                let cause = systole_simulator::CAUSE_TABLE.get((id & 15) as usize).map_or("", |c| c.1);
                format!("{cause} (bundle {})", id >> 4)
            }
            LaneKind::Unit(_) => self.name.clone(),
        }
    }
}

/// Lanes of the regions that kernels name.
fn named<'a>(code: &'a Code, trace: &'a Trace, device: usize) -> impl Iterator<Item = Lane> + 'a {
    regions(code, trace).into_iter().enumerate().map(move |(i, r)| {
        let kind = LaneKind::Regions(i);
        Lane { region: r.path.clone(), ..Lane::new(kind, r.path.join("/"), device, r.spans, None) }
    })
}

/// Transfers of a device on as many lanes as overlap, by index.
fn engines(p: &Profile, device: usize) -> Vec<Spans> {
    let Some(trace) = p.traces.get(device) else { return Vec::new() };
    let most = (p.meta.chip.dma.in_flight as usize).clamp(1, MAX_ENGINES);
    let mut lanes: Vec<Spans> = Vec::new();
    let mut ends: Vec<u64> = Vec::new();
    for (i, t) in trace.transfers.iter().enumerate() {
        let lane = match ends.iter().position(|e| *e <= t.start) {
            Some(l) => l,
            None if ends.len() < most => {
                ends.push(0);
                lanes.push(Spans::default());
                ends.len() - 1
            }
            // More at once than lanes: what does not fit is not drawn twice over another.
            None => continue,
        };
        lanes[lane].push(i as u32, t.start, t.end);
        ends[lane] = lanes[lane].end();
    }
    lanes
}
