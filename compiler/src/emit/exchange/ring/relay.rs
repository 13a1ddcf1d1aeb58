//! Gathering through slots in vector memory: what comes in is sent on from its slot, and stored.
//!
//! A batch goes all the way round before the next one begins, so that links never hold more than some pieces: one that goes
//! several hops waits little where it crosses the streams of others. What turn `t` takes came into set `t % 4` of the slots. The
//! device behind may fill a set again one turn after it was worked on: what was sent on from it has left by then, and what
//! was stored from it is there. Stores are waited for turn by turn, since copies of one device end in any order; messages to
//! one device end in the order in which they were sent, which for what comes from different memories is that of their waits.

use super::super::Place;
use super::{At, Code};
use crate::plan::collective::{SLOTS, State};
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::Op;

impl Code<'_> {
    /// The first row of the set of slots that a turn's pieces come into.
    fn set(&self, b: &mut KernelBuilder, turn: S) -> S {
        let slots = self.load(b, State::Slots);
        let number = b.def_s(Op::SAndI, &[turn.into(), (SLOTS as i32 - 1).into()]);
        let rows = b.s_muli(number, self.p.batch as i32 * self.piece_rows());
        b.s(Op::SAdd, &[slots, rows])
    }

    pub(super) fn begin_relay(&self, b: &mut KernelBuilder) {
        let one = b.s_imm(1);
        let set = self.set(b, one);
        self.pieces(b, (S::ZERO, S::ZERO), |b, at| self.send_own(b, at, set));
    }

    /// Sends a piece that a batch begins with.
    fn send_own(&self, b: &mut KernelBuilder, at: At, set: S) {
        let own = if self.copies_own_part() { (Place::Part, State::Src) } else { (Place::Whole, State::Dst) };
        self.send_begin(b, at, own, set);
    }

    /// Takes a piece that has come, sends it on unless it has been everywhere, and stores it.
    pub(super) fn relay(&self, b: &mut KernelBuilder, turn: S, at: At) {
        let (cx, r, p) = (&self.cx, self.r, self.p);
        let (last, begins, further) = self.last_step(b, at);
        let (set, next) = (self.set(b, turn), b.s_addi(turn, 1));
        let ahead = self.set(b, next);
        // Links have work while the last of a batch come in.
        b.if_(begins, |b| self.send_own(b, At { batch: further, ..at }, ahead));
        r.streams.iter().for_each(|s| cx.wait(b, s.recv, self.bytes(s)));
        let slot = self.slot(b, set, at.piece);
        // What a batch begins with comes from HBM, and what is sent on would overtake it.
        let begun = b.def_s(Op::SEqI, &[at.step.into(), 1.into()]);
        let starts = b.s(Op::SSel, &[at.piece, S::ZERO, begun]);
        b.if_(starts, |b| {
            b.loop_static(p.batch as u32, |b| r.streams.iter().for_each(|s| cx.wait(b, s.send, self.bytes(s))));
        });
        b.if_else(last, |_| {}, |b| self.send_on(b, slot, ahead, at.piece));
        let first = b.def_s(Op::SEqI, &[turn.into(), 1.into()]);
        let quiet = b.s(Op::SOr, &[first, at.piece]);
        b.if_else(quiet, |_| {}, |b| cx.wait(b, r.stored, self.all_bytes() * p.batch));
        let to = self.addresses(b, at, (Place::Whole, State::Dst));
        for (i, d) in self.descs.iter().enumerate() {
            let from = self.stream_slot(b, slot, i);
            cx.copy(b, d[3], from, to[i], r.stored);
        }
        self.copy_own_part(b, at);
        // What the turn before sent has left, so that its slots may be filled again.
        b.if_else(begun, |_| {}, |b| r.streams.iter().for_each(|s| cx.wait(b, s.send, self.bytes(s))));
        let used = b.def_s(Op::SLtI, &[turn.into(), (self.turns() as i32 + 2 - SLOTS as i32).into()]);
        let none = b.s(Op::SSel, &[first, S::ZERO, used]);
        b.if_(none, |b| self.give_back(b));
    }
}
