//! `lanes`: long dimensions along lanes.
//!
//! An array's last dimension lies along lanes; where it is short, most of every row is padding. Regions of operations that do
//! not care how their dimensions are ordered (elementwise ones, slices, reductions and the like) are done on arrays with a
//! longer dimension last, where that saves more memory traffic than the transposes at the region's border cost. Every
//! operation of a region is done on transposed operands and its result transposed back; inside of the region transposes meet
//! and cancel. A product of few columns takes part: its operands trade sides; so do products and convolutions of few channels behind what
//! is turned ([`channels`]). Those at the entry's own border cost nothing where the program chooses how its parameters and results lie
//! (see [`super::transfers`]).

mod borders;
mod channels;
pub mod states;

use super::edit::{Draft, Emit, reachable, rewrite};
use super::make::{array, inverse};
use super::simplify::degenerate_map;
use super::transfers::EntryLayouts;
use super::transfers::narrow::{packed_turned, reshape_turned_by, unpacked_turned};
use borders::keep_worthy;
use channels::Product;
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Computation, DotDims, Gather, Module, Node, NodeId, Op, Shape, WindowDim};
use systole_isa::Layout;

/// Arrays that take less than this factor less memory are left as they are.
const RATIO: u64 = 2;
/// Longest contracted dimension of a product whose operands trade sides: its weights, of which it has many then, are longer under way than
/// its rows were.
const CONTRACTED: u64 = 1024;
/// Bytes that a region saves at least.
const LEAST: u64 = 1 << 19;
/// Parts of the least memory that an order may take which leaves more of the first dimensions in place: five of four.
const NEAR: (u64, u64) = (5, 4);

/// How an operation is done on turned arrays.
struct Turn {
    /// The order of its result's dimensions (of what a reduction reduces).
    order: Vec<usize>,
    /// Whether it is a product of [`channels`].
    product: bool,
}

/// Who decides how a computation's parameters and results lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Border {
    /// Those that call it.
    Callers,
    /// The entry's are given.
    Given,
    /// The program decides how the entry's lie.
    Free,
}

/// Runs the pass; `tile` is the chip's sublanes and lanes.
pub fn run(
    module: Module,
    draft: &mut Draft,
    (tile, vmem_bytes, layouts): ((u32, u32), u64, EntryLayouts),
) -> Result<Module, CompileError> {
    let border = |c: usize| match layouts {
        _ if c != module.entry.index() => Border::Callers,
        EntryLayouts::Auto => Border::Free,
        EntryLayouts::Default => Border::Given,
    };
    let wanted = reachable(&module);
    // In the order in which operations are rewritten.
    let mut turns = Vec::new();
    for (i, c) in module.computations.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        let turned = turns_of(c, (tile, vmem_bytes), border(i));
        let nodes = c.nodes.iter().zip(turned).filter(|(n, _)| !matches!(n.op, Op::Parameter { .. }));
        turns.extend(nodes.map(|(_, t)| t));
    }
    if turns.iter().all(Option::is_none) {
        return Ok(module);
    }
    let mut turns = turns.into_iter();
    rewrite(module, draft, &mut |b, n, operands| {
        let turn = turns.next().flatten();
        if let (None, Op::Reshape, Some(own)) = (&turn, &n.op, n.shape.as_array()) {
            return Ok(packed_turned(b, operands[0], own, tile));
        }
        if let (None, Op::Dot { .. }) = (&turn, &n.op) {
            return Ok(channels::with_right(b, n, operands));
        }
        Ok(turn.filter(|_| b.draft.fire("lanes")).and_then(|turn| match turn.product {
            true => channels::turned(b, n, operands),
            false => turned(b, n, operands, (&turn.order, tile)),
        }))
    })
}

fn bytes(a: &ArrayShape, dims: &[u64], tile: (u32, u32)) -> u64 {
    Layout::row_major(a.dtype, dims, tile.0, tile.1).bytes()
}

fn permuted(dims: &[u64], permutation: &[usize]) -> Vec<u64> {
    permutation.iter().map(|&p| dims[p]).collect()
}

