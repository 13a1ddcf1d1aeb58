//! What is known: pieces, states, and transitions from states through pieces.

use super::links::Links;
use super::log::{Log, Places};
use super::pieces::{self, Piece, Step};
use super::state::{self, Used};
use crate::issue::code::{Code, GROUPS, Packed};
use crate::stats::{Ahead, Cause, Collector};
use crate::unit::mxu::MxuTiming;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// No piece, state or transition.
pub(crate) const NONE: u32 = u32::MAX;
/// In place of a matrix unit's number: all that the program uses.
pub(crate) const ALL: u8 = u8::MAX;
/// Words of states, and transitions, beyond which everything is forgotten.
const MOST_WORDS: usize = 8 << 20;
const MOST_TRANSITIONS: usize = 1 << 18;
/// Room for so many at the beginning: for each bundle, and at most. What is large seldom grows, and what is small lies in few pages,
/// which may be large ones that the system clears whole.
const FIRST_WORDS: (usize, usize) = (8, 1 << 17);
const FIRST_TRANSITIONS: (usize, usize) = (1, 1 << 12);
const FIRST_PIECES: (usize, usize) = (1, 1 << 10);
/// Room for links: of so many bundles one.
const BUNDLES_OF_LINK: usize = 8;

/// Tables of the cores of one run: a core takes its lane's while it goes on, so that those of one lane learn from each other. At most one
/// of a lane goes on at a time.
#[derive(Debug, Default)]
#[expect(
    clippy::vec_box,
    reason = "devices of a pod take turns by the million: a table is half a kilobyte, and stays where it is"
)]
pub(crate) struct Pool {
    pub(super) idle: Mutex<Vec<Box<Table>>>,
    /// Tables made so far.
    made: AtomicU64,
}

/// Whose numbers of states are meant: a table, and how often it had forgotten everything.
pub(crate) type Numbers = (u64, u64);

impl Pool {
    /// A lane's table.
    pub(super) fn take(&self, code: &Code, units: &[usize; GROUPS], lane: usize) -> Box<Table> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.iter().position(|t| t.lane == lane).map(|at| idle.swap_remove(at));
        drop(idle);
        kept.unwrap_or_else(|| Box::new(Table::new(self.made.fetch_add(1, Ordering::Relaxed), lane, code, units)))
    }

    pub(super) fn give(&self, table: Box<Table>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(table);
    }
}

/// An interned state: its words, the latest cycle in it, and the next state of the same hash.
#[derive(Clone, Copy, Debug)]
struct Body {
    start: u32,
    len: u32,
    horizon: u32,
    next: u32,
}

/// What a piece does from a state. Cycles are relative to the last issue before the piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    pub body: u32,
    /// First ready time of the piece (packed), and what its accumulator rows are.
    pub floor: u32,
    pub rows: u32,
    pub piece: u32,
    /// When the first bundle may issue by itself (packed), and when the last one issues.
    pub first: u32,
    pub duration: u32,
    /// The state behind the piece, and the next ready time relative to its last issue.
    pub exit: u32,
    pub exit_floor: u32,
    /// Transitions that followed last, without and with a jump.
    pub next: [u32; 2],
    /// Cycles of the steps that ask for them, and stalls of the piece's operation, in the table's lists.
    pub offsets: u32,
    pub stalls: u32,
    pub nstalls: u32,
    /// Replays that the counters do not know yet, and others of which samples do.
    pub pending: u64,
    pub shown: u64,
    /// Its link.
    pub link: u32,
}

/// What transitions add to the counters that need no order, one behind the other: bundle, matrix unit or slot group, and how much.
#[derive(Debug, Default)]
pub(super) struct Details {
    waits: Vec<(u32, Cause, u32)>,
    mxu_stalls: Vec<(u8, Cause, u32)>,
    overlaps: Vec<(u8, Cause, u32)>,
    pub group_busy: Vec<(u8, i64)>,
    pub streamed: Vec<(u8, u64)>,
    /// By transition, where its part of each list ends.
    ends: Vec<[u32; 5]>,
}

impl Details {
    /// With room for so many transitions.
    fn with_capacity(transitions: usize) -> Details {
        Details {
            waits: Vec::with_capacity(2 * transitions),
            mxu_stalls: Vec::with_capacity(2 * transitions),
            ends: Vec::with_capacity(transitions),
            ..Details::default()
        }
    }

    /// Ends the part of a transition.
    fn end(&mut self) {
        let stalls = [self.waits.len(), self.mxu_stalls.len(), self.overlaps.len()];
        let [waits, mxu_stalls, overlaps] = stalls.map(|n| n as u32);
        let [group_busy, streamed] = [self.group_busy.len(), self.streamed.len()].map(|n| n as u32);
        self.ends.push([waits, mxu_stalls, overlaps, group_busy, streamed]);
    }

