//! Register operands of instructions, as the opcode table declares them.

use systole_isa::inst::MAX_OPERANDS;
use systole_isa::opcodes::TABLE;
use systole_isa::{Inst, Kind, Op};

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum File {
    Scalar,
    Vector,
    /// Even-aligned pairs of vector registers; a number space of its own before allocation.
    Pair,
    Mask,
}

impl File {
    pub const ALL: [File; 4] = [File::Scalar, File::Vector, File::Pair, File::Mask];

    /// How messages call the registers.
    pub fn name(self) -> &'static str {
        match self {
            File::Scalar => "scalar",
            File::Vector => "vector",
            File::Pair => "vector pair",
            File::Mask => "mask",
        }
    }

    /// Its registers that are constants of the machine, which come first: s0 and m0.
    pub fn constants(self) -> u32 {
        match self {
            File::Scalar | File::Mask => 1,
            File::Vector | File::Pair => 0,
        }
    }

    /// The kind of an operand that defines one of its registers.
    pub fn defined(self) -> Kind {
        match self {
            File::Scalar => Kind::Sd,
            File::Vector => Kind::Vd,
            File::Pair => Kind::Pd,
            File::Mask => Kind::Md,
        }
    }

    /// The file whose registers are taken, and how many.
    pub fn physical(self) -> (File, u32) {
        match self {
            File::Scalar | File::Vector | File::Mask => (self, 1),
            File::Pair => (File::Vector, 2),
        }
    }
}

/// A register: file in the two top bits, number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(u32);

impl Reg {
    pub fn new(file: File, number: u32) -> Reg {
        debug_assert!(number < 1 << 30);
        Reg((file as u32) << 30 | number)
    }

    pub fn file(self) -> File {
        File::ALL[(self.0 >> 30) as usize]
    }

    pub fn number(self) -> u32 {
        self.0 & ((1 << 30) - 1)
    }

    /// The hardware constants s0 and m0, which carry no dependence.
    pub fn is_constant(self) -> bool {
        self.number() < self.file().constants()
    }
}

/// A register operand's place and direction.
#[derive(Clone, Copy, Debug)]
pub struct RegOperand {
    /// Index into the operands.
    pub at: usize,
    pub reg: Reg,
    pub is_use: bool,
    pub is_def: bool,
}

/// File and direction (use, def) of a register operand kind.
pub const fn register_kind(kind: Kind) -> Option<(File, bool, bool)> {
    match kind {
        Kind::Sd => Some((File::Scalar, false, true)),
        Kind::Su => Some((File::Scalar, true, false)),
        Kind::Sm => Some((File::Scalar, true, true)),
        Kind::Vd => Some((File::Vector, false, true)),
        Kind::Vu => Some((File::Vector, true, false)),
        Kind::Pd => Some((File::Pair, false, true)),
        Kind::Pu => Some((File::Pair, true, false)),
        Kind::Md => Some((File::Mask, false, true)),
        Kind::Mu => Some((File::Mask, true, false)),
        Kind::I32
        | Kind::I20
        | Kind::I16
        | Kind::U8
        | Kind::U4
        | Kind::Target
        | Kind::Desc
        | Kind::Sem
        | Kind::Mxu
        | Kind::Xlu
        | Kind::Fmt
        | Kind::F8 => None,
    }
}

/// Where an opcode has a register operand.
#[derive(Clone, Copy)]
struct Place {
    at: u8,
    file: File,
    is_use: bool,
    is_def: bool,
}

/// Some of an opcode's register operands, in order.
#[derive(Clone, Copy)]
struct Places {
    places: [Place; MAX_OPERANDS],
    count: usize,
}

impl Places {
    const NONE: Places =
        Places { places: [Place { at: 0, file: File::Scalar, is_use: false, is_def: false }; MAX_OPERANDS], count: 0 };

    const fn with(mut self, place: Place) -> Places {
        self.places[self.count] = place;
        self.count += 1;
        self
    }
}

/// All register operands of an opcode, those that it reads, those that it writes.
#[derive(Clone, Copy)]
struct Operands {
    all: Places,
    uses: Places,
    defs: Places,
}

