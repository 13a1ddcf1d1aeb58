//! The kernel's side: instructions of straight code and counted loops, executed in program order as far as asked.
//!
//! A run is a list of items without control other than static loops of the same; loops are entered and repeated one
//! iteration at a time. Each instruction's values go to the virtual registers; each effect becomes an [`Event`]. For the
//! outermost loop of the run, the values of every iteration are kept, so that a register of the bundles can be
//! recognised as "what this instruction computed, so many iterations ago".

use super::event::{Event, Facts, Turn};
use super::value::{Key, Registers, Results, Value, Values, key};
use crate::kernel::regs::File;
use crate::kernel::{Item, Kernel, Loop, Trips, VInst};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use systole_isa::{Effect, Kind};

/// A place of the virtual registers' values; a pair has two.
pub(super) type Slot = usize;

/// The virtual registers' values.
#[derive(Clone, Debug)]
pub(super) struct Virtual {
    values: Vec<Value>,
    /// First place of vectors, pairs and masks.
    first: [usize; 3],
}

impl Virtual {
    pub fn new(k: &Kernel) -> Virtual {
        let count = |file: File| k.free.of(file) as usize;
        let vectors = count(File::Scalar);
        let pairs = vectors + count(File::Vector);
        let masks = pairs + 2 * count(File::Pair);
        let mut values = vec![Value::UNKNOWN; masks + count(File::Mask)];
        values[0] = Value::ZERO;
        values[masks] = Value::ALL;
        Virtual { values, first: [vectors, pairs, masks] }
    }

    fn slot(&self, kind: Kind, number: i32) -> Option<Slot> {
        let n = number as usize;
        match kind {
            Kind::Sd | Kind::Su | Kind::Sm => Some(n),
            Kind::Vd | Kind::Vu => Some(self.first[0] + n),
            Kind::Pd | Kind::Pu => Some(self.first[1] + 2 * n),
            Kind::Md | Kind::Mu => Some(self.first[2] + n),
            Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc | Kind::Sem => None,
            Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => None,
        }
    }

    /// Places that an instruction defines, in order of its results.
    pub fn defined(&self, v: &VInst, mut f: impl FnMut(Slot)) {
        for (kind, number) in v.inst.iter() {
            if matches!(kind, Kind::Sd | Kind::Vd | Kind::Pd | Kind::Md)
                && let Some(slot) = self.slot(kind, number)
            {
                f(slot);
                if kind == Kind::Pd {
                    f(slot + 1);
                }
            }
        }
    }

    pub fn get(&self, slot: Slot) -> Value {
        self.values[slot]
    }

    /// Sets a place; the constants keep their values.
    pub fn set(&mut self, slot: Slot, value: Value) {
        if slot != 0 && slot != self.first[2] {
            self.values[slot] = value;
        }
    }

    /// The value of a scalar.
    pub fn scalar(&self, s: crate::kernel::S) -> Value {
        self.values[s.0 as usize]
    }
}

impl Registers for Virtual {
    fn read(&self, kind: Kind, number: i32) -> [Value; 2] {
        let slot = self.slot(kind, number).unwrap_or(0);
        let high = if kind == Kind::Pu { slot + 1 } else { slot };
        [self.values[slot], self.values[high]]
    }
}

struct Frame<'a> {
    items: &'a [Item],
    at: usize,
    turn: Option<(Turn<'a>, u32)>,
}

/// Values of the outermost loop's iterations.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Places that the loop changes.
    pub changed: Rc<Vec<Slot>>,
    /// The first iteration logged, and for each: the changed places' values at its start, then all its definitions.
    pub first: u32,
    pub rows: Vec<Vec<Value>>,
}

impl Log {
    /// A logged value: by place in the row, and iteration.
    pub fn get(&self, place: usize, iteration: i64) -> Option<Value> {
        let row = self.rows.get(usize::try_from(iteration - self.first as i64).ok()?)?;
        row.get(place).copied()
    }
}

/// What comes next in a run.
pub(super) enum Next<'a> {
    Pure,
    Load,
    Event,
    Loop(&'a Loop),
    End,
}

