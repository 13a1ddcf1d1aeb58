//! Overview: a bar for each unit, its history, what bounds the run, how far it is.

use crate::app::{App, Hit, Phase};
use crate::data::Data;
use crate::pen::{Pen, cut, percent, scroll, wrap};
use crate::theme::Paint;
use systole_runtime::profile::{CAUSE_TABLE, UnitRow};
use systole_runtime::report::text::{metric, peak, time, whose};

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let (w, h) = (pen.width(), pen.height());
    let lines = summary(app, data, w.saturating_sub(4));
    let running = matches!(app.phase, Phase::Running | Phase::Paused);
    let units = data.device(app.device).map_or(0, |d| d.units.len());
    // The units come first where there is little room.
    let least = 2 + lines.len().min(4) + running as usize;
    let top = (lines.len() + 2 + running as usize).min(h.saturating_sub(units + 3).max(least)).min(h);
    {
        let mut panel = pen.part(0, 0, w, top);
        let program = data.profile.setup().program.rsplit('/').next().unwrap_or("");
        let mut inner = panel.boxed(&format!("{program} on {}", data.profile.meta.report.chip));
        let room = inner.height().saturating_sub(running as usize);
        for (y, (text, paint)) in lines.iter().take(room).enumerate() {
            inner.paint(1, y, text, *paint);
        }
        if running {
            progress(app, data, &mut inner.part(0, room, w, 1));
        }
    }
    let rows = (units + 3).min(h - top);
    self::units(app, data, &mut pen.part(0, top, w, rows));
    let left = h - top - rows;
    let devices = data.profile.meta.devices.len();
    let share = if devices > 1 && left > 8 { (devices + 3).min(left / 2) } else { 0 };
    if share > 0 {
        self::devices(app, data, &mut pen.part(0, top + rows, w, share));
    }
    if left - share > 3 {
        longest(app, data, &mut pen.part(0, top + rows + share, w, left - share));
    }
}

/// The run in words.
fn summary(app: &App, data: &Data, width: usize) -> Vec<(String, Paint)> {
    let p = &data.profile;
    let m = &p.meta;
    let Some(d) = data.device(app.device) else { return Vec::new() };
    let bytes = (d.counts.hbm_read + d.counts.hbm_write) as f64;
    let most = m.chip.hbm_bytes_per_cycle() * d.counts.cycles.max(1) as f64;
    let first = format!(
        "{} cycles, {} at {}Hz ({})   {} bundles",
        d.counts.cycles,
        time(p.seconds(d.counts.cycles)),
        metric(m.chip.clock_hz),
        m.report.setup.mode,
        d.counts.bundles
    );
    let second = format!(
        "{}flop{}, {}   HBM {}B, {} of what it reaches",
        metric(m.report.flops),
        whose(&m.report),
        peak(&m.report),
        metric(bytes),
        percent(bytes, most)
    );
    let mut lines = vec![(first, Paint::Text), (second, Paint::Text)];
    let words = format!("bound by {}: {}", m.report.bound, bottleneck(data, app.device));
    lines.extend(wrap(&words, width).into_iter().map(|l| (l, Paint::Warning)));
    lines
}

/// What bounds the run in words, and the longest wait with the operation that waits most.
pub fn bottleneck(data: &Data, device: usize) -> String {
    let words = data.profile.meta.report.bound_words.clone();
    let Some(d) = data.device(device) else { return words };
    let Some(issue) = d.units.iter().find(|u| u.unit == "issue") else { return words };
    let Some((cause, cycles)) = issue.stall.iter().enumerate().max_by_key(|s| s.1) else { return words };
    if *cycles == 0 {
        return words;
    }
    let worst = d.ops.iter().max_by_key(|o| o.stall[cause]);
    let name = worst.map_or("(none)", |o| data.profile.row_name(o));
    let share = percent(*cycles as f64, d.counts.cycles as f64);
    format!("{words}; longest wait: {}, {share} of the time, most of it in {name}", CAUSE_TABLE[cause].1)
}

/// How far a live run is: operations that have run, of all of the program, and what is left at this pace.
fn progress(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let Some(d) = data.device(app.device) else { return };
    let all = data.profile.meta.ops.len().max(1);
    let ran = d.ops.iter().filter(|o| o.op.is_some()).count().min(all);
    let share = ran as f64 / all as f64;
    let width = pen.width().saturating_sub(50).clamp(8, 60);
    pen.bar(1, 0, width, &[(share, "█", Paint::Accent), (1.0 - share, "░", Paint::Idle)]);
    let spent = data.profile.meta.report.host.simulate_s;
    let left = match share > 0.0 && spent > 0.0 {
        true => format!(", about {} left", time(spent * (1.0 - share) / share)),
        false => String::new(),
    };
    pen.plain(width + 3, 0, &format!("{ran} of {all} operations, {}{left}", time(spent)));
}