/// The order in which an array takes (nearly) the least memory, that leaves the most of the first dimensions in place.
fn best(a: &ArrayShape, tile: (u32, u32)) -> Vec<usize> {
    let rank = a.rank();
    let pairs = (0..rank).flat_map(|d| (0..rank).filter(move |&e| e != d).map(move |e| (e, d)));
    let orders = pairs.map(|(e, d)| (0..rank).filter(|i| ![e, d].contains(i)).chain([e, d]).collect::<Vec<_>>());
    let weighed: Vec<(u64, Vec<usize>)> = orders.map(|p| (bytes(a, &permuted(&a.dims, &p), tile), p)).collect();
    let least = weighed.iter().map(|o| o.0).min().unwrap_or_default();
    weighed.into_iter().filter(|o| o.0 * NEAR.1 <= least * NEAR.0).map(|o| o.1).min().unwrap_or_default()
}

/// The least memory that an array takes in any order, nearly.
pub fn least_bytes(a: &ArrayShape, tile: (u32, u32)) -> u64 {
    bytes(a, &permuted(&a.dims, &best(a, tile)), tile)
}

/// The order in which slices of an array are better moved, if that takes much less memory than their own: `count` of them.
pub fn order_of_slices(a: &ArrayShape, count: u64, tile: (u32, u32)) -> Option<Vec<usize>> {
    let p = Some(a).filter(|a| a.rank() >= 2).map(|a| best(a, tile))?;
    let (own, turned) = (bytes(a, &a.dims, tile), bytes(a, &permuted(&a.dims, &p), tile));
    (turned * RATIO <= own && (own - turned).saturating_mul(count) >= LEAST).then_some(p)
}

/// The order of a node's dimensions that follows from that of an operand's.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation asks for an order of its own")]
fn follows(comp: &Computation, n: &Node, operand: usize, p: &[usize]) -> Option<Vec<usize>> {
    let rank = n.shape.as_array()?.rank();
    match &n.op {
        Op::Broadcast { dims } => {
            // Those that the operand has keep its order; new ones stand before the last two, each before the first that it precedes.
            let mut order: Vec<usize> = p.iter().map(|&i| dims[i]).collect();
            let lead = order.len().saturating_sub(2);
            for (lead, d) in (lead..).zip((0..rank).filter(|d| !dims.contains(d))) {
                let at = order[..lead].iter().position(|&e| e > d).unwrap_or(lead);
                order.insert(at, d);
            }
            Some(order)
        }
        Op::Reshape => {
            let from = &comp.node(n.operands[operand]).shape.as_array()?.dims;
            let to = &n.shape.as_array()?.dims;
            let Some(pairs) = degenerate_map(from, to) else { return behind(from, to, p) };
            let moved = p.iter().filter_map(|i| pairs.iter().find(|x| x.0 == *i).map(|x| x.1));
            let mut order: Vec<usize> = moved.collect();
            // Dimensions of size 1 stay where they are.
            for d in 0..rank {
                if !order.contains(&d) {
                    order.insert(d.min(order.len()), d);
                }
            }
            Some(order)
        }
        _ => (p.len() == rank).then(|| p.to_vec()),
    }
}

/// The order of a reshape's result where only leading dimensions are merged or split, and `p` leaves those in place.
fn behind(from: &[u64], to: &[u64], p: &[usize]) -> Option<Vec<usize>> {
    let same = from.iter().rev().zip(to.iter().rev()).take_while(|(x, y)| x == y).count();
    let (own, other) = (from.len() - same, to.len() - same);
    let stays = same >= 2 && p[..own].iter().copied().eq(0..own);
    stays.then(|| (0..other).chain(p[own..].iter().map(|&d| d - own + other)).collect())
}

/// Whether an operation works on any order of its dimensions; `along`: of what it makes something is reduced along the last one.
#[allow(clippy::wildcard_enum_match_arm, reason = "anything else keeps its order, which costs speed alone")]
fn is_free(comp: &Computation, n: &Node, along: bool) -> bool {
    let Some(a) = n.shape.as_array() else { return false };
    if !(2..=8).contains(&a.rank()) || a.dynamic.contains(&true) {
        return false;
    }
    let of_rank = |o: &NodeId| comp.node(*o).shape.as_array().is_some_and(|x| [0, a.rank()].contains(&x.rank()));
    match &n.op {
        op if op.is_elementwise() => n.operands.iter().all(of_rank),
        Op::Broadcast { .. } | Op::Iota { .. } | Op::Slice { .. } | Op::Pad { .. } | Op::Concatenate { .. } => true,
        Op::Reverse { .. } => true,
        Op::DynamicSlice { sizes } => n.operands.len() == sizes.len() + 1,
        Op::DynamicUpdateSlice => n.operands.len() == a.rank() + 2,
        Op::ReduceWindow { .. } => n.operands.len() == 2,
        Op::Dot { dims, .. } => along && trades_sides(comp, n, dims),
        // Rows of a table, of several dimensions each.
        Op::Gather(g) => a.rank() >= 3 && g.map.window.iter().copied().eq(1..a.rank()),
        Op::Reshape => {
            let from = comp.node(n.operands[0]).shape.as_array();
            from.is_some_and(|f| {
                let identity: Vec<usize> = (0..f.rank()).collect();
                degenerate_map(&f.dims, &a.dims).is_some() || behind(&f.dims, &a.dims, &identity).is_some()
            })
        }
        _ => false,
    }
}

