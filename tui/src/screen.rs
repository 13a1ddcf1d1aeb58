//! The terminal: taken, given back whatever happens, and its events.

use crate::app::{Code, HitBox};
use crate::{App, Depth, Effect, Event, Key, Palette, Phase, Theme, export, update, views};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event as Input, KeyCode, KeyEventKind, KeyModifiers, MouseEventKind,
};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Gives the terminal back when dropped, also while a panic unwinds, and the panic messages of the process with it.
pub(crate) struct Guard;

impl Guard {
    /// Takes the terminal. From here on a panic of the thread that draws gives it back before its message is printed;
    /// other threads' panics are told by whoever waits for them, and print nothing over the frame.
    pub(crate) fn take() -> std::io::Result<(ratatui::DefaultTerminal, Guard)> {
        let before = panic::take_hook();
        let drawing = std::thread::current().id();
        panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() == drawing {
                give_back();
                before(info);
            }
        }));
        let guard = Guard;
        enable_raw_mode()?;
        execute!(std::io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        let terminal = ratatui::Terminal::new(ratatui::backend::CrosstermBackend::new(std::io::stdout()))?;
        Ok((terminal, guard))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back();
        if !std::thread::panicking() {
            // The hook of before cannot be had back from within; the default one says the same.
            let _ = panic::take_hook();
        }
    }
}

fn give_back() {
    // There is nobody left to tell.
    let _ = execute!(std::io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Whether the process was asked to end (interrupt, terminate, hang up) since the last look.
pub(crate) struct Asked(Arc<AtomicBool>);

/// How long the dashboard has to end by itself when it is asked to: a terminal that is gone may not answer.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_millis(700);

impl Asked {
    #[cfg(unix)]
    pub(crate) fn listen() -> std::io::Result<Asked> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let asked = Arc::new(AtomicBool::new(false));
        let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let heard = Arc::clone(&asked);
        // The thread lives as long as the process.
        std::thread::Builder::new().spawn(move || {
            if signals.forever().next().is_some() {
                heard.store(true, Ordering::Relaxed);
                std::thread::sleep(PATIENCE);
                give_back();
                std::process::exit(1);
            }
        })?;
        Ok(Asked(asked))
    }

    #[cfg(not(unix))]
    pub(crate) fn listen() -> std::io::Result<Asked> {
        Ok(Asked(Arc::default()))
    }

    pub(crate) fn to_end(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Shows a run until the user leaves. `news` brings the run's events, `effects` gets what the run has to do.
///
/// # Errors
/// If the terminal cannot be used, or a signal asked the program to end.
pub fn run(mut app: App, news: &Receiver<Event>, effects: &mut dyn FnMut(&App, Effect)) -> std::io::Result<App> {
    let asked = Asked::listen()?;
    let (mut terminal, _guard) = Guard::take()?;
    let size = terminal.size()?;
    app.size = (size.width, size.height);
    let mut hits: Vec<HitBox> = Vec::new();
    let mut changed = true;
    loop {
        if asked.to_end() {
            return Err(std::io::Error::new(std::io::ErrorKind::Interrupted, "ended by a signal"));
        }
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
            other @ (Effect::Pause(_) | Effect::Step(_) | Effect::Speed(_) | Effect::Device(_) | Effect::Rerun(_)) => {
                effects(app, other)
            }
        }
    }
    false
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a foreign type: the dashboard reacts to nothing else")]
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

#[allow(clippy::wildcard_enum_match_arm, reason = "a foreign type: no command has another key")]
pub(crate) fn key_code(code: KeyCode) -> Option<Code> {
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
