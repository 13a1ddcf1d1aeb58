//! A run that is watched while it goes on: it can be paused, stepped and slowed, and tells what it has done so far.
//!
//! Every simulated device has a [`Watch`] of its own, and all of them write into one [`Live`]. Devices may run side by side:
//! a step ends at the device that the user looks at, a pause holds every device.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use systole_runtime::profile::code::Code;
use systole_runtime::profile::{Profile, Recorded, Recorder, Run};
use systole_runtime::report::HostReport;
use systole_runtime::{Observer, PodRun, Ran, RunResult};
use systole_simulator::{CAUSES, Cause, DmaEvent, OpProfile, Sample, Traffic, UNIT_TABLE, UnitCounters};
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
    /// The device that is stepped.
    focus: usize,
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

    /// Says which device steps go by.
    pub fn focus(&self, device: usize) {
        self.set(|w| w.focus = device);
    }

    pub fn paused(&self) -> bool {
        self.lock().paused
    }

    pub fn stopped(&self) -> bool {
        self.lock().stop
    }

    /// Asks the run to stop.
    pub fn stop(&self) {
        self.set(|w| w.stop = true);
    }
}

/// What a run is, for looks at it.
pub struct Subject<'a> {
    pub ran: Ran<'a>,
    /// Cores of each device that run the program.
    pub cores: usize,
    pub code: Arc<Code>,
}

/// What one device has done so far.
struct Seen<'a> {
    recorder: Recorder<'a>,
    /// The device is simulated itself: no other stands for it.
    begun: bool,
    cycle: u64,
    bundles: u64,
    /// The bundle that issued last.
    bundle: Option<u32>,
    traffic: Traffic,
    /// At the last sample before a look.
    units: Vec<UnitCounters>,
    ops: Vec<OpProfile>,
}

/// The last look at a run.
struct Look {
    news: Sender<Event>,
    at: Instant,
    /// What it took.
    cost: Duration,
}

/// Watches a run for the dashboard.
pub struct Live<'a> {
    subject: Subject<'a>,
    control: &'a Control,
    seen: Vec<Mutex<Seen<'a>>>,
    look: Mutex<Look>,
    since: Instant,
    /// Time that was spent in pauses.
    paused: Mutex<Duration>,
}

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Live<'a> {
    /// A recorder for each device.
    pub fn new(
        recorders: Vec<Recorder<'a>>,
        subject: Subject<'a>,
        control: &'a Control,
        news: Sender<Event>,
    ) -> Live<'a> {
        let seen = recorders.into_iter().map(|recorder| {
            Mutex::new(Seen {
                recorder,
                begun: false,
                cycle: 0,
                bundles: 0,
                bundle: None,
                traffic: Traffic::default(),
                units: Vec::new(),
                ops: Vec::new(),
            })
        });
        let look = Mutex::new(Look { news, at: Instant::now(), cost: Duration::ZERO });
        Live { subject, control, seen: seen.collect(), look, since: Instant::now(), paused: Mutex::default() }
    }

    /// An observer for each device.
    pub fn watches(&self) -> Vec<Watch<'_, 'a>> {
        let pace = (Instant::now(), 0);
        (0..self.seen.len()).map(|device| Watch { live: self, device, pace }).collect()
    }

    /// What was recorded, by device.
    pub fn finish(self) -> Vec<Recorded> {
        let seen = self.seen.into_iter().map(|s| s.into_inner().unwrap_or_else(PoisonError::into_inner));
        seen.map(|s| s.recorder.finish()).collect()
    }

    /// Shows the run as it is, if nobody else is doing so.
    fn show(&self) {
        let Ok(mut look) = self.look.try_lock() else { return };
        let start = Instant::now();
        let s = &self.subject;
        let (mut results, mut recorded, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for seen in &self.seen {
            let seen = locked(seen);
            if results.is_empty() || seen.begun {
                results.push(seen.so_far(s.ran.chip));
                recorded.push(seen.recorder.so_far());
                places.push((seen.cycle, seen.bundle));
            }
        }
        let simulate_s = (self.since.elapsed().saturating_sub(*locked(&self.paused))).as_secs_f64();
        let host = HostReport { simulate_s, ..HostReport::default() };
        let ran = Ran { setup: s.ran.setup.clone(), host, whole: s.ran.whole.clone(), ..s.ran };
        let level = locked(&self.seen[0]).recorder.level;
        let run = self.so_far(results);
        // The code is known to who looks.
        let profile = Profile::new(&Run { ran: &ran, run: &run, level }, recorded, Vec::new());
        let mut data = Data::sharing(profile, Arc::clone(&s.code));
        data.places = places;
        // A dashboard that is gone asks the run to stop by itself.
        let _ = look.news.send(Event::Data(Arc::new(data)));
        look.cost = start.elapsed();
        look.at = Instant::now();
    }

    /// The run up to now, from the counters of every core of every device.
    fn so_far(&self, results: Vec<RunResult>) -> PodRun {
        let devices = match self.subject.cores {
            0 | 1 => results,
            cores => results.chunks(cores).map(|own| RunResult::joined(own.to_vec())).collect(),
        };
        PodRun { devices, ..PodRun::alone(RunResult::default()) }
    }

    /// Whether it is time for another look.
    fn due(&self) -> bool {
        self.look.try_lock().is_ok_and(|l| l.at.elapsed() > INTERVAL.max(l.cost * 8))
    }

    fn say(&self, phase: Phase) {
        let _ = locked(&self.look).news.send(Event::Phase(phase));
    }
}

