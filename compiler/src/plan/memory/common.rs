//! Which arrays lie in common memory (CMEM) instead of HBM, on chips that have one.
//!
//! Candidates are arrays that the program makes for itself and that vector memory did not hold from end to end: a placement
//! without common memory says which took a place in HBM. Those that are reached most often for the time that they keep their
//! place go first, as long as all that are there at once fit. Arrays of the host and of other devices stay in HBM. Where free
//! memory turns out to be in pieces too small for an array, it lies in HBM after all.

use super::lifetime::Lifetimes;
use crate::plan::step::{BufferKind, Draft, Step};
use crate::plan::view::BufId;

/// Stretches of the program in which memory is counted: an array takes its place in all that its life touches.
const STRETCHES: usize = 4096;

/// Buffers that may lie in common memory: none that host or other devices reach, and none that hands its place in HBM on to such.
pub fn eligible(draft: &Draft) -> Vec<bool> {
    let own = |k: &BufferKind| !matches!(k, BufferKind::Param(_) | BufferKind::Constant(_));
    let mut may: Vec<bool> = draft.buffers.iter().map(|b| own(&b.kind)).collect();
    let mut exclude = |b: BufId| may[b.index()] = false;
    draft.results.iter().copied().for_each(&mut exclude);
    draft.channels.values().for_each(|v| exclude(v.buf));
    super::exchanges(&draft.steps, &mut |x| x.arrays(&mut |b, _| exclude(b)));
    let mut copies = Vec::new();
    outside(&draft.steps, &mut exclude, &mut copies);
    // Copies take over places: backwards, since a copy follows what it copies.
    let mut again = true;
    while std::mem::take(&mut again) {
        for &(src, dst) in copies.iter().rev() {
            again |= !may[dst.index()] && std::mem::replace(&mut may[src.index()], false);
        }
    }
    may
}

/// Arrays that the host reaches, and copies from array to array.
fn outside(steps: &[Step], exclude: &mut impl FnMut(BufId), copies: &mut Vec<(BufId, BufId)>) {
    Step::each(steps, &mut |s| {
        if let Step::Copy { src, dst, .. } = s {
            copies.push((*src, *dst));
        } else if let Step::Host { operands, results, .. } = s {
            operands.iter().chain(results).for_each(|(b, _)| exclude(*b));
        }
    });
}

/// Of `candidates` (buffers with their sizes in granules) those that lie in a common memory of `capacity` granules.
pub fn choose(life: &Lifetimes, candidates: &[(BufId, u64)], capacity: u64) -> Vec<BufId> {
    let steps = life.last.iter().filter(|l| **l < u32::MAX).max().map_or(1, |l| *l as usize + 1);
    let each = steps.div_ceil(STRETCHES);
    let span = |b: BufId| {
        let first = [&life.writes, &life.reads].into_iter().filter_map(|l| l[b.index()].first()).min().copied();
        let last = life.last[b.index()].min(steps as u32 - 1);
        (first.unwrap_or(0).min(last) as usize, last as usize)
    };
    let often = |b: BufId| {
        let (first, last) = span(b);
        (life.reads[b.index()].len() + life.writes[b.index()].len()) as f64 / (last + 1 - first) as f64
    };
    let mut order: Vec<(BufId, u64)> = candidates.to_vec();
    order.sort_by(|a, b| often(b.0).total_cmp(&often(a.0)).then(a.1.cmp(&b.1)).then(a.0.cmp(&b.0)));
    let mut taken = vec![0u64; steps.div_ceil(each)];
    let mut chosen = Vec::new();
    for (buf, granules) in order {
        let (first, last) = span(buf);
        let stretches = &mut taken[first / each..=last / each];
        if stretches.iter().all(|t| t + granules <= capacity) {
            stretches.iter_mut().for_each(|t| *t += granules);
            chosen.push(buf);
        }
    }
    chosen
}
