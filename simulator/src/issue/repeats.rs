//! Bundles that occur again: what loading found out of the first is taken for the others.

use systole_isa::decode::{Words, instructions};
use systole_isa::encoding::WORD_BYTES;

/// Looks for bundles that came before, one behind the other.
pub(super) struct Repeats<'c> {
    code: Words<'c>,
    /// Where the next bundle begins, and where those before it do.
    at: usize,
    begins: Vec<u32>,
    /// By hash, one more than the number of the last bundle that has it.
    places: Vec<u32>,
}

impl<'c> Repeats<'c> {
    /// At the first of so many bundles of a code.
    pub fn new(code: &'c [u8], bundles: usize) -> Repeats<'c> {
        let places = vec![0; bundles.next_power_of_two()];
        Repeats { code: code.as_chunks::<WORD_BYTES>().0, at: 0, begins: Vec::with_capacity(bundles), places }
    }

    /// Goes on to the next bundle: its words with the header, and the number of one before it that is the same, if that is seen. None
    /// behind the last one, and where the code ends inside it.
    #[inline]
    pub fn go_on(&mut self) -> Option<(usize, Option<usize>)> {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let size = 1 + instructions(u64::from_le_bytes(*self.code.get(self.at)?));
        let words = self.code[self.at..].get(..size)?;
        let mix = |h: u64, w: &[u8; WORD_BYTES]| (h.rotate_left(5) ^ u64::from_le_bytes(*w)).wrapping_mul(MIX);
        let hash = words.iter().fold(0, mix);
        let place = (hash >> 32) as usize & (self.places.len() - 1);
        let before = (self.places[place] as usize).checked_sub(1);
        let same = |b: &usize| self.code[self.begins[*b] as usize..].get(..size) == Some(words);
        let before = before.filter(same);
        if before.is_none() {
            self.places[place] = self.begins.len() as u32 + 1;
        }
        self.begins.push(self.at as u32);
        self.at += size;
        Some((size, before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_behind_the_same_header_are_seen_again() {
        // One scalar instruction, two of them, none; another one with the words of both others behind it.
        let (one, two, none) = ([1, 77].as_slice(), [2, 77, 5].as_slice(), [0].as_slice());
        let bundles = [one, two, one, none, one, none, &[1, 5], two];
        let mut code: Vec<u8> = bundles.concat().into_iter().flat_map(u64::to_le_bytes).collect();
        // A bundle that is cut.
        code.extend(2u64.to_le_bytes());
        let mut repeats = Repeats::new(&code, 9);
        let seen: Vec<_> = std::iter::from_fn(|| repeats.go_on()).collect();
        assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), bundles.map(<[u64]>::len));
        // Places are few: what another one took over is not seen, and what is seen is the same.
        for (i, s) in seen.iter().enumerate() {
            assert!(s.1.is_none_or(|before| before < i && bundles[before] == bundles[i]), "{i}: {s:?}");
        }
        assert_eq!(seen.iter().filter(|s| s.1.is_some()).count(), 4);
    }
}
