//! What can go wrong on the host side.

use systole_simulator::Fault;

/// A runtime error.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The program text is wrong: rendered diagnostics.
    #[error("{0}")]
    Source(String),
    /// The program cannot be compiled: a rendered message.
    #[error("{0}")]
    Compile(String),
    /// Pins of a schedule do not hold: a rendered message, and the lines of all of them.
    #[error("{0}")]
    Schedule(String, Vec<usize>),
    /// A request that does not fit: inputs, chips, files.
    #[error("{0}")]
    Request(String),
    /// The simulated program failed.
    #[error("{0}")]
    Fault(Box<Fault>),
    /// A check in the program failed.
    #[error("check failed: {0}")]
    Check(String),
    /// Some of what was asked for failed.
    #[error("{0}")]
    Failed(String),
}

impl RuntimeError {
    /// Whether the request was wrong (exit code 2) rather than the program's run (exit code 1).
    pub fn is_request(&self) -> bool {
        match self {
            RuntimeError::Source(_)
            | RuntimeError::Compile(_)
            | RuntimeError::Schedule(..)
            | RuntimeError::Request(_) => true,
            RuntimeError::Fault(_) | RuntimeError::Check(_) | RuntimeError::Failed(_) => false,
        }
    }
}
