//! Pictures as SVG text, from a profile.

use crate::profile::memory::{Level, occupancy, size};
use crate::profile::roofline::{peak, points, roofs};
use crate::profile::{DeviceMeta, Lane, LaneKind, Memory, Profile};
use crate::report::text::metric;
use std::fmt::Write;
use systole_simulator::CAUSE_TABLE;

/// Width of all pictures in their own units; they scale with the page.
pub const WIDTH: f64 = 1000.0;
/// Room for names on the left.
pub(super) const LEFT: f64 = 90.0;
/// Columns of a timeline.
const COLUMNS: u64 = 300;

/// Colours that stay apart in print and for most eyes.
pub const PALETTE: &[&str] =
    &["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#004488", "#bb5566", "#44aa99"];
/// Colours of causes, by number.
pub const CAUSES: [&str; systole_simulator::CAUSES] = [
    "#bbbbbb", "#4477aa", "#aa3377", "#ee7733", "#cc3311", "#ccbb44", "#228833", "#66ccee", "#999933", "#882255",
    "#ddaa88", "#ee99aa",
];

/// Colours of useful and of other busy cycles.
pub const USEFUL: &str = "#117733";
pub const BUSY: &str = "#88ccaa";

/// Text as it stands in markup.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

pub fn color(id: u32) -> &'static str {
    PALETTE[id as usize % PALETTE.len()]
}

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { let _ = write!($out, $($arg)*); };
}

pub(super) fn open(height: f64, label: &str) -> String {
    let label = escape(label);
    format!(
        "<svg class=\"systole\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    )
}

pub(super) fn text(out: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    put!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(what));
}

/// How pictures look, in style sheets of pages that hold them.
pub(super) const STYLE: &str = include_str!("picture.css");

/// A picture that stands alone, or in a page of others: it brings its own style.
pub fn alone(picture: &str) -> String {
    match picture.split_once('\n') {
        Some((head, rest)) => format!("{head}\n<style>\n{STYLE}</style>\n{rest}"),
        None => picture.to_string(),
    }
}

/// The fill of time in which nothing happens: the page's style may give it a colour that fits its background.
pub const IDLE: &str = "var(--idle, #dddddd)";

fn rect(out: &mut String, at: [f64; 4], fill: &str, opacity: f64, title: &str) {
    let [x, y, w, h] = at;
    put!(out, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" style=\"fill:{fill}\"");
    if opacity < 1.0 {
        put!(out, " fill-opacity=\"{opacity:.2}\"");
    }
    put!(out, "><title>{}</title></rect>\n", escape(title));
}

