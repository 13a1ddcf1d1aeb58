//! Moving blocks of HBM arrays through windows in vector memory.
//!
//! A [`Stream`] brings the blocks of an operand one after the other into a ring of windows, each in chunks; the copies of
//! a block start while those before it are in use or on their way. Every chunk of every window has a semaphore, but in
//! rings of two windows and those in which all blocks stay, where a chunk's copy starts when the one before it has come. Results
//! leave through [`OutStream`].

use super::odometer::{Level, Odometer};
use super::tile::Window;
use crate::emit::hbm::HbmUnit;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, S};
use systole_isa::{DmaDesc, DmaDim, Op, Space};

/// The step-level dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pass,
    Tap(usize),
    K,
    Group,
    Split,
    Wide,
    Block,
    Outer(usize),
    Batch(usize),
}

/// Runs `f(i)` for the value `i` (below `n`) of a register.
pub(super) fn switch(b: &mut KernelBuilder, value: S, n: u32, f: &dyn Fn(&mut KernelBuilder, u32)) {
    fn between(b: &mut KernelBuilder, value: S, from: u32, to: u32, f: &dyn Fn(&mut KernelBuilder, u32)) {
        if to - from == 1 {
            return f(b, from);
        }
        let mid = (from + to) / 2;
        let low = b.def_s(Op::SLtI, &[value.into(), (mid as i32).into()]);
        b.if_else(low, |b| between(b, value, from, mid, f), |b| between(b, value, mid, to, f));
    }
    between(b, value, 0, n, f);
}

/// Windows used in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    count: u32,
    /// From one window to the next.
    step: i32,
    /// Number of the window in use; in rings of two the distance to the other one.
    state: S,
}

impl Ring {
    /// `count` windows (two or more) `step` apart.
    pub fn new(b: &mut KernelBuilder, count: u32, step: i32) -> Ring {
        Ring { count, step, state: b.s_var(if count == 2 { step } else { 0 }) }
    }

    /// Turns to the next window, and moves `places` to it.
    pub fn turn(&self, b: &mut KernelBuilder, places: &[S]) {
        if self.count == 2 {
            places.iter().for_each(|at| b.set_s(*at, Op::SAdd, &[(*at).into(), self.state.into()]));
            return b.set_s(self.state, Op::SSub, &[S::ZERO.into(), self.state.into()]);
        }
        b.s_inc(self.state, 1);
        let inside = b.def_s(Op::SLtI, &[self.state.into(), (self.count as i32).into()]);
        for at in places {
            let (on, back) = (b.s_imm(self.step), b.s_imm(-self.step * (self.count as i32 - 1)));
            let by = b.s(Op::SSel, &[inside, on, back]);
            b.set_s(*at, Op::SAdd, &[(*at).into(), by.into()]);
        }
        b.set_s(self.state, Op::SSel, &[inside.into(), self.state.into(), S::ZERO.into()]);
    }

    /// Runs `f` for the number of the window in use; for 0 in rings of two.
    fn each(&self, b: &mut KernelBuilder, f: &dyn Fn(&mut KernelBuilder, u32)) {
        if self.count == 2 { f(b, 0) } else { switch(b, self.state, self.count, f) }
    }
}

/// A chunk of a block: its copy, and where it begins in the array (address units) and in the window (word rows).
pub(super) struct Chunk {
    pub desc: u32,
    pub bytes: u32,
    pub from: i32,
    pub to: i32,
}

/// Copies into a window, block by block.
pub(super) struct Stream {
    pub hbm: HbmUnit,
    pub buf: BufferRef,
    pub chunks: Vec<Chunk>,
    /// Semaphore of the first chunk.
    pub sem: u32,
    /// Semaphore of the first of the pieces that the first chunk of the first block comes in, and these; none if it comes whole.
    pub first: (u32, Vec<Chunk>),
    /// Copies that are started while this is set are started one after the other: memory serves them in that order.
    pub order: Option<BufferRef>,
    /// Place of the next block to copy (one variable, in address units).
    next: Odometer<Kind>,
    /// Blocks still to copy; word row of the window to fill next.
    left: S,
    window: S,
    /// The window to fill; the window to wait for, in rings of more than two.
    fill: Option<Ring>,
    due: Option<Ring>,
    total: u32,
}

