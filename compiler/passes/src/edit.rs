//! Building computations anew: what every pass edits through.
//!
//! A pass never changes a computation in place. It emits a new one, node after node, into an [`Emit`]; emission shares
//! equal nodes and applies the local rules of [`super::simplify`]. [`Draft`] collects the computations of the new module,
//! callees first, so that a pass may make new ones (loop bodies) while it emits their caller.
//!
//! Invariants of what is emitted:
//! - operands come before their users, callees before their callers;
//! - nodes that nothing needs are gone when a computation is finished, except parameters and side effects;
//! - names are unique in their computation: a node made on behalf of `x` is called `x` or `x-N`.

mod regroup;

pub use regroup::{Build, regroup};

use super::make::array;
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use systole_hlo::error::{CompileError, Resource};
use systole_hlo::graph::{Binary, CompId, Computation, Literal, Module, Node, NodeId, Op, Shape, Span};
use systole_isa::DType;

/// Nodes that one pass may make of a small program before it is refused (calls inlined again and again grow without bound).
const NODE_LIMIT: u64 = 1 << 20;
/// Nodes that it may make for each one that the program has.
const NODE_GROWTH: u64 = 16;

/// The new module while a pass makes it.
pub struct Draft {
    pub computations: Vec<Computation>,
    /// Combining computations `(x, y) -> x op y` already made.
    bodies: FxHashMap<(Binary, DType), CompId>,
    /// Rewrites that may still be made; `None`: any number.
    pub fuel: Option<u64>,
    /// How often each labelled rewrite was made.
    pub fired: BTreeMap<&'static str, u64>,
    /// Whether emission applies the local rules.
    pub simplify: bool,
    /// Whether operations on small constants are evaluated.
    pub fold: bool,
    nodes: u64,
    most_nodes: u64,
}

impl Draft {
    /// A draft of a program that had `written` nodes.
    pub fn new(fuel: Option<u64>, fold: bool, written: u64) -> Draft {
        Draft {
            computations: Vec::new(),
            bodies: FxHashMap::default(),
            fuel,
            fired: BTreeMap::new(),
            simplify: true,
            fold,
            nodes: 0,
            most_nodes: NODE_LIMIT + NODE_GROWTH * written,
        }
    }

    /// Asks for one rewrite under a label; false when the fuel is used up.
    pub fn fire(&mut self, label: &'static str) -> bool {
        if let Some(fuel) = &mut self.fuel {
            if *fuel == 0 {
                return false;
            }
            *fuel -= 1;
        }
        *self.fired.entry(label).or_insert(0) += 1;
        true
    }

    /// Adds a finished computation.
    pub fn push(&mut self, computation: Computation) -> CompId {
        self.computations.push(computation);
        CompId(self.computations.len() as u32 - 1)
    }

    /// Fails when the pass has made more nodes than a program may have.
    pub fn check_size(&self) -> Result<(), CompileError> {
        if self.nodes <= self.most_nodes {
            return Ok(());
        }
        let detail = " (calls inlined and loops of expanded operations make too large a program)".to_string();
        Err(CompileError::Limit { resource: Resource::Nodes, need: self.nodes, have: self.most_nodes, detail })
    }
}

/// What a new node is made on behalf of.
#[derive(Clone, Debug, Default)]
struct Origin {
    name: String,
    span: Span,
    attributes: Vec<(String, String)>,
}

/// One computation in the making.
pub struct Emit<'m> {
    pub draft: &'m mut Draft,
    nodes: Vec<Node>,
    params: Vec<NodeId>,
    shared: FxHashMap<u64, Vec<NodeId>>,
    origin: Origin,
    /// Sizes of dimensions that are less than their bounds, while they are known only to the pass at work.
    sizes: FxHashMap<(NodeId, usize), NodeId>,
    /// See [`Emit::uses`].
    uses: FxHashMap<NodeId, u32>,
    /// See [`Emit::place`].
    place: (usize, NodeId),
}

/// Whether equal nodes of an operation may become one.
fn is_shareable(op: &Op) -> bool {
    let control = matches!(
        op,
        Op::Parameter { .. }
            | Op::While { .. }
            | Op::Conditional { .. }
            | Op::Rng { .. }
            | Op::OptBarrier
            | Op::CustomCall { .. }
            | Op::AsyncStart { .. }
            | Op::CopyStart
    );
    !control && !op.has_effect()
}

