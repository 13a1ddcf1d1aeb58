//! The bits of bundles: where the operands of each opcode lie, and what each may be on a chip.
//!
//! A bundle is a header word and one word per instruction, all 64 bits, little-endian.
//!
//! ```text
//! header       bits 4i .. 4i+3: instructions in slot kind i, in the order of `Slot::ALL`; bits 40 .. 63: zero
//! instruction  bits 0 .. 9: opcode number; then the operands in table order, each in the bits of its kind, low bits
//!              first; bits above the last operand: zero
//! ```
//!
//! The instruction words follow in slot order. An operand's field holds its value in two's complement or unsigned as
//! [`Kind`] says; the fields of every opcode fit (a test holds that). Both directions work from [`Fields`], so they
//! cannot disagree.

use crate::chip::ChipConfig;
use crate::inst::{Inst, MAX_OPERANDS};
use crate::opcodes::{Function, MatrixFn, Op, TABLE};
use crate::table::{Kind, MxuFormat, OpInfo, Slot};

/// Bits of the opcode number.
pub const OPCODE_BITS: u32 = 10;
/// Bits of a slot kind's count in the header, and of all counts together.
pub const COUNT_BITS: u32 = 4;
/// Bits of all counts together.
pub const HEADER_BITS: u32 = COUNT_BITS * Slot::ALL.len() as u32;
/// Bytes of an instruction or header word.
pub const WORD_BYTES: usize = 8;

impl Kind {
    /// Bits of the operand's field.
    pub const fn bits(self) -> u32 {
        match self {
            Kind::Sd | Kind::Su | Kind::Sm => 6,
            Kind::Vd | Kind::Vu | Kind::Pd | Kind::Pu => 7,
            Kind::Md | Kind::Mu => 5,
            Kind::I32 | Kind::Target => 32,
            Kind::I20 => 20,
            Kind::I16 | Kind::Desc => 16,
            Kind::U8 | Kind::Sem => 8,
            Kind::U4 | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => 4,
        }
    }

    /// Whether the field is two's complement.
    pub const fn is_signed(self) -> bool {
        matches!(self, Kind::I32 | Kind::I20 | Kind::I16)
    }

    /// Least and greatest value on a chip.
    pub fn range(self, chip: &ChipConfig) -> (i32, i32) {
        let below = |n: u32| (0, n as i32 - 1);
        match self {
            Kind::Sd | Kind::Su | Kind::Sm => below(chip.core.scalar_registers),
            Kind::Vd | Kind::Vu => below(chip.core.vector_registers),
            Kind::Pd | Kind::Pu => (0, chip.core.vector_registers as i32 - 2),
            Kind::Md | Kind::Mu => below(chip.core.mask_registers),
            Kind::I32 => (i32::MIN, i32::MAX),
            Kind::I20 => (-(1 << 19), (1 << 19) - 1),
            Kind::I16 => (i16::MIN as i32, i16::MAX as i32),
            Kind::U8 => (0, 255),
            Kind::U4 => (0, 15),
            Kind::Target => (0, i32::MAX),
            Kind::Desc => (0, 65535),
            Kind::Sem => below(chip.core.semaphores),
            Kind::Mxu => below(chip.mxu.count),
            Kind::Xlu => below(chip.core.xlu_slots),
            Kind::Fmt => below(MxuFormat::ALL.len() as u32),
            Kind::F8 => below(crate::float::F8::ALL.len() as u32),
        }
    }
}

/// One operand's place and range.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Field {
    shift: u32,
    bits: u32,
    /// The field's bits where it begins at bit zero, and the one that is the sign, if there is one.
    mask: u64,
    sign: u64,
    even: bool,
    min: i32,
    max: i32,
}

impl Field {
    #[inline]
    fn extract(&self, word: u64) -> i32 {
        ((word >> self.shift & self.mask ^ self.sign).wrapping_sub(self.sign)) as i32
    }

    #[inline]
    fn insert(&self, value: i32) -> u64 {
        (value as u64) << (64 - self.bits) >> (64 - self.bits) << self.shift
    }

    /// Below zero where the value is none that the field takes: of several fields, where any of them is.
    #[inline]
    fn excess(&self, value: i32) -> i64 {
        let (value, odd) = (i64::from(value), i64::from(value & i32::from(self.even)));
        (value - i64::from(self.min)) | (i64::from(self.max) - value) | -odd
    }

    #[inline]
    fn accepts(&self, value: i32) -> bool {
        self.excess(value) >= 0
    }
}

/// One opcode's fields on a chip.
#[derive(Clone, Debug)]
pub(crate) struct OpFields {
    op: Op,
    slot: Slot,
    count: usize,
    fields: [Field; MAX_OPERANDS],
    /// Bits of the word that are in use.
    used: u64,
    /// The operand that is a format of the matrix unit, if one is.
    format: Option<usize>,
}

/// Field shifts of an opcode, and the bits in use.
pub fn layout(info: &OpInfo) -> ([u32; MAX_OPERANDS], u32) {
    let mut shifts = [0; MAX_OPERANDS];
    let mut at = OPCODE_BITS;
    for (shift, operand) in shifts.iter_mut().zip(info.operands) {
        *shift = at;
        at += operand.kind.bits();
    }
    (shifts, at)
}

/// The fields of every opcode on one chip.
pub(crate) struct Fields {
    /// Indexed by opcode number; none where no opcode has the number.
    ops: Vec<Option<OpFields>>,
    /// Instructions that each slot kind takes.
    pub(crate) slots: [u32; Slot::ALL.len()],
    /// Matrix-unit formats that the chip lacks, as a bit set.
    missing_formats: u32,
}

