//! How far kernels read beyond the arrays they are given.
//!
//! The last registers of a kernel's rows may be partly filled: their loads still read a row for every sublane. Where a
//! kernel steps through an array by several rows, that is far; the array's place in vector memory is made so much longer
//! that nothing else is read (another's copy may be on its way).

use super::step::{Arg, KernelKey, Plan, Step};
use crate::emit::blocks::Body;
use crate::emit::loops::spec::{Access, Input};
use systole_isa::ChipConfig;

/// Word rows behind every buffer, by number.
pub fn rows(plan: &Plan, chip: &ChipConfig) -> Vec<u64> {
    let mut kernels: Vec<Vec<u64>> = vec![Vec::new(); plan.kernels.len()];
    for (key, &k) in &plan.keys {
        if let (KernelKey::Body(body), Some(list)) = (key, kernels.get_mut(k)) {
            *list = inputs(body, chip.core.sublanes);
        }
    }
    let mut out = vec![0; plan.buffers.len()];
    walk(&plan.steps, &kernels, &mut out);
    out
}

/// For each input of a kernel.
fn inputs(body: &Body, sublanes: u32) -> Vec<u64> {
    let (rows, inputs) = match body {
        Body::Loop(l) => (l.rows, &l.inputs),
        Body::Reduce(r) => (r.rows, &r.inputs),
        Body::Move(_) => return Vec::new(),
    };
    let missing = u64::from(rows.next_multiple_of(sublanes) - rows);
    let far = |a: &Access| missing * a.row.unsigned_abs();
    inputs.iter().map(|i| if let Input::Array(a) = i { far(a) } else { 0 }).collect()
}

fn walk(steps: &[Step], kernels: &[Vec<u64>], out: &mut [u64]) {
    for s in steps {
        match s {
            Step::Call { kernel, args, .. } => {
                for (arg, far) in args.iter().zip(&kernels[*kernel]) {
                    if let Arg::Array { buf, .. } = arg {
                        out[buf.index()] = out[buf.index()].max(*far);
                    }
                }
            }
            Step::While { head, body, .. } => {
                walk(head, kernels, out);
                walk(body, kernels, out);
            }
            Step::Switch { branches, .. } => branches.iter().for_each(|b| walk(b, kernels, out)),
            Step::Copy { .. }
            | Step::Scalar { .. }
            | Step::ReadScalar { .. }
            | Step::Host { .. }
            | Step::Exchange(_) => {}
        }
    }
}
