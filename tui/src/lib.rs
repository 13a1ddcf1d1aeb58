//! Terminal dashboard of a run: live, or of a profile.
//!
//! All state is in an [`App`]: an event changes it ([`update`]), and a frame is drawn from it alone ([`views`]). The
//! dashboard knows only profiles: it neither compiles nor simulates, and asks for both by [`Effect`]s.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod app;
pub mod data;
pub mod export;
pub mod json;
mod pen;
mod screen;
pub mod sweep;
mod theme;
pub mod views;

pub use app::{App, Effect, Event, Key, Phase, Step, View, update};
pub use data::Data;
pub use screen::{detect, run};
pub use theme::{Depth, Palette, Theme};

use ratatui::buffer::Buffer;

/// One frame, without a terminal.
pub fn frame(app: &App, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(views::area(width, height));
    views::draw(app, &mut buffer);
    buffer
}
