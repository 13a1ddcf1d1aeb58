//! Chip: its parameters, and what the run would be with others.

use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, cut, scroll, wrap};
use crate::theme::Paint;
use std::borrow::Cow;
use std::collections::BTreeMap;
use systole_isa::chip::params::{self, Value};
use systole_runtime::cost::{EnergyReport, joules};
use systole_runtime::profile::Profile;
use systole_runtime::profile::diff::{change, changes};
use systole_runtime::report::text::time;

/// Parameters that fit the filter: key, value, meaning.
pub fn params(app: &App) -> Vec<(String, String, String)> {
    let fits = |p: &(String, String, String)| app.listing.filter.is_empty() || p.0.contains(&app.listing.filter);
    all(app).into_iter().filter(fits).collect()
}

/// All parameters.
pub fn all(app: &App) -> Vec<(String, String, String)> {
    let Some(data) = app.shown() else { return Vec::new() };
    let chip = &data.profile.meta.chip;
    let value = |p: &params::Param| match (p.get)(chip) {
        Value::Number(n) => p.quantity.print(n),
        Value::Text(t) => t,
    };
    params::all().map(|p| (p.key.to_string(), value(p), p.doc.to_string())).collect()
}

/// Watts and area of a run's chip, where its report has them: `, 170 W, 593 mm2`.
fn cost(profile: &Profile) -> String {
    let report = &profile.meta.report;
    format!(", {:.0} W, {:.0} mm2", report.energy.power_w, report.area.mm2)
}

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let all = params(app);
    let (w, h) = (pen.width(), pen.height());
    let bottom = if app.before.is_some() { (h / 2).max(6) } else { 5 }.min(h);
    // Energy stands beside the parameters where there is room, above them otherwise.
    let beside = if w >= 110 { 44 } else { 0 };
    let above = if beside == 0 && h >= bottom + 9 { 4 } else { 0 };
    if beside > 0 {
        energy(data, &mut pen.part(w - beside, 0, beside, h - bottom));
    } else if above > 0 {
        energy_lines(data, &mut pen.part(0, 0, w, above));
    }
    {
        let mut panel = pen.part(0, above, w - beside, h - bottom - above);
        let chip = &data.profile.meta.report.chip;
        let mut inner = panel.boxed(&format!("{chip}: {} parameters{}", all.len(), cost(&data.profile)));
        let room = inner.height();
        let first = scroll(app.selected(), room, all.len());
        for (i, (key, value, doc)) in all.iter().enumerate().skip(first).take(room) {
            let y = i - first;
            let changed = app.sets.iter().find(|s| s.split('=').next() == Some(key.as_str()));
            inner.plain(1, y, &cut(key, 26));
            inner.bold(28, y, &cut(value, 18));
            match changed {
                Some(s) => inner.paint(47, y, &format!("next: {s}"), Paint::Warning),
                None => inner.paint(47, y, doc, Paint::Dim),
            };
            if i == app.selected() {
                inner.choose(y);
            }
            let width = inner.width();
            inner.hit(0, y, width, 1, Hit::Row(i));
        }
    }
    what_if(app, data, &mut pen.part(0, h - bottom, w, bottom));
}

