//! Transitions that followed each other, linked: replayed one behind the other, and nothing asked between them but where branches go.
//!
//! The state behind a transition and whether its branch is taken are all that decides the next one, but for transfers that a piece may
//! wait for. So where one followed another once it always does, and links are left only where a branch goes as it never went so far, or
//! where a wait holds a bundle up. What is linked is code of one operation and one block. Where the round of a loop follows itself its
//! rounds are replayed at once.
//!
//! What happens in a replay and what is counted are two things: a link counts its replays, and what they add to the counters is put
//! together when somebody asks for it, or when another operation's begin.

use super::super::code::*;
use super::super::run::{Core, SCALARS, Step as Result};
use super::laps::{Laps, Walk};
use super::pieces::Step;
use super::rows::Rows;
use super::table::{NONE, Table};
use crate::stats::{Cause, Collector};
use crate::unit::scalar;
use systole_isa::opcodes::ScalarFn;

/// Most links, and most that are replayed before somebody else is asked.
const MOST: usize = 1 << 18;
const LONGEST: u32 = 1 << 14;

/// A transition, with all that a replay asks of it and of its piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The link that follows where its branch is not taken, and where it is.
    next: [u32; 2],
    pub asks: Asks,
    /// Replays that its transition does not know yet, and others of which samples told.
    pub pending: u64,
    pub shown: u64,
    pub first: u32,
    pub last: u32,
    /// Cycles and bundles.
    pub duration: u32,
    pub bundles: u32,
    /// Where its branch goes if it is taken.
    target: u32,
    /// The counter of a counted loop's branch; else register zero, which does not count.
    pub counter: u8,
    branches: bool,
    /// Its first bundle waits for transfers.
    waits: bool,
    /// Its steps compute scalars from scalars: in [`Links::ops`] up to `tail` before the branch is decided, and behind that.
    pure: bool,
    ops: u32,
    ops_tail: u32,
    ops_end: u32,
    /// [`Piece::rolls`](super::pieces::Piece::rolls), if a round begins where the one before it ends.
    pub rolls: u64,
    pub id: u32,
    piece: u32,
    /// When its first bundle could issue by itself (packed).
    ready: u32,
    pub steps: u32,
    pub tail: u32,
    pub end: u32,
    pub offsets: u32,
    /// State and first ready time before it, and behind it.
    body: u32,
    floor: u32,
    exit: u32,
    exit_floor: u32,
    /// The rounds that begin with it, if they are looked at.
    pub loop_of: u32,
    /// What a replay adds for samples.
    pub row: u32,
}

impl Link {
    /// Whether its branch leads back.
    #[inline(always)]
    pub fn jumps_back(&self) -> bool {
        self.target <= self.last
    }
}

/// What a scalar instruction does that changes no more than a register other than register zero.
#[derive(Clone, Copy, Debug)]
struct Op {
    function: ScalarFn,
    d: u8,
    a: u8,
    b: u8,
    c: u8,
    imm: i32,
}

/// Appends the operations of steps that compute scalars from scalars; `false` if others are among them.
fn ops(steps: &[Step], all: &mut Vec<Op>) -> bool {
    steps.iter().all(|step| match *step {
        Step::Scalar(ScalarOp { kind: ScalarKind::Pure(function), d, a, b, c, imm }) => {
            if d != 0 {
                all.push(Op { function, d, a, b, c, imm });
            }
            true
        }
        Step::Scalar(_) | Step::Parallel { .. } | Step::At { .. } | Step::Waits { .. } => false,
        Step::Transfer { .. } | Step::Remote { .. } | Step::Signal { .. } => false,
    })
}

/// Where a replay of links ends.
pub(super) enum Left {
    /// Behind a transition, whose branch is still to be followed: where it goes, and whether there is one.
    Behind { taken: Option<u32>, id: u32, branches: bool },
    /// Where the next piece begins: the transition before it, its last bundle, and whether its branch was taken.
    Before { id: u32, from: u32, taken: bool },
}

/// A branch is taken if a register, which must be known, holds a value or, if not `equal`, another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
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

    /// Register, `equal` and value.
    pub fn parts(self) -> (u8, bool, i32) {
        (self.register, self.equal, self.value)
    }
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub all: Vec<Link>,
    ops: Vec<Op>,
    /// Those with pending replays, those with some that were shown, and whose they are: an operation in its place.
    pub dirty: Vec<u32>,
    pub shown: Vec<u32>,
    pub op: usize,
    pub laps: Laps,
    pub rows: Rows,
}

