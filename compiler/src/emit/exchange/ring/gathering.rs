//! Gathering from place to place in HBM: what comes in is where it belongs, and is sent on from there.

use super::super::Place;
use super::{At, Code};
use crate::plan::collective::State;
use systole_codegen::kernel::build_units::RemoteArgs;
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::Op;

impl Code<'_> {
    pub(super) fn begin_gathering(&self, b: &mut KernelBuilder) {
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

    pub(super) fn gather(&self, b: &mut KernelBuilder, at: At) {
        let (cx, r) = (&self.cx, self.r);
        r.streams.iter().for_each(|s| cx.wait(b, s.recv, self.bytes(s)));
        let on = b.def_s(Op::SLtI, &[at.step.into(), (self.n() as i32 - 1).into()]);
        b.if_(on, |b| {
            let places = self.addresses(b, at, (Place::Whole, State::Dst));
            for ((s, d), &dst) in r.streams.iter().zip(&self.descs).zip(&places) {
                let device = self.peer(b, s, true);
                cx.send(b, RemoteArgs { desc: d[2], src: dst, dst, device, send: s.send, recv: s.recv });
            }
        });
        self.copy_own_part(b, at);
    }
}
