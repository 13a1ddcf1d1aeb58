//! The code of a ring: a subroutine that takes the exchange a bit further at each call.
//!
//! A call is a *move*. The first move of a phase tells the devices behind that they may send, the second one sends what this
//! device begins with; every other one takes a batch of
//! pieces that the device behind has sent in its move before, adds the own contribution (reductions), and sends them on
//! or keeps them. So whoever calls often enough, with other work between the calls, hides the exchange behind that work.
//! Where the exchange is, and the addresses of its arrays, are in words of scalar memory.
//!
//! Move `m` of a reduction (not counting the first) sends into half `m % 2` of the slots for what comes in, and the next move of the device
//! ahead takes it from there. Own contributions are loaded one move ahead into the two halves of their slots in turn; a half
//! is filled again when what was sent or stored from it has left.

use super::{Cx, Place, desc, plus};
use crate::kernel::build_units::RemoteArgs;
use crate::kernel::{KernelBuilder, S};
use crate::plan::collective::ring::{Phase, Ring, RingKind, SLOTS, Stream};
use crate::plan::main_program::Emitter;
use systole_isa::topology::MAX_AXES;
use systole_isa::{Op, Space};

/// Words of scalar memory that say where an exchange is.
#[derive(Clone, Copy)]
pub(in crate::plan) enum State {
    Phase,
    /// Moves of the phase that were made.
    Moves,
    /// Step round the ring, and batch.
    Step,
    Batch,
    Src,
    Dst,
    Temp,
    /// First row of the slots.
    Slots,
    /// Twice the phase, and one more once it has begun to send.
    Stage,
    /// First of the words that say how often a product makes moves, by stage.
    Spacing,
}

/// Most phases of a ring: two for each axis, devices of a chip among them.
const MOST_PHASES: usize = 2 * (MAX_AXES + 1);
/// Most stages.
pub(super) const MOST_STAGES: usize = 2 * MOST_PHASES;
/// How many words.
pub(in crate::plan) const STATE_WORDS: u32 = State::Spacing as u32 + MOST_STAGES as u32 + 1;

/// Slots that a move works with, as first rows counted from a stream's first.
struct Halves {
    own: S,
    come: S,
    sent: S,
    /// Own contributions of the next move.
    next: S,
}

/// Where the pieces of a batch are, by stream.
struct Walk {
    place: Place,
    at: Vec<S>,
}

/// A phase as code.
struct Code<'a> {
    cx: &'a Cx,
    r: &'a Ring,
    p: &'a Phase,
    number: usize,
    /// First words of state.
    state: u32,
    /// Rows of a stream's slots and of one.
    slots: (u64, u64),
    /// By stream: what is loaded (gathering: sent first from the own part), sent first, sent on, stored.
    descs: Vec<[u32; 4]>,
    /// The own part, to its place.
    own_part: u32,
}

/// The subroutine of an exchange.
pub(super) fn subroutine(e: &mut Emitter<'_>, cx: &Cx, r: &Ring, state: u32) -> KernelBuilder {
    let mut b = KernelBuilder::new("exchange", e.memory.chip);
    let cx = Cx { all: b.buffer(), ..*cx };
    let codes: Vec<Code<'_>> = (r.phases.iter().enumerate())
        .map(|(number, p)| Code {
            cx: &cx,
            r,
            p,
            number,
            state,
            slots: r.slots(p, cx.sublanes),
            descs: r.streams.iter().map(|s| descriptors(e, &cx, r, p, s)).collect(),
            own_part: own_part(e, &cx, r),
        })
        .collect();
    let phase = b.smem_load(S::ZERO, (state + State::Phase as u32) as i32);
    // Calls after the end do nothing.
    let on = b.def_s(Op::SLtI, &[phase.into(), (codes.len() as i32).into()]);
    b.if_(on, |b| select(b, phase, &codes, 0));
    b
}

