//! Loops by induction, iteration by iteration: one of the kernel is one of the bundles.
//!
//! What each cell holds at the loop's head is guessed from the values there before and after a first iteration (which is
//! executed as it is): the value of a virtual register at that place, perhaps with a constant added, or what it held at
//! first. Then an iteration is executed from a state of which only that is assumed. If the guess holds again at its end,
//! it holds in every iteration; what does not hold is given up, and tried again without.

use super::machine::Cell;
use super::source::{Slot, Source};
use super::value::{Value, Values};
use super::walk::{Proof, Stop, Walk};
use crate::kernel::{Item, Loop, S, Trips};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use systole_isa::Op;

/// Attempts to find what holds at a loop's head.
const ATTEMPTS: usize = 12;

/// A loop of the kernel.
#[derive(Clone, Copy)]
pub(super) enum Cycle<'a> {
    /// A counted one, with the trips to come.
    Counted { body: &'a [Item], trips: Value },
    /// One that ends when a register is zero.
    While { head: &'a [Item], cond: S, body: &'a [Item] },
}

impl<'a> Cycle<'a> {
    pub fn counted(l: &'a Loop, source: &Source<'a>) -> Cycle<'a> {
        let trips = match l.trips {
            Trips::Static(n) => Value::ZERO.plus(n as i32),
            Trips::Dynamic(s) => source.registers.scalar(s),
        };
        Cycle::Counted { body: &l.body, trips }
    }

    /// The loop of an item that is one; one without iterations for others.
    pub fn of(item: &'a Item, source: &Source<'a>) -> Cycle<'a> {
        match item {
            Item::Loop(l) => Cycle::counted(l, source),
            Item::While { head, cond, body } => Cycle::While { head, cond: *cond, body },
            Item::Inst(_) | Item::If { .. } | Item::Call { .. } | Item::Mark { .. } => {
                Cycle::Counted { body: &[], trips: Value::ZERO }
            }
        }
    }
}

/// What a cell holds at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guess {
    Same,
    /// The virtual place at an index of the changed ones, and a constant. The index behind them is the trips to come.
    Of(usize, i32),
    Unknown,
}

/// Values at a loop's head: of the places that the loop changes and the trips to come, and of the cells.
#[derive(Clone)]
struct Head {
    virtuals: Vec<Value>,
    cells: Rc<[Value]>,
}

impl<'a> Walk<'a> {
    /// Proves the loop that begins at this bundle; the run before it is complete.
    pub fn cycle(&mut self, cycle: Cycle<'a>) -> Proof<()> {
        let first = self.pc;
        let Some(last) = self.head() else { return self.fail("no loop where the kernel has one") };
        let mut slots: Vec<Slot> = match cycle {
            Cycle::Counted { body, .. } => self.source.changes(body).to_vec(),
            Cycle::While { head, body, .. } => {
                self.source.changes(head).iter().chain(self.source.changes(body).iter()).copied().collect()
            }
        };
        slots.sort_unstable();
        slots.dedup();
        let changed = self.changed(first, last);
        let mut remaining = match cycle {
            Cycle::Counted { trips, .. } => trips,
            Cycle::While { .. } => Value::ZERO,
        };
        self.entered.push((first, last));
        let (mark, depth) = (self.source.mark(), self.entered.len());
        let mut heads = vec![self.at_head(&slots, remaining)];
        let back = |w: &mut Self, to: &Head, remaining: &mut Value| {
            w.set_head(&slots, to, remaining);
            w.source.reset(mark);
            w.entered.truncate(depth);
        };
        // In another round of the loop around, mostly what held before does: without this, loops in loops would take a
        // multiple of time for each level.
        let like = |k: &&Rc<Held>| k.relations.len() == heads[0].virtuals.len() && k.choices.len() == changed.len();
        let known = self.proved.get(&(first, last)).filter(like).cloned();
        if let Some(known) = known {
            let start = known.at(&heads[0], &changed);
            if self.induct(cycle, &slots, start, &heads[0], &mut remaining).is_ok() {
                self.entered.pop();
                return Ok(());
            }
            back(self, &heads[0], &mut remaining);
        }
        // A second iteration is looked at where one does not tell.
        let mut outcome = Ok(());
        for _ in 0..2 {
            self.pc = first;
            self.iteration(cycle, &slots, &mut remaining)?;
            heads.push(self.at_head(&slots, remaining));
            let start = Held::seen(&heads, &changed);
            outcome = self.induct(cycle, &slots, start, &heads[0], &mut remaining);
            if outcome.is_ok() {
                break;
            }
            // Go on from the head that the first iteration led to.
            let last_head = heads.last().expect("just pushed").clone();
            back(self, &last_head, &mut remaining);
        }
        outcome?;
        self.entered.pop();
        Ok(())
    }

