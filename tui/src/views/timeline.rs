//! Timeline: what every lane does over the cycles shown, and what is at the cursor.

use super::overview::shares;
use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, cut, percent, scroll};
use crate::theme::Paint;
use systole_runtime::profile::{CAUSE_TABLE, LaneKind, NO_OP};

/// Least and most columns of names.
const NAMES: (usize, usize) = (10, 18);
/// Lines of details.
const DETAILS: usize = 6;

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let (w, h) = (pen.width(), pen.height());
    let details = DETAILS.min(h.saturating_sub(4));
    lanes(app, data, &mut pen.part(0, 0, w, h - details));
    let mut at = pen.part(0, h - details, w, details);
    at_cursor(app, data, &mut at);
}

fn lanes(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let shown = app.lanes();
    let (w, h) = (pen.width(), pen.height());
    let longest = shown.iter().map(|l| app.lane_name(&data.lanes[*l]).chars().count()).max().unwrap_or(0);
    let names = (longest + 2).clamp(NAMES.0, NAMES.1);
    let columns = w.saturating_sub(names);
    ruler(app, pen, names, columns);
    let rows = h.saturating_sub(2);
    let first = scroll(app.selected(), rows, shown.len());
    // Lanes of units are higher where there is room.
    let is_unit = |l: &usize| matches!(data.lanes[*l].kind, LaneKind::Unit(_));
    let units = shown.iter().filter(|l| is_unit(l)).count().max(1);
    let tall = 1 + (rows.saturating_sub(shown.len()) / units).min(2);
    let mut next = 2;
    for (i, &lane) in shown.iter().enumerate().skip(first).take(rows) {
        let height = if is_unit(&lane) { tall } else { 1 };
        let (top, y) = (next, next + height - 1);
        next += height;
        let l = &data.lanes[lane];
        let name = cut(&app.lane_name(l), names - 2);
        if i == app.selected() {
            pen.bold(0, y, &format!("▶{name}"));
        } else {
            pen.plain(1, y, &name);
        }
        let edge = |c: usize| app.from + ((app.to - app.from) as u128 * c as u128 / columns.max(1) as u128) as u64;
        if let LaneKind::Unit(unit) = l.kind {
            let p = &data.profile;
            let busy = |a: u64, b: u64| l.cover(p, a, b).map_or(0.0, |c| c.busy as f64 / (b - a) as f64);
            let all = shares(columns, app.from, app.to, busy);
            let useful = shares(columns, app.from, app.to, |a, b| p.useful_part(l.device, unit, a, b));
            let values: Vec<(f64, f64)> = all.into_iter().zip(useful).map(|(b, u)| (b, b * u)).collect();
            pen.stacked(names, top, height, &values, (Paint::Busy, Paint::Useful));
        } else {
            for c in 0..columns {
                let (a, b) = (edge(c), edge(c + 1).max(edge(c) + 1));
                let Some(cover) = l.cover(&data.profile, a, b).filter(|v| v.busy > 0) else { continue };
                let share = cover.busy as f64 / (b - a) as f64;
                let symbol = if share > 0.66 {
                    "█"
                } else if share > 0.33 {
                    "▓"
                } else {
                    "░"
                };
                let paint = match l.kind {
                    LaneKind::Waits => Paint::Stalled,
                    LaneKind::Engine | LaneKind::Runs | LaneKind::Link(_) => Paint::Busy,
                    LaneKind::Ops | LaneKind::Kernels | LaneKind::Regions(_) | LaneKind::Unit(_) => {
                        Paint::Item(cover.id)
                    }
                };
                pen.paint(names + c, y, symbol, paint);
            }
            names_in(app, data, lane, &mut pen.part(names, y, columns, 1), columns);
        }
        pen.hit(names, top, columns, height, Hit::Lane { lane, from: app.from, to: app.to });
    }
    let at = column_of(app, columns);
    for y in 1..h.min(next) {
        pen.mark(names + at, y);
    }
}

/// Names of spans that are wide enough.
fn names_in(app: &App, data: &Data, lane: usize, pen: &mut Pen<'_>, columns: usize) {
    let l = &data.lanes[lane];
    let Some(spans) = l.spans(&data.profile) else { return };
    let first = spans.first_after(app.from);
    let last = spans.start.partition_point(|s| *s < app.to);
    if last.saturating_sub(first) > columns {
        return;
    }
    let column = |c: u64| {
        ((c.clamp(app.from, app.to) - app.from) as u128 * columns as u128 / (app.to - app.from).max(1) as u128) as usize
    };
    for s in (first..last).filter_map(|i| spans.get(i)) {
        let (a, b) = (column(s.start), column(s.end));
        if b > a + 4 && !(l.kind == LaneKind::Ops && s.id == NO_OP) {
            let style = pen.theme.style(Paint::Item(s.id)).add_modifier(ratatui::style::Modifier::REVERSED);
            pen.text(a + 1, 0, &cut(&l.label(&data.profile, s.id), b - a - 2), style);
        }
    }
}

