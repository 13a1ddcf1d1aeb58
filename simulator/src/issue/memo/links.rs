//! Transitions that followed each other, linked: replayed one behind the other, and nothing asked between them but where branches go.
//!
//! The state behind a transition and whether its branch is taken are all that decides the next one. So where one followed another
//! once it always does, and links are left only where a branch goes as it never went so far. What is linked is code of one operation
//! and one block. Where the round of a loop follows itself links are left: its rounds are replayed at once.

use super::super::code::*;
use super::super::run::{Core, SCALARS, Step as Result};
use super::pieces::Step;
use super::table::{NONE, Table};
use crate::stats::Cause;
use crate::unit::scalar;

/// Times that a transition is replayed alone before it is linked.
const ALONE: u8 = 2;
/// Most links, and most that are replayed before somebody else is asked.
const MOST: usize = 1 << 18;
const LONGEST: u32 = 1 << 14;

/// A transition, with all that a replay asks of it and of its piece.
#[derive(Clone, Copy, Debug)]
struct Link {
    id: u32,
    last: u32,
    branches: bool,
    asks: Asks,
    /// Where its branch goes if it is taken.
    target: u32,
    /// The counter of a counted loop's branch; else register zero, which does not count.
    counter: u8,
    /// Its steps compute scalars from scalars.
    pure: bool,
    /// It is the round of a loop whose rounds are replayed at once: it does not link to itself.
    rolls: bool,
    steps: u32,
    tail: u32,
    end: u32,
    offsets: u32,
    stalls: u32,
    nstalls: u32,
    duration: u32,
    exit: u32,
    exit_floor: u32,
    /// The link that follows where its branch is not taken, and where it is.
    next: [u32; 2],
    /// Replays that its transition does not know yet.
    pending: u64,
}

/// A branch is taken if a register, which must be known, holds a value or, if not `equal`, another.
#[derive(Clone, Copy, Debug)]
struct Asks {
    register: u8,
    equal: bool,
    value: i32,
}

impl Asks {
    /// What decides whether a piece's branch is taken.
    fn of(branch: Option<Branch>) -> Asks {
        let (register, value, equal) = match branch {
            Some(Branch::NotZero { reg, .. }) => (reg, 0, false),
            Some(Branch::Zero { reg, .. }) => (reg, 0, true),
            Some(Branch::Loop { reg, .. }) => (reg, 1, false),
            // Register zero holds zero.
            Some(Branch::Jump { .. } | Branch::Call { .. }) => (0, 0, true),
            Some(Branch::Return | Branch::Halt | Branch::Trap { .. } | Branch::Host { .. }) | None => (0, 0, false),
        };
        Asks { register, equal, value }
    }
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    all: Vec<Link>,
    /// Those with pending replays.
    dirty: Vec<u32>,
}

impl Links {
    pub fn clear(&mut self) {
        self.all.clear();
        self.dirty.clear();
    }
}

impl Table {
    /// The link of a transition, made if it was replayed often enough; else none.
    fn link(&mut self, code: &Code, id: u32) -> u32 {
        let t = &mut self.transitions[id as usize];
        if t.link != NONE || self.links.all.len() > MOST {
            return t.link;
        }
        t.alone = t.alone.saturating_add(1);
        let stalls = &self.stalls[t.stalls as usize..][..t.nstalls as usize];
        if t.alone < ALONE || stalls.iter().any(|s| s.0 == Cause::Link) {
            return NONE;
        }
        let p = &self.pieces[t.piece as usize];
        let branch = p.branches.then(|| code.branches[p.last as usize]);
        let steps = &self.steps[p.steps as usize..p.end as usize];
        let pure = |s: &Step| matches!(s, Step::Scalar(s) if matches!(s.kind, ScalarKind::Pure(_)));
        t.link = self.links.all.len() as u32;
        self.links.all.push(Link {
            id,
            last: p.last,
            branches: p.branches,
            asks: Asks::of(branch),
            target: branch.and_then(Branch::target).unwrap_or(NONE),
            counter: if let Some(Branch::Loop { reg, .. }) = branch { reg } else { 0 },
            pure: steps.iter().all(pure),
            rolls: p.rolls != 0,
            steps: p.steps,
            tail: p.tail,
            end: p.end,
            offsets: t.offsets,
            stalls: t.stalls,
            nstalls: t.nstalls,
            duration: t.duration,
            exit: t.exit,
            exit_floor: t.exit_floor,
            next: [NONE; 2],
            pending: 0,
        });
        t.link
    }

