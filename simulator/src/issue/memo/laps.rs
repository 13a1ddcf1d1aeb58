//! Rounds of loops that several links make: which there are, and replays of them as one.
//!
//! Behind a jump back what follows is written down until the same jump is made again. A round that was the same a few times is
//! composed ([`super::lap`]). From then on it is asked, where such a round may begin, whether one of those that are known will
//! go on in its way to its end: then it is replayed at once. Only transfers are not known before: if a wait in the round is not met
//! in time, the round was replayed up to the link that waits, and is left there. Composed rounds that come in the same order again
//! ([`super::trail`]) are one round more, which is tried where the first of them would be replayed.

use super::super::run::{Core, SCALARS, Step as Result};
use super::lap::{Event, Lap, Part, compose};
use super::links::Links;
use super::number::SLOTS;
use super::pieces::Step;
use super::table::NONE;
use super::trail::Trail;
use crate::unit::dma::Side;
use systole_isa::Space;

/// Fewest and most links of a round.
const FEWEST: usize = 3;
const MOST: usize = 256;
/// Times that a round is replayed link by link before it is composed.
const SEEN: u32 = 3;
/// One of more rounds than this is rare: it is composed when it was replayed twice as often, for most loops have ended by then.
const RARE: u32 = 64;
/// Most different rounds of a loop that are remembered before they are composed, and most that are composed.
const REMEMBERED: usize = 24;
const COMPOSED: usize = 48;
/// Times that rounds that go the same way are composed, with other buffers each time.
const ALIKE: u32 = 8;
/// Rounds of a loop link by link beyond which as many have to be composed ones, or no more are looked for.
const PATIENCE: u32 = 128;
/// Of the replays of several rounds as one, one in so many may end within.
const BROKEN: u32 = 8;
/// Most composed rounds of all loops.
const MOST_LAPS: usize = 1 << 12;

/// In place of a loop's number: rounds that begin with the link are not looked at.
const DULL: u32 = NONE - 1;

/// A link that a jump back leads to, with which rounds begin.
#[derive(Debug)]
struct Loop {
    jump: u32,
    /// Its composed rounds.
    laps: Vec<u32>,
    /// Others that were seen, and how often.
    seen: Vec<(Vec<Part>, u32)>,
    /// Rounds link by link, and composed ones.
    singly: u32,
    composed: u32,
}

/// All composed rounds, and the round that goes on.
#[derive(Debug)]
pub(super) struct Laps {
    loops: Vec<Loop>,
    pub all: Vec<Lap>,
    /// Those with pending replays, and with some of which samples told.
    pub dirty: Vec<u32>,
    pub shown: Vec<u32>,
    /// The jump behind which the round began that goes on, its first link, and its links so far; none if nothing is written down.
    jump: u32,
    first: u32,
    path: Vec<Part>,
    /// What registers held when it began.
    begun: [i32; SCALARS],
    trail: Trail,
    /// What a round computes, and the addresses of its transfers.
    slots: Box<[i32; SLOTS]>,
    addresses: Vec<[i64; 2]>,
}

impl Default for Laps {
    fn default() -> Laps {
        Laps {
            loops: Vec::new(),
            all: Vec::new(),
            dirty: Vec::new(),
            shown: Vec::new(),
            jump: NONE,
            first: NONE,
            path: Vec::new(),
            begun: [0; SCALARS],
            trail: Trail::default(),
            slots: Box::new([0; SLOTS]),
            addresses: Vec::new(),
        }
    }
}

/// Where a replay of links is.
pub(super) struct Walk {
    /// The link that follows, and the cycle of the last issue before it.
    pub at: u32,
    pub now: u64,
    /// Bundles that are not counted yet, and links that may still be replayed.
    pub bundles: u64,
    pub left: u32,
    /// The transition before, its last bundle, and whether its branch was taken.
    pub before: u32,
    pub went: (u32, bool),
    /// When somebody else is to be told, rounds or not.
    pub end: u64,
}

