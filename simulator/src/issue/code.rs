//! Predecoded code: a program's bundles as flat arrays that the timing and the value walk read.
//!
//! Invariants that loading proves, so that the walks need no checks: register, unit, descriptor, semaphore and format
//! numbers exist, branch targets are bundles, no bundle defines a register twice, and no slot holds more instructions
//! than the chip has.

use super::fetch::Blocks;
use crate::stats::{Cause, Static};
use systole_isa::Slot;
use systole_isa::opcodes::{ScalarFn, StateFn};

/// Ready-time resources: one flat array over registers and unit queues.
pub(crate) const RESOURCES: usize = 1024;

/// A packed time, `cycle << 4 | cause`.
pub(crate) type Packed = u64;

/// Ready time of what will never be ready without an instruction that has not issued yet.
pub(crate) const NEVER: Packed = u64::MAX;

/// Layout of the resource array.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resources {
    pub vectors: usize,
    pub masks: usize,
    pub mxus: usize,
    pub xlus: usize,
    pub groups: usize,
    pub end: usize,
}

/// Queues of a matrix unit in the resource array, from [`Resources::mxu`].
pub(crate) const MXU_PUSH: usize = 0;
pub(crate) const MXU_STAGE: usize = 1;
pub(crate) const MXU_POP: usize = 2;
pub(crate) const PER_MXU: usize = 3;
/// Most units of a slot group that instructions may keep.
pub(crate) const MAX_UNITS: usize = 16;
/// Slot groups.
pub(crate) const GROUPS: usize = Slot::ALL.len();

impl Resources {
    pub fn new(scalars: usize, vectors: usize, masks: usize, mxus: usize, xlus: usize) -> Resources {
        let v = scalars;
        let m = v + vectors;
        let u = m + masks;
        let x = u + PER_MXU * mxus;
        let g = x + xlus;
        Resources { vectors: v, masks: m, mxus: u, xlus: x, groups: g, end: g + GROUPS * MAX_UNITS }
    }

    /// When `count` units of a slot group are free.
    #[inline(always)]
    pub fn group(&self, slot: usize, count: usize) -> usize {
        self.groups + slot * MAX_UNITS + count - 1
    }

    pub fn mxu(&self, unit: usize, queue: usize) -> usize {
        self.mxus + unit * PER_MXU + queue
    }

    pub fn xlu(&self, unit: usize) -> usize {
        self.xlus + unit
    }
}

/// Unit bits of [`Head::units`], in the order of the unit table; matrix unit `u` is bit `MXU_BIT + u`.
pub(crate) const UNIT_SCALAR: u32 = 0;
pub(crate) const UNIT_VALU: u32 = 1;
pub(crate) const UNIT_VLOAD: u32 = 2;
pub(crate) const UNIT_VSTORE: u32 = 3;
pub(crate) const UNIT_EUP: u32 = 4;
pub(crate) const UNIT_XLU: u32 = 5;
pub(crate) const SLOT_UNITS: usize = 6;
/// Not units: the bundle asks for nothing but registers, queues and matrix units in runs without numbers; it starts a transfer or
/// signals.
pub(crate) const PLAIN_BIT: u32 = 6;
pub(crate) const STARTS_BIT: u32 = 7;
pub(crate) const MXU_BIT: u32 = 8;

/// The bundle starts a debug range.
pub(crate) const FLAG_OP: u8 = 1;
/// A special operation decides when the bundle may issue.
pub(crate) const FLAG_GATE: u8 = 2;
/// The bundle ends in a branch.
pub(crate) const FLAG_BRANCH: u8 = 4;
/// The bundle begins a block of code (programs larger than instruction memory only).
pub(crate) const FLAG_BLOCK: u8 = 8;
/// The bundle waits for transfers or for other cores.
pub(crate) const FLAG_WAIT: u8 = 16;
/// The bundle uses a slot group of [`Code::shared`].
pub(crate) const FLAG_SHARED: u8 = 32;
/// None of the scalar instructions that time depends on changes what one behind it reads.
pub(crate) const FLAG_ORDERED: u8 = 64;
/// The bundle names accumulator rows by registers.
pub(crate) const FLAG_ROWS: u8 = 128;

