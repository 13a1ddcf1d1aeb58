//! Overview: a bar for each unit, its history, what bounds the run, how far it is.

use crate::app::{App, Hit, Phase};
use crate::data::Data;
use crate::pen::{Pen, cut, percent};
use crate::theme::Paint;
use systole_runtime::profile::{CAUSE_TABLE, UnitRow};
use systole_runtime::report::text::{metric, time};

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let (w, h) = (pen.width(), pen.height());
    let top = 7.min(h);
    summary(app, data, &mut pen.part(0, 0, w, top));
    let units = data.device(app.device).map_or(0, |d| d.units.len());
    let rows = (units + 3).min(h - top);
    self::units(app, data, &mut pen.part(0, top, w, rows));
    let left = h - top - rows;
    if left > 3 {
        longest(app, data, &mut pen.part(0, top + rows, w, left));
    }
}

fn summary(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let p = &data.profile;
    let m = &p.meta;
    let Some(d) = data.device(app.device) else { return };
    let mut inner = pen.boxed(&format!("{} on {}", m.program, m.chip.name));
    inner.plain(
        1,
        0,
        &format!(
            "{} cycles, {} at {}Hz ({})   {} bundles",
            d.cycles,
            time(p.seconds(d.cycles)),
            metric(m.chip.clock_hz),
            m.mode,
            d.bundles
        ),
    );
    let bytes = (d.hbm_read + d.hbm_write) as f64;
    let peak = m.chip.hbm_bytes_per_cycle() * d.cycles.max(1) as f64;
    inner.plain(
        1,
        1,
        &format!(
            "{}flop, {:.1} % of peak   HBM {}B, {} of what it reaches",
            metric(m.flops),
            m.peak_share * 100.0,
            metric(bytes),
            percent(bytes, peak)
        ),
    );
    inner.bold(1, 2, &format!("bound by {}: {}", m.bound, m.bound_words));
    inner.plain(1, 3, &bottleneck(data, app.device));
    progress(app, data, &mut inner);
}

/// The longest wait and the operation that waits most, in words.
fn bottleneck(data: &Data, device: usize) -> String {
    let Some(d) = data.device(device) else { return String::new() };
    let Some(issue) = d.units.iter().find(|u| u.unit == "issue") else { return String::new() };
    let Some((cause, cycles)) = issue.stall.iter().enumerate().max_by_key(|s| s.1) else { return String::new() };
    if *cycles == 0 {
        return "nothing issued waits".into();
    }
    let worst = d.ops.iter().max_by_key(|o| o.stall[cause]);
    let name = worst.map_or("(none)", |o| data.profile.row_name(o));
    format!("{} of the time {}; most of it in {name}", percent(*cycles as f64, d.cycles as f64), CAUSE_TABLE[cause].2)
}

/// How far a live run is: operations that have run, of all of the program.
fn progress(app: &App, data: &Data, pen: &mut Pen<'_>) {
    if !matches!(app.phase, Phase::Running | Phase::Paused) {
        return;
    }
    let Some(d) = data.device(app.device) else { return };
    let all = data.profile.meta.ops.len().max(1);
    let ran = d.ops.iter().filter(|o| o.op.is_some()).count().min(all);
    let share = ran as f64 / all as f64;
    let width = pen.width().saturating_sub(40).clamp(8, 60);
    pen.bar(1, 4, width, &[(share, "█", Paint::Accent), (1.0 - share, "░", Paint::Idle)]);
    let left = if share > 0.0 { d.cycles as f64 * (1.0 - share) / share } else { 0.0 };
    let text = format!("{ran} of {all} operations, about {}cycles left", metric(left));
    pen.plain(width + 3, 4, &text);
}

fn units(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let Some(d) = data.device(app.device) else { return };
    let mut inner = pen.boxed("units");
    let w = inner.width();
    let history = (w / 4).min(60);
    let bar = w.saturating_sub(history + 9 + 30).clamp(8, 100);
    let mut x = 9;
    for (symbol, paint, what) in [
        ("█", Paint::Useful, "useful"),
        ("▓", Paint::Busy, "busy"),
        ("░", Paint::Stalled, "stalled"),
        ("·", Paint::Idle, "idle"),
    ] {
        x = inner.paint(x, 0, symbol, paint);
        x = inner.plain(x + 1, 0, what) + 2;
    }
    inner.paint(9 + bar + 31, 0, "busy over time", Paint::Dim);
    let total = d.cycles.max(1) as f64;
    for (i, u) in d.units.iter().enumerate() {
        let y = i + 1;
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
            let values = shares(room, app.from, app.to, |a, b| t.samples.unit(i, a, b, u, d.cycles).busy);
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
    let mut inner = pen.boxed("longest operations");
    let rows = systole_runtime::profile::table::by_cycles(d);
    let total = d.cycles.max(1) as f64;
    let w = inner.width();
    let bar = w.saturating_sub(56).min(60);
    for (y, o) in rows.iter().take(inner.height()).enumerate() {
        inner.plain(1, y, &cut(data.profile.row_name(o), 26));
        inner.right(41, y, &o.cycles.to_string(), ratatui::style::Style::new());
        inner.right(50, y, &percent(o.cycles as f64, total), ratatui::style::Style::new());
        let stalled = o.stalled() as f64 / total;
        let parts = [(o.cycles as f64 / total - stalled, "█", Paint::Useful), (stalled, "░", Paint::Stalled)];
        inner.bar(52, y, bar, &parts);
    }
}
