//! A sweep's frame, from its state alone.

use super::{Standing, SweepApp, SweepPoint};
use crate::pen::{Pen, cut, scroll, wrap};
use crate::theme::Paint;
use ratatui::buffer::Buffer;
use systole_runtime::report::text::short;

/// Symbol, colour and word of a standing.
fn look(s: Standing) -> (&'static str, Paint, &'static str) {
    match s {
        Standing::Front => ("●", Paint::Accent, "front"),
        Standing::Perhaps => ("○", Paint::Warning, "perhaps"),
        Standing::Dominated => ("·", Paint::Dim, ""),
        Standing::Unbuildable => ("x", Paint::Error, "unbuildable"),
        Standing::Failed => ("!", Paint::Error, "failed"),
        Standing::Missing => ("-", Paint::Dim, "missing"),
    }
}

pub(super) fn draw(app: &SweepApp, buffer: &mut Buffer) {
    let mut hits = Vec::new();
    let area = buffer.area;
    {
        let mut pen = Pen { buffer: &mut *buffer, hits: &mut hits, area, theme: app.theme };
        let (w, h) = (pen.width(), pen.height());
        if w < 24 || h < 8 {
            pen.plain(0, 0, "too small");
        } else {
            head(app, &mut pen.part(0, 0, w, 1));
            let plot_height = (h - 2) / 2;
            match &app.compared {
                Some(lines) => comparison(lines, &mut pen.part(0, 1, w, plot_height)),
                None => plot(app, &mut pen.part(0, 1, w, plot_height)),
            }
            table(app, &mut pen.part(0, 1 + plot_height, w, h - 2 - plot_height));
            foot(app, &mut pen.part(0, h - 1, w, 1));
        }
    }
    app.theme.finish(buffer);
}

fn head(app: &SweepApp, pen: &mut Pen<'_>) {
    let (done, failed, missing) = app.data.counts();
    let fronts = app.data.points.iter().filter(|p| p.standing == Standing::Front).count();
    let mut text = format!("{}: {done} of {} done", app.data.name, app.data.points.len());
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    if missing > 0 && app.rate > 0.0 {
        text += &format!(", {:.1} points/s, {:.0} s left", app.rate, missing as f64 / app.rate);
    }
    text += &format!(", {fronts} on the front");
    pen.bold(0, 0, &text);
}

/// Where a value lies between the least and the greatest, from 0 to 1; logarithmic where they are far apart.
fn share(v: f64, (low, high): (f64, f64)) -> f64 {
    if high <= low {
        return 0.5;
    }
    if low > 0.0 && high / low > 8.0 {
        return (v / low).ln() / (high / low).ln();
    }
    (v - low) / (high - low)
}

fn plot(app: &SweepApp, pen: &mut Pen<'_>) {
    let name = |i: usize| app.data.columns.get(i).cloned().unwrap_or_default();
    let (x_name, y_name) = (name(app.x), name(app.y));
    let mut inner = pen.boxed(&format!("{y_name} over {x_name}"));
    let able: Vec<(&SweepPoint, f64, f64)> =
        (app.data.points.iter()).filter_map(|p| Some((p, *p.numbers.get(app.x)?, *p.numbers.get(app.y)?))).collect();
    let range = |of: fn(&(&SweepPoint, f64, f64)) -> f64| {
        let values = able.iter().map(of);
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
    };
    if able.is_empty() {
        inner.paint(1, 0, "no point is done yet", Paint::Dim);
        return;
    }
    let (xs, ys) = (range(|p| p.1), range(|p| p.2));
    let (left, w, h) = (8, inner.width().saturating_sub(9), inner.height().saturating_sub(1));
    if w < 4 || h < 2 {
        return;
    }
    inner.paint(0, 0, &short(ys.1), Paint::Dim);
    inner.paint(0, h - 1, &short(ys.0), Paint::Dim);
    inner.paint(left, h, &short(xs.0), Paint::Dim);
    let end = short(xs.1);
    inner.paint(left + w - end.len().min(w), h, &end, Paint::Dim);
    let chosen = app.order().get(app.selected).map(|&i| app.data.points[i].id.clone());
    let mut order = able;
    order.sort_by_key(|p| (Some(&p.0.id) == chosen.as_ref(), app.marks.contains(&p.0.id), p.0.standing));
    for (p, x, y) in order {
        let column = left + (share(x, xs) * (w - 1) as f64).round() as usize;
        let row = h - 1 - (share(y, ys) * (h - 1) as f64).round() as usize;
        let (symbol, paint, _) = look(p.standing);
        if Some(&p.id) == chosen.as_ref() {
            inner.bold(column, row, "◆");
        } else if let Some(mark) = app.marks.iter().position(|m| *m == p.id) {
            inner.bold(column, row, ["A", "B"][mark.min(1)]);
        } else {
            inner.paint(column, row, symbol, paint);
        }
    }
}

fn comparison(lines: &[String], pen: &mut Pen<'_>) {
    let mut inner = pen.boxed("why B is better or worse than A");
    for (y, line) in lines.iter().take(inner.height()).enumerate() {
        inner.plain(1, y, line);
    }
}

fn table(app: &SweepApp, pen: &mut Pen<'_>) {
    let mut inner = pen.boxed("points");
    let width = 11;
    let mut columns: Vec<usize> = app.data.objectives.clone();
    for c in [app.x, app.y] {
        if !columns.contains(&c) {
            columns.push(c);
        }
    }
    columns.truncate((inner.width() / 2) / width);
    let first = inner.width().saturating_sub(columns.len() * width);
    for (i, &c) in columns.iter().enumerate() {
        let name = app.data.columns.get(c).map_or("", String::as_str);
        inner.bold(first + i * width, 0, &format!("{:>10}", cut(name, 10)));
    }
    let order = app.order();
    // The chosen point in full, in a few of the last rows.
    let chosen = order.get(app.selected).map(|&i| &app.data.points[i]);
    let full = chosen.map_or_else(Vec::new, |p| wrap(&format!("{} {}", p.program, p.design), inner.width()));
    let full = &full[..full.len().min(inner.height() / 3)];
    for (line, text) in full.iter().enumerate() {
        inner.paint(0, inner.height() - full.len() + line, text, Paint::Dim);
    }
    let room = inner.height().saturating_sub(1 + full.len());
    let begin = scroll(app.selected, room, order.len());
    for (line, &i) in order.iter().skip(begin).take(room).enumerate() {
        let p = &app.data.points[i];
        let (symbol, paint, word) = look(p.standing);
        let y = line + 1;
        let mark = app.marks.iter().position(|m| *m == p.id).map_or(" ", |m| ["A", "B"][m.min(1)]);
        inner.plain(0, y, mark);
        inner.paint(2, y, symbol, paint);
        let notes = if p.notes.is_empty() { word.to_string() } else { format!("{word}: {}", p.notes) };
        let text = format!("{} {} {notes}", p.program, p.label);
        inner.plain(4, y, &cut(&text, first.saturating_sub(5)));
        for (k, &c) in columns.iter().enumerate() {
            let value = p.numbers.get(c).map(|v| short(*v)).unwrap_or_default();
            inner.plain(first + k * width, y, &format!("{value:>10}"));
        }
        if begin + line == app.selected {
            inner.choose(y);
        }
    }
}

fn foot(app: &SweepApp, pen: &mut Pen<'_>) {
    if app.message.is_empty() {
        pen.paint(0, 0, "x y axes  ↑↓ point  m mark  c compare  Enter profile  q leave", Paint::Dim);
    } else {
        pen.paint(0, 0, &app.message, Paint::Warning);
    }
}