/// Column of the cursor.
fn column_of(app: &App, columns: usize) -> usize {
    let part = (app.cursor.saturating_sub(app.from)) as u128 * columns as u128 / (app.to - app.from).max(1) as u128;
    (part as usize).min(columns.saturating_sub(1))
}

/// The scrubber and the cycles, beside `names` columns.
pub fn ruler(app: &App, pen: &mut Pen<'_>, names: usize, columns: usize) {
    let total = app.shown().map_or(1, |d| d.cycles());
    let at = |c: u64| (c as u128 * columns as u128 / total.max(1) as u128) as usize;
    let (a, b) = (at(app.from), at(app.to).max(at(app.from) + 1).min(columns.max(1)));
    pen.paint(0, 0, "run", Paint::Dim);
    pen.paint(names, 0, &"─".repeat(columns), Paint::Idle);
    pen.paint(names + a, 0, &"━".repeat(b.saturating_sub(a)), Paint::Accent);
    pen.paint(names + at(app.cursor).min(columns.saturating_sub(1)), 0, "●", Paint::Warning);
    pen.hit(names, 0, columns, 1, Hit::Time { from: 0, to: total });
    pen.paint(0, 1, "cycle", Paint::Dim);
    let marks = (columns / 18).max(1);
    let mut last = None;
    for i in 0..marks {
        let cycle = app.from + ((app.to - app.from) as u128 * i as u128 / marks as u128) as u64;
        if last.replace(cycle) != Some(cycle) {
            pen.paint(names + columns * i / marks, 1, &format!("│{cycle}"), Paint::Dim);
        }
    }
    pen.hit(names, 1, columns, 1, Hit::Time { from: app.from, to: app.to });
}

/// What every lane does at the cursor (or under the mouse).
fn at_cursor(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let (lane, cycle) = app.hover.map_or((None, app.cursor), |(l, c)| (Some(l), c));
    let p = &data.profile;
    let mut inner = pen.boxed(&format!("cycle {cycle}, {:.3} us", p.seconds(cycle) * 1e6));
    let Some(t) = data.trace(app.device) else { return };
    let mut lines = Vec::new();
    if let Some((_, s)) = t.ops.at(cycle) {
        let info = p.meta.ops.get(s.id as usize);
        let more = info.map_or(0, |o| o.members.len());
        let more = if more > 0 { format!(" with {more} more") } else { String::new() };
        let place = info.map_or(String::new(), |o| format!(" ({}, line {}){more}", o.opcode, o.line));
        let first = data.code.first(s.id).map_or(String::new(), |b| format!(", bundle {b}"));
        lines.push(format!("op      {}..{} {}{place}{first}", s.start, s.end, p.op_name(s.id)));
        if let Some(text) = info.and_then(|o| p.line(o)) {
            lines.push(format!("source  {text}"));
        }
        if let Some(origin) = info.and_then(|o| o.origin.as_ref()) {
            lines.push(format!("from    {}  {}", origin.place(), origin.name));
        }
    }
    if let Some((_, s)) = t.kernels.at(cycle)
        && let Some(k) = p.meta.kernels.get(s.id as usize)
    {
        let last = k.start + k.bundles.saturating_sub(1);
        let range = format!("bundles {}..{last}", k.start);
        lines.push(format!("kernel  {}..{} {}, {range}", s.start, s.end, k.name));
    }
    if let Some((_, s)) = t.runs.at(cycle) {
        lines.push(format!("bundle  {}", s.id as u64 + (cycle - s.start)));
    }
    if let Some((_, s)) = t.waits.at(cycle) {
        let cause = CAUSE_TABLE.get((s.id & 15) as usize).map_or("", |c| c.2);
        lines.push(format!("waits   {}..{} bundle {}: {cause}", s.start, s.end, s.id >> 4));
    }
    let chosen = lane.or_else(|| app.lanes().get(app.selected()).copied());
    let other = |l: &&systole_runtime::profile::Lane| !matches!(l.kind, LaneKind::Ops | LaneKind::Kernels);
    if let Some(l) = chosen.and_then(|l| data.lanes.get(l)).filter(other) {
        let width = ((app.to - app.from) / 64).max(1);
        let share = l.cover(p, cycle, cycle + width).map_or(0.0, |c| c.busy as f64);
        let span = l.spans(p).and_then(|s| s.at(cycle));
        let text = match span {
            Some((_, s)) => format!("{}..{} {}", s.start, s.end, l.label(p, s.id)),
            None => format!("{} busy", percent(share, width as f64)),
        };
        lines.push(format!("{:<7} {text}", cut(&l.name, 7)));
    }
    for (y, l) in lines.iter().enumerate() {
        inner.plain(1, y, l);
    }
}
