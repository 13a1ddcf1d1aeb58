//! Interconnect: the chips as a map, their links by load.

use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, percent, scroll};
use crate::theme::Paint;
use systole_runtime::profile::LinkInfo;
use systole_runtime::report::text::metric;

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let links = &data.profile.meta.links;
    let (w, h) = (pen.width(), pen.height());
    if links.is_empty() {
        let mut inner = pen.boxed("interconnect");
        let i = &data.profile.meta.chip.ici;
        inner.plain(1, 0, "The run used one chip: no link carried data.");
        inner.plain(
            1,
            2,
            &format!("This chip has {} links ({}), {}B/s each.", i.links, i.topology, metric(i.link_bandwidth)),
        );
        return;
    }
    let half = h / 2;
    map(data, &mut pen.part(0, 0, w, half));
    table(app, data, links, &mut pen.part(0, half, w, h - half));
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

/// Chips by row and column of the last two axes; planes of a third axis beside each other.
fn map(data: &Data, pen: &mut Pen<'_>) {
    let axes = &data.profile.meta.topology;
    let mut inner = pen.boxed(&format!("chips {axes:?}: links by load"));
    let (rows, columns) = match axes[..] {
        [] => (1, 1),
        [n] => (1, n as usize),
        [.., a, b] => (a as usize, b as usize),
    };
    let chips: usize = axes.iter().map(|n| *n as usize).product::<usize>().max(1);
    let plane = (rows * columns).max(1);
    let step = 9;
    for chip in 0..chips.min(4096) {
        let (z, r, c) = (chip / plane, chip % plane / columns, chip % columns);
        let (x, y) = (1 + z * (columns * step + 3) + c * step, r * 2);
        inner.bold(x, y, &format!("[{chip:>2}]"));
        let most = |to: usize| {
            let between = |l: &&LinkInfo| {
                (l.from_chip as usize, l.to_chip as usize) == (chip, to)
                    || (l.to_chip as usize, l.from_chip as usize) == (chip, to)
            };
            data.profile
                .meta
                .links
                .iter()
                .filter(between)
                .map(|l| load(data, l))
                .fold(None, |m: Option<f64>, v| Some(m.map_or(v, |m| m.max(v))))
        };
        if c + 1 < columns
            && let Some(v) = most(chip + 1)
        {
            inner.paint(x + 4, y, "━━━━━", paint(v));
        }
        if r + 1 < rows
            && let Some(v) = most(chip + columns)
        {
            inner.paint(x + 1, y + 1, &format!("┃{:>3.0}", v * 100.0), paint(v));
        }
    }
}

fn table(app: &App, data: &Data, links: &[LinkInfo], pen: &mut Pen<'_>) {
    let mut inner = pen.boxed(&format!("{} links", links.len()));
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(links[*i].busy), *i));
    inner.bold(1, 0, &format!("{:<12} {:>4} {:>12} {:>12} {:>8}", "link", "axis", "bytes", "busy cycles", "busy"));
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
