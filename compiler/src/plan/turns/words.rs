//! Scalars as later turns of a loop see them, computed once more before that.

use crate::plan::step::{ScalarOp, Step, Word};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_isa::DType;

/// Scalar steps that are added for one loop at most.
const MOST: usize = 96;

/// What a loop's turns compute of scalars: a turn is the loop's head and its body, one step behind the other.
pub(super) struct Turn<'a> {
    steps: Vec<&'a Step>,
    /// Where each word is computed, ascending.
    made: FxHashMap<Word, Vec<usize>>,
    /// Words that other steps write, or steps inside of steps.
    hidden: FxHashSet<Word>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(head: &'a [Step], body: &'a [Step]) -> Turn<'a> {
        let steps: Vec<&Step> = head.iter().chain(body).collect();
        let mut made: FxHashMap<Word, Vec<usize>> = FxHashMap::default();
        let mut hidden = FxHashSet::default();
        for (i, s) in steps.iter().enumerate() {
            if let Step::Scalar { dst, .. } = s {
                made.entry(*dst).or_default().push(i);
                continue;
            }
            Step::each(std::slice::from_ref(*s), &mut |s| {
                if let Step::Scalar { dst, .. } | Step::ReadScalar { dst, .. } = s {
                    hidden.insert(*dst);
                }
            });
        }
        Turn { steps, made, hidden }
    }
}

/// Computes words of later turns at one place of a turn.
pub(super) struct Later<'a> {
    turn: &'a Turn<'a>,
    /// The place: what the turn computes before it is known.
    at: usize,
    /// Words that the program computes anywhere: others are written by kernels.
    known: &'a FxHashSet<Word>,
    /// The next free word.
    next: &'a mut u32,
    /// The steps that compute them, and what is computed already.
    pub(super) steps: Vec<Step>,
    memo: FxHashMap<(Word, usize, u32), Word>,
}

impl<'a> Later<'a> {
    pub(super) fn new(turn: &'a Turn<'a>, at: usize, known: &'a FxHashSet<Word>, next: &'a mut u32) -> Later<'a> {
        Later { turn, at, known, next, steps: Vec::new(), memo: FxHashMap::default() }
    }

    /// The value that a word has before step `before` of the turn that comes so many turns later; `None` if it does not follow from
    /// scalars that are known now.
    pub(super) fn value(&mut self, word: Word, before: usize, turns: u32) -> Option<Word> {
        if self.turn.hidden.contains(&word) || !self.known.contains(&word) {
            return None;
        }
        let turn = self.turn;
        let Some(made) = turn.made.get(&word) else { return Some(word) };
        let last = |before: usize| made.iter().rev().find(|&&d| d < before).copied();
        let Some(at) = last(before) else {
            // What the turn before leaves.
            return match turns {
                0 => last(self.at).is_none().then_some(word),
                _ => self.value(word, turn.steps.len(), turns - 1),
            };
        };
        if turns == 0 && last(self.at) == Some(at) {
            return Some(word);
        }
        if let Some(&done) = self.memo.get(&(word, at, turns)) {
            return Some(done);
        }
        let Step::Scalar { value, dtype, .. } = turn.steps[at] else { return None };
        let value = value.try_map(&mut |w| self.value(w, at, turns))?;
        if self.steps.len() >= MOST {
            return None;
        }
        let done = self.compute(value, *dtype);
        self.memo.insert((word, at, turns), done);
        Some(done)
    }

    /// A new word of a value.
    pub(super) fn compute(&mut self, value: ScalarOp, dtype: DType) -> Word {
        let dst = Word(*self.next);
        *self.next += 1;
        self.steps.push(Step::Scalar { dst, value, dtype });
        dst
    }
}
