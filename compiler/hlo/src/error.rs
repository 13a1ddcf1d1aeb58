//! Why a program cannot be compiled.

use crate::graph::Span;
use std::fmt;

/// A compile error: a limit of the chip or compiler, a request that cannot be met, or a bug of the compiler.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// The program asks for something that the compiler has no lowering for.
    #[error("{message}")]
    Unsupported { message: String, span: Span },
    /// The program needs more of a resource than there is.
    #[error("{resource}: needs {need}, limit {have}{detail}")]
    Limit { resource: Resource, need: u64, have: u64, detail: String },
    /// A plan that was read does not go together.
    #[error("the plan does not go together: {0}")]
    Plan(String),
    /// A decision that a schedule pins cannot be, or a schedule that cannot be read.
    #[error("{file}, line {line}: {message}{}", as_well(others))]
    Schedule {
        file: String,
        line: usize,
        message: String,
        /// Lines of further pins that do not hold.
        others: Vec<usize>,
    },
    /// The compiler broke one of its own invariants.
    #[error("internal error in {stage}: {message}")]
    Internal { stage: String, message: String },
    /// Any of these, found while working on an operation of the source.
    #[error("{error}")]
    At { span: Span, error: Box<CompileError> },
}

/// What a program can need too much of. Names are those of operations or arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of vector memory for the arrays that a step needs at one time.
    Vmem,
    /// Bytes of vector memory for the windows of an operation's kernel; what is wrong besides the size.
    Windows {
        op: String,
        why: String,
    },
    /// Word rows of vector memory for the pieces of a collective.
    Pieces {
        op: String,
    },
    /// Word rows of vector memory for spilled registers.
    SpillRows,
    /// Bytes of HBM.
    Hbm,
    SmemWords,
    /// DMA descriptors of a kernel.
    Descriptors,
    /// DMA semaphores of the chip.
    Semaphores,
    KernelSemaphores,
    CollectiveSemaphores,
    /// Registers of a kind that a kernel needs at one time, or for its arguments.
    Registers {
        file: &'static str,
        kernel: String,
    },
    /// Bytes of one copy.
    CopyBytes {
        array: String,
    },
    SortedElements,
    /// Nodes of a graph that passes make.
    Nodes,
    /// Positions of a window.
    WindowTaps,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Vmem => write!(f, "VMEM"),
            Resource::Windows { op, why } => write!(f, "vector memory for `{op}` ({why})"),
            Resource::Pieces { op } => write!(f, "VMEM rows for pieces of `{op}`"),
            Resource::SpillRows => write!(f, "VMEM rows for spilled registers"),
            Resource::Hbm => write!(f, "HBM"),
            Resource::SmemWords => write!(f, "SMEM words"),
            Resource::Descriptors => write!(f, "DMA descriptors of a kernel"),
            Resource::Semaphores => write!(f, "DMA semaphores"),
            Resource::Registers { file, kernel } => write!(f, "{file} registers of kernel `{kernel}`"),
            Resource::KernelSemaphores => write!(f, "semaphores of a kernel"),
            Resource::CollectiveSemaphores => write!(f, "semaphores for collectives"),
            Resource::CopyBytes { array } => write!(f, "one copy (of `{array}`)"),
            Resource::SortedElements => write!(f, "elements of a sorted sequence"),
            Resource::Nodes => write!(f, "nodes"),
            Resource::WindowTaps => write!(f, "window"),
        }
    }
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

    /// The error with the place of the operation that was worked on, unless it has a place already.
    pub fn at(self, span: Span) -> CompileError {
        match self.span() {
            None if span != Span::default() => CompileError::At { span, error: Box::new(self) },
            None | Some(_) => self,
        }
    }

    /// Whether arrays or windows did not fit into vector memory together: a plan that keeps less there may.
    pub fn is_vmem(&self) -> bool {
        match self {
            CompileError::Limit { resource, .. } => matches!(resource, Resource::Vmem | Resource::Windows { .. }),
            CompileError::At { error, .. } => error.is_vmem(),
            CompileError::Unsupported { .. }
            | CompileError::Plan(_)
            | CompileError::Schedule { .. }
            | CompileError::Internal { .. } => false,
        }
    }

    /// The lines of a schedule's pins that do not hold, if that is what is wrong.
    pub fn pins(&self) -> Option<Vec<usize>> {
        match self {
            CompileError::Schedule { line, others, .. } => {
                Some(std::iter::once(*line).chain(others.iter().copied()).collect())
            }
            CompileError::At { error, .. } => error.pins(),
            CompileError::Unsupported { .. }
            | CompileError::Limit { .. }
            | CompileError::Plan(_)
            | CompileError::Internal { .. } => None,
        }
    }

    /// Where in the source text, if known.
    pub fn span(&self) -> Option<Span> {
        match self {
            CompileError::Unsupported { span, .. } if *span != Span::default() => Some(*span),
            CompileError::At { span, .. } => Some(*span),
            CompileError::Unsupported { .. }
            | CompileError::Limit { .. }
            | CompileError::Plan(_)
            | CompileError::Schedule { .. }
            | CompileError::Internal { .. } => None,
        }
    }
}

/// What an error of a schedule says of further lines.
fn as_well(lines: &[usize]) -> String {
    let numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
    if lines.is_empty() { String::new() } else { format!("\nnor do these lines hold: {}", numbers.join(", ")) }
}

/// Fails where more of a resource is needed than there is.
///
/// # Errors
/// [`CompileError::Limit`].
pub fn limit(resource: Resource, need: u64, have: u64) -> Result<(), CompileError> {
    if need <= have {
        return Ok(());
    }
    Err(CompileError::Limit { resource, need, have, detail: String::new() })
}
