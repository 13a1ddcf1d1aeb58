//! Bundles that occur again: what loading found out of the first is taken for the others.

use systole_isa::decode::{Words, instructions};
use systole_isa::encoding::{OPCODE_BITS, WORD_BYTES, opcode};

/// Looks for bundles that came before, one behind the other.
pub(super) struct Repeats<'c> {
    code: Words<'c>,
    /// By number of the opcode: the bits of an instruction's word that are compared.
    bits: Vec<u64>,
    /// Where the next bundle begins, and where those before it do.
    at: usize,
    begins: Vec<u32>,
    /// By hash, one more than the number of the last bundle that has it.
    places: Vec<u32>,
}

/// A bundle before another one that is the same, in the bits that are compared or (`exact`) in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub bundle: usize,
    pub exact: bool,
}

impl<'c> Repeats<'c> {
    /// At the first of so many bundles of a code.
    pub fn new(code: &'c [u8], bundles: usize, bits: Vec<u64>) -> Repeats<'c> {
        debug_assert_eq!(bits.len(), 1 << OPCODE_BITS);
        let places = vec![0; bundles.next_power_of_two()];
        Repeats { code: code.as_chunks::<WORD_BYTES>().0, bits, at: 0, begins: Vec::with_capacity(bundles), places }
    }

    /// Goes on to the next bundle: its words, the header first, and one before it that is the same, if that is seen. None
    /// behind the last one, and where the code ends inside it.
    #[inline]
    pub fn go_on(&mut self) -> Option<(Words<'c>, Option<Before>)> {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let header = u64::from_le_bytes(*self.code.get(self.at)?);
        let size = 1 + instructions(header);
        let words = self.code[self.at..].get(..size)?;
        let bits = &self.bits[..1 << OPCODE_BITS];
        let word = |w: &[u8; WORD_BYTES]| u64::from_le_bytes(*w);
        let mix = |h: u64, w: u64| (h.rotate_left(5) ^ w).wrapping_mul(MIX);
        let hash = words[1..].iter().map(word).fold(mix(0, header), |h, w| mix(h, w & bits[opcode(w)]));
        let place = (hash >> 32) as usize & (self.places.len() - 1);
        let before = (self.places[place] as usize).checked_sub(1);
        let same = |bundle: usize| {
            let other = self.code[self.begins[bundle] as usize..].get(..size)?;
            let pairs = words[1..].iter().zip(&other[1..]).map(|(a, b)| (word(a), word(a) ^ word(b)));
            let (differs, matters) =
                pairs.fold((0, word(&other[0]) ^ header), |(all, own), (a, d)| (all | d, own | d & bits[opcode(a)]));
            (matters == 0).then_some(Before { bundle, exact: differs == 0 })
        };
        let before = before.and_then(same);
        if before.is_none() {
            self.places[place] = self.begins.len() as u32 + 1;
        }
        self.begins.push(self.at as u32);
        self.at += size;
        Some((words, before))
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
        let mut repeats = Repeats::new(&code, 9, vec![u64::MAX; 1 << OPCODE_BITS]);
        let seen: Vec<_> = std::iter::from_fn(|| repeats.go_on()).collect();
        let words = |s: &(Words<'_>, Option<Before>)| s.0.iter().map(|w| u64::from_le_bytes(*w)).collect::<Vec<_>>();
        assert_eq!(seen.iter().map(words).collect::<Vec<_>>(), bundles);
        // Places are few: what another one took over is not seen, and what is seen is the same.
        for (i, s) in seen.iter().enumerate() {
            let same = |b: Before| b.exact && b.bundle < i && bundles[b.bundle] == bundles[i];
            assert!(s.1.is_none_or(same), "{i}: {s:?}");
        }
        assert_eq!(seen.iter().filter(|s| s.1.is_some()).count(), 4);
    }
    #[test]
    fn bits_that_are_not_compared_may_differ() {
        // Two instructions of opcode 1, of which the bits above the fifteenth are not compared, and of opcode 2.
        let mut bits = vec![u64::MAX; 1 << OPCODE_BITS];
        bits[1] = 0xFFFF;
        let word = |opcode: u64, operand: u64, other: u64| opcode | operand << OPCODE_BITS | other << 16;
        let bundles =
            [[1, word(1, 3, 4)], [1, word(1, 3, 5)], [1, word(1, 2, 4)], [1, word(2, 3, 4)], [1, word(2, 3, 5)]];
        let code: Vec<u8> = bundles.concat().into_iter().flat_map(u64::to_le_bytes).collect();
        let mut repeats = Repeats::new(&code, 1 << 10, bits);
        let seen: Vec<_> = std::iter::from_fn(|| repeats.go_on()).map(|s| s.1).collect();
        assert_eq!(seen, [None, Some(Before { bundle: 0, exact: false }), None, None, None]);
    }
}
