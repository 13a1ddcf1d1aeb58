//! Fused operations of several kernels: computed again in each, or once as an array.
//!
//! What an operation needs is its *cone*: the operations above it up to what is an array anyway. Computing it in every kernel reads
//! the cone's arrays and does its work in each; an array of it is written once and read by each. Where an array is cheaper, it is made
//! where the values are narrow: of two neighbours in a chain the one of fewer bits (a mask rather than the random numbers it comes
//! from, what is converted rather than the wider copy).

use super::group::{cost, is_lane_reduce, is_pointwise, is_windowed, reads_points};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use systole_hlo::graph::{Computation, NodeId, Op};

/// Bytes that a simple vector operation on one element is worth (a lane of four slots against HBM's bandwidth, on public chips an
/// eighth to a quarter of a byte).
pub const BYTES_OF_WORK: f64 = 1.0 / 6.0;
/// Bytes that a kernel of its own is worth: some hundreds of cycles of calls and of pipelines that fill.
const BYTES_OF_KERNEL: f64 = 256e3;
/// Lanes that hold a value of which only one an iteration along them is wanted.
pub const LANES: f64 = 128.0;
/// Rows of a register.
const SUBLANES: f64 = 8.0;
/// Registers of values that rows share which kernels hold at the most, about, and blocks of rows that are reduced together.
const HELD: f64 = 8.0;
const TOGETHER: f64 = 4.0;
/// Most work of an operation that is passed over because what is above it is narrower.
const MOST_PASSED: u32 = 12;
/// Most work, along one path, that is done in every user's kernel.
const MOST_WORK: u32 = 256;
/// Operations of a cone that are looked at: larger ones are never computed again.
const MOST_LOOKED: usize = 96;
/// Kernels that are told apart.
const MOST_KERNELS: usize = 16;

/// What is known of the operations that were decided so far (users come before operands).
pub struct Again<'a> {
    comp: &'a Computation,
    /// Nodes that are arrays whatever is decided.
    arrays: Vec<bool>,
    /// Nodes whose values are the same in whole rows and columns of all that reads them (a factor of each head of an attention, say).
    filling: Vec<bool>,
    /// Kernels that compute an operation again.
    kernels: Vec<SmallVec<[NodeId; 4]>>,
    /// Work along the longest path from an operation to the array it is part of.
    work: Vec<u32>,
    /// What kernels that reduce along lanes on the way iterate over.
    reducing: FxHashMap<NodeId, NodeId>,
}

/// What an operation is made of.
struct Cone {
    /// Simple vector operations an element.
    work: f64,
    /// Bytes an element of the arrays that it reads.
    bytes: f64,
}

