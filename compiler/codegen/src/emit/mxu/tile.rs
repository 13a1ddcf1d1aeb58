//! Tiling: how a contraction is cut over matrix units, blocks of rows, groups of columns and chunks of `k`.
//! ```text
//! for batch, for block of rows (mo), for wide tile of columns (wide), for split of k (ks):
//!     for group of columns (ng):                                         one part of an output tile
//!         for k tile (kt), for taps, for passes:                         one step: the units' weights stay
//!             for row blocks of a slab:                                  sublanes rows for every unit
//! ```
//!
//! Usually all of `k` is one split and all columns are one wide tile. Where windows of all of `k` do not fit, the sums of a
//! wide tile stay in vector memory while the splits of `k` pass by.
//!
//! A step runs on `ns * ms` units: unit `si * ns + ni` multiplies slab `si` of the rows with column tile `ni` of the
//! group. Slabs are parts of a block of rows, or the same block of different batch indices ([`Geometry::beside`]). Blocks, groups and slabs all have full size: the last one begins earlier and computes some results again.
//!
//! Operands in HBM pass through windows: lhs `[k planes][rows of the block]` once per row block, rhs
//! `[columns of the group][taps][k]` once per group, both in chunks of `ktc` k tiles so that work starts when the first
//! one is there, and double-buffered (or more, where blocks are used up faster than the memory's latency) where there is a
//! next one. Where a window for every group fits, rhs is read once and stays for all row blocks. Results collect in two
//! alternating windows, or in one if its copy is over long before the next results; the rows that are there first leave first.
//!
//! The choice minimises, over `ns` and the rows of a block,
//! ```text
//! cycles = max(row blocks * rows, hbm bytes / bandwidth) + first chunks + last tile (/ bandwidth, + latency)
//! rows   = groups * part, but at least the copy of a block of lhs
//! part   = steps * step, but at least the copies of a block of rhs and of a tile of results
//! step   = max(blocks * sublanes / rate / (latency hidden), tile load, instructions / slots + loop overheads)
//! ```
//!
//! subject to the windows fitting the budget.

use super::choose::{Search, Tile, cuts};
use super::format::Formats;
use super::geometry::{Geometry, Staging, aligned};
use super::segment::Segments;
use super::setup::check_placement;
use super::spec::{Array, Contraction, Dim, MxuError, Place};
use super::stream::Stream;
use systole_isa::ChipConfig;

/// Most chunks that an operand's window arrives in: each has a semaphore.
const MAX_CHUNKS: u32 = 16;
/// Fewest row blocks of the last results that leave by themselves: a loop of its own pops them.
const LAST_PIECE: u32 = 8;
/// Most windows of an operand.
const MAX_WINDOWS: u32 = 8;

/// Most copies of an operand at a time.
fn max_chunks(chip: &ChipConfig) -> u32 {
    MAX_CHUNKS.min(chip.core.semaphores / 8).max(1)
}

/// A window of an operand in scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Window {
    /// Element rows of a plane that a copy moves, and that the window has for it.
    pub copied: u32,
    pub plane: u32,
    pub planes: u32,
    /// Batch indices beside each other that it holds.
    pub beside: u32,
    /// Word rows of one window, and how many there are.
    pub words: u32,
    pub count: u32,
}

impl Window {
    fn new(copied: u32, plane: u32, (planes, beside): (u32, u32), count: u32, array: &Array, g: &Geometry) -> Window {
        let plane = plane.next_multiple_of(4 * g.sublanes);
        let words = beside as u64 * planes as u64 * plane as u64 / array.dtype.packing() as u64;
        Window { copied, plane, planes, beside, words: words.min(u32::MAX as u64 / 4) as u32, count }
    }

    /// Element rows from one of the batch indices beside each other to the next.
    pub fn apart(&self) -> u32 {
        self.planes * self.plane
    }

    /// Word rows of all of them.
    pub fn total(&self) -> u64 {
        self.words as u64 * self.count as u64
    }
}

/// Windows of operands in HBM.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Windows {
    pub lhs: Option<Window>,
    pub rhs: Option<Window>,
    pub out: Option<Window>,
    pub extras: Vec<Option<Window>>,
}

