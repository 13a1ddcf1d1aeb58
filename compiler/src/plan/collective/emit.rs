//! Code of collectives in the main program.
//!
//! All copies of the main program keep their order, so that the code below says what waits for what. Addresses of blocks
//! are computed at run time from the device's table; everything else is the same on all devices, the places of slots
//! and buffers among it: a device knows where its peer's are because its own are there.

use super::direct::{Direct, DirectKind};
use super::ring::{IN_SLOTS, KEEP_SLOTS, OWN_SLOTS, Ring, RingKind, SLOTS, Stream};
use super::{Exchange, How, Table};
use crate::analysis::parts::Parts;
use crate::error::CompileError;
use crate::kernel::build_units::{DmaArgs, RemoteArgs};
use crate::kernel::{BufferRef, KernelBuilder, S};
use crate::plan::main_program::Emitter;
use crate::plan::memory::guard_rows;
use crate::plan::step::Use;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{DmaDesc, DmaDim, Op, Space};

/// How rows of pieces lie: in vector memory (one after the other), in the whole array, or in a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Slot,
    Whole,
    Part,
}

/// What code of one exchange shares.
struct Cx {
    all: BufferRef,
    /// First word of the device's table.
    base: u32,
    row_bytes: u64,
    sublanes: u32,
    src: u64,
    dst: u64,
    temp: u64,
}

impl Cx {
    fn granules(&self, rows: u64) -> i32 {
        (rows * self.row_bytes / HBM_GRANULE) as i32
    }

    fn word(&self, b: &mut KernelBuilder, t: Table, offset: u32) -> S {
        b.smem_load(S::ZERO, (self.base + t.0 + offset) as i32)
    }

    fn copy(&self, b: &mut KernelBuilder, desc: u32, src: S, dst: S, sem: u32) {
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem };
        b.dma_start(args, &[self.all], &[self.all]);
    }

    fn wait(&self, b: &mut KernelBuilder, sem: u32, bytes: u64) {
        b.dma_wait(sem, bytes as i32, &[self.all], &[self.all]);
    }

    fn send(&self, b: &mut KernelBuilder, a: RemoteArgs) {
        b.dma_remote(a, &[self.all], &[self.all]);
    }

    fn signal(&self, b: &mut KernelBuilder, device: S, sem: u32, count: u64) {
        b.signal(device, sem, count as i32, &[self.all]);
    }
}

/// The copy of `rows` rows of every run of a part between two places.
fn desc(p: &Parts, rows: u64, from: Place, to: Place, (src, dst): (Space, Space), cx: &Cx) -> DmaDesc {
    let row_bytes = cx.row_bytes;
    let strides = |place: Place| match place {
        Place::Slot => [p.slot_component(rows, cx.sublanes), p.before * rows, rows],
        Place::Whole => p.whole,
        Place::Part => p.part,
    };
    let (a, b) = (strides(from), strides(to));
    let dims = [p.components, p.planes, p.before];
    let dim = |i: usize| DmaDim {
        count: dims[i] as u32,
        src_stride: (a[i] * row_bytes) as i64,
        dst_stride: (b[i] * row_bytes) as i64,
    };
    DmaDesc { src, dst, chunk: (rows * row_bytes) as u32, dims: (0..3).filter(|&i| dims[i] > 1).map(dim).collect() }
}

/// Whether everybody contributes to the whole array, not to a part of it.
fn whole_array(d: &Direct) -> bool {
    let p = &d.parts;
    d.kind == DirectKind::Reduce && p.step == p.whole[0] && p.planes * p.before == 1
}

/// Adds a constant, if it is one.
fn plus(b: &mut KernelBuilder, a: S, imm: i32) -> S {
    if imm == 0 { a } else { b.s_addi(a, imm) }
}

