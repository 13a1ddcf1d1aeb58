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
    let at = at_cursor(app, data) as usize;
    let p = &data.profile;
    let mut inner = pen.boxed(&format!("bundle {at} at cycle {} of {} bundles", app.cursor, data.code.len()));
    if data.code.is_empty() {
        inner.paint(1, 0, "the profile holds no program that can be read", Paint::Dim);
        return;
    }
    let h = inner.height();
    inner.bold(
        1,
        0,
        &format!("{:>7} {:<10} {:>10} {:>8}  {:<18} instructions", "bundle", "slots", "times", "waited", "operation"),
    );
    let room = h.saturating_sub(1);
    // Moving in the list moves away from the cursor.
    let middle = (at + app.selected()).min(data.code.len() - 1);
    let first = middle.saturating_sub(room / 2).min(data.code.len().saturating_sub(room));
    let Some(t) = data.trace(app.device) else { return };
    for (y, b) in (first..data.code.len()).take(room).enumerate() {
        let y = y + 1;
        let slots = data.code.slots(b);
        let letters: String = SLOTS.chars().zip(slots).map(|(c, n)| if n > 0 { c } else { '·' }).collect();
        let count = |v: &[u64]| v.get(b).map_or(String::new(), |n| n.to_string());
        let op = data.code.op(b as u32);
        let name = if op == NO_OP { "" } else { p.op_name(op) };
        let kernel = p.meta.kernels.iter().find(|k| k.start as usize == b);
        let mut text = data.code.text(b);
        if let Some(k) = kernel {
            text = format!("{}: {text}", k.name);
        }
        let line = format!(
            "{b:>7} {letters:<10} {:>10} {:>8}  {:<18} {text}",
            count(&t.executions),
            count(&t.waited),
            cut(name, 18)
        );
        let paint = if t.executions.get(b).is_some_and(|n| *n == 0) { Paint::Dim } else { Paint::Text };
        inner.paint(1, y, &line, paint);
        if b == middle {
            inner.choose(y);
        } else if b == at {
            inner.text(0, y, "▶", ratatui::style::Style::new());
        }
        let width = inner.width();
        inner.hit(0, y, width, 1, Hit::Row(b.saturating_sub(at)));
    }
}
