//! Chip: its parameters, and what the run would be with others.

use crate::app::{App, Hit};
use crate::pen::{Pen, cut, scroll};
use crate::theme::Paint;
use systole_isa::chip::params::{self, Value};

/// Parameters that fit the filter: key, value, meaning.
pub fn params(app: &App) -> Vec<(String, String, String)> {
    let Some(data) = app.shown() else { return Vec::new() };
    let chip = &data.profile.meta.chip;
    let value = |p: &params::Param| match (p.get)(chip) {
        Value::Number(n) => p.quantity.print(n),
        Value::Text(t) => t,
    };
    params::all()
        .filter(|p| app.filter.is_empty() || p.key.contains(&app.filter))
        .map(|p| (p.key.to_string(), value(p), p.doc.to_string()))
        .collect()
}

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let all = params(app);
    let (w, h) = (pen.width(), pen.height());
    let bottom = 5.min(h);
    {
        let mut panel = pen.part(0, 0, w, h - bottom);
        let mut inner = panel.boxed(&format!("{}: {} parameters", data.profile.meta.chip.name, all.len()));
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
    let mut panel = pen.part(0, h - bottom, w, bottom);
    let mut inner = panel.boxed("what if");
    let sets = if app.sets.is_empty() {
        "no parameter is changed: Enter changes one".to_string()
    } else {
        app.sets.join("  ")
    };
    inner.plain(1, 0, &sets);
    if let Some(before) = &app.before {
        let (a, b) = (before.cycles(), data.cycles());
        let text = format!(
            "before {a} cycles bound by {}, now {b} bound by {}: {:+.1} %",
            before.profile.meta.bound,
            data.profile.meta.bound,
            100.0 * (b as f64 / a.max(1) as f64 - 1.0)
        );
        inner.paint(1, 1, &text, Paint::Accent);
    }
    inner.paint(1, 2, "r runs again (compiled again where code depends on the parameter), cycles only", Paint::Dim);
}
