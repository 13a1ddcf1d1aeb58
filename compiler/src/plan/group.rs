//! Fusion: which nodes become arrays in memory, and which are computed inside the kernel of another node.
//!
//! Every array node gets an *owner*: the node whose kernel computes it. A node that owns itself is a *root* and is
//! materialised. Elementwise operations, broadcasts and degenerate reshapes are owned by their users' common owner; with
//! several owners they are computed again in each when that is cheaper than an array ([`Again`]), else they become roots. Slices that only such
//! operations use are read where they lie. A reduction along the last
//! dimension whose users all have one owner is computed inside that owner's row loop (softmax and normalisation
//! chains); other reductions are roots that take in their producers.

mod cut;

use self::cut::{is_cut, is_shifted_cut, reaches_beyond, stands_in_rows};
use super::again::Again;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use systole_codegen::emit::elementwise::effort::{Effort, SERIES, effort, work};
use systole_hlo::graph::{Computation, NodeId, Op, Shape, SliceDim};
use systole_isa::{DType, Layout};
use systole_passes::transfers::narrow::far_apart;

/// What becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Not used, or no array.
    None,
    /// Materialised: its own kernel or a memory object.
    Root,
    /// Computed inside the kernel of that root.
    In(NodeId),
    /// Computed inside the kernel of every user.
    Inline,
}

/// The owners of a computation's nodes.
#[derive(Clone, Default)]
pub struct Groups {
    pub owner: Vec<Owner>,
    /// For each root of a row kernel: the node whose shape is the iteration space (the root, or the operand of a reduction
    /// that the root's rows come from).
    pub space: Vec<NodeId>,
    pub users: Vec<Vec<NodeId>>,
    /// Kernels of several roots by the one that they are named after: all of them, that one first.
    pub several: FxHashMap<NodeId, Vec<NodeId>>,
    /// That one of the others.
    pub lead: FxHashMap<NodeId, NodeId>,
    /// The nodes in an order that has the roots of a kernel side by side; empty: the program's.
    pub order: Vec<NodeId>,
    /// Reductions that share no kernel: their rows are too long for it.
    pub long: FxHashSet<NodeId>,
    /// Broadcasts that reshapes make on the way.
    pub repeated: FxHashSet<NodeId>,
    /// What moves whole rows for concatenations alone, which take these from where they lie.
    pub pieces: FxHashSet<NodeId>,
    /// Concatenations whose parts are put where another one has them.
    pub nested: FxHashSet<NodeId>,
    /// Roots whose kernels reduce along lanes of their space: it stays what it is.
    reducing: FxHashSet<NodeId>,
    /// Slices that begin within a tile of lanes and are read where they lie.
    shifted: FxHashSet<NodeId>,
}

impl Groups {
    pub fn is_root(&self, id: NodeId) -> bool {
        self.owner[id.index()] == Owner::Root
    }

    /// The roots of a root's kernel, the one that it is named after first.
    pub fn roots_of(&self, root: NodeId) -> Vec<NodeId> {
        let lead = self.lead.get(&root).copied().unwrap_or(root);
        self.several.get(&lead).cloned().unwrap_or_else(|| vec![root])
    }

    /// Whether the kernel of these roots may read a slice where it lies: with its lanes shifted if none of them reduces.
    pub fn reads_cut(&self, comp: &Computation, roots: &[NodeId], slice: NodeId) -> bool {
        let whole = |r: &NodeId| is_pointwise(comp, *r) && !self.reducing.contains(r);
        !self.shifted.contains(&slice) || roots.iter().all(whole)
    }

    /// Sizes of the points of a kernel: those of the roots that have the most.
    pub fn points(&self, comp: &Computation, roots: &[NodeId]) -> Vec<u64> {
        let space = |&root: &NodeId| {
            let of = if is_lane_reduce(comp, root) { comp.node(root).operands[0] } else { self.space[root.index()] };
            comp.node(of).shape.as_array().map_or(&[][..], |a| &a.dims)
        };
        roots.iter().map(space).max_by_key(|d| d.iter().product::<u64>()).unwrap_or_default().to_vec()
    }

