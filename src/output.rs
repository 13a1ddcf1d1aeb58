//! What the command reads and writes. A closed pipe ends the process with success.

use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use systole_compiler::front::hlo_proto;
use systole_isa::container;
use systole_runtime::{RuntimeError, files, profile};

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// Writes text to standard output.
///
/// # Errors
/// If it cannot be written and the reader did not simply go away.
pub fn print(text: &str) -> Result<(), RuntimeError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(bad(format!("standard output: {e}"))),
    }
}

/// Says a line on standard error. Where nobody takes it, a closed pipe or a full disk, there is nobody to tell.
pub fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Writes data to standard output as JSON.
///
/// # Errors
/// As [`print`].
pub fn json(data: &impl Serialize) -> Result<(), RuntimeError> {
    let text = serde_json::to_string_pretty(data).map_err(|e| bad(e.to_string()))?;
    print(&(text + "\n"))
}

/// Largest file that is read: the largest programs with their constants are far below.
const MAX_FILE: u64 = 8 << 30;
/// Bytes of a file that its kind is found from.
const HEAD: u64 = 4096;

/// Reads a file: a text, or one of the kinds that systole writes. What is neither is refused by its first bytes.
///
/// # Errors
/// If it cannot be read; the message names it.
pub fn read(path: &str) -> Result<Vec<u8>, RuntimeError> {
    let wrong = |e: std::io::Error| bad(format!("{path}: {e}"));
    let mut file = File::open(path).map_err(wrong)?;
    let about = file.metadata().map_err(wrong)?;
    if about.is_dir() {
        return Err(bad(format!("{path}: a folder, where a file is due")));
    }
    // Room for one byte more, by which the end is seen without asking again; pipes do not say how long they are.
    let mut bytes = Vec::with_capacity(about.len().clamp(HEAD, LARGE) as usize + 1);
    (&mut file).take(HEAD).read_to_end(&mut bytes).map_err(wrong)?;
    if let Some(what) = foreign(path, &bytes, about.len()) {
        return Err(bad(format!("{path}: {what}")));
    }
    if about.len() > MAX_FILE {
        return Err(bad(format!("{path}: {} bytes are more than any program or profile has", about.len())));
    }
    file.take(u64::MAX).read_to_end(&mut bytes).map_err(wrong)?;
    Ok(bytes)
}

/// Files from here on must show by their beginning that they may be a program.
const LARGE: u64 = 64 << 20;

/// What a file is that cannot be a program or a profile, by its name and beginning, and what to do.
fn foreign(path: &str, head: &[u8], size: u64) -> Option<String> {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"PK\x03\x04", "an archive, such as .npz: arrays are given with --inputs FILE.npz beside a program"),
        (b"\x93NUMPY", "a NumPy array: arrays are given in an .npz file, with --inputs FILE.npz beside a program"),
        (b"\x1f\x8b", "compressed with gzip: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
        (b"\x7fELF", "machine code of this computer: libraries of host functions are given with --custom-call-library"),
        (b"\x89PNG", "a picture, where a program is due"),
        (b"%PDF", "a document, where a program is due"),
    ];
    if let Some(k) = KNOWN.iter().find(|k| head.starts_with(k.0)) {
        return Some(k.1.to_string());
    }
    let ends = |ending: &str| path.to_lowercase().ends_with(ending);
    if head.is_empty() {
        return Some("the file is empty".into());
    }
    if ends(".py") || ends(".ipynb") {
        let how = "write its program with jax.jit(f).lower(*args).as_text(), as examples/README.md shows";
        return Some(format!("a Python program: {how}"));
    }
    if ends(".toml") {
        return Some("a chip file: give it with --chip, beside a program".into());
    }
    let own = container::is_program(head) || profile::is_profile(head) || head.starts_with(b"ML\xefR");
    // A text's beginning may be cut within a character.
    let text = !head.iter().any(|b| *b < 0x20 && !b"\t\n\r\x0c\x1b".contains(b));
    if !own && !text && !hlo_proto::is_proto(head) && !ends(".pb") {
        return Some("neither text nor a program, a profile or an HLO proto".into());
    }
    let words: [&[u8]; 6] = [b"HloModule", b"module", b"ENTRY", b"func", b"stablehlo", b".chip"];
    let shown = || words.iter().any(|w| head.windows(w.len()).any(|x| x == *w));
    if text && !own && size > LARGE && !shown() {
        return Some("a text that does not begin like a program".into());
    }
    None
}

/// Writes a file, see [`files::write_by`].
///
/// # Errors
/// As there.
pub fn write(path: &str, bytes: &[u8]) -> Result<(), RuntimeError> {
    files::write_by(path, |out| out.write_all(bytes))
}
