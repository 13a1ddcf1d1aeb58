//! `unflatten`: what is done on dimensions that a reshape joined, done on the dimensions as they were.
//!
//! `softmax(x.reshape(-1))`, `norm(x.ravel())` and `x.reshape(batch, -1).mean(1)` join dimensions so that elements of a row of lanes come
//! to lie in others, which moves all of an array; the operations between that and the way back, or a reduction, do not care. Chains
//! of elementwise operations, reductions and broadcasts behind such a reshape are done on the array as it was, if all that wants what
//! they make joined are other such operations, reshapes, or anything that takes what is much smaller.

use super::dot::unsplit::{Chains, parts, settle};
use super::edit::{Draft, Emit, reachable, rewrite};
use super::lanes::{find, join};
use super::make::array;
use rustc_hash::FxHashMap;
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Binary, Computation, Module, Node, NodeId, Op, Shape};
use systole_isa::{DType, Layout};

/// Elements from which on an array is worth it.
const LARGE: u64 = 1 << 14;
/// A result of one part in so many of what it is made from is joined at less cost than that.
const SMALL: u64 = 2;
/// How many times more memory an array may take as it was than joined.
const SPARSER: u64 = 2;

/// The nodes of a computation that are done on dimensions apart.
struct Search<'a> {
    comp: &'a Computation,
    users: Vec<Vec<NodeId>>,
    tile: (u32, u32),
    /// The dimensions that nodes are computed with: each of their own is some neighbours of these.
    marks: Vec<Option<Vec<u64>>>,
    /// The same of reshapes that join, whose operand has these dimensions, and of vectors, which are rows of lanes at no cost.
    seeds: Vec<Option<Vec<u64>>>,
}

impl Search<'_> {
    fn shape(&self, id: NodeId) -> Option<&ArrayShape> {
        self.comp.node(id).shape.as_array().filter(|a| !a.dynamic.contains(&true))
    }

    /// The rows of lanes that a vector is.
    fn rows(&self, id: NodeId) -> Option<Vec<u64>> {
        let a = self.shape(id)?;
        let (sublanes, lanes) = (u64::from(self.tile.0), u64::from(self.tile.1));
        let full = a.rank() == 1 && a.elements() >= LARGE && a.elements().is_multiple_of(sublanes * lanes);
        full.then(|| vec![a.elements() / lanes, lanes])
    }

    /// A reshape that joins dimensions along lanes.
    fn seed(&self, id: NodeId) -> Option<Vec<u64>> {
        let n = self.comp.node(id);
        let from = (n.op == Op::Reshape).then(|| n.operands[0])?;
        let (a, x) = (self.shape(id)?, self.shape(from)?);
        let joined = parts(&a.dims, &x.dims)?.pop()?;
        let lanes = u64::from(self.tile.1);
        let bytes = |dims: &[u64]| Layout::row_major(a.dtype, dims, self.tile.0, self.tile.1).bytes();
        let moves = joined.len() > 1 && x.dims.last().is_some_and(|&n| n != lanes);
        let dense = bytes(&x.dims) <= SPARSER * bytes(&a.dims);
        (moves && dense && a.elements() >= LARGE).then(|| x.dims.clone())
    }

    fn of(&self, id: NodeId) -> Option<&Vec<u64>> {
        self.marks[id.index()].as_ref().or(self.seeds[id.index()].as_ref())
    }

    /// Whether an operand can be had with the dimensions `to`.
    fn converts(&self, id: NodeId, to: &[u64]) -> bool {
        if self.of(id).is_some_and(|dims| dims == to) {
            return true;
        }
        let (n, Some(a)) = (self.comp.node(id), self.shape(id)) else { return false };
        if a.rank() == 0 {
            return true;
        }
        let Op::Broadcast { dims: map } = &n.op else { return false };
        let Some(all) = parts(&a.dims, to) else { return false };
        // A part of several dimensions is there only as a whole.
        map.windows(2).all(|w| w[0] < w[1]) && map.iter().all(|&d| all[d].len() == 1)
    }

    /// The dimensions that a node would be done on, from those of its operands.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others want the program's dimensions")]
    fn follows(&self, id: NodeId) -> Option<Vec<u64>> {
        let n = self.comp.node(id);
        let a = self.shape(id)?;
        match &n.op {
            op if op.is_elementwise() => {
                let same = |o: &&NodeId| self.shape(**o).is_some_and(|x| x.dims == a.dims);
                let to = n.operands.iter().filter(same).find_map(|o| self.of(*o))?.clone();
                n.operands.iter().all(|o| self.converts(*o, &to)).then_some(to)
            }
            Op::Reduce { dims, .. } if n.operands.len() == 2 => {
                let x = self.shape(n.operands[0])?;
                let to = self.of(n.operands[0])?;
                let all = parts(&x.dims, to)?;
                let rest = (0..x.rank()).filter(|d| !dims.contains(d));
                Some(rest.flat_map(|d| to[all[d].clone()].to_vec()).collect())
            }
            _ => None,
        }
    }

    /// Whether nothing wants all of a node's result joined.
    fn ends_well(&self, id: NodeId) -> bool {
        let small = self.shape(id).is_some_and(|a| a.elements() * SMALL <= self.source(id));
        let free = self.marks[id.index()] == self.rows(id);
        let moves = |op: &Op| *op == Op::Reshape || free && *op == Op::Tuple;
        let takes = |u: &NodeId| self.marks[u.index()].is_some() || moves(&self.comp.node(*u).op);
        small
            || free && id == self.comp.root && self.users[id.index()].iter().all(takes)
            || id != self.comp.root && self.users[id.index()].iter().all(takes)
    }

    /// Elements of what a node is made from.
    fn source(&self, id: NodeId) -> u64 {
        let sizes = self.comp.node(id).operands.iter().filter_map(|o| Some(self.shape(*o)?.elements()));
        sizes.max().unwrap_or(0)
    }

    /// Marks what can be done on dimensions apart.
    fn run(&mut self) {
        for id in self.comp.ids() {
            self.seeds[id.index()] = self.seed(id).or_else(|| self.rows(id));
            self.marks[id.index()] = self.follows(id);
        }
        if settle(self) {
            self.keep_reduced();
        }
    }

    /// Leaves vectors alone that nothing reduces: they are as fast as they are.
    fn keep_reduced(&mut self) {
        let n = self.comp.nodes.len();
        let mut parents: Vec<usize> = (0..n).collect();
        let mut reduced = vec![false; n];
        for id in self.comp.ids().filter(|id| self.marks[id.index()].is_some()) {
            for o in self.comp.node(id).operands.iter().filter(|o| self.of(**o).is_some()) {
                join(&mut parents, id.index(), o.index());
            }
        }
        for id in self.comp.ids() {
            let n = self.comp.node(id);
            let joined = |o: &NodeId| self.marks[o.index()].is_none() && self.seed(*o).is_some();
            let reduces = matches!(n.op, Op::Reduce { .. }) || n.operands.iter().any(joined);
            if self.marks[id.index()].is_some() && reduces {
                reduced[find(&mut parents, id.index())] = true;
            }
        }
        for id in self.comp.ids() {
            if !reduced[find(&mut parents, id.index())] {
                self.marks[id.index()] = None;
            }
        }
    }
}

