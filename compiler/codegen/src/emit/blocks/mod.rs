//! Loops and moves over arrays in HBM, block by block.
//!
//! A body (a loop, reduction or move whose operands lie in vector memory) is cut along one dimension of its iteration;
//! dimensions outside of that one may be walked index by index around the blocks. Each block's part of every array in HBM, its *window*, is copied into vector memory while the block before is worked
//! on, and results are copied out while the block after is; arrays that lie in vector memory are walked in place. Where a
//! reduced dimension is cut, results lie there, and each block goes on from what those before have left. What is one
//! array at neighbouring rows shares a window ([`joint`]).
//! [`body`] sees bodies as arrays walked by an iteration, [`window`] decides what a block's copy is, [`flow`] makes the
//! code. The dimension and the size of blocks are those with the least traffic among those that fit.

mod body;
mod cost;
mod flow;
mod joint;
mod share;
mod window;

pub use body::{Body, Walk};
pub use cost::whole_work;
use cost::{Moved, Times, latency};
use serde::{Deserialize, Serialize};
pub use share::{Share, choose_shares, result_words, slot_rows};
use std::fmt;

use crate::emit::hook::Hook;
use crate::emit::loops::scratch_rows;
use crate::emit::moves;
use crate::kernel::{KernelCode, Needs};
use joint::Joint;
use systole_isa::ChipConfig;
use window::{Cut, Grid, Purpose, Window, step};

/// How an array of a body is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// It lies in HBM and is copied block by block.
    pub hbm: bool,
    /// Elements that the body does not write keep their value.
    pub kept: bool,
    /// Its first element row is passed in a register (in HBM only).
    pub floating: bool,
    /// What the body does not write is written later: blocks may leave anything in rows around their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// It is the array of this earlier operand, from the same row on, and both are only read: they may share a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same: Option<u32>,
}

/// A body and where its arrays are: inputs (scalars count too), then outputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockSpec {
    pub body: Body,
    pub operands: Vec<Operand>,
}

/// How a body is cut into blocks: with the body and the chip it says all that the kernel's code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockCut {
    /// So many leading dimensions are loops around the blocks, one index at a time.
    pub outer: u32,
    /// The dimension that is cut, and its steps in a block.
    pub dimension: u32,
    pub size: u32,
}

impl fmt::Display for BlockCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockCut { outer, dimension, size } = self;
        write!(f, "blocks of {size} of dimension {dimension} inside of {outer} loops")
    }
}

/// A chosen cut: what its kernel needs, and its cost in cycles on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenCut {
    pub cut: BlockCut,
    pub needs: Needs,
    pub cost: u64,
}

/// Semaphores of a kernel in blocks.
pub const SEMAPHORES: u32 = 4;

/// A way to cut a body into blocks.
struct Choice {
    /// So many leading dimensions are loops around the blocks, one index at a time.
    outer: usize,
    dimension: usize,
    /// Steps of a block, whole blocks, and steps of the block after them (0: none).
    size: u32,
    blocks: u32,
    rest: u32,
    /// Steps of the dimensions around the blocks.
    around: Vec<u32>,
    /// By array; `None` for scalars and arrays in vector memory.
    windows: Vec<Option<Window>>,
    rest_windows: Vec<Option<Window>>,
    /// Word rows of every window, and of what the body keeps behind them.
    words: Vec<u32>,
    kept: u32,
    /// One block is finished before the next begins: they have common rows.
    serial: bool,
    times: Times,
}

/// Blocks that a body is cut into at least, where they do not become smaller than [`LEAST_BYTES`].
const BLOCKS: u64 = 24;
const LEAST_BYTES: u64 = 256 << 10;
/// Largest copies of a block.
const MOST_BYTES: u64 = 4 << 20;
/// Share of a cut's cycles below which one with larger windows is worth taking.
const LARGER: f64 = 0.99;

/// How cuts are weighed: their cost becomes what they count as; `None`: not to be taken.
pub type WeighCut<'a> = dyn Fn(&BlockCut, u64) -> Option<u64> + 'a;

/// Other cuts that are remembered of a choice.
const REMEMBERED: usize = 4;

