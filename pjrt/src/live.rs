//! The live view: where `SYSTOLE_LIVE` names a folder, the newest run of every program lies there as a profile, and
//! `systole top --attach FOLDER` shows what comes while the process goes on.
//!
//! The first run of a program is always written, later ones only so often that writing takes little of the time. Files
//! appear whole: they are written under another name first.

use crate::executable::Executable;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use systole_runtime::Mode;

/// Least time between two profiles of programs that have been shown.
const INTERVAL: Duration = Duration::from_millis(200);
/// A profile is made at most in one part of so many of the time.
const PART: u32 = 8;

/// What has been shown.
#[derive(Default)]
pub struct State {
    /// When the last profile was written, and what that took.
    pub last: Option<(Instant, Duration)>,
    /// Fingerprints of the programs that have been shown.
    pub shown: BTreeSet<String>,
}

struct Live {
    folder: PathBuf,
    state: Mutex<State>,
}

/// The folder that the environment names, once it is there.
fn live() -> Option<&'static Live> {
    static LIVE: OnceLock<Option<Live>> = OnceLock::new();
    let open = || {
        let folder = PathBuf::from(std::env::var_os("SYSTOLE_LIVE").filter(|f| !f.is_empty())?);
        match std::fs::create_dir_all(&folder) {
            Ok(()) => Some(Live { folder, state: Mutex::default() }),
            Err(e) => {
                eprintln!("systole: SYSTOLE_LIVE={}: {e}; runs are not shown", folder.display());
                None
            }
        }
    };
    LIVE.get_or_init(open).as_ref()
}

impl State {
    /// Whether a run of the program of that fingerprint is to be shown now.
    pub fn due(&self, fingerprint: &str) -> bool {
        let long_ago = self.last.is_none_or(|(at, cost)| at.elapsed() >= INTERVAL.max(cost * PART));
        long_ago || !self.shown.contains(fingerprint)
    }
}

/// Whether the next run of a program is to be shown.
pub(crate) fn wanted(e: &Executable, mode: Mode) -> bool {
    let due = |l: &Live| l.state.lock().unwrap_or_else(PoisonError::into_inner).due(&e.fingerprint);
    mode != Mode::NumericOnly && live().is_some_and(due)
}

/// Shows a run; it took since `start` to make its profile.
pub(crate) fn show(e: &Executable, profile: &[u8], start: Instant) {
    let Some(l) = live() else { return };
    // A run that cannot be shown is none the worse for it.
    let _ = write(&l.folder, &file_name(&e.facts.name, &e.fingerprint), profile);
    let mut state = l.state.lock().unwrap_or_else(PoisonError::into_inner);
    state.last = Some((Instant::now(), start.elapsed()));
    state.shown.insert(e.fingerprint.clone());
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let unfinished = folder.join(format!(".{name}.{}", std::process::id()));
    std::fs::write(&unfinished, bytes)?;
    std::fs::rename(&unfinished, folder.join(name))
}

/// A program's file: its name as far as files may have it, and enough of its fingerprint.
pub fn file_name(name: &str, fingerprint: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).take(60).collect();
    format!("{name}-{}.sysp", fingerprint.chars().take(8).collect::<String>())
}
