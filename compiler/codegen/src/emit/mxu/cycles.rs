//! What a tiling costs by the planner's estimate; the formula is at the head of [`super::tile`].

use super::segment::{Segments, StepShape};
use super::tile::{Problem, Tiling, Window};

/// Bytes of blocks in HBM, and how often blocks of operands are read.
pub(super) struct Moved {
    pub lhs: f64,
    pub rhs: f64,
    pub out: f64,
    pub extras: f64,
    pub lhs_reads: u32,
    pub rhs_reads: u32,
}

/// Cycles of a look between two steps, with what registers in memory cost because of it (measured with products whose
/// steps are short).
const LOOK: f64 = 32.0;
/// What the units' time beside a memory's counts for, as a share of it: of tiles that a memory bounds alike, the one that leaves the units
/// more time is the better one, since arrays may turn out to lie nearer, or copies to be under way before (assumed).
const SPARE: f64 = 0.2;
/// Cycles between two splits of k: other windows and sums (measured; twice as many with looks).
const TURN: f64 = 24.0;

/// Share of a kernel's cycles that another last part has to save: its code is as long as all other parts', and every other decision
/// that hangs on this one's is made again for little (assumed).
const CLOSING: f64 = 0.01;
/// Cycles that a step takes longer where rows come in pieces: it asks more often for what it waits for (measured with long products).
const OPENING: f64 = 9.0;

