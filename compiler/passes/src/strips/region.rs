//! Which operations are done strip by strip, along which dimension.
//!
//! A region grows from an array that is too large to stay in vector memory, through others like it; then what lies on paths
//! between its operations, what only it uses, and what makes less of its results are taken in. It is convex: nothing outside
//! of it both uses it and is used by it.

use super::members::Members;
use super::walk::{At, Need, contracted, follows, needs};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::collections::BTreeSet;
use systole_hlo::analysis::uses::uses;
use systole_hlo::graph::{Computation, Literal, NodeId, Op};
use systole_isa::Layout;

/// Arrays that take more than this part of vector memory do not stay there.
pub const LARGE: (u64, u64) = (2, 5);
/// Arrays of at most one part in so many of vector memory are cut anywhere: what that costs is little.
const SMALL: u64 = 64;
/// Arrays of more than one part in so many of vector memory lead a region that reaches far from one operation to the next.
const MIDDLE: u64 = 16;
/// HBM traffic of a region's inner arrays over that of its border, and the part of vector memory (one in so many), from which
/// strips are worth their loop.
const WORTH: (u64, u64) = (3, 2);
const LEAST: u64 = 8;
/// Most elements that a product contracts whose time is that of its operands' traffic.
const THIN: u64 = 256;
/// Elementwise operations of a region that no kernel takes together.
const LONG: usize = 64;
/// Rows (or columns) of a strip of a product, at least.
const BROAD: u64 = 256;
/// An operand of at most one part in so many of vector memory is brought to the matrix unit again for every strip in next to no
/// time: some of its tiles.
const LIGHT: u64 = 256;
/// Steps of the search for a program's regions: what is not found by then stays as it is.
pub const EFFORT: u64 = 16_000_000;
/// Steps for an operation that is asked whether it joins, and for one whose lifetime in a strip is looked at.
const ASKED: u64 = 4;
const TIMED: u64 = 4;
/// Times that a region is mended before it is given up.
const BROKEN: usize = 32;
/// Places of a strip that are not many.
const FEW: u64 = 32;
/// Sizes of strips along rows and lanes are multiples of these, so that they begin where copies may.
pub const ROWS: u64 = 32;

/// What is known of the chip.
#[derive(Clone, Copy)]
pub struct Room {
    /// Bytes of vector memory.
    pub bytes: u64,
    /// Per cent of it that the arrays of a strip may take together.
    pub share: u32,
    /// Sublanes and lanes.
    pub tile: (u32, u32),
}

/// Operations that are done strip by strip.
pub struct Region {
    /// Where the strips' dimension is in each operation's result.
    pub members: Members,
    /// Its size, and that of a strip.
    pub size: u64,
    pub width: u64,
}

impl Region {
    pub fn has(&self, id: NodeId) -> bool {
        self.members.has(id)
    }

    /// Whether a member is made of nothing: broadcast from outside, or numbers.
    pub fn is_made(&self, comp: &Computation, id: NodeId) -> bool {
        let n = comp.node(id);
        matches!(n.op, Op::Broadcast { .. } | Op::Iota { .. }) && n.operands.iter().all(|o| !self.has(*o))
    }

    /// Arrays from outside, and how they are needed. An array may be needed in two ways.
    pub fn inputs(&self, comp: &Computation) -> Vec<(NodeId, Need)> {
        let mut out = Vec::new();
        for (id, at) in self.members.iter() {
            let node = comp.node(id);
            for (&o, need) in node.operands.iter().zip(needs(comp, node, at, self.size).unwrap_or_default()) {
                if !self.has(o) && number(comp, o).is_none() && !out.contains(&(o, need)) {
                    out.push((o, need));
                }
            }
        }
        out
    }
}

/// A number that is known: every strip has its own.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
pub fn number(comp: &Computation, id: NodeId) -> Option<&Literal> {
    match &comp.node(id).op {
        Op::Constant(l) if l.dims.is_empty() => Some(l),
        _ => None,
    }
}