/// One kernel's side of the proof.
pub(super) struct Source<'a> {
    pub registers: Virtual,
    sublanes: u32,
    frames: Vec<Frame<'a>>,
    /// Frames below belong to runs around the present one.
    base: usize,
    pub events: Vec<Event<'a>>,
    /// Required events that the bundles have not had yet, in order.
    pub pending: Vec<usize>,
    by_key: FxHashMap<Key, Vec<usize>>,
    pub log: Log,
    position: u32,
    runs: u32,
    facts: FxHashMap<*const VInst, Rc<Facts>>,
    changed: FxHashMap<*const Item, Rc<Vec<Slot>>>,
}

/// Whether an item is straight code or static loops of it.
pub(super) fn is_static(item: &Item) -> bool {
    match item {
        Item::Inst(v) => !matches!(v.inst.op.info().effect, Effect::Control | Effect::Trap),
        Item::Mark { .. } => true,
        Item::Loop(l) => matches!(l.trips, Trips::Static(_)) && l.body.iter().all(is_static),
        Item::If { .. } | Item::While { .. } | Item::Call { .. } => false,
    }
}

impl<'a> Source<'a> {
    pub fn new(kernel: &'a Kernel, sublanes: u32) -> Source<'a> {
        Source {
            registers: Virtual::new(kernel),
            sublanes,
            frames: Vec::new(),
            base: 0,
            events: Vec::new(),
            pending: Vec::new(),
            by_key: FxHashMap::default(),
            log: Log::default(),
            position: 0,
            runs: 0,
            facts: FxHashMap::default(),
            changed: FxHashMap::default(),
        }
    }

    /// Begins a run; the one around it goes on when this one is closed.
    pub fn open(&mut self, items: &'a [Item]) -> usize {
        let around = std::mem::replace(&mut self.base, self.frames.len());
        self.frames.push(Frame { items, at: 0, turn: None });
        around
    }

    /// Ends a run that has come to its end.
    pub fn close(&mut self, around: usize) {
        self.frames.truncate(self.base);
        self.base = around;
    }

    /// Forgets the events; all that were required are done.
    pub fn forget(&mut self) {
        debug_assert!(self.pending.is_empty());
        self.events.clear();
        self.by_key.clear();
    }

    /// Places that a list of items may change.
    pub fn changes(&mut self, items: &'a [Item]) -> Rc<Vec<Slot>> {
        let Some(first) = items.first() else { return Rc::default() };
        // Lists of items do not share their first one.
        if let Some(c) = self.changed.get(&std::ptr::from_ref(first)) {
            return c.clone();
        }
        let mut out = Vec::new();
        for item in items {
            if let Item::Inst(v) = item {
                self.registers.defined(v, |s| out.push(s));
            }
            item.regions().for_each(|region| out.extend(self.changes(region).iter()));
        }
        out.sort_unstable();
        out.dedup();
        let out = Rc::new(out);
        self.changed.insert(std::ptr::from_ref(first), out.clone());
        out
    }

    /// What comes next; ends of iterations and of loops are passed.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others must happen once")]
    pub fn next(&mut self) -> Next<'a> {
        loop {
            let outermost = self.frames.iter().skip(self.base).position(|f| f.turn.is_some());
            if self.frames.len() == self.base {
                return Next::End;
            }
            let depth = self.frames.len() - 1 - self.base;
            let frame = self.frames.last_mut().expect("the run has a frame");
            match frame.items.get(frame.at) {
                Some(Item::Inst(v)) => {
                    return match v.inst.op.info().effect {
                        Effect::None => Next::Pure,
                        Effect::VmemLoad | Effect::SmemLoad => Next::Load,
                        _ => Next::Event,
                    };
                }
                Some(Item::Loop(l)) => match l.trips {
                    Trips::Static(0) => frame.at += 1,
                    Trips::Static(1) => {
                        frame.at += 1;
                        self.frames.push(Frame { items: &l.body, at: 0, turn: None });
                    }
                    Trips::Static(_) | Trips::Dynamic(_) => return Next::Loop(l),
                },
                Some(Item::Mark { .. } | Item::If { .. } | Item::While { .. } | Item::Call { .. }) => frame.at += 1,
                None => match &mut frame.turn {
                    Some((turn, trips)) if turn.iteration + 1 < *trips => {
                        turn.iteration += 1;
                        frame.at = 0;
                        if outermost == Some(depth) {
                            self.begin_iteration();
                        }
                    }
                    Some(_) | None => {
                        self.frames.pop();
                    }
                },
            }
        }
    }

