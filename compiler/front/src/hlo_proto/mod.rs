//! HLO modules in protocol buffers (`HloModuleProto`, or `HloProto` with one inside).
//!
//! The messages are read by field number (`wire`, `shape`), rendered as HLO text (`text`), and go through the text front
//! end, so that both forms of a program have one meaning and the same diagnostics; their places are in the rendered text.

mod devices;
mod fields;
mod shape;
mod text;
mod wire;

pub use wire::Damage;

use wire::{Message, Read};

/// Whether bytes look like a protocol buffer of an HLO module rather than text: a first field of number 1 and bytes, and
/// control characters that text does not have.
pub fn is_proto(bytes: &[u8]) -> bool {
    let control = |b: &u8| *b < 32 && !matches!(b, b'\t' | b'\n' | b'\r' | 12);
    bytes.first() == Some(&0x0a) && bytes.iter().take(4096).any(control)
}

/// The module as HLO text.
///
/// # Errors
/// What keeps the bytes from being read, with the place in the file.
pub fn to_text(bytes: &[u8]) -> Result<String, Damage> {
    let file = Message::of_file(bytes)?;
    let module = module(file)?;
    text::module(&module)
}

/// The module of a file: the message itself, or the first field of an `HloProto`.
fn module(file: Message<'_>) -> Read<Message<'_>> {
    // A module has computations; an `HloProto` has only a module and a buffer assignment (field 3, without a field 1
    // that is text).
    if let Ok(Some(inner)) = file.message(1)
        && inner.has(3)
        && inner.text(1).is_ok()
        && inner.messages(3).is_ok_and(|c| c.iter().any(|c| c.has(2)))
    {
        return Ok(inner);
    }
    if file.has(3) {
        return Ok(file);
    }
    Err(Damage { at: 0, what: "this is no HLO module: it has no computations".to_string() })
}
