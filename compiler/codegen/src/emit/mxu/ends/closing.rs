//! The last part of a kernel with matrix units beside each other along `k`.
//!
//! Results of a part all come in its last step, as many columns at a time as there are units: faster than HBM takes them, and
//! behind the last part nothing else is computed while they leave. So `close` units share a column tile in the last part, each with a
//! `k` tile of its own, and what they give is added as it is popped:
//! ```text
//! for column tiles of the group, units / close at a time:         their results leave while the next ones are computed
//!     for k tiles, close at a time:                               one step
//! ```
//!
//! There are as many steps as in any part, with the same row blocks and loops, from the same windows. The last results come `close`
//! times slower, and only they are left to leave. Weights of the part's first step are staged in the last step before it, so the arrays do
//! not drain in between; all of the part's chunks have to be there by then.
//!
//! In any last part, the results that are popped behind the last step leave in pieces as they come.
//!
//! Invariant: sums are in ascending `k` as in every part, so the same bits come out.

use super::super::body::{Before, Beside, ChunkAt, Context, Pop, Push, Step};
use super::super::odometer::{Level, Odometer};
use super::super::segment::Source;
use super::super::spec::RhsForm;
use super::super::stream::Kind;
use super::super::tile::{Problem, Tiling};
use crate::kernel::{KernelBuilder, LoopHints, M, S, Trips, V};
use systole_isa::Op;

impl Problem<'_> {
    /// Numbers of units along `k` that the last part may have.
    pub(in super::super) fn closes<'t>(&self, t: &'t Tiling) -> impl Iterator<Item = u32> + use<'t> {
        let (g, spec, s) = (self.geometry, self.spec, self.staging);
        let plain = !t.accumulators && t.ks == 1 && t.spread == 0 && t.follow == 0 && self.formats.passes.len() == 1;
        let simple = g.taps.is_empty() && g.batch.beside.is_none() && spec.start.is_none() && !self.hooked;
        let lags = t.segments.lag == 0 && t.segments.tail > 0;
        let leaves = t.windows.out.is_some() && t.tiles(g) > 1;
        let cols = t.nch * g.lanes;
        let whole = g.k.is_multiple_of(t.kch * g.lanes)
            && t.group() <= g.planes_n
            && (!s.transposed || spec.n.is_multiple_of(cols));
        let may = plain && simple && lags && leaves && whole;
        let (ns, kt) = (t.ns, t.kt);
        (2..=ns).filter(move |c| may && ns.is_multiple_of(*c) && kt.is_multiple_of(*c))
    }

    /// The tiling with each of these.
    pub(in super::super) fn closed(&self, t: &Tiling, step: f64) -> Vec<Tiling> {
        let with = |close| {
            let mut t = Tiling { close, ..t.clone() };
            // The window before is on its way while the first columns are stored.
            t.windows.out.iter_mut().for_each(|w| w.count = 2);
            t.cycles = self.cycles(&t, step);
            t
        };
        self.closes(t).map(with).collect()
    }
}

/// Registers of a kernel with another last part.
pub(in super::super) struct Closing {
    /// Parts behind the one whose weights are staged next.
    parts: S,
    /// Element rows from the weights of a unit to those of the one as many units on as share a `k` tile in the last part.
    apart: S,
}

impl Closing {
    /// Before the first of so many parts, if the last one is another one. `plane`: element rows between planes of the right operand.
    pub fn new(b: &mut KernelBuilder, p: &Problem<'_>, t: &Tiling, parts: u32, plane: u32) -> Option<Closing> {
        let apart = |b: &mut KernelBuilder| b.s_var(regular_apart(p, t, plane));
        (t.close > 1).then(|| Closing { parts: b.s_var(parts as i32 - 1), apart: apart(b) })
    }

    /// Runs code if the weights that are staged next are the last part's.
    pub fn if_last(&self, b: &mut KernelBuilder, f: impl FnOnce(&mut KernelBuilder)) {
        b.unless(self.parts, f);
    }
}