    /// Leaves out the loop that comes next.
    pub fn skip_loop(&mut self) {
        if let Some(f) = self.frames.last_mut() {
            f.at += 1;
        }
    }

    /// Enters the loop that comes next.
    pub fn enter(&mut self, l: &'a Loop) {
        let trips = match l.trips {
            Trips::Static(n) => n,
            Trips::Dynamic(_) => 0,
        };
        self.skip_loop();
        self.runs += 1;
        let outermost = self.active().is_none();
        let turn = Turn { counted: l, run: self.runs, iteration: 0 };
        self.frames.push(Frame { items: &l.body, at: 0, turn: Some((turn, trips)) });
        if outermost {
            self.log = Log { changed: self.changes(&l.body), first: 0, rows: Vec::new() };
            self.begin_iteration();
        }
    }

    fn begin_iteration(&mut self) {
        self.position = 0;
        self.log.rows.push(self.log.changed.iter().map(|&s| self.registers.get(s)).collect());
    }

    /// The outermost loop under way: its turn and trips.
    pub fn active(&self) -> Option<(Turn<'a>, u32)> {
        self.frames.iter().skip(self.base).find_map(|f| f.turn)
    }

    /// Takes the next step; `false` at the end of the run.
    pub fn advance(&mut self, values: &mut Values) -> bool {
        match self.next() {
            Next::End => return false,
            Next::Loop(l) => self.enter(l),
            Next::Pure | Next::Load | Next::Event => self.execute(values),
        }
        true
    }

    fn execute(&mut self, values: &mut Values) {
        let Some(frame) = self.frames.last_mut() else { return };
        let Some(Item::Inst(v)) = frame.items.get(frame.at) else { return };
        frame.at += 1;
        let results = if crate::kernel::is_pure(v.inst.op) {
            values.pure(&v.inst, &self.registers)
        } else {
            self.event(v, values)
        };
        let logging = self.active().is_some();
        let mut results = results.into_iter();
        let (registers, log) = (&mut self.registers, &mut self.log);
        let mut slots: smallvec::SmallVec<[Slot; 2]> = smallvec::SmallVec::new();
        registers.defined(v, |s| slots.push(s));
        for slot in slots {
            let value = results.next().unwrap_or(Value::UNKNOWN);
            registers.set(slot, value);
            if let (true, Some(row)) = (logging, log.rows.last_mut()) {
                row.push(value);
            }
        }
    }

    fn event(&mut self, v: &'a VInst, values: &mut Values) -> Results {
        let facts = self.facts.entry(std::ptr::from_ref(v)).or_insert_with(|| Rc::new(Facts::new(v))).clone();
        let required = facts.required;
        let key = key(&v.inst, &self.registers);
        let mut event = Event::new(v, facts, key, self.sublanes, &self.registers);
        event.turns = self.frames.iter().skip(self.base).filter_map(|f| f.turn.map(|t| t.0)).collect();
        event.position = self.position;
        self.position += 1;
        let mut n = 0;
        self.registers.defined(v, |_| n += 1);
        // Loads of one place with nothing in between that could change it give one value.
        let same = (!required).then(|| self.same_load(&event)).flatten();
        event.results = same.unwrap_or_else(|| (0..n).map(|_| values.fresh()).collect());
        let results = event.results.clone();
        let at = self.events.len();
        self.by_key.entry(key).or_default().push(at);
        if required {
            self.pending.push(at);
        }
        self.events.push(event);
        results
    }

    fn same_load(&self, load: &Event<'_>) -> Option<Results> {
        let earlier = *self.by_key.get(&load.key)?.last()?;
        let changed = self.events[earlier + 1..].iter().any(|e| e.facts.required && e.before(load));
        (!changed).then(|| self.events[earlier].results.clone())
    }

