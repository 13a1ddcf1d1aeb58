//! The walk over a kernel's tree and its bundles, side by side.
//!
//! Straight code and static loops are runs: the bundles are executed one by one ([`Walk::run`]); an effect of the bundles
//! must be an event of the kernel that is still due, with the same operand values, and must not overtake or fall behind
//! events that it is ordered with ([`Walk::claim`]). At a branch, call or loop both sides meet: the kernel's side is
//! completed, and nothing required may be left over.

use super::cycle::{Cycle, Held};
use super::event::Event;
use super::machine::{Branch, Cell, Cells, Layout, Spill, control, is_pure};
use super::source::{Next, Slot, Source, is_static};
use super::value::{Key, Registers, Results, Value, Values, key};
use crate::kernel::{Item, Kernel, Loop, Trips};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;
use systole_isa::{Bundle, Effect, Function, Inst, Kind, Op};

/// Events that the kernel's side runs ahead of the bundles at most.
const AHEAD: usize = 8192;

/// Why a proof fails: the bundle and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub bundle: usize,
    pub message: String,
}

pub(super) type Proof<T> = Result<T, Failure>;

/// Where a run of bundles ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// Before the bundle asked for.
    Reached,
    /// After a bundle with a branch.
    Branch(Branch),
    /// Before a bundle that a later one branches back to.
    Head,
}

/// What the walks of all kernels share.
pub(super) struct Code<'a> {
    pub bundles: &'a [Bundle],
    /// First bundle of each kernel.
    pub starts: &'a [usize],
    /// Ends of the loops that begin at a bundle.
    pub loops: BTreeMap<usize, Vec<usize>>,
    pub layout: Layout,
    /// Spill cells that each kernel and what it calls may overwrite.
    pub overwritten: Vec<Vec<Cell>>,
    pub sublanes: u32,
    /// Pushes by which a result may be taken late.
    pub window: usize,
}

/// One kernel's proof.
pub(super) struct Walk<'a> {
    pub code: &'a Code<'a>,
    pub values: Values,
    pub source: Source<'a>,
    pub cells: Cells,
    pub pc: usize,
    /// Loops of the bundles that the walk is in: first and last bundle.
    pub entered: Vec<(usize, usize)>,
    /// What holds at the heads of loops that have been proved, by first and last bundle.
    pub proved: FxHashMap<(usize, usize), Rc<Held>>,
    /// Bundles executed.
    pub tick: u32,
    joins: u32,
    /// The code here cannot be reached: it is behind a trap.
    unreachable: bool,
    /// Events of the bundle under way.
    now: Vec<usize>,
    /// The run of a loop that is looked at, and its lowest iteration that the bundles had an event of.
    pub watched: u32,
    pub oldest: u32,
    /// The run whose loop the bundles have had; if it is of arithmetic alone, they have no other of it.
    looped: Option<u32>,
}

impl<'a> Walk<'a> {
    /// Proves a kernel. Its arguments are in s1, s2, ..
    pub fn kernel(code: &'a Code<'a>, kernel: &'a Kernel, index: usize) -> Proof<()> {
        let mut w = Walk {
            code,
            values: Values::new(),
            source: Source::new(kernel, code.sublanes),
            cells: code.layout.cells(),
            pc: code.starts[index],
            entered: Vec::new(),
            proved: FxHashMap::default(),
            tick: 0,
            joins: 0,
            unreachable: false,
            now: Vec::new(),
            watched: 0,
            oldest: 0,
            looped: None,
        };
        for (i, p) in kernel.params.iter().enumerate() {
            let value = w.values.fresh();
            w.source.registers.set(p.0 as usize, value);
            w.cells.values[i + 1] = value;
        }
        let around = w.items(&kernel.body)?;
        let end = w.branch(if index == 0 { Op::BHalt } else { Op::BRet })?;
        w.meet(around, end.at)
    }

