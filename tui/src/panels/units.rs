//! A bar for each unit: useful, busy, stalled (with the causes in words), idle.

use crate::App;
use crate::theme::Part;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use systole_runtime::snapshot::UnitLine;

/// Columns of a unit's name and of the numbers behind the bar.
const NAME: u16 = 8;
const NUMBERS: u16 = 44;

pub fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let inner = area.width.saturating_sub(2);
    let bar = inner.saturating_sub(NAME + NUMBERS).clamp(8, 80) as usize;
    let mut lines = vec![legend()];
    lines.extend(app.snapshot.units.iter().map(|u| line(u, app.snapshot.cycles, bar)));
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" units ")), area);
}

fn legend() -> Line<'static> {
    let parts = [(Part::Useful, "useful"), (Part::Busy, "busy"), (Part::Stalled, "stalled"), (Part::Idle, "idle")];
    let mut spans = vec![Span::raw(" ".repeat(NAME as usize))];
    for (p, name) in parts {
        spans.push(Span::styled(p.symbol(), p.style()));
        spans.push(Span::raw(format!(" {name}  ")));
    }
    Line::from(spans)
}

/// Cells of a bar of `width` for the parts of a unit: they sum to `width`.
fn cells(u: &UnitLine, cycles: u64, width: usize) -> [(Part, usize); 4] {
    let scale = width as f64 / cycles.max(1) as f64;
    let stalled: u64 = u.stall.iter().map(|s| s.1).sum();
    let at = |c: f64| ((c * scale).round() as usize).min(width);
    let useful = at(u.useful);
    let busy = at(u.busy as f64).max(useful);
    let stall = at((u.busy + stalled) as f64).max(busy);
    [(Part::Useful, useful), (Part::Busy, busy - useful), (Part::Stalled, stall - busy), (Part::Idle, width - stall)]
}

fn line(u: &UnitLine, cycles: u64, width: usize) -> Line<'static> {
    let mut spans = vec![Span::raw(format!("{:<1$}", u.unit, NAME as usize))];
    spans.extend(cells(u, cycles, width).map(|(p, n)| Span::styled(p.symbol().repeat(n), p.style())));
    let share = |c: u64| 100.0 * c as f64 / cycles.max(1) as f64;
    let mut stall: Vec<&(String, u64)> = u.stall.iter().filter(|s| s.1 > 0).collect();
    stall.sort_by_key(|s| (std::cmp::Reverse(s.1), &s.0));
    let causes: Vec<String> = stall.iter().take(2).map(|(c, n)| format!("{c} {:.1} %", share(*n))).collect();
    spans.push(Span::raw(format!(" {:>5.1} % busy  {}", share(u.busy), causes.join(", "))));
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fill_the_bar() {
        for (useful, busy, stall) in [(0.0, 0, 0), (10.0, 33, 33), (50.0, 50, 50), (99.9, 100, 0)] {
            let idle = 100 - busy - stall;
            let u = UnitLine { unit: "x".into(), useful, busy, stall: vec![("dma".into(), stall)], idle };
            assert_eq!(cells(&u, 100, 37).iter().map(|c| c.1).sum::<usize>(), 37, "{busy} {stall}");
        }
    }
}
