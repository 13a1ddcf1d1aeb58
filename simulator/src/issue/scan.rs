//! A first look at a code: its bundles are checked, and compared with those that their headers name, so that what loading finds out of
//! one is taken for the others that are like it.

use systole_isa::ProgramError;
use systole_isa::alike::back;
use systole_isa::decode::{Words, instructions};
use systole_isa::encoding::{CodeError, HEADER_BITS, OPCODE_BITS, Problem, WORD_BYTES, opcode};
use systole_isa::validate::Reader;

/// A bundle of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The number of its header's word, and its instructions.
    at: u32,
    insts: u32,
    /// Its form's number, which are in order of appearance.
    pub form: u32,
    /// A bundle before it that is the same but for immediates; itself if none is known.
    pub like: u32,
}

/// The bits of an instruction's word that are its form's, those that are the same where registers are too, and those that nothing
/// sets in a bundle of a form that was seen (all of them: where that has to be asked). All bits, of opcodes that were not seen yet.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Bits {
    form: u64,
    named: u64,
    refused: u64,
    seen: bool,
}

/// A code with its bundles.
pub(super) struct Scan<'c> {
    code: Words<'c>,
    pub bundles: Vec<Seen>,
    /// The first bundle of each form.
    pub forms: Vec<u32>,
    bits: Box<Table>,
}

#[inline(always)]
fn word(bytes: &[u8; WORD_BYTES]) -> u64 {
    u64::from_le_bytes(*bytes)
}

/// Bits of a header that count instructions.
const COUNTS: u64 = (1 << HEADER_BITS) - 1;

/// By number of the opcode.
type Table = [Bits; 1 << OPCODE_BITS];

/// What bundles of as many instructions differ in: bits of their forms, and those that are compared; and of the first one's bits those
/// that are refused.
#[inline(never)]
fn differences(words: Words<'_>, other: Words<'_>, bits: &Table) -> (u64, u64, u64) {
    let pairs = words.iter().map(word).zip(other.iter().map(word));
    pairs.fold((0, 0, 0), |(form, named, refused), (w, o)| {
        let (of, d) = (&bits[opcode(w)], w ^ o);
        (form | d & of.form, named | d & of.named, refused | w & of.refused)
    })
}

impl<'c> Scan<'c> {
    /// Looks at a code, of so many bundles as somebody says, which `reader` checks.
    ///
    /// # Errors
    /// The first bundle that is not the chip's, or names what the program does not have.
    #[inline(never)]
    pub fn new(code: &'c [u8], bundles: usize, reader: &mut Reader<'_>) -> Result<Scan<'c>, ProgramError> {
        let bundles = bundles.min(code.len() / WORD_BYTES);
        let unseen = Bits { form: u64::MAX, named: u64::MAX, refused: u64::MAX, seen: false };
        let bits = vec![unseen; 1 << OPCODE_BITS].into_boxed_slice();
        let mut bits: Box<Table> = bits.try_into().expect("a number has so many bits");
        let code = code.as_chunks::<WORD_BYTES>().0;
        let mut seen: Vec<Seen> = Vec::with_capacity(bundles);
        let mut forms: Vec<u32> = Vec::new();
        // By form: whether its bundles have operands that are indices of tables.
        let mut names: Vec<bool> = Vec::new();
        let (mut rest, mut at) = (code, 0u32);
        while let Some((header, words, behind)) = next(rest) {
            let number = seen.len() as u32;
            let back = back(header);
            let before = if back > 0 { seen.get(number.wrapping_sub(back) as usize) } else { None };
            let (form, like) = if let Some(other) = before {
                let (first, others) = code[other.at as usize..].split_first().expect("it was seen");
                let (form, named, refused) = differences(words, others, &bits);
                if form | (word(first) ^ header) & COUNTS != 0 {
                    let error = CodeError { bundle: number as usize, problem: Problem::Alike { back } };
                    return Err(ProgramError::Code(error));
                }
                if refused != 0 {
                    reader.alike(words)?;
                } else {
                    if names[other.form as usize] {
                        reader.check_indices(words)?;
                    }
                    reader.pass(words.len() + 1);
                }
                (other.form, if named == 0 { other.like } else { number })
            } else {
                // No words, if they are damaged.
                let Some(words) = reader.words()? else { break };
                for w in words.iter().map(word) {
                    let of = &mut bits[opcode(w)];
                    if !of.seen {
                        let op = reader.inst(w).op;
                        let [form, named] = systole_isa::alike::bits(op);
                        *of = Bits { form, named, refused: reader.refused(op, form), seen: true };
                    }
                }
                names.push(reader.names(words));
                forms.push(number);
                (forms.len() as u32 - 1, number)
            };
            let insts = words.len() as u32;
            seen.push(Seen { at, insts, form, like });
            (rest, at) = (behind, at + 1 + insts);
        }
        // It knows whether the code ends here.
        reader.words()?;
        Ok(Scan { code, bundles: seen, forms, bits })
    }

    /// By number, of opcodes that occur: the bits of an instruction's word that are its form's.
    pub fn own(&self, opcode: usize) -> u64 {
        self.bits[opcode].form
    }

    /// Whether an opcode occurs, by its number.
    pub fn occurs(&self, opcode: usize) -> bool {
        self.bits[opcode].seen
    }

    /// A bundle's instructions.
    #[inline(always)]
    pub fn words(&self, bundle: &Seen) -> Words<'c> {
        &self.code[bundle.at as usize + 1..][..bundle.insts as usize]
    }

    /// Where each bundle begins, in bytes of the code, and where the last one ends.
    pub fn begins(&self) -> impl Iterator<Item = u64> {
        let end = self.bundles.last().map_or(0, |b| b.at + 1 + b.insts);
        self.bundles.iter().map(|b| b.at).chain([end]).map(|at| u64::from(at) * WORD_BYTES as u64)
    }
}

