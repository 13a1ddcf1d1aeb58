//! The operations, longest first.

use crate::App;
use crate::theme::bold;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::{Block, Cell, Row, Table};
use systole_runtime::report::text::metric;

pub fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let s = &app.snapshot;
    let rows = s.ops.iter().skip(app.scroll).take(area.height as usize).map(|o| {
        let share = 100.0 * o.cycles as f64 / s.cycles.max(1) as f64;
        Row::new([
            Cell::new(o.name.as_str()),
            Cell::new(o.opcode.as_str()),
            Cell::new(format!("{:>12}", o.cycles)),
            Cell::new(format!("{share:>5.1} %")),
            Cell::new(format!("{:>9}", metric(o.flops))),
            Cell::new(format!("{:>9}", metric(o.bytes as f64))),
            Cell::new(o.bound.as_str()),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(12),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(6),
    ];
    let header = ["operation", "opcode", "      cycles", "  share", "     flop", "HBM bytes", "bound"];
    let title = format!(" operations {}/{} ", (app.scroll + 1).min(s.ops.len()), s.ops.len());
    let table = Table::new(rows, widths).header(Row::new(header).style(bold())).block(Block::bordered().title(title));
    frame.render_widget(table, area);
}
