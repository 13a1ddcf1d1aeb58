//! Reduction: everybody adds its own contribution to what comes in, in slots.
//!
//! Turn `t` sends into half `t % 2` of the slots for what comes in, and the next turn of the device ahead takes it from
//! there. Own contributions are loaded one turn ahead into the two halves of their slots in turn; a half is filled again when
//! what was sent or stored from it has left. In a half, pieces are one after the other, and in a piece, its streams: one
//! call adds all.

use super::super::Place;
use super::{At, Code};
use crate::plan::collective::{RingKind, State};
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::Op;

/// Slots that a move works with, as first rows counted from a stream's first.
struct Halves {
    own: S,
    come: S,
    sent: S,
    /// Own contributions of the next move.
    next: S,
}

impl Code<'_> {
    /// The array that the own contributions are in.
    fn own(&self) -> State {
        if self.p.position == 0 { State::Src } else { State::Temp }
    }

    fn to_part(&self) -> bool {
        self.r.kind == RingKind::ReduceScatter && self.p.position + 1 == self.r.positions()
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

    pub(super) fn begin_reduction(&self, b: &mut KernelBuilder) {
        let h = self.halves(b, S::ZERO);
        self.pieces(b, (S::ZERO, S::ZERO), |b, at| self.send_first(b, at, h.sent));
        let one = b.s_imm(1);
        self.pieces(b, (one, S::ZERO), |b, at| self.load_piece(b, at, h.next));
    }

    /// Sends the own contributions that a batch begins with, from where they are.
    fn send_first(&self, b: &mut KernelBuilder, at: At, half: S) {
        self.send_begin(b, at, (Place::Whole, self.own()), half);
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

    /// Adds own contributions to the pieces that have come.
    pub(super) fn combine(&self, b: &mut KernelBuilder) {
        let (cx, r, p) = (&self.cx, self.r, self.p);
        let (at, turn) = self.at(b);
        let (_, begins, further) = self.last_step(b, at);
        let h = self.halves(b, turn);
        // Links have work while results come in.
        b.if_(begins, |b| self.send_first(b, At { batch: further, ..at }, h.sent));
        b.if_else(at.piece, |_| {}, |b| cx.wait(b, r.local, self.all_bytes() * p.batch));
        r.streams.iter().for_each(|s| cx.wait(b, s.recv, self.bytes(s)));
        // Of two devices, every turn stores: what the one before stored has left before more of it counts.
        if self.n() == 2 {
            self.await_stored(b, at);
        }
        let (own, come) = (self.slot(b, h.own, at.piece), self.slot(b, h.come, at.piece));
        let (x, y) = (b.s_muli(own, r.packing as i32), b.s_muli(come, r.packing as i32));
        b.call(p.kernel.unwrap_or(0) as u32 + 1, &[x, y, x]);
    }

    /// Sends a piece on, or stores it.
    pub(super) fn reduce(&self, b: &mut KernelBuilder, turn: S, at: At) {
        let (cx, r) = (&self.cx, self.r);
        let (last, _, _) = self.last_step(b, at);
        let h = self.halves(b, turn);
        let own = self.slot(b, h.own, at.piece);
        // The devices behind may have the slots again.
        let again = b.def_s(Op::SLtI, &[turn.into(), (self.turns() as i32 - 1).into()]);
        b.if_(again, |b| self.give_back(b));
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
            |b| self.send_on(b, own, h.sent, at.piece),
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
        let (cx, r) = (&self.cx, self.r);
        if self.n() > 2 {
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
