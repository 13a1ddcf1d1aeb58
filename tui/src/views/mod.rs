//! The views, one file each, and the frame around them: tabs, the line of state, hints, help. A frame is drawn from the
//! [`App`] alone.

pub mod chip;
mod inside;
mod links;
pub mod memory;
mod ops;
mod overview;
mod program;
mod roofline;
pub mod stalls;
mod timeline;

use crate::app::{App, Hit, HitBox, InputKind, Phase, View, command, keys};
use crate::pen::{Pen, cut};
use crate::theme::Paint;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Smallest terminal that shows everything.
pub const LEAST: (u16, u16) = (80, 24);

/// Draws a frame; gives the places that the mouse can hit.
pub fn draw(app: &App, buffer: &mut Buffer) -> Vec<HitBox> {
    let mut hits = Vec::new();
    let area = buffer.area;
    {
        let mut pen = Pen { buffer: &mut *buffer, hits: &mut hits, area, theme: app.theme };
        frame(app, &mut pen);
    }
    app.theme.finish(buffer);
    hits
}

fn frame(app: &App, pen: &mut Pen<'_>) {
    let (w, h) = (pen.width(), pen.height());
    if w < 24 || h < 6 {
        pen.plain(0, 0, "too small");
        return;
    }
    let bars = if app.expand { 1 } else { 3 };
    if !app.expand {
        tabs(app, pen);
        state(app, &mut pen.part(0, 1, w, 1));
    }
    {
        let mut body = pen.part(0, if app.expand { 0 } else { 2 }, w, h - bars);
        view(app, &mut body);
    }
    bottom(app, &mut pen.part(0, h - 1, w, 1));
    if app.help {
        help(app, pen);
    }
    completions(app, pen);
}

/// The body: the view, or why there is none.
fn view(app: &App, pen: &mut Pen<'_>) {
    if let Phase::Failed(why) = &app.phase {
        let mut inner = pen.boxed("the run failed");
        for (i, line) in why.lines().enumerate() {
            inner.paint(0, i, line, Paint::Error);
        }
        if app.shown().is_none() {
            return;
        }
        let rows = (why.lines().count() + 2).min(pen.height());
        let (w, h) = (pen.width(), pen.height());
        let mut rest = pen.part(0, rows, w, h - rows);
        return one(app, &mut rest);
    }
    if app.shown().is_none() {
        let mut inner = pen.boxed(&app.title);
        inner.plain(1, 1, "compiling");
        return;
    }
    one(app, pen);
}

fn one(app: &App, pen: &mut Pen<'_>) {
    match app.view {
        View::Overview => overview::draw(app, pen),
        View::Timeline => timeline::draw(app, pen),
        View::Operations if app.drill.is_some() => inside::draw(app, pen),
        View::Operations => ops::draw(app, pen),
        View::Roofline => roofline::draw(app, pen),
        View::Memory => memory::draw(app, pen),
        View::Stalls => stalls::draw(app, pen),
        View::Links => links::draw(app, pen),
        View::Program => program::draw(app, pen),
        View::Chip => chip::draw(app, pen),
    }
}

fn tabs(app: &App, pen: &mut Pen<'_>) {
    let mut x = 0;
    let short = pen.width() < 110;
    for (i, v) in View::ALL.into_iter().enumerate() {
        let name = if short { cut_name(v) } else { v.name() };
        let label = format!(" {} {name} ", i + 1);
        let style =
            if v == app.view { Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD) } else { Style::new() };
        let end = pen.text(x, 0, &label, style);
        pen.hit(x, 0, end - x, 1, Hit::View(v));
        x = end;
    }
}

/// Names that fit 80 columns together.
fn cut_name(v: View) -> &'static str {
    match v {
        View::Overview => "over",
        View::Timeline => "time",
        View::Operations => "ops",
        View::Roofline => "roof",
        View::Memory => "memory",
        View::Stalls => "stalls",
        View::Links => "links",
        View::Program => "code",
        View::Chip => "chip",
    }
}

