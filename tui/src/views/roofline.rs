//! Roofline: operations as points under what memory and matrix units allow.

use crate::app::{App, Hit};
use crate::pen::{Pen, cut, percent, scroll};
use crate::theme::Paint;
use ratatui::style::Style;
use systole_runtime::profile::roofline::{peak, point, roofs};
use systole_runtime::report::text::metric;

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let Some(d) = data.device(app.device) else { return };
    let p = &data.profile;
    let (w, h) = (pen.width(), pen.height());
    let list = (h / 3).clamp(5, 16).min(h);
    let rows = app.rows();
    let chosen = rows.get(app.selected()).copied();
    {
        let mut plot = pen.part(0, 0, w, h - list);
        let mut inner = plot.boxed("roofline: flop per cycle over flop per byte of HBM, both in logarithms");
        let (cw, ch) = (inner.width(), inner.height());
        let points: Vec<_> = rows.iter().filter_map(|r| point(p, *r, &d.ops[*r])).collect();
        let top = peak(p).max(1.0);
        let low = points.iter().map(|q| q.intensity).fold(0.25, f64::min).max(1e-6);
        let high = points.iter().map(|q| q.intensity).fold(4096.0, f64::max).max(low * 2.0);
        let least = points.iter().map(|q| q.rate).fold(top * 1e-4, f64::min).max(top * 1e-9);
        let column = |v: f64| (((v.max(low) / low).ln() / (high / low).ln()) * (cw.max(1) - 1) as f64) as usize;
        let row = |v: f64| {
            let up = (v.max(least) / least).ln() / (top / least).ln();
            ch.saturating_sub(1) - (up.clamp(0.0, 1.0) * ch.saturating_sub(2) as f64) as usize
        };
        for (i, r) in roofs(p).into_iter().enumerate() {
            let mut named = false;
            for c in 0..cw {
                let intensity = low * (high / low).powf(c as f64 / (cw.max(2) - 1) as f64);
                let v = intensity * r.bytes;
                if v >= top || v < least {
                    continue;
                }
                let y = row(v);
                inner.paint(c, y, "·", Paint::Item(i as u32));
                if !named {
                    inner.paint(c + 2, y, r.name, Paint::Item(i as u32));
                    named = true;
                }
            }
        }
        inner.paint(0, row(top), &"─".repeat(cw), Paint::Dim);
        let label = format!("peak {}flop/s", metric(top * p.meta.chip.clock_hz));
        let at = row(top).saturating_sub(1);
        inner.right(cw, at, &label, Style::new());
        for q in points.iter().rev() {
            let symbol = if Some(q.row) == chosen { "●" } else { "o" };
            let paint = if Some(q.row) == chosen { Paint::Warning } else { Paint::Accent };
            inner.paint(column(q.intensity), row(q.rate), symbol, paint);
        }
        let range = format!("{low:.2} .. {high:.0} flop/byte");
        inner.right(cw, ch.saturating_sub(1), &range, Style::new());
        if points.is_empty() {
            inner.paint(1, 1, "no operation has useful matrix-unit work", Paint::Dim);
        }
    }
    let mut panel = pen.part(0, h - list, w, list);
    let mut inner = panel.boxed("operations");
    let room = inner.height().saturating_sub(1);
    let first = scroll(app.selected(), room, rows.len());
    inner.bold(
        1,
        0,
        &format!("{:<30} {:>12} {:>12} {:>12} {:>9}", "operation", "flop/byte", "flop/cycle", "cycles", "of roof"),
    );
    for (i, r) in rows.iter().enumerate().skip(first).take(room) {
        let o = &d.ops[*r];
        let q = point(p, *r, o);
        let name = cut(p.row_name(o), 30);
        let text = match q {
            Some(q) => format!(
                "{name:<30} {:>12.1} {:>12.1} {:>12} {:>9}",
                q.intensity,
                q.rate,
                o.cycles,
                percent(q.rate, q.roof)
            ),
            None => format!("{name:<30} {:>12} {:>12} {:>12} {:>9}", "-", "-", o.cycles, "-"),
        };
        let y = 1 + i - first;
        inner.plain(1, y, &text);
        if i == app.selected() {
            inner.choose(y);
        }
        let width = inner.width();
        inner.hit(0, y, width, 1, Hit::Row(i));
    }
}