/// Dimensions of a slab, outermost first, and where each slab begins, in its own batch index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slab {
    pub walk: Vec<Dim>,
    pub lhs: Vec<u32>,
    pub out: Vec<u32>,
}

/// A tiling; see the module docs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tiling {
    pub ns: u32,
    pub ms: u32,
    /// Lane chunks of a unit's rows (k) and columns (n).
    pub kch: u32,
    pub nch: u32,
    /// Leading block dimensions that are walked like batch dimensions, a step (output tile) for each index.
    pub outer: usize,
    /// The next block dimension is cut into `mo` blocks of `ob`.
    pub ob: u32,
    pub mo: u32,
    pub slab: Slab,
    /// Row blocks of a slab.
    pub blocks: u32,
    /// Groups of a wide tile, wide tiles.
    pub ng: u32,
    pub wide: u32,
    /// Several row blocks multiply with the same groups of rhs, in one order.
    pub rows_share_rhs: bool,
    /// k tiles of a split, splits.
    pub kt: u32,
    pub ks: u32,
    /// k tiles of a chunk, chunks.
    pub ktc: u32,
    pub kc: u32,
    /// Results add up in the units' accumulators (else in vector memory).
    pub accumulators: bool,
    pub windows: Windows,
    /// Word rows for sums in vector memory.
    pub sums: u32,
    /// The loops of a step.
    pub segments: Segments,
    /// Steps that a tile's end is spread over (0: it is done as results come).
    pub spread: u32,
    /// Steps that a tile's part of the loop that follows is beside (0: there is none).
    pub follow: u32,
    /// Units beside each other along `k` in the last part (1: it is as all others).
    pub close: u32,
    /// Pieces that chunks of lhs come in (1: they come whole).
    pub open: u32,
    /// Cycles of all tiles' ends beyond their steps.
    pub ends: f64,
    pub cycles: f64,
}

impl Tiling {
    /// Planes of a column group.
    pub fn group(&self) -> u32 {
        self.ns * self.nch
    }

    /// k tiles in all.
    pub fn k_tiles(&self) -> u32 {
        self.kt * self.ks
    }

    /// Steps of a part.
    pub fn steps(&self, g: &Geometry, f: &Formats) -> u32 {
        self.kt * g.taps.iter().map(|d| d.count).product::<u32>() * f.passes.len() as u32
    }

    /// Output tiles of the kernel; `u32::MAX` where they are more.
    pub fn tiles(&self, g: &Geometry) -> u32 {
        self.row_tiles(g).saturating_mul(self.wide).saturating_mul(self.ng)
    }

    /// Tiles of rows, of all batches.
    fn row_tiles(&self, g: &Geometry) -> u32 {
        let outer = g.batch.dims.iter().chain(&g.blocks.dims[..self.outer]);
        outer.map(|d| d.count).fold(self.mo, u32::saturating_mul)
    }

    /// Batch indices beside each other of an array, of which `stride` is the distance between neighbours.
    fn held(&self, g: &Geometry, stride: impl Fn(&Dim) -> u32) -> u32 {
        g.batch.beside.filter(|beside| stride(&beside.whole) > 0).map_or(1, |beside| beside.units)
    }

    /// Word rows of scratch memory.
    pub fn words(&self) -> u64 {
        let windows = self
            .windows
            .lhs
            .iter()
            .chain(&self.windows.rhs)
            .chain(&self.windows.out)
            .chain(self.windows.extras.iter().flatten());
        windows.map(Window::total).sum::<u64>() + self.sums as u64
    }

    /// Semaphores of the kernel's copies.
    pub fn semaphores(&self) -> u32 {
        let operands = self.windows.lhs.iter().map(|w| Stream::semaphores(self.kc * self.open, w, false));
        let operands =
            operands.chain(self.windows.rhs.iter().map(|w| Stream::semaphores(self.kc, w, self.keeps_rhs())));
        let results = self.windows.out.iter().map(|w| w.count);
        let first = if self.open > 1 { self.first_pieces().len() as u32 } else { 0 };
        operands.chain(results).sum::<u32>() + first + self.windows.extras.iter().flatten().count() as u32
    }