/// The best cut, and the best others with their costs; `None` if none that may be taken lets all copies be made within
/// `budget` bytes of vector memory.
pub fn choose_cut(
    spec: &BlockSpec,
    chip: &ChipConfig,
    budget: u64,
    weigh: &WeighCut<'_>,
) -> Option<(ChosenCut, Vec<(BlockCut, u64)>)> {
    let body = spec.body.normal((chip.core.sublanes, chip.core.lanes));
    let (choice, mut others) = choose(&body, spec, (chip, budget), (weigh, 1, &|_| true))?;
    let chosen = choice.chosen();
    others.sort_by_key(|o| o.1);
    others.retain(|o| o.0 != chosen.cut);
    others.dedup_by_key(|o| o.0);
    others.truncate(REMEMBERED);
    Some((chosen, others))
}

/// A body on arrays in vector memory in parts of about so many cycles, of independent results; `None` if it cannot be divided so
/// or is not much longer.
pub fn divided(body: &Body, cycles: f64, chip: &ChipConfig) -> Option<(BlockSpec, ChosenCut)> {
    let count = (whole_work(body, chip) / cycles) as u64;
    let operands = vec![Operand::default(); body.walks(chip.core.lanes).len()];
    let spec = BlockSpec { body: body.clone(), operands };
    let body = body.normal((chip.core.sublanes, chip.core.lanes));
    let sizes = body.sizes();
    let enough = |d: usize| sizes[..=d].iter().map(|&n| u64::from(n)).product::<u64>() >= count;
    let at = (0..sizes.len()).take_while(|&d| body.may_cut(d)).find(|&d| enough(d)).filter(|_| count > 1)?;
    let around: u64 = sizes[..at].iter().map(|&n| u64::from(n)).product();
    let unit = unit(&body, &spec, at, chip)?;
    let blocks = count.div_ceil(around) as u32;
    let size = sizes[at].div_ceil(blocks).next_multiple_of(unit);
    let cut = BlockCut { outer: at as u32, dimension: at as u32, size };
    consider_cut(&spec, cut, chip).map(|chosen| (spec, chosen))
}

/// What a cut needs and costs; `None` if the body cannot be cut so.
pub fn consider_cut(spec: &BlockSpec, cut: BlockCut, chip: &ChipConfig) -> Option<ChosenCut> {
    let body = spec.body.normal((chip.core.sublanes, chip.core.lanes));
    restored(&body, spec, cut, chip).map(|c| c.chosen())
}

/// The kernel of a body cut into blocks, or of a core's share of them; `None` if it cannot be cut so. Parameters: those of the body (for
/// arrays in HBM the HBM base, in granules), then the first row of each floating array, then the scratch area (word rows).
pub fn block_kernel(
    spec: &BlockSpec,
    (cut, hook): (BlockCut, Option<Hook>),
    share: Option<Share>,
    chip: &ChipConfig,
) -> Option<KernelCode> {
    let body = spec.body.normal((chip.core.sublanes, chip.core.lanes));
    let choice = restored(&body, spec, cut, chip)?;
    Some(flow::emit(&body, spec, (&choice, hook), chip, share))
}

/// Whether a dimension of `n` steps has blocks of `size` of them: whole units, of which only a single block reaches beyond the last
/// step, or all that there are.
fn is_block(size: u32, n: u32, unit: u32) -> bool {
    size > 0 && size < n.max(1) + unit && size.is_multiple_of(unit) || size == n
}

/// The choice that a cut stands for.
fn restored(body: &Body, spec: &BlockSpec, c: BlockCut, chip: &ChipConfig) -> Option<Choice> {
    let (outer, d) = (c.outer as usize, c.dimension as usize);
    let size = *body.sizes().get(d)?;
    let may_cut = cuttable(body, spec, chip);
    let around = (0..outer).all(|o| may_cut(o) && body.row_dimension() != Some(o));
    let unit = unit(body, spec, d, chip)?;
    if outer > d || !around || !may_cut(d) || !is_block(c.size, size, unit) {
        return None;
    }
    cut(body, spec, (outer, d), c.size, chip)
}

