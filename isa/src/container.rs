//! The program file: a header of our own, then the program.
//!
//! ```text
//! bytes 0 .. 7    "SYSTOLE" and a zero byte
//! bytes 8 .. 11   format version
//! bytes 12 .. 15  CRC-32 of the payload
//! bytes 16 .. 23  payload length in bytes
//! bytes 24 ..     payload: the program, serialized
//! ```
//!
//! All numbers are little-endian. The header is checked before the payload is looked at. Lengths inside the payload are
//! checked against what is there before memory is taken, so no file makes the reader allocate more than a small
//! multiple of its size. What a program says is not checked here: see [`Program::decode`].

use crate::program::{Constant, Program};
use serde::Serialize;

/// First bytes of a program file.
pub const MAGIC: [u8; 8] = *b"SYSTOLE\0";
/// Version of the format that this library writes and reads. It grows with every change of [`Program`], of the bits
/// of bundles, or of the instruction table.
pub const VERSION: u32 = 10;

const HEADER_BYTES: usize = 24;
/// Bytes in memory for each byte of a payload at most: an empty text takes one there and 24 here.
const GROWTH: usize = 64;

/// Why a file is not read.
#[allow(missing_docs, reason = "the message says it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    #[error("this is not a compiled program (it does not start with the mark of one)")]
    Foreign,
    #[error("the program file is cut short: it has {have} bytes of {need}")]
    Truncated { have: u64, need: u64 },
    #[error("the program file is followed by {extra} bytes that do not belong to it")]
    Trailing { extra: u64 },
    #[error("the program file is damaged: its checksum is {found:08x}, not {stated:08x}")]
    Checksum { stated: u32, found: u32 },
    #[error("the program file has format version {version}, this program reads up to {VERSION}: use a newer systole")]
    Newer { version: u32 },
    #[error("the program file has format version {version}, this program reads {VERSION}: compile it again")]
    Older { version: u32 },
    #[error("the program file is damaged: {reason}")]
    Payload { reason: String },
}

/// Whether bytes start like a program file (which may yet be damaged).
pub fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Reads a payload; lengths in it that would take more than `LIMIT` bytes are refused before memory is taken.
fn decode<const LIMIT: usize>(payload: &[u8]) -> Result<(Program, usize), bincode::error::DecodeError> {
    bincode::serde::borrow_decode_from_slice(payload, bincode::config::standard().with_limit::<LIMIT>())
}

/// [`decode`] within a bound that follows the payload's length.
fn bounded(payload: &[u8]) -> Result<(Program, usize), bincode::error::DecodeError> {
    match payload.len().saturating_mul(GROWTH) {
        0..=0x40_0000 => decode::<0x40_0000>(payload),
        0x40_0001..=0x400_0000 => decode::<0x400_0000>(payload),
        0x400_0001..=0x4000_0000 => decode::<0x4000_0000>(payload),
        _ => decode::<{ 1 << 40 }>(payload),
    }
}

/// The file of a program.
pub fn write_program(program: &Program) -> Vec<u8> {
    let code = program.code.len();
    let mut file = Vec::with_capacity(HEADER_BYTES + code + code / 4 + (1 << 12));
    file.resize(HEADER_BYTES, 0);
    encode(program, &mut file);
    let payload = &file[HEADER_BYTES..];
    let header = header(crc32fast::hash(payload), payload.len());
    file[..HEADER_BYTES].copy_from_slice(&header);
    file
}

/// The file of a program without its constants: what shows code needs no more.
pub fn write_code(program: &Program) -> Vec<u8> {
    let (before, code, behind) = code_parts(program);
    [&before, code, &behind].concat()
}

/// [`write_code`] in the parts that it is put together from, of which the second is the program's own.
pub fn code_parts(program: &Program) -> (Vec<u8>, &[u8], Vec<u8>) {
    let Program {
        name,
        chip,
        fingerprint,
        code,
        bundles,
        descs,
        constants: _,
        params,
        results,
        memory,
        traps,
        host_calls,
        pod,
        debug,
    } = program;
    // As a program is written, field by field; code as its length and its bytes.
    let mut before = vec![0; HEADER_BYTES];
    encode(&(name, chip, fingerprint, code.len() as u64), &mut before);
    let mut behind = Vec::new();
    encode(
        &(bundles, descs, Vec::<Constant>::new(), params, results, memory, traps, host_calls, pod, debug),
        &mut behind,
    );
    let mut crc = crc32fast::Hasher::new();
    [&before[HEADER_BYTES..], code, &behind].into_iter().for_each(|part| crc.update(part));
    let header = header(crc.finalize(), before.len() - HEADER_BYTES + code.len() + behind.len());
    before[..HEADER_BYTES].copy_from_slice(&header);
    (before, code, behind)
}

/// Writes a part of a program behind others.
fn encode(part: &impl Serialize, out: &mut Vec<u8>) {
    bincode::serde::encode_into_std_write(part, out, bincode::config::standard())
        .expect("a program has only plain data and memory takes all bytes");
}

/// The header of a payload of so many bytes with that checksum.
fn header(crc: u32, length: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header[16..24].copy_from_slice(&(length as u64).to_le_bytes());
    header
}

/// The program of a file.
///
/// # Errors
/// If the bytes are no program file, cut, damaged, or of another format version.
pub fn read_program(file: &[u8]) -> Result<Program, ContainerError> {
    if !is_program(file) {
        let beginning = !file.is_empty() && MAGIC.starts_with(file);
        let cut = ContainerError::Truncated { have: file.len() as u64, need: HEADER_BYTES as u64 };
        return Err(if beginning { cut } else { ContainerError::Foreign });
    }
    let Some((header, payload)) = file.split_first_chunk::<HEADER_BYTES>() else {
        return Err(ContainerError::Truncated { have: file.len() as u64, need: HEADER_BYTES as u64 });
    };
    let four = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let version = four(8);
    if version > VERSION {
        return Err(ContainerError::Newer { version });
    }
    if version < VERSION {
        return Err(ContainerError::Older { version });
    }
    let length = four(16) as u64 | (four(20) as u64) << 32;
    let have = payload.len() as u64;
    if have < length {
        return Err(ContainerError::Truncated {
            have: file.len() as u64,
            need: length.saturating_add(HEADER_BYTES as u64),
        });
    }
    if have > length {
        return Err(ContainerError::Trailing { extra: have - length });
    }
    let (stated, found) = (four(12), crc32fast::hash(payload));
    if stated != found {
        return Err(ContainerError::Checksum { stated, found });
    }
    let (program, read) = bounded(payload).map_err(|e| ContainerError::Payload { reason: e.to_string() })?;
    if read != payload.len() {
        return Err(ContainerError::Payload { reason: "it goes on after the program".into() });
    }
    Ok(program)
}
