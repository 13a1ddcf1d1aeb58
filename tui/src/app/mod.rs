//! The dashboard's state, and how it changes: a key, a mouse event or news of a run gives the next state ([`update`]) and
//! what the world has to do for it ([`Effect`]). Nothing here draws, waits, or reads a clock.

pub mod command;
pub mod keys;
mod update;

pub use keys::{Action, Code, KEYS, Key};
pub use update::update;

use crate::data::Data;
use crate::theme::Theme;
use std::sync::Arc;
use systole_runtime::profile::{Lane, LaneKind};

macro_rules! views {
    ($first:ident $first_name:literal, $($view:ident $name:literal),+) => {
        /// A view of the run.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum View { #[default] $first, $($view),+ }

        impl View {
            /// All of them, in the order of their tabs and keys.
            pub const ALL: [View; [$first_name, $($name),+].len()] = [View::$first, $(View::$view),+];

            pub fn name(self) -> &'static str {
                match self { View::$first => $first_name, $(View::$view => $name),+ }
            }
        }
    };
}

views! {
    Overview "overview", Timeline "timeline", Operations "operations", Roofline "roofline", Memory "memory",
    Stalls "stalls", Links "interconnect", Program "program", Chip "chip"
}

impl View {
    pub fn named(name: &str) -> Option<View> {
        View::ALL.into_iter().find(|v| !name.is_empty() && v.name().starts_with(name))
    }
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A recorded run.
    Replay,
    Compiling,
    Running,
    Paused,
    Done,
    Failed(String),
}

/// What operations are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Cycles,
    Start,
    Name,
    Flops,
    Bytes,
    Stalled,
}

impl Sort {
    pub const ALL: [Sort; 6] = [Sort::Cycles, Sort::Start, Sort::Name, Sort::Flops, Sort::Bytes, Sort::Stalled];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Cycles => "cycles",
            Sort::Start => "start",
            Sort::Name => "name",
            Sort::Flops => "flops",
            Sort::Bytes => "bytes",
            Sort::Stalled => "stalled",
        }
    }
}

/// A line that the user types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub kind: InputKind,
    pub text: String,
    /// Which completion was taken last.
    pub choice: usize,
    /// The text before completions.
    pub stem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    Filter,
    Command,
}

/// Where a part of the screen leads, for the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    View(View),
    /// Row of the view's list.
    Row(usize),
    /// A column's sort key.
    Sort(Sort),
    /// Cycles `from..to` over the rectangle's columns.
    Time {
        from: u64,
        to: u64,
    },
    /// A lane over those cycles.
    Lane {
        lane: usize,
        from: u64,
        to: u64,
    },
}

/// A rectangle of the screen and where it leads: column, row, width, height.
pub type HitBox = ([u16; 4], Hit);

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    Key(Key),
    /// A press or drag, a move, or the wheel (`up`) at a column and row.
    Press {
        x: u16,
        y: u16,
        hits: Vec<HitBox>,
    },
    Hover {
        x: u16,
        y: u16,
        hits: Vec<HitBox>,
    },
    Wheel {
        up: bool,
    },
    Resize {
        width: u16,
        height: u16,
    },
    /// News of the run.
    Data(Arc<Data>),
    Phase(Phase),
    /// A run with other parameters ended: its profile.
    Rerun(Arc<Data>),
    Message(String),
}

/// What the world has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Quit,
    /// Writes the current view to a file.
    Write(String),
    Pause(bool),
    Step(Step),
    /// Cycles per second at most; `None`: as fast as it goes.
    Speed(Option<u64>),
    /// Another device is looked at: steps go by it.
    Device(usize),
    /// Runs again with these parameters changed.
    Rerun(Vec<String>),
}

/// How far a paused run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Bundle,
    Kernel,
    Op,
}

/// What is laid over the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Help {
    #[default]
    None,
    /// Its keys.
    Keys,
    /// What its words mean.
    Words,
}

/// Which rows lists have, and in what order.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub sort: Sort,
    pub reverse: bool,
    /// Rows with this text in them.
    pub filter: String,
}

/// Everything that a frame is drawn from.
#[derive(Clone, Debug)]
pub struct App {
    pub title: String,
    pub data: Option<Arc<Data>>,
    /// The data before a run with other parameters.
    pub before: Option<Arc<Data>>,
    pub phase: Phase,
    pub size: (u16, u16),
    pub view: View,
    pub device: usize,
    /// Cycles shown.
    pub from: u64,
    pub to: u64,
    pub cursor: u64,
    pub hover: Option<(usize, u64)>,
    /// Selected row of every view's list.
    pub selected: [usize; View::ALL.len()],
    pub listing: Listing,
    pub input: Option<Input>,
    /// The operation whose inside is shown: index of its row.
    pub drill: Option<usize>,
    pub help: Help,
    pub expand: bool,
    /// The timeline has the operations of all devices and all links.
    pub all_devices: bool,
    /// News is not shown until it is thawed.
    pub frozen: Option<Arc<Data>>,
    pub theme: Theme,
    pub speed: Option<u64>,
    /// Parameters changed for a what-if.
    pub sets: Vec<String>,
    pub message: String,
}

