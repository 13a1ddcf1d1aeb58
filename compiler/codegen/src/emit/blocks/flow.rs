//! The code of a body done block by block.

use super::body::{Body, Walk};
use super::share::words_of_result;
use super::window::{Level, Runs, Window, step};
use super::{BlockSpec, Choice, Share, grid, result_words, slot_rows};
use crate::emit::hbm::{Descs, HbmUnit};
use crate::emit::hook::Hook;
use crate::emit::loops::spec::ReduceSpec;
use crate::emit::loops::{Bases, emit_loop, emit_reduce};
use crate::emit::moves::{Place, Sides, emit_move};
use crate::emit::rows::emit_pick;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, KernelCode, Needs, S};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Semaphores of each set of windows: copies in, copies out.
const IN: [u32; 2] = [0, 1];
const OUT: [u32; 2] = [2, 3];

/// An array in HBM.
struct Stream {
    /// Number among the body's arrays.
    number: usize,
    unit: HbmUnit,
    window_buf: BufferRef,
    read: bool,
    written: bool,
    /// First word row of the window in the first set.
    window: S,
    /// The array's first row (floating arrays).
    float: Option<S>,
    /// Address units that the outer dimensions' indices add.
    ahead: Option<S>,
    place: BlockPlace,
}

/// Where a stream is.
struct BlockPlace {
    /// Rows of the window before the array's first (floating arrays).
    residual: Option<S>,
    /// Place of the next block to bring, and of the one to take away.
    next_in: S,
    next_out: S,
}

/// A result of a share that is partial: where it is made, and where it goes.
struct PartialResult {
    unit: HbmUnit,
    words: S,
    buf: BufferRef,
    bytes: u32,
}

struct Flow<'a> {
    body: &'a Body,
    choice: &'a Choice,
    chip: &'a ChipConfig,
    walks: Vec<Option<Walk>>,
    /// Register and buffer of every parameter of the body.
    params: Vec<(S, BufferRef)>,
    extra: Vec<S>,
    /// Indices of the outer dimensions.
    around: Vec<S>,
    streams: Vec<Stream>,
    /// What the body keeps in scratch memory.
    kept: Option<(S, BufferRef)>,
    descs: Descs,
    /// One core's share of all blocks, where several work on them.
    share: Option<Share>,
    /// What is done between blocks.
    hook: Option<Hook>,
}

/// Writes the kernel of a choice, or of a core's share.
pub fn emit(
    body: &Body,
    spec: &BlockSpec,
    (choice, hook): (&Choice, Option<Hook>),
    chip: &ChipConfig,
    share: Option<Share>,
) -> KernelCode {
    let mut b = KernelBuilder::new("blocks", chip);
    if hook.is_some() {
        b.save_around_calls();
    }
    let walks = body.walks(chip.core.lanes);
    let params: Vec<(S, BufferRef)> = walks.iter().map(|_| (b.param(), b.buffer())).collect();
    // Lane starts of moves.
    let extra: Vec<S> = match body {
        Body::Move(m) => (0..m.src.dynamic_lane as u32 + m.dst.dynamic_lane as u32).map(|_| b.param()).collect(),
        Body::Loop(_) | Body::Reduce(_) | Body::Pick(_) => Vec::new(),
    };
    let floats: Vec<Option<S>> = spec.operands.iter().map(|o| o.floating.then(|| b.param())).collect();
    let scratch = b.param();
    let around: Vec<S> = (0..choice.outer).map(|_| b.s_var(0)).collect();
    let mut flow = Flow {
        body,
        choice,
        chip,
        walks,
        params,
        extra,
        around,
        streams: Vec::new(),
        kept: None,
        descs: Descs::default(),
        share,
        hook,
    };
    let partial = share.is_some_and(|s| s.partial);
    let results = if partial { flow.partial_results(&mut b, scratch) } else { Vec::new() };
    // Arrays in vector memory are walked by registers of their own.
    if choice.outer > 0 {
        for (i, w) in choice.windows.iter().enumerate() {
            if w.is_none() && flow.walks[i].is_some() {
                flow.params[i].0 = b.s_copy(flow.params[i].0);
            }
        }
    }
    let mut at = 0;
    for (i, o) in spec.operands.iter().enumerate() {
        let (Some(w), Some(walk)) = (&choice.windows[i], &flow.walks[i]) else { continue };
        if w.within.is_some() {
            continue;
        }
        let (base, buf) = flow.params[i];
        let unit = HbmUnit::new(base, buf, walk.dtype, chip);
        let window = b.s_addi(scratch, at as i32);
        at += choice.words[i];
        let (is_output, kept) = (walk.is_output, o.kept);
        let ahead = w.outer_steps.iter().any(|&s| s != 0).then(|| b.s_var(0));
        flow.streams.push(Stream {
            number: i,
            unit,
            window_buf: b.buffer(),
            read: !is_output || kept,
            written: is_output,
            window,
            float: floats[i],
            ahead,
            // Set at the begin of every row of blocks.
            place: BlockPlace { residual: None, next_in: S::ZERO, next_out: S::ZERO },
        });
    }
    if choice.kept > 0 {
        flow.kept = Some((b.s_addi(scratch, (choice.one_set() * choice.sets()) as i32), b.buffer()));
    }
    flow.rows(&mut b, 0);
    flow.publish(&mut b, &results);
    let results = if partial { result_words(body, chip) } else { 0 };
    let needs = choice.needs();
    KernelCode::copying(b.finish(), flow.descs.0, Needs { scratch_rows: needs.scratch_rows + results, ..needs })
}