    /// Events of that key so far, in order.
    pub fn with_key(&self, key: &Key) -> &[usize] {
        self.by_key.get(key).map_or(&[], |v| v)
    }

    /// Runs on until the outermost loop under way begins iteration `to`.
    pub fn advance_to(&mut self, to: u32, values: &mut Values) {
        while let Some((turn, trips)) = self.active() {
            let ended = self.at_iteration_end();
            if turn.iteration >= to || ended && turn.iteration + 1 >= trips {
                return;
            }
            if ended {
                self.next();
            } else if !self.advance(values) {
                return;
            }
        }
    }

    /// Whether the outermost loop has come to the end of an iteration; passes ends of loops inside.
    fn at_iteration_end(&mut self) -> bool {
        let Some(outer) = self.outer_frame() else { return false };
        while let Some(frame) = self.frames.last_mut() {
            let is_empty = |i: &Item| matches!(i, Item::Mark { .. } | Item::Loop(Loop { trips: Trips::Static(0), .. }));
            while frame.items.get(frame.at).is_some_and(is_empty) {
                frame.at += 1;
            }
            if frame.at < frame.items.len() {
                return false;
            }
            if self.frames.len() - 1 == outer {
                return true;
            }
            match &mut self.frames.last_mut().expect("just looked at").turn {
                Some((turn, trips)) if turn.iteration + 1 < *trips => {
                    turn.iteration += 1;
                    self.frames.last_mut().expect("just looked at").at = 0;
                }
                Some(_) | None => {
                    self.frames.pop();
                }
            }
        }
        false
    }

    fn outer_frame(&self) -> Option<usize> {
        (self.base..self.frames.len()).find(|&i| self.frames[i].turn.is_some())
    }

    /// Puts the outermost loop under way at the start of an iteration, with other trips, and forgets its events from
    /// there on. The registers that it changes take the values given.
    pub fn rewind(&mut self, iteration: u32, trips: u32, start: &[Value]) {
        let Some(outer) = self.outer_frame() else { return };
        self.frames.truncate(outer + 1);
        if let Some(Frame { at, turn: Some((turn, n)), .. }) = self.frames.last_mut() {
            (*at, turn.iteration, *n) = (0, iteration, trips);
        }
        for (&slot, &value) in self.log.changed.iter().zip(start) {
            self.registers.set(slot, value);
        }
        self.log.rows.truncate(iteration.saturating_sub(self.log.first) as usize);
        self.begin_iteration();
        let end = self.events.iter().position(|e| e.iteration() >= iteration).unwrap_or(self.events.len());
        for e in &self.events[end..] {
            if let Some(list) = self.by_key.get_mut(&e.key) {
                list.retain(|&i| i < end);
            }
        }
        self.events.truncate(end);
        self.pending.retain(|&p| p < end);
    }

    /// Begins the log anew at the present iteration.
    pub fn restart_log(&mut self) {
        let first = self.active().map_or(0, |(t, _)| t.iteration);
        self.log = Log { changed: self.log.changed.clone(), first, rows: Vec::new() };
        self.begin_iteration();
    }

    /// Leaves the outermost loop under way.
    pub fn finish_loop(&mut self) {
        if let Some(outer) = self.outer_frame() {
            self.frames.truncate(outer);
        }
    }

    /// The runs that are open, to come back to.
    pub fn mark(&self) -> (usize, usize) {
        (self.base, self.frames.len())
    }

    /// Back to the runs open at a mark, without events.
    pub fn reset(&mut self, mark: (usize, usize)) {
        self.base = mark.0;
        self.frames.truncate(mark.1);
        self.pending.clear();
        self.forget();
    }

    /// Renumbers the iterations of the outermost loop under way by `by`, and sets its trips.
    pub fn shift(&mut self, by: u32, trips: u32) {
        let Some(outer) = self.outer_frame() else { return };
        let Some((turn, n)) = &mut self.frames[outer].turn else { return };
        (turn.iteration, *n) = (turn.iteration + by, trips);
        let run = turn.run;
        for t in self.events.iter_mut().flat_map(|e| &mut e.turns).filter(|t| t.run == run) {
            t.iteration += by;
        }
        self.log.first += by;
    }
}