/// By number of the opcode: what is asked of every instruction many times.
static OPERANDS: [Operands; Op::NUMBERS] = {
    let mut out = [Operands { all: Places::NONE, uses: Places::NONE, defs: Places::NONE }; Op::NUMBERS];
    let mut row = 0;
    while row < TABLE.len() {
        let (info, mut of, mut at) = (&TABLE[row], out[TABLE[row].op as usize], 0);
        while at < info.operands.len() {
            if let Some((file, is_use, is_def)) = register_kind(info.operands[at].kind) {
                let place = Place { at: at as u8, file, is_use, is_def };
                of.all = of.all.with(place);
                of.uses = if is_use { of.uses.with(place) } else { of.uses };
                of.defs = if is_def { of.defs.with(place) } else { of.defs };
            }
            at += 1;
        }
        out[info.op as usize] = of;
        row += 1;
    }
    out
};

fn at_places(inst: &Inst, places: &'static Places) -> impl Iterator<Item = RegOperand> + use<> {
    let operands = inst.operands;
    places.places[..places.count].iter().filter_map(move |&Place { at, file, is_use, is_def }| {
        let at = usize::from(at);
        let reg = Reg::new(file, operands[at] as u32);
        (!reg.is_constant()).then_some(RegOperand { at, reg, is_use, is_def })
    })
}

/// The register operands of an instruction, hardware constants left out.
pub fn registers(inst: &Inst) -> impl Iterator<Item = RegOperand> + use<> {
    at_places(inst, &OPERANDS[inst.op as usize].all)
}

/// Registers that an instruction reads.
pub fn uses(inst: &Inst) -> impl Iterator<Item = Reg> + use<> {
    at_places(inst, &OPERANDS[inst.op as usize].uses).map(|r| r.reg)
}

/// Registers that an instruction writes.
pub fn defs(inst: &Inst) -> impl Iterator<Item = Reg> + use<> {
    at_places(inst, &OPERANDS[inst.op as usize].defs).map(|r| r.reg)
}

/// The first operand of a kind.
pub fn operand_of(inst: &Inst, kind: Kind) -> Option<i32> {
    inst.iter().find(|(k, _)| *k == kind).map(|(_, v)| v)
}

/// Operand indices (base register, immediate offset) of instructions whose value or address is the sum of the two.
#[allow(clippy::wildcard_enum_match_arm, reason = "few opcodes add an immediate; a new one loses only speed")]
pub fn base_and_offset(op: Op) -> Option<(usize, usize)> {
    match op {
        Op::SAddI | Op::SLd | Op::SSt => Some((1, 2)),
        Op::VLd | Op::VLdBf16 | Op::VLdS16 | Op::VLdU16 | Op::VLdS8 | Op::VLdU8 => Some((1, 2)),
        Op::VSt | Op::VStBf16 | Op::VSt16 | Op::VSt8 => Some((1, 2)),
        _ => None,
    }
}

/// The bits of a vector memory access's rows (32, 16 or 8).
#[allow(clippy::wildcard_enum_match_arm, reason = "few opcodes access vector memory")]
pub fn row_bits(op: Op) -> Option<u32> {
    match op {
        Op::VLd | Op::VSt => Some(32),
        Op::VLdBf16 | Op::VLdS16 | Op::VLdU16 | Op::VStBf16 | Op::VSt16 => Some(16),
        Op::VLdS8 | Op::VLdU8 | Op::VSt8 => Some(8),
        _ => None,
    }
}

/// Whether an immediate fits its operand field.
pub fn fits(kind: Kind, value: i64) -> bool {
    let bits = match kind {
        Kind::I32 => 32,
        Kind::I20 => 20,
        Kind::I16 => 16,
        Kind::U8 | Kind::Sem => return (0..256).contains(&value),
        Kind::U4 | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => return (0..16).contains(&value),
        Kind::Desc => return (0..1 << 16).contains(&value),
        Kind::Target => return (0..1 << 32).contains(&value),
        Kind::Sd | Kind::Su | Kind::Sm | Kind::Vd | Kind::Vu | Kind::Pd | Kind::Pu | Kind::Md | Kind::Mu => {
            return value >= 0;
        }
    };
    (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value)
}
