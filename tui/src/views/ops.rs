//! Operations: a table to sort, filter and look into.

use crate::app::{App, Hit, Sort};
use crate::pen::{Pen, cut, percent, scroll};
use crate::theme::Paint;
use ratatui::style::{Modifier, Style};
use systole_runtime::report::text::metric;

/// Columns: title, width (0: what is left), sort.
const COLUMNS: &[(&str, usize, Option<Sort>)] = &[
    ("operation", 0, Some(Sort::Name)),
    ("opcode", 14, None),
    ("start", 11, Some(Sort::Start)),
    ("cycles", 11, Some(Sort::Cycles)),
    ("share", 8, None),
    ("stalled", 8, Some(Sort::Stalled)),
    ("flop", 9, Some(Sort::Flops)),
    ("bytes", 9, Some(Sort::Bytes)),
    ("bound", 6, None),
];
/// Columns of narrow terminals.
const FEWER: &[usize] = &[0, 3, 4, 5, 6, 7, 8];

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let Some(d) = data.device(app.device) else { return };
    let rows = app.rows();
    let place = if rows.is_empty() { 0 } else { app.selected().min(rows.len() - 1) + 1 };
    let direction = if app.listing.reverse { "↑" } else { "↓" };
    let mut inner = pen.boxed(&format!("operations {place}/{} by {} {direction}", rows.len(), app.listing.sort.name()));
    let w = inner.width();
    let chosen: Vec<usize> = if w < 100 { FEWER.to_vec() } else { (0..COLUMNS.len()).collect() };
    let fixed: usize = chosen.iter().map(|c| COLUMNS[*c].1 + 1).sum();
    let name_width = w.saturating_sub(fixed + 1).max(8);
    let width = |c: usize| if COLUMNS[c].1 == 0 { name_width } else { COLUMNS[c].1 };
    let left = |c: usize| c < 2 || c == 8;
    let mut x = 1;
    for &c in &chosen {
        let title = cut(COLUMNS[c].0, width(c));
        let style = match COLUMNS[c].2 {
            Some(s) if s == app.listing.sort => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            _ => Style::new().add_modifier(Modifier::BOLD),
        };
        if left(c) {
            inner.text(x, 0, &title, style);
        } else {
            inner.right(x + width(c), 0, &title, style);
        }
        if let Some(s) = COLUMNS[c].2 {
            inner.hit(x, 0, width(c), 1, Hit::Sort(s));
        }
        x += width(c) + 1;
    }
    let room = inner.height().saturating_sub(1);
    let first = scroll(app.selected(), room, rows.len());
    for (i, &row) in rows.iter().enumerate().skip(first).take(room) {
        let o = &d.ops[row];
        let y = 1 + i - first;
        let info = data.profile.row_op(o);
        let cells = [
            data.profile.row_name(o).to_string(),
            info.map_or(String::new(), |i| i.opcode.clone()),
            o.start.to_string(),
            o.cycles.to_string(),
            percent(o.cycles as f64, d.counts.cycles as f64),
            percent(o.stalled() as f64, o.cycles as f64),
            metric(o.flops),
            metric(o.bytes() as f64),
            o.bound.clone(),
        ];
        let mut x = 1;
        for &c in &chosen {
            let text = cut(&cells[c], width(c));
            if left(c) {
                inner.plain(x, y, &text);
            } else {
                inner.right(x + width(c), y, &text, Style::new());
            }
            x += width(c) + 1;
        }
        if i == app.selected() {
            inner.choose(y);
        }
        inner.hit(0, y, w, 1, Hit::Row(i));
    }
    if rows.is_empty() {
        inner.paint(1, 1, "no operation fits the filter", Paint::Dim);
    }
}