/// Whether a product may have its operands on the other sides: `[B,M,K] x [B,K,N]` or `[B,N,K]` with few columns.
fn trades_sides(comp: &Computation, n: &Node, dims: &DotDims) -> bool {
    let (Some(a), Some(x)) = (n.shape.as_array(), comp.node(n.operands[0]).shape.as_array()) else { return false };
    let last = a.rank() - 1;
    let canonical = dims.lhs_batch == dims.rhs_batch
        && dims.lhs_batch.iter().copied().eq(0..last - 1)
        && dims.lhs_contracting == [last]
        && dims.rhs_contracting.len() == 1;
    canonical && x.dims[last] <= CONTRACTED
}

/// Which nodes are reduced along their last dimension, as they are or after elementwise operations.
fn reduced_along(comp: &Computation) -> Vec<bool> {
    let mut along = vec![false; comp.nodes.len()];
    for (i, n) in comp.nodes.iter().enumerate().rev() {
        for o in &n.operands {
            let Some(a) = comp.node(*o).shape.as_array() else { continue };
            let reduces = matches!(&n.op, Op::Reduce { dims, .. } if a.rank() > 0 && dims.contains(&(a.rank() - 1)));
            let same = n.op.is_elementwise() && n.shape.as_array().is_some_and(|r| r.rank() == a.rank());
            along[o.index()] |= reduces || same && along[i];
        }
    }
    along
}

/// The order of a product's result with its operands on the other sides.
fn other_sides(rank: usize) -> Vec<usize> {
    (0..rank - 2).chain([rank - 1, rank - 2]).collect()
}

/// Arrays that a turned operation needs turned: its operands of the same rank, or the one of a reshape or broadcast.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others take arrays of the result's rank in its order")]
fn arrays(comp: &Computation, n: &Node) -> Vec<usize> {
    let rank = n.shape.as_array().map_or(0, |a| a.rank());
    let of_rank = |i: &usize| comp.node(n.operands[*i]).shape.as_array().is_some_and(|a| a.rank() == rank);
    let all = 0..n.operands.len();
    match &n.op {
        // A product takes its operands as they are.
        Op::Iota { .. } | Op::Dot { .. } => Vec::new(),
        Op::Broadcast { .. } | Op::Reshape | Op::Slice { .. } | Op::Pad { .. } | Op::Reverse { .. } => vec![0],
        Op::DynamicSlice { .. } | Op::ReduceWindow { .. } | Op::Gather(_) => vec![0],
        Op::DynamicUpdateSlice => vec![0, 1],
        _ => all.filter(of_rank).collect(),
    }
}

/// The order of a node's dimensions, and the node that has it: of what a reduction leaves, as its operand's are.
fn order_of(comp: &Computation, orders: &[Option<Vec<usize>>], id: NodeId) -> Option<(Vec<usize>, NodeId)> {
    let n = comp.node(id);
    let Op::Reduce { dims, .. } = &n.op else { return Some((orders[id.index()].clone()?, id)) };
    let from = n.operands[0];
    let reduced = matches!(comp.node(from).op, Op::Reduce { .. });
    n.shape.as_array().filter(|a| a.rank() >= 2 && !reduced)?;
    let kept = orders[from.index()].as_ref()?.iter().filter(|d| !dims.contains(d));
    Some((kept.map(|d| d - dims.iter().filter(|r| *r < d).count()).collect(), from))
}

/// Whether a node costs the same in any order.
fn is_made(comp: &Computation, id: NodeId) -> bool {
    matches!(comp.node(id).op, Op::Broadcast { .. } | Op::Iota { .. } | Op::Constant(_))
}

pub(crate) fn find(parents: &mut [usize], i: usize) -> usize {
    let mut i = i;
    while parents[i] != i {
        parents[i] = parents[parents[i]];
        i = parents[i];
    }
    i
}

