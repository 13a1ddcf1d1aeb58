//! What the run and the dashboard share: the newest snapshot, and whether the user left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use systole_runtime::snapshot::{Phase, Snapshot};

/// Shared by the thread that runs the program and the one that draws.
#[derive(Debug)]
pub struct Shared {
    snapshot: Mutex<Snapshot>,
    stop: AtomicBool,
    early: AtomicBool,
}

impl Shared {
    pub fn new(snapshot: Snapshot) -> Shared {
        Shared { snapshot: Mutex::new(snapshot), stop: AtomicBool::new(false), early: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    /// Replaces the snapshot.
    pub fn show(&self, snapshot: Snapshot) {
        *self.lock() = snapshot;
    }

    /// Notes how far the run is.
    pub fn progress(&self, cycle: u64, bundles: u64) {
        let mut s = self.lock();
        s.phase = Phase::Running { cycle, bundles };
        s.cycles = cycle;
    }

    /// Notes that the run failed.
    pub fn fail(&self, message: &str) {
        self.lock().phase = Phase::Failed(message.to_string());
    }

    /// The user leaves.
    pub fn leave(&self) {
        let over = matches!(self.lock().phase, Phase::Done | Phase::Failed(_));
        self.early.store(!over, Ordering::Relaxed);
        self.stop();
    }

    /// Asks the run to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run is asked to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the user left before the run was over.
    pub fn stopped_early(&self) -> bool {
        self.early.load(Ordering::Relaxed)
    }
}
