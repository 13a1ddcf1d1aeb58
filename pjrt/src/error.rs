//! What goes wrong, with the codes of the interface.

use systole_runtime::RuntimeError;
use systole_simulator::FaultKind;

/// The codes of `absl::Status` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    InvalidArgument = 3,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
}

/// An error as Python will see it.
#[derive(Clone, Debug)]
pub struct Error {
    pub code: u32,
    pub message: String,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code: code as u32, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, message)
    }

    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(Code::Internal, message)
    }
}

impl From<RuntimeError> for Error {
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "every fault but a failed check is a bug of the program or of this project"
    )]
    fn from(e: RuntimeError) -> Error {
        let message = e.to_string();
        let code = match &e {
            RuntimeError::Source(_) | RuntimeError::Request(_) => Code::InvalidArgument,
            RuntimeError::Compile(_) if message.contains("HBM") && message.contains("bytes") => Code::ResourceExhausted,
            RuntimeError::Compile(_) | RuntimeError::Schedule(..) => Code::InvalidArgument,
            RuntimeError::Fault(f) => match &f.kind {
                FaultKind::Trap { .. } => Code::FailedPrecondition,
                _ => Code::Internal,
            },
            RuntimeError::Check(_) | RuntimeError::Failed(_) => Code::FailedPrecondition,
        };
        Error::new(code, message)
    }
}