impl<'a> Again<'a> {
    /// Of a computation with its nodes' users.
    pub fn new(comp: &'a Computation, pinned: &dyn Fn(NodeId) -> bool, users: &[Vec<NodeId>]) -> Again<'a> {
        let fused = |id: NodeId| is_pointwise(comp, id) || matches!(comp.node(id).op, Op::Slice { .. });
        let read =
            |id: NodeId| users[id.index()].iter().any(|&u| !reads_points(comp, u)) || is_windowed(comp, users, id);
        let arrays = comp.ids().map(|id| pinned(id) || !fused(id) || read(id)).collect();
        let fills = |&u: &NodeId| match (&comp.node(u).op, comp.node(u).shape.as_array()) {
            (Op::Broadcast { dims }, Some(to)) => dims.iter().all(|&d| d + 2 < to.rank()),
            _ => false,
        };
        let filling = users.iter().map(|users| !users.is_empty() && users.iter().all(fills)).collect();
        let n = comp.nodes.len();
        Again {
            comp,
            arrays,
            filling,
            kernels: vec![SmallVec::new(); n],
            work: vec![0; n],
            reducing: FxHashMap::default(),
        }
    }

    /// A kernel reduces along lanes, over what has the sizes of `space`.
    pub fn reduces(&mut self, kernel: NodeId, space: NodeId) {
        self.reducing.insert(kernel, space);
    }

    /// What a kernel iterates over, and whether it reduces along lanes.
    fn space(&self, kernel: NodeId) -> (NodeId, bool) {
        let node = self.comp.node(kernel);
        match (self.reducing.get(&kernel), matches!(node.op, Op::Reduce { .. } | Op::ReduceWindow { .. })) {
            (Some(&space), _) => (space, true),
            (None, true) => (node.operands[0], is_lane_reduce(self.comp, kernel)),
            (None, false) => (kernel, false),
        }
    }

    /// The kernels that compute an operation of several, and whether these are all.
    pub fn kernels(&self, id: NodeId) -> (&[NodeId], bool) {
        let all = &self.kernels[id.index()];
        (all, all.len() < MOST_KERNELS)
    }

    /// Whether an operation of these kernels is computed in each of them.
    pub fn pays(&mut self, id: NodeId, mut kernels: SmallVec<[NodeId; 4]>) -> bool {
        let op = &self.comp.node(id).op;
        let free = matches!(op, Op::Constant(_) | Op::Iota { .. } | Op::Broadcast { .. } | Op::Slice { .. });
        let own = cost(op).saturating_add(self.work[id.index()]);
        let pays = own <= MOST_WORK && (free || self.is_cheaper(id, &kernels) || self.is_wide(id, &kernels));
        if pays {
            for o in &self.comp.node(id).operands {
                self.work[o.index()] = self.work[o.index()].max(own);
            }
            kernels.truncate(MOST_KERNELS);
            self.kernels[id.index()] = kernels;
        }
        pays
    }

    /// Whether an operation of one kernel only is still better an array: along leading dimensions of the kernel its value is
    /// the same, and computing it for each of their indices takes more than writing it once and reading it.
    pub fn repeats(&self, id: NodeId, kernel: NodeId) -> bool {
        let node = self.comp.node(id);
        let columns = |id: NodeId| self.comp.node(id).shape.as_array().and_then(|a| a.dims.last().copied());
        let space = self.space(kernel).0;
        let free = matches!(node.op, Op::Constant(_) | Op::Iota { .. } | Op::Broadcast { .. } | Op::Slice { .. });
        let fewer = 2.0 * self.elements(id) <= self.elements(space);
        let repeated = fewer && (columns(id) == columns(space) || self.filling[id.index()]);
        !free && repeated && !self.is_cheaper(id, &[kernel])
    }

    fn elements(&self, id: NodeId) -> f64 {
        self.comp.node(id).shape.as_array().map_or(0.0, |a| a.elements() as f64)
    }

    /// Bytes an element.
    fn width(&self, id: NodeId) -> f64 {
        self.comp.node(id).shape.as_array().map_or(0.0, |a| f64::from(a.dtype.bits()).max(8.0) / 8.0)
    }

    /// Elements of an operation that a kernel computes: those of its own iteration, over which the operation may be spread. Along
    /// lanes that costs nothing, along rows not much.
    fn computed(&self, id: NodeId, kernel: NodeId) -> f64 {
        let (space, along) = self.space(kernel);
        let columns =
            |id: NodeId| self.comp.node(id).shape.as_array().and_then(|a| a.dims.last().copied()).unwrap_or(1);
        let all = self.elements(space).max(self.elements(id));
        if columns(id) != columns(space) {
            return all / (columns(space) as f64 / LANES).max(1.0);
        }
        if self.elements(id) >= all {
            return all;
        }
        // What rows share is computed once for all of them, in registers of which it fills a row; of rows along which is reduced, where
        // registers do not hold all of it, once for some blocks of them.
        let tiles = columns(id).div_ceil(LANES as u64) as f64;
        let rows = self.elements(id) / columns(id).max(1) as f64;
        let once = rows * tiles * LANES * SUBLANES;
        all.min(if along && tiles > HELD { once.max(all / TOGETHER) } else { once })
    }

    /// Whether computing an operation in these kernels takes less than an array of it.
    fn is_cheaper(&self, id: NodeId, kernels: &[NodeId]) -> bool {
        let Some(cone) = self.cone(id) else { return false };
        let (n, count) = (self.elements(id), kernels.len() as f64);
        let computed: f64 = kernels.iter().map(|&k| self.computed(id, k)).sum();
        let again = (count - 1.0) * n * cone.bytes + (computed - n) * cone.work * BYTES_OF_WORK;
        let stored = (count + 1.0) * n * self.width(id) + BYTES_OF_KERNEL;
        again <= stored
    }

    /// Whether arrays of the operands that are worth one have fewer bits than one of the operation itself.
    fn is_wide(&self, id: NodeId, kernels: &[NodeId]) -> bool {
        let node = self.comp.node(id);
        let mut above: SmallVec<[NodeId; 3]> = node.operands.iter().copied().collect();
        above.sort_unstable();
        above.dedup();
        let same = |o: NodeId| self.elements(o) == self.elements(id);
        above.retain(|o| !self.arrays[o.index()] && same(*o) && !self.is_cheaper(*o, kernels));
        let bytes: f64 = above.iter().map(|&o| self.width(o)).sum();
        cost(&node.op) <= MOST_PASSED && !above.is_empty() && bytes < self.width(id)
    }

    /// The cone of an operation; `None` if it is too large.
    fn cone(&self, id: NodeId) -> Option<Cone> {
        let n = self.elements(id);
        let mut cone = Cone { work: 0.0, bytes: 0.0 };
        let mut seen = FxHashSet::default();
        let mut stack = vec![id];
        while let Some(at) = stack.pop() {
            if at != id && self.arrays[at.index()] {
                // What is smaller costs in proportion.
                cone.bytes += self.width(at) * (self.elements(at) / n.max(1.0)).min(1.0);
                continue;
            }
            cone.work += f64::from(cost(&self.comp.node(at).op)) * (self.elements(at) / n.max(1.0)).min(1.0);
            for &o in &self.comp.node(at).operands {
                if seen.insert(o) {
                    stack.push(o);
                }
            }
            if seen.len() > MOST_LOOKED {
                return None;
            }
        }
        Some(cone)
    }
}
