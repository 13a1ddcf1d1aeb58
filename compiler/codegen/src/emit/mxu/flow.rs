//! The flow of a kernel: the loop over steps, and what happens when chunks, blocks and tiles begin and end.

use super::body::{Before, Beside, Context, Pop, Push, Step};
use super::ends::start_streams;
use super::segment::{Segment, Source};
use super::setup::ROWS;
use super::spec::Place;
use super::stream::Kind;
use crate::emit::hook::Hook;
use crate::kernel::{KernelBuilder, LoopHints, M, S, Trips};
use systole_isa::{MxuFormat, Op};

impl Context<'_> {
    fn passes(&self) -> &[(MxuFormat, MxuFormat)] {
        &self.p.formats.passes
    }

    fn streams_inputs(&self) -> bool {
        self.streams.lhs.is_some() || self.streams.rhs.is_some()
    }

    /// The whole kernel behind the setup.
    pub fn run(&self, b: &mut KernelBuilder, hook: Option<Hook>) {
        if !self.opens() {
            start_streams(b, &self.t, self.streams.lhs.as_ref(), self.streams.rhs.as_ref());
        }
        self.start_extras(b);
        self.rhs_event(b, true);
        let first = self.begin_first(b);
        let groups = self.p.staging.groups;
        b.loop_static(groups, |b| self.stage_group(b, &first, self.passes()[0].1));
        let steps = self.steps * self.parts;
        if self.closing.is_some() {
            self.all(b, steps - self.steps, hook);
            self.close(b);
        } else {
            self.all(b, steps, hook);
            self.tail(b);
        }
        // Empties the staging area, into which the last step put weights that nobody uses.
        self.latch(b);
        if let Some(out) = &self.streams.out {
            out.finish(b);
        }
    }

    /// All steps; with a hook, with calls in between.
    fn all(&self, b: &mut KernelBuilder, steps: u32, hook: Option<Hook>) {
        if hook.is_some() {
            b.save_around_calls();
        }
        b.loop_with(Trips::Static(steps), LoopHints::default(), |b| {
            // Loaded beside the first copies of a step, and held by no register any longer than that.
            let there = hook.map(|h| (h, h.there(b)));
            self.keep(b);
            if let Some((hook, there)) = there {
                hook.call(b, there);
            }
            self.advance(b);
            self.step(b);
        });
    }

    /// Keeps what describes the step that becomes the current one.
    fn keep(&self, b: &mut KernelBuilder) {
        let c = &self.current;
        b.copy_s(self.push.walk.vars[0], self.next.odometer.vars[0]);
        for (&to, &from) in self.push.walk.vars[1..].iter().zip(&self.next.odometer.vars[ROWS..]) {
            b.copy_s(to, from);
        }
        if let Some(k) = c.k_left {
            b.copy_s(k, self.next.odometer.vars[2]);
        }
        if let (Some(pass), Some(left)) = (c.pass, self.next.odometer.left(Kind::Pass)) {
            b.copy_s(pass, left);
        }
        if self.t.accumulators {
            b.copy_s(c.first, self.next.first);
            b.copy_s(self.push.row, self.next.region);
            b.set_s(self.next.first, Op::SLi, &[0.into()]);
        }
        if self.streams_inputs() {
            b.copy_s(c.chunk.number, self.next.chunk.number);
            b.copy_s(c.chunk.new, self.next.chunk.new);
            if let Some(left) = self.next.odometer.left(Kind::Group) {
                b.copy_s(c.groups, left);
            }
            b.set_s(self.next.chunk.new, Op::SLi, &[0.into()]);
        }
    }

    /// Moves the odometer to the next step.
    fn advance(&self, b: &mut KernelBuilder) {
        self.next.odometer.advance(b, &|b, kind| self.moved(b, kind));
    }

    /// A level of the odometer has moved on.
    fn moved(&self, b: &mut KernelBuilder, kind: Kind) {
        match kind {
            Kind::Pass | Kind::Tap(_) => {}
            Kind::K if !self.streams_inputs() || self.t.kc == 1 => {}
            Kind::K => {
                b.s_inc(self.next.chunk_left, -1);
                b.unless(self.next.chunk_left, |b| {
                    b.set_s(self.next.chunk_left, Op::SLi, &[(self.t.ktc as i32).into()]);
                    b.s_inc(self.next.chunk.number, 1);
                    b.set_s(self.next.chunk.new, Op::SLi, &[1.into()]);
                });
            }
            Kind::Group | Kind::Split | Kind::Wide | Kind::Block | Kind::Outer(_) | Kind::Batch(_) => {
                self.new_part(b, kind != Kind::Group);
            }
        }
    }

    fn new_part(&self, b: &mut KernelBuilder, new_rows: bool) {
        if let Some(ring) = self.rings.lhs.filter(|_| new_rows) {
            ring.turn(b, &[self.next.odometer.vars[0]]);
        }
        match self.rings.rhs {
            Some(ring) => ring.turn(b, &[self.next.odometer.vars[1]]),
            None => b.set_s(self.rhs_waits, Op::SLi, &[0.into()]),
        }
        if self.t.keeps_rhs() {
            let more = b.s_addi(self.rhs_waits, -1);
            b.set_s(self.rhs_waits, Op::SMax, &[more.into(), S::ZERO.into()]);
        }
        self.next_part(b);
        if self.streams_inputs() {
            b.set_s(self.next.chunk_left, Op::SLi, &[(self.t.ktc as i32).into()]);
            b.set_s(self.next.chunk.number, Op::SLi, &[0.into()]);
            b.set_s(self.next.chunk.new, Op::SLi, &[1.into()]);
        }
        if self.t.accumulators {
            b.set_s(self.next.first, Op::SLi, &[1.into()]);
            self.next_region(b, self.next.region);
        }
    }

    /// Turns to the next region of the accumulators.
    fn next_region(&self, b: &mut KernelBuilder, region: S) {
        let rows = (self.t.blocks * self.p.geometry.sublanes) as i32;
        let regions = self.regions();
        if regions > 1 {
            b.s_inc(region, rows);
            let inside = b.def_s(Op::SLtI, &[region.into(), (rows * regions as i32).into()]);
            b.set_s(region, Op::SSel, &[inside.into(), region.into(), S::ZERO.into()]);
        }
    }

    fn regions(&self) -> u32 {
        1 + (self.seg.lag - 1).div_ceil(self.steps)
    }

    fn step(&self, b: &mut KernelBuilder) {
        self.lhs_event(b, 0);
        if !self.seg.late {
            self.rhs_event(b, false);
        }
        self.latch(b);
        let step = self.begin_step(b);
        let n = self.passes().len();
        match self.current.pass {
            None => self.pass(b, &step, 0),
            Some(left) => self.pass_of(b, &step, left, (0, n)),
        }
    }

    /// Selects the code of the current pass among `range`.
    fn pass_of(&self, b: &mut KernelBuilder, step: &Step, left: S, range: (usize, usize)) {
        if range.1 - range.0 == 1 {
            return self.pass(b, step, range.0);
        }
        let mid = (range.0 + range.1) / 2;
        let later = b.def_s(Op::SLtI, &[left.into(), ((self.passes().len() - mid + 1) as i32).into()]);
        b.if_else(
            later,
            |b| self.pass_of(b, step, left, (mid, range.1)),
            |b| self.pass_of(b, step, left, (range.0, mid)),
        );
    }

    fn pass(&self, b: &mut KernelBuilder, step: &Step, pass: usize) {
        if self.t.accumulators {
            self.accumulate(b, step, pass);
        } else {
            self.stream(b, step, pass);
        }
    }

    /// The loops of a step that pop from `source`.
    pub(super) fn loops(
        &self,
        b: &mut KernelBuilder,
        step: &Step,
        pass: usize,
        (source, beside): (Source, Beside),
        push: Push,
        pop: Pop,
    ) {
        for s in self.seg.loops.iter().filter(|s| s.source == source) {
            self.one_loop(b, step, pass, (s, beside), push, pop);
        }
    }

    pub(super) fn one_loop(
        &self,
        b: &mut KernelBuilder,
        step: &Step,
        pass: usize,
        (s, beside): (&Segment, Beside),
        push: Push,
        pop: Pop,
    ) {
        let next = self.passes()[(pass + 1) % self.passes().len()].1;
        b.loop_with(Trips::Static(s.iterations), self.hints(), |b| {
            match beside {
                Beside::Nothing => {}
                Beside::End => self.spread_blocks(b, s.blocks / self.t.spread),
                Beside::Loop => self.followed_blocks(b, s.blocks),
            }
            self.pop_blocks(b, pop, s.blocks);
            self.push_blocks(b, step, (push, s.blocks), &|b, i| {
                let from = s.stage * i / s.blocks;
                (from..s.stage * (i + 1) / s.blocks).for_each(|_| self.stage_group(b, step, next));
            });
        });
    }

    pub(super) fn staged_after(&self, b: &mut KernelBuilder, step: &Step, pass: usize) {
        let next = self.passes()[(pass + 1) % self.passes().len()].1;
        let all = self.seg.staged_after;
        if all > 0 {
            b.loop_with(Trips::Static(all), self.hints(), |b| self.stage_group(b, step, next));
        }
    }

    pub(super) fn hints(&self) -> LoopHints {
        let own = [self.sums.buf, self.out.buf];
        let others = self.follow.iter().flat_map(|f| f.outputs());
        LoopHints::independent(&own.iter().chain(others).copied().collect::<Vec<_>>())
    }

    fn stream(&self, b: &mut KernelBuilder, step: &Step, pass: usize) {
        let with = |other| {
            move |b: &mut KernelBuilder, is: bool| {
                self.stream_with(b, step, pass, if is { other } else { Beside::Nothing });
            }
        };
        match (&self.spread, &self.follow) {
            (Some(s), _) => self.beside(b, s, &with(Beside::End)),
            (None, Some(f)) => self.followed_step(b, f, &with(Beside::Loop)),
            (None, None) => self.stream_with(b, step, pass, Beside::Nothing),
        }
    }

    /// Results through the FIFO: the end of one earlier step, then the begin of the next one; beside that, something of an earlier tile.
    fn stream_with(&self, b: &mut KernelBuilder, step: &Step, pass: usize, beside: Beside) {
        let push = Push::Fifo(self.passes()[pass].0);
        let loops = |source| move |b: &mut KernelBuilder, pop| self.loops(b, step, pass, (source, beside), push, pop);
        // Without whole steps of lag, the pass says which results may be a tile's last.
        let known = self.seg.lag == 0;
        // There is something of a tile only behind its last results; while an end is spread there are none of the next tile's.
        let there = beside != Beside::Nothing;
        let may_be_last = beside != Beside::End;
        if self.seg.tail > 0 {
            let earlier = loops(Source::Earlier);
            if there || known && pass > 0 {
                self.pop_end(b, &earlier, may_be_last && pass == 0);
            } else {
                let none = |b: &mut KernelBuilder| {
                    if self.opens() { self.open(b, step, push) } else { earlier(b, Pop::None) }
                };
                b.if_else(self.pop.wait, none, |b| self.pop_end(b, &earlier, true));
            }
        }
        if self.opens() {
            self.opened(b, step, push);
            self.waited(b);
            return self.staged_after(b, step, pass);
        }
        if self.seg.late {
            self.rhs_event(b, false);
        }
        self.waited(b);
        let current = loops(Source::Current);
        if there || known {
            self.pop_begin(b, &current, pass + 1 == self.passes().len());
        } else {
            b.if_else(self.pop.wait, |b| current(b, Pop::None), |b| self.pop_begin(b, &current, true));
        }
        self.staged_after(b, step, pass);
    }

    /// One step fewer without results.
    fn waited(&self, b: &mut KernelBuilder) {
        let waited = b.s_addi(self.pop.wait, -1);
        b.set_s(self.pop.wait, Op::SMax, &[waited.into(), S::ZERO.into()]);
    }

    /// Runs `last` if the step whose results are popped is its tile's last, else `other`.
    pub(super) fn if_last(
        &self,
        b: &mut KernelBuilder,
        may_be: bool,
        last: impl FnOnce(&mut KernelBuilder),
        other: impl FnOnce(&mut KernelBuilder),
    ) {
        let splits = self.t.ks > 1;
        // Of a tile whose end is spread, all steps only add up.
        if !may_be || self.spread.is_some() {
            return other(b);
        }
        let step = (self.steps > 1).then(|| b.def_s(Op::SEqI, &[self.pop.left.into(), 1.into()]));
        let split = splits.then(|| b.def_s(Op::SEqI, &[self.pop.split.into(), 1.into()]));
        match (step, split) {
            (None, None) => last(b),
            (Some(is), None) | (None, Some(is)) => b.if_else(is, last, other),
            (Some(step), Some(split)) => {
                let is = b.s(Op::SAnd, &[step, split]);
                b.if_else(is, last, other);
            }
        }
    }

    pub(super) fn sum(&self, b: &mut KernelBuilder, loops: &dyn Fn(&mut KernelBuilder, Pop)) {
        // Where the vector unit has more to do beside pushes, code of its own spares it the choice.
        let busy = self.p.spec.start.is_some() || self.spread.is_some();
        if busy && self.t.ks == 1 && !self.t.accumulators {
            let first = b.def_s(Op::SEqI, &[self.pop.left.into(), (self.steps as i32).into()]);
            let sums = |before| move |b: &mut KernelBuilder| loops(b, Pop::Sum(before));
            return b.if_else(first, sums(Before::Nothing), sums(Before::All));
        }
        let first = self.sum_mask(b);
        loops(b, Pop::Sum(Before::Perhaps(first)));
    }

    /// Pops the first blocks of a step (all of them, without a tail).
    fn pop_begin(&self, b: &mut KernelBuilder, loops: &dyn Fn(&mut KernelBuilder, Pop), may_be_last: bool) {
        self.begin_sums(b);
        let last = |b: &mut KernelBuilder| {
            self.begin_tile(b);
            loops(b, Pop::Finish);
            if self.seg.tail == 0 {
                self.end_tile(b);
            } else {
                self.start_early(b);
            }
        };
        self.if_last(b, may_be_last, last, |b| self.sum(b, loops));
        if self.seg.tail == 0 {
            self.pop_step(b);
        }
    }

    /// Starts the copy of the results that leave before the tile's others.
    pub(super) fn start_early(&self, b: &mut KernelBuilder) {
        if let Some(out) = self.streams.out.as_ref().filter(|out| !out.whole.early.is_empty()) {
            let (window, address) = self.leaving(b);
            out.start_early(b, window, address);
        }
    }

    /// Pops the last blocks of a step.
    fn pop_end(&self, b: &mut KernelBuilder, loops: &dyn Fn(&mut KernelBuilder, Pop), may_be_last: bool) {
        let last = |b: &mut KernelBuilder| {
            loops(b, Pop::Finish);
            self.end_tile(b);
        };
        self.if_last(b, may_be_last, last, |b| self.sum(b, loops));
        self.pop_step(b);
    }

    pub(super) fn begin_sums(&self, b: &mut KernelBuilder) {
        if self.t.sums > 0 {
            b.copy_s(self.sums.row, self.sums.at);
        }
    }

    /// All ones in the first step of a tile: there are no sums yet.
    fn sum_mask(&self, b: &mut KernelBuilder) -> M {
        let (steps, splits) = (self.steps as i32, self.t.ks as i32);
        let step = (!self.t.accumulators).then(|| b.def_s(Op::SEqI, &[self.pop.left.into(), steps.into()]));
        let split = (splits > 1).then(|| b.def_s(Op::SEqI, &[self.pop.split.into(), splits.into()]));
        let first = match (step, split) {
            (Some(step), Some(split)) => b.s(Op::SAnd, &[step, split]),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return M::ALL,
        };
        let (first, zero) = (b.splat(first), b.v_imm(0));
        b.cmp(Op::VNeI, first, zero)
    }

    /// A step's results have been popped.
    fn pop_step(&self, b: &mut KernelBuilder) {
        if self.steps == 1 {
            return self.end_part(b);
        }
        b.s_inc(self.pop.left, -1);
        let again = |b: &mut KernelBuilder| {
            b.set_s(self.pop.left, Op::SLi, &[(self.steps as i32).into()]);
            self.end_part(b);
        };
        b.unless(self.pop.left, again);
    }

    /// A part's results have been popped: turns to the sums of the next one.
    fn end_part(&self, b: &mut KernelBuilder) {
        if self.t.accumulators {
            self.next_region(b, self.pop.region);
        }
        if let Some(s) = &self.spread {
            self.begin_spread(b, s);
        }
        if let Some(f) = &self.follow {
            self.group_followed(b, f);
        }
        if self.t.ks == 1 {
            return;
        }
        b.s_inc(self.sums.at, (self.t.sums / self.t.ng) as i32);
        b.s_inc(self.pop.group, -1);
        let again = |b: &mut KernelBuilder| {
            b.set_s(self.pop.group, Op::SLi, &[(self.t.ng as i32).into()]);
            b.copy_s(self.sums.at, self.sums.base);
            b.s_inc(self.pop.split, -1);
            let splits = b.s_imm(self.t.ks as i32);
            b.set_s(self.pop.split, Op::SSel, &[self.pop.split.into(), self.pop.split.into(), splits.into()]);
        };
        b.unless(self.pop.group, again);
    }

    /// Drains a part from the accumulators by `loops`.
    fn drain(&self, b: &mut KernelBuilder, loops: &dyn Fn(&mut KernelBuilder, Pop)) {
        self.begin_sums(b);
        b.copy_s(self.pop.row, self.pop.region);
        let last = |b: &mut KernelBuilder| {
            self.begin_tile(b);
            loops(b, Pop::Finish);
            self.end_tile(b);
        };
        if self.t.ks == 1 {
            last(b);
        } else {
            let is = b.def_s(Op::SEqI, &[self.pop.split.into(), 1.into()]);
            b.if_else(is, last, |b| self.sum(b, loops));
        }
        self.end_part(b);
    }

    /// Sums in accumulators: the first pass of a part overwrites, and one of its steps drains the part before.
    fn accumulate(&self, b: &mut KernelBuilder, step: &Step, pass: usize) {
        let format = self.passes()[pass].0;
        let n = self.passes().len() as u32;
        // The step of a part in which an earlier part is drained.
        let drains = (self.seg.lag - 1) % self.steps;
        let run = |b: &mut KernelBuilder, push: Push, may_drain: bool| {
            let none =
                |b: &mut KernelBuilder| self.loops(b, step, pass, (Source::Current, Beside::Nothing), push, Pop::None);
            if !may_drain {
                return none(b);
            }
            b.if_else(self.pop.wait, none, |b| {
                self.drain(b, &|b, pop| self.loops(b, step, pass, (Source::Current, Beside::Nothing), push, pop));
                b.set_s(self.pop.wait, Op::SLi, &[(self.steps as i32).into()]);
            });
        };
        let set = |b: &mut KernelBuilder| run(b, Push::Set(format), drains == 0);
        let add = |b: &mut KernelBuilder| run(b, Push::Add(format), drains > 0 && drains % n == pass as u32);
        match (pass, self.steps) {
            (0, 1) => set(b),
            (0, _) => b.if_else(self.current.first, set, add),
            _ => add(b),
        }
        b.s_inc(self.pop.wait, -1);
        self.staged_after(b, step, pass);
    }

    /// Before a tile's first result is stored.
    pub(super) fn begin_tile(&self, b: &mut KernelBuilder) {
        self.at_tile(b);
        self.claim_tile(b);
    }

    /// The results that are stored next are those at the tiles' odometer.
    pub(super) fn at_tile(&self, b: &mut KernelBuilder) {
        for (&to, &from) in self.pop.walk.vars.iter().zip(&self.at.vars) {
            b.copy_s(to, from);
        }
        b.copy_s(self.pop.plane, self.at.vars[self.pop.walk.vars.len()]);
    }

    /// Waits for the windows of the next tile's results and extras.
    pub(super) fn claim_tile(&self, b: &mut KernelBuilder) {
        if let Some(out) = &self.streams.out {
            out.claim(b);
        }
        for s in self.streams.extras.iter().flatten() {
            s.wait(b, 0);
            b.if_(s.left(), |b| s.start(b, 0));
        }
    }

    /// After a tile's last result is stored.
    pub(super) fn end_tile(&self, b: &mut KernelBuilder) {
        let windows = |b: &mut KernelBuilder| {
            if let Some(ring) = self.rings.out {
                ring.turn(b, &[self.at.vars[0]]);
            }
            for (i, ring) in self.rings.extras.iter().enumerate() {
                if let Some(ring) = ring {
                    ring.turn(b, &[self.at.vars[1 + i]]);
                }
            }
        };
        if let Some(out) = &self.streams.out {
            let (window, address) = self.leaving(b);
            out.start(b, window, address);
        }
        windows(b);
        self.at.advance(b, &|_, _| {});
    }

    /// The word row of the window in use of the result, and where it goes.
    pub(super) fn leaving(&self, b: &mut KernelBuilder) -> (S, S) {
        (self.window_row(b, self.at.vars[0]), self.at.vars[self.pop.walk.vars.len() + 1])
    }

    /// The word row of an element row of the out window.
    fn window_row(&self, b: &mut KernelBuilder, at: S) -> S {
        debug_assert_eq!(self.out.array.place, Place::Hbm);
        let shift = self.out.array.dtype.packing().trailing_zeros() as i32;
        if shift == 0 { at } else { b.def_s(Op::SShrI, &[at.into(), shift.into()]) }
    }

    /// Pops what is left behind the last step.
    fn tail(&self, b: &mut KernelBuilder) {
        let blocks = |b: &mut KernelBuilder, n: u32, pop: Pop| {
            b.loop_with(Trips::Static(n), self.hints(), |b| self.pop_blocks(b, pop, 1));
        };
        if self.t.accumulators {
            let parts = ((self.seg.lag - 1) / self.steps + 1).min(self.parts);
            b.loop_static(parts, |b| self.drain(b, &|b, pop| blocks(b, self.t.blocks, pop)));
        } else {
            let tail = self.seg.tail;
            let pieces = self.streams.out.as_ref().is_some_and(|out| !out.last().is_empty());
            let end = |b: &mut KernelBuilder| {
                if pieces {
                    self.last_results(b, Pop::Finish);
                } else if tail > 0 {
                    self.pop_end(b, &|b, pop| blocks(b, tail, pop), true);
                }
                self.rest_of_spread(b);
            };
            if self.seg.lag > 0 {
                self.rest_of_spread(b);
            }
            end(b);
            b.loop_static(self.seg.lag, |b| {
                self.pop_begin(b, &|b, pop| blocks(b, self.t.blocks - tail, pop), true);
                end(b);
            });
            self.rest_of_follow(b);
        }
    }
}