/// What a region may take in besides what it must.
#[derive(Clone, Copy)]
struct Way {
    /// Arrays that would stay in vector memory by themselves.
    far: bool,
    /// Products of which a strip would have few rows.
    narrow: bool,
    /// Transposes at its border, which may put the strips' dimension along lanes there.
    turns: bool,
}

/// The ways in which a region is tried: the first that works counts.
const WAYS: [Way; 8] = [
    Way { far: true, narrow: true, turns: true },
    Way { far: true, narrow: false, turns: true },
    Way { far: true, narrow: true, turns: false },
    Way { far: true, narrow: false, turns: false },
    Way { far: false, narrow: true, turns: true },
    Way { far: false, narrow: false, turns: true },
    Way { far: false, narrow: true, turns: false },
    Way { far: false, narrow: false, turns: false },
];

struct Search<'a> {
    comp: &'a Computation,
    users: Vec<Vec<NodeId>>,
    /// Whose kernel computes every node ([`kernels`]).
    kernels: Vec<NodeId>,
    /// Bytes of every node's array.
    sizes: Vec<u64>,
    room: Room,
    /// Steps that are left.
    effort: Cell<u64>,
}

/// A region of a computation that is worth its loop. Takes the steps of the search from `effort`.
pub fn find(comp: &Computation, room: Room, effort: &mut u64) -> Option<Region> {
    let users = uses(comp);
    let kernels = kernels(comp, &users);
    let mut s = Search { comp, users, kernels, sizes: Vec::new(), room, effort: Cell::new(*effort) };
    s.sizes = comp.ids().map(|id| s.whole(id)).collect();
    let found = s.region();
    *effort = s.effort.get();
    found
}

/// The operation in whose kernel every node is computed: that of all its users where they are computed in one and take what
/// their operands are computed from (reductions of rows among them), else its own.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is what loops over rows compute")]
fn kernels(comp: &Computation, users: &[Vec<NodeId>]) -> Vec<NodeId> {
    let mut of: Vec<NodeId> = comp.ids().collect();
    for id in comp.ids().rev() {
        let n = comp.node(id);
        let rows = |dims: &[usize]| n.operands.len() == 2 && dims == [n.shape.as_array().map_or(0, |a| a.rank())];
        let inside = match &n.op {
            Op::Broadcast { .. } => true,
            Op::Reduce { dims, .. } => rows(dims),
            op => op.is_elementwise(),
        };
        let takes = |u: &&NodeId| {
            let op = &comp.node(**u).op;
            op.is_elementwise() || matches!(op, Op::Reduce { .. } | Op::Broadcast { .. })
        };
        let mut all = users[id.index()].iter().map(|u| Some(u).filter(takes).map(|u| of[u.index()]));
        if let Some(Some(first)) = all.next().filter(|_| inside)
            && all.all(|k| k == Some(first))
        {
            of[id.index()] = first;
        }
    }
    of
}

