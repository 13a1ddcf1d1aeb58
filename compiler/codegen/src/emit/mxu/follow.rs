//! Loops over a product's results, done beside it, such as the softmax of attention: while the rows of one tile are pushed, the
//! rows of the tile before go through the loop.
//!
//! What ends a product ([`super::finish`]) sees one register of results at a time; a loop whose rows are reduced needs all their
//! columns. It has results in memory, whole, as soon as all groups of columns of a block of rows are. The arrays leave the vector unit
//! and the unit of functions to it, which a loop behind the product would have while the arrays rest.
//!
//! Invariant: the loop goes through rows in the order in which tiles are computed, and never beyond those that are whole: a tile
//! that is adds its share of steps to those that are `left`, and each step beside which part of the loop is done takes one.

use super::body::Context;
use super::geometry::Geometry;
use super::odometer::{Level, Odometer};
use super::segment::{Segments, Shaped, StepShape};
use super::spec::{Contraction, Place};
use super::tile::{Problem, Tiling};
use crate::emit::loops::spec::{Input, LaneMap, LoopSpec};
use crate::emit::loops::{Affine, Bases, RowBlocks, Units, register};
use crate::kernel::{BufferRef, KernelBuilder, S, Trips};
use serde::{Deserialize, Serialize};
use systole_isa::{Class, Op};

/// A loop over the results of a product that leaves them in vector memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Follow {
    pub spec: LoopSpec,
    /// Its inputs that are the results. The others, then the outputs, are parameters of the kernel: element rows, or scalars.
    pub results: Vec<u32>,
}

/// Counts of dimensions and the distances of neighbours, outermost first, with those merged that are one run.
fn runs(dims: impl Iterator<Item = (u32, i64)>) -> Vec<(u32, i64)> {
    let mut all: Vec<(u32, i64)> = Vec::new();
    for (count, stride) in dims.filter(|d| d.0 > 1) {
        match all.last_mut() {
            Some(last) if last.1 == i64::from(count) * stride => *last = (last.0 * count, stride),
            _ => all.push((count, stride)),
        }
    }
    all
}

impl Follow {
    /// Whether an input is the results.
    pub fn is_result(&self, input: usize) -> bool {
        self.results.contains(&(input as u32))
    }

    /// Parameters of a kernel that belong to it.
    pub fn params(&self) -> usize {
        self.spec.inputs.len() - self.results.len() + self.spec.outputs.len()
    }

    /// Whether its inputs that should be are the results of a contraction, all of them.
    pub fn reads_results(&self, c: &Contraction) -> bool {
        let inputs = |i: &u32| match self.spec.inputs.get(*i as usize) {
            Some(Input::Array(a)) => {
                let plane = i64::from(c.out.plane_rows);
                a.dtype == c.out.dtype && a.offset == 0 && a.lane == (LaneMap::Tile { tile_rows: plane })
            }
            Some(Input::Scalar(_)) | None => false,
        };
        let whole = c.out.place == Place::Vmem && self.spec.columns == c.n && c.taps.is_empty();
        whole && !self.results.is_empty() && self.results.iter().all(inputs)
    }

    /// Whether a merged loop goes through the results' row blocks in the order in which they are computed.
    fn in_order(&self, merged: &LoopSpec, g: &Geometry) -> bool {
        let Some(Input::Array(a)) = self.results.first().and_then(|&i| merged.inputs.get(i as usize)) else {
            return false;
        };
        let same = |i: &u32| matches!(&merged.inputs[*i as usize], Input::Array(other) if other == a);
        let sub = i64::from(g.sublanes);
        let own = merged.outer.iter().copied().zip(a.outer.iter().copied());
        let own = own.chain([(merged.rows / g.sublanes, a.row * sub)]);
        let dims = g.batch.dims.iter().chain(&g.blocks.dims).map(|d| (d.count, i64::from(d.out)));
        let lines = g.inner.count.is_multiple_of(g.sublanes) && i64::from(g.inner.out) == a.row;
        lines && self.results.iter().all(same) && runs(own) == runs(dims)
    }
}

/// How a loop goes beside a tiling's steps.
struct Beside {
    /// Row blocks in all, and of those that are whole with a tile.
    blocks: u32,
    of_tile: u32,
}