/// Where a stream begins: at a window's first row (only known at run time for floating arrays), so many address units
/// ahead.
fn start(
    b: &mut KernelBuilder,
    unit: &HbmUnit,
    (first, ahead): (i64, Option<S>),
    float: Option<S>,
    chip: &ChipConfig,
) -> BlockPlace {
    let (from, residual) = match float {
        None => (b.s_imm(unit.units(first as i32)), None),
        Some(float) => {
            let align = grid(chip).align as i32;
            let row = b.s_addi(float, first as i32);
            let low = b.def_s(Op::SAndI, &[row.into(), (align - 1).into()]);
            let aligned = b.s(Op::SSub, &[row, low]);
            (unit.units_of(b, aligned), Some(low))
        }
    };
    let from = match ahead {
        Some(ahead) => b.s(Op::SAdd, &[from, ahead]),
        None => from,
    };
    BlockPlace { residual, next_in: b.s_copy(from), next_out: b.s_copy(from) }
}

/// The copy of a window.
fn copy(runs: &Runs, unit: &HbmUnit, to_hbm: bool) -> DmaDesc {
    let bytes = |rows: i64| unit.bytes(rows as u32) as i64;
    let dim = |l: &Level| {
        let (hbm, vmem) = (bytes(l.array), bytes(l.window));
        let (src_stride, dst_stride) = if to_hbm { (vmem, hbm) } else { (hbm, vmem) };
        DmaDim { count: l.count, src_stride, dst_stride }
    };
    let (src, dst) = if to_hbm { (Space::Vmem, Space::Hbm) } else { (Space::Hbm, Space::Vmem) };
    DmaDesc { src, dst, chunk: bytes(runs.rows) as u32, dims: runs.levels.iter().rev().map(dim).collect() }
}

