//! From a group of fused nodes to the spec of its kernel.

use super::group::{Groups, Owner, is_lane_reduce};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;
use systole_codegen::emit::loops::spec::{Body, Expr, ExprId, ExprNode, ExprOp, Index, Reduction};
use systole_hlo::graph::{Computation, Literal, Module, NodeId, Op};
use systole_isa::DType;

/// For each dimension of a value: the iteration dimension it follows, or `None` (size 1).
pub type DimMap = SmallVec<[Option<usize>; 6]>;

/// An operand of a fused kernel: a materialised node, and how its dimensions follow the iteration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    pub node: NodeId,
    pub map: DimMap,
    /// First index and step along each dimension where only a slice is read; empty: all of it.
    pub cut: SmallVec<[(u64, u64); 6]>,
}

/// Operands of a fused kernel at most: they come in registers.
pub const MOST_OPERANDS: usize = 20;
/// Numbers of a fused kernel at most: each lies in a vector register, and what is computed needs some, too.
const MOST_NUMBERS: usize = 32;

/// Why a group cannot be fused as it stands: this node must be materialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Materialise(pub NodeId);

/// Builds the expression of a group.
pub struct Fuser<'a> {
    pub module: &'a Module,
    pub comp: &'a Computation,
    pub groups: &'a Groups,
    /// The roots whose kernel this is.
    roots: SmallVec<[NodeId; 4]>,
    /// Sizes of the iteration dimensions, at least two: the last is the columns, the one before it the rows.
    pub dims: Vec<u64>,
    /// How many of them (the first, of size 1) were added to make two.
    added: usize,
    pub expr: Expr,
    pub leaves: Vec<Leaf>,
    memo: FxHashMap<(NodeId, DimMap), ExprId>,
}

impl<'a> Fuser<'a> {
    pub fn new(module: &'a Module, comp: &'a Computation, groups: &'a Groups, root: NodeId, dims: &[u64]) -> Fuser<'a> {
        Fuser::of(module, comp, groups, &[root], dims)
    }

    /// The kernel of several roots.
    pub fn of(
        module: &'a Module,
        comp: &'a Computation,
        groups: &'a Groups,
        roots: &[NodeId],
        dims: &[u64],
    ) -> Fuser<'a> {
        Fuser {
            module,
            comp,
            groups,
            roots: roots.into(),
            added: 2usize.saturating_sub(dims.len()),
            dims: std::iter::repeat_n(1, 2usize.saturating_sub(dims.len())).chain(dims.iter().copied()).collect(),
            expr: Expr::default(),
            leaves: Vec::new(),
            memo: FxHashMap::default(),
        }
    }

    /// The map of a value whose dimensions are the iteration's (as given).
    pub fn identity(&self) -> DimMap {
        self.dims.iter().enumerate().skip(self.added).map(|(i, &s)| (s != 1).then_some(i)).collect()
    }

    /// The map of a value whose dimensions, those of size 1 apart, are the iteration's first ones in order.
    pub fn leading(&self, dims: &[u64]) -> DimMap {
        let mut at = 0;
        dims.iter()
            .map(|&s| {
                if s == 1 {
                    return None;
                }
                while self.dims.get(at) == Some(&1) {
                    at += 1;
                }
                at += 1;
                Some(at - 1)
            })
            .collect()
    }

    /// The map of a root: at every point, or one element for each row of them.
    pub fn map_of(&self, root: NodeId) -> DimMap {
        let dims = self.dims_of(root);
        if dims == &self.dims[self.added..] { self.identity() } else { self.leading(dims) }
    }

    /// Whether a node was wanted at one place of the iteration only.
    pub fn is_once(&self, id: NodeId) -> bool {
        self.memo.keys().filter(|k| k.0 == id).count() <= 1
    }

