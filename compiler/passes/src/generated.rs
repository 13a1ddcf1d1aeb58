//! `generated`: long computations from the place of an element alone done in the order of memory.
//!
//! Random bits are a hundred operations on the number of each element. Of an array with few rows or narrow ones (`normal(key, (2, n))`) most
//! of a register is padding, and every one of them is done on it. What follows from places and single values alone is computed as one
//! dimension of all elements, full registers, and takes its shape at the end.

use super::edit::{Draft, Emit, reachable, rewrite};
use super::lanes::least_bytes;
use super::make::array;
use std::collections::BTreeSet;
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, Binary, Computation, Module, Node, NodeId, Op, Shape};
use systole_isa::{DType, Layout};

/// More times than that an array takes the memory of its elements, in any order ([`super::lanes`] finds the best).
const SPARSE: u64 = 2;
/// Elements of a row at least: to cut shorter ones from full registers takes longer than to make them.
const WIDE: u64 = 32;
/// Operations that a result is made of, at least: fewer take no longer than to move it.
const LONG: usize = 48;
/// Elements of an array, at least: a register or two.
const LEAST: u64 = 2048;

struct Search<'a> {
    comp: &'a Computation,
    users: Vec<Vec<NodeId>>,
    tile: (u32, u32),
    /// Nodes that follow from places alone, of arrays that are mostly padding.
    marks: Vec<bool>,
}

impl Search<'_> {
    fn shape(&self, id: NodeId) -> Option<&ArrayShape> {
        self.comp.node(id).shape.as_array().filter(|a| !a.dynamic.contains(&true))
    }

    /// Whether an array is mostly padding.
    fn is_sparse(&self, a: &ArrayShape) -> bool {
        let count = a.elements();
        let dense = Layout::row_major(a.dtype, &[count], self.tile.0, self.tile.1).bytes();
        let wide = a.rank() > 1 && a.dims.last().is_some_and(|&n| n >= WIDE);
        count >= LEAST && wide && least_bytes(a, self.tile) > SPARSE * dense
    }

    /// Whether an operand follows from places or is one value.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are what they were found to be")]
    fn is_known(&self, id: NodeId, dims: &[u64]) -> bool {
        let n = self.comp.node(id);
        let same = self.shape(id).is_some_and(|a| a.dims == dims);
        match &n.op {
            Op::Broadcast { dims: map } => same && map.is_empty(),
            Op::Iota { .. } => same && self.shape(id).is_some_and(|a| counts(a.dtype)),
            _ => self.marks[id.index()] && same || self.shape(id).is_some_and(|a| a.rank() == 0),
        }
    }

    fn run(&mut self) {
        for id in self.comp.ids() {
            let n = self.comp.node(id);
            let Some(a) = self.shape(id).filter(|a| n.op.is_elementwise() && self.is_sparse(a)) else { continue };
            self.marks[id.index()] = n.operands.iter().all(|&o| self.is_known(o, &a.dims));
        }
        // All of one chain, from its last operations on: what is too short to be worth it leaves what it is made of, too.
        let mut left: Vec<NodeId> = self.comp.ids().filter(|&id| self.ends(id) && self.cone(id).len() < LONG).collect();
        while let Some(id) = left.pop() {
            if std::mem::take(&mut self.marks[id.index()]) {
                left.extend(self.comp.node(id).operands.iter().copied().filter(|o| self.marks[o.index()]));
                left.extend(self.users[id.index()].iter().copied().filter(|u| self.marks[u.index()]));
            }
        }
    }

    /// Whether a marked node is wanted with the program's dimensions.
    fn ends(&self, id: NodeId) -> bool {
        let outside = |u: &NodeId| !self.marks[u.index()];
        self.marks[id.index()] && (id == self.comp.root || self.users[id.index()].iter().any(outside))
    }

    /// Marked nodes that a node is made of.
    fn cone(&self, id: NodeId) -> BTreeSet<NodeId> {
        let mut all = BTreeSet::new();
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            if self.marks[id.index()] && all.insert(id) {
                left.extend(&self.comp.node(id).operands);
            }
        }
        all
    }
}

/// Types that places are numbered in.
fn counts(dtype: DType) -> bool {
    matches!(dtype, DType::S32 | DType::U32)
}

/// Runs the pass; `tile` is the chip's sublanes and lanes.
pub fn run(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let wanted = reachable(&module);
    let mut all: BTreeSet<(usize, NodeId)> = BTreeSet::new();
    for (i, comp) in module.computations.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        let mut s = Search { comp, users: uses(comp), tile, marks: vec![false; comp.nodes.len()] };
        s.run();
        all.extend(comp.ids().filter(|id| s.marks[id.index()]).map(|id| (i, id)));
    }
    if all.is_empty() {
        return Ok(module);
    }
    rewrite(module, draft, &mut |b, n, operands| {
        let ours = all.contains(&b.place()) && b.draft.fire("generated");
        Ok(if ours { Some(flat(b, n, operands)) } else { None })
    })
}

/// An operation on all elements in one dimension, with its own dimensions again.
fn flat(b: &mut Emit, n: &Node, operands: &[NodeId]) -> NodeId {
    let a = array(&n.shape).clone();
    let count = [a.elements()];
    let xs: Vec<NodeId> = operands.iter().map(|&o| operand(b, o, &count)).collect();
    let done = b.emit(n.op.clone(), &xs, Shape::array(a.dtype, &count));
    b.reshape(done, &a.dims)
}

/// An operand in one dimension.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are made in one dimension already")]
fn operand(b: &mut Emit, x: NodeId, count: &[u64; 1]) -> NodeId {
    match b.op(x).clone() {
        _ if b.rank(x) == 0 => x,
        Op::Broadcast { dims } if dims.is_empty() => {
            let value = b.operand(x, 0);
            b.broadcast(value, &[], count)
        }
        Op::Iota { dim } => {
            let dims = b.dims(x).to_vec();
            let below: u64 = dims[dim + 1..].iter().product();
            let mut place = b.iota(b.dtype(x), count, 0);
            if below > 1 {
                place = b.with(Binary::Div, place, below as f64);
            }
            if dims[..dim].iter().any(|&d| d > 1) {
                place = b.with(Binary::Rem, place, dims[dim] as f64);
            }
            place
        }
        _ => b.reshape(x, count),
    }
}
