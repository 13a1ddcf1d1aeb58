//! Decodes bytes to bundles; the format is in [`crate::encoding`].
//!
//! Any bytes give bundles or an error: nothing panics, and memory is at most a small multiple of the input. Decoded
//! instructions have every operand in the chip's range; branch targets and table indices are for
//! [`crate::Program::decode`] to check, which knows the tables.

use crate::alike::back;
use crate::chip::ChipConfig;
use crate::encoding::{COUNT_BITS, CodeError, EVEN, Fields, HEADER_BITS, Problem, WORD_BYTES};
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

/// A bundle's instructions as they are encoded.
pub type Words<'c> = &'c [[u8; WORD_BYTES]];

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

    /// The next bundle's instructions as words; none behind the last one.
    ///
    /// # Errors
    /// If it is no code of the chip.
    #[inline]
    pub fn words(&mut self) -> Result<Option<Words<'c>>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        match check_bundle(&mut self.rest, self.bundles, &self.fields) {
            Ok(words) => {
                self.bundles += 1;
                Ok(Some(words))
            }
            Err(problem) => Err(CodeError { bundle: self.bundles, problem }),
        }
    }

    /// The next bundle's instructions; none behind the last one.
    ///
    /// # Errors
    /// If it is no code of the chip.
    pub fn bundle(&mut self) -> Result<Option<&[Inst]>, DecodeError> {
        let Some(words) = self.words()? else { return Ok(None) };
        self.insts.clear();
        self.insts.extend(words.iter().map(|w| self.fields.inst(u64::from_le_bytes(*w))));
        Ok(Some(&self.insts))
    }

    /// The next bundle, which has these words behind a header and opcodes that were read before: its operands are checked.
    ///
    /// # Errors
    /// If it is no code of the chip.
    #[inline]
    pub fn alike(&mut self, words: Words<'_>) -> Result<(), DecodeError> {
        for w in words {
            let checked = self.fields.slot(u64::from_le_bytes(*w));
            checked.map_err(|problem| CodeError { bundle: self.bundles, problem })?;
        }
        self.pass(1 + words.len());
        Ok(())
    }

    /// Of words of an opcode that have the bits of `decided` in common with one that was read before: the other bits that no instruction
    /// of the chip sets; all bits, where [`Decoder::alike`] must be asked.
    pub fn refused(&self, op: Op, decided: u64) -> u64 {
        self.fields.refused(op, decided)
    }

    /// Passes the next bundle, of so many words with its header, without a look at it: it is one that was read before.
    #[inline]
    pub fn pass(&mut self, words: usize) {
        self.rest = &self.rest[words * WORD_BYTES..];
        self.bundles += 1;
    }

    /// The instruction of a word of a bundle.
    #[inline]
    pub fn inst(&self, word: u64) -> Inst {
        self.fields.inst(word)
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

fn check_bundle<'c>(rest: &mut &'c [u8], number: usize, fields: &Fields) -> Result<Words<'c>, Problem> {
    let header = word(rest)?;
    let (header, back) = (header & ((1 << HEADER_BITS) - 1), back(header));
    if back as usize > number {
        return Err(Problem::Alike { back });
    }
    if !fields.has_slots(header) {
        return Err(too_many(header, fields));
    }
    let total = instructions(header);
    let words = rest.as_chunks::<WORD_BYTES>().0.get(..total).ok_or(Problem::Truncated)?;
    *rest = &rest[total * WORD_BYTES..];
    // Instructions are in the order of their slots, as many in each as the header says.
    let (mut counts, mut slot, mut sorted) = (0, 0, true);
    for bytes in words {
        let of = fields.slot(u64::from_le_bytes(*bytes))?;
        counts += 1 << (COUNT_BITS * of as u32);
        sorted &= slot <= of as u32;
        slot = of as u32;
    }
    if counts == header && sorted { Ok(words) } else { Err(misplaced(header, words, fields)) }
}

/// Instructions that a header counts.
#[inline]
pub fn instructions(header: u64) -> usize {
    let header = header & ((1 << HEADER_BITS) - 1);
    // Sums of two counts in a byte each; their sum is the product's highest byte.
    let pairs = (header & EVEN) + (header >> COUNT_BITS & EVEN);
    (pairs.wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize
}

const MOST_IN_SLOT: usize = (1 << COUNT_BITS) - 1;

/// What is wrong with a header that counts more than the chip has.
#[cold]
fn too_many(header: u64, fields: &Fields) -> Problem {
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
fn misplaced(header: u64, words: Words<'_>, fields: &Fields) -> Problem {
    let insts: Vec<Inst> = words.iter().map(|w| fields.inst(u64::from_le_bytes(*w))).collect();
    let count = |slot: Slot| (header >> (COUNT_BITS * slot as u32)) as usize & MOST_IN_SLOT;
    let slots = Slot::ALL.into_iter().flat_map(|s| std::iter::repeat_n(s, count(s)));
    let wrong = insts.into_iter().zip(slots).find(|(i, slot)| i.op.info().slot != *slot);
    wrong.map_or(Problem::Header, |(i, slot)| Problem::Slot { op: i.op, slot })
}