    pub fn fail<T>(&self, message: impl Into<String>) -> Proof<T> {
        Err(Failure { bundle: self.pc.min(self.code.bundles.len().saturating_sub(1)), message: message.into() })
    }

    /// Walks a list of items; the run at its end stays open and is closed by [`Walk::meet`].
    pub fn items(&mut self, items: &'a [Item]) -> Proof<usize> {
        let mut from = 0;
        loop {
            let hard = items[from..].iter().position(|i| !is_static(i)).map_or(items.len(), |n| from + n);
            let around = self.source.open(&items[from..hard]);
            let Some(item) = items.get(hard) else { return Ok(around) };
            self.hard(item, around)?;
            from = hard + 1;
        }
    }

    /// Completes the kernel's side of the run under way; the bundles must have had all of it.
    pub fn meet(&mut self, around: usize, at: usize) -> Proof<()> {
        while self.source.pending.is_empty() && self.source.advance(&mut self.values) {}
        if let Some(&e) = self.source.pending.first() {
            let what = self.describe(&self.source.events[e]);
            return Err(Failure { bundle: at, message: format!("{what} is missing before this bundle's end") });
        }
        self.source.forget();
        self.source.close(around);
        Ok(())
    }

    pub fn describe(&self, e: &Event<'_>) -> String {
        let turns: Vec<String> = e.turns.iter().map(|t| t.iteration.to_string()).collect();
        let at = if turns.is_empty() { String::new() } else { format!(" of iteration {}", turns.join(".")) };
        format!("{}{at} (operands {:?})", e.inst.op.info().mnemonic, e.inst.operands)
    }

    /// Runs to a branch that must be `op`.
    fn branch(&mut self, op: Op) -> Proof<Branch> {
        match self.run(None)? {
            Stop::Branch(b) if b.inst.op == op => Ok(b),
            Stop::Branch(b) => {
                self.pc = b.at;
                self.fail(format!("{} where the kernel has {}", b.inst.op.info().mnemonic, op.info().mnemonic))
            }
            Stop::Reached | Stop::Head => self.fail(format!("a loop where the kernel has {}", op.info().mnemonic)),
        }
    }

    fn hard(&mut self, item: &'a Item, around: usize) -> Proof<()> {
        match item {
            Item::Inst(v) => {
                let b = self.branch(v.inst.op)?;
                self.meet(around, b.at)?;
                if b.inst.operands != v.inst.operands {
                    self.pc = b.at;
                    return self.fail(format!("another {} than the kernel's", v.inst.op.info().mnemonic));
                }
                self.unreachable |= v.inst.op.info().effect == Effect::Trap;
                Ok(())
            }
            Item::Call { kernel, args } => self.call(*kernel as usize, args, around),
            Item::If { cond, then, otherwise } => {
                let b = self.branch(Op::BZ)?;
                self.meet(around, b.at)?;
                self.same_condition(&b, self.source.registers.scalar(*cond))?;
                self.condition(b.target(), then, otherwise)
            }
            Item::While { .. } => match self.run(None)? {
                Stop::Head => {
                    self.meet(around, self.pc)?;
                    self.cycle(Cycle::of(item, &self.source))
                }
                Stop::Reached | Stop::Branch(_) => self.fail("no loop where the kernel has one"),
            },
            Item::Loop(l) => self.counted(l, item, around),
            Item::Mark { .. } => self.meet(around, self.pc),
        }
    }

    pub fn same_condition(&mut self, b: &Branch, value: Value) -> Proof<()> {
        if b.value == value {
            return Ok(());
        }
        self.pc = b.at;
        self.fail(format!("{} decides by another value than the kernel", b.inst.op.info().mnemonic))
    }

