//! Program: bundles around the cursor, with slots, executions and waits.

use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, cut};
use crate::theme::Paint;
use systole_runtime::profile::NO_OP;

/// The slots of a bundle, a letter each.
const SLOTS: &str = "SVLWEXPQDB";

/// The bundle at the cursor: exact where bundles were recorded, else the beginning of the code that ran.
pub fn at_cursor(app: &App, data: &Data) -> u32 {
    let Some(t) = data.trace(app.device) else { return 0 };
    // Where a run in progress stands, the bundle is known at any level; the cursor is on the last cycle at most.
    if let Some(&(cycle, Some(bundle))) = data.places.get(app.device)
        && app.cursor == cycle.min(data.cycles() - 1)
    {
        return bundle;
    }
    if let Some((_, s)) = t.runs.at(app.cursor) {
        return s.id + (app.cursor - s.start) as u32;
    }
    if let Some((_, s)) = t.waits.at(app.cursor) {
        return s.id >> 4;
    }
    if let Some((_, s)) = t.kernels.at(app.cursor)
        && let Some(k) = data.profile.meta.kernels.get(s.id as usize)
    {
        return k.start;
    }
    t.ops.at(app.cursor).and_then(|(_, s)| data.code.first(s.id)).unwrap_or(0)
}

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    if data.code.is_empty() {
        let mut inner = pen.boxed("program");
        inner.paint(1, 0, "the profile holds no program that can be read", Paint::Dim);
        return;
    }
    let at = at_cursor(app, data) as usize;
    // Moving in the list moves away from the cursor.
    let middle = (at + app.selected()).min(data.code.len() - 1);
    let (w, h) = (pen.width(), pen.height());
    let below = (h / 3).clamp(5, 12).min(h);
    list(app, data, (at, middle), &mut pen.part(0, 0, w, h - below));
    bundle(app, data, middle, &mut pen.part(0, h - below, w, below));
}

fn list(app: &App, data: &Data, (at, middle): (usize, usize), pen: &mut Pen<'_>) {
    let p = &data.profile;
    let exact = data.trace(app.device).is_some_and(|t| !t.runs.is_empty());
    let word = if exact { "" } else { " (begin of the code that runs; --profile-level bundles is exact)" };
    let mut inner = pen.boxed(&format!("bundle {at} of {} at cycle {}{word}", data.code.len(), app.cursor));
    let names = inner.width().saturating_sub(70).clamp(10, 24);
    inner.bold(
        1,
        0,
        &format!(
            "{:>6} {:<10} {:>9} {:>9}  {:<names$} instructions",
            "bundle", "slots", "times", "waited", "operation"
        ),
    );
    let room = inner.height().saturating_sub(1);
    let first = middle.saturating_sub(room / 2).min(data.code.len().saturating_sub(room));
    let Some(t) = data.trace(app.device) else { return };
    for (y, b) in (first..data.code.len()).take(room).enumerate() {
        let y = y + 1;
        let slots = data.code.slots(b);
        let letters: String = SLOTS.chars().zip(slots).map(|(c, n)| if n > 0 { c } else { '·' }).collect();
        let (executions, waited) = t.issues.of(b);
        let count = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
        let op = data.code.op(b as u32);
        let name = if op == NO_OP { "" } else { p.op_name(op) };
        let kernel = p.meta.kernels.iter().find(|k| k.start as usize == b);
        let mut text = data.code.text(b);
        if let Some(k) = kernel {
            text = format!("{}: {text}", k.name);
        }
        let line = format!(
            "{b:>6} {letters:<10} {:>9} {:>9}  {:<names$} {text}",
            count(executions),
            count(waited),
            cut(name, names)
        );
        let never = executions == Some(0);
        let waits = waited.is_some_and(|n| n as f64 >= 0.01 * data.cycles() as f64);
        inner.paint(
            1,
            y,
            &line,
            if never {
                Paint::Dim
            } else if waits {
                Paint::Stalled
            } else {
                Paint::Text
            },
        );
        if b == middle {
            inner.choose(y);
        } else if b == at {
            inner.text(0, y, "▶", ratatui::style::Style::new());
        }
        let width = inner.width();
        inner.hit(0, y, width, 1, Hit::Row(b.saturating_sub(at)));
    }
}

/// One bundle: what its slots hold, the loop around it, the operation and its line of the source.
fn bundle(app: &App, data: &Data, b: usize, pen: &mut Pen<'_>) {
    let p = &data.profile;
    let mut inner = pen.boxed(&format!("bundle {b}"));
    let mut lines: Vec<(String, Paint)> = Vec::new();
    let op = data.code.op(b as u32);
    if let Some(o) = p.meta.ops.get(op as usize) {
        let source = p.line(o).map_or(String::new(), |l| format!(": {l}"));
        lines.push((format!("{} ({}, line {}){source}", o.name, o.opcode, o.line), Paint::Accent));
    }
    if let Some(place) = data.code.place(b as u32) {
        let part = if place.name.is_empty() { String::new() } else { format!(": {}", place.name) };
        lines.push((format!("{place}{part}"), Paint::Accent));
    }
    let around = data.code.loops.iter().rfind(|l| l.0 as usize <= b && b <= l.1 as usize);
    let t = data.trace(app.device);
    let (times, waited) = t.map_or((None, None), |t| t.issues.of(b));
    let (times, waited) = (times.unwrap_or(0), waited.unwrap_or(0));
    let mut text = format!("issued {times} times, waited {waited} cycles");
    if times > 0 {
        text += &format!(" ({:.1} each time)", waited as f64 / times as f64);
    }
    if let Some((first, last)) = around {
        text += &format!("; innermost loop: bundles {first}..{last}");
    }
    lines.push((text, Paint::Text));
    lines.extend(data.code.texts(b).into_iter().map(|i| (i, Paint::Text)));
    // The last line says what the letters mean; instructions go on in a second column where lines are few.
    let (bottom, dim) = (inner.height().saturating_sub(1), Paint::Dim);
    inner.paint(1, bottom, "S scalar V valu L vload W vstore E eup X xlu P push Q pop D dma B branch", dim);
    let rows = bottom.max(1);
    let columns = lines.len().div_ceil(rows).max(1);
    let (head, tail) = lines.split_at(lines.len().min(if columns > 1 { 2.min(rows) } else { rows }));
    for (y, (text, paint)) in head.iter().enumerate() {
        inner.paint(1, y, text, *paint);
    }
    let left = rows.saturating_sub(head.len()).max(1);
    let columns = tail.len().div_ceil(left).max(1);
    let width = (inner.width().saturating_sub(1) / columns).max(1);
    for (i, (text, paint)) in tail.iter().enumerate() {
        let (x, y) = (1 + i / left * width, head.len() + i % left);
        inner.paint(x, y, &cut(text, width.saturating_sub(2)), *paint);
    }
}
