//! Events: something that will have happened, well or not.

use crate::error::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How it went.
pub type Outcome = Result<(), Error>;

type Callback = Box<dyn FnOnce(&Outcome) + Send>;

#[derive(Default)]
struct State {
    outcome: Option<Arc<Outcome>>,
    callbacks: Vec<Callback>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// An event; clones are the same event.
#[derive(Clone, Default)]
pub struct Event(Arc<Shared>);

impl Event {
    /// One that has not happened yet.
    pub fn new() -> Event {
        Event::default()
    }

    /// One that happened already.
    pub fn done(outcome: Outcome) -> Event {
        let e = Event::new();
        e.set(outcome);
        e
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets it happen; what happened first stays.
    pub fn set(&self, outcome: Outcome) {
        let mut state = self.lock();
        if state.outcome.is_some() {
            return;
        }
        let outcome = Arc::new(outcome);
        state.outcome = Some(Arc::clone(&outcome));
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.0.changed.notify_all();
        callbacks.into_iter().for_each(|c| c(&outcome));
    }

    pub fn outcome(&self) -> Option<Arc<Outcome>> {
        self.lock().outcome.clone()
    }

    /// Blocks until it has happened.
    pub fn wait(&self) -> Arc<Outcome> {
        let mut state = self.lock();
        loop {
            if let Some(o) = &state.outcome {
                return Arc::clone(o);
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Calls back when it has happened: at once if it has.
    pub fn on_ready(&self, callback: impl FnOnce(&Outcome) + Send + 'static) {
        let mut state = self.lock();
        match state.outcome.clone() {
            Some(o) => {
                drop(state);
                callback(&o);
            }
            None => state.callbacks.push(Box::new(callback)),
        }
    }
}
