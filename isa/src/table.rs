//! The words of the opcode table: what a row ([`OpInfo`]) says. The rows are in [`crate::opcodes`].

use crate::opcodes::Op;
use serde::{Deserialize, Serialize};

/// What an operand is: which register file it names and whether it is read or written, or how wide an immediate is.
#[allow(missing_docs, reason = "documented in groups")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[rustfmt::skip]
pub enum Kind {
    /// Scalar register: defined / used / used then defined. `s0` reads as zero and ignores writes.
    Sd, Su, Sm,
    /// Vector register: defined / used.
    Vd, Vu,
    /// Even-aligned vector register pair (low word in the even register): defined / used.
    Pd, Pu,
    /// Vector mask register: defined / used. `m0` reads as all ones and ignores writes.
    Md, Mu,
    /// Signed immediates of 32, 20, 16 and 8 bits, unsigned of 8 and 4 bits.
    I32, I20, I16, U8, U4,
    /// Branch target: a bundle index.
    Target,
    /// Index into the program's DMA descriptor table (16 bits).
    Desc,
    /// A DMA semaphore (8 bits).
    Sem,
    /// Which matrix unit (4 bits) / which cross-lane unit (4 bits).
    Mxu, Xlu,
    /// Matrix-unit operand format, see [`MxuFormat`] (4 bits).
    Fmt,
    /// Float format of at most 8 bits, see [`crate::float::F8`] (4 bits).
    F8,
}

/// The issue slot an opcode needs.
#[allow(missing_docs, reason = "the names are the documentation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[rustfmt::skip]
pub enum Slot { Scalar, Valu, Vload, Vstore, Eup, Xlu, MxuPush, MxuPop, Dma, Branch }

impl Slot {
    /// All slots, in bundle order.
    #[rustfmt::skip]
    pub const ALL: [Slot; 10] = [
        Slot::Scalar, Slot::Valu, Slot::Vload, Slot::Vstore, Slot::Eup, Slot::Xlu, Slot::MxuPush, Slot::MxuPop, Slot::Dma,
        Slot::Branch,
    ];

    /// The slot's name in text.
    pub fn name(self) -> &'static str {
        match self {
            Slot::Scalar => "scalar",
            Slot::Valu => "vector ALU",
            Slot::Vload => "vector load",
            Slot::Vstore => "vector store",
            Slot::Eup => "transcendental",
            Slot::Xlu => "cross-lane",
            Slot::MxuPush => "matrix push",
            Slot::MxuPop => "matrix pop",
            Slot::Dma => "DMA",
            Slot::Branch => "branch",
        }
    }
}

macro_rules! classes {
    ($($class:ident $name:literal $doc:literal;)+) => {
        /// The latency class: the chip file gives each class its latency (cycles from issue until the result may be read)
        /// and issue interval (cycles its unit is taken).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Class { $(#[doc = $doc] $class,)+ }

        impl Class {
            /// All classes in order of their numbers.
            pub const ALL: &[Class] = &[$(Class::$class),+];

            /// The class's name in chip files.
            pub fn name(self) -> &'static str {
                match self { $(Class::$class => $name),+ }
            }

            /// What belongs to the class.
            pub fn doc(self) -> &'static str {
                match self { $(Class::$class => $doc),+ }
            }
        }
    };
}

classes! {
    Scalar "scalar" "Simple scalar arithmetic.";
    ScalarMul "scalar-mul" "Scalar multiplication.";
    ScalarDiv "scalar-div" "Scalar division.";
    SmemLoad "smem-load" "Load from scalar memory.";
    SmemStore "smem-store" "Store to scalar memory.";
    Valu "valu" "Simple vector arithmetic.";
    ValuMul "valu-mul" "Vector multiplication and multiply-add.";
    ValuDiv "valu-div" "Vector f32 division.";
    ValuWiden "valu-widen" "Packed 16-bit floats to f32.";
    ValuNarrow "valu-narrow" "f32 to packed 16-bit floats.";
    ValuIntDiv "valu-int-div" "Vector integer division.";
    ValuF64 "valu-f64" "f64 arithmetic on register pairs.";
    ValuF64Div "valu-f64-div" "f64 division and square root.";
    Vload "vload" "Load from vector memory.";
    Vstore "vstore" "Store to vector memory.";
    Eup "eup" "Transcendental functions.";
    EupTrig "eup-trig" "Sine and cosine: the range reduction of any argument, then the function.";
    XluRotate "xlu-rotate" "Rotation of lanes.";
    XluPermute "xlu-permute" "Permutation of lanes.";
    XluSublane "xlu-sublane" "Rotation or permutation of sublanes.";
    XluReduce "xlu-reduce" "Reduction over lanes.";
    XluTransposePush "xlu-transpose-push" "Register into the transpose buffer.";
    XluTransposePop "xlu-transpose-pop" "Register out of the transpose buffer.";
    XluExtract "xlu-extract" "Vector element to a scalar register.";
    MxuStage "mxu-stage" "Weight rows to a matrix unit.";
    MxuLatch "mxu-latch" "Staged weights made active.";
    MxuPush "mxu-push" "Rows to a matrix unit.";
    MxuPop "mxu-pop" "Results from a matrix unit.";
    Dma "dma" "Start of a DMA.";
    Sync "sync" "Semaphore wait that need not wait.";
    Branch "branch" "Branch: latency is the cycles from a taken branch to the target's issue.";
}

