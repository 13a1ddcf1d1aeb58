//! Bundles that are alike. A header names a bundle before its own that is the same but for registers and immediates, so that what is
//! found out of one is taken for the others without looking for them.

use crate::encoding::{HEADER_BITS, OPCODE_BITS, WORD_BYTES, layout, opcode};
use crate::opcodes::{Function, Op, TABLE};
use crate::table::{Kind, OpInfo};
use rustc_hash::FxHashMap;

/// Bits of the distance in a header.
pub const BACK_BITS: u32 = u64::BITS - HEADER_BITS;

/// How many bundles before it a bundle's header names one: 0 if none.
#[inline]
pub fn back(header: u64) -> u32 {
    (header >> HEADER_BITS) as u32
}

/// The bits of an opcode's instructions that are the same in bundles which a header names, and those that are too where registers do not
/// differ.
///
/// The first are those of the opcode, and all but vector registers where an instruction is more than what it reads and writes: of matrix
/// units, copies, transposes and calls of the host.
pub fn bits(op: Op) -> [u64; 2] {
    [false, true].map(|registers| deciding(op.info(), registers))
}

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

/// Looks for bundles that are alike while a code is written.
pub(crate) struct Alike {
    /// By number of the opcode, those with registers first: they are looked for first. Numbers that no opcode has: all bits.
    bits: [Vec<u64>; 2],
    /// By hash, the last bundle that has it.
    last: [FxHashMap<u64, usize>; 2],
    /// Where bundles begin, in bytes.
    begins: Vec<usize>,
}

impl Alike {
    pub(crate) fn new() -> Alike {
        let mut all = [vec![u64::MAX; 1 << OPCODE_BITS], vec![u64::MAX; 1 << OPCODE_BITS]];
        for info in TABLE {
            let [form, named] = bits(info.op);
            all.iter_mut().zip([named, form]).for_each(|(all, bits)| all[info.op as usize] = bits);
        }
        Alike { bits: all, last: Default::default(), begins: Vec::new() }
    }

    /// Puts into the header of a code's last bundle, which begins at that byte and names none so far, which bundle before it is like it.
    pub(crate) fn name(&mut self, code: &mut [u8], begin: usize) {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let word = |bytes: &[u8; WORD_BYTES]| u64::from_le_bytes(*bytes);
        let number = self.begins.len();
        self.begins.push(begin);
        let (before, words) = code.split_at(begin);
        let words = words.as_chunks::<WORD_BYTES>().0;
        let Some((header, insts)) = words.split_first() else { return };
        let counts = word(header);
        let mut found = None;
        for (bits, last) in self.bits.iter().zip(&mut self.last) {
            let own = |w: u64| w & bits[opcode(w)];
            let mix = |h: u64, w: u64| (h.rotate_left(5) ^ own(w)).wrapping_mul(MIX);
            let hash = insts.iter().map(word).fold(counts.wrapping_mul(MIX), mix);
            let other = last.insert(hash, number);
            let is_like = |other: &usize| {
                let (first, others) = match before[self.begins[*other]..].as_chunks::<WORD_BYTES>().0.split_first() {
                    Some((first, others)) => (word(first) & ((1 << HEADER_BITS) - 1), others),
                    None => return false,
                };
                first == counts && insts.iter().zip(others).all(|(w, o)| own(word(w)) == own(word(o)))
            };
            found = found.or(other.filter(is_like));
        }
        let back = found.map_or(0, |other| (number - other) as u64);
        if back >> BACK_BITS == 0 {
            code[begin..begin + WORD_BYTES].copy_from_slice(&(counts | back << HEADER_BITS).to_le_bytes());
        }
    }
}