impl Flow<'_> {
    /// Every row of blocks: one for each combination of the outer dimensions' indices from the `depth`-th on.
    fn rows(&mut self, b: &mut KernelBuilder, depth: usize) {
        let choice = self.choice;
        if depth == choice.outer {
            let (first, end) = self.blocks();
            if first < end {
                self.whole_blocks(b, first, end);
            }
            let last = choice.outer > 0 || self.share.is_none_or(|s| s.last);
            if choice.rest > 0 && last {
                self.rest(b);
            }
            return;
        }
        let share = self.share.filter(|_| depth == 0).map(|s| (s.first, s.end));
        let (first, end) = share.unwrap_or((0, self.body.sizes()[depth]));
        if first > 0 {
            self.advance(b, depth, first as i32);
        }
        b.loop_static(end - first, |b| {
            self.rows(b, depth + 1);
            self.advance(b, depth, 1);
        });
        self.advance(b, depth, -(end as i32));
    }

    /// The whole blocks of a row that this kernel does.
    fn blocks(&self) -> (u32, u32) {
        let share = self.share.filter(|_| self.choice.outer == 0).map(|s| (s.first, s.end));
        share.unwrap_or((0, self.choice.blocks))
    }

    /// Moves on by so many indices of an outer dimension.
    fn advance(&self, b: &mut KernelBuilder, depth: usize, by: i32) {
        b.s_inc(self.around[depth], by);
        for s in &self.streams {
            let w = self.choice.windows[s.number].as_ref().expect("every stream has a window");
            let step = w.outer_steps[depth];
            if let Some(ahead) = s.ahead.filter(|_| step != 0) {
                b.s_inc(ahead, s.unit.units(step as i32) * by);
            }
        }
        for (i, w) in self.walks.iter().enumerate() {
            let Some(w) = w.as_ref().filter(|_| self.choice.windows[i].is_none()) else { continue };
            let step = self.resident_step(w, depth, 1);
            if step != 0 {
                b.s_inc(self.params[i].0, step as i32 * by);
            }
        }
    }

    /// Element rows by which an array in vector memory moves on with `size` steps of a dimension.
    fn resident_step(&self, w: &Walk, d: usize, size: u32) -> i64 {
        match self.body {
            Body::Move(_) => step(w, d, size, &grid(self.chip)).unwrap_or(0),
            // Lanes of indexed inputs follow the index.
            Body::Loop(_) | Body::Reduce(_) | Body::Pick(_) => w.rows.steps[d] * size as i64,
        }
    }

    /// Blocks `first..end` of a row.
    fn whole_blocks(&mut self, b: &mut KernelBuilder, first: u32, end: u32) {
        self.begin(b, &self.choice.windows);
        let (choice, sets) = (self.choice, self.choice.sets());
        let count = end - first;
        let windows = choice.windows.clone();
        let plan = Copies::new(self, &windows);
        if first > 0 {
            self.skip(b, &plan, first);
        }
        // Distance from the window set in use to the next block's, and the number of the set in use.
        let set_words = choice.one_set() as i32;
        let (set, at) = (b.s_var(0), b.s_var(0));
        let (left, done) = (b.s_var(count as i32), b.s_var(0));
        // Places of arrays in vector memory, and the first index of the block.
        let walked = self.walked(b, choice.size);
        for (reg, by) in walked.iter().filter(|w| first > 0 && w.1 != 0) {
            b.s_inc(*reg, *by as i32 * first as i32);
        }
        let index = b.s_var((first * choice.size) as i32);
        // Windows that are filled again may hold results that are still being copied out.
        let refilled = self.streams.iter().any(|s| s.read && s.written);
        if sets > 1 {
            self.bring(b, &plan, S::ZERO, IN[0]);
        }
        b.loop_static(count, |b| {
            if let Some(hook) = self.hook {
                let there = hook.there(b);
                hook.call(b, there);
            }
            b.s_inc(left, -1);
            if sets > 1 {
                let other = b.s_imm(set_words);
                if refilled {
                    b.if_(done, |b| {
                        b.if_else(set, |b| self.wait_out(b, &plan, OUT[0]), |b| self.wait_out(b, &plan, OUT[1]));
                    });
                }
                b.if_(left, |b| {
                    let next = b.s(Op::SSub, &[other, at]);
                    b.if_else(set, |b| self.bring(b, &plan, next, IN[0]), |b| self.bring(b, &plan, next, IN[1]));
                });
                b.if_else(set, |b| self.wait_in(b, &plan, IN[1]), |b| self.wait_in(b, &plan, IN[0]));
                if plan.out_bytes > 0 && !refilled {
                    let two = b.def_s(Op::SLtI, &[done.into(), 2.into()]);
                    b.unless(two, |b| {
                        b.if_else(set, |b| self.wait_out(b, &plan, OUT[1]), |b| self.wait_out(b, &plan, OUT[0]));
                    });
                }
            } else {
                self.bring(b, &plan, S::ZERO, IN[0]);
                self.wait_in(b, &plan, IN[0]);
            }
            self.work(b, &windows, choice.size, at, &walked, index);
            if sets > 1 {
                b.if_else(set, |b| self.take(b, &plan, at, OUT[1]), |b| self.take(b, &plan, at, OUT[0]));
                let (one, other) = (b.s_imm(1), b.s_imm(set_words));
                b.set_s(set, Op::SSub, &[one.into(), set.into()]);
                b.set_s(at, Op::SSub, &[other.into(), at.into()]);
            } else {
                self.take(b, &plan, S::ZERO, OUT[0]);
                self.wait_out(b, &plan, OUT[0]);
            }
            b.s_inc(done, 1);
            b.s_inc(index, choice.size as i32);
            for (reg, by) in &walked {
                if *by != 0 {
                    b.s_inc(*reg, *by as i32);
                }
            }
        });
        if sets > 1 {
            let last = (count - 1) as usize % 2;
            if !refilled && count > 1 {
                self.wait_out(b, &plan, OUT[1 - last]);
            }
            self.wait_out(b, &plan, OUT[last]);
        }
    }

    /// Moves the streams on by so many blocks.
    fn skip(&self, b: &mut KernelBuilder, plan: &Copies, blocks: u32) {
        for (s, c) in self.streams.iter().zip(&plan.of).filter(|s| s.1.step != 0) {
            b.s_inc(s.place.next_in, c.step * blocks as i32);
            b.s_inc(s.place.next_out, c.step * blocks as i32);
        }
    }

    /// Puts the streams at their first block.
    fn begin(&mut self, b: &mut KernelBuilder, windows: &[Option<Window>]) {
        for s in &mut self.streams {
            let w = windows[s.number].as_ref().expect("every stream has a window");
            s.place = start(b, &s.unit, (w.start, s.ahead), s.float, self.chip);
        }
    }

    /// What is left after the whole blocks.
    fn rest(&mut self, b: &mut KernelBuilder) {
        let choice = self.choice;
        let windows = choice.rest_windows.clone();
        let plan = Copies::new(self, &windows);
        self.begin(b, &windows);
        let first = choice.blocks * choice.size;
        let walked = self.walked(b, first);
        for (reg, by) in &walked {
            if *by != 0 {
                b.s_inc(*reg, *by as i32);
            }
        }
        let index = b.s_imm(first as i32);
        self.bring(b, &plan, S::ZERO, IN[0]);
        self.wait_in(b, &plan, IN[0]);
        self.work(b, &windows, choice.rest, S::ZERO, &walked, index);
        self.take(b, &plan, S::ZERO, OUT[0]);
        self.wait_out(b, &plan, OUT[0]);
    }

    /// Registers of the arrays in vector memory, with their steps over `size` steps of the cut dimension.
    fn walked(&self, b: &mut KernelBuilder, size: u32) -> Vec<(S, i64)> {
        let d = self.choice.dimension;
        let one = |(i, w): (usize, &Option<Walk>)| {
            let reg = self.params[i].0;
            match w {
                Some(w) if self.choice.windows[i].is_none() => (b.s_copy(reg), self.resident_step(w, d, size)),
                _ => (reg, 0),
            }
        };
        self.walks.iter().enumerate().map(one).collect()
    }

    /// Starts the copies in of the next block into the window set at word row `at`.
    fn bring(&self, b: &mut KernelBuilder, plan: &Copies, at: S, sem: u32) {
        self.start(b, plan, (at, sem), true);
    }

    /// Starts the copies out of the window set at word row `at`.
    fn take(&self, b: &mut KernelBuilder, plan: &Copies, at: S, sem: u32) {
        self.start(b, plan, (at, sem), false);
    }

    fn start(&self, b: &mut KernelBuilder, plan: &Copies, (at, sem): (S, u32), inward: bool) {
        for (s, c) in self.streams.iter().zip(&plan.of) {
            let (desc, next) = if inward { (c.input, s.place.next_in) } else { (c.output, s.place.next_out) };
            let Some(desc) = desc else { continue };
            let hbm = (s.unit.place(b, next, 0), s.unit.buf);
            let window = ((b.s(Op::SAdd, &[s.window, at]), S::ZERO), s.window_buf);
            let (from, to) = if inward { (hbm, window) } else { (window, hbm) };
            let ((src, src_offset), (dst, dst_offset)) = (from.0, to.0);
            b.dma_start(DmaArgs { desc, src, src_offset, dst, dst_offset, sem }, &[from.1], &[to.1]);
            if c.step != 0 {
                b.s_inc(next, c.step);
            }
        }
    }

    fn buffers(&self, written: bool) -> (Vec<BufferRef>, Vec<BufferRef>) {
        let used = self.streams.iter().filter(|s| if written { s.written } else { s.read });
        used.map(|s| (s.unit.buf, s.window_buf)).unzip()
    }

    fn wait_in(&self, b: &mut KernelBuilder, plan: &Copies, sem: u32) {
        if plan.in_bytes > 0 {
            let (hbm, windows) = self.buffers(false);
            b.dma_wait(sem, plan.in_bytes, &hbm, &windows);
        }
    }

    fn wait_out(&self, b: &mut KernelBuilder, plan: &Copies, sem: u32) {
        if plan.out_bytes > 0 {
            let (hbm, windows) = self.buffers(true);
            b.dma_wait(sem, plan.out_bytes, &windows, &hbm);
        }
    }

    /// The body on one block.
    fn work(&self, b: &mut KernelBuilder, windows: &[Option<Window>], size: u32, at: S, walked: &[(S, i64)], index: S) {
        let d = self.choice.dimension;
        let mut body = self.body.clone();
        (0..self.choice.outer).for_each(|e| body.set_size(e, 1));
        body.set_size(d, size);
        let mut args: Vec<(S, BufferRef)> =
            walked.iter().zip(&self.params).map(|((reg, _), (_, buf))| (*reg, *buf)).collect();
        for s in &self.streams {
            let w = windows[s.number].as_ref().expect("every stream has a window");
            body.set_walk(s.number, &w.walk);
            let row = b.s(Op::SAdd, &[s.window, at]);
            let packing = w.walk.dtype.packing() as i32;
            let row = if packing == 1 { row } else { b.s_muli(row, packing) };
            let row = match s.place.residual {
                Some(r) => b.s(Op::SAdd, &[row, r]),
                None => row,
            };
            args[s.number] = (row, s.window_buf);
        }
        for (i, w) in windows.iter().enumerate() {
            if let Some((w, leader)) = w.as_ref().and_then(|w| Some((w, w.within?))) {
                body.set_walk(i, &w.walk);
                args[i] = args[leader];
            }
        }
        match &body {
            Body::Loop(_) | Body::Reduce(_) => {
                let mut bases = Bases { args, scratch: self.kept, ..Bases::default() };
                let indices = self.around.iter().copied().enumerate().chain([(d, index)]);
                for (d, index) in indices {
                    for (node, c) in self.body.index_steps(d) {
                        add(b, &mut bases.index, node, (index, c));
                    }
                    for (i, w) in self.walks.iter().enumerate() {
                        let c = w.as_ref().map_or(0, |w| w.lanes.steps[d]);
                        if c != 0 {
                            add(b, &mut bases.lane, i, (index, c));
                        }
                    }
                }
                match &body {
                    Body::Loop(s) => emit_loop(b, s, &bases),
                    Body::Reduce(s) => self.reduce(b, s, &bases, index),
                    Body::Move(_) | Body::Pick(_) => {}
                }
            }
            Body::Pick(s) => emit_pick(b, s, &args),
            Body::Move(m) => {
                let mut starts = self.extra.iter().copied();
                let src = Place::new(args[0], m.src.dynamic_lane.then(|| starts.next()).flatten());
                let dst = Place::new(args[1], m.dst.dynamic_lane.then(|| starts.next()).flatten());
                emit_move(b, &Sides { spec: m, src, dst });
            }
        }
    }
}

