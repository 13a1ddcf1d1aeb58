//! The key table: the single declaration of what keys do. Help pages and the line of hints come from it.

use super::{Step, View};

/// A key without its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub code: Code,
    pub ctrl: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
}

impl Key {
    pub const fn plain(code: Code) -> Key {
        Key { code, ctrl: false }
    }

    /// The key as help shows it.
    pub fn name(self) -> String {
        let name = match self.code {
            Code::Char(' ') => "space".into(),
            Code::Char(c) => c.to_string(),
            Code::Up => "↑".into(),
            Code::Down => "↓".into(),
            Code::Left => "←".into(),
            Code::Right => "→".into(),
            Code::PageUp => "PgUp".into(),
            Code::PageDown => "PgDn".into(),
            Code::Home => "Home".into(),
            Code::End => "End".into(),
            Code::Enter => "Enter".into(),
            Code::Esc => "Esc".into(),
            Code::Tab => "Tab".into(),
            Code::BackTab => "S-Tab".into(),
            Code::Backspace => "BkSp".into(),
        };
        if self.ctrl { format!("C-{name}") } else { name }
    }

    /// Keys of a script: characters, and names in angle brackets (`3jj/dot<enter><left>`).
    pub fn script(text: &str) -> Vec<Key> {
        const NAMES: &[(&str, Code)] = &[
            ("up", Code::Up),
            ("down", Code::Down),
            ("left", Code::Left),
            ("right", Code::Right),
            ("pgup", Code::PageUp),
            ("pgdn", Code::PageDown),
            ("home", Code::Home),
            ("end", Code::End),
            ("enter", Code::Enter),
            ("esc", Code::Esc),
            ("tab", Code::Tab),
            ("backtab", Code::BackTab),
            ("backspace", Code::Backspace),
            ("space", Code::Char(' ')),
        ];
        let mut keys = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let named = rest
                .strip_prefix('<')
                .and_then(|r| r.split_once('>'))
                .and_then(|(name, after)| NAMES.iter().find(|n| n.0 == name).map(|n| (n.1, after)));
            let (code, after) = named.unwrap_or((Code::Char(c), &rest[c.len_utf8()..]));
            keys.push(Key::plain(code));
            rest = after;
        }
        keys
    }
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Show(View),
    NextView,
    PreviousView,
    Help,
    Filter,
    Command,
    Expand,
    Freeze,
    Write,
    Theme,
    Device,
    AllDevices,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    CursorLeft,
    CursorRight,
    PreviousEvent,
    NextEvent,
    PanLeft,
    PanRight,
    ZoomIn,
    ZoomOut,
    ZoomAll,
    Open,
    Back,
    Sort,
    Reverse,
    Pause,
    Step(Step),
    Faster,
    Slower,
    Rerun,
}

/// A row of the table: in which views (none named: all) which keys do what.
pub struct Binding {
    pub views: &'static [View],
    pub keys: &'static [Key],
    pub action: Action,
    pub help: &'static str,
    /// Shown in the line of hints, in these words.
    pub hint: bool,
    pub short: &'static str,
}

impl Binding {
    /// Whether it needs a run in progress.
    pub fn live(&self) -> bool {
        matches!(self.action, Action::Pause | Action::Step(_) | Action::Faster | Action::Slower)
    }
}

const fn c(c: char) -> Key {
    Key::plain(Code::Char(c))
}

const fn k(code: Code) -> Key {
    Key::plain(code)
}

const TIMED: &[View] = &[View::Timeline, View::Memory, View::Program, View::Overview];
const LISTS: &[View] = &[View::Operations, View::Roofline];

macro_rules! keys {
    ($($views:expr, [$($key:expr),+], $action:expr, $help:literal $(, hint $short:literal)?;)+) => {
        &[$(Binding {
            views: $views, keys: &[$($key),+], action: $action, help: $help,
            hint: keys!(@ $($short)?), short: concat!($($short)?),
        }),+]
    };
    (@) => { false };
    (@ $short:literal) => { true };
}

