//! A run that is watched while it goes on: it can be paused, stepped and slowed, and tells what it has done so far.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use systole_runtime::profile::code::Code;
use systole_runtime::profile::{Device, NO_OP, Profile, Recorder, Run};
use systole_runtime::report::{HostReport, report};
use systole_runtime::{Mode, Observer, RunResult};
use systole_simulator::{CAUSES, Cause, DmaEvent, OpProfile, Sample, UNIT_TABLE, UnitCounters};
use systole_tui::{Data, Event, Phase, Step};

/// Least time between two looks at a run.
const INTERVAL: Duration = Duration::from_millis(150);

/// What the user asks of a run.
#[derive(Default)]
struct Wish {
    paused: bool,
    step: Option<Step>,
    /// Cycles per second.
    speed: Option<u64>,
    stop: bool,
}

/// Shared by the run and the dashboard.
#[derive(Default)]
pub struct Control {
    wish: Mutex<Wish>,
    changed: Condvar,
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Wish)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub fn pause(&self, paused: bool) {
        self.set(|w| (w.paused, w.step) = (paused, None));
    }

    pub fn step(&self, step: Step) {
        self.set(|w| (w.paused, w.step) = (true, Some(step)));
    }

    pub fn speed(&self, cycles_per_second: Option<u64>) {
        self.set(|w| w.speed = cycles_per_second);
    }

    /// Asks the run to stop.
    pub fn stop(&self) {
        self.set(|w| w.stop = true);
    }
}

/// What a run is, for looks at it.
pub struct Subject<'a> {
    pub name: &'a str,
    pub chip: &'a systole_isa::ChipConfig,
    pub program: &'a systole_isa::Program,
    pub source: &'a str,
    pub mode: Mode,
    pub code: Arc<Code>,
}

/// Watches a run for the dashboard.
pub struct Live<'a> {
    pub recorder: Recorder<'a>,
    subject: Subject<'a>,
    control: &'a Control,
    news: Sender<Event>,
    cycle: u64,
    bundles: u64,
    hbm: (u64, u64),
    units: Vec<UnitCounters>,
    last: Instant,
    /// What the last look took.
    cost: Duration,
    /// When the speed was last right: host time and cycle.
    pace: (Instant, u64),
}