    /// The cells that a loop may change, with what it calls.
    fn changed(&self, first: usize, last: usize) -> Vec<Cell> {
        let bundles = &self.code.bundles[first..=last];
        let mut out = self.code.layout.changed(bundles);
        for i in bundles.iter().flat_map(|b| &b.insts).filter(|i| i.op == Op::BCall) {
            let target = i.operand(systole_isa::Kind::Target).unwrap_or(0) as usize;
            if let Some(k) = self.code.starts.iter().position(|&s| s == target) {
                out.extend(&self.code.overwritten[k]);
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    fn at_head(&self, slots: &[Slot], remaining: Value) -> Head {
        let mut s = self.snapshot(slots);
        s.virtuals.push(remaining);
        Head { virtuals: s.virtuals, cells: s.cells }
    }

    fn set_head(&mut self, slots: &[Slot], head: &Head, remaining: &mut Value) {
        for (&slot, &v) in slots.iter().zip(&head.virtuals) {
            self.source.registers.set(slot, v);
        }
        *remaining = head.virtuals[slots.len()];
        self.cells.values.copy_from_slice(&head.cells);
    }

    /// One iteration on both sides, from the head and back to it. Behind the loop, the walk goes on from the state that
    /// [`Walk::leave`] gives.
    fn iteration(&mut self, cycle: Cycle<'a>, slots: &[Slot], remaining: &mut Value) -> Proof<Option<Head>> {
        let &(first, last) = self.entered.last().expect("the loop is entered");
        let tests_first = self.code.bundles[last].insts.iter().any(|i| i.op == Op::BJmp);
        let mut exit = None;
        let (body, cond) = match cycle {
            Cycle::Counted { body, .. } => (body, None),
            Cycle::While { head, cond, body } => {
                let around = self.items(head)?;
                let b = self.test(last)?;
                self.meet(around, b.at)?;
                self.same_condition(&b, self.source.registers.scalar(cond))?;
                exit = Some(self.at_head(slots, *remaining));
                (body, Some(cond))
            }
        };
        if tests_first && cond.is_none() {
            let around = self.source.open(&[]);
            let b = self.test(last)?;
            self.meet(around, b.at)?;
            self.same_condition(&b, *remaining)?;
            exit = Some(self.at_head(slots, *remaining));
        }
        let around = self.items(body)?;
        let b = match self.run(None)? {
            Stop::Branch(b) if b.at == last && b.target() == first => b,
            Stop::Branch(_) | Stop::Reached | Stop::Head => {
                return self.fail("a loop does not end where the kernel's does");
            }
        };
        self.meet(around, b.at)?;
        if cond.is_none() {
            *remaining = remaining.plus(-1);
        }
        if !tests_first {
            if cond.is_some() {
                return self.fail("a loop that is tested first is tested at its end");
            }
            self.same_condition(&b, *remaining)?;
        }
        Ok(exit)
    }

    /// Runs to the test that leaves a loop ending at `last`.
    fn test(&mut self, last: usize) -> Proof<super::machine::Branch> {
        match self.run(None)? {
            Stop::Branch(b) if b.inst.op == Op::BZ && b.target() == last + 1 => Ok(b),
            Stop::Branch(_) | Stop::Reached | Stop::Head => self.fail("a loop is not left where the kernel's is"),
        }
    }

    /// Proves what is held to be true at the head, by one iteration from no more than that; what is not is given up.
    fn induct(
        &mut self,
        cycle: Cycle<'a>,
        slots: &[Slot],
        mut held: Held,
        entry: &Head,
        remaining: &mut Value,
    ) -> Proof<()> {
        let &(first, last) = self.entered.last().expect("the loop is entered");
        for _ in 0..ATTEMPTS {
            let mut start = entry.clone();
            start.virtuals = Relation::assume(&held.relations, &mut self.values);
            let expected = |guess: Guess, virtuals: &[Value], cell: Cell| match guess {
                Guess::Same => entry.cells[cell],
                Guess::Of(v, by) => virtuals[v].plus(by),
                Guess::Unknown => Value::UNKNOWN,
            };
            let mut cells = start.cells.to_vec();
            for (cell, list) in &held.choices {
                cells[*cell] = expected(list[0], &start.virtuals, *cell);
            }
            start.cells = cells.into();
            self.set_head(slots, &start, remaining);
            self.pc = first;
            let exit = self.iteration(cycle, slots, remaining)?;
            let end = self.at_head(slots, *remaining);
            let mut holds = Relation::keep(&mut held.relations, &end.virtuals);
            for (cell, list) in &mut held.choices {
                if list[0] != Guess::Unknown && expected(list[0], &end.virtuals, *cell) != end.cells[*cell] {
                    list.remove(0);
                    holds = false;
                }
            }
            if holds {
                if let Some(exit) = exit {
                    self.set_head(slots, &exit, remaining);
                }
                self.pc = last + 1;
                self.proved.insert((first, last), Rc::new(held));
                return Ok(());
            }
        }
        self.fail("no relation of the registers to the kernel's holds in every iteration of the loop")
    }
}

/// What is taken to hold at a loop's head: of the virtual places, and of each changed cell, the likeliest first.
pub(super) struct Held {
    relations: Vec<Relation>,
    choices: Vec<(Cell, Vec<Guess>)>,
}

impl Held {
    /// What held the first times.
    fn seen(heads: &[Head], changed: &[Cell]) -> Held {
        let rows: Vec<&[Value]> = heads.iter().map(|h| &h.virtuals[..]).collect();
        let choices = changed.iter().map(|&c| (c, guesses(c, heads))).collect();
        Held { relations: Relation::find(&rows, rows[0].len()), choices }
    }

    /// The same at another entry, as far as it is true there.
    fn at(&self, entry: &Head, changed: &[Cell]) -> Held {
        let v = &entry.virtuals;
        let relation = |(at, r): (usize, &Relation)| match *r {
            Relation::Constant(_) | Relation::With(..) if v[at] == Value::UNKNOWN => Relation::With(at, 0),
            Relation::Constant(_) => Relation::Constant(v[at]),
            Relation::With(o, by) if v[at] == v[o].plus(by) => *r,
            Relation::With(..) => Relation::With(at, 0),
        };
        let relations = self.relations.iter().enumerate().map(relation).collect();
        let choices = changed.iter().zip(&self.choices).map(|(&cell, (_, before))| {
            let mut list = guesses(cell, std::slice::from_ref(entry));
            if let Some(at) = list.iter().position(|g| *g == before[0]) {
                list[..=at].rotate_right(1);
            }
            (cell, list)
        });
        Held { relations, choices: choices.collect() }
    }
}

/// What a cell may hold at the head, after what it held the first times. The last guess is that nothing is known.
fn guesses(cell: Cell, heads: &[Head]) -> Vec<Guess> {
    let value = |h: &Head| h.cells[cell];
    let first = value(&heads[0]);
    let mut out = Vec::new();
    if first != Value::UNKNOWN {
        if heads.iter().all(|h| value(h) == first) {
            out.push(Guess::Same);
        }
        for v in 0..heads[0].virtuals.len() {
            let Some(by) = first.minus(heads[0].virtuals[v]) else { continue };
            if heads.iter().all(|h| value(h).minus(h.virtuals[v]) == Some(by)) {
                out.push(Guess::Of(v, by));
            }
        }
    }
    out.push(Guess::Unknown);
    out
}

/// What is assumed of a virtual place at a loop's head.
#[derive(Clone, Copy, Debug)]
pub(super) enum Relation {
    /// It always holds that value.
    Constant(Value),
    /// It holds what the place of that index does (perhaps itself), and a constant.
    With(usize, i32),
}

impl Relation {
    /// The relations that hold in all rows of values.
    pub fn find(rows: &[&[Value]], count: usize) -> Vec<Relation> {
        let mut out: Vec<Relation> = Vec::with_capacity(count);
        let mut by_root: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for v in 0..count {
            let first = rows[0][v];
            if first != Value::UNKNOWN && rows.iter().all(|r| r[v] == first) {
                out.push(Relation::Constant(first));
                continue;
            }
            let others = by_root.entry(first.root).or_default();
            let related = |&o: &usize| {
                let by = first.minus(rows[0][o])?;
                rows.iter().all(|r| r[v].minus(r[o]) == Some(by)).then_some(Relation::With(o, by))
            };
            let found = match first == Value::UNKNOWN {
                true => None,
                false => others.iter().find_map(related),
            };
            out.push(found.unwrap_or(Relation::With(v, 0)));
            if found.is_none() {
                others.push(v);
            }
        }
        out
    }

    /// Values of which no more is known than the relations.
    pub fn assume(relations: &[Relation], values: &mut Values) -> Vec<Value> {
        let mut out: Vec<Value> = Vec::with_capacity(relations.len());
        for (v, r) in relations.iter().enumerate() {
            out.push(match *r {
                Relation::Constant(value) => value,
                Relation::With(o, _) if o == v => values.fresh(),
                Relation::With(o, by) => out[o].plus(by),
            });
        }
        out
    }

    /// Gives up relations that the values break; whether none did.
    pub fn keep(relations: &mut [Relation], values: &[Value]) -> bool {
        let mut all = true;
        for v in 0..relations.len() {
            let holds = match relations[v] {
                Relation::Constant(value) => values[v] == value,
                Relation::With(o, by) => values[v] == values[o].plus(by),
            };
            if !holds {
                relations[v] = Relation::With(v, 0);
                all = false;
            }
        }
        all
    }
}