impl Problem<'_> {
    /// The loop that follows, as it goes beside this tiling; `None` if it does not.
    fn beside(&self, t: &Tiling) -> Option<(LoopSpec, Beside)> {
        let (follow, g) = (self.spec.follow.as_ref()?, self.geometry);
        let simple =
            t.slab.walk.len() == 1 && !t.accumulators && t.ks == 1 && t.wide == 1 && self.formats.passes.len() == 1;
        let whole = g.batch.beside.is_none() && !g.masked && t.mo * t.ob == g.blocks.dims[t.outer].count;
        if !simple || !whole || self.hooked || !follow.reads_results(self.spec) {
            return None;
        }
        let merged = RowBlocks::merged(&follow.spec, (g.sublanes, g.lanes))?;
        let count = |d: &[super::spec::Dim]| d.iter().map(|d| d.count).product::<u32>();
        let blocks = count(&g.batch.dims) * count(&g.blocks.dims);
        let tiles = t.tiles(g) / t.ng;
        (follow.in_order(&merged, g) && tiles > 1).then_some(())?;
        Some((merged, Beside { blocks, of_tile: blocks / tiles }))
    }

    /// The loops of a step, and its cycles, of a contraction that a loop follows, with what that takes beyond the steps; `None` if it
    /// cannot go beside this tiling's.
    pub(super) fn followed(&self, t: &Tiling, shape: &StepShape, plain: f64) -> Option<Shaped> {
        let (merged, beside) = self.beside(t)?;
        let Beside { blocks, of_tile } = beside;
        let chip = self.chip;
        let tiles = merged.columns.div_ceil(chip.core.lanes);
        let own = register(&merged);
        let ended = match &self.spec.finish {
            Some(f) => Units { stores: 1, ..Units::of(&f.nodes) },
            None => Units { simple: 2, stores: 1, ..Units::default() },
        };
        // What is computed of a reduction waits for its last register, where nothing is pushed beside it.
        let latency = |class: Class| chip.timing.get(class).latency;
        let reduced = merged.expr.reductions.len() as u32;
        let waits = f64::from(reduced * (latency(Class::Vload) + latency(Class::XluReduce)));
        let (n, results) = (f64::from(blocks / of_tile), t.ns * t.ms * t.nch);
        let parts = f64::from(t.steps(self.geometry, self.formats) * t.ng);
        let ways = (0..).map(|i| 1 << i).take_while(|&n| f64::from(n) <= parts).filter_map(|spread: u32| {
            // Row blocks that are pushed for each of the loop.
            let (share, even) = (of_tile / spread, of_tile.is_multiple_of(spread) && of_tile >= spread);
            let index = merged.rows / self.geometry.sublanes;
            let lines = merged.outer.is_empty() || index.is_multiple_of(share.max(1));
            let together = (t.blocks / gcd(t.blocks, share)).max(1);
            let done = share * together / t.blocks;
            let held = together.saturating_mul(results);
            // A row's values are in registers from its first reduction to its last operation, and iterations overlap.
            let rows = 2 * done.saturating_mul(tiles);
            if !even || !lines || held.saturating_add(rows) > chip.core.vector_registers / 2 {
                return None;
            }
            let (segments, step) = Segments::choose(&StepShape { together, ..*shape }, chip)?;
            let (a, b) = (done * tiles, together * results);
            let both = |of: fn(&Units) -> u32| a * of(&own) + b * of(&ended);
            let units = Units {
                simple: both(|u| u.simple),
                functions: both(|u| u.functions),
                loads: both(|u| u.loads),
                stores: both(|u| u.stores),
            };
            let busy = f64::from(t.blocks / together) * units.cycles(chip) + segments.loops.len() as f64 * waits;
            let alone = f64::from(of_tile * tiles) * own.cycles(chip) + f64::from(spread) * waits;
            let beside = (n - 1.0) * f64::from(spread) * (busy - step).max(0.0);
            let slower = n * parts * (step - plain);
            Some(Shaped { spread, segments, gain: -(beside + slower + alone) })
        });
        ways.max_by(|a, b| a.gain.total_cmp(&b.gain))
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Code and registers of the loop.
pub(super) struct Following<'a> {
    rows: RowBlocks<'a>,
    /// Steps for which there are whole rows; groups of columns until the next tile's are.
    left: S,
    groups: S,
    /// Where the next step's part begins.
    at: Odometer<()>,
    /// The registers that move (numbers among the loop's), and within a step.
    moving: Vec<usize>,
    registers: Vec<Affine>,
    /// Row blocks of a step.
    share: u32,
}