/// Runs the code of the phase whose number is in `phase`.
fn select(b: &mut KernelBuilder, phase: S, codes: &[Code<'_>], first: i32) {
    match codes {
        [] => {}
        [one] => one.run(b),
        _ => {
            let mid = codes.len() / 2;
            let low = b.def_s(Op::SLtI, &[phase.into(), (first + mid as i32).into()]);
            b.if_else(
                low,
                |b| select(b, phase, &codes[..mid], first),
                |b| select(b, phase, &codes[mid..], first + mid as i32),
            );
        }
    }
}

/// The copy of an all-gather's own part to its place.
fn own_part(e: &mut Emitter<'_>, cx: &Cx, r: &Ring) -> u32 {
    if r.kind != RingKind::AllGather {
        return 0;
    }
    let hbm = (Space::Hbm, Space::Hbm);
    let d = desc(&r.parts, r.parts.run, &[], 0, (Place::Part, Place::Whole), hbm, cx);
    e.desc(d)
}

fn descriptors(e: &mut Emitter<'_>, cx: &Cx, r: &Ring, p: &Phase, s: &Stream) -> [u32; 4] {
    let folds: Vec<(u64, u64)> = p.folded.iter().map(|&i| (r.count(i), s.scale[i])).collect();
    let rows = r.piece(p, s);
    let mut make = |from: (Place, Space), to: (Place, Space)| {
        let slot = r.slot_component(p, s, cx.sublanes);
        let d = desc(&r.parts_of(p), rows, &folds, slot, (from.0, to.0), (from.1, to.1), cx);
        e.desc(d)
    };
    let (slot, whole, part) = ((Place::Slot, Space::Vmem), (Place::Whole, Space::Hbm), (Place::Part, Space::Hbm));
    if !p.reduce {
        let on = make(whole, whole);
        let own = if p.looped.is_empty() && p.folded.is_empty() { make(part, whole) } else { on };
        return [own, on, on, on];
    }
    let to_part = r.kind == RingKind::ReduceScatter && p.position + 1 == r.axes.len();
    [make(whole, slot), make(whole, slot), make(slot, slot), make(slot, if to_part { part } else { whole })]
}

impl Code<'_> {
    fn load(&self, b: &mut KernelBuilder, w: State) -> S {
        b.smem_load(S::ZERO, (self.state + w as u32) as i32)
    }

    fn store(&self, b: &mut KernelBuilder, w: State, v: S) {
        b.smem_store(v, S::ZERO, (self.state + w as u32) as i32);
    }

    fn ready(&self, s: &Stream) -> u32 {
        s.ready[self.number]
    }

    fn bytes(&self, s: &Stream) -> u64 {
        self.r.piece_rows(self.p, s) * self.cx.row_bytes
    }

    fn all_bytes(&self) -> u64 {
        self.r.streams.iter().map(|s| self.bytes(s)).sum()
    }

    /// The device that a stream sends to / gets from.
    fn peer(&self, b: &mut KernelBuilder, s: &Stream, next: bool) -> S {
        let table = self.r.axes[s.order[self.p.position]].table;
        self.cx.word(b, table, u32::from(s.forward != next))
    }

    fn batches(&self) -> u64 {
        self.r.rounds(self.p) / self.p.batch
    }

    /// The granule offset of the block that is worked on at step `t`, with the stream's first row.
    fn offset(&self, b: &mut KernelBuilder, s: &Stream, t: S) -> S {
        let (r, p, cx) = (self.r, self.p, self.cx);
        let table = r.axes[s.order[p.position]].table;
        let first = (cx.base + table.0 + 2) as i32;
        // The block of step 0 is, in reductions, that of the device behind.
        let ahead = i32::from(p.reduce);
        let index = if s.forward {
            plus(b, t, ahead)
        } else {
            let n = b.s_imm(p.n as i32 - ahead);
            b.s(Op::SSub, &[n, t])
        };
        let block = b.smem_load(index, first);
        let mut at = b.s_muli(block, cx.granules(s.scale[p.position]));
        for i in 0..p.position {
            let c = cx.word(b, r.axes[s.order[i]].table, 2);
            let c = b.s_muli(c, cx.granules(s.scale[i]));
            at = b.s(Op::SAdd, &[at, c]);
        }
        plus(b, at, cx.granules(s.first))
    }

    /// The address of a piece: of its stream's first block along the looped axes, then that block and the piece in it.
    fn piece_at(&self, b: &mut KernelBuilder, s: &Stream, place: Place, first: S, (u, j): (&[S], S)) -> S {
        let (r, p, cx) = (self.r, self.p, self.cx);
        let mut at = first;
        for (&i, &c) in p.looped.iter().zip(u) {
            let c = b.s_muli(c, cx.granules(s.scale[i]));
            at = b.s(Op::SAdd, &[at, c]);
        }
        let piece = cx.granules(r.piece(p, s));
        let (mut g, mut rows) = (None, Some(j));
        if p.groups > 1 {
            let pieces = b.s_imm(p.pieces as i32);
            g = Some(if p.pieces == 1 { j } else { b.s(Op::SDivU, &[j, pieces]) });
            rows = (p.pieces > 1).then(|| b.s(Op::SRemU, &[j, pieces]));
        }
        if let Some(j) = rows.filter(|_| p.pieces > 1) {
            let j = b.s_muli(j, piece);
            at = b.s(Op::SAdd, &[at, j]);
        }
        if let Some(g) = g {
            let strides = if place == Place::Part { r.parts.part } else { r.parts.whole };
            let (grouped, parts) = (r.grouped(), r.parts_of(p));
            let together = if grouped == 1 { parts.planes } else { parts.before };
            let g = b.s_muli(g, cx.granules(strides[grouped] * together));
            at = b.s(Op::SAdd, &[at, g]);
        }
        at
    }

    /// Where a piece of a batch is: its blocks along the looped axes, and its number in the block.
    fn decode(&self, b: &mut KernelBuilder, batch: S, k: S) -> (Vec<S>, S) {
        let (r, p) = (self.r, self.p);
        let first = b.s_muli(batch, p.batch as i32);
        let mut rest = b.s(Op::SAdd, &[first, k]);
        if p.looped.is_empty() {
            return (Vec::new(), rest);
        }
        let mut by = |b: &mut KernelBuilder, n: u64| {
            let n = b.s_imm(n as i32);
            let low = b.s(Op::SRemU, &[rest, n]);
            rest = b.s(Op::SDivU, &[rest, n]);
            low
        };
        let each = p.groups * p.pieces;
        let j = if each == 1 { S::ZERO } else { by(b, each) };
        let mut u: Vec<S> = p.looped.iter().rev().map(|&i| by(b, r.count(i))).collect();
        u.reverse();
        (u, j)
    }

    /// Whether the pieces of a batch follow each other in memory.
    fn in_line(&self) -> bool {
        self.p.looped.is_empty() && self.p.groups == 1
    }

    /// Addresses that a batch's pieces are counted from, by stream.
    fn walk(&self, b: &mut KernelBuilder, t: S, batch: S, (place, base): (Place, State)) -> Walk {
        let base = self.load(b, base);
        let mut at = Vec::new();
        for s in &self.r.streams {
            let offset = self.block(b, s, t, place);
            let mut first = b.s(Op::SAdd, &[offset, base]);
            if self.in_line() {
                let j = b.s_muli(batch, self.p.batch as i32 * self.cx.granules(self.r.piece(self.p, s)));
                first = b.s(Op::SAdd, &[first, j]);
            }
            at.push(b.s_copy(first));
        }
        Walk { place, at }
    }

    /// The address of a stream's present piece.
    fn at(&self, b: &mut KernelBuilder, walk: &Walk, stream: usize, piece: (&[S], S)) -> S {
        if self.in_line() {
            return walk.at[stream];
        }
        self.piece_at(b, &self.r.streams[stream], walk.place, walk.at[stream], piece)
    }

    /// Moves a walk to the next pieces.
    fn step(&self, b: &mut KernelBuilder, walk: &Walk) {
        if self.in_line() {
            for (s, &at) in self.r.streams.iter().zip(&walk.at) {
                b.s_inc(at, self.cx.granules(self.r.piece(self.p, s)));
            }
        }
    }

    /// The offset of a block: in a part, only the stream's first row.
    fn block(&self, b: &mut KernelBuilder, s: &Stream, t: S, place: Place) -> S {
        if place == Place::Part { b.s_imm(self.cx.granules(s.first)) } else { self.offset(b, s, t) }
    }

    /// Runs `f` for every piece of a batch: where it is, and its number in the batch.
    fn pieces(&self, b: &mut KernelBuilder, batch: S, f: impl FnOnce(&mut KernelBuilder, &[S], S, S)) {
        let k = b.s_var(0);
        b.loop_static(self.p.batch as u32, |b| {
            let (u, j) = self.decode(b, batch, k);
            f(b, &u, j, k);
            b.s_inc(k, 1);
        });
    }

    /// One move.
    fn run(&self, b: &mut KernelBuilder) {
        let (moves, step, batch) = (self.load(b, State::Moves), self.load(b, State::Step), self.load(b, State::Batch));
        // Kept in memory at once: calls of kernels in between lose every register.
        let next = b.s_addi(moves, 1);
        self.store(b, State::Moves, next);
        let number = b.s_addi(moves, -1);
        b.if_else(
            moves,
            |b| b.if_else(number, |b| self.later_move(b, number, step, batch), |b| self.first_move(b)),
            |b| self.announce(b),
        );
        let done = self.load(b, State::Moves);
        let begun = b.def_s(Op::SLtI, &[done.into(), 2.into()]);
        let (before, after) = (b.s_imm(2 * self.number as i32), b.s_imm(2 * self.number as i32 + 1));
        let stage = b.s(Op::SSel, &[begun, before, after]);
        self.store(b, State::Stage, stage);
        let all = b.def_s(Op::SEqI, &[done.into(), (self.r.moves(self.p) as i32).into()]);
        b.if_(all, |b| {
            self.end(b);
            let next = b.s_imm(self.number as i32 + 1);
            self.store(b, State::Phase, next);
            let stage = b.s_imm(2 * self.number as i32 + 2);
            self.store(b, State::Stage, stage);
            for w in [State::Moves, State::Step, State::Batch] {
                self.store(b, w, S::ZERO);
            }
        });
    }

    /// Tells the devices behind that their pieces may come.
    fn announce(&self, b: &mut KernelBuilder) {
        let credits = match self.p.reduce {
            true => (self.r.rounds(self.p) * u64::from(self.p.n - 1)).min(SLOTS / 2 * self.p.batch),
            false => 1,
        };
        for s in &self.r.streams {
            let prev = self.peer(b, s, false);
            self.cx.signal(b, prev, self.ready(s), credits);
        }
    }

    fn first_move(&self, b: &mut KernelBuilder) {
        if self.p.reduce {
            self.begin_reduction(b);
        } else {
            self.begin_gathering(b);
        }
        let one = b.s_imm(1);
        self.store(b, State::Step, one);
    }

    /// Step and batch of the next move: reductions take a batch round the ring before the next one.
    fn advance(&self, b: &mut KernelBuilder, step: S, batch: S) -> (S, S) {
        let (inner, outer, limit, from) = match self.p.reduce {
            true => (step, batch, self.p.n as i32, 1),
            false => (batch, step, self.batches() as i32, 0),
        };
        let next = b.s_addi(inner, 1);
        let inside = b.def_s(Op::SLtI, &[next.into(), limit.into()]);
        let first = b.s_imm(from);
        let inner = b.s(Op::SSel, &[inside, next, first]);
        let further = b.s_addi(outer, 1);
        let outer = b.s(Op::SSel, &[inside, outer, further]);
        if self.p.reduce { (inner, outer) } else { (outer, inner) }
    }

    fn later_move(&self, b: &mut KernelBuilder, moves: S, step: S, batch: S) {
        let (next_step, next_batch) = self.advance(b, step, batch);
        self.store(b, State::Step, next_step);
        self.store(b, State::Batch, next_batch);
        if self.p.reduce {
            self.reduce(b, moves, step, batch);
        } else {
            self.gather(b, step, batch);
        }
    }

    /// After the last move of the phase.
    fn end(&self, b: &mut KernelBuilder) {
        let (cx, r, p) = (self.cx, self.r, self.p);
        let left = if p.reduce { p.batch } else { r.rounds(p) * u64::from(p.n - 1) };
        if p.reduce {
            cx.wait(b, r.stored, self.all_bytes() * p.batch);
        }
        b.loop_static(left as u32, |b| r.streams.iter().for_each(|s| cx.wait(b, s.send, self.bytes(s))));
        if self.copies_own_part() {
            cx.wait(b, r.local, r.parts.total() * cx.row_bytes);
        }
    }

    // ---- gathering ----

    /// The own part of an all-gather goes to its place while the first sends read it where it was.
    fn copies_own_part(&self) -> bool {
        self.r.kind == RingKind::AllGather && self.number == 0
    }

    fn begin_gathering(&self, b: &mut KernelBuilder) {
        let (cx, r) = (self.cx, self.r);
        for s in &r.streams {
            cx.wait(b, self.ready(s), 1);
        }
        let from_part = self.copies_own_part();
        if from_part {
            let base = self.load(b, State::Dst);
            let mut at = base;
            for a in &r.axes {
                let c = cx.word(b, a.table, 2);
                let c = b.s_muli(c, cx.granules(a.mult * r.parts.step));
                at = b.s(Op::SAdd, &[at, c]);
            }
            let src = self.load(b, State::Src);
            cx.copy(b, self.own_part, src, at, r.local);
        }
        let number = b.s_var(0);
        b.loop_static(self.batches() as u32, |b| {
            let whole = (Place::Whole, State::Dst);
            let part = (Place::Part, State::Src);
            let walk = self.walk(b, S::ZERO, number, whole);
            let own = from_part.then(|| self.walk(b, S::ZERO, number, part));
            self.pieces(b, number, |b, u, j, _| {
                for (i, (s, d)) in r.streams.iter().zip(&self.descs).enumerate() {
                    let dst = self.at(b, &walk, i, (u, j));
                    let (mut desc, mut src) = (d[1], dst);
                    if let Some(own) = &own {
                        (desc, src) = (d[0], self.at(b, own, i, (u, j)));
                    }
                    let device = self.peer(b, s, true);
                    cx.send(b, RemoteArgs { desc, src, dst, device, send: s.send, recv: s.recv });
                }
                self.step(b, &walk);
                own.iter().for_each(|w| self.step(b, w));
            });
            b.s_inc(number, 1);
        });
    }

    fn gather(&self, b: &mut KernelBuilder, step: S, batch: S) {
        let (cx, r) = (self.cx, self.r);
        let on = b.def_s(Op::SLtI, &[step.into(), (self.p.n as i32 - 1).into()]);
        let whole = (Place::Whole, State::Dst);
        let walk = self.walk(b, step, batch, whole);
        self.pieces(b, batch, |b, u, j, _| {
            for (i, (s, d)) in r.streams.iter().zip(&self.descs).enumerate() {
                cx.wait(b, s.recv, self.bytes(s));
                b.if_(on, |b| {
                    let dst = self.at(b, &walk, i, (u, j));
                    let device = self.peer(b, s, true);
                    cx.send(b, RemoteArgs { desc: d[2], src: dst, dst, device, send: s.send, recv: s.recv });
                });
            }
            self.step(b, &walk);
        });
    }

    // ---- reduction ----

    /// The array that the own contributions are in.
    fn own(&self) -> State {
        if self.p.position == 0 { State::Src } else { State::Temp }
    }

    fn to_part(&self) -> bool {
        self.r.kind == RingKind::ReduceScatter && self.p.position + 1 == self.r.axes.len()
    }

    /// First row of a stream's slots, from the first of all.
    fn stream_row(&self, stream: usize) -> i32 {
        (stream as u64 * self.slots.0) as i32
    }

    fn halves(&self, b: &mut KernelBuilder, moves: S) -> Halves {
        let half = (self.p.batch * self.slots.1) as i32;
        let slots = self.load(b, State::Slots);
        let odd = b.def_s(Op::SAndI, &[moves.into(), 1.into()]);
        let odd = b.s_muli(odd, half);
        let own = b.s(Op::SAdd, &[slots, odd]);
        let sent = b.s_addi(own, 2 * half);
        let other = b.s(Op::SSub, &[slots, odd]);
        Halves { own, sent, come: b.s_addi(other, 3 * half), next: b.s_addi(other, half) }
    }

    /// The row of slot `k` of a stream in a half.
    fn slot(&self, b: &mut KernelBuilder, half: S, stream: usize, k: S) -> S {
        let row = b.s_muli(k, self.slots.1 as i32);
        let row = b.s(Op::SAdd, &[row, half]);
        plus(b, row, self.stream_row(stream))
    }

    fn begin_reduction(&self, b: &mut KernelBuilder) {
        let h = self.halves(b, S::ZERO);
        self.send_first(b, S::ZERO, h.sent);
        let one = b.s_imm(1);
        self.load_own(b, one, S::ZERO, h.next);
    }

    /// Sends the own contributions that a batch begins with, from where they are.
    fn send_first(&self, b: &mut KernelBuilder, batch: S, half: S) {
        let (cx, r) = (self.cx, self.r);
        let own = (Place::Whole, self.own());
        let walk = self.walk(b, S::ZERO, batch, own);
        self.pieces(b, batch, |b, u, j, k| {
            for (i, (s, d)) in r.streams.iter().zip(&self.descs).enumerate() {
                cx.wait(b, self.ready(s), 1);
                let src = self.at(b, &walk, i, (u, j));
                let dst = self.slot(b, half, i, k);
                let device = self.peer(b, s, true);
                cx.send(b, RemoteArgs { desc: d[1], src, dst, device, send: s.send, recv: s.recv });
            }
            self.step(b, &walk);
        });
    }

    /// Starts to load the own contributions of a step.
    fn load_own(&self, b: &mut KernelBuilder, step: S, batch: S, half: S) {
        let own = (Place::Whole, self.own());
        let walk = self.walk(b, step, batch, own);
        self.pieces(b, batch, |b, u, j, k| {
            for (i, d) in self.descs.iter().enumerate() {
                let src = self.at(b, &walk, i, (u, j));
                let dst = self.slot(b, half, i, k);
                self.cx.copy(b, d[0], src, dst, self.r.local);
            }
            self.step(b, &walk);
        });
    }

    fn reduce(&self, b: &mut KernelBuilder, moves: S, step: S, batch: S) {
        let (cx, r, p) = (self.cx, self.r, self.p);
        let moves_all = r.moves(p) - 1;
        let last = b.def_s(Op::SEqI, &[step.into(), (p.n as i32 - 1).into()]);
        let further = b.s_addi(batch, 1);
        let more = b.def_s(Op::SLtI, &[further.into(), (self.batches() as i32).into()]);
        let begins = b.s(Op::SAnd, &[last, more]);
        let h = self.halves(b, moves);
        // Links have work while results come in.
        b.if_(begins, |b| self.send_first(b, further, h.sent));
        cx.wait(b, r.local, self.all_bytes() * p.batch);
        let result = if self.to_part() { (Place::Part, State::Dst) } else { (Place::Whole, State::Temp) };
        let results = self.walk(b, step, batch, result);
        self.pieces(b, batch, |b, u, j, k| {
            for (i, s) in r.streams.iter().enumerate() {
                cx.wait(b, s.recv, self.bytes(s));
                let own = self.slot(b, h.own, i, k);
                let come = self.slot(b, h.come, i, k);
                let (x, y) = (b.s_muli(own, r.packing as i32), b.s_muli(come, r.packing as i32));
                b.call(s.kernels[self.number] as u32 + 1, &[x, y, x]);
            }
            // The devices behind may have the slots again.
            let again = b.def_s(Op::SLtI, &[moves.into(), (moves_all.saturating_sub(2) as i32).into()]);
            b.if_(again, |b| {
                for s in &r.streams {
                    let prev = self.peer(b, s, false);
                    cx.signal(b, prev, self.ready(s), 1);
                }
            });
            for (i, (s, d)) in r.streams.iter().zip(&self.descs).enumerate() {
                let own = self.slot(b, h.own, i, k);
                b.if_else(
                    last,
                    |b| {
                        let dst = self.at(b, &results, i, (u, j));
                        cx.copy(b, d[3], own, dst, r.stored);
                    },
                    |b| {
                        cx.wait(b, self.ready(s), 1);
                        let dst = self.slot(b, h.sent, i, k);
                        let device = self.peer(b, s, true);
                        cx.send(b, RemoteArgs { desc: d[2], src: own, dst, device, send: s.send, recv: s.recv });
                    },
                );
            }
            self.step(b, &results);
        });
        self.prefetch(b, moves, step, batch, &h);
    }

    /// Starts to load what the next move needs, once what used its slots before has left.
    fn prefetch(&self, b: &mut KernelBuilder, moves: S, step: S, batch: S, h: &Halves) {
        let (cx, r, p) = (self.cx, self.r, self.p);
        let first_step = b.def_s(Op::SEqI, &[step.into(), 1.into()]);
        let stored = b.s(Op::SSel, &[first_step, batch, S::ZERO]);
        b.if_(stored, |b| cx.wait(b, r.stored, self.all_bytes() * p.batch));
        let next = b.def_s(Op::SLtI, &[moves.into(), (r.moves(p) as i32 - 2).into()]);
        b.if_(next, |b| {
            b.loop_static(p.batch as u32, |b| r.streams.iter().for_each(|s| cx.wait(b, s.send, self.bytes(s))));
            let (step, batch) = (self.load(b, State::Step), self.load(b, State::Batch));
            self.load_own(b, step, batch, h.next);
        });
    }
}
