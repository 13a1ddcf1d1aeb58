//! Stalls: cause by unit, and the operations that wait most for the chosen cause.

use crate::app::{App, Hit};
use crate::pen::{Pen, cut, percent};
use crate::theme::Paint;
use systole_runtime::profile::{CAUSE_TABLE, OpRow};

/// Causes that occur, by number: longest first by the issue stage.
pub fn causes(app: &App) -> Vec<usize> {
    let Some(data) = app.shown() else { return Vec::new() };
    let Some(d) = data.device(app.device) else { return Vec::new() };
    let mut found: Vec<usize> = (1..CAUSE_TABLE.len()).filter(|c| d.units.iter().any(|u| u.stall[*c] > 0)).collect();
    found.sort_by_key(|c| std::cmp::Reverse(d.units.iter().map(|u| u.stall[*c]).max()));
    found
}

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let Some(d) = data.device(app.device) else { return };
    let causes = causes(app);
    let (w, h) = (pen.width(), pen.height());
    let rows = (causes.len() + 3).min(h);
    {
        let mut panel = pen.part(0, 0, w, rows);
        let mut inner = panel.boxed("% of the cycles that units wait, by cause");
        // Columns as wide as their names and shares; what is left is shared out.
        let widths: Vec<usize> = d.units.iter().map(|u| u.unit.chars().count().max(4) + 1).collect();
        let names = causes.iter().map(|c| CAUSE_TABLE[*c].1.len()).max().unwrap_or(0).max(5) + 1;
        let spare = inner.width().saturating_sub(names + 1 + widths.iter().sum::<usize>());
        let spare = (spare / d.units.len().max(1)).min(4);
        let mut ends = vec![names];
        widths.iter().for_each(|w| ends.push(ends[ends.len() - 1] + w + spare));
        inner.paint(1, 0, "cause", Paint::Dim);
        for (i, u) in d.units.iter().enumerate() {
            inner.right(ends[i + 1], 0, &u.unit, ratatui::style::Style::new());
        }
        for (y, c) in causes.iter().enumerate() {
            inner.bold(1, y + 1, CAUSE_TABLE[*c].1);
            for (i, u) in d.units.iter().enumerate() {
                let share = 100.0 * u.stall[*c] as f64 / d.counts.cycles.max(1) as f64;
                let paint = match share {
                    s if s >= 20.0 => Paint::Error,
                    s if s >= 5.0 => Paint::Warning,
                    s if s >= 0.1 => Paint::Text,
                    _ => Paint::Dim,
                };
                let style = inner.theme.style(paint);
                let text = match u.stall[*c] {
                    0 => "·".to_string(),
                    _ if share >= 99.95 => "100".to_string(),
                    _ => format!("{share:.1}"),
                };
                inner.right(ends[i + 1], y + 1, &text, style);
            }
            if y == app.selected() {
                inner.choose(y + 1);
            }
            inner.hit(0, y + 1, w, 1, Hit::Row(y));
        }
    }
    let Some(&cause) = causes.get(app.selected()) else { return };
    let mut panel = pen.part(0, rows, w, h - rows);
    let mut inner = panel.boxed(&format!("{}: {}", CAUSE_TABLE[cause].1, CAUSE_TABLE[cause].2));
    let mut ops: Vec<&OpRow> =
        d.ops.iter().filter(|o| o.stall[cause] > 0 && data.matches(o, &app.listing.filter)).collect();
    ops.sort_by_key(|o| (std::cmp::Reverse(o.stall[cause]), o.start));
    let name = inner.width().saturating_sub(46).clamp(12, 30);
    let bar = inner.width().saturating_sub(name + 40).min(60);
    for (y, o) in ops.iter().take(inner.height()).enumerate() {
        let waits = o.stall[cause];
        let text = format!(
            "{:<name$} {waits:>12} cycles {:>8} of it",
            cut(data.profile.row_name(o), name),
            percent(waits as f64, o.cycles as f64)
        );
        inner.plain(1, y, &text);
        inner.bar(name + 39, y, bar, &[(waits as f64 / ops[0].stall[cause].max(1) as f64, "█", Paint::Stalled)]);
    }
}
