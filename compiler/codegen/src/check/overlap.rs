//! Loops whose iterations overlap in the bundles: unrolled and software-pipelined ones, by induction over rounds.
//!
//! A round of the loop of the bundles does `copies` iterations of the kernel's loop, parts of several at a time. Two rounds
//! are executed as they are. From the values that they leave in a cell follows a guess: "what this instruction (or the start
//! of the iteration) gives in the iteration so many before the present one", perhaps with a constant added. Then the
//! iterations that the guesses speak of are replayed on the kernel's side from a state of which nothing is known but what
//! the loop does not change; the cells take their values from there; and one more round is executed. If at its end the
//! guesses hold `copies` iterations later and the events done are the same `copies` iterations later, they do after every
//! round.

use super::cycle::Relation;
use super::event::{Event, Turn};
use super::machine::{Cell, control};
use super::value::Value;
use super::walk::{Proof, Walk};
use crate::kernel::{Item, Loop, Trips};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use systole_isa::{Bundle, Kind, Op};

/// Attempts to find what holds after every round.
const ATTEMPTS: usize = 6;
/// Iterations that registers may be ahead of the events.
const MOST_AHEAD: u32 = 64;

/// A guess of a cell: a place in the log's rows, the iteration, and a constant.
#[derive(Clone, Copy, Debug)]
enum Held {
    Same,
    Log { place: usize, iteration: i64, by: i32 },
    Unknown,
}

/// What the two rounds have shown.
struct Seen {
    /// Values of the cells at the loop's head, three times.
    heads: [Vec<Value>; 3],
    copies: u32,
    /// One more than the last iteration that the bundles have done anything of; loads may be ahead of it, where an
    /// earlier loop made the same.
    reach: u32,
    /// The earliest iteration that the next round may do anything of.
    oldest: u32,
}

impl<'a> Walk<'a> {
    /// Proves the loop of the bundles from here to `last` to be a part of the static loop under way.
    pub fn overlap(&mut self, last: usize) -> Proof<()> {
        let first = self.pc;
        let Some((turn, trips)) = self.source.active() else { return self.fail("no loop of the kernel is under way") };
        let stray = |e: &&usize| self.source.events[**e].turns.first().is_none_or(|t| t.run != turn.run);
        if let Some(&e) = self.source.pending.iter().find(stray) {
            let what = self.describe(&self.source.events[e]);
            return self.fail(format!("{what} is missing before the loop"));
        }
        let counter = control(&self.code.bundles[last]).and_then(|i| i.operand(Kind::Sm)).unwrap_or(0) as usize;
        let rounds = match self.cells.values[counter].constant() {
            Some(n) if n > 0 && n <= trips as i32 => n as u32,
            Some(_) | None => return self.fail("a static loop runs another number of times"),
        };
        let mut heads = [const { Vec::new() }; 3];
        heads[0] = self.cells.values.clone();
        let mut counts = [FxHashMap::default(), FxHashMap::default()];
        let mut oldest = 0;
        for round in 0..rounds.min(2) as usize {
            (self.watched, self.oldest) = (turn.run, u32::MAX);
            counts[round] = self.round(first, last, turn.run)?;
            oldest = self.oldest;
            heads[round + 1] = self.cells.values.clone();
        }
        self.pc = last + 1;
        if rounds <= 2 {
            return Ok(());
        }
        if self.source.active().is_none_or(|(t, _)| t.run != turn.run) {
            return self.fail("a loop does more iterations than the kernel's");
        }
        let copies = self.copies(turn, &counts, (first, last))?;
        if copies as u64 * rounds as u64 > trips as u64 {
            return self.fail("a loop does more iterations than the kernel's");
        }
        let run = turn.run;
        let of_loop =
            self.source.events.iter().filter(|e| e.done.is_some() && e.turns.first().is_some_and(|t| t.run == run));
        let reach = of_loop.map(|e| e.iteration() + 1).max().unwrap_or(copies * 2).max(copies * 2);
        let seen = Seen { heads, copies, reach, oldest: oldest.saturating_add(copies) };
        self.induct_rounds((first, last), &seen, rounds, trips, counter)
    }

