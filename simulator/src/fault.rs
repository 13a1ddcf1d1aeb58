//! Faults of the simulated program, as values.

use std::fmt;
use systole_isa::program::DebugPlace;

/// What went wrong in the simulated program, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub chip: u32,
    pub core: u32,
    /// Bundle index of the instruction.
    pub bundle: u32,
    /// Cycle of issue (0 in numeric-only mode).
    pub cycle: u64,
    /// The instruction in assembly text; empty where a bundle as a whole is at fault.
    pub inst: Box<str>,
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
        dma_bundle: u32,
        dma_inst: Box<str>,
        dma_side: DmaSide,
    },
    /// DMAs of two cores of a device reach a common byte of HBM, one of them writes it, and no wait for each other's
    /// arrival lies between them: the other core's number, bundle and instruction.
    CoreRace {
        core: u32,
        dma_bundle: u32,
        dma_inst: Box<str>,
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
            FaultKind::Race { access, memory, dma_bundle, dma_inst, dma_side } => write!(
                f,
                "race: {access} {memory} at the {dma_side} of a DMA that has not been waited for (`{dma_inst}` in bundle {dma_bundle})"
            ),
            FaultKind::CoreRace { core, dma_bundle, dma_inst } => write!(
                f,
                "race: core {core} reaches the same HBM bytes with no barrier in between (`{dma_inst}` in bundle {dma_bundle}), and one of both writes them"
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
        write!(f, "chip {} core {} bundle {} cycle {}", self.chip, self.core, self.bundle, self.cycle)?;
        if !self.inst.is_empty() {
            write!(f, " `{}`", self.inst)?;
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
