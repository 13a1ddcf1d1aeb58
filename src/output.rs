//! Standard output: a closed pipe ends the process with success.

use std::io::{ErrorKind, Write};
use systole_runtime::RuntimeError;

/// Writes text to standard output.
///
/// # Errors
/// If it cannot be written and the reader did not simply go away.
pub fn print(text: &str) -> Result<(), RuntimeError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(RuntimeError::Request(format!("standard output: {e}"))),
    }
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read; the message names it.
pub fn read(path: &str) -> Result<Vec<u8>, RuntimeError> {
    std::fs::read(path).map_err(|e| RuntimeError::Request(format!("{path}: {e}")))
}

/// Writes a file.
///
/// # Errors
/// If it cannot be written; the message names it.
pub fn write(path: &str, bytes: &[u8]) -> Result<(), RuntimeError> {
    std::fs::write(path, bytes).map_err(|e| RuntimeError::Request(format!("{path}: {e}")))
}
