//! The state after an event.

use super::keys::{self, Action, Code, Key};
use super::{App, Effect, Event, Help, Hit, HitBox, Input, InputKind, Phase, Sort, View, command};
use crate::data::Data;
use std::sync::Arc;
use systole_runtime::profile::{LaneKind, diff};

/// Rows of a page.
const PAGE: usize = 10;

/// Changes the state; gives what the world has to do.
pub fn update(app: &mut App, event: Event) -> Vec<Effect> {
    match event {
        Event::Key(key) => on_key(app, key),
        Event::Press { x, y, hits } => press(app, x, y, &hits),
        Event::Hover { x, y, hits } => {
            app.hover = match hit(&hits, x, y) {
                Some((at, Hit::Lane { lane, from, to })) => Some((lane, cycle_at(at, x, from, to))),
                _ => None,
            };
            Vec::new()
        }
        Event::Wheel { up } => match (app.view, up) {
            (View::Timeline | View::Memory, true) => act(app, Action::ZoomIn),
            (View::Timeline | View::Memory, false) => act(app, Action::ZoomOut),
            (_, true) => act(app, Action::Up),
            (_, false) => act(app, Action::Down),
        },
        Event::Resize { width, height } => {
            app.size = (width, height);
            Vec::new()
        }
        Event::Data(data) => {
            let paused = app.phase == Phase::Paused;
            app.take(data);
            if paused {
                app.follow();
            }
            Vec::new()
        }
        Event::Phase(phase) => {
            let stopped = phase == Phase::Paused && app.phase != Phase::Paused;
            app.phase = phase;
            if stopped {
                app.follow();
            }
            Vec::new()
        }
        Event::Rerun(data) => {
            // What-ifs are compared with the run that they started from, not with each other.
            let base = app.before.clone().or_else(|| app.data.clone());
            let change = base.as_ref().map_or(String::new(), |b| diff::change(&b.profile, &data.profile));
            app.message = format!("with {}: {change}", app.sets.join(" "));
            app.before = base;
            app.frozen = None;
            app.take(data);
            Vec::new()
        }
        Event::Message(m) => {
            app.message = m;
            Vec::new()
        }
    }
}

impl App {
    /// Takes news; what was shown as a whole stays so.
    fn take(&mut self, data: Arc<Data>) {
        let old = self.data.as_ref().map_or(1, |d| d.cycles());
        if self.from == 0 && self.to >= old {
            self.to = data.cycles();
        }
        self.device = self.device.min(data.profile.meta.devices.len().saturating_sub(1));
        if self.drill.is_some_and(|d| data.device(self.device).is_none_or(|m| d >= m.ops.len())) {
            self.drill = None;
        }
        self.data = Some(data);
        self.clamp();
    }

    /// Puts the cursor where the run in progress stands: it stopped there, or was stepped there.
    fn follow(&mut self) {
        let at = self.data.as_ref().and_then(|d| d.places.get(self.device)).map(|p| p.0);
        if let Some(cycle) = at.filter(|_| self.frozen.is_none()) {
            self.selected[View::Program as usize] = 0;
            self.look_at(cycle);
        }
    }

    /// Keeps everything inside what there is.
    pub fn clamp(&mut self) {
        let cycles = self.shown().map_or(1, |d| d.cycles());
        self.to = self.to.clamp(1, cycles);
        self.from = self.from.min(self.to - 1);
        self.cursor = self.cursor.min(cycles - 1);
        let last = self.list_len().saturating_sub(1);
        let at = &mut self.selected[self.view as usize];
        *at = (*at).min(last);
    }

    /// Moves the cursor, and what is shown with it.
    pub fn look_at(&mut self, cycle: u64) {
        self.cursor = cycle;
        let width = self.to - self.from;
        self.clamp();
        if self.cursor < self.from || self.cursor >= self.to {
            let from = self.cursor.saturating_sub(width / 2);
            self.zoom_to(from, from + width);
        }
    }