pub(crate) fn join(parents: &mut [usize], a: usize, b: usize) {
    let (x, y) = (find(parents, a), find(parents, b));
    parents[x] = y;
}

/// How each node is turned, if it is.
fn turns_of(comp: &Computation, (tile, vmem_bytes): ((u32, u32), u64), border: Border) -> Vec<Option<Turn>> {
    let n = comp.nodes.len();
    let uses = uses(comp);
    let mut products: Vec<Option<Product>> = (0..n).map(|_| None).collect();
    // What is as large in the order of a product's source as in its own.
    let mut wide = vec![false; n];
    let mut orders: Vec<Option<Vec<usize>>> = vec![None; n];
    let mut parents: Vec<usize> = (0..n).collect();
    let along = reduced_along(comp);
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other operation has orders that it cannot take")]
    for (i, node) in comp.nodes.iter().enumerate() {
        let Some(a) = node.shape.as_array() else { continue };
        let own = bytes(a, &a.dims, tile);
        if let Some(product) = channels::product(comp, node, &uses) {
            let p = other_sides(a.rank());
            let from = order_of(comp, &orders, product.source).filter(|(q, _)| *q == p);
            if product.pays(comp, a, (from.is_some(), RATIO), tile) {
                if let Some((_, from)) = from {
                    join(&mut parents, i, from.index());
                }
                (orders[i], products[i], wide[i]) = (Some(p), Some(product), true);
                continue;
            }
        }
        if let Some((along, true)) = reshape_turned_by(comp, node, tile) {
            let pays = |p: &Vec<usize>| bytes(a, &permuted(&a.dims, p), tile) * RATIO <= own;
            orders[i] = Some(best(a, tile)).filter(|p| p.last() == Some(&along) && pays(p));
            continue;
        }
        if !is_free(comp, node, along[i]) {
            continue;
        }
        // Rows that are gathered stay whole.
        let whole = |p: &[usize]| match node.op {
            Op::Gather(_) => p.first() == Some(&0),
            Op::Dot { .. } => p == other_sides(p.len()),
            _ => true,
        };
        let fits = |p: &Vec<usize>, ratio: u64| whole(p) && bytes(a, &permuted(&a.dims, p), tile) * ratio <= own;
        let pays = |p: &Vec<usize>| fits(p, RATIO);
        let operands = arrays(comp, node);
        wide[i] = node.op.is_elementwise() && node.operands.iter().any(|o| wide[o.index()]);
        // What is put together of narrow arrays need not be narrow.
        let ratio = if wide[i] || matches!(node.op, Op::Concatenate { .. }) { 1 } else { RATIO };
        let from = operands.iter().find_map(|&o| {
            if is_made(comp, node.operands[o]) || is_made(comp, NodeId(i as u32)) {
                return None;
            }
            let (p, _) = order_of(comp, &orders, node.operands[o])?;
            follows(comp, node, o, &p).filter(|p| fits(p, ratio))
        });
        // In bodies what comes as a transpose of the state need not be one.
        let untransposed = || {
            operands.iter().filter(|_| border == Border::Callers).find_map(|&o| {
                let Op::Transpose { permutation } = &comp.node(node.operands[o]).op else { return None };
                follows(comp, node, o, &inverse(permutation)).filter(pays)
            })
        };
        let Some(p) = from.or_else(untransposed).or_else(|| Some(best(a, tile)).filter(pays)) else { continue };
        for o in operands {
            let Some((q, from)) = order_of(comp, &orders, node.operands[o]) else { continue };
            if follows(comp, node, o, &q).is_some_and(|q| q == p) {
                join(&mut parents, i, from.index());
            }
        }
        orders[i] = Some(p);
    }
    keep_worthy(comp, (tile, vmem_bytes, border == Border::Free), &mut orders, &mut parents, &products);
    let turn = |(order, product): (Option<Vec<usize>>, Option<Product>)| {
        order.map(|order| Turn { order, product: product.is_some() })
    };
    orders.into_iter().zip(products).map(turn).collect()
}

/// How a computation's operations are done.
pub(crate) struct Turned<'a> {
    comp: &'a Computation,
    orders: Vec<Option<Vec<usize>>>,
}

