//! Entry parameters and results in the shape and order that the program works in (`--entry-layout auto`).
//!
//! Where the program only sees a parameter after a reshape, and that shape takes much less memory on the chip, the parameter itself
//! gets the shape, and the reshape is gone. So with orders of dimensions: a parameter that the program only
//! sees transposed, and a result that is a transpose, are transferred transposed where that takes much less memory. The
//! parameter or result then has the transposed sizes.
//!
//! Where the entry's layout is not row-major (of an array that the program has in row-major order), the program has the dimensions in
//! that order.

use super::super::edit::{Draft, reshape_parameters, rewrite};
use super::super::make::inverse;
use super::rule::result_nodes as results;
use std::collections::BTreeMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Module, Node, NodeId, Op, Shape};
use systole_isa::Layout;

/// A shape is changed when that saves this factor of the array's memory.
const WORTH: u64 = 2;

/// Runs the pass; `tile` is the chip's sublanes and lanes.
pub fn run(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let shapes = shapes(&module, draft, tile);
    let module = if shapes.is_empty() { module } else { reshape_parameters(module, draft, &shapes)? };
    let orders = orders(&module, tile);
    if orders.is_empty() {
        return Ok(module);
    }
    let module = ordered(module, draft, &orders);
    rewrite(module, draft, &mut |_, _, _| Ok(None))
}

/// A parameter (by number) or a result (by number) that is transferred in another order: physical dimension `i` is
/// dimension `order[i]` of what the host knows.
struct Ordered {
    what: Border,
    order: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Border {
    Parameter(usize),
    Result(usize),
}

/// What is worth another order. What shares memory with another array has that one's order too, or none.
fn orders(module: &Module, tile: (u32, u32)) -> Vec<Ordered> {
    let entry = module.entry();
    let Some((known, known_result)) = &module.entry_layout else { return Vec::new() };
    let bytes = |a: &ArrayShape| Layout::row_major(a.dtype, &a.dims, tile.0, tile.1).bytes();
    let compact = |wide: &ArrayShape, narrow: &ArrayShape| bytes(narrow) * WORTH <= bytes(wide);
    let usual = |s: Option<&Shape>, own: &ArrayShape| {
        let a = s.and_then(Shape::as_array);
        a.is_some_and(|a| a.dims == own.dims && a.minor_to_major.is_none() && !a.dynamic.contains(&true))
    };
    let mut out = Vec::new();
    for (number, &p) in entry.params.iter().enumerate() {
        let Some(own) = entry.node(p).shape.as_array() else { continue };
        let users: Vec<&Node> = entry.nodes.iter().filter(|n| n.operands.contains(&p)).collect();
        let Some((Op::Transpose { permutation }, seen)) =
            users.first().and_then(|n| Some((&n.op, n.shape.as_array()?)))
        else {
            continue;
        };
        let alone = entry.root != p && users.iter().all(|n| n.op == users[0].op);
        if alone && own.minor_to_major.is_none() && usual(known.get(number), own) && compact(own, seen) {
            out.push(Ordered { what: Border::Parameter(number), order: permutation.clone() });
        }
    }
    let leaves = known_result.leaves();
    for (number, &r) in results(entry).iter().enumerate() {
        let node = entry.node(r);
        let (Op::Transpose { permutation }, Some(own)) = (&node.op, node.shape.as_array()) else { continue };
        let Some(from) = entry.node(node.operands[0]).shape.as_array() else { continue };
        let plain = leaves.get(number).is_some_and(|a| usual(Some(&Shape::Array((*a).clone())), own));
        if plain && own.minor_to_major.is_none() && compact(own, from) {
            out.push(Ordered { what: Border::Result(number), order: inverse(permutation) });
        }
    }
    let order_of = |out: &[Ordered], what: Border| out.iter().find(|o| o.what == what).map(|o| o.order.clone());
    for a in &module.aliases {
        let pair = [Border::Parameter(a.parameter), Border::Result(a.output.first().copied().unwrap_or(0))];
        if order_of(&out, pair[0]) != order_of(&out, pair[1]) {
            out.retain(|o| !pair.contains(&o.what));
        }
    }
    out
}

/// The module with the arrays in their orders; transposes of parameters are gone.
fn ordered(mut module: Module, draft: &mut Draft, orders: &[Ordered]) -> Module {
    for o in orders {
        if !draft.fire("transfer-order") {
            break;
        }
        let physical = |a: &ArrayShape| {
            let dims: Vec<u64> = o.order.iter().map(|&d| a.dims[d]).collect();
            Shape::array(a.dtype, &dims)
        };
        let laid = |s: &mut Shape| {
            if let Shape::Array(a) = s {
                a.minor_to_major = Some(o.order.iter().rev().map(|&d| d as u8).collect());
            }
        };
        let entry = &mut module.computations[module.entry.index()];
        match o.what {
            Border::Parameter(number) => {
                let p = entry.params[number];
                let Some(own) = entry.node(p).shape.as_array().cloned() else { continue };
                entry.nodes[p.index()].shape = physical(&own);
                let users: Vec<bool> = entry.nodes.iter().map(|n| n.operands.contains(&p)).collect();
                let through = |id: &mut NodeId| {
                    if users[id.index()] {
                        *id = p;
                    }
                };
                entry.nodes.iter_mut().flat_map(|n| &mut n.operands).for_each(through);
                through(&mut entry.root);
                if let Some((known, _)) = &mut module.entry_layout {
                    laid(&mut known[number]);
                }
            }
            Border::Result(number) => {
                let r = results(entry)[number];
                let from = entry.node(r).operands[0];
                let shape = entry.node(from).shape.clone();
                if entry.root == r {
                    entry.root = from;
                } else {
                    let root = &mut entry.nodes[entry.root.index()];
                    root.operands[number] = from;
                    if let Shape::Tuple(parts) = &mut root.shape {
                        parts[number] = shape;
                    }
                }
                match module.entry_layout.as_mut().map(|l| &mut l.1) {
                    Some(Shape::Tuple(parts)) => laid(&mut parts[number]),
                    Some(one) => laid(one),
                    None => {}
                }
            }
        }
    }
    module
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