    /// Shows cycles `from..to`.
    pub fn zoom_to(&mut self, from: u64, to: u64) {
        let cycles = self.shown().map_or(1, |d| d.cycles());
        let width = (to.saturating_sub(from)).clamp(1, cycles);
        self.from = from.min(cycles - width);
        self.to = self.from + width;
        self.cursor = self.cursor.clamp(self.from, self.to - 1);
        self.clamp();
    }

    /// Zooms around the cursor to `width` cycles.
    fn zoom(&mut self, width: u64) {
        let width = width.max(8);
        let part = (self.cursor - self.from.min(self.cursor)) as f64 / (self.to - self.from).max(1) as f64;
        let from = self.cursor.saturating_sub((width as f64 * part) as u64);
        self.zoom_to(from, from.saturating_add(width));
    }

    /// The spans that `n` and `b` go along: those of the selected lane, else of operations.
    fn neighbour(&self, on: bool) -> Option<u64> {
        let data = self.shown()?;
        let lanes = self.lanes();
        let chosen = lanes.get(self.selected[View::Timeline as usize]).map(|l| &data.lanes[*l]);
        let lane = chosen
            .filter(|l| self.view == View::Timeline && l.spans(&data.profile).is_some())
            .or_else(|| data.lanes.iter().find(|l| l.device == self.device && l.kind == LaneKind::Ops))?;
        let spans = lane.spans(&data.profile)?;
        let i = spans.start.partition_point(|s| *s <= self.cursor);
        if on {
            return spans.start.get(i).copied();
        }
        let current = i.checked_sub(1)?;
        let at = if spans.start[current] < self.cursor { current } else { current.checked_sub(1)? };
        Some(spans.start[at])
    }
}

fn on_key(app: &mut App, key: Key) -> Vec<Effect> {
    if app.input.is_some() {
        return typed(app, key);
    }
    app.message.clear();
    match keys::action(app.view, key) {
        Some(Action::Quit) => vec![Effect::Quit],
        action if app.help != Help::None => {
            let more = app.help == Help::Keys && action == Some(Action::Help);
            app.help = if more { Help::Words } else { Help::None };
            Vec::new()
        }
        Some(action) => act(app, action),
        None => Vec::new(),
    }
}

/// A key of a line that is typed.
fn typed(app: &mut App, key: Key) -> Vec<Effect> {
    let Some(mut input) = app.input.take() else { return Vec::new() };
    match key.code {
        Code::Esc => {
            if input.kind == InputKind::Filter {
                app.listing.filter.clear();
                app.clamp();
            }
            return Vec::new();
        }
        Code::Char('c') if key.ctrl => return Vec::new(),
        Code::Enter => {
            if input.kind == InputKind::Command {
                let done = command::run(app, &input.text);
                app.clamp();
                return done.unwrap_or_else(|e| {
                    app.message = e;
                    Vec::new()
                });
            }
            return Vec::new();
        }
        Code::Tab | Code::BackTab if input.kind == InputKind::Command => {
            let all = command::completions(app, &input.stem);
            if !all.is_empty() {
                input.text = all[input.choice % all.len()].clone();
                input.choice += 1;
                if all.len() == 1 {
                    input.stem = input.text.clone();
                    input.choice = 0;
                }
            }
        }
        Code::Backspace => {
            if input.text.pop().is_none() {
                return Vec::new();
            }
            (input.stem, input.choice) = (input.text.clone(), 0);
        }
        Code::Char(c) if !key.ctrl && input.text.len() < 200 => {
            input.text.push(c);
            (input.stem, input.choice) = (input.text.clone(), 0);
        }
        Code::Char(_)
        | Code::Up
        | Code::Down
        | Code::Left
        | Code::Right
        | Code::PageUp
        | Code::PageDown
        | Code::Home
        | Code::End
        | Code::Tab
        | Code::BackTab => {}
    }
    if input.kind == InputKind::Filter {
        app.listing.filter = input.text.clone();
        app.clamp();
    }
    app.input = Some(input);
    Vec::new()
}

