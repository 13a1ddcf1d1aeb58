//! What an instruction reads and writes: physical registers, and state outside the register files.
//!
//! Everything derives from the opcode table: operand kinds give the registers, [`Effect`] the rest. `s0` and `m0` are
//! constants and never appear. Within a bundle all reads come before all writes; instructions of one slot kind that
//! touch the same queue take effect in their order in the bundle.

use crate::dma::{DmaDesc, Space};
use crate::inst::Inst;
use crate::opcodes::{Function, LoadFn, StoreFn};
use crate::table::{Effect, Kind};
use smallvec::SmallVec;

/// A register file.
#[allow(missing_docs, reason = "the names are the documentation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum File {
    Scalar,
    Vector,
    Mask,
}

/// A physical register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg {
    /// Register file.
    pub file: File,
    /// Number in its file.
    pub number: u16,
}

impl Reg {
    /// One more than the greatest [`Reg::index`] of any register that the encoding can name.
    pub const COUNT: usize = 64 + 128 + 32;

    /// A number of its own for every register, for tables.
    pub fn index(self) -> usize {
        let base = match self.file {
            File::Scalar => 0,
            File::Vector => 64,
            File::Mask => 192,
        };
        base + self.number as usize
    }
}

impl std::fmt::Display for Reg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = match self.file {
            File::Scalar => 's',
            File::Vector => 'v',
            File::Mask => 'm',
        };
        write!(f, "{letter}{}", self.number)
    }
}

/// Registers of one instruction; both halves of a pair are listed.
pub type Regs = SmallVec<[Reg; 8]>;

/// State outside the register files. Numbers are units or semaphores.
#[allow(missing_docs, reason = "documented in groups")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    Vmem,
    Smem,
    Hbm,
    /// A matrix unit's staged weights, active weights, rows being pushed, output FIFO, accumulators.
    Staging(u8),
    Weights(u8),
    Rows(u8),
    Fifo(u8),
    Accumulators(u8),
    /// A cross-lane unit's transpose buffer.
    Transpose(u8),
    Semaphore(u8),
    /// The program counter and the call stack.
    Control,
}

/// How a resource is touched.
#[allow(missing_docs, reason = "documented in groups")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
    /// Adds to the end of a queue, or to a semaphore / takes from a queue's front, or from a semaphore.
    Append,
    Take,
}

impl Access {
    /// Whether two accesses of one resource must stay in program order. A take followed by an append need not:
    /// queues are interlocked, and only their capacity joins the two.
    pub fn ordered_before(self, later: Access) -> bool {
        !matches!((self, later), (Access::Read, Access::Read) | (Access::Take, Access::Append))
    }
}

/// Accesses of one instruction.
pub type Accesses = SmallVec<[(Resource, Access); 4]>;

/// A load or store of vector memory: sublane i moves the element row at register `base` + `offset` + i * `stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmemAccess {
    /// A store, else a load.
    pub store: bool,
    /// Scalar register that holds the address.
    pub base: u16,
    /// Rows added to it.
    pub offset: i32,
    /// Rows from one sublane to the next.
    pub stride: i32,
    /// Bits of an element in memory (8, 16, 32): addresses count rows of elements of that width.
    pub element_bits: u32,
}

impl LoadFn {
    /// Bits of an element in memory.
    pub fn element_bits(self) -> u32 {
        match self {
            LoadFn::VLd => 32,
            LoadFn::VLdBf16 | LoadFn::VLdS16 | LoadFn::VLdU16 => 16,
            LoadFn::VLdS8 | LoadFn::VLdU8 => 8,
        }
    }
}

impl StoreFn {
    /// Bits of an element in memory.
    pub fn element_bits(self) -> u32 {
        match self {
            StoreFn::VSt => 32,
            StoreFn::VStBf16 | StoreFn::VSt16 => 16,
            StoreFn::VSt8 => 8,
        }
    }
}

impl Inst {
    fn registers(&self, wanted: impl Fn(Kind) -> bool) -> Regs {
        let mut regs = Regs::new();
        for (kind, value) in self.iter().filter(|(k, _)| wanted(*k)) {
            let number = value as u16;
            match kind {
                Kind::Sd | Kind::Su | Kind::Sm if number != 0 => regs.push(Reg { file: File::Scalar, number }),
                Kind::Md | Kind::Mu if number != 0 => regs.push(Reg { file: File::Mask, number }),
                Kind::Vd | Kind::Vu => regs.push(Reg { file: File::Vector, number }),
                Kind::Pd | Kind::Pu => {
                    regs.push(Reg { file: File::Vector, number });
                    regs.push(Reg { file: File::Vector, number: number + 1 });
                }
                Kind::Sd | Kind::Su | Kind::Sm | Kind::Md | Kind::Mu => {}
                Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc | Kind::Sem => {}
                Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => {}
            }
        }
        regs
    }

    /// Registers that the instruction writes.
    pub fn defs(&self) -> Regs {
        self.registers(|k| matches!(k, Kind::Sd | Kind::Sm | Kind::Vd | Kind::Pd | Kind::Md))
    }

    /// Registers that the instruction reads.
    pub fn uses(&self) -> Regs {
        self.registers(|k| matches!(k, Kind::Su | Kind::Sm | Kind::Vu | Kind::Pu | Kind::Mu))
    }

