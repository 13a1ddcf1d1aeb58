//! Interconnect: the chips as a map, their links by load.

use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, cut, percent, scroll, wrap};
use crate::theme::Paint;
use std::collections::HashMap;
use systole_runtime::profile::LinkInfo;
use systole_runtime::report::text::metric;

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let m = &data.profile.meta;
    let (w, h) = (pen.width(), pen.height());
    let chips: usize = m.topology.iter().map(|n| *n as usize).product::<usize>().max(1);
    if m.links.is_empty() {
        let mut inner = pen.boxed("interconnect");
        let i = &m.chip.ici;
        let used = match chips {
            1 => "The run used one chip: no link carried data.".to_string(),
            _ => format!("{chips} chips; what links carried is known when the run is over."),
        };
        inner.plain(1, 0, &used);
        let text =
            format!("{} has {} links ({}), {}B/s each.", m.chip.name, i.links, i.topology, metric(i.link_bandwidth));
        inner.plain(1, 2, &text);
        let flags =
            "systole run with --partitions N or --replicas N and --topology 4x4 runs a program on several chips.";
        for (y, line) in wrap(flags, inner.width().saturating_sub(2)).iter().enumerate() {
            inner.paint(1, 4 + y, line, Paint::Dim);
        }
        return;
    }
    let (rows, _) = grid(&m.topology);
    let collectives = m.report.pod.as_ref().map_or(0, |p| p.collectives.len());
    let top = (rows * 2 + 2).min(h / 2).max(5).min(h);
    map(app, data, &mut pen.part(0, 0, w, top));
    let below = if collectives > 0 { (collectives + 3).min((h - top) / 2) } else { 0 };
    if below > 3 {
        collective(data, &mut pen.part(0, top, w, below));
    }
    let below = if below > 3 { below } else { 0 };
    table(app, data, &m.links, &mut pen.part(0, top + below, w, h - top - below));
}

/// Rows and columns of chips in a plane of the map.
fn grid(axes: &[u32]) -> (usize, usize) {
    match axes[..] {
        [] => (1, 1),
        [n] => (1, n as usize),
        [.., a, b] => (a as usize, b as usize),
    }
}

/// How loaded a link is, from 0 to 1.
fn load(data: &Data, l: &LinkInfo) -> f64 {
    l.busy as f64 / data.cycles() as f64
}

fn paint(load: f64) -> Paint {
    match load {
        l if l > 0.66 => Paint::Error,
        l if l > 0.33 => Paint::Warning,
        l if l > 0.0 => Paint::Useful,
        _ => Paint::Idle,
    }
}

/// The line of a link along a row and along a column: its weight shows the load where colours are missing.
fn strokes(load: f64) -> (&'static str, &'static str) {
    match load {
        l if l > 0.33 => ("━", "┃"),
        l if l > 0.0 => ("─", "│"),
        _ => ("·", "·"),
    }
}