/// The line of state: what runs on what, how far, what is frozen or filtered.
fn state(app: &App, pen: &mut Pen<'_>) {
    let phase = match &app.phase {
        Phase::Replay => "recorded",
        Phase::Compiling => "compiling",
        Phase::Running => "running",
        Phase::Paused => "paused",
        Phase::Done => "done",
        Phase::Failed(_) => "failed",
    };
    let mut text = format!(" {phase}");
    if let Some(d) = app.shown() {
        let m = &d.profile.meta;
        text += &format!(" │ {} │ {} cycles", m.chip.name, m.cycles);
        if let Some(x) = m.devices.get(app.device).filter(|_| m.devices.len() > 1) {
            text += &format!(" │ device {} of {} (chip {} core {})", app.device, m.devices.len(), x.chip, x.core);
        }
        text += &format!(" │ cursor {} │ shown {}..{}", app.cursor, app.from, app.to);
    }
    if let Some(s) = app.speed {
        text += &format!(" │ {s} cycles/s");
    }
    if app.frozen.is_some() {
        text += " │ frozen";
    }
    if !app.filter.is_empty() {
        text += &format!(" │ filter: {}", app.filter);
    }
    let end = pen.paint(0, 0, &text, Paint::Dim);
    let room = pen.width().saturating_sub(end + 3);
    if room > 8 {
        let name: String = app.title.chars().rev().take(room).collect::<Vec<_>>().into_iter().rev().collect();
        let width = pen.width();
        let style = Style::new().add_modifier(Modifier::BOLD);
        pen.right(width.saturating_sub(1), 0, &name, style);
    }
}

/// What is typed, else the message, else hints from the key table.
fn bottom(app: &App, pen: &mut Pen<'_>) {
    if let Some(i) = &app.input {
        let mark = if i.kind == InputKind::Filter { "/" } else { ":" };
        let end = pen.bold(0, 0, &format!("{mark}{}", i.text));
        pen.mark(end, 0);
        return;
    }
    if !app.message.is_empty() {
        pen.paint(0, 0, &app.message, Paint::Warning);
        return;
    }
    let mut x = 1;
    for b in keys::bindings(app.view).filter(|b| b.hint) {
        let names: Vec<String> = b.keys.iter().take(1).map(|k| k.name()).collect();
        x = pen.bold(x, 0, &names.join(" "));
        x = pen.paint(x, 0, &format!(" {}  ", b.help), Paint::Dim);
    }
}

/// The keys of the view, from the key table.
fn help(app: &App, pen: &mut Pen<'_>) {
    let rows: Vec<(String, &str)> = keys::bindings(app.view)
        .map(|b| (b.keys.iter().map(|k| k.name()).collect::<Vec<_>>().join(" "), b.help))
        .collect();
    let (w, h) = (pen.width(), pen.height());
    let columns = if w >= 76 { 2 } else { 1 };
    let lines = rows.len().div_ceil(columns);
    let (bw, bh) = ((columns * 38).min(w), (lines + 2).min(h));
    let mut panel = pen.part((w - bw) / 2, (h - bh) / 2, bw, bh);
    clear(&mut panel);
    let mut inner = panel.boxed(&format!("keys: {}", app.view.name()));
    for (i, (keys, what)) in rows.iter().enumerate() {
        let (x, y) = ((i / lines) * 37, i % lines);
        inner.bold(x + 1, y, keys);
        let room = 36usize.saturating_sub(10);
        inner.plain(x + 10, y, &cut(what, room));
    }
}

fn clear(pen: &mut Pen<'_>) {
    for y in 0..pen.height() {
        let blank = " ".repeat(pen.width());
        pen.text(0, y, &blank, Style::reset());
    }
}

/// Completions of the command that is typed, above it.
fn completions(app: &App, pen: &mut Pen<'_>) {
    let Some(i) = app.input.as_ref().filter(|i| i.kind == InputKind::Command) else { return };
    let all = command::completions(app, &i.stem);
    let (w, h) = (pen.width(), pen.height());
    let rows = all.len().min(h.saturating_sub(4)).min(10);
    if rows == 0 {
        return;
    }
    let mut panel = pen.part(0, h - 1 - rows, w.min(60), rows);
    clear(&mut panel);
    let chosen = (i.choice > 0).then(|| (i.choice - 1) % all.len());
    for (y, c) in all.iter().take(rows).enumerate() {
        let about = command::COMMANDS.iter().find(|x| x.0 == c).map_or(String::new(), |x| format!("{} {}", x.1, x.2));
        let end = panel.bold(1, y, c);
        panel.paint(end + 1, y, &about, Paint::Dim);
        if chosen == Some(y) {
            panel.choose(y);
        }
    }
}

/// The area of a buffer of that size.
pub fn area(width: u16, height: u16) -> Rect {
    Rect { x: 0, y: 0, width, height }
}