impl Seen<'_> {
    /// The counters of the run up to now.
    fn so_far(&self, chip: &systole_isa::ChipConfig) -> RunResult {
        let mut ops: Vec<OpProfile> = self.ops.iter().filter(|o| o.entries > 0).cloned().collect();
        ops.sort_by_key(|o| (o.start, o.op));
        let cycles = self.cycle.max(self.recorder.trace.ops.end());
        // What has run since the sample, and the rest of the operation that runs, belong to that operation.
        let known: u64 = ops.iter().map(|o| o.cycles).sum();
        let running = self.recorder.running();
        if let Some(o) = ops.iter_mut().find(|o| o.op == running) {
            o.cycles += cycles.saturating_sub(known);
        }
        RunResult {
            cycles,
            bundles: self.bundles,
            units: if self.units.is_empty() { idle_units(chip, cycles) } else { self.units.clone() },
            ops,
            traffic: self.traffic,
            ..RunResult::default()
        }
    }
}

/// Units of a chip before they have done anything.
fn idle_units(chip: &systole_isa::ChipConfig, cycles: u64) -> Vec<UnitCounters> {
    let named = UNIT_TABLE.iter().map(|u| u.0.to_string()).chain((0..chip.mxu.count).map(|u| format!("mxu{u}")));
    let idle = |unit| UnitCounters { core: 0, unit, useful: 0.0, busy: 0, stall: [0; CAUSES], idle: cycles };
    named.map(idle).collect()
}

/// Stops a run on several devices between their turns.
pub struct Stop<'a>(pub &'a Control);

impl Observer for Stop<'_> {
    fn progress(&mut self, _cycle: u64, _bundles: u64) -> bool {
        !self.0.lock().stop
    }
}

/// Watches one device.
pub struct Watch<'l, 'a> {
    live: &'l Live<'a>,
    device: usize,
    /// When the speed was last right: host time and cycle.
    pace: (Instant, u64),
}

