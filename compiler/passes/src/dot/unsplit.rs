//! `unsplit`: what follows products done while their dimensions are together.
//!
//! A product's result is split into the program's dimensions: rows into batch and place, columns into heads and their features.
//! What comes next often asks for neither. Four kinds of such operations are done on the product's own dimensions, and the
//! result split instead:
//!
//! - [`Kind::Outer`]: chains of elementwise operations, reductions and broadcasts between two reshapes (the softmax of attention
//!   between its products), where only leading dimensions are split: that costs nothing, but one dimension is easier to cut into
//!   strips than two.
//! - [`Kind::Lanes`]: elementwise operations (biases, scales) that alone use a product whose columns are split so that it takes
//!   more memory: they become the product's end.
//! - [`Kind::Beside`]: elementwise operations whose other operands depend on the last dimension at most, on a product that has
//!   several of their places beside each other in its columns (small convolutions) and is rearranged by reshapes, transposes and
//!   slices: what depends on the last dimension is repeated.
//! - [`Kind::Dense`]: the same chains behind any reshape that splits the last dimension so that an array takes much more memory
//!   (normalisation over groups of channels): where they reduce or broadcast parts of that dimension, only what other dimensions
//!   have been reduced away from, or are not there yet, has it split.
//!
//! Nothing is computed twice: where something else wants the split form, a chain stays as it is.

use crate::edit::{Draft, Emit, reachable, rewrite};
use crate::make::array;
use rustc_hash::FxHashMap;
use std::ops::Range;
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, CompId, Computation, Module, Node, NodeId, Op, Shape};
use systole_isa::Layout;

/// Times that chains are looked through for operations that must stay; what is not settled by then is left as it is.
const ROUNDS: usize = 16;

/// Chains of a computation's nodes that are done on other dimensions than their own: each node of one is marked with these.
pub(crate) trait Chains {
    type Mark: PartialEq;

    fn marks(&mut self) -> &mut [Option<Self::Mark>];

    /// Whether a marked node may stay so for what uses it.
    fn stays(&self, id: NodeId) -> bool;

    /// The mark that a node has by what it is made from.
    fn follows(&self, id: NodeId) -> Option<Self::Mark>;
}

/// Takes marks away that may not stay, and those that followed from them, until all that are left may; if that does not end, all of them.
/// Whether it ended.
pub(crate) fn settle<C: Chains>(c: &mut C) -> bool {
    let ids = 0..c.marks().len();
    for _ in 0..ROUNDS {
        let mut changed = false;
        for i in ids.clone().rev() {
            if c.marks()[i].is_some() && !c.stays(NodeId(i as u32)) {
                c.marks()[i] = None;
                changed = true;
            }
        }
        for i in ids.clone() {
            if c.marks()[i].is_some() && c.follows(NodeId(i as u32)) != c.marks()[i] {
                c.marks()[i] = None;
                changed = true;
            }
        }
        if !changed {
            return true;
        }
    }
    c.marks().fill_with(|| None);
    false
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Outer,
    Lanes,
    Beside,
    Dense,
    /// A reduction of a dense chain, whose result has the program's dimensions; the merged ones are its operand's.
    Apart,
}

/// How many times more memory split dimensions take from which on a chain is done on them together.
const DENSER: u64 = 2;
/// Parts of a chain's arrays (one in so many) that may have the last dimension split.
const FEW: u64 = 8;

/// Most reshapes, transposes and slices between a product and the form that the program wants.
const MOST_MOVES: usize = 6;

/// That a node is computed with the dimensions `dims`, each of them some neighbours of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Merged {
    kind: Kind,
    dims: Vec<u64>,
}

/// The dimensions of `to` that each of `from` is split into.
pub(crate) fn parts(from: &[u64], to: &[u64]) -> Option<Vec<Range<usize>>> {
    let mut all = Vec::with_capacity(from.len());
    let mut next = 0;
    for &size in from {
        let (first, mut product) = (next, 1u64);
        while product < size && next < to.len() {
            product *= to[next];
            next += 1;
        }
        if product != size || next == first {
            return None;
        }
        all.push(first..next);
    }
    (next == to.len()).then_some(all)
}

/// The parts of a broadcast's operand that its dimensions `map` are, and where they come in the merged result; `None` if only
/// a piece of a part is in the operand.
fn kept(all: &[Range<usize>], map: &[usize]) -> Option<Vec<usize>> {
    if !map.windows(2).all(|w| w[0] < w[1]) {
        return None;
    }
    let mut places = Vec::new();
    for (i, part) in all.iter().enumerate() {
        match part.clone().filter(|d| map.contains(d)).count() {
            0 => {}
            n if n == part.len() => places.push(i),
            _ => return None,
        }
    }
    Some(places)
}

