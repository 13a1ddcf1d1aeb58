//! What makes the next state of a loop writes straight to where the loop keeps it.
//!
//! A loop's state has a place of its own; what the body gives for it is copied there at the end. What makes it may as well write
//! there from the beginning, if nothing wants what the state held any more: an exchange to a place in HBM (other devices write
//! to an exchange's array only after this one has begun the exchange, which it does once its own uses are over), kernels to one in
//! vector memory. A loop of elementwise operations may read what the state held at each point before it writes there.

use super::super::collective::How;
use super::super::spec::KernelSpec;
use super::super::step::{Arg, BufferKind, Draft, Step, Unit, Use};
use super::super::view::BufId;
use super::reach::visit;
use std::ops::Range;
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::{ExprOp, Input, LaneMap, LoopSpec};

/// Renames results of exchanges and kernels to the states that they are copied to.
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

/// The steps from the one that makes `src` to its copy to the state `dst`, if these alone use the former and none of
/// them the latter.
fn alone(
    plan: &Draft,
    uses: &[u32],
    steps: &[Option<Step>],
    (src, dst, at): (BufId, BufId, usize),
) -> Option<Range<usize>> {
    let [from, to] = [src, dst].map(|b| &plan.buffers[b.index()]);
    let far = to.kind == BufferKind::FarState;
    let kinds = from.kind == BufferKind::Temp && (far || to.kind == BufferKind::State);
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
    if far {
        let first = steps[..at].iter().rposition(makes)?;
        return (count(first..at + 1, src) == uses[src.index()] && count(first..at, dst) == 0).then_some(first..at);
    }
    // A state's place is taken when its loop begins: what it begins with is no earlier there.
    if count(at + 1..steps.len(), dst) > 0 {
        return None;
    }
    let first = (0..at).find(|&i| count(i..i + 1, src) > 0)?;
    let Some(Step::Call { kernel, args, .. }) = &steps[first] else { return None };
    let own = count(first..first + 1, dst);
    let free = count(first + 1..at, dst) == 0 && (own == 0 || in_place(plan, *kernel, args, (src, dst)));
    let near = steps[first..at].iter().flatten().all(|s| is_near(s, src));
    let made = args.iter().any(|a| matches!(a, Arg::Array { buf, usage, .. } if *buf == src && *usage != Use::Read));
    (made && near && free && count(first..at + 1, src) == uses[src.index()]).then_some(first..at)
}

/// Whether a step leaves an array alone or reaches it in vector memory.
fn is_near(s: &Step, buf: BufId) -> bool {
    let mut uses = 0;
    visit(std::slice::from_ref(s), &mut |b, _| uses += u32::from(b == buf));
    let Step::Call { args, .. } = s else { return uses == 0 };
    let far = |a: &Arg| matches!(a, Arg::Array { buf: b, unit: Unit::Granules, .. } if *b == buf);
    !args.iter().any(far)
}

/// Whether a call whose result is `src` may have it where `dst` is, which it reads: every element is read before the one of the result is
/// written in its place, and by nothing else.
fn in_place(plan: &Draft, kernel: usize, args: &[Arg], (src, dst): (BufId, BufId)) -> bool {
    let KernelSpec::Body(Body::Loop(spec)) = &plan.kernels[kernel].spec else { return false };
    let at = |buf: BufId| move |a: &&Arg| matches!(a, Arg::Array { buf: b, .. } if *b == buf);
    let Some(result) = args.iter().position(|a| at(src)(&a)) else { return false };
    let whole = |a: &Arg| {
        let Arg::Array { offset, dynamic, unit, .. } = a else { return false };
        *offset == 0 && dynamic.is_empty() && *unit == Unit::ElementRows
    };
    let read: Vec<usize> = (0..args.len()).filter(|&i| at(dst)(&&args[i])).collect();
    let alone = args.iter().filter(at(src)).count() == 1 && !plan.splits.contains_key(&kernel);
    alone
        && whole(&args[result])
        && read.iter().all(|&i| i < spec.inputs.len() && whole(&args[i]))
        && result.checked_sub(spec.inputs.len()).is_some_and(|o| reads_before(spec, o, &read))
}

/// Whether a kernel reads each element of these inputs for the result of that number, at the place of the latter.
fn reads_before(spec: &LoopSpec, result: usize, inputs: &[usize]) -> bool {
    let Some(out) = spec.outputs.get(result) else { return false };
    let mut needed = vec![false; spec.expr.nodes.len()];
    needed[out.node as usize] = true;
    for i in (0..needed.len()).rev() {
        if needed[i] {
            spec.expr.nodes[i].args.iter().for_each(|&a| needed[a as usize] = true);
        }
    }
    let reads = |op: &ExprOp| matches!(op, ExprOp::Input(i) if inputs.contains(&(*i as usize)));
    let same = |i: &usize| matches!(&spec.inputs[*i], Input::Array(a) if *a == out.access);
    spec.expr.reductions.is_empty()
        && matches!(out.access.lane, LaneMap::Tile { .. })
        && inputs.iter().all(same)
        && spec.expr.nodes.iter().zip(&needed).all(|(n, needed)| *needed || !reads(&n.op))
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
