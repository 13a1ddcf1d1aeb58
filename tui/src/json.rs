//! The data behind a frame: what a view shows, with the numbers that it shows them by.
//!
//! An object with the run's totals (as `systole profile --json` has them) and, under `view`, what the view adds: its name,
//! the device, the cycles shown, the cursor, the filter, and the rows that its frame lists. Times are cycles, memory is
//! bytes, rates are per cycle where the name does not say otherwise.

use crate::app::{App, View};
use crate::data::Data;
use crate::views::{chip, memory, overview, stalls};
use serde_json::{Map, Value, json};
use systole_runtime::profile::memory::{most, of_arrays, peak, size};
use systole_runtime::profile::roofline::{self, point};
use systole_runtime::profile::{CAUSE_TABLE, LaneKind, NO_OP, diff};

/// Spans of a lane that are listed.
const SPANS: usize = 1000;
/// Points of a history.
const POINTS: usize = 100;

/// The data behind the frame; `null` before there are any.
pub fn data(app: &App) -> Value {
    let Some(d) = app.shown() else { return Value::Null };
    let mut out = d.profile.report();
    let mut view = json!({
        "name": app.view.name(), "device": app.device, "from": app.from, "to": app.to, "cursor": app.cursor,
        "filter": app.listing.filter, "selected": app.selected(),
    });
    let own = match app.view {
        View::Overview => overview(app, d),
        View::Timeline => timeline(app, d),
        View::Operations => operations(app, d),
        View::Roofline => roofline(app, d),
        View::Memory => memory(app, d),
        View::Stalls => stalls(app, d),
        View::Links => json!({
            "topology": d.profile.meta.topology, "links": d.profile.meta.links,
            "collectives": d.profile.meta.report.pod.as_ref().map(|p| &p.collectives),
        }),
        View::Program => program(app, d),
        View::Chip => chip(app, d),
    };
    if let (Value::Object(view), Value::Object(own)) = (&mut view, own) {
        view.extend(own);
    }
    out.view = Some(view);
    json!(out)
}

fn overview(app: &App, d: &Data) -> Value {
    let Some(device) = d.device(app.device) else { return json!({}) };
    let units = device.units.iter().enumerate().map(|(i, u)| {
        let history = d.trace(app.device).map(|t| {
            overview::shares(POINTS, app.from, app.to, |a, b| t.samples.unit(i, a, b, u, device.counts.cycles).busy)
        });
        json!({"unit": u.unit, "useful": u.useful, "busy": u.busy, "stalled": u.stalled(), "idle": u.idle,
               "busy_over_time": history})
    });
    json!({"bottleneck": overview::bottleneck(d, app.device), "units": units.collect::<Vec<_>>()})
}

fn timeline(app: &App, d: &Data) -> Value {
    let p = &d.profile;
    let lanes = app.lanes().into_iter().map(|i| {
        let lane = &d.lanes[i];
        let kind = match lane.kind {
            LaneKind::Ops => "op",
            LaneKind::Kernels => "kernel",
            LaneKind::Regions(_) => "region",
            LaneKind::Engine => "dma",
            LaneKind::Unit(_) => "unit",
            LaneKind::Runs => "bundle",
            LaneKind::Waits => "wait",
            LaneKind::Link(_) => "link",
        };
        let busy = lane.cover(p, app.from, app.to).map_or(0, |c| c.busy);
        let mut out = json!({"name": app.lane_name(lane), "kind": kind, "device": lane.device, "busy": busy});
        if let Some(spans) = lane.spans(p) {
            let (first, last) = (spans.first_after(app.from), spans.start.partition_point(|s| *s < app.to));
            let within = (first..last).filter_map(|i| spans.get(i)).filter(|s| kind != "op" || s.id != NO_OP);
            let listed = within.take(SPANS).map(|s| json!({"from": s.start, "to": s.end, "what": lane.label(p, s.id)}));
            out["count"] = json!(last.saturating_sub(first));
            out["spans"] = listed.collect();
        }
        out
    });
    let lanes: Vec<Value> = lanes.collect();
    json!({"lanes": lanes, "at_cursor": at_cursor(app, d)})
}