/// The dimensions of the last part that a broadcast's operand has, and the other parts, where it has each of those whole or not at
/// all.
fn pieces(all: &[Range<usize>], map: &[usize]) -> Option<(Vec<usize>, Vec<usize>)> {
    let (last, before) = all.split_last()?;
    let (pieces, rest): (Vec<usize>, Vec<usize>) = map.iter().partition(|d| last.contains(*d));
    let sorted = map.windows(2).all(|w| w[0] < w[1]);
    if !sorted || pieces.is_empty() || pieces.len() == last.len() {
        return None;
    }
    Some((kept(before, &rest)?, pieces))
}

/// The parts that a reduction along `dims` reduces whole, and whether it reduces some of the last one's dimensions; `None` if it
/// does so of another part, or reduces none whole.
fn reduced(all: &[Range<usize>], dims: &[usize]) -> Option<(Vec<usize>, bool)> {
    let (mut whole, mut some) = (Vec::new(), false);
    for (i, part) in all.iter().enumerate() {
        match part.clone().filter(|d| dims.contains(d)).count() {
            0 => {}
            n if n == part.len() => whole.push(i),
            _ if i + 1 == all.len() => some = true,
            _ => return None,
        }
    }
    (!whole.is_empty()).then_some((whole, some))
}

/// The nodes of a computation that are done on merged dimensions.
struct Search<'a> {
    comp: &'a Computation,
    users: Vec<Vec<NodeId>>,
    tile: (u32, u32),
    marks: Vec<Option<Merged>>,
    /// Reshapes that split, which are what merged operands are taken from.
    seeds: Vec<Option<Merged>>,
}