impl Search<'_> {
    fn region(&self) -> Option<Region> {
        let (s, comp) = (self, self.comp);
        // Members of regions that were grown, each with where the dimension is in it and how large that is.
        let mut tried: FxHashSet<(NodeId, At, u64)> = FxHashSet::default();
        for seed in comp.ids().filter(|&id| s.is_large(id)) {
            if s.effort.get() == 0 {
                return None;
            }
            let dims = comp.node(seed).shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
            // Of equal worth is the outermost dimension: strips along it lie together. What grew to the same is not tried again.
            let mut grown: Vec<((bool, bool), Vec<(NodeId, At)>)> = Vec::new();
            let fresh =
                |dim: &usize| dims[*dim] > 1 && !tried.contains(&(seed, At { dim: *dim, inner: 1 }, dims[*dim]));
            let wanted: Vec<usize> = (0..dims.len()).rev().filter(fresh).collect();
            let mut along = |dim: usize, way: Way| {
                if s.effort.get() == 0 {
                    return None;
                }
                let mut r = Region { members: Members::new(comp.nodes.len()), size: dims[dim], width: 0 };
                s.grow(&mut r, (seed, At { dim, inner: 1 }), way);
                let key = ((way.turns, way.narrow), r.members.iter().collect());
                if grown.contains(&key) {
                    return None;
                }
                grown.push(key);
                s.complete(&mut r, way);
                tried.extend(r.members.iter().map(|(id, at)| (id, at, r.size)));
                let worth = s.worth(&r)?;
                r.width = s.width(&r)?;
                Some((worth, r))
            };
            let regions = wanted.into_iter().filter_map(|d| WAYS.iter().find_map(|&w| along(d, w)));
            if let Some((_, r)) = regions.max_by_key(|(worth, _)| *worth) {
                return Some(r);
            }
        }
        None
    }

    /// Takes steps from what is left.
    fn spend(&self, steps: u64) {
        self.effort.set(self.effort.get().saturating_sub(steps));
    }

    fn bytes_of(&self, id: NodeId, dims: &[u64]) -> u64 {
        let a = self.comp.node(id).shape.as_array();
        a.map_or(0, |a| Layout::row_major(a.dtype, dims, self.room.tile.0, self.room.tile.1).bytes())
    }

    fn bytes(&self, id: NodeId) -> u64 {
        self.sizes[id.index()]
    }

    fn whole(&self, id: NodeId) -> u64 {
        self.comp.node(id).shape.as_array().map_or(0, |a| self.bytes_of(id, &a.dims))
    }

    /// Whether a node makes an array that does not stay in vector memory.
    fn is_large(&self, id: NodeId) -> bool {
        self.makes(id, self.room.bytes / LARGE.1 * LARGE.0)
    }

    /// Whether a region grows over a node's array.
    fn leads(&self, id: NodeId, way: Way) -> bool {
        if way.far { self.makes(id, self.room.bytes / MIDDLE) } else { self.is_large(id) }
    }

    /// Whether a node makes an array of more bytes than that.
    fn makes(&self, id: NodeId, bytes: u64) -> bool {
        let n = self.comp.node(id);
        let given = matches!(n.op, Op::Parameter { .. } | Op::Constant(_) | Op::GetTupleElement { .. });
        let bounded = n.shape.as_array().is_none_or(|a| a.dynamic.contains(&true));
        !given && !bounded && self.bytes(id) > bytes
    }

    /// Whether an operation takes what its operands are computed from.
    fn is_fused(&self, id: NodeId) -> bool {
        let op = &self.comp.node(id).op;
        op.is_elementwise() || matches!(op, Op::Reduce { .. })
    }

    /// Whether a node's result is an array rather than a value inside of its users' kernels.
    #[allow(clippy::wildcard_enum_match_arm, reason = "any other operation is a value of its own")]
    fn is_stored(&self, id: NodeId) -> bool {
        let n = self.comp.node(id);
        let users = &self.users[id.index()];
        let fused = |u: &NodeId| self.is_fused(*u);
        match &n.op {
            Op::Broadcast { .. } | Op::Iota { .. } | Op::Constant(_) | Op::Reshape => false,
            // Products take what conversions convert.
            Op::Convert if users.iter().all(|u| matches!(self.comp.node(*u).op, Op::Dot { .. })) => false,
            op if op.is_elementwise() => self.kernels[id.index()] == id,
            Op::Slice { .. } => !users.iter().all(fused),
            _ => true,
        }
    }

    /// Whether a node may join: its operands and users in the region agree on where the dimension is.
    fn agrees(&self, r: &Region, id: NodeId, at: At) -> bool {
        self.spend(ASKED * (1 + self.users[id.index()].len() as u64));
        let n = self.comp.node(id);
        let Some(all) = needs(self.comp, n, at, r.size) else { return false };
        let below = n.operands.iter().zip(&all).all(|(o, need)| match r.members.get(*o) {
            Some(a) => *need == Need::Strip(a),
            None => true,
        });
        below
            && self.users[id.index()].iter().all(|u| match r.members.get(*u) {
                Some(a) => {
                    let user = self.comp.node(*u);
                    let wanted = needs(self.comp, user, a, r.size).unwrap_or_default();
                    user.operands.iter().zip(&wanted).all(|(o, need)| *o != id || *need == Need::Strip(at))
                }
                None => true,
            })
    }

    fn join(&self, r: &mut Region, id: NodeId, at: At, way: Way) -> bool {
        let few = !way.narrow && !self.is_wide(id, at, (r.size, r.size.min(FEW)));
        let joins = !r.has(id) && !few && self.agrees(r, id, at);
        if joins {
            r.members.insert(id, at);
        }
        joins
    }

    fn grow(&self, r: &mut Region, (seed, at): (NodeId, At), way: Way) {
        if !self.join(r, seed, at, way) {
            return;
        }
        let mut open = vec![seed];
        while let Some(id) = open.pop() {
            let Some(at) = r.members.get(id) else { continue };
            let node = self.comp.node(id);
            for (&o, need) in node.operands.iter().zip(needs(self.comp, node, at, r.size).unwrap_or_default()) {
                if let Need::Strip(a) = need
                    && self.leads(o, way)
                    && self.join(r, o, a, way)
                {
                    open.push(o);
                }
            }
            for &u in &self.users[id.index()] {
                let user = self.comp.node(u);
                let Some(i) = user.operands.iter().position(|o| *o == id) else { continue };
                if let Some(a) = follows(self.comp, user, i, at, r.size)
                    && self.leads(u, way)
                    && self.join(r, u, a, way)
                {
                    open.push(u);
                }
            }
        }
    }

    /// Takes in what lies between a region's operations, and what else belongs to them.
    fn complete(&self, r: &mut Region, way: Way) {
        self.make_convex(r, way);
        self.take_makers(r, way);
        self.take_users(r, way);
        // What was taken in may lie on new paths.
        self.make_convex(r, way);
    }

    /// Notes of a node whether it is outside and uses the region's results, directly or not.
    fn note_behind(&self, r: &Region, behind: &mut [bool], id: NodeId) {
        let uses = |o: &NodeId| r.has(*o) && !r.is_made(self.comp, *o) || behind[o.index()];
        behind[id.index()] = !r.has(id) && self.comp.node(id).operands.iter().any(uses);
    }

    /// Nodes outside that use the region's results, directly or not.
    fn behind(&self, r: &Region) -> Vec<bool> {
        let mut behind = vec![false; self.comp.nodes.len()];
        let first = r.members.ends().map_or(usize::MAX, |(first, _)| first.index());
        self.spend(behind.len().saturating_sub(first) as u64);
        for id in self.comp.ids().skip(first) {
            self.note_behind(r, &mut behind, id);
        }
        behind
    }

    /// The first member from node `from` on that uses something outside that uses the region; `behind` is known up to it.
    fn broken(&self, r: &Region, behind: &mut [bool], from: NodeId) -> Option<NodeId> {
        let (_, last) = r.members.ends()?;
        for i in from.index()..=last.index() {
            let id = NodeId(i as u32);
            if r.has(id) && self.comp.node(id).operands.iter().any(|o| behind[o.index()]) {
                self.spend((i - from.index()) as u64);
                return Some(id);
            }
            self.note_behind(r, behind, id);
        }
        self.spend((last.index() - from.index().min(last.index())) as u64);
        None
    }

    /// Takes in what lies on paths between members; where something cannot be, what is behind it leaves.
    fn make_convex(&self, r: &mut Region, way: Way) {
        let mut behind = vec![false; self.comp.nodes.len()];
        let Some((mut from, _)) = r.members.ends() else { return };
        // The round in which a node was last found to be between members.
        let mut seen = vec![0usize; self.comp.nodes.len()];
        for round in 1..=BROKEN + 1 {
            let Some(broken) = self.broken(r, &mut behind, from) else { return };
            // Outside nodes above it that are behind the region.
            let mut between = Vec::new();
            let mut open: Vec<NodeId> = self.comp.node(broken).operands.clone();
            while let Some(o) = open.pop() {
                if behind[o.index()] && std::mem::replace(&mut seen[o.index()], round) != round {
                    between.push(o);
                    open.extend(&self.comp.node(o).operands);
                }
            }
            between.sort_unstable();
            let taken = between.iter().all(|&id| {
                let node = self.comp.node(id);
                let place = node
                    .operands
                    .iter()
                    .enumerate()
                    .find_map(|(i, o)| r.members.get(*o).and_then(|a| follows(self.comp, node, i, a, r.size)));
                place.is_some_and(|at| self.join(r, id, at, way))
            });
            if !taken {
                r.members.remove(broken);
                let cut: Vec<NodeId> = between.iter().copied().filter(|id| r.has(*id)).collect();
                cut.iter().for_each(|id| r.members.remove(*id));
            }
            // What is above all of these is as it was.
            from = between.first().copied().unwrap_or(broken).min(broken);
        }
        r.members.clear();
    }

    /// Takes in cheap operations whose results nothing else uses.
    fn take_makers(&self, r: &mut Region, way: Way) {
        let mut open: BTreeSet<NodeId> = r.members.ids().flat_map(|id| &self.comp.node(id).operands).copied().collect();
        while let Some(id) = open.pop_last() {
            let n = self.comp.node(id);
            let users = &self.users[id.index()];
            let cheap = n.op.is_elementwise()
                || matches!(
                    n.op,
                    Op::Broadcast { .. } | Op::Iota { .. } | Op::Reshape | Op::Slice { .. } | Op::Pad { .. }
                )
                || way.turns && matches!(n.op, Op::Transpose { .. });
            // What is made of nothing is made again for others.
            let made = matches!(n.op, Op::Broadcast { .. } | Op::Iota { .. });
            let others = users.iter().any(|u| !r.has(*u)) && !made;
            if r.has(id) || !cheap || id == self.comp.root || others {
                continue;
            }
            let Some(first) = users.iter().find(|u| r.has(**u)) else { continue };
            let user = self.comp.node(*first);
            let at = r.members.get(*first);
            let wanted = at.and_then(|at| needs(self.comp, user, at, r.size)).unwrap_or_default();
            let first = user.operands.iter().zip(&wanted).find(|(o, _)| **o == id);
            let Some((_, &Need::Strip(at))) = first else { continue };
            let read: u64 = n.operands.iter().map(|o| self.bytes(*o)).sum();
            // Other arrays must not come in instead of this one.
            if read <= self.bytes(id).saturating_mul(2) && self.join(r, id, at, way) {
                open.extend(&n.operands);
            }
        }
    }

    /// Takes in what is done with the region's results and nothing else, and makes no more of them.
    fn take_users(&self, r: &mut Region, way: Way) {
        let behind = self.behind(r);
        let mut open: BTreeSet<NodeId> = r.members.ids().flat_map(|id| &self.users[id.index()]).copied().collect();
        while let Some(id) = open.pop_first() {
            let n = self.comp.node(id);
            let product = matches!(n.op, Op::Dot { .. } | Op::Convolution(_));
            let free = product
                || n.op.is_elementwise()
                || way.turns && matches!(n.op, Op::Transpose { .. })
                || matches!(n.op, Op::Reduce { .. } | Op::ReduceWindow { .. } | Op::Slice { .. } | Op::Reshape)
                || matches!(n.op, Op::Concatenate { .. } | Op::Pad { .. } | Op::Reverse { .. });
            if r.has(id) || !free {
                continue;
            }
            let Some((i, at)) = n.operands.iter().enumerate().find_map(|(i, o)| Some((i, r.members.get(*o)?))) else {
                continue;
            };
            let Some(at) = follows(self.comp, n, i, at, r.size) else { continue };
            let Some(all) = needs(self.comp, n, at, r.size) else { continue };
            let made = |o: &NodeId| matches!(self.comp.node(*o).op, Op::Broadcast { .. } | Op::Constant(_));
            let own = n.operands.iter().zip(&all).all(|(o, need)| match need {
                // A product takes its other operand from outside.
                Need::Strip(_) => r.has(*o) || (made(o) || product) && !behind[o.index()],
                Need::Whole => !r.has(*o) && !behind[o.index()],
            });
            let read: u64 = n.operands.iter().filter(|o| r.has(**o)).map(|o| self.bytes(*o)).sum();
            if own && self.bytes(id) <= read.saturating_mul(2) && self.join(r, id, at, way) {
                open.extend(&self.users[id.index()]);
            }
        }
    }

    fn is_result(&self, r: &Region, id: NodeId) -> bool {
        !r.is_made(self.comp, id) && self.is_used(r, id)
    }

    fn is_used(&self, r: &Region, id: NodeId) -> bool {
        self.comp.root == id || self.users[id.index()].iter().any(|u| !r.has(*u))
    }

    /// Bytes of HBM traffic that the strips save, if that is worth their loop.
    fn worth(&self, r: &Region) -> Option<u64> {
        // A product's operands and result come and go while it computes.
        let hidden = |id: NodeId| contracted(self.comp, self.comp.node(id)).is_some_and(|deep| deep > THIN);
        // What is elementwise throughout is one kernel anyway, unless it is very long.
        let elementwise = |id: NodeId| self.comp.node(id).op.is_elementwise();
        let long = r.members.ids().filter(|m| elementwise(*m)).count() >= LONG;
        let users = |id: NodeId| &self.users[id.index()];
        let apart = |id: NodeId| long || !elementwise(id) || !users(id).iter().all(|u| self.is_fused(*u));
        let mut saved = 0u64;
        for id in r.members.ids().filter(|&id| self.is_large(id) && self.is_stored(id) && apart(id)) {
            let readers = self.users[id.index()].iter().filter(|u| r.has(**u) && !hidden(**u)).count() as u64;
            let written = u64::from(!self.is_result(r, id) && !hidden(id));
            saved += self.bytes(id) * (readers + written);
        }
        let inputs = r.inputs(self.comp);
        let strips = inputs.iter().filter(|i| i.1 != Need::Whole).map(|i| self.bytes(i.0)).sum::<u64>();
        let results = r.members.ids().filter(|&id| self.is_result(r, id)).map(|id| self.bytes(id)).sum::<u64>();
        (saved >= self.room.bytes / LEAST && saved * WORTH.1 >= WORTH.0 * (strips + results)).then_some(saved)
    }

    /// The largest strips whose arrays fit in vector memory together; `None` if none do, or one strip would.
    fn width(&self, r: &Region) -> Option<u64> {
        let lanes = u64::from(self.room.tile.1);
        let border = r.inputs(self.comp).into_iter().filter_map(|(id, need)| match need {
            Need::Strip(at) => Some((id, at)),
            Need::Whole => None,
        });
        let border = border.chain(r.members.iter().filter(|m| self.is_result(r, m.0)));
        let border: Vec<(NodeId, At)> = border.filter(|b| self.bytes(b.0) > self.room.bytes / SMALL).collect();
        let rank = |id: NodeId| self.comp.node(id).shape.as_array().map_or(0, |a| a.rank());
        let aligned = |width: u64| {
            border.iter().all(|&(id, at)| match rank(id) - at.dim {
                1 if at.inner > 1 => width.is_multiple_of(ROWS),
                1 => width.is_multiple_of(lanes),
                2 => (width * at.inner).is_multiple_of(ROWS),
                _ => true,
            })
        };
        let wide = |width: u64| r.members.iter().all(|(id, at)| self.is_wide(id, at, (r.size, width)));
        let most = self.room.bytes / 100 * u64::from(self.room.share);
        let widths = (1..r.size).rev().filter(|w| r.size.is_multiple_of(*w));
        widths.filter(|&w| aligned(w) && wide(w)).find(|&w| self.peak(r, w) <= most)
    }

    /// Whether a strip of a product has as many rows as pay for bringing the other operand to the matrix unit again.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for products alone")]
    fn is_wide(&self, id: NodeId, at: At, cut: (u64, u64)) -> bool {
        let n = self.comp.node(id);
        let Some(a) = n.shape.as_array() else { return true };
        let left = at.cut(&a.dims, cut);
        let light = || {
            let all = needs(self.comp, n, at, cut.0).unwrap_or_default();
            all.iter()
                .zip(&n.operands)
                .all(|(need, o)| *need != Need::Whole || self.bytes(*o) <= self.room.bytes / LIGHT)
        };
        match &n.op {
            Op::Dot { dims, .. } => at.dim < dims.lhs_batch.len() || left[at.dim] >= BROAD || light(),
            Op::Convolution(c) => left.iter().product::<u64>() / left[c.dims.output.feature].max(1) >= BROAD || light(),
            _ => true,
        }
    }

    /// Bytes of the arrays that a strip's work has at the same time, at most.
    fn peak(&self, r: &Region, width: u64) -> u64 {
        let order: Vec<(NodeId, At)> = r.members.iter().collect();
        self.spend(TIMED * order.len() as u64);
        let place: FxHashMap<NodeId, usize> = order.iter().enumerate().map(|(i, m)| (m.0, i)).collect();
        // When the kernel runs that a node's value is part of.
        let mut done = vec![0usize; order.len()];
        for (i, &(id, _)) in order.iter().enumerate().rev() {
            let users = self.users[id.index()].iter().filter_map(|u| place.get(u));
            let last = users.map(|&u| done[u]).max().unwrap_or(i);
            done[i] = if self.is_stored(id) || self.is_result(r, id) { i } else { last.max(i) };
        }
        let mut change = vec![0i64; order.len() + 1];
        let mut live = |from: usize, to: usize, bytes: u64| {
            change[from] += bytes as i64;
            change[to + 1] -= bytes as i64;
        };
        let strip = |id: NodeId, at: At| {
            let dims = self.comp.node(id).shape.as_array().map(|a| at.cut(&a.dims, (r.size, width)));
            dims.map_or(0, |d| self.bytes_of(id, &d))
        };
        let last_use = |id: NodeId, own: usize| {
            let users = self.users[id.index()].iter().filter_map(|u| place.get(u));
            users.map(|&u| done[u]).max().unwrap_or(own).max(own)
        };
        for (i, &(id, at)) in order.iter().enumerate() {
            if self.is_stored(id) || self.is_result(r, id) {
                live(i, last_use(id, i), strip(id, at));
            }
        }
        for (id, need) in r.inputs(self.comp) {
            let users = self.users[id.index()].iter().filter_map(|u| place.get(u));
            let first = users.map(|&u| done[u]).min().unwrap_or(0);
            match need {
                Need::Strip(at) => live(first, last_use(id, first), strip(id, at)),
                // Large ones are streamed.
                Need::Whole if !self.is_large(id) => live(0, order.len() - 1, self.bytes(id)),
                Need::Whole => {}
            }
        }
        let mut now = 0i64;
        change
            .iter()
            .map(|c| {
                now += c;
                now
            })
            .max()
            .unwrap_or(0)
            .max(0) as u64
    }
}