    /// The most that one may need whose chunks come whole: kernels are given as many.
    pub fn most_semaphores(&self, chip: &ChipConfig) -> u32 {
        2 * max_chunks(chip) + 2 + self.windows.extras.iter().flatten().count() as u32
    }

    /// Blocks of lhs and of rhs that are read in all; `u32::MAX` where they are more.
    pub fn reads(&self, g: &Geometry) -> (u32, u32) {
        let lhs = self.row_tiles(g).saturating_mul(self.wide).saturating_mul(self.ks);
        let once = self.rows_share_rhs && (self.ng == 1 || self.keeps_rhs());
        (lhs, if once { self.ng } else { lhs.saturating_mul(self.ng) })
    }

    /// Rows of every slab whose results leave for HBM before the tile's others are popped; none where results do not lag, or a tile's
    /// rows do not follow each other.
    pub fn early_rows(&self, spec: &Contraction, g: &Geometry) -> Option<u32> {
        // Of an end that is spread, all but the last step's rows are there before.
        let tail = self.blocks.checked_div(self.spread).unwrap_or(self.segments.tail);
        let slab = self.blocks * g.sublanes;
        let follow = g.inner.out == 1 && matches!(self.slab.walk[..], [d] if d.out == g.sublanes || d.count == 1);
        let apart = self.slab.out.iter().zip(0..).all(|(&at, i)| at == i * slab);
        let whole = self.windows.out.is_some_and(|w| w.copied == self.ms * slab);
        let words = ((self.blocks - tail) * g.sublanes).is_multiple_of(spec.out.dtype.packing() as u32);
        let splits = !g.masked && g.batch.beside.is_none() && !self.accumulators && tail > 0 && tail < self.blocks;
        (splits && follow && apart && whole && words).then_some((self.blocks - tail) * g.sublanes)
    }

    /// Row blocks of the pieces in which the last results leave that are popped behind the last step; none if they leave as one.
    pub fn last_pieces(&self, spec: &Contraction, g: &Geometry) -> Vec<u32> {
        let tail = self.segments.tail;
        let plain = self.segments.lag == 0 && self.spread == 0 && self.follow == 0;
        let whole = g.sublanes.is_multiple_of(spec.out.dtype.packing() as u32);
        let pieces = tail / LAST_PIECE;
        if !plain || !whole || pieces < 2 || self.early_rows(spec, g).is_none() {
            return Vec::new();
        }
        (0..pieces).map(|i| tail * (i + 1) / pieces - tail * i / pieces).collect()
    }

    /// Whether some tiles compute results again that others have.
    pub fn overlaps(&self, g: &Geometry) -> bool {
        let rows = self.mo * self.ob != g.blocks.dims[self.outer].count;
        rows || self.wide * self.ng * self.group() != g.planes_n
            || g.batch.beside.is_some_and(|beside| beside.last() != 0)
    }

    /// Whether each of several groups of rhs has a window that it stays in for all row blocks.
    pub fn keeps_rhs(&self) -> bool {
        self.rows_share_rhs && self.ng > 1 && self.windows.rhs.is_some_and(|w| w.count == self.ng)
    }
}

/// What the choice depends on.
pub(super) struct Problem<'a> {
    pub spec: &'a Contraction,
    pub chip: &'a ChipConfig,
    pub geometry: &'a Geometry,
    pub formats: &'a Formats,
    pub staging: Staging,
    /// Something else is looked for after every step.
    pub hooked: bool,
    /// The geometry's number among the contraction's.
    pub variant: u32,
    /// Matrix units that may be used.
    pub units: u32,
}