impl Stream {
    /// A stream whose blocks are `levels` apart (one variable, in address units; innermost first), starting at the
    /// array's begin, into windows at word row `window`, one for
    /// each where all stay.
    pub fn new(
        b: &mut KernelBuilder,
        (hbm, buf): (HbmUnit, BufferRef),
        (chunks, sem): (Vec<Chunk>, u32),
        levels: Vec<Level<Kind>>,
        (base, window, stays): (S, &Window, bool),
    ) -> Stream {
        let total: u32 = levels.iter().map(|l| l.count).product();
        let at = b.s_var(0);
        let fill = (window.count > 1).then(|| Ring::new(b, window.count, window.words as i32));
        let due = (window.count > 2 && !stays).then(|| Ring::new(b, window.count, 0));
        Stream {
            hbm,
            buf,
            chunks,
            sem,
            first: (0, Vec::new()),
            order: None,
            next: Odometer::new(b, levels, vec![at]),
            left: b.s_var(if window.count > 1 { total as i32 } else { 1 }),
            window: b.s_copy(base),
            fill,
            due,
            total,
        }
    }

    /// Semaphores that a stream of so many chunks through a window's ring needs; `stays`: all its blocks do.
    pub fn semaphores(chunks: u32, window: &Window, stays: bool) -> u32 {
        if window.count > 2 && !stays { chunks * window.count } else { chunks }
    }

    /// Blocks to start before the first is waited for.
    pub fn ahead(&self) -> u32 {
        self.due.map_or(1, |r| r.count - 1).min(self.total)
    }

    /// Blocks that are still to be copied.
    pub fn left(&self) -> S {
        self.left
    }

    /// Starts the copy of chunk `i` of the next block; the last chunk moves on to the block after.
    pub fn start(&self, b: &mut KernelBuilder, i: u32) {
        let copy = self.copy(b, &self.chunks[i as usize]);
        let go = |b: &mut KernelBuilder, window: u32| {
            let sem = self.sem + window * self.chunks.len() as u32 + i;
            self.go(b, DmaArgs { sem, ..copy });
        };
        match (&self.fill, &self.due) {
            (Some(ring), Some(_)) => ring.each(b, &go),
            _ => go(b, 0),
        }
        self.started(b, i);
    }

    /// As [`Stream::start`], of the first block of all.
    pub fn start_first(&self, b: &mut KernelBuilder, i: u32) {
        let (sem, pieces) = &self.first;
        if i > 0 || pieces.is_empty() {
            return self.start(b, i);
        }
        for (piece, sem) in pieces.iter().zip(*sem..) {
            let copy = self.copy(b, piece);
            self.go(b, DmaArgs { sem, ..copy });
        }
        self.started(b, 0);
    }

    /// Waits for a piece of the first block.
    pub fn wait_first(&self, b: &mut KernelBuilder, piece: usize) {
        let (sem, pieces) = &self.first;
        b.dma_wait(sem + piece as u32, pieces[piece].bytes as i32, &[self.hbm.buf], &[self.buf]);
    }

    /// The copy of a chunk of the next block, without its semaphore.
    fn copy(&self, b: &mut KernelBuilder, c: &Chunk) -> DmaArgs {
        let (src, src_offset) = self.hbm.place(b, self.next.vars[0], c.from);
        let dst = if c.to == 0 { self.window } else { b.s_addi(self.window, c.to) };
        DmaArgs { desc: c.desc, src, src_offset, dst, dst_offset: S::ZERO, sem: 0 }
    }

