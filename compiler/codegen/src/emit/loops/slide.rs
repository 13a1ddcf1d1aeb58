//! Reductions over windows that overlap: neighbours along a kept dimension read the same elements at different points of a
//! reduced one. What one of them has loaded serves all of them.

use super::address::nest;
use super::reduce::Reducer;
use super::row::{At, Memo};
use super::spec::{ExprOp, Input, LaneMap, LoopSpec};
use crate::emit::value::Value;
use crate::kernel::KernelBuilder;

/// Most points of the reduced dimension, all of which are unrolled.
const MOST: u32 = 16;
/// Neighbours that are reduced side by side: as many as divide them all, of these.
const NEIGHBOURS: std::ops::RangeInclusive<u32> = 4..=8;

/// Along which reduced dimension windows slide from one index of the innermost kept dimension to the next.
pub(super) struct Slide {
    dimension: usize,
    /// Which nodes' values are the same where the sum of both indices is.
    moving: Vec<bool>,
}

impl Slide {
    /// The slide of a reduction of dimensions from `kept` on.
    pub(super) fn of(spec: &LoopSpec, kept: usize) -> Option<Slide> {
        let along = kept.checked_sub(1).filter(|&d| spec.outer[d] > 1)?;
        let slides = |d: usize| {
            let one = |i: &Input| matches!(i, Input::Array(a) if a.outer[along] != 0 && a.outer[along] == a.outer[d]);
            (2..=MOST).contains(&spec.outer[d]) && spec.inputs.iter().any(one)
        };
        let dimension = (kept..spec.outer.len()).find(|&d| slides(d))?;
        Some(Slide { dimension, moving: moving(spec, along, dimension) })
    }

    /// How many of so many neighbours are reduced side by side.
    pub(super) fn together(size: u32) -> u32 {
        let most = size.min(*NEIGHBOURS.end());
        NEIGHBOURS.rev().find(|n| size.is_multiple_of(*n)).unwrap_or(most)
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what is computed moves as its operands do")]
fn moving(spec: &LoopSpec, along: usize, dimension: usize) -> Vec<bool> {
    let same = |outer: &[i64]| outer.get(along) == outer.get(dimension);
    let mut all: Vec<bool> = Vec::with_capacity(spec.expr.nodes.len());
    for n in &spec.expr.nodes {
        let own = match &n.op {
            ExprOp::Input(i) => match &spec.inputs[*i as usize] {
                Input::Array(a) => {
                    same(&a.outer)
                        && if let LaneMap::Indexed { index, .. } = &a.lane { same(&index.outer) } else { true }
                }
                Input::Scalar(_) => true,
            },
            ExprOp::Index(i) => same(&i.outer),
            _ => true,
        };
        all.push(own && n.args.iter().all(|&a| all[a as usize]));
    }
    all
}

impl Reducer<'_> {
    /// Reduces places whose windows overlap: each of `sets` has an accumulator for every place, and they take turns.
    pub(super) fn sliding(&self, b: &mut KernelBuilder, slide: &Slide, places: &[At], sets: &[&[Vec<Value>]]) {
        let Some(first) = places.first() else { return };
        let d = slide.dimension;
        let mut sizes = self.ctx.spec.outer.clone();
        let points = std::mem::replace(&mut sizes[d], 1);
        let neighbour = |at: &At| at.fixed.last().copied().unwrap_or(0);
        let count = 1 + places.iter().map(neighbour).max().unwrap_or(0);
        let mut blocks: Vec<i64> = places.iter().map(|at| at.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        nest(b, &sizes, self.kept, first.regs, &mut |b, regs| {
            // What a point of the reduced dimension shares with all places, and what neighbours share.
            let mut still = vec![Memo::default(); points as usize];
            for &block in &blocks {
                for sum in 0..count + i64::from(points) - 1 {
                    let mut moved = Memo::default();
                    let all = sets[sum as usize % sets.len()];
                    for (at, acc) in places.iter().zip(all).filter(|(at, _)| at.block == block) {
                        let point = sum - neighbour(at);
                        if !(0..i64::from(points)).contains(&point) {
                            continue;
                        }
                        let mut fixed = at.fixed.to_vec();
                        fixed.resize(sizes.len(), 0);
                        fixed[d] = point;
                        let at = At { regs, fixed: &fixed, ..*at };
                        let still = &mut still[point as usize];
                        let mut memo = still.clone();
                        memo.extend(moved.iter().map(|(k, v)| (*k, *v)));
                        self.take(b, (&at, 0), acc, &mut memo);
                        still.extend(memo.iter().filter(|(k, _)| self.shared[k.0 as usize]).map(|(k, v)| (*k, *v)));
                        moved.extend(memo.iter().filter(|(k, _)| slide.moving[k.0 as usize]).map(|(k, v)| (*k, *v)));
                    }
                }
            }
        });
    }
}