    /// What was replayed by links is pending at their transitions.
    pub(super) fn unlink(&mut self) {
        let Table { links, transitions, pieces, dirty, .. } = self;
        for link in links.dirty.drain(..) {
            let link = &mut links.all[link as usize];
            let times = std::mem::take(&mut link.pending);
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

impl Core<'_> {
    /// A transition that is known follows another one, behind whose last bundle the branch was `taken` or not: the link of the one that
    /// follows, if there is one.
    #[inline(always)]
    pub(super) fn linked(&self, table: &mut Table, (before, from, taken): (u32, u32, bool), id: u32) -> u32 {
        let link = table.transitions[id as usize].link;
        let last = table.links.all.get(table.transitions[before as usize].link as usize);
        let left = |l: &Link| l.next[usize::from(taken)] != NONE || l.rolls && before == id;
        let made = link != NONE && last.is_none_or(left);
        if made { link } else { self.make_link(table, (before, from, taken), id) }
    }

    #[inline(never)]
    fn make_link(&self, table: &mut Table, (before, from, taken): (u32, u32, bool), id: u32) -> u32 {
        let link = table.link(&self.l.code, id);
        let last = table.transitions[before as usize].link;
        let rolls = before == id && table.links.all.get(link as usize).is_some_and(|l| l.rolls);
        if link != NONE && last != NONE && !rolls && self.goes_on(from) {
            table.links.all[last as usize].next[usize::from(taken)] = link;
        }
        link
    }

    /// Replays a link and those that follow, up to where somebody else is to be asked: where the branch of the last transition goes,
    /// that transition, and whether it ends in a branch.
    #[inline(never)]
    pub(super) fn replay_links(&mut self, table: &mut Table, first: u32) -> Result<(Option<u32>, u32, bool)> {
        let Table { links, steps, offsets, stalls, .. } = table;
        let Links { all, dirty } = links;
        let end = self.next_sample.min(self.options.max_cycles);
        let (mut at, mut left) = (first, LONGEST);
        loop {
            let link = &mut all[at as usize];
            if link.pending == 0 {
                dirty.push(at);
            }
            link.pending += 1;
            for &(cause, cycles) in &stalls[link.stalls as usize..][..link.nstalls as usize] {
                self.stats.op_stall(cause, u64::from(cycles));
            }
            let (base, mut offset) = (self.now, link.offsets as usize);
            if link.steps != link.tail {
                let steps = &steps[link.steps as usize..link.tail as usize];
                self.link_steps(link.pure, steps, base, (offsets, &mut offset))?;
            }
            self.now = base + u64::from(link.duration);
            let (known, taken) = self.is_taken(link.asks);
            let next = if known { link.next[usize::from(taken)] } else { NONE };
            left -= 1;
            let told = next == NONE || left == 0 || link.branches && self.now >= end;
            let leaves = told || taken && link.target <= link.last && !self.passes(link.last);
            let mut goes = None;
            if leaves {
                self.next = self.now + 1;
                self.floor = (self.now << 4) + u64::from(link.exit_floor);
                self.pc = link.last;
                goes = if link.branches { self.decide()? } else { None };
            }
            if link.tail != link.end {
                let steps = &steps[link.tail as usize..link.end as usize];
                self.link_steps(link.pure, steps, base, (offsets, &mut offset))?;
            }
            if leaves {
                self.body = link.exit;
                self.fresh = false;
                return Ok((goes, link.id, link.branches));
            }
            let counter = link.counter as usize & (SCALARS - 1);
            self.scalars[counter] = self.scalars[counter].wrapping_sub(i32::from(counter != 0));
            if taken {
                self.stats.jump(link.last, link.target);
            }
            at = next;
        }
    }

    /// Whether what decides a branch is known, and whether the branch is taken.
    #[inline(always)]
    fn is_taken(&self, Asks { register, equal, value }: Asks) -> (bool, bool) {
        let known = self.known >> (register & 63) & 1 == 1;
        (known, (self.scalars[register as usize & (SCALARS - 1)] == value) == equal)
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

    /// Whether the core went on behind a bundle in what may be linked.
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
