//! Progress on a terminal, for work that takes more than a second. In a pipe there is none.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use systole_runtime::Observer;

/// A line on the terminal that says what goes on; it appears after a second and is gone when this is dropped.
pub struct Progress {
    text: Arc<Mutex<String>>,
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to wait for the second.
    pub fn start(text: &str) -> Progress {
        let text = Arc::new(Mutex::new(text.to_string()));
        if !std::io::stderr().is_terminal() {
            return Progress { text, shown: None };
        }
        let (stop, stopped) = channel();
        let shared = Arc::clone(&text);
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            loop {
                bar.set_message(shared.lock().unwrap_or_else(PoisonError::into_inner).clone());
                bar.tick();
                if stopped.recv_timeout(Duration::from_millis(100)) != Err(RecvTimeoutError::Timeout) {
                    bar.finish_and_clear();
                    return;
                }
            }
        });
        Progress { text, shown: Some((stop, thread)) }
    }

    /// Says something else.
    pub fn say(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.shown.take() {
            drop(stop);
            // A thread that panicked has nothing left to clear.
            let _ = thread.join();
        }
    }
}

impl Observer for Progress {
    fn progress(&mut self, cycle: u64, bundles: u64) -> bool {
        if self.shown.is_some() {
            self.say(match cycle {
                0 => format!("simulating: {bundles} bundles"),
                _ => format!("simulating: cycle {cycle}"),
            });
        }
        true
    }
}
