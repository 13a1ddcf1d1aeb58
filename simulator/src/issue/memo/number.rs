//! Numbers of a round of a loop that is composed: of what holds when it begins and of constants; questions to them, and operations on
//! them that are computed when it is replayed.

use crate::unit::scalar;
use systole_isa::opcodes::ScalarFn;

/// Numbers that a round may have: slots are named by bytes.
pub(super) const SLOTS: usize = 256;
/// The first that is not a register's.
pub(super) const FIRST: usize = 64;

/// A number of a round: what a slot holds, and so much more. Slots are the scalar registers when the round begins, words of scalar memory
/// that it reads, and results of its operations. Register zero holds zero: a constant is so much more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub slot: u8,
    pub add: i32,
}

impl Value {
    pub fn constant(add: i32) -> Value {
        Value { slot: 0, add }
    }

    pub fn plus(self, more: i32) -> Value {
        Value { add: self.add.wrapping_add(more), ..self }
    }

    pub fn known(self) -> Option<i32> {
        (self.slot == 0).then_some(self.add)
    }

    #[inline(always)]
    pub fn of(self, slots: &[i32; SLOTS]) -> i32 {
        slots[self.slot as usize].wrapping_add(self.add)
    }
}

/// How a number compares with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compares {
    Equal,
    Unequal,
    Less,
    NotLess,
}

/// A question to a number: whether it compares so with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub of: Value,
    pub compares: Compares,
    pub with: i32,
}

impl Question {
    pub fn answer(self, number: i32) -> bool {
        match self.compares {
            Compares::Equal => number == self.with,
            Compares::Unequal => number != self.with,
            Compares::Less => number < self.with,
            Compares::NotLess => number >= self.with,
        }
    }

    #[inline(always)]
    pub fn holds(self, slots: &[i32; SLOTS]) -> bool {
        self.answer(self.of.of(slots))
    }
}

/// An operation of a round, which fills a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub function: ScalarFn,
    pub slot: u8,
    pub sources: [Value; 3],
    pub imm: i32,
}

impl Op {
    #[inline(always)]
    pub fn compute(&self, slots: &mut [i32; SLOTS]) {
        let [a, b, c] = self.sources.map(|s| s.of(slots));
        slots[self.slot as usize] = scalar::execute(self.function, a, b, c, self.imm);
    }
}