    fn call(&mut self, kernel: usize, args: &[crate::kernel::S], around: usize) -> Proof<()> {
        let b = self.branch(Op::BCall)?;
        self.meet(around, b.at)?;
        self.pc = b.at;
        if self.code.starts.get(kernel) != Some(&b.target()) {
            return self.fail(format!("the call goes to bundle {}, not to kernel {kernel}", b.target()));
        }
        for (i, &a) in args.iter().enumerate() {
            if self.cells.values[i + 1] != self.source.registers.scalar(a) {
                return self.fail(format!("argument {i} of kernel {kernel} is not in s{}", i + 1));
            }
        }
        let fresh = self.code.layout.cells();
        let registers = systole_isa::Reg::COUNT;
        self.cells.values[..registers].copy_from_slice(&fresh.values[..registers]);
        for &c in &self.code.overwritten[kernel] {
            self.cells.values[c] = Value::UNKNOWN;
        }
        self.pc = b.at + 1;
        Ok(())
    }

    /// Both ways of a branch to `other` if the condition is zero.
    fn condition(&mut self, other: usize, then: &'a [Item], otherwise: &'a [Item]) -> Proof<()> {
        let mut slots: Vec<Slot> = self.source.changes(then).to_vec();
        slots.extend(self.source.changes(otherwise).iter());
        // Each once: a place that is joined twice would differ from its register.
        slots.sort_unstable();
        slots.dedup();
        let before = (self.snapshot(&slots), self.unreachable);
        let around = self.items(then)?;
        let end = match self.run(Some(other))? {
            Stop::Reached => {
                self.meet(around, self.pc)?;
                other
            }
            Stop::Branch(b) if b.inst.op == Op::BJmp && b.target() >= other => {
                self.meet(around, b.at)?;
                b.target()
            }
            Stop::Branch(_) | Stop::Head => return self.fail("the first way of a branch does not end where it should"),
        };
        let first = (self.snapshot(&slots), self.unreachable);
        self.restore(&slots, &before.0);
        self.unreachable = before.1;
        self.pc = other;
        let around = self.items(otherwise)?;
        match self.run(Some(end))? {
            Stop::Reached => self.meet(around, self.pc)?,
            Stop::Branch(_) | Stop::Head => {
                return self.fail("the second way of a branch does not end where it should");
            }
        }
        if self.unreachable && !first.1 {
            self.restore(&slots, &first.0);
        } else if !first.1 {
            self.join(&slots, &first.0);
        }
        self.unreachable &= first.1;
        self.pc = end;
        Ok(())
    }

    fn join(&mut self, slots: &[Slot], other: &Snapshot) {
        self.joins += 1;
        for (&slot, &a) in slots.iter().zip(&other.virtuals) {
            let value = self.values.join(self.joins, a, self.source.registers.get(slot));
            self.source.registers.set(slot, value);
        }
        for (cell, &a) in self.cells.values.iter_mut().zip(other.cells.iter()) {
            *cell = self.values.join(self.joins, a, *cell);
        }
    }

    pub fn snapshot(&self, slots: &[Slot]) -> Snapshot {
        let virtuals = slots.iter().map(|&s| self.source.registers.get(s)).collect();
        Snapshot { virtuals, cells: self.cells.values.as_slice().into() }
    }

    pub fn restore(&mut self, slots: &[Slot], s: &Snapshot) {
        for (&slot, &v) in slots.iter().zip(&s.virtuals) {
            self.source.registers.set(slot, v);
        }
        self.cells.values.copy_from_slice(&s.cells);
    }

