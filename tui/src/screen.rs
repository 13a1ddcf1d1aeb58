//! The terminal: taken, given back whatever happens, and its events.

use crate::app::{Code, HitBox};
use crate::{App, Depth, Effect, Event, Key, Palette, Phase, Theme, export, update, views};
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event as Input, KeyCode, KeyEventKind, KeyModifiers, MouseEventKind,
};
use ratatui::crossterm::execute;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

/// What the terminal can show, from the variables that say so.
pub fn detect(variable: &dyn Fn(&str) -> Option<String>) -> Theme {
    let set = |name: &str| variable(name).filter(|v| !v.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|n| set(n)).unwrap_or_default().to_lowercase();
    let many = set("COLORTERM").is_some_and(|c| c.contains("truecolor") || c.contains("24bit"));
    let depth = match () {
        () if set("NO_COLOR").is_some() => Depth::None,
        () if many => Depth::Full,
        () => Depth::Sixteen,
    };
    Theme { palette: Palette::Dark, depth, ascii: !(locale.contains("utf-8") || locale.contains("utf8")) }
}

/// Gives the terminal back when dropped, also while a panic unwinds.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = execute!(std::io::stdout(), DisableMouseCapture);
        ratatui::restore();
    }
}

/// Shows a run until the user leaves. `news` brings the run's events, `effects` gets what the run has to do.
///
/// # Errors
/// If the terminal cannot be used.
pub fn run(mut app: App, news: &Receiver<Event>, effects: &mut dyn FnMut(&App, Effect)) -> std::io::Result<App> {
    let mut terminal = ratatui::try_init()?;
    let _guard = Guard;
    execute!(std::io::stdout(), EnableMouseCapture)?;
    let size = terminal.size()?;
    app.size = (size.width, size.height);
    let mut hits: Vec<HitBox> = Vec::new();
    let mut changed = true;
    loop {
        loop {
            match news.try_recv() {
                Ok(e) => {
                    apply(&mut app, e, effects);
                    changed = true;
                }
                Err(TryRecvError::Empty) => break,
                // The run ended without a word: its panic has been reported.
                Err(TryRecvError::Disconnected) if matches!(app.phase, Phase::Running | Phase::Compiling) => {
                    return Ok(app);
                }
                Err(TryRecvError::Disconnected) => break,
            }
        }
        if changed {
            terminal.draw(|f| hits = views::draw(&app, f.buffer_mut()))?;
        }
        changed = false;
        let mut wait = Duration::from_millis(50);
        // All events that are there belong to the next frame.
        while event::poll(wait)? {
            wait = Duration::ZERO;
            changed = true;
            if let Some(e) = translate(event::read()?, &hits)
                && apply(&mut app, e, effects)
            {
                return Ok(app);
            }
        }
    }
}

/// Changes the state and does what follows; `true`: the user leaves.
fn apply(app: &mut App, e: Event, effects: &mut dyn FnMut(&App, Effect)) -> bool {
    for effect in update(app, e) {
        match effect {
            Effect::Quit => return true,
            Effect::Write(path) => {
                let written = export::for_file(app, &path)
                    .and_then(|text| std::fs::write(&path, text).map_err(|e| format!("{path}: {e}")));
                app.message = written.map_or_else(|e| e, |()| format!("written to {path}"));
            }
            other => effects(app, other),
        }
    }
    false
}

fn translate(input: Input, hits: &[HitBox]) -> Option<Event> {
    match input {
        Input::Key(k) if k.kind != KeyEventKind::Release => {
            let ctrl = k.modifiers.contains(KeyModifiers::CONTROL);
            key_code(k.code).map(|code| Event::Key(Key { code, ctrl }))
        }
        Input::Mouse(m) => {
            let (x, y, hits) = (m.column, m.row, hits.to_vec());
            match m.kind {
                MouseEventKind::Down(_) | MouseEventKind::Drag(_) => Some(Event::Press { x, y, hits }),
                MouseEventKind::Moved => Some(Event::Hover { x, y, hits }),
                MouseEventKind::ScrollUp => Some(Event::Wheel { up: true }),
                MouseEventKind::ScrollDown => Some(Event::Wheel { up: false }),
                _ => None,
            }
        }
        Input::Resize(width, height) => Some(Event::Resize { width, height }),
        _ => None,
    }
}

fn key_code(code: KeyCode) -> Option<Code> {
    Some(match code {
        KeyCode::Char(c) => Code::Char(c),
        KeyCode::Up => Code::Up,
        KeyCode::Down => Code::Down,
        KeyCode::Left => Code::Left,
        KeyCode::Right => Code::Right,
        KeyCode::PageUp => Code::PageUp,
        KeyCode::PageDown => Code::PageDown,
        KeyCode::Home => Code::Home,
        KeyCode::End => Code::End,
        KeyCode::Enter => Code::Enter,
        KeyCode::Esc => Code::Esc,
        KeyCode::Tab => Code::Tab,
        KeyCode::BackTab => Code::BackTab,
        KeyCode::Backspace => Code::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_say_what_they_can() {
        let of = |vars: &[(&str, &str)]| detect(&|n| vars.iter().find(|v| v.0 == n).map(|v| v.1.to_string()));
        let cases: &[(&[(&str, &str)], Depth, bool)] = &[
            (&[], Depth::Sixteen, true),
            (&[("LANG", "C.UTF-8")], Depth::Sixteen, false),
            (&[("LANG", "C.UTF-8"), ("LC_ALL", "C")], Depth::Sixteen, true),
            (&[("LANG", "de_DE.utf8"), ("COLORTERM", "truecolor")], Depth::Full, false),
            (&[("NO_COLOR", "1"), ("COLORTERM", "truecolor")], Depth::None, true),
            (&[("NO_COLOR", ""), ("COLORTERM", "truecolor")], Depth::Full, true),
        ];
        for (vars, depth, ascii) in cases {
            let t = of(vars);
            assert_eq!((t.depth, t.ascii), (*depth, *ascii), "{vars:?}");
        }
    }
}