impl Search<'_> {
    fn shape(&self, id: NodeId) -> Option<&ArrayShape> {
        self.comp.node(id).shape.as_array().filter(|a| !a.dynamic.contains(&true))
    }

    fn bytes(&self, a: &ArrayShape, dims: &[u64]) -> u64 {
        Layout::row_major(a.dtype, dims, self.tile.0, self.tile.1).bytes()
    }

    /// A product's results at places of their own, that were beside each other.
    fn beside(&self, id: NodeId) -> Option<Merged> {
        let last = *self.shape(id)?.dims.last()?;
        let mut at = id;
        for _ in 0..MOST_MOVES {
            let from = rearranged(self.comp.node(at), self.shape(at)?, last)?;
            if self.users[at.index()].len() != 1 {
                return None;
            }
            at = from;
            let x = self.shape(at)?;
            if matches!(self.comp.node(at).op, Op::Dot { .. } | Op::Convolution { .. }) {
                let more = x.dims.last().is_some_and(|n| *n > last && n.is_multiple_of(last));
                let one = self.users[at.index()].len() == 1;
                let size = |dims: &[u64]| dims.iter().product::<u64>();
                let few = size(&x.dims) > size(&self.shape(id)?.dims) / 3 * 4;
                return (more && one && !few).then(|| Merged { kind: Kind::Beside, dims: x.dims.clone() });
            }
        }
        None
    }

    /// A reshape that splits the dimensions of a product.
    fn seed(&self, id: NodeId) -> Option<Merged> {
        let n = self.comp.node(id);
        let from = (n.op == Op::Reshape).then(|| n.operands[0])?;
        let product = matches!(self.comp.node(from).op, Op::Dot { .. } | Op::Convolution { .. });
        let (a, x) = (self.shape(id)?, self.shape(from).filter(|_| product)?);
        parts(&x.dims, &a.dims).filter(|_| x.rank() < a.rank())?;
        let last = |dims: &[u64]| dims[dims.len().saturating_sub(2)..].to_vec();
        let dims = x.dims.clone();
        if x.rank() >= 3 && last(&x.dims) == last(&a.dims) {
            return Some(Merged { kind: Kind::Outer, dims });
        }
        let denser = x.dims.last() != a.dims.last() && self.bytes(a, &x.dims) < self.bytes(a, &a.dims);
        (denser && self.users[id.index()].len() == 1).then_some(Merged { kind: Kind::Lanes, dims })
    }

    /// A reshape that splits the last dimension of any array, which takes much more memory then.
    fn dense(&self, id: NodeId) -> Option<Merged> {
        let n = self.comp.node(id);
        let from = (n.op == Op::Reshape).then(|| n.operands[0])?;
        let (a, x) = (self.shape(id)?, self.shape(from)?);
        let last = *x.dims.last()?;
        let mut product = 1;
        let parts = a.dims.iter().rev().take_while(|&&d| {
            let more = product < last;
            product *= if more { d } else { 1 };
            more
        });
        let parts = parts.count();
        let dims = [&a.dims[..a.rank() - parts], &[last]].concat();
        let much = self.bytes(a, &dims) * DENSER <= self.bytes(a, &a.dims);
        (product == last && parts > 1 && much).then_some(Merged { kind: Kind::Dense, dims })
    }

    /// Whether an operand can be repeated along the last dimension of a product that has several places beside each other.
    fn repeats(&self, id: NodeId) -> bool {
        let (n, Some(a)) = (self.comp.node(id), self.shape(id)) else { return false };
        let Op::Broadcast { dims: map } = &n.op else { return false };
        map.iter().all(|&d| d + 1 == a.rank())
    }

    fn of(&self, id: NodeId) -> Option<&Merged> {
        let mark = self.marks[id.index()].as_ref().filter(|m| m.kind != Kind::Apart);
        mark.or(self.seeds[id.index()].as_ref())
    }

    /// Whether an operand can be had with the dimensions `m`.
    fn converts(&self, id: NodeId, m: &Merged) -> bool {
        if self.of(id) == Some(m) {
            return true;
        }
        if m.kind == Kind::Beside {
            return self.repeats(id);
        }
        let (n, Some(a)) = (self.comp.node(id), self.shape(id)) else { return false };
        let Op::Broadcast { dims: map } = &n.op else { return false };
        let Some(all) = parts(&m.dims, &a.dims) else { return false };
        if kept(&all, map).is_some() {
            return true;
        }
        let size = |places: &[usize]| places.iter().map(|&i| m.dims[i]).product::<u64>() * m.dims[all.len() - 1];
        let few = |places: &[usize]| size(places) * FEW <= a.elements();
        m.kind == Kind::Dense && pieces(&all, map).is_some_and(|(places, _)| few(&places))
    }

    /// How a node would be done, from how its operands are.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others want the program's dimensions")]
    fn follows(&self, id: NodeId) -> Option<Merged> {
        let n = self.comp.node(id);
        let a = self.shape(id)?;
        match &n.op {
            op if op.is_elementwise() => {
                let same = |o: &&NodeId| self.shape(**o).is_some_and(|x| x.dims == a.dims);
                let m = n.operands.iter().filter(same).find_map(|o| self.of(*o))?.clone();
                let small = |o: &&NodeId| self.shape(**o).is_some_and(|x| x.dtype.bits() >= a.dtype.bits());
                let alone = match m.kind {
                    Kind::Outer | Kind::Dense => true,
                    Kind::Apart => false,
                    Kind::Lanes => self.users[id.index()].len() == 1,
                    Kind::Beside => n
                        .operands
                        .iter()
                        .filter(|o| self.of(**o) == Some(&m))
                        .all(|o| self.users[o.index()].len() == 1 && small(&o)),
                };
                // Operands that come from a chain of several users stay for the others.
                (alone && n.operands.iter().all(|o| self.converts(*o, &m))).then_some(m)
            }
            Op::Reduce { dims, .. } if n.operands.len() == 2 => {
                let m = self.of(n.operands[0]).filter(|m| matches!(m.kind, Kind::Outer | Kind::Dense))?;
                let all = parts(&m.dims, &self.shape(n.operands[0])?.dims)?;
                if m.kind == Kind::Dense {
                    let (whole, some) = reduced(&all, dims)?;
                    let along: u64 = whole.iter().map(|&i| m.dims[i]).product();
                    return (!some || along >= FEW).then(|| Merged { kind: Kind::Apart, dims: m.dims.clone() });
                }
                let rest = (0..self.shape(n.operands[0])?.rank()).filter(|d| !dims.contains(d)).collect::<Vec<_>>();
                let dims: Vec<u64> = kept(&all, &rest)?.into_iter().map(|i| m.dims[i]).collect();
                (dims.len() < a.rank()).then_some(Merged { kind: Kind::Outer, dims })
            }
            Op::Broadcast { dims: map } => {
                let m = self.of(n.operands[0]).filter(|m| m.kind == Kind::Outer)?;
                let all = parts(&m.dims, &self.shape(n.operands[0])?.dims)?;
                let mut dims = Vec::new();
                let mut next = 0;
                for (part, &size) in all.iter().zip(&m.dims) {
                    let (first, last) = (*map.get(part.start)?, *map.get(part.end - 1)?);
                    let together = map[part.clone()].windows(2).all(|w| w[1] == w[0] + 1);
                    if !together || first < next {
                        return None;
                    }
                    dims.extend(&a.dims[next..first]);
                    dims.push(size);
                    next = last + 1;
                }
                dims.extend(&a.dims[next..]);
                Some(Merged { kind: Kind::Outer, dims })
            }
            _ => None,
        }
    }

    /// Whether everything that uses a node of an outer chain takes it merged.
    fn ends_well(&self, id: NodeId) -> bool {
        let takes = |u: &NodeId| self.marks[u.index()].is_some() || self.comp.node(*u).op == Op::Reshape;
        id != self.comp.root && self.users[id.index()].iter().all(takes)
    }

    /// Marks what can be done on merged dimensions.
    fn run(&mut self) {
        for id in self.comp.ids() {
            self.seeds[id.index()] = self.seed(id).or_else(|| self.beside(id)).or_else(|| self.dense(id));
            self.marks[id.index()] = self.follows(id);
        }
        settle(self);
    }
}