/// Every key. The first row that fits the view and the key wins.
#[rustfmt::skip]
pub const KEYS: &[Binding] = keys! {
    &[], [c('1')], Action::Show(View::Overview), "overview";
    &[], [c('2')], Action::Show(View::Timeline), "timeline";
    &[], [c('3')], Action::Show(View::Operations), "operations";
    &[], [c('4')], Action::Show(View::Roofline), "roofline";
    &[], [c('5')], Action::Show(View::Memory), "memory";
    &[], [c('6')], Action::Show(View::Stalls), "stalls";
    &[], [c('7')], Action::Show(View::Links), "interconnect";
    &[], [c('8')], Action::Show(View::Program), "program";
    &[], [c('9')], Action::Show(View::Chip), "chip";
    &[], [k(Code::Tab)], Action::NextView, "next view";
    &[], [k(Code::BackTab)], Action::PreviousView, "previous view";
    &[], [k(Code::Up), c('k')], Action::Up, "row up";
    &[], [k(Code::Down), c('j')], Action::Down, "row down";
    &[], [k(Code::PageUp)], Action::PageUp, "page up";
    &[], [k(Code::PageDown)], Action::PageDown, "page down";
    &[], [k(Code::Home), c('g')], Action::First, "first row";
    &[], [k(Code::End), c('G')], Action::Last, "last row";
    &[], [c(' '), c('p')], Action::Pause, "pause, go on (live)", hint "pause";
    &[], [c('.')], Action::Step(Step::Bundle), "step a bundle (live)";
    &[], [c(',')], Action::Step(Step::Kernel), "step a kernel (live)";
    &[], [c(';')], Action::Step(Step::Op), "step an operation (live)", hint "step";
    &[], [c('>')], Action::Faster, "faster (live)";
    &[], [c('<')], Action::Slower, "slower (live)";
    TIMED, [k(Code::Left), c('h')], Action::CursorLeft, "cursor back";
    TIMED, [k(Code::Right), c('l')], Action::CursorRight, "cursor on", hint "cursor";
    TIMED, [c('b')], Action::PreviousEvent, "to the span before";
    TIMED, [c('n')], Action::NextEvent, "to the next span", hint "next span";
    TIMED, [c('+'), c('=')], Action::ZoomIn, "zoom in at the cursor", hint "zoom";
    TIMED, [c('-')], Action::ZoomOut, "zoom out", hint "out";
    TIMED, [c('0')], Action::ZoomAll, "the whole run";
    TIMED, [c('[')], Action::PanLeft, "pan back";
    TIMED, [c(']')], Action::PanRight, "pan on";
    &[View::Timeline], [c('a')], Action::AllDevices, "all devices and links";
    LISTS, [c('s')], Action::Sort, "sort by the next column", hint "sort";
    LISTS, [c('r')], Action::Reverse, "other direction";
    &[View::Operations, View::Roofline, View::Timeline, View::Stalls], [k(Code::Enter)], Action::Open, "look inside", hint "look inside";
    &[View::Chip], [k(Code::Enter)], Action::Open, "change the parameter", hint "change";
    &[View::Chip], [c('r')], Action::Rerun, "run again with the changes", hint "run again";
    &[], [k(Code::Esc), k(Code::Backspace)], Action::Back, "one step back";
    &[], [c('/')], Action::Filter, "filter", hint "filter";
    &[], [c(':')], Action::Command, "command", hint "command";
    &[], [c('?')], Action::Help, "this help", hint "help";
    &[], [c('e')], Action::Expand, "the whole screen for the view";
    &[], [c('f')], Action::Freeze, "freeze what is shown";
    &[], [c('w')], Action::Write, "write a picture (`:w NAME`)";
    &[], [c('t')], Action::Theme, "next theme";
    &[], [c('d')], Action::Device, "next device";
    &[], [c('q'), Key { code: Code::Char('c'), ctrl: true }], Action::Quit, "quit", hint "quit";
};

/// What a key does in a view.
pub fn action(view: View, key: Key) -> Option<Action> {
    bindings(view).find(|b| b.keys.contains(&key)).map(|b| b.action)
}

/// The key that shows a view.
pub fn of_view(view: View) -> Option<Key> {
    KEYS.iter().find(|b| b.action == Action::Show(view)).and_then(|b| b.keys.first().copied())
}

/// The rows of a view.
pub fn bindings(view: View) -> impl Iterator<Item = &'static Binding> {
    KEYS.iter().filter(move |b| b.views.is_empty() || b.views.contains(&view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_has_a_key() {
        for view in View::ALL {
            assert!(of_view(view).is_some(), "no key shows `{}`", view.name());
        }
    }

    /// A row that names its views is not hidden by one above it.
    #[test]
    fn keys_of_a_view_are_reached() {
        for b in KEYS {
            for (&view, &key) in b.views.iter().flat_map(|v| b.keys.iter().map(move |k| (v, k))) {
                let found = action(view, key);
                assert_eq!(found, Some(b.action), "`{}` in `{}`, \"{}\"", key.name(), view.name(), b.help);
            }
        }
    }
}
