//! Energy and area on the page of HTML: where joules go and what for, the least that the intensity allows, and the blocks of
//! the chip.

use super::plot::{self, LEFT, WIDTH, decades, escape};
use crate::cost::{Prices, energy, joules};
use crate::profile::{DeviceMeta, Profile};
use crate::report::mix;
use crate::report::text::metric;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { let _ = write!($out, $($arg)*); };
}

/// The section.
pub fn section(p: &Profile, out: &mut String) {
    let (e, a) = (&p.meta.report.energy, &p.meta.report.area);
    put!(out, "<section><h2>Energy and area</h2>\n<dl>");
    let spread = format!("{} to {}", joules(e.joules_spread.low), joules(e.joules_spread.high));
    let mut facts = vec![
        ("energy of all devices", joules(e.joules)),
        ("5 to 95 % of the draws", spread),
        ("average power of a chip", format!("{:.0} W", e.power_w)),
        ("in its hottest operation", format!("{:.0} W", e.peak_power_w)),
        ("idle", format!("{:.0} W", e.idle_power_w)),
        ("at the system's plug", format!("{:.0} W", e.system_power_w)),
    ];
    facts.extend(e.flop.pj_per_flop.map(|pj| ("energy of a flop", format!("{pj:.2} pJ"))));
    facts.extend(e.flop.floor_pj_per_flop.map(|pj| ("the least at its intensity", format!("{pj:.2} pJ"))));
    facts.push(("area of a chip", format!("{:.0} mm² ({:.0} to {:.0})", a.mm2, a.mm2_spread.low, a.mm2_spread.high)));
    for (k, v) in facts {
        put!(out, "<div><dt>{k}</dt><dd>{}</dd></div>", escape(&v));
    }
    put!(out, "</dl>\n");
    for b in &a.broken {
        put!(out, "<p class=\"bound\">Cannot be built: {}</p>\n", escape(b));
    }
    table(out, "Energy by unit", &e.units, joules);
    table(out, "Energy by cause", &e.purposes, joules);
    table(out, "Area by block", &a.blocks, |mm2| format!("{mm2:.1} mm²"));
    if let Some(d) = p.meta.devices.first().filter(|d| d.ops.iter().any(|o| o.flops > 0.0)) {
        put!(out, "<h3>Energy of a flop over intensity</h3>\n<div class=\"whole\">{}</div>\n", roofline(p, d));
    }
    put!(out, "</section>\n");
}

/// Parts of a whole as bars, the largest first.
fn table(out: &mut String, title: &str, parts: &BTreeMap<Cow<'static, str>, f64>, value: impl Fn(f64) -> String) {
    let total: f64 = parts.values().sum();
    let mut rows: Vec<(&str, f64)> = parts.iter().map(|(n, v)| (&**n, *v)).filter(|r| r.1 > 0.0).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    put!(out, "<h3>{title}</h3>\n<table class=\"parts\"><tbody>\n");
    for (name, v) in rows {
        let share = 100.0 * v / total.max(1e-300);
        put!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{share:.1} %</td>\
             <td class=\"bar\"><i style=\"width:{share:.1}%\"></i></td></tr>\n",
            escape(name),
            escape(&value(v))
        );
    }
    put!(out, "</tbody></table>\n");
}

/// The least energy of a flop at every intensity, and the operations with flops above it: idle power of their time included.
fn roofline(p: &Profile, d: &DeviceMeta) -> String {
    let (height, top, bottom) = (360.0, 20.0, 320.0);
    let chip = &p.meta.chip;
    let prices = Prices::of(chip);
    let mix = mix(&p.meta.report.peaks);
    let idle = p.meta.report.energy.idle_power_w / f64::from(chip.devices_per_chip().max(1));
    let points: Vec<(usize, f64, f64)> = d
        .ops
        .iter()
        .enumerate()
        .filter(|(_, o)| o.flops > 0.0 && o.cycles > 0)
        .map(|(i, o)| {
            let pj = (o.joules + idle * chip.seconds(o.cycles)) * 1e12 / o.flops;
            (i, o.flops / (o.bytes() as f64).max(1.0), pj)
        })
        .collect();
    let low = points.iter().map(|q| q.1).fold(0.1, f64::min).max(1e-6);
    let high = points.iter().map(|q| q.1).fold(1e4, f64::max).min(low * 1e9);
    let floor = |i: f64| energy::floor(chip, i, &mix, &prices);
    let least = floor(high) * 0.7;
    let worst = points.iter().map(|q| q.2).fold(floor(low), f64::max) * 1.3;
    let x = |v: f64| LEFT + (WIDTH - LEFT - 10.0) * (v.clamp(low, high) / low).ln() / (high / low).ln();
    let y = |v: f64| bottom - (bottom - top) * (v.clamp(least, worst) / least).ln() / (worst / least).ln();
    let mut out = plot::open(height, "energy of a flop over intensity");
    for v in decades(low, high) {
        plot::grid(&mut out, [x(v), top, x(v), bottom]);
        plot::text(&mut out, x(v), bottom + 16.0, "middle", &plot::power(v));
    }
    for v in decades(least, worst) {
        plot::grid(&mut out, [LEFT, y(v), WIDTH, y(v)]);
        plot::text(&mut out, LEFT - 6.0, y(v) + 4.0, "end", &plot::power(v));
    }
    const STEPS: u32 = 60;
    let curve: Vec<String> = (0..=STEPS)
        .map(|i| low * (high / low).powf(f64::from(i) / f64::from(STEPS)))
        .map(|i| format!("{:.1},{:.1}", x(i), y(floor(i))))
        .collect();
    put!(out, "<polyline class=\"roof\" fill=\"none\" points=\"{}\"/>\n", curve.join(" "));
    let longest = points.iter().map(|q| d.ops[q.0].cycles).max().unwrap_or(1).max(1) as f64;
    for &(row, intensity, pj) in points.iter().take(400) {
        let o = &d.ops[row];
        let title =
            format!("{}: {pj:.2} pJ/flop at {}flop/byte, {}", p.row_name(o), metric(intensity), joules(o.joules));
        put!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\" fill=\"{}\" fill-opacity=\"0.7\"><title>{}</title></circle>\n",
            x(intensity),
            y(pj),
            3.0 + 9.0 * (o.cycles as f64 / longest).sqrt(),
            plot::color(p.row_category(o) as u32),
            escape(&title)
        );
    }
    plot::text(&mut out, WIDTH - 8.0, height - 6.0, "end", "flop per byte of HBM");
    plot::text(&mut out, 4.0, 14.0, "start", "pJ/flop");
    out + "</svg>\n"
}