impl Flow<'_> {
    /// Places for partial results, behind all else in scratch memory: the body makes its results there.
    fn partial_results(&mut self, b: &mut KernelBuilder, scratch: S) -> Vec<PartialResult> {
        let mut at = self.choice.scratch_rows();
        let mut all = Vec::new();
        for (i, w) in self.walks.iter().enumerate() {
            let Some(w) = w.as_ref().filter(|w| w.is_output) else { continue };
            let (base, hbm) = self.params[i];
            let unit = HbmUnit::new(base, hbm, w.dtype, self.chip);
            let (words, buf) = (b.s_addi(scratch, at as i32), b.buffer());
            let packing = w.dtype.packing() as i32;
            self.params[i] = (if packing == 1 { words } else { b.s_muli(words, packing) }, buf);
            at += words_of_result(w, self.chip);
            all.push(PartialResult { unit, words, buf, bytes: unit.bytes(slot_rows(w, self.chip) as u32) as u32 });
        }
        all
    }

    /// Copies partial results to HBM.
    fn publish(&mut self, b: &mut KernelBuilder, results: &[PartialResult]) {
        for r in results {
            let desc = self.descs.number(DmaDesc::contiguous(Space::Vmem, Space::Hbm, r.bytes));
            let (dst, dst_offset) = r.unit.place(b, S::ZERO, 0);
            let args = DmaArgs { desc, src: r.words, src_offset: S::ZERO, dst, dst_offset, sem: OUT[0] };
            b.dma_start(args, &[r.buf], &[r.unit.buf]);
        }
        for r in results {
            b.dma_wait(OUT[0], r.bytes as i32, &[r.buf], &[r.unit.buf]);
        }
    }

    /// A block of a reduction; where reduced dimensions are cut, all blocks but the first of them (of a share whose
    /// results are partial, the first of the share) go on from its results.
    fn reduce(&self, b: &mut KernelBuilder, s: &ReduceSpec, bases: &Bases, index: S) {
        let indices = self.around.iter().copied().enumerate().chain([(self.choice.dimension, index)]);
        let mut reduced: Vec<S> = indices.filter(|i| self.body.resumes(i.0)).map(|i| i.1).collect();
        // The shared dimension is the first of them.
        if let (Some(share), Some(index)) = (self.share.filter(|s| s.partial && s.first > 0), reduced.first_mut()) {
            let steps = if self.choice.outer > 0 { 1 } else { self.choice.size };
            *index = b.s_addi(*index, -((share.first * steps) as i32));
        }
        let Some(steps) = reduced.into_iter().reduce(|x, y| b.s(Op::SAdd, &[x, y])) else {
            return emit_reduce(b, s, bases);
        };
        let resumed = ReduceSpec { resumed: true, ..s.clone() };
        b.if_else(steps, |b| emit_reduce(b, &resumed, bases), |b| emit_reduce(b, s, bases));
    }
}