    /// The nodes that are computed here.
    pub fn computed(&self) -> impl Iterator<Item = NodeId> + '_ {
        let leaf = |id: &NodeId| self.leaves.iter().any(|l| l.node == *id);
        self.memo.keys().map(|k| k.0).filter(move |id| !leaf(id))
    }

    pub fn push(&mut self, op: ExprOp, args: &[ExprId], dtype: DType) -> ExprId {
        self.expr.nodes.push(ExprNode { op, args: args.into(), dtype });
        self.expr.nodes.len() as ExprId - 1
    }

    fn dtype(&self, id: NodeId) -> DType {
        self.comp.node(id).shape.as_array().map_or(DType::Pred, |a| a.dtype)
    }

    fn dims_of(&self, id: NodeId) -> &'a [u64] {
        self.comp.node(id).shape.as_array().map_or(&[], |a| &a.dims)
    }

    /// The expression of a node at the iteration's indices under `map`.
    pub fn value(&mut self, id: NodeId, map: &DimMap) -> Result<ExprId, Materialise> {
        if let Some(&e) = self.memo.get(&(id, map.clone())) {
            return Ok(e);
        }
        // Numbers are the kernel's own: operands come in registers, of which there are few.
        let number = matches!(&self.comp.node(id).op, Op::Constant(l) if l.dims.is_empty());
        let inside = match self.groups.owner[id.index()] {
            _ if number || self.is_place(id) => true,
            Owner::In(r) => self.roots.contains(&r),
            Owner::Inline => true,
            Owner::Root => self.roots.contains(&id),
            Owner::None => false,
        };
        let e = if inside { self.inside(id, map)? } else { self.leaf(id, map) };
        self.memo.insert((id, map.clone()), e);
        Ok(e)
    }

    /// Whether a node numbers places for a reduction of several arrays. Its kernel knows them as such if they are its own, and the best values'
    /// first place with them.
    fn is_place(&self, id: NodeId) -> bool {
        let several =
            |r: &NodeId| matches!(self.comp.node(*r).op, Op::Reduce { .. }) && self.comp.node(*r).operands.len() > 2;
        matches!(self.comp.node(id).op, Op::Iota { .. }) && self.roots.iter().any(several)
    }

    /// A materialised node as an operand.
    pub fn leaf(&mut self, id: NodeId, map: &DimMap) -> ExprId {
        self.cut_leaf(id, map, SmallVec::new())
    }

    /// A slice of a materialised node as an operand.
    fn cut_leaf(&mut self, id: NodeId, map: &DimMap, cut: SmallVec<[(u64, u64); 6]>) -> ExprId {
        let leaf = Leaf { node: id, map: map.clone(), cut };
        let i = self.leaves.iter().position(|l| *l == leaf).unwrap_or_else(|| {
            self.leaves.push(leaf);
            self.leaves.len() - 1
        });
        self.push(ExprOp::Input(i as u32), &[], self.dtype(id))
    }

    /// A node to materialise where the group has more operands or numbers than a kernel takes: the one with the most of them
    /// below it that fits.
    pub fn crowded(&self) -> Option<Materialise> {
        let leaves: BTreeSet<NodeId> = self.leaves.iter().map(|l| l.node).collect();
        if self.leaves.len() > MOST_OPERANDS {
            return self.cut_above(&leaves, MOST_OPERANDS);
        }
        let number = |id: &NodeId| matches!(self.comp.node(*id).op, Op::Constant(_));
        let numbers: BTreeSet<NodeId> = self.memo.keys().map(|k| k.0).filter(number).collect();
        if numbers.len() > MOST_NUMBERS { self.cut_above(&numbers, MOST_NUMBERS) } else { None }
    }

    /// The fused node with the most of `given` below it, at least two and fewer than `most`.
    fn cut_above(&self, given: &BTreeSet<NodeId>, most: usize) -> Option<Materialise> {
        // Of nodes with too many below them, nothing.
        let mut below: FxHashMap<NodeId, Option<BTreeSet<NodeId>>> = FxHashMap::default();
        let fused: BTreeSet<NodeId> = self.memo.keys().map(|k| k.0).collect();
        let mut best = None;
        for &id in &fused {
            // Arrays already: nothing below them is computed here.
            if !given.contains(&id) && self.leaves.iter().any(|l| l.node == id) {
                below.insert(id, Some(BTreeSet::new()));
                continue;
            }
            if given.contains(&id) || matches!(self.comp.node(id).op, Op::Slice { .. }) {
                below.insert(id, Some(BTreeSet::from([id])));
                continue;
            }
            let operands = self.comp.node(id).operands.iter().filter_map(|o| below.get(o));
            let all = operands.cloned().try_fold(BTreeSet::new(), |mut all, of| {
                all.append(&mut of?);
                (all.len() < most).then_some(all)
            });
            let n = all.as_ref().map_or(most, BTreeSet::len);
            below.insert(id, all);
            if !self.roots.contains(&id) && (2..most).contains(&n) && best.is_none_or(|(most, _)| n > most) {
                best = Some((n, id));
            }
        }
        best.map(|b| Materialise(b.1))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "what a loop cannot compute is an array of its own")]
    fn inside(&mut self, id: NodeId, map: &DimMap) -> Result<ExprId, Materialise> {
        let node = self.comp.node(id);
        let dtype = self.dtype(id);
        let arg_map = |f: &Fuser, o: NodeId| {
            // Scalars combine with arrays in select and clamp.
            if f.dims_of(o).is_empty() { DimMap::new() } else { map.clone() }
        };
        let op = match &node.op {
            Op::Constant(l) => ExprOp::Const(l.element(0).into()),
            Op::Iota { dim } => {
                let mut index = Index { outer: smallvec![0; self.dims.len()], ..Index::default() };
                if let Some(d) = map[*dim] {
                    index.outer[d] = 1;
                }
                ExprOp::Index(index)
            }
            Op::Broadcast { dims } => {
                let from = self.dims_of(node.operands[0]);
                let m: DimMap = dims.iter().zip(from).map(|(&d, &s)| if s == 1 { None } else { map[d] }).collect();
                return self.value(node.operands[0], &m);
            }
            Op::Reshape => {
                let from = self.dims_of(node.operands[0]);
                let mut kept = map.iter().zip(self.dims_of(id)).filter(|(_, s)| **s != 1).map(|(m, _)| *m);
                let m: DimMap = from.iter().map(|&s| if s == 1 { None } else { kept.next().flatten() }).collect();
                return self.value(node.operands[0], &m);
            }
            Op::Slice { dims } => {
                // What lies along lanes must be what the columns follow.
                let columns = Some(self.dims.len() - 1);
                let across = map.iter().position(|&m| m == columns).is_some_and(|d| d + 1 != map.len());
                let source = node.operands[0];
                let here = self.roots.contains(&source) || !self.groups.reads_cut(self.comp, &self.roots, id);
                if across || here || self.groups.owner[source.index()] != Owner::Root {
                    return Err(Materialise(id));
                }
                let cut = dims.iter().map(|d| (d.start, d.stride)).collect();
                return Ok(self.cut_leaf(source, map, cut));
            }
            Op::Reduce { .. } => return self.lane_reduce(id, map),
            op => elementwise(op).ok_or(Materialise(id))?,
        };
        let mut args: SmallVec<[ExprId; 3]> = SmallVec::new();
        for &o in &node.operands {
            let m = arg_map(self, o);
            args.push(self.value(o, &m)?);
        }
        Ok(self.push(op, &args, dtype))
    }

    fn lane_reduce(&mut self, id: NodeId, map: &DimMap) -> Result<ExprId, Materialise> {
        let node = self.comp.node(id);
        let Op::Reduce { body, .. } = &node.op else { return Err(Materialise(id)) };
        let whole = self.identity();
        let rows: DimMap = whole[..whole.len() - 1].into();
        if !is_lane_reduce(self.comp, id) || *map != rows || self.dims_of(node.operands[0]) != &self.dims[self.added..]
        {
            return Err(Materialise(id));
        }
        let own = self.roots.contains(&id);
        // In another's kernel it becomes an array itself; in its own, what it cannot compute there does.
        let reduction =
            self.reduction(&node.operands, *body, &whole).map_err(|inner| if own { inner } else { Materialise(id) })?;
        let r = self.expr.reductions.len() as u32;
        self.expr.reductions.push(reduction);
        // The arguments are kept as the node's own so that the order stays topological.
        Ok(self.push(ExprOp::LaneReduce(r, 0), &[], self.dtype(id)))
    }

    /// Arguments, initial values and body of a reduction whose operands have the map `map`.
    pub fn reduction(
        &mut self,
        operands: &[NodeId],
        body: systole_hlo::graph::CompId,
        map: &DimMap,
    ) -> Result<Reduction, Materialise> {
        let n = operands.len() / 2;
        let mut args = Vec::new();
        let mut inits = Vec::new();
        for &o in &operands[..n] {
            args.push(self.value(o, map)?);
        }
        for &o in &operands[n..] {
            inits.push(self.value(o, &DimMap::new())?);
        }
        let body = scalar_body(self.module.computation(body)).ok_or(Materialise(operands[0]))?;
        Ok(Reduction { args, inits, body })
    }
}