    /// Drops what belongs to no transition.
    fn drop_open(&mut self) {
        let ends = self.ends.last().map_or([0; 5], |e| e.map(|n| n as usize));
        self.waits.truncate(ends[0]);
        self.mxu_stalls.truncate(ends[1]);
        self.overlaps.truncate(ends[2]);
        self.group_busy.truncate(ends[3]);
        self.streamed.truncate(ends[4]);
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.drop_open();
    }

    /// Where a transition's part of each list is.
    #[inline(always)]
    fn ranges(&self, id: u32) -> impl Fn(usize) -> Range<usize> + use<> {
        let first = if id == 0 { [0; 5] } else { self.ends[id as usize - 1] };
        let end = self.ends[id as usize];
        move |i: usize| first[i] as usize..end[i] as usize
    }

    /// Adds a transition's part to what samples know before other counters do, so many times.
    pub fn put_ahead(&self, id: u32, times: i64, ahead: &mut Ahead<'_>) {
        let range = self.ranges(id);
        for &(bundle, _, cycles) in &self.waits[range(0)] {
            ahead.wait(bundle, i64::from(cycles) * times);
        }
        for &(unit, _, cycles) in &self.mxu_stalls[range(1)] {
            ahead.mxu_stall((unit != ALL).then_some(unit as usize), i64::from(cycles) * times);
        }
        for &(group, _, cycles) in &self.overlaps[range(2)] {
            ahead.overlap(group as usize, i64::from(cycles) * times);
        }
        for &(group, cycles) in &self.group_busy[range(3)] {
            ahead.kept(group as usize, cycles * times);
        }
        for &(unit, sixteenths) in &self.streamed[range(4)] {
            ahead.streamed(unit as usize, sixteenths as i64 * times);
        }
    }

    /// Adds a transition's part to the counters so many times.
    fn settle(&self, id: u32, times: u64, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        let range = self.ranges(id);
        for &(bundle, cause, cycles) in &self.waits[range(0)] {
            stats.waited(bundle as usize, cause, cycles as u64 * times);
        }
        for &(unit, cause, cycles) in &self.mxu_stalls[range(1)] {
            match unit {
                ALL => stats.mxus_stall(cause, cycles as u64 * times),
                unit => stats.mxu_stall(unit as usize, cause, cycles as u64 * times),
            }
        }
        for &(group, cause, cycles) in &self.overlaps[range(2)] {
            stats.group_overlap(group as usize, cause, cycles as u64 * times);
        }
        for &(group, cycles) in &self.group_busy[range(3)] {
            stats.group_busy[group as usize] += cycles * times as i64;
        }
        for &(unit, sixteenths) in &self.streamed[range(4)] {
            *mxus[unit as usize].busy16_mut() += sixteenths * times;
        }
    }
}

/// Stalls while a transition is found.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub waits: Vec<(u32, Cause, u32)>,
    pub mxu_stalls: Vec<(u8, Cause, u32)>,
    pub overlaps: Vec<(u8, Cause, u32)>,
}

impl Recorder {
    /// Nothing is recorded; the memory stays.
    pub(super) fn clear(&mut self) {
        self.waits.clear();
        self.mxu_stalls.clear();
        self.overlaps.clear();
    }

    /// Appends what was recorded, sums by place and cause where the order does not matter.
    pub(super) fn put(&self, details: &mut Details) {
        fn sum(out: &mut Vec<(u8, Cause, u32)>, first: usize, (place, cause, cycles): (u8, Cause, u32)) {
            match out[first..].iter_mut().rev().find(|o| o.0 == place && o.1 == cause) {
                Some(o) => o.2 += cycles,
                None => out.push((place, cause, cycles)),
            }
        }
        details.drop_open();
        details.waits.extend_from_slice(&self.waits);
        let Details { mxu_stalls, overlaps, .. } = details;
        for (list, out) in [(&self.mxu_stalls, mxu_stalls), (&self.overlaps, overlaps)] {
            let first = out.len();
            list.iter().for_each(|&stall| sum(out, first, stall));
        }
    }
}

/// Piece, state, first ready time, accumulator rows.
pub(super) type Key = (u32, u32, u32, u32);

