//! Values by number: what both sides of the proof compute, compared without looking at what an operation means.
//!
//! Two values are equal if their numbers are: a pure instruction's value is numbered by its opcode, immediates and
//! operand values; everything else gets a number of its own from the side that the kernel defines. Little is known of
//! arithmetic, and only what the scheduler may use: sums with a constant, moves, halves of pairs, and a mask kept as a
//! vector of ones and zeros.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use systole_isa::opcodes::{LaneFn, PairMoveFn, ScalarFn, StateFn};
use systole_isa::{Function, Inst, Kind, Op};

/// A value: a number and, for scalars, a constant added to it (wrapping).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Value {
    pub root: u32,
    pub offset: i32,
}

impl Value {
    /// The scalar zero; constants are sums with it.
    pub const ZERO: Value = Value { root: 0, offset: 0 };
    /// The mask of all ones.
    pub const ALL: Value = Value { root: 1, offset: 0 };
    /// What a physical register holds that nothing in the kernel corresponds to. The kernel's own values are never it.
    pub const UNKNOWN: Value = Value { root: 2, offset: 0 };

    pub fn plus(self, by: i32) -> Value {
        Value { root: self.root, offset: self.offset.wrapping_add(by) }
    }

    /// What must be added to `other` to give this value, if that is a constant.
    pub fn minus(self, other: Value) -> Option<i32> {
        (self.root == other.root).then(|| self.offset.wrapping_sub(other.offset))
    }

    /// The value as a number, if it is a constant.
    pub fn constant(self) -> Option<i32> {
        self.minus(Value::ZERO)
    }

    fn word(self) -> u64 {
        (self.root as u64) << 32 | self.offset as u32 as u64
    }
}

/// An opcode with its immediates and operand values, destinations left out. Address and offset are one value.
pub(super) type Key = [u64; 8];

/// Results of an instruction, in the order of its destinations; a pair has two.
pub(super) type Results = SmallVec<[Value; 2]>;

/// The register operands' values on one side.
pub(super) trait Registers {
    /// The value of operand `number` of `kind`; a pair has two.
    fn read(&self, kind: Kind, number: i32) -> [Value; 2];
}

/// Marks the high half of a pair, and values that join two paths.
const HIGH: u64 = 1 << 32;
const JOIN: u64 = 1 << 33;

/// The numbers given so far.
#[derive(Debug, Default)]
pub(super) struct Values {
    numbers: FxHashMap<Key, u32>,
    /// Masks by the vectors of ones and zeros made of them.
    kept: FxHashMap<u64, Value>,
    next: u32,
}

impl Values {
    pub fn new() -> Values {
        Values { next: 3, ..Values::default() }
    }

    /// A value that equals no other.
    pub fn fresh(&mut self) -> Value {
        self.next += 1;
        Value { root: self.next - 1, offset: 0 }
    }

    fn number(&mut self, key: Key) -> Value {
        let next = &mut self.next;
        let root = *self.numbers.entry(key).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        Value { root, offset: 0 }
    }

    /// The value of a place that holds `a` after one path and `b` after the other of the two that meet at `join`.
    pub fn join(&mut self, join: u32, a: Value, b: Value) -> Value {
        if a == b {
            return a;
        }
        if a == Value::UNKNOWN || b == Value::UNKNOWN {
            return Value::UNKNOWN;
        }
        let apart = b.plus(a.offset.wrapping_neg());
        let one = Value { root: a.root, offset: 0 };
        self.number([JOIN | join as u64, one.word(), apart.word(), 0, 0, 0, 0, 0]).plus(a.offset)
    }

    /// The results of a pure instruction.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a function without a rule here has a number of its own")]
    pub fn pure(&mut self, inst: &Inst, registers: &impl Registers) -> Results {
        let o = &inst.operands;
        match inst.op.function() {
            Function::Scalar(ScalarFn::SLi) => return Results::from_slice(&[Value::ZERO.plus(o[1])]),
            Function::Scalar(ScalarFn::SAddI) => {
                return Results::from_slice(&[registers.read(Kind::Su, o[1])[0].plus(o[2])]);
            }
            Function::Lanes(LaneFn::VMov) => return Results::from_slice(&registers.read(Kind::Vu, o[1])[..1]),
            Function::PairMove(PairMoveFn::PMake) => {
                return [o[1], o[2]].iter().map(|&r| registers.read(Kind::Vu, r)[0]).collect();
            }
            Function::PairMove(PairMoveFn::PLo) => return Results::from_slice(&registers.read(Kind::Pu, o[1])[..1]),
            Function::PairMove(PairMoveFn::PHi) => return Results::from_slice(&registers.read(Kind::Pu, o[1])[1..]),
            _ => {}
        }
        let key = key(inst, registers);
        if inst.op == Op::VNeI
            && let Some(&mask) = self.kept.get(&key[1])
            && key[2] == self.lanes_of(0)
        {
            return Results::from_slice(&[mask]);
        }
        let low = self.number(key);
        if inst.op == Op::VSel && key[2] == self.lanes_of(1) && key[3] == self.lanes_of(0) {
            self.kept.insert(low.word(), registers.read(Kind::Mu, o[1])[0]);
        }
        match inst.op.info().operands.first().map(|o| o.kind) {
            Some(Kind::Pd) => {
                let mut high = key;
                high[0] |= HIGH;
                Results::from_slice(&[low, self.number(high)])
            }
            Some(_) | None => Results::from_slice(&[low]),
        }
    }

    /// The word of a vector of one number in all lanes.
    fn lanes_of(&mut self, n: u64) -> u64 {
        self.number([Op::VImm as u64, n, 0, 0, 0, 0, 0, 0]).word()
    }
}

/// The key of an instruction with operands read on one side.
pub(super) fn key(inst: &Inst, registers: &impl Registers) -> Key {
    let mut key = [0; 8];
    key[0] = inst.op as u64;
    let mut at = 1;
    let mut push = |word: u64| {
        key[at] = word;
        at += 1;
    };
    let offset = address_offset(inst);
    for (i, (kind, v)) in inst.iter().enumerate() {
        match kind {
            Kind::Sd | Kind::Vd | Kind::Pd | Kind::Md => {}
            Kind::Su if i == 1 => push(registers.read(kind, v)[0].plus(offset.unwrap_or(0)).word()),
            Kind::Su | Kind::Sm | Kind::Vu | Kind::Mu => push(registers.read(kind, v)[0].word()),
            Kind::Pu => registers.read(kind, v).iter().for_each(|v| push(v.word())),
            Kind::I20 if offset.is_some() => {}
            Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc => {
                push(v as u32 as u64)
            }
            Kind::Sem | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => push(v as u32 as u64),
        }
    }
    key
}

/// The offset of an instruction that accesses memory at a register (operand 1) plus an offset (operand 2).
#[allow(clippy::wildcard_enum_match_arm, reason = "no other family has an address")]
pub(super) fn address_offset(inst: &Inst) -> Option<i32> {
    let accesses = match inst.op.function() {
        Function::Load(_) | Function::Store(_) => true,
        Function::State(f) => matches!(f, StateFn::SLd | StateFn::SSt),
        _ => false,
    };
    accesses.then(|| inst.operands[2])
}