    /// The operations that a root's kernel computes besides it, in the program's order: at most [`MEMBERS`], the nearest.
    pub fn members(&self, comp: &Computation, root: NodeId) -> Vec<NodeId> {
        let roots = self.roots_of(root);
        let mut found: BTreeSet<NodeId> = roots.iter().copied().collect();
        let mut queue: VecDeque<NodeId> = roots.into();
        while let Some(at) = queue.pop_front() {
            for &o in &comp.node(at).operands {
                let inside = match self.owner[o.index()] {
                    Owner::In(_) | Owner::Inline => !matches!(comp.node(o).op, Op::Constant(_) | Op::Parameter { .. }),
                    Owner::Root | Owner::None => false,
                };
                if inside && found.len() <= MEMBERS && found.insert(o) {
                    queue.push_back(o);
                }
            }
        }
        found.remove(&root);
        found.into_iter().collect()
    }
}

/// Operations of a kernel that are listed.
const MEMBERS: usize = 500;

/// Nodes that are computed in the kernel of one root at most: what is done with a kernel takes longer than in proportion
/// to its size.
const MOST_MEMBERS: u32 = 1024;

/// Whether an operation may be computed at a point inside any loop kernel.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed has a kernel of its own")]
pub fn is_pointwise(comp: &Computation, id: NodeId) -> bool {
    let n = comp.node(id);
    match &n.op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare { .. } | Op::Select | Op::Clamp | Op::Convert => true,
        Op::ReducePrecision { .. } | Op::Iota { .. } | Op::Broadcast { .. } => n.shape.as_array().is_some(),
        Op::BitcastConvert => same_width(comp, id),
        Op::Reshape => is_degenerate_reshape(comp, id),
        Op::Constant(l) => l.as_splat().is_some() || l.elements() == 1,
        _ => false,
    }
}

fn same_width(comp: &Computation, id: NodeId) -> bool {
    let n = comp.node(id);
    let from = comp.node(n.operands[0]).shape.as_array();
    match (from, n.shape.as_array()) {
        (Some(a), Some(b)) => a.dtype.bits() == b.dtype.bits(),
        _ => false,
    }
}

/// Sizes without those of 1.
pub fn strip(dims: &[u64]) -> Vec<u64> {
    dims.iter().copied().filter(|&x| x != 1).collect()
}

/// A reshape that only adds or drops dimensions of size 1.
pub fn is_degenerate_reshape(comp: &Computation, id: NodeId) -> bool {
    let n = comp.node(id);
    let (Some(from), Some(to)) = (comp.node(n.operands[0]).shape.as_array(), n.shape.as_array()) else { return false };
    strip(&from.dims) == strip(&to.dims)
}

/// Work of one element, in simple vector operations.
#[allow(clippy::wildcard_enum_match_arm, reason = "an estimate: what is not listed moves elements")]
pub fn cost(op: &Op) -> u32 {
    match op {
        Op::Unary(u) => match effort(*u) {
            Effort::Simple => 1,
            Effort::Function => 4,
            Effort::Series => SERIES,
        },
        Op::Binary(o) => work(*o),
        Op::Reduce { .. } | Op::ReduceWindow { .. } => 100,
        _ => 1,
    }
}

/// A reduction over exactly the last dimension of its one operand.
pub fn is_lane_reduce(comp: &Computation, id: NodeId) -> bool {
    let n = comp.node(id);
    let Op::Reduce { dims, .. } = &n.op else { return false };
    let Some(x) = comp.node(n.operands[0]).shape.as_array() else { return false };
    matches!(n.shape, Shape::Array(_)) && dims.len() == 1 && dims[0] + 1 == x.rank()
}

/// Windows of one array side by side: equal slices of it, their starts `step` apart along dimension `along`.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    pub source: NodeId,
    pub along: usize,
    pub step: i64,
    pub count: u64,
    /// Whether each slice is reshaped first: a dimension of size 1 inserted, along which they are put side by side.
    pub inserted: bool,
    /// The first slice.
    pub first: Vec<SliceDim>,
}