impl<'m> Emit<'m> {
    pub fn new(draft: &'m mut Draft) -> Emit<'m> {
        Emit {
            draft,
            nodes: Vec::new(),
            params: Vec::new(),
            shared: FxHashMap::default(),
            origin: Origin::default(),
            sizes: FxHashMap::default(),
            uses: FxHashMap::default(),
            place: (0, NodeId(0)),
        }
    }

    /// While a module is rewritten: the number of the old computation, and the old node that is rewritten.
    pub fn place(&self) -> (usize, NodeId) {
        self.place
    }

    /// How often the nodes of the old computation that `id` stands for are used there, as far as they are rewritten.
    pub fn uses(&self, id: NodeId) -> u32 {
        self.uses.get(&id).copied().unwrap_or(0)
    }

    /// Sets what the nodes emitted from now on are made on behalf of.
    pub fn on_behalf_of(&mut self, node: &Node) {
        self.origin = Origin { name: node.name.clone(), span: node.span, attributes: node.attributes.clone() };
    }

    /// Where in the source is what nodes are emitted for now.
    pub fn span(&self) -> Span {
        self.origin.span
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn op(&self, id: NodeId) -> &Op {
        &self.nodes[id.index()].op
    }

    pub fn operand(&self, id: NodeId, i: usize) -> NodeId {
        self.nodes[id.index()].operands[i]
    }

    pub fn shape(&self, id: NodeId) -> &Shape {
        &self.nodes[id.index()].shape
    }

    /// Sizes of an array; empty for others.
    pub fn dims(&self, id: NodeId) -> &[u64] {
        match self.shape(id) {
            Shape::Array(a) => &a.dims,
            Shape::Tuple(_) | Shape::Token => &[],
        }
    }

    pub fn rank(&self, id: NodeId) -> usize {
        self.dims(id).len()
    }

    /// Element type of an array (`pred` for others, which no caller asks).
    pub fn dtype(&self, id: NodeId) -> DType {
        self.shape(id).as_array().map_or(DType::Pred, |a| a.dtype)
    }

    pub fn elements(&self, id: NodeId) -> u64 {
        self.dims(id).iter().product()
    }

    /// The noted size of a dimension, if it is not the bound.
    pub fn size_of(&self, id: NodeId, dim: usize) -> Option<NodeId> {
        self.sizes.get(&(id, dim)).copied()
    }

    /// Notes the size of a dimension.
    pub fn set_size(&mut self, id: NodeId, dim: usize, size: NodeId) {
        self.sizes.insert((id, dim), size);
    }

    /// Whether any size is noted.
    pub fn has_sizes(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// The literal of a constant node.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
    pub fn literal(&self, id: NodeId) -> Option<&Literal> {
        match self.op(id) {
            Op::Constant(l) => Some(l),
            _ => None,
        }
    }

    /// Adds the next parameter.
    pub fn parameter(&mut self, shape: Shape) -> NodeId {
        let index = self.params.len();
        let id = self.push(Op::Parameter { index }, &[], shape);
        self.params.push(id);
        id
    }

    /// Emits an operation: an equal node that exists, a simpler form, or a new node.
    ///
    /// `shape` must be what the operation's shape rule gives; its layout is dropped except on `Copy`.
    pub fn emit(&mut self, op: Op, operands: &[NodeId], shape: Shape) -> NodeId {
        if self.draft.simplify
            && let Some(simpler) = super::simplify::rules(self, &op, operands, &shape)
        {
            return simpler;
        }
        self.raw(op, operands, shape)
    }

    /// Emits an operation as it is (an equal node may be shared).
    pub fn raw(&mut self, op: Op, operands: &[NodeId], shape: Shape) -> NodeId {
        if !is_shareable(&op) {
            return self.push(op, operands, shape);
        }
        let mut hasher = FxHasher::default();
        discriminant(&op).hash(&mut hasher);
        operands.hash(&mut hasher);
        shape.hash(&mut hasher);
        if let Op::Constant(l) = &op {
            l.hash(&mut hasher);
        }
        let key = hasher.finish();
        if let Some(same) = self.shared.get(&key) {
            let found = same.iter().copied().find(|&id| {
                let n = self.node(id);
                n.op == op && n.operands == operands && n.shape == shape
            });
            if let Some(id) = found {
                return id;
            }
        }
        let id = self.push(op, operands, shape);
        self.shared.entry(key).or_default().push(id);
        id
    }

    /// Adds a node as it is, never sharing an equal one.
    pub fn push(&mut self, op: Op, operands: &[NodeId], shape: Shape) -> NodeId {
        let Origin { name, span, attributes } = &self.origin;
        let name = if name.is_empty() { mnemonic(&op).to_string() } else { name.clone() };
        self.nodes.push(Node {
            name,
            op,
            operands: operands.to_vec(),
            shape,
            span: *span,
            attributes: attributes.clone(),
        });
        self.draft.nodes += 1;
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Gives a node an attribute, unless it has one of that key. `value` gets a name that no other node of the computation
    /// has at any time.
    pub fn mark(&mut self, id: NodeId, key: &str, value: impl FnOnce(&str) -> String) {
        let n = &mut self.nodes[id.index()];
        if n.attribute(key).is_none() {
            let text = value(&format!("{}#{}", n.name, id.0));
            n.attributes.push((key.to_string(), text));
        }
    }

    /// The computation `(x, y) -> x op y` over scalars.
    pub fn body(&mut self, op: Binary, dtype: DType) -> CompId {
        if let Some(&id) = self.draft.bodies.get(&(op, dtype)) {
            return id;
        }
        let scalar = Shape::array(dtype, &[]);
        let name = format!("{}.{}", mnemonic(&Op::Binary(op)), dtype);
        let mut b = Emit::new(self.draft);
        let (x, y) = (b.parameter(scalar.clone()), b.parameter(scalar.clone()));
        let root = b.raw(Op::Binary(op), &[x, y], scalar);
        let computation = b.finish(name, root);
        let id = self.draft.push(computation);
        self.draft.bodies.insert((op, dtype), id);
        id
    }

    /// Makes a new computation beside this one: `build` adds its parameters and nodes and returns its root.
    pub fn computation(
        &mut self,
        name: &str,
        build: impl FnOnce(&mut Emit) -> Result<NodeId, CompileError>,
    ) -> Result<CompId, CompileError> {
        let origin = self.origin.clone();
        let mut b = Emit::new(self.draft);
        b.origin = origin;
        let root = build(&mut b)?;
        let computation = b.finish(name.to_string(), root);
        Ok(self.draft.push(computation))
    }

    /// Drops nodes that nothing needs and gives the computation.
    pub fn finish(self, name: String, root: NodeId) -> Computation {
        let mut live = vec![false; self.nodes.len()];
        live[root.index()] = true;
        for p in &self.params {
            live[p.index()] = true;
        }
        for i in (0..self.nodes.len()).rev() {
            let n = &self.nodes[i];
            if live[i] || n.op.has_effect() || calls_effect(&n.op, &self.draft.computations) {
                live[i] = true;
                for o in &n.operands {
                    live[o.index()] = true;
                }
            }
        }
        let mut map = vec![NodeId(u32::MAX); self.nodes.len()];
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (i, mut n) in self.nodes.into_iter().enumerate() {
            if live[i] {
                for o in &mut n.operands {
                    *o = map[o.index()];
                }
                map[i] = NodeId(nodes.len() as u32);
                nodes.push(n);
            }
        }
        unique_names(&mut nodes);
        let params = self.params.iter().map(|p| map[p.index()]).collect();
        Computation { name, nodes, params, root: map[root.index()] }
    }
}

/// Whether an operation's computations have effects that must stay.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation calls a computation that may have effects")]
pub(crate) fn calls_effect(op: &Op, computations: &[Computation]) -> bool {
    match op {
        Op::While { .. } | Op::Conditional { .. } | Op::Call { .. } | Op::Fusion { .. } | Op::AsyncStart { .. } => {
            op.called().iter().any(|c| {
                let nodes = &computations[c.index()].nodes;
                nodes.iter().any(|n| n.op.has_effect() || calls_effect(&n.op, computations))
            })
        }
        _ => false,
    }
}

/// Gives every node a name of its own; the last of several equal names keeps it.
fn unique_names(nodes: &mut [Node]) {
    let mut seen: FxHashMap<String, u32> = FxHashMap::default();
    for n in nodes.iter_mut().rev() {
        let base = base_name(&n.name);
        match seen.get_mut(base) {
            None => {
                seen.insert(base.to_string(), 0);
                n.name.truncate(base.len());
            }
            Some(count) => {
                *count += 1;
                n.name = format!("{base}-{count}");
            }
        }
    }
}

/// A node's name without the number that a pass gave it: the source instruction it was made for.
pub fn base_name(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, digits))
            if !base.is_empty() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            base
        }
        _ => name,
    }
}

