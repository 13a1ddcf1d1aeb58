//! VHLO, the portable form of StableHLO, in MLIR bytecode: what JAX hands to devices and what `jax.export` writes.
//!
//! The operations are written out as StableHLO text in generic form, which the front end of that reads: both forms give
//! the same graph, and diagnostics can show what they speak of. Every operation carries its `loc(..)`.
//!
//! `table` names the attributes of operations, `types` and `value` decode types and attributes, `rename` makes StableHLO's
//! attributes of VHLO's, `shardy` writes those of Shardy, `dense` writes constants, `print` operations.

mod dense;
mod print;
mod rename;
mod shardy;
mod table;
mod types;
mod value;

pub use systole_mlir_bytecode::Error;

use systole_mlir_bytecode::{Bytecode, is_bytecode};

/// The bytecode in a file: the file itself, or the module of what `jax.export` serialises.
///
/// That is a FlatBuffer without a mark of its own. The module is a vector of bytes in it, so its length stands before it.
pub fn bytecode(file: &[u8]) -> Option<&[u8]> {
    const PRODUCER: &[u8] = b"ML\xefR\x0dStableHLO_v";
    if is_bytecode(file) {
        return Some(file);
    }
    let at = file.windows(PRODUCER.len()).position(|w| w == PRODUCER)?;
    let length = file.get(at.checked_sub(4)?..at)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    file.get(at..at.checked_add(length)?)
}

/// The StableHLO text of a file of bytecode.
///
/// # Errors
/// Damaged bytes; operations, attributes and types that StableHLO's portable form does not have.
pub fn to_text(bytes: &[u8]) -> Result<String, Error> {
    let of = Bytecode::read(bytes)?;
    if of.dialects().any(|d| d == "stable_mosaic") {
        return Err(Error::new(0, "the file is a kernel, not a program"));
    }
    print::Printer::new(&of, bytes.len()).module()
}