fn hit(hits: &[HitBox], x: u16, y: u16) -> Option<HitBox> {
    let inside = |h: &&HitBox| {
        let [left, top, width, height] = h.0;
        x >= left && y >= top && x - left < width && y - top < height
    };
    hits.iter().rev().find(inside).copied()
}

/// The cycle of a column.
fn cycle_at(at: [u16; 4], x: u16, from: u64, to: u64) -> u64 {
    let column = x.saturating_sub(at[0]) as u128;
    from + ((to - from) as u128 * (2 * column + 1) / (2 * at[2].max(1) as u128)) as u64
}

fn press(app: &mut App, x: u16, y: u16, hits: &[HitBox]) -> Vec<Effect> {
    if app.help != Help::None {
        app.help = Help::None;
        return Vec::new();
    }
    match hit(hits, x, y) {
        Some((_, Hit::View(v))) => return act(app, Action::Show(v)),
        Some((_, Hit::Row(row))) => {
            if app.selected() == row && matches!(app.view, View::Operations | View::Roofline) {
                return act(app, Action::Open);
            }
            app.selected[app.view as usize] = row;
        }
        Some((_, Hit::Sort(s))) if app.listing.sort == s => app.listing.reverse = !app.listing.reverse,
        Some((_, Hit::Sort(s))) => app.listing.sort = s,
        Some((at, Hit::Time { from, to })) => app.cursor = cycle_at(at, x, from, to),
        Some((at, Hit::Lane { lane, from, to })) => {
            app.cursor = cycle_at(at, x, from, to);
            if let Some(row) = app.lanes().iter().position(|l| *l == lane) {
                app.selected[View::Timeline as usize] = row;
            }
        }
        None => {}
    }
    app.clamp();
    Vec::new()
}

fn act(app: &mut App, action: Action) -> Vec<Effect> {
    let width = app.to - app.from;
    let mut effects = Vec::new();
    let list = app.list_len();
    let move_to = |app: &mut App, row: usize| app.selected[app.view as usize] = row.min(list.saturating_sub(1));
    let row = app.selected();
    match action {
        Action::Quit => effects.push(Effect::Quit),
        Action::Show(v) => (app.view, app.drill, app.hover) = (v, None, None),
        Action::NextView | Action::PreviousView => {
            let by = if action == Action::NextView { 1 } else { View::ALL.len() - 1 };
            app.view = View::ALL[(app.view as usize + by) % View::ALL.len()];
            (app.drill, app.hover) = (None, None);
        }
        Action::Help => app.help = Help::Keys,
        Action::Filter | Action::Command => {
            let kind = if action == Action::Filter { InputKind::Filter } else { InputKind::Command };
            app.input = Some(Input { kind, text: String::new(), choice: 0, stem: String::new() });
        }
        Action::Expand => app.expand = !app.expand,
        Action::Freeze => app.frozen = if app.frozen.is_some() { None } else { app.data.clone() },
        Action::Write => effects.push(Effect::Write(app.default_file())),
        Action::Theme => app.theme.next(),
        Action::Device => {
            let n = app.shown().map_or(1, |d| d.profile.meta.devices.len()).max(1);
            app.device = (app.device + 1) % n;
            effects.push(Effect::Device(app.device));
        }
        Action::AllDevices => app.all_devices = !app.all_devices,
        Action::Up => move_to(app, row.saturating_sub(1)),
        Action::Down => move_to(app, row + 1),
        Action::PageUp => move_to(app, row.saturating_sub(PAGE)),
        Action::PageDown => move_to(app, row + PAGE),
        Action::First => move_to(app, 0),
        Action::Last => move_to(app, usize::MAX),
        Action::CursorLeft => app.look_at(app.cursor.saturating_sub((width / 64).max(1))),
        Action::CursorRight => app.look_at(app.cursor.saturating_add((width / 64).max(1))),
        Action::PreviousEvent | Action::NextEvent => {
            if let Some(at) = app.neighbour(action == Action::NextEvent) {
                app.look_at(at);
            }
        }
        Action::PanLeft => app.zoom_to(app.from.saturating_sub(width / 4), app.to.saturating_sub(width / 4).max(width)),
        Action::PanRight => app.zoom_to(app.from.saturating_add(width / 4), app.to.saturating_add(width / 4)),
        Action::ZoomIn => app.zoom(width / 2),
        Action::ZoomOut => app.zoom(width.saturating_mul(2)),
        Action::ZoomAll => app.zoom_to(0, u64::MAX),
        Action::Open => open(app),
        Action::Back => back(app),
        Action::Sort => {
            let at = Sort::ALL.iter().position(|s| *s == app.listing.sort).unwrap_or(0);
            app.listing.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
        }
        Action::Reverse => app.listing.reverse = !app.listing.reverse,
        Action::Pause | Action::Step(_) | Action::Faster | Action::Slower => effects = live(app, action),
        Action::Rerun if app.sets.is_empty() => app.message = "Enter changes a parameter first".into(),
        Action::Rerun => {
            app.message = "running again".into();
            effects.push(Effect::Rerun(app.sets.clone()));
        }
    }
    app.clamp();
    effects
}