/// The windows that a concatenation puts side by side, if that is all it does.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for slices alone")]
pub fn windows_of(comp: &Computation, id: NodeId) -> Option<Windows> {
    let node = comp.node(id);
    let Op::Concatenate { dim } = node.op else { return None };
    let inserted = node.operands.iter().all(|&o| inserts(comp, o, dim));
    let slices: Vec<(NodeId, &Vec<SliceDim>)> = node
        .operands
        .iter()
        .map(|&o| {
            let slice = comp.node(if inserted { comp.node(o).operands[0] } else { o });
            match &slice.op {
                Op::Slice { dims } => Some((slice.operands[0], dims)),
                _ => None,
            }
        })
        .collect::<Option<_>>()?;
    let [(source, first), (_, second), ..] = slices[..] else { return None };
    let start = |d: &SliceDim| d.start as i64;
    let along = (0..first.len()).find(|&d| first[d].start != second[d].start)?;
    let step = start(&second[along]) - start(&first[along]);
    let regular = slices.iter().enumerate().all(|(i, (s, dims))| {
        *s == source
            && dims.iter().zip(first).enumerate().all(|(d, (x, f))| {
                let shift = if d == along { step * i as i64 } else { 0 };
                start(x) == start(f) + shift && x.limit as i64 == f.limit as i64 + shift && x.stride == f.stride
            })
    });
    regular.then(|| Windows { source, along, step, count: slices.len() as u64, inserted, first: first.clone() })
}

/// Whether a node is a reshape that inserts dimension `dim` of size 1.
fn inserts(comp: &Computation, id: NodeId, dim: usize) -> bool {
    let node = comp.node(id);
    let sizes = |id: NodeId| comp.node(id).shape.as_array().map(|a| a.dims.clone());
    let (Op::Reshape, Some(mut to)) = (&node.op, sizes(id)) else { return false };
    to.remove(dim) == 1 && sizes(node.operands[0]) == Some(to)
}

/// Whether a node is a reshape that splits dimensions, the last one among them (heads and their features, say), and that only
/// transposes read: they split on the way.
pub fn is_split(comp: &Computation, id: NodeId, users: &[NodeId]) -> bool {
    let node = comp.node(id);
    let sizes = |id: NodeId| comp.node(id).shape.as_array().map(|a| &a.dims[..]);
    let (Op::Reshape, Some(to)) = (&node.op, sizes(id)) else { return false };
    let Some(from) = sizes(node.operands[0]) else { return false };
    let last = |dims: &[u64]| dims.last().copied().unwrap_or(1);
    let few = |permutation: &[usize]| !permutation.last().is_some_and(|&p| far_apart(last(from), to, p));
    let turned =
        |u: &NodeId| if let Op::Transpose { permutation } = &comp.node(*u).op { few(permutation) } else { false };
    last(from) > last(to) && last(to) > 1 && splits(from, to) && !users.is_empty() && users.iter().all(turned)
}

/// Whether a node puts whole rows of an array in another order, or takes a part of it, for concatenations alone (besides those of
/// `windows`); users come first. What a loop computes for it alone is computed as it is taken instead.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation moves rows")]
fn is_piece(comp: &Computation, g: &Groups, windows: &[bool], id: NodeId) -> bool {
    let node = comp.node(id);
    let sizes = |id: NodeId| comp.node(id).shape.as_array().map_or(&[][..], |a| &a.dims[..]);
    let Some(&operand) = node.operands.first() else { return false };
    let (from, to) = (sizes(operand), sizes(id));
    let last = to.len().saturating_sub(1);
    let rows = to.len() > 1
        && match &node.op {
            Op::Slice { dims } => dims[last].stride == 1,
            Op::Reshape => to.len() > from.len() && splits(from, to),
            _ if from.last() != to.last() => false,
            Op::Reverse { dims } => !dims.contains(&last),
            Op::Transpose { permutation } => permutation[last] == last,
            _ => false,
        };
    let users = &g.users[id.index()];
    let taken = |u: &NodeId| {
        let joined = matches!(comp.node(*u).op, Op::Concatenate { .. }) && !windows[u.index()];
        joined && g.is_root(*u) || g.pieces.contains(u) || g.nested.contains(u)
    };
    let own = is_pointwise(comp, operand) && g.users[operand.index()].len() == 1;
    // What a loop computes on the way is no array, nor are slices that transposes take where they lie, and rows that these split.
    let mut at = operand;
    let mut split = false;
    while comp.node(at).op == Op::Reshape {
        let before = comp.node(at).operands[0];
        split |= sizes(before).last() != sizes(at).last();
        at = before;
    }
    let other = is_pointwise(comp, id) || split || matches!(comp.node(at).op, Op::DynamicSlice { .. });
    rows && !own && !other && !users.is_empty() && users.iter().all(taken)
}

