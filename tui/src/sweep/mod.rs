//! The screen of a sweep: points as they come, two objectives as axes, two points compared.
//!
//! It knows plain data ([`SweepData`]) and nothing of how points are run; what it wants done leaves as a [`Wish`].

mod draw;
mod terminal;

pub use terminal::run;

use crate::Theme;
use crate::app::{Code, Key};
use ratatui::buffer::Buffer;

/// How a point stands to the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Missing,
    Failed,
    /// It breaks a constraint.
    Unbuildable,
    Dominated,
    /// Dominated, but not in enough of the draws.
    Perhaps,
    Front,
}

/// A point of the sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    pub id: String,
    pub program: String,
    /// Chip and parameters in words, and what of them is not the same for all points, in few.
    pub design: String,
    pub label: String,
    pub standing: Standing,
    /// Why it failed, or which constraints it breaks.
    pub notes: String,
    /// In the order of [`SweepData::columns`]; none where it has no result.
    pub numbers: Vec<f64>,
}

/// What is known of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepData {
    pub name: String,
    pub columns: Vec<String>,
    /// Places of the objectives in the columns.
    pub objectives: Vec<usize>,
    pub points: Vec<SweepPoint>,
}

impl SweepData {
    /// Points done, failed, missing.
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |s: Standing| self.points.iter().filter(|p| p.standing == s).count();
        let (failed, missing) = (of(Standing::Failed), of(Standing::Missing));
        (self.points.len() - failed - missing, failed, missing)
    }
}

/// What the screen wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    Quit,
    /// Shows the profile of a point.
    Open(String),
    /// Says why the second point is better than the first.
    Compare(String, String),
}

/// The screen's state.
#[derive(Clone, Debug)]
pub struct SweepApp {
    pub data: SweepData,
    pub theme: Theme,
    /// Columns of the axes.
    pub x: usize,
    pub y: usize,
    /// Place in the order of the table.
    pub selected: usize,
    /// Marked points, by id.
    pub marks: Vec<String>,
    /// The comparison of the marked points, while it is shown.
    pub compared: Option<Vec<String>>,
    pub message: String,
    /// Points done and failed at the start, and how many came a second since.
    pub rate: f64,
}

impl SweepApp {
    pub fn new(data: SweepData, theme: Theme) -> SweepApp {
        let (x, y) = (data.objectives.first().copied().unwrap_or(0), data.objectives.get(1).copied().unwrap_or(0));
        SweepApp {
            data,
            theme,
            x,
            y,
            selected: 0,
            marks: Vec::new(),
            compared: None,
            message: String::new(),
            rate: 0.0,
        }
    }

    /// Places of the points in the table's order: the front first, by the first axis.
    pub fn order(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.data.points.len()).collect();
        let value = |i: usize| self.data.points[i].numbers.get(self.x).copied().unwrap_or(f64::INFINITY);
        all.sort_by(|&a, &b| {
            let (p, q) = (&self.data.points[a], &self.data.points[b]);
            q.standing.cmp(&p.standing).then(value(a).total_cmp(&value(b))).then(a.cmp(&b))
        });
        all
    }

    /// New data; what is selected stays.
    pub fn update(&mut self, data: SweepData) {
        let id = self.order().get(self.selected).map(|&i| self.data.points[i].id.clone());
        self.data = data;
        let place = self.order().iter().position(|&i| Some(&self.data.points[i].id) == id.as_ref());
        self.selected = place.unwrap_or(self.selected).min(self.data.points.len().saturating_sub(1));
    }

    /// What a key does.
    pub fn key(&mut self, key: Key) -> Option<Wish> {
        let columns = self.data.columns.len().max(1);
        let last = self.data.points.len().saturating_sub(1);
        self.message.clear();
        if key.ctrl {
            return matches!(key.code, Code::Char('c')).then_some(Wish::Quit);
        }
        match key.code {
            Code::Char('q') => return Some(Wish::Quit),
            Code::Esc if self.compared.take().is_some() => {}
            Code::Esc => return Some(Wish::Quit),
            Code::Char('x') => self.x = (self.x + 1) % columns,
            Code::Char('X') => self.x = (self.x + columns - 1) % columns,
            Code::Char('y') => self.y = (self.y + 1) % columns,
            Code::Char('Y') => self.y = (self.y + columns - 1) % columns,
            Code::Down | Code::Char('j') => self.selected = (self.selected + 1).min(last),
            Code::Up | Code::Char('k') => self.selected = self.selected.saturating_sub(1),
            Code::PageDown => self.selected = (self.selected + 10).min(last),
            Code::PageUp => self.selected = self.selected.saturating_sub(10),
            Code::Home => self.selected = 0,
            Code::End => self.selected = last,
            Code::Char('m') | Code::Char(' ') => self.mark(),
            Code::Char('c') => return self.compare(),
            Code::Enter => return self.open(),
            Code::Char(_) | Code::Left | Code::Right | Code::Tab | Code::BackTab | Code::Backspace => {}
        }
        None
    }

    fn chosen(&self) -> Option<&SweepPoint> {
        self.order().get(self.selected).map(|&i| &self.data.points[i])
    }

    fn mark(&mut self) {
        let Some(id) = self.chosen().map(|p| p.id.clone()) else { return };
        match self.marks.iter().position(|m| *m == id) {
            Some(at) => {
                self.marks.remove(at);
            }
            None => self.marks.push(id),
        }
        if self.marks.len() > 2 {
            self.marks.remove(0);
        }
    }

    fn compare(&mut self) -> Option<Wish> {
        match &self.marks[..] {
            [a, b] => Some(Wish::Compare(a.clone(), b.clone())),
            _ => {
                self.message = "mark two points with m first".into();
                None
            }
        }
    }

    fn open(&mut self) -> Option<Wish> {
        match self.chosen() {
            Some(p) if p.standing > Standing::Failed => Some(Wish::Open(p.id.clone())),
            _ => {
                self.message = "this point has no result".into();
                None
            }
        }
    }
}

