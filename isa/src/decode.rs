//! Decodes bytes to bundles; the format is in [`crate::encoding`].
//!
//! Any bytes give bundles or an error: nothing panics, and memory is at most a small multiple of the input. Decoded
//! instructions have every operand in the chip's range; branch targets and table indices are for
//! [`crate::Program::decode`] to check, which knows the tables.

use crate::chip::ChipConfig;
use crate::encoding::{COUNT_BITS, CodeError, EVEN, Fields, HEADER_BITS, OPCODE_BITS, Problem, WORD_BYTES};
use crate::inst::{Bundle, Bundles, Inst};
use crate::opcodes::Op;
use crate::table::Slot;

/// Why bytes were not decoded.
pub type DecodeError = CodeError;

/// The bundles of a code.
///
/// # Errors
/// The first bundle that is no code of this chip.
pub fn decode_code(code: &[u8], chip: &ChipConfig) -> Result<Bundles, DecodeError> {
    let mut bundles = Bundles::with_capacity(code.len() / WORD_BYTES);
    let mut decoder = Decoder::new(code, chip);
    while let Some(insts) = decoder.bundle()? {
        bundles.add(insts);
    }
    Ok(bundles)
}

/// Decodes bundles one after the other, without keeping them.
pub struct Decoder<'c> {
    fields: Fields,
    rest: &'c [u8],
    /// Bundles so far.
    bundles: usize,
    /// The last one's instructions.
    insts: Vec<Inst>,
}

impl<'c> Decoder<'c> {
    /// At the first bundle of a code.
    pub fn new(code: &'c [u8], chip: &ChipConfig) -> Decoder<'c> {
        Decoder { fields: Fields::new(chip), rest: code, bundles: 0, insts: Vec::new() }
    }

    /// The next bundle's instructions; none behind the last one.
    ///
    /// # Errors
    /// If it is no code of the chip.
    pub fn bundle(&mut self) -> Result<Option<&[Inst]>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.insts.clear();
        match decode_bundle(&mut self.rest, &self.fields, &mut self.insts) {
            Ok(()) => self.bundles += 1,
            Err(problem) => return Err(CodeError { bundle: self.bundles, problem }),
        }
        Ok(Some(&self.insts))
    }
}

/// What a look at the words of a code tells of it; where they are no code, that which comes before.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Bundles.
    pub bundles: usize,
    /// Instructions.
    pub insts: usize,
    /// By number: the opcodes that occur.
    pub occurs: [bool; Op::NUMBERS],
}

impl Survey {
    /// That of a code.
    pub fn new(code: &[u8]) -> Survey {
        let mut survey = Survey { bundles: 0, insts: 0, occurs: [false; Op::NUMBERS] };
        let mut words = code.as_chunks::<WORD_BYTES>().0.iter().map(|w| u64::from_le_bytes(*w));
        while let Some(header) = words.next() {
            survey.bundles += 1;
            for word in words.by_ref().take(instructions(header)) {
                survey.insts += 1;
                survey.note((word & ((1 << OPCODE_BITS) - 1)) as usize);
            }
        }
        survey
    }

    /// That of decoded bundles.
    pub fn of(bundles: &Bundles) -> Survey {
        let mut survey = Survey { bundles: bundles.len(), insts: bundles.insts().len(), occurs: [false; Op::NUMBERS] };
        bundles.insts().iter().for_each(|i| survey.note(i.op as usize));
        survey
    }

    fn note(&mut self, opcode: usize) {
        if let Some(occurs) = self.occurs.get_mut(opcode) {
            *occurs = true;
        }
    }
}

/// [`decode_code`], every bundle by itself.
///
/// # Errors
/// As there.
pub fn decode_bundles(code: &[u8], chip: &ChipConfig) -> Result<Vec<Bundle>, DecodeError> {
    let bundles = decode_code(code, chip)?;
    Ok(bundles.iter().map(|insts| Bundle { insts: insts.to_vec() }).collect())
}

#[inline]
fn word(rest: &mut &[u8]) -> Result<u64, Problem> {
    let (bytes, tail) = rest.split_first_chunk::<WORD_BYTES>().ok_or(Problem::Truncated)?;
    *rest = tail;
    Ok(u64::from_le_bytes(*bytes))
}

fn decode_bundle(rest: &mut &[u8], fields: &Fields, out: &mut Vec<Inst>) -> Result<(), Problem> {
    let header = word(rest)?;
    if !fields.has_slots(header) {
        return Err(too_many(header, fields));
    }
    let total = instructions(header);
    let words = rest.as_chunks::<WORD_BYTES>().0.get(..total).ok_or(Problem::Truncated)?;
    *rest = &rest[total * WORD_BYTES..];
    // Instructions are in the order of their slots, as many in each as the header says.
    let (mut counts, mut slot, mut sorted) = (0, 0, true);
    for bytes in words {
        let of = fields.decode(u64::from_le_bytes(*bytes), out)?;
        counts += 1 << (COUNT_BITS * of as u32);
        sorted &= slot <= of as u32;
        slot = of as u32;
    }
    if counts == header && sorted { Ok(()) } else { Err(misplaced(header, &out[out.len() - total..])) }
}

/// Instructions that a header counts.
#[inline]
fn instructions(header: u64) -> usize {
    let header = header & ((1 << HEADER_BITS) - 1);
    // Sums of two counts in a byte each; their sum is the product's highest byte.
    let pairs = (header & EVEN) + (header >> COUNT_BITS & EVEN);
    (pairs.wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize
}

const MOST_IN_SLOT: usize = (1 << COUNT_BITS) - 1;

/// What is wrong with a header that counts more than the chip has.
#[cold]
fn too_many(header: u64, fields: &Fields) -> Problem {
    if header >> HEADER_BITS != 0 {
        return Problem::Header;
    }
    for (slot, &max) in Slot::ALL.into_iter().zip(&fields.slots) {
        let have = (header >> (COUNT_BITS * slot as u32)) as u32 & MOST_IN_SLOT as u32;
        if have > max {
            return Problem::TooMany { slot, have, max };
        }
    }
    Problem::Header
}

/// The first instruction that stands in another slot than the header says.
#[cold]
fn misplaced(header: u64, insts: &[Inst]) -> Problem {
    let count = |slot: Slot| (header >> (COUNT_BITS * slot as u32)) as usize & MOST_IN_SLOT;
    let slots = Slot::ALL.into_iter().flat_map(|s| std::iter::repeat_n(s, count(s)));
    let wrong = insts.iter().zip(slots).find(|(i, slot)| i.op.info().slot != *slot);
    wrong.map_or(Problem::Header, |(i, slot)| Problem::Slot { op: i.op, slot })
}