impl<'a> Turned<'a> {
    /// Of a computation that is not the entry; sublanes and lanes, and bytes of vector memory.
    pub fn new(comp: &'a Computation, chip: ((u32, u32), u64)) -> Turned<'a> {
        let order = |turn: Option<Turn>| turn.map(|t| t.order);
        Turned { comp, orders: turns_of(comp, chip, Border::Callers).into_iter().map(order).collect() }
    }

    /// Whether an operation takes an operand with its dimensions in this order, or in any.
    pub fn takes(&self, user: NodeId, operand: NodeId, p: &[usize]) -> bool {
        let n = self.comp.node(user);
        if let Op::Transpose { permutation } = &n.op {
            return permutation == p;
        }
        if let Op::Reduce { .. } = n.op {
            return true;
        }
        if cuts_lanes(self.comp, n, p) {
            return false;
        }
        let so = |at: usize| {
            let own = arrays(self.comp, n).contains(&at).then(|| follows(self.comp, n, at, p)).flatten();
            own.is_some() && own == self.orders[user.index()]
        };
        (0..n.operands.len()).filter(|&at| n.operands[at] == operand).all(so)
    }

    /// Whether an operation makes its result so, or costs the same in any order.
    pub fn makes(&self, id: NodeId, p: &[usize]) -> bool {
        let so = self.orders[id.index()].as_deref() == Some(p) && !cuts_lanes(self.comp, self.comp.node(id), p);
        so || is_made(self.comp, id)
    }
}

/// Whether an operation reads or writes at a computed place along what lies in lanes in this order: rows are turned for each.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation has a computed place in its first operand")]
fn cuts_lanes(comp: &Computation, n: &Node, p: &[usize]) -> bool {
    let Some(&last) = p.last() else { return false };
    let size = |at: usize| comp.node(n.operands[at]).shape.as_array().map(|a| a.dims[last]);
    match &n.op {
        Op::DynamicSlice { sizes } => size(0).is_some_and(|whole| sizes[last] < whole),
        Op::DynamicUpdateSlice => size(1) < size(0),
        _ => false,
    }
}

/// Which nodes are parameters that every user wants in the same order: the host transfers them so.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other operation takes its operands in its own order")]
fn free_parameters(comp: &Computation, orders: &[Option<Vec<usize>>]) -> Vec<bool> {
    let mut wanted: Vec<Option<Vec<usize>>> = vec![None; comp.nodes.len()];
    let mut free: Vec<bool> = comp.nodes.iter().map(|n| matches!(n.op, Op::Parameter { .. })).collect();
    for (i, n) in comp.nodes.iter().enumerate() {
        for (at, o) in n.operands.iter().enumerate().filter(|(_, o)| matches!(comp.node(**o).op, Op::Parameter { .. }))
        {
            let same = comp.node(*o).shape.as_array().map(|a| a.rank()) == n.shape.as_array().map(|a| a.rank());
            let order = match &n.op {
                Op::Transpose { permutation } => Some(permutation.clone()),
                _ => orders[i].clone().filter(|_| same && arrays(comp, n).contains(&at)),
            };
            let first = wanted[o.index()].is_none();
            free[o.index()] &= order.is_some() && (first || wanted[o.index()] == order);
            wanted[o.index()] = order;
        }
    }
    free
}

/// The operation on transposed operands, transposed back. `p` is the order of its result's dimensions (of what a reduction
/// reduces).
#[allow(clippy::wildcard_enum_match_arm, reason = "every other operation is made anew on moved operands")]
fn turned(b: &mut Emit, n: &Node, operands: &[NodeId], (p, tile): (&[usize], (u32, u32))) -> Option<NodeId> {
    let back = inverse(p);
    let rank = p.len();
    if let Op::Reduce { dims, body } = &n.op {
        return reduced(b, n, operands, (p, dims, *body));
    }
    let a = array(&n.shape);
    let moved = |b: &mut Emit, x: NodeId| if b.rank(x) == rank { b.transpose(x, p) } else { x };
    let x = operands.first().copied();
    let done = match &n.op {
        Op::Iota { dim } => b.iota(a.dtype, &permuted(&a.dims, p), back[*dim]),
        Op::Broadcast { dims } => {
            let map: Vec<usize> = dims.iter().map(|&d| back[d]).collect();
            b.broadcast(x?, &map, &permuted(&a.dims, p))
        }
        Op::Reshape => {
            let from = b.dims(x?).to_vec();
            let order = match degenerate_map(&from, &a.dims) {
                None if behind(&a.dims, &from, p).is_none() => {
                    // Of a compact array into narrow rows.
                    let done = unpacked_turned(b, x?, &a.dims, p, tile);
                    return Some(b.transpose(done, &back));
                }
                Some(pairs) => {
                    let kept = p.iter().filter_map(|d| pairs.iter().find(|q| q.1 == *d).map(|q| q.0));
                    let kept: Vec<usize> = kept.collect();
                    (0..from.len()).filter(|d| !kept.contains(d)).chain(kept.iter().copied()).collect()
                }
                None => behind(&a.dims, &from, p)?,
            };
            let x = b.transpose(x?, &order);
            b.reshape(x, &permuted(&a.dims, p))
        }
        Op::Slice { dims } => {
            let x = moved(b, x?);
            let dims: Vec<_> = p.iter().map(|&d| dims[d]).collect();
            b.slice(x, &dims)
        }
        Op::Pad { dims } => {
            let x = moved(b, x?);
            let dims: Vec<_> = p.iter().map(|&d| dims[d]).collect();
            b.pad(x, operands[1], &dims)
        }
        Op::Concatenate { dim } => {
            let parts: Vec<NodeId> = operands.iter().map(|&o| moved(b, o)).collect();
            b.concatenate(&parts, back[*dim])
        }
        Op::Reverse { dims } => {
            let x = moved(b, x?);
            let mut dims: Vec<usize> = dims.iter().map(|&d| back[d]).collect();
            dims.sort_unstable();
            b.reverse(x, &dims)
        }
        Op::DynamicSlice { sizes } => {
            let x = moved(b, x?);
            let starts: Vec<NodeId> = p.iter().map(|&d| operands[d + 1]).collect();
            b.dynamic_slice(x, &starts, &permuted(sizes, p))
        }
        Op::DynamicUpdateSlice => {
            let (x, update) = (moved(b, x?), moved(b, operands[1]));
            let starts: Vec<NodeId> = p.iter().map(|&d| operands[d + 2]).collect();
            b.dynamic_update_slice(x, update, &starts)
        }
        Op::Gather(g) => {
            let x = moved(b, x?);
            let turned = Gather { slice_sizes: permuted(&g.slice_sizes, p), ..g.clone() };
            b.emit(Op::Gather(turned), &[x, operands[1]], Shape::array(a.dtype, &permuted(&a.dims, p)))
        }
        Op::Dot { dims, precision } => {
            let y = operands[1];
            // The left operand contracts its last dimension.
            let y = if dims.rhs_contracting == dims.lhs_contracting { y } else { b.transpose(y, &other_sides(rank)) };
            b.dot(y, x?, DotDims { rhs_contracting: dims.lhs_contracting.clone(), ..dims.clone() }, *precision, a.dtype)
        }
        Op::ReduceWindow { window, body } => {
            let x = moved(b, x?);
            let window: Vec<_> = p.iter().map(|&d| window[d]).collect();
            if window.last().is_some_and(|w| *w != WindowDim::TRIVIAL) {
                let done = super::window::spans::by_shifts(b, x, operands[1], &window, *body)?;
                return Some(b.transpose(done, &back));
            }
            b.reduce_window(&[x], &operands[1..], &window, *body)
        }
        op => {
            let operands: Vec<NodeId> = operands.iter().map(|&o| moved(b, o)).collect();
            b.emit(op.clone(), &operands, Shape::array(a.dtype, &permuted(&a.dims, p)))
        }
    };
    Some(b.transpose(done, &back))
}

/// A reduction of transposed operands.
fn reduced(
    b: &mut Emit,
    n: &Node,
    operands: &[NodeId],
    (p, dims, body): (&[usize], &[usize], systole_hlo::graph::CompId),
) -> Option<NodeId> {
    let (xs, inits) = operands.split_at(operands.len() / 2);
    let xs: Vec<NodeId> = xs.iter().map(|&x| b.transpose(x, p)).collect();
    let moved: Vec<usize> = (0..p.len()).filter(|&i| dims.contains(&p[i])).collect();
    let done = b.reduce_by(&xs, inits, &moved, body);
    // The kept dimensions in the order in which they come out, and back.
    let kept: Vec<usize> = p.iter().copied().filter(|d| !dims.contains(d)).collect();
    let mut sorted = kept.clone();
    sorted.sort_unstable();
    let back: Vec<usize> = sorted.iter().filter_map(|d| kept.iter().position(|k| k == d)).collect();
    Some(match &n.shape {
        Shape::Tuple(_) => {
            let parts: Vec<NodeId> = b.elements_of(done).into_iter().map(|e| b.transpose(e, &back)).collect();
            b.tuple(&parts)
        }
        Shape::Array(_) | Shape::Token => b.transpose(done, &back),
    })
}
