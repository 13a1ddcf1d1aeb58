//! A run as one page of HTML that needs nothing else: pictures are inline, no address is asked for.

use super::plot::{self, escape};
use crate::cost::joules;
use crate::profile::memory::of_arrays;
use crate::profile::table::{by_cycles, categories, peaks};
use crate::profile::{DeviceMeta, OpInfo, Profile, scope};
use crate::report::glossary;
use crate::report::text::{metric, path, peak, time, whose};
use std::fmt::Write;
use systole_simulator::CAUSE_TABLE;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// Operations in the table.
const ROWS: usize = 500;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { let _ = write!($out, $($arg)*); };
}

/// The page.
pub fn page(p: &Profile) -> String {
    let m = &p.meta;
    let title = escape(&p.setup().title());
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n",
        plot::STYLE
    );
    put!(out, "<h1>{title}</h1>\n<p class=\"setup\">{}</p>\n", escape(&p.setup().line()));
    summary(p, &mut out);
    for (i, d) in m.devices.iter().enumerate() {
        if m.devices.len() > 1 {
            put!(out, "<h2>Device {i}: chip {}, core {}</h2>\n", d.counts.chip, d.counts.core);
        }
        put!(out, "<section><h3>Units</h3>\n<div class=\"whole\">{}</div>{}</section>\n", plot::units(d), legend(d));
        put!(out, "<section><h3>Timeline</h3>\n<div class=\"wide\">{}</div></section>\n", plot::timeline(p, i));
        put!(out, "<section><h3>Roofline</h3>\n<div class=\"whole\">{}</div></section>\n", plot::roofline(p, d));
        operations(p, d, &mut out);
        groups(p, d, &mut out);
        scopes(p, d, &mut out);
        stalls(d, &mut out);
    }
    put!(out, "<section><h2>Memory over time</h2>\n");
    for memory in of_arrays(p) {
        put!(out, "<div class=\"whole\">{}</div>\n", plot::memory(p, memory));
    }
    buffers(p, &mut out);
    put!(out, "</section>\n");
    links(p, &mut out);
    super::energy::section(p, &mut out);
    words(p, &mut out);
    put!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

fn summary(p: &Profile, out: &mut String) {
    let (m, r) = (&p.meta, &p.meta.report);
    let whose = whose(r);
    let all = if whose.is_empty() { "energy" } else { "energy of all devices" };
    let facts = [
        ("time", time(p.seconds(m.cycles))),
        ("cycles", m.cycles.to_string()),
        ("useful work", format!("{}flop{whose}", metric(r.flops))),
        ("share of the peak", peak(r)),
        ("HBM read", format!("{}B{whose}", metric(r.hbm.read_bytes as f64))),
        ("HBM written", format!("{}B{whose}", metric(r.hbm.write_bytes as f64))),
        (all, joules(r.energy.joules)),
        ("power of a chip", format!("{:.0} W", r.energy.power_w)),
    ];
    put!(
        out,
        "<p class=\"bound\">Bound by <strong>{}</strong>: {}; {}.</p>\n<dl>",
        escape(&r.bound),
        escape(&r.bound_words),
        escape(&path(r))
    );
    for (k, v) in facts {
        put!(out, "<div><dt>{k}</dt><dd>{}</dd></div>", escape(&v));
    }
    put!(out, "</dl>\n");
    let changed = &r.setup.chip.origin.overrides;
    if !changed.is_empty() {
        put!(out, "<p>Changed parameters of the chip:</p><ul>");
        for o in changed {
            put!(out, "<li><code>{}</code>: {} instead of {}</li>", escape(&o.key), escape(&o.value), escape(&o.was));
        }
        put!(out, "</ul>\n");
    }
}

/// The words of the page.
fn words(p: &Profile, out: &mut String) {
    put!(out, "<section><details><summary>What the words mean</summary><dl class=\"words\">");
    for (word, meaning) in glossary::of(&p.report()) {
        put!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(&word), escape(&meaning));
    }
    put!(out, "</dl></details></section>\n");
}