    /// One round; how often each event of an iteration was done first in it. A load that another one has made before, of the
    /// same place, may be found done again rounds later.
    fn round(&mut self, first: usize, last: usize, run: u32) -> Proof<FxHashMap<u32, u32>> {
        self.pc = first;
        let before: Vec<bool> = self.source.events.iter().map(|e| e.done.is_some()).collect();
        while self.pc <= last {
            let b = self.bundle()?;
            if b.is_some_and(|b| b.at != last || b.inst.op != Op::BLoop || b.target() != first) {
                return self.fail("a branch out of a static loop");
            }
        }
        let mut counts = FxHashMap::default();
        // A load may be one of an earlier loop: it gives the same value.
        let of_loop = |e: &Event<'_>| e.turns.first().is_some_and(|t| t.run == run);
        for (at, e) in self.source.events.iter().enumerate().filter(|(_, e)| of_loop(e) && e.done.is_some()) {
            if !before.get(at).is_some_and(|&done| done) {
                *counts.entry(e.position).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// Iterations of the kernel's loop in a round.
    fn copies(&self, turn: Turn<'_>, counts: &[FxHashMap<u32, u32>; 2], (first, last): (usize, usize)) -> Proof<u32> {
        let done = |e: &&Event<'_>| e.facts.required && e.turns.first().is_some_and(|t| t.run == turn.run);
        let required: FxHashSet<u32> = self.source.events.iter().filter(done).map(|e| e.position).collect();
        let steady = |p: &u32| counts[0].get(p) == counts[1].get(p);
        let mut found: Vec<u32> = match required.is_empty() {
            false => required.iter().filter(|p| steady(p)).filter_map(|p| counts[1].get(p).copied()).collect(),
            true => counts[1].iter().filter(|(p, _)| steady(p)).map(|(_, n)| *n).collect(),
        };
        if found.is_empty() {
            found.push(arithmetic_copies(turn, &self.code.bundles[first..=last]));
        }
        let most = found.iter().copied().max().unwrap_or(0);
        let all = required.is_empty() || found.len() == required.len() && found.iter().all(|&n| n == most);
        if most == 0 || !all {
            return self.fail("the rounds of a loop do not do whole iterations of the kernel's");
        }
        Ok(most)
    }

    fn induct_rounds(
        &mut self,
        (first, last): (usize, usize),
        seen: &Seen,
        rounds: u32,
        trips: u32,
        counter: Cell,
    ) -> Proof<()> {
        let c = seen.copies;
        let changed = self.code.layout.changed(&self.code.bundles[first..=last]);
        self.run_ahead(&changed, seen, trips);
        let mut held: Vec<(Cell, Held)> = self.held(&changed, seen);
        held.retain(|h| h.0 != counter);
        let run = self.source.active().map_or(0, |a| a.0.run);
        let done: FxHashSet<(u32, u32)> = (self.source.events.iter())
            .filter(|e| e.done.is_some() && e.turns.first().is_some_and(|t| t.run == run))
            .map(|e| (e.iteration(), e.position))
            .collect();
        let pending = self.source.pending.iter().map(|&e| self.source.events[e].iteration()).min();
        let places = self.source.log.changed.len();
        // What holds at the start of every iteration but perhaps the first.
        let rows: Vec<&[Value]> = self.source.log.rows[1..].iter().map(|r| &r[..places]).collect();
        let mut relations = Relation::find(&rows, places);
        let mut message = String::new();
        for _ in 0..ATTEMPTS {
            let earliest = held.iter().filter_map(|(_, h)| match h {
                Held::Log { iteration, .. } => Some(*iteration as u32),
                Held::Same | Held::Unknown => None,
            });
            let start = earliest.chain(pending).chain([seen.oldest, seen.reach]).min().unwrap_or(0);
            let values = Relation::assume(&relations, &mut self.values);
            self.replay(start, seen.reach, &values, &done);
            let ahead = held.iter().filter_map(|(_, h)| match h {
                Held::Log { iteration, .. } => Some(*iteration as u32 + 1),
                Held::Same | Held::Unknown => None,
            });
            let ahead = ahead.max().unwrap_or(0).max(seen.reach);
            self.source.advance_to(ahead, &mut self.values);
            if !self.source.log.rows.iter().all(|row| Relation::keep(&mut relations, &row[..places])) {
                continue;
            }
            self.cells.values.clone_from(&seen.heads[2]);
            for &(cell, h) in &held {
                self.cells.values[cell] = self.expected(h, 0, seen.heads[2][cell]);
            }
            let left = self.values.fresh();
            self.cells.values[counter] = left;
            self.round(first, last, run)?;
            if self.cells.values[counter] != left.plus(-1) {
                return self.fail("a loop's counter changes besides its count");
            }
            self.source.advance_to(ahead + c, &mut self.values);
            let mut holds = true;
            for row in &self.source.log.rows {
                holds &= Relation::keep(&mut relations, &row[..places]);
            }
            for (cell, h) in &mut held {
                let unknown = matches!(h, Held::Unknown);
                if !unknown && self.expected(*h, c, seen.heads[2][*cell]) != self.cells.values[*cell] {
                    *h = Held::Unknown;
                    holds = false;
                }
            }
            if let Some(e) = self.unsteady(start, c, &done, run) {
                message = e;
                holds = false;
            }
            if holds {
                return self.leave(last, seen, ahead, rounds, trips, counter);
            }
            if !message.is_empty() {
                break;
            }
        }
        if message.is_empty() {
            message = "no relation of the registers to the kernel's holds in every round of the loop".into();
        }
        self.fail(message)
    }

    /// Executes the kernel's side so far that the values in the registers are among its own. They are ahead of the events
    /// where loads are those of an earlier loop.
    fn run_ahead(&mut self, changed: &[Cell], seen: &Seen, trips: u32) {
        let varies = |c: &&Cell| seen.heads[1][**c] != seen.heads[2][**c] && seen.heads[2][**c] != Value::UNKNOWN;
        let mut missing: FxHashSet<u32> = changed.iter().filter(varies).map(|&c| seen.heads[2][c].root).collect();
        let mut looked = 0;
        for more in 2..MOST_AHEAD {
            self.source.advance_to((seen.reach + more).min(trips - 1), &mut self.values);
            let rows = &self.source.log.rows;
            for v in rows[looked..].iter().flatten() {
                missing.remove(&v.root);
            }
            looked = rows.len().saturating_sub(1);
            if missing.is_empty() || seen.reach + more >= trips {
                return;
            }
        }
    }

    /// Executes the iterations from `start` to `reach` on the kernel's side again, from these values at its start.
    fn replay(&mut self, start: u32, reach: u32, values: &[Value], done: &FxHashSet<(u32, u32)>) {
        self.source.rewind(start, u32::MAX, values);
        self.source.pending.clear();
        self.source.forget();
        self.source.restart_log();
        self.source.advance_to(reach, &mut self.values);
        for e in &mut self.source.events {
            e.done = done.contains(&(e.iteration(), e.position)).then_some(0);
        }
        let source = &mut self.source;
        source.pending.retain(|&p| source.events[p].done.is_none());
    }

    /// What a cell should hold, `later` iterations after the guess was made.
    fn expected(&self, h: Held, later: u32, first: Value) -> Value {
        match h {
            Held::Same => first,
            Held::Log { place, iteration, by } => {
                self.source.log.get(place, iteration + later as i64).map_or(Value::UNKNOWN, |v| v.plus(by))
            }
            Held::Unknown => Value::UNKNOWN,
        }
    }

    /// An event that is not done where it was a round before, or the other way round.
    fn unsteady(&self, start: u32, copies: u32, done: &FxHashSet<(u32, u32)>, run: u32) -> Option<String> {
        let mut count = 0;
        for e in self.source.events.iter().filter(|e| e.facts.required && e.turns.first().is_some_and(|t| t.run == run))
        {
            let before = e.iteration().checked_sub(copies).filter(|&i| i >= start);
            let expected = before.is_none_or(|i| done.contains(&(i, e.position)));
            if expected != e.done.is_some() {
                return Some(format!("{} is not where it was a round before", self.describe(e)));
            }
            count += (before.is_some() && e.done.is_some()) as usize;
        }
        let required: FxHashSet<u32> =
            self.source.events.iter().filter(|e| e.facts.required).map(|e| e.position).collect();
        let had = done.iter().filter(|(i, p)| *i >= start && required.contains(p)).count();
        (count != had).then(|| "a round does not do what the one before it did".into())
    }

    /// Goes on behind the last round. Registers hold values of iterations before `ahead` and a round more, so the
    /// kernel's side keeps those; what is ahead of the loop's end is of no iteration.
    fn leave(&mut self, last: usize, seen: &Seen, ahead: u32, rounds: u32, trips: u32, counter: Cell) -> Proof<()> {
        let c = seen.copies;
        let by = c * (rounds - 3);
        if (seen.reach + c) as u64 + by as u64 > trips as u64 {
            return self.fail("a loop does more iterations than the kernel's");
        }
        let at = (ahead + c).min(trips - by);
        self.source.advance_to(at, &mut self.values);
        let start: Vec<Value> = (0..self.source.log.changed.len())
            .map(|p| self.source.log.get(p, at as i64).unwrap_or(Value::UNKNOWN))
            .collect();
        self.source.rewind(at, u32::MAX, &start);
        self.source.shift(by, trips);
        if at + by == trips {
            self.source.finish_loop();
        }
        self.cells.values[counter] = Value::ZERO;
        self.pc = last + 1;
        Ok(())
    }

    /// Guesses of what the changed cells hold after two rounds.
    fn held(&self, changed: &[Cell], seen: &Seen) -> Vec<(Cell, Held)> {
        let log = &self.source.log;
        let mut by_root: FxHashMap<u32, Vec<(usize, i64)>> = FxHashMap::default();
        for (n, row) in log.rows.iter().enumerate() {
            for (place, v) in row.iter().enumerate() {
                by_root.entry(v.root).or_default().push((place, log.first as i64 + n as i64));
            }
        }
        let c = seen.copies as i64;
        let guess = |cell: Cell| {
            let [h0, h1, h2] = [0, 1, 2].map(|h| seen.heads[h][cell]);
            if h2 == Value::UNKNOWN {
                return Held::Unknown;
            }
            let fits = |&(place, iteration): &(usize, i64)| {
                let by = h2.minus(log.get(place, iteration)?)?;
                let before = |k: i64, h: Value| match log.get(place, iteration - k * c) {
                    Some(v) => h.minus(v) == Some(by),
                    None => true,
                };
                (iteration >= c && before(1, h1) && before(2, h0)).then_some(Held::Log { place, iteration, by })
            };
            // The latest iteration needs the least replayed. What an instruction gave tells more than what a register held
            // at the start of the next iteration: there nothing is known of how registers hang together.
            let list = by_root.get(&h2.root).map_or(&[][..], |l| l);
            let latest =
                |defined: bool| list.iter().rev().filter(|e| (e.0 >= log.changed.len()) == defined).find_map(&fits);
            // What is loaded or made anew in every iteration is seen as that, not as a constant.
            let same = if h0 == h1 && h1 == h2 { Held::Same } else { Held::Unknown };
            latest(true).or_else(|| latest(false)).unwrap_or(same)
        };
        changed.iter().map(|&cell| (cell, guess(cell))).collect()
    }
}

/// Iterations in a round of a loop without effects: how many copies of its instructions most of the operations show.
fn arithmetic_copies(turn: Turn<'_>, bundles: &[Bundle]) -> u32 {
    let mut ours: FxHashMap<Op, u32> = FxHashMap::default();
    for i in bundles.iter().flat_map(|b| &b.insts) {
        *ours.entry(i.op).or_default() += 1;
    }
    // Loops within this one are written out, or left to a loop of the bundles.
    let inner_loops = ours.get(&Op::BLoop).is_some_and(|&n| n > 1);
    let mut theirs: FxHashMap<Op, u32> = FxHashMap::default();
    operations(&turn.counted.body, 1, !inner_loops, &mut theirs);
    let mut votes: BTreeMap<u32, u32> = BTreeMap::new();
    // Registers are spilled by loads and moved by additions that are not the kernel's.
    for (op, n) in theirs.iter().filter(|(op, _)| !matches!(op, Op::SAddI | Op::VLd)) {
        *votes.entry(ours.get(op).map_or(0, |m| m / n)).or_default() += 1;
    }
    votes.iter().max_by_key(|(_, votes)| **votes).map_or(1, |(&copies, _)| copies.max(1))
}

/// Counts how often each operation is executed, with what is in loops if wanted.
fn operations(items: &[Item], times: u32, loops: bool, counts: &mut FxHashMap<Op, u32>) {
    for item in items {
        match item {
            Item::Inst(v) => *counts.entry(v.inst.op).or_default() += times,
            Item::Loop(Loop { trips: Trips::Static(n), body, .. }) if loops => {
                operations(body, times.saturating_mul(*n), loops, counts);
            }
            Item::Loop(_) | Item::If { .. } | Item::While { .. } | Item::Call { .. } | Item::Mark { .. } => {}
        }
    }
}
