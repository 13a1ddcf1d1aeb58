//! How the row blocks of a step are cut into loops, and how far results lag behind.
//!
//! The next step's weights are staged while the first blocks stream; the last blocks of the step before are popped while
//! the first blocks of this one are pushed, so that the arrays never drain.

use super::tile::Tiling;
use systole_isa::ChipConfig;

/// Whose results a loop takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The end of step `t - lag - 1`.
    Earlier,
    /// Step `t - lag`; all there is with accumulators.
    Current,
}

/// A loop over row blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    pub loops: Vec<Segment>,
    /// Groups staged apart, after the loops (when a step has fewer blocks than groups).
    pub staged_after: u32,
    pub tail: u32,
    pub lag: u32,
}

/// Cycles from a push into a full queue until its result is there.
fn latency(chip: &ChipConfig, rate: f64) -> f64 {
    let m = &chip.mxu;
    (m.rows + m.cols + m.extra_latency) as f64 + m.queue_rows as f64 / rate
}

/// Row blocks by which results should lag.
fn wanted_lag(chip: &ChipConfig, rate: f64) -> u32 {
    (latency(chip, rate) * rate / chip.core.sublanes as f64).ceil() as u32 + 1
}

/// Result rows in flight that the scheduler leaves to program order.
fn fifo_blocks(chip: &ChipConfig) -> u32 {
    let all = chip.mxu.fifo_rows / chip.core.sublanes.max(1);
    (all - (all / 4).max(1).min(all)).max(1)
}

/// Shortest loop worth being one.
const SHORT: u32 = 4;

impl Segments {
    /// The loops for steps of `blocks` row blocks and `groups` staged groups, with `steps` in each of `parts` parts.
    pub fn new(t: &Tiling, groups: u32, (steps, parts): (u32, u32), rate: f64, chip: &ChipConfig) -> Segments {
        let (blocks, sub) = (t.blocks, chip.core.sublanes);
        let need = wanted_lag(chip, rate);
        if t.accumulators {
            let region = blocks * sub;
            let fits =
                |lag: u32| (1 + (lag - 1).div_ceil(steps)) as u64 * region as u64 <= chip.mxu.accumulator_rows as u64;
            let lag = (1..=need.div_ceil(blocks).max(1)).rev().find(|&l| fits(l)).unwrap_or(1);
            return Segments::cut(blocks, groups, 0, lag);
        }
        let most = fifo_blocks(chip);
        let per_group = need.div_ceil(groups);
        let tail = groups * per_group;
        if tail <= most && tail + SHORT <= blocks {
            let first = Segment { iterations: groups, blocks: per_group, stage: 1, source: Source::Earlier };
            let rest = Segment { iterations: blocks - tail, blocks: 1, stage: 0, source: Source::Current };
            return Segments { loops: vec![first, rest], staged_after: 0, tail, lag: 0 };
        }
        let want = need.min(most).min(blocks.saturating_mul(steps).saturating_mul(parts));
        let (lag, tail) = (want / blocks, want % blocks);
        match (lag, tail) {
            (0, tail) => Segments::cut(blocks, groups, tail, 0),
            (lag, _) if (lag + 1) * blocks <= most && tail > 0 && blocks <= 2 * SHORT => {
                Segments::cut(blocks, groups, 0, (lag + 1).min(steps.saturating_mul(parts)))
            }
            (lag, tail) if tail < SHORT || blocks - tail < SHORT || lag >= steps.saturating_mul(parts) => {
                Segments::cut(blocks, groups, 0, lag)
            }
            (lag, tail) => Segments::cut(blocks, groups, tail, lag),
        }
    }

    /// Blocks between a push and the pop of its result, as a share of what hides the latency (at most 1).
    pub fn hidden(&self, t: &Tiling, rate: f64, chip: &ChipConfig) -> f64 {
        let fill = (chip.mxu.rows + chip.mxu.cols + chip.mxu.extra_latency) as f64 + 16.0;
        let lag = (self.lag * t.blocks + self.tail) as f64 * chip.core.sublanes as f64 / rate;
        if t.accumulators { 1.0 } else { (lag / fill).min(1.0) }
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
        Segments { loops, staged_after: groups - stage * staging, tail, lag }
    }
}

/// Groups staged with each of the first so many blocks.
fn stages(blocks: u32, groups: u32) -> (u32, u32) {
    let stage = groups.div_ceil(blocks);
    (stage, groups / stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_cover_all_groups() {
        assert_eq!(stages(128, 16), (1, 16));
        assert_eq!(stages(1, 16), (16, 1));
        assert_eq!(stages(5, 16), (4, 4));
        assert_eq!(stages(6, 16), (3, 5));
    }
}