impl Links {
    /// None, with room for so many.
    pub fn new(room: usize) -> Links {
        Links { all: Vec::with_capacity(room), ..Links::default() }
    }

    pub fn link(&self, link: u32) -> &Link {
        &self.all[link as usize]
    }

    /// Rounds that begin with a link are looked at from now on, by a number.
    pub fn look_at(&mut self, link: u32, number: u32) {
        self.all[link as usize].loop_of = number;
    }

    /// A link was replayed so many times.
    pub fn add(&mut self, link: u32, times: u64) {
        let pending = &mut self.all[link as usize].pending;
        if *pending == 0 {
            self.dirty.push(link);
        }
        *pending += times;
    }

    /// [`Links::add`] of replays of which samples told.
    pub fn add_shown(&mut self, link: u32, times: u64) {
        let shown = &mut self.all[link as usize].shown;
        if *shown == 0 {
            self.shown.push(link);
        }
        *shown += times;
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.ops.clear();
        self.dirty.clear();
        self.laps.clear();
        self.rows.clear();
    }
}

impl Table {
    /// The link of a transition, made if there is none and may be more; else none. `bubble`: the first cycle behind a jump.
    pub(super) fn link(&mut self, code: &Code, id: u32, bubble: u64) -> u32 {
        let t = &mut self.transitions[id as usize];
        if t.link != NONE || self.links.all.len() > MOST {
            return t.link;
        }
        let p = &self.pieces[t.piece as usize];
        let branch = p.branches.then(|| code.branches[p.last as usize]);
        let again = u64::from(t.exit_floor).max(bubble << 4 | Cause::Fetch as u64) == u64::from(t.floor);
        t.link = self.links.all.len() as u32;
        let of_links = &mut self.links.ops;
        let begin = of_links.len();
        let before = ops(&self.steps[p.steps as usize..p.tail as usize], of_links);
        let tail = of_links.len();
        let pure = before && ops(&self.steps[p.tail as usize..p.end as usize], of_links);
        if !pure {
            of_links.truncate(begin);
        }
        let [ops, ops_tail, ops_end] = [begin, tail, of_links.len()].map(|n| n as u32);
        self.links.all.push(Link {
            next: [NONE; 2],
            asks: Asks::of(branch),
            pending: 0,
            shown: 0,
            first: p.first,
            last: p.last,
            duration: t.duration,
            bundles: p.last + 1 - p.first,
            target: branch.and_then(Branch::target).unwrap_or(NONE),
            counter: if let Some(Branch::Loop { reg, .. }) = branch { reg } else { 0 },
            branches: p.branches,
            waits: p.waits,
            pure,
            ops,
            ops_tail,
            ops_end,
            rolls: if again && t.exit == t.body { p.rolls } else { 0 },
            id,
            piece: t.piece,
            ready: t.first,
            steps: p.steps,
            tail: p.tail,
            end: p.end,
            offsets: t.offsets,
            body: t.body,
            floor: t.floor,
            exit: t.exit,
            exit_floor: t.exit_floor,
            loop_of: NONE,
            row: NONE,
        });
        t.link
    }

    /// What was replayed by links is written down, or counted.
    pub(super) fn unlink(&mut self, stats: &mut Collector) {
        let Table { links, pieces, log, .. } = self;
        links.add_laps();
        for at in links.shown.drain(..) {
            if links.all[at as usize].pending == 0 {
                links.dirty.push(at);
            }
        }
        for &link in &links.dirty {
            let link = &links.all[link as usize];
            pieces[link.piece as usize].credit +=
                i64::from(link.last - link.first) * (link.pending + link.shown) as i64;
        }
        let Some(log) = log else { return self.count_links(stats) };
        for link in links.dirty.drain(..) {
            log.link(link, links.op, std::mem::take(&mut links.all[link as usize].pending));
        }
    }

