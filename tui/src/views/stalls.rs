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
        let mut inner = panel.boxed("share of the time that units wait, by cause");
        let column = (inner.width().saturating_sub(11) / d.units.len().max(1)).clamp(5, 9);
        for (i, u) in d.units.iter().enumerate() {
            inner.right(11 + (i + 1) * column, 0, &cut(&u.unit, column - 1), ratatui::style::Style::new());
        }
        for (y, c) in causes.iter().enumerate() {
            inner.bold(1, y + 1, CAUSE_TABLE[*c].1);
            for (i, u) in d.units.iter().enumerate() {
                let share = 100.0 * u.stall[*c] as f64 / d.cycles.max(1) as f64;
                let paint = match share {
                    s if s >= 20.0 => Paint::Error,
                    s if s >= 5.0 => Paint::Warning,
                    s if s >= 0.1 => Paint::Text,
                    _ => Paint::Dim,
                };
                let style = inner.theme.style(paint);
                inner.right(11 + (i + 1) * column, y + 1, &format!("{share:.1}"), style);
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
    let mut ops: Vec<&OpRow> = d.ops.iter().filter(|o| o.stall[cause] > 0 && data.matches(o, &app.filter)).collect();
    ops.sort_by_key(|o| (std::cmp::Reverse(o.stall[cause]), o.start));
    let bar = inner.width().saturating_sub(70).min(60);
    for (y, o) in ops.iter().take(inner.height()).enumerate() {
        let waits = o.stall[cause];
        let text = format!(
            "{:<30} {:>12} cycles {:>8} of it",
            cut(data.profile.row_name(o), 30),
            waits,
            percent(waits as f64, o.cycles as f64)
        );
        inner.plain(1, y, &text);
        inner.bar(67, y, bar, &[(waits as f64 / ops[0].stall[cause].max(1) as f64, "█", Paint::Stalled)]);
    }
}