/// A short name for nodes that no source named.
#[allow(clippy::wildcard_enum_match_arm, reason = "the name is for people")]
fn mnemonic(op: &Op) -> &'static str {
    match op {
        Op::Constant(_) => "constant",
        Op::Parameter { .. } => "p",
        Op::Broadcast { .. } => "broadcast",
        Op::Reshape => "reshape",
        Op::Tuple => "tuple",
        Op::GetTupleElement { .. } => "element",
        Op::Binary(Binary::Add) => "add",
        Op::Binary(Binary::Mul) => "multiply",
        Op::Binary(Binary::Max) => "maximum",
        Op::Binary(Binary::Min) => "minimum",
        Op::Binary(Binary::And) => "and",
        Op::Binary(Binary::Or) => "or",
        _ => "op",
    }
}

/// Gives entry parameters, by number, other shapes of the same row-major order; the entry's layout keeps the old ones.
pub fn reshape_parameters(
    module: Module,
    draft: &mut Draft,
    shapes: &BTreeMap<usize, Vec<u64>>,
) -> Result<Module, CompileError> {
    rewrite_with(module, draft, shapes, &mut |_, _, _| Ok(None))
}

/// What a rule makes of a node: what stands for it, or nothing where it stays.
pub type Rewritten = Result<Option<NodeId>, CompileError>;

