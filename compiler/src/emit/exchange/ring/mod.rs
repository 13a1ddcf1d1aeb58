//! The code of a ring, in moves.
//!
//! The first move of a phase tells the devices behind that they may send, the second one sends what this
//! device begins with; every other one takes a piece of each stream that the device behind has sent, adds the own
//! contribution (reductions), and sends them on or keeps them; the last one waits until all has left and is stored.
//!
//! Pieces of a batch make a *turn*: what a turn sends, the next turn of the device ahead takes.

mod gathering;
mod reduction;
mod relay;

use super::super::main_program::Emitter;
use super::progress::{Moves, all, load, store};
use super::{Cx, Place, desc, plus};
use crate::plan::collective::{Phase, Ring, RingKind, SLOTS, State, Stream, Work};
use systole_codegen::kernel::build_units::RemoteArgs;
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::{Op, Space};

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
        let descs = r.streams.iter().map(|s| descriptors(e, cx, r, (number, p), s)).collect();
        phases.push(Box::new(Code { cx: *cx, r, p, number, state, descs }));
    }
    phases
}

fn descriptors(e: &mut Emitter<'_>, cx: &Cx, r: &Ring, (number, p): (usize, &Phase), s: &Stream) -> [u32; 4] {
    let folds: Vec<(u64, u64)> = p.folded.iter().map(|&i| (r.count(i), s.legs[i].scale)).collect();
    let rows = r.piece(p, s);
    let mut make = |from: (Place, Space), to: (Place, Space)| {
        let slot = r.slot_component(p, cx.sublanes) * r.streams.len() as u64;
        let d = desc(&r.parts_of(p), rows, &folds, slot, (from.0, to.0), (from.1, to.1), cx);
        e.desc(d)
    };
    let (slot, whole, part) = ((Place::Slot, Space::Vmem), (Place::Whole, Space::Hbm), (Place::Part, Space::Hbm));
    let own = if p.looped.is_empty() && p.folded.is_empty() { part } else { whole };
    match p.work {
        Work::Gather => {
            let on = make(whole, whole);
            [make(own, whole), on, on, on]
        }
        Work::Relay => {
            let first = if number == 0 { own } else { whole };
            [make(own, whole), make(first, slot), make(slot, slot), make(slot, whole)]
        }
        Work::Reduce => {
            let to_part = r.kind == RingKind::ReduceScatter && p.position + 1 == r.positions();
            [make(whole, slot), make(whole, slot), make(slot, slot), make(slot, if to_part { part } else { whole })]
        }
    }
}

