//! The sweep's screen in a terminal.

use super::{SweepApp, SweepData, Wish, draw};
use crate::app::Key;
use crate::screen::{Asked, Guard, key_code};
use ratatui::crossterm::event::{self, Event as Input, KeyEventKind, KeyModifiers};
use std::time::{Duration, Instant};

/// Between looks at the sweep's folder.
const LOOK: Duration = Duration::from_secs(1);

/// Shows a sweep until something is wished that the screen cannot do itself. `look` gives what is known by now.
///
/// # Errors
/// If the terminal cannot be used, or a signal asked the program to end.
pub fn run(app: &mut SweepApp, look: &mut dyn FnMut() -> Option<SweepData>) -> std::io::Result<Wish> {
    let asked = Asked::listen()?;
    let (mut terminal, _guard) = Guard::take()?;
    let (begin, before) = (Instant::now(), app.data.counts());
    let mut looked = Instant::now();
    loop {
        if asked.to_end() {
            return Err(std::io::Error::new(std::io::ErrorKind::Interrupted, "ended by a signal"));
        }
        terminal.draw(|f| draw::draw(app, f.buffer_mut()))?;
        if event::poll(Duration::from_millis(250))?
            && let Input::Key(k) = event::read()?
            && k.kind != KeyEventKind::Release
            && let Some(code) = key_code(k.code)
            && let Some(wish) = app.key(Key { code, ctrl: k.modifiers.contains(KeyModifiers::CONTROL) })
        {
            return Ok(wish);
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            if let Some(data) = look() {
                app.update(data);
            }
            let (done, failed, _) = app.data.counts();
            let new = (done + failed).saturating_sub(before.0 + before.1);
            app.rate = new as f64 / begin.elapsed().as_secs_f64().max(0.1);
        }
    }
}