    /// A loop that is not static: around calls or branches, or of a number of trips that is known at run time only.
    fn counted(&mut self, l: &'a Loop, item: &'a Item, around: usize) -> Proof<()> {
        match l.trips {
            Trips::Static(_) => match self.run(None)? {
                Stop::Head => {
                    self.meet(around, self.pc)?;
                    self.cycle(Cycle::of(item, &self.source))
                }
                Stop::Reached | Stop::Branch(_) => self.fail("no loop where the kernel has one"),
            },
            Trips::Dynamic(s) => match self.run(None)? {
                Stop::Head => {
                    self.meet(around, self.pc)?;
                    self.cycle(Cycle::of(item, &self.source))
                }
                Stop::Branch(b) if b.inst.op == Op::BZ => {
                    self.meet(around, b.at)?;
                    self.same_condition(&b, self.source.registers.scalar(s))?;
                    let slots = self.source.changes(&l.body).to_vec();
                    let skipped = self.snapshot(&slots);
                    self.pc = b.at + 1;
                    if !self.code.loops.contains_key(&self.pc) {
                        return self.fail("no loop where the kernel has one");
                    }
                    self.cycle(Cycle::of(item, &self.source))?;
                    if self.pc != b.target() {
                        return self.fail("a loop that is skipped is not skipped to its end");
                    }
                    self.join(&slots, &skipped);
                    Ok(())
                }
                Stop::Reached | Stop::Branch(_) => self.fail("no loop where the kernel has one"),
            },
        }
    }

    /// Executes bundles up to `until`, to the next branch, or to the next loop that is not of the run under way.
    pub fn run(&mut self, until: Option<usize>) -> Proof<Stop> {
        loop {
            if until == Some(self.pc) {
                return Ok(Stop::Reached);
            }
            if self.pc >= self.code.bundles.len() {
                return self.fail("control runs off the end");
            }
            if let Some(last) = self.head() {
                if !self.bound_loop(last)? {
                    return Ok(Stop::Head);
                }
                continue;
            }
            if let Some(b) = self.bundle()? {
                return Ok(Stop::Branch(b));
            }
        }
    }

    /// The last bundle of the outermost loop that begins here and is not entered.
    pub fn head(&self) -> Option<usize> {
        let around = self.entered.iter().filter(|e| e.0 == self.pc).map(|e| e.1).min();
        let ends = self.code.loops.get(&self.pc)?;
        ends.iter().copied().filter(|&e| around.is_none_or(|a| e < a)).max()
    }

    /// Proves a loop of the bundles that belongs to a static loop of the run; `false` if it belongs to none.
    fn bound_loop(&mut self, last: usize) -> Proof<bool> {
        let end = control(&self.code.bundles[last]).map(|i| i.op);
        // One that jumps back counts in memory: it has loops in it, or is one that the kernel tests itself.
        let tests_first = end == Some(Op::BJmp);
        if end != Some(Op::BLoop) && !tests_first {
            return Ok(false);
        }
        let straight = !tests_first && self.code.bundles[self.pc..last].iter().all(|b| control(b).is_none());
        loop {
            // A loop of arithmetic alone is asked for nothing: where the bundles are at another loop, they are behind it.
            if let Some((turn, _)) = self.source.active()
                && (self.is_behind(&turn.counted.body, last)
                    || self.looped == Some(turn.run) && !has_effects(&turn.counted.body, false))
            {
                while self.source.active().is_some_and(|(t, _)| t.run == turn.run)
                    && self.source.advance(&mut self.values)
                {}
            }
            // What nothing has asked for yet: it is before the loop, or the end of one that was written out.
            while matches!(self.source.next(), Next::Pure | Next::Load)
                && self.source.active().is_none_or(|(t, trips)| t.iteration + 1 == trips)
            {
                self.source.advance(&mut self.values);
            }
            if let (Some((turn, _)), true) = (self.source.active(), straight) {
                self.overlap(last)?;
                self.looped = Some(turn.run);
                return Ok(true);
            }
            match self.source.next() {
                Next::Loop(l) if self.is_behind(&l.body, last) => {
                    // A loop of arithmetic alone was written out before.
                    self.source.advance(&mut self.values);
                    while self.source.active().is_some() && self.source.advance(&mut self.values) {}
                }
                Next::Loop(l) if straight => {
                    self.source.enter(l);
                    self.looped = self.source.active().map(|(turn, _)| turn.run);
                    self.overlap(last)?;
                    return Ok(true);
                }
                Next::Loop(l) => {
                    self.source.skip_loop();
                    self.source_settled()?;
                    self.cycle(Cycle::counted(l, &self.source))?;
                    return Ok(true);
                }
                Next::Pure | Next::Load | Next::Event if tests_first => return Ok(false),
                Next::Pure | Next::Load | Next::Event => {
                    return self.fail("a loop begins before what the kernel has before it");
                }
                Next::End => return Ok(false),
            }
        }
    }