/// Columns of a step, in tiles of units.
fn beside(t: &Tiling) -> u32 {
    t.ns / t.close
}

/// See [`Closing::apart`]: of all parts but the last.
fn regular_apart(p: &Problem<'_>, t: &Tiling, plane: u32) -> i32 {
    columns(p, t, plane, beside(t))
}

/// Element rows of so many column tiles of the right operand.
fn columns(p: &Problem<'_>, t: &Tiling, plane: u32, tiles: u32) -> i32 {
    let one = match p.spec.rhs_form {
        RhsForm::LanesN { .. } => plane,
        RhsForm::LanesK { n_stride } => p.geometry.lanes * n_stride,
    };
    (tiles * t.nch * one) as i32
}

/// Element rows of a `k` tile of the right operand.
fn k_tile(p: &Problem<'_>, t: &Tiling, plane: u32) -> i32 {
    let tile = match p.spec.rhs_form {
        RhsForm::LanesN { k_stride } => t.kch * p.geometry.lanes * k_stride,
        RhsForm::LanesK { .. } => t.kch * plane,
    };
    tile as i32
}

impl Context<'_> {
    /// Steps of a sum in the last part.
    fn closing_steps(&self) -> u32 {
        self.t.kt / self.t.close
    }

    /// Whether results of the last part are whole as they are popped.
    pub(in super::super) fn closes_at_once(&self) -> bool {
        self.closing_steps() == 1
    }

    /// The odometer has moved on to the next part's weights.
    pub(in super::super) fn next_part(&self, b: &mut KernelBuilder) {
        let Some(c) = &self.closing else { return };
        b.s_inc(c.parts, -1);
        let plane = self.rhs.plane;
        let (regular, last) =
            (b.s_imm(regular_apart(&self.p, &self.t, plane)), b.s_imm(k_tile(&self.p, &self.t, plane)));
        b.set_s(c.apart, Op::SSel, &[c.parts.into(), regular.into(), last.into()]);
    }

    /// Where the weights of every unit of a slab lie, if that changes: a register, and what it lacks. `at`: the first unit's.
    pub(in super::super) fn unit_bases(&self, b: &mut KernelBuilder, at: S) -> Vec<(S, i32)> {
        let Some(c) = &self.closing else { return Vec::new() };
        let per = beside(&self.t);
        let mut base = at;
        (0..self.t.ns)
            .map(|ni| {
                if ni > 0 && ni % per == 0 {
                    base = b.s(Op::SAdd, &[base, c.apart]);
                }
                (base, columns(&self.p, &self.t, self.rhs.plane, ni % per))
            })
            .collect()
    }

    /// Loads and pushes a row block of slab `si`, which lies `skip` behind the walk: its `k` tiles each to their units.
    pub(in super::super) fn push_closing(
        &self,
        b: &mut KernelBuilder,
        lhs: &[(ChunkAt, M)],
        (si, push): (u32, Push),
        skip: i32,
    ) {
        let part = self.p.staging.part;
        let Push::Fifo(format) = push else { return };
        let per = beside(&self.t);
        for kx in 0..self.t.close {
            let skip = skip + (kx * self.t.kch * self.lhs.plane) as i32;
            let stride = self.p.geometry.inner.lhs;
            let load = |b: &mut KernelBuilder, &(at, mask): &(ChunkAt, M)| {
                self.load(b, &self.lhs, self.push.walk.vars[0], at, skip, stride, mask)
            };
            let mut chunks: Vec<(V, u32)> = lhs.iter().zip(part.k.first..).map(|(c, n)| (load(b, c), n)).collect();
            chunks.extend(part.k.beyond.map(|last| (b.v_imm(0), last)));
            for nx in 0..per {
                chunks.iter().for_each(|&(v, c)| b.mxu_push(si * self.t.ns + kx * per + nx, v, c, format));
            }
        }
    }

    /// The sums of a row block: slab, plane of the columns, unit of the first `k` tile and lane chunk of each.
    pub(in super::super) fn closing_results(&self) -> Vec<(usize, u32, u32, u32)> {
        let (t, per) = (&self.t, beside(&self.t));
        let of = move |si: u32, nx: u32| (0..t.nch).map(move |c| (si as usize, nx * t.nch + c, si * t.ns + nx, c));
        (0..t.ms).flat_map(|si| (0..per).flat_map(move |nx| of(si, nx))).collect()
    }

    /// Adds the results of the other units along `k` of block `i`.
    pub(in super::super) fn add_others(&self, b: &mut KernelBuilder, sum: V, (i, unit, chunk): (u32, u32, u32)) -> V {
        let per = beside(&self.t);
        (1..self.t.close).fold(sum, |sum, kx| {
            let v = self.result(b, i, unit + kx * per, chunk);
            let value = self.p.formats.result(b, v).v();
            self.p.formats.add(b, sum, value)
        })
    }

    /// All of the last part, and what is left behind it.
    pub(in super::super) fn close(&self, b: &mut KernelBuilder) {
        let (t, p) = (&self.t, &self.p);
        if let Some(s) = self.streams.lhs.as_ref().filter(|_| t.ng == 1) {
            (0..t.kc * t.open).for_each(|i| s.wait(b, i));
        }
        let (steps, per, plane) = (self.closing_steps(), beside(t), self.rhs.plane);
        let lhs = (t.close * t.kch * self.lhs.plane) as i32;
        let level = |kind, count, delta: [i32; 2]| Level { kind, count, delta: delta.to_vec(), last: vec![0; 2] };
        let levels = vec![
            level(Kind::K, steps, [lhs, t.close as i32 * k_tile(p, t, plane)]),
            level(Kind::Group, t.close, [0, columns(p, t, plane, per)]),
        ];
        let vars = vec![b.s_copy(self.next.odometer.vars[0]), b.s_copy(self.next.odometer.vars[1])];
        let next = Odometer::new(b, levels, vars);
        let at = |b: &mut KernelBuilder| {
            b.copy_s(self.push.walk.vars[0], next.vars[0]);
            next.advance(b, &|_, _| {});
            self.latch(b);
            self.begin_closing(b, next.vars[1])
        };
        let push = Push::Fifo(p.formats.passes[0].0);
        let loops = |b: &mut KernelBuilder, step: &Step, source, pop| {
            self.loops(b, step, 0, (source, Beside::Nothing), push, pop);
        };
        let current = |b: &mut KernelBuilder, step: &Step, pop| {
            let own = self.seg.loops.iter().filter(|l| l.source == Source::Current);
            for (l, blocks) in own.zip(self.seg.ends()) {
                self.one_loop(b, step, 0, (l, Beside::Nothing), push, pop);
                if pop == Pop::CloseFinish {
                    self.start_columns_early(b, blocks);
                }
            }
        };
        let unclaimed = b.s_var(1);
        // The first step pops what is left of the part before.
        let step = at(b);
        loops(b, &step, Source::Earlier, Pop::Finish);
        self.end_tile(b);
        b.set_s(self.pop.left, Op::SLi, &[(steps as i32).into()]);
        self.closing_begin(b, unclaimed, &|b, pop| current(b, &step, pop));
        self.staged_after(b, &step, 0);
        b.loop_with(Trips::Static(self.steps - 1), LoopHints::default(), |b| {
            let step = at(b);
            self.closing_end(b, &|b, pop| loops(b, &step, Source::Earlier, pop));
            self.closing_begin(b, unclaimed, &|b, pop| current(b, &step, pop));
            self.staged_after(b, &step, 0);
        });
        if self.streams.out.as_ref().is_some_and(|out| !out.last().is_empty()) {
            return self.last_results(b, Pop::CloseFinish);
        }
        b.loop_with(Trips::Static(self.seg.tail), self.hints(), |b| self.pop_blocks(b, Pop::CloseFinish, 1));
        self.end_columns(b);
    }

    /// Pops the last results of all, which leave in pieces as they come.
    pub(in super::super) fn last_results(&self, b: &mut KernelBuilder, pop: Pop) {
        let Some(out) = &self.streams.out else { return };
        let place = self.leaving(b);
        for (i, &(blocks, piece)) in out.last().iter().enumerate() {
            b.loop_with(Trips::Static(blocks), self.hints(), |b| self.pop_blocks(b, pop, 1));
            out.start_last(b, piece, place, i + 1 == out.last().len());
        }
    }

    /// Pops the first blocks of a step. `unclaimed`: nothing is stored to the last tile's windows yet.
    fn closing_begin(&self, b: &mut KernelBuilder, unclaimed: S, loops: &dyn Fn(&mut KernelBuilder, Pop)) {
        b.copy_s(self.sums.row, self.sums.at);
        let last = |b: &mut KernelBuilder| {
            self.at_tile(b);
            b.if_(unclaimed, |b| {
                self.claim_tile(b);
                b.set_s(unclaimed, Op::SLi, &[0.into()]);
            });
            loops(b, Pop::CloseFinish);
        };
        self.if_whole(b, last, |b| self.closing_sum(b, loops));
    }

    /// Starts the copy of what leaves behind so many row blocks of columns.
    fn start_columns_early(&self, b: &mut KernelBuilder, blocks: u32) {
        if let Some(out) = &self.streams.out {
            let (window, address) = self.leaving(b);
            out.start_close_early(b, blocks, window, address);
        }
    }

    /// Pops the last blocks of a step.
    fn closing_end(&self, b: &mut KernelBuilder, loops: &dyn Fn(&mut KernelBuilder, Pop)) {
        let last = |b: &mut KernelBuilder| {
            loops(b, Pop::CloseFinish);
            self.end_columns(b);
        };
        self.if_whole(b, last, |b| self.closing_sum(b, loops));
        if self.closing_steps() > 1 {
            b.s_inc(self.pop.left, -1);
            let steps = b.s_imm(self.closing_steps() as i32);
            b.set_s(self.pop.left, Op::SSel, &[self.pop.left.into(), self.pop.left.into(), steps.into()]);
        }
    }

    /// Runs `last` if the step whose results are popped is the last one of its sums, else `other`.
    fn if_whole(
        &self,
        b: &mut KernelBuilder,
        last: impl FnOnce(&mut KernelBuilder),
        other: impl FnOnce(&mut KernelBuilder),
    ) {
        if self.closes_at_once() {
            return last(b);
        }
        let is = b.def_s(Op::SEqI, &[self.pop.left.into(), 1.into()]);
        b.if_else(is, last, other);
    }

    fn closing_sum(&self, b: &mut KernelBuilder, loops: &dyn Fn(&mut KernelBuilder, Pop)) {
        let first = b.def_s(Op::SEqI, &[self.pop.left.into(), (self.closing_steps() as i32).into()]);
        let (first, zero) = (b.splat(first), b.v_imm(0));
        let first = b.cmp(Op::VNeI, first, zero);
        loops(b, Pop::CloseSum(Before::Perhaps(first)));
    }

    /// After the last result of columns is stored: they leave, and the next ones are the next planes of the same windows.
    fn end_columns(&self, b: &mut KernelBuilder) {
        let planes = beside(&self.t) * self.t.nch;
        if let Some(out) = &self.streams.out {
            let (window, address) = self.leaving(b);
            out.start_close(b, window, address);
            let hbm = out.hbm.units((planes * self.p.spec.out.plane_rows) as i32);
            b.s_inc(address, hbm);
        }
        b.s_inc(self.at.vars[0], (planes * self.out.plane) as i32);
        for (extra, &at) in self.extras.iter().zip(&self.at.vars[1..]) {
            b.s_inc(at, (planes * extra.plane) as i32);
        }
        b.s_inc(self.at.vars[self.pop.walk.vars.len()], planes as i32);
    }
}