impl<'a> Emitter<'a> {
    /// Copies the device's row of the tables to scalar memory.
    pub(in crate::plan) fn load_tables(&mut self) -> Result<(), CompileError> {
        let Some(constant) = self.plan.pod.constant else { return Ok(()) };
        let words = self.plan.pod.words();
        let first = self.memory.granule(constant)?;
        let desc = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, words * 4));
        let device = self.b.def_s(Op::SDev, &[]);
        let row = self.b.s_muli(device, (u64::from(words) * 4 / HBM_GRANULE) as i32);
        let src = self.b.s_addi(row, first as i32);
        let dst = self.b.s_imm(self.plan.pod.base as i32);
        let sem = crate::plan::memory::KERNEL_SEMAPHORES - 1;
        let all = [self.all];
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem };
        self.b.dma_start(args, &all, &all);
        self.b.dma_wait(sem, words as i32 * 4, &all, &all);
        Ok(())
    }

    /// Emits a collective.
    pub(in crate::plan) fn exchange(&mut self, x: &Exchange) -> Result<(), CompileError> {
        let mut out = Vec::new();
        self.in_hbm(x.src, Use::Read, &mut out)?;
        self.in_hbm(x.dst, Use::Write, &mut out)?;
        let (src, dst) = (self.memory.granule(x.src)?, self.memory.granule(x.dst)?);
        let mut temp = dst;
        if let Some(t) = x.temp {
            self.in_hbm(t, Use::Write, &mut out)?;
            temp = self.memory.granule(t)?;
        }
        let rows = match &x.how {
            How::Ring(r) if r.kind != RingKind::AllGather => {
                r.slot_rows(self.memory.chip.core.sublanes) * SLOTS * r.streams.len() as u64
            }
            How::Direct(d) if d.kind == DirectKind::Reduce => {
                let component = d.parts.slot_component(d.parts.run, self.memory.chip.core.sublanes);
                d.parts.components * component * u64::from(d.devices)
            }
            How::Ring(_) | How::Direct(_) => 0,
        };
        let rows = if rows > 0 { rows + guard_rows(self.memory.chip) } else { 0 };
        let name = self.memory.name_of(x.dst).to_string();
        let slots = match rows {
            0 => 0,
            n => self.memory.room(n, self.now, &[], &format!("slots of `{name}`"), &mut out)?,
        };
        self.copies(out);
        let row_bytes = self.memory.chip.row_bytes();
        let cx = Cx {
            all: self.all,
            base: self.plan.pod.base,
            row_bytes,
            sublanes: self.memory.chip.core.sublanes,
            src,
            dst,
            temp,
        };
        match &x.how {
            How::Ring(r) => self.ring(&cx, r, slots),
            How::Direct(d) => self.direct(&cx, d, slots),
        }
        if rows > 0 {
            self.memory.vmem.give(slots, rows);
        }
        Ok(())
    }

    // ---- rings ----

    fn ring(&mut self, cx: &Cx, r: &Ring, slots: u64) {
        let axes = r.axes.len();
        let mut phase = 0;
        if r.kind == RingKind::AllGather {
            self.own_part(cx, r);
        } else {
            for i in 0..axes {
                self.reduce_phase(cx, r, i, phase, slots);
                phase += 1;
            }
        }
        if r.kind != RingKind::ReduceScatter {
            for i in (0..axes).rev() {
                self.gather_phase(cx, r, i, phase);
                if r.kind == RingKind::AllGather && i + 1 == axes {
                    cx.wait(&mut self.b, r.local, r.parts.total() * cx.row_bytes);
                }
                phase += 1;
            }
        }
    }

    /// All-gather begins with the own part going to its place; the first sends read it where it was.
    fn own_part(&mut self, cx: &Cx, r: &Ring) {
        let d = self.desc(desc(&r.parts, r.parts.run, Place::Part, Place::Whole, (Space::Hbm, Space::Hbm), cx));
        let b = &mut self.b;
        let mut at = b.s_imm(cx.dst as i32);
        for a in &r.axes {
            let c = cx.word(b, a.table, 2);
            let c = b.s_muli(c, cx.granules(a.mult * r.parts.step));
            at = b.s(Op::SAdd, &[at, c]);
        }
        let src = b.s_imm(cx.src as i32);
        cx.copy(b, d, src, at, r.local);
    }

    fn reduce_phase(&mut self, cx: &Cx, r: &Ring, position: usize, phase: usize, slots: u64) {
        let hbm = |s: bool| if s { Space::Hbm } else { Space::Vmem };
        let last_phase = position + 1 == r.axes.len();
        let to_part = r.kind == RingKind::ReduceScatter && last_phase;
        let place = if to_part { Place::Part } else { Place::Whole };
        let mut descs = Vec::new();
        for s in &r.streams {
            let d = |f: Place, t: Place, a: bool, b: bool| desc(&r.parts, s.piece, f, t, (hbm(a), hbm(b)), cx);
            descs.push([
                self.desc(d(Place::Whole, Place::Slot, true, false)),
                self.desc(d(Place::Slot, Place::Slot, false, false)),
                self.desc(d(Place::Slot, place, false, true)),
            ]);
        }
        let geometry = Phase::new(cx, r, position, phase, 1);
        let mut b = std::mem::replace(&mut self.b, KernelBuilder::new("", self.memory.chip));
        let mut e = Reduce {
            own: if position == 0 { cx.src } else { cx.temp },
            result: if to_part { cx.dst } else { cx.temp },
            to_part,
            slots,
            descs,
            slot_rows: r.slot_rows(cx.sublanes),
            sent: b.s_var(0),
            taken: b.s_var(0),
            own_slot: b.s_var(0),
            in_slot: b.s_var(0),
            out_slot: b.s_var(0),
            p: geometry,
        };
        e.phase(&mut b);
        self.b = b;
    }

    fn gather_phase(&mut self, cx: &Cx, r: &Ring, position: usize, phase: usize) {
        let mut descs = Vec::new();
        for s in &r.streams {
            let d = desc(&r.parts, s.piece, Place::Whole, Place::Whole, (Space::Hbm, Space::Hbm), cx);
            let first = desc(&r.parts, s.piece, Place::Part, Place::Whole, (Space::Hbm, Space::Hbm), cx);
            descs.push([self.desc(d), self.desc(first)]);
        }
        let p = Phase::new(cx, r, position, phase, 0);
        let mut b = std::mem::replace(&mut self.b, KernelBuilder::new("", self.memory.chip));
        gather(&mut b, &p, &descs);
        self.b = b;
    }

    // ---- direct ----

    fn direct(&mut self, cx: &Cx, d: &Direct, slots: u64) {
        match d.kind {
            DirectKind::Permute => self.permutation(cx, d),
            DirectKind::Broadcast => self.broadcast(cx, d),
            DirectKind::AllGather | DirectKind::AllToAll | DirectKind::Reduce => self.everybody(cx, d, slots),
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

    fn everybody(&mut self, cx: &Cx, d: &Direct, slots: u64) {
        let p = &d.parts;
        let reduce = d.kind == DirectKind::Reduce;
        let (from, to) = match d.kind {
            DirectKind::AllGather => (Place::Part, Place::Whole),
            DirectKind::Reduce => (Place::Whole, Place::Slot),
            _ => (Place::Whole, Place::Whole),
        };
        let spaces = (Space::Hbm, if reduce { Space::Vmem } else { Space::Hbm });
        let copy = self.desc(desc(p, p.run, from, to, spaces, cx));
        // Two halves, which may go different ways round.
        let unit = HBM_GRANULE.div_ceil(cx.row_bytes).max(1);
        let half = p.run / 2 / unit * unit;
        let halves: Vec<(u32, u64, u64)> = match half {
            0 => vec![(copy, 0, p.run)],
            _ if reduce => vec![(copy, 0, p.run)],
            h => [(0, h), (h, p.run - h)]
                .into_iter()
                .map(|(first, rows)| (self.desc(desc(p, rows, from, to, spaces, cx)), first, rows))
                .collect(),
        };
        let bytes = |rows: u64| p.components * p.planes * p.before * rows * cx.row_bytes;
        let others = u64::from(d.devices - 1);
        // A reduction of whole arrays sends the same to everybody.
        let apart = if from == Place::Part || whole_array(d) { 0 } else { p.step };
        let slot = p.components * p.slot_component(p.run, cx.sublanes);
        let step = if reduce { slot as i32 } else { cx.granules(p.step) };
        let b = &mut self.b;
        let rank = cx.word(b, d.table, 0);
        let place = b.s_muli(rank, step);
        let mine = plus(b, place, if reduce { slots as i32 } else { cx.dst as i32 });
        let source = b.s_muli(rank, cx.granules(apart));
        let source = plus(b, source, cx.src as i32);
        Self::others(b, cx, d, |b, device, _| cx.signal(b, device, d.ready, 1));
        cx.copy(b, copy, source, mine, d.local);
        cx.wait(b, d.ready, others);
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
        cx.wait(b, d.local, bytes(p.run));
        b.loop_static(d.devices - 1, |b| {
            for (i, &(_, _, rows)) in halves.iter().enumerate() {
                cx.wait(b, if i == 0 { d.recv } else { d.recv2 }, bytes(rows));
            }
        });
        b.loop_static(d.devices - 1, |b| cx.wait(b, d.send, bytes(p.run)));
        if reduce {
            self.combine(cx, d, slots);
        }
    }

    /// Combines everybody's contributions in order, in the first slot, and stores the result.
    fn combine(&mut self, cx: &Cx, d: &Direct, slots: u64) {
        let p = &d.parts;
        let to = if whole_array(d) { Place::Whole } else { Place::Part };
        let store = self.desc(desc(p, p.run, Place::Slot, to, (Space::Vmem, Space::Hbm), cx));
        let packing = d.packing;
        let b = &mut self.b;
        let acc = b.s_imm((slots * packing) as i32);
        let step = (p.components * p.slot_component(p.run, cx.sublanes) * packing) as i32;
        let other = b.s_var((slots * packing) as i32 + step);
        b.loop_static(d.devices - 1, |b| {
            b.call(d.kernel.unwrap_or(0) as u32 + 1, &[acc, other, acc]);
            b.s_inc(other, step);
        });
        let (src, dst) = (b.s_imm(slots as i32), b.s_imm(cx.dst as i32));
        cx.copy(b, store, src, dst, d.local);
        cx.wait(b, d.local, p.total() * cx.row_bytes);
    }

    fn broadcast(&mut self, cx: &Cx, d: &Direct) {
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
                cx.wait(b, d.recv, bytes);
            },
            |b| {
                cx.copy(b, copy, src, dst, d.local);
                cx.wait(b, d.ready, others);
                Self::others(b, cx, d, |b, device, _| {
                    cx.send(b, RemoteArgs { desc: copy, src, dst, device, send: d.send, recv: d.recv });
                });
                cx.wait(b, d.local, bytes);
                b.loop_static(d.devices - 1, |b| cx.wait(b, d.send, bytes));
            },
        );
    }

    fn permutation(&mut self, cx: &Cx, d: &Direct) {
        let bytes = d.parts.total() * cx.row_bytes;
        let copy = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, bytes as u32));
        let b = &mut self.b;
        let target = cx.word(b, d.table, 0);
        let source = cx.word(b, d.table, 1);
        let none = b.s_imm(-1);
        let sends = b.s(Op::SLt, &[none, target]);
        let gets = b.s(Op::SLt, &[none, source]);
        let (src, dst) = (b.s_imm(cx.src as i32), b.s_imm(cx.dst as i32));
        b.if_(gets, |b| cx.signal(b, source, d.ready, 1));
        b.if_(sends, |b| {
            cx.wait(b, d.ready, 1);
            cx.send(b, RemoteArgs { desc: copy, src, dst, device: target, send: d.send, recv: d.recv });
        });
        b.if_(gets, |b| cx.wait(b, d.recv, bytes));
        b.if_(sends, |b| cx.wait(b, d.send, bytes));
    }
}

