//! How operand types enter the matrix units: formats, passes, and the conversion after a load.
//!
//! | operands | passes (lhs, rhs) |
//! | --- | --- |
//! | bf16, 8-bit floats, f32 at default precision | one: `Bf16` (`F8` where the arrays have it) |
//! | f32 at high / highest | HH HM MH / HH HM MH MM HL LH |
//! | f16 (exact in two pieces) | HH HM MH MM |
//! | integers of at most 8 bits | one: `S8`, `U8`; where the arrays lack them `Bf16` of the value as f32 |
//! | one of them beside a float | as bf16 |
//!
//! All passes but HH read the high piece as `HighFinite`, so that an infinity never meets a zero piece.

use super::spec::{Contraction, MxuError, Place};
use super::start::Start;
use crate::emit::{Value, memory};
use crate::kernel::{KernelBuilder, V};
use systole_hlo::graph::op::Precision;
use systole_isa::{ChipConfig, DType, MxuFormat, Op};

/// Formats of one contraction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Formats {
    /// Formats of lhs and rhs, pass by pass.
    pub passes: Vec<(MxuFormat, MxuFormat)>,
    /// Type of the sums that the epilogue sees.
    pub sums: DType,
    /// Integers multiplied as bf16: results are f32 and become s32 before they are added.
    pub emulated: bool,
    /// Rows per cycle of an array.
    pub rate: f64,
}

/// Pieces that a float operand is exact (or exact enough) in.
fn pieces(dtype: DType, precision: Precision) -> usize {
    match (dtype, precision) {
        (DType::F32, Precision::Default) => 1,
        (DType::F32, Precision::High) => 2,
        (DType::F32, Precision::Highest) => 3,
        (DType::F16, _) => 2,
        _ => 1,
    }
}

pub fn float_passes(lhs: DType, rhs: DType, precision: Precision) -> Vec<(MxuFormat, MxuFormat)> {
    use MxuFormat::{High, HighFinite, Low, Mid};
    let (mut l, mut r) = (pieces(lhs, precision), pieces(rhs, precision));
    if l == 1 && r == 1 {
        return vec![(MxuFormat::Bf16, MxuFormat::Bf16)];
    }
    // An f32 operand beside one of several pieces is split as well: it may not be rounded to fewer bits than they have.
    for (n, t) in [(&mut l, lhs), (&mut r, rhs)] {
        if t == DType::F32 && *n == 1 {
            *n = 2;
        }
    }
    let deepest = if l.max(r) == 3 { 2 } else { 1 };
    let exact = lhs == DType::F16 && rhs == DType::F16;
    let mut all: Vec<(usize, usize)> = (0..l).flat_map(|i| (0..r).map(move |j| (i, j))).collect();
    all.retain(|&(i, j)| i + j <= deepest || exact);
    all.sort_by_key(|&(i, j)| (i + j, i.max(j)));
    let piece = |i: usize, other: usize| match (i, other) {
        (0, 0) => High,
        (0, _) => HighFinite,
        (1, _) => Mid,
        _ => Low,
    };
    all.iter().map(|&(i, j)| (piece(i, j), piece(j, i))).collect()
}

/// Whether operands of these types go through the arrays once, as bf16.
pub(in crate::emit) fn one_pass(lhs: DType, rhs: DType, precision: Precision) -> bool {
    let plain = |t| matches!(t, DType::BF16 | DType::F32);
    plain(lhs) && plain(rhs) && float_passes(lhs, rhs, precision).len() == 1
}

impl Formats {
    /// The formats of a contraction on a chip.
    pub fn choose(spec: &Contraction, chip: &ChipConfig) -> Result<Formats, MxuError> {
        let (l, r) = (spec.lhs_type(), spec.rhs.dtype);
        // What is done to rows on their way is done to words, which lie in the rows that they have in memory.
        let words = |s: &Start| spec.lhs.dtype == DType::F32 && s.rows().all(|t| t == DType::F32);
        let near = spec.lhs.place == Place::Vmem && spec.taps.is_empty();
        if spec.start.as_ref().is_some_and(|s| !words(s) || !near || !s.dtype.is_float()) {
            return Err(MxuError::Unsupported("operands that are made on their way".into()));
        }
        let rate = |f: MxuFormat| chip.mxu_type(f).map(|t| t.rows_per_cycle);
        let bf16 = rate(MxuFormat::Bf16).unwrap_or(1.0);
        let small = |t: DType| t.is_integer() && t.bits() <= 8;
        if small(l) && small(r) {
            let native =
                |t: DType| if matches!(t, DType::U8 | DType::U4 | DType::U2) { MxuFormat::U8 } else { MxuFormat::S8 };
            return Ok(match (rate(native(l)), rate(native(r))) {
                (Some(a), Some(b)) => {
                    Formats { passes: vec![(native(l), native(r))], sums: DType::S32, emulated: false, rate: a.min(b) }
                }
                _ => Formats {
                    passes: vec![(MxuFormat::Bf16, MxuFormat::Bf16)],
                    sums: DType::S32,
                    emulated: true,
                    rate: bf16,
                },
            });
        }
        let float = |t: DType| t.is_float() && t.bits() <= 32;
        // Integers of at most 8 bits are exact in bf16.
        let [l, r] = [l, r].map(|t| if small(t) { DType::BF16 } else { t });
        if !float(l) || !float(r) {
            return Err(MxuError::Unsupported(format!("operands of types {l} and {r}")));
        }
        let mut f =
            Formats { passes: float_passes(l, r, spec.precision), sums: DType::F32, emulated: false, rate: bf16 };
        if l.is_byte_float()
            && r.is_byte_float()
            && let Some(rate) = rate(MxuFormat::F8)
        {
            f.passes = vec![(MxuFormat::F8, MxuFormat::F8)];
            f.rate = rate;
        }
        // The other passes would make the rows again.
        if spec.start.is_some() && f.passes.len() > 1 {
            return Err(MxuError::Unsupported("operands of several passes that are made on their way".into()));
        }
        Ok(f)
    }

    /// Loads operand elements as the arrays take them.
    pub fn load(&self, b: &mut KernelBuilder, dtype: DType, at: memory::Place) -> V {
        let v = memory::load_operand(b, dtype, at).v();
        if !(self.emulated || self.sums == DType::F32 && dtype.is_integer()) {
            return v;
        }
        let op = if matches!(dtype, DType::U8 | DType::U4 | DType::U2) { Op::VCvtU32F32 } else { Op::VCvtS32F32 };
        b.v(op, &[v])
    }

    /// A popped result as a value of the sums' type.
    pub fn result(&self, b: &mut KernelBuilder, v: V) -> Value {
        Value::word(self.sums, if self.emulated { b.v(Op::VCvtF32S32, &[v]) } else { v })
    }

    /// The sum of two values of the sums' type.
    pub fn add(&self, b: &mut KernelBuilder, x: V, y: V) -> V {
        b.v(if self.sums == DType::S32 { Op::VAddI } else { Op::VAddF }, &[x, y])
    }
}
