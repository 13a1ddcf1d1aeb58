//! Ends of products spread over steps: what is done to a tile's results before they are stored, while the next tile is computed.
//!
//! What ends a product is work of the vector unit, and the results of a tile all come in its last step: where it takes longer than
//! the arrays take for that step they would wait, and have the vector unit to themselves in all others. So the whole sums stay in
//! vector memory, and the next steps finish a row block of them beside so many row blocks that they push. Two tiles' sums take turns.
//!
//! Invariant: a tile is finished before the next one's sums are whole ([`Problem::spread`] has fewer steps for it than a tile takes),
//! and the one after that adds up where its sums were.

use super::body::Context;
use super::segment::{Segments, Shaped, StepShape};
use super::stream::Ring;
use super::tile::{Problem, Tiling};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, MemFormat, S, Trips};
use systole_isa::Op;

/// Share of a product's cycles that spreading has to save.
const WORTH: f64 = 0.02;

impl Problem<'_> {
    /// Over how many steps a tile's end is spread, and the loops of these; `None` if it is done as results come, with the loops and
    /// cycles of a `plain` step.
    pub(super) fn spread(&self, t: &Tiling, shape: &StepShape, plain: (&Segments, f64)) -> Option<Shaped> {
        let finish = self.spec.finish.as_ref()?;
        let steps = t.steps(self.geometry, self.formats);
        let tiles = f64::from(t.tiles(self.geometry));
        // A walk through several dimensions has no room for another beside it.
        if t.slab.walk.len() > 1
            || t.accumulators
            || t.ks > 1
            || steps < 2
            || self.formats.passes.len() > 1
            || tiles < 2.0
        {
            return None;
        }
        // Two tiles' sums have to be there, beside the windows.
        if t.words() + u64::from(t.sums) > u64::from(self.spec.vmem_rows) {
            return None;
        }
        let results = t.ns * t.ms * t.nch;
        let registers = f64::from(t.blocks * results);
        let (end, latency) = (finish.cycles(registers, self.chip), finish.latency(self.chip));
        // Every loop waits for its last results.
        let waits = |segments: &Segments| segments.loops.len() as f64 * latency;
        // Every step adds to the sums.
        let sums = registers * 2.0 / f64::from(self.chip.core.valu_slots.max(1));
        let all = tiles * f64::from(steps);
        let together = tiles * ((end - plain.1).max(0.0) + waits(plain.0));
        let ways = (0..).map(|i| 1 << i).take_while(|&n| n < steps.min(t.blocks)).filter_map(|spread: u32| {
            // The sums of an iteration are in registers at once.
            let held = spread.saturating_mul(results);
            if !t.blocks.is_multiple_of(spread) || held > self.chip.core.vector_registers / 2 {
                return None;
            }
            let (segments, step) = Segments::choose(&StepShape { together: spread, ..*shape }, self.chip)?;
            let n = f64::from(spread);
            let beside = n * ((sums + end / n - step).max(0.0) + waits(&segments));
            // Loops that come out even may be slower in every step; the last tile's end is beside nothing.
            let slower = all * (step - plain.1);
            let gain = together - slower - (tiles - 1.0) * beside - end - latency;
            Some(Shaped { spread, segments, gain })
        });
        let way = ways.max_by(|a, b| a.gain.total_cmp(&b.gain))?;
        (way.gain > WORTH * (all * plain.1 + together)).then_some(way)
    }
}

/// Registers of a spread end.
pub(super) struct Spread {
    /// Steps that are left for the tile under way (0: none is).
    left: S,
    /// Word row of its sums, of the next row block.
    row: S,
    sums: Ring,
}

impl Spread {
    /// None is under way.
    pub fn new(b: &mut KernelBuilder, t: &Tiling) -> Option<Spread> {
        let ring = |b: &mut KernelBuilder| Ring::new(b, 2, (t.sums / 2) as i32);
        (t.spread > 0).then(|| Spread { left: b.s_var(0), row: b.s_var(0), sums: ring(b) })
    }
}

impl Context<'_> {
    /// A tile's sums are whole: its end begins, and the next tile's sums are elsewhere.
    pub(super) fn begin_spread(&self, b: &mut KernelBuilder, s: &Spread) {
        self.begin_tile(b);
        b.copy_s(s.row, self.sums.at);
        s.sums.turn(b, &[self.sums.at]);
        b.set_s(s.left, Op::SLi, &[(self.t.spread as i32).into()]);
    }

    /// Runs a step's loops, with part of the end under way if one is.
    pub(super) fn beside(&self, b: &mut KernelBuilder, s: &Spread, step: &dyn Fn(&mut KernelBuilder, bool)) {
        b.if_else(
            s.left,
            |b| {
                step(b, true);
                self.end_spread_step(b, s);
            },
            |b| step(b, false),
        );
    }

    /// A step's part of the end has been done.
    fn end_spread_step(&self, b: &mut KernelBuilder, s: &Spread) {
        b.s_inc(s.left, -1);
        let early = |b: &mut KernelBuilder| {
            if self.t.spread > 1 {
                let last = b.def_s(Op::SEqI, &[s.left.into(), 1.into()]);
                b.if_(last, |b| self.start_early(b));
            }
        };
        b.if_else(s.left, early, |b| self.end_tile(b));
    }

    /// Takes the next `n` row blocks of whole sums through the epilogue.
    pub(super) fn spread_blocks(&self, b: &mut KernelBuilder, n: u32) {
        let Some(s) = &self.spread else { return };
        let sub = self.p.geometry.sublanes;
        self.walked(b, &self.pop.walk, n, &mut |b, i, offset| {
            let mask = self.store_mask(b);
            let all: Vec<(usize, u32, u32, u32)> = self.results().collect();
            for (slab, plane, unit, c) in all.into_iter().filter(|r| r.1 < self.p.geometry.planes_n) {
                let v = b.load(MemFormat::W32, s.row, self.sum_offset(i, unit, c), 1, self.sums.buf);
                self.finish_tile(b, Value::word(self.p.spec.accumulator(), v), (slab, plane, offset), mask);
            }
        });
        b.s_inc(s.row, (n * sub) as i32);
    }

    /// Does what is left of an end, beside nothing.
    pub(super) fn rest_of_spread(&self, b: &mut KernelBuilder) {
        let Some(s) = &self.spread else { return };
        let left = b.s_copy(s.left);
        b.loop_dynamic(left, |b| {
            let blocks = self.t.blocks / self.t.spread;
            b.loop_with(Trips::Static(blocks), self.hints(), |b| self.spread_blocks(b, 1));
            self.end_spread_step(b, s);
        });
    }
}
