//! A round of a loop that several links make, as one of them: what the scalars, branches, waits and transfers of its links come to.
//!
//! Links follow each other as long as their branches go where they went. Where those go is a question to the scalars as they are when
//! the round begins: so the scalars of all links are composed, what none of these questions, no address and nothing behind the round
//! depends on is left out, and what is left is asked and computed before anything is done. Where a branch asked which buffer of a ring is
//! next, the round is one with that buffer: its number is asked for, and what follows from it known. What a round does outside the core
//! (waits and transfers) is done one by one at the cycles that its transitions name.

use super::super::code::*;
use super::super::run::SCALARS;
use super::links::{Link, Links};
use super::number::{Compares, FIRST, Op, Question, SLOTS, Value};
use super::pieces::Step;
use super::table::NONE;
use crate::load::Loaded;
use crate::unit::scalar;
use systole_isa::Space;
use systole_isa::opcodes::{ScalarFn, StateFn};

/// What a round does outside the core: cycles behind the round's begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Goes on to the next event if a semaphore holds so many bytes before the cycle; else the round ends before the link at this place.
    Holds {
        at: u64,
        sem: u8,
        bytes: Value,
        place: u32,
    },
    Takes {
        at: u64,
        sem: u8,
        bytes: Value,
    },
    Starts {
        at: u64,
        bundle: u32,
        start: Start,
        src: [Value; 2],
        dst: [Value; 2],
    },
}

/// A link of a round, the times that it is replayed again behind itself, and whether the branch at its end is taken then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub link: u32,
    pub again: u32,
    pub taken: bool,
}

/// A round of a loop.
#[derive(Debug)]
pub(super) struct Lap {
    pub parts: Vec<Part>,
    /// Registers that have to hold a buffer's number.
    pub fixed: Vec<(u8, i32)>,
    /// Registers that have to be known at its begin, and those that it writes.
    pub known: u64,
    pub written: u64,
    /// Words of scalar memory that it reads, and their slots.
    pub words: Vec<(u8, u32)>,
    /// What is asked of registers, and of words; what is computed, and asked of that.
    pub of_registers: Vec<Question>,
    pub of_words: Vec<Question>,
    pub ops: Vec<Op>,
    pub of_results: Vec<Question>,
    pub events: Vec<Event>,
    /// What registers and words of scalar memory hold behind it.
    pub registers: Vec<(u8, Value)>,
    pub stores: Vec<(u32, Value)>,
    /// Cycles and bundles; links that are replayed.
    pub duration: u64,
    pub bundles: u64,
    pub links: u32,
    /// Its last transition, the jumps back in it and how often each is made, that which ends it, and the link behind it.
    pub last: u32,
    pub jumps: Vec<(u32, u32)>,
    pub back: u32,
    pub exit: u32,
    /// Replays that its links do not know yet, and others of which samples told.
    pub pending: u64,
    pub shown: u64,
    /// What a replay adds for samples.
    pub row: u32,
    /// The one that followed it last.
    pub next: u32,
    /// The round of several that begins with it; and of such a one what it begins with. None ([`NONE`]) if there is none.
    pub together: u32,
    pub begins: u32,
    /// Rounds that it is.
    pub rounds: u32,
    /// Replays to its end, and others.
    pub replays: u32,
    pub broken: u32,
}

impl Lap {
    /// Whether it is another one with the same buffers.
    pub fn is(&self, other: &Lap) -> bool {
        self.parts == other.parts && self.fixed == other.fixed
    }
}

/// A word of scalar memory: its slot if it is read before it is written, what it holds, and whether it was written.
struct Word {
    at: u32,
    slot: Option<u8>,
    holds: Value,
    written: bool,
}

/// What a round comes to: cycles, bundles, links, and its end.
struct End {
    duration: u64,
    bundles: u64,
    links: u32,
    last: u32,
    jumps: Vec<(u32, u32)>,
    back: u32,
    exit: u32,
}

/// A number of a buffer in a ring is at most this. Rounds that ask whether one is below some number are rounds with that buffer: what
/// follows from its number is then known.
const BUFFER: i32 = 8;

/// Composes a round.
struct Composer<'a> {
    l: &'a Loaded,
    /// What registers held when the round began that is composed, and which have to hold that.
    begun: &'a [i32; SCALARS],
    fixed: Vec<(u8, i32)>,
    registers: [Value; FIRST],
    words: Vec<Word>,
    ops: Vec<Op>,
    questions: Vec<Question>,
    events: Vec<Event>,
    slots: usize,
    /// Registers of the round's begin that something was made of: what is made of what is not known is not known.
    read: u64,
}

