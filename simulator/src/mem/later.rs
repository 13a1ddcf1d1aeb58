//! Contents of HBM that come while the run goes on: threads that have nothing else to do make them extent by extent, and whoever needs
//! an extent before its turn makes it. What an extent holds depends on nothing but its place, so nobody sees who made it or when.

use super::extent::Extent;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Writes what comes from a byte of a range on: the range's number, the byte in it, and the memory, parts of which it may leave as they are.
pub(crate) type Fill = dyn Fn(usize, u64, &mut [u8]) + Send + Sync;

/// Ranges of HBM, and what writes them.
pub(super) struct Later {
    ranges: Vec<Range<u64>>,
    fill: Box<Fill>,
    /// In order of their numbers.
    parts: Vec<Part>,
    /// How many parts threads have looked at.
    looked: AtomicUsize,
    stopped: AtomicBool,
}

/// An extent.
#[derive(Debug)]
struct Part {
    number: usize,
    /// Ranges that reach into it, in order.
    ranges: Vec<usize>,
    state: Mutex<State>,
    made: Condvar,
}

#[derive(Debug)]
enum State {
    /// Nobody has begun; with what it holds besides.
    Waiting(Extent),
    /// A thread is at it.
    Begun,
    Made(Extent),
    Taken,
}

impl Part {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it held before, for the thread that makes it.
    fn begin(&self) -> Option<Extent> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Begun) {
            State::Waiting(extent) => Some(extent),
            other @ (State::Begun | State::Made(_) | State::Taken) => {
                *state = other;
                None
            }
        }
    }
}

impl Later {
    /// Begins to write ranges into extents, of which `parts` has the numbers (ascending), what each holds now, and the ranges
    /// that reach into it. `threads` threads of the host's pool are at it.
    pub fn begin(
        ranges: Vec<Range<u64>>,
        parts: impl Iterator<Item = (usize, Extent, Vec<usize>)>,
        fill: Box<Fill>,
        threads: usize,
    ) -> Arc<Later> {
        let part = |(number, extent, ranges)| Part {
            number,
            ranges,
            state: Mutex::new(State::Waiting(extent)),
            made: Condvar::new(),
        };
        let parts: Vec<Part> = parts.map(part).collect();
        let (looked, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let later = Arc::new(Later { ranges, fill, parts, looked, stopped });
        for _ in 0..threads.min(later.parts.len()) {
            later.go_on();
        }
        later
    }

    /// Lets a thread of the pool make an extent, and go on.
    fn go_on(self: &Arc<Later>) {
        let later = Arc::clone(self);
        // One at a time: a thread that waits for a part of something else may be the one that is asked.
        rayon::spawn(move || {
            while let Some(part) = later.parts.get(later.looked.fetch_add(1, Ordering::Relaxed)) {
                if later.stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(extent) = part.begin() {
                    let extent = later.make(part, extent);
                    *part.state() = State::Made(extent);
                    part.made.notify_all();
                    return later.go_on();
                }
            }
        });
    }

    fn make(&self, part: &Part, mut extent: Extent) -> Extent {
        extent.fill(part.number, &self.ranges, &part.ranges, &*self.fill);
        extent
    }

    /// Whether an extent is one of those.
    pub fn has(&self, number: usize) -> bool {
        self.parts.binary_search_by_key(&number, |p| p.number).is_ok()
    }

    /// An extent with its contents, if they are to come and nobody took it before.
    pub fn take(&self, number: usize) -> Option<Extent> {
        let part = &self.parts[self.parts.binary_search_by_key(&number, |p| p.number).ok()?];
        let mut state = part.state();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Waiting(extent) => {
                    drop(state);
                    return Some(self.make(part, extent));
                }
                State::Begun => {
                    *state = State::Begun;
                    state = part.made.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                State::Made(extent) => return Some(extent),
                State::Taken => return None,
            }
        }
    }

    /// Nobody needs what was not begun.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Numbers of the extents.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|p| p.number)
    }
}

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Later").field("ranges", &self.ranges).field("parts", &self.parts).finish_non_exhaustive()
    }
}
