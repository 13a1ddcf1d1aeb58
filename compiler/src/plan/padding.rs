//! How much of the arrays that an operation works on is padding: lanes and rows that memory has and the program does not.
//! Units that move or compute these are busy, but what they do there is not useful.

use super::place::reach::visit;
use super::step::{Draft, Step};
use super::view::BufId;
use std::collections::{BTreeMap, BTreeSet};
use systole_isa::Layout;

/// Elements of an array, in all of its components.
fn elements(l: &Layout) -> f64 {
    l.dims.iter().map(|&d| d as f64).product::<f64>() * l.dtype.components() as f64
}

/// The places that its memory has for them.
fn places(l: &Layout) -> f64 {
    l.total_rows() as f64 * f64::from(l.lanes) * l.dtype.components() as f64
}

fn collect(steps: &[Step], out: &mut BTreeMap<u32, BTreeSet<BufId>>) {
    for s in steps {
        let op = match s {
            Step::Call { op, .. } | Step::Copy { op, .. } | Step::ReadScalar { op, .. } | Step::Host { op, .. } => *op,
            Step::Exchange(x) | Step::Begin(x) | Step::End(x) => x.op,
            Step::Scalar { .. } => continue,
            Step::While { .. } | Step::Switch { .. } => {
                s.regions().for_each(|region| collect(region, out));
                continue;
            }
        };
        let arrays = out.entry(op).or_default();
        visit(std::slice::from_ref(s), &mut |b, _| {
            arrays.insert(b);
        });
    }
}

/// Notes of every operation the share of its arrays' memory that is padding.
pub(super) fn note(draft: &mut Draft) {
    let mut arrays = BTreeMap::new();
    collect(&draft.steps, &mut arrays);
    for (op, arrays) in arrays {
        // By bytes: wide arrays move more.
        let sum = |of: fn(&Layout) -> f64| -> f64 {
            let layouts = arrays.iter().map(|b| &draft.buffers[b.index()].layout);
            layouts.map(|l| of(l) * l.bytes() as f64 / places(l).max(1.0)).sum()
        };
        let (used, all) = (sum(elements), sum(places));
        if let Some(o) = draft.ops.get_mut(op as usize)
            && all > 0.0
        {
            o.padding = (1.0 - used / all).clamp(0.0, 1.0);
        }
    }
}