/// Adds `c` times an index to a place.
fn add<K: Eq + Hash>(b: &mut KernelBuilder, places: &mut FxHashMap<K, S>, key: K, (index, c): (S, i64)) {
    let product = b.s_muli(index, c as i32);
    let sum = match places.get(&key) {
        Some(&before) => b.s(Op::SAdd, &[before, product]),
        None => product,
    };
    places.insert(key, sum);
}

/// Descriptors and bytes of a block's copies.
struct Copies {
    of: Vec<StreamCopies>,
    in_bytes: i32,
    out_bytes: i32,
}

struct StreamCopies {
    input: Option<u32>,
    output: Option<u32>,
    /// Address units from one block to the next.
    step: i32,
}

impl Copies {
    fn new(flow: &mut Flow<'_>, windows: &[Option<Window>]) -> Copies {
        let mut c = Copies { of: Vec::new(), in_bytes: 0, out_bytes: 0 };
        for i in 0..flow.streams.len() {
            let s = &flow.streams[i];
            let (read, written, unit) = (s.read, s.written, s.unit);
            let w = windows[s.number].as_ref().expect("every stream has a window");
            let input = read.then(|| copy(&w.runs, &unit, false));
            let output = written.then(|| copy(&w.runs, &unit, true));
            c.in_bytes += input.as_ref().map_or(0, |d| d.bytes() as i32);
            c.out_bytes += output.as_ref().map_or(0, |d| d.bytes() as i32);
            let input = input.map(|d| flow.descs.number(d));
            let output = output.map(|d| flow.descs.number(d));
            c.of.push(StreamCopies { input, output, step: unit.units(w.step as i32) });
        }
        c
    }
}
