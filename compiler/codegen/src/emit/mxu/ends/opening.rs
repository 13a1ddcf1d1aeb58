//! The first steps of a kernel, and what its steps wait for.
//!
//! Nothing is computed before the first weights and the first rows are there. Rows are pushed slower than they come, so where the
//! estimate says that it gains, every chunk of lhs comes in two pieces: the rows beside whose pushes the last results of the step
//! before are popped, and the others, which are waited for behind them. The first piece of all comes in pieces again, one for each
//! loop that pushes it. What is staged is waited for just before the loop that stages it, since rows come between it and the
//! weights before it.

use super::super::body::{Beside, Context, Pop, Push, Step};
use super::super::geometry::Geometry;
use super::super::segment::{Segment, Source};
use super::super::stream::{Stream, switch};
use super::super::tile::{Problem, Tiling, Window};
use crate::kernel::{KernelBuilder, S};
use systole_isa::Op;

/// Pieces that a chunk comes in.
const PIECES: u32 = 2;

impl Problem<'_> {
    /// Pieces that chunks of lhs may come in; `None`: whole only.
    pub(in super::super) fn opens(&self, t: &Tiling) -> Option<u32> {
        let (g, sub) = (self.geometry, self.geometry.sublanes);
        let slab = t.blocks * sub;
        let window = t.windows.lhs.filter(|w| w.copied > (t.ms - 1) * slab && w.beside == 1)?;
        let plain = !t.accumulators && t.ks == 1 && t.spread == 0 && t.follow == 0 && self.formats.passes.len() == 1;
        let simple = g.taps.is_empty() && g.batch.beside.is_none() && g.inner.lhs == 1 && !self.hooked;
        let lags = t.segments.lag == 0 && t.segments.tail > 0 && t.kc > 1;
        let follow = matches!(t.slab.walk[..], [d] if d.lhs == sub || d.count == 1);
        let apart = t.slab.lhs.iter().zip(0..).all(|(&at, i)| at == i * slab);
        let rows =
            sub.is_multiple_of(self.spec.lhs.dtype.packing() as u32) && (t.ms == 1 || window.copied == t.ms * slab);
        // The last piece has what is left of the rows.
        let rest = (t.ms - 1) * slab + t.segments.tail * sub < window.copied;
        let may = plain && simple && lags && follow && apart && rows && rest;
        let few = || Tiling { open: PIECES, ..t.clone() }.semaphores() <= t.most_semaphores(self.chip);
        (may && few()).then_some(PIECES)
    }

    /// The tiling with these.
    pub(in super::super) fn opened(&self, t: &Tiling, step: f64) -> Option<Tiling> {
        let mut t = Tiling { open: self.opens(t)?, ..t.clone() };
        t.cycles = self.cycles(&t, step);
        Some(t)
    }
}

impl Tiling {
    /// The row blocks of each piece of a chunk of lhs (from, to); `None`: all.
    pub(in super::super) fn pieces(&self) -> Vec<Option<(u32, u32)>> {
        let tail = self.segments.tail;
        if self.open > 1 { vec![Some((0, tail)), Some((tail, self.blocks))] } else { vec![None] }
    }

    /// The same of the first piece of all.
    pub(in super::super) fn first_pieces(&self) -> Vec<(u32, u32)> {
        let mut at = 0;
        let piece = |l: &Segment| {
            at += l.iterations * l.blocks;
            (at - l.iterations * l.blocks, at)
        };
        self.segments.opening().iter().filter(|l| l.source == Source::Earlier).map(piece).collect()
    }

    /// The chunks of a block of lhs, or their pieces.
    pub(in super::super) fn lhs_chunks(&self) -> Vec<(u32, Option<(u32, u32)>)> {
        (0..self.kc).flat_map(|i| self.pieces().into_iter().map(move |piece| (i, piece))).collect()
    }

    /// The first plane of chunk `i` of lhs, and how many it has.
    pub(in super::super) fn lhs_planes(&self, g: &Geometry, i: u32) -> (u32, u32) {
        let from = i * self.ktc * self.kch;
        (from, (from + self.ktc * self.kch).min(g.planes_k).min(self.kt * self.kch) - from)
    }

    /// The element rows of a piece: the first one in its window, how many follow, and the slabs that have as many each as a dimension of
    /// its copy.
    pub(in super::super) fn lhs_rows(
        &self,
        g: &Geometry,
        w: &Window,
        (from, to): (u32, u32),
    ) -> (u32, u32, Option<[u32; 3]>) {
        let (first, slab) = (from * g.sublanes, self.blocks * g.sublanes);
        let end = (to * g.sublanes).min(w.copied - (self.ms - 1) * slab);
        (first, end - first, Some([self.ms, slab, slab]))
    }
}

