//! `ahead`: collectives of a loop's body begun an iteration ahead, or ended an iteration later.
//!
//! The body of a loop over layers gathers its weights, computes, and scatters its gradients: every iteration waits for both,
//! though the weights of the next one depend on nothing that this one computes and nobody reads the gradients before the
//! loop ends. The body is taken apart ([`parts`]) into a head (collectives that follow from the counter and from what does
//! not change, with what they need), a tail (collectives that only accumulated elements of the state need, with what follows
//! them), and the rest. An iteration then does its own rest beside the head of the next iteration and the tail of the last
//! one, whose arrays the state carries. Data flow says what hides what.
//!
//! Two iterations are a round of the new loop, so that what is carried goes from one array to another and back and is not
//! copied, and sums on the way from one iteration to the next have work beside them. The first iterations (without a tail)
//! and the last ones (without a head) are written out.

mod parts;
mod rounds;

use super::element_of_parameter;
use crate::edit::{Draft, rewrite};
use crate::options::PassOptions;
use parts::Parts;
use rounds::Rounds;
use rustc_hash::FxHashMap;
use systole_hlo::analysis::counted_loop;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Module, NodeId, Op};

/// What the rewrite of a loop is called.
pub const LABEL: &str = "ahead";
/// Iterations of a loop below which it stays: there is nothing to begin ahead of.
const LEAST_TRIPS: u64 = 3;

/// Runs the pass.
pub fn run(module: Module, draft: &mut Draft, o: &PassOptions) -> Result<Module, CompileError> {
    if !o.ahead || o.asked.pod.devices() <= 1 {
        return Ok(module);
    }
    // How often loops run, which their copies run too: a rewritten loop has the same state.
    let mut trips: FxHashMap<(usize, NodeId), u64> = FxHashMap::default();
    for (index, c) in module.computations.iter().enumerate() {
        for id in c.ids().filter(|&id| matches!(c.node(id).op, Op::While { .. })) {
            let counted = counted_loop(&module, c, id).and_then(|l| l.trips);
            if let Some(t) = counted.filter(|&t| t >= LEAST_TRIPS) {
                trips.insert((index, id), t);
            }
        }
    }
    if trips.is_empty() {
        return Ok(module);
    }
    let mut channels = module.last_channel();
    rewrite(module, draft, &mut |b, n, operands| {
        let Op::While { body, .. } = n.op else { return Ok(None) };
        let Some(&trips) = trips.get(&b.place()) else { return Ok(None) };
        let body = b.draft.computations[body.index()].clone();
        let Some(parts) = Parts::of(&body, &b.draft.computations, o) else { return Ok(None) };
        if !b.draft.fire(LABEL) {
            return Ok(None);
        }
        let state = b.elements_of(operands[0]);
        let state = Rounds { body: &body, parts: &parts, channels: &mut channels }.all(b, &n.name, &state, trips)?;
        b.on_behalf_of(n);
        Ok(Some(b.tuple(&state)))
    })
}