impl Laps {
    pub fn clear(&mut self) {
        self.loops.clear();
        self.all.clear();
        self.dirty.clear();
        self.shown.clear();
        self.trail = Trail::default();
        self.leave();
    }

    /// What goes on is no round any more.
    pub fn leave(&mut self) {
        self.jump = NONE;
    }

    /// A link was replayed, and so many times again behind itself.
    #[inline(always)]
    pub fn passed(&mut self, link: u32, again: u64, taken: bool) {
        if self.jump != NONE {
            self.path.push(Part { link, again: again as u32, taken });
            if self.path.len() > MOST {
                self.leave();
            }
        }
    }

    /// Whether there may be something to do behind a jump back that leads to a link of such a number.
    #[inline(always)]
    pub fn looks(&self, jump: u32, loop_of: u32) -> bool {
        loop_of != DULL || jump == self.jump
    }

    /// A round begins with a link behind a jump.
    fn begin(&mut self, jump: u32, link: u32, registers: &[i32; SCALARS]) {
        (self.jump, self.first, self.begun) = (jump, link, *registers);
        self.path.clear();
    }

    /// The round that went on has ended, and is one of a loop's: whether it is to be composed; none if it is time to give up.
    fn ended(&mut self, number: u32) -> Option<bool> {
        let Laps { loops, all, path, .. } = self;
        let of = &mut loops[number as usize];
        of.singly += 1;
        if of.singly > PATIENCE.max(of.composed) {
            return None;
        }
        if of.laps.len() >= COMPOSED || all.len() >= MOST_LAPS {
            return Some(false);
        }
        Some(match of.seen.iter_mut().find(|s| s.0 == *path) {
            Some((_, times)) => {
                *times = times.saturating_add(1);
                let rare = of.singly.saturating_add(of.composed) / RARE > *times;
                let often = if rare { 2 * SEEN } else { SEEN };
                // One that goes the same way with other buffers is a round of its own.
                let known = |lap: &u32| all[*lap as usize].parts == *path && all[*lap as usize].fixed.is_empty();
                times.is_multiple_of(often) && *times <= SEEN * ALIKE && !of.laps.iter().any(known)
            }
            None => {
                if of.seen.len() == REMEMBERED {
                    of.seen.remove(0);
                }
                of.seen.push((path.clone(), 1));
                false
            }
        })
    }
}

impl Links {
    /// What is pending at composed rounds is so at their links.
    pub fn add_laps(&mut self) {
        let laps = [std::mem::take(&mut self.laps.dirty), std::mem::take(&mut self.laps.shown)];
        laps.into_iter().flatten().for_each(|lap| self.add_lap(lap));
    }

    /// [`Links::add_laps`] of one.
    pub fn add_lap(&mut self, lap: u32) {
        let known = &mut self.laps.all[lap as usize];
        let (pending, shown) = (std::mem::take(&mut known.pending), std::mem::take(&mut known.shown));
        let parts = std::mem::take(&mut known.parts);
        for part in &parts {
            let again = 1 + u64::from(part.again);
            if pending > 0 {
                self.add(part.link, pending * again);
            }
            if shown > 0 {
                self.add_shown(part.link, shown * again);
            }
        }
        self.laps.all[lap as usize].parts = parts;
    }
}

