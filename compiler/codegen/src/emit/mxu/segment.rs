//! How the row blocks of a step are cut into loops, and how far results lag behind.
//!
//! The next step's weights are staged while the first blocks stream, or with the last ones where they come from HBM; the last
//! blocks of the step before are popped while the first blocks of this one are pushed, so that the arrays never drain.

use systole_isa::{ChipConfig, MxuFormat};

/// Whose results a loop takes at step `t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The end of step `t - lag - 1`.
    Earlier,
    /// Step `t - lag`; all there is with accumulators.
    Current,
}

/// A loop over row blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub iterations: u32,
    /// Row blocks of an iteration.
    pub blocks: u32,
    /// Groups of weight registers staged in an iteration.
    pub stage: u32,
    pub source: Source,
}

/// The loops of a step.
///
/// Results lag `lag * blocks + tail` blocks behind pushes (FIFO), so that they are there when they are popped: step `t`
/// pops the last `tail` blocks of step `t - lag - 1`, then the others of step `t - lag`. Accumulators have no tail: a
/// part's drain begins `lag` steps after its last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    pub loops: Vec<Segment>,
    /// Groups staged apart, after the loops (when a step has far fewer blocks than groups).
    pub staged_after: u32,
    /// Nothing is staged before the step's own results are popped.
    pub late: bool,
    pub tail: u32,
    pub lag: u32,
}

/// Steps with part of an end beside them.
pub(super) struct Shaped {
    /// Steps that the end is spread over.
    pub spread: u32,
    pub segments: Segments,
    /// Cycles that this saves in all.
    pub gain: f64,
}

/// Cycles from a push into a full queue until its result is there.
fn latency(chip: &ChipConfig, rate: f64) -> f64 {
    let m = &chip.mxu;
    m.fill_cycles() as f64 + m.queue_rows as f64 / rate
}

/// Row blocks by which results should lag.
pub fn wanted_lag(chip: &ChipConfig, rate: f64) -> u32 {
    (latency(chip, rate) * rate / chip.core.sublanes as f64).ceil() as u32 + 1
}

/// Result rows in flight that the scheduler leaves to program order: those that the FIFO holds, and where results should lag by
/// more, those on their way through the array too.
pub fn most_in_flight(chip: &ChipConfig, need: u32) -> u32 {
    let all = chip.mxu.fifo_rows / chip.core.sublanes.max(1);
    let fifo = (all - (all / 4).max(1).min(all)).max(1);
    // Arrays that take more rows a cycle hold more of them: code does not count on it.
    let rate = chip.mxu_type(MxuFormat::Bf16).or(chip.mxu.types.first()).map_or(1.0, |t| t.rows_per_cycle);
    let inside = f64::from(chip.mxu.rows + chip.mxu.cols) * rate.min(1.0) / f64::from(chip.core.sublanes);
    fifo.max(need.min(fifo + inside as u32))
}

/// Cycles around a step, and around each of its loops, in which nothing is pushed.
const STEP_OVERHEAD: f64 = 45.0;
const LOOP_OVERHEAD: f64 = 20.0;
/// Cycles between steps that nothing hides.
const STEP_GAP: f64 = 10.0;

/// What the choice of a step's loops depends on.
#[derive(Clone, Copy, Debug)]
pub struct StepShape {
    pub blocks: u32,
    /// Groups of weight registers.
    pub groups: u32,
    /// Result registers of a block.
    pub results: u32,
    /// Steps of a part, parts.
    pub steps: u32,
    pub parts: u32,
    pub accumulators: bool,
    /// Rows per cycle of the arrays.
    pub rate: f64,
    /// Cycles that the instructions of a block, and of a staged group, need to issue.
    pub block_issue: f64,
    pub group_issue: f64,
    /// Cycles to load a tile of weights.
    pub tile_load: f64,
    /// Row blocks that an iteration of every loop has, or a multiple.
    pub together: u32,
}

