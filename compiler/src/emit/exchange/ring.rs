//! The code of a ring, in moves.
//!
//! The first move of a phase tells the devices behind that they may send, the second one sends what this
//! device begins with; every other one takes a piece of each stream that the device behind has sent, adds the own
//! contribution (reductions), and sends them on or keeps them; the last one waits until all has left and is stored.
//!
//! Pieces of a batch make a *turn*. Turn `t` of a reduction sends into half `t % 2` of the slots for what comes in, and the
//! next turn of the device ahead takes it from there. Own contributions are loaded one turn ahead into the two halves of
//! their slots in turn; a half is filled again when what was sent or stored from it has left. In a half, pieces are one
//! after the other, and in a piece, its streams: one call adds all.

use super::super::main_program::Emitter;
use super::progress::{Moves, all, load, store};
use super::{Cx, Place, desc, plus};
use crate::plan::collective::{Phase, Ring, RingKind, SLOTS, State, Stream};
use systole_codegen::kernel::build_units::RemoteArgs;
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::{Op, Space};

/// Slots that a move works with, as first rows counted from a stream's first.
struct Halves {
    own: S,
    come: S,
    sent: S,
    /// Own contributions of the next move.
    next: S,
}

/// Where a piece is: step round the ring, batch, and number in the batch.
#[derive(Clone, Copy)]
struct At {
    step: S,
    batch: S,
    piece: S,
}

/// A phase as code.
struct Code<'a> {
    cx: Cx,
    r: &'a Ring,
    p: &'a Phase,
    number: usize,
    /// First words of state.
    state: u32,
    /// By stream: what is loaded (gathering: sent first from the own part), sent first, sent on, stored.
    descs: Vec<[u32; 4]>,
}

/// The phases of a ring.
pub(super) fn phases<'a>(e: &mut Emitter<'_>, cx: &Cx, r: &'a Ring, state: u32) -> Vec<Box<dyn Moves + 'a>> {
    let mut phases: Vec<Box<dyn Moves + 'a>> = Vec::new();
    for (number, p) in r.phases.iter().enumerate() {
        let descs = r.streams.iter().map(|s| descriptors(e, cx, r, p, s)).collect();
        phases.push(Box::new(Code { cx: *cx, r, p, number, state, descs }));
    }
    phases
}

fn descriptors(e: &mut Emitter<'_>, cx: &Cx, r: &Ring, p: &Phase, s: &Stream) -> [u32; 4] {
    let folds: Vec<(u64, u64)> = p.folded.iter().map(|&i| (r.count(i), s.scale[i])).collect();
    let rows = r.piece(p, s);
    let mut make = |from: (Place, Space), to: (Place, Space)| {
        let slot = r.slot_component(p, cx.sublanes) * r.streams.len() as u64;
        let d = desc(&r.parts_of(p), rows, &folds, slot, (from.0, to.0), (from.1, to.1), cx);
        e.desc(d)
    };
    let (slot, whole, part) = ((Place::Slot, Space::Vmem), (Place::Whole, Space::Hbm), (Place::Part, Space::Hbm));
    if !p.reduce {
        let on = make(whole, whole);
        let own = if p.looped.is_empty() && p.folded.is_empty() { make(part, whole) } else { on };
        return [own, on, on, on];
    }
    let to_part = r.kind == RingKind::ReduceScatter && p.position + 1 == r.positions();
    [make(whole, slot), make(whole, slot), make(slot, slot), make(slot, if to_part { part } else { whole })]
}

