//! What a region costs at its border, and which are worth it.

use super::channels::{self, Product};
use super::{LEAST, arrays, best, bytes, find, follows, free_parameters, is_made, order_of, permuted};
use crate::loops::{element_of_parameter, is_handed_on};
use crate::make::inverse;
use crate::transfers::narrow::{merged, reshape_turned_by};
use systole_hlo::graph::{ArrayShape, Computation, Node, NodeId, Op, Shape};

/// A region is turned if that saves this factor of what its border costs.
const WORTH: u64 = 2;
/// What it costs to move an element to another lane, as bytes of HBM traffic: transposes of short dimensions take about half a
/// cycle an element.
const TURN_BYTES: u64 = 240;
/// The same of rows of at least [`LONG`] elements, which turn a register at a time: 0.013 cycles an element, and as much for each of
/// three neighbours of the region's that could have been done with it without the border.
const LONG_TURN_BYTES: u64 = 32;
/// Elements of a row of which most of a register is used while it is turned.
const LONG: u64 = 16;
/// Times that the elements of a compact array pass on their way to or from narrow rows that are turned, beyond what they do on that to
/// rows as they are.
const RELAID: u64 = 2;

/// Leaves the regions alone that are not worth their borders.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation stores an order")]
pub(super) fn keep_worthy(
    comp: &Computation,
    (tile, vmem_bytes, entry): ((u32, u32), u64, bool),
    orders: &mut [Option<Vec<usize>>],
    parents: &mut [usize],
    products: &[Option<Product>],
) {
    let n = comp.nodes.len();
    let free = if entry { free_parameters(comp, orders) } else { vec![false; n] };
    let mut saved = vec![0u64; n];
    let mut border = vec![0u64; n];
    // A transpose reads one form and writes the other.
    let crossing_of = |a: &ArrayShape| -> u64 {
        // Along one dimension nothing changes places.
        if a.dims.iter().filter(|&&d| d != 1).count() < 2 {
            return 0;
        }
        let least = bytes(a, &permuted(&a.dims, &best(a, tile)), tile);
        let turn = if a.dims.last().is_some_and(|&d| d >= LONG) { LONG_TURN_BYTES } else { TURN_BYTES };
        bytes(a, &a.dims, tile) + least + turn * a.elements()
    };
    let crossing = |id: NodeId| comp.node(id).shape.as_array().map_or(0, crossing_of);
    let relaid = |n: &Node| n.shape.as_array().map_or(0, |a| a.elements() * a.dtype.host_bytes() as u64 * RELAID);
    let gone = channels::rows_gone(comp, products);
    let mut left = vec![false; n];
    for (i, node) in comp.nodes.iter().enumerate() {
        let Some(p) = orders[i].clone() else {
            if gone[i] {
                continue;
            }
            for o in &node.operands {
                // Reductions and transposes take any order.
                let result = entry && comp.root.index() == i && node.op == Op::Tuple;
                let takes = result || matches!(node.op, Op::Reduce { .. } | Op::Transpose { .. });
                let packs = |p: &Vec<usize>| {
                    let along = reshape_turned_by(comp, node, tile).filter(|(_, unpacks)| !unpacks);
                    along.is_some_and(|(d, _)| p.last() == Some(&d))
                };
                if orders[o.index()].as_ref().is_some_and(packs) {
                    border[find(parents, o.index())] += relaid(node);
                    continue;
                }
                let as_lies = |p: &Vec<usize>| put_together(comp, node, *o, p, tile);
                if let Some(moved) = orders[o.index()].as_ref().and_then(as_lies) {
                    border[find(parents, o.index())] += moved;
                    continue;
                }
                let merges = |p: &Vec<usize>| merged_sizes(comp, node, p).filter(|_| node.operands[0] == *o);
                if let Some((whole, beside)) = orders[o.index()].as_ref().and_then(merges) {
                    // Rows that do not follow each other yet are read and written once more.
                    let moved = |a: &ArrayShape| bytes(a, &permuted(&a.dims, &best(a, tile)), tile) * 2;
                    border[find(parents, o.index())] += crossing_of(&whole) + if beside { 0 } else { moved(&whole) };
                    continue;
                }
                let takes = takes || orders[o.index()].as_ref().is_some_and(|p| channels::is_right(node, *o, p));
                if orders[o.index()].is_some() && !takes && !std::mem::replace(&mut left[o.index()], true) {
                    let region = find(parents, o.index());
                    border[region] += crossing(*o);
                }
            }
            continue;
        };
        let region = find(parents, i);
        if let Some(a) = node.shape.as_array() {
            saved[region] += bytes(a, &a.dims, tile) - bytes(a, &permuted(&a.dims, &p), tile);
        }
        if let Some((_, true)) = reshape_turned_by(comp, node, tile) {
            border[region] += relaid(node);
            continue;
        }
        let product = products[i].as_ref();
        if let (Some(product), Some(a)) = (product, node.shape.as_array()) {
            border[region] += product.gathered(a, (tile, vmem_bytes)) + crossing_of(&product.sizes);
        } else if let Op::Dot { dims, .. } = &node.op
            && dims.rhs_contracting != dims.lhs_contracting
        {
            border[region] += crossing(node.operands[1]);
        }
        let sources = match product {
            Some(product) => vec![(product.source, order_of(comp, orders, product.source).map(|q| q.0))],
            None => {
                let order =
                    |o: usize| order_of(comp, orders, node.operands[o]).and_then(|q| follows(comp, node, o, &q.0));
                arrays(comp, node).into_iter().map(|o| (node.operands[o], order(o))).collect()
            }
        };
        for (from, q) in sources {
            let meets = q.is_some_and(|q| q == p);
            // What is broadcast along new dimensions only may lie as before.
            let stays = match &node.op {
                Op::Broadcast { dims } => {
                    let back = inverse(&p);
                    dims.windows(2).all(|w| back[w[0]] < back[w[1]])
                }
                _ => false,
            };
            let turned = matches!(comp.node(from).op, Op::Transpose { .. });
            // What a loop does not change is turned once, before it.
            let same = element_of_parameter(comp, from).is_some_and(|i| is_handed_on(comp, i));
            let cheap = stays || turned || free[from.index()] || is_made(comp, from) || same;
            if !meets && !cheap {
                border[region] += crossing(from);
            }
        }
    }
    if orders[comp.root.index()].is_some() && !entry {
        border[find(parents, comp.root.index())] += crossing(comp.root);
    }
    for (i, order) in orders.iter_mut().enumerate() {
        let region = find(parents, i);
        if saved[region] < LEAST || saved[region] < WORTH * border[region] {
            *order = None;
        }
    }
    // Reductions follow what they reduce: their order is that of their operand's dimensions, so what reduces theirs has none.
    for (i, node) in comp.nodes.iter().enumerate() {
        let Op::Reduce { .. } = node.op else { continue };
        let from = node.operands[0];
        if !matches!(comp.node(from).op, Op::Reduce { .. }) {
            orders[i] = orders[from.index()].clone();
        }
    }
}

