//! Chip: its parameters, and what the run would be with others.

use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, cut, scroll};
use crate::theme::Paint;
use systole_isa::chip::params::{self, Value};
use systole_runtime::profile::Profile;
use systole_runtime::profile::diff::changes;

/// Parameters that fit the filter: key, value, meaning.
pub fn params(app: &App) -> Vec<(String, String, String)> {
    let fits = |p: &(String, String, String)| app.filter.is_empty() || p.0.contains(&app.filter);
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
    let number = |table: &str, key: &str| profile.meta.report[table][key].as_f64();
    match (number("energy", "power_w"), number("area", "mm2")) {
        (Some(watts), Some(area)) => format!(", {watts:.0} W, {area:.0} mm2"),
        _ => String::new(),
    }
}

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let all = params(app);
    let (w, h) = (pen.width(), pen.height());
    let bottom = if app.before.is_some() { (h / 2).max(6) } else { 5 }.min(h);
    {
        let mut panel = pen.part(0, 0, w, h - bottom);
        let mut inner =
            panel.boxed(&format!("{}: {} parameters{}", data.profile.meta.chip.name, all.len(), cost(&data.profile)));
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
    let (a, b) = (before.cycles(), data.cycles());
    let text = format!(
        "before {a} cycles bound by {}{}, now {b} bound by {}{}: {:+.1} %",
        before.profile.meta.bound,
        cost(&before.profile),
        data.profile.meta.bound,
        cost(&data.profile),
        100.0 * (b as f64 / a.max(1) as f64 - 1.0)
    );
    inner.paint(1, 1, &text, Paint::Accent);
    let (Some(x), Some(y)) = (before.device(app.device), data.device(app.device)) else { return };
    let changes = changes(&before.profile, &data.profile, x, y);
    let name = inner.width().saturating_sub(70).clamp(14, 40);
    inner.bold(1, 2, &format!("{:<name$} {:>11} {:>11} {:>11}  what changed", "operation", "before", "now", "change"));
    for (i, c) in changes.iter().filter(|c| c.delta() != 0).take(inner.height().saturating_sub(3)).enumerate() {
        let (from, to) = c.cycles();
        let text = format!("{:<name$} {from:>11} {to:>11} {:>+11}  {}", cut(&c.name, name), c.delta(), c.what);
        inner.paint(1, 3 + i, &text, if c.delta() < 0 { Paint::Useful } else { Paint::Stalled });
    }
}