/// The round of these links, one behind the other, up to another link, that began with these registers; none if something in it cannot be
/// composed.
pub(super) fn compose(
    l: &Loaded,
    links: &Links,
    (parts, exit, begun): (&[Part], u32, &[i32; SCALARS]),
    (steps, offsets): (&[Step], &[u32]),
) -> Option<Lap> {
    let registers = std::array::from_fn(|r| Value { slot: r as u8, add: 0 });
    let (ops, questions, events) = (Vec::with_capacity(64), Vec::with_capacity(32), Vec::with_capacity(16));
    let words = Vec::with_capacity(16);
    let mut c =
        Composer { l, begun, fixed: Vec::new(), registers, words, ops, questions, events, slots: FIRST, read: 0 };
    let mut end = End { duration: 0, bundles: 0, links: 0, last: 0, jumps: Vec::new(), back: NONE, exit };
    for (place, part) in (0..).zip(parts) {
        let link = links.link(part.link);
        c.link(link, part, (steps, offsets), (end.duration, place))?;
        let times = 1 + u64::from(part.again);
        end.duration += u64::from(link.duration) * times;
        end.bundles += u64::from(link.bundles) * times;
        end.links += 1;
        end.last = link.id;
        if part.taken && link.jumps_back() {
            end.back = link.last;
            match end.jumps.iter_mut().find(|j| j.0 == link.last) {
                Some((_, times)) => *times += 1,
                None => end.jumps.push((link.last, 1)),
            }
        }
    }
    Some(c.lap(parts.to_vec(), end))
}

