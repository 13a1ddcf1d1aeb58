//! The bits of bundles: where the operands of each opcode lie, and what each may be on a chip.
//!
//! A bundle is a header word and one word per instruction, all 64 bits, little-endian.
//!
//! ```text
//! header       bits 4i .. 4i+3: instructions in slot kind i, in the order of `Slot::ALL`
//!              bits 40 .. 63: how many bundles before it one is like it (`alike.rs`), zero if none is known
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
    shift: u8,
    bits: u8,
    signed: bool,
    even: bool,
    min: i32,
    max: i32,
}

impl Field {
    #[inline]
    fn value(&self, word: u64) -> i32 {
        let (bits, top) = (64 - u32::from(self.bits), word << (64 - u32::from(self.bits) - u32::from(self.shift)));
        (if self.signed { (top as i64 >> bits) as u64 } else { top >> bits }) as i32
    }

    /// The field's bits.
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - u32::from(self.bits)) << self.shift
    }

    /// Bits of a word that are set in no number that a chip takes.
    fn zeros(&self) -> u64 {
        let greatest = self.max.max(0) as u64;
        let taken = u64::MAX.checked_shr(greatest.leading_zeros()).unwrap_or(0) & !u64::from(self.even);
        if self.min < 0 { 0 } else { self.mask() & !(taken << self.shift) }
    }

    /// Whether a chip takes all numbers without these bits.
    fn is_whole(&self) -> bool {
        self.min < 0 || self.max >= 0 && (self.max as u64 + 1 + u64::from(self.even)).is_power_of_two()
    }

    #[inline]
    fn insert(&self, value: i32) -> u64 {
        let rest = 64 - u32::from(self.bits);
        (value as u64) << rest >> rest << self.shift
    }

    #[inline]
    fn accepts(&self, value: i32) -> bool {
        (self.min..=self.max).contains(&value) && value & i32::from(self.even) == 0
    }
}

/// One opcode's fields on a chip.
#[derive(Clone, Debug)]
pub(crate) struct OpFields {
    op: Op,
    count: usize,
    fields: [Field; MAX_OPERANDS],
    /// Bits of the word that are in use.
    used: u64,
    /// The operand that is a format of the matrix unit, if one is.
    format: Option<usize>,
}

/// What is asked of every word of an opcode.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// Bits that no instruction of the chip sets, and whether they are all that has to be asked, but for the format.
    zeros: u64,
    plain: bool,
    slot: Slot,
    /// Where the word has a format of the matrix unit, and those that the chip lacks, a bit each.
    format: u8,
    missing: u16,
}

/// Of a number that no opcode has.
const NO_OPCODE: Check = Check { zeros: u64::MAX, plain: false, slot: Slot::Scalar, format: 0, missing: 0 };

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
    checks: Vec<Check>,
    /// Instructions that each slot kind takes; those numbers as a header has them, every other one by itself.
    pub(crate) slots: [u32; Slot::ALL.len()],
    most: [u64; 2],
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

/// Every other count of a header.
pub(crate) const EVEN: u64 = 0x0F0F_0F0F_0F0F_0F0F;