impl Chains for Search<'_> {
    type Mark = Merged;

    fn marks(&mut self) -> &mut [Option<Merged>] {
        &mut self.marks
    }

    fn stays(&self, id: NodeId) -> bool {
        let kind = self.marks[id.index()].as_ref().map(|m| m.kind);
        !matches!(kind, Some(Kind::Outer | Kind::Dense)) || self.ends_well(id)
    }

    fn follows(&self, id: NodeId) -> Option<Merged> {
        Search::follows(self, id)
    }
}

/// Runs the pass; `tile` is the chip's sublanes and lanes.
pub fn run(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let wanted = reachable(&module);
    let mut all: FxHashMap<(usize, NodeId), Merged> = FxHashMap::default();
    for (i, comp) in module.computations.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        let n = comp.nodes.len();
        let mut s = Search { comp, users: uses(comp), tile, marks: vec![None; n], seeds: vec![None; n] };
        s.run();
        all.extend(s.marks.into_iter().enumerate().filter_map(|(k, m)| Some(((i, NodeId(k as u32)), m?))));
    }
    if all.is_empty() {
        return Ok(module);
    }
    rewrite(module, draft, &mut |b, n, operands| {
        let Some(m) = all.get(&b.place()).filter(|_| b.draft.fire("unsplit")) else { return Ok(None) };
        Ok(merged(b, n, operands, m))
    })
}

/// What a node rearranges so that its last dimension, of size `last`, stays last or a part of the last.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation only rearranges")]
fn rearranged(n: &Node, a: &ArrayShape, last: u64) -> Option<NodeId> {
    let rank = a.rank();
    let stays = match &n.op {
        Op::Reshape => true,
        Op::Transpose { permutation } => permutation.last().is_some_and(|&d| d + 1 == rank),
        Op::Slice { dims } => dims.last().is_some_and(|d| d.start == 0 && d.stride == 1),
        _ => false,
    };
    let whole = a.dims.last().is_some_and(|n| n.is_multiple_of(last));
    (stays && whole).then(|| n.operands[0])
}

/// An elementwise operation on places beside each other, which its results leave as what it was applied to did.
fn beside(b: &mut Emit, n: &Node, operands: &[NodeId], dims: &[u64]) -> Option<NodeId> {
    let a = array(&n.shape).clone();
    let mut moves = Vec::new();
    let mut xs = Vec::with_capacity(operands.len());
    for &o in operands {
        if let Op::Broadcast { dims: map } = b.op(o).clone() {
            let (y, last) = (b.operand(o, 0), *a.dims.last()?);
            let (of, end) = (*dims.last()?, dims.len() - 1);
            xs.push(if map.is_empty() {
                b.broadcast(y, &[], dims)
            } else {
                let y = b.broadcast(y, &[1], &[of / last, last]);
                let y = b.reshape(y, &[of]);
                b.broadcast(y, &[end], dims)
            });
            continue;
        }
        let (mut at, mut way) = (o, Vec::new());
        while b.dims(at) != dims {
            way.push((b.op(at).clone(), b.dims(at).to_vec()));
            at = rearranged(b.node(at), &array(&b.node(at).shape), *a.dims.last()?)?;
        }
        (moves, xs) = (way, [&xs[..], &[at]].concat());
    }
    let mut whole = b.emit(n.op.clone(), &xs, Shape::array(a.dtype, dims));
    for (op, sizes) in moves.into_iter().rev() {
        whole = b.emit(op, &[whole], Shape::array(a.dtype, &sizes));
    }
    Some(whole)
}

