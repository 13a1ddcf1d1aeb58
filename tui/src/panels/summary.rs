//! What runs, how far it is, what bounds it, and on which chip.

use crate::App;
use crate::theme::{bold, plain};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Color;
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Wrap};
use systole_runtime::snapshot::Phase;

/// Lines of the panel, borders included.
pub const HEIGHT: u16 = 7;

pub fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let [left, right] = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(1)]).areas(area);
    let s = &app.snapshot;
    let mut lines = match &s.phase {
        Phase::Compiling => vec![Line::raw("compiling")],
        Phase::Running { cycle, bundles } => {
            vec![Line::raw(format!("running: cycle {cycle}, {bundles} bundles"))]
        }
        Phase::Done => s.totals.iter().map(|t| Line::raw(t.as_str())).collect(),
        Phase::Failed(why) => why.lines().map(|l| Line::styled(l, plain(Color::Red))).collect(),
    };
    if s.phase == Phase::Done && s.cycles > 0 {
        lines.push(Line::styled(format!("bound by {}: {}", s.bound, s.bound_words), bold()));
    }
    let title = format!(" {} ", s.program);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(Block::bordered().title(title)), left);
    let chip: Vec<Line<'_>> = s.chip.iter().map(|l| Line::raw(l.as_str())).collect();
    frame.render_widget(Paragraph::new(chip).block(Block::bordered().title(" chip ")), right);
}