/// A phase of a ring: one position in the streams' orders of axes.
struct Phase<'a> {
    cx: &'a Cx,
    r: &'a Ring,
    position: usize,
    phase: usize,
    /// Devices in the ring.
    n: u32,
    /// Steps behind that the block of step 0 is: 1 in reductions.
    ahead: u32,
    /// Axes (by position) over whose blocks the phase goes.
    combos: Vec<usize>,
}

impl<'a> Phase<'a> {
    fn new(cx: &'a Cx, r: &'a Ring, position: usize, phase: usize, ahead: u32) -> Phase<'a> {
        let n = r.axes[r.streams[0].order[position]].n;
        Phase { cx, r, position, phase, n, ahead, combos: (position + 1..r.axes.len()).collect() }
    }

    fn table(&self, s: &Stream) -> Table {
        self.r.axes[s.order[self.position]].table
    }

    /// Pieces of a step.
    fn rounds(&self) -> u64 {
        let combos: u64 = self.combos.iter().map(|&i| u64::from(self.r.axes[self.r.streams[0].order[i]].n)).product();
        combos * self.r.pieces
    }

    fn bytes(&self, s: &Stream) -> u64 {
        let p = &self.r.parts;
        p.components * p.planes * p.before * s.piece * self.cx.row_bytes
    }

    /// The device that a stream sends to / gets from.
    fn peer(&self, b: &mut KernelBuilder, s: &Stream, next: bool) -> S {
        self.cx.word(b, self.table(s), u32::from(s.forward != next))
    }

    /// The granule offset of the part that is worked on at step `t`, with the stream's first row.
    fn offset(&self, b: &mut KernelBuilder, s: &Stream, t: S, u: &[S]) -> S {
        let r = self.r;
        let first = (self.cx.base + self.table(s).0 + 2) as i32;
        let index = if s.forward {
            plus(b, t, self.ahead as i32)
        } else {
            let n = b.s_imm((self.n - self.ahead) as i32);
            b.s(Op::SSub, &[n, t])
        };
        let block = b.smem_load(index, first);
        let scale = |axis: usize| self.cx.granules(r.axes[axis].mult * r.parts.step);
        let mut at = b.s_muli(block, scale(s.order[self.position]));
        for &fixed in &s.order[..self.position] {
            let c = self.cx.word(b, r.axes[fixed].table, 2);
            let c = b.s_muli(c, scale(fixed));
            at = b.s(Op::SAdd, &[at, c]);
        }
        for (&i, &c) in self.combos.iter().zip(u) {
            let c = b.s_muli(c, scale(s.order[i]));
            at = b.s(Op::SAdd, &[at, c]);
        }
        plus(b, at, self.cx.granules(s.first))
    }

    /// Runs `f` for every combination of blocks and every piece, with the combination and the piece's number.
    fn for_rounds(&self, b: &mut KernelBuilder, f: &mut dyn FnMut(&mut KernelBuilder, &[S], S)) {
        self.nest(b, &mut Vec::new(), f);
    }

    fn nest(&self, b: &mut KernelBuilder, u: &mut Vec<S>, f: &mut dyn FnMut(&mut KernelBuilder, &[S], S)) {
        if let Some(&i) = self.combos.get(u.len()) {
            let n = self.r.axes[self.r.streams[0].order[i]].n;
            let c = b.s_var(0);
            b.loop_static(n, |b| {
                u.push(c);
                self.nest(b, u, f);
                u.pop();
                b.s_inc(c, 1);
            });
            return;
        }
        let j = b.s_var(0);
        b.loop_static(self.r.pieces as u32, |b| {
            f(b, u, j);
            b.s_inc(j, 1);
        });
    }

    /// An address in an array: base, part, piece.
    fn address(&self, b: &mut KernelBuilder, s: &Stream, base: u64, offset: S, j: S) -> S {
        let piece = b.s_muli(j, self.cx.granules(s.piece));
        let at = b.s(Op::SAdd, &[offset, piece]);
        b.s_addi(at, base as i32)
    }
}