    /// Whether the loop of the bundles that begins here has what this body has not: then it is another loop. Loads that nothing
    /// uses are left out of the bundles.
    fn is_behind(&self, body: &[Item], last: usize) -> bool {
        [false, true].into_iter().any(|loads| !has_effects(body, loads) && self.has_effects(last, loads))
    }

    /// Whether the bundles up to `last` have effects on anything but registers and the spill area; with `loads`, they count.
    fn has_effects(&self, last: usize, loads: bool) -> bool {
        let effect = |i: &Inst| i.op == Op::BCall || counts(i.op, loads) && self.code.layout.spill(i).is_none();
        self.code.bundles[self.pc..=last].iter().flat_map(|b| &b.insts).any(effect)
    }

    fn source_settled(&mut self) -> Proof<()> {
        if let Some(&e) = self.source.pending.first() {
            let what = self.describe(&self.source.events[e]);
            return self.fail(format!("{what} is missing before the loop"));
        }
        self.source.forget();
        Ok(())
    }

    /// Executes the bundle here and goes on to the next; the branch, if it has one.
    pub fn bundle(&mut self) -> Proof<Option<Branch>> {
        let bundle = &self.code.bundles[self.pc];
        self.tick += 1;
        self.now.clear();
        let mut writes: SmallVec<[(Cell, Value); 8]> = SmallVec::new();
        let mut branch = None;
        for inst in &bundle.insts {
            let results = if matches!(inst.op.function(), Function::Branch(_)) {
                let counts = inst.op == Op::BLoop;
                let kind = if counts { Kind::Sm } else { Kind::Su };
                let value = inst.operand(kind).map_or(Value::ZERO, |r| self.cells.read(kind, r)[0]);
                let value = if counts { value.plus(-1) } else { value };
                branch = Some(Branch { at: self.pc, inst: *inst, value });
                SmallVec::from_slice(&[value])
            } else if is_pure(inst) {
                self.values.pure(inst, &self.cells)
            } else if let Some(spill) = self.code.layout.spill(inst) {
                self.keep(inst, spill, &mut writes)
            } else {
                self.claim(inst)?
            };
            writes.extend(inst.defs().iter().map(|r| r.index()).zip(results));
        }
        for (cell, value) in writes {
            self.cells.values[cell] = value;
        }
        self.pc += 1;
        Ok(branch)
    }

    /// A register to or from the spill area.
    fn keep(&mut self, inst: &Inst, spill: Spill, writes: &mut SmallVec<[(Cell, Value); 8]>) -> Results {
        if !spill.store {
            return Results::from_slice(&[self.cells.values[spill.cell]]);
        }
        let kind = inst.op.info().operands[0].kind;
        writes.extend(self.code.layout.overlapped(spill.cell).map(|c| (c, Value::UNKNOWN)));
        writes.push((spill.cell, self.cells.read(kind, inst.operands[0])[0]));
        Results::new()
    }

