//! Scalar memory: 32-bit words, each known or not (in timing-only runs).

/// Words with one known bit each.
#[derive(Debug)]
pub(crate) struct Smem {
    words: Vec<i32>,
    unknown: Vec<u64>,
    any_unknown: bool,
}

impl Smem {
    pub fn new(bytes: u64) -> Smem {
        let n = (bytes / 4) as usize;
        Smem { words: vec![0; n], unknown: vec![0; n.div_ceil(64)], any_unknown: false }
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The word and whether it is known; `None` out of range.
    pub fn load(&self, at: i64) -> Option<(i32, bool)> {
        let i = usize::try_from(at).ok()?;
        let w = *self.words.get(i)?;
        Some((w, !self.any_unknown || self.unknown[i / 64] >> (i % 64) & 1 == 0))
    }

    /// Stores a word; `None` out of range.
    pub fn store(&mut self, at: i64, value: i32, known: bool) -> Option<()> {
        let i = usize::try_from(at).ok()?;
        *self.words.get_mut(i)? = value;
        if !known {
            self.unknown[i / 64] |= 1 << (i % 64);
            self.any_unknown = true;
        } else if self.any_unknown {
            self.unknown[i / 64] &= !(1 << (i % 64));
        }
        Some(())
    }

    /// Makes every word unknown (a store to an unknown address).
    pub fn forget_all(&mut self) {
        self.unknown.fill(!0);
        self.any_unknown = true;
    }

    /// The words as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.words)
    }

    /// Marks the words that a byte range touches.
    pub fn mark(&mut self, start: usize, end: usize, known: bool) {
        for i in start / 4..end.div_ceil(4) {
            let w = self.words[i];
            self.store(i as i64, w, known).expect("the caller checked the range");
        }
    }

    /// Whether every word that a byte range touches is known.
    pub fn known(&self, start: usize, end: usize) -> bool {
        !self.any_unknown || (start / 4..end.div_ceil(4)).all(|i| self.unknown[i / 64] >> (i % 64) & 1 == 0)
    }
}