/// Chips by row and column of the last two axes; planes of a third axis beside each other. A link is drawn with the load of
/// its busier direction; links that lead around are at the right and lower edges.
fn map(app: &App, data: &Data, pen: &mut Pen<'_>) {
    let axes = &data.profile.meta.topology;
    let (rows, columns) = grid(axes);
    let shape: Vec<String> = axes.iter().map(u32::to_string).collect();
    let mut inner = pen.boxed(&format!("{} chips: busy share of the links in %", shape.join("x")));
    let mut worst: HashMap<(u32, u32), f64> = HashMap::new();
    for l in &data.profile.meta.links {
        let e = worst.entry((l.from_chip.min(l.to_chip), l.from_chip.max(l.to_chip))).or_insert(0.0);
        *e = e.max(load(data, l));
    }
    let between = |a: usize, b: usize| worst.get(&(a.min(b) as u32, a.max(b) as u32)).copied();
    let chips: usize = axes.iter().map(|n| *n as usize).product::<usize>().max(1);
    let plane = (rows * columns).max(1);
    let own = data.device(app.device).map(|d| d.counts.chip);
    let name = chips.saturating_sub(1).to_string().len().max(2);
    let planes = chips.div_ceil(plane);
    // As much as there is room for: chips with their links' numbers, with lines alone, or a mark a chip.
    let gap = |step: usize| if step == 11 { 6 } else { 2 };
    let width = |step: usize| planes * (columns * step + gap(step));
    let fits = |step: &usize| width(*step) <= inner.width();
    let step = [11, name + 3, 2].into_iter().find(fits).unwrap_or(1);
    let tall = if rows * 2 <= inner.height() + 1 { 2 } else { 1 };
    let mut left_out = 0;
    for chip in 0..chips.min(4096) {
        let (z, r, c) = (chip / plane, chip % plane / columns, chip % columns);
        let (x, y) = (1 + z * (columns * step + gap(step)) + c * step, r * tall);
        if y >= inner.height() || x >= inner.width() {
            left_out += 1;
            continue;
        }
        let loads = worst.iter().filter(|(ends, _)| ends.0 == chip as u32 || ends.1 == chip as u32).map(|w| *w.1);
        if step <= 2 {
            let v = loads.fold(0.0, f64::max);
            let symbol =
                if own == Some(chip as u32) { "●" } else { ["·", "░", "▓", "█"][((v * 4.0) as usize).min(3)] };
            inner.paint(x, y, symbol, paint(v));
            continue;
        }
        let after = inner.bold(x, y, &format!("[{chip:>name$}]"));
        if own == Some(chip as u32) {
            (x..after).for_each(|x| inner.mark(x, y));
        }
        let around = c + 1 == columns && columns > 2;
        let right = if c + 1 < columns { Some(chip + 1) } else { Some(chip + 1 - columns).filter(|_| around) };
        if let Some(v) = right.and_then(|to| between(chip, to)) {
            let line = strokes(v).0;
            let number = format!("{:>3.0}", v * 100.0);
            let text = match (around, step) {
                (true, 11) => format!("{line}{}{line}↩", number.trim()),
                (true, _) => "↩".to_string(),
                (false, 11) => format!("{line}{number}{}", line.repeat((step - name - 2).saturating_sub(4))),
                (false, _) => line.to_string(),
            };
            inner.paint(after, y, &text, paint(v));
        }
        let around = r + 1 == rows && rows > 2;
        let down = if r + 1 < rows { Some(chip + columns) } else { Some(chip + columns - plane).filter(|_| around) };
        if let Some(v) = down.and_then(|to| between(chip, to)).filter(|_| tall == 2) {
            let end = if around { "↩" } else { "" };
            let text =
                if step == 11 { format!("{} {:.0}{end}", strokes(v).1, v * 100.0) } else { strokes(v).1.to_string() };
            inner.paint(x + 1, y + 1, &text, paint(v));
        }
    }
    if left_out > 0 {
        let (y, w) = (inner.height().saturating_sub(1), inner.width());
        inner.right(w, y, &format!("{left_out} chips do not fit"), inner.theme.style(Paint::Warning));
    }
    if chips > plane {
        let (y, w) = (inner.height().saturating_sub(1), inner.width());
        inner.right(w, y, "links between planes are in the table", inner.theme.style(Paint::Dim));
    }
}

/// Collectives: what they sent, by which algorithm, how long it took.
fn collective(data: &Data, pen: &mut Pen<'_>) {
    let Some(all) = data.profile.meta.report.pod.as_ref().map(|p| &p.collectives) else { return };
    let mut inner = pen.boxed(&format!("collectives: {}", all.len()));
    let name = inner.width().saturating_sub(72).clamp(12, 40);
    let row = |n: &str, cells: [&str; 6]| {
        let [algorithm, bytes, start, cycles, exposed, share] = cells;
        format!("{:<name$} {algorithm:<8} {bytes:>10} {start:>11} {cycles:>11} {exposed:>11} {share:>9}", cut(n, name))
    };
    inner.bold(1, 0, &row("collective", ["by", "bytes", "from cycle", "cycles", "exposed", "of links"]));
    for (y, c) in all.iter().enumerate().take(inner.height().saturating_sub(1)) {
        let cells = [
            c.algorithm.clone(),
            metric(c.bytes as f64),
            c.start.to_string(),
            c.cycles.to_string(),
            c.exposed.to_string(),
            percent(c.share, 1.0),
        ];
        let [a, b, s, n, e, share] = &cells;
        inner.plain(1, y + 1, &row(&c.name, [a, b, s, n, e, share]));
    }
}

fn table(app: &App, data: &Data, links: &[LinkInfo], pen: &mut Pen<'_>) {
    let mut inner = pen.boxed(&format!("{} links", links.len()));
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(links[*i].busy), *i));
    inner.bold(1, 0, &format!("{:<12} {:>4} {:>12} {:>12} {:>8}", "link", "axis", "bytes", "busy cycles", "of time"));
    let room = inner.height().saturating_sub(1);
    let first = scroll(app.selected(), room, order.len());
    let bar = inner.width().saturating_sub(56).min(60);
    for (i, l) in order.iter().enumerate().skip(first).take(room) {
        let l = &links[*l];
        let y = 1 + i - first;
        let name = format!("{} → {}", l.from_chip, l.to_chip);
        let share = percent(l.busy as f64, data.cycles() as f64);
        inner.plain(
            1,
            y,
            &format!("{name:<12} {:>4} {:>12} {:>12} {share:>8}", l.axis, metric(l.bytes as f64), l.busy),
        );
        let v = load(data, l);
        inner.bar(54, y, bar, &[(v, "█", paint(v)), (1.0 - v, "·", Paint::Idle)]);
        if i == app.selected() {
            inner.mark(0, y);
        }
        let width = inner.width();
        inner.hit(0, y, width, 1, Hit::Row(i));
    }
}