/// Lane chunks that instructions of an opcode may name, of those of the array's rows and columns.
fn chunks_of(op: Op, (rows, cols): (u32, u32)) -> Option<u32> {
    let Function::Matrix(function) = op.function() else { return None };
    match function {
        MatrixFn::MStage | MatrixFn::MPop | MatrixFn::MDrain => Some(cols),
        MatrixFn::MStageT | MatrixFn::MPush | MatrixFn::MPushSet | MatrixFn::MPushAdd => Some(rows),
        MatrixFn::MLatch => None,
    }
}

impl Fields {
    pub(crate) fn new(chip: &ChipConfig) -> Fields {
        let mut ops = vec![None; Op::NUMBERS];
        let chunks = chip.mxu_chunks();
        for info in TABLE {
            let (shifts, end) = layout(info);
            let mut fields = [Field::default(); MAX_OPERANDS];
            for ((field, shift), operand) in fields.iter_mut().zip(shifts).zip(info.operands) {
                let (min, mut max) = operand.kind.range(chip);
                if operand.kind == Kind::U4
                    && let Some(count) = chunks_of(info.op, chunks)
                {
                    max = max.min(count as i32 - 1);
                }
                let even = matches!(operand.kind, Kind::Pd | Kind::Pu);
                let bits = operand.kind.bits();
                let sign = if operand.kind.is_signed() { 1 << (bits - 1) } else { 0 };
                *field = Field { shift, bits, mask: u64::MAX >> (64 - bits), sign, even, min, max };
            }
            let used = if end == 64 { u64::MAX } else { (1 << end) - 1 };
            let format = info.operands.iter().position(|o| o.kind == Kind::Fmt);
            let fields = OpFields { op: info.op, slot: info.slot, count: info.operands.len(), fields, used, format };
            ops[info.op as usize] = Some(fields);
        }
        let missing = MxuFormat::ALL.iter().enumerate().filter(|(_, f)| chip.mxu_type(**f).is_none());
        Fields { ops, slots: Slot::ALL.map(|s| chip.slots(s)), missing_formats: missing.map(|(i, _)| 1 << i).sum() }
    }

    /// Whether the chip's arrays have the format that an instruction names.
    #[inline]
    fn has_format(&self, inst: &Inst, fields: &OpFields) -> bool {
        fields.format.is_none_or(|at| self.missing_formats >> (inst.operands[at] & 31) & 1 == 0)
    }

    #[inline]
    fn check(&self, inst: &Inst, fields: &OpFields) -> Result<(), Problem> {
        for (i, field) in fields.fields[..fields.count].iter().enumerate() {
            let value = inst.operands[i];
            if !field.accepts(value) {
                let operand = inst.op.info().operands[i].name;
                let (min, max, even) = (field.min, field.max, field.even);
                return Err(Problem::Operand { op: inst.op, operand, value, min, max, even });
            }
        }
        match fields.format.filter(|_| !self.has_format(inst, fields)) {
            Some(at) => Err(Problem::Format { op: inst.op, format: MxuFormat::ALL[inst.operands[at] as usize] }),
            None => Ok(()),
        }
    }

    /// The instruction's word.
    #[inline]
    pub(crate) fn encode(&self, inst: &Inst) -> Result<u64, Problem> {
        let fields = self.ops[inst.op as usize].as_ref().expect("every opcode has its fields");
        self.check(inst, fields)?;
        let mut word = inst.op as u64;
        for (field, value) in fields.fields[..fields.count].iter().zip(inst.operands) {
            word |= field.insert(value);
        }
        Ok(word)
    }

    /// The word's instruction, which must belong to `slot`.
    #[inline]
    pub(crate) fn decode(&self, word: u64, slot: Slot) -> Result<Inst, Problem> {
        let number = (word & ((1 << OPCODE_BITS) - 1)) as usize;
        let fields = self.ops.get(number).and_then(Option::as_ref).ok_or(Problem::Opcode { number })?;
        if fields.slot != slot {
            return Err(Problem::Slot { op: fields.op, slot });
        }
        if word & !fields.used != 0 {
            return Err(Problem::Unused { op: fields.op });
        }
        let mut inst = Inst { op: fields.op, operands: [0; MAX_OPERANDS] };
        let mut excess = 0;
        for (field, operand) in fields.fields[..fields.count].iter().zip(&mut inst.operands) {
            *operand = field.extract(word);
            excess |= field.excess(*operand);
        }
        if !(excess >= 0 && self.has_format(&inst, fields)) {
            self.check(&inst, fields)?;
        }
        Ok(inst)
    }
}

/// Why code does not fit a chip or is no code.
#[allow(missing_docs, reason = "the message says it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{have} instructions in the {} slot, the chip has {max}", slot.name())]
    TooMany { slot: Slot, have: u32, max: u32 },
    #[error("{}: operand `{operand}` is {value}, takes {}{min} to {max}", op.info().mnemonic, if *even { "even numbers " } else { "" })]
    Operand { op: Op, operand: &'static str, value: i32, min: i32, max: i32, even: bool },
    #[error("{}: the chip's arrays do not take format {}", op.info().mnemonic, format.name())]
    Format { op: Op, format: MxuFormat },
    #[error("no opcode has number {number}")]
    Opcode { number: usize },
    #[error("{} is in the {} slot", op.info().mnemonic, slot.name())]
    Slot { op: Op, slot: Slot },
    #[error("{}: bits beyond the operands are set", op.info().mnemonic)]
    Unused { op: Op },
    #[error("the header has bits beyond the counts")]
    Header,
    #[error("the code ends inside the bundle")]
    Truncated,
}

/// A [`Problem`] and the bundle that has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bundle {bundle}: {problem}")]
pub struct CodeError {
    /// Index of the bundle.
    pub bundle: usize,
    /// What is wrong with it.
    pub problem: Problem,
}
