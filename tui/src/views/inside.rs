//! Inside an operation: its work and waits, its kernels, their loops of tiles, its line of the source.

use crate::app::App;
use crate::data::Data;
use crate::pen::{Pen, cut, percent, wrap};
use crate::theme::Paint;
use std::collections::BTreeMap;
use systole_runtime::profile::roofline::point;
use systole_runtime::profile::{CAUSE_TABLE, OpRow};
use systole_runtime::report::text::{metric, time};

/// Members of a kernel that are listed.
const MEMBERS: usize = 12;
/// Spans of an operation that are looked through for its kernels.
const SPANS: usize = 10_000;

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let Some(d) = data.device(app.device) else { return };
    let Some((row, o)) = app.drill.and_then(|i| d.ops.get(i).map(|o| (i, o))) else { return };
    let p = &data.profile;
    let mut inner = pen.boxed(&format!("{} (Esc: back)", p.row_name(o)));
    let mut y = 0;
    // Lines that are too long go on below, further in.
    let mut line = |text: &str, paint: Paint| {
        let width = inner.width().saturating_sub(2).max(10);
        if text.chars().count() <= width {
            inner.paint(1, y, text, paint);
            y += 1;
            return;
        }
        for (i, part) in wrap(text, width.saturating_sub(4)).iter().enumerate() {
            inner.paint(if i == 0 { 1 } else { 5 }, y, part, paint);
            y += 1;
        }
    };
    let file = p.setup().program.rsplit('/').next().unwrap_or("");
    if let Some(info) = p.row_op(o) {
        line(&format!("{}, {}, line {} of {}", info.opcode, p.row_category(o).name(), info.line, file), Paint::Text);
        line(&cut(p.line(info).unwrap_or(""), 400), Paint::Accent);
        if let Some(o) = &info.origin {
            line(&format!("from {}  {}", o.place(), o.name), Paint::Text);
        }
        if !info.members.is_empty() {
            line(&format!("its kernel computes {} more operations:", info.members.len()), Paint::Text);
        }
        for m in info.members.iter().take(MEMBERS) {
            let place = m.origin.as_ref().map_or(String::new(), |o| format!("  {}", o.place()));
            line(&format!("  {} ({}), line {}{place}", m.name, m.opcode, m.line), Paint::Dim);
        }
        if info.members.len() > MEMBERS {
            line(&format!("  and {} more", info.members.len() - MEMBERS), Paint::Dim);
        }
    }
    line(
        &format!(
            "{} cycles ({}), {} of the run, executed {} times, first at cycle {}",
            o.cycles,
            time(p.seconds(o.cycles)),
            percent(o.cycles as f64, d.counts.cycles as f64),
            o.times,
            o.start
        ),
        Paint::Text,
    );
    line(
        &format!(
            "{}flop, HBM {}B read, {}B written, {} rows through matrix units; bound by {}",
            metric(o.flops),
            metric(o.hbm_read as f64),
            metric(o.hbm_write as f64),
            o.mxu_rows,
            o.bound
        ),
        Paint::Text,
    );
    if let Some(q) = point(p, row, o) {
        let intensity = match q.intensity.is_finite() {
            true => format!("{:.1} flop/byte", q.intensity),
            false => "no HBM traffic".to_string(),
        };
        let text = format!(
            "{intensity}, {}flop/s: {} of its roof",
            metric(q.rate * p.meta.chip.clock_hz),
            percent(q.rate, q.roof)
        );
        line(&text, Paint::Text);
    }
    line("", Paint::Text);
    line(&format!("issued {}", percent(o.cycles.saturating_sub(o.stalled()) as f64, o.cycles as f64)), Paint::Useful);
    let mut stalls: Vec<(usize, u64)> = o.stall.iter().copied().enumerate().filter(|s| s.1 > 0).collect();
    stalls.sort_by_key(|s| std::cmp::Reverse(s.1));
    for (c, n) in stalls {
        let text =
            format!("waited {:>8}  {}: {}", percent(n as f64, o.cycles as f64), CAUSE_TABLE[c].1, CAUSE_TABLE[c].2);
        line(&text, Paint::Stalled);
    }
    line("", Paint::Text);
    for text in kernels(app, data, o) {
        line(&text, Paint::Text);
    }
}

/// The kernels that ran in the operation's spans, with their loops.
fn kernels(app: &App, data: &Data, o: &OpRow) -> Vec<String> {
    let Some(t) = data.trace(app.device) else { return Vec::new() };
    let mut calls: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let own = t.ops.iter().filter(|s| Some(s.id) == o.op).take(SPANS);
    for s in own {
        let first = t.kernels.first_after(s.start);
        for k in (first..t.kernels.len()).filter_map(|i| t.kernels.get(i)).take_while(|k| k.start < s.end) {
            let e = calls.entry(k.id).or_default();
            e.0 += 1;
            e.1 += k.end.min(s.end) - k.start.max(s.start);
        }
    }
    let mut out = Vec::new();
    if calls.is_empty() {
        out.push("no kernel: code of the main program, or a profile of level `ops`".to_string());
    }
    for (id, (n, cycles)) in calls {
        let Some(k) = data.profile.meta.kernels.get(id as usize) else { continue };
        let last = k.start + k.bundles.saturating_sub(1);
        out.push(format!("kernel {}: {n} calls, {cycles} cycles, bundles {}..{last}", k.name, k.start));
        let executions = |b: u32| t.issues.of(b as usize).0.unwrap_or(0);
        for (first, last) in data.code.loops_of(k) {
            let issued: u64 = (first..=last).map(executions).sum();
            let waited: u64 = (first..=last).map(|b| t.issues.of(b as usize).1.unwrap_or(0)).sum();
            let rounds = executions(last).max(1);
            out.push(format!(
                "  loop {first}..{last}: {} iterations, {:.1} cycles each, {:.1} of them waiting",
                executions(last),
                (issued + waited) as f64 / rounds as f64,
                waited as f64 / rounds as f64
            ));
        }
    }
    out
}
