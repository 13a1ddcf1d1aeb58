//! `transfers`: entry parameters in the shape that the program works in.
//!
//! The host's arrays are in row-major order without padding, so that an array may be transferred under any shape of as many
//! elements. Where the program only sees a parameter after a reshape, and that shape takes much less memory on the chip (an
//! image of three channels fills three lanes of each row), the parameter itself gets the shape, and the reshape is gone. The
//! entry's layout keeps the shape that the host knows.

use super::edit::{Draft, reshape_parameters};
use crate::error::CompileError;
use crate::graph::{ArrayShape, Module, Op};
use std::collections::BTreeMap;
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
    let mut out = BTreeMap::new();
    for (number, &p) in entry.params.iter().enumerate() {
        let Some(own) = entry.node(p).shape.as_array() else { continue };
        let row_major = own.layout().iter().rev().map(|&d| usize::from(d)).eq(0..own.rank());
        let shared = module.aliases.iter().any(|a| a.parameter == number);
        if !row_major || shared || own.dynamic.contains(&true) {
            continue;
        }
        let mut users = entry.nodes.iter().filter(|n| n.operands.contains(&p)).peekable();
        let shape = match users.peek() {
            Some(n) if n.op == Op::Reshape => n.shape.as_array().cloned(),
            _ => None,
        };
        let Some(shape) = shape else { continue };
        let alone = users.all(|n| n.op == Op::Reshape && n.shape.as_array() == Some(&shape));
        let bytes = |a: &ArrayShape| Layout::row_major(a.dtype, &a.dims, tile.0, tile.1).bytes();
        if alone && bytes(&shape) * WORTH <= bytes(own) && draft.fire("transfer-shape") {
            out.insert(number, shape.dims);
        }
    }
    out
}