impl Code<'_> {
    fn load(&self, b: &mut KernelBuilder, w: State) -> S {
        load(b, self.state, w)
    }

    fn store(&self, b: &mut KernelBuilder, w: State, v: S) {
        store(b, self.state, w, v);
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
    fn decode(&self, b: &mut KernelBuilder, at: At) -> (Vec<S>, S) {
        let (r, p) = (self.r, self.p);
        let first = b.s_muli(at.batch, p.batch as i32);
        let mut rest = b.s(Op::SAdd, &[first, at.piece]);
        if p.looped.is_empty() {
            return (Vec::new(), rest);
        }
        let mut by = |b: &mut KernelBuilder, n: u64| {
            if n.is_power_of_two() {
                let low = b.def_s(Op::SAndI, &[rest.into(), (n as i32 - 1).into()]);
                rest = b.def_s(Op::SShrI, &[rest.into(), (n.trailing_zeros() as i32).into()]);
                return low;
            }
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

    /// The addresses of a piece of every stream.
    fn addresses(&self, b: &mut KernelBuilder, at: At, (place, base): (Place, State)) -> Vec<S> {
        let base = self.load(b, base);
        let (u, j) = self.decode(b, at);
        let mut all = Vec::new();
        for s in &self.r.streams {
            let offset = self.block(b, s, at.step, place);
            let first = b.s(Op::SAdd, &[offset, base]);
            all.push(self.piece_at(b, s, place, first, (&u, j)));
        }
        all
    }

    /// The offset of a block: in a part, only the stream's first row.
    fn block(&self, b: &mut KernelBuilder, s: &Stream, t: S, place: Place) -> S {
        if place == Place::Part { b.s_imm(self.cx.granules(s.first)) } else { self.offset(b, s, t) }
    }

    /// Runs `f` for every piece of a batch.
    fn pieces(&self, b: &mut KernelBuilder, (step, batch): (S, S), f: impl FnOnce(&mut KernelBuilder, At)) {
        let piece = b.s_var(0);
        b.loop_static(self.p.batch as u32, |b| {
            f(b, At { step, batch, piece });
            b.s_inc(piece, 1);
        });
    }

    /// Tells the devices behind that their pieces may come: in this phase, and at the very begin in the first one that
    /// gathers after a reduction along a single axis. Its pieces come from the devices of the phase before it and after
    /// theirs, and go where nothing is needed any more.
    fn announce(&self, b: &mut KernelBuilder) {
        let r = self.r;
        let early = (0..r.phases.len()).filter(|&i| self.number == 0 && self.announced(i));
        for number in std::iter::once(self.number).chain(early) {
            let code = Code { cx: self.cx, r, p: &r.phases[number], number, state: self.state, descs: Vec::new() };
            for s in &r.streams {
                let prev = code.peer(b, s, false);
                code.cx.signal(b, prev, code.ready(s), code.credits());
            }
        }
    }

    /// Whether a phase has been announced before it begins.
    fn announced(&self, number: usize) -> bool {
        let gathers = |i: usize| self.r.phases.get(i).is_some_and(|p| !p.reduce);
        // What several axes gather goes where earlier results were sent from, and of two devices, the other one's block
        // may come before this one has waited for what it sent of it.
        let apart = self.r.positions() == 1 && self.p.n > 2;
        apart && number > 0 && gathers(number) && !gathers(number - 1)
    }

    /// Pieces that the device behind may send before this one has taken any (gathering: the whole phase counts as one).
    fn credits(&self) -> u64 {
        match self.p.reduce {
            true => (self.r.rounds(self.p) * u64::from(self.p.n - 1)).min(SLOTS / 2 * self.p.batch),
            false => 1,
        }
    }

    /// Turns of the phase, but for the first.
    fn turns(&self) -> u64 {
        self.batches() * u64::from(self.p.n - 1)
    }

    fn first_move(&self, b: &mut KernelBuilder) {
        if self.p.reduce {
            self.begin_reduction(b);
        } else {
            self.begin_gathering(b);
        }
        let one = b.s_imm(1);
        self.store(b, State::Step, one);
        self.store(b, State::Turn, one);
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

    /// Where the next move is, and its turn.
    fn at(&self, b: &mut KernelBuilder) -> (At, S) {
        let [step, batch, piece, turn] =
            [State::Step, State::Batch, State::Piece, State::Turn].map(|w| self.load(b, w));
        (At { step, batch, piece }, turn)
    }

    fn later_move(&self, b: &mut KernelBuilder) {
        if self.p.reduce {
            self.combine(b);
        }
        // Read only now: calls of kernels lose every register.
        let (at, turn) = self.at(b);
        if self.p.reduce {
            self.reduce(b, turn, at);
        } else {
            self.gather(b, at);
        }
        let next = b.s_addi(at.piece, 1);
        let inside = b.def_s(Op::SLtI, &[next.into(), (self.p.batch as i32).into()]);
        b.if_else(
            inside,
            |b| self.store(b, State::Piece, next),
            |b| {
                self.store(b, State::Piece, S::ZERO);
                let (step, batch) = self.advance(b, at.step, at.batch);
                self.store(b, State::Step, step);
                self.store(b, State::Batch, batch);
                let turn = b.s_addi(turn, 1);
                self.store(b, State::Turn, turn);
            },
        );
    }

    /// Bytes that the last move waits for: sent by a stream, and stored.
    fn left(&self, s: &Stream) -> u64 {
        let pieces = if self.p.reduce { self.p.batch } else { self.r.rounds(self.p) * u64::from(self.p.n - 1) };
        pieces * self.bytes(s)
    }

    /// After the last piece of the phase.
    fn end(&self, b: &mut KernelBuilder) {
        let (cx, r, p) = (&self.cx, self.r, self.p);
        if p.reduce {
            cx.wait(b, r.stored, self.all_bytes() * p.batch);
        }
        let pieces = if p.reduce { p.batch } else { r.rounds(p) * u64::from(p.n - 1) };
        b.loop_static(pieces as u32, |b| r.streams.iter().for_each(|s| cx.wait(b, s.send, self.bytes(s))));
        if self.copies_own_part() {
            cx.wait(b, r.local, r.own_rows(p) * cx.row_bytes);
        }
    }

    // ---- gathering ----

    /// The own part of an all-gather goes to its place piece by piece during the first step round.
    fn copies_own_part(&self) -> bool {
        self.r.kind == RingKind::AllGather && self.number == 0
    }

    fn begin_gathering(&self, b: &mut KernelBuilder) {
        let (cx, r) = (&self.cx, self.r);
        for s in &r.streams {
            cx.wait(b, self.ready(s), 1);
        }
        let from_part = self.copies_own_part();
        let number = b.s_var(0);
        b.loop_static(self.batches() as u32, |b| {
            self.pieces(b, (S::ZERO, number), |b, at| {
                let dst = self.addresses(b, at, (Place::Whole, State::Dst));
                let own = from_part.then(|| self.addresses(b, at, (Place::Part, State::Src)));
                for (i, (s, d)) in r.streams.iter().zip(&self.descs).enumerate() {
                    let (desc, src) = own.as_ref().map_or((d[1], dst[i]), |own| (d[0], own[i]));
                    let device = self.peer(b, s, true);
                    cx.send(b, RemoteArgs { desc, src, dst: dst[i], device, send: s.send, recv: s.recv });
                }
            });
            b.s_inc(number, 1);
        });
    }

    fn gather(&self, b: &mut KernelBuilder, at: At) {
        let (cx, r) = (&self.cx, self.r);
        r.streams.iter().for_each(|s| cx.wait(b, s.recv, self.bytes(s)));
        let on = b.def_s(Op::SLtI, &[at.step.into(), (self.p.n as i32 - 1).into()]);
        b.if_(on, |b| {
            let places = self.addresses(b, at, (Place::Whole, State::Dst));
            for ((s, d), &dst) in r.streams.iter().zip(&self.descs).zip(&places) {
                let device = self.peer(b, s, true);
                cx.send(b, RemoteArgs { desc: d[2], src: dst, dst, device, send: s.send, recv: s.recv });
            }
        });
        if self.copies_own_part() {
            let first = b.def_s(Op::SEqI, &[at.step.into(), 1.into()]);
            b.if_(first, |b| {
                let from = self.addresses(b, at, (Place::Part, State::Src));
                let to = self.addresses(b, At { step: S::ZERO, ..at }, (Place::Whole, State::Dst));
                for (i, d) in self.descs.iter().enumerate() {
                    cx.copy(b, d[0], from[i], to[i], r.local);
                }
            });
        }
    }

    // ---- reduction ----

    /// The array that the own contributions are in.
    fn own(&self) -> State {
        if self.p.position == 0 { State::Src } else { State::Temp }
    }

    fn to_part(&self) -> bool {
        self.r.kind == RingKind::ReduceScatter && self.p.position + 1 == self.r.positions()
    }

    /// Rows of a piece of all streams in vector memory.
    fn piece_rows(&self) -> i32 {
        self.r.slot_rows(self.p, self.cx.sublanes) as i32
    }

    fn halves(&self, b: &mut KernelBuilder, turn: S) -> Halves {
        let half = self.p.batch as i32 * self.piece_rows();
        let slots = self.load(b, State::Slots);
        let odd = b.def_s(Op::SAndI, &[turn.into(), 1.into()]);
        let odd = b.s_muli(odd, half);
        let own = b.s(Op::SAdd, &[slots, odd]);
        let sent = b.s_addi(own, 2 * half);
        let other = b.s(Op::SSub, &[slots, odd]);
        Halves { own, sent, come: b.s_addi(other, 3 * half), next: b.s_addi(other, half) }
    }

    /// The row of a piece's slot in a half: that of the first stream.
    fn slot(&self, b: &mut KernelBuilder, half: S, piece: S) -> S {
        let row = b.s_muli(piece, self.piece_rows());
        b.s(Op::SAdd, &[row, half])
    }

    /// A stream's slot, from that of the first one.
    fn stream_slot(&self, b: &mut KernelBuilder, first: S, stream: usize) -> S {
        plus(b, first, (stream as u64 * self.r.slot_component(self.p, self.cx.sublanes)) as i32)
    }

    fn begin_reduction(&self, b: &mut KernelBuilder) {
        let h = self.halves(b, S::ZERO);
        self.pieces(b, (S::ZERO, S::ZERO), |b, at| self.send_first(b, at, h.sent));
        let one = b.s_imm(1);
        self.pieces(b, (one, S::ZERO), |b, at| self.load_piece(b, at, h.next));
    }

    /// Sends the own contributions that a batch begins with, from where they are.
    fn send_first(&self, b: &mut KernelBuilder, at: At, half: S) {
        let (cx, r) = (&self.cx, self.r);
        r.streams.iter().for_each(|s| cx.wait(b, self.ready(s), 1));
        let from = self.addresses(b, At { step: S::ZERO, ..at }, (Place::Whole, self.own()));
        let slot = self.slot(b, half, at.piece);
        for (i, (s, d)) in r.streams.iter().zip(&self.descs).enumerate() {
            let (src, dst) = (from[i], self.stream_slot(b, slot, i));
            let device = self.peer(b, s, true);
            cx.send(b, RemoteArgs { desc: d[1], src, dst, device, send: s.send, recv: s.recv });
        }
    }

    /// Starts to load the own contributions to a piece.
    fn load_piece(&self, b: &mut KernelBuilder, at: At, half: S) {
        let from = self.addresses(b, at, (Place::Whole, self.own()));
        let slot = self.slot(b, half, at.piece);
        for (i, d) in self.descs.iter().enumerate() {
            let dst = self.stream_slot(b, slot, i);
            self.cx.copy(b, d[0], from[i], dst, self.r.local);
        }
    }

    /// Whether a step is the last one round, and whether another batch begins then.
    fn last_step(&self, b: &mut KernelBuilder, at: At) -> (S, S, S) {
        let last = b.def_s(Op::SEqI, &[at.step.into(), (self.p.n as i32 - 1).into()]);
        let further = b.s_addi(at.batch, 1);
        let more = b.def_s(Op::SLtI, &[further.into(), (self.batches() as i32).into()]);
        (last, b.s(Op::SAnd, &[last, more]), further)
    }

    /// Adds own contributions to the pieces that have come.
    fn combine(&self, b: &mut KernelBuilder) {
        let (cx, r, p) = (&self.cx, self.r, self.p);
        let (at, turn) = self.at(b);
        let (_, begins, further) = self.last_step(b, at);
        let h = self.halves(b, turn);
        // Links have work while results come in.
        b.if_(begins, |b| self.send_first(b, At { batch: further, ..at }, h.sent));
        b.if_else(at.piece, |_| {}, |b| cx.wait(b, r.local, self.all_bytes() * p.batch));
        r.streams.iter().for_each(|s| cx.wait(b, s.recv, self.bytes(s)));
        // Of two devices, every turn stores: what the one before stored has left before more of it counts.
        if p.n == 2 {
            self.await_stored(b, at);
        }
        let (own, come) = (self.slot(b, h.own, at.piece), self.slot(b, h.come, at.piece));
        let (x, y) = (b.s_muli(own, r.packing as i32), b.s_muli(come, r.packing as i32));
        b.call(p.kernel.unwrap_or(0) as u32 + 1, &[x, y, x]);
    }

    /// Sends a piece on, or stores it.
    fn reduce(&self, b: &mut KernelBuilder, turn: S, at: At) {
        let (cx, r) = (&self.cx, self.r);
        let (last, _, _) = self.last_step(b, at);
        let h = self.halves(b, turn);
        let own = self.slot(b, h.own, at.piece);
        // The devices behind may have the slots again.
        let again = b.def_s(Op::SLtI, &[turn.into(), (self.turns() as i32 - 1).into()]);
        b.if_(again, |b| {
            for s in &r.streams {
                let prev = self.peer(b, s, false);
                cx.signal(b, prev, self.ready(s), 1);
            }
        });
        b.if_else(
            last,
            |b| {
                let result = if self.to_part() { (Place::Part, State::Dst) } else { (Place::Whole, State::Temp) };
                let to = self.addresses(b, at, result);
                for (i, d) in self.descs.iter().enumerate() {
                    let own = self.stream_slot(b, own, i);
                    cx.copy(b, d[3], own, to[i], r.stored);
                }
            },
            |b| {
                r.streams.iter().for_each(|s| cx.wait(b, self.ready(s), 1));
                let to = self.slot(b, h.sent, at.piece);
                for (i, (s, d)) in r.streams.iter().zip(&self.descs).enumerate() {
                    let (src, dst) = (self.stream_slot(b, own, i), self.stream_slot(b, to, i));
                    let device = self.peer(b, s, true);
                    cx.send(b, RemoteArgs { desc: d[2], src, dst, device, send: s.send, recv: s.recv });
                }
            },
        );
        self.prefetch(b, turn, at, &h);
    }

    /// At the first piece of a batch: what the batch before has stored.
    fn await_stored(&self, b: &mut KernelBuilder, at: At) {
        let first_step = b.def_s(Op::SEqI, &[at.step.into(), 1.into()]);
        let stored = b.s(Op::SSel, &[first_step, at.batch, S::ZERO]);
        let stored = b.s(Op::SSel, &[at.piece, S::ZERO, stored]);
        b.if_(stored, |b| self.cx.wait(b, self.r.stored, self.all_bytes() * self.p.batch));
    }

    /// Starts to load what the next turn's piece of the same number needs, once what used its slots before has left.
    fn prefetch(&self, b: &mut KernelBuilder, turn: S, at: At, h: &Halves) {
        let (cx, r, p) = (&self.cx, self.r, self.p);
        if p.n > 2 {
            self.await_stored(b, at);
        }
        let next = b.def_s(Op::SLtI, &[turn.into(), (self.turns() as i32).into()]);
        b.if_(next, |b| {
            r.streams.iter().for_each(|s| cx.wait(b, s.send, self.bytes(s)));
            let (step, batch) = self.advance(b, at.step, at.batch);
            self.load_piece(b, At { step, batch, ..at }, h.next);
        });
    }
}

impl Moves for Code<'_> {
    fn ready(&self, b: &mut KernelBuilder) -> S {
        let (r, p) = (self.r, self.p);
        let ok = b.s_var(1);
        let moves = self.load(b, State::Moves);
        let number = b.s_addi(moves, -1);
        let streams = |what: &dyn Fn(&Stream) -> (u32, u64)| r.streams.iter().map(what).collect::<Vec<_>>();
        let later = |b: &mut KernelBuilder| {
            let come = all(b, &streams(&|s| (s.recv, self.bytes(s))));
            if !p.reduce {
                return b.copy_s(ok, come);
            }
            let [step, batch, piece] = [State::Step, State::Batch, State::Piece].map(|w| self.load(b, w));
            let (last, begins, _) = self.last_step(b, At { step, batch, piece });
            let free = all(b, &streams(&|s| (self.ready(s), 1)));
            let ends = b.s(Op::SSub, &[last, begins]);
            let free = b.s(Op::SOr, &[free, ends]);
            let own = all(b, &[(r.local, self.all_bytes() * p.batch)]);
            let own = b.s(Op::SOr, &[own, piece]);
            let come = b.s(Op::SSel, &[own, come, S::ZERO]);
            let all = b.s(Op::SAnd, &[come, free]);
            b.copy_s(ok, all);
        };
        let end = |b: &mut KernelBuilder| {
            let mut list = streams(&|s| (s.send, self.left(s)));
            list.extend(p.reduce.then(|| (r.stored, self.all_bytes() * p.batch)));
            list.extend(self.copies_own_part().then(|| (r.local, r.own_rows(p) * self.cx.row_bytes)));
            let left = all(b, &list);
            b.copy_s(ok, left);
        };
        let first = |b: &mut KernelBuilder| {
            let free = if p.reduce { p.batch } else { 1 };
            let free = all(b, &streams(&|s| (self.ready(s), free)));
            b.copy_s(ok, free);
        };
        let is_end = b.def_s(Op::SEqI, &[moves.into(), (r.moves(p) as i32 - 1).into()]);
        b.if_(moves, |b| b.if_else(number, |b| b.if_else(is_end, end, later), first));
        ok
    }

    fn make(&self, b: &mut KernelBuilder) {
        let moves = self.load(b, State::Moves);
        let next = b.s_addi(moves, 1);
        self.store(b, State::Moves, next);
        let number = b.s_addi(moves, -1);
        // Between the second move and the last one, what comes in decides.
        let end = self.r.moves(self.p) as i32 - 1;
        let before_end = b.def_s(Op::SLtI, &[next.into(), end.into()]);
        let wanted = b.s(Op::SSel, &[moves, before_end, S::ZERO]);
        let wanted = b.s_muli(wanted, self.r.streams.last().map_or(0, |s| self.bytes(s)) as i32);
        self.store(b, State::Wanted, wanted);
        let is_end = b.def_s(Op::SEqI, &[moves.into(), (self.r.moves(self.p) as i32 - 1).into()]);
        let end = |b: &mut KernelBuilder| {
            self.end(b);
            let next = b.s_imm(self.number as i32 + 1);
            self.store(b, State::Phase, next);
            for w in [State::Step, State::Batch] {
                self.store(b, w, S::ZERO);
            }
            let moves = b.s_imm(i32::from(self.announced(self.number + 1)));
            self.store(b, State::Moves, moves);
        };
        b.if_else(
            moves,
            |b| {
                b.if_else(number, |b| b.if_else(is_end, end, |b| self.later_move(b)), |b| self.first_move(b));
            },
            |b| self.announce(b),
        );
    }
}