/// Operations by the scopes of the user's program, where the module tells them.
fn scopes(p: &Profile, d: &DeviceMeta, out: &mut String) {
    let all = scope::tree(p, d);
    if all.iter().all(|s| s.path.len() == 1 && s.path[0].starts_with('(')) {
        return;
    }
    put!(
        out,
        "<section><h3>Scopes</h3>\n<div class=\"wide\"><table><thead><tr><th>scope</th><th class=\"n\">operations</th>\
         <th class=\"n\">cycles</th><th class=\"n\">share %</th><th class=\"n\">flop</th></tr></thead><tbody>\n"
    );
    for s in all.iter().take(ROWS) {
        put!(
            out,
            "<tr><td style=\"padding-left:{}em\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{:.1}</td><td class=\"n\">{}</td></tr>\n",
            s.path.len(),
            escape(s.path.last().map_or("", |n| n)),
            s.ops,
            s.cycles,
            100.0 * s.cycles as f64 / d.counts.cycles.max(1) as f64,
            s.flops
        );
    }
    put!(out, "</tbody></table></div></section>\n");
}

/// Colours and what they mean, of the causes that occur.
fn legend(d: &DeviceMeta) -> String {
    let mut out = String::from("<p class=\"legend\">");
    let mut item = |fill: &str, what: &str| {
        put!(out, "<span><i style=\"background:{fill}\"></i>{what}</span> ");
    };
    item(plot::USEFUL, "useful");
    item(plot::BUSY, "busy");
    for (c, cause) in CAUSE_TABLE.iter().enumerate().skip(1) {
        if d.units.iter().any(|u| u.stall[c] > 0) {
            item(plot::CAUSES[c], &format!("waits: {}", cause.1));
        }
    }
    item(plot::IDLE, "idle");
    out + "</p>\n"
}

/// What else a kernel computes, to be opened.
fn members(info: &OpInfo) -> String {
    if info.members.is_empty() {
        return String::new();
    }
    let mut out = format!("<details><summary>and {} more</summary>", info.members.len());
    for m in &info.members {
        let place = m.origin.as_ref().map_or(String::new(), |o| o.place());
        let line = if m.line > 0 { format!(", line {}", m.line) } else { String::new() };
        put!(out, "<div>{} ({}{line}) {}</div>", escape(&m.name), escape(&m.opcode), escape(&place));
    }
    out + "</details>"
}

fn operations(p: &Profile, d: &DeviceMeta, out: &mut String) {
    put!(
        out,
        "<section><h3>Operations</h3>\n<p><input class=\"filter\" type=\"search\" placeholder=\"filter\" \
         aria-label=\"filter operations\"></p>\n<div class=\"wide\"><table class=\"ops sortable\"><thead><tr>\
         <th>operation</th><th>opcode</th><th class=\"n\">times</th><th class=\"n\">cycles</th><th class=\"n\">share %</th>\
         <th class=\"n\">flop</th><th class=\"n\">HBM bytes</th><th class=\"n\">uJ</th><th class=\"n\">stalled %</th><th>bound</th>\
         <th class=\"n\">line</th><th>source</th></tr></thead>\n<tbody>\n"
    );
    let rows = by_cycles(d);
    for o in rows.iter().take(ROWS) {
        let info = p.row_op(o);
        let source = info.and_then(|i| p.line(i)).unwrap_or("");
        put!(
            out,
            "<tr title=\"{}\"><td>{}{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.2}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.3}</td><td class=\"n\">{:.1}</td><td>{}</td>\
             <td class=\"n\">{}</td><td>{}</td></tr>\n",
            escape(&source.chars().take(300).collect::<String>()),
            escape(p.row_name(o)),
            info.map_or(String::new(), members),
            escape(info.map_or("", |i| &i.opcode)),
            o.times,
            o.cycles,
            100.0 * o.cycles as f64 / d.counts.cycles.max(1) as f64,
            o.flops,
            o.bytes(),
            o.joules * 1e6,
            100.0 * o.stalled() as f64 / o.cycles.max(1) as f64,
            escape(&o.bound),
            info.map_or(0, |i| i.line),
            escape(&info.and_then(|i| i.origin.as_ref()).map_or(String::new(), |o| o.place()))
        );
    }
    let sum: u64 = d.ops.iter().map(|o| o.cycles).sum();
    put!(
        out,
        "</tbody><tfoot><tr><td colspan=\"3\">sum of {} operations</td><td class=\"n\">{sum}</td></tr></tfoot></table></div>\n",
        rows.len()
    );
    if rows.len() > ROWS {
        put!(out, "<p>The {ROWS} longest are shown.</p>");
    }
    put!(out, "</section>\n");
}