impl Fields {
    pub(crate) fn new(chip: &ChipConfig) -> Fields {
        let mut ops = vec![None; Op::NUMBERS];
        let mut checks = vec![NO_OPCODE; Op::NUMBERS];
        let chunks = chip.mxu_chunks();
        let missing = MxuFormat::ALL.iter().enumerate().filter(|(_, f)| chip.mxu_type(**f).is_none());
        let missing_formats = missing.map(|(i, _)| 1 << i).sum();
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
                let (bits, signed) = (operand.kind.bits() as u8, operand.kind.is_signed());
                *field = Field { shift: shift as u8, bits, signed, even, min, max };
                // Numbers with a sign take all values of their bits, the others begin at zero.
                debug_assert!(if signed { max == (u64::MAX >> (65 - bits)) as i32 } else { min == 0 });
            }
            let used = if end == 64 { u64::MAX } else { (1 << end) - 1 };
            let own = &fields[..info.operands.len()];
            let zeros = own.iter().fold(!used, |all, f| all | f.zeros());
            let format = info.operands.iter().position(|o| o.kind == Kind::Fmt);
            let plain = own.iter().all(Field::is_whole);
            let missing = if format.is_some() { missing_formats as u16 } else { 0 };
            let (op, slot, count) = (info.op, info.slot, info.operands.len());
            ops[op as usize] = Some(OpFields { op, count, fields, used, format });
            let at = format.map_or(0, |i| shifts[i] as u8);
            checks[op as usize] = Check { zeros, plain, slot, format: at, missing };
        }
        let slots = Slot::ALL.map(|s| chip.slots(s));
        let counts = slots.iter().enumerate().map(|(i, &n)| u64::from(n.min(15)) << (COUNT_BITS * i as u32));
        let counts: u64 = counts.sum();
        let most = [counts & EVEN, counts >> COUNT_BITS & EVEN];
        Fields { ops, checks, slots, most, missing_formats }
    }

    /// Whether the chip has the slots that the counts of a bundle's header say.
    #[inline]
    pub(crate) fn has_slots(&self, header: u64) -> bool {
        // A digit's difference borrows from the one above it where a count is too large.
        let room = |most: u64, have: u64| ((most | !EVEN) - have) & !EVEN == !EVEN;
        let [even, odd] = [header & EVEN, header >> COUNT_BITS & EVEN];
        room(self.most[0], even) && room(self.most[1], odd)
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

    /// The slot that the word's instruction belongs to.
    #[inline]
    pub(crate) fn slot(&self, word: u64) -> Result<Slot, Problem> {
        let check = self.checks.get(opcode(word)).unwrap_or(&NO_OPCODE);
        let lacks = check.missing >> (word >> check.format & 15) & 1 == 1;
        if word & check.zeros != 0 || !check.plain || lacks {
            self.ask(word)?;
        }
        Ok(check.slot)
    }

    /// Of words of an opcode in which the bits of `decided` are those of an instruction of the chip: the other bits that no instruction of
    /// the chip sets; all bits, where bits alone do not tell.
    pub(crate) fn refused(&self, op: Op, decided: u64) -> u64 {
        let Some(fields) = &self.ops[op as usize] else { return u64::MAX };
        let open = |f: &&Field| f.mask() & !decided != 0;
        let mut own = fields.fields[..fields.count].iter().filter(open);
        let format = fields.format.filter(|&at| self.missing_formats != 0 && open(&&fields.fields[at]));
        if format.is_some() || !own.clone().all(Field::is_whole) {
            return u64::MAX;
        }
        own.by_ref().fold(!fields.used, |all, f| all | f.zeros()) & !decided
    }

    /// Whether the word is an instruction of the chip, where its bits alone do not tell.
    fn ask(&self, word: u64) -> Result<(), Problem> {
        let number = opcode(word);
        let Some(Some(fields)) = self.ops.get(number) else { return Err(Problem::Opcode { number }) };
        if word & !fields.used != 0 {
            return Err(Problem::Unused { op: fields.op });
        }
        self.check(&fields.inst(word), fields)
    }

    /// The instruction of a word that [`Fields::slot`] takes.
    #[inline]
    pub(crate) fn inst(&self, word: u64) -> Inst {
        self.ops[opcode(word)].as_ref().expect("the word was checked").inst(word)
    }
}

impl OpFields {
    #[inline]
    fn inst(&self, word: u64) -> Inst {
        let mut inst = Inst { op: self.op, operands: [0; MAX_OPERANDS] };
        for (field, operand) in self.fields[..self.count].iter().zip(&mut inst.operands) {
            *operand = field.value(word);
        }
        inst
    }
}

/// The number of a word's opcode.
#[inline]
pub fn opcode(word: u64) -> usize {
    (word & ((1 << OPCODE_BITS) - 1)) as usize
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
    #[error("the header counts other instructions than there are")]
    Header,
    #[error("the header names the bundle {back} before it, which is not like it")]
    Alike { back: u32 },
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
