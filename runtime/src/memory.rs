//! The host's memory: what a request needs at least is compared with what there is before it is taken.

use crate::RuntimeError;

/// Bytes that this process may still take, where the system tells: what is free, and what limits of the process leave.
fn available() -> Option<u64> {
    let field = |text: &str, key: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.split_whitespace().find_map(|w| w.parse::<u64>().ok())
    };
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let free = read("/proc/meminfo").and_then(|t| field(&t, "MemAvailable:")).map(|k| k * 1024);
    let most = read("/proc/self/limits").and_then(|t| field(&t, "Max address space"));
    let used = read("/proc/self/status").and_then(|t| field(&t, "VmSize:")).map(|k| k * 1024);
    let left = most.map(|m| m.saturating_sub(used.unwrap_or(0)));
    match (free, left) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Bytes up to which nothing is asked: they are there, or nothing works.
const SMALL: u64 = 64 << 20;

/// That there are `bytes` for `what`, before they are taken.
///
/// # Errors
/// If the host has fewer.
pub fn require(bytes: u64, what: &str) -> Result<(), RuntimeError> {
    if bytes <= SMALL {
        return Ok(());
    }
    match available() {
        Some(have) if bytes > have => Err(RuntimeError::Request(format!(
            "{what} needs {} of the host's memory, {} is there",
            size(bytes),
            size(have)
        ))),
        _ => Ok(()),
    }
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.1} GB", b / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_refused_before_it_is_taken() {
        assert!(require(1 << 20, "an array").is_ok());
        if available().is_some() {
            let e = require(1 << 60, "an array").expect_err("no host has that").to_string();
            assert!(e.contains("an array needs 1152921504.6 GB"), "{e}");
        }
    }
}
