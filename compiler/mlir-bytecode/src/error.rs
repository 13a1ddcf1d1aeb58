//! What is wrong with a file.

/// Bytes that are no bytecode, or bytecode of a kind that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The offset in the file.
    pub at: usize,
    /// One line, lower case, without a full stop.
    pub what: String,
}

impl Error {
    pub fn new(at: usize, what: impl Into<String>) -> Error {
        Error { at, what: what.into() }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for Error {}