/// Whether a node is a concatenation that only another one takes, besides those of `windows`; users come first.
fn is_nested(comp: &Computation, g: &Groups, windows: &[bool], id: NodeId) -> bool {
    let joins = |id: NodeId| matches!(comp.node(id).op, Op::Concatenate { .. }) && !windows[id.index()];
    let [user] = g.users[id.index()][..] else { return false };
    joins(id) && joins(user) && (g.is_root(user) || g.nested.contains(&user))
}

/// Whether a node repeats the elements of an array, or its rows, each so often in a dimension of its own, and only reshapes read it
/// that merge this with the dimension before. Whole registers of the same row need none of that.
fn is_repeat(comp: &Computation, id: NodeId, users: &[NodeId], rows: Rows) -> bool {
    let node = comp.node(id);
    let sizes = |id: NodeId| comp.node(id).shape.as_array().map(|a| &a.dims[..]);
    let (Op::Broadcast { dims }, Some(to)) = (&node.op, sizes(id)) else { return false };
    let merges = |last: &dyn Fn(u64) -> bool| {
        let merged = |u: &NodeId| sizes(*u).is_some_and(|m| splits(m, to) && m.last().is_some_and(|&m| last(m)));
        !users.is_empty() && users.iter().all(|u| comp.node(*u).op == Op::Reshape && merged(u))
    };
    if let [.., before, count] = *to
        && count > 1
        && before > 1
        && dims.last().is_some_and(|&d| d + 2 == to.len())
    {
        return merges(&|last| last > count);
    }
    let [.., before, count, width] = *to else { return false };
    let of_rows = matches!(dims[..], [.., b, w] if b + 3 == to.len() && w + 1 == to.len());
    let whole = count.is_multiple_of(rows.sublanes);
    of_rows && count > 1 && before > 1 && !whole && merges(&|last| last >= width)
}

/// Whether every dimension of `from` is some neighbours in `to` together.
fn splits(from: &[u64], to: &[u64]) -> bool {
    let mut parts = to.iter();
    let whole = |&size: &u64| {
        let mut product = 1;
        while product < size {
            let Some(part) = parts.next() else { return false };
            product *= part;
        }
        product == size
    };
    from.iter().all(whole) && parts.all(|&d| d == 1)
}

/// What the rows of kernels are bounded by.
#[derive(Clone, Copy)]
pub struct Rows {
    /// Rows and lanes of a register.
    pub sublanes: u64,
    pub lanes: u64,
    /// Bytes of vector memory.
    pub vmem: u64,
}

/// Windows of whole rows that a kernel has room for besides others: what it reads and what it writes, twice each.
const ROW_WINDOWS: u64 = 6;

impl Rows {
    /// Whether a reduction along lanes has rows of which no kernel can hold a register's, read and written, and that do not stay in
    /// vector memory either: it is a pass of its own.
    fn are_long(self, comp: &Computation, reduce: NodeId) -> bool {
        let Some(a) = comp.node(comp.node(reduce).operands[0]).shape.as_array() else { return false };
        let columns = a.dims.last().copied().unwrap_or(1);
        // As words: what is computed is.
        let bytes = Layout::row_major(DType::F32, &a.dims, self.sublanes as u32, self.lanes as u32).bytes();
        bytes > self.vmem / 2 && columns * self.sublanes * 4 * ROW_WINDOWS > self.vmem
    }
}

