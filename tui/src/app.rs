//! The dashboard's state, and how it changes.

use systole_runtime::snapshot::Snapshot;

/// Everything that a frame is drawn from.
#[derive(Clone, Debug)]
pub struct App {
    pub snapshot: Snapshot,
    /// First operation shown.
    pub scroll: usize,
}

/// A key by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Action {
    Key(Key),
    Snapshot(Box<Snapshot>),
}

/// Lines of a page.
const PAGE: usize = 10;

impl App {
    pub fn new(snapshot: Snapshot) -> App {
        App { snapshot, scroll: 0 }
    }
}

/// Changes the state; `true`: the user leaves.
pub fn update(app: &mut App, action: Action) -> bool {
    match action {
        Action::Snapshot(s) => app.snapshot = *s,
        Action::Key(Key::Quit) => return true,
        Action::Key(Key::Up) => app.scroll = app.scroll.saturating_sub(1),
        Action::Key(Key::Down) => app.scroll += 1,
        Action::Key(Key::PageUp) => app.scroll = app.scroll.saturating_sub(PAGE),
        Action::Key(Key::PageDown) => app.scroll += PAGE,
        Action::Key(Key::Top) => app.scroll = 0,
    }
    app.scroll = app.scroll.min(app.snapshot.ops.len().saturating_sub(1));
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_runtime::snapshot::OpLine;

    #[test]
    fn scrolling_stays_inside_the_list() {
        let mut snapshot = Snapshot::compiling("x");
        let op =
            OpLine { name: "a".into(), opcode: "add".into(), cycles: 1, flops: 0.0, bytes: 0, bound: "vpu".into() };
        snapshot.ops = vec![op; 4];
        let mut app = App::new(snapshot);
        for (key, at) in [(Key::Up, 0), (Key::Down, 1), (Key::PageDown, 3), (Key::Down, 3), (Key::Top, 0)] {
            assert!(!update(&mut app, Action::Key(key)));
            assert_eq!(app.scroll, at, "{key:?}");
        }
        assert!(update(&mut app, Action::Key(Key::Quit)));
    }
}