/// Rewrites every node of a module: `rule` gets the emitter, the old node and its new operands and returns what replaces
/// the node (of the same shape up to layout), or `None` to keep it.
pub fn rewrite(
    module: Module,
    draft: &mut Draft,
    rule: &mut dyn FnMut(&mut Emit, &Node, &[NodeId]) -> Rewritten,
) -> Result<Module, CompileError> {
    rewrite_with(module, draft, &BTreeMap::new(), rule)
}

type Rule<'r> = &'r mut dyn FnMut(&mut Emit, &Node, &[NodeId]) -> Rewritten;

fn rewrite_with(
    module: Module,
    draft: &mut Draft,
    entry_shapes: &BTreeMap<usize, Vec<u64>>,
    rule: Rule<'_>,
) -> Result<Module, CompileError> {
    let entry = module.entry.index();
    each_computation(module, draft, &mut |index, old, draft, new_ids| {
        let kept = BTreeMap::new();
        let shapes = if index == entry { entry_shapes } else { &kept };
        rewrite_one(old, draft, (new_ids, shapes), rule)
    })
}

/// Makes a computation from the one of a number, with the new numbers of those before it.
type Make<'r> = &'r mut dyn FnMut(usize, &Computation, &mut Draft, &[CompId]) -> Result<Computation, CompileError>;

/// The module with every computation that the entry reaches made anew.
fn each_computation(module: Module, draft: &mut Draft, make: Make<'_>) -> Result<Module, CompileError> {
    let mut new_ids: Vec<CompId> = Vec::with_capacity(module.computations.len());
    let wanted = reachable(&module);
    for (index, old) in module.computations.iter().enumerate() {
        if !wanted[index] {
            new_ids.push(CompId(u32::MAX));
            continue;
        }
        let computation = make(index, old, draft, &new_ids)?;
        new_ids.push(draft.push(computation));
        draft.check_size()?;
    }
    let entry = new_ids[module.entry.index()];
    let computations = std::mem::take(&mut draft.computations);
    draft.bodies.clear();
    Ok(prune(Module { computations, entry, ..module }))
}

