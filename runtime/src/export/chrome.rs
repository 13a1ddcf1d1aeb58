//! Chrome's trace JSON: opens in `chrome://tracing` and in Perfetto.

use super::events::{described, device_name, gather, label};
use crate::profile::{Lane, LaneKind, NO_OP, Profile};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes the trace. `most`: slices of a track.
///
/// # Errors
/// If `out` does not take it.
pub fn write(p: &Profile, most: usize, out: &mut dyn Write) -> io::Result<()> {
    let lanes = Lane::all(p);
    let events = gather(p, most);
    let micros = |cycle: u64| p.seconds(cycle) * 1e6;
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[",
        json!({
            "program": p.setup().program, "chip": p.meta.report.chip, "cycles": p.meta.cycles,
            "clock_hz": p.meta.chip.clock_hz, "setup": p.setup(), "flops": p.meta.report.flops,
            "peak_share": p.meta.report.peak_share, "bound": p.meta.report.bound,
        })
    )?;
    let mut first = true;
    let mut put = |v: Value| {
        let comma = if std::mem::take(&mut first) { "\n" } else { ",\n" };
        write!(out, "{comma}{v}")
    };
    for device in 0..p.meta.devices.len() {
        put(json!({"ph": "M", "name": "process_name", "pid": device, "args": {"name": device_name(p, device)}}))?;
        put(json!({"ph": "M", "name": "process_sort_index", "pid": device, "args": {"sort_index": device}}))?;
    }
    for t in &events.tracks {
        put(json!({"ph": "M", "name": "thread_name", "pid": t.device, "tid": t.number, "args": {"name": t.name}}))?;
        put(json!({"ph": "M", "name": "thread_sort_index", "pid": t.device, "tid": t.number,
                   "args": {"sort_index": t.number}}))?;
        for s in t.slices.iter().filter(|s| t.kind != LaneKind::Ops || s.id != NO_OP) {
            let mut e = json!({
                "ph": "X", "name": label(p, &lanes, t, s.id), "pid": t.device, "tid": t.number,
                "ts": micros(s.start), "dur": p.seconds(s.end - s.start) * 1e6,
                "args": {"cycle": s.start, "cycles": s.end - s.start},
            });
            if t.kind == LaneKind::Ops
                && let Some(op) = p.meta.ops.get(s.id as usize)
            {
                e["cat"] = json!(crate::profile::Category::of(&op.opcode).name());
                e["args"]["opcode"] = json!(op.opcode);
                e["args"]["line"] = json!(op.line);
                for (key, text) in described(op) {
                    e["args"][key] = json!(text);
                }
            }
            put(e)?;
        }
    }
    let ops_track = |device| {
        let found = events.tracks.iter().find(|t| t.device == device && t.kind == LaneKind::Ops);
        found.map_or(0, |t| t.number)
    };
    for (id, f) in events.flows.iter().enumerate() {
        let holds = |t: &&super::events::Track| {
            t.device == f.device && t.kind == LaneKind::Engine && t.slices.id.contains(&f.transfer)
        };
        // Engines are few; transfers are in order on each.
        let Some(track) = events.tracks.iter().find(holds) else { continue };
        let Some(t) = p.traces[f.device].transfers.get(f.transfer as usize) else { continue };
        let common = json!({"name": "data", "cat": "dma", "id": id, "pid": f.device});
        let mut start = common.clone();
        (start["ph"], start["tid"], start["ts"]) = (json!("s"), json!(track.number), json!(micros(t.start)));
        put(start)?;
        let mut end = common;
        (end["ph"], end["tid"], end["ts"]) = (json!("f"), json!(ops_track(f.device)), json!(micros(f.cycle)));
        end["bp"] = json!("e");
        put(end)?;
    }
    for c in &events.counters {
        let name = format!("{} ({})", c.name, c.unit);
        for (cycle, v) in &c.values {
            put(json!({"ph": "C", "name": name, "pid": c.device, "ts": micros(*cycle), "args": {"value": v}}))?;
        }
    }
    writeln!(out, "\n]}}")
}
