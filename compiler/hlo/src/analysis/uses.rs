//! Who uses what.

use crate::graph::{Computation, NodeId};

/// The users of every node of a computation, in order; a node that takes another twice is listed twice.
pub fn uses(c: &Computation) -> Vec<Vec<NodeId>> {
    let mut out = vec![Vec::new(); c.nodes.len()];
    for id in c.ids() {
        for o in &c.node(id).operands {
            out[o.index()].push(id);
        }
    }
    out
}