    fn go(&self, b: &mut KernelBuilder, copy: DmaArgs) {
        let writes: Vec<BufferRef> = [self.buf].into_iter().chain(self.order).collect();
        b.dma_start(copy, &[self.hbm.buf], &writes);
    }

    /// Chunk `i` is on its way.
    fn started(&self, b: &mut KernelBuilder, i: u32) {
        if i as usize + 1 == self.chunks.len() {
            b.s_inc(self.left, -1);
            if let Some(ring) = &self.fill {
                ring.turn(b, &[self.window]);
            }
            self.next.advance(b, &|_, _| {});
        }
    }

    /// Waits for chunk `i` of the block that is due.
    pub fn wait(&self, b: &mut KernelBuilder, i: u32) {
        let bytes = self.chunks[i as usize].bytes as i32;
        let go = |b: &mut KernelBuilder, window: u32| {
            let sem = self.sem + window * self.chunks.len() as u32 + i;
            b.dma_wait(sem, bytes, &[self.hbm.buf], &[self.buf]);
        };
        let Some(ring) = &self.due else { return go(b, 0) };
        ring.each(b, &go);
        if i as usize + 1 == self.chunks.len() {
            ring.turn(b, &[]);
        }
    }
}

/// A part of a window's results: its copy, and where it begins in the array (address units) and in the window (word rows).
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub desc: u32,
    pub from: i32,
    pub to: i32,
}

/// How a window's results, or some of its columns', leave.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    /// What leaves early, if anything, each piece behind so many row blocks, and the rest.
    pub early: Vec<(u32, Piece)>,
    pub rest: Piece,
    /// The rest of the last results of all, in pieces of so many row blocks; none if it leaves as one.
    pub last: Vec<(u32, Piece)>,
}

/// Copies out of two alternating windows, or of one.
pub(super) struct OutStream {
    pub hbm: HbmUnit,
    pub buf: BufferRef,
    /// A window, and in a last part that has several columns, these.
    pub whole: Pieces,
    pub closing: Option<Pieces>,
    /// Of a window.
    pub bytes: u32,
    /// Semaphores of the two windows.
    pub sem: u32,
    pub windows: u32,
    /// Tiles overlap: one copy at a time.
    pub serial: bool,
    /// Which window is in use (0, 1); whether a copy out of each is in progress.
    parity: S,
    pending: [S; 2],
}

impl OutStream {
    /// See the fields.
    pub fn new(
        b: &mut KernelBuilder,
        (hbm, buf): (HbmUnit, BufferRef),
        (whole, closing): (Pieces, Option<Pieces>),
        (bytes, sem): (u32, u32),
        (windows, serial): (u32, bool),
    ) -> OutStream {
        let (parity, pending) = (b.s_var(0), [b.s_var(0), b.s_var(0)]);
        OutStream { hbm, buf, whole, closing, bytes, sem, windows, serial, parity, pending }
    }

    fn wait_for(&self, b: &mut KernelBuilder, i: u32) {
        let pending = self.pending[i as usize];
        b.if_(pending, |b| {
            b.dma_wait(self.sem + i, self.bytes as i32, &[self.buf], &[self.hbm.buf]);
            b.set_s(pending, Op::SLi, &[0.into()]);
        });
    }

    /// Waits until the window in use may be written.
    pub fn claim(&self, b: &mut KernelBuilder) {
        if self.windows > 1 {
            b.if_else(self.parity, |b| self.wait_for(b, 1), |b| self.wait_for(b, 0));
        } else {
            self.wait_for(b, 0);
        }
    }

    /// Starts the copy of what leaves early of the window in use, at word row `window`, to address `at`.
    pub fn start_early(&self, b: &mut KernelBuilder, window: S, at: S) {
        for &(_, piece) in &self.whole.early {
            self.in_turn(b);
            self.piece(b, piece, window, at, false);
        }
    }