/// All that is known of a program.
#[derive(Debug)]
pub(crate) struct Table {
    id: u64,
    lane: usize,
    /// Numbers of states are new in every generation.
    generation: u64,
    pub(super) used: Vec<Used>,
    /// Piece that begins at each bundle.
    at: Vec<u32>,
    pub(super) pieces: Vec<Piece>,
    pub(super) steps: Vec<Step>,
    pub(super) row_registers: Vec<u8>,
    pub(super) words: Vec<u32>,
    bodies: Vec<Body>,
    by_hash: FxHashMap<u64, u32>,
    pub(super) transitions: Vec<Transition>,
    pub(super) links: Links,
    by_key: FxHashMap<Key, u32>,
    /// When pieces that nothing was kept of might begin, were it not for what they wait for: packed, relative to the last issue.
    pub(super) firsts: FxHashMap<Key, Packed>,
    pub(super) offsets: Vec<u32>,
    pub(super) stalls: Vec<(Cause, u32)>,
    pub(super) details: Details,
    /// Transitions with pending replays, and with some that were shown.
    pub(super) dirty: Vec<u32>,
    pub(super) shown: Vec<u32>,
    /// Where the core that goes on writes down what it replays, if it does; how many cores' logs name what is known here.
    pub(super) log: Option<Log>,
    pub(super) logs: u32,
    pub(super) places: Places,
    pub(super) scratch: Vec<u32>,
    /// For the next transition that is found.
    pub(super) recorder: Option<Box<Recorder>>,
}

fn hash(words: &[u32]) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut lanes = [words.len() as u64, 1, 2, 3];
    let mut chunks = words.chunks_exact(8);
    for c in &mut chunks {
        for (i, lane) in lanes.iter_mut().enumerate() {
            let word = c[2 * i] as u64 | (c[2 * i + 1] as u64) << 32;
            *lane = (lane.rotate_left(23) ^ word).wrapping_mul(MIX);
        }
    }
    for &w in chunks.remainder() {
        lanes[0] = (lanes[0].rotate_left(23) ^ w as u64).wrapping_mul(MIX);
    }
    lanes.iter().fold(0, |h, l| (h ^ l ^ l >> 29).wrapping_mul(MIX))
}

impl Table {
    fn new(id: u64, lane: usize, code: &Code, units: &[usize; GROUPS]) -> Table {
        let room = |(each, most): (usize, usize)| (each * code.heads.len()).min(most);
        let states = code.heads.len() / 6;
        Table {
            id,
            lane,
            generation: 0,
            used: state::used(code, units),
            at: vec![NONE; code.heads.len()],
            pieces: Vec::with_capacity(room(FIRST_PIECES)),
            steps: Vec::with_capacity(room(FIRST_TRANSITIONS)),
            row_registers: Vec::new(),
            words: Vec::with_capacity(room(FIRST_WORDS)),
            bodies: Vec::with_capacity(room(FIRST_TRANSITIONS)),
            by_hash: FxHashMap::with_capacity_and_hasher(states, FxBuildHasher),
            transitions: Vec::with_capacity(room(FIRST_TRANSITIONS)),
            links: Links::new(room(FIRST_TRANSITIONS) / BUNDLES_OF_LINK),
            by_key: FxHashMap::with_capacity_and_hasher(states, FxBuildHasher),
            firsts: FxHashMap::default(),
            offsets: Vec::new(),
            stalls: Vec::with_capacity(room(FIRST_TRANSITIONS)),
            details: Details::with_capacity(room(FIRST_TRANSITIONS)),
            dirty: Vec::new(),
            shown: Vec::new(),
            log: None,
            logs: 0,
            places: Places::default(),
            scratch: Vec::new(),
            recorder: None,
        }
    }

    /// Whose numbers its states have.
    pub(in super::super) fn numbers(&self) -> Numbers {
        (self.id, self.generation)
    }

    /// The piece that begins at a bundle of the code.
    #[inline(always)]
    pub(super) fn piece(&mut self, code: &Code, bundle: u32) -> u32 {
        match self.at[bundle as usize] {
            NONE => self.cut(code, bundle),
            p => p,
        }
    }

    #[cold]
    fn cut(&mut self, code: &Code, bundle: u32) -> u32 {
        let piece = pieces::cut(code, bundle, &mut self.steps, &mut self.row_registers);
        self.pieces.push(piece);
        self.at[bundle as usize] = self.pieces.len() as u32 - 1;
        self.at[bundle as usize]
    }