/// Parts of a whole, the largest first.
fn sorted<'a>(parts: &'a BTreeMap<Cow<'static, str>, f64>) -> Vec<(&'a str, f64)> {
    let mut all: Vec<(&str, f64)> = parts.iter().map(|p| (&**p.0, *p.1)).filter(|p| p.1 > 0.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    all
}

/// Joules, watts and joules of a flop.
fn power(e: &EnergyReport) -> String {
    let flop = e.flop.pj_per_flop.map_or(String::new(), |pj| format!(", {pj:.2} pJ/flop"));
    format!("{}{flop}, {:.0} W ({:.0} idle, {:.0} peak)", joules(e.joules), e.power_w, e.idle_power_w, e.peak_power_w)
}

/// Where energy goes, what for, and the blocks of the chip, as bars.
fn energy(data: &Data, pen: &mut Pen<'_>) {
    let report = &data.profile.meta.report;
    let mut inner = pen.boxed("energy and area");
    let mut y = 0;
    for line in wrap(&power(&report.energy), inner.width().saturating_sub(2)) {
        inner.plain(1, y, &line);
        y += 1;
    }
    let groups = [
        ("by unit", &report.energy.units, Paint::Accent),
        ("by cause", &report.energy.purposes, Paint::Useful),
        ("area by block", &report.area.blocks, Paint::Busy),
    ];
    let share = inner.height().saturating_sub(y) / groups.len();
    for (title, parts, paint) in groups {
        inner.bold(1, y, title);
        let total: f64 = parts.values().sum();
        let rows = share.saturating_sub(1);
        for (i, (name, v)) in sorted(parts).into_iter().take(rows).enumerate() {
            let part = v / total.max(1e-300);
            inner.plain(2, y + 1 + i, &cut(name, 13));
            let width = inner.width().saturating_sub(24);
            inner.bar(16, y + 1 + i, width, &[(part, "█", paint)]);
            let text = format!("{:.1} %", 100.0 * part);
            let end = inner.width().saturating_sub(text.chars().count() + 1);
            inner.plain(end, y + 1 + i, &text);
        }
        y += share;
    }
}

/// The same in lines.
fn energy_lines(data: &Data, pen: &mut Pen<'_>) {
    let report = &data.profile.meta.report;
    let mut inner = pen.boxed(&format!("energy {}", power(&report.energy)));
    for (y, (what, parts)) in
        [("by unit", &report.energy.units), ("by cause", &report.energy.purposes)].into_iter().enumerate()
    {
        let total: f64 = parts.values().sum();
        let part = |(name, v): (&str, f64)| format!("{name} {:.0} %", 100.0 * v / total.max(1e-300));
        let text: Vec<String> = sorted(parts).into_iter().map(part).collect();
        let room = inner.width().saturating_sub(2);
        inner.plain(1, y, &cut(&format!("{what}: {}", text.join(", ")), room));
    }
}

/// The changes that the next run has, and what the last one changed, operation by operation.
fn what_if(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let mut inner = pen.boxed("what if: Enter changes a parameter, r runs again (cycles only), :unset forgets");
    let sets = match app.sets.is_empty() {
        true => "no parameter is changed".to_string(),
        false => format!("with {}", app.sets.join("  ")),
    };
    inner.plain(1, 0, &sets);
    let Some(before) = &app.before else {
        inner.paint(1, 1, "Code is compiled again where it depends on the parameter.", Paint::Dim);
        return;
    };
    let text = format!(
        "{} (bound by {}{} -> {}{})",
        change(&before.profile, &data.profile),
        before.profile.meta.report.bound,
        cost(&before.profile),
        data.profile.meta.report.bound,
        cost(&data.profile),
    );
    inner.paint(1, 1, &text, Paint::Accent);
    let (Some(x), Some(y)) = (before.device(app.device), data.device(app.device)) else { return };
    let changes = changes(&before.profile, &data.profile, x, y);
    let name = inner.width().saturating_sub(70).clamp(14, 40);
    inner.bold(1, 2, &format!("{:<name$} {:>11} {:>11} {:>11}  what changed", "operation", "before", "now", "change"));
    let (old, new) = (&before.profile, &data.profile);
    let changed = changes.iter().filter(|c| c.delta(old, new) != 0.0);
    for (i, c) in changed.take(inner.height().saturating_sub(3)).enumerate() {
        let ((from, to), by) = (c.seconds(old, new), c.delta(old, new));
        let sign = if by < 0.0 { "-" } else { "+" };
        let (from, to, size) = (time(from), time(to), format!("{sign}{}", time(by.abs())));
        let text = format!("{:<name$} {from:>11} {to:>11} {size:>11}  {}", cut(&c.name, name), c.what);
        inner.paint(1, 3 + i, &text, if by < 0.0 { Paint::Useful } else { Paint::Stalled });
    }
}