/// All-gather along one axis: blocks go round, from and to their place in the result.
fn gather(b: &mut KernelBuilder, p: &Phase<'_>, descs: &[[u32; 2]]) {
    let (cx, streams) = (p.cx, &p.r.streams);
    for s in streams {
        let prev = p.peer(b, s, false);
        cx.signal(b, prev, s.ready[p.phase], 1);
    }
    for s in streams {
        cx.wait(b, s.ready[p.phase], 1);
    }
    let step = |b: &mut KernelBuilder, t: S, first: bool| {
        p.for_rounds(b, &mut |b, u, j| {
            for (s, &[desc, own]) in streams.iter().zip(descs) {
                if !first {
                    cx.wait(b, s.recv, p.bytes(s));
                }
                let offset = p.offset(b, s, t, u);
                let at = p.address(b, s, cx.dst, offset, j);
                let device = p.peer(b, s, true);
                let (mut desc, mut src) = (desc, at);
                if first && p.r.kind == RingKind::AllGather && p.combos.is_empty() {
                    let offset = b.s_imm(cx.granules(s.first));
                    (desc, src) = (own, p.address(b, s, cx.src, offset, j));
                }
                cx.send(b, RemoteArgs { desc, src, dst: at, device, send: s.send, recv: s.recv });
            }
        });
    };
    step(b, S::ZERO, true);
    if p.n > 2 {
        let t = b.s_var(1);
        b.loop_static(p.n - 2, |b| {
            step(b, t, false);
            b.s_inc(t, 1);
        });
    }
    let rounds = p.rounds();
    b.loop_static(rounds as u32, |b| streams.iter().for_each(|s| cx.wait(b, s.recv, p.bytes(s))));
    let sent = rounds * u64::from(p.n - 1);
    b.loop_static(sent as u32, |b| streams.iter().for_each(|s| cx.wait(b, s.send, p.bytes(s))));
}