    /// The words of a state among all words.
    pub(super) fn body<'w>(&self, words: &'w [u32], body: u32) -> &'w [u32] {
        let b = self.bodies[body as usize];
        &words[b.start as usize..(b.start + b.len) as usize]
    }

    /// The latest cycle in a state.
    pub(super) fn horizon(&self, body: u32) -> u32 {
        self.bodies[body as usize].horizon
    }

    /// The number of the words in `scratch`.
    pub(super) fn intern(&mut self, horizon: u32) -> u32 {
        let (words, id) = (&self.scratch[..], self.bodies.len() as u32);
        let mut next = NONE;
        match self.by_hash.entry(hash(words)) {
            Entry::Occupied(mut last) => {
                next = *last.get();
                let mut at = next;
                while let Some(b) = self.bodies.get(at as usize) {
                    if self.words[b.start as usize..(b.start + b.len) as usize] == *words {
                        return at;
                    }
                    at = b.next;
                }
                last.insert(id);
            }
            Entry::Vacant(none) => _ = none.insert(id),
        }
        self.bodies.push(Body { start: self.words.len() as u32, len: words.len() as u32, horizon, next });
        self.words.extend_from_slice(words);
        id
    }

    #[inline(always)]
    pub(super) fn find(&self, key: Key, hint: u32) -> u32 {
        if let Some(t) = self.transitions.get(hint as usize)
            && (t.piece, t.body, t.floor, t.rows) == key
        {
            return hint;
        }
        self.by_key.get(&key).copied().unwrap_or(NONE)
    }

    /// Keeps a transition, whose details were put down.
    pub(super) fn add(&mut self, t: Transition) -> u32 {
        let id = self.transitions.len() as u32;
        self.by_key.insert((t.piece, t.body, t.floor, t.rows), id);
        self.pieces[t.piece as usize].known = true;
        self.transitions.push(t);
        self.details.end();
        id
    }

    /// Whether there are as many states or transitions as may be kept.
    pub(super) fn is_full(&self) -> bool {
        self.words.len() > MOST_WORDS || self.transitions.len().max(self.firsts.len()) > MOST_TRANSITIONS
    }

    /// Whether there are half as many: logs are begun no more, so that everything can be forgotten in time.
    pub(super) fn is_crowded(&self) -> bool {
        self.words.len() > MOST_WORDS / 2 || self.transitions.len().max(self.firsts.len()) > MOST_TRANSITIONS / 2
    }

    /// All pending replays, of which none is a link's, happened so many times more; so did what the counters know.
    pub(in super::super) fn repeat(&mut self, times: u64) {
        for &id in &self.dirty {
            let pending = &mut self.transitions[id as usize].pending;
            *pending += *pending * times;
        }
        for &id in &self.shown {
            let shown = &mut self.transitions[id as usize].shown;
            *shown += *shown * times;
        }
    }

    /// A transition was replayed so many times.
    pub(super) fn replayed(&mut self, id: u32, times: u64) {
        let pending = &mut self.transitions[id as usize].pending;
        if *pending == 0 {
            self.dirty.push(id);
        }
        *pending += times;
    }

    /// Adds pending replays to the counters.
    pub(crate) fn settle(&mut self, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        let log = self.log.take();
        self.unlink(stats);
        self.log = log;
        self.count(stats, mxus);
    }

    /// [`Table::settle`] of those that are no link's.
    pub(super) fn count(&mut self, stats: &mut Collector, mxus: &mut [MxuTiming]) {
        for id in self.dirty.drain(..) {
            let times = std::mem::take(&mut self.transitions[id as usize].pending);
            self.details.settle(id, times, stats, mxus);
        }
        for id in self.shown.drain(..) {
            let times = std::mem::take(&mut self.transitions[id as usize].shown);
            self.details.settle(id, times, stats, mxus);
        }
        // The counters know it now.
        stats.ahead().fill(0);
    }

    /// Adds pending replays to what samples tell of; the counters wait.
    pub(super) fn show(&mut self, stats: &mut Collector, code: &Code) {
        let Table { links, transitions, details, dirty, shown, .. } = self;
        links.show(details, stats, code);
        for id in dirty.drain(..) {
            let t = &mut transitions[id as usize];
            let times = std::mem::take(&mut t.pending);
            if t.shown == 0 {
                shown.push(id);
            }
            t.shown += times;
            details.put_ahead(id, times as i64, &mut Ahead { of: stats.ahead(), code });
        }
    }

    /// Forgets states and transitions, of which nothing may be pending, if no log names them.
    pub(super) fn forget(&mut self) {
        if self.logs > 0 {
            return;
        }
        self.generation += 1;
        self.words.clear();
        self.bodies.clear();
        self.by_hash.clear();
        self.transitions.clear();
        self.links.clear();
        self.by_key.clear();
        self.firsts.clear();
        self.offsets.clear();
        self.stalls.clear();
        self.details.clear();
    }
}
