//! Perfetto's protocol buffers: opens in ui.perfetto.dev.
//!
//! Timestamps are nanoseconds, which is about a cycle: slices carry their exact cycles as arguments.

use super::events::{described, device_name, gather, label};
use super::proto::perfetto::*;
use crate::profile::{Category, Lane, LaneKind, NO_OP, Profile};
use prost::Message;
use std::collections::HashMap;

/// The writer's number among producers of packets.
const SEQUENCE: u32 = 1;
/// Identities of tracks: devices from 1, their tracks from here on.
const TRACKS: u64 = 1 << 32;
const COUNTERS: u64 = 1 << 40;
const BEGIN: i32 = 1;
const END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// Interned data are cleared / needed.
const CLEARED: u32 = 1;
const NEEDED: u32 = 2;

struct Writer {
    trace: Trace,
    names: HashMap<String, u64>,
    categories: HashMap<&'static str, u64>,
}

impl Writer {
    fn event(&mut self, ns: u64, event: TrackEvent, interned: Option<InternedData>) {
        self.trace.packet.push(TracePacket {
            timestamp: Some(ns),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            interned_data: interned,
            sequence_flags: Some(NEEDED),
            track_descriptor: None,
        });
    }

    fn track(&mut self, d: TrackDescriptor) {
        let flags = if self.trace.packet.is_empty() { CLEARED } else { NEEDED };
        self.trace.packet.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(flags),
            track_descriptor: Some(d),
            ..TracePacket::default()
        });
    }

    /// Numbers of a name and a category, with what readers must learn of them.
    fn intern(&mut self, name: String, category: &'static str) -> (u64, u64, Option<InternedData>) {
        let (n, c) = (self.names.len() as u64 + 1, self.categories.len() as u64 + 1);
        let mut new = InternedData::default();
        let name_iid = *self.names.entry(name.clone()).or_insert_with(|| {
            new.event_names.push(Interned { iid: Some(n), name: Some(name) });
            n
        });
        let category_iid = *self.categories.entry(category).or_insert_with(|| {
            new.event_categories.push(Interned { iid: Some(c), name: Some(category.into()) });
            c
        });
        let fresh = !new.event_names.is_empty() || !new.event_categories.is_empty();
        (name_iid, category_iid, fresh.then_some(new))
    }
}

fn argument(name: &str, v: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.into()), value: Some(AnnotationValue::Uint(v)) }
}

fn text_argument(name: &str, text: String) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.into()), value: Some(AnnotationValue::Text(text)) }
}

/// An event at the start of a device's operations that says what ran on what.
fn setup(p: &Profile, track: Option<u64>, (name, category): (u64, u64)) -> TrackEvent {
    let s = p.setup();
    TrackEvent {
        category_iids: vec![category],
        debug_annotations: vec![text_argument("run", s.title()), text_argument("setup", s.line())],
        r#type: Some(INSTANT),
        name_iid: Some(name),
        track_uuid: track,
        ..Default::default()
    }
}

/// The trace as bytes. `most`: slices of a track.
pub fn write(p: &Profile, most: usize) -> Vec<u8> {
    let lanes = Lane::all(p);
    let events = gather(p, most);
    let ns = |cycle: u64| (p.seconds(cycle) * 1e9).round() as u64;
    let mut w = Writer { trace: Trace::default(), names: HashMap::new(), categories: HashMap::new() };
    for device in 0..p.meta.devices.len() {
        let process = ProcessDescriptor { pid: Some(device as i32 + 1), process_name: Some(device_name(p, device)) };
        let uuid = Some(device as u64 + 1);
        w.track(TrackDescriptor { uuid, process: Some(process), child_ordering: Some(3), ..Default::default() });
    }
    for t in &events.tracks {
        w.track(TrackDescriptor {
            uuid: Some(TRACKS + t.number as u64),
            name: Some(t.name.clone()),
            parent_uuid: Some(t.device as u64 + 1),
            sibling_order_rank: Some(t.number as i32),
            ..Default::default()
        });
    }
    for (i, c) in events.counters.iter().enumerate() {
        w.track(TrackDescriptor {
            uuid: Some(COUNTERS + i as u64),
            name: Some(c.name.clone()),
            parent_uuid: Some(c.device as u64 + 1),
            counter: Some(CounterDescriptor { unit_name: Some(c.unit.into()) }),
            sibling_order_rank: Some(1000 + i as i32),
            ..Default::default()
        });
    }
    let flows: HashMap<(usize, u32), u64> =
        events.flows.iter().enumerate().map(|(i, f)| ((f.device, f.transfer), i as u64 + 1)).collect();
    if let Some(first) = events.tracks.iter().find(|t| t.kind == LaneKind::Ops) {
        let (name, category, fresh) = w.intern("setup".into(), "run");
        w.event(0, setup(p, Some(TRACKS + first.number as u64), (name, category)), fresh);
    }
    for t in &events.tracks {
        let uuid = Some(TRACKS + t.number as u64);
        for s in t.slices.iter().filter(|s| t.kind != LaneKind::Ops || s.id != NO_OP) {
            let op = p.meta.ops.get(s.id as usize).filter(|_| t.kind == LaneKind::Ops);
            let category = op.map_or("unit", |o| Category::of(&o.opcode).name());
            let (name, category, fresh) = w.intern(label(p, &lanes, t, s.id), category);
            let flow = flows.get(&(t.device, s.id)).filter(|_| t.kind == LaneKind::Engine);
            let mut arguments = vec![argument("cycle", s.start), argument("cycles", s.end - s.start)];
            if let Some(o) = op {
                arguments.push(argument("line", o.line as u64));
                arguments.extend(described(o).into_iter().map(|(name, text)| text_argument(name, text)));
            }
            let event = TrackEvent {
                category_iids: vec![category],
                debug_annotations: arguments,
                r#type: Some(BEGIN),
                name_iid: Some(name),
                track_uuid: uuid,
                flow_ids: flow.into_iter().copied().collect(),
                ..Default::default()
            };
            w.event(ns(s.start), event, fresh);
            w.event(ns(s.end), TrackEvent { r#type: Some(END), track_uuid: uuid, ..Default::default() }, None);
        }
    }
    for f in &events.flows {
        let ops = events.tracks.iter().find(|t| t.device == f.device && t.kind == LaneKind::Ops);
        let (name, category, fresh) = w.intern("data in place".into(), "dma");
        let event = TrackEvent {
            category_iids: vec![category],
            r#type: Some(INSTANT),
            name_iid: Some(name),
            track_uuid: ops.map(|t| TRACKS + t.number as u64),
            terminating_flow_ids: flows.get(&(f.device, f.transfer)).into_iter().copied().collect(),
            ..Default::default()
        };
        w.event(ns(f.cycle), event, fresh);
    }
    for (i, c) in events.counters.iter().enumerate() {
        for (cycle, v) in &c.values {
            let event = TrackEvent {
                r#type: Some(COUNTER),
                track_uuid: Some(COUNTERS + i as u64),
                double_counter_value: Some(*v),
                ..Default::default()
            };
            w.event(ns(*cycle), event, None);
        }
    }
    w.trace.encode_to_vec()
}
