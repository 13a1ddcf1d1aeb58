//! The walk by pieces: replays what is known, and finds what is not with the plain walk's own steps.

use super::super::code::*;
use super::super::run::{Core, PROGRESS_INTERVAL, SCALARS, Step as Result};
use super::super::trace::Trace;
use super::links::Left;
use super::pieces::{Piece, Step};
use super::table::{Key, NONE, Table};
use crate::fault::FaultKind;
use crate::stats::{Cause, Collector};
use crate::unit::dma::Geometry;
use crate::unit::scalar;

/// What looking at states costs, in bundles of the plain walk: to number a state, and to keep a transition.
const NUMBERING: i64 = 20;
pub(super) const KEEPING: i64 = 40;
/// Debt at which a piece is left to the plain walk for a while.
const DEBT: i64 = -3000;
/// First and longest such while, in visits (powers of two).
const REST: u32 = 6;
const LONGEST_REST: u32 = 16;
/// Cycles behind everything in a state from which a wait only delays.
const CLEAR: u32 = 64;

/// What a trace is told of the core.
struct Seen<'a> {
    code: &'a Code,
    geometry: &'a [Geometry],
    scalars: &'a [i32; SCALARS],
    known: u64,
}

/// What was done for a piece that is not the one that followed the last time.
enum Did {
    /// All of it: where its branch goes, its transition, and whether it ends in a branch.
    Piece(Option<u32>, u32, bool),
    /// What is asked of others: this link replays it.
    Asked(u32),
}

/// How a piece goes on.
enum Way {
    Replay(u32),
    /// A replay, as what the piece waits for is there.
    Met(u32),
    /// To be kept under this first ready time and these accumulator rows.
    Find {
        floor: u32,
        rows: u32,
    },
    Plain,
}

impl Core<'_> {
    /// [`Core::walk`] of a timing-only run that nobody watches bundle by bundle.
    pub(in super::super) fn walk_pieces(&mut self) -> Result<()> {
        let mut table = self.pool.take(&self.l.code, &self.group_units, self.lane);
        if table.is_full() {
            table.forget();
        }
        self.begin_log(&mut table);
        if self.numbers.take() != Some(table.numbers()) {
            self.body = NONE;
            if !self.fresh {
                let words = std::mem::take(&mut self.left);
                self.restore(&table.used, &words);
                self.left = words;
                self.fresh = true;
            }
        }
        let end = self.pieces(&mut table);
        // Other cores decide when this one goes on behind a barrier.
        self.numbers = self.mates.is_none().then(|| table.numbers());
        if self.numbers.is_none() || table.log.is_none() {
            // Another table, or this one when it has forgotten everything, does not know the number; one that logs name forgets nothing.
            self.keep_state(&table);
        }
        self.end_log(&mut table);
        self.recorder = None;
        self.pool.give(table);
        end
    }

    fn pieces(&mut self, table: &mut Table) -> Result<()> {
        let code = &self.l.code;
        let mut budget = PROGRESS_INTERVAL;
        // The transition that was replayed or found last, and whether a jump followed; its last bundle, and whether its branch was taken.
        let (mut before, mut went) = ((NONE, 0), (0, false));
        loop {
            if self.pc as usize >= code.heads.len() {
                self.pc -= 1;
                return Err(FaultKind::EndOfCode);
            }
            let known = self.follower(table, before);
            let (link, did) = match known {
                NONE => match self.piece(table, before, went)? {
                    Did::Piece(taken, id, branches) => (NONE, Some((taken, id, branches))),
                    Did::Asked(link) => (link, None),
                },
                known => (self.linked(table, (before.0, went.0, went.1), known), None),
            };
            let (taken, id, branches) = if let Some((taken, id, branches)) = did {
                if id != NONE && before.0 != NONE {
                    table.transitions[before.0 as usize].next[before.1] = id;
                }
                (taken, id, branches)
            } else if link != NONE {
                match self.replay_links(table, link)? {
                    Left::Behind { taken, id, branches } => (taken, id, branches),
                    Left::Before { id, from, taken } => {
                        (before, went) = ((id, usize::from(self.pc != from + 1)), (from, taken));
                        continue;
                    }
                }
            } else {
                let (taken, branches) = self.replay::<false>(table, known)?;
                (taken, known, branches)
            };
            let from = self.pc;
            went = (from, taken.is_some());
            if !branches {
                self.pc += 1;
                before = (id, 0);
                continue;
            }
            if !self.branch(taken)? {
                return self.halt();
            }
            before = (id, (self.pc != from + 1) as usize);
            if self.pc <= from {
                self.back_edge(from, Some(table));
                if id != NONE {
                    self.roll(table, id);
                }
            }
            if self.now >= self.next_sample {
                self.sample_replayed(table)?;
            }
            self.within_limits(&mut budget)?;
        }
    }
}