/// Which step of a reduction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Only sends the own contribution.
    First,
    Middle,
    /// Keeps the result.
    Last,
}

/// Reduce-scatter along one axis: partial results go round through slots in vector memory.
///
/// Pieces go round in batches that fit in the slots. The first sends of the next batch come before the results of the
/// present one, so that links have work while results come in.
struct Reduce<'a> {
    p: Phase<'a>,
    /// Granules of the own contribution and of the result.
    own: u64,
    result: u64,
    to_part: bool,
    slots: u64,
    slot_rows: u64,
    /// Of every stream: load, send, store.
    descs: Vec<[u32; 3]>,
    /// Messages sent and taken so far, and row offsets of the slots in turn.
    sent: S,
    taken: S,
    own_slot: S,
    in_slot: S,
    out_slot: S,
}

/// Where a batch is: its blocks along the other axes, and its first piece.
struct At {
    u: Vec<S>,
    j: S,
}

impl Reduce<'_> {
    fn messages(&self) -> u64 {
        self.p.rounds() * u64::from(self.p.n - 1)
    }

    fn phase(&mut self, b: &mut KernelBuilder) {
        let n = self.p.n;
        let messages = self.messages();
        for s in &self.p.r.streams {
            let prev = self.p.peer(b, s, false);
            self.p.cx.signal(b, prev, s.ready[self.p.phase], messages.min(IN_SLOTS));
        }
        let batch = self.p.r.batch() as u32;
        let batches = self.p.rounds() / u64::from(batch);
        let start = self.decode(b, S::ZERO);
        self.for_batch(b, batch, &start, &mut |b, u, j| self.one_round(b, S::ZERO, u, j, Class::First));
        let number = b.s_var(0);
        b.loop_static(batches as u32, |b| {
            let at = self.decode(b, number);
            if n > 2 {
                let t = b.s_var(1);
                b.loop_static(n - 2, |b| {
                    self.for_batch(b, batch, &at, &mut |b, u, j| self.one_round(b, t, u, j, Class::Middle));
                    b.s_inc(t, 1);
                });
            }
            b.s_inc(number, 1);
            let more = b.def_s(Op::SLtI, &[number.into(), (batches as i32).into()]);
            let next = self.decode(b, number);
            let last = b.s_imm(n as i32 - 1);
            let k = b.s_var(0);
            b.loop_static(batch, |b| {
                b.if_(more, |b| {
                    let j = b.s(Op::SAdd, &[next.j, k]);
                    self.one_round(b, S::ZERO, &next.u, j, Class::First);
                });
                let j = b.s(Op::SAdd, &[at.j, k]);
                self.one_round(b, last, &at.u, j, Class::Last);
                b.s_inc(k, 1);
            });
        });
        b.loop_static(messages.min(OWN_SLOTS) as u32, |b| {
            for s in &self.p.r.streams {
                self.p.cx.wait(b, s.send, self.p.bytes(s));
            }
        });
    }

    fn for_batch(&self, b: &mut KernelBuilder, batch: u32, at: &At, f: &mut dyn FnMut(&mut KernelBuilder, &[S], S)) {
        let j = b.s_copy(at.j);
        b.loop_static(batch, |b| {
            f(b, &at.u, j);
            b.s_inc(j, 1);
        });
    }

    /// Blocks and first piece of a batch.
    fn decode(&self, b: &mut KernelBuilder, number: S) -> At {
        let r = self.p.r;
        let each = b.s_imm((r.pieces / r.batch()) as i32);
        let piece = b.s(Op::SRemU, &[number, each]);
        let j = b.s_muli(piece, r.batch() as i32);
        let mut rest = b.s(Op::SDivU, &[number, each]);
        let mut u = Vec::new();
        for &i in &self.p.combos {
            let n = b.s_imm(r.axes[r.streams[0].order[i]].n as i32);
            u.push(b.s(Op::SRemU, &[rest, n]));
            rest = b.s(Op::SDivU, &[rest, n]);
        }
        At { u, j }
    }

    /// First row of a stream's slots.
    fn stream_row(&self, stream: usize) -> u64 {
        self.slots + stream as u64 * self.slot_rows * SLOTS
    }

    fn own_row(&self, b: &mut KernelBuilder, stream: usize, class: Class) -> S {
        let first = self.stream_row(stream);
        match class {
            Class::Last => b.s_imm((first + OWN_SLOTS * self.slot_rows) as i32),
            Class::First | Class::Middle => b.s_addi(self.own_slot, first as i32),
        }
    }

    fn in_row(&self, b: &mut KernelBuilder, stream: usize, slot: S) -> S {
        b.s_addi(slot, (self.stream_row(stream) + (OWN_SLOTS + KEEP_SLOTS) * self.slot_rows) as i32)
    }

    /// Moves to the next slot of `count`.
    fn turn(&self, b: &mut KernelBuilder, slot: S, count: u64) {
        let next = b.s_addi(slot, self.slot_rows as i32);
        let inside = b.def_s(Op::SLtI, &[next.into(), ((self.slot_rows * count) as i32).into()]);
        let next = b.s(Op::SSel, &[inside, next, S::ZERO]);
        b.copy_s(slot, next);
    }

    fn one_round(&self, b: &mut KernelBuilder, t: S, u: &[S], j: S, class: Class) {
        let (p, cx) = (&self.p, self.p.cx);
        let streams = &p.r.streams;
        if class != Class::Last {
            // The slot's last message must have left.
            let limit = b.s_imm(OWN_SLOTS as i32 - 1);
            let used = b.s(Op::SLt, &[limit, self.sent]);
            b.if_(used, |b| streams.iter().for_each(|s| cx.wait(b, s.send, p.bytes(s))));
        }
        let mut total = 0;
        for (i, s) in streams.iter().enumerate() {
            let offset = p.offset(b, s, t, u);
            let from = p.address(b, s, self.own, offset, j);
            let to = self.own_row(b, i, class);
            cx.copy(b, self.descs[i][0], from, to, p.r.local);
            total += p.bytes(s);
        }
        if class != Class::First {
            streams.iter().for_each(|s| cx.wait(b, s.recv, p.bytes(s)));
        }
        cx.wait(b, p.r.local, total);
        if class != Class::First {
            self.add(b, class);
        }
        for (i, s) in streams.iter().enumerate() {
            let src = self.own_row(b, i, class);
            if class == Class::Last {
                let offset = if self.to_part { b.s_imm(cx.granules(s.first)) } else { p.offset(b, s, t, u) };
                let dst = p.address(b, s, self.result, offset, j);
                cx.copy(b, self.descs[i][2], src, dst, p.r.local);
                continue;
            }
            cx.wait(b, s.ready[p.phase], 1);
            let dst = self.in_row(b, i, self.out_slot);
            let device = p.peer(b, s, true);
            let desc = self.descs[i][1];
            cx.send(b, RemoteArgs { desc, src, dst, device, send: s.send, recv: s.recv });
        }
        if class == Class::Last {
            cx.wait(b, p.r.local, total);
        } else {
            self.turn(b, self.out_slot, IN_SLOTS);
            self.turn(b, self.own_slot, OWN_SLOTS);
            b.s_inc(self.sent, 1);
        }
        if class != Class::First {
            self.turn(b, self.in_slot, IN_SLOTS);
            b.s_inc(self.taken, 1);
        }
    }

    /// Adds what came to the own contribution, and lets the sender have the slot again.
    fn add(&self, b: &mut KernelBuilder, class: Class) {
        let (p, cx) = (&self.p, self.p.cx);
        let messages = self.messages();
        let packing = p.r.packing as i32;
        for (i, s) in p.r.streams.iter().enumerate() {
            let own = self.own_row(b, i, class);
            let come = self.in_row(b, i, self.in_slot);
            let own = b.s_muli(own, packing);
            let come = b.s_muli(come, packing);
            b.call(s.kernel.unwrap_or(0) as u32 + 1, &[own, come, own]);
        }
        if messages > IN_SLOTS {
            let last = b.s_imm((messages - IN_SLOTS) as i32);
            let more = b.s(Op::SLt, &[self.taken, last]);
            b.if_(more, |b| {
                for s in &p.r.streams {
                    let prev = p.peer(b, s, false);
                    cx.signal(b, prev, s.ready[p.phase], 1);
                }
            });
        }
    }
}
