//! The code of direct exchanges, in four moves: devices say that they may be sent to, everything is sent, everything has
//! come (and is combined), and what was stored is there.

use super::super::main_program::Emitter;
use super::progress::{Moves, all, load, store};
use super::{Cx, Place, desc, plus};
use crate::plan::collective::{Direct, DirectKind, State};
use systole_codegen::kernel::build_units::RemoteArgs;
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{DmaDesc, Op, Space};

/// A direct exchange as code.
pub(super) struct Code<'a> {
    cx: Cx,
    d: &'a Direct,
    /// Its phase in an exchange, and the words of state.
    pub number: usize,
    pub state: u32,
    /// The own contribution, to its place.
    copy: u32,
    /// What is sent to each, in parts that may go different ways round: descriptor, first row, rows.
    halves: Vec<(u32, u64, u64)>,
    /// The combined result, to its place.
    result: u32,
}

/// A device's side in broadcasts and permutations: whether it sends and gets something (registers), and with whom.
struct Ends {
    sends: S,
    gets: S,
    target: S,
    source: S,
}

impl<'a> Code<'a> {
    pub fn new(e: &mut Emitter<'_>, cx: Cx, d: &'a Direct, (number, state): (usize, u32)) -> Code<'a> {
        let p = &d.parts;
        let mut code = Code { cx, d, number, state, copy: 0, halves: Vec::new(), result: 0 };
        if !code.everybody() {
            code.copy = e.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, (p.total() * cx.row_bytes) as u32));
            return code;
        }
        let reduce = d.kind == DirectKind::Reduce;
        let (from, to) = match d.kind {
            DirectKind::AllGather => (Place::Part, Place::Whole),
            DirectKind::Reduce => (Place::Whole, Place::Slot),
            DirectKind::AllToAll | DirectKind::Broadcast | DirectKind::Permute => (Place::Whole, Place::Whole),
        };
        let spaces = (Space::Hbm, if reduce { Space::Vmem } else { Space::Hbm });
        let slot = |rows: u64| p.slot_component(rows, cx.sublanes);
        let mut make = |rows: u64| {
            let d = desc(p, rows, &[], slot(rows), (from, to), spaces, &cx);
            e.desc(d)
        };
        code.copy = make(p.run);
        // Two halves, which may go different ways round.
        let unit = HBM_GRANULE.div_ceil(cx.row_bytes).max(1);
        code.halves = match p.run / 2 / unit * unit {
            0 => vec![(code.copy, 0, p.run)],
            _ if reduce => vec![(code.copy, 0, p.run)],
            h => [(0, h), (h, p.run - h)].into_iter().map(|(first, rows)| (make(rows), first, rows)).collect(),
        };
        if reduce {
            let to = if whole_array(d) { Place::Whole } else { Place::Part };
            let store = desc(p, p.run, &[], slot(p.run), (Place::Slot, to), (Space::Vmem, Space::Hbm), &cx);
            code.result = e.desc(store);
        }
        code
    }

    /// Whether everybody sends to everybody.
    fn everybody(&self) -> bool {
        match self.d.kind {
            DirectKind::AllGather | DirectKind::AllToAll | DirectKind::Reduce => true,
            DirectKind::Broadcast | DirectKind::Permute => false,
        }
    }

    /// Runs code for every other device of the group: its number and place.
    fn others(&self, b: &mut KernelBuilder, f: impl FnOnce(&mut KernelBuilder, S, S)) {
        let word = (self.cx.base + self.d.table.0 + 1) as i32;
        let at = b.s_var(0);
        b.loop_static(self.d.devices - 1, |b| {
            let device = b.smem_load(at, word);
            let place = b.smem_load(at, word + 1);
            f(b, device, place);
            b.s_inc(at, 2);
        });
    }

    /// Bytes of `rows` rows of every run.
    fn bytes(&self, rows: u64) -> u64 {
        let p = &self.d.parts;
        p.components * p.planes * p.before * rows * self.cx.row_bytes
    }

    /// Bytes of a whole array.
    fn whole(&self) -> u64 {
        self.d.parts.total() * self.cx.row_bytes
    }

    fn others_count(&self) -> u64 {
        u64::from(self.d.devices - 1)
    }

    fn ends(&self, b: &mut KernelBuilder) -> Ends {
        let (cx, d) = (&self.cx, self.d);
        if d.kind == DirectKind::Broadcast {
            let rank = cx.word(b, d.table, 0);
            let first = b.def_s(Op::SEqI, &[rank.into(), 0.into()]);
            return Ends { sends: first, gets: rank, target: S::ZERO, source: S::ZERO };
        }
        let none = b.s_imm(-1);
        let [target, source] = [0, 1].map(|i| cx.word(b, d.table, i));
        let (sends, gets) = (b.s(Op::SLt, &[none, target]), b.s(Op::SLt, &[none, source]));
        Ends { sends, gets, target, source }
    }

    /// Says that this device may be sent to.
    pub fn announce(&self, b: &mut KernelBuilder) {
        let (cx, d) = (&self.cx, self.d);
        if self.everybody() {
            self.others(b, |b, device, _| cx.signal(b, device, d.ready, 1));
            let rank = cx.word(b, d.table, 0);
            let source = b.s_muli(rank, cx.granules(self.apart()));
            let source = plus(b, source, cx.src as i32);
            let mine = self.mine(b);
            cx.copy(b, self.copy, source, mine, d.local);
            return;
        }
        let ends = self.ends(b);
        let (src, dst) = (b.s_imm(cx.src as i32), b.s_imm(cx.dst as i32));
        if d.kind == DirectKind::Permute {
            return b.if_(ends.gets, |b| cx.signal(b, ends.source, d.ready, 1));
        }
        b.if_else(
            ends.gets,
            |b| {
                // The first device is among the others: its place is 0.
                self.others(b, |b, device, place| {
                    let root = b.def_s(Op::SEqI, &[place.into(), 0.into()]);
                    b.if_(root, |b| cx.signal(b, device, d.ready, 1));
                });
            },
            |b| cx.copy(b, self.copy, src, dst, d.local),
        );
    }

    /// Rows between the parts for different devices in the own array: a reduction of whole arrays sends the same to all.
    fn apart(&self) -> u64 {
        if self.d.kind == DirectKind::AllGather || whole_array(self.d) { 0 } else { self.d.parts.step }
    }

    /// The place of what this device sends, at every other one.
    fn mine(&self, b: &mut KernelBuilder) -> S {
        let (cx, p) = (&self.cx, &self.d.parts);
        let reduce = self.d.kind == DirectKind::Reduce;
        let slot = p.components * p.slot_component(p.run, cx.sublanes);
        let rank = cx.word(b, self.d.table, 0);
        let place = b.s_muli(rank, if reduce { slot as i32 } else { cx.granules(p.step) });
        plus(b, place, if reduce { cx.slots as i32 } else { cx.dst as i32 })
    }

    /// Sends everything.
    pub fn post(&self, b: &mut KernelBuilder) {
        let (cx, d) = (&self.cx, self.d);
        if self.everybody() {
            cx.wait(b, d.ready, self.others_count());
            let mine = self.mine(b);
            return self.others(b, |b, device, place| {
                let src = b.s_muli(place, cx.granules(self.apart()));
                let src = plus(b, src, cx.src as i32);
                for (i, &(desc, first, _)) in self.halves.iter().enumerate() {
                    let src = plus(b, src, cx.granules(first));
                    let dst = plus(b, mine, cx.granules(first));
                    let recv = if i == 0 { d.recv } else { d.recv2 };
                    cx.send(b, RemoteArgs { desc, src, dst, device, send: d.send, recv });
                }
            });
        }
        let ends = self.ends(b);
        let (src, dst) = (b.s_imm(cx.src as i32), b.s_imm(cx.dst as i32));
        let to = |device: S| RemoteArgs { desc: self.copy, src, dst, device, send: d.send, recv: d.recv };
        b.if_(ends.sends, |b| {
            if d.kind == DirectKind::Broadcast {
                cx.wait(b, d.ready, self.others_count());
                self.others(b, |b, device, _| cx.send(b, to(device)));
            } else {
                cx.wait(b, d.ready, 1);
                cx.send(b, to(ends.target));
            }
        });
    }

    /// Waits for all that comes and leaves, and combines it.
    pub fn finish(&self, b: &mut KernelBuilder) {
        let (cx, d) = (&self.cx, self.d);
        if self.everybody() {
            cx.wait(b, d.local, self.bytes(d.parts.run));
            b.loop_static(d.devices - 1, |b| {
                for (i, &(_, _, rows)) in self.halves.iter().enumerate() {
                    cx.wait(b, if i == 0 { d.recv } else { d.recv2 }, self.bytes(rows));
                }
            });
            b.loop_static(d.devices - 1, |b| cx.wait(b, d.send, self.bytes(d.parts.run)));
            if d.kind == DirectKind::Reduce {
                self.combine(b);
            }
            return;
        }
        let ends = self.ends(b);
        let broadcast = d.kind == DirectKind::Broadcast;
        b.if_(ends.gets, |b| cx.wait(b, d.recv, self.whole()));
        b.if_(ends.sends, |b| {
            if broadcast {
                cx.wait(b, d.local, self.whole());
            }
            let sends = if broadcast { d.devices - 1 } else { 1 };
            b.loop_static(sends, |b| cx.wait(b, d.send, self.whole()));
        });
    }

    /// Combines everybody's contributions in order, in the first slot, and stores the result.
    fn combine(&self, b: &mut KernelBuilder) {
        let (cx, d, p) = (&self.cx, self.d, &self.d.parts);
        let first = (cx.slots * d.packing) as i32;
        let acc = b.s_imm(first);
        let step = (p.components * p.slot_component(p.run, cx.sublanes) * d.packing) as i32;
        let other = b.s_var(first + step);
        b.loop_static(d.devices - 1, |b| {
            b.call(d.kernel.unwrap_or(0) as u32 + 1, &[acc, other, acc]);
            b.s_inc(other, step);
        });
        let (src, dst) = (b.s_imm(cx.slots as i32), b.s_imm(cx.dst as i32));
        cx.copy(b, self.result, src, dst, d.local);
    }

    /// Waits for what was stored.
    pub fn settle(&self, b: &mut KernelBuilder) {
        if self.d.kind == DirectKind::Reduce {
            self.cx.wait(b, self.d.local, self.whole());
        }
    }

    /// Semaphores that the next moves wait for, of devices that send and of those that get something.
    fn waits(&self, number: i32) -> [Vec<(u32, u64)>; 2] {
        let (d, n) = (self.d, self.others_count());
        let sends = if d.kind == DirectKind::Permute { 1 } else { n };
        match number {
            0 => [Vec::new(), Vec::new()],
            1 => [vec![(d.ready, sends)], Vec::new()],
            2 if self.everybody() => {
                let come =
                    |(i, h): (usize, &(u32, u64, u64))| (if i == 0 { d.recv } else { d.recv2 }, n * self.bytes(h.2));
                let mut list: Vec<(u32, u64)> = self.halves.iter().enumerate().map(come).collect();
                list.extend([(d.local, self.bytes(d.parts.run)), (d.send, n * self.bytes(d.parts.run))]);
                [list, Vec::new()]
            }
            2 => {
                let mut list = vec![(d.send, sends * self.whole())];
                list.extend((d.kind == DirectKind::Broadcast).then(|| (d.local, self.whole())));
                [list, vec![(d.recv, self.whole())]]
            }
            _ if d.kind == DirectKind::Reduce => [vec![(d.local, self.whole())], Vec::new()],
            _ => [Vec::new(), Vec::new()],
        }
    }

    /// Runs one of the moves' code.
    fn by_move(&self, b: &mut KernelBuilder, f: &dyn Fn(&mut KernelBuilder, i32)) {
        let moves = load(b, self.state, State::Moves);
        let second = b.def_s(Op::SLtI, &[moves.into(), 2.into()]);
        let odd = b.def_s(Op::SAndI, &[moves.into(), 1.into()]);
        b.if_else(second, |b| b.if_else(odd, |b| f(b, 1), |b| f(b, 0)), |b| b.if_else(odd, |b| f(b, 3), |b| f(b, 2)));
    }
}