/// An operation on elements, each by itself.
#[allow(clippy::wildcard_enum_match_arm, reason = "others are no part of expressions")]
pub fn elementwise(op: &Op) -> Option<ExprOp> {
    Some(match op {
        Op::Unary(u) => ExprOp::Unary(*u),
        Op::Binary(b) => ExprOp::Binary(*b),
        Op::Compare { direction, order } => ExprOp::Compare(*direction, *order),
        Op::Select => ExprOp::Select,
        Op::Clamp => ExprOp::Clamp,
        Op::Convert => ExprOp::Convert,
        Op::BitcastConvert => ExprOp::BitcastConvert,
        Op::ReducePrecision { exponent, mantissa } => ExprOp::ReducePrecision(*exponent, *mantissa),
        _ => return None,
    })
}

/// A scalar computation as an expression of its parameters; `None` if it holds anything but elementwise operations.
#[allow(clippy::wildcard_enum_match_arm, reason = "what a loop cannot compute is no body")]
pub fn scalar_body(comp: &Computation) -> Option<Body> {
    let mut nodes: Vec<ExprNode> = Vec::new();
    let mut at: Vec<ExprId> = Vec::new();
    let mut roots = Vec::new();
    for id in comp.ids() {
        let n = comp.node(id);
        let args: SmallVec<[ExprId; 3]> = n.operands.iter().map(|o| at[o.index()]).collect();
        let dtype = n.shape.as_array().map(|a| a.dtype);
        let op = match &n.op {
            Op::Parameter { index } => ExprOp::Param(*index as u32),
            Op::Constant(l) => ExprOp::Const(scalar_bytes(l)),
            Op::Reshape | Op::Broadcast { .. } | Op::Copy => {
                at.push(args[0]);
                continue;
            }
            Op::Tuple if id == comp.root => {
                roots = args.to_vec();
                at.push(0);
                continue;
            }
            op => elementwise(op)?,
        };
        at.push(nodes.len() as ExprId);
        nodes.push(ExprNode { op, args, dtype: dtype? });
    }
    if roots.is_empty() {
        roots.push(at[comp.root.index()]);
    }
    Some(Body { nodes, roots })
}

fn scalar_bytes(l: &Literal) -> SmallVec<[u8; 16]> {
    l.element(0).into()
}
