//! Colours and symbols. Every state has a symbol of its own, so that nothing is lost without colours.

use ratatui::style::{Color, Modifier, Style};

/// A part of a unit's bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Useful,
    Busy,
    Stalled,
    Idle,
}

impl Part {
    pub fn symbol(self) -> &'static str {
        match self {
            Part::Useful => "█",
            Part::Busy => "▓",
            Part::Stalled => "░",
            Part::Idle => "·",
        }
    }

    pub fn style(self) -> Style {
        let color = match self {
            Part::Useful => Color::Green,
            Part::Busy => Color::Cyan,
            Part::Stalled => Color::Red,
            Part::Idle => Color::DarkGray,
        };
        plain(color)
    }
}

/// A colour, unless the user asked for none.
pub fn plain(color: Color) -> Style {
    if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) { Style::new() } else { Style::new().fg(color) }
}

/// Headings.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}
