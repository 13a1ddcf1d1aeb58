//! Exchanges write straight to where loops keep what they give.
//!
//! A loop's state has a place of its own in HBM; what the body gives for it is copied there at the end. An exchange that
//! made it may as well write there from the beginning, if nothing wants what the state held any more. Other devices write
//! to an exchange's array only after this one has begun the exchange, which it does once its own uses are over.

use super::super::collective::How;
use super::super::step::{Arg, BufferKind, Draft, Step};
use super::super::view::BufId;
use super::reach::visit;
use std::ops::Range;

/// Renames results of exchanges to the states that they are copied to.
pub(in crate::plan) fn hand_over(plan: &mut Draft) {
    let mut uses = vec![0u32; plan.buffers.len()];
    visit(&plan.steps, &mut |b, _| uses[b.index()] += 1);
    let steps = std::mem::take(&mut plan.steps);
    plan.steps = region(plan, &uses, steps);
}

fn region(plan: &Draft, uses: &[u32], steps: Vec<Step>) -> Vec<Step> {
    let mut steps: Vec<Option<Step>> =
        steps.into_iter().map(|s| Some(s.map_regions(|r| region(plan, uses, r)))).collect();
    for at in 0..steps.len() {
        let Some(Step::Copy { src, dst, .. }) = steps[at] else { continue };
        let Some(range) = alone(plan, uses, &steps, (src, dst, at)) else { continue };
        steps[at] = None;
        steps[range].iter_mut().flatten().for_each(|s| rename(s, src, dst));
    }
    steps.into_iter().flatten().collect()
}

/// The steps from the exchange that makes `src` to its copy to the state `dst`, if these alone use the former and none of
/// them the latter.
fn alone(
    plan: &Draft,
    uses: &[u32],
    steps: &[Option<Step>],
    (src, dst, at): (BufId, BufId, usize),
) -> Option<Range<usize>> {
    let [from, to] = [src, dst].map(|b| &plan.buffers[b.index()]);
    let kinds = from.kind == BufferKind::Temp && to.kind == BufferKind::FarState;
    if !kinds || from.layout != to.layout || plan.results.contains(&src) {
        return None;
    }
    let count = |range: Range<usize>, buf: BufId| {
        let mut n = 0;
        let part = steps[range].iter().flatten();
        part.for_each(|s| visit(std::slice::from_ref(s), &mut |b, _| n += u32::from(b == buf)));
        n
    };
    let makes = |s: &Option<Step>| matches!(s, Some(Step::Exchange(x)) if x.dst == src && x.beside.is_empty() && !matches!(x.how, How::Transfer(_)));
    let first = steps[..at].iter().rposition(makes)?;
    (count(first..at + 1, src) == uses[src.index()] && count(first..at, dst) == 0).then_some(first..at)
}

fn rename(s: &mut Step, from: BufId, to: BufId) {
    let one = |b: &mut BufId| {
        if *b == from {
            *b = to;
        }
    };
    match s {
        Step::Call { args, .. } => args.iter_mut().for_each(|a| {
            if let Arg::Array { buf, .. } = a {
                one(buf);
            }
        }),
        Step::Copy { src, dst, .. } => [src, dst].into_iter().for_each(one),
        Step::ReadScalar { buf, .. } => one(buf),
        Step::Host { operands, results, .. } => operands.iter_mut().chain(results).for_each(|o| one(&mut o.0)),
        Step::Exchange(x) | Step::Begin(x) | Step::End(x) => {
            [&mut x.src, &mut x.dst].into_iter().chain(&mut x.temps).for_each(one);
            x.beside.iter_mut().for_each(|x| [&mut x.src, &mut x.dst].into_iter().chain(&mut x.temps).for_each(one));
        }
        Step::While { head, body, .. } => head.iter_mut().chain(body).for_each(|s| rename(s, from, to)),
        Step::Switch { branches, .. } => branches.iter_mut().flatten().for_each(|s| rename(s, from, to)),
        Step::Scalar { .. } => {}
    }
}