impl Core<'_> {
    /// A jump back led to a link: replays composed rounds that begin with it as long as there are such.
    #[inline(never)]
    pub(super) fn laps(&mut self, links: &mut Links, code: (&[Step], &[u32]), walk: &mut Walk) -> Result<()> {
        let jump = walk.went.0;
        if links.laps.jump == jump {
            let first = links.laps.first;
            if links.laps.path.len() >= FEWEST {
                self.ended(links, code, walk.at);
            } else if links.link(first).loop_of == NONE {
                links.look_at(first, DULL);
            }
            links.laps.leave();
        }
        let begin = walk.now;
        let within = !self.composed(links, code, walk)?;
        if within || walk.now != begin {
            // What was written down does not go on here.
            links.laps.leave();
        }
        if within {
            return Ok(());
        }
        let (free, of) = (links.laps.jump == NONE, links.link(walk.at).loop_of);
        let begins = match links.laps.loops.get(of as usize) {
            Some(of) => free || of.jump == walk.went.0,
            None => free && of != DULL,
        };
        if begins {
            links.laps.begin(walk.went.0, walk.at, &self.scalars);
        }
        Ok(())
    }

    /// The round that went on has ended before a link.
    fn ended(&mut self, links: &mut Links, code: (&[Step], &[u32]), exit: u32) {
        let (jump, first) = (links.laps.jump, links.laps.first);
        let mut number = links.link(first).loop_of;
        if number == NONE {
            number = links.laps.loops.len() as u32;
            let (laps, seen) = (Vec::new(), Vec::with_capacity(REMEMBERED));
            links.laps.loops.push(Loop { jump, laps, seen, singly: 0, composed: 0 });
            links.look_at(first, number);
        }
        match links.laps.ended(number) {
            Some(true) => {}
            Some(false) => return,
            None => return links.look_at(first, DULL),
        }
        let lap = compose(self.l, links, (&links.laps.path, exit, &links.laps.begun), code);
        let place = links.laps.all.len() as u32;
        let of = &mut links.laps.loops[number as usize];
        match lap {
            Some(lap) if of.laps.iter().any(|l| links.laps.all[*l as usize].is(&lap)) => {}
            Some(lap) => {
                if let Some(skipper) = &mut self.skipper {
                    lap.jumps.iter().for_each(|(jump, _)| skipper.look_seldom(*jump));
                }
                of.laps.push(place);
                links.laps.all.push(lap);
            }
            None if of.laps.is_empty() => links.look_at(first, DULL),
            None => {}
        }
    }

    /// Replays composed rounds as long as there are such: `false` if it ends within one.
    fn composed(&mut self, links: &mut Links, code: (&[Step], &[u32]), walk: &mut Walk) -> Result<bool> {
        let mut last = NONE;
        links.laps.trail.leave();
        while let Some(number) = self.next_lap(links, last, walk) {
            if links.laps.trail.comes_again(number, &self.scalars) {
                self.compose_trail(links, code, walk.at);
                links.laps.trail.begin(number, &self.scalars);
            }
            let Laps { all, dirty, slots, addresses, .. } = &mut links.laps;
            let lap = &mut all[number as usize];
            if !lap.jumps.iter().all(|&(jump, times)| self.passes(jump, times)) {
                // Somebody is to look at a branch in it.
                return Ok(true);
            }
            if let Some(place) = self.events(lap, (slots, addresses), walk.now)? {
                self.part_of_lap(links, number, place, (code.0, walk))?;
                return Ok(false);
            }
            for &(register, value) in &lap.registers {
                self.scalars[register as usize & (SCALARS - 1)] = value.of(slots);
            }
            self.known |= lap.written;
            for &(at, value) in &lap.stores {
                self.smem.store(i64::from(at), value.of(slots), true);
            }
            if lap.pending == 0 {
                dirty.push(number);
            }
            lap.pending += 1;
            lap.replays = lap.replays.saturating_add(1);
            walk.now += lap.duration;
            walk.bundles += lap.bundles;
            walk.left -= lap.links;
            walk.at = lap.exit;
            walk.before = lap.last;
            walk.went = (lap.back, true);
            last = number;
        }
        Ok(true)
    }

    /// Composes the rounds of the trail as one, up to a link.
    fn compose_trail(&mut self, links: &mut Links, code: (&[Step], &[u32]), exit: u32) {
        let Laps { all, trail, .. } = &links.laps;
        let first = trail.laps[0];
        let parts: Vec<Part> = trail.laps.iter().flat_map(|lap| &all[*lap as usize].parts).copied().collect();
        if all[first as usize].together != NONE || parts.len() > MOST || all.len() >= MOST_LAPS {
            return;
        }
        let rounds = trail.laps.iter().map(|lap| all[*lap as usize].rounds).sum();
        let lap = trail.begun().and_then(|begun| compose(self.l, links, (&parts, exit, begun), code));
        let Some(lap) = lap else { return };
        let all = &mut links.laps.all;
        all[first as usize].together = all.len() as u32;
        all.push(Lap { begins: first, rounds, ..lap });
    }

    /// The composed round that follows now, with what it computes; `last`: the one before it.
    fn next_lap(&self, links: &mut Links, last: u32, walk: &Walk) -> Option<u32> {
        let number = links.link(walk.at).loop_of;
        let Laps { loops, all, slots, addresses, .. } = &mut links.laps;
        let of = loops.get_mut(number as usize)?;
        let smem = |space: Space| space == Space::Smem;
        let outside = |desc: u32| smem(self.l.geometry[desc as usize].src) || smem(self.l.geometry[desc as usize].dst);
        if of.laps.is_empty() || self.effects.iter().any(|e| outside(e.desc)) {
            // Scalar memory may change within a round, or what it holds then may go elsewhere.
            return None;
        }
        slots[..SCALARS].copy_from_slice(&self.scalars);
        let expected = all.get(last as usize).map_or(NONE, |l| l.next);
        let expected = of.laps.iter().position(|lap| *lap == expected).unwrap_or(0);
        // What was expected first, then the others; and what is most rounds as one before what it begins with.
        let (others, first) = of.laps.split_at(expected);
        let (next, most) = first.iter().chain(others).find_map(|&lap| {
            let mut most = lap;
            while all[most as usize].together != NONE {
                most = all[most as usize].together;
            }
            while !self.goes(&mut all[most as usize], slots, addresses, walk) {
                if most == lap {
                    return None;
                }
                most = all[most as usize].begins;
            }
            Some((lap, most))
        })?;
        if let Some(last) = all.get_mut(last as usize) {
            last.next = next;
        }
        of.composed = of.composed.saturating_add(all[most as usize].rounds);
        Some(most)
    }

    /// Whether a round goes on to its end as it did, but for waits; with what it computes.
    fn goes(&self, lap: &mut Lap, slots: &mut [i32; SLOTS], addresses: &mut Vec<[i64; 2]>, walk: &Walk) -> bool {
        if let Some(unlike) = lap.of_registers.iter().position(|q| !q.holds(slots)) {
            // What tells a round from others is asked first from now on.
            lap.of_registers.swap(0, unlike);
            return false;
        }
        if lap.known & !self.known != 0 || walk.left <= lap.links || walk.now + lap.duration >= walk.end {
            return false;
        }
        for &(slot, at) in &lap.words {
            let Some((word, true)) = self.smem.load(i64::from(at)) else { return false };
            slots[slot as usize] = word;
        }
        if let Some(unlike) = lap.of_words.iter().position(|q| !q.holds(slots)) {
            lap.of_words.swap(0, unlike);
            return false;
        }
        lap.ops.iter().for_each(|op| op.compute(slots));
        addresses.clear();
        lap.of_results.iter().all(|q| q.holds(slots)) && lap.events.iter().all(|e| self.in_range(e, slots, addresses))
    }

    /// Whether a transfer's sides are in range; notes their addresses.
    fn in_range(&self, event: &Event, slots: &[i32; SLOTS], addresses: &mut Vec<[i64; 2]>) -> bool {
        let Event::Starts { start, src, dst, .. } = event else { return true };
        let g = &self.l.geometry[start.desc as usize];
        let [src, dst] =
            [(g.src, src), (g.dst, dst)].map(|(s, [base, more])| self.address_at(s, base.of(slots), more.of(slots)));
        addresses.push([src, dst]);
        let inside =
            |space: Space, side: &Side, at: i64| at + side.lo >= 0 && at + side.hi <= self.bytes_of(space) as i64;
        inside(g.src, &g.from, src) && inside(g.dst, &g.to, dst)
    }

    /// Does what a round that begins behind cycle `base` does outside the core: the place of the link at which it ends, if a wait is not met
    /// in time.
    fn events(
        &mut self,
        lap: &Lap,
        (slots, addresses): (&[i32; SLOTS], &[[i64; 2]]),
        base: u64,
    ) -> Result<Option<u32>> {
        let mut addresses = addresses.iter();
        for event in &lap.events {
            match *event {
                Event::Holds { at, sem, bytes, place } => {
                    let bytes = u64::from(bytes.of(slots) as u32);
                    if !self.semaphores.ready(sem as usize, bytes).is_ok_and(|(ends, _)| ends < base + at) {
                        return Ok(Some(place));
                    }
                }
                Event::Takes { at, sem, bytes } => {
                    self.semaphores.take(sem as usize, u64::from(bytes.of(slots) as u32), base + at);
                    self.apply_effects(base + at);
                }
                Event::Starts { at, bundle, start, .. } => {
                    let Some(&[src, dst]) = addresses.next() else { continue };
                    (self.now, self.pc) = (base + at, bundle);
                    self.begin_dma(&start, (src, true), (dst, true))?;
                }
            }
        }
        Ok(None)
    }

    /// A round was done outside the core up to the link at a place: its links before that were replayed, and the walk is there.
    #[cold]
    fn part_of_lap(
        &mut self,
        links: &mut Links,
        lap: u32,
        place: u32,
        (steps, walk): (&[Step], &mut Walk),
    ) -> Result<()> {
        let all = &mut links.laps.all;
        let Lap { begins, broken, replays, .. } = &mut all[lap as usize];
        *broken = broken.saturating_add(1);
        if *begins != NONE && *broken > (*replays / BROKEN).max(1) {
            let begins = *begins;
            all[begins as usize].together = NONE;
        }
        let parts = std::mem::take(&mut all[lap as usize].parts);
        for part in &parts[..place as usize] {
            let link = *links.link(part.link);
            self.now = walk.now;
            self.scalars_of(&steps[link.steps as usize..link.end as usize])?;
            let counter = link.counter as usize & (SCALARS - 1);
            self.scalars[counter] = self.scalars[counter].wrapping_sub(i32::from(counter != 0));
            if part.again > 0 {
                let steps = &steps[link.steps as usize..link.end as usize];
                self.now += u64::from(link.duration);
                let again = self.scalars_of_rounds(steps, (link.counter, link.rolls), u64::from(link.duration));
                debug_assert_eq!(again, u64::from(part.again), "the round asked for that");
            }
            let times = 1 + u64::from(part.again);
            links.add(part.link, times);
            walk.now += u64::from(link.duration) * times;
            walk.bundles += u64::from(link.bundles) * times;
            walk.left -= 1;
            (walk.before, walk.went) = (link.id, (link.last, part.taken));
        }
        walk.at = parts[place as usize].link;
        links.laps.all[lap as usize].parts = parts;
        Ok(())
    }

    /// Computes the scalars of steps.
    fn scalars_of(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            match *step {
                Step::Scalar(s) => {
                    let (value, known) = self.scalar::<false>(&s)?;
                    self.write_scalar(s.d, value, known);
                }
                Step::Parallel { bundle } => self.scalar_ops::<false>(&self.l.code.heads[bundle as usize])?,
                Step::At { .. } | Step::Waits { .. } | Step::Transfer { .. } => {}
                Step::Remote { .. } | Step::Signal { .. } => {}
            }
        }
        Ok(())
    }
}
