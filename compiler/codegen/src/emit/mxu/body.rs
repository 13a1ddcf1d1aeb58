//! The instructions of one row block: loads and pushes, pops with sums and epilogue, and the staging of weights.

use super::ends::Closing;
use super::follow::Following;
use super::odometer::{Odometer, Walk};
use super::segment::Segments;
use super::spec::{Array, Epilogue, TileAt};
use super::spread::Spread;
use super::staging::StageStep;
use super::stream::{Kind, OutStream, Ring, Stream};
use super::tile::{Problem, Tiling};
use crate::emit::{Value, memory};
use crate::kernel::{BufferRef, KernelBuilder, M, MemFormat, S, StoreFormat, V};
use std::cell::RefCell;
use systole_isa::{MxuFormat, Op};

/// An operand as the inner loops see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub array: Array,
    pub buf: BufferRef,
    /// Element rows between planes (of the array, or of its window).
    pub plane: u32,
    /// Element rows between batch indices beside each other (there), if any are.
    pub beside: u32,
}

impl Operand {
    /// Where slab `si` begins, which begins at `inside` of its batch index.
    pub(super) fn slab(&self, si: usize, inside: u32) -> u32 {
        inside + si as u32 * self.beside
    }
}

/// A step's chunk of rhs.
#[derive(Clone, Copy)]
pub(super) struct StepChunk {
    pub number: S,
    /// Whether the step is its first.
    pub new: S,
}

/// Registers that describe the current step; the odometer is already at the next one.
pub(super) struct Current {
    /// k from the step's first on (where the last tile is partial).
    pub k_left: Option<S>,
    /// Passes left, chunk, column groups left, whether the tile begins.
    pub pass: Option<S>,
    pub chunk: StepChunk,
    pub groups: S,
    pub first: S,
}

/// Sums in vector memory.
pub(super) struct Sums {
    pub buf: BufferRef,
    /// Word row of all sums, of those of the part whose results are popped, and of the next block.
    pub base: S,
    pub at: S,
    pub row: S,
}

/// The step behind the current one.
pub(super) struct Next {
    /// Steps: lhs, rhs, k left, n left, values of rows of lhs.
    pub odometer: Odometer<Kind>,
    /// Its chunk, how many steps of it are left.
    pub chunk: StepChunk,
    pub chunk_left: S,
    /// Whether it begins a tile; the accumulators' region of that.
    pub first: S,
    pub region: S,
}

/// What rows of lhs are pushed next: lhs, values of its rows; the row of the accumulators that results go to.
pub(super) struct Pushes {
    pub walk: Walk,
    pub row: S,
}

/// What results are popped next.
pub(super) struct Pops {
    /// Results: out, extras.
    pub walk: Walk,
    pub row: S,
    pub plane: S,
    pub region: S,
    /// Groups and splits left of the part.
    pub group: S,
    pub split: S,
    /// Steps left of the tile; steps (or drains) until there are any results.
    pub left: S,
    pub wait: S,
}

/// The windows of arrays in use, of those that have several.
pub(super) struct Rings {
    pub lhs: Option<Ring>,
    pub rhs: Option<Ring>,
    pub out: Option<Ring>,
    pub extras: Vec<Option<Ring>>,
}

/// The copies of arrays in HBM.
pub(super) struct Streams {
    pub lhs: Option<Stream>,
    pub rhs: Option<Stream>,
    pub out: Option<OutStream>,
    pub extras: Vec<Option<Stream>>,
}

