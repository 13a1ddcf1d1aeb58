//! `scan` as a counted loop over slices.

use super::{Inliner, flat_tuple, rebuilt, splice, value::Value};
use crate::edit::Emit;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Node, NodeId, Shape};

/// How a scan goes along its inputs.
pub(super) struct Scan {
    pub dim: usize,
    pub carries: usize,
    pub reverse: bool,
    pub body: CompId,
}

/// The loop's state is the stacked outputs, the carries and the inputs.
pub(super) fn lower(
    cx: &Inliner,
    b: &mut Emit,
    n: &Node,
    scan: &Scan,
    operands: &[NodeId],
) -> Result<Value<NodeId>, CompileError> {
    let wrong = || CompileError::internal("inline", format!("{} lacks operands or results", n.name));
    let inputs = operands.len().checked_sub(scan.carries).filter(|i| *i > 0).ok_or_else(wrong)?;
    let Shape::Tuple(shapes) = flat_tuple(&n.shape) else { return Err(wrong()) };
    let outputs = shapes.len().checked_sub(scan.carries).ok_or_else(wrong)?;
    let trips = b.dims(operands[0])[scan.dim];
    let mut state = Vec::new();
    for s in &shapes[..outputs] {
        let a = s.as_array().ok_or_else(wrong)?;
        state.push(b.splat(a.dtype, &a.dims, 0.0));
    }
    state.extend(&operands[inputs..]);
    state.extend(&operands[..inputs]);
    let flat = &cx.flat[scan.body.index()];
    let at = |b: &mut Emit, x: NodeId, i: NodeId| {
        let zero = b.index(0);
        (0..b.rank(x)).map(|d| if d == scan.dim { i } else { zero }).collect::<Vec<NodeId>>()
    };
    let mut done = b.counted_loop("scan", trips, &state, |b, counter, s| {
        let last = b.index(trips as i64 - 1);
        let i = if scan.reverse { b.sub(last, counter) } else { counter };
        let mut args = Vec::new();
        for &x in &s[outputs + scan.carries..] {
            let mut sizes = b.dims(x).to_vec();
            sizes[scan.dim] = 1;
            let starts = at(b, x, i);
            let part = b.dynamic_slice(x, &starts, &sizes);
            sizes.remove(scan.dim);
            args.push(b.reshape(part, &sizes));
        }
        args.extend(&s[outputs..outputs + scan.carries]);
        let values = splice(b, flat, &args);
        let mut next: Vec<NodeId> = flat.root.map(&mut |i| values[i]).leaves();
        for (k, x) in next.iter_mut().enumerate().take(outputs) {
            let mut sizes = b.dims(s[k]).to_vec();
            sizes[scan.dim] = 1;
            let part = b.reshape(*x, &sizes);
            let starts = at(b, s[k], i);
            *x = b.dynamic_update_slice(s[k], part, &starts);
        }
        next.extend(&s[outputs + scan.carries..]);
        Ok(next)
    })?;
    done.truncate(shapes.len());
    rebuilt(&n.shape, &done)
}
