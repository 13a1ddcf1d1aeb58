//! What can go wrong while evaluating a program.

use std::fmt;

/// Why an evaluation gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// An operation that the evaluator refuses, with the instruction's name and the reason.
    Unsupported { node: String, why: String },
    /// An instruction whose operands or attributes contradict each other (a module that was not verified).
    Malformed { node: String, why: String },
    /// A limit of [`super::EvalOptions`] was reached.
    Limit { node: String, why: String },
    /// A `check.expect_*` custom call that did not hold.
    Check { node: String, why: String },
    /// The host (custom call, infeed, outfeed, ..) refused.
    Host { node: String, why: String },
    /// Inputs that do not fit the entry computation's parameters.
    Inputs(String),
    /// Devices that wait for each other, with who waits for what.
    Deadlock(String),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::Unsupported { node, why } => write!(f, "{node}: cannot evaluate: {why}"),
            EvalError::Malformed { node, why } => write!(f, "{node}: malformed: {why}"),
            EvalError::Limit { node, why } => write!(f, "{node}: limit reached: {why}"),
            EvalError::Check { node, why } => write!(f, "{node}: check failed: {why}"),
            EvalError::Host { node, why } => write!(f, "{node}: {why}"),
            EvalError::Inputs(why) => write!(f, "inputs: {why}"),
            EvalError::Deadlock(why) => write!(f, "deadlock: {why}"),
        }
    }
}

impl std::error::Error for EvalError {}

/// The reason of a failure inside one operation; the driver adds the instruction's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Unsupported(String),
    Malformed(String),
    Check(String),
    Host(String),
    /// A failure inside a called computation, already named.
    Inner(EvalError),
}

impl From<EvalError> for Fault {
    fn from(e: EvalError) -> Fault {
        Fault::Inner(e)
    }
}

impl Fault {
    /// With the name of the instruction that failed.
    pub(super) fn at(self, node: &str) -> EvalError {
        let node = node.to_string();
        match self {
            Fault::Unsupported(why) => EvalError::Unsupported { node, why },
            Fault::Malformed(why) => EvalError::Malformed { node, why },
            Fault::Check(why) => EvalError::Check { node, why },
            Fault::Host(why) => EvalError::Host { node, why },
            Fault::Inner(e) => e,
        }
    }
}

/// A [`Fault::Malformed`] of that reason.
pub(super) fn malformed(why: impl Into<String>) -> Fault {
    Fault::Malformed(why.into())
}
