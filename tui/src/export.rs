//! Frames as files: text, SVG, and the data behind them.

use crate::{App, Depth, Theme, frame};
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use std::fmt::Write;

/// A frame's text, line by line, without spaces at the ends.
pub fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// Width and height of a cell.
const CELL: (f64, f64) = (8.4, 17.0);

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a foreign type: themes use only these colors")]
fn rgb(c: Color, default: &str) -> String {
    match c {
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        _ => default.to_string(),
    }
}

/// A frame as a picture.
pub fn svg(buffer: &Buffer) -> String {
    let (w, h) = (buffer.area.width, buffer.area.height);
    let (width, height) = (w as f64 * CELL.0 + 16.0, h as f64 * CELL.1 + 16.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, \
         Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#15181c\"/>\n"
    );
    let (text, ground) = ("#dddddd", "#15181c");
    for y in 0..h {
        let mut x = 0;
        while x < w {
            let cell = &buffer[(x, y)];
            let look = (cell.fg, cell.bg, cell.modifier);
            let mut run = String::new();
            let begin = x;
            while x < w && (buffer[(x, y)].fg, buffer[(x, y)].bg, buffer[(x, y)].modifier) == look {
                run += buffer[(x, y)].symbol();
                x += 1;
            }
            let reversed = look.2.contains(Modifier::REVERSED);
            let (fg, bg) = (rgb(look.0, text), rgb(look.1, ground));
            let (fg, bg) = if reversed { (bg, fg) } else { (fg, bg) };
            let (px, py) = (8.0 + begin as f64 * CELL.0, 8.0 + y as f64 * CELL.1);
            let wide = (x - begin) as f64 * CELL.0;
            if bg != ground {
                let _ = writeln!(
                    out,
                    "<rect x=\"{px:.1}\" y=\"{py:.1}\" width=\"{wide:.1}\" height=\"{}\" fill=\"{bg}\"/>",
                    CELL.1
                );
            }
            if run.trim().is_empty() {
                continue;
            }
            let weight = if look.2.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
            let _ = writeln!(
                out,
                "<text x=\"{px:.1}\" y=\"{:.1}\" textLength=\"{wide:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
                 fill=\"{fg}\"{weight}>{}</text>",
                py + 13.0,
                escape(&run).replace(' ', "\u{a0}")
            );
        }
    }
    out + "</svg>\n"
}

/// The view in the form that a file's name asks for.
///
/// # Errors
/// If the ending is none of .svg, .txt, .json, or there is nothing to show yet.
pub fn for_file(app: &App, path: &str) -> Result<String, String> {
    let (width, height) = app.size;
    match path.rsplit('.').next() {
        Some("svg") => {
            let mut full = app.clone();
            full.theme = Theme { depth: Depth::Full, ascii: false, ..app.theme };
            full.message.clear();
            Ok(svg(&frame(&full, width, height)))
        }
        Some("txt") => Ok(text(&frame(app, width, height))),
        Some("json") => {
            if app.shown().is_none() {
                return Err("there is no profile yet".into());
            }
            serde_json::to_string_pretty(&crate::json::data(app)).map(|t| t + "\n").map_err(|e| e.to_string())
        }
        _ => Err(format!("`{path}`: a name ending in .svg, .txt or .json is expected")),
    }
}
