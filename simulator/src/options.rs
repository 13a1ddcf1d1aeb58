//! What a run does, and who watches it.

use crate::fault::CoreId;
use crate::machine::HostRangeError;
use crate::stats::{Cause, OpProfile, Traffic, UnitCounters, UnitSample};
use systole_isa::program::HostCall;

/// Which halves of the simulation run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Numbers and cycles.
    Full,
    /// Cycles only: no tensor data is allocated or moved. Scalars that depend on tensor data are unknown.
    TimingOnly,
    /// Numbers only.
    NumericOnly,
}

/// What a timing-only run takes for a branch whose condition it does not know.
///
/// `name` is a debug op's name. A branch of a loop of that op stays in the loop until the body has run `trips` times
/// for each entry of the loop; any other branch of that op is decided as if its condition were `trips`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assume {
    pub name: String,
    pub trips: u64,
}

impl Assume {
    /// Whether it is about an operation of this name, or about one that the compiler made of it (`name-1`).
    pub fn is_about(&self, op: &str) -> bool {
        let (own, op) = (self.name.trim_start_matches('%'), op.trim_start_matches('%'));
        let number = |rest: &str| rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok());
        op == own || op.strip_prefix(own).is_some_and(number)
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub mode: Mode,
    /// Stop with a fault after this many cycles (bundles in numeric-only mode).
    pub max_cycles: u64,
    /// Stretch the latencies that the machine leaves open, pseudo-randomly from this seed.
    pub chaos: Option<u64>,
    /// Check every access against DMAs in progress (full and numeric-only modes).
    pub race_check: bool,
    /// Skip the steady state of loops (timing-only mode); changes no count.
    pub loop_skip: bool,
    /// Replay the timing of code that begins in a known state (timing-only mode); changes no count.
    pub memo: bool,
    /// Host threads for the matrix unit's arithmetic; changes no result.
    pub threads: usize,
    pub assume: Vec<Assume>,
    /// The core, or the first of several, as faults name it.
    pub on: CoreId,
    /// Number of the device among those that run the program.
    pub device: u32,
}

impl RunOptions {
    /// A run of that mode without limits, races checked.
    pub fn new(mode: Mode) -> RunOptions {
        RunOptions {
            mode,
            max_cycles: u64::MAX,
            chaos: None,
            race_check: true,
            loop_skip: true,
            memo: true,
            threads: 1,
            assume: Vec::new(),
            on: CoreId::default(),
            device: 0,
        }
    }
}

/// A DMA transfer as an observer sees it. Times are cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaEvent {
    pub bundle: u32,
    pub desc: u32,
    pub semaphore: u32,
    pub bytes: u64,
    pub traffic: Traffic,
    /// Issued, first request, last byte in place.
    pub issued: u64,
    pub start: u64,
    pub end: u64,
}

/// Counters so far, as an observer samples them.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub cycle: u64,
    pub bundles: u64,
    /// Debug op that runs (`u32::MAX`: none).
    pub op: u32,
    /// In the order of [`UNIT_TABLE`](crate::UNIT_TABLE), then the matrix units.
    pub units: &'a [UnitSample],
    /// More of them, where [`Observer::wants_details`] says so.
    pub details: Option<Details<'a>>,
    /// Of the transfers started so far.
    pub traffic: Traffic,
}

/// Counters that take time to put together.
#[derive(Clone, Copy, Debug)]
pub struct Details<'a> {
    /// Units with what they waited for. `busy + stalls + idle` of each is the sample's `cycle`.
    pub units: &'a [UnitCounters],
    /// Operations so far, those that have not run too; the cycles of the one that runs are those up to its last entry.
    pub ops: &'a [OpProfile],
}

/// Watches a run. All methods have empty defaults.
pub trait Observer: Send {
    /// The device takes part in the run. On several devices all are told before the first begins; where one device stands
    /// for all, only that one is.
    fn begin(&mut self) {}
    /// Called now and then; `false` stops the run with [`crate::FaultKind::Interrupted`].
    fn progress(&mut self, _cycle: u64, _bundles: u64) -> bool {
        true
    }
    /// Whether [`Observer::dma`], [`Observer::op`] and [`Observer::kernel`] are wanted.
    fn wants_events(&self) -> bool {
        false
    }
    /// Whether [`Observer::bundle`] and [`Observer::wait`] are wanted (modes with timing).
    fn wants_bundles(&self) -> bool {
        false
    }
    /// Cycles between calls of [`Observer::sample`], or none: at least so many, for they happen at branches, and up to sixteen times as
    /// many where rounds of a loop come again as they were. Asked again after every sample; [`Observer::progress`] is called
    /// after each.
    fn sample_interval(&self) -> Option<u64> {
        None
    }
    /// Whether the sample that is about to be taken is to have [`Details`].
    fn wants_details(&self) -> bool {
        false
    }
    /// Counters at a cycle, in modes with timing.
    fn sample(&mut self, _sample: &Sample<'_>) {}
    /// The program calls the host: entry `call` of its table. The host reads and writes the device's HBM through
    /// `memory`. Not called in timing-only runs.
    ///
    /// # Errors
    /// Why the host cannot do it; the run ends with [`crate::FaultKind::Host`].
    fn host_call(&mut self, call: &HostCall, _memory: &mut dyn HostMemory) -> Result<(), String> {
        Err(format!("nothing answers the program's call of the host ({} {})", call.kind.name(), call.target))
    }
    /// A DMA was started.
    fn dma(&mut self, _event: &DmaEvent) {}
    /// Code of debug op `op` (`u32::MAX`: none) issued from cycle `start` until before `end`.
    fn op(&mut self, _op: u32, _start: u64, _end: u64) {}
    /// A subroutine that the main program called ran from cycle `start` until before `end`; `entry`: its first bundle.
    fn kernel(&mut self, _entry: u32, _start: u64, _end: u64) {}
    /// A bundle issued in a cycle.
    fn bundle(&mut self, _bundle: u32, _cycle: u64) {}
    /// A bundle could not issue from cycle `start` until before `end`; called before its [`Observer::bundle`].
    fn wait(&mut self, _bundle: u32, _cause: Cause, _start: u64, _end: u64) {}
    /// Loop iterations were skipped: all events of cycles `from < c <= from + period` (spans by their last cycle,
    /// transfers by their issue) happen `times` more, `period` cycles apart.
    fn repeated(&mut self, _from: u64, _period: u64, _times: u64) {}
}

/// A device's memories as the host sees them during a call. Ranges outside HBM are an error.
pub trait HostMemory {
    /// Reads bytes from an address.
    ///
    /// # Errors
    /// If the range is outside HBM.
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), HostRangeError>;
    /// Writes bytes to an address.
    ///
    /// # Errors
    /// If the range is outside HBM.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), HostRangeError>;
    /// A word of scalar memory; `None` outside of it.
    fn scalar(&self, word: u32) -> Option<i32>;
    /// The bytes of vector memory from a row of words on; `false` outside of it.
    fn vector(&self, row: u32, out: &mut [u8]) -> bool;
    /// When and where it is.
    fn moment(&self) -> Moment;
}

/// When and where a program calls the host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    pub device: u32,
    /// Cycles since the run began, and seconds; zero where a run has no time.
    pub cycle: u64,
    pub seconds: f64,
}

/// Watches nothing.
pub struct NoObserver;

impl Observer for NoObserver {}
