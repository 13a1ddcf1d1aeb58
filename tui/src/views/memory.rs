//! Memory: how much is taken over time, and by what at the cursor.

use super::overview::shares;
use super::timeline::ruler;
use crate::app::{App, Hit};
use crate::data::Data;
use crate::pen::{Pen, cut, percent, scroll};
use crate::theme::Paint;
use systole_runtime::profile::memory::{live, most, of_arrays, peak, size};
use systole_runtime::profile::{Buffer, Memory};
use systole_runtime::report::text::metric;

/// Columns of names: as on the timeline.
const NAMES: usize = 10;

/// Buffers at the cursor: those of vector memory first, each largest first.
pub fn buffers(app: &App) -> Vec<Buffer> {
    let Some(data) = app.shown() else { return Vec::new() };
    let all = of_arrays(&data.profile).into_iter().flat_map(|m| live(&data.profile, m, app.cursor));
    all.filter(|b| app.listing.filter.is_empty() || b.name.contains(&app.listing.filter)).cloned().collect()
}

pub fn draw(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let (w, h) = (pen.width(), pen.height());
    let columns = w.saturating_sub(NAMES);
    ruler(app, pen, NAMES, columns);
    let memories = of_arrays(&data.profile);
    let chart = (h.saturating_sub(8) / (2 * memories.len())).clamp(2, 10);
    let mut y = 2;
    for m in memories {
        occupancy(app, data, m, &mut pen.part(0, y, w, chart + 1), columns);
        y += chart + 1;
    }
    let left = h.saturating_sub(y);
    list(app, &mut pen.part(0, y, w, left));
}

fn occupancy(app: &App, data: &Data, m: Memory, pen: &mut Pen<'_>, columns: usize) {
    let levels = data.occupancy(m);
    let (top, now) = (peak(levels), most(levels, app.cursor, app.cursor + 1));
    let text = format!(
        "{}: {}B at the cursor, peak {}B at cycle {} ({} of {}B)",
        m.name(),
        metric(now as f64),
        metric(top.bytes as f64),
        top.cycle,
        percent(top.bytes as f64, size(&data.profile, m) as f64),
        metric(size(&data.profile, m) as f64)
    );
    pen.plain(0, 0, &text);
    let rows = pen.height().saturating_sub(1);
    let values = shares(columns, app.from, app.to, |a, b| most(levels, a, b) as f64 / top.bytes.max(1) as f64);
    let paint = if m == Memory::Vmem { Paint::Accent } else { Paint::Busy };
    let most = format!("{}B", metric(top.bytes as f64));
    pen.right(NAMES - 1, 1, &most, pen.theme.style(Paint::Dim));
    if rows > 1 {
        pen.right(NAMES - 1, rows, "0 B", pen.theme.style(Paint::Dim));
    }
    pen.columns(NAMES, 1, rows, &values, paint);
    pen.hit(NAMES, 1, columns, rows, Hit::Time { from: app.from, to: app.to });
    let at = (app.cursor - app.from) as u128 * columns as u128 / (app.to - app.from).max(1) as u128;
    for y in 1..=rows {
        pen.mark(NAMES + at as usize, y);
    }
}

fn list(app: &App, pen: &mut Pen<'_>) {
    let all = buffers(app);
    let taken: u64 = all.iter().map(|b| b.bytes).sum();
    let mut inner = pen.boxed(&format!("{} arrays at cycle {}, {}B", all.len(), app.cursor, metric(taken as f64)));
    // The address and the life are left to wide terminals, as far as there is room.
    let w = inner.width();
    let name = w.saturating_sub(56).clamp(16, 44);
    let row = |cells: [&str; 6]| {
        let [array, place, bytes, from, to, address] = cells;
        let mut text = format!("{:<name$} {place:<5} {bytes:>11} {from:>11} {to:>11}", cut(array, name));
        if w > 92 {
            text += &format!(" {address:>14}");
        }
        text
    };
    inner.bold(1, 0, &row(["array", "in", "bytes", "from cycle", "to cycle", "address"]));
    let room = inner.height().saturating_sub(1);
    let first = scroll(app.selected(), room, all.len());
    for (i, b) in all.iter().enumerate().skip(first).take(room) {
        let y = 1 + i - first;
        let [bytes, from, to] = [b.bytes, b.from, b.to].map(|n| n.to_string());
        let address = format!("{:#x}", b.address);
        inner.plain(1, y, &row([&b.name, b.memory.name(), &bytes, &from, &to, &address]));
        if i == app.selected() {
            inner.choose(y);
        }
        let width = inner.width();
        inner.hit(0, y, width, 1, Hit::Row(i));
    }
    if all.is_empty() {
        inner.paint(1, 1, "nothing is known to be there", Paint::Dim);
    }
}