impl Chains for Search<'_> {
    type Mark = Vec<u64>;

    fn marks(&mut self) -> &mut [Option<Vec<u64>>] {
        &mut self.marks
    }

    fn stays(&self, id: NodeId) -> bool {
        self.ends_well(id)
    }

    fn follows(&self, id: NodeId) -> Option<Vec<u64>> {
        Search::follows(self, id)
    }
}

/// Runs the pass; `tile` is the chip's sublanes and lanes.
pub fn run(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let wanted = reachable(&module);
    let mut all: FxHashMap<(usize, NodeId), Vec<u64>> = FxHashMap::default();
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
        let Some(to) = all.get(&b.place()).filter(|_| b.draft.fire("unflatten")) else { return Ok(None) };
        Ok(apart(b, n, operands, (to, u64::from(tile.1))))
    })
}

/// An operand with its dimensions apart.
fn operand(b: &mut Emit, x: NodeId, to: &[u64]) -> NodeId {
    if b.rank(x) == 0 {
        return x;
    }
    if let (Op::Iota { .. }, &[_, lanes]) = (b.op(x), to)
        && b.rank(x) == 1
        && matches!(b.dtype(x), DType::S32 | DType::U32)
    {
        let (row, lane) = (b.iota(b.dtype(x), to, 0), b.iota(b.dtype(x), to, 1));
        let first = b.with(Binary::Mul, row, lanes as f64);
        return b.add(first, lane);
    }
    if let Op::Broadcast { dims: map } = b.op(x).clone()
        && let Some(all) = parts(b.dims(x), to)
        && map.iter().all(|&d| all[d].len() == 1)
    {
        let places: Vec<usize> = map.iter().map(|&d| all[d].start).collect();
        let y = b.operand(x, 0);
        return b.broadcast(y, &places, to);
    }
    b.reshape(x, to)
}

/// The node on dimensions apart, joined again.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation is marked")]
fn apart(b: &mut Emit, n: &Node, operands: &[NodeId], (to, lanes): (&[u64], u64)) -> Option<NodeId> {
    let a = array(&n.shape).clone();
    let done = match &n.op {
        op if op.is_elementwise() => {
            let xs: Vec<NodeId> = operands.iter().map(|&o| operand(b, o, to)).collect();
            b.emit(op.clone(), &xs, Shape::array(a.dtype, to))
        }
        Op::Reduce { dims, body } => {
            // What was joined is a reshape by now, any other vector rows of lanes.
            let x = match b.dims(operands[0]) {
                _ if *b.op(operands[0]) == Op::Reshape => b.operand(operands[0], 0),
                &[n] if n.is_multiple_of(lanes) => b.reshape(operands[0], &[n / lanes, lanes]),
                _ => return None,
            };
            let all = parts(b.dims(operands[0]), b.dims(x))?;
            let along: Vec<usize> = dims.iter().flat_map(|&d| all[d].clone()).collect();
            b.reduce_by(&[x], &operands[1..], &along, *body)
        }
        _ => return None,
    };
    Some(b.reshape(done, &a.dims))
}
