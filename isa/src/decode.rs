//! Decodes bytes to bundles; the format is in [`crate::encoding`].
//!
//! Any bytes give bundles or an error: nothing panics, and memory is at most a small multiple of the input. Decoded
//! instructions have every operand in the chip's range; branch targets and table indices are for
//! [`crate::Program::decode`] to check, which knows the tables.

use crate::chip::ChipConfig;
use crate::encoding::{COUNT_BITS, CodeError, Fields, HEADER_BITS, Problem, WORD_BYTES};
use crate::inst::{Bundle, Bundles};
use crate::table::Slot;

/// Why bytes were not decoded.
pub type DecodeError = CodeError;

/// The bundles of a code.
///
/// # Errors
/// The first bundle that is no code of this chip.
pub fn decode_code(code: &[u8], chip: &ChipConfig) -> Result<Bundles, DecodeError> {
    let fields = Fields::new(chip);
    let mut bundles = Bundles::with_capacity(code.len() / WORD_BYTES);
    let mut rest = code;
    while !rest.is_empty() {
        match decode_bundle(&mut rest, &fields, &mut bundles) {
            Ok(()) => bundles.end(),
            Err(problem) => return Err(CodeError { bundle: bundles.len(), problem }),
        }
    }
    Ok(bundles)
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

fn decode_bundle(rest: &mut &[u8], fields: &Fields, out: &mut Bundles) -> Result<(), Problem> {
    let header = word(rest)?;
    if header >> HEADER_BITS != 0 {
        return Err(Problem::Header);
    }
    let count = |slot: Slot| (header >> (COUNT_BITS * slot as u32)) as u32 & ((1 << COUNT_BITS) - 1);
    let mut total = 0;
    for (slot, &max) in Slot::ALL.into_iter().zip(&fields.slots) {
        let have = count(slot);
        if have > max {
            return Err(Problem::TooMany { slot, have, max });
        }
        total += have as usize;
    }
    if rest.len() < total * WORD_BYTES {
        return Err(Problem::Truncated);
    }
    for slot in Slot::ALL {
        for _ in 0..count(slot) {
            out.push(fields.decode(word(rest)?, slot)?);
        }
    }
    Ok(())
}
