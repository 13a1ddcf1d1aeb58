//! Encodes bundles to bytes; the format is in [`crate::encoding`].

use crate::alike::Alike;
use crate::chip::ChipConfig;
use crate::encoding::{COUNT_BITS, CodeError, Fields, Problem, WORD_BYTES};
use crate::inst::Bundle;
use crate::table::Slot;

/// Why bundles were not encoded.
pub type EncodeError = CodeError;

/// Bytes of a bundle of that many instructions.
pub fn bundle_bytes(instructions: usize) -> usize {
    WORD_BYTES * (1 + instructions)
}

/// The bytes of a sequence of bundles. Within a bundle, instructions are brought into slot order; those of one slot
/// keep theirs.
///
/// # Errors
/// The first bundle with more instructions than slots, or with an operand that the chip or the encoding lacks.
pub fn encode_bundles(bundles: &[Bundle], chip: &ChipConfig) -> Result<Vec<u8>, EncodeError> {
    let fields = Fields::new(chip);
    let mut out = Vec::with_capacity(bundles.iter().map(|b| bundle_bytes(b.insts.len())).sum());
    let mut alike = Alike::new();
    for (bundle, b) in bundles.iter().enumerate() {
        let begin = out.len();
        encode_bundle(b, &fields, &mut out).map_err(|problem| CodeError { bundle, problem })?;
        alike.name(&mut out, begin);
    }
    Ok(out)
}

fn encode_bundle(bundle: &Bundle, fields: &Fields, out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut counts = [0; Slot::ALL.len()];
    for inst in &bundle.insts {
        counts[inst.op.info().slot as usize] += 1;
    }
    let mut header = 0;
    for (slot, (&have, &max)) in Slot::ALL.into_iter().zip(counts.iter().zip(&fields.slots)) {
        if have > max {
            return Err(Problem::TooMany { slot, have, max });
        }
        header |= (have as u64) << (COUNT_BITS * slot as u32);
    }
    out.extend_from_slice(&u64::to_le_bytes(header));
    for slot in Slot::ALL.into_iter().filter(|&s| counts[s as usize] > 0) {
        for inst in bundle.insts.iter().filter(|i| i.op.info().slot == slot) {
            out.extend_from_slice(&fields.encode(inst)?.to_le_bytes());
        }
    }
    Ok(())
}