/// Lanes of a device over the whole run.
pub fn timeline(p: &Profile, device: usize) -> String {
    let lanes: Vec<Lane> = Lane::all(p).into_iter().filter(|l| l.device == device).collect();
    let cycles = p.meta.devices.get(device).map_or(0, |d| d.counts.cycles).max(1);
    let (row, gap) = (22.0, 3.0);
    let height = lanes.len() as f64 * (row + gap) + 24.0;
    let mut out = open(height, "timeline");
    let scale = (WIDTH - LEFT) / cycles as f64;
    for (i, lane) in lanes.iter().enumerate() {
        let y = i as f64 * (row + gap);
        text(&mut out, LEFT - 6.0, y + 15.0, "end", &lane.name);
        let mut open_run: Option<(u64, u64, u32, u64)> = None;
        let mut runs = Vec::new();
        for c in 0..COLUMNS {
            let from = (cycles as u128 * c as u128 / COLUMNS as u128) as u64;
            let to = (cycles as u128 * (c + 1) as u128 / COLUMNS as u128) as u64;
            let cover = lane.cover(p, from, to).filter(|v| v.busy > 0);
            let joins = matches!(lane.kind, LaneKind::Ops | LaneKind::Kernels | LaneKind::Regions(_));
            match (&mut open_run, cover) {
                (Some(r), Some(v)) if joins && r.2 == v.id => (r.1, r.3) = (to, r.3 + v.busy),
                (r, v) => {
                    runs.extend(r.take());
                    *r = v.map(|v| (from, to, v.id, v.busy));
                }
            }
        }
        runs.extend(open_run);
        for (from, to, id, busy) in runs {
            let share = busy as f64 / to.saturating_sub(from).max(1) as f64;
            let title = format!("{}: cycles {from} to {to}, {:.0} % busy", lane.label(p, id), share * 100.0);
            let at = [LEFT + from as f64 * scale, y, (to - from) as f64 * scale, row];
            let heat = matches!(lane.kind, LaneKind::Unit(_) | LaneKind::Link(_));
            let (fill, opacity) = match lane.kind {
                LaneKind::Waits => (CAUSES[(id & 15) as usize % CAUSES.len()], 1.0),
                LaneKind::Engine | LaneKind::Runs => ("#44aa99", 0.2 + 0.8 * share),
                LaneKind::Unit(_) => (BUSY, 0.25 + 0.75 * share),
                _ if heat => ("#228833", share),
                LaneKind::Ops | LaneKind::Kernels | LaneKind::Regions(_) | LaneKind::Link(_) => {
                    (color(id), 0.25 + 0.75 * share)
                }
            };
            rect(&mut out, at, fill, opacity.clamp(0.05, 1.0), &title);
            if let LaneKind::Unit(u) = lane.kind {
                // The useful part of what is busy, from the bottom.
                let part = p.useful_part(device, u, from, to);
                let inside = [at[0], y + row * (1.0 - part * share), at[2], row * part * share];
                rect(&mut out, inside, USEFUL, 1.0, &format!("{title}, {:.0} % of that useful", part * 100.0));
            }
        }
    }
    axis(&mut out, height - 6.0, cycles);
    out + "</svg>\n"
}

/// Round numbers from 0 to `last`: at most six, none twice.
pub fn ticks(last: u64) -> Vec<u64> {
    let mut step = 1u64;
    while last / step > 5 {
        step = match step.to_string().as_bytes()[0] {
            b'1' => step * 2,
            b'2' => step / 2 * 5,
            _ => step.saturating_mul(2),
        };
    }
    (0..=last / step).map(|i| i * step).collect()
}

/// Cycles along the lower edge; the last says the unit.
fn axis(out: &mut String, y: f64, cycles: u64) {
    for t in ticks(cycles) {
        let x = LEFT + (WIDTH - LEFT) * t as f64 / cycles.max(1) as f64;
        // The end of the axis has the unit.
        if x < WIDTH - 110.0 {
            text(out, x, y, if t == 0 { "start" } else { "middle" }, &power(t as f64));
        }
    }
    text(out, WIDTH, y, "end", &format!("{cycles} cycles"));
}

/// Powers of ten in a range; every second or third where they are many.
pub(super) fn decades(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.max(1e-300).log10().ceil() as i32, high.max(1e-300).log10().floor() as i32);
    let step = ((to - from) / 8 + 1).max(1);
    (from..=to).filter(|e| (e - from) % step == 0).map(|e| 10f64.powi(e)).collect()
}