/// Resources that bundles wait for lie in so many at a time, and what they define in so many: where there are less, the scalar
/// register zero, which is always ready, makes them up. Branches that go another way each time cost more than that.
pub(crate) const READS: usize = 4;
pub(crate) const WRITES: usize = 2;

/// One bundle: ranges into the flat arrays. A range's length is in the following field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    pub reads: u32,
    pub writes: u32,
    pub scalars: u32,
    pub specials: u32,
    pub values: u32,
    pub nreads: u8,
    pub nwrites: u8,
    pub nscalars: u8,
    /// The first so many of them are those that time depends on.
    pub ntimed: u8,
    pub nspecials: u8,
    pub nvalues: u8,
    pub flags: u8,
    /// What the bundle keeps beyond one cycle (memory ports), as a packed time: zero if that is nothing.
    pub extra: u8,
    pub units: u32,
}

impl Head {
    /// Whether the bundle asks for nothing but registers, queues and matrix units, in runs without numbers.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.units >> PLAIN_BIT & 1 == 1
    }

    /// Says whether the bundle is plain, once it is known how many of its scalar instructions time depends on.
    #[inline(always)]
    pub fn find_plain(&mut self) {
        const ASKS: u8 = FLAG_GATE | FLAG_BRANCH | FLAG_WAIT | FLAG_SHARED | FLAG_ROWS;
        let asks = u32::from(self.flags & ASKS) | self.units & 1 << STARTS_BIT | u32::from(self.ntimed);
        self.units = self.units & !(1 << PLAIN_BIT) | u32::from(asks == 0) << PLAIN_BIT;
    }
}

/// A register write: the resource and what to add to the issue time, `latency << 4 | cause`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub resource: u16,
    pub delta: u32,
}

/// What a scalar instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    /// A function of its source registers and immediate.
    Pure(ScalarFn),
    /// What touches more than scalar registers.
    State(StateFn),
}

/// A scalar instruction in compact form; sources that it lacks are register zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarOp {
    pub kind: ScalarKind,
    pub d: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    pub imm: i32,
}

impl ScalarOp {
    /// A bit for each source register.
    #[inline(always)]
    pub fn sources(&self) -> u64 {
        1 << (self.a & 63) | 1 << (self.b & 63) | 1 << (self.c & 63)
    }
}

/// Timing of an instruction that touches more than registers. Durations `d16` are sixteenths of a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Special {
    Stage {
        unit: u8,
        d16: u32,
    },
    Latch {
        unit: u8,
    },
    Push {
        unit: u8,
        d16: u32,
    },
    PushAcc {
        unit: u8,
        d16: u32,
        row: u8,
    },
    Pop {
        unit: u8,
        retires: bool,
    },
    Drain {
        unit: u8,
        row: u8,
    },
    TransposePush {
        unit: u8,
        latency: u32,
    },
    /// `count` instructions of a slot group of several units, which keep their units for `interval` cycles: two or more.
    Group {
        group: u8,
        count: u8,
        interval: u32,
    },
    Wait {
        sem: u8,
        bytes: u32,
        latency: u32,
    },
    WaitS {
        sem: u8,
        reg: u8,
        latency: u32,
    },
    /// Index into [`Code::starts`].
    DmaStart {
        start: u32,
    },
    /// Index into [`Code::remotes`].
    DmaRemote {
        start: u32,
    },
    Signal {
        device: u8,
        sem: u8,
        count: u32,
    },
    /// Waits for the device's other cores.
    Cores {
        share: u32,
        latency: u32,
    },
    /// A look at a semaphore: what other devices sent until now must be known.
    Test,
}

impl Code {
    /// The special operations of a bundle.
    #[inline(always)]
    pub fn specials(&self, head: &Head) -> &[Special] {
        &self.specials[head.specials as usize..][..head.nspecials as usize]
    }

    /// The scalar instructions of a bundle that time depends on.
    #[inline(always)]
    pub fn timed(&self, head: &Head) -> &[ScalarOp] {
        &self.scalars[head.scalars as usize..][..head.ntimed as usize]
    }
}