fn rewrite_one(
    old: &Computation,
    draft: &mut Draft,
    (new_ids, shapes): (&[CompId], &BTreeMap<usize, Vec<u64>>),
    rule: Rule<'_>,
) -> Result<Computation, CompileError> {
    let mut b = Emit::new(draft);
    let mut map: Vec<NodeId> = Vec::with_capacity(old.nodes.len());
    for (number, &p) in old.params.iter().enumerate() {
        let n = old.node(p);
        b.on_behalf_of(n);
        b.parameter(match (shapes.get(&number), &n.shape) {
            (Some(dims), Shape::Array(a)) => Shape::array(a.dtype, dims),
            _ => n.shape.clone(),
        });
    }
    let mut uses = vec![0u32; old.nodes.len()];
    for o in old.nodes.iter().flat_map(|n| &n.operands).chain([&old.root]) {
        uses[o.index()] += 1;
    }
    for n in &old.nodes {
        b.on_behalf_of(n);
        b.place = (new_ids.len(), NodeId(map.len() as u32));
        if let Op::Parameter { index } = n.op {
            let p = b.params[index];
            map.push(if shapes.contains_key(&index) { b.reshape(p, &array(&n.shape).dims) } else { p });
            continue;
        }
        let operands: Vec<NodeId> = n.operands.iter().map(|o| map[o.index()]).collect();
        let mut op = n.op.clone();
        op.for_each_called(|c| *c = new_ids[c.index()]);
        let moved = Node { op, operands: Vec::new(), ..n.clone() };
        let new = match rule(&mut b, &moved, &operands)? {
            Some(id) => id,
            None => b.emit(moved.op, &operands, moved.shape),
        };
        *b.uses.entry(new).or_default() += uses[map.len()];
        map.push(new);
    }
    Ok(b.finish(old.name.clone(), map[old.root.index()]))
}

/// Which computations the entry needs.
pub(crate) fn reachable(module: &Module) -> Vec<bool> {
    let mut wanted = vec![false; module.computations.len()];
    wanted[module.entry.index()] = true;
    for index in (0..module.computations.len()).rev() {
        if wanted[index] {
            for n in &module.computations[index].nodes {
                for c in n.op.called() {
                    wanted[c.index()] = true;
                }
            }
        }
    }
    wanted
}

/// Drops computations that the entry does not need, makes equal ones one but for those of loops, which have their own, and gives each a name
/// of its own.
pub fn prune(mut module: Module) -> Module {
    let wanted = reachable(&module);
    let mut ids = vec![CompId(u32::MAX); wanted.len()];
    let mut kept: Vec<Computation> = Vec::new();
    let mut names: FxHashMap<String, u32> = FxHashMap::default();
    let mut shared: FxHashMap<u64, Vec<CompId>> = FxHashMap::default();
    let mut own = vec![false; wanted.len()];
    for n in module.computations.iter().flat_map(|c| &c.nodes).filter(|n| matches!(n.op, Op::While { .. })) {
        n.op.called().iter().for_each(|c| own[c.index()] = true);
    }
    for (index, mut c) in std::mem::take(&mut module.computations).into_iter().enumerate() {
        if !wanted[index] {
            continue;
        }
        for n in &mut c.nodes {
            n.op.for_each_called(|c| *c = ids[c.index()]);
        }
        if !own[index] {
            let same = shared.entry(structure(&c)).or_default();
            if let Some(&id) = same.iter().find(|&&id| is_equal(&kept[id.index()], &c)) {
                ids[index] = id;
                continue;
            }
            same.push(CompId(kept.len() as u32));
        }
        let base = base_name(&c.name).to_string();
        let count = names.entry(base.clone()).or_insert(0);
        c.name = if *count == 0 { base } else { format!("{base}-{count}") };
        *count += 1;
        ids[index] = CompId(kept.len() as u32);
        kept.push(c);
    }
    module.entry = ids[module.entry.index()];
    module.computations = kept;
    module
}

/// A hash of a computation's structure, names and places left aside.
fn structure(c: &Computation) -> u64 {
    let mut hasher = FxHasher::default();
    for n in &c.nodes {
        discriminant(&n.op).hash(&mut hasher);
        n.op.called().hash(&mut hasher);
        n.operands.hash(&mut hasher);
        n.shape.hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether two computations compute the same, node by node.
fn is_equal(x: &Computation, y: &Computation) -> bool {
    let same = |(a, b): (&Node, &Node)| a.op == b.op && a.operands == b.operands && a.shape == b.shape;
    x.root == y.root && x.params == y.params && x.nodes.len() == y.nodes.len() && x.nodes.iter().zip(&y.nodes).all(same)
}