    /// What is pending at links is so at their transitions, and counted for its operation.
    pub(super) fn count_links(&mut self, stats: &mut Collector) {
        let Table { links, transitions, stalls, dirty, shown, .. } = self;
        for link in links.dirty.drain(..) {
            let link = &mut links.all[link as usize];
            let (pending, known) = (std::mem::take(&mut link.pending), std::mem::take(&mut link.shown));
            let t = &mut transitions[link.id as usize];
            for (list, sum, more) in [(&mut *dirty, &mut t.pending, pending), (&mut *shown, &mut t.shown, known)] {
                if *sum == 0 && more > 0 {
                    list.push(link.id);
                }
                *sum += more;
            }
            let times = pending + known;
            if pending > 0 {
                stats.live_run(link.first, link.last, pending);
            }
            stats.replayed(links.op, (link.first, link.last), times);
            for &(cause, cycles) in &stalls[t.stalls as usize..][..t.nstalls as usize] {
                stats.replayed_stall(links.op, cause, u64::from(cycles) * times);
            }
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
        let made = link != NONE && last.is_none_or(|l| l.next[usize::from(taken)] != NONE);
        if made { link } else { self.make_link(table, (before, from, taken), (id, self.pc)) }
    }

    /// [`Core::linked`] of one that is not linked yet, of the piece that begins at a bundle.
    #[inline(never)]
    pub(super) fn make_link(
        &self,
        table: &mut Table,
        (before, from, taken): (u32, u32, bool),
        (id, first): (u32, u32),
    ) -> u32 {
        let t = &table.transitions[id as usize];
        let stalls = &table.stalls[t.stalls as usize..][..t.nstalls as usize];
        if stalls.iter().any(|s| s.0 == Cause::Link) {
            // Who goes to it is to ask what of its wait was others' time.
            return NONE;
        }
        let link = table.link(&self.l.code, id, self.bubble);
        let Some(last) = table.transitions.get(before as usize).map(|t| t.link) else { return link };
        if link != NONE && last != NONE && self.goes_on(from, first) {
            table.links.all[last as usize].next[usize::from(taken)] = link;
        }
        link
    }

    /// Replays a link and those that follow, up to where somebody else is to be asked.
    #[inline(never)]
    pub(super) fn replay_links(&mut self, table: &mut Table, first: u32) -> Result<Left> {
        let place = self.stats.place();
        if table.links.op != place {
            if table.log.is_none() && self.stats.watched() {
                // As rows: by transition it takes longer to show.
                table.links.show(&table.details, &mut self.stats, &self.l.code);
            }
            table.unlink(&mut self.stats);
            table.links.op = place;
        }
        let mut end = self.next_sample;
        let (mut at, mut left) = (first, LONGEST);
        let (mut before, mut went) = (NONE, (NONE, false));
        self.stats.begin(table.links.all[at as usize].first);
        let (mut now, mut bundles) = (self.now, 0);
        table.links.laps.leave();
        loop {
            let Table { links, steps, offsets, .. } = &mut *table;
            let Links { all, ops, dirty, laps, .. } = &mut *links;
            let link = &mut all[at as usize];
            if link.waits && before != NONE {
                // Others may go on here later, if they are to send what is waited for.
                self.stats.began(link.first, std::mem::take(&mut bundles));
                if !self.met(link, now)? {
                    return Ok(Left::Before { id: before, from: went.0, taken: went.1 });
                }
            }
            if link.pending == 0 {
                dirty.push(at);
            }
            link.pending += 1;
            bundles += u64::from(link.bundles);
            let (base, mut offset) = (now, link.offsets as usize);
            let pure = link.pure && self.known == !0;
            if pure {
                self.compute_ops(&ops[link.ops as usize..link.ops_tail as usize]);
            } else {
                let steps = &steps[link.steps as usize..link.tail as usize];
                if !steps.is_empty() {
                    offset = self.link_steps(steps, base, (offsets, offset))?;
                }
            }
            now = base + u64::from(link.duration);
            let (known, taken) = self.is_taken(link.asks);
            let next = link.next[usize::from(taken)];
            left -= 1;
            let told = next == NONE || !known || left == 0 || now >= self.options.max_cycles;
            if told || taken && link.jumps_back() && !self.passes(link.last, 1) {
                self.now = now;
                let (id, branches, last) = (link.id, link.branches, link.last);
                self.leave(link.exit, link.exit_floor, last);
                let taken = if branches { self.decide()? } else { None };
                let steps = &steps[link.tail as usize..link.end as usize];
                self.link_steps(steps, base, (offsets, offset))?;
                self.stats.began(last + 1, bundles);
                return Ok(Left::Behind { taken, id, branches });
            }
            if pure {
                self.compute_ops(&ops[link.ops_tail as usize..link.ops_end as usize]);
            } else if link.tail != link.end {
                let steps = &steps[link.tail as usize..link.end as usize];
                self.link_steps(steps, base, (offsets, offset))?;
            }
            let counter = link.counter as usize & (SCALARS - 1);
            self.scalars[counter] = self.scalars[counter].wrapping_sub(i32::from(counter != 0));
            let mut rounds = 0;
            if taken && link.rolls != 0 {
                self.now = now;
                rounds = self.roll_link(link, &steps[link.steps as usize..link.end as usize]);
                now += rounds * u64::from(link.duration);
                bundles += rounds * u64::from(link.bundles);
            }
            (before, went) = (link.id, (link.last, taken));
            let jump = if taken && link.jumps_back() { link.last } else { NONE };
            laps.passed(at, rounds, taken);
            at = next;
            if link.branches && now >= end {
                (self.now, self.pc) = (now, all[at as usize].first);
                self.stats.began(self.pc, std::mem::take(&mut bundles));
                self.sample_replayed(table)?;
                end = self.next_sample;
            }
            let Table { links, steps, offsets, .. } = &mut *table;
            let Links { all, laps, .. } = &mut *links;
            if jump != NONE && laps.looks(jump, all[at as usize].loop_of) {
                let mut walk = Walk { at, now, bundles, left, before, went, end: self.rounds_end() };
                self.laps(links, (steps, offsets), &mut walk)?;
                Walk { at, now, bundles, left, before, went, .. } = walk;
            }
        }
    }

    /// The core is in a state of the table's that is not made its own yet, at a bundle.
    #[inline(always)]
    fn leave(&mut self, body: u32, floor: u32, at: u32) {
        self.next = self.now + 1;
        self.floor = (self.now << 4) + u64::from(floor);
        self.pc = at;
        self.body = body;
        self.fresh = false;
    }

    /// Goes to the begin of a link: whether what it waits for is there by the time it could issue by itself.
    #[inline(never)]
    fn met(&mut self, link: &Link, now: u64) -> Result<bool> {
        self.now = now;
        self.leave(link.body, link.floor, link.first);
        let ends = self.wait_time(&self.l.code.heads[link.first as usize])?;
        Ok(ends <= (now << 4) + u64::from(link.ready))
    }

    /// Does rounds of a link at once: how many.
    #[inline(never)]
    fn roll_link(&mut self, link: &mut Link, steps: &[Step]) -> u64 {
        let rounds = self.scalars_of_rounds(steps, (link.counter, link.rolls), u64::from(link.duration));
        if rounds > 0 {
            link.pending += rounds;
            self.rolled(link.last);
        }
        rounds
    }

    /// Whether what decides a branch is known, and whether the branch is taken.
    #[inline(always)]
    fn is_taken(&self, Asks { register, equal, value }: Asks) -> (bool, bool) {
        let known = self.known >> (register & 63) & 1 == 1;
        (known, (self.scalars[register as usize & (SCALARS - 1)] == value) == equal)
    }

    /// Computes scalars, all of which are known.
    #[inline(always)]
    fn compute_ops(&mut self, ops: &[Op]) {
        for &Op { function, d, a, b, c, imm } in ops {
            let get = |r: u8| self.scalars[r as usize & (SCALARS - 1)];
            let value = scalar::execute(function, get(a), get(b), get(c), imm);
            self.scalars[d as usize & (SCALARS - 1)] = value;
        }
    }

    /// [`Core::steps`]: the place of the offset behind them.
    #[inline(never)]
    fn link_steps(&mut self, steps: &[Step], base: u64, (offsets, mut offset): (&[u32], usize)) -> Result<usize> {
        self.steps::<false>(steps, base, offsets, &mut offset)?;
        Ok(offset)
    }

    /// Whether the core goes on from behind a bundle to another in what may be linked.
    fn goes_on(&self, from: u32, to: u32) -> bool {
        let code = &self.l.code;
        let branches = code.heads[from as usize].flags & FLAG_BRANCH != 0;
        let inside = match code.branches[from as usize] {
            _ if !branches => true,
            Branch::Jump { .. } | Branch::NotZero { .. } | Branch::Zero { .. } | Branch::Loop { .. } => true,
            Branch::Call { .. } | Branch::Return | Branch::Halt | Branch::Trap { .. } | Branch::Host { .. } => false,
        };
        let same = |of: &[u32]| of.get(from as usize) == of.get(to as usize);
        inside && same(&code.ops) && same(&code.blocks.of)
    }
}
