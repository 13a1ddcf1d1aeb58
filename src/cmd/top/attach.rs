//! `systole top --attach FOLDER`: the runs of a process that writes them there, such as a Python program with `SYSTOLE_LIVE`.

use crate::live::Control;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};
use systole_runtime::profile::{self, Profile};
use systole_runtime::{RuntimeError, memory};
use systole_tui::{Data, Event, Phase};

/// Time between two looks at the folder.
const INTERVAL: Duration = Duration::from_millis(100);
/// Larger files are no profiles of the live view.
const MOST: u64 = 1 << 30;

/// A folder of profiles, and the last one that was seen of it.
pub struct Folder {
    path: PathBuf,
    seen: Option<(SystemTime, PathBuf)>,
}

impl Folder {
    /// # Errors
    /// If there is no such folder.
    pub fn open(path: &str) -> Result<Folder, RuntimeError> {
        match Path::new(path).is_dir() {
            true => Ok(Folder { path: path.into(), seen: None }),
            false => {
                let message = format!("{path}: --attach needs the folder that SYSTOLE_LIVE names in the other process");
                Err(RuntimeError::Request(message))
            }
        }
    }

    /// The newest profile, if it has not been seen yet.
    ///
    /// # Errors
    /// If the folder cannot be read any more.
    pub fn newest(&mut self) -> Result<Option<Profile>, RuntimeError> {
        let gone = |e: std::io::Error| RuntimeError::Request(format!("{}: {e}", self.path.display()));
        let profiles = std::fs::read_dir(&self.path).map_err(gone)?.filter_map(|entry| {
            let path = entry.ok()?.path();
            let whole = path.extension().is_some_and(|e| e == "sysp");
            let meta = std::fs::metadata(&path).ok().filter(|m| whole && m.is_file() && m.len() <= MOST)?;
            Some((meta.modified().ok()?, path))
        });
        let newest = profiles.max();
        if newest.is_none() || newest == self.seen {
            return Ok(None);
        }
        self.seen = newest;
        let Some((_, path)) = &self.seen else { return Ok(None) };
        // A file may be replaced between the look and the reading: the next look finds the other one.
        let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
        memory::require(bytes.len() as u64, "the profile")?;
        Ok(profile::read(&bytes).ok())
    }

    /// Hands every new profile to the dashboard until the user leaves; a pause keeps what is shown.
    ///
    /// # Errors
    /// As [`Folder::newest`].
    pub fn follow(mut self, control: &Control, news: &Sender<Event>) -> Result<(), RuntimeError> {
        let mut phase = None;
        while !control.stopped() {
            let now = if control.paused() { Phase::Paused } else { Phase::Running };
            // The dashboard may be gone, which ends this at the next turn.
            if phase.as_ref() != Some(&now) {
                let _ = news.send(Event::Phase(now.clone()));
            }
            if now == Phase::Running
                && let Some(p) = self.newest()?
            {
                let _ = news.send(Event::Data(Arc::new(Data::new(p))));
            }
            phase = Some(now);
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }
}
