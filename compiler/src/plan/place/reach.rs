//! What steps read and write, with the steps inside of them.

use super::super::step::{Arg, Step, Unit, Use};
use super::super::view::BufId;
use std::collections::BTreeMap;

/// Whether the chain of copies from `dst`, a copy of `src`, ends in `src`.
pub(super) fn returns(src: BufId, dst: BufId, rest: &[Step]) -> bool {
    let mut last = dst;
    for s in rest {
        if let Step::Copy { src: from, dst: to, .. } = s
            && *from == last
        {
            if *to == src {
                return true;
            }
            last = *to;
        }
    }
    false
}

pub(super) fn reads(steps: &[Step], buf: BufId) -> bool {
    steps.iter().any(|s| match s {
        Step::Call { args, .. } => {
            args.iter().any(|a| matches!(a, Arg::Array { buf: b, usage, .. } if *b == buf && *usage != Use::Write))
        }
        Step::Copy { src, .. } => *src == buf,
        Step::ReadScalar { buf: b, .. } => *b == buf,
        Step::Host { operands, .. } => operands.iter().any(|o| o.0 == buf),
        Step::Exchange(x) | Step::Begin(x) | Step::End(x) => x.all().any(|x| x.src == buf),
        Step::Scalar { .. } => false,
        Step::While { .. } | Step::Switch { .. } => s.regions().any(|region| reads(region, buf)),
    })
}

pub(in crate::plan) fn visit(steps: &[Step], f: &mut dyn FnMut(BufId, bool)) {
    for s in steps {
        match s {
            Step::Call { args, .. } => {
                for a in args {
                    if let Arg::Array { buf, usage, .. } = a {
                        f(*buf, *usage != Use::Read);
                    }
                }
            }
            Step::Copy { src, dst, .. } => {
                f(*src, false);
                f(*dst, true);
            }
            Step::ReadScalar { buf, .. } => f(*buf, false),
            Step::Host { operands, results, .. } => {
                operands.iter().for_each(|b| f(b.0, false));
                results.iter().for_each(|b| f(b.0, true));
            }
            Step::Exchange(x) | Step::Begin(x) | Step::End(x) => x.arrays(f),
            Step::Scalar { .. } => {}
            Step::While { .. } | Step::Switch { .. } => s.regions().for_each(|region| visit(region, f)),
        }
    }
}

pub(super) fn buffers_of(steps: &[Step], out: &mut Vec<BufId>) {
    visit(steps, &mut |b, _| out.push(b));
}

pub(super) fn written_in(steps: &[Step], out: &mut Vec<BufId>) {
    visit(steps, &mut |b, w| {
        if w {
            out.push(b);
        }
    });
}

/// The buffers of which the kernels in a loop's steps read slices at places that change, and nothing else is used.
pub(super) fn sliced_in(steps: &[&[Step]]) -> Vec<BufId> {
    let mut uses = Vec::new();
    let mut slices: BTreeMap<BufId, usize> = BTreeMap::new();
    for s in steps {
        buffers_of(s, &mut uses);
        count_slices(s, &mut slices);
    }
    let all = |&(b, n): &(BufId, usize)| uses.iter().filter(|u| **u == b).count() == n;
    slices.into_iter().filter(all).map(|(b, _)| b).collect()
}

/// Every call of a kernel in steps, in order.
fn each_call(steps: &[Step], f: &mut dyn FnMut(usize, &[Arg])) {
    Step::each(steps, &mut |s| {
        if let Step::Call { kernel, args, .. } = s {
            f(*kernel, args);
        }
    });
}

fn count_slices(steps: &[Step], slices: &mut BTreeMap<BufId, usize>) {
    each_call(steps, &mut |_, args| {
        for a in args {
            if let Arg::Array { buf, usage: Use::Read, dynamic, .. } = a
                && !dynamic.is_empty()
            {
                *slices.entry(*buf).or_default() += 1;
            }
        }
    });
}

/// What the kernels in steps read in vector memory: each array, and whether of it only parts at places that change.
#[derive(Default)]
pub(super) struct Near {
    pub read: BTreeMap<BufId, bool>,
    /// The kernels.
    pub kernels: Vec<usize>,
}

impl Near {
    pub fn add(&mut self, steps: &[Step]) {
        each_call(steps, &mut |kernel, args| {
            self.kernels.push(kernel);
            for a in args {
                if let Arg::Array { buf, usage: Use::Read, unit, dynamic, .. } = a
                    && *unit != Unit::Granules
                {
                    let parts = self.read.entry(*buf).or_insert(true);
                    *parts &= !dynamic.is_empty();
                }
            }
        });
    }

    /// The arrays but for large ones of which parts are read alone.
    pub fn arrays(&self, is_large: impl Fn(BufId) -> bool) -> Vec<BufId> {
        self.read.iter().filter(|&(b, parts)| !(*parts && is_large(*b))).map(|(b, _)| *b).collect()
    }
}
