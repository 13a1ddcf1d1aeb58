//! The opcode table: the single declaration of the instruction set.
//!
//! One row per opcode: number, variant, mnemonic, slot, latency class, effect, operands, and a line of documentation.
//! Everything else about an instruction (encoding, decoding, assembly text, hazard sets, the reference page, property
//! tests) derives from the row through [`Op::info`].
//!
//! Rows stand in families. A family is an enum of its own (a variant of [`Function`]) over which the simulator matches
//! without a wildcard: a row without a meaning there does not compile. The rows of a family have operands of one form,
//! which its [`Function`] variant documents.
//!
//! The number is the opcode in a program's bits. It belongs to the row for good: a new row takes the next free number
//! wherever it stands, and a row that goes takes its number with it. (Two rows of one number do not compile.) A row
//! whose operands or meaning change takes a new number.
//!
//! Mnemonics are `unit.action[.type]`. An operand is written `name:Kind`; the kind says register file, direction and
//! width (see [`Kind`]). Operand order is assembly order: definitions first.

use crate::table::{Class, Effect, Kind, OpInfo, OperandInfo, Slot};

macro_rules! opcodes {
    ($(
        $(#[doc = $about:literal])+
        $family:ident($function:ident) {
            $(
                $(#[doc = $doc:literal])+
                $number:literal $op:ident $mn:literal $slot:ident $class:ident $effect:ident [$($name:ident : $kind:ident),*];
            )+
        }
    )+) => {
        /// An opcode. See [`OpInfo`] for what the table knows about it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op { $($($(#[doc = $doc])+ $op = $number,)+)+ }

        /// What an opcode computes, by family: each has the opcodes that one piece of a machine implements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function { $($(#[doc = $about])+ $family($function),)+ }

        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $function { $($(#[doc = $doc])+ $op,)+ }

            impl $function {
                /// All of the family, in the table's order.
                pub const ALL: &[$function] = &[$($function::$op),+];

                /// The opcode.
                pub fn op(self) -> Op {
                    match self { $($function::$op => Op::$op,)+ }
                }
            }
        )+

        impl Op {
            /// The opcode's meaning, by family.
            #[inline]
            pub fn function(self) -> Function {
                match self { $($(Op::$op => Function::$family($function::$op),)+)+ }
            }
        }

        impl Op {
            /// One more than the highest number of an opcode: the size of tables by number.
            pub const NUMBERS: usize = {
                let (mut at, mut most) = (0, 0);
                while at < ROWS.len() {
                    if ROWS[at].op as usize >= most {
                        most = ROWS[at].op as usize + 1;
                    }
                    at += 1;
                }
                most
            };
        }

        /// The table, family by family.
        pub static TABLE: &[OpInfo] = ROWS;

        const ROWS: &[OpInfo] = &[$($(OpInfo {
            op: Op::$op, mnemonic: $mn, slot: Slot::$slot, class: Class::$class, effect: Effect::$effect,
            operands: &[$(OperandInfo { name: stringify!($name), kind: Kind::$kind }),*],
            doc: concat!($($doc),+),
        },)+)+];
    };
}

opcodes! {
    /// Two's complement 32-bit arithmetic on scalar registers and an immediate, wrapping: a pure function.
    Scalar(ScalarFn) {
        /// d = immediate.
        0 SLi "s.li" Scalar Scalar None [d:Sd, imm:I32];
        /// d = a + b.
        1 SAdd "s.add" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = a - b.
        2 SSub "s.sub" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = low 32 bits of a * b.
        3 SMul "s.mul" Scalar ScalarMul None [d:Sd, a:Su, b:Su];
        /// d = a / b truncated (signed); a / 0 is -1; overflow wraps.
        4 SDiv "s.div" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
        /// d = remainder of a / b with a's sign (signed); a for b = 0.
        5 SRem "s.rem" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
        /// d = a / b (unsigned); all ones for b = 0.
        6 SDivU "s.divu" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
        /// d = a mod b (unsigned); a for b = 0.
        7 SRemU "s.remu" Scalar ScalarDiv None [d:Sd, a:Su, b:Su];
        /// d = a & b.
        8 SAnd "s.and" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = a | b.
        9 SOr "s.or" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = a ^ b.
        10 SXor "s.xor" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = a << b; 0 for b outside 0..32.
        11 SShl "s.shl" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = a >> b logical; 0 for b outside 0..32.
        12 SShr "s.shr" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = a >> b arithmetic; the sign for b outside 0..32.
        13 SSar "s.sar" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = min(a, b) (signed).
        14 SMin "s.min" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = max(a, b) (signed).
        15 SMax "s.max" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = 1 if a = b else 0.
        16 SEq "s.eq" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = 1 if a < b (signed) else 0.
        17 SLt "s.lt" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = 1 if a < b (unsigned) else 0.
        18 SLtU "s.ltu" Scalar Scalar None [d:Sd, a:Su, b:Su];
        /// d = a + immediate.
        19 SAddI "s.addi" Scalar Scalar None [d:Sd, a:Su, imm:I32];
        /// d = low 32 bits of a * immediate.
        20 SMulI "s.muli" Scalar ScalarMul None [d:Sd, a:Su, imm:I32];
        /// d = a & immediate.
        21 SAndI "s.andi" Scalar Scalar None [d:Sd, a:Su, imm:I32];
        /// d = a << immediate (0..31).
        22 SShlI "s.shli" Scalar Scalar None [d:Sd, a:Su, imm:U8];
        /// d = a >> immediate (0..31), logical.
        23 SShrI "s.shri" Scalar Scalar None [d:Sd, a:Su, imm:U8];
        /// d = a >> immediate (0..31), arithmetic.
        24 SSarI "s.sari" Scalar Scalar None [d:Sd, a:Su, imm:U8];
        /// d = 1 if a = immediate else 0.
        25 SEqI "s.eqi" Scalar Scalar None [d:Sd, a:Su, imm:I32];
        /// d = 1 if a < immediate (signed) else 0.
        26 SLtI "s.lti" Scalar Scalar None [d:Sd, a:Su, imm:I32];
        /// d = a if c is not zero else b.
        27 SSel "s.sel" Scalar Scalar None [d:Sd, c:Su, a:Su, b:Su];
    }

    /// Scalar instructions that touch more than scalar registers: memory, the device, semaphores, a vector register.
    State(StateFn) {
        /// d = SMEM word at a + offset.
        28 SLd "s.ld" Scalar SmemLoad SmemLoad [d:Sd, a:Su, offset:I20];
        /// SMEM word at a + offset = v.
        29 SSt "s.st" Scalar SmemStore SmemStore [v:Su, a:Su, offset:I20];
        /// d = the number of this device among those that run the program.
        30 SDev "s.dev" Scalar Scalar None [d:Sd];
        /// d = the number of this core among those of its device.
        164 SCore "s.core" Scalar Scalar None [d:Sd];
        /// d = 1 if the semaphore holds at least `bytes` at the cycle of issue, else 0.
        166 SyncTest "sync.test" Scalar Sync SyncTest [d:Sd, sem:Sem, bytes:Su];
        /// d = lane 0 of sublane 0 of a.
        131 XExtract "x.extract" Xlu XluExtract None [d:Sd, a:Vu];
    }

    /// Vector registers from no vector register.
    Fill(FillFn) {
        /// Every lane = the 32-bit immediate.
        32 VImm "v.imm" Valu Valu None [d:Vd, imm:I32];
        /// Every lane = the scalar a.
        33 VSplat "v.splat" Valu Valu None [d:Vd, a:Su];
        /// Each lane = its lane number.
        34 VLane "v.lane" Valu Valu None [d:Vd];
        /// Each lane = its sublane number.
        35 VSublane "v.sublane" Valu Valu None [d:Vd];
    }

    /// Vector ALU: each lane of the result from the same lane of up to three registers.
    Lanes(LaneFn) {
        /// d = a.
        31 VMov "v.mov" Valu Valu None [d:Vd, a:Vu];
        /// d = a + b in f32. All f32 arithmetic flushes subnormal operands and results to signed zero.
        36 VAddF "v.add.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a - b in f32.
        37 VSubF "v.sub.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a * b in f32.
        38 VMulF "v.mul.f32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
        /// d = a * b + c in f32 with one rounding.
        39 VFmaF "v.fma.f32" Valu ValuMul None [d:Vd, a:Vu, b:Vu, c:Vu];
        /// d = a / b in f32, correctly rounded.
        40 VDivF "v.div.f32" Valu ValuDiv None [d:Vd, a:Vu, b:Vu];
        /// d = min(a, b) in f32; NaN if either is; -0 is below +0.
        41 VMinF "v.min.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = max(a, b) in f32; NaN if either is; -0 is below +0.
        42 VMaxF "v.max.f32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a rounded down to an integer value.
        43 VFloorF "v.floor.f32" Valu Valu None [d:Vd, a:Vu];
        /// d = a rounded up to an integer value.
        44 VCeilF "v.ceil.f32" Valu Valu None [d:Vd, a:Vu];
        /// d = a rounded to the nearest integer value, ties to even.
        45 VRneF "v.rne.f32" Valu Valu None [d:Vd, a:Vu];
        /// d = a rounded toward zero to an integer value.
        46 VTruncF "v.trunc.f32" Valu Valu None [d:Vd, a:Vu];
        /// d = a + b (32-bit, wrapping).
        59 VAddI "v.add.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a - b (32-bit, wrapping).
        60 VSubI "v.sub.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = low 32 bits of a * b.
        61 VMulI "v.mul.s32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
        /// d = high 32 bits of the signed product.
        62 VMulHiS "v.mulhi.s32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
        /// d = high 32 bits of the unsigned product.
        63 VMulHiU "v.mulhi.u32" Valu ValuMul None [d:Vd, a:Vu, b:Vu];
        /// d = a / b truncated (signed); -1 for b = 0; overflow wraps.
        64 VDivS "v.div.s32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
        /// d = a / b (unsigned); all ones for b = 0.
        65 VDivU "v.div.u32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
        /// d = remainder with a's sign (signed); a for b = 0.
        66 VRemS "v.rem.s32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
        /// d = a mod b (unsigned); a for b = 0.
        67 VRemU "v.rem.u32" Valu ValuIntDiv None [d:Vd, a:Vu, b:Vu];
        /// d = min(a, b) (signed).
        68 VMinS "v.min.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = max(a, b) (signed).
        69 VMaxS "v.max.s32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = min(a, b) (unsigned).
        70 VMinU "v.min.u32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = max(a, b) (unsigned).
        71 VMaxU "v.max.u32" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a & b.
        72 VAnd "v.and" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a | b.
        73 VOr "v.or" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a ^ b.
        74 VXor "v.xor" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a << b; 0 for b outside 0..32.
        75 VShl "v.shl" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a >> b logical; 0 for b outside 0..32.
        76 VShr "v.shr" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = a >> b arithmetic; the sign for b outside 0..32.
        77 VSar "v.sar" Valu Valu None [d:Vd, a:Vu, b:Vu];
        /// d = number of leading zero bits (32 for 0).
        78 VClz "v.clz" Valu Valu None [d:Vd, a:Vu];
        /// d = number of one bits.
        79 VPopcnt "v.popcnt" Valu Valu None [d:Vd, a:Vu];
    }

    /// Vector ALU: each lane to another number format.
    Convert(ConvertFn) {
        /// d = f32 a as s32: truncated, saturated, NaN gives 0.
        47 VCvtF32S32 "v.cvt.f32.s32" Valu Valu None [d:Vd, a:Vu];
        /// d = f32 a as u32: truncated, saturated, NaN gives 0.
        48 VCvtF32U32 "v.cvt.f32.u32" Valu Valu None [d:Vd, a:Vu];
        /// d = s32 a as f32, nearest even.
        49 VCvtS32F32 "v.cvt.s32.f32" Valu Valu None [d:Vd, a:Vu];
        /// d = u32 a as f32, nearest even.
        50 VCvtU32F32 "v.cvt.u32.f32" Valu Valu None [d:Vd, a:Vu];
        /// d = f32 a rounded to bf16 precision (nearest even), still held as f32; subnormals flush.
        51 VRndBf16 "v.rnd.bf16" Valu Valu None [d:Vd, a:Vu];
        /// d = f32 a rounded to f16 precision (nearest even), still held as f32; f16 subnormals are kept.
        52 VRndF16 "v.rnd.f16" Valu Valu None [d:Vd, a:Vu];
        /// d = f32 a rounded to bf16 bits in the low half, high half zero (moves bits of subnormals unchanged).
        53 VPackBf16 "v.pack.bf16" Valu ValuNarrow None [d:Vd, a:Vu];
        /// d = f32 a rounded to f16 bits in the low half, high half zero.
        54 VPackF16 "v.pack.f16" Valu ValuNarrow None [d:Vd, a:Vu];
        /// d = f32 value of the f16 bits in a's low half.
        55 VUnpackF16 "v.unpack.f16" Valu ValuWiden None [d:Vd, a:Vu];
        /// d = f32 value of the bf16 bits in a's low half.
        56 VUnpackBf16 "v.unpack.bf16" Valu ValuWiden None [d:Vd, a:Vu];
        /// d = f32 a rounded to bits of a float format of a byte, in the low byte.
        57 VPackF8 "v.pack.f8" Valu Valu None [d:Vd, a:Vu, f:F8];
        /// d = f32 value of the float in a's low byte.
        58 VUnpackF8 "v.unpack.f8" Valu Valu None [d:Vd, a:Vu, f:F8];
    }

    /// Vector ALU: masks from two registers.
    Compare(CompareFn) {
        /// Mask = a equals b in f32 (false with NaN). f32 comparisons read subnormals as zero.
        80 VEqF "v.eq.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a differs from b in f32 (true with NaN).
        81 VNeF "v.ne.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a < b in f32.
        82 VLtF "v.lt.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a <= b in f32.
        83 VLeF "v.le.f32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a equals b (32 bits).
        84 VEqI "v.eq.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a differs from b (32 bits).
        85 VNeI "v.ne.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a < b (signed).
        86 VLtS "v.lt.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a <= b (signed).
        87 VLeS "v.le.s32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a < b (unsigned).
        88 VLtU "v.lt.u32" Valu Valu None [d:Md, a:Vu, b:Vu];
        /// Mask = a <= b (unsigned).
        89 VLeU "v.le.u32" Valu Valu None [d:Md, a:Vu, b:Vu];
    }

    /// Vector ALU: masks from two masks.
    Mask(MaskFn) {
        /// d = a and b.
        91 MAnd "m.and" Valu Valu None [d:Md, a:Mu, b:Mu];
        /// d = a or b.
        92 MOr "m.or" Valu Valu None [d:Md, a:Mu, b:Mu];
        /// d = a xor b (with m0: not).
        93 MXor "m.xor" Valu Valu None [d:Md, a:Mu, b:Mu];
    }

    /// Vector ALU: each lane from one of two registers, by a mask.
    Select(SelectFn) {
        /// d = a where the mask is set, else b.
        90 VSel "v.sel" Valu Valu None [d:Vd, m:Mu, a:Vu, b:Vu];
    }

    /// Vector ALU: register pairs from registers and back.
    PairMove(PairMoveFn) {
        /// d = pair (lo, hi).
        94 PMake "p.make" Valu Valu None [d:Pd, lo:Vu, hi:Vu];
        /// d = low word of the pair.
        95 PLo "p.lo" Valu Valu None [d:Vd, a:Pu];
        /// d = high word of the pair.
        96 PHi "p.hi" Valu Valu None [d:Vd, a:Pu];
    }

    /// Vector ALU: f64 and 64-bit integers, pairs from pairs.
    Pair(PairFn) {
        /// d = a + b in f64; f64 arithmetic flushes subnormals to signed zero.
        97 PAddD "p.add.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu];
        /// d = a - b in f64.
        98 PSubD "p.sub.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu];
        /// d = a * b in f64.
        99 PMulD "p.mul.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu];
        /// d = a * b + c in f64 with one rounding.
        100 PFmaD "p.fma.f64" Valu ValuF64 None [d:Pd, a:Pu, b:Pu, c:Pu];
        /// d = a / b in f64, correctly rounded.
        101 PDivD "p.div.f64" Valu ValuF64Div None [d:Pd, a:Pu, b:Pu];
        /// d = square root of a in f64, correctly rounded.
        102 PSqrtD "p.sqrt.f64" Valu ValuF64Div None [d:Pd, a:Pu];
        /// d = a rounded to the nearest integer value, ties to even, in f64.
        103 PRneD "p.rne.f64" Valu ValuF64 None [d:Pd, a:Pu];
        /// d = s64 a as f64, nearest even.
        109 PCvtS64 "p.cvt.s64.f64" Valu ValuF64 None [d:Pd, a:Pu];
        /// d = u64 a as f64, nearest even.
        110 PCvtU64 "p.cvt.u64.f64" Valu ValuF64 None [d:Pd, a:Pu];
        /// d = f64 a as s64: truncated, saturated, NaN gives 0.
        111 PCvtToS64 "p.cvt.f64.s64" Valu ValuF64 None [d:Pd, a:Pu];
        /// d = f64 a as u64: truncated, saturated, NaN gives 0.
        112 PCvtToU64 "p.cvt.f64.u64" Valu ValuF64 None [d:Pd, a:Pu];
    }

    /// Vector ALU: masks from two pairs.
    PairCompare(PairCompareFn) {
        /// Mask = a equals b in f64.
        104 PEqD "p.eq.f64" Valu ValuF64 None [d:Md, a:Pu, b:Pu];
        /// Mask = a < b in f64.
        105 PLtD "p.lt.f64" Valu ValuF64 None [d:Md, a:Pu, b:Pu];
        /// Mask = a <= b in f64.
        106 PLeD "p.le.f64" Valu ValuF64 None [d:Md, a:Pu, b:Pu];
    }

    /// Vector ALU: between f32 registers and f64 pairs.
    PairConvert(PairConvertFn) {
        /// d = f32 a as f64 (exact).
        107 PCvtF32 "p.cvt.f32.f64" Valu ValuF64 None [d:Pd, a:Vu];
        /// d = f64 a as f32, nearest even.
        108 PCvtToF32 "p.cvt.f64.f32" Valu ValuF64 None [d:Vd, a:Pu];
    }

    /// Transcendental unit: f32, at most 2 ulp, subnormals flushed.
    Transcendental(TranscendentalFn) {
        /// d = e to the a.
        113 EExp "e.exp" Eup Eup None [d:Vd, a:Vu];
        /// d = natural logarithm of a.
        114 ELog "e.log" Eup Eup None [d:Vd, a:Vu];
        /// d = hyperbolic tangent of a.
        115 ETanh "e.tanh" Eup Eup None [d:Vd, a:Vu];
        /// d = 1 / a.
        116 ERcp "e.rcp" Eup Eup None [d:Vd, a:Vu];
        /// d = 1 / square root of a.
        117 ERsqrt "e.rsqrt" Eup Eup None [d:Vd, a:Vu];
        /// d = square root of a, correctly rounded.
        118 ESqrt "e.sqrt" Eup Eup None [d:Vd, a:Vu];
        /// d = sine of a (radians, any magnitude).
        119 ESin "e.sin" Eup EupTrig None [d:Vd, a:Vu];
        /// d = cosine of a (radians, any magnitude).
        120 ECos "e.cos" Eup EupTrig None [d:Vd, a:Vu];
    }

    /// Cross-lane unit: lanes and sublanes to other places, and the transpose buffer.
    CrossLane(CrossLaneFn) {
        /// Lane l of d = lane (l - amount) mod lanes of a, per sublane.
        121 XRotLane "x.rot.lane" Xlu XluRotate None [d:Vd, a:Vu, amount:I16];
        /// Lane l of d = lane (l - amount) mod lanes of a, amount from a scalar register.
        122 XRotLaneS "x.rots.lane" Xlu XluRotate None [d:Vd, a:Vu, amount:Su];
        /// Sublane s of d = sublane (s - amount) mod sublanes of a.
        123 XRotSub "x.rot.sublane" Xlu XluSublane None [d:Vd, a:Vu, amount:I16];
        /// Lane l of d = lane idx[l] mod lanes of a, per sublane.
        124 XPermLane "x.perm.lane" Xlu XluPermute None [d:Vd, a:Vu, idx:Vu];
        /// Sublane s of d, in each lane = sublane idx[s] mod sublanes of a.
        125 XPermSub "x.perm.sublane" Xlu XluSublane None [d:Vd, a:Vu, idx:Vu];
        /// Appends a's sublanes as rows to the transpose buffer of unit u (at most `lanes` rows).
        129 XTpush "x.tpush" Xlu XluTransposePush XluPush [u:Xlu, a:Vu];
        /// Takes the next register of the transposed buffer: its sublanes are the next columns of the pushed rows (zeros
        /// beyond them). After `lanes / sublanes` pops the buffer is empty again.
        130 XTpop "x.tpop" Xlu XluTransposePop XluPop [d:Vd, u:Xlu];
    }

    /// Cross-lane unit: reductions over the lanes of a sublane.
    Reduce(ReduceFn) {
        /// Every lane of d = the f32 sum of its sublane's lanes (pairwise tree, by halves).
        126 XSumLane "x.sum.lane.f32" Xlu XluReduce None [d:Vd, a:Vu];
        /// Every lane of d = the f32 maximum of its sublane's lanes.
        127 XMaxLane "x.max.lane.f32" Xlu XluReduce None [d:Vd, a:Vu];
        /// Every lane of d = the f32 minimum of its sublane's lanes.
        128 XMinLane "x.min.lane.f32" Xlu XluReduce None [d:Vd, a:Vu];
    }

    /// Matrix unit: a rows x cols systolic array, weight-stationary.
    Matrix(MatrixFn) {
        /// Appends weight rows: a's sublanes are the next rows (k), its lanes are columns of lane chunk `chunk` (n).
        132 MStage "mxu.stage" MxuPush MxuStage MxuStage [u:Mxu, a:Vu, chunk:U4, f:Fmt];
        /// Appends weight columns: a's sublanes are the next columns (n), its lanes are rows of lane chunk `chunk` (k).
        133 MStageT "mxu.stage.t" MxuPush MxuStage MxuStage [u:Mxu, a:Vu, chunk:U4, f:Fmt];
        /// Makes the staged weights active once they and the rows before them are through; unstaged weights are zero.
        134 MLatch "mxu.latch" MxuPush MxuLatch MxuLatch [u:Mxu];
        /// Streams a's sublanes as rows; lanes are lane chunk `chunk` of k. The last chunk fires; results join the FIFO.
        135 MPush "mxu.push" MxuPush MxuPush MxuPush [u:Mxu, a:Vu, chunk:U4, f:Fmt];
        /// d = lane chunk `chunk` of the oldest result in the FIFO; the last chunk retires it.
        136 MPop "mxu.pop" MxuPop MxuPop MxuPop [d:Vd, u:Mxu, chunk:U4];
        /// As mxu.push, results overwrite accumulator rows a.. of the unit.
        137 MPushSet "mxu.push.set" MxuPush MxuPush MxuAccumulate [u:Mxu, a:Vu, chunk:U4, f:Fmt, row:Su];
        /// As mxu.push, results add to accumulator rows row...
        138 MPushAdd "mxu.push.add" MxuPush MxuPush MxuAccumulate [u:Mxu, a:Vu, chunk:U4, f:Fmt, row:Su];
        /// d = lane chunk `chunk` of accumulator rows row..; waits until their pushes are through.
        139 MDrain "mxu.drain" MxuPop MxuPop MxuDrain [d:Vd, u:Mxu, chunk:U4, row:Su];
    }

    /// Loads from vector memory: sublane i is the element row at a + offset + i * stride.
    Load(LoadFn) {
        /// Loads 32-bit rows. Addresses count rows of the access width.
        140 VLd "v.ld" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
        /// Loads 16-bit rows, bf16 widened to f32.
        141 VLdBf16 "v.ld.bf16" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
        /// Loads 16-bit rows, sign-extended.
        142 VLdS16 "v.ld.s16" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
        /// Loads 16-bit rows, zero-extended.
        143 VLdU16 "v.ld.u16" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
        /// Loads 8-bit rows, sign-extended.
        144 VLdS8 "v.ld.s8" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
        /// Loads 8-bit rows, zero-extended.
        145 VLdU8 "v.ld.u8" Vload Vload VmemLoad [d:Vd, a:Su, offset:I20, stride:I16];
    }

    /// Stores to vector memory, addressed as loads are.
    Store(StoreFn) {
        /// Stores 32-bit rows where the mask is set.
        146 VSt "v.st" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];
        /// Stores f32 lanes rounded to bf16 rows where the mask is set.
        147 VStBf16 "v.st.bf16" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];
        /// Stores the low 16 bits where the mask is set.
        148 VSt16 "v.st.16" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];
        /// Stores the low 8 bits where the mask is set.
        149 VSt8 "v.st.8" Vstore Vstore VmemStore [v:Vu, a:Su, offset:I20, stride:I16, m:Mu];
    }

    /// DMA and synchronisation.
    Dma(DmaFn) {
        /// Starts the copy that descriptor `desc` describes, from base `src` plus byte offset `srcoff` to base `dst` plus
        /// byte offset `dstoff`, and adds its bytes to the semaphore when done. A base counts 512-byte granules in HBM,
        /// 32-bit rows in VMEM, words in SMEM.
        150 DmaStart "dma.start" Dma Dma DmaStart [desc:Desc, src:Su, srcoff:Su, dst:Su, dstoff:Su, sem:Sem];
        /// Waits until the semaphore holds at least `bytes`, then subtracts them.
        151 DmaWait "dma.wait" Dma Sync DmaWait [sem:Sem, bytes:I32];
        /// As dma.wait, bytes from a scalar register.
        152 DmaWaitS "dma.waits" Dma Sync DmaWait [sem:Sem, bytes:Su];
        /// Starts the copy that descriptor `desc` describes from this device's base `src` to base `dst` of device `device`.
        /// Adds its bytes to semaphore `send` here when the source has been read, and to semaphore `recv` there when the
        /// last byte is in place. Bases count as in dma.start.
        153 DmaRemote "dma.remote" Dma Dma DmaRemote [desc:Desc, src:Su, dst:Su, device:Su, send:Sem, recv:Sem];
        /// Adds `count` to semaphore `sem` of device `device`.
        154 SyncSignal "sync.signal" Dma Dma Signal [device:Su, sem:Sem, count:I32];
        /// Waits until all cores of the device are at one; then this core has one part in `share` of HBM's bandwidth.
        165 SyncCores "sync.cores" Dma Sync Cores [share:U4];
    }

    /// Control.
    Branch(BranchFn) {
        /// Jumps.
        155 BJmp "b.jmp" Branch Branch Control [target:Target];
        /// Jumps if a is not zero.
        156 BNz "b.nz" Branch Branch Control [a:Su, target:Target];
        /// Jumps if a is zero.
        157 BZ "b.z" Branch Branch Control [a:Su, target:Target];
        /// a = a - 1, then jumps if a is not zero.
        158 BLoop "b.loop" Branch Branch Control [a:Sm, target:Target];
        /// Pushes the next bundle's address on the call stack and jumps.
        159 BCall "b.call" Branch Branch Control [target:Target];
        /// Jumps to the address popped from the call stack.
        160 BRet "b.ret" Branch Branch Control [];
        /// Ends the program.
        161 BHalt "b.halt" Branch Branch Control [];
        /// Stops the program with a failed check, entry `code` of the program's message table.
        162 BTrap "b.trap" Branch Branch Trap [code:I32];
        /// Has the host perform entry `call` of the program's table of host calls, and waits until it is done. The host
        /// reads and writes HBM; every DMA that touches the call's arrays must have been waited for.
        163 BHost "b.host" Branch Branch Control [call:I32];
    }
}

/// The row of each number; a number without a row has the first.
static BY_NUMBER: [&OpInfo; Op::NUMBERS] = {
    let mut rows = [&ROWS[0]; Op::NUMBERS];
    let mut i = 0;
    while i < ROWS.len() {
        rows[ROWS[i].op as usize] = &ROWS[i];
        i += 1;
    }
    rows
};

impl Op {
    /// The opcode's table row.
    #[inline]
    pub fn info(self) -> &'static OpInfo {
        BY_NUMBER[self as usize]
    }

    /// The opcode of that number.
    pub fn from_number(n: u16) -> Option<Op> {
        BY_NUMBER.get(n as usize).map(|r| r.op).filter(|&op| op as u16 == n)
    }
}