fn grid(chip: &ChipConfig) -> Grid {
    let sublanes = chip.core.sublanes as i64;
    Grid { lanes: chip.core.lanes as i64, sublanes, align: sublanes.max(4), spacing: 4 * sublanes }
}

fn purposes(spec: &BlockSpec, is_output: impl Fn(usize) -> bool) -> Vec<Purpose> {
    let one = |(i, o): (usize, &Operand)| Purpose {
        read: !is_output(i) || o.kept,
        written: is_output(i),
        floating: o.floating,
        first: o.first,
        reach: 0,
    };
    spec.operands.iter().enumerate().map(one).collect()
}

/// Whether a dimension may be cut into blocks.
fn cuttable<'a>(body: &'a Body, spec: &BlockSpec, chip: &ChipConfig) -> impl Fn(usize) -> bool + 'a {
    // Results that blocks resume stay in vector memory.
    let walks = body.walks(chip.core.lanes);
    let near = walks.iter().zip(&spec.operands).all(|(w, o)| !o.hbm || w.as_ref().is_none_or(|w| !w.is_output));
    move |d| body.may_cut(d) || near && body.resumes(d)
}

fn choose(
    body: &Body,
    spec: &BlockSpec,
    (chip, budget): (&ChipConfig, u64),
    (weigh, cores, may): (&WeighCut<'_>, u32, &dyn Fn(&Choice) -> bool),
) -> Option<(Choice, Vec<(BlockCut, u64)>)> {
    let sizes = body.sizes();
    let mut best: Option<(Choice, u64)> = None;
    let mut considered = Vec::new();
    let may_cut = cuttable(body, spec, chip);
    for d in 0..sizes.len() {
        if sizes[d] < 2 && sizes.iter().any(|&s| s > 1) || !may_cut(d) {
            continue;
        }
        for outer in 0..=d {
            if outer > 0 && (!may_cut(outer - 1) || body.row_dimension() == Some(outer - 1)) {
                break;
            }
            for c in candidates(body, spec, (outer, d), chip, budget).into_iter().filter(may) {
                let Some(cost) = weigh(&c.cut(), c.cycles(cores)) else { continue };
                considered.push((c.cut(), cost));
                if best.as_ref().is_none_or(|b| (cost as f64) < LARGER * b.1 as f64) {
                    best = Some((c, cost));
                }
            }
        }
    }
    best.map(|b| (b.0, considered))
}

/// Steps of a dimension at which blocks begin: whole registers of rows, whole tiles of lanes, and whole word rows; `None` if
/// it cannot be cut.
fn unit(body: &Body, spec: &BlockSpec, d: usize, chip: &ChipConfig) -> Option<u32> {
    let g = grid(chip);
    let walks = body.walks(chip.core.lanes);
    let mut unit = if body.row_dimension() == Some(d) { g.align as u32 } else { 1 };
    for (w, o) in walks.iter().zip(&spec.operands) {
        let Some(w) = w else { continue };
        let Body::Move(_) = body else {
            if o.hbm && w.lanes.steps[d] != 0 {
                return None;
            }
            continue;
        };
        // Blocks of a reversed array begin where they end: at whole registers too.
        if w.lanes.steps[d] != 0 {
            let rows = if w.lanes.steps[d] < 0 { g.align } else { 1 };
            unit = unit.max((moves::period(w.lanes.steps[d], g.lanes) * rows) as u32);
        }
    }
    // Tiles that follow each other as single rows share words: blocks begin where copies do.
    for (w, o) in walks.iter().zip(&spec.operands) {
        let Some(w) = w.as_ref().filter(|w| o.hbm && w.lanes.steps[d] != 0) else { continue };
        let begins = |unit: u32| step(w, d, unit, &g).is_some_and(|rows| rows % g.align == 0);
        if let Some(n) = (0..=g.align.ilog2()).map(|n| unit << n).find(|&n| begins(n)) {
            unit = n;
        }
    }
    // Moves fill whole registers of arrays in vector memory too: single rows of one cost as much as registers.
    let filled = matches!(body, Body::Move(_));
    for (w, o) in walks.iter().zip(&spec.operands) {
        let Some(w) = w.as_ref().filter(|_| o.hbm || filled) else { continue };
        while unit < g.spacing as u32 * 4 && w.rows.steps[d] * unit as i64 % g.align != 0 {
            unit *= 2;
        }
    }
    Some(unit.min(body.sizes()[d].max(1)))
}

/// A move in other orders of its iteration: of each dimension that has several, the least blocks (whole registers of rows,
/// whole tiles of lanes) apart from what they count, which is a dimension around all others. Cut along another dimension, its
/// blocks are parts of both. Of a reduction that keeps its columns, the tiles of these are around all others.
pub fn parted(body: &Body, chip: &ChipConfig) -> Vec<Body> {
    let body = body.normal((chip.core.sublanes, chip.core.lanes));
    let arrays = body.walks(chip.core.lanes).len();
    let operands = vec![Operand { hbm: true, ..Operand::default() }; arrays];
    let spec = BlockSpec { body: body.clone(), operands };
    let one = |d: usize| body.parted(d, unit(&body, &spec, d, chip)?);
    (0..body.sizes().len()).rev().filter_map(one).chain(body.by_columns(chip.core.lanes)).collect()
}

/// A move in two: of each dimension that the least blocks do not divide, what they divide, and what they leave over.
pub fn divisible(body: &Body, chip: &ChipConfig) -> Vec<(Body, Body)> {
    let body = body.normal((chip.core.sublanes, chip.core.lanes));
    let Body::Move(whole) = &body else { return Vec::new() };
    let operand = Operand { hbm: true, ..Operand::default() };
    let spec = BlockSpec { body: body.clone(), operands: vec![operand; 2] };
    let one = |d: usize| {
        let (n, unit) = (whole.sizes[d], unit(&body, &spec, d, chip)?);
        let rest = n % unit;
        if rest == 0 || rest == n {
            return None;
        }
        let (mut first, mut last) = (whole.clone(), whole.clone());
        (first.sizes[d], last.sizes[d]) = (n - rest, rest);
        for side in [&mut last.src, &mut last.dst] {
            side.row_offset += side.rows[d] * i64::from(n - rest);
            side.lane_offset += side.lanes[d] * i64::from(n - rest);
        }
        Some((Body::Move(first), Body::Move(last)))
    };
    (0..whole.sizes.len()).filter_map(one).collect()
}

/// A move in parts: of a dimension whose steps move lanes by no whole tiles on one side, every so many of them, which begin at the same
/// lane there and whole words apart.
pub fn alike(body: &Body, chip: &ChipConfig) -> Vec<Vec<Body>> {
    let body = body.normal((chip.core.sublanes, chip.core.lanes));
    let Body::Move(whole) = &body else { return Vec::new() };
    let lanes = i64::from(chip.core.lanes);
    let ways = |d: usize| {
        let mut periods = [&whole.src, &whole.dst].map(|s| {
            // Whole words apart.
            let rows = |count: i64| s.rows[d] * count + s.lanes[d] * count / lanes * s.plane_rows;
            let mut count = moves::period(s.lanes[d], lanes);
            while rows(count) % whole.dtype.packing() as i64 != 0 {
                count *= 2;
            }
            u32::try_from(count).unwrap_or(u32::MAX).min(whole.sizes[d])
        });
        periods.sort_unstable();
        let several = if periods[0] == periods[1] { 1 } else { 2 };
        periods.into_iter().take(several).filter(|&count| count > 1).map(move |count| (d, count)).collect::<Vec<_>>()
    };
    let one = |(d, count): (usize, u32)| {
        let part = |j: u32| {
            let mut part = whole.clone();
            part.sizes[d] = (whole.sizes[d] - j).div_ceil(count);
            for side in [&mut part.src, &mut part.dst] {
                side.row_offset += side.rows[d] * i64::from(j);
                side.lane_offset += side.lanes[d] * i64::from(j);
                side.rows[d] *= i64::from(count);
                side.lanes[d] *= i64::from(count);
            }
            Body::Move(part)
        };
        (0..count).map(part).collect()
    };
    let mut all: Vec<Vec<Body>> = (0..whole.sizes.len()).flat_map(ways).map(one).collect();
    all.sort_by_key(Vec::len);
    all
}

/// A reduction along lanes in forms that can be cut within its rows: all rows at a time, or some.
pub fn tiled(body: &Body, chip: &ChipConfig) -> Vec<Body> {
    /// Rows at a time.
    const ROWS: [u32; 2] = [64, 8];
    let lanes = chip.core.lanes;
    let some = ROWS.iter().filter_map(|&rows| body.tiled(lanes, Some(rows)));
    body.tiled(lanes, None).into_iter().chain(some).collect()
}

/// The cuts along a dimension, inside of some outer ones, that are worth a look: a small and a wanted block size.
fn candidates(body: &Body, spec: &BlockSpec, at: (usize, usize), chip: &ChipConfig, budget: u64) -> Vec<Choice> {
    let d = at.1;
    let n = body.sizes()[d];
    let Some(unit) = unit(body, spec, d, chip) else { return Vec::new() };
    let Some(least) = cut(body, spec, at, unit, chip) else { return Vec::new() };
    let row_bytes = chip.row_bytes();
    // What is the same for all blocks is brought again for each, so that larger ones bring it less often.
    let moves = |w: &Walk| w.rows.steps[d] != 0 || w.lanes.steps[d] != 0;
    let brought = least.windows.iter().flatten().filter(|w| w.within.is_none() && moves(&w.walk));
    let moved = brought.map(|w| w.runs.bytes(row_bytes, w.walk.dtype.packing() as u64));
    let bytes: u64 = moved.sum();
    let total = bytes * n.div_ceil(unit) as u64;
    // What is on its way while the memory answers, for both sets of windows and both ways.
    let flying = 4.0 * latency(chip) * chip.hbm_bytes_per_cycle();
    let target = (total / BLOCKS).max(LEAST_BYTES).max((flying as u64).min(total / 3)).min(MOST_BYTES);
    let units = (target / bytes.max(1)).max(1).min(n.div_ceil(unit) as u64) as u32;
    // A size that leaves no rest, if there is one near.
    let even = (units / 2 + 1..=units).rev().find(|u| n.is_multiple_of(u * unit)).unwrap_or(units);
    let mut all = vec![least];
    let larger = std::iter::successors(Some(even), |size| Some(size / 2)).take_while(|&size| size > 1);
    let larger = larger.map(|size| size * unit).filter(|&size| is_block(size, n, unit));
    let larger: Vec<Choice> = larger.filter_map(|size| cut(body, spec, at, size, chip)).collect();
    all.extend(larger.into_iter().rev());
    // The whole dimension as one block, where nothing is brought again that smaller blocks bring each.
    if even * unit < n {
        let less = |c: &Choice| all.iter().all(|other| c.traffic() < LARGER * other.traffic());
        all.extend(cut(body, spec, at, n, chip).filter(less));
    }
    all.retain(|c| c.bytes(chip) <= budget);
    all
}

/// The cut of dimension `d` into blocks of `size` steps, inside of loops over the first `outer` dimensions.
fn cut(body: &Body, spec: &BlockSpec, (outer, d): (usize, usize), size: u32, chip: &ChipConfig) -> Option<Choice> {
    let g = grid(chip);
    if outer > d {
        return None;
    }
    let mut sizes = body.sizes();
    let around: Vec<u32> = sizes[..outer].to_vec();
    sizes[..outer].fill(1);
    let (blocks, rest) = (sizes[d] / size, sizes[d] % size);
    let walks = body.walks(chip.core.lanes);
    let purposes = purposes(spec, |i| walks[i].as_ref().is_some_and(|w| w.is_output));
    let mut joints: Option<Vec<Option<Joint>>> = None;
    let mut windows_of = |steps: u32, at: Cut| -> Option<Vec<Option<Window>>> {
        sizes[d] = steps;
        let made = |w: &Walk, p: Purpose| {
            let window = Window::new(w, &sizes, (&at, &around), p, &g)?;
            Some(match body.row_dimension() {
                Some(row) => window.reached((row, sizes[row]), &g),
                None => window,
            })
        };
        // What blocks share, the rest behind them shares too.
        let joints = joints.get_or_insert_with(|| joint::joints(&walks, &spec.operands, &purposes, &made));
        let mut all: Vec<Option<Window>> = Vec::new();
        for (i, ((w, o), p)) in walks.iter().zip(&spec.operands).zip(&purposes).enumerate() {
            let next = match w {
                Some(w) if o.hbm => Some(match &joints[i] {
                    Some(joint) if joint.leader < i => {
                        joint.part(w, all[joint.leader].as_ref()?, walks[joint.leader].as_ref()?)
                    }
                    Some(joint) => joint.whole(w, *p, &made)?,
                    None => made(w, *p)?,
                }),
                Some(w) => {
                    // Walked in place: lanes may only move by whole tiles, but where indices say so.
                    if matches!(body, Body::Move(_)) {
                        let single = sizes[d] == size && blocks <= 1;
                        if !single {
                            step(w, d, size, &g)?;
                        }
                        for e in 0..outer {
                            step(w, e, 1, &g)?;
                        }
                    }
                    None
                }
                None => None,
            };
            all.push(next);
        }
        Some(all)
    };
    let whole = Cut { dimension: d, first: 0, last: blocks.saturating_sub(1) * size, blocks };
    let windows = windows_of(size, whole)?;
    let after = blocks * size;
    let rest_windows = if rest > 0 {
        windows_of(rest, Cut { dimension: d, first: after, last: after, blocks: 1 })?
    } else {
        Vec::new()
    };
    let row_bytes = chip.row_bytes();
    let mut words = Vec::new();
    let mut serial = false;
    let (mut whole, mut last) = (Moved::default(), Moved::default());
    for (i, w) in windows.iter().enumerate() {
        let Some(w) = w.as_ref().filter(|w| w.within.is_none()) else {
            words.push(0);
            continue;
        };
        let packing = w.walk.dtype.packing() as u64;
        let rest = rest_windows.get(i).and_then(|r| r.as_ref());
        let rows = w.rows.max(rest.map_or(0, |r| r.rows));
        words.push(u32::try_from((rows as u64).div_ceil(packing)).ok()?);
        let p = purposes[i];
        serial |= p.written && p.read && (blocks > 1 && w.overlaps_next() || rest.is_some());
        u32::try_from(w.runs.bytes(row_bytes, packing)).ok().filter(|&b| b < 1 << 30)?;
        whole.add(w, p, (row_bytes, packing), chip);
        rest.into_iter().for_each(|r| last.add(r, p, (row_bytes, packing), chip));
    }
    let work = |steps: u32| cost::work(body, &sizes, (d, steps), chip);
    let works = (work(size), if rest > 0 { work(rest) } else { 0.0 });
    let times = Times { latency: latency(chip), whole: (whole, works.0), rest: (last, works.1), serial };
    let kept = if let Body::Loop(s) = body { scratch_rows(s, chip) } else { 0 };
    Some(Choice { outer, dimension: d, size, blocks, rest, around, windows, rest_windows, words, kept, serial, times })
}

impl Choice {
    fn cut(&self) -> BlockCut {
        BlockCut { outer: self.outer as u32, dimension: self.dimension as u32, size: self.size }
    }

    fn chosen(&self) -> ChosenCut {
        ChosenCut { cut: self.cut(), needs: self.needs(), cost: self.cycles(1) }
    }

    /// Windows of one block.
    fn one_set(&self) -> u32 {
        self.words.iter().sum()
    }

    /// Sets of windows.
    fn sets(&self) -> u32 {
        if self.serial || self.blocks < 2 { 1 } else { 2 }
    }

    /// Word rows of all sets of windows and what is kept behind them.
    fn scratch_rows(&self) -> u32 {
        self.one_set() * self.sets() + self.kept
    }

    fn needs(&self) -> Needs {
        Needs { scratch_rows: self.scratch_rows(), semaphores: SEMAPHORES }
    }

    /// Vector memory of two sets of windows, and of what is kept.
    fn bytes(&self, chip: &ChipConfig) -> u64 {
        (u64::from(self.one_set()) * 2 + u64::from(self.kept)) * chip.row_bytes()
    }
}