/// State outside the register files that an opcode touches; the scheduler and the checker order instructions by it.
#[allow(missing_docs, reason = "documented in groups")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[rustfmt::skip]
pub enum Effect {
    None,
    /// Loads from / stores to vector memory; loads from / stores to scalar memory.
    VmemLoad, VmemStore, SmemLoad, SmemStore,
    /// Appends to a matrix unit's weight staging area / makes the staged weights active.
    MxuStage, MxuLatch,
    /// Streams rows into a matrix unit, results to its FIFO / to its accumulators.
    MxuPush, MxuAccumulate,
    /// Takes results from the FIFO / reads accumulators.
    MxuPop, MxuDrain,
    /// Fills / empties a cross-lane unit's transpose buffer.
    XluPush, XluPop,
    /// Starts a DMA / waits on a semaphore.
    DmaStart, DmaWait,
    /// Starts a DMA to another device / adds to a semaphore of another device / waits for the device's other cores.
    DmaRemote, Signal, Cores,
    /// Looks at a semaphore.
    SyncTest,
    /// Changes the program counter / stops with a fault.
    Control, Trap,
}

/// How the matrix unit reads an operand row (held as 32-bit lanes).
///
/// `Bf16` rounds f32 lanes to bf16 (nearest even): one pass. `High`, `Mid`, `Low` are the three 8-bit pieces of an f32
/// significand by truncation (each exact in bf16 but for its exponent, their sum is the value; pieces of small values are
/// not flushed), for multi-pass products; `Mid` and `Low` of a non-finite value are zero. `HighFinite` is `High` with non-finite values read as zero. Integer formats take the
/// low 8 bits and accumulate in s32.
#[allow(missing_docs, reason = "documented above")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[rustfmt::skip]
pub enum MxuFormat { Bf16, High, Mid, Low, HighFinite, S8, U8, F8 }

impl MxuFormat {
    /// All formats in encoding order.
    #[rustfmt::skip]
    pub const ALL: [MxuFormat; 8] = [
        MxuFormat::Bf16, MxuFormat::High, MxuFormat::Mid, MxuFormat::Low, MxuFormat::HighFinite, MxuFormat::S8, MxuFormat::U8,
        MxuFormat::F8,
    ];

    /// The format's name in assembly.
    pub fn name(self) -> &'static str {
        match self {
            MxuFormat::Bf16 => "bf16",
            MxuFormat::High => "high",
            MxuFormat::Mid => "mid",
            MxuFormat::Low => "low",
            MxuFormat::HighFinite => "highfinite",
            MxuFormat::S8 => "s8",
            MxuFormat::U8 => "u8",
            MxuFormat::F8 => "f8",
        }
    }

    /// Whether products accumulate in s32 (else f32).
    pub fn is_integer(self) -> bool {
        matches!(self, MxuFormat::S8 | MxuFormat::U8)
    }
}

/// One operand of a table row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandInfo {
    /// Name in the form and in messages.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The opcode.
    pub op: Op,
    /// Name in assembly.
    pub mnemonic: &'static str,
    /// Issue slot.
    pub slot: Slot,
    /// Latency class.
    pub class: Class,
    /// State touched outside the register files.
    pub effect: Effect,
    /// Operands in order.
    pub operands: &'static [OperandInfo],
    /// Meaning.
    pub doc: &'static str,
}