impl<'a> Following<'a> {
    /// `results`: the element row of the results, and their buffer; `params`: [`Follow::params`].
    pub fn new(
        b: &mut KernelBuilder,
        (p, t): (&Problem<'_>, &Tiling),
        merged: Option<&'a LoopSpec>,
        results: (S, BufferRef),
        params: &[S],
    ) -> Option<Following<'a>> {
        let (follow, merged) = (p.spec.follow.as_ref()?, merged?);
        let (_, beside) = p.beside(t)?;
        let share = beside.of_tile / t.follow.max(1);
        let mut bases = Bases::default();
        let mut params = params.iter();
        for i in 0..merged.inputs.len() + merged.outputs.len() {
            let own = |b: &mut KernelBuilder, &param: &S| (param, b.buffer());
            let arg = if follow.is_result(i) { Some(results) } else { params.next().map(|p| own(b, p)) };
            bases.args.extend(arg);
        }
        let rows = RowBlocks::new(b, merged, &bases);
        let mut registers = rows.registers().to_vec();
        let still = |a: &Affine| a.row == 0 && a.outer.iter().all(|&c| c == 0);
        let moving: Vec<usize> = (0..registers.len()).filter(|&i| !still(&registers[i])).collect();
        let vars = moving.iter().map(|&i| b.s_copy(registers[i].reg)).collect();
        let sub = p.geometry.sublanes;
        let level = |count: u32, delta: &dyn Fn(&Affine) -> i64| {
            let delta: Vec<i32> = moving.iter().map(|&i| delta(&registers[i]) as i32).collect();
            Level { kind: (), count, last: vec![0; delta.len()], delta }
        };
        let mut levels = vec![level(merged.rows / sub / share, &|a| a.row * i64::from(share * sub))];
        levels.extend((0..merged.outer.len()).rev().map(|d| level(merged.outer[d], &|a| a.outer[d])));
        let at = Odometer::new(b, levels, vars);
        for &i in &moving {
            registers[i].reg = b.s_var(0);
        }
        Some(Following { rows, left: b.s_var(0), groups: b.s_var(t.ng as i32), at, moving, registers, share })
    }

    /// What the loop writes.
    pub fn outputs(&self) -> &[BufferRef] {
        self.rows.outputs()
    }

    /// Begins a step's part.
    fn begin(&self, b: &mut KernelBuilder) {
        for (&i, &from) in self.moving.iter().zip(&self.at.vars) {
            b.copy_s(self.registers[i].reg, from);
        }
    }

    /// A step's part is done.
    fn end(&self, b: &mut KernelBuilder) {
        b.s_inc(self.left, -1);
        self.at.advance(b, &|_, ()| {});
    }
}

impl Context<'_> {
    /// Runs a step's loops, with part of the loop that follows if there are whole rows for it.
    pub(super) fn followed_step(
        &self,
        b: &mut KernelBuilder,
        f: &Following<'_>,
        step: &dyn Fn(&mut KernelBuilder, bool),
    ) {
        b.if_else(
            f.left,
            |b| {
                f.begin(b);
                step(b, true);
                f.end(b);
            },
            |b| step(b, false),
        );
    }

    /// A group of columns is whole; with the last one, so are their rows.
    pub(super) fn group_followed(&self, b: &mut KernelBuilder, f: &Following<'_>) {
        let whole = |b: &mut KernelBuilder| b.s_inc(f.left, self.t.follow as i32);
        if self.t.ng == 1 {
            return whole(b);
        }
        b.s_inc(f.groups, -1);
        b.unless(f.groups, |b| {
            b.set_s(f.groups, Op::SLi, &[(self.t.ng as i32).into()]);
            whole(b);
        });
    }

    /// The part of the loop beside which `n` row blocks are pushed.
    pub(super) fn followed_blocks(&self, b: &mut KernelBuilder, n: u32) {
        if let Some(f) = &self.follow {
            f.rows.advance(b, &f.registers, f.share * n / self.t.blocks);
        }
    }

    /// Does what is left of the loop, beside nothing.
    pub(super) fn rest_of_follow(&self, b: &mut KernelBuilder) {
        let Some(f) = &self.follow else { return };
        let left = b.s_copy(f.left);
        b.loop_dynamic(left, |b| {
            f.begin(b);
            b.loop_with(Trips::Static(f.share), self.hints(), |b| f.rows.advance(b, &f.registers, 1));
            f.end(b);
        });
    }
}