impl Context<'_> {
    pub(in super::super) fn start_extras(&self, b: &mut KernelBuilder) {
        for s in self.streams.extras.iter().flatten() {
            s.start(b, 0);
        }
    }

    /// Before the pushes of a piece of the current step's rows: its chunk of lhs.
    pub(in super::super) fn lhs_event(&self, b: &mut KernelBuilder, piece: u32) {
        let Some(s) = &self.streams.lhs else { return };
        let (c, groups, pieces) = (&self.current, self.t.ng as i32, self.t.open);
        let event = |b: &mut KernelBuilder, chunk: u32| {
            let i = chunk * pieces + piece;
            // The loops of the first step wait for the first piece of all.
            if self.opens() && i == 0 {
                b.unless(self.pop.wait, |b| s.wait(b, i));
            } else {
                s.wait(b, i);
            }
            b.if_(s.left(), |b| s.start(b, i));
        };
        b.if_(c.chunk.new, |b| {
            switch(b, c.chunk.number, self.t.kc, &|b, i| {
                if groups == 1 {
                    return event(b, i);
                }
                let first = b.def_s(Op::SEqI, &[c.groups.into(), groups.into()]);
                b.if_(first, |b| event(b, i));
            });
        });
    }

    /// Before the next step's weights are staged: their chunk of rhs.
    pub(in super::super) fn rhs_event(&self, b: &mut KernelBuilder, at_start: bool) {
        let Some(s) = &self.streams.rhs else { return };
        let event = |b: &mut KernelBuilder, i: u32| {
            s.wait(b, i);
            b.if_(s.left(), |b| s.start(b, i));
        };
        if at_start {
            return event(b, 0);
        }
        let due = b.s(Op::SSel, &[self.rhs_waits, self.next.chunk.new, S::ZERO]);
        b.if_(due, |b| {
            switch(b, self.next.chunk.number, self.t.kc, &event);
            // The last part may begin with any of its chunks; no others come behind them.
            if let Some(closing) = &self.closing {
                closing.if_last(b, |b| (1..self.t.kc).for_each(|i| s.wait(b, i)));
            }
        });
    }

    /// Whether chunks of lhs come in pieces.
    pub(in super::super) fn opens(&self) -> bool {
        self.t.open > 1
    }

    /// The loops of the first step beside which nothing is popped.
    pub(in super::super) fn open(&self, b: &mut KernelBuilder, step: &Step, push: Push) {
        let loops = self.seg.opening();
        for (i, l) in loops.iter().filter(|l| l.source == Source::Earlier).enumerate() {
            if let Some(s) = &self.streams.lhs {
                s.wait_first(b, i);
            }
            self.one_loop(b, step, 0, (l, Beside::Nothing), push, Pop::None);
        }
    }

    /// The loops of a step that pop its own results, each behind what it waits for.
    pub(in super::super) fn opened(&self, b: &mut KernelBuilder, step: &Step, push: Push) {
        let own: Vec<_> = self.seg.loops.iter().filter(|l| l.source == Source::Current).collect();
        self.lhs_event(b, 1);
        self.begin_sums(b);
        for (i, &l) in own.iter().enumerate() {
            if self.seg.late && l.stage > 0 {
                self.rhs_event(b, false);
            }
            let own_loop = |b: &mut KernelBuilder, pop| self.one_loop(b, step, 0, (l, Beside::Nothing), push, pop);
            let last = |b: &mut KernelBuilder| {
                if i == 0 {
                    self.begin_tile(b);
                }
                own_loop(b, Pop::Finish);
                if i + 1 == own.len() {
                    self.start_early(b);
                }
            };
            self.if_last(b, true, last, |b| self.sum(b, &own_loop));
        }
    }
}

/// Starts the copies of the first blocks of lhs and rhs, the weights first.
pub(in super::super) fn start_streams(b: &mut KernelBuilder, t: &Tiling, lhs: Option<&Stream>, rhs: Option<&Stream>) {
    let ahead = |s: Option<&Stream>| s.map_or(0, Stream::ahead);
    for block in 0..ahead(lhs).max(ahead(rhs)) {
        for i in 0..t.kc {
            if let Some(s) = rhs.filter(|s| block < s.ahead()) {
                s.start(b, i);
            }
            for piece in 0..t.open {
                match lhs.filter(|s| block < s.ahead()) {
                    Some(s) if block == 0 => s.start_first(b, i * t.open + piece),
                    Some(s) => s.start(b, i * t.open + piece),
                    None => {}
                }
            }
        }
    }
}

/// As [`start_streams`], where rows come in pieces: in this order, and before all else is set up.
pub(in super::super) fn open_streams(
    b: &mut KernelBuilder,
    t: &Tiling,
    lhs: &mut Option<Stream>,
    rhs: &mut Option<Stream>,
) {
    let order = b.buffer();
    lhs.iter_mut().chain(rhs.iter_mut()).for_each(|s| s.order = Some(order));
    start_streams(b, t, lhs.as_ref(), rhs.as_ref());
    lhs.iter_mut().chain(rhs.iter_mut()).for_each(|s| s.order = None);
}