/// Operations as points under the roofs, in logarithms.
pub fn roofline(p: &Profile, d: &DeviceMeta) -> String {
    let (height, bottom) = (428.0, 380.0);
    let mut out = open(height, "roofline");
    let points = points(p, d);
    let top = peak(p).max(1.0);
    let finite = || points.iter().map(|x| x.intensity).filter(|i| i.is_finite());
    let low = finite().fold(0.1, f64::min).max(1e-6);
    let high = finite().fold(1e4, f64::max).clamp(low * 10.0, low * 1e9);
    let least = points.iter().map(|x| x.rate).fold(top * 1e-4, f64::min).max(top * 1e-8);
    let x = |v: f64| LEFT + (WIDTH - LEFT - 10.0) * (v.clamp(low, high) / low).ln() / (high / low).ln();
    let y =
        |v: f64| bottom - (bottom - 20.0) * ((v.max(least) / least).ln() / (top * 2.0 / least).ln()).clamp(0.0, 1.0);
    put!(out, "<line class=\"roof\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{WIDTH}\" y2=\"{:.1}\"/>\n", x(low), y(top), y(top));
    let rate = top * p.meta.chip.clock_hz;
    text(&mut out, WIDTH - 8.0, y(top) - 5.0, "end", &format!("peak {}flop/s", metric(rate)));
    for (i, r) in roofs(p, d).into_iter().enumerate() {
        let knee = (top / r.bytes).clamp(low, high);
        put!(
            out,
            "<line class=\"roof\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\n",
            x(low),
            y(low * r.bytes),
            x(knee),
            y(knee * r.bytes)
        );
        let label = format!("{} {}B/s", r.name, metric(r.bytes * p.meta.chip.clock_hz));
        // Below where the roof begins: it rises.
        let at = (y(low * r.bytes) + 16.0 + 2.0 * i as f64).min(bottom - 6.0);
        text(&mut out, LEFT + 10.0, at, "start", &label);
    }
    let most = points.iter().map(|q| q.cycles).max().unwrap_or(1).max(1) as f64;
    for q in points.iter().take(400) {
        let row = &d.ops[q.row];
        let size = 3.0 + 9.0 * (q.cycles as f64 / most).sqrt();
        let title = format!(
            "{}: {} cycles, {}, {:.1} % of its roof",
            p.row_name(row),
            row.cycles,
            if q.intensity.is_finite() { format!("{:.1} flop/byte", q.intensity) } else { "no HBM traffic".into() },
            100.0 * q.rate / q.roof.max(1e-9)
        );
        let fill = color(p.row_category(row) as u32);
        put!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{size:.1}\" fill=\"{fill}\" fill-opacity=\"0.7\"><title>{}</title></circle>\n",
            x(q.intensity),
            y(q.rate),
            escape(&title)
        );
    }
    for v in decades(low, high) {
        grid(&mut out, [x(v), 20.0, x(v), bottom]);
        // At the right edge a number ends where the picture does.
        let (at, anchor) = if x(v) > WIDTH - 20.0 { (WIDTH, "end") } else { (x(v), "middle") };
        text(&mut out, at, bottom + 16.0, anchor, &power(v));
    }
    let rate = |v: f64| v * p.meta.chip.clock_hz;
    for v in decades(rate(least), rate(top * 2.0)) {
        let at = y(v / p.meta.chip.clock_hz);
        grid(&mut out, [LEFT, at, WIDTH, at]);
        text(&mut out, LEFT - 6.0, at + 4.0, "end", &power(v));
    }
    text(&mut out, WIDTH - 8.0, height - 6.0, "end", "flop per byte of HBM");
    text(&mut out, 4.0, 17.0, "start", "flop/s");
    out + "</svg>\n"
}

/// A line behind a picture's points.
pub(super) fn grid(out: &mut String, at: [f64; 4]) {
    let [x1, y1, x2, y2] = at;
    put!(out, "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n");
}

/// A round number as a tick says it.
pub(super) fn power(v: f64) -> String {
    match v {
        v if v >= 1000.0 => metric(v).trim_end().trim_end_matches(".00").replace(".00 ", " "),
        v if v >= 1.0 => format!("{v:.0}"),
        v => format!("{v}"),
    }
}

