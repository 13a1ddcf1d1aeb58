//! The opcode table: the single declaration of the instruction set.
//!
//! One row per opcode: variant, mnemonic, slot, latency class, operands, and a line of documentation. Everything else
//! about an instruction (encoding, decoding, assembly text, hazard sets, the reference page, property tests) derives
//! from the row through [`Op::info`].
//!
//! Mnemonics are `unit.action[.type]`. An operand is written `name:Kind`; the kind says register file, direction and
//! width (see [`Kind`]). Operand order is assembly order: definitions first.

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
    /// 8-bit float format, see [`crate::float::F8`] (4 bits).
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
    XluRotate "xlu-rotate" "Rotation of lanes or sublanes.";
    XluPermute "xlu-permute" "Permutation of lanes or sublanes.";
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
/// significand by truncation (each exact in bf16, their sum is the value), for multi-pass products; `Mid` and `Low` of a
/// non-finite value are zero. `HighFinite` is `High` with non-finite values read as zero. Integer formats take the
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

macro_rules! opcodes {
    ($($(#[doc = $doc:literal])+ $op:ident $mn:literal $slot:ident $class:ident $effect:ident [$($name:ident : $kind:ident),*];)+) => {
        /// An opcode. See [`OpInfo`] for what the table knows about it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u16)]
        pub enum Op { $($(#[doc = $doc])+ $op,)+ }

        /// The table, indexed by opcode number.
        pub static TABLE: &[OpInfo] = &[$(OpInfo {
            op: Op::$op, mnemonic: $mn, slot: Slot::$slot, class: Class::$class, effect: Effect::$effect,
            operands: &[$(OperandInfo { name: stringify!($name), kind: Kind::$kind }),*],
            doc: concat!($($doc),+),
        },)+];
    };
}

opcodes! {
    // ---- scalar unit: two's complement 32-bit arithmetic, wrapping ----
    /// d = immediate.
    SLi "s.li" Scalar Scalar None [d:Sd, imm:I32];
    /// d = a + b.
    SAdd "s.add" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = a - b.
    SSub "s.sub" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = low 32 bits of a * b.
    SMul "s.mul" Scalar ScalarMul None [d:Sd, a:Su, b:Su];
    /// d = a / b truncated (signed); a / 0 is -1; overflow wraps.
    SDiv "s.div" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
    /// d = remainder of a / b with a's sign (signed); a for b = 0.
    SRem "s.rem" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
    /// d = a / b (unsigned); all ones for b = 0.
    SDivU "s.divu" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
    /// d = a mod b (unsigned); a for b = 0.
    SRemU "s.remu" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
    /// d = a & b.
    SAnd "s.and" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = a | b.
    SOr "s.or" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = a ^ b.
    SXor "s.xor" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = a << b; 0 for b outside 0..32.
    SShl "s.shl" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = a >> b logical; 0 for b outside 0..32.
    SShr "s.shr" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = a >> b arithmetic; the sign for b outside 0..32.
    SSar "s.sar" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = min(a, b) (signed).
    SMin "s.min" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = max(a, b) (signed).
    SMax "s.max" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = 1 if a = b else 0.
    SEq "s.eq" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = 1 if a < b (signed) else 0.
    SLt "s.lt" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = 1 if a < b (unsigned) else 0.
    SLtU "s.ltu" Scalar Scalar None [d:Sd, a:Su, b:Su];
    /// d = a + immediate.
    SAddI "s.addi" Scalar Scalar None [d:Sd, a:Su, imm:I32];
    /// d = low 32 bits of a * immediate.
    SMulI "s.muli" Scalar ScalarMul None [d:Sd, a:Su, imm:I32];
    /// d = a & immediate.
    SAndI "s.andi" Scalar Scalar None [d:Sd, a:Su, imm:I32];
    /// d = a << immediate (0..31).
    SShlI "s.shli" Scalar Scalar None [d:Sd, a:Su, imm:U8];
    /// d = a >> immediate (0..31), logical.
    SShrI "s.shri" Scalar Scalar None [d:Sd, a:Su, imm:U8];
    /// d = a >> immediate (0..31), arithmetic.
    SSarI "s.sari" Scalar Scalar None [d:Sd, a:Su, imm:U8];
    /// d = 1 if a = immediate else 0.
    SEqI "s.eqi" Scalar Scalar None [d:Sd, a:Su, imm:I32];
    /// d = 1 if a < immediate (signed) else 0.
    SLtI "s.lti" Scalar Scalar None [d:Sd, a:Su, imm:I32];
    /// d = a if c is not zero else b.
    SSel "s.sel" Scalar Scalar None [d:Sd, c:Su, a:Su, b:Su];
    /// d = SMEM word at a + offset.
    SLd "s.ld" Scalar SmemLoad SmemLoad [d:Sd, a:Su, offset:I20];
    /// SMEM word at a + offset = v.
    SSt "s.st" Scalar SmemStore SmemStore [v:Su, a:Su, offset:I20];
    /// d = the number of this device among those that run the program.
    SDev "s.dev" Scalar Scalar None [d:Sd];
    // ---- vector ALU: every lane of a register ----
    /// d = a.
    VMov "v.mov" Valu Valu None [d:Vd, a:Vu];
    /// Every lane = the 32-bit immediate.
    VImm "v.imm" Valu Valu None [d:Vd, imm:I32];
    /// Every lane = the scalar a.
    VSplat "v.splat" Valu Valu None [d:Vd, a:Su];
    /// Each lane = its lane number.
    VLane "v.lane" Valu Valu None [d:Vd];
    /// Each lane = its sublane number.
    VSub "v.sublane" Valu Valu None [d:Vd];
    /// d = a + b in f32. All f32 arithmetic flushes subnormal operands and results to signed zero.
    VAddF "v.add.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a - b in f32.
    VSubF "v.sub.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a * b in f32.
    VMulF "v.mul.f32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
    /// d = a * b + c in f32 with one rounding.
    VFmaF "v.fma.f32" Valu ValuMul None [d:Vd, a:Vu, b:Vu, c:Vu];
    /// d = a / b in f32, correctly rounded.
    VDivF "v.div.f32" Valu ValuDiv None [d:Vd, a:Vu, b:Vu];
    /// d = min(a, b) in f32; NaN if either is; -0 is below +0.
    VMinF "v.min.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = max(a, b) in f32; NaN if either is; -0 is below +0.
    VMaxF "v.max.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a rounded down to an integer value.
    VFloorF "v.floor.f32" Valu Valu None [d:Vd, a:Vu];
    /// d = a rounded up to an integer value.
    VCeilF "v.ceil.f32" Valu Valu None [d:Vd, a:Vu];
    /// d = a rounded to the nearest integer value, ties to even.
    VRneF "v.rne.f32" Valu Valu None [d:Vd, a:Vu];
    /// d = a rounded toward zero to an integer value.
    VTruncF "v.trunc.f32" Valu Valu None [d:Vd, a:Vu];
    /// d = f32 a as s32: truncated, saturated, NaN gives 0.
    VCvtF32S32 "v.cvt.f32.s32" Valu Valu None [d:Vd, a:Vu];
    /// d = f32 a as u32: truncated, saturated, NaN gives 0.
    VCvtF32U32 "v.cvt.f32.u32" Valu Valu None [d:Vd, a:Vu];
    /// d = s32 a as f32, nearest even.
    VCvtS32F32 "v.cvt.s32.f32" Valu Valu None [d:Vd, a:Vu];
    /// d = u32 a as f32, nearest even.
    VCvtU32F32 "v.cvt.u32.f32" Valu Valu None [d:Vd, a:Vu];
    /// d = f32 a rounded to bf16 precision (nearest even), still held as f32; subnormals flush.
    VRndBf16 "v.rnd.bf16" Valu Valu None [d:Vd, a:Vu];
    /// d = f32 a rounded to f16 precision (nearest even), still held as f32; f16 subnormals are kept.
    VRndF16 "v.rnd.f16" Valu Valu None [d:Vd, a:Vu];
    /// d = f32 a rounded to bf16 bits in the low half, high half zero (moves bits of subnormals unchanged).
    VPackBf16 "v.pack.bf16" Valu ValuNarrow None [d:Vd, a:Vu];
    /// d = f32 a rounded to f16 bits in the low half, high half zero.
    VPackF16 "v.pack.f16" Valu ValuNarrow None [d:Vd, a:Vu];
    /// d = f32 value of the f16 bits in a's low half.
    VUnpackF16 "v.unpack.f16" Valu ValuWiden None [d:Vd, a:Vu];
    /// d = f32 value of the bf16 bits in a's low half.
    VUnpackBf16 "v.unpack.bf16" Valu ValuWiden None [d:Vd, a:Vu];
    /// d = f32 a rounded to an 8-bit float's bits in the low byte.
    VPackF8 "v.pack.f8" Valu Valu None [d:Vd, a:Vu, f:F8];
    /// d = f32 value of the 8-bit float in a's low byte.
    VUnpackF8 "v.unpack.f8" Valu Valu None [d:Vd, a:Vu, f:F8];
    /// d = a + b (32-bit, wrapping).
    VAddI "v.add.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a - b (32-bit, wrapping).
    VSubI "v.sub.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = low 32 bits of a * b.
    VMulI "v.mul.s32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
    /// d = high 32 bits of the signed product.
    VMulHiS "v.mulhi.s32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
    /// d = high 32 bits of the unsigned product.
    VMulHiU "v.mulhi.u32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
    /// d = a / b truncated (signed); -1 for b = 0; overflow wraps.
    VDivS "v.div.s32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
    /// d = a / b (unsigned); all ones for b = 0.
    VDivU "v.div.u32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
    /// d = remainder with a's sign (signed); a for b = 0.
    VRemS "v.rem.s32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
    /// d = a mod b (unsigned); a for b = 0.
    VRemU "v.rem.u32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
    /// d = min(a, b) (signed).
    VMinS "v.min.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = max(a, b) (signed).
    VMaxS "v.max.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = min(a, b) (unsigned).
    VMinU "v.min.u32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = max(a, b) (unsigned).
    VMaxU "v.max.u32" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a & b.
    VAnd "v.and" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a | b.
    VOr "v.or" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a ^ b.
    VXor "v.xor" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a << b; 0 for b outside 0..32.
    VShl "v.shl" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a >> b logical; 0 for b outside 0..32.
    VShr "v.shr" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = a >> b arithmetic; the sign for b outside 0..32.
    VSar "v.sar" Valu Valu None [d:Vd, a:Vu, b:Vu];
    /// d = number of leading zero bits (32 for 0).
    VClz "v.clz" Valu Valu None [d:Vd, a:Vu];
    /// d = number of one bits.
    VPopcnt "v.popcnt" Valu Valu None [d:Vd, a:Vu];
    /// Mask = a equals b in f32 (false with NaN). f32 comparisons read subnormals as zero.
    VEqF "v.eq.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a differs from b in f32 (true with NaN).
    VNeF "v.ne.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a < b in f32.
    VLtF "v.lt.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a <= b in f32.
    VLeF "v.le.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a equals b (32 bits).
    VEqI "v.eq.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a differs from b (32 bits).
    VNeI "v.ne.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a < b (signed).
    VLtS "v.lt.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a <= b (signed).
    VLeS "v.le.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a < b (unsigned).
    VLtU "v.lt.u32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// Mask = a <= b (unsigned).
    VLeU "v.le.u32" Valu Valu None [d:Md, a:Vu, b:Vu];
    /// d = a where the mask is set, else b.
    VSel "v.sel" Valu Valu None [d:Vd, m:Mu, a:Vu, b:Vu];
    /// d = a and b.
    MAnd "m.and" Valu Valu None [d:Md, a:Mu, b:Mu];
    /// d = a or b.
    MOr "m.or" Valu Valu None [d:Md, a:Mu, b:Mu];
    /// d = a xor b (with m0: not).
    MXor "m.xor" Valu Valu None [d:Md, a:Mu, b:Mu];
    /// d = pair (lo, hi).
    PMake "p.make" Valu Valu None [d:Pd, lo:Vu, hi:Vu];
    /// d = low word of the pair.
    PLo "p.lo" Valu Valu None [d:Vd, a:Pu];
    /// d = high word of the pair.
    PHi "p.hi" Valu Valu None [d:Vd, a:Pu];
    /// d = a + b in f64; f64 arithmetic flushes subnormals to signed zero.
    PAddD "p.add.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu];
    /// d = a - b in f64.
    PSubD "p.sub.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu];
    /// d = a * b in f64.
    PMulD "p.mul.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu];
    /// d = a * b + c in f64 with one rounding.
    PFmaD "p.fma.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu, c:Pu];
    /// d = a / b in f64, correctly rounded.
    PDivD "p.div.f64" Valu ValuF64Div None [d:Pd, a:Pu, b:Pu];
    /// d = square root of a in f64, correctly rounded.
    PSqrtD "p.sqrt.f64" Valu ValuF64Div None [d:Pd, a:Pu];
    /// d = a rounded to the nearest integer value, ties to even, in f64.
    PRneD "p.rne.f64" Valu ValuF64 None [d:Pd, a:Pu];
    /// Mask = a equals b in f64.
    PEqD "p.eq.f64" Valu ValuF64 None [d:Md, a:Pu, b:Pu];
    /// Mask = a < b in f64.
    PLtD "p.lt.f64" Valu ValuF64 None [d:Md, a:Pu, b:Pu];
    /// Mask = a <= b in f64.
    PLeD "p.le.f64" Valu ValuF64 None [d:Md, a:Pu, b:Pu];
    /// d = f32 a as f64 (exact).
    PCvtF32 "p.cvt.f32.f64" Valu ValuF64 None [d:Pd, a:Vu];
    /// d = f64 a as f32, nearest even.
    PCvtToF32 "p.cvt.f64.f32" Valu ValuF64 None [d:Vd, a:Pu];
    /// d = s64 a as f64, nearest even.
    PCvtS64 "p.cvt.s64.f64" Valu ValuF64 None [d:Pd, a:Pu];
    /// d = u64 a as f64, nearest even.
    PCvtU64 "p.cvt.u64.f64" Valu ValuF64 None [d:Pd, a:Pu];
    /// d = f64 a as s64: truncated, saturated, NaN gives 0.
    PCvtToS64 "p.cvt.f64.s64" Valu ValuF64 None [d:Pd, a:Pu];
    /// d = f64 a as u64: truncated, saturated, NaN gives 0.
    PCvtToU64 "p.cvt.f64.u64" Valu ValuF64 None [d:Pd, a:Pu];

    // ---- transcendental unit: f32, at most 2 ulp, subnormals flushed ----
    /// d = e to the a.
    EExp "e.exp" Eup Eup None [d:Vd, a:Vu];
    /// d = natural logarithm of a.
    ELog "e.log" Eup Eup None [d:Vd, a:Vu];
    /// d = hyperbolic tangent of a.
    ETanh "e.tanh" Eup Eup None [d:Vd, a:Vu];
    /// d = 1 / a.
    ERcp "e.rcp" Eup Eup None [d:Vd, a:Vu];
    /// d = 1 / square root of a.
    ERsqrt "e.rsqrt" Eup Eup None [d:Vd, a:Vu];
    /// d = square root of a, correctly rounded.
    ESqrt "e.sqrt" Eup Eup None [d:Vd, a:Vu];
    /// d = sine of a (radians, any magnitude).
    ESin "e.sin" Eup Eup None [d:Vd, a:Vu];
    /// d = cosine of a (radians, any magnitude).
    ECos "e.cos" Eup Eup None [d:Vd, a:Vu];

    // ---- cross-lane unit ----
    /// Lane l of d = lane (l - amount) mod lanes of a, per sublane.
    XRotLane "x.rot.lane" Xlu XluRotate None [d:Vd, a:Vu, amount:I16];
    /// Lane l of d = lane (l - amount) mod lanes of a, amount from a scalar register.
    XRotLaneS "x.rots.lane" Xlu XluRotate None [d:Vd, a:Vu, amount:Su];
    /// Sublane s of d = sublane (s - amount) mod sublanes of a.
    XRotSub "x.rot.sublane" Xlu XluRotate None [d:Vd, a:Vu, amount:I16];
    /// Lane l of d = lane idx[l] mod lanes of a, per sublane.
    XPermLane "x.perm.lane" Xlu XluPermute None [d:Vd, a:Vu, idx:Vu];
    /// Sublane s of d, in each lane = sublane idx[s] mod sublanes of a.
    XPermSub "x.perm.sublane" Xlu XluPermute None [d:Vd, a:Vu, idx:Vu];
    /// Every lane of d = the f32 sum of its sublane's lanes (pairwise tree, by halves).
    XSumLane "x.sum.lane.f32" Xlu XluReduce None [d:Vd, a:Vu];
    /// Every lane of d = the f32 maximum of its sublane's lanes.
    XMaxLane "x.max.lane.f32" Xlu XluReduce None [d:Vd, a:Vu];
    /// Every lane of d = the f32 minimum of its sublane's lanes.
    XMinLane "x.min.lane.f32" Xlu XluReduce None [d:Vd, a:Vu];
    /// Appends a's sublanes as rows to the transpose buffer of unit u (at most `lanes` rows).
    XTpush "x.tpush" Xlu XluTransposePush XluPush [u:Xlu, a:Vu];
    /// Takes the next register of the transposed buffer: its sublanes are the next columns of the pushed rows (zeros
    /// beyond them). After `lanes / sublanes` pops the buffer is empty again.
    XTpop "x.tpop" Xlu XluTransposePop XluPop [d:Vd, u:Xlu];
    /// d = lane 0 of sublane 0 of a.
    XExtract "x.extract" Xlu XluExtract None [d:Sd, a:Vu];

    // ---- matrix unit: rows x cols systolic array, weight-stationary ----
    /// Appends weight rows: a's sublanes are the next rows (k), its lanes are columns of lane chunk `chunk` (n).
    MStage "mxu.stage" MxuPush MxuStage MxuStage [u:Mxu, a:Vu, chunk:U4, f:Fmt];
    /// Appends weight columns: a's sublanes are the next columns (n), its lanes are rows of lane chunk `chunk` (k).
    MStageT "mxu.stage.t" MxuPush MxuStage MxuStage [u:Mxu, a:Vu, chunk:U4, f:Fmt];
    /// Makes the staged weights active once they and the rows before them are through; unstaged weights are zero.
    MLatch "mxu.latch" MxuPush MxuLatch MxuLatch [u:Mxu];
    /// Streams a's sublanes as rows; lanes are lane chunk `chunk` of k. The last chunk fires; results join the FIFO.
    MPush "mxu.push" MxuPush MxuPush MxuPush [u:Mxu, a:Vu, chunk:U4, f:Fmt];
    /// d = lane chunk `chunk` of the oldest result in the FIFO; the last chunk retires it.
    MPop "mxu.pop" MxuPop MxuPop MxuPop [d:Vd, u:Mxu, chunk:U4];
    /// As mxu.push, results overwrite accumulator rows a.. of the unit.
    MPushSet "mxu.push.set" MxuPush MxuPush MxuAccumulate [u:Mxu, a:Vu, chunk:U4, f:Fmt, row:Su];
    /// As mxu.push, results add to accumulator rows row...
    MPushAdd "mxu.push.add" MxuPush MxuPush MxuAccumulate [u:Mxu, a:Vu, chunk:U4, f:Fmt, row:Su];
    /// d = lane chunk `chunk` of accumulator rows row..; waits until their pushes are through.
    MDrain "mxu.drain" MxuPop MxuPop MxuDrain [d:Vd, u:Mxu, chunk:U4, row:Su];

    // ---- vector memory: sublane i moves the element row at a + offset + i * stride ----
    /// Loads 32-bit rows. Addresses count rows of the access width.
    VLd "v.ld" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
    /// Loads 16-bit rows, bf16 widened to f32.
    VLdBf16 "v.ld.bf16" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
    /// Loads 16-bit rows, sign-extended.
    VLdS16 "v.ld.s16" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
    /// Loads 16-bit rows, zero-extended.
    VLdU16 "v.ld.u16" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
    /// Loads 8-bit rows, sign-extended.
    VLdS8 "v.ld.s8" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
    /// Loads 8-bit rows, zero-extended.
    VLdU8 "v.ld.u8" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
    /// Stores 32-bit rows where the mask is set.
    VSt "v.st" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];
    /// Stores f32 lanes rounded to bf16 rows where the mask is set.
    VStBf16 "v.st.bf16" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];
    /// Stores the low 16 bits where the mask is set.
    VSt16 "v.st.16" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];
    /// Stores the low 8 bits where the mask is set.
    VSt8 "v.st.8" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];

    // ---- DMA and synchronisation ----
    /// Starts the copy that descriptor `desc` describes, from base `src` plus byte offset `srcoff` to base `dst` plus
    /// byte offset `dstoff`, and adds its bytes to the semaphore when done. A base counts 512-byte granules in HBM,
    /// 32-bit rows in VMEM, words in SMEM.
    DmaStart "dma.start" Dma Dma DmaStart [desc:Desc, src:Su, srcoff:Su, dst:Su, dstoff:Su, sem:Sem];
    /// Waits until the semaphore holds at least `bytes`, then subtracts them.
    DmaWait "dma.wait" Dma Sync DmaWait [sem:Sem, bytes:I32];
    /// As dma.wait, bytes from a scalar register.
    DmaWaitS "dma.waits" Dma Sync DmaWait [sem:Sem, bytes:Su];
    /// Starts the copy that descriptor `desc` describes from this device's base `src` to base `dst` of device `device`.
    /// Adds its bytes to semaphore `send` here when the source has been read, and to semaphore `recv` there when the
    /// last byte is in place. Bases count as in dma.start.
    DmaRemote "dma.remote" Dma Dma DmaRemote [desc:Desc, src:Su, dst:Su, device:Su, send:Sem, recv:Sem];
    /// Adds `count` to semaphore `sem` of device `device`.
    SyncSignal "sync.signal" Dma Dma Signal [device:Su, sem:Sem, count:I32];

    // ---- control ----
    /// Jumps.
    BJmp "b.jmp" Branch Branch Control [target:Target];
    /// Jumps if a is not zero.
    BNz "b.nz" Branch Branch Control [a:Su, target:Target];
    /// Jumps if a is zero.
    BZ "b.z" Branch Branch Control [a:Su, target:Target];
    /// a = a - 1, then jumps if a is not zero.
    BLoop "b.loop" Branch Branch Control [a:Sm, target:Target];
    /// Pushes the next bundle's address on the call stack and jumps.
    BCall "b.call" Branch Branch Control [target:Target];
    /// Jumps to the address popped from the call stack.
    BRet "b.ret" Branch Branch Control [];
    /// Ends the program.
    BHalt "b.halt" Branch Branch Control [];
    /// Stops the program with a failed check, entry `code` of the program's message table.
    BTrap "b.trap" Branch Branch Trap [code:I32];
    /// Has the host perform entry `call` of the program's table of host calls, and waits until it is done. The host
    /// reads and writes HBM; every DMA that touches the call's arrays must have been waited for.
    BHost "b.host" Branch Branch Control [call:I32];
    /// d = the number of this core among those of its device.
    SCore "s.core" Scalar Scalar None [d:Sd];
    /// Waits until all cores of the device are at one; then this core has one part in `share` of HBM's bandwidth.
    SyncCores "sync.cores" Dma Sync Cores [share:U4];
    /// d = 1 if the semaphore holds at least `bytes` at the cycle of issue, else 0.
    SyncTest "sync.test" Scalar Sync SyncTest [d:Sd, sem:Sem, bytes:Su];
}

impl Op {
    /// The opcode's table row.
    pub fn info(self) -> &'static OpInfo {
        &TABLE[self as usize]
    }

    /// The opcode of that number.
    pub fn from_number(n: u16) -> Option<Op> {
        TABLE.get(n as usize).map(|r| r.op)
    }
}
