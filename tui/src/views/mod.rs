//! The views, one file each, and the frame around them: tabs, the line of state, hints, help. A frame is drawn from the
//! [`App`] alone.

pub mod chip;
mod inside;
mod links;
pub mod memory;
mod ops;
pub mod overview;
pub mod program;
mod roofline;
pub mod stalls;
mod timeline;

use crate::app::{App, Help, Hit, HitBox, InputKind, Phase, View, command, keys};
use crate::pen::{Pen, cut, cut_start, wrap};
use crate::theme::Paint;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use systole_runtime::report::glossary;

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
        too_small(pen);
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
    match app.help {
        Help::None => {}
        Help::Keys => help(app, pen),
        Help::Words => words(app, pen),
    }
    completions(app, pen);
}

/// Says that there is no room, in as much as there is.
fn too_small(pen: &mut Pen<'_>) {
    let (w, h) = (pen.width(), pen.height());
    let text = if w >= 19 && h >= 1 { "too small: 24x6 is least" } else { "too small" };
    for (y, line) in wrap(text, w).iter().enumerate() {
        pen.plain(0, y, line);
    }
}

/// The body: the view, or why there is none.
fn view(app: &App, pen: &mut Pen<'_>) {
    if let Phase::Failed(why) = &app.phase {
        let (w, h) = (pen.width(), pen.height());
        let lines: Vec<String> = why.lines().flat_map(|l| wrap(l, w.saturating_sub(4).max(8))).collect();
        let rows = if app.shown().is_none() { h } else { (lines.len() + 2).min(h / 2) };
        let mut panel = pen.part(0, 0, w, rows);
        let mut inner = panel.boxed("the run failed");
        for (i, line) in lines.iter().enumerate() {
            inner.paint(1, i, line, Paint::Error);
        }
        if app.shown().is_none() {
            return;
        }
        let mut rest = pen.part(0, rows, w, h - rows);
        return one(app, &mut rest);
    }
    if app.shown().is_none() {
        let mut inner = pen.boxed(&app.title);
        inner.plain(1, 0, if app.phase == Phase::Replay { "reading the profile" } else { "compiling" });
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
    for v in View::ALL {
        let name = if short { cut_name(v) } else { v.name() };
        let key = keys::of_view(v).map_or(String::new(), keys::Key::name);
        let label = format!(" {key} {name} ");
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

/// The line of state: what runs on what, how far, what is frozen or filtered; as much of it as there is room for.
fn state(app: &App, pen: &mut Pen<'_>) {
    let phase = match &app.phase {
        Phase::Replay => "recorded",
        Phase::Compiling => "compiling",
        Phase::Running => "running",
        Phase::Paused => "paused",
        Phase::Done => "done",
        Phase::Failed(_) => "failed",
    };
    let mut parts = vec![phase.to_string()];
    if app.frozen.is_some() {
        parts.push("frozen".into());
    }
    if !app.listing.filter.is_empty() {
        parts.push(format!("filter: {}", app.listing.filter));
    }
    if let Some(s) = app.speed {
        parts.push(format!("at most {s} cycles/s"));
    }
    if let Some(d) = app.shown() {
        let m = &d.profile.meta;
        parts.push(m.report.chip.clone());
        if let Some(x) = m.devices.get(app.device).filter(|_| m.devices.len() > 1) {
            parts.push(format!(
                "device {} of {} (chip {} core {})",
                app.device,
                m.devices.len(),
                x.counts.chip,
                x.counts.core
            ));
        }
        parts.push(format!("{} cycles", m.cycles));
        parts.push(format!("cursor {}", app.cursor));
        parts.push(format!("shown {}..{}", app.from, app.to));
    }
    let width = pen.width();
    let mut text = String::new();
    for part in parts {
        let more = if text.is_empty() { format!(" {part}") } else { format!(" │ {part}") };
        if text.chars().count() + more.chars().count() < width {
            text += &more;
        }
    }
    let end = pen.paint(0, 0, &text, Paint::Dim);
    let room = width.saturating_sub(end + 3);
    let name = app.title.rsplit(['/', '\\']).next().unwrap_or("");
    if room > 8 {
        let style = Style::new().add_modifier(Modifier::BOLD);
        pen.right(width.saturating_sub(1), 0, &cut_start(name, room), style);
    }
}

/// What is typed, else the message, else hints from the key table: whole ones, with help and the way out at the end.
fn bottom(app: &App, pen: &mut Pen<'_>) {
    if let Some(i) = &app.input {
        let mark = if i.kind == InputKind::Filter { "/" } else { ":" };
        let room = pen.width().saturating_sub(2);
        let end = pen.bold(0, 0, &format!("{mark}{}", cut_start(&i.text, room)));
        pen.mark(end, 0);
        return;
    }
    if !app.message.is_empty() {
        pen.paint(0, 0, &app.message, Paint::Warning);
        return;
    }
    let live = matches!(app.phase, Phase::Running | Phase::Paused);
    let last = |b: &&keys::Binding| matches!(b.action, keys::Action::Help | keys::Action::Quit);
    let hints = || keys::bindings(app.view).filter(|b| b.hint && (live || !b.live()));
    let text = |b: &keys::Binding| (b.keys.first().map_or(String::new(), |k| k.name()), b.short);
    let size = |(key, what): &(String, &str)| key.chars().count() + what.chars().count() + 3;
    let mut room = pen.width().saturating_sub(1 + hints().filter(last).map(|b| size(&text(b))).sum::<usize>());
    let mut shown = Vec::new();
    for hint in hints().filter(|b| !last(b)).map(text) {
        if size(&hint) <= room {
            room -= size(&hint);
            shown.push(hint);
        }
    }
    shown.extend(hints().filter(last).map(text));
    let mut x = 1;
    for (key, what) in shown {
        x = pen.bold(x, 0, &key);
        x = pen.paint(x + 1, 0, what, Paint::Dim) + 2;
    }
}

/// The keys of the view, from the key table.
fn help(app: &App, pen: &mut Pen<'_>) {
    let digit = |k: &keys::Key| matches!(k.code, keys::Code::Char('1'..='9'));
    let tab = |b: &&keys::Binding| matches!(b.action, keys::Action::Show(_)) && b.keys.iter().any(digit);
    // The digits are in the order of their views: one row says so. Views behind these have letters, and rows.
    let views = format!("1..{}", keys::bindings(app.view).filter(tab).count());
    let others = keys::bindings(app.view).filter(|b| !tab(b));
    let others = others.map(|b| (b.keys.iter().map(|k| k.name()).collect::<Vec<_>>().join(" "), b.help));
    let rows: Vec<(String, &str)> = std::iter::once((views, "the views, as the tabs say")).chain(others).collect();
    let (w, h) = (pen.width(), pen.height());
    let columns = if w >= 76 { 2 } else { 1 };
    let lines = rows.len().div_ceil(columns);
    let (bw, bh) = ((columns * 38).min(w), (lines + 2).min(h));
    let mut panel = pen.part((w - bw) / 2, (h - bh) / 2, bw, bh);
    clear(&mut panel);
    let mut inner = panel.boxed(&format!("keys: {} (? again: words)", app.view.name()));
    for (i, (keys, what)) in rows.iter().enumerate() {
        let (x, y) = ((i / lines) * 37, i % lines);
        inner.bold(x + 1, y, keys);
        let room = 36usize.saturating_sub(10);
        inner.plain(x + 10, y, &cut(what, room));
    }
}

/// What the words of the view mean.
fn words(app: &App, pen: &mut Pen<'_>) {
    let Some(data) = app.shown() else { return };
    let wanted: &[&str] = match app.view {
        View::Overview | View::Timeline | View::Stalls | View::Program => {
            &["useful", "busy", "stalled", "idle", "unit ", "bound "]
        }
        View::Operations | View::Roofline => &["flop", "peak", "times", "cycles", "members", "bound", "stalled by"],
        View::Memory => &["VMEM", "HBM"],
        View::Links => &["stalled by link", "bound ici", "busy"],
        View::Chip => &["bound"],
    };
    let all = glossary::of(&data.profile.report());
    let chosen: Vec<_> = all.iter().filter(|w| wanted.iter().any(|p| w.0.starts_with(p))).collect();
    let (w, h) = (pen.width(), pen.height());
    let name = chosen.iter().map(|c| c.0.chars().count()).max().unwrap_or(0) + 2;
    let width = w.min(110);
    let lines: Vec<(String, String)> = chosen
        .iter()
        .flat_map(|(word, meaning)| {
            let parts = wrap(meaning, width.saturating_sub(name + 4).max(10));
            parts.into_iter().enumerate().map(|(i, p)| (if i == 0 { word.clone() } else { String::new() }, p))
        })
        .collect();
    let height = (lines.len() + 2).min(h);
    let mut panel = pen.part((w - width) / 2, (h - height) / 2, width, height);
    clear(&mut panel);
    let mut inner = panel.boxed(&format!("words: {}", app.view.name()));
    for (y, (word, meaning)) in lines.iter().enumerate() {
        inner.bold(1, y, word);
        inner.plain(1 + name, y, meaning);
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
    let mut panel = pen.part(0, h - 1 - rows, w, rows);
    clear(&mut panel);
    let chosen = (i.choice > 0).then(|| (i.choice - 1) % all.len());
    for (y, c) in all.iter().take(rows).enumerate() {
        let about = command::about(app, c);
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