impl<'a> Watch<'_, 'a> {
    fn seen(&self) -> MutexGuard<'_, Seen<'a>> {
        locked(&self.live.seen[self.device])
    }

    /// Waits while the user wants it so. `at`: what has just ended.
    fn hold(&mut self, at: Option<Step>) {
        let mut w = self.live.control.lock();
        if !w.paused || w.stop {
            return;
        }
        let mine = w.focus.min(self.live.seen.len() - 1) == self.device;
        let since = Instant::now();
        if w.step.is_some() && (w.step != at || !mine) {
            return;
        }
        w.step = None;
        drop(w);
        self.live.show();
        self.live.say(Phase::Paused);
        let mut w = self.live.control.lock();
        while w.paused && w.step.is_none() && !w.stop {
            w = self.live.control.changed.wait(w).unwrap_or_else(PoisonError::into_inner);
        }
        let running = !w.paused;
        drop(w);
        if mine {
            *locked(&self.live.paused) += since.elapsed();
        }
        if running {
            self.live.say(Phase::Running);
        }
        let cycle = self.seen().cycle;
        self.pace = (Instant::now(), cycle);
    }

    /// Sleeps as long as the speed that is wanted says.
    fn keep_pace(&mut self) {
        let cycle = self.seen().cycle;
        let Some(speed) = self.live.control.lock().speed else {
            self.pace = (Instant::now(), cycle);
            return;
        };
        let due = Duration::from_secs_f64(cycle.saturating_sub(self.pace.1) as f64 / speed.max(1) as f64);
        let ahead = due.saturating_sub(self.pace.0.elapsed()).min(Duration::from_millis(200));
        if !ahead.is_zero() {
            std::thread::sleep(ahead);
        }
    }

    fn stepping(&self) -> bool {
        let w = self.live.control.lock();
        w.paused && matches!(w.step, None | Some(Step::Bundle))
    }
}

impl Observer for Watch<'_, '_> {
    fn begin(&mut self) {
        self.seen().begun = true;
    }

    fn progress(&mut self, cycle: u64, bundles: u64) -> bool {
        {
            let mut s = self.seen();
            (s.cycle, s.bundles) = (cycle.max(s.cycle), bundles.max(s.bundles));
        }
        self.keep_pace();
        if self.live.due() {
            self.live.show();
        }
        self.hold(None);
        !self.live.control.lock().stop
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn wants_bundles(&self) -> bool {
        true
    }

    fn wants_details(&self) -> bool {
        // Counters are many, looks are few.
        self.live.due() || self.live.control.lock().paused
    }

    fn sample_interval(&self) -> Option<u64> {
        self.seen().recorder.sample_interval()
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let mut s = self.seen();
        (s.cycle, s.bundles, s.traffic) = (sample.cycle, sample.bundles, sample.traffic);
        if let Some(details) = &sample.details {
            s.units = details.units.to_vec();
            s.ops = details.ops.to_vec();
        }
        s.recorder.sample(sample);
    }

    fn dma(&mut self, e: &DmaEvent) {
        self.seen().recorder.dma(e);
    }

    fn op(&mut self, op: u32, start: u64, end: u64) {
        {
            let mut s = self.seen();
            s.recorder.op(op, start, end);
            s.cycle = s.cycle.max(end);
        }
        self.hold(Some(Step::Op));
    }

    fn kernel(&mut self, entry: u32, start: u64, end: u64) {
        {
            let mut s = self.seen();
            s.recorder.kernel(entry, start, end);
            s.cycle = s.cycle.max(end);
        }
        self.hold(Some(Step::Kernel));
    }

    fn bundle(&mut self, bundle: u32, cycle: u64) {
        {
            let mut s = self.seen();
            s.recorder.bundle(bundle, cycle);
            (s.cycle, s.bundle) = (cycle, Some(bundle));
        }
        // Looking at every bundle would take longer than running it.
        if cycle & 0xff == 0 || self.stepping() {
            self.hold(Some(Step::Bundle));
        }
    }

    fn wait(&mut self, bundle: u32, cause: Cause, start: u64, end: u64) {
        self.seen().recorder.wait(bundle, cause, start, end);
    }

    fn repeated(&mut self, from: u64, period: u64, times: u64) {
        self.seen().recorder.repeated(from, period, times);
    }
}
