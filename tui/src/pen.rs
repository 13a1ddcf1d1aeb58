//! Drawing into a part of a frame: nothing leaves its rectangle, whatever its size.

use crate::app::{Hit, HitBox};
use crate::theme::{Paint, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Levels of a column.
const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// A rectangle of a frame with a theme, and the places that the mouse can hit.
pub struct Pen<'a> {
    pub buffer: &'a mut Buffer,
    pub hits: &'a mut Vec<HitBox>,
    pub area: Rect,
    pub theme: Theme,
}

impl Pen<'_> {
    pub fn width(&self) -> usize {
        self.area.width as usize
    }

    pub fn height(&self) -> usize {
        self.area.height as usize
    }

    /// A part of this one, cut to it.
    pub fn part(&mut self, x: usize, y: usize, width: usize, height: usize) -> Pen<'_> {
        let (x, y) = (x.min(self.width()), y.min(self.height()));
        let (width, height) = (width.min(self.width() - x), height.min(self.height() - y));
        let area =
            Rect { x: self.area.x + x as u16, y: self.area.y + y as u16, width: width as u16, height: height as u16 };
        Pen { buffer: self.buffer, hits: self.hits, area, theme: self.theme }
    }

    /// Text at a place; what is cut at the edge ends in `…`. Returns the column after it.
    pub fn text(&mut self, x: usize, y: usize, text: &str, style: Style) -> usize {
        if y >= self.height() || x >= self.width() {
            return x;
        }
        let left = self.area.x + x as u16;
        let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let clean = cut(&clean, self.width() - x);
        let end = self.buffer.set_stringn(left, self.area.y + y as u16, clean, self.width() - x, style);
        (end.0 - self.area.x) as usize
    }

    pub fn plain(&mut self, x: usize, y: usize, text: &str) -> usize {
        self.text(x, y, text, Style::new())
    }

    pub fn paint(&mut self, x: usize, y: usize, text: &str, paint: Paint) -> usize {
        let style = self.theme.style(paint);
        self.text(x, y, text, style)
    }

    pub fn bold(&mut self, x: usize, y: usize, text: &str) -> usize {
        self.text(x, y, text, Style::new().add_modifier(Modifier::BOLD))
    }

    /// Text that ends before column `end`.
    pub fn right(&mut self, end: usize, y: usize, text: &str, style: Style) {
        let n = text.chars().count();
        self.text(end.saturating_sub(n), y, text, style);
    }

    /// Shows a row as chosen.
    pub fn choose(&mut self, y: usize) {
        if y < self.height() {
            let area = Rect { y: self.area.y + y as u16, height: 1, ..self.area };
            self.buffer.set_style(area, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// Reverses a cell.
    pub fn mark(&mut self, x: usize, y: usize) {
        if x < self.width() && y < self.height() {
            let at = (self.area.x + x as u16, self.area.y + y as u16);
            self.buffer[at].modifier.insert(Modifier::REVERSED);
        }
    }

    /// Notes that a part leads somewhere.
    pub fn hit(&mut self, x: usize, y: usize, width: usize, height: usize, to: Hit) {
        let p = self.part(x, y, width, height).area;
        if p.width > 0 && p.height > 0 {
            self.hits.push(([p.x, p.y, p.width, p.height], to));
        }
    }

    /// A bar of parts that are shares of its width: they fill cells by rounding their sums.
    pub fn bar(&mut self, x: usize, y: usize, width: usize, parts: &[(f64, &str, Paint)]) {
        let mut sum = 0.0;
        let mut done = 0;
        for (share, symbol, paint) in parts {
            sum += share.max(0.0);
            let to = ((sum * width as f64).round() as usize).min(width);
            if to > done {
                self.paint(x + done, y, &symbol.repeat(to - done), *paint);
                done = to;
            }
        }
    }

    /// A column chart of shares from 0 to 1, `height` rows high, a column a value.
    pub fn columns(&mut self, x: usize, y: usize, height: usize, values: &[f64], paint: Paint) {
        for (i, v) in values.iter().enumerate() {
            let eighths = (v.clamp(0.0, 1.0) * (height * 8) as f64).round() as usize;
            // What is there at all can be seen.
            let eighths = if *v > 0.0 { eighths.max(1) } else { eighths };
            for row in 0..height {
                let part = eighths.saturating_sub(row * 8).min(8);
                if part > 0 {
                    self.paint(x + i, y + height - 1 - row, LEVELS[part], paint);
                }
            }
        }
    }

    /// A column chart of shares in two parts, `(all, of it the lower part)`, each from 0 to 1.
    pub fn stacked(&mut self, x: usize, y: usize, height: usize, values: &[(f64, f64)], paints: (Paint, Paint)) {
        let (upper, lower) = (self.theme.style(paints.0), self.theme.style(paints.1));
        let eighths = |v: f64| (v.clamp(0.0, 1.0) * (height * 8) as f64).round() as usize;
        for (i, &(all, part)) in values.iter().enumerate() {
            let all = if all > 0.0 { eighths(all).max(1) } else { 0 };
            let part = eighths(part).min(all);
            for row in 0..height {
                let within = |n: usize| n.saturating_sub(row * 8).min(8);
                let (a, p) = (within(all), within(part));
                let (symbol, style) = match (a, p) {
                    (0, _) => continue,
                    (a, 0) => (if a == 8 { "▓" } else { LEVELS[a] }, upper),
                    // The lower part's top in a cell that is filled by both.
                    (8, p) if p < 8 => match upper.fg {
                        Some(c) => (LEVELS[p], lower.bg(c)),
                        None => (LEVELS[p], lower),
                    },
                    (_, p) => (LEVELS[p], lower),
                };
                self.text(x + i, y + height - 1 - row, symbol, style);
            }
        }
    }

    /// A frame with a title; gives what is inside.
    pub fn boxed(&mut self, title: &str) -> Pen<'_> {
        let (w, h) = (self.width(), self.height());
        if w < 2 || h < 2 {
            return self.part(0, 0, w, h);
        }
        let line = "─".repeat(w - 2);
        self.paint(0, 0, &format!("┌{line}┐"), Paint::Dim);
        for y in 1..h - 1 {
            self.paint(0, y, "│", Paint::Dim);
            self.paint(w - 1, y, "│", Paint::Dim);
        }
        self.paint(0, h - 1, &format!("└{line}┘"), Paint::Dim);
        let title = cut(title, w.saturating_sub(6));
        if !title.is_empty() {
            let style = Style::new().fg(Color::Reset).add_modifier(Modifier::BOLD);
            self.text(2, 0, &format!(" {title} "), style);
        }
        self.part(1, 1, w - 2, h - 2)
    }
}

/// Text cut to a width.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect()
}

/// Text cut to a width at its beginning.
pub fn cut_start(text: &str, width: usize) -> String {
    let n = text.chars().count();
    if n <= width {
        return text.to_string();
    }
    ['…'].into_iter().chain(text.chars().skip(n + 1 - width.max(1))).take(width).collect()
}

/// Text as lines of a width, broken between words where it can be.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(l) if l.chars().count() + 1 + word.chars().count() <= width => {
                l.push(' ');
                l.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// The first row to show, so that the chosen one is seen.
pub fn scroll(selected: usize, rows: usize, length: usize) -> usize {
    let most = length.saturating_sub(rows);
    selected.saturating_sub(rows / 2).min(most)
}

/// A share in per cent.
pub fn percent(part: f64, whole: f64) -> String {
    format!("{:.1} %", if whole > 0.0 { 100.0 * part / whole } else { 0.0 })
}
