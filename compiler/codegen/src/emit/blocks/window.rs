//! The part of an array that a block reaches, and where it lies in vector memory.

use super::body::{Line, Walk};
use systole_isa::dma::MAX_DMA_DIMS;

/// What copies and code need to know of the chip.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub lanes: i64,
    pub sublanes: i64,
    /// Element rows by which copies begin and end: whole word rows of every type, and whole registers.
    pub align: i64,
    /// Element rows behind a window: registers may reach beyond its last rows.
    pub spacing: i64,
}

/// One dimension of a copy besides the run of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub count: u32,
    /// Element rows between steps, in the array and in the window.
    pub array: i64,
    pub window: i64,
}

/// Element rows of an array, as a copy: at every combination of the levels a run of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// Of a run.
    pub rows: i64,
    pub levels: Vec<Level>,
}

impl Runs {
    pub fn count(&self) -> u64 {
        self.levels.iter().map(|l| l.count as u64).product()
    }

    /// Element rows in all.
    pub fn total(&self) -> u64 {
        self.count() * self.rows as u64
    }

    /// Bytes of the copy.
    pub fn bytes(&self, row_bytes: u64, packing: u64) -> u64 {
        self.count() * (self.rows as u64 / packing * row_bytes)
    }
}

/// The rows of an array that a block reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// First element row of block 0 (for arrays that start at a row passed in a register: without that row).
    pub start: i64,
    /// Element rows from one block to the next, and from one index of each outer dimension to the next.
    pub step: i64,
    pub outer_steps: Vec<i64>,
    pub runs: Runs,
    /// Element rows of the window.
    pub rows: i64,
    /// Blocks reach different lanes of the same rows.
    pub shared: bool,
    /// No two blocks reach a common row, nor do blocks of different indices of the outer dimensions.
    pub apart: bool,
    /// How the body's iteration walks the window.
    pub walk: Walk,
    /// It is the window of this operand, which brings it.
    pub within: Option<usize>,
}

/// What a window is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Copied from the array / to the array.
    pub read: bool,
    pub written: bool,
    /// The array starts at a row that only a register knows.
    pub floating: bool,
    /// Rows that are nobody's yet may be written: somebody writes them later.
    pub first: bool,
    /// Element rows behind every one that the body walks which others reach too.
    pub reach: i64,
}

/// Which blocks: of which dimension, at which of its steps the first and the last of them begin, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub dimension: usize,
    pub first: u32,
    pub last: u32,
    pub blocks: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    Dimension(usize),
    Plane,
    Tile,
    Component,
    Reach,
}

/// How many times fewer rows copies have to have for being of words instead of registers: their chunks are shorter.
const WORTH: u64 = 2;

fn up(x: i64, to: i64) -> i64 {
    (x + to - 1).div_euclid(to) * to
}

/// Element rows from one block of `size` steps of dimension `d` to the next; `None` if blocks do not begin alike.
pub fn step(w: &Walk, d: usize, size: u32, g: &Grid) -> Option<i64> {
    let lanes = w.lanes.steps[d] * size as i64;
    (lanes.rem_euclid(g.lanes) == 0).then(|| w.rows.steps[d] * size as i64 + lanes / g.lanes * w.plane_rows)
}

/// Whether no row has lanes of two blocks along dimension `d`.
///
/// Dimensions that move by whole rows of lanes do not matter; the others, from the narrowest on, must fill the lanes of whole
/// rows without a gap. If `d` is the widest of them, what full blocks leave over may end within a row.
fn owns_rows(w: &Walk, sizes: &[u32], d: usize, g: &Grid) -> bool {
    if w.lanes.steps[d] == 0 {
        return true;
    }
    let mut within: Vec<(i64, i64)> = (w.lanes.steps.iter().zip(sizes))
        .map(|(&step, &n)| (step, i64::from(n)))
        .filter(|&(step, n)| n > 1 && step % g.lanes != 0)
        .collect();
    within.sort_by_key(|w| w.0.abs());
    let low: i64 = within.iter().map(|&(step, n)| (step * (n - 1)).min(0)).sum();
    let mut filled = 1;
    for &(step, n) in &within {
        if step.abs() > filled {
            return false;
        }
        filled += (n - 1) * step.abs();
    }
    let begins = (w.lanes.offset + low).rem_euclid(g.lanes) == 0;
    let widest = within.iter().all(|l| l.0.abs() <= w.lanes.steps[d].abs());
    if w.lanes.steps[d] % g.lanes == 0 {
        // Each step has rows of its own.
        return filled + (w.lanes.offset + low).rem_euclid(g.lanes) <= w.lanes.steps[d].abs();
    }
    begins && (widest || filled % g.lanes == 0)
}

