//! Transitions that followed each other: replayed one after the other, and nothing asked between them but where branches go.
//!
//! The state behind a transition and the way that its branch goes are all that decides the next one, so a chain of transitions is
//! left only where a branch goes another way than when the chain was made. No transition is twice in a chain; behind the last one the
//! first may follow again. All of a chain is code of one operation and one block.

use super::super::code::*;
use super::super::run::{Core, SCALARS, Step as Result};
use super::pieces::Step;
use super::table::{NONE, Table};
use crate::stats::Cause;
use crate::unit::scalar;

/// Times that a transition is replayed alone before what follows it is looked at.
const ALONE: u8 = 4;
/// Most transitions of a chain, and of all chains.
const LONGEST: usize = 64;
const MOST_LINKS: usize = 1 << 18;
/// Most times that a chain follows itself.
const MOST_ROUNDS: u64 = 1 << 12;

/// A transition of a chain, with all that a replay asks of it and of its piece.
#[derive(Clone, Copy, Debug)]
struct Link {
    id: u32,
    last: u32,
    branches: bool,
    /// Where its branch goes; none for the next bundle.
    goes: u32,
    asks: Asks,
    /// The counter of a counted loop's branch; else register zero, which does not count.
    counter: u8,
    /// Its steps compute scalars from scalars.
    pure: bool,
    steps: u32,
    tail: u32,
    end: u32,
    offsets: u32,
    stalls: u32,
    nstalls: u32,
    duration: u32,
    exit: u32,
    exit_floor: u32,
    /// Times that the chain was left behind it, which its transitions do not know yet.
    left: u64,
}

/// A branch goes where it went if a register is known and holds a value or, if not `equal`, another.
#[derive(Clone, Copy, Debug)]
struct Asks {
    register: u8,
    equal: bool,
    value: i32,
}

impl Asks {
    /// What decides that a piece's branch goes where it went.
    fn of(branch: Option<Branch>, taken: bool) -> Asks {
        let (register, value, equal) = match branch {
            Some(Branch::NotZero { reg, .. }) => (reg, 0, !taken),
            Some(Branch::Zero { reg, .. }) => (reg, 0, taken),
            Some(Branch::Loop { reg, .. }) => (reg, 1, !taken),
            // Register zero holds zero.
            Some(Branch::Jump { .. } | Branch::Call { .. } | Branch::Return | Branch::Halt) | None => (0, 0, true),
            Some(Branch::Trap { .. } | Branch::Host { .. }) => (0, 0, true),
        };
        Asks { register, equal, value }
    }
}

/// Where a chain's links begin and end, whether its first follows its last, and how long it takes.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    end: u32,
    again: bool,
    duration: u64,
    /// Some link was left.
    dirty: bool,
}

/// All chains.
#[derive(Debug, Default)]
pub(super) struct Chains {
    links: Vec<Link>,
    chains: Vec<Chain>,
    /// Chains with links that were left.
    dirty: Vec<u32>,
}

impl Chains {
    pub fn clear(&mut self) {
        self.links.clear();
        self.chains.clear();
        self.dirty.clear();
    }
}

/// Transitions that were replayed one behind the other, each with where its branch went.
#[derive(Debug, Default)]
pub(super) struct Trail(Vec<(u32, u32)>);

impl Trail {
    /// Nothing follows, or the first again: what there is becomes a chain.
    pub fn end(&mut self, code: &Code, table: &mut Table, again: bool) {
        if !self.0.is_empty() {
            table.chain(code, &self.0, again);
            self.0.clear();
        }
    }
}

