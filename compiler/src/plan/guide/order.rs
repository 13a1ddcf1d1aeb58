//! Steps in the order that a schedule pins: what is named first comes before what is named second.

use super::{Schedule, impossible, is_named};
use crate::plan::overlap::{Item, touches};
use crate::plan::step::{Draft, Step};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use systole_hlo::error::CompileError;

/// Puts the steps of a draft in the order that the schedule asks for; else their order stays.
///
/// # Errors
/// An order that what steps read and write does not allow.
pub fn pinned(draft: &mut Draft, schedule: &Schedule) -> Result<(), CompileError> {
    for wish in schedule.orders() {
        let steps = std::mem::take(&mut draft.steps);
        draft.steps = region(steps, draft, wish)?;
    }
    Ok(())
}

/// Patterns of what comes first and what comes after it, with the pin's line.
type Wish<'a> = (&'a str, &'a str, usize);

fn region(steps: Vec<Step>, draft: &Draft, wish: Wish<'_>) -> Result<Vec<Step>, CompileError> {
    let mut all = Vec::with_capacity(steps.len());
    for s in steps {
        all.push(s.try_map_regions(|steps| region(steps, draft, wish))?);
    }
    let named = |pattern: &str| places(&all, draft, pattern);
    let (before, after) = (named(wish.0), named(wish.1));
    if before.is_empty() || after.is_empty() {
        return Ok(all);
    }
    sorted(all, &before, &after)
        .ok_or_else(|| impossible(wish.2, format!("`{}` needs what `{}` makes", wish.0, wish.1)))
}

/// Which of the steps are of operations that a pattern names.
pub fn places(steps: &[Step], draft: &Draft, pattern: &str) -> BTreeSet<usize> {
    let is = |s: &Step| name_of(s, draft).is_some_and(|name| is_named(pattern, name));
    (0..steps.len()).filter(|&i| is(&steps[i])).collect()
}

/// The name of a step's operation.
pub fn name_of<'a>(s: &Step, draft: &'a Draft) -> Option<&'a str> {
    let op = match s {
        Step::Call { op, .. }
        | Step::Copy { op, .. }
        | Step::ReadScalar { op, .. }
        | Step::Host { op, .. }
        | Step::While { op, .. }
        | Step::Switch { op, .. } => *op,
        Step::Exchange(x) | Step::Begin(x) | Step::End(x) => x.op,
        Step::Scalar { .. } => return None,
    };
    draft.ops.get(op as usize).map(|o| o.name.as_str())
}

/// The steps with all of `before` before all of `after`, otherwise as early in the old order as may be; `None` if something
/// in between needs both ways.
fn sorted(steps: Vec<Step>, before: &BTreeSet<usize>, after: &BTreeSet<usize>) -> Option<Vec<Step>> {
    let mut needs: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); steps.len()];
    let mut written: FxHashMap<Item, usize> = FxHashMap::default();
    let mut readers: FxHashMap<Item, Vec<usize>> = FxHashMap::default();
    for (i, s) in steps.iter().enumerate() {
        let mut touched = Vec::new();
        touches(s, &mut |item, writes| touched.push((item, writes)));
        for &(item, writes) in &touched {
            needs[i].extend(written.get(&item));
            if writes {
                needs[i].extend(readers.remove(&item).into_iter().flatten());
            }
        }
        for (item, writes) in touched {
            if writes {
                written.insert(item, i);
            } else {
                readers.entry(item).or_default().push(i);
            }
        }
        if after.contains(&i) {
            needs[i].extend(before);
        }
        needs[i].remove(&i);
    }
    let mut left: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut open: BTreeSet<usize> = (0..left.len()).collect();
    let mut out = Vec::with_capacity(left.len());
    while !open.is_empty() {
        let next = open.iter().copied().find(|&i| needs[i].is_disjoint(&open))?;
        open.remove(&next);
        out.extend(left[next].take());
    }
    Some(out)
}