impl Moves for Code<'_> {
    fn ready(&self, b: &mut KernelBuilder) -> S {
        let ok = b.s_var(1);
        self.by_move(b, &|b, number| {
            let [sends, gets] = self.waits(number);
            let test = |b: &mut KernelBuilder, list: &[(u32, u64)]| {
                let now = all(b, list);
                let both = b.s(Op::SAnd, &[ok, now]);
                b.copy_s(ok, both);
            };
            if self.everybody() {
                return test(b, &sends);
            }
            if sends.is_empty() && gets.is_empty() {
                return;
            }
            let ends = self.ends(b);
            b.if_(ends.sends, |b| test(b, &sends));
            b.if_(ends.gets, |b| test(b, &gets));
        });
        ok
    }

    fn make(&self, b: &mut KernelBuilder) {
        let (number, state) = (self.number as i32, self.state);
        let moves = load(b, state, State::Moves);
        let next = b.s_addi(moves, 1);
        self.by_move(b, &|b, number| match number {
            0 => self.announce(b),
            1 => self.post(b),
            2 => self.finish(b),
            _ => self.settle(b),
        });
        let over = b.def_s(Op::SEqI, &[next.into(), 4.into()]);
        if self.everybody() {
            let third = b.def_s(Op::SEqI, &[next.into(), 2.into()]);
            let bytes = self.others_count() * self.bytes(self.halves[0].2);
            let wanted = b.s_muli(third, bytes.min(i32::MAX as u64) as i32);
            store(b, state, State::Wanted, wanted);
        }
        let left = b.s(Op::SSel, &[over, S::ZERO, next]);
        store(b, state, State::Moves, left);
        b.if_(over, |b| {
            let next = b.s_imm(number + 1);
            store(b, state, State::Phase, next);
        });
    }
}

/// Whether everybody contributes to the whole array, not to a part of it.
fn whole_array(d: &Direct) -> bool {
    let p = &d.parts;
    d.kind == DirectKind::Reduce && p.step == p.whole[0] && p.planes * p.before == 1
}