    /// The value of the first operand of a kind.
    pub fn operand(&self, kind: Kind) -> Option<i32> {
        self.iter().find(|(k, _)| *k == kind).map(|(_, v)| v)
    }

    /// The matrix unit, cross-lane unit or semaphore that the instruction names; 0 if none.
    fn unit(&self) -> u8 {
        let named = |k: Kind| matches!(k, Kind::Mxu | Kind::Xlu | Kind::Sem);
        self.iter().find(|(k, _)| named(*k)).map_or(0, |(_, v)| v as u8)
    }

    /// What the instruction touches outside the register files. A DMA's start reads its source and writes its
    /// destination as `descs` says (all memories if the descriptor is not there); a wait is taken to touch all memories,
    /// since it lets others touch what the DMA moved.
    pub fn accesses(&self, descs: &[DmaDesc]) -> Accesses {
        use Access::{Append, Read, Take, Write};
        let u = self.unit();
        let list: &[(Resource, Access)] = match self.op.info().effect {
            Effect::None => &[],
            Effect::VmemLoad => &[(Resource::Vmem, Read)],
            Effect::VmemStore => &[(Resource::Vmem, Write)],
            Effect::SmemLoad => &[(Resource::Smem, Read)],
            Effect::SmemStore => &[(Resource::Smem, Write)],
            Effect::MxuStage => &[(Resource::Staging(u), Append)],
            // It takes all that is staged: what is staged later must come later.
            Effect::MxuLatch => &[(Resource::Staging(u), Write), (Resource::Weights(u), Write)],
            Effect::MxuPush => {
                &[(Resource::Weights(u), Read), (Resource::Rows(u), Append), (Resource::Fifo(u), Append)]
            }
            Effect::MxuAccumulate => {
                &[(Resource::Weights(u), Read), (Resource::Rows(u), Append), (Resource::Accumulators(u), Write)]
            }
            Effect::MxuPop => &[(Resource::Fifo(u), Take)],
            Effect::MxuDrain => &[(Resource::Accumulators(u), Read)],
            Effect::XluPush => &[(Resource::Transpose(u), Append)],
            // The buffer is filled again only when it is empty: a pop is ordered with later pushes too.
            Effect::XluPop => &[(Resource::Transpose(u), Write)],
            Effect::DmaStart => return self.dma_accesses(u, descs),
            Effect::DmaRemote => return self.remote_accesses(u, descs),
            // What came before may be what the other device or core waits for.
            Effect::Signal | Effect::Cores => {
                &[(Resource::Vmem, Write), (Resource::Smem, Write), (Resource::Hbm, Write)]
            }
            Effect::DmaWait => &[
                // A later copy's bytes must not be there yet.
                (Resource::Semaphore(u), Write),
                (Resource::Vmem, Write),
                (Resource::Smem, Write),
                (Resource::Hbm, Write),
            ],
            Effect::SyncTest => &[(Resource::Semaphore(u), Read)],
            Effect::Control | Effect::Trap => &[(Resource::Control, Write)],
        };
        Accesses::from_slice(list)
    }

    /// A remote copy reads here; what it writes is another device's.
    fn remote_accesses(&self, semaphore: u8, descs: &[DmaDesc]) -> Accesses {
        let source = match self.operand(Kind::Desc).and_then(|d| descs.get(d as usize)).map(|d| d.src) {
            Some(Space::Vmem) => Resource::Vmem,
            Some(Space::Smem) => Resource::Smem,
            Some(Space::Hbm) | None => Resource::Hbm,
        };
        Accesses::from_slice(&[(Resource::Semaphore(semaphore), Access::Append), (source, Access::Read)])
    }

    fn dma_accesses(&self, semaphore: u8, descs: &[DmaDesc]) -> Accesses {
        let mut list = Accesses::new();
        list.push((Resource::Semaphore(semaphore), Access::Append));
        let memory = |space: Space| match space {
            Space::Hbm => Resource::Hbm,
            Space::Vmem => Resource::Vmem,
            Space::Smem => Resource::Smem,
        };
        match self.operand(Kind::Desc).and_then(|d| descs.get(d as usize)) {
            Some(d) if d.src == d.dst => list.push((memory(d.src), Access::Write)),
            Some(d) => {
                list.push((memory(d.src), Access::Read));
                list.push((memory(d.dst), Access::Write));
            }
            None => {
                list.extend([Resource::Hbm, Resource::Vmem, Resource::Smem].map(|m| (m, Access::Write)));
            }
        }
        list
    }

    /// The load or store of vector memory that the instruction makes.
    pub fn vmem_access(&self) -> Option<VmemAccess> {
        let (store, element_bits) = if let Function::Load(load) = self.op.function() {
            (false, load.element_bits())
        } else if let Function::Store(store) = self.op.function() {
            (true, store.element_bits())
        } else {
            return None;
        };
        let base = self.operand(Kind::Su)? as u16;
        Some(VmemAccess {
            store,
            base,
            offset: self.operand(Kind::I20)?,
            stride: self.operand(Kind::I16)?,
            element_bits,
        })
    }
}