impl Special {
    /// Whether the operation constrains issue beyond the bundle's static reads.
    pub fn gates(&self) -> bool {
        match self {
            Special::Drain { .. } | Special::Test => true,
            Special::Wait { .. } | Special::WaitS { .. } | Special::Cores { .. } => true,
            Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::PushAcc { .. } => false,
            Special::Pop { .. } | Special::TransposePush { .. } | Special::DmaStart { .. } => false,
            Special::DmaRemote { .. } | Special::Signal { .. } | Special::Group { .. } => false,
        }
    }

    /// The register that names the accumulator rows of the operation.
    pub fn row(&self) -> Option<u8> {
        match *self {
            Special::PushAcc { row, .. } | Special::Drain { row, .. } => Some(row),
            Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::Pop { .. } => None,
            Special::TransposePush { .. } | Special::Group { .. } | Special::Wait { .. } | Special::WaitS { .. } => {
                None
            }
            Special::DmaStart { .. } | Special::DmaRemote { .. } | Special::Signal { .. } => None,
            Special::Cores { .. } | Special::Test => None,
        }
    }

    /// Whether the operation starts a transfer or signals.
    pub fn starts(&self) -> bool {
        matches!(self, Special::DmaStart { .. } | Special::DmaRemote { .. } | Special::Signal { .. })
    }

    /// Whether the operation waits for transfers or for other cores.
    pub fn waits(&self) -> bool {
        matches!(self, Special::Wait { .. } | Special::WaitS { .. } | Special::Cores { .. })
    }
}

/// Operands of a `dma.start`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub desc: u32,
    pub src: u8,
    pub src_offset: u8,
    pub dst: u8,
    pub dst_offset: u8,
    pub sem: u8,
}

/// Operands of a `dma.remote`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteStart {
    pub desc: u32,
    pub src: u8,
    pub dst: u8,
    pub device: u8,
    pub send: u8,
    pub recv: u8,
}

/// A control instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Branch {
    Jump { target: u32 },
    NotZero { reg: u8, target: u32 },
    Zero { reg: u8, target: u32 },
    Loop { reg: u8, target: u32 },
    Call { target: u32 },
    Return,
    Halt,
    Trap { code: i32 },
    Host { call: u32 },
}

impl Branch {
    /// Where it goes if it is taken.
    pub fn target(self) -> Option<u32> {
        match self {
            Branch::Jump { target } | Branch::NotZero { target, .. } | Branch::Zero { target, .. } => Some(target),
            Branch::Loop { target, .. } | Branch::Call { target } => Some(target),
            Branch::Return | Branch::Halt | Branch::Trap { .. } | Branch::Host { .. } => None,
        }
    }
}

/// A program's code, predecoded.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub heads: Vec<Head>,
    pub reads: Vec<[u16; READS]>,
    pub writes: Vec<[Write; WRITES]>,
    pub scalars: Vec<ScalarOp>,
    pub specials: Vec<Special>,
    pub starts: Vec<Start>,
    pub remotes: Vec<RemoteStart>,
    /// Branch of each bundle; meaningful where the head says so.
    pub branches: Vec<Branch>,
    /// Debug op of each bundle.
    pub ops: Vec<u32>,
    pub resources: Resources,
    /// The resources that some bundle waits for, a bit for each.
    pub waited: [u32; RESOURCES / 32],
    pub blocks: Blocks,
    /// Matrix units that the program uses.
    pub mxus_used: u32,
    /// Slot groups in which the program has instructions that keep their unit longer than a cycle.
    pub long: [bool; GROUPS],
    /// [`Head::units`] of such groups.
    pub long_units: u32,
    /// The long groups of several units.
    pub shared: [bool; GROUPS],
    /// Cycles that the bundle's instructions keep single units of long groups: (bundle, group, interval).
    pub kept: Vec<(u32, u8, u32)>,
    /// What each bundle makes the machine do.
    pub activity: Static,
}

/// Delta of a write in a ready time.
pub(crate) fn delta(latency: u32, cause: Cause) -> u32 {
    latency << 4 | cause as u32
}