/// The devices of a pod, a line each.
fn devices(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let all = &data.profile.meta.devices;
    let mut inner = pen.boxed(&format!("{} devices (d: next)", all.len()));
    let title = format!("{:<8} {:<14} {:>12} {:>9} {:>9}", "device", "place", "cycles", "mxu busy", "link wait");
    inner.bold(1, 0, &title);
    let most = all.iter().map(|d| d.counts.cycles).max().unwrap_or(1).max(1) as f64;
    let rows = inner.height().saturating_sub(1);
    let first = scroll(app.device, rows, all.len());
    let bar = inner.width().saturating_sub(62).min(60);
    for (i, d) in all.iter().enumerate().skip(first).take(rows) {
        let y = 1 + i - first;
        let total = d.counts.cycles.max(1) as f64;
        let mxu = d.units.iter().filter(|u| u.unit.starts_with("mxu")).map(|u| u.busy).max().unwrap_or(0);
        let link = CAUSE_TABLE.iter().position(|c| c.1 == "link").unwrap_or(0);
        let waits = d.units.iter().find(|u| u.unit == "issue").map_or(0, |u| u.stall[link]);
        let text = format!(
            "{i:<8} {:<14} {:>12} {:>9} {:>9}",
            format!("chip {} core {}", d.counts.chip, d.counts.core),
            d.counts.cycles,
            percent(mxu as f64, total),
            percent(waits as f64, total)
        );
        inner.plain(1, y, &text);
        inner.bar(60, y, bar, &[(d.counts.cycles as f64 / most, "█", Paint::Accent)]);
        if i == app.device {
            inner.choose(y);
        }
    }
}

fn units(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let Some(d) = data.device(app.device) else { return };
    let mut inner = pen.boxed(&format!("{} units: █ useful ▓ busy ░ stalled · idle", d.units.len()));
    let w = inner.width();
    let history = (w / 4).min(60);
    let bar = w.saturating_sub(history + 9 + 30).clamp(8, 100);
    inner.paint(9, 0, "share of the cycles", Paint::Dim);
    inner.paint(9 + bar + 1, 0, "   busy longest wait", Paint::Dim);
    inner.paint(9 + bar + 31, 0, "busy over time", Paint::Dim);
    let total = d.counts.cycles.max(1) as f64;
    let rows = inner.height().saturating_sub(1);
    let first = scroll(app.selected(), rows, d.units.len());
    for (i, u) in d.units.iter().enumerate().skip(first).take(rows) {
        let y = i + 1 - first;
        inner.plain(1, y, &u.unit);
        let parts = [
            (u.useful / total, "█", Paint::Useful),
            ((u.busy as f64 - u.useful) / total, "▓", Paint::Busy),
            (u.stalled() as f64 / total, "░", Paint::Stalled),
            (u.idle as f64 / total, "·", Paint::Idle),
        ];
        inner.bar(9, y, bar, &parts);
        let numbers = format!("{:>7} {}", percent(u.busy as f64, total), worst(u, total));
        inner.plain(9 + bar + 1, y, &cut(&numbers, 29));
        if let Some(t) = data.trace(app.device) {
            let room = w.saturating_sub(9 + bar + 31);
            let values = shares(room, app.from, app.to, |a, b| t.samples.unit(i, a, b, u, d.counts.cycles).busy);
            inner.columns(9 + bar + 31, y, 1, &values, Paint::Busy);
        }
        if i == app.selected() {
            inner.text(0, y, "▶", ratatui::style::Style::new());
        }
        inner.hit(0, y, w, 1, Hit::Row(i));
    }
}

/// The longest stall of a unit.
fn worst(u: &UnitRow, total: f64) -> String {
    let most = u.stall.iter().enumerate().max_by_key(|s| s.1).filter(|s| *s.1 > 0);
    most.map_or(String::new(), |(c, n)| format!("{} {}", CAUSE_TABLE[c].1, percent(*n as f64, total)))
}

/// A value for each of `n` equal parts of cycles `from..to`.
pub fn shares(n: usize, from: u64, to: u64, value: impl Fn(u64, u64) -> f64) -> Vec<f64> {
    let edge = |i: usize| from + ((to - from) as u128 * i as u128 / n.max(1) as u128) as u64;
    (0..n).map(|i| value(edge(i), edge(i + 1).max(edge(i) + 1))).collect()
}

fn longest(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let Some(d) = data.device(app.device) else { return };
    let mut inner = pen.boxed("longest operations: █ issuing ░ waiting");
    let rows = systole_runtime::profile::table::by_cycles(d);
    let total = d.counts.cycles.max(1) as f64;
    let most = rows.first().map_or(1, |o| o.cycles).max(1) as f64;
    let w = inner.width();
    // Opcodes where there is room for them.
    let opcode = if w > 110 { 20 } else { 0 };
    let name = 26 + opcode;
    let bar = w.saturating_sub(name + 29);
    for (y, o) in rows.iter().take(inner.height()).enumerate() {
        inner.plain(1, y, &cut(data.profile.row_name(o), 26));
        if opcode > 0 {
            let text = data.profile.row_op(o).map_or("", |i| i.opcode.as_str());
            inner.paint(28, y, &cut(text, opcode - 2), Paint::Dim);
        }
        inner.right(name + 14, y, &o.cycles.to_string(), ratatui::style::Style::new());
        inner.right(name + 23, y, &percent(o.cycles as f64, total), ratatui::style::Style::new());
        let stalled = o.stalled().min(o.cycles) as f64;
        let issuing = o.cycles as f64 - stalled;
        inner.bar(name + 25, y, bar, &[(issuing / most, "█", Paint::Useful), (stalled / most, "░", Paint::Stalled)]);
    }
}
