//! Roofline: operations as points under what memory and matrix units allow.

use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, cut, percent, scroll};
use crate::theme::Paint;
use ratatui::style::Style;
use systole_runtime::profile::DeviceMeta;
use systole_runtime::profile::roofline::{Point, peak, point, roofs};
use systole_runtime::report::text::metric;

/// Columns of the vertical axis.
const AXIS: usize = 9;

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let Some(d) = data.device(app.device) else { return };
    let (w, h) = (pen.width(), pen.height());
    let list = (h / 3).clamp(5, 16).min(h);
    plot(app, data, d, &mut pen.part(0, 0, w, h - list));
    table(app, data, d, &mut pen.part(0, h - list, w, list));
}

/// The axes of the plot: both logarithmic.
struct Axes {
    /// Flops per byte of HBM at the first and last column.
    low: f64,
    high: f64,
    /// Flops per cycle at the last and first row.
    least: f64,
    top: f64,
    columns: usize,
    rows: usize,
}

impl Axes {
    fn new(points: &[Point], top: f64, ridge: f64, columns: usize, rows: usize) -> Axes {
        let finite = || points.iter().map(|q| q.intensity).filter(|i| i.is_finite());
        let low = finite().fold(ridge / 256.0, f64::min).max(1e-4);
        let high = finite().fold(ridge * 32.0, f64::max).clamp(low * 4.0, low * 1e9);
        let least = points.iter().map(|q| q.rate).fold(top * 1e-2, f64::min).max(top * 1e-7) / 2.0;
        Axes { low, high, least, top, columns: columns.max(2), rows: rows.max(2) }
    }