    /// The results of an instruction with an effect: those of the event of the kernel that it is.
    fn claim(&mut self, inst: &Inst) -> Proof<Results> {
        let key = key(inst, &self.cells);
        let required = !matches!(inst.op.info().effect, Effect::VmemLoad | Effect::SmemLoad);
        let before = self.source.events.len();
        loop {
            let due = self.source.with_key(&key);
            let events = &self.source.events;
            let found = match required {
                true => due.iter().copied().find(|&e| events[e].done.is_none()),
                false => due.iter().rev().copied().find(|&e| self.may_load(e)),
            };
            if let Some(e) = found {
                if required {
                    self.order(e)?;
                }
                if let Some(turn) = self.source.events[e].turns.first().filter(|t| t.run == self.watched) {
                    self.oldest = self.oldest.min(turn.iteration);
                }
                self.source.events[e].done = Some(self.tick);
                self.now.push(e);
                return Ok(self.source.events[e].results.clone());
            }
            if self.source.events.len() > before + AHEAD || !self.source.advance(&mut self.values) {
                let nearest = self.nearest(&key);
                let mnemonic = inst.op.info().mnemonic;
                return self.fail(format!("`{mnemonic}` is nothing that the kernel does next{nearest}"));
            }
        }
    }

    /// For messages: the event still due that a key comes closest to.
    fn nearest(&self, key: &Key) -> String {
        let differs = |e: &Event<'_>| e.key.iter().zip(key).filter(|(a, b)| a != b).count();
        let due = self.source.events.iter().filter(|e| e.done.is_none() && e.key[0] == key[0]);
        match due.min_by_key(|e| differs(e)) {
            Some(e) => format!("; the nearest is {}, with {} other operands", self.describe(e), differs(e)),
            None => "; none of its kind is due".into(),
        }
    }

    /// Whether a load can be this one: what it must see has happened, and nothing after it that it must not see.
    fn may_load(&self, e: usize) -> bool {
        let events = &self.source.events;
        let load = &events[e];
        let due = |f: &usize| *f < e && events[*f].before(load);
        let changed = |g: &Event<'_>| g.facts.required && g.done.is_some() && load.before(g);
        !self.source.pending.iter().take_while(|f| **f < e).any(&due)
            && !self.now.iter().any(due)
            && !events[e + 1..].iter().any(changed)
    }

    /// Checks that nothing due before an event is still to come or in the same bundle, and takes the event off the list.
    fn order(&mut self, e: usize) -> Proof<()> {
        let events = &self.source.events;
        let event = &events[e];
        let pending = &self.source.pending;
        let overtaken = pending.iter().take_while(|f| **f < e).find(|f| events[**f].before(event));
        let together =
            self.now.iter().find(|&&f| f < e && events[f].before(event) || f > e && event.before(&events[f]));
        if let Some(&f) = overtaken.or(together) {
            let (late, early) = (self.describe(&events[f]), self.describe(event));
            return self.fail(format!("{early} does not stay behind {late}"));
        }
        if let Some(unit) = event.facts.push {
            for &o in pending.iter().take_while(|f| **f < e).filter(|o| events[**o].facts.output == Some(unit)) {
                let done = |g: &&Event<'_>| g.facts.push == Some(unit) && g.done.is_some();
                if events[o + 1..].iter().filter(done).count() + 1 > self.code.window {
                    return self.fail(format!("{} is taken too late", self.describe(&events[o])));
                }
            }
        }
        if let Ok(at) = pending.binary_search(&e) {
            self.source.pending.remove(at);
        }
        Ok(())
    }
}

/// Whether a loop's body has effects; with `loads`, they count.
fn has_effects(items: &[Item], loads: bool) -> bool {
    items.iter().any(|i| match i {
        Item::Inst(v) => counts(v.inst.op, loads),
        Item::Loop(l) => has_effects(&l.body, loads),
        Item::If { .. } | Item::While { .. } | Item::Call { .. } => true,
        Item::Mark { .. } => false,
    })
}

fn counts(op: Op, loads: bool) -> bool {
    let load = matches!(op.info().effect, Effect::VmemLoad | Effect::SmemLoad);
    !matches!(op.function(), Function::Branch(_)) && !crate::kernel::is_pure(op) && (loads || !load)
}

/// Values of some virtual places and of all cells.
pub(super) struct Snapshot {
    pub virtuals: Vec<Value>,
    pub cells: Rc<[Value]>,
}
