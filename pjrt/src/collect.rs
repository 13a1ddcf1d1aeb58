//! What is kept of runs for reports: counters always while somebody collects, spans where a profile is asked for.

use crate::executable::{Executable, Facts};
use crate::live;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use systole_isa::{ChipConfig, Program};
use systole_runtime::profile::{self, Level, Limits, Recorded, Recorder, Run};
use systole_runtime::{Mode, NoObserver, PodRun, Ran, report};

/// Runs that are kept at most; older ones are dropped.
const MOST: usize = 4096;

/// A run as reports have it.
pub struct Collected {
    /// The program's name, e.g. `jit_f`.
    pub name: String,
    /// The report as data.
    pub report: String,
    /// The profile's file, where one was asked for.
    pub profile: Option<Vec<u8>>,
}

/// Who asks for what: how many collect, and how many of them want profiles.
static COLLECTORS: AtomicU32 = AtomicU32::new(0);
static PROFILERS: AtomicU32 = AtomicU32::new(0);
static RUNS: Mutex<VecDeque<Collected>> = Mutex::new(VecDeque::new());

/// Begins to collect; `profiles`: with spans of time.
pub fn begin(profiles: bool) {
    COLLECTORS.fetch_add(1, Ordering::SeqCst);
    PROFILERS.fetch_add(u32::from(profiles), Ordering::SeqCst);
}

/// Ends what [`begin`] began; what was collected is taken away by [`take`].
pub fn end(profiles: bool) {
    let less = |n: u32| n.checked_sub(1);
    let _ = COLLECTORS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    if profiles {
        let _ = PROFILERS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

/// The runs collected so far, oldest first; they are forgotten here.
pub fn take() -> Vec<Collected> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
}

/// How closely runs are watched.
pub(crate) const LEVEL: Level = Level::Kernels;

/// The level of spans that a run is recorded with; `None`: nobody wants them, or the run counts no cycles. `shown`: the live
/// view wants them.
pub(crate) fn level(mode: Mode, shown: bool) -> Option<Level> {
    let wanted = (shown || PROFILERS.load(Ordering::Relaxed) > 0) && mode != Mode::NumericOnly;
    wanted.then_some(LEVEL)
}

/// The recorder of one lane of a run.
pub(crate) fn recorder<'a>(level: Level, of: (&Program, &ChipConfig), inner: &'a mut NoObserver) -> Recorder<'a> {
    Recorder::new(level, Limits::of(level), of, inner)
}

/// Keeps a run, if anybody collects, and shows it in the live view if it is to be `shown`.
pub(crate) fn keep(e: &Executable, mode: Mode, recorded: Vec<Recorded>, run: &PodRun, shown: bool) {
    let collecting = COLLECTORS.load(Ordering::Relaxed) > 0;
    if !collecting && !shown {
        return;
    }
    let start = Instant::now();
    let ran = ran(e.client.runtime.chip(), &e.exe.program, &e.facts, mode);
    let Ok(text) = serde_json::to_string(&report(&ran, run)) else { return };
    let profile = (!recorded.is_empty()).then(|| profile::bytes(&Run { ran: &ran, run, level: LEVEL }, &recorded));
    if let Some(bytes) = profile.as_ref().filter(|_| shown) {
        live::show(e, bytes, start);
    }
    if !collecting {
        return;
    }
    let profile = profile.filter(|_| PROFILERS.load(Ordering::Relaxed) > 0);
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    if runs.len() == MOST {
        runs.pop_front();
    }
    runs.push_back(Collected { name: e.facts.name.clone(), report: text, profile });
}

/// What ran, for reports and profiles.
pub(crate) fn ran<'a>(chip: &'a ChipConfig, program: &'a Program, facts: &'a Facts, mode: Mode) -> Ran<'a> {
    Ran { source: &facts.text, ..Ran::new(&facts.name, chip, program, mode) }
}