impl Problem<'_> {
    /// Cycles from a copy's start to its first byte.
    pub fn latency(&self) -> f64 {
        (self.chip.hbm_latency_cycles() + u64::from(self.chip.dma.issue_cycles)) as f64
    }

    pub fn moved(&self, t: &Tiling) -> Moved {
        let (g, chip, spec) = (self.geometry, self.chip, self.spec);
        let bytes = |w: &Option<Window>, a: systole_isa::DType| {
            w.as_ref().map_or(0.0, |w| {
                w.copied as f64 * f64::from(w.planes * w.beside) * chip.row_bytes() as f64 / a.packing() as f64
            })
        };
        let (lhs_reads, rhs_reads) = t.reads(g);
        let taps: u32 = g.taps.iter().map(|d| d.count).product();
        Moved {
            lhs: bytes(&t.windows.lhs, spec.lhs.dtype),
            rhs: bytes(&t.windows.rhs, spec.rhs.dtype) * taps as f64,
            out: bytes(&t.windows.out, spec.out.dtype),
            extras: t.windows.extras.iter().zip(&spec.extras).map(|(w, e)| bytes(w, e.1)).sum(),
            lhs_reads,
            rhs_reads,
        }
    }

    /// What a step looks like to the choice of its loops.
    fn step_shape(&self, t: &Tiling) -> StepShape {
        let (g, c) = (self.geometry, &self.chip.core);
        let units = (t.ns * t.ms) as f64;
        let results = units * t.nch as f64;
        let steps = t.steps(g, self.formats);
        let per = |n: f64, slots: u32| n / slots.max(1) as f64;
        // Accumulators give results in one step of a tile only.
        let popped = if t.accumulators { results / steps as f64 } else { results };
        let summed = if t.sums > 0 { popped } else { 0.0 };
        let part = self.staging.part;
        let retired = if part.n.beyond.is_some() && !t.accumulators { units } else { 0.0 };
        let walk = t.slab.walk.len() as f64 * 4.0 - 2.0;
        // Every register of lhs, and what adds to the sums.
        let registers = f64::from(t.ms * t.kch);
        let added = 2.0 * summed / f64::from(c.valu_slots.max(1));
        let started = self.spec.start.as_ref().map_or(0.0, |s| registers * s.cycles(self.chip) + added);
        let block = [
            per(units * f64::from(t.kch + u32::from(part.k.beyond.is_some())), c.mxu_push_slots),
            per(popped + retired, c.mxu_pop_slots),
            per((t.ms * t.kch) as f64 + summed, c.vload_slots),
            per(popped, c.vstore_slots),
            per(walk, c.scalar_slots),
            started,
            1.0,
        ];
        let staged = self.staging.chunks as f64;
        let loaded = if g.batch.beside.is_some() { units } else { f64::from(t.ns) };
        let (rows, cols) = self.chip.mxu_chunks();
        let tile_rows = if self.staging.transposed { self.chip.mxu.cols } else { self.chip.mxu.rows };
        let tile_load = f64::from(tile_rows) * f64::from(t.kch * t.nch) / f64::from(rows * cols);
        StepShape {
            blocks: t.blocks,
            groups: self.staging.groups,
            results: results as u32,
            steps,
            parts: t.tiles(g) * t.ks,
            accumulators: t.accumulators,
            rate: self.formats.rate,
            block_issue: block.into_iter().fold(0.0, f64::max),
            // Chunks of a register go into a unit one after the other.
            group_issue: per(staged * units, c.mxu_push_slots)
                .max(per(staged * loaded, c.vload_slots))
                .max(staged - 1.0 + per(units, c.mxu_push_slots)),
            tile_load: tile_load / self.chip.mxu.weight_rows_per_cycle.max(1) as f64,
            together: 1,
        }
    }

    /// Sets the loops of a step and what ends take; a step's cycles. `None` if a loop follows and cannot.
    pub fn loops(&self, t: &mut Tiling) -> Option<f64> {
        let shape = self.step_shape(t);
        let (segments, step) = Segments::choose(&shape, self.chip).expect("single blocks come out even");
        let registers = f64::from(t.blocks * t.ns * t.ms * t.nch);
        let end = self.spec.finish.as_ref().map_or(0.0, |f| f.simple_cycles(registers, self.chip));
        t.ends = f64::from(t.tiles(self.geometry)) * (end - step).max(0.0);
        if self.spec.follow.is_some() {
            let way = self.followed(t, &shape, step)?;
            (t.follow, t.segments) = (way.spread, way.segments);
            t.ends -= way.gain;
            return Some(step);
        }
        if let Some(way) = self.spread(t, &shape, (&segments, step)) {
            (t.spread, t.segments) = (way.spread, way.segments);
            t.ends = (t.ends - way.gain).max(0.0);
            // One tile's end while the next one adds up.
            t.sums *= 2;
            return Some(step);
        }
        // The code of each pass would wait; what ends a product has its work in the last blocks already; weights that are turned on
        // their way are there only when all of a tile are.
        let plain = self.formats.passes.len() == 1 && self.spec.finish.is_none() && !self.staging.transposed;
        let late = t.windows.rhs.is_some() && plain;
        t.segments = if late { segments.staged_late(self.staging.groups) } else { segments };
        Some(step)
    }

    pub fn cycles(&self, t: &Tiling, step: f64) -> f64 {
        let (g, chip) = (self.geometry, self.chip);
        let steps = t.steps(g, self.formats) as f64;
        let tiles = t.tiles(g) as f64;
        let m = self.moved(t);
        let moved = m.lhs * m.lhs_reads as f64 + m.rhs * m.rhs_reads as f64 + (m.out + m.extras) * tiles;
        let bandwidth = chip.hbm_bytes_per_cycle();
        let latency = if moved > 0.0 { self.latency() } else { 0.0 };
        // A copy that has a period to happen in stretches it if it takes longer.
        let within = |period: f64, bytes: f64, periods: f64| {
            if bytes > 0.0 { period.max((latency + bytes / bandwidth) / periods) } else { period }
        };
        let mut part = steps * (step + if self.hooked { LOOK } else { 0.0 });
        part += t.ends / (tiles * t.ks as f64);
        if t.ks > 1 {
            part += if self.hooked { 2.0 * TURN } else { TURN };
        }
        let work = part;
        let ahead = |w: &Option<Window>| w.map_or(1, |w| w.count.max(2) - 1) as f64;
        let keeps = t.keeps_rhs();
        if m.rhs_reads > 1 && !keeps {
            part = within(part, m.rhs, ahead(&t.windows.rhs));
        }
        if tiles > 1.0 {
            let alone = t.windows.out.is_some_and(|w| w.count == 1);
            part = within(part * t.ks as f64, m.out, if t.overlaps(g) || alone { 1.0 } else { 2.0 }) / t.ks as f64;
        }
        let mut rows = part * t.ng as f64;
        if m.lhs_reads > 1 {
            rows = within(rows, m.lhs, ahead(&t.windows.lhs));
        }
        let blocks_of_rows = tiles * t.ks as f64 / t.ng as f64;
        let first_bytes = self.first_bytes(t, (m.lhs / bandwidth, m.rhs / bandwidth), step);
        let first = first_bytes + latency;
        let drain = chip.mxu.fill_cycles() as f64;
        let last = if m.out > 0.0 { self.last(t, m.out / bandwidth, step) + latency } else { 0.0 };
        // The first part waits for both operands, the others of its rows for groups that stay.
        let late = |bytes: f64| (bytes / bandwidth - part).max(0.0);
        let others = if keeps { late(m.rhs) * f64::from(t.ng - 1) } else { 0.0 };
        let chunks = f64::from(t.kc - 1) / f64::from(t.kc);
        let waits = if t.open > 1 {
            let head = f64::from(t.segments.tail) / f64::from(t.blocks);
            let pushed = part * (chunks + head / f64::from(t.kc));
            ((m.lhs + m.rhs) / bandwidth - first_bytes - pushed).max(0.0)
                + OPENING * steps * (tiles - f64::from(u32::from(t.close > 1)))
        } else {
            late(m.lhs + m.rhs) * chunks
        };
        let waits = waits + others;
        let work = work * t.ng as f64 * blocks_of_rows;
        let spare = SPARE * (moved / bandwidth - work).max(0.0);
        let mut all = rows * blocks_of_rows + waits;
        if t.close > 1 {
            // The last part waits for all that it multiplies.
            // Of two parts, results of the first leave meanwhile.
            let read = moved - m.out * if tiles > 2.0 { 1.0 } else { tiles };
            all = all.max(read / bandwidth - first_bytes + steps * step) * (1.0 + CLOSING);
        }
        all.max(moved / bandwidth) - spare + first + drain + last
    }

    /// Cycles in which what the first step begins with comes, if `lhs` and `rhs` are the cycles in which their first blocks do.
    fn first_bytes(&self, t: &Tiling, (lhs, rhs): (f64, f64), step: f64) -> f64 {
        let (lhs, rhs) = (lhs / f64::from(t.kc), rhs / f64::from(t.kc));
        if t.open == 1 {
            return lhs + rhs;
        }
        let share = |blocks: u32| f64::from(blocks) / f64::from(t.blocks);
        let late = |(from, to): (u32, u32)| lhs * share(to) - step * share(from);
        let pieces = t.first_pieces().into_iter().chain(t.pieces().into_iter().skip(1).flatten()).map(late);
        // The next step's, behind its weights.
        let next = lhs * (1.0 + share(t.segments.tail)) + rhs - step;
        rhs + pieces.fold(next.max(0.0), f64::max)
    }

    /// Cycles in which the last results leave behind the last ones that are popped, and what another last part costs. `out`: cycles in which
    /// a tile's leave; `step`: of a step.
    fn last(&self, t: &Tiling, out: f64, step: f64) -> f64 {
        let (g, c) = (self.geometry, &self.chip.core);
        let share = 1.0 / f64::from(t.close);
        // What leaves early does so while the rest is popped. That the rest leaves in pieces saves about as much whatever the tile.
        let early = t.early_rows(self.spec, g).map_or(0.0, |rows| {
            let popped = f64::from(t.segments.tail * g.sublanes) / self.formats.rate;
            (out * share * f64::from(rows) / f64::from(t.blocks * g.sublanes)).min(popped)
        });
        if t.close == 1 {
            return out - early;
        }
        let steps = f64::from(t.steps(g, self.formats));
        // Columns that are there before the last ones leave beside these.
        let waiting = (out - steps * step).max(0.0) * (1.0 - share);
        // Every unit of a sum has its own rows of lhs.
        let loads = f64::from(t.ms * t.kch * t.close + t.ms * t.ns * t.nch / t.close) / f64::from(c.vload_slots.max(1));
        let slower = (f64::from(t.blocks) * loads - step).max(0.0) * steps;
        out * share + waiting - early + slower
    }
}
