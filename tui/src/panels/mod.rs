//! The panels, one file each, and where they are on the screen.

mod ops;
mod summary;
mod units;

use crate::App;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;

/// Draws a frame of any size.
pub fn draw(app: &App, frame: &mut Frame<'_>) {
    let units = app.snapshot.units.len() as u16 + 3;
    let rows = Layout::vertical([
        Constraint::Length(summary::HEIGHT),
        Constraint::Length(units),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [top, middle, bottom, keys] = rows.areas(frame.area());
    summary::draw(app, frame, top);
    units::draw(app, frame, middle);
    ops::draw(app, frame, bottom);
    frame.render_widget(Line::raw(" q quit   ↑ ↓ PgUp PgDn scroll"), keys);
}
