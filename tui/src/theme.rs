//! Colours and symbols, and what becomes of them on terminals that have fewer.
//!
//! Views draw with full colours and all symbols; [`Theme::finish`] then brings a whole frame down to what the terminal has.
//! Every state has a symbol of its own, so that nothing is lost without colours.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// No colours: `NO_COLOR`.
    None,
    /// The sixteen of every terminal.
    Sixteen,
    Full,
}

/// A set of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    Dark,
    Light,
    Contrast,
}

/// How a frame looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    pub palette: Palette,
    pub depth: Depth,
    pub ascii: bool,
}

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Text,
    Dim,
    Useful,
    Busy,
    Stalled,
    Idle,
    Accent,
    Warning,
    Error,
    /// One of several things.
    Item(u32),
}

const ITEMS: [[u8; 3]; 8] = [
    [0x66, 0x99, 0xcc],
    [0xee, 0x77, 0x88],
    [0x55, 0xbb, 0x66],
    [0xdd, 0xbb, 0x55],
    [0x66, 0xcc, 0xdd],
    [0xcc, 0x77, 0xbb],
    [0xee, 0x99, 0x44],
    [0x99, 0xaa, 0xee],
];

impl Theme {
    pub const ALL: [Palette; 3] = [Palette::Dark, Palette::Light, Palette::Contrast];

    /// The dark one, in full.
    pub fn full() -> Theme {
        Theme { palette: Palette::Dark, depth: Depth::Full, ascii: false }
    }

    /// A palette by the beginning of its name.
    pub fn named(name: &str) -> Option<Palette> {
        Theme::ALL.into_iter().find(|p| !name.is_empty() && p.name().starts_with(name))
    }

    pub fn next(&mut self) {
        let at = Theme::ALL.iter().position(|p| *p == self.palette).unwrap_or(0);
        self.palette = Theme::ALL[(at + 1) % Theme::ALL.len()];
    }

    pub fn style(&self, paint: Paint) -> Style {
        let rgb = |c: [u8; 3]| Style::new().fg(Color::Rgb(c[0], c[1], c[2]));
        let light = self.palette == Palette::Light;
        let base = match paint {
            Paint::Text => return Style::new(),
            Paint::Dim if light => [0x77, 0x77, 0x77],
            Paint::Dim => [0x88, 0x88, 0x88],
            Paint::Useful => [0x33, 0xbb, 0x55],
            Paint::Busy => [0x55, 0xaa, 0xbb],
            Paint::Stalled => [0xdd, 0x55, 0x44],
            Paint::Idle if light => [0xbb, 0xbb, 0xbb],
            Paint::Idle => [0x55, 0x55, 0x55],
            Paint::Accent => [0x55, 0x99, 0xee],
            Paint::Warning => [0xdd, 0xaa, 0x33],
            Paint::Error => [0xee, 0x44, 0x44],
            Paint::Item(i) => ITEMS[i as usize % ITEMS.len()],
        };
        match self.palette {
            Palette::Dark => rgb(base),
            Palette::Light => rgb(base.map(|v| (v as u32 * 2 / 3) as u8)),
            Palette::Contrast => rgb(base.map(|v| if v > 0x77 { 0xff } else { v / 2 })).add_modifier(Modifier::BOLD),
        }
    }

    /// Text and background; the dark palette is that of most terminals and takes theirs.
    fn ground(&self) -> Option<(Color, Color)> {
        match self.palette {
            Palette::Dark => None,
            Palette::Light => Some((Color::Rgb(0x18, 0x18, 0x18), Color::Rgb(0xf8, 0xf8, 0xf4))),
            Palette::Contrast => Some((Color::Rgb(0xff, 0xff, 0xff), Color::Rgb(0, 0, 0))),
        }
    }

    /// Puts a frame on the palette's background, and brings it down to what the terminal has.
    pub fn finish(&self, buffer: &mut Buffer) {
        let ground = self.ground();
        if self.depth == Depth::Full && !self.ascii && ground.is_none() {
            return;
        }
        for cell in &mut buffer.content {
            if let Some((fg, bg)) = ground {
                cell.fg = if cell.fg == Color::Reset { fg } else { cell.fg };
                cell.bg = if cell.bg == Color::Reset { bg } else { cell.bg };
            }
            if self.ascii && !cell.symbol().is_ascii() {
                let plain = ascii(cell.symbol());
                cell.set_char(plain);
            }
            match self.depth {
                Depth::Full => {}
                Depth::None => (cell.fg, cell.bg) = (Color::Reset, Color::Reset),
                Depth::Sixteen => (cell.fg, cell.bg) = (sixteen(cell.fg), sixteen(cell.bg)),
            }
        }
    }
}

impl Palette {
    pub fn name(self) -> &'static str {
        match self {
            Palette::Dark => "dark",
            Palette::Light => "light",
            Palette::Contrast => "contrast",
        }
    }
}

/// What stands for a symbol on terminals with ASCII alone.
fn ascii(symbol: &str) -> char {
    match symbol.chars().next().unwrap_or(' ') {
        '─' | '━' => '-',
        '│' | '┃' => '|',
        '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' => '+',
        '█' | '▇' | '▆' | '●' => '#',
        '▓' | '▅' | '▄' => '=',
        '░' | '▒' | '▃' | '▂' => '~',
        '▁' | '·' => '.',
        '↑' | '▲' => '^',
        '↓' | '▼' => 'v',
        '←' | '◀' | '↩' => '<',
        '→' | '▶' => '>',
        '…' => '~',
        '•' => 'o',
        '◆' => '@',
        c if ('\u{2801}'..='\u{28ff}').contains(&c) => '*',
        _ => ' ',
    }
}

/// The nearest of the sixteen colours.
fn sixteen(c: Color) -> Color {
    let Color::Rgb(r, g, b) = c else { return c };
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    if most - least < 0x20 {
        return match most {
            0xe0.. => Color::White,
            0x60.. => Color::Gray,
            0x20.. => Color::DarkGray,
            _ => Color::Black,
        };
    }
    let on = |v: u8| v as u32 * 3 >= most as u32 * 2;
    match (on(r), on(g), on(b)) {
        (true, true, true) => Color::White,
        (true, true, false) => Color::Yellow,
        (true, false, true) => Color::Magenta,
        (false, true, true) => Color::Cyan,
        (true, false, false) => Color::Red,
        (false, true, false) => Color::Green,
        (false, false, _) => Color::Blue,
    }
}