    fn column(&self, intensity: f64) -> usize {
        let part = (intensity.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        (part.clamp(0.0, 1.0) * (self.columns - 1) as f64).round() as usize
    }

    fn row(&self, rate: f64) -> usize {
        let part = (rate.max(self.least) / self.least).ln() / (self.top / self.least).ln();
        self.rows - 1 - (part.clamp(0.0, 1.0) * (self.rows - 1) as f64).round() as usize
    }

    fn intensity(&self, column: usize) -> f64 {
        self.low * (self.high / self.low).powf(column as f64 / (self.columns - 1) as f64)
    }
}

fn plot(app: &App, data: &Data, d: &DeviceMeta, pen: &mut Pen<'_>) {
    let p = &data.profile;
    let rows = app.rows();
    let chosen = rows.get(app.selected()).copied();
    let points: Vec<Point> = rows.iter().filter_map(|r| point(p, *r, &d.ops[*r])).collect();
    let mut inner = pen.boxed("roofline: flop/s over flop/byte of HBM; ● over 5 % of the time, • less");
    let (w, h) = (inner.width(), inner.height());
    if w < AXIS + 10 || h < 4 {
        return;
    }
    let clock = p.meta.chip.clock_hz;
    let top = peak(p).max(1e-9);
    let roofs = roofs(p, d);
    let ridge = roofs.first().map_or(1.0, |r| top / r.bytes.max(1e-9));
    let axes = Axes::new(&points, top, ridge, w - AXIS, h - 1);
    scales(&mut inner, &axes, clock);
    let mut field = inner.part(AXIS, 0, w - AXIS, h - 1);
    field.paint(0, 0, &"─".repeat(axes.columns), Paint::Text);
    field.bold(2, 0, &format!(" peak {}flop/s ", metric(top * clock)));
    let mut taken = vec![false; axes.columns * axes.rows];
    for q in &points {
        taken[axes.row(q.rate) * axes.columns + axes.column(q.intensity)] = true;
    }
    for (i, r) in roofs.iter().enumerate() {
        for c in 0..axes.columns {
            let v = axes.intensity(c) * r.bytes;
            if v < top && v >= axes.least {
                field.paint(c, axes.row(v), "·", Paint::Item(i as u32));
            }
        }
    }
    // A roof's name stands at it, from the top down where it hides no point and no other name.
    for (i, r) in roofs.iter().enumerate() {
        let text = format!(" {} {}B/s ", r.name, metric(r.bytes * clock));
        let n = text.chars().count();
        let free = (0..axes.columns).rev().find(|c| {
            let v = axes.intensity(*c) * r.bytes;
            let y = axes.row(v);
            let room = c + n < axes.columns && v < top && v >= axes.least && y > 0;
            room && !taken[y * axes.columns + c + 1..=y * axes.columns + c + n].contains(&true)
        });
        if let Some(c) = free {
            let y = axes.row(axes.intensity(c) * r.bytes);
            field.paint(c + 1, y, &text, Paint::Item(i as u32));
            taken[y * axes.columns + c + 1..=y * axes.columns + c + n].fill(true);
        }
    }
    for q in points.iter().rev() {
        let large = q.cycles as f64 >= 0.05 * d.counts.cycles as f64;
        let own = Some(q.row) == chosen;
        let symbol = if own {
            "◆"
        } else if large {
            "●"
        } else {
            "•"
        };
        field.paint(
            axes.column(q.intensity),
            axes.row(q.rate),
            symbol,
            if own { Paint::Warning } else { Paint::Accent },
        );
    }
    // The chosen one is drawn over those in the same place.
    if let Some(q) = points.iter().find(|q| Some(q.row) == chosen) {
        field.paint(axes.column(q.intensity), axes.row(q.rate), "◆", Paint::Warning);
    }
    if points.is_empty() {
        field.paint(1, 1, "no operation has useful matrix-unit work", Paint::Dim);
    }
}

/// Ticks of both axes: the peak, powers of ten below it, and powers of ten of the intensity.
fn scales(pen: &mut Pen<'_>, axes: &Axes, clock: f64) {
    let dim = pen.theme.style(Paint::Dim);
    pen.right(AXIS - 1, 0, "flop/s", dim);
    let mut free = 2;
    let mut decade = 10f64.powf((axes.top * clock).log10().floor());
    while decade > axes.least * clock {
        let y = axes.row(decade / clock);
        if y >= free {
            pen.right(AXIS - 1, y, &metric_round(decade), dim);
            free = y + 2;
        }
        decade /= 10.0;
    }
    let (width, bottom) = (pen.width(), pen.height() - 1);
    let mut decade = 10f64.powf(axes.low.log10().ceil());
    let mut free = 0;
    while decade <= axes.high {
        let x = AXIS + axes.column(decade);
        let text = metric_round(decade);
        if x >= free && x + text.len() + 14 < width {
            free = pen.text(x, bottom, &text, dim) + 2;
        }
        decade *= 10.0;
    }
    pen.right(width, bottom, "flop/byte", dim);
}

/// A power of ten in few letters: `100 G`, `1 k`, `0.01`.
fn metric_round(v: f64) -> String {
    let steps = [(1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
    match steps.iter().find(|s| v >= s.0 * 0.999) {
        Some((scale, prefix)) => format!("{:.0}{prefix}", v / scale),
        None => format!("{}", (v * 1e9).round() / 1e9),
    }
}

fn table(app: &App, data: &Data, d: &DeviceMeta, pen: &mut Pen<'_>) {
    let p = &data.profile;
    let rows = app.rows();
    let mut inner = pen.boxed(&format!("{} operations by {}", rows.len(), app.listing.sort.name()));
    let room = inner.height().saturating_sub(1);
    let first = scroll(app.selected(), room, rows.len());
    let name = inner.width().saturating_sub(55).clamp(10, 44);
    let line = |name_of: &str, cells: [&str; 5]| {
        let [a, b, c, d, bound] = cells;
        format!("{:<name$} {a:>11} {b:>11} {c:>11} {d:>8}  {bound}", cut(name_of, name))
    };
    inner.bold(1, 0, &line("operation", ["flop/byte", "flop/s", "cycles", "of roof", "bound"]));
    for (i, r) in rows.iter().enumerate().skip(first).take(room) {
        let o = &d.ops[*r];
        let cells = match point(p, *r, o) {
            Some(q) => [
                if q.intensity.is_finite() { format!("{:.1}", q.intensity) } else { "no HBM".into() },
                metric(q.rate * p.meta.chip.clock_hz),
                o.cycles.to_string(),
                percent(q.rate, q.roof),
            ],
            None => ["-".into(), "-".into(), o.cycles.to_string(), "-".into()],
        };
        let y = 1 + i - first;
        let [a, b, c, e] = &cells;
        inner.plain(1, y, &line(p.row_name(o), [a, b, c, e, &o.bound]));
        if i == app.selected() {
            inner.choose(y);
        }
        let width = inner.width();
        inner.hit(0, y, width, 1, Hit::Row(i));
    }
    if rows.is_empty() {
        inner.text(1, 1, "no operation fits the filter", Style::new());
    }
}