/// Decides the owners. `pinned` nodes must be materialised whatever uses them; roots of one of `sets` share a kernel.
pub fn group(comp: &Computation, rows: Rows, pinned: &dyn Fn(NodeId) -> bool, sets: &[Vec<NodeId>]) -> Groups {
    let n = comp.nodes.len();
    let mut users: Vec<Vec<NodeId>> = vec![Vec::new(); n];
    for id in comp.ids() {
        for &o in &comp.node(id).operands {
            if users[o.index()].last() != Some(&id) {
                users[o.index()].push(id);
            }
        }
    }
    let mut g = Groups { owner: vec![Owner::None; n], space: comp.ids().collect(), users, ..Groups::default() };
    let again = Again::new(comp, pinned, &g.users);
    let mut decision = Decision { comp, again, shared: Shared::new(sets), members: vec![0; n] };
    // Concatenations of windows, and the reshapes between their slices and them.
    let mut windows: Vec<bool> = comp.ids().map(|id| windows_of(comp, id).is_some()).collect();
    for id in comp.ids().rev() {
        let users = &g.users[id.index()];
        if comp.node(id).op == Op::Reshape && !pinned(id) && !users.is_empty() {
            windows[id.index()] = users.iter().all(|&u| windows[u.index()] && comp.node(u).op != Op::Reshape);
        }
    }
    for id in comp.ids().rev() {
        if comp.node(id).shape.as_array().is_none() {
            continue;
        }
        let used = g.users[id.index()]
            .iter()
            .any(|u| g.owner[u.index()] != Owner::None || comp.node(*u).shape.as_array().is_none());
        if is_lane_reduce(comp, id) && rows.are_long(comp, id) {
            g.long.insert(id);
        }
        g.owner[id.index()] = if pinned(id) {
            Owner::Root
        } else if !used {
            Owner::None
        } else if matches!(comp.node(id).op, Op::Slice { .. } | Op::Reshape)
            && g.users[id.index()].iter().all(|&u| windows[u.index()])
            || is_split(comp, id, &g.users[id.index()])
        {
            Owner::Inline
        } else if is_nested(comp, &g, &windows, id) {
            g.nested.insert(id);
            Owner::Inline
        } else if is_piece(comp, &g, &windows, id) {
            g.pieces.insert(id);
            Owner::Inline
        } else if is_repeat(comp, id, &g.users[id.index()], rows) {
            g.repeated.insert(id);
            Owner::Inline
        } else if is_pointwise(comp, id)
            || is_cut(comp, id, rows.lanes)
                && !reaches_beyond(comp, id, rows)
                && !stands_in_rows(comp, (&g.users, id), rows)
        {
            decision.pointwise(&g, id)
        } else if is_shifted_cut(comp, id, rows) && !reaches_beyond(comp, id, rows) {
            let owner = decision.shifted(&g, id);
            if owner != Owner::Root {
                g.shifted.insert(id);
            }
            owner
        } else if g.long.contains(&id) {
            Owner::Root
        } else if is_lane_reduce(comp, id) {
            decision.reduce(&mut g, id)
        } else {
            Owner::Root
        };
        match g.owner[id.index()] {
            Owner::In(root) => decision.members[root.index()] += 1,
            Owner::Root => decision.shared.decided(id),
            Owner::Inline | Owner::None => {}
        }
    }
    for set in sets {
        let mut roots: Vec<NodeId> = set.iter().copied().filter(|&id| g.is_root(id)).collect();
        // The root with the most elements names the kernel.
        let size = |id: &NodeId| comp.node(*id).shape.as_array().map_or(0, |a| a.elements());
        roots.sort_by_key(|id| std::cmp::Reverse((size(id), *id)));
        if let [lead, others @ ..] = &roots[..]
            && !others.is_empty()
        {
            g.lead.extend(others.iter().map(|id| (*id, *lead)));
            g.several.insert(*lead, roots);
        }
    }
    g
}

/// Roots that share a kernel, while owners are decided.
struct Shared {
    /// The set of a root, and of each set the first root that was decided.
    set: FxHashMap<NodeId, usize>,
    first: Vec<Option<NodeId>>,
}

impl Shared {
    fn new(sets: &[Vec<NodeId>]) -> Shared {
        let set = sets.iter().enumerate().flat_map(|(i, s)| s.iter().map(move |&id| (id, i))).collect();
        Shared { set, first: vec![None; sets.len()] }
    }

    fn decided(&mut self, root: NodeId) {
        if let Some(&i) = self.set.get(&root) {
            self.first[i].get_or_insert(root);
        }
    }

    /// The root that stands for a root's kernel.
    fn kernel(&self, root: NodeId) -> NodeId {
        self.set.get(&root).and_then(|&i| self.first[i]).unwrap_or(root)
    }
}

/// The owner that every user of a node leads to, if there is one.
enum Common {
    One(NodeId),
    Several(SmallVec<[NodeId; 4]>),
    /// Some user needs the array itself.
    Array,
}

/// Whether a user can compute its operands itself: others need arrays.
pub fn reads_points(comp: &Computation, user: NodeId) -> bool {
    is_pointwise(comp, user) || matches!(comp.node(user).op, Op::Reduce { .. } | Op::ReduceWindow { .. })
}