impl Table {
    /// Makes a chain of transitions; `again`: the first follows the last.
    fn chain(&mut self, code: &Code, trail: &[(u32, u32)], again: bool) {
        let head = trail[0].0 as usize;
        self.transitions[head].alone = 0;
        let for_others = |id: u32| {
            let t = &self.transitions[id as usize];
            self.stalls[t.stalls as usize..][..t.nstalls as usize].iter().any(|s| s.0 == Cause::Link)
        };
        let all = &mut self.chains;
        let short = trail.len() < 2 && !again;
        if short || all.links.len() > MOST_LINKS || trail.iter().any(|l| for_others(l.0)) {
            return;
        }
        let first = all.links.len() as u32;
        all.links.extend(trail.iter().map(|&(id, goes)| {
            let t = &self.transitions[id as usize];
            let p = &self.pieces[t.piece as usize];
            let branch = p.branches.then(|| code.branches[p.last as usize]);
            let counter = if let Some(Branch::Loop { reg, .. }) = branch { reg } else { 0 };
            let steps = &self.steps[p.steps as usize..p.end as usize];
            let pure = |s: &Step| matches!(s, Step::Scalar(s) if matches!(s.kind, ScalarKind::Pure(_)));
            Link {
                id,
                asks: Asks::of(branch, goes != NONE),
                counter,
                pure: steps.iter().all(pure),
                last: p.last,
                branches: p.branches,
                goes,
                steps: p.steps,
                tail: p.tail,
                end: p.end,
                offsets: t.offsets,
                stalls: t.stalls,
                nstalls: t.nstalls,
                duration: t.duration,
                exit: t.exit,
                exit_floor: t.exit_floor,
                left: 0,
            }
        }));
        let duration = all.links[first as usize..].iter().map(|l| u64::from(l.duration)).sum();
        self.transitions[head].chain = all.chains.len() as u32;
        all.chains.push(Chain { first, end: all.links.len() as u32, again, duration, dirty: false });
    }

    /// What was replayed in chains is pending at its transitions.
    pub(super) fn unchain(&mut self) {
        let Table { chains, transitions, pieces, dirty, .. } = self;
        for chain in chains.dirty.drain(..) {
            let c = &mut chains.chains[chain as usize];
            c.dirty = false;
            let mut times = 0;
            for link in chains.links[c.first as usize..c.end as usize].iter_mut().rev() {
                times += std::mem::take(&mut link.left);
                if times > 0 {
                    let t = &mut transitions[link.id as usize];
                    if t.pending == 0 {
                        dirty.push(link.id);
                    }
                    t.pending += times;
                    let p = &mut pieces[t.piece as usize];
                    p.credit += i64::from(p.last - p.first) * times as i64;
                }
            }
        }
    }
}

