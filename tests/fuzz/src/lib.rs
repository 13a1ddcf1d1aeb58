//! Inputs for fuzzing the readers: files of a corpus, changed here and there, and sealed again where a checksum would
//! keep the reader from looking inside.
//!
//! A fuzzing engine gives bytes without structure; [`mutate`] takes them as choices (which file, which changes), so that what
//! is made is nearly right. Without more, a target runs as often as a test may take, on [choices that are the same every
//! time](on_choices); `FUZZ_EXECUTIONS` lets the engine choose, so many times.

pub mod seal;

use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes as choices; when they are used up, they start again, changed.
pub struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
    round: u64,
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes, at: 0, round: 0 }
    }

    fn byte(&mut self) -> u8 {
        if self.bytes.is_empty() {
            return 0;
        }
        let b = self.bytes[self.at % self.bytes.len()];
        self.at += 1;
        if self.at.is_multiple_of(self.bytes.len()) {
            self.round = self.round.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(b) + 1);
        }
        b ^ (self.round >> 32) as u8
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        let mut v = u64::from(self.byte()) | u64::from(self.byte()) << 8;
        if n > 1 << 16 {
            v |= u64::from(self.byte()) << 16 | u64::from(self.byte()) << 24;
        }
        (v % n.max(1) as u64) as usize
    }
}

/// Numbers at the ends of ranges, as text.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "127",
    "128",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
];

/// Most bytes of an input.
pub const MOST_BYTES: usize = 1 << 16;

/// A file of the corpus with a few changes; `words` are put in as they are.
pub fn mutate(choices: &mut Choices<'_>, corpus: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut out = pick(choices, corpus);
    // Mostly one or two changes: more hide behind the first that is an error.
    let changes = [0, 1, 1, 1, 2, 2, 3, 8][choices.below(8)];
    for _ in 0..changes {
        change(choices, &mut out, corpus, words);
    }
    out.truncate(MOST_BYTES);
    out
}

fn pick(choices: &mut Choices<'_>, corpus: &[Vec<u8>]) -> Vec<u8> {
    if corpus.is_empty() { Vec::new() } else { corpus[choices.below(corpus.len())].clone() }
}

fn change(choices: &mut Choices<'_>, out: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str]) {
    let at = choices.below(out.len() + 1);
    let length = [1, 1, 2, 4, 8, 16, 64, 300][choices.below(8)];
    let end = (at + length).min(out.len());
    match choices.below(10) {
        0 => drop(out.drain(at..end)),
        1 if at < out.len() => out[at] ^= 1 << choices.below(8),
        2 if at < out.len() => out[at] = choices.byte(),
        3 => {
            let again = out[at..end].to_vec();
            let to = choices.below(out.len() + 1);
            out.splice(to..to, again);
        }
        4 => {
            let other = pick(choices, corpus);
            let from = choices.below(other.len() + 1);
            let part = other[from..(from + length).min(other.len())].to_vec();
            out.splice(at..end, part);
        }
        5 | 6 => replace_number(choices, out, at),
        7 if !words.is_empty() => replace_word(choices, out, at, words),
        8 => out.truncate(at),
        _ => {
            let fill = choices.byte();
            out.splice(at..at, std::iter::repeat_n(fill, length));
        }
    }
}

/// The next token at or after `at` for which `is` holds.
fn token(out: &[u8], at: usize, is: fn(&u8) -> bool) -> Option<std::ops::Range<usize>> {
    let start = at + out[at..].iter().position(is)?;
    let length = out[start..].iter().position(|b| !is(b)).unwrap_or(out.len() - start);
    Some(start..start + length)
}

fn replace_number(choices: &mut Choices<'_>, out: &mut Vec<u8>, at: usize) {
    let number = NUMBERS[choices.below(NUMBERS.len())];
    match token(out, at.min(out.len()), u8::is_ascii_digit) {
        Some(range) => drop(out.splice(range, number.bytes())),
        None => out.extend(number.bytes()),
    }
}