impl Window {
    /// The window of an array for a cut inside of loops over leading dimensions of sizes `around`; `sizes` are those of
    /// a block. `None` if no copy can bring it.
    pub fn new(w: &Walk, sizes: &[u32], (cut, around): (&Cut, &[u32]), p: Purpose, g: &Grid) -> Option<Window> {
        let aligned = |align: i64| Window::aligned(w, (sizes, align), (cut, around), p, g);
        let words = || aligned(w.dtype.packing() as i64);
        let Some(registers) = aligned(g.align) else {
            // Blocks that begin within a register would have rows of the block before: copies of words have none.
            return if p.first && !p.floating { words() } else { None };
        };
        if !p.read || !p.written || p.floating {
            return Some(registers);
        }
        // Around few rows that are written, registers bring and take more than these.
        let fewer = words().filter(|words| WORTH * words.runs.total() <= registers.runs.total());
        Some(fewer.unwrap_or(registers))
    }

    /// The window whose copies begin and end at multiples of `align` element rows.
    fn aligned(
        w: &Walk,
        (sizes, align): (&[u32], i64),
        (cut, around): (&Cut, &[u32]),
        p: Purpose,
        g: &Grid,
    ) -> Option<Window> {
        let d = cut.dimension;
        let moves_lanes = w.lanes.steps[..around.len()].iter().chain([&w.lanes.steps[d]]).any(|&l| l != 0);
        if w.any_lane && (moves_lanes || w.plane_rows <= 0 || p.written && !p.read) {
            return None;
        }
        // What full blocks leave over may end anywhere, and so may the only block.
        let step = if cut.first > 0 || cut.blocks <= 1 { 0 } else { step(w, d, sizes[d], g)? };
        let begin = self::step(w, d, cut.first, g)?;
        let outer_steps: Vec<i64> = (0..around.len()).map(|e| self::step(w, e, 1, g)).collect::<Option<_>>()?;
        if outer_steps.iter().any(|s| s % align != 0) {
            return None;
        }
        let (low_row, _) = w.rows.reach(sizes);
        let (low_lane, high_lane) = w.lanes.reach(sizes);
        let tile = |lane: i64| (w.lanes.offset + lane).div_euclid(g.lanes);
        // Lanes that only a register knows: all that there are.
        let planes =
            if w.any_lane { (0, w.component_rows / w.plane_rows - 1) } else { (tile(low_lane), tile(high_lane)) };
        let low = w.rows.offset + low_row + planes.0 * w.plane_rows + begin;
        let mut items: Vec<(Item, i64, i64)> = Vec::new();
        for (i, (&s, &n)) in w.rows.steps.iter().zip(sizes).enumerate() {
            items.push((Item::Dimension(i), n as i64, s.abs()));
        }
        items.push((Item::Plane, planes.1 - planes.0 + 1, w.plane_rows));
        items.push((Item::Tile, w.tiles.0 as i64, w.tiles.1));
        items.push((Item::Component, w.dtype.components() as i64, w.component_rows));
        items.push((Item::Reach, p.reach + 1, 1));
        items.retain(|i| i.1 > 1 && i.2 != 0);
        items.sort_by_key(|i| i.2);
        let mut walk = w.clone();
        walk.lanes.offset -= planes.0 * g.lanes;
        // The rows between neighbours belong to nobody else, as far as a register reaches.
        let packing = w.dtype.packing() as i64;
        let slack = if p.floating { align - 1 } else { low.rem_euclid(align) };
        let mut run = 1;
        let mut gaps = false;
        let mut levels: Vec<Level> = Vec::new();
        let mut of: Vec<Item> = Vec::new();
        let mut rows = 0;
        for (item, count, stride) in items {
            if levels.is_empty() && (stride <= up(run, align) || stride % packing != 0) {
                gaps |= stride > up(run, align);
                run += (count - 1) * stride;
                continue;
            }
            if stride % packing != 0 {
                return None;
            }
            if levels.is_empty() {
                rows = up(slack + run, g.align);
            }
            levels.push(Level { count: count as u32, array: stride, window: rows });
            of.push(item);
            walk.set(item, rows);
            rows *= count;
        }
        if levels.is_empty() {
            rows = up(slack + run, g.align);
        }
        let run = up(slack + run, align);
        let start = if p.floating { low } else { low - slack };
        walk.rows.offset = if p.floating { 0 } else { slack } - walk.rows.reach(sizes).0;
        if levels.len() > MAX_DMA_DIMS || (p.floating && step % align != 0) || (!p.floating && step % packing != 0) {
            return None;
        }
        // Of rows that a copy brings twice, the one that is written is not the one that goes back last.
        let mut extent = run;
        let twice = levels.iter().any(|l| {
            let meets = l.array < extent;
            extent += (i64::from(l.count) - 1) * l.array;
            meets
        });
        if p.written && twice {
            return None;
        }
        // Steps by so many rows, over `extent` of them in all, come to rows of a level that is not their own.
        let meets = |rows: i64, extent: i64, own: Option<Item>| {
            let foreign =
                |l: &Level| if rows < l.array { extent > l.array } else { rows < l.array * i64::from(l.count) };
            rows != 0 && levels.iter().zip(&of).any(|(l, &item)| Some(item) != own && foreign(l))
        };
        let own = Item::Dimension(d);
        let inside = if of.contains(&own) { sizes[d] as i64 - 1 } else { 0 };
        let across = w.rows.steps[d].abs();
        let several = cut.blocks + cut.first > 1;
        let meets_next = if w.lanes.steps[d] == 0 {
            meets(across, run + across * (cut.last as i64 + inside), Some(own))
        } else {
            let last = self::step(w, d, cut.last, g)?.abs();
            let next = if cut.first > 0 { last } else { step.abs() };
            meets(next, run + last, Some(own))
        };
        let shared = several && (!owns_rows(w, sizes, d, g) || meets_next);
        // Loops around the blocks come back to their rows.
        let reached = run + across * cut.last as i64;
        let returns = outer_steps
            .iter()
            .zip(around)
            .any(|(s, &n)| n > 1 && meets(s.abs(), s.abs() * (n as i64 - 1) + reached, None));
        let mut window = Window {
            start,
            step,
            outer_steps,
            runs: Runs { rows: run, levels },
            rows: rows + g.spacing,
            shared,
            apart: false,
            walk,
            within: None,
        };
        let inner = w.rows.steps[d].abs() < run;
        let foreign = |l: &Level| l.array < run || (inner && l.array > w.rows.steps[d].abs() && l.array < reached);
        // Outer dimensions lie outside of all blocks of a row.
        let within = |s: &i64| s.abs() < reached;
        let together = gaps
            || shared
            || returns
            || window.runs.levels.iter().any(foreign)
            || window.overlaps_next() && cut.blocks > 1
            || window.outer_steps.iter().any(within);
        window.apart = !together;
        // Copies stay within the array and the rows behind it that belong to nobody. (Blocks of a reversed array go down.)
        if p.read && !p.floating {
            let down: i64 = window.outer_steps.iter().zip(around).map(|(s, &n)| (s * (n as i64 - 1)).min(0)).sum();
            if start + down + (step * (cut.blocks as i64 - 1)).min(0) < 0 {
                return None;
            }
            let levels: i64 = window.runs.levels.iter().map(|l| (l.count as i64 - 1) * l.array).sum();
            let around: i64 = window.outer_steps.iter().zip(around).map(|(s, &n)| (s * (n as i64 - 1)).max(0)).sum();
            let end = start + around + (step * (cut.blocks as i64 - 1)).max(0) + levels + run;
            if end > w.component_rows * w.dtype.components() as i64 + g.spacing * packing {
                return None;
            }
        }
        // What is written must be the block's own, up to the last block. Rows before the first one are nobody's yet, unless they
        // are the block's before.
        let begins =
            slack == 0 || p.first && !p.floating && (cut.blocks + cut.first <= 1 || w.rows.steps[d].abs() >= run);
        if p.written && !p.read && !(begins && window.apart) {
            return None;
        }
        Some(window)
    }