    /// Starts the copy of the rest of the window in use, and turns to the other one.
    pub fn start(&self, b: &mut KernelBuilder, window: S, at: S) {
        if self.whole.early.is_empty() {
            self.in_turn(b);
        }
        self.piece(b, self.whole.rest, window, at, true);
        if self.windows > 1 {
            let one = b.s_imm(1);
            b.set_s(self.parity, Op::SXor, &[self.parity.into(), one.into()]);
        }
    }

    /// As [`OutStream::start_early`], of what leaves behind `blocks` row blocks of the columns at word row `window` of the last part.
    pub fn start_close_early(&self, b: &mut KernelBuilder, blocks: u32, window: S, at: S) {
        let early = self.closing.iter().flat_map(|c| c.early.iter().enumerate());
        for (i, &(_, piece)) in early.filter(|(_, piece)| piece.0 == blocks) {
            if i == 0 {
                self.in_turn(b);
            }
            self.piece(b, piece, window, at, false);
        }
    }

    /// Starts the copy of the rest of these columns; others of the window follow.
    pub fn start_close(&self, b: &mut KernelBuilder, window: S, at: S) {
        let Some(closing) = &self.closing else { return };
        if closing.early.is_empty() {
            self.in_turn(b);
        }
        self.piece(b, closing.rest, window, at, true);
    }

    /// Starts the copy of a piece of the last results; `last`: no other one follows.
    pub fn start_last(&self, b: &mut KernelBuilder, piece: Piece, (window, at): (S, S), last: bool) {
        self.piece(b, piece, window, at, last);
    }

    /// The pieces that the last results leave in.
    pub fn last(&self) -> &[(u32, Piece)] {
        &self.closing.as_ref().unwrap_or(&self.whole).last
    }

    /// Waits for the other window's copy where tiles overlap.
    fn in_turn(&self, b: &mut KernelBuilder) {
        if self.serial && self.windows > 1 {
            b.if_else(self.parity, |b| self.wait_for(b, 0), |b| self.wait_for(b, 1));
        }
    }

    fn piece(&self, b: &mut KernelBuilder, piece: Piece, window: S, at: S, last: bool) {
        let (dst, dst_offset) = self.hbm.place(b, at, piece.from);
        let src = if piece.to == 0 { window } else { b.s_addi(window, piece.to) };
        let go = |b: &mut KernelBuilder, i: u32| {
            let args = DmaArgs { desc: piece.desc, src, src_offset: S::ZERO, dst, dst_offset, sem: self.sem + i };
            b.dma_start(args, &[self.buf], &[self.hbm.buf]);
            if last {
                b.set_s(self.pending[i as usize], Op::SLi, &[1.into()]);
            }
        };
        if self.windows > 1 {
            b.if_else(self.parity, |b| go(b, 1), |b| go(b, 0));
        } else {
            go(b, 0);
        }
    }

    /// Waits for all copies.
    pub fn finish(&self, b: &mut KernelBuilder) {
        for i in 0..self.windows {
            self.wait_for(b, i);
        }
    }
}

/// The copy of `planes` runs of `rows` element rows, with inner dimensions `dims` (count, array and window strides in
/// element rows), between HBM and a window.
pub(super) fn desc(unit: &HbmUnit, to_hbm: bool, rows: u32, planes: [u32; 3], dims: &[[u32; 3]]) -> DmaDesc {
    let bytes = |r: u32| unit.bytes(r) as i64;
    let mut all = vec![planes];
    all.extend(dims);
    all.retain(|d| d[0] > 1);
    let dim = |d: &[u32; 3]| {
        let (hbm, vmem) = (bytes(d[1]), bytes(d[2]));
        let (src_stride, dst_stride) = if to_hbm { (vmem, hbm) } else { (hbm, vmem) };
        DmaDim { count: d[0], src_stride, dst_stride }
    };
    let (src, dst) = if to_hbm { (Space::Vmem, Space::Hbm) } else { (Space::Hbm, Space::Vmem) };
    DmaDesc { src, dst, chunk: unit.bytes(rows) as u32, dims: all.iter().map(dim).collect() }
}
