//! Scalar memory: 32-bit words, each known or not (in timing-only runs).

use std::ops::Range;

/// Words with one known bit each.
#[derive(Debug)]
pub(crate) struct Smem {
    /// Words that there are.
    size: usize,
    /// The first words: those behind them were never written, and are zero. Programs use few.
    words: Vec<i32>,
    /// A bit of each word, once any was unknown.
    unknown: Vec<u64>,
}

impl Smem {
    pub fn new(bytes: u64) -> Smem {
        Smem { size: (bytes / 4) as usize, words: Vec::new(), unknown: Vec::new() }
    }

    /// Whether some word may be unknown.
    #[inline]
    fn any_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// A bit of each word, for those that are unknown.
    fn unknown(&mut self) -> &mut Vec<u64> {
        if self.unknown.is_empty() {
            self.unknown = vec![0; self.size.div_ceil(64)];
        }
        &mut self.unknown
    }

    pub fn len(&self) -> usize {
        self.size
    }

    /// The first `end` words are there to be written.
    #[inline]
    fn reach(&mut self, end: usize) {
        if end > self.words.len() {
            self.words.resize(end.next_multiple_of(64).min(self.size), 0);
        }
    }

    /// The word and whether it is known; `None` out of range.
    #[inline]
    pub fn load(&self, at: i64) -> Option<(i32, bool)> {
        let i = usize::try_from(at).ok()?;
        let w = self.words.get(i).copied().or((i < self.size).then_some(0))?;
        Some((w, !self.any_unknown() || self.unknown[i / 64] >> (i % 64) & 1 == 0))
    }

    /// Stores a word; `None` out of range.
    #[inline]
    pub fn store(&mut self, at: i64, value: i32, known: bool) -> Option<()> {
        let i = usize::try_from(at).ok()?;
        if i >= self.size {
            return None;
        }
        self.reach(i + 1);
        self.words[i] = value;
        if !known {
            self.unknown()[i / 64] |= 1 << (i % 64);
        } else if self.any_unknown() {
            self.unknown[i / 64] &= !(1 << (i % 64));
        }
        Some(())
    }

    /// Makes every word unknown (a store to an unknown address).
    pub fn forget_all(&mut self) {
        self.unknown().fill(!0);
    }

    /// Some of its bytes, which the caller has checked to be there.
    pub fn bytes_mut(&mut self, bytes: Range<usize>) -> &mut [u8] {
        self.reach(bytes.end.div_ceil(4));
        &mut bytemuck::cast_slice_mut(&mut self.words)[bytes]
    }

    /// Marks the words that a byte range touches.
    pub fn mark(&mut self, start: usize, end: usize, known: bool) {
        let (mut at, end) = (start / 4, end.div_ceil(4));
        if known && !self.any_unknown() || at >= end {
            return;
        }
        while at < end {
            let count = (64 - at % 64).min(end - at);
            let bits = u64::MAX >> (64 - count) << (at % 64);
            let unknown = &mut self.unknown()[at / 64];
            *unknown = *unknown & !bits | if known { 0 } else { bits };
            at += count;
        }
    }

    /// Whether every word that a byte range touches is known.
    pub fn known(&self, start: usize, end: usize) -> bool {
        !self.any_unknown() || (start / 4..end.div_ceil(4)).all(|i| self.unknown[i / 64] >> (i % 64) & 1 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_zero_until_they_are_written() {
        let mut smem = Smem::new(4096);
        assert_eq!((smem.len(), smem.load(1023), smem.load(1024), smem.load(-1)), (1024, Some((0, true)), None, None));
        assert_eq!(smem.store(1000, 7, true), Some(()));
        assert_eq!((smem.load(1000), smem.load(1001)), (Some((7, true)), Some((0, true))));
        assert_eq!(smem.store(1024, 7, true), None);
        smem.bytes_mut(4090..4096).fill(1);
        assert_eq!((smem.load(1022), smem.load(1023)), (Some((0x0101_0000, true)), Some((0x0101_0101, true))));
        smem.mark(40, 48, false);
        assert_eq!((smem.load(10), smem.load(12)), (Some((0, false)), Some((0, true))));
        smem.forget_all();
        assert_eq!(smem.load(900), Some((0, false)));
    }
}
