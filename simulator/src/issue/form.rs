//! Forms of bundles: bundles that are the same but for registers and immediates have most of what loading finds out in common. It is
//! found out once for each form, and a bundle is asked only for what is its own.

use super::code::Head;
use super::uses::Hazard;
use std::ops::Range;
use systole_isa::decode::Words;
use systole_isa::encoding::{OPCODE_BITS, WORD_BYTES, layout, opcode};
use systole_isa::opcodes::{Op, TABLE};
use systole_isa::table::OpInfo;
use systole_isa::{Function, Kind};

/// What an instruction waits for or defines, and the instruction's number in its bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub hazard: Hazard,
    pub at: u8,
}

impl Place {
    /// The resource in a bundle of these instructions.
    #[inline(always)]
    pub fn resource(&self, words: Words<'_>) -> usize {
        self.hazard.resource(u64::from_le_bytes(words[usize::from(self.at)]))
    }
}

/// What bundles of one form have in common.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// That of all of them, but for what is behind `reads`, `writes`, `scalars` and `values`.
    pub head: Head,
    /// The number of what they make the machine do.
    pub activity: u32,
    /// Whether they name what tables of the program have.
    pub names: bool,
    /// In [`Forms::places`]: what is only waited for; what is defined.
    pub waits: Range<u32>,
    pub definitions: Range<u32>,
    /// In [`Forms::numbers`]: scalar instructions, by their numbers in the bundle; whether one stores to scalar memory.
    pub scalars: Range<u32>,
    pub stores: bool,
    /// The number of the branch.
    pub branch: Option<u8>,
    /// In [`Forms::kept`].
    pub kept: Range<u32>,
}

/// The forms of a code's bundles.
pub(super) struct Forms {
    /// By number of the opcode: the bits of an instruction's word that are the form's.
    bits: Vec<u64>,
    pub all: Vec<Form>,
    /// Words of forms with the header, only the form's bits of them: one form behind the other, and where each begins.
    words: Vec<u64>,
    begins: Vec<u32>,
    /// By hash, one more than the number of the last form that has it.
    by_hash: Vec<u32>,
    pub places: Vec<Place>,
    pub numbers: Vec<u8>,
    /// Slot groups of which instructions keep single units, and for how long.
    pub kept: Vec<(u8, u32)>,
}

/// By number of the opcode: the bits of an instruction's word which are the form's, and those which decide all but scalars and where
/// a branch goes: registers too, and no immediates.
pub(super) fn bits() -> [Vec<u64>; 2] {
    [false, true].map(|registers| {
        let mut bits = vec![u64::MAX; 1 << OPCODE_BITS];
        TABLE.iter().for_each(|info| bits[info.op as usize] = deciding(info, registers));
        bits
    })
}

/// The bits of the opcode, with `registers` those of registers and queues, and all but those of vector registers where loading makes more
/// of an instruction than what its bundle waits for and defines, which scalars it computes and where it branches.
fn deciding(info: &OpInfo, registers: bool) -> u64 {
    let shifts = layout(info).0;
    let whole = match info.op.function() {
        Function::Matrix(_) | Function::Dma(_) => true,
        Function::CrossLane(_) => info.op == Op::XTpush,
        Function::Branch(_) => info.op == Op::BHost,
        Function::Scalar(_) | Function::State(_) | Function::Store(_) | Function::Load(_) => false,
        Function::Fill(_) | Function::Lanes(_) | Function::Convert(_) | Function::Compare(_) => false,
        Function::Mask(_) | Function::Select(_) | Function::PairMove(_) | Function::Pair(_) => false,
        Function::PairCompare(_) | Function::PairConvert(_) | Function::Transcendental(_) => false,
        Function::Reduce(_) => false,
    };
    let decides = |kind: Kind| registers && is_named(kind) || whole && !is_vector(kind);
    let fields = info.operands.iter().zip(shifts).filter(|(o, _)| decides(o.kind));
    fields.fold((1 << OPCODE_BITS) - 1, |bits, (o, shift)| bits | u64::MAX >> (64 - o.kind.bits()) << shift)
}

/// Whether a kind of operand is a vector or mask register.
fn is_vector(kind: Kind) -> bool {
    match kind {
        Kind::Vd | Kind::Vu | Kind::Pd | Kind::Pu | Kind::Md | Kind::Mu => true,
        Kind::Sd | Kind::Su | Kind::Sm | Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 => false,
        Kind::Target | Kind::Desc | Kind::Sem | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => false,
    }
}

/// Whether a kind of operand names what instructions wait for or define.
fn is_named(kind: Kind) -> bool {
    match kind {
        Kind::Sd | Kind::Su | Kind::Sm | Kind::Mxu | Kind::Xlu => true,
        Kind::Vd | Kind::Vu | Kind::Pd | Kind::Pu | Kind::Md | Kind::Mu => true,
        Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc => false,
        Kind::Sem | Kind::Fmt | Kind::F8 => false,
    }
}

impl Forms {
    /// For a code of so many bundles, with the first of [`bits`].
    pub fn new(bundles: usize, bits: Vec<u64>) -> Forms {
        Forms {
            bits,
            all: Vec::new(),
            words: Vec::new(),
            begins: vec![0],
            by_hash: vec![0; (bundles / 2).next_power_of_two()],
            places: Vec::new(),
            numbers: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// What gives the bits of an instruction's word that are the form's.
    #[inline(always)]
    fn own(&self) -> impl Fn(&[u8; WORD_BYTES]) -> u64 + '_ {
        let bits = &self.bits[..1 << OPCODE_BITS];
        move |w| u64::from_le_bytes(*w) & bits[opcode(u64::from_le_bytes(*w))]
    }

    #[inline(always)]
    fn place(&self, header: u64, insts: Words<'_>) -> usize {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let mix = |h: u64, w: u64| (h.rotate_left(5) ^ w).wrapping_mul(MIX);
        let own = self.own();
        let hash = insts.iter().fold(mix(0, header), |h, w| mix(h, own(w)));
        (hash >> 32) as usize & (self.by_hash.len() - 1)
    }

    /// The form of a bundle of these words, of which the first is the header, if one before it had that form.
    #[inline]
    pub fn find(&self, words: Words<'_>) -> Option<usize> {
        let (header, insts) = words.split_first()?;
        let header = u64::from_le_bytes(*header);
        let number = (self.by_hash[self.place(header, insts)] as usize).checked_sub(1)?;
        let known = &self.words[self.begins[number] as usize..self.begins[number + 1] as usize];
        let (first, known) = known.split_first()?;
        let own = self.own();
        // A header says how many there are.
        (header == *first && insts.iter().zip(known).all(|(w, k)| own(w) == *k)).then_some(number)
    }

    /// Keeps the form of a bundle of these words, of which the first is the header: its number.
    pub fn insert(&mut self, words: Words<'_>, form: Form) -> usize {
        let (header, insts) = (u64::from_le_bytes(words[0]), &words[1..]);
        let (place, number) = (self.place(header, insts), self.all.len());
        self.by_hash[place] = number as u32 + 1;
        let mut all = std::mem::take(&mut self.words);
        all.push(header);
        all.extend(insts.iter().map(self.own()));
        self.words = all;
        self.begins.push(self.words.len() as u32);
        self.all.push(form);
        number
    }
}
