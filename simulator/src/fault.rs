//! Faults of the simulated program, as values.

use std::fmt;
use systole_isa::program::DebugPlace;

/// A core among all of a pod's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreId {
    pub chip: u32,
    /// Its number on the chip.
    pub core: u32,
}

impl CoreId {
    /// The core `n` numbers further on the same chip.
    pub fn next(self, n: u32) -> CoreId {
        CoreId { core: self.core + n, ..self }
    }
}

/// An instruction by where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// Bundle index.
    pub bundle: u32,
    /// Assembly text.
    pub inst: Box<str>,
}

impl fmt::Display for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in bundle {}", self.inst, self.bundle)
    }
}

/// What went wrong in the simulated program, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub on: CoreId,
    /// What is at fault; without a text a bundle as a whole.
    pub at: Issued,
    /// Cycle of issue (0 in numeric-only mode).
    pub cycle: u64,
    pub origin: Box<Origin>,
    pub kind: FaultKind,
}

/// What the faulty code was made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The HLO instruction; empty if none.
    pub op: Box<str>,
    /// The line, where the code's kernel brings one.
    pub place: Option<DebugPlace>,
}

/// A side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaSide {
    Source,
    Destination,
}

impl fmt::Display for DmaSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DmaSide::Source => "source",
            DmaSide::Destination => "destination",
        })
    }
}

/// The kinds of fault.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// An access outside a memory: name, first unit touched, units touched, units that exist.
    OutOfRange {
        memory: &'static str,
        unit: &'static str,
        first: i64,
        last: i64,
        size: u64,
    },
    /// A DMA that no wait has ordered yet conflicts with the access.
    Race {
        access: &'static str,
        memory: &'static str,
        dma: Issued,
        dma_side: DmaSide,
    },
    /// DMAs of two cores of a device reach a common byte of HBM, one of them writes it, and no wait for each other's
    /// arrival lies between them: the other core's number and instruction.
    CoreRace {
        core: u32,
        dma: Issued,
    },
    /// A wait that no transfer can satisfy any more.
    Deadlock {
        waits_for: String,
    },
    /// A pop or drain with nothing to take.
    EmptyFifo {
        unit: String,
    },
    /// A use of a unit out of its protocol.
    Protocol {
        unit: String,
        message: String,
    },
    /// Semaphores with bytes left at the end, or transfers never waited for.
    Unbalanced {
        semaphores: Vec<(u32, u64)>,
    },
    /// A branch on a value that timing-only runs do not know.
    UnknownBranch {
        loop_name: String,
    },
    CallDepth {
        depth: u32,
    },
    ReturnWithoutCall,
    /// Execution ran past the last bundle.
    EndOfCode,
    /// `b.trap`.
    Trap {
        message: String,
    },
    /// The host could not do what `b.host` asks.
    Host {
        message: String,
    },
    MaxCycles {
        limit: u64,
    },
    /// Every way to a device is cut; the link (from chip, to chip) at which a message stopped.
    LinkDown {
        from: u32,
        to: u32,
        device: u32,
    },
    /// The observer asked to stop.
    Interrupted,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::OutOfRange { memory, unit, first, last, size } => {
                write!(f, "access to {memory} {unit}s {first}..={last}, but it has {size} {unit}s")
            }
            FaultKind::Race { access, memory, dma, dma_side } => {
                write!(f, "race: {access} {memory} at the {dma_side} of a DMA that has not been waited for ({dma})")
            }
            FaultKind::CoreRace { core, dma } => write!(
                f,
                "race: core {core} reaches the same HBM bytes with no barrier in between ({dma}), and one of both writes them"
            ),
            FaultKind::Deadlock { waits_for } => write!(f, "deadlock: waits for {waits_for}"),
            FaultKind::EmptyFifo { unit } => write!(f, "{unit} has no result to take"),
            FaultKind::Protocol { unit, message } => write!(f, "{unit}: {message}"),
            FaultKind::Unbalanced { semaphores } => {
                write!(f, "program ended with semaphores not back at zero:")?;
                for (s, bytes) in semaphores {
                    write!(f, " sem {s} has {bytes} bytes that no wait took;")?;
                }
                Ok(())
            }
            FaultKind::UnknownBranch { loop_name } => write!(
                f,
                "branch on a value that timing-only does not know; give its trip count with --assume {loop_name}=TRIPS"
            ),
            FaultKind::CallDepth { depth } => write!(f, "call stack deeper than the chip's {depth} entries"),
            FaultKind::ReturnWithoutCall => write!(f, "return with an empty call stack"),
            FaultKind::EndOfCode => write!(f, "execution ran past the last bundle"),
            FaultKind::Trap { message } => write!(f, "check failed: {message}"),
            FaultKind::Host { message } => write!(f, "{message}"),
            FaultKind::MaxCycles { limit } => write!(f, "still running after {limit} cycles"),
            FaultKind::LinkDown { from, to, device } => {
                write!(f, "link {from}-{to} is down, and no other way leads to device {device}")
            }
            FaultKind::Interrupted => write!(f, "interrupted"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chip {} core {} bundle {} cycle {}", self.on.chip, self.on.core, self.at.bundle, self.cycle)?;
        if !self.at.inst.is_empty() {
            write!(f, " `{}`", self.at.inst)?;
        }
        if !self.origin.op.is_empty() {
            write!(f, " (%{})", self.origin.op.trim_start_matches('%'))?;
        }
        if let Some(place) = &self.origin.place {
            write!(f, " at {place}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl std::error::Error for Fault {}
