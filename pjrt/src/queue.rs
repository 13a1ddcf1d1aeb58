//! A queue of work and the thread that works it off, in order.
//!
//! After a `fork` the child has no such thread: it gets one of its own with its first piece of work.

use crate::error::{Code, Error};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

type Work = Box<dyn FnOnce() + Send>;

/// Pieces of work that wait at most; who adds more waits.
const DEPTH: usize = 64;
/// Stack of the working thread in bytes: programs nest deeply.
pub const STACK: usize = 256 << 20;

/// What work gives on a thread with [`STACK`] bytes of stack.
///
/// # Errors
/// Those of the work; a panic, which is a bug; no thread to be had.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("systole-work".to_string()).stack_size(STACK);
        match thread.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::internal("the work panicked, which is a bug of systole")),
            Err(e) => Err(Error::new(Code::ResourceExhausted, format!("no thread to work on: {e}"))),
        }
    })
}

/// The queue.
#[derive(Default)]
pub struct Queue {
    /// The process that the thread belongs to, and the way to it.
    sender: Mutex<Option<(u32, SyncSender<Work>)>>,
}

impl Queue {
    /// Adds work. Without a thread (the system has none left) it is done here and now.
    pub fn push(&self, work: impl FnOnce() + Send + 'static) {
        let work: Work = Box::new(work);
        let Some(sender) = self.sender() else { return work() };
        if let Err(lost) = sender.send(work) {
            (lost.0)();
        }
    }

    /// Waits until all work so far is done.
    pub fn drain(&self) {
        let (tell, hear) = sync_channel(1);
        // Nobody listening any more is fine.
        self.push(move || {
            let _ = tell.send(());
        });
        let _ = hear.recv();
    }

    fn sender(&self) -> Option<SyncSender<Work>> {
        let mut guard = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some((owner, sender)) = guard.as_ref()
            && *owner == process
        {
            return Some(sender.clone());
        }
        let (sender, receiver) = sync_channel::<Work>(DEPTH);
        let run = move || {
            while let Ok(work) = receiver.recv() {
                // A panic is a bug; it ends this piece of work, whose owner sees that nothing came of it.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            }
        };
        let thread = std::thread::Builder::new().name("systole".to_string()).stack_size(STACK).spawn(run);
        if thread.is_err() {
            return None;
        }
        // The sender of another process is forgotten, not dropped: its lock may be held by a thread that is no more.
        if let Some(old) = guard.replace((process, sender.clone())) {
            std::mem::forget(old);
        }
        Some(sender)
    }
}