fn replace_word(choices: &mut Choices<'_>, out: &mut Vec<u8>, at: usize, words: &[&str]) {
    let word = words[choices.below(words.len())];
    match token(out, at.min(out.len()), |b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.')) {
        Some(range) => drop(out.splice(range, word.bytes())),
        None => out.extend(word.bytes()),
    }
}

/// The files of a folder, in order of their names.
///
/// # Panics
/// If the folder cannot be read.
pub fn files(folder: &Path) -> Vec<Vec<u8>> {
    files_with(folder, &|_| true)
}

fn files_with(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_file() && wanted(p)).collect();
    paths.sort();
    paths.iter().filter_map(|p| std::fs::read(p).ok()).collect()
}

/// The corpus of a target.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target))
}

/// The project's own files with an extension in one of its folders: they are a corpus too.
pub fn own(folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    files_with(&folder, &|p| p.extension().is_some_and(|e| e == extension))
}

/// How often a target is to run on choices of the engine's own.
pub fn executions() -> Option<usize> {
    std::env::var("FUZZ_EXECUTIONS").ok()?.parse().ok()
}

/// Runs `f` on choices that are the same every time, and says which fails.
pub fn on_choices(target: &str, tested: usize, f: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    for n in 0..tested {
        if let Err(panic) = std::panic::catch_unwind(|| f(&choices(target, n))) {
            eprintln!("{target}: choice {n} fails");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Choice `n` of a test of `target`: up to 64 bytes that depend on these two alone, so that a test that fails fails again.
/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over the checksum of the name and `n`.
fn choices(target: &str, n: usize) -> Vec<u8> {
    let mut state = u64::from(crc32fast::hash(target.as_bytes())) << 32 ^ n as u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let words = 1 + next() % 8;
    (0..words).flat_map(|_| next().to_le_bytes()).collect()
}

/// Ends the process with the input at hand when one takes longer than `most`: a hang is found as one.
pub struct Watch {
    now: std::sync::Arc<std::sync::Mutex<Option<(Instant, Vec<u8>)>>>,
}

impl Watch {
    pub fn new(target: &'static str, most: Duration) -> Watch {
        let now: std::sync::Arc<std::sync::Mutex<Option<(Instant, Vec<u8>)>>> = std::sync::Arc::default();
        let seen = std::sync::Arc::clone(&now);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(most / 4);
                let Ok(held) = seen.lock() else { return };
                if let Some((since, input)) = &*held
                    && since.elapsed() > most
                {
                    let path = std::env::temp_dir().join(format!("hang-{target}-{:08x}", crc32fast::hash(input)));
                    let kept = std::fs::write(&path, input).is_ok();
                    eprintln!("{target}: an input takes longer than {most:?} (kept as {}: {kept})", path.display());
                    std::process::exit(3);
                }
            }
        });
        Watch { now }
    }

    /// Runs `f` on an input while it is watched.
    pub fn run<T>(&self, input: &[u8], f: impl FnOnce(&[u8]) -> T) -> T {
        if let Ok(mut now) = self.now.lock() {
            *now = Some((Instant::now(), input.to_vec()));
        }
        let out = f(input);
        if let Ok(mut now) = self.now.lock() {
            *now = None;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_make_the_same_input_again() {
        let corpus = vec![b"add(f32[12] a, b)".to_vec(), b"{1, 2, 3}".to_vec()];
        let make = |seed: &[u8]| mutate(&mut Choices::new(seed), &corpus, &["tanh"]);
        let all: std::collections::BTreeSet<Vec<u8>> = (0..200u8).map(|i| make(&[i, 3, 5 ^ i, 7, 11])).collect();
        assert_eq!(make(&[1, 2, 3]), make(&[1, 2, 3]));
        assert!(all.len() > 60, "{} different inputs", all.len());
        assert!(make(&[]).len() <= MOST_BYTES);
    }

    #[test]
    fn tests_make_the_same_choices_again() {
        let all: std::collections::BTreeSet<Vec<u8>> = (0..1000).map(|n| choices("a", n)).collect();
        assert_eq!(all.len(), 1000);
        assert_eq!(choices("a", 7), choices("a", 7));
        assert_ne!(choices("a", 7), choices("b", 7));
    }
}