/// The dimensions of a block of rows cut over `ms` slabs: the walk of one slab, and the slabs' (lhs, out) offsets in rows; `None` if no
/// dimension can be cut. `whole_lines`: not the last one.
pub fn slabs(mut dims: Vec<Dim>, ms: u32, whole_lines: bool) -> Option<(Vec<Dim>, Vec<u32>, Vec<u32>)> {
    if dims.len() > 1 {
        dims.retain(|d| d.count > 1);
    }
    if dims.is_empty() {
        dims.push(Dim { count: 1, lhs: 0, rhs: 0, out: 0 });
    }
    if ms == 1 {
        return Some((dims, vec![0], vec![0]));
    }
    let waste = |d: &Dim| d.count.div_ceil(ms) as f64 / d.count as f64;
    let splittable = dims.len() - whole_lines as usize;
    let at = (0..splittable).min_by(|&a, &b| waste(&dims[a]).total_cmp(&waste(&dims[b])))?;
    if dims[at].count < 2 {
        return None;
    }
    let mut split = dims.remove(at);
    let whole = split.count;
    split.count = whole.div_ceil(ms);
    let start = |s: u32| (s * split.count).min(whole - split.count);
    let lhs = (0..ms).map(|s| start(s) * split.lhs).collect();
    let out = (0..ms).map(|s| start(s) * split.out).collect();
    dims.insert(0, split);
    if dims.len() > 1 {
        dims.retain(|d| d.count > 1);
    }
    if dims.is_empty() {
        dims.push(Dim { count: 1, ..split });
    }
    Some((dims, lhs, out))
}