/// The header and the instructions of the first bundle of some, and those behind it. None where there is none, or its end is not there.
#[inline(always)]
fn next(code: Words<'_>) -> Option<(u64, Words<'_>, Words<'_>)> {
    let (header, rest) = code.split_first()?;
    let header = word(header);
    let (words, behind) = rest.split_at_checked(instructions(header))?;
    Some((header, words, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_isa::{Bundle, ChipConfig, Inst, Op, Program, encode_bundles};

    #[test]
    fn bundles_are_alike_but_for_immediates_and_of_a_form_but_for_registers() {
        let chip = ChipConfig::from_preset("tiny").expect("a preset");
        let add = |d, a, imm| Inst::new(Op::SAddI, &[d, a, imm]);
        let sum = |d, a, b| Inst::new(Op::SAdd, &[d, a, b]);
        let halt = Inst::new(Op::BHalt, &[]);
        let bundles: Vec<Bundle> = [
            vec![add(1, 2, 5)],
            vec![add(1, 2, 6)],
            vec![add(1, 3, 5)],
            vec![add(1, 2, 5), sum(3, 4, 5)],
            vec![sum(1, 2, 5)],
            vec![add(1, 2, 7), sum(3, 4, 5)],
            vec![],
            vec![add(1, 3, 5)],
            vec![],
            vec![halt],
        ]
        .map(|insts| Bundle { insts })
        .into();
        let code = encode_bundles(&bundles, &chip).expect("good");
        let program = Program { code, bundles: bundles.len() as u32, ..Program::default() };
        let scan = |program: &Program, bundles| {
            let scan = Scan::new(&program.code, bundles, &mut program.unchecked(&chip));
            scan.map(|s| (s.bundles, s.forms))
        };
        let (all, first) = scan(&program, 1 << 10).expect("own code");
        let seen: Vec<_> = all.iter().map(|b| (b.form, b.like)).collect();
        let forms = [0, 0, 0, 1, 2, 1, 3, 0, 3, 4];
        assert_eq!(seen, forms.into_iter().zip([0, 0, 2, 3, 4, 3, 6, 2, 6, 9]).collect::<Vec<_>>());
        assert_eq!(first, [0, 3, 4, 6, 9]);
        // A bundle that is cut, and one of a form that was seen with a register that the chip lacks.
        let cut = Program { code: program.code[..program.code.len() - 8].into(), ..program.clone() };
        assert!(scan(&cut, 9).is_err());
        let mut wrong = program.clone();
        wrong.code[24..32].copy_from_slice(&(Op::SAddI as u64 | 63 << 10).to_le_bytes());
        assert!(scan(&wrong, 9).is_err());
        // One whose header names another one that is not like it, or none that there is; and none, which is nobody's fault.
        for (back, expected) in [(1, false), (2, true), (3, false), (9, false), (0, true)] {
            let mut other = program.clone();
            // The sixth bundle begins behind four of one instruction and one of two.
            other.code[8 * 11 + 5] = back;
            let header = u64::from_le_bytes(*other.code[8 * 11..].first_chunk().expect("eight bytes"));
            assert_eq!((systole_isa::decode::instructions(header), scan(&other, 9).is_ok()), (2, expected), "{back}");
        }
    }
}