/// Everything that the emission of a kernel shares. Registers are allocated before the loops.
pub(super) struct Context<'a> {
    pub p: Problem<'a>,
    pub t: Tiling,
    pub seg: Segments,
    pub epilogue: RefCell<&'a mut dyn Epilogue>,
    pub params: Vec<S>,
    pub params_buf: BufferRef,
    /// Steps of a part, parts.
    pub steps: u32,
    pub parts: u32,
    pub lhs: Operand,
    pub rhs: Operand,
    pub out: Operand,
    pub extras: Vec<Operand>,
    /// Values of rows of lhs.
    pub rows_buf: BufferRef,
    pub sums: Sums,
    pub next: Next,
    pub rings: Rings,
    /// Whether chunks of rhs are still to be waited for: how many groups of columns, where each stays in its window.
    pub rhs_waits: S,
    pub current: Current,
    pub push: Pushes,
    pub pop: Pops,
    /// Tiles: as `pop`, then plane, then copy addresses of out.
    pub at: Odometer<Kind>,
    pub streams: Streams,
    /// If ends of tiles are spread over steps.
    pub spread: Option<Spread>,
    /// If the last part is another one.
    pub closing: Option<Closing>,
    /// If a loop follows.
    pub follow: Option<Following<'a>>,
}

/// What a block pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    Fifo(MxuFormat),
    /// To accumulators: overwriting, or adding.
    Set(MxuFormat),
    Add(MxuFormat),
}

/// What of an earlier tile is done beside a step's pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// Part of a spread end.
    End,
    /// Part of the loop that follows.
    Loop,
}

/// What is there of the sums before results are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing where the mask is set, else all earlier results.
    Perhaps(M),
    Nothing,
    All,
}

/// What happens to the results that a block pops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pop {
    /// There are none yet.
    None,
    /// Sums in vector memory.
    Sum(Before),
    /// The tile's last: epilogue and store.
    Finish,
    /// The same where units lie along `k`.
    CloseSum(Before),
    CloseFinish,
}

/// Where a lane chunk of an operand lies, relative to its first.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChunkAt {
    Fixed(i32),
    Moving(S),
    Missing,
}

/// Per-step state of pushes and staging.
pub(super) struct Step {
    lhs: Vec<(ChunkAt, M)>,
    /// Units lie along `k`.
    pub closing: bool,
    pub staging: StageStep,
}