impl Segments {
    /// The quickest loops for a step, and its cycles; `None` if no loops come out even.
    pub fn choose(s: &StepShape, chip: &ChipConfig) -> Option<(Segments, f64)> {
        let timed = Segments::candidates(s, chip).into_iter().filter_map(|c| {
            let cycles = c.cycles(s, chip);
            Some((c.in_turns(s.together)?, cycles))
        });
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The same with so many row blocks, or a multiple, in every iteration; `None` if the loops do not come out even.
    fn in_turns(self, blocks: u32) -> Option<Segments> {
        let one = |l: &Segment| {
            let even = l.blocks == 1 && l.iterations.is_multiple_of(blocks);
            let joined = || Segment { iterations: l.iterations / blocks, blocks, stage: l.stage * blocks, ..*l };
            if l.blocks.is_multiple_of(blocks) { Some(*l) } else { even.then(joined) }
        };
        let loops = self.loops.iter().map(one).collect::<Option<Vec<_>>>()?;
        Some(Segments { loops, ..self })
    }

    /// All ways to walk the blocks of a step while the next weights are staged.
    pub fn candidates(s: &StepShape, chip: &ChipConfig) -> Vec<Segments> {
        let (blocks, groups) = (s.blocks, s.groups);
        let need = wanted_lag(chip, s.rate);
        let all_steps = s.steps.saturating_mul(s.parts);
        if s.accumulators {
            let region = blocks as u64 * chip.core.sublanes as u64;
            let regions = |lag: u32| 1 + (lag - 1).div_ceil(s.steps) as u64;
            let fits = |lag: u32| regions(lag) * region <= chip.mxu.accumulator_rows as u64;
            let lag = (1..=need.div_ceil(blocks).max(1)).rev().find(|&l| fits(l)).unwrap_or(1);
            return vec![Segments::cut(blocks, groups, 0, lag)];
        }
        let most = most_in_flight(chip, need);
        let mut all = Vec::new();
        let per_group = need.div_ceil(groups).next_multiple_of(s.together);
        let tail = groups * per_group;
        // The results of an iteration are in registers at once.
        let held = per_group.saturating_mul(s.results);
        if tail <= most && tail < blocks && held <= chip.core.vector_registers / 2 {
            let first = Segment { iterations: groups, blocks: per_group, stage: 1, source: Source::Earlier };
            let rest = Segment { iterations: blocks - tail, blocks: 1, stage: 0, source: Source::Current };
            all.push(Segments { loops: vec![first, rest], staged_after: 0, late: false, tail, lag: 0 });
        }
        let want = need.min(most);
        let (lag, tail) = (want / blocks, want % blocks);
        let even = tail.next_multiple_of(s.together);
        let tail = if even < blocks && lag * blocks + even <= most { even } else { tail };
        if lag < all_steps {
            all.push(Segments::cut(blocks, groups, tail, lag));
        }
        for lag in [lag, lag + 1] {
            if lag > 0 && lag as u64 * blocks as u64 <= most as u64 {
                all.push(Segments::cut(blocks, groups, 0, lag.min(all_steps)));
            }
        }
        all
    }

    /// Cycles of a step.
    fn cycles(&self, s: &StepShape, chip: &ChipConfig) -> f64 {
        let block = chip.core.sublanes as f64 / s.rate;
        let fill = chip.mxu.fill_cycles() as f64 + 2.0 * block;
        let lag = (self.lag * s.blocks + self.tail) as f64 * block;
        let hidden = if s.accumulators { 1.0 } else { (lag / fill).min(1.0) };
        let streamed = s.blocks as f64 * block / hidden;
        let issued = s.blocks as f64 * s.block_issue
            + s.groups as f64 * s.group_issue
            + self.loops.len() as f64 * LOOP_OVERHEAD
            + STEP_OVERHEAD;
        streamed.max(s.tile_load).max(issued) + STEP_GAP
    }

    /// The same with all groups staged with the last blocks, if a step has as many blocks behind its tail: the next step's weights need
    /// not be there when the step begins.
    pub fn staged_late(self, groups: u32) -> Segments {
        let of = |source| self.loops.iter().filter(move |l| l.source == source);
        let current: u32 = of(Source::Current).map(|l| l.iterations * l.blocks).sum();
        if self.tail == 0 || current < groups {
            return self;
        }
        let one = |iterations, stage| Segment { iterations, blocks: 1, stage, source: Source::Current };
        let earlier = of(Source::Earlier).map(|l| Segment { stage: 0, ..*l });
        let own = [one(current - groups, 0), one(groups, 1)].into_iter().filter(|l| l.iterations > 0);
        Segments { loops: earlier.chain(own).collect(), staged_after: 0, late: true, ..self }
    }

    /// Row blocks whose results have been popped where each loop that pops a step's own ends.
    pub fn ends(&self) -> Vec<u32> {
        let own = self.loops.iter().filter(|l| l.source == Source::Current);
        let mut at = 0;
        let end = |l: &Segment| {
            at += l.iterations * l.blocks;
            at
        };
        own.map(end).collect()
    }

    /// The loops of the first step if its rows come in pieces, one for each: of the blocks beside which nothing is popped yet, the first
    /// third is a loop of its own, since pushes begin with it.
    pub fn opening(&self) -> Vec<Segment> {
        let mut loops = self.loops.clone();
        if let Some(first) = loops.first_mut().filter(|l| l.source == Source::Earlier && l.iterations >= 3) {
            let short = Segment { iterations: first.iterations / 3, ..*first };
            first.iterations -= short.iterations;
            loops.insert(0, short);
        }
        loops
    }

    fn cut(blocks: u32, groups: u32, tail: u32, lag: u32) -> Segments {
        let (stage, staging) = stages(blocks, groups);
        let mut loops = Vec::new();
        let mut at = 0;
        let mut cuts = [staging, tail, blocks];
        cuts.sort_unstable();
        for to in cuts {
            if to > at {
                let source = if at < tail { Source::Earlier } else { Source::Current };
                let stage = if at < staging { stage } else { 0 };
                loops.push(Segment { iterations: to - at, blocks: 1, stage, source });
                at = to;
            }
        }
        Segments { loops, staged_after: groups - stage * staging, late: false, tail, lag }
    }
}

/// Most groups staged with a block: more are a loop of their own.
const MAX_STAGED: u32 = 2;

/// Groups staged with each of the first so many blocks.
pub fn stages(blocks: u32, groups: u32) -> (u32, u32) {
    let stage = groups.div_ceil(blocks);
    if stage > MAX_STAGED { (0, 0) } else { (stage, groups / stage) }
}