/// One frame, without a terminal.
pub fn frame(app: &SweepApp, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(crate::views::area(width, height));
    draw::draw(app, &mut buffer);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> SweepData {
        let point = |i: usize, standing, numbers: &[f64]| SweepPoint {
            id: format!("p{i}"),
            program: "mlp".into(),
            design: format!("tiny clock=1 GHz mxu.count={i}"),
            label: format!("count={i}"),
            standing,
            notes: String::new(),
            numbers: numbers.to_vec(),
        };
        SweepData {
            name: "test".into(),
            columns: vec!["time_s".into(), "energy_j".into(), "area_mm2".into()],
            objectives: vec![0, 1],
            points: vec![
                point(0, Standing::Dominated, &[3e-3, 3.0, 10.0]),
                point(1, Standing::Front, &[2e-3, 2.0, 12.0]),
                point(2, Standing::Front, &[1e-3, 4.0, 14.0]),
                point(3, Standing::Failed, &[]),
                point(4, Standing::Missing, &[]),
            ],
        }
    }

    fn keys(app: &mut SweepApp, text: &str) -> Vec<Wish> {
        Key::script(text).into_iter().filter_map(|k| app.key(k)).collect()
    }

    #[test]
    fn points_are_marked_compared_and_opened() {
        let mut app = SweepApp::new(data(), Theme::full());
        assert_eq!(app.data.counts(), (3, 1, 1));
        // The front comes first, in order of the first axis.
        assert_eq!(app.order(), [2, 1, 0, 3, 4]);
        assert_eq!(keys(&mut app, "c"), []);
        assert!(app.message.contains("mark two"));
        assert_eq!(keys(&mut app, "mjmc"), [Wish::Compare("p2".into(), "p1".into())]);
        assert_eq!(keys(&mut app, "<enter>"), [Wish::Open("p1".into())]);
        assert_eq!(keys(&mut app, "<end><enter>"), []);
        assert!(app.message.contains("no result"));
        keys(&mut app, "xY");
        assert_eq!((app.x, app.y), (1, 0));
        assert_eq!(keys(&mut app, "q"), [Wish::Quit]);
    }

    #[test]
    fn what_is_selected_stays_when_points_come() {
        let mut app = SweepApp::new(data(), Theme::full());
        keys(&mut app, "j");
        let mut more = data();
        more.points[4].standing = Standing::Front;
        more.points[4].numbers = vec![0.5e-3, 9.0, 9.0];
        app.update(more);
        assert_eq!(app.data.points[app.order()[app.selected]].id, "p1");
    }

    #[test]
    fn frames_of_any_size() {
        let mut app = SweepApp::new(data(), Theme::full());
        let text = crate::export::text(&frame(&app, 100, 30));
        for part in
            ["test: 3 of 5 done", "1 failed", "time_s", "energy_j", "mlp count=1", "clock=1 GHz mxu.count=2", "front"]
        {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
        app.compared = Some(vec!["p2 is 2.00 x faster".into()]);
        assert!(crate::export::text(&frame(&app, 100, 30)).contains("2.00 x faster"));
        for (w, h) in [(1, 1), (24, 6), (20, 40), (300, 5)] {
            frame(&app, w, h);
        }
    }
}
