//! The code of direct exchanges: everything is sent at the beginning and waited for at the end.

use super::{Cx, Place, desc, plus};
use crate::kernel::build_units::RemoteArgs;
use crate::kernel::{KernelBuilder, S};
use crate::plan::collective::direct::{Direct, DirectKind};
use crate::plan::main_program::Emitter;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{DmaDesc, Op, Space};

/// What the two halves of an exchange share.
struct Everybody {
    copy: u32,
    /// What is sent to each, in parts that may go different ways round: descriptor, first row, rows.
    halves: Vec<(u32, u64, u64)>,
}

impl Emitter<'_> {
    pub(super) fn begin_direct(&mut self, cx: &Cx, d: &Direct) {
        match d.kind {
            DirectKind::Permute => self.begin_permutation(cx, d),
            DirectKind::Broadcast => self.begin_broadcast(cx, d),
            DirectKind::AllGather | DirectKind::AllToAll | DirectKind::Reduce => self.begin_everybody(cx, d),
        }
    }

    pub(super) fn end_direct(&mut self, cx: &Cx, d: &Direct) {
        match d.kind {
            DirectKind::Permute => self.end_permutation(cx, d),
            DirectKind::Broadcast => self.end_broadcast(cx, d),
            DirectKind::AllGather | DirectKind::AllToAll | DirectKind::Reduce => self.end_everybody(cx, d),
        }
    }

    /// Runs code for every other device of the group: its number and place.
    fn others(b: &mut KernelBuilder, cx: &Cx, d: &Direct, f: impl FnOnce(&mut KernelBuilder, S, S)) {
        let word = (cx.base + d.table.0 + 1) as i32;
        let at = b.s_var(0);
        b.loop_static(d.devices - 1, |b| {
            let device = b.smem_load(at, word);
            let place = b.smem_load(at, word + 1);
            f(b, device, place);
            b.s_inc(at, 2);
        });
    }

    fn everybody(&mut self, cx: &Cx, d: &Direct) -> Everybody {
        let p = &d.parts;
        let reduce = d.kind == DirectKind::Reduce;
        let (from, to) = match d.kind {
            DirectKind::AllGather => (Place::Part, Place::Whole),
            DirectKind::Reduce => (Place::Whole, Place::Slot),
            _ => (Place::Whole, Place::Whole),
        };
        let spaces = (Space::Hbm, if reduce { Space::Vmem } else { Space::Hbm });
        let slot = |rows: u64| p.slot_component(rows, cx.sublanes);
        let mut make = |rows: u64| {
            let d = desc(p, rows, &[], slot(rows), (from, to), spaces, cx);
            self.desc(d)
        };
        let copy = make(p.run);
        // Two halves, which may go different ways round.
        let unit = HBM_GRANULE.div_ceil(cx.row_bytes).max(1);
        let halves = match p.run / 2 / unit * unit {
            0 => vec![(copy, 0, p.run)],
            _ if reduce => vec![(copy, 0, p.run)],
            h => [(0, h), (h, p.run - h)].into_iter().map(|(first, rows)| (make(rows), first, rows)).collect(),
        };
        Everybody { copy, halves }
    }

    fn begin_everybody(&mut self, cx: &Cx, d: &Direct) {
        let p = &d.parts;
        let reduce = d.kind == DirectKind::Reduce;
        let Everybody { copy, halves } = self.everybody(cx, d);
        // A reduction of whole arrays sends the same to everybody.
        let apart = if d.kind == DirectKind::AllGather || whole_array(d) { 0 } else { p.step };
        let slot = p.components * p.slot_component(p.run, cx.sublanes);
        let step = if reduce { slot as i32 } else { cx.granules(p.step) };
        let b = &mut self.b;
        let rank = cx.word(b, d.table, 0);
        let place = b.s_muli(rank, step);
        let mine = plus(b, place, if reduce { cx.slots as i32 } else { cx.dst as i32 });
        let source = b.s_muli(rank, cx.granules(apart));
        let source = plus(b, source, cx.src as i32);
        Self::others(b, cx, d, |b, device, _| cx.signal(b, device, d.ready, 1));
        cx.copy(b, copy, source, mine, d.local);
        cx.wait(b, d.ready, u64::from(d.devices - 1));
        Self::others(b, cx, d, |b, device, place| {
            let src = b.s_muli(place, cx.granules(apart));
            let src = plus(b, src, cx.src as i32);
            for (i, &(desc, first, _)) in halves.iter().enumerate() {
                let src = plus(b, src, cx.granules(first));
                let dst = plus(b, mine, cx.granules(first));
                let recv = if i == 0 { d.recv } else { d.recv2 };
                cx.send(b, RemoteArgs { desc, src, dst, device, send: d.send, recv });
            }
        });
    }

    fn end_everybody(&mut self, cx: &Cx, d: &Direct) {
        let p = &d.parts;
        let halves = self.everybody(cx, d).halves;
        let bytes = |rows: u64| p.components * p.planes * p.before * rows * cx.row_bytes;
        let b = &mut self.b;
        cx.wait(b, d.local, bytes(p.run));
        b.loop_static(d.devices - 1, |b| {
            for (i, &(_, _, rows)) in halves.iter().enumerate() {
                cx.wait(b, if i == 0 { d.recv } else { d.recv2 }, bytes(rows));
            }
        });
        b.loop_static(d.devices - 1, |b| cx.wait(b, d.send, bytes(p.run)));
        if d.kind == DirectKind::Reduce {
            self.combine(cx, d);
        }
    }

    /// Combines everybody's contributions in order, in the first slot, and stores the result.
    fn combine(&mut self, cx: &Cx, d: &Direct) {
        let p = &d.parts;
        let to = if whole_array(d) { Place::Whole } else { Place::Part };
        let slot = p.slot_component(p.run, cx.sublanes);
        let store = desc(p, p.run, &[], slot, (Place::Slot, to), (Space::Vmem, Space::Hbm), cx);
        let store = self.desc(store);
        let b = &mut self.b;
        let first = (cx.slots * d.packing) as i32;
        let acc = b.s_imm(first);
        let step = (p.components * slot * d.packing) as i32;
        let other = b.s_var(first + step);
        b.loop_static(d.devices - 1, |b| {
            b.call(d.kernel.unwrap_or(0) as u32 + 1, &[acc, other, acc]);
            b.s_inc(other, step);
        });
        let (src, dst) = (b.s_imm(cx.slots as i32), b.s_imm(cx.dst as i32));
        cx.copy(b, store, src, dst, d.local);
        cx.wait(b, d.local, p.total() * cx.row_bytes);
    }

    fn begin_broadcast(&mut self, cx: &Cx, d: &Direct) {
        let bytes = d.parts.total() * cx.row_bytes;
        let copy = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, bytes as u32));
        let others = u64::from(d.devices - 1);
        let b = &mut self.b;
        let rank = cx.word(b, d.table, 0);
        let (src, dst) = (b.s_imm(cx.src as i32), b.s_imm(cx.dst as i32));
        b.if_else(
            rank,
            |b| {
                // The first device is among the others: its place is 0.
                Self::others(b, cx, d, |b, device, place| {
                    let root = b.def_s(Op::SEqI, &[place.into(), 0.into()]);
                    b.if_(root, |b| cx.signal(b, device, d.ready, 1));
                });
            },
            |b| {
                cx.copy(b, copy, src, dst, d.local);
                cx.wait(b, d.ready, others);
                Self::others(b, cx, d, |b, device, _| {
                    cx.send(b, RemoteArgs { desc: copy, src, dst, device, send: d.send, recv: d.recv });
                });
            },
        );
    }

    fn end_broadcast(&mut self, cx: &Cx, d: &Direct) {
        let bytes = d.parts.total() * cx.row_bytes;
        let b = &mut self.b;
        let rank = cx.word(b, d.table, 0);
        b.if_else(
            rank,
            |b| cx.wait(b, d.recv, bytes),
            |b| {
                cx.wait(b, d.local, bytes);
                b.loop_static(d.devices - 1, |b| cx.wait(b, d.send, bytes));
            },
        );
    }

    /// Whether this device sends and gets something: registers that are not 0.
    fn ends(&mut self, cx: &Cx, d: &Direct) -> [(S, S); 2] {
        let b = &mut self.b;
        [0, 1].map(|i| {
            let device = cx.word(b, d.table, i);
            let none = b.s_imm(-1);
            (device, b.s(Op::SLt, &[none, device]))
        })
    }

    fn begin_permutation(&mut self, cx: &Cx, d: &Direct) {
        let bytes = d.parts.total() * cx.row_bytes;
        let copy = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, bytes as u32));
        let [(target, sends), (source, gets)] = self.ends(cx, d);
        let b = &mut self.b;
        let (src, dst) = (b.s_imm(cx.src as i32), b.s_imm(cx.dst as i32));
        b.if_(gets, |b| cx.signal(b, source, d.ready, 1));
        b.if_(sends, |b| {
            cx.wait(b, d.ready, 1);
            cx.send(b, RemoteArgs { desc: copy, src, dst, device: target, send: d.send, recv: d.recv });
        });
    }

    fn end_permutation(&mut self, cx: &Cx, d: &Direct) {
        let bytes = d.parts.total() * cx.row_bytes;
        let [(_, sends), (_, gets)] = self.ends(cx, d);
        let b = &mut self.b;
        b.if_(gets, |b| cx.wait(b, d.recv, bytes));
        b.if_(sends, |b| cx.wait(b, d.send, bytes));
    }
}

/// Whether everybody contributes to the whole array, not to a part of it.
fn whole_array(d: &Direct) -> bool {
    let p = &d.parts;
    d.kind == DirectKind::Reduce && p.step == p.whole[0] && p.planes * p.before == 1
}