impl Problem<'_> {
    /// The best tiling and its weight.
    ///
    /// # Errors
    /// If none fits the budget or may be taken, or arrays in HBM cannot be cut.
    pub fn choose(&self, search: &mut Search<'_>) -> Result<(Tiling, f64), MxuError> {
        let g = self.geometry;
        let mut best: Option<(Tiling, f64)> = None;
        let mut least = u64::MAX;
        let mut refused = None;
        let streams = [self.spec.lhs.place, self.spec.rhs.place].contains(&Place::Hbm);
        for ns in 1..=self.units {
            for outer in 0..g.blocks.dims.len() {
                for ob in cuts(g.blocks.dims[outer].count) {
                    let splits = if streams { self.splits(ns) } else { vec![(1, 0)] };
                    let tilings = splits.into_iter().flat_map(|(ks, ng)| self.tilings(ns, (outer, ob), (ks, ng)));
                    for t in tilings {
                        let fits = t.words() <= self.spec.vmem_rows as u64;
                        let tile = Tile::of(self.variant, &t);
                        let Some(weight) = (search.weigh)(&tile, t.cycles) else {
                            refused.get_or_insert(MxuError::Tile("none may be taken".into()));
                            continue;
                        };
                        let better = best.as_ref().is_none_or(|b| weight < b.1);
                        if fits && !better && !search.wants(weight) {
                            continue;
                        }
                        match check_placement(self, &t) {
                            Err(e) => refused = Some(e),
                            Ok(()) if fits => {
                                search.consider(tile, weight);
                                if better {
                                    best = Some((t, weight));
                                }
                            }
                            Ok(()) => least = least.min(t.words()),
                        }
                    }
                }
            }
        }
        let too_large = MxuError::Vmem { need: least, have: self.spec.vmem_rows as u64 };
        best.ok_or(if least == u64::MAX { refused.unwrap_or(too_large) } else { too_large })
    }

    /// Splits of k, and groups of a wide tile for each (0: all columns).
    fn splits(&self, ns: u32) -> Vec<(u32, u32)> {
        let (kch, nch) = (self.staging.part.k.count, self.staging.part.n.count);
        let kt = self.geometry.planes_k.div_ceil(kch);
        let mut all = vec![(1, 0)];
        // Splits are whole tiles, and as long as each other. The last one may end in padding: along lanes that is there, rows of rhs
        // are read beyond their end ([`super::choose::beyond`]).
        if kt * kch != self.geometry.planes_k {
            return all;
        }
        let groups = self.geometry.planes_n.div_ceil(ns * nch);
        let mut last = 1;
        for ks in (2..=kt).filter(|ks| kt % ks == 0) {
            if ks * 2 >= last * 3 || ks == kt {
                last = ks;
                all.extend(cuts(groups).map(|ng| (ks, if ng == groups { 0 } else { ng })));
            }
        }
        all
    }

    fn tilings(&self, ns: u32, at: (usize, u32), cuts: (u32, u32)) -> Vec<Tiling> {
        let timed = self.untimed(ns, at, cuts).and_then(|mut t| self.loops(&mut t).map(|step| (t, step)));
        let Some((mut t, step)) = timed else { return Vec::new() };
        self.deepen(&mut t, step);
        t.cycles = self.cycles(&t, step);
        let mut all = self.closed(&t, step);
        all.push(t);
        let opened: Vec<Tiling> = all.iter().filter_map(|t| self.opened(t, step)).collect();
        all.extend(opened);
        all
    }

    /// The tiling that was chosen before.
    ///
    /// # Errors
    /// If there is no such tiling of this problem.
    pub fn restored(&self, tile: &Tile) -> Result<Tiling, MxuError> {
        let none = || MxuError::Tile(tile.to_string());
        let blocks = self.geometry.blocks.dims.get(tile.outer as usize).ok_or_else(none)?;
        let counts = [tile.units, tile.rows, tile.splits, tile.groups];
        if counts.contains(&0) || tile.units > self.units || tile.rows > blocks.count {
            return Err(none());
        }
        let planes = self.geometry.planes_n.div_ceil(tile.units.saturating_mul(self.staging.part.n.count));
        let split = tile.splits > 1 && self.splits(tile.units).iter().any(|s| s.0 == tile.splits);
        if tile.groups > planes || !split && (tile.splits, tile.groups) != (1, planes) {
            return Err(none());
        }
        let at = (tile.outer as usize, tile.rows);
        let mut t = self.untimed(tile.units, at, (tile.splits, tile.groups)).ok_or_else(none)?;
        let step = self.loops(&mut t).ok_or_else(none)?;
        for (window, count) in
            [&mut t.windows.lhs, &mut t.windows.rhs, &mut t.windows.out].into_iter().zip(tile.windows)
        {
            if window.is_some() != (count > 0) || count > MAX_WINDOWS.max(tile.groups) {
                return Err(none());
            }
            window.iter_mut().for_each(|w| w.count = count);
        }
        if t.words() > u64::from(self.spec.vmem_rows) {
            return Err(MxuError::Vmem { need: t.words(), have: u64::from(self.spec.vmem_rows) });
        }
        check_placement(self, &t)?;
        if tile.close != 1 && !self.closes(&t).any(|close| close == tile.close) {
            return Err(none());
        }
        t.close = tile.close;
        if tile.open != 1 && self.opens(&t) != Some(tile.open) {
            return Err(none());
        }
        t.open = tile.open;
        t.cycles = self.cycles(&t, step);
        Ok(t)
    }

    /// A tiling with two windows of each operand that has a next block, without loops and estimate.
    fn untimed(&self, ns: u32, (outer, ob): (usize, u32), (ks, ng): (u32, u32)) -> Option<Tiling> {
        let (g, chip) = (self.geometry, self.chip);
        let (kch, nch) = (self.staging.part.k.count, self.staging.part.n.count);
        if ns > 1 && ns * nch > g.planes_n {
            return None;
        }
        let ms = self.units / ns;
        // Where the end of a line is masked, its position must be that of the innermost walk.
        let whole_lines = g.masked && g.blocks.long_lines;
        if whole_lines && outer + 1 == g.blocks.dims.len() && ob != g.blocks.dims[outer].count {
            return None;
        }
        let block = Dim { count: ob, ..g.blocks.dims[outer] };
        let mut dims = vec![block];
        dims.extend(&g.blocks.dims[outer + 1..]);
        let (ms, (walk, slab_lhs, slab_out)) = match g.batch.beside {
            Some(_) if ns > 1 => return None,
            Some(beside) => {
                let (walk, lhs, out) = slabs(dims, 1, whole_lines)?;
                let all = |at: Vec<u32>| vec![at[0]; beside.units as usize];
                (beside.units, (walk, all(lhs), all(out)))
            }
            None => (1..=ms).rev().find_map(|m| Some((m, slabs(dims.clone(), m, whole_lines)?)))?,
        };
        let blocks: u32 = walk.iter().map(|d| d.count).product();
        let acc_rows = chip.mxu.accumulator_rows;
        let accumulators = acc_rows >= g.sublanes && !self.formats.emulated;
        if accumulators && blocks as u64 * g.sublanes as u64 > acc_rows as u64 {
            return None;
        }
        let kt = g.planes_k.div_ceil(kch) / ks;
        let chunks = max_chunks(chip);
        let streams = [self.spec.lhs.place, self.spec.rhs.place].contains(&Place::Hbm);
        // Splits of k are short enough to come whole.
        let ktc = if streams && ks == 1 { kt.div_ceil(chunks) } else { kt };
        let all_groups = g.planes_n.div_ceil(ns * nch);
        let (groups, wide) = if ng == 0 { (all_groups, 1) } else { (ng, all_groups.div_ceil(ng)) };
        // Wide tiles have full size, and their groups all whole columns where windows hold rows of n.
        let ragged = self.staging.transposed && self.spec.n.next_multiple_of(g.sublanes) % g.lanes != 0;
        if wide > 1 && (groups * ns * nch > g.planes_n || ragged) {
            return None;
        }
        let batches: u32 = g.batch.dims.iter().map(|d| d.count).product();
        let mo = g.blocks.dims[outer].count.div_ceil(ob);
        let row_blocks = g.blocks.dims[..outer].iter().map(|d| d.count).product::<u32>() * mo;
        let mut t = Tiling {
            ns,
            ms,
            kch,
            nch,
            outer,
            ob,
            mo,
            slab: Slab { walk, lhs: slab_lhs, out: slab_out },
            blocks,
            ng: groups,
            wide,
            rows_share_rhs: wide * ks * batches == 1 && row_blocks > 1,
            kt,
            ks,
            ktc,
            kc: kt.div_ceil(ktc),
            accumulators,
            windows: Windows::default(),
            sums: 0,
            segments: Segments::default(),
            spread: 0,
            follow: 0,
            close: 1,
            open: 1,
            ends: 0.0,
            cycles: 0.0,
        };
        self.windows(&mut t);
        Some(t)
    }

    /// Sets the windows and the sums' size.
    fn windows(&self, t: &mut Tiling) {
        let (g, spec) = (self.geometry, self.spec);
        let (lhs_reads, rhs_reads) = t.reads(g);
        let mut block = vec![Dim { count: t.ob, ..g.blocks.dims[t.outer] }];
        block.extend(&g.blocks.dims[t.outer + 1..]);
        let cut = g.blocks.long_lines && t.outer + 1 == g.blocks.dims.len() && t.mo > 1;
        // Positions of a line in the block: all of it, or whole registers where it is cut.
        let line = if cut { t.ob * g.sublanes } else { g.inner.count };
        let lines = if g.blocks.long_lines { &block[..block.len() - 1] } else { &block[..] };
        let moved = |d: fn(&Dim) -> u32| Geometry::extent(lines, d) + (line - 1) * d(&g.inner);
        let reach = |d: fn(&Dim) -> u32| Geometry::extent(&block, d) + (g.sublanes - 1) * d(&g.inner);
        if spec.lhs.place == Place::Hbm {
            let taps = Geometry::extent(&g.taps, |d| d.lhs) - 1;
            let copied = aligned(&spec.lhs, moved(|d| d.lhs) + taps);
            let count = if lhs_reads > 1 { 2 } else { 1 };
            let planes = (t.kt * t.kch, t.held(g, |d| d.lhs));
            t.windows.lhs = Some(Window::new(copied, reach(|d| d.lhs) + taps, planes, count, &spec.lhs, g));
        }
        if spec.rhs.place == Place::Hbm {
            let taps: u32 = g.taps.iter().map(|d| d.count).product();
            let k_rows = if t.ks > 1 { t.kt * t.kch * g.lanes } else { spec.k.next_multiple_of(g.sublanes) };
            let (rows, planes) = if self.staging.transposed {
                ((t.group() * g.lanes).min(spec.n.next_multiple_of(g.sublanes)), t.kt * t.kch)
            } else {
                (k_rows, t.group().min(g.planes_n))
            };
            let planes = (planes, t.held(g, |d| d.rhs));
            t.windows.rhs = Some(Window::new(rows, taps * rows, planes, rhs_reads.min(2), &spec.rhs, g));
        }
        let tile = Geometry::extent(&block, |d| d.out) + (g.sublanes - 1) * g.inner.out;
        let (planes, count) = (t.group().min(g.planes_n), if t.tiles(g) > 1 { 2 } else { 1 });
        let planes = (planes, t.held(g, |d| d.out));
        let out = |array: &Array| {
            let copied = aligned(array, moved(|d| d.out).next_multiple_of(g.sublanes));
            (array.place == Place::Hbm).then(|| Window::new(copied, tile, planes, count, array, g))
        };
        t.windows.extras = spec.extras.iter().map(|&(place, dtype)| out(&Array { place, dtype, ..spec.out })).collect();
        t.windows.out = out(&spec.out);
        if t.ks > 1 || !t.accumulators && t.steps(g, self.formats) > 1 {
            let kept = if t.ks > 1 { t.ng } else { 1 };
            t.sums = [t.ns, t.ms, t.nch, t.blocks, g.sublanes].into_iter().fold(kept, u32::saturating_mul);
        }
    }

    /// Gives operands more windows than two where a block is used faster than the next one comes: one is in use, and
    /// copies into the others make up for the memory's latency.
    fn deepen(&self, t: &mut Tiling, step: f64) {
        let chip = self.chip;
        let m = self.moved(t);
        let part = t.steps(self.geometry, self.formats) as f64 * step;
        // Copies are served in the order of their starts: all others may be before one.
        let cycles = |bytes: f64| bytes / chip.hbm_bytes_per_cycle();
        let queue = self.latency() + cycles((m.lhs + m.rhs) / t.kc as f64 + m.out + m.extras);
        let wanted = |period: f64, bytes: f64, reads: u32| {
            let flying = (queue / period.max(cycles(bytes))).ceil();
            let most = (max_chunks(chip) / t.kc).clamp(2, MAX_WINDOWS);
            (1 + flying as u32).clamp(2, most).min(reads)
        };
        let (lhs, rhs) = (wanted(part * t.ng as f64, m.lhs, m.lhs_reads), wanted(part, m.rhs, m.rhs_reads));
        let (lhs, rhs) = (t.windows.lhs.map_or(0, |_| lhs), t.windows.rhs.map_or(0, |_| rhs));
        let set = |t: &mut Tiling, lhs: u32, rhs: u32| {
            t.windows.lhs.iter_mut().for_each(|w| w.count = lhs);
            t.windows.rhs.iter_mut().for_each(|w| w.count = rhs);
        };
        // One window takes all results where the next ones come late enough: those of a group of columns come at once.
        let splits = if t.ng > 1 { 1 } else { t.ks };
        let between = f64::from(t.steps(self.geometry, self.formats) * splits - t.spread.max(1)) * step;
        if t.tiles(self.geometry) > 1 && 2.0 * queue < between {
            t.windows.out.iter_mut().for_each(|w| w.count = 1);
        }
        // Of what fits, the best for the operand that lacks most; two of each if nothing does.
        let counts = |n: u32| (n.min(2)..=n).rev();
        let mut pairs: Vec<(u32, u32)> = counts(lhs).flat_map(|l| counts(rhs).map(move |r| (l, r))).collect();
        let share =
            |count: u32, wanted: u32| if wanted < 2 { 1.0 } else { f64::from(count - 1) / f64::from(wanted - 1) };
        let score = |p: &(u32, u32)| share(p.0, lhs).min(share(p.1, rhs));
        pairs.sort_by(|a, b| score(b).total_cmp(&score(a)).then((b.0 + b.1).cmp(&(a.0 + a.1))));
        let fits = |t: &Tiling| t.words() <= u64::from(self.spec.vmem_rows);
        let found = pairs.into_iter().find(|&(l, r)| {
            set(t, l, r);
            fits(t)
        });
        let (l, r) = found.unwrap_or((lhs.min(2), rhs.min(2)));
        set(t, l, r);
        // Rhs stays where that is quicker than to bring it for every block of rows.
        if t.windows.rhs.is_some() && t.rows_share_rhs && !t.keeps_rhs() {
            let streamed = self.cycles(t, step);
            set(t, l, t.ng);
            if !fits(t) || self.cycles(t, step) >= streamed {
                set(t, l, r);
            }
        }
    }
}