impl App {
    /// The state at the start.
    pub fn new(title: &str, theme: Theme, phase: Phase) -> App {
        App {
            title: title.to_string(),
            data: None,
            before: None,
            phase,
            size: (80, 24),
            view: View::Overview,
            device: 0,
            from: 0,
            to: 1,
            cursor: 0,
            hover: None,
            selected: [0; View::ALL.len()],
            listing: Listing::default(),
            input: None,
            drill: None,
            help: Help::None,
            expand: false,
            all_devices: false,
            frozen: None,
            theme,
            speed: None,
            sets: Vec::new(),
            message: String::new(),
        }
    }

    /// What is shown: the newest data, or those of the moment in which it froze.
    pub fn shown(&self) -> Option<&Arc<Data>> {
        self.frozen.as_ref().or(self.data.as_ref())
    }

    pub fn selected(&self) -> usize {
        self.selected[self.view as usize]
    }

    /// Rows of the operations' table that fit the filter, sorted: indices into the device's rows.
    pub fn rows(&self) -> Vec<usize> {
        let Some(data) = self.shown() else { return Vec::new() };
        let Some(d) = data.device(self.device) else { return Vec::new() };
        let fits = |i: &usize| d.ops[*i].cycles > 0 && data.matches(&d.ops[*i], &self.listing.filter);
        let mut rows: Vec<usize> = (0..d.ops.len()).filter(fits).collect();
        let most = |i: usize| match self.listing.sort {
            Sort::Cycles => d.ops[i].cycles as f64,
            Sort::Start | Sort::Name => 0.0,
            Sort::Flops => d.ops[i].flops,
            Sort::Bytes => d.ops[i].bytes() as f64,
            Sort::Stalled => d.ops[i].stalled() as f64,
        };
        rows.sort_by(|&a, &b| {
            let (x, y) = (&d.ops[a], &d.ops[b]);
            let first = match self.listing.sort {
                Sort::Start => x.start.cmp(&y.start),
                Sort::Name => data.profile.row_name(x).cmp(data.profile.row_name(y)),
                Sort::Cycles | Sort::Flops | Sort::Bytes | Sort::Stalled => most(b).total_cmp(&most(a)),
            };
            first.then(x.start.cmp(&y.start)).then(a.cmp(&b))
        });
        if self.listing.reverse {
            rows.reverse();
        }
        rows
    }

    /// Lanes of the device; or the operations of all devices, and all links.
    pub fn lanes(&self) -> Vec<usize> {
        let Some(data) = self.shown() else { return Vec::new() };
        let of = |i: &usize| {
            let l = &data.lanes[*i];
            let there = match self.all_devices {
                true => matches!(l.kind, LaneKind::Ops | LaneKind::Link(_)),
                false => l.device == self.device,
            };
            there && (self.listing.filter.is_empty() || self.lane_name(l).contains(&self.listing.filter))
        };
        let mut lanes: Vec<usize> = (0..data.lanes.len()).filter(of).collect();
        if self.all_devices {
            lanes.sort_by_key(|l| matches!(data.lanes[*l].kind, LaneKind::Link(_)));
        }
        lanes
    }

    /// A lane's name, with its device where there are those of several.
    pub fn lane_name(&self, l: &Lane) -> String {
        match l.kind {
            LaneKind::Link(_) => format!("link {}", l.name),
            _ if self.all_devices => format!("dev {} {}", l.device, l.name),
            LaneKind::Ops
            | LaneKind::Kernels
            | LaneKind::Regions(_)
            | LaneKind::Engine
            | LaneKind::Unit(_)
            | LaneKind::Runs
            | LaneKind::Waits => l.name.clone(),
        }
    }

    /// Length of the view's list.
    pub fn list_len(&self) -> usize {
        let Some(data) = self.shown() else { return 0 };
        match self.view {
            View::Overview => data.device(self.device).map_or(0, |d| d.units.len()),
            View::Timeline => self.lanes().len(),
            View::Operations | View::Roofline => self.rows().len(),
            View::Memory => crate::views::memory::buffers(self).len(),
            View::Stalls => crate::views::stalls::causes(self).len(),
            View::Links => data.profile.meta.links.len(),
            View::Program => data.code.len(),
            View::Chip => crate::views::chip::params(self).len(),
        }
    }
}
