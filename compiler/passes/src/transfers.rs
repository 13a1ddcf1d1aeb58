//! `transfers`: entry parameters in the shape that the program works in.
//!
//! The host's arrays are in row-major order without padding, so that an array may be transferred under any shape of as many
//! elements. Where the program only sees a parameter after a reshape, and that shape takes much less memory on the chip (an
//! image of three channels fills three lanes of each row), the parameter itself gets the shape, and the reshape is gone. The
//! entry's layout keeps the shape that the host knows.

use super::edit::{Draft, reshape_parameters};
use std::collections::BTreeMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Module, Node, NodeId, Op};
use systole_isa::Layout;

/// A shape is changed when that saves this factor of the array's memory.
const WORTH: u64 = 2;

/// Runs the pass; `tile` is the chip's sublanes and lanes.
pub fn run(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let shapes = shapes(&module, draft, tile);
    if shapes.is_empty() {
        return Ok(module);
    }
    reshape_parameters(module, draft, &shapes)
}

/// The new sizes of parameters, by number.
fn shapes(module: &Module, draft: &mut Draft, tile: (u32, u32)) -> BTreeMap<usize, Vec<u64>> {
    let entry = module.entry();
    let mut users: BTreeMap<NodeId, Vec<&Node>> = entry.params.iter().map(|&p| (p, Vec::new())).collect();
    for n in &entry.nodes {
        for o in &n.operands {
            users.entry(*o).and_modify(|u| u.push(n));
        }
    }
    let mut out = BTreeMap::new();
    for (number, &p) in entry.params.iter().enumerate() {
        let Some(own) = entry.node(p).shape.as_array() else { continue };
        let row_major = own.layout().iter().rev().map(|&d| usize::from(d)).eq(0..own.rank());
        let shared = module.aliases.iter().any(|a| a.parameter == number);
        if !row_major || shared || own.dynamic.contains(&true) {
            continue;
        }
        let users = &users[&p];
        let Some(shape) = users.first().and_then(|n| n.shape.as_array()) else { continue };
        let alone = users.iter().all(|n| n.op == Op::Reshape && n.shape.as_array() == Some(shape));
        let bytes = |a: &ArrayShape| Layout::row_major(a.dtype, &a.dims, tile.0, tile.1).bytes();
        if alone && bytes(shape) * WORTH <= bytes(own) && draft.fire("transfer-shape") {
            out.insert(number, shape.dims.clone());
        }
    }
    out
}