/// Keys of live runs.
#[allow(clippy::wildcard_enum_match_arm, reason = "the callers send nothing else here")]
fn live(app: &mut App, action: Action) -> Vec<Effect> {
    if matches!(app.phase, Phase::Replay | Phase::Done | Phase::Failed(_)) {
        app.message = "this needs a run in progress: systole top MODULE".into();
        return Vec::new();
    }
    const SPEEDS: &[u64] = &[100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    match action {
        Action::Pause => vec![Effect::Pause(app.phase != Phase::Paused)],
        Action::Step(s) => vec![Effect::Step(s)],
        Action::Faster => {
            app.speed = app.speed.and_then(|now| SPEEDS.iter().copied().find(|s| *s > now));
            vec![Effect::Speed(app.speed)]
        }
        _ => {
            let now = app.speed.unwrap_or(u64::MAX);
            app.speed = SPEEDS.iter().rev().copied().find(|s| *s < now).or(Some(SPEEDS[0]));
            vec![Effect::Speed(app.speed)]
        }
    }
}

/// Looks inside what is selected.
fn open(app: &mut App) {
    let row = app.selected();
    match app.view {
        View::Operations | View::Roofline => {
            app.drill = app.rows().get(row).copied();
            app.view = View::Operations;
        }
        View::Timeline => {
            let Some(data) = app.shown().cloned() else { return };
            let at = data.trace(app.device).and_then(|t| t.ops.at(app.cursor));
            let rows = data.device(app.device).map_or(&[][..], |d| &d.ops);
            app.drill = at.and_then(|(_, s)| rows.iter().position(|o| o.op == Some(s.id)));
            if app.drill.is_some() {
                app.view = View::Operations;
            }
        }
        View::Stalls => {
            app.listing.sort = Sort::Stalled;
            app.view = View::Operations;
        }
        View::Chip => {
            let key = crate::views::chip::params(app).get(row).map(|p| p.0.clone());
            if let Some(key) = key {
                let text = format!("set {key}=");
                app.input = Some(Input { kind: InputKind::Command, stem: text.clone(), text, choice: 0 });
            }
        }
        View::Overview | View::Memory | View::Links | View::Program => {}
    }
}

/// One step back.
fn back(app: &mut App) {
    if app.drill.take().is_some() {
    } else if !app.listing.filter.is_empty() {
        app.listing.filter.clear();
    } else if app.frozen.take().is_some() {
    } else {
        app.expand = false;
    }
}