impl<'a> Live<'a> {
    pub fn new(recorder: Recorder<'a>, subject: Subject<'a>, control: &'a Control, news: Sender<Event>) -> Live<'a> {
        let now = Instant::now();
        Live {
            recorder,
            subject,
            control,
            news,
            cycle: 0,
            bundles: 0,
            hbm: (0, 0),
            units: Vec::new(),
            last: now,
            cost: Duration::ZERO,
            pace: (now, 0),
        }
    }

    /// Shows the run as it is.
    fn show(&mut self) {
        let start = Instant::now();
        let mut ops: HashMap<u32, OpProfile> = HashMap::new();
        for s in self.recorder.trace.ops.iter() {
            let o = ops.entry(s.id).or_insert_with(|| OpProfile {
                op: (s.id != NO_OP).then_some(s.id),
                start: s.start,
                ..OpProfile::default()
            });
            o.cycles += s.end - s.start;
            o.entries += 1;
        }
        let mut ops: Vec<OpProfile> = ops.into_values().collect();
        ops.sort_by_key(|o| (o.start, o.op));
        let cycles = self.cycle.max(self.recorder.trace.ops.end());
        if self.units.is_empty() {
            self.units = idle_units(self.subject.chip, cycles);
        }
        let result = RunResult {
            cycles,
            bundles: self.bundles,
            units: self.units.clone(),
            ops,
            hbm_read: self.hbm.0,
            hbm_write: self.hbm.1,
            ..RunResult::default()
        };
        let s = &self.subject;
        let report = report(s.chip, s.program, &result, HostReport::default());
        let run = Run {
            name: s.name,
            chip: s.chip,
            program: s.program,
            source: s.source,
            mode: s.mode,
            level: self.recorder.level,
            report: &report,
            topology: vec![1],
            links: Vec::new(),
            partial: true,
        };
        let profile = Profile::new(run, vec![Device::new(0, 0, self.recorder.so_far(), &result)]);
        // A dashboard that is gone asks the run to stop by itself.
        let _ = self.news.send(Event::Data(Arc::new(Data::sharing(profile, Arc::clone(&s.code)))));
        self.cost = start.elapsed();
        self.last = Instant::now();
    }

    /// Waits while the user wants it so. `at`: what has just ended.
    fn hold(&mut self, at: Option<Step>) {
        let mut w = self.control.lock();
        if !w.paused || w.stop {
            return;
        }
        if w.step.is_some() && w.step != at {
            return;
        }
        w.step = None;
        drop(w);
        self.show();
        let _ = self.news.send(Event::Phase(Phase::Paused));
        let mut w = self.control.lock();
        while w.paused && w.step.is_none() && !w.stop {
            w = self.control.changed.wait(w).unwrap_or_else(PoisonError::into_inner);
        }
        let running = !w.paused;
        drop(w);
        if running {
            let _ = self.news.send(Event::Phase(Phase::Running));
        }
        self.pace = (Instant::now(), self.cycle);
    }

    /// Sleeps as long as the speed that is wanted says.
    fn keep_pace(&mut self) {
        let Some(speed) = self.control.lock().speed else {
            self.pace = (Instant::now(), self.cycle);
            return;
        };
        let due = Duration::from_secs_f64(self.cycle.saturating_sub(self.pace.1) as f64 / speed.max(1) as f64);
        let ahead = due.saturating_sub(self.pace.0.elapsed()).min(Duration::from_millis(200));
        if !ahead.is_zero() {
            std::thread::sleep(ahead);
        }
    }
}

/// Units of a chip before they have done anything.
fn idle_units(chip: &systole_isa::ChipConfig, cycles: u64) -> Vec<UnitCounters> {
    let named = UNIT_TABLE.iter().map(|u| u.0.to_string()).chain((0..chip.mxu.count).map(|u| format!("mxu{u}")));
    let idle = |unit| UnitCounters { unit, useful: 0.0, busy: 0, stall: [0; CAUSES], idle: cycles };
    named.map(idle).collect()
}

impl Observer for Live<'_> {
    fn progress(&mut self, cycle: u64, bundles: u64) -> bool {
        (self.cycle, self.bundles) = (cycle.max(self.cycle), bundles.max(self.bundles));
        self.keep_pace();
        if self.last.elapsed() > INTERVAL.max(self.cost * 8) {
            self.show();
        }
        self.hold(None);
        !self.control.lock().stop
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn wants_bundles(&self) -> bool {
        true
    }

    fn sample_interval(&self) -> Option<u64> {
        self.recorder.sample_interval()
    }

    fn sample(&mut self, s: &Sample<'_>) {
        (self.cycle, self.bundles, self.hbm) = (s.cycle, s.bundles, (s.hbm_read, s.hbm_write));
        self.units = s.units.to_vec();
        self.recorder.sample(s);
    }

    fn dma(&mut self, e: &DmaEvent) {
        self.recorder.dma(e);
    }

    fn op(&mut self, op: u32, start: u64, end: u64) {
        self.recorder.op(op, start, end);
        self.cycle = self.cycle.max(end);
        self.hold(Some(Step::Op));
    }

    fn kernel(&mut self, entry: u32, start: u64, end: u64) {
        self.recorder.kernel(entry, start, end);
        self.cycle = self.cycle.max(end);
        self.hold(Some(Step::Kernel));
    }

    fn bundle(&mut self, bundle: u32, cycle: u64) {
        self.recorder.bundle(bundle, cycle);
        self.cycle = cycle;
        // Looking at every bundle would take longer than running it.
        if cycle & 0xff == 0 || self.stepping() {
            self.hold(Some(Step::Bundle));
        }
    }

    fn wait(&mut self, bundle: u32, cause: Cause, start: u64, end: u64) {
        self.recorder.wait(bundle, cause, start, end);
    }

    fn repeated(&mut self, from: u64, period: u64, times: u64) {
        self.recorder.repeated(from, period, times);
    }
}

impl Live<'_> {
    fn stepping(&self) -> bool {
        let w = self.control.lock();
        w.paused && matches!(w.step, None | Some(Step::Bundle))
    }
}