/// Bytes that the reshape `n` of `operand` moves where that lies in the order `p` and only its dimensions of one element would be turned
/// back: it is a reshape of what is turned.
fn put_together(comp: &Computation, n: &Node, operand: NodeId, p: &[usize], tile: (u32, u32)) -> Option<u64> {
    let to = n.shape.as_array().filter(|_| n.op == Op::Reshape)?;
    let dims = &comp.node(operand).shape.as_array()?.dims;
    let stays = p.iter().filter(|&&d| dims[d] != 1).is_sorted();
    stays.then(|| bytes(to, &permuted(dims, p), tile) + bytes(to, &to.dims, tile))
}

/// What a reshape that puts the last dimensions of its operand together makes, with those before as they were, where the operand lies
/// in the order `p` with none of the dimensions along lanes; and whether they follow each other there, above others.
fn merged_sizes(comp: &Computation, n: &Node, p: &[usize]) -> Option<(ArrayShape, bool)> {
    let to = n.shape.as_array().filter(|_| n.op == Op::Reshape)?;
    let from = comp.node(n.operands[0]).shape.as_array()?;
    let (lead, sizes) = merged(&from.dims, &to.dims)?;
    let lies = &inverse(p)[lead..];
    let follow = lies.windows(2).all(|w| w[1] == w[0] + 1);
    let outside = lies.iter().all(|l| l + 1 < p.len());
    let above = lies.iter().all(|l| l + 2 < p.len());
    let fits = outside && (above || !follow);
    fits.then(|| Shape::array(to.dtype, &sizes).as_array().cloned().map(|a| (a, follow)))?
}