fn groups(p: &Profile, d: &DeviceMeta, out: &mut String) {
    put!(
        out,
        "<section><h3>Categories</h3>\n<div class=\"wide\"><table><thead><tr><th>category</th><th class=\"n\">operations</th><th class=\"n\">cycles</th><th class=\"n\">share %</th></tr></thead><tbody>\n"
    );
    for (c, cycles, n) in categories(p, d) {
        let share = 100.0 * cycles as f64 / d.counts.cycles.max(1) as f64;
        put!(
            out,
            "<tr><td>{}</td><td class=\"n\">{n}</td><td class=\"n\">{cycles}</td><td class=\"n\">{share:.1}</td></tr>\n",
            c.name()
        );
    }
    put!(out, "</tbody></table></div></section>\n");
}

fn stalls(d: &DeviceMeta, out: &mut String) {
    put!(
        out,
        "<section><h3>Stalls: cause by unit, % of the time</h3>\n<div class=\"wide\"><table><thead><tr><th>cause</th>"
    );
    for u in &d.units {
        put!(out, "<th class=\"n\">{}</th>", escape(&u.unit));
    }
    put!(out, "<th>meaning</th></tr></thead><tbody>\n");
    for (c, cause) in CAUSE_TABLE.iter().enumerate().skip(1) {
        if d.units.iter().all(|u| u.stall[c] == 0) {
            continue;
        }
        put!(out, "<tr><th scope=\"row\">{}</th>", cause.1);
        for u in &d.units {
            let share = 100.0 * u.stall[c] as f64 / d.counts.cycles.max(1) as f64;
            let heat = (share / 60.0).min(0.8);
            put!(out, "<td class=\"n\" style=\"background:rgba(204,51,17,{heat:.2})\">{share:.1}</td>");
        }
        put!(out, "<td>{}</td></tr>\n", escape(cause.2));
    }
    put!(out, "</tbody></table></div></section>\n");
}

fn buffers(p: &Profile, out: &mut String) {
    for (m, peak, _) in peaks(p) {
        let live = crate::profile::memory::live(p, m, peak.cycle);
        put!(
            out,
            "<details><summary>{} at its peak, cycle {}: {} arrays</summary><table><thead><tr><th>array</th>\
             <th class=\"n\">bytes</th><th class=\"n\">from</th><th class=\"n\">to</th></tr></thead><tbody>\n",
            m.name(),
            peak.cycle,
            live.len()
        );
        for b in live.iter().take(40) {
            put!(
                out,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
                escape(&b.name),
                b.bytes,
                b.from,
                b.to
            );
        }
        put!(out, "</tbody></table></details>\n");
    }
}

fn links(p: &Profile, out: &mut String) {
    put!(out, "<section><h2>Links</h2>\n");
    if p.meta.links.is_empty() {
        put!(out, "<p>The run used one chip: no link carried data.</p></section>\n");
        return;
    }
    put!(
        out,
        "<table class=\"sortable\"><thead><tr><th class=\"n\">from</th><th class=\"n\">to</th><th class=\"n\">axis</th><th class=\"n\">bytes</th><th class=\"n\">busy %</th></tr></thead><tbody>\n"
    );
    for l in &p.meta.links {
        let share = 100.0 * l.busy as f64 / p.meta.cycles.max(1) as f64;
        put!(
            out,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{share:.1}</td></tr>\n",
            l.from_chip,
            l.to_chip,
            l.axis,
            l.bytes
        );
    }
    put!(out, "</tbody></table></section>\n");
}