impl Composer<'_> {
    /// A link that begins so many cycles behind the round's begin, and its place in the round.
    fn link(
        &mut self,
        link: &Link,
        part: &Part,
        (steps, offsets): (&[Step], &[u32]),
        (begin, place): (u64, u32),
    ) -> Option<()> {
        let mut offsets = offsets[link.offsets as usize..].iter();
        let mut at = (begin, link.first);
        for step in &steps[link.steps as usize..link.tail as usize] {
            self.step(step, &mut offsets, &mut at, (begin, place))?;
        }
        let (register, equal, value) = link.asks.parts();
        self.branch(register, (equal, value), part.taken)?;
        for step in &steps[link.tail as usize..link.end as usize] {
            self.step(step, &mut offsets, &mut at, (begin, place))?;
        }
        if link.counter != 0 {
            self.count(link.counter);
        }
        if part.taken && link.rolls != 0 {
            return self.again(&steps[link.steps as usize..link.end as usize], (link.counter, link.rolls), part.again);
        }
        (part.again == 0).then_some(())
    }

    fn register(&mut self, register: u8) -> &mut Value {
        &mut self.registers[register as usize & (FIRST - 1)]
    }

    /// What a register holds, for use.
    fn read(&mut self, register: u8) -> Value {
        let value = *self.register(register);
        if usize::from(value.slot) < FIRST {
            self.read |= 1 << value.slot;
        }
        value
    }

    fn count(&mut self, counter: u8) {
        let counter = self.register(counter);
        *counter = counter.plus(-1);
    }

    fn write(&mut self, register: u8, value: Value) {
        if register != 0 {
            *self.register(register) = value;
        }
    }

    /// A round that follows itself `again` times: the registers that it reads before it writes them move by the same amount each time.
    fn again(&mut self, steps: &[Step], (counter, rolls): (u8, u64), again: u32) -> Option<()> {
        let left = self.read(counter);
        match again {
            0 => {
                // Too few to be done at once.
                self.ask(Question { of: left, compares: Compares::NotLess, with: 1 })?;
                return self.ask(Question { of: left, compares: Compares::Less, with: 3 });
            }
            n => self.ask(Question { of: left, compares: Compares::Equal, with: n.checked_add(1)? as i32 })?,
        }
        let before = self.registers;
        self.scalars_of_round(steps, counter)?;
        let mut moving = rolls;
        while moving != 0 {
            let r = moving.trailing_zeros() as u8;
            moving &= moving - 1;
            let (then, now) = (before[r as usize], *self.register(r));
            let step = self.compute(ScalarFn::SSub, [now, then, Value::constant(0)], 0)?;
            let steps =
                self.compute(ScalarFn::SMulI, [step, Value::constant(0), Value::constant(0)], again as i32 - 2)?;
            let moved = self.compute(ScalarFn::SAdd, [now, steps, Value::constant(0)], 0)?;
            self.write(r, moved);
        }
        self.scalars_of_round(steps, counter)
    }

    fn scalars_of_round(&mut self, steps: &[Step], counter: u8) -> Option<()> {
        for step in steps {
            let Step::Scalar(s) = step else { return None };
            let value = self.scalar(s)?;
            self.write(s.d, value);
        }
        self.count(counter);
        Some(())
    }

    /// A step; `at`: cycle and bundle of what follows.
    fn step(
        &mut self,
        step: &Step,
        offsets: &mut std::slice::Iter<'_, u32>,
        at: &mut (u64, u32),
        (begin, place): (u64, u32),
    ) -> Option<()> {
        match *step {
            Step::Scalar(s) => {
                let value = self.scalar(&s)?;
                self.write(s.d, value);
            }
            Step::Parallel { bundle } => {
                let code = &self.l.code;
                let scalars = code.timed(&code.heads[bundle as usize]);
                let values: Vec<Value> = scalars.iter().map(|s| self.scalar(s)).collect::<Option<_>>()?;
                scalars.iter().zip(values).for_each(|(s, v)| self.write(s.d, v));
            }
            Step::At { bundle } => *at = (begin + u64::from(*offsets.next()?), bundle),
            Step::Waits { bundle } => {
                *at = (begin + u64::from(*offsets.next()?), bundle);
                self.waits(bundle, at.0, place)?;
            }
            Step::Transfer { start } => self.transfer(self.l.code.starts[start as usize], *at)?,
            Step::Remote { .. } | Step::Signal { .. } => return None,
        }
        Some(())
    }

    fn waits(&mut self, bundle: u32, at: u64, place: u32) -> Option<()> {
        let code = &self.l.code;
        let specials = code.specials(&code.heads[bundle as usize]);
        let first = self.events.len();
        for special in specials.iter().filter(|s| s.waits()) {
            let (sem, bytes) = match *special {
                Special::Wait { sem, bytes, .. } => (sem, Value::constant(bytes as i32)),
                Special::WaitS { sem, reg, .. } => (sem, self.read(reg)),
                Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::PushAcc { .. } => {
                    continue;
                }
                Special::Pop { .. } | Special::Drain { .. } | Special::TransposePush { .. } => continue,
                Special::Group { .. } | Special::DmaStart { .. } | Special::DmaRemote { .. } => continue,
                Special::Signal { .. } | Special::Test => continue,
                Special::Cores { .. } => return None,
            };
            self.events.push(Event::Holds { at, sem, bytes, place });
        }
        // A bundle waits for all before it takes any.
        for i in first..self.events.len() {
            if let Event::Holds { at, sem, bytes, .. } = self.events[i] {
                self.events.push(Event::Takes { at, sem, bytes });
            }
        }
        Some(())
    }

    fn transfer(&mut self, start: Start, (at, bundle): (u64, u32)) -> Option<()> {
        let g = &self.l.geometry[start.desc as usize];
        if g.src == Space::Smem || g.dst == Space::Smem {
            // Scalars may come from it, or go there.
            return None;
        }
        let src = [start.src, start.src_offset].map(|r| self.read(r));
        let dst = [start.dst, start.dst_offset].map(|r| self.read(r));
        self.events.push(Event::Starts { at, bundle, start, src, dst });
        Some(())
    }

    /// What a scalar instruction computes.
    fn scalar(&mut self, s: &ScalarOp) -> Option<Value> {
        let function = match s.kind {
            ScalarKind::Pure(function) => function,
            ScalarKind::State(StateFn::SLd) => {
                let at = self.read(s.a).known().map(|a| a as i64 + s.imm as i64)?;
                return self.word(at).map(|w| self.words[w].holds);
            }
            ScalarKind::State(StateFn::SSt) => {
                let at = self.read(s.b).known().map(|b| b as i64 + s.imm as i64)?;
                let (holds, word) = (self.read(s.a), self.place(at)?);
                (self.words[word].holds, self.words[word].written) = (holds, true);
                return Some(Value::constant(0));
            }
            ScalarKind::State(StateFn::SDev | StateFn::SCore | StateFn::SyncTest | StateFn::XExtract) => return None,
        };
        let sources = [s.a, s.b, s.c].map(|r| self.read(r));
        self.compute(function, sources, s.imm)
    }

    /// The place of a word of scalar memory among those of the round, which is to be written.
    fn place(&mut self, at: i64) -> Option<usize> {
        let at = u32::try_from(at).ok().filter(|at| u64::from(*at) < self.l.chip.smem.bytes / 4)?;
        if let Some(known) = self.words.iter().position(|w| w.at == at) {
            return Some(known);
        }
        self.words.push(Word { at, slot: None, holds: Value::constant(0), written: false });
        Some(self.words.len() - 1)
    }

    /// [`Composer::place`] of one that is read.
    fn word(&mut self, at: i64) -> Option<usize> {
        let place = self.place(at)?;
        let word = &self.words[place];
        if word.slot.is_none() && !word.written {
            let slot = self.slot()?;
            let word = &mut self.words[place];
            (word.slot, word.holds) = (Some(slot), Value { slot, add: 0 });
        }
        Some(place)
    }

    /// A slot that nothing is in so far.
    fn slot(&mut self) -> Option<u8> {
        let slot = u8::try_from(self.slots).ok()?;
        self.slots += 1;
        Some(slot)
    }

    /// The result of an operation.
    fn compute(&mut self, function: ScalarFn, sources: [Value; 3], imm: i32) -> Option<Value> {
        let [a, b, c] = sources;
        if let [Some(a), Some(b), Some(c)] = sources.map(Value::known) {
            return Some(Value::constant(scalar::execute(function, a, b, c, imm)));
        }
        let bare = |v: Value| Value { add: 0, ..v };
        // What is added to a source is added to what is computed of it, where that can be told.
        let (sources, more) = match function {
            ScalarFn::SAddI => return Some(a.plus(imm)),
            ScalarFn::SAdd => {
                if let Some(more) = b.known() {
                    return Some(a.plus(more));
                }
                if let Some(more) = a.known() {
                    return Some(b.plus(more));
                }
                ([bare(a), bare(b), c], a.add.wrapping_add(b.add))
            }
            ScalarFn::SSub => {
                if let Some(less) = b.known() {
                    return Some(a.plus(less.wrapping_neg()));
                }
                if a.slot == b.slot {
                    return Some(Value::constant(a.add.wrapping_sub(b.add)));
                }
                ([bare(a), bare(b), c], a.add.wrapping_sub(b.add))
            }
            ScalarFn::SSel => {
                if let Some(chosen) = a.known() {
                    return Some(if chosen != 0 { b } else { c });
                }
                (sources, 0)
            }
            ScalarFn::SMulI | ScalarFn::SShlI => ([bare(a), b, c], scalar::execute(function, a.add, 0, 0, imm)),
            ScalarFn::SAnd if a.known() == Some(0) || b.known() == Some(0) => return Some(Value::constant(0)),
            ScalarFn::SLi | ScalarFn::SMul | ScalarFn::SDiv | ScalarFn::SRem | ScalarFn::SDivU => (sources, 0),
            ScalarFn::SRemU | ScalarFn::SAnd | ScalarFn::SOr | ScalarFn::SXor | ScalarFn::SShl => (sources, 0),
            ScalarFn::SShr | ScalarFn::SSar | ScalarFn::SMin | ScalarFn::SMax | ScalarFn::SEq => (sources, 0),
            ScalarFn::SLt | ScalarFn::SLtU | ScalarFn::SAndI | ScalarFn::SShrI | ScalarFn::SSarI => (sources, 0),
            ScalarFn::SEqI | ScalarFn::SLtI => (sources, 0),
        };
        let same = |o: &&Op| o.function == function && o.sources == sources && o.imm == imm;
        if let Some(known) = self.ops.iter().find(same) {
            return Some(Value { slot: known.slot, add: more });
        }
        let slot = self.slot()?;
        self.ops.push(Op { function, slot, sources, imm });
        Some(Value { slot, add: more })
    }

    /// A branch went this way because of a register.
    fn branch(&mut self, register: u8, (equal, value): (bool, i32), taken: bool) -> Option<()> {
        let of = self.read(register);
        let is = taken == equal;
        let compares = if is { Compares::Equal } else { Compares::Unequal };
        // What is asked is mostly whether something was found to be so: that can be asked at once.
        let found = self.ops.iter().find(|o| o.slot == of.slot && of.add == 0 && value == 0);
        let asked = found.and_then(|o| {
            let compares = match (o.function, is) {
                (ScalarFn::SEqI, true) => Compares::Unequal,
                (ScalarFn::SEqI, false) => Compares::Equal,
                (ScalarFn::SLtI, true) => Compares::NotLess,
                (ScalarFn::SLtI, false) => Compares::Less,
                (_, _) => return None,
            };
            Some(Question { of: o.sources[0], compares, with: o.imm })
        });
        let question = asked.unwrap_or(Question { of, compares, with: value });
        match question.compares {
            Compares::Less | Compares::NotLess => self.buffer(question).unwrap_or_else(|| self.ask(question)),
            Compares::Equal | Compares::Unequal => self.ask(question),
        }
    }

    /// Asks for the buffer that a question was about in this round, if it was: whether the answer fits.
    fn buffer(&mut self, question: Question) -> Option<Option<()>> {
        let (slot, is) = (question.of.slot, *self.begun.get(usize::from(question.of.slot))?);
        let ring = 0..=BUFFER;
        if slot == 0 || !ring.contains(&is) || !ring.contains(&question.with) {
            return None;
        }
        let asked = self.ask(Question { of: Value { slot, add: 0 }, compares: Compares::Equal, with: is });
        self.fixed.push((slot, is));
        let known = |v: &mut Value| {
            if v.slot == slot {
                *v = Value::constant(is.wrapping_add(v.add));
            }
        };
        self.registers.iter_mut().for_each(known);
        self.words.iter_mut().for_each(|w| known(&mut w.holds));
        Some(asked.filter(|()| question.answer(is.wrapping_add(question.of.add))))
    }

    /// Something has to hold; none if it never does.
    fn ask(&mut self, question: Question) -> Option<()> {
        if let Some(number) = question.of.known() {
            return question.answer(number).then_some(());
        }
        if !self.questions.contains(&question) {
            self.questions.push(question);
        }
        Some(())
    }

    /// The round, without what nothing depends on.
    fn lap(self, parts: Vec<Part>, end: End) -> Lap {
        let End { duration, bundles, links, last, jumps, back, exit } = end;
        let mut registers = Vec::with_capacity(32);
        let fixed = |r: u8| self.fixed.iter().find(|f| f.0 == r).map(|f| Value::constant(f.1));
        let own = |register: u8| fixed(register).unwrap_or(Value { slot: register, add: 0 });
        registers.extend((0..).zip(self.registers).filter(|&(r, v)| v != own(r)));
        let stores: Vec<(u32, Value)> = self.words.iter().filter(|w| w.written).map(|w| (w.at, w.holds)).collect();
        let mut used = [false; SLOTS];
        let mut uses = |v: Value| used[v.slot as usize] = true;
        registers.iter().for_each(|r| uses(r.1));
        stores.iter().for_each(|s| uses(s.1));
        self.questions.iter().for_each(|q| uses(q.of));
        for event in &self.events {
            match event {
                Event::Holds { bytes, .. } | Event::Takes { bytes, .. } => uses(*bytes),
                Event::Starts { src, dst, .. } => src.iter().chain(dst).for_each(|v| uses(*v)),
            }
        }
        let mut ops = self.ops;
        let mut result = [false; SLOTS];
        for op in ops.iter().rev() {
            result[op.slot as usize] = true;
            if used[op.slot as usize] {
                op.sources.iter().for_each(|s| used[s.slot as usize] = true);
            }
        }
        ops.retain(|o| used[o.slot as usize]);
        let words: Vec<(u8, u32)> = self.words.iter().filter_map(|w| Some((w.slot?, w.at))).collect();
        let written = registers.iter().fold(0, |all, r| all | 1 << r.0);
        let of = |what: fn(usize, bool) -> bool| {
            let asked = |q: &&Question| what(usize::from(q.of.slot), result[q.of.slot as usize]);
            let mut some = Vec::with_capacity(self.questions.len());
            some.extend(self.questions.iter().filter(asked));
            some
        };
        let of_registers = of(|slot, _| slot < FIRST);
        let (of_words, of_results) = (of(|slot, result| slot >= FIRST && !result), of(|_, result| result));
        let events = self.events;
        Lap {
            parts,
            fixed: self.fixed,
            known: self.read & !1,
            written,
            words,
            of_registers,
            of_words,
            ops,
            of_results,
            events,
            registers,
            stores,
            duration,
            bundles,
            links,
            last,
            jumps,
            back,
            exit,
            pending: 0,
            shown: 0,
            row: NONE,
            next: NONE,
            together: NONE,
            begins: NONE,
            rounds: 1,
            replays: 0,
            broken: 0,
        }
    }
}