/// Bytes in use over time.
pub fn memory(p: &Profile, m: Memory) -> String {
    let (height, bottom) = (180.0, 150.0);
    let levels: Vec<Level> = occupancy(p, m);
    let cycles = p.meta.cycles.max(1);
    let peak = levels.iter().map(|l| l.bytes).max().unwrap_or(0);
    let mut out = open(height, m.name());
    let x = |c: u64| LEFT + (WIDTH - LEFT) * c.min(cycles) as f64 / cycles as f64;
    let y = |b: u64| bottom - (bottom - 20.0) * b as f64 / peak.max(1) as f64;
    let mut path = format!("M{:.1} {bottom}", x(0));
    for (i, l) in levels.iter().enumerate() {
        let until = levels.get(i + 1).map_or(cycles, |n| n.cycle);
        put!(path, "L{:.2} {:.2}L{:.2} {:.2}", x(l.cycle), y(l.bytes), x(until), y(l.bytes));
    }
    put!(path, "L{WIDTH} {bottom}Z");
    put!(out, "<path d=\"{path}\" fill=\"#4477aa\" fill-opacity=\"0.6\"><title>{} in use</title></path>\n", m.name());
    let share = 100.0 * peak as f64 / size(p, m).max(1) as f64;
    text(&mut out, LEFT, 14.0, "start", &format!("{}: at most {}B, {share:.1} % of it", m.name(), metric(peak as f64)));
    axis(&mut out, height - 8.0, cycles);
    out + "</svg>\n"
}

/// A bar for each unit: busy, stalls by cause, idle.
pub fn units(d: &DeviceMeta) -> String {
    let (row, gap) = (22.0, 4.0);
    let height = d.units.len() as f64 * (row + gap) + 4.0;
    let mut out = open(height, "units");
    let scale = (WIDTH - LEFT) / d.counts.cycles.max(1) as f64;
    for (i, u) in d.units.iter().enumerate() {
        let y = i as f64 * (row + gap);
        text(&mut out, LEFT - 6.0, y + 15.0, "end", &u.unit);
        let mut x = LEFT;
        let mut part = |cycles: f64, fill: &str, opacity: f64, what: &str| {
            if cycles > 0.0 {
                let title = format!("{}: {what} {:.1} %", u.unit, 100.0 * cycles / d.counts.cycles.max(1) as f64);
                rect(&mut out, [x, y, cycles * scale, row], fill, opacity, &title);
                x += cycles * scale;
            }
        };
        part(u.useful, USEFUL, 1.0, "useful");
        part(u.busy as f64 - u.useful, BUSY, 1.0, "busy, not useful");
        for (c, cause) in CAUSE_TABLE.iter().enumerate().skip(1) {
            part(u.stall[c] as f64, CAUSES[c], 1.0, &format!("stalled by {}", cause.1));
        }
        part(u.idle as f64, IDLE, 1.0, "idle");
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_alone_have_the_style_of_what_they_draw() {
        let mut drawn = open(10.0, "lines");
        grid(&mut drawn, [0.0; 4]);
        let picture = alone(&(drawn + "</svg>\n"));
        let style = picture.split_once("<style>").and_then(|s| s.1.split_once("</style>")).expect("a style").0;
        for rule in [".systole .grid {", ".systole .roof {", ".systole text {"] {
            assert!(style.contains(rule), "{rule}: {style}");
        }
        assert!(picture.starts_with("<svg class=\"systole\" ") && picture.contains("class=\"grid\""), "{picture}");
    }

    #[test]
    fn ticks_are_round_few_and_distinct() {
        for (last, expected) in [
            (0, &[0][..]),
            (1, &[0, 1]),
            (3, &[0, 1, 2, 3]),
            (7, &[0, 2, 4, 6]),
            (100, &[0, 20, 40, 60, 80, 100]),
            (1999, &[0, 500, 1000, 1500]),
        ] {
            assert_eq!(ticks(last), expected, "{last}");
        }
        for last in [u64::MAX, 1 << 40, 12345678] {
            let t = ticks(last);
            assert!(t.len() <= 6 && t.windows(2).all(|w| w[0] < w[1]), "{last}: {t:?}");
        }
        assert_eq!(decades(0.05, 2000.0), [0.1, 1.0, 10.0, 100.0, 1000.0]);
    }
}