impl Context<'_> {
    pub(super) fn sub(&self) -> u32 {
        self.p.geometry.sublanes
    }

    pub(super) fn tile_k(&self) -> u32 {
        self.t.kch * self.p.geometry.lanes
    }

    /// Chunks along k of a step: their place, and the lanes that exist.
    pub(super) fn k_chunks(&self, b: &mut KernelBuilder, plane: u32, k_left: Option<S>) -> Vec<(ChunkAt, M)> {
        let g = self.p.geometry;
        let lanes = g.lanes;
        (0..self.t.kch)
            .map(|c| {
                let fixed = ChunkAt::Fixed((c * plane) as i32);
                if self.t.k_tiles() == 1 {
                    let rest = g.k.saturating_sub(c * lanes);
                    return if rest == 0 { (ChunkAt::Missing, M::ALL) } else { (fixed, b.lanes_below(rest)) };
                }
                let Some(left) = k_left else { return (fixed, M::ALL) };
                let rest = if c == 0 { left } else { b.s_addi(left, -((c * lanes) as i32)) };
                let (lane, rest_v) = (b.lane(), b.splat(rest));
                let mask = b.cmp(Op::VLtS, lane, rest_v);
                if c == 0 || g.planes_k.is_multiple_of(self.t.kch) {
                    return (fixed, mask);
                }
                let offset = b.s_imm((c * plane) as i32);
                let there = b.s(Op::SLt, &[S::ZERO, rest]);
                (ChunkAt::Moving(b.s(Op::SSel, &[there, offset, S::ZERO])), mask)
            })
            .collect()
    }

    /// Sets up the pushes of the current step and the staging of the next one.
    pub fn begin_step(&self, b: &mut KernelBuilder) -> Step {
        let lhs = self.k_chunks(b, self.lhs.plane, self.current.k_left);
        Step { lhs, closing: false, staging: self.begin_staging(b, self.next.odometer.vars[1]) }
    }

    /// Sets up the staging of the first step.
    pub fn begin_first(&self, b: &mut KernelBuilder) -> Step {
        Step { lhs: Vec::new(), closing: false, staging: self.begin_staging(b, self.next.odometer.vars[1]) }
    }

    /// Sets up the pushes of a step of the last part, and the staging of the next one, whose weights begin at `rhs`.
    pub fn begin_closing(&self, b: &mut KernelBuilder, rhs: S) -> Step {
        let lhs = (0..self.t.kch).map(|c| (ChunkAt::Fixed((c * self.lhs.plane) as i32), M::ALL)).collect();
        Step { lhs, closing: true, staging: self.begin_staging(b, rhs) }
    }

    pub(super) fn load(
        &self,
        b: &mut KernelBuilder,
        o: &Operand,
        base: S,
        at: ChunkAt,
        offset: i32,
        stride: u32,
        mask: M,
    ) -> V {
        let zero = b.v_imm(0);
        let (base, offset) = match at {
            ChunkAt::Missing => return zero,
            ChunkAt::Fixed(c) => (base, offset + c),
            ChunkAt::Moving(c) => (b.s(Op::SAdd, &[base, c]), offset),
        };
        let place = memory::Place { base, offset, stride: stride as i32, buf: o.buf, component_rows: 0 };
        let v = self.p.formats.load(b, o.array.dtype, place);
        if mask == M::ALL { v } else { b.select(mask, v, zero) }
    }

    /// Runs `f(i, offset)` for `n` blocks of a walk: the offset is what its variables lack at block `i`.
    pub(super) fn walked(
        &self,
        b: &mut KernelBuilder,
        walk: &Walk,
        n: u32,
        f: &mut dyn FnMut(&mut KernelBuilder, u32, i32),
    ) {
        if let Some(stride) = walk.stride() {
            (0..n).for_each(|i| f(b, i, stride * i as i32));
            return walk.advance_by(b, n);
        }
        for i in 0..n {
            f(b, i, 0);
            walk.advance(b);
        }
    }

    /// Loads and pushes the next `n` row blocks of every slab; `between(i)` follows block `i`.
    pub fn push_blocks(
        &self,
        b: &mut KernelBuilder,
        step: &Step,
        (push, n): (Push, u32),
        between: &dyn Fn(&mut KernelBuilder, u32),
    ) {
        self.walked(b, &self.push.walk, n, &mut |b, i, offset| {
            let row = match i * self.sub() {
                0 => self.push.row,
                ahead if self.t.accumulators => b.s_addi(self.push.row, ahead as i32),
                _ => self.push.row,
            };
            self.push_block(b, step, push, (offset, row));
            between(b, i);
        });
        if self.t.accumulators {
            b.s_inc(self.push.row, (n * self.sub()) as i32);
        }
    }

    fn push_block(&self, b: &mut KernelBuilder, step: &Step, push: Push, (offset, row): (i32, S)) {
        for (si, &inside) in self.t.slab.lhs.iter().enumerate() {
            let skip = self.lhs.slab(si, inside);
            let stride = self.p.geometry.inner.lhs;
            let at = self.push.walk.vars[0];
            let rows = self.row_values(b, skip as i32 + offset);
            let load = |b: &mut KernelBuilder, &(chunk, mask): &(ChunkAt, M)| {
                if self.p.spec.start.is_none() || matches!(chunk, ChunkAt::Missing) {
                    return self.load(b, &self.lhs, at, chunk, skip as i32 + offset, stride, mask);
                }
                let v = self.load(b, &self.lhs, at, chunk, skip as i32 + offset, stride, M::ALL);
                let v = self.started(b, v, &rows);
                let zero = b.v_imm(0);
                if mask == M::ALL { v } else { b.select(mask, v, zero) }
            };
            if step.closing {
                self.push_closing(b, &step.lhs, (si as u32, push), skip as i32 + offset);
                continue;
            }
            let part = self.p.staging.part;
            let mut chunks: Vec<(V, u32)> = step.lhs.iter().zip(part.k.first..).map(|(c, n)| (load(b, c), n)).collect();
            chunks.extend(part.k.beyond.map(|last| (b.v_imm(0), last)));
            for ni in 0..self.t.ns {
                let u = si as u32 * self.t.ns + ni;
                for &(v, c) in &chunks {
                    match push {
                        Push::Fifo(f) => b.mxu_push(u, v, c, f),
                        Push::Set(f) => b.mxu_push_set(u, v, c, f, row),
                        Push::Add(f) => b.mxu_push_add(u, v, c, f, row),
                    }
                }
            }
        }
    }

    /// The results of a block: slab, plane of the group, unit and lane chunk of each.
    pub(super) fn results(&self) -> impl Iterator<Item = (usize, u32, u32, u32)> + '_ {
        let (ns, nch) = (self.t.ns, self.t.nch);
        (0..self.t.ms * ns * nch).map(move |i| {
            let (unit, c) = (i / nch, i % nch);
            ((unit / ns) as usize, unit % ns * nch + c, unit, c)
        })
    }

    /// Pops (or drains) the next `n` row blocks of every slab.
    pub fn pop_blocks(&self, b: &mut KernelBuilder, pop: Pop, n: u32) {
        match pop {
            Pop::None => return,
            Pop::Sum(before) => self.sum_blocks(b, before, n, false),
            Pop::CloseSum(before) => self.sum_blocks(b, before, n, true),
            Pop::Finish | Pop::CloseFinish => {
                let closing = pop == Pop::CloseFinish;
                self.walked(b, &self.pop.walk, n, &mut |b, i, offset| self.finish_block(b, i, offset, closing));
            }
        }
        for (row, used) in [(self.pop.row, self.t.accumulators), (self.sums.row, self.t.sums > 0)] {
            if used {
                b.s_inc(row, (n * self.sub()) as i32);
            }
        }
    }

    /// The results that a block pops: all of them, or where units lie along `k`, the first unit's of each sum.
    fn summed(&self, closing: bool) -> Vec<(usize, u32, u32, u32)> {
        if closing { self.closing_results() } else { self.results().collect() }
    }

    /// The next result of a unit, of the part's plane `plane` of columns: from the FIFO, or from the accumulator rows of block `i`.
    pub(super) fn result(&self, b: &mut KernelBuilder, i: u32, unit: u32, plane: u32) -> V {
        let part = self.p.staging.part;
        let chunk = part.n.first + plane;
        match (self.t.accumulators, i * self.sub()) {
            (false, _) => {
                let v = b.mxu_pop(unit, chunk);
                if let Some(last) = part.n.beyond.filter(|_| plane + 1 == part.n.count) {
                    b.mxu_pop(unit, last);
                }
                v
            }
            (true, 0) => b.mxu_drain(unit, chunk, self.pop.row),
            (true, ahead) => {
                let row = b.s_addi(self.pop.row, ahead as i32);
                b.mxu_drain(unit, chunk, row)
            }
        }
    }

    /// Where the sums of a result of block `i` lie, relative to the walk.
    pub(super) fn sum_offset(&self, i: u32, unit: u32, chunk: u32) -> i32 {
        (((unit * self.t.nch + chunk) * self.t.blocks + i) * self.sub()) as i32
    }

    /// Adds results to the sums. All loads come before all stores, so that they need not be told apart.
    fn sum_blocks(&self, b: &mut KernelBuilder, before: Before, n: u32, closing: bool) {
        let results = self.summed(closing);
        let all: Vec<(u32, (usize, u32, u32, u32))> =
            (0..n).flat_map(|i| results.iter().map(move |&r| (i, r))).collect();
        let there = |plane: u32| plane < self.p.geometry.planes_n;
        let load = |b: &mut KernelBuilder, &(i, (_, plane, unit, c)): &(u32, (usize, u32, u32, u32))| {
            let known = there(plane) && before != Before::Nothing;
            known.then(|| b.load(MemFormat::W32, self.sums.row, self.sum_offset(i, unit, c), 1, self.sums.buf))
        };
        let sums: Vec<Option<V>> = all.iter().map(|r| load(b, r)).collect();
        let mut totals = Vec::new();
        for (&(i, (_, plane, unit, c)), &sum) in all.iter().zip(&sums) {
            if !there(plane) && self.t.accumulators {
                totals.push(None);
                continue;
            }
            let v = self.result(b, i, unit, c);
            totals.push(there(plane).then(|| {
                let value = self.p.formats.result(b, v).v();
                let total = match sum {
                    Some(sum) => {
                        let total = self.p.formats.add(b, sum, value);
                        if let Before::Perhaps(first) = before { b.select(first, value, total) } else { total }
                    }
                    None => value,
                };
                if closing { self.add_others(b, total, (i, unit, c)) } else { total }
            }));
        }
        for (&(i, (_, _, unit, c)), total) in all.iter().zip(totals) {
            if let Some(total) = total {
                let offset = self.sum_offset(i, unit, c);
                b.store(StoreFormat::W32, total, self.sums.row, offset, 1, M::ALL, self.sums.buf);
            }
        }
    }

    /// Takes the results of block `i` of the next ones through the epilogue; `offset`: see [`Context::walked`].
    fn finish_block(&self, b: &mut KernelBuilder, i: u32, offset: i32, closing: bool) {
        let mask = self.store_mask(b);
        for (si, plane, unit, c) in self.summed(closing) {
            let there = plane < self.p.geometry.planes_n;
            if self.t.accumulators && !there {
                continue;
            }
            let v = self.result(b, i, unit, c);
            if there {
                let value = self.p.formats.result(b, v);
                let whole = closing && self.closes_at_once();
                let mut value = if whole { value } else { self.add_sum(b, value, self.sum_offset(i, unit, c)) };
                if closing {
                    value = Value::word(value.dtype, self.add_others(b, value.v(), (i, unit, c)));
                }
                self.finish_tile(b, value, (si, plane, offset), mask);
            }
        }
    }

    /// The value with the sum so far in vector memory, if sums are kept there.
    fn add_sum(&self, b: &mut KernelBuilder, value: Value, offset: i32) -> Value {
        if self.t.sums == 0 {
            return value;
        }
        let sum = b.load(MemFormat::W32, self.sums.row, offset, 1, self.sums.buf);
        Value::word(value.dtype, self.p.formats.add(b, sum, value.v()))
    }

    /// Sublanes of the block that may be stored.
    pub(super) fn store_mask(&self, b: &mut KernelBuilder) -> M {
        let g = self.p.geometry;
        let rest = g.inner.count % g.sublanes;
        match self.pop.walk.line_left() {
            _ if !g.masked => M::ALL,
            Some(left) if g.blocks.long_lines => {
                let last = b.def_s(Op::SEqI, &[left.into(), 1.into()]);
                let (part, full) = (b.s_imm(rest as i32), b.s_imm(g.sublanes as i32));
                let count = b.s(Op::SSel, &[last, part, full]);
                let (sublane, count) = (b.sublane(), b.splat(count));
                b.cmp(Op::VLtS, sublane, count)
            }
            _ => b.sublanes_below(rest),
        }
    }

    pub(super) fn finish_tile(
        &self,
        b: &mut KernelBuilder,
        sums: Value,
        (si, plane, ahead): (usize, u32, i32),
        mask: M,
    ) {
        let stride = self.p.geometry.inner.out;
        let mut epilogue = self.epilogue.borrow_mut();
        let inside = self.t.slab.out[si];
        let place = |o: &Operand, base: S| memory::Place {
            base,
            offset: (plane * o.plane + o.slab(si, inside)) as i32 + ahead,
            stride: stride as i32,
            buf: o.buf,
            component_rows: 0,
        };
        let extras: Vec<Value> = self
            .extras
            .iter()
            .zip(&self.pop.walk.vars[1..])
            .map(|(o, &base)| memory::load_value(b, o.array.dtype, place(o, base)))
            .collect();
        let at = TileAt {
            plane: self.pop.plane,
            plane_offset: plane,
            extras: &extras,
            params: &self.params,
            buffer: self.params_buf,
        };
        let value = epilogue.apply(b, sums, &at);
        memory::store_value(b, &value, place(&self.out, self.pop.walk.vars[0]), mask);
    }
}