/// What runs at the cursor: operation, kernel, bundle, wait, with the line of the source.
fn at_cursor(app: &App, d: &Data) -> Value {
    let p = &d.profile;
    let mut out = Map::new();
    let Some(t) = d.trace(app.device) else { return Value::Object(out) };
    let span = |from: u64, to: u64, name: String| json!({"name": name, "from": from, "to": to});
    if let Some((_, s)) = t.ops.at(app.cursor) {
        let mut op = span(s.start, s.end, p.op_name(s.id).to_string());
        if let Some(o) = p.meta.ops.get(s.id as usize) {
            op["opcode"] = json!(o.opcode);
            op["line"] = json!(o.line);
            op["source"] = json!(p.line(o));
            op["origin"] = json!(o.origin);
            op["members"] = json!(o.members);
            op["first_bundle"] = json!(d.code.first(s.id));
        }
        out.insert("op".into(), op);
    }
    if let Some((_, s)) = t.kernels.at(app.cursor)
        && let Some(k) = p.meta.kernels.get(s.id as usize)
    {
        let mut kernel = span(s.start, s.end, k.name.clone());
        kernel["first_bundle"] = json!(k.start);
        kernel["bundles"] = json!(k.bundles);
        out.insert("kernel".into(), kernel);
    }
    if let Some((_, s)) = t.runs.at(app.cursor) {
        out.insert("bundle".into(), json!(s.id as u64 + (app.cursor - s.start)));
    }
    if let Some((_, s)) = t.waits.at(app.cursor) {
        let cause = CAUSE_TABLE.get((s.id & 15) as usize).map_or("", |c| c.1);
        out.insert("wait".into(), json!({"cause": cause, "bundle": s.id >> 4, "from": s.start, "to": s.end}));
    }
    Value::Object(out)
}

fn operations(app: &App, d: &Data) -> Value {
    let Some(device) = d.device(app.device) else { return json!({}) };
    let names: Vec<&str> = app.rows().into_iter().map(|r| d.profile.row_name(&device.ops[r])).collect();
    let inside = app.drill.and_then(|i| device.ops.get(i)).map(|o| d.profile.row_name(o));
    json!({"sort": app.listing.sort.name(), "reverse": app.listing.reverse, "operations": names, "inside": inside})
}

fn roofline(app: &App, d: &Data) -> Value {
    let p = &d.profile;
    let Some(device) = d.device(app.device) else { return json!({}) };
    let roofs: Vec<Value> =
        roofline::roofs(p, device).into_iter().map(|r| json!({"name": r.name, "bytes_per_cycle": r.bytes})).collect();
    let points = app.rows().into_iter().filter_map(|r| point(p, r, &device.ops[r])).map(|q| {
        json!({"name": p.row_name(&device.ops[q.row]), "flops_per_byte": q.intensity.is_finite().then_some(q.intensity),
               "flops_per_cycle": q.rate, "roof": q.roof, "cycles": q.cycles})
    });
    json!({"peak_flops_per_cycle": roofline::peak(p), "roofs": roofs, "points": points.collect::<Vec<_>>()})
}

fn memory(app: &App, d: &Data) -> Value {
    let memories = of_arrays(&d.profile).into_iter().map(|m| {
        let levels = d.occupancy(m);
        let top = peak(levels);
        let history = overview::shares(POINTS, app.from, app.to, |a, b| most(levels, a, b) as f64);
        json!({"memory": m.name(), "bytes": size(&d.profile, m), "peak_bytes": top.bytes, "peak_cycle": top.cycle,
               "at_cursor": most(levels, app.cursor, app.cursor + 1), "over_time": history})
    });
    json!({"memories": memories.collect::<Vec<_>>(), "arrays": memory::buffers(app)})
}

fn stalls(app: &App, d: &Data) -> Value {
    let Some(device) = d.device(app.device) else { return json!({}) };
    let causes = stalls::causes(app).into_iter().map(|c| {
        let units: Map<String, Value> = device.units.iter().map(|u| (u.unit.clone(), json!(u.stall[c]))).collect();
        let mut ops: Vec<_> = device.ops.iter().filter(|o| o.stall[c] > 0).collect();
        ops.sort_by_key(|o| (std::cmp::Reverse(o.stall[c]), o.start));
        let ops: Vec<Value> =
            ops.iter().map(|o| json!({"name": d.profile.row_name(o), "cycles": o.stall[c]})).collect();
        json!({"cause": CAUSE_TABLE[c].1, "meaning": CAUSE_TABLE[c].2, "units": units, "operations": ops})
    });
    json!({"causes": causes.collect::<Vec<_>>()})
}

fn program(app: &App, d: &Data) -> Value {
    let at = crate::views::program::at_cursor(app, d) as usize;
    let t = d.trace(app.device);
    let rows = (at.saturating_sub(20)..d.code.len()).take(60).map(|b| {
        let (times, waited) = t.map_or((None, None), |t| t.issues.of(b));
        json!({"bundle": b, "times": times, "waited": waited,
               "operation": d.profile.op_name(d.code.op(b as u32)), "instructions": d.code.texts(b)})
    });
    json!({"bundle": at, "bundles": d.code.len(), "around": rows.collect::<Vec<_>>()})
}

fn chip(app: &App, d: &Data) -> Value {
    let params: Vec<Value> = chip::params(app)
        .into_iter()
        .map(|(key, value, doc)| json!({"key": key, "value": value, "meaning": doc}))
        .collect();
    let before = app.before.as_ref().map(|b| diff::data(&b.profile, &d.profile));
    json!({"parameters": params, "changes": app.sets, "compared": before})
}
