//! Why a program cannot be compiled.

use crate::graph::Span;

/// A compile error: a limit of the chip or compiler, a request that cannot be met, or a bug of the compiler.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// The program asks for something that the compiler has no lowering for.
    #[error("{message}")]
    Unsupported { message: String, span: Span },
    /// The program needs more of a resource than there is.
    #[error("{resource}: needs {need}, limit {have}{detail}")]
    Limit { resource: String, need: u64, have: u64, detail: String },
    /// The compiler broke one of its own invariants.
    #[error("internal error in {stage}: {message}")]
    Internal { stage: String, message: String },
}

impl CompileError {
    /// The program asks for something without a lowering.
    pub fn unsupported(span: Span, message: impl Into<String>) -> CompileError {
        CompileError::Unsupported { message: message.into(), span }
    }

    /// A broken invariant.
    pub fn internal(stage: &str, message: impl Into<String>) -> CompileError {
        CompileError::Internal { stage: stage.to_string(), message: message.into() }
    }

    /// Whether arrays did not fit into vector memory together.
    pub fn is_vmem(&self) -> bool {
        matches!(self, CompileError::Limit { resource, .. } if resource == "VMEM" || resource.starts_with("vector memory"))
    }

    /// Where in the source text, if known.
    pub fn span(&self) -> Option<Span> {
        match self {
            CompileError::Unsupported { span, .. } if *span != Span::default() => Some(*span),
            CompileError::Unsupported { .. } | CompileError::Limit { .. } | CompileError::Internal { .. } => None,
        }
    }
}