/// An operand with merged dimensions.
fn operand(b: &mut Emit, x: NodeId, dims: &[u64]) -> NodeId {
    if let Op::Broadcast { dims: map } = b.op(x).clone()
        && let Some(all) = parts(dims, b.dims(x))
        && let Some(places) = kept(&all, &map)
    {
        let y = b.operand(x, 0);
        let sizes: Vec<u64> = places.iter().map(|&i| dims[i]).collect();
        let y = b.reshape(y, &sizes);
        return b.broadcast(y, &places, dims);
    }
    repeated(b, x, dims).unwrap_or_else(|| b.reshape(x, dims))
}

/// A broadcast of what has some of the last dimension's parts, with merged dimensions: those are repeated first.
fn repeated(b: &mut Emit, x: NodeId, dims: &[u64]) -> Option<NodeId> {
    let Op::Broadcast { dims: map } = b.op(x).clone() else { return None };
    let split = b.dims(x).to_vec();
    let all = parts(dims, &split)?;
    let (places, pieces) = pieces(&all, &map)?;
    let last = all.last()?.clone();
    let around: Vec<u64> = places.iter().map(|&i| dims[i]).collect();
    let sizes = |of: &[usize]| of.iter().map(|&d| split[d]).collect::<Vec<u64>>();
    let y = b.operand(x, 0);
    let y = b.reshape(y, &[&around[..], &sizes(&pieces)].concat());
    let inner: Vec<usize> = pieces.iter().map(|d| places.len() + d - last.start).collect();
    let own: Vec<usize> = (0..places.len()).chain(inner).collect();
    let y = b.broadcast(y, &own, &[&around[..], &split[last]].concat());
    let y = b.reshape(y, &[&around[..], &dims[dims.len() - 1..]].concat());
    let to: Vec<usize> = places.iter().copied().chain([dims.len() - 1]).collect();
    Some(b.broadcast(y, &to, dims))
}

/// A reduction of an array with merged dimensions: along whole dimensions first, along parts of the last one then.
fn apart(
    b: &mut Emit,
    (operands, to): (&[NodeId], &[u64]),
    (dims, merged): (&[usize], &[u64]),
    body: CompId,
) -> Option<NodeId> {
    let split = b.dims(operands[0]).to_vec();
    let all = parts(merged, &split)?;
    let x = b.reshape(operands[0], merged);
    let (whole, some) = reduced(&all, dims)?;
    let mut y = b.reduce_by(&[x], &operands[1..], &whole, body);
    if some {
        let left: Vec<usize> =
            all.iter().enumerate().filter(|(i, _)| !whole.contains(i)).flat_map(|p| p.1.clone()).collect();
        let sizes: Vec<u64> = left.iter().map(|&d| split[d]).collect();
        y = b.reshape(y, &sizes);
        let along: Vec<usize> = (0..left.len()).filter(|&i| dims.contains(&left[i])).collect();
        y = b.reduce_by(&[y], &operands[1..], &along, body);
    }
    Some(b.reshape(y, to))
}

/// What a reshape splits.
fn source(b: &Emit, x: NodeId) -> Option<NodeId> {
    (*b.op(x) == Op::Reshape).then(|| b.operand(x, 0))
}

/// The node on merged dimensions, split again.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation is marked")]
fn merged(b: &mut Emit, n: &Node, operands: &[NodeId], m: &Merged) -> Option<NodeId> {
    let a = array(&n.shape).clone();
    if m.kind == Kind::Beside {
        return beside(b, n, operands, &m.dims);
    }
    if let (Kind::Apart, Op::Reduce { dims, body }) = (m.kind, &n.op) {
        return apart(b, (operands, &a.dims), (dims, &m.dims), *body);
    }
    let whole = match &n.op {
        op if op.is_elementwise() => {
            let xs: Vec<NodeId> = operands.iter().map(|&o| operand(b, o, &m.dims)).collect();
            b.emit(op.clone(), &xs, Shape::array(a.dtype, &m.dims))
        }
        Op::Reduce { dims, body } => {
            let x = source(b, operands[0])?;
            let all = parts(b.dims(x), b.dims(operands[0]))?;
            let along: Vec<usize> = (0..all.len()).filter(|&i| dims.contains(&all[i].start)).collect();
            b.reduce_by(&[x], &operands[1..], &along, *body)
        }
        Op::Broadcast { dims: map } => {
            let x = source(b, operands[0])?;
            let all = parts(b.dims(x), b.dims(operands[0]))?;
            let to = parts(&m.dims, &a.dims)?;
            let places: Option<Vec<usize>> =
                all.iter().map(|part| to.iter().position(|t| t.start == map[part.start])).collect();
            b.broadcast(x, &places?, &m.dims)
        }
        _ => return None,
    };
    Some(b.reshape(whole, &a.dims))
}