impl Code<'_> {
    fn load(&self, b: &mut KernelBuilder, w: State) -> S {
        load(b, self.state, w)
    }

    fn store(&self, b: &mut KernelBuilder, w: State, v: S) {
        store(b, self.state, w, v);
    }

    /// Devices in the ring.
    fn n(&self) -> u32 {
        self.r.n(self.p)
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
        let table = self.r.axes[s.legs[self.p.position].axis].table;
        self.cx.word(b, table, u32::from(s.forward != next))
    }

    fn batches(&self) -> u64 {
        self.r.rounds(self.p) / self.p.batch
    }

    /// The granule offset of the block that is worked on at step `t`, with the stream's first row.
    fn offset(&self, b: &mut KernelBuilder, s: &Stream, t: S) -> S {
        let (r, p, cx) = (self.r, self.p, self.cx);
        let table = r.axes[s.legs[p.position].axis].table;
        let first = (cx.base + table.0 + 2) as i32;
        // The block of step 0 is, in reductions, that of the device behind.
        let ahead = i32::from(p.work == Work::Reduce);
        let index = if s.forward {
            plus(b, t, ahead)
        } else {
            let n = b.s_imm(self.n() as i32 - ahead);
            b.s(Op::SSub, &[n, t])
        };
        let block = b.smem_load(index, first);
        let mut at = b.s_muli(block, cx.granules(s.legs[p.position].scale));
        for i in 0..p.position {
            let c = cx.word(b, r.axes[s.legs[i].axis].table, 2);
            let c = b.s_muli(c, cx.granules(s.legs[i].scale));
            at = b.s(Op::SAdd, &[at, c]);
        }
        plus(b, at, cx.granules(s.first))
    }

    /// The address of a piece: of its stream's first block along the looped axes, then that block and the piece in it.
    fn piece_at(&self, b: &mut KernelBuilder, s: &Stream, place: Place, first: S, (u, j): (&[S], S)) -> S {
        let (r, p, cx) = (self.r, self.p, self.cx);
        let mut at = first;
        for (&i, &c) in p.looped.iter().zip(u) {
            let c = b.s_muli(c, cx.granules(s.legs[i].scale));
            at = b.s(Op::SAdd, &[at, c]);
        }
        let piece = cx.granules(r.piece(p, s));
        let (mut g, mut rows) = (None, Some(j));
        if p.pieces.groups > 1 {
            let pieces = b.s_imm(p.pieces.of_rows as i32);
            g = Some(if p.pieces.of_rows == 1 { j } else { b.s(Op::SDivU, &[j, pieces]) });
            rows = (p.pieces.of_rows > 1).then(|| b.s(Op::SRemU, &[j, pieces]));
        }
        if let Some(j) = rows.filter(|_| p.pieces.of_rows > 1) {
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
        let each = p.pieces.count();
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
        let is = |i: usize, work: Work| self.r.phases.get(i).is_some_and(|p| p.work == work);
        // What several axes gather goes where earlier results were sent from, and of two devices, the other one's block
        // may come before this one has waited for what it sent of it.
        let apart = self.r.positions() == 1 && self.n() > 2;
        apart && number > 0 && is(number, Work::Gather) && is(number - 1, Work::Reduce)
    }

    /// Pieces that the device behind may send before this one has taken any (gathering: the whole phase counts as one).
    fn credits(&self) -> u64 {
        let slots = match self.p.work {
            Work::Reduce => SLOTS / 2,
            Work::Relay => SLOTS,
            Work::Gather => return 1,
        };
        (self.r.rounds(self.p) * u64::from(self.n() - 1)).min(slots * self.p.batch)
    }

    /// Turns of the phase, but for the first.
    fn turns(&self) -> u64 {
        self.batches() * u64::from(self.n() - 1)
    }

    fn first_move(&self, b: &mut KernelBuilder) {
        match self.p.work {
            Work::Reduce => self.begin_reduction(b),
            Work::Gather => self.begin_gathering(b),
            Work::Relay => self.begin_relay(b),
        }
        let one = b.s_imm(1);
        self.store(b, State::Step, one);
        self.store(b, State::Turn, one);
    }

    /// Step and batch of the next move: through slots, a batch goes round the ring before the next one.
    fn advance(&self, b: &mut KernelBuilder, step: S, batch: S) -> (S, S) {
        let slots = self.p.work.has_slots();
        let (inner, outer, limit, from) = match slots {
            true => (step, batch, self.n() as i32, 1),
            false => (batch, step, self.batches() as i32, 0),
        };
        let next = b.s_addi(inner, 1);
        let inside = b.def_s(Op::SLtI, &[next.into(), limit.into()]);
        let first = b.s_imm(from);
        let inner = b.s(Op::SSel, &[inside, next, first]);
        let further = b.s_addi(outer, 1);
        let outer = b.s(Op::SSel, &[inside, outer, further]);
        if slots { (inner, outer) } else { (outer, inner) }
    }

    /// Where the next move is, and its turn.
    fn at(&self, b: &mut KernelBuilder) -> (At, S) {
        let [step, batch, piece, turn] =
            [State::Step, State::Batch, State::Piece, State::Turn].map(|w| self.load(b, w));
        (At { step, batch, piece }, turn)
    }

    fn later_move(&self, b: &mut KernelBuilder) {
        if self.p.work == Work::Reduce {
            self.combine(b);
        }
        // Read only now: calls of kernels lose every register.
        let (at, turn) = self.at(b);
        match self.p.work {
            Work::Reduce => self.reduce(b, turn, at),
            Work::Gather => self.gather(b, at),
            Work::Relay => self.relay(b, turn, at),
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

    /// Pieces of a stream whose sending the last move waits for.
    fn left(&self) -> u64 {
        match self.p.work {
            Work::Reduce => self.p.batch,
            Work::Gather => self.r.rounds(self.p) * u64::from(self.n() - 1),
            Work::Relay => 0,
        }
    }

    /// After the last piece of the phase.
    fn end(&self, b: &mut KernelBuilder) {
        let (cx, r, p) = (&self.cx, self.r, self.p);
        if p.work.has_slots() {
            cx.wait(b, r.stored, self.all_bytes() * p.batch);
        }
        b.loop_static(self.left() as u32, |b| r.streams.iter().for_each(|s| cx.wait(b, s.send, self.bytes(s))));
        if self.copies_own_part() {
            cx.wait(b, r.local, r.own_rows(p) * cx.row_bytes);
        }
    }

    /// The own part of an all-gather goes to its place piece by piece during the first step round.
    fn copies_own_part(&self) -> bool {
        self.r.kind == RingKind::AllGather && self.number == 0
    }

    /// At the first step: the piece of the own part goes to its place.
    fn copy_own_part(&self, b: &mut KernelBuilder, at: At) {
        if !self.copies_own_part() {
            return;
        }
        let first = b.def_s(Op::SEqI, &[at.step.into(), 1.into()]);
        b.if_(first, |b| {
            let from = self.addresses(b, at, (Place::Part, State::Src));
            let to = self.addresses(b, At { step: S::ZERO, ..at }, (Place::Whole, State::Dst));
            for (i, d) in self.descs.iter().enumerate() {
                self.cx.copy(b, d[0], from[i], to[i], self.r.local);
            }
        });
    }

    /// Rows of a piece of all streams in vector memory.
    fn piece_rows(&self) -> i32 {
        self.r.slot_rows(self.p, self.cx.sublanes) as i32
    }

    /// The row of a piece's slot in a half (or set): that of the first stream.
    fn slot(&self, b: &mut KernelBuilder, half: S, piece: S) -> S {
        let row = b.s_muli(piece, self.piece_rows());
        b.s(Op::SAdd, &[row, half])
    }

    /// A stream's slot, from that of the first one.
    fn stream_slot(&self, b: &mut KernelBuilder, first: S, stream: usize) -> S {
        plus(b, first, (stream as u64 * self.r.slot_component(self.p, self.cx.sublanes)) as i32)
    }

    /// Sends a piece that a batch begins with from its array into slots of the devices ahead, once these are free.
    fn send_begin(&self, b: &mut KernelBuilder, at: At, own: (Place, State), to: S) {
        self.r.streams.iter().for_each(|s| self.cx.wait(b, self.ready(s), 1));
        let from = self.addresses(b, At { step: S::ZERO, ..at }, own);
        let to = self.slot(b, to, at.piece);
        for (i, (s, d)) in self.r.streams.iter().zip(&self.descs).enumerate() {
            let (src, dst) = (from[i], self.stream_slot(b, to, i));
            let device = self.peer(b, s, true);
            self.cx.send(b, RemoteArgs { desc: d[1], src, dst, device, send: s.send, recv: s.recv });
        }
    }

    /// Sends a piece from its slot into slots of the devices ahead, once these are free.
    fn send_on(&self, b: &mut KernelBuilder, from: S, to: S, piece: S) {
        self.r.streams.iter().for_each(|s| self.cx.wait(b, self.ready(s), 1));
        let to = self.slot(b, to, piece);
        for (i, (s, d)) in self.r.streams.iter().zip(&self.descs).enumerate() {
            let (src, dst) = (self.stream_slot(b, from, i), self.stream_slot(b, to, i));
            let device = self.peer(b, s, true);
            self.cx.send(b, RemoteArgs { desc: d[2], src, dst, device, send: s.send, recv: s.recv });
        }
    }

    /// Tells the devices behind that a piece's slots are free.
    fn give_back(&self, b: &mut KernelBuilder) {
        for s in &self.r.streams {
            let prev = self.peer(b, s, false);
            self.cx.signal(b, prev, self.ready(s), 1);
        }
    }

    /// Whether a step is the last one round, and whether another batch begins then.
    fn last_step(&self, b: &mut KernelBuilder, at: At) -> (S, S, S) {
        let last = b.def_s(Op::SEqI, &[at.step.into(), (self.n() as i32 - 1).into()]);
        let further = b.s_addi(at.batch, 1);
        let more = b.def_s(Op::SLtI, &[further.into(), (self.batches() as i32).into()]);
        (last, b.s(Op::SAnd, &[last, more]), further)
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
            if p.work == Work::Gather {
                return b.copy_s(ok, come);
            }
            let [step, batch, piece] = [State::Step, State::Batch, State::Piece].map(|w| self.load(b, w));
            let (last, begins, _) = self.last_step(b, At { step, batch, piece });
            let free = all(b, &streams(&|s| (self.ready(s), 1)));
            let ends = b.s(Op::SSub, &[last, begins]);
            let free = b.s(Op::SOr, &[free, ends]);
            let mut ready = b.s(Op::SAnd, &[come, free]);
            if p.work == Work::Reduce {
                let own = all(b, &[(r.local, self.all_bytes() * p.batch)]);
                let own = b.s(Op::SOr, &[own, piece]);
                ready = b.s(Op::SSel, &[own, ready, S::ZERO]);
            }
            b.copy_s(ok, ready);
        };
        let end = |b: &mut KernelBuilder| {
            let mut list = streams(&|s| (s.send, self.left() * self.bytes(s)));
            list.extend(p.work.has_slots().then(|| (r.stored, self.all_bytes() * p.batch)));
            list.extend(self.copies_own_part().then(|| (r.local, r.own_rows(p) * self.cx.row_bytes)));
            let left = all(b, &list);
            b.copy_s(ok, left);
        };
        let first = |b: &mut KernelBuilder| {
            let free = if p.work.has_slots() { p.batch } else { 1 };
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