impl Core<'_> {
    /// [`Core::sample`] of what was replayed too.
    #[inline(never)]
    pub(super) fn sample_replayed(&mut self, table: &mut Table) -> Result<()> {
        let details = self.observer.wants_details();
        if details {
            table.settle(&mut self.stats, &mut self.mxus);
        } else {
            table.show(&mut self.stats, &self.l.code);
        }
        self.sample(details)
    }

    /// The transition that followed the last time, if it is the one that follows now and nothing else is to be asked: else none.
    #[inline(always)]
    fn follower(&self, table: &Table, before: (u32, usize)) -> u32 {
        let Some(last) = table.transitions.get(before.0 as usize) else { return NONE };
        let id = last.next[before.1];
        let Some(t) = table.transitions.get(id as usize) else { return NONE };
        let p = &table.pieces[t.piece as usize];
        let here = p.simple && p.first == self.pc && p.rest == 0;
        let same = t.body == self.body && t.floor as u64 == self.floor - (self.now << 4);
        if here && same && !self.tracing() { id } else { NONE }
    }

    /// Does rounds of a loop at once whose body begins as it did just now: all but the last, or as many as end before somebody is to be
    /// told or the run is cut off.
    #[inline(always)]
    fn roll(&mut self, table: &mut Table, id: u32) {
        let t = &table.transitions[id as usize];
        let p = &table.pieces[t.piece as usize];
        let again = self.body == t.body && u64::from(t.floor) == self.floor - (self.now << 4);
        if p.rolls != 0 && p.first == self.pc && again && !self.tracing() {
            self.rounds_of(table, id);
        }
    }

    fn rounds_of(&mut self, table: &mut Table, id: u32) {
        let Table { pieces, transitions, steps, stalls, dirty, .. } = table;
        let t = &mut transitions[id as usize];
        let p = &mut pieces[t.piece as usize];
        let Branch::Loop { reg, .. } = self.l.code.branches[p.last as usize] else { return };
        let steps = &steps[p.steps as usize..p.end as usize];
        let rounds = self.scalars_of_rounds(steps, (reg, p.rolls), u64::from(t.duration));
        if rounds == 0 {
            return;
        }
        if t.pending == 0 {
            dirty.push(id);
        }
        t.pending += rounds;
        p.credit += i64::from(p.last - p.first) * rounds as i64;
        for &(cause, cycles) in &stalls[t.stalls as usize..][..t.nstalls as usize] {
            self.stats.op_stall(cause, u64::from(cycles) * rounds);
        }
        self.stats.rounds(p.first, p.last, rounds);
        self.shift_issue(rounds * u64::from(t.duration));
        self.fresh = false;
        self.rolled(p.last);
    }

    /// Rounds of the loop whose branch this is were done at once.
    pub(super) fn rolled(&mut self, branch: u32) {
        if let Some(skipper) = &mut self.skipper {
            // There is nothing left to skip.
            skipper.fail(branch);
        }
    }

    /// Does the scalars of rounds of a counted loop at once, of which each takes `duration` and has these steps, counts in a register and
    /// moves others: how many, none if it is not worth it.
    pub(super) fn scalars_of_rounds(&mut self, steps: &[Step], (counter, rolls): (u8, u64), duration: u64) -> u64 {
        if self.known >> (counter & 63) & 1 == 0 {
            return 0;
        }
        let left = (self.scalars[counter as usize & (SCALARS - 1)] as u32).wrapping_sub(1);
        let most = self.rounds_end().saturating_sub(self.now + 1) / duration.max(1);
        let rounds = u64::from(left).min(most).min(PROGRESS_INTERVAL);
        if rounds < 2 {
            return 0;
        }
        let before = self.scalars;
        self.scalars_of_round(steps, counter);
        let mut moving = rolls;
        while moving != 0 {
            let r = moving.trailing_zeros() as usize & (SCALARS - 1);
            moving &= moving - 1;
            let step = self.scalars[r].wrapping_sub(before[r]);
            self.scalars[r] = self.scalars[r].wrapping_add(step.wrapping_mul((rounds - 2) as i32));
        }
        self.scalars_of_round(steps, counter);
        rounds
    }

    /// The scalars of a round of a counted loop that is not the last.
    fn scalars_of_round(&mut self, steps: &[Step], counter: u8) {
        for step in steps {
            if let Step::Scalar(s) = step
                && let ScalarKind::Pure(f) = s.kind
            {
                let get = |r: u8| self.scalars[r as usize & (SCALARS - 1)];
                let value = scalar::execute(f, get(s.a), get(s.b), get(s.c), s.imm);
                self.write_scalar(s.d, value, s.sources() & !self.known == 0);
            }
        }
        let at = counter as usize & (SCALARS - 1);
        self.scalars[at] = self.scalars[at].wrapping_sub(1);
    }

    /// Does the piece that begins here in the way that is found for it.
    fn piece(&mut self, table: &mut Table, before: (u32, usize), went: (u32, bool)) -> Result<Did> {
        let number = table.piece(&self.l.code, self.pc);
        let p = table.pieces[number as usize];
        if p.flags & FLAG_OP != 0 {
            self.enter_op(self.next);
        }
        if p.flags & FLAG_BLOCK != 0 {
            self.enter_block();
        }
        let (taken, id) = match self.way(table, number, &p, before)? {
            Way::Replay(id) | Way::Met(id) if self.tracing() => (self.replay::<true>(table, id)?.0, id),
            Way::Replay(id) => {
                if p.waits && p.nrows == 0 {
                    let link = table.link(&self.l.code, id, self.bubble);
                    if link != NONE {
                        if let Some(last) = table.transitions.get_mut(before.0 as usize) {
                            last.next[before.1] = id;
                        }
                        self.waited_in(table, id);
                        return Ok(Did::Asked(link));
                    }
                }
                (self.replay::<false>(table, id)?.0, id)
            }
            Way::Met(id) => {
                if p.flags & (FLAG_OP | FLAG_BLOCK) == 0 && p.nrows == 0 {
                    self.make_link(table, (before.0, went.0, went.1), (id, p.first));
                }
                (self.replay::<false>(table, id)?.0, id)
            }
            Way::Find { floor, rows } => self.find(table, number, &p, floor, rows)?,
            Way::Plain => {
                if self.body != NONE {
                    self.refresh(table);
                    self.body = NONE;
                }
                (self.straight(&p, |_, _| {})?, NONE)
            }
        };
        Ok(Did::Piece(taken, id, p.branches))
    }

    /// A transition is about to be replayed by its link: what its wait took of others' time.
    fn waited_in(&mut self, table: &Table, id: u32) {
        let t = &table.transitions[id as usize];
        for &(cause, cycles) in &table.stalls[t.stalls as usize..][..t.nstalls as usize] {
            // Only a piece's first bundle waits.
            self.waited_for_others(cause, self.next, self.next + cycles as u64);
        }
    }

    /// Whether a piece is replayed; what is not known of the state and of the piece's begin is found out.
    #[inline(always)]
    fn way(&mut self, table: &mut Table, number: u32, p: &Piece, before: (u32, usize)) -> Result<Way> {
        if p.barrier || p.waits && p.looks {
            return Ok(Way::Plain);
        }
        if p.rest > 0 {
            table.pieces[number as usize].rest -= 1;
            return Ok(Way::Plain);
        }
        if self.body == NONE && !self.number(table, number) {
            return Ok(Way::Plain);
        }
        let base = self.now << 4;
        let floor = self.floor - base;
        let rows = if p.nrows == 0 { 0 } else { self.rows(table, p) };
        let hint = table.transitions.get(before.0 as usize).map_or(NONE, |t| t.next[before.1]);
        if floor <= (CLEAR as u64) << 4 && !p.waits {
            let key = (number, self.body, floor as u32, rows);
            let id = if p.known { table.find(key, hint) } else { NONE };
            if p.looks {
                let first = self.first(table, p, id, key, base);
                self.look(first >> 4)?;
            }
            return Ok(if id == NONE { Way::Find { floor: floor as u32, rows } } else { Way::Replay(id) });
        }
        self.late(table, number, p, floor, rows, hint)
    }

    /// [`Core::way`] of a piece that waits, or that cannot begin for long.
    fn late(&mut self, table: &mut Table, number: u32, p: &Piece, floor: u64, rows: u32, hint: u32) -> Result<Way> {
        let base = self.now << 4;
        let mut floor = floor;
        if floor > u32::MAX as u64 / 4 {
            return Ok(Way::Plain);
        }
        if p.waits {
            let end = self.wait_time(&self.l.code.heads[p.first as usize])?;
            let key = (number, self.body, floor as u32, rows);
            let id = table.find(key, hint);
            if end <= self.first(table, p, id, key, base) {
                return Ok(if id == NONE { Way::Find { floor: floor as u32, rows } } else { Way::Met(id) });
            }
            floor = floor.max(end - base);
        }
        // Behind everything that is under way, a later begin only moves what follows.
        let clear = table.horizon(self.body).max(CLEAR) as u64;
        let delay = (floor >> 4).saturating_sub(clear);
        let begin = if delay > 0 { clear << 4 | floor & 15 } else { floor };
        if begin > u32::MAX as u64 / 4 {
            return Ok(Way::Plain);
        }
        let key = (number, self.body, begin as u32, rows);
        let id = table.find(key, hint);
        if id == NONE {
            self.refresh(table);
            if self.earliest(&self.l.code.heads[p.first as usize]) == NEVER {
                return Ok(Way::Plain);
            }
        }
        if p.looks {
            let first = if delay > 0 { base + floor } else { self.first(table, p, id, key, base) };
            self.look(first >> 4)?;
        }
        if delay > 0 {
            self.delay(p.first, Cause::from_code(floor & 15), delay);
        }
        Ok(if id == NONE { Way::Find { floor: begin as u32, rows } } else { Way::Replay(id) })
    }

    /// Nothing issues for `cycles` more than the state tells, and nothing is under way in them.
    fn delay(&mut self, bundle: u32, cause: Cause, cycles: u64) {
        self.stats.stall(bundle as usize, cause, cycles);
        self.waited_for_others(cause, self.next, self.next + cycles);
        self.stats.mxus_stall(cause, cycles);
        self.now += cycles;
        self.next += cycles;
        self.fresh = false;
    }

    /// Gives the present state a number; `false` if it cannot have one.
    fn number(&mut self, table: &mut Table, piece: u32) -> bool {
        table.charge(piece, NUMBERING, &mut self.stats);
        self.body = self.interned(table);
        self.body != NONE
    }

    /// The number of the present state, if it may have one.
    pub(in super::super) fn interned(&mut self, table: &mut Table) -> u32 {
        if self.body != NONE || table.logs > 0 && table.is_full() {
            return self.body;
        }
        let mut words = std::mem::take(&mut table.scratch);
        let horizon = self.capture(&table.used, &mut words);
        table.scratch = words;
        horizon.map_or(NONE, |h| table.intern(h))
    }

    /// The number of the accumulator rows that a piece names.
    fn rows(&mut self, table: &mut Table, p: &Piece) -> u32 {
        table.scratch.clear();
        for i in p.rows..p.rows + p.nrows {
            let row = self.scalar_value(table.row_registers[i as usize]).0;
            table.scratch.push(row as u32);
        }
        table.intern(0)
    }

    /// When the first bundle of a piece may issue by itself.
    fn first(&mut self, table: &mut Table, p: &Piece, id: u32, key: Key, base: Packed) -> Packed {
        if let Some(t) = table.transitions.get(id as usize) {
            return base + t.first as u64;
        }
        if let Some(first) = table.firsts.get(&key) {
            return base + first;
        }
        self.refresh(table);
        let first = self.earliest(&self.l.code.heads[p.first as usize]);
        if first != NEVER {
            table.firsts.insert(key, first - base);
        }
        first
    }

    /// Does a piece as it was done before: where its branch goes, and whether it ends in one. `TRACE`: and tells the trace of it.
    #[inline(always)]
    fn replay<const TRACE: bool>(&mut self, table: &mut Table, id: u32) -> Result<(Option<u32>, bool)> {
        let Table { pieces, transitions, steps, offsets, stalls, dirty, row_registers, .. } = table;
        let t = &mut transitions[id as usize];
        if t.pending == 0 {
            dirty.push(id);
        }
        t.pending += 1;
        let p = &mut pieces[t.piece as usize];
        p.credit += (p.last - p.first) as i64;
        if t.nstalls > 0 {
            for &(cause, cycles) in &stalls[t.stalls as usize..][..t.nstalls as usize] {
                self.stats.op_stall(cause, cycles as u64);
                // Only a piece's first bundle waits.
                self.waited_for_others(cause, self.next, self.next + cycles as u64);
            }
        }
        if TRACE {
            self.trace(|t, _| {
                t.rows(&row_registers[p.rows as usize..][..p.nrows as usize]);
                t.broken |= p.looks;
            });
        }
        let base = self.now;
        let mut offset = t.offsets as usize;
        if p.steps != p.tail {
            self.steps::<TRACE>(&steps[p.steps as usize..p.tail as usize], base, offsets, &mut offset)?;
        }
        self.now = base + t.duration as u64;
        self.next = self.now + 1;
        self.floor = (self.now << 4) + t.exit_floor as u64;
        self.body = t.exit;
        self.fresh = false;
        self.pc = p.last;
        if !p.branches {
            return Ok((None, false));
        }
        let taken = self.decide()?;
        if TRACE {
            let pc = self.pc;
            self.trace(|t, core| t.branch(pc, &core.code.branches[pc as usize], core.known));
        }
        if p.tail != p.end {
            self.steps::<TRACE>(&steps[p.tail as usize..p.end as usize], base, offsets, &mut offset)?;
        }
        Ok((taken, true))
    }

    /// Does steps of a replay that began behind cycle `base`.
    #[inline(always)]
    pub(super) fn steps<const TRACE: bool>(
        &mut self,
        steps: &[Step],
        base: u64,
        offsets: &[u32],
        offset: &mut usize,
    ) -> Result<()> {
        for &step in steps {
            if TRACE {
                self.trace_step(step);
            }
            self.step(step, base, offsets, offset)?;
        }
        Ok(())
    }

    fn trace(&mut self, tell: impl FnOnce(&mut Trace, &Seen<'_>)) {
        let seen = Seen { code: &self.l.code, geometry: &self.l.geometry, scalars: &self.scalars, known: self.known };
        if let Some(t) = self.skipper.as_mut().and_then(|s| s.trace.as_mut()) {
            tell(t, &seen);
        }
    }

    /// Tells the trace of a step that is about to be done.
    fn trace_step(&mut self, step: Step) {
        self.trace(|t, core| match step {
            Step::Scalar(s) => t.scalars(&[s], core.scalars),
            Step::Parallel { bundle } => t.scalars(core.code.timed(&core.code.heads[bundle as usize]), core.scalars),
            Step::At { .. } => {}
            Step::Waits { bundle } => {
                let head = &core.code.heads[bundle as usize];
                let specials = &core.code.specials[head.specials as usize..][..head.nspecials as usize];
                specials.iter().for_each(|s| t.special(s, core.code, core.geometry));
            }
            Step::Transfer { start } => t.special(&Special::DmaStart { start }, core.code, core.geometry),
            Step::Remote { .. } | Step::Signal { .. } => t.broken = true,
        });
    }

    #[inline(always)]
    fn step(&mut self, step: Step, base: u64, offsets: &[u32], offset: &mut usize) -> Result<()> {
        match step {
            Step::Scalar(s) => {
                let (value, known) = self.scalar::<false>(&s)?;
                self.write_scalar(s.d, value, known);
                Ok(())
            }
            Step::Parallel { bundle } => {
                let code = &self.l.code;
                self.scalar_ops::<false>(&code.heads[bundle as usize])
            }
            Step::At { bundle } | Step::Waits { bundle } => {
                self.pc = bundle;
                self.now = base + offsets[*offset] as u64;
                *offset += 1;
                if matches!(step, Step::Waits { .. }) {
                    let code = &self.l.code;
                    self.take_waits(&code.heads[bundle as usize]);
                }
                Ok(())
            }
            Step::Transfer { start } => self.start_dma(start),
            Step::Remote { start } => self.start_remote(start),
            Step::Signal { device, sem, count } => self.signal(device, sem, count),
        }
    }
}

impl Table {
    /// Takes a cost from a piece's credit; pieces in debt rest.
    pub(super) fn charge(&mut self, piece: u32, cost: i64, stats: &mut Collector) {
        let p = &mut self.pieces[piece as usize];
        p.credit = p.credit.min(-DEBT) - cost;
        if p.credit >= DEBT {
            return;
        }
        // What links saved is not in it yet.
        self.unlink(stats);
        let p = &mut self.pieces[piece as usize];
        if p.credit < DEBT {
            p.rest = 1 << (REST + p.demoted as u32).min(LONGEST_REST);
            p.demoted = p.demoted.saturating_add(1);
            p.credit = DEBT / 2;
        }
    }
}
