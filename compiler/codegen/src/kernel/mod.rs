//! Kernels: structured code over virtual registers, between tiling and scheduling.
//!
//! A [`Kernel`] is a subroutine of the chip program. Its body is a tree of instructions, counted loops and branches.
//! Instructions are [`Inst`]s whose register operands are virtual numbers, one number space for each register file
//! (scalar, vector, pair, mask); virtual scalar 0 is the hardware zero and virtual mask 0 is all ones, as in the machine.
//!
//! Order in the tree is the meaning: the scheduler may reorder whatever the registers, the memory references and the
//! units' own queues allow, and nothing else. A register may be defined more than once (a loop-carried value is defined
//! before the loop and again inside it).
//!
//! Matrix units: an output (pop, drain) comes after the inputs it needs in program order and waits for them by itself. The
//! scheduler may let an output fall behind [`pop_delay_window`] pushes that follow it, so program
//! order keeps that much of the FIFO free. Pushes to accumulators and drains may name buffers for accumulator regions;
//! without, they conflict with all accumulators of the unit.
//!
//! Memory: every vector load, store and DMA carries the buffers it may touch. Two references to different
//! [`BufferRef`]s never overlap. References to the same buffer conflict unless both only read, or unless the loop
//! they are in is marked [`LoopHints::independent`] for that buffer (then iterations touch disjoint places, and within an
//! iteration a load that comes before a store in program order keeps that order).

pub mod arguments;
pub mod build;
pub mod build_units;
pub mod code;
pub mod print;
pub mod regs;
pub mod tidy;
mod walk;

pub use build::{Arg, KernelBuilder};
pub use build_units::{DmaArgs, MemFormat, RemoteArgs, StoreFormat};
pub use code::{KernelCode, Needs};

use regs::File;
use systole_isa::program::DebugPlace;
use systole_isa::{Inst, Op};

/// A virtual register of one file.
pub trait Register: Copy + Into<Arg> {
    const FILE: File;

    fn numbered(number: u32) -> Self;
}

macro_rules! registers {
    ($($(#[doc = $doc:literal])+ $name:ident of $file:ident;)+) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl Register for $name {
            const FILE: File = File::$file;

            fn numbered(number: u32) -> $name {
                $name(number)
            }
        }

        impl From<$name> for Arg {
            fn from(r: $name) -> Arg {
                Arg(r.0 as i32)
            }
        }
    )+ };
}

registers! {
    /// Virtual scalar register.
    S of Scalar;
    /// Virtual vector register.
    V of Vector;
    /// Virtual vector register pair.
    P of Pair;
    /// Virtual mask register.
    M of Mask;
}

impl S {
    pub const ZERO: S = S(0);
}
impl M {
    pub const ALL: M = M(0);
}

/// A memory region of a kernel for alias analysis (an operand's window, a scratch area). Different numbers never
/// overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferRef(pub u32);

impl BufferRef {
    /// Scalar memory. Its loads and stores touch it anyway; copies into it and out of it, and waits for them, name it.
    pub const SCALAR_MEMORY: BufferRef = BufferRef(u32::MAX - 1);
}

/// Memory that an instruction reads and writes (loads, stores, DMA). A DMA wait lists what it makes readable or writable
/// again; everything on those buffers keeps its order with the wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Touched {
    pub reads: Vec<BufferRef>,
    pub writes: Vec<BufferRef>,
}

impl Touched {
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }
}

/// An instruction over virtual registers.
#[derive(Clone, Debug, PartialEq)]
pub struct VInst {
    pub inst: Inst,
    pub memory: Touched,
    /// Number of the line that it comes from, from 1, in [`Kernel::places`]; 0: none.
    pub place: u16,
}

impl From<Inst> for VInst {
    /// One that touches no memory and comes from no line.
    fn from(inst: Inst) -> VInst {
        VInst { inst, memory: Touched::default(), place: 0 }
    }
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trips {
    /// A known number, at least 1.
    Static(u32),
    /// From a register; may be 0. The register is not changed.
    Dynamic(S),
}

/// What the scheduler may assume of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopHints {
    /// Buffers on which iterations touch disjoint places (see the module docs).
    pub independent: Vec<BufferRef>,
    /// How often the scheduler may unroll at most (1: not at all).
    pub max_unroll: u32,
}