impl Core<'_> {
    /// The chain that begins with a transition, if all of it ends before somebody is to be told or the run is cut off: else none.
    #[inline(always)]
    pub(super) fn chain_of(&self, table: &Table, id: u32) -> u32 {
        let number = table.transitions[id as usize].chain;
        match table.chains.chains.get(number as usize) {
            Some(c) if self.now + c.duration < self.next_sample.min(self.options.max_cycles) => number,
            Some(_) | None => NONE,
        }
    }

    /// Replays a chain up to its end or to where a branch goes another way: where the branch of the last transition goes, that
    /// transition, and whether it ends in a branch.
    #[inline(never)]
    pub(super) fn replay_chain(&mut self, table: &mut Table, number: u32) -> Result<(Option<u32>, u32, bool)> {
        let Table { chains, steps, offsets, stalls, .. } = table;
        let c = &mut chains.chains[number as usize];
        let links = &mut chains.links[c.first as usize..c.end as usize];
        if !std::mem::replace(&mut c.dirty, true) {
            chains.dirty.push(number);
        }
        let (again, duration) = (c.again, c.duration);
        let end = self.next_sample.min(self.options.max_cycles);
        let (most, mut rounds, mut i) = (links.len() - 1, 0, 0);
        loop {
            let link = &links[i];
            for &(cause, cycles) in &stalls[link.stalls as usize..][..link.nstalls as usize] {
                self.stats.op_stall(cause, u64::from(cycles));
            }
            let (base, mut offset) = (self.now, link.offsets as usize);
            if link.steps != link.tail {
                let steps = &steps[link.steps as usize..link.tail as usize];
                self.link_steps(link.pure, steps, base, (offsets, &mut offset))?;
            }
            self.now = base + u64::from(link.duration);
            let last = i == most && !(again && rounds < MOST_ROUNDS && self.now + duration < end);
            let left = last || !self.goes_so(link.asks) || link.goes <= link.last && !self.passes(link.last);
            let mut taken = None;
            if left {
                self.next = self.now + 1;
                self.floor = (self.now << 4) + u64::from(link.exit_floor);
                self.pc = link.last;
                taken = if link.branches { self.decide()? } else { None };
            }
            if link.tail != link.end {
                let steps = &steps[link.tail as usize..link.end as usize];
                self.link_steps(link.pure, steps, base, (offsets, &mut offset))?;
            }
            if left {
                self.body = link.exit;
                self.fresh = false;
                let left = (taken, link.id, link.branches);
                links[i].left += 1;
                links[most].left += rounds;
                return Ok(left);
            }
            let counter = link.counter as usize & (SCALARS - 1);
            self.scalars[counter] = self.scalars[counter].wrapping_sub(i32::from(counter != 0));
            if link.goes != NONE {
                self.stats.jump(link.last, link.goes);
            }
            (i, rounds) = if i == most { (0, rounds + 1) } else { (i + 1, rounds) };
        }
    }

    #[inline(always)]
    fn goes_so(&self, Asks { register, equal, value }: Asks) -> bool {
        let known = self.known >> (register & 63) & 1 == 1;
        known && (self.scalars[register as usize & (SCALARS - 1)] == value) == equal
    }

    /// [`Core::steps`], which are `pure` if they only compute scalars.
    #[inline(always)]
    fn link_steps(&mut self, pure: bool, steps: &[Step], base: u64, times: (&[u32], &mut usize)) -> Result<()> {
        if !pure || self.known != !0 {
            return self.steps::<false>(steps, base, times.0, times.1);
        }
        for step in steps {
            if let Step::Scalar(s) = step
                && let ScalarKind::Pure(f) = s.kind
            {
                let get = |r: u8| self.scalars[r as usize & (SCALARS - 1)];
                let value = scalar::execute(f, get(s.a), get(s.b), get(s.c), s.imm);
                self.scalars[s.d as usize & (SCALARS - 1)] = value;
                self.scalars[0] = 0;
            }
        }
        Ok(())
    }

    /// A transition was replayed alone, and the core is at what follows; `from`: its last bundle, `goes`: where its branch went.
    #[inline(always)]
    pub(super) fn followed(&self, table: &mut Table, trail: &mut Trail, id: u32, (from, goes): (u32, u32)) {
        if let Some(place) = trail.0.iter().position(|l| l.0 == id) {
            trail.end(&self.l.code, table, place == 0);
            return;
        }
        if trail.0.is_empty() {
            let t = &mut table.transitions[id as usize];
            t.alone = t.alone.saturating_add(1);
            if t.alone < ALONE {
                return;
            }
        }
        trail.0.push((id, goes));
        let rolls = table.pieces[table.transitions[id as usize].piece as usize].rolls != 0 && self.pc <= from;
        if trail.0.len() == LONGEST || rolls || !self.goes_on(from) {
            trail.end(&self.l.code, table, false);
        }
    }

    /// Whether the core went on behind a bundle in what a chain may have.
    fn goes_on(&self, from: u32) -> bool {
        let code = &self.l.code;
        let branches = code.heads[from as usize].flags & FLAG_BRANCH != 0;
        let inside = match code.branches[from as usize] {
            _ if !branches => true,
            Branch::Jump { .. } | Branch::NotZero { .. } | Branch::Zero { .. } | Branch::Loop { .. } => true,
            Branch::Call { .. } | Branch::Return | Branch::Halt | Branch::Trap { .. } | Branch::Host { .. } => false,
        };
        let same = |of: &[u32]| of.get(from as usize) == of.get(self.pc as usize);
        inside && same(&code.ops) && same(&code.blocks.of)
    }
}