/// What owners are decided by, the groups aside.
struct Decision<'a> {
    comp: &'a Computation,
    again: Again<'a>,
    shared: Shared,
    /// How many nodes are computed in a root's kernel.
    members: Vec<u32>,
}

impl Decision<'_> {
    /// The kernels that need a node.
    fn common(&self, g: &Groups, id: NodeId) -> Common {
        let comp = self.comp;
        let mut kernels: SmallVec<[NodeId; 4]> = SmallVec::new();
        let mut known = true;
        for &u in &g.users[id.index()] {
            if !reads_points(comp, u) || g.repeated.contains(&u) {
                return Common::Array;
            }
            match g.owner[u.index()] {
                Owner::None if comp.node(u).shape.as_array().is_some() => {}
                // A reduction with several results is a root of its own.
                Owner::None | Owner::Root => kernels.push(self.shared.kernel(u)),
                Owner::In(r) => kernels.push(r),
                Owner::Inline => {
                    let (all, whole) = self.again.kernels(u);
                    kernels.extend(all.iter().map(|&k| self.shared.kernel(k)));
                    known &= whole;
                }
            }
        }
        kernels.sort_unstable();
        kernels.dedup();
        match kernels[..] {
            [one] if known => Common::One(one),
            _ => Common::Several(kernels),
        }
    }

    fn pointwise(&mut self, g: &Groups, id: NodeId) -> Owner {
        let comp = self.comp;
        if is_windowed(comp, &g.users, id) {
            return Owner::Root;
        }
        match self.common(g, id) {
            Common::Array => Owner::Root,
            Common::One(r) if self.members[r.index()] >= MOST_MEMBERS || self.again.repeats(id, r) => Owner::Root,
            Common::One(r) => Owner::In(r),
            Common::Several(kernels) => {
                if self.again.pays(id, kernels) {
                    Owner::Inline
                } else {
                    Owner::Root
                }
            }
        }
    }

    /// Turning lanes takes about as long as an array of them: a slice that begins within a tile is read where it lies by one kernel alone.
    fn shifted(&self, g: &Groups, id: NodeId) -> Owner {
        let comp = self.comp;
        if is_windowed(comp, &g.users, id) {
            return Owner::Root;
        }
        match self.common(g, id) {
            Common::One(r) if self.members[r.index()] < MOST_MEMBERS && is_pointwise(comp, r) => Owner::In(r),
            Common::One(_) | Common::Several(_) | Common::Array => Owner::Root,
        }
    }

    fn reduce(&mut self, g: &mut Groups, id: NodeId) -> Owner {
        let comp = self.comp;
        let Common::One(root) = self.common(g, id) else { return Owner::Root };
        let row_kernel = is_pointwise(comp, root) || is_lane_reduce(comp, root);
        if !row_kernel || self.members[root.index()] >= MOST_MEMBERS {
            return Owner::Root;
        }
        let operand = comp.node(id).operands[0];
        let dims = |n: NodeId| comp.node(n).shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
        let space = g.space[root.index()];
        let space_dims =
            if space == root && is_lane_reduce(comp, root) { dims(comp.node(root).operands[0]) } else { dims(space) };
        let mine = dims(operand);
        if space_dims == mine {
            g.reducing.insert(root);
            return Owner::In(root);
        }
        // The root's rows are this reduction's rows: the kernel iterates the reduction's operand.
        let kept = &mine[..mine.len() - 1];
        let own = space == root && is_pointwise(comp, root) && !g.reducing.contains(&root);
        if own && strip(&dims(root)) == strip(kept) && mine.last() != Some(&1) {
            g.reducing.insert(root);
            g.space[root.index()] = operand;
            self.again.reduces(root, operand);
            return Owner::In(root);
        }
        Owner::Root
    }
}

/// Whether a window reduction reads the node's elements: its kernel reads arrays (initial values it computes).
pub fn is_windowed(comp: &Computation, users: &[Vec<NodeId>], id: NodeId) -> bool {
    users[id.index()]
        .iter()
        .map(|u| comp.node(*u))
        .any(|u| matches!(u.op, Op::ReduceWindow { .. }) && u.operands[..u.operands.len() / 2].contains(&id))
}