impl Default for LoopHints {
    /// Iterations may conflict on every buffer; unrolling is up to the scheduler.
    fn default() -> LoopHints {
        LoopHints { independent: Vec::new(), max_unroll: 64 }
    }
}

impl LoopHints {
    /// Iterations touch disjoint places of these buffers.
    pub fn independent(buffers: &[BufferRef]) -> LoopHints {
        LoopHints { independent: buffers.to_vec(), ..LoopHints::default() }
    }
}

/// A counted loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    pub trips: Trips,
    pub body: Vec<Item>,
    pub hints: LoopHints,
}

/// A part of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Inst(VInst),
    Loop(Loop),
    /// Runs `then` if the register is not zero, else `otherwise`.
    If {
        cond: S,
        then: Vec<Item>,
        otherwise: Vec<Item>,
    },
    /// Runs `head`, leaves if `cond` is zero, runs `body`, repeats.
    While {
        head: Vec<Item>,
        cond: S,
        body: Vec<Item>,
    },
    /// Calls kernel `kernel` of the unit with scalar arguments. Clobbers nothing of the caller's that is live: the
    /// allocator saves what it must.
    Call {
        kernel: u32,
        args: Vec<S>,
    },
    /// What follows in the kernel's text, up to the next mark, belongs to this debug op.
    Mark {
        debug_op: u32,
    },
}

/// The next free virtual number of each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free(pub [u32; File::ALL.len()]);

impl Default for Free {
    fn default() -> Free {
        Free(File::ALL.map(File::constants))
    }
}

impl Free {
    pub fn of(&self, file: File) -> u32 {
        self.0[file as usize]
    }

    /// The next number, which is taken then.
    pub fn take(&mut self, file: File) -> u32 {
        self.0[file as usize] += 1;
        self.0[file as usize] - 1
    }
}

/// A subroutine.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Kernel {
    /// For listings: what the kernel computes.
    pub name: String,
    /// Scalar arguments, passed in s1, s2, ..; what registers have no room for goes through memory ([`arguments`]).
    pub params: Vec<S>,
    pub body: Vec<Item>,
    pub free: Free,
    /// Index into the program's debug ops for bundle attribution; `DebugRange::CALLER` for shared kernels.
    pub debug_op: u32,
    /// What lives across a call is saved before and restored after it, not kept in memory all the time: calls are rare.
    pub saves: bool,
    /// Lines of the program that the kernel was written in, where it brings them.
    pub places: Vec<DebugPlace>,
}

impl Kernel {
    /// The kernel as code of one line, for kernels that bring none.
    #[must_use]
    pub fn at(mut self, place: DebugPlace) -> Kernel {
        self.each_instruction_mut(&mut |v| v.place = 1);
        self.places = vec![place];
        self
    }
}

/// A whole program before scheduling: `kernels[0]` is the main program and ends by `b.halt`; all others end by return.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    pub kernels: Vec<Kernel>,
}

/// Pushes by which the scheduler may delay an output of a matrix unit. Code generators that keep at most the rest of the
/// FIFO occupied in program order never overflow it after scheduling.
pub fn pop_delay_window(chip: &systole_isa::ChipConfig) -> u32 {
    (chip.mxu.fifo_rows / chip.core.sublanes.max(1) / 4).max(1)
}

/// Whether an opcode may be moved across others by data dependences alone (no memory, queue or control effect).
pub fn is_pure(op: Op) -> bool {
    op.info().effect == systole_isa::Effect::None
}

impl Kernel {
    /// Adds `base` to the numbers of the kernels it calls.
    pub fn renumber_calls(&mut self, base: u32) {
        Item::each_mut(&mut self.body, &mut |item| {
            if let Item::Call { kernel, .. } = item {
                *kernel += base;
            }
        });
    }

    /// Adds `base` to the numbers of the calls of the host that it makes.
    pub fn renumber_host(&mut self, base: u32) {
        self.each_instruction_mut(&mut |v| {
            if v.inst.op == Op::BHost {
                v.inst.operands[0] += base as i32;
            }
        });
    }

    /// Adds `base` to the numbers of the DMA descriptors it names.
    pub fn renumber(&mut self, base: u32) {
        self.each_instruction_mut(&mut |v| {
            if matches!(v.inst.op, Op::DmaStart | Op::DmaRemote) {
                v.inst.operands[0] += base as i32;
            }
        });
    }
}