    /// With as many rows behind it as registers reach that walk `count` steps of dimension `row`: a load reads a row for every
    /// sublane, whether there is a step or not, and what lies there may be another window, into which a copy is under way.
    pub fn reached(mut self, (row, count): (usize, u32), g: &Grid) -> Window {
        let missing = up(i64::from(count), g.sublanes) - i64::from(count);
        let beyond = up(missing * self.walk.rows.steps[row].max(0), g.align);
        self.rows += (beyond - g.spacing).max(0);
        self
    }

    /// Whether blocks (apart by `step`) reach common rows.
    pub fn overlaps_next(&self) -> bool {
        if self.shared {
            return true;
        }
        let step = self.step.abs();
        let inside = self.runs.levels.iter().any(|l| l.array * l.count as i64 == step || l.array == 0);
        step < self.runs.rows && !inside
    }
}

impl Walk {
    /// The same from another element row on.
    pub fn from(&self, row: i64) -> Walk {
        Walk { rows: Line { offset: row, ..self.rows.clone() }, ..self.clone() }
    }

    fn set(&mut self, item: Item, stride: i64) {
        match item {
            Item::Dimension(i) => self.rows.steps[i] = stride * self.rows.steps[i].signum(),
            Item::Plane => self.plane_rows = stride,
            Item::Tile => self.tiles.1 = stride,
            Item::Component => self.component_rows = stride,
            // Single rows are never a level of their own.
            Item::Reach => {}
        }
    }
}
