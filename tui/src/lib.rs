//! Terminal dashboard of a run.
//!
//! All state is in an [`App`]: a key or a new [`Snapshot`] changes it ([`update`]), and a frame is drawn from it alone
//! ([`panels`]). The dashboard knows only the runtime's plain data: it neither compiles nor simulates.

mod app;
pub mod panels;
mod shared;
mod theme;

pub use app::{Action, App, Key, update};
pub use shared::Shared;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::sync::Arc;
use std::time::Duration;
use systole_runtime::snapshot::Snapshot;

/// Shows a run until the user leaves.
///
/// # Errors
/// If the terminal cannot be used.
pub fn run(shared: &Arc<Shared>) -> std::io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result = main_loop(&mut terminal, shared);
    ratatui::restore();
    result
}

fn main_loop(terminal: &mut ratatui::DefaultTerminal, shared: &Arc<Shared>) -> std::io::Result<()> {
    let mut app = App::new(shared.snapshot());
    loop {
        terminal.draw(|f| panels::draw(&app, f))?;
        if event::poll(Duration::from_millis(100))?
            && let Event::Key(k) = event::read()?
            && k.kind != KeyEventKind::Release
            && let Some(key) = key_of(k.code, k.modifiers)
            && update(&mut app, Action::Key(key))
        {
            shared.leave();
            return Ok(());
        }
        update(&mut app, Action::Snapshot(Box::new(shared.snapshot())));
    }
}

/// The keys that mean something.
fn key_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Top),
        _ => None,
    }
}

/// One frame as text, without a terminal.
pub fn frame(snapshot: &Snapshot, width: u16, height: u16) -> String {
    let app = App::new(snapshot.clone());
    let mut terminal = match Terminal::new(TestBackend::new(width, height)) {
        Ok(t) => t,
        Err(never) => match never {},
    };
    match terminal.draw(|f| panels::draw(&app, f)) {
        Ok(_) => {}
        Err(never) => match never {},
    }
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}
