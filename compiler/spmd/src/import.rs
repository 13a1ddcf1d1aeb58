//! From the graph to the partitioner's program: calls inlined, tuples gone, annotations read.

use crate::Unsaid;
use crate::annotation::{self, Among, Raw, Reader, Unread};
use crate::ir::{Kind, Node, Origin, Program, Region, Tree, ValueId};
use crate::mesh::{Axes, Axis, Mesh};
use crate::sharding::{Growth, Spec};
use rustc_hash::FxHashMap;
use systole_hlo::error::{CompileError, Resource};
use systole_hlo::graph::{self, CompId, Computation, Module, NodeId, Op, Shape, dictionary};

/// Nodes that inlining may make of a small program, and for each node of a large one.
const NODE_LIMIT: u64 = 1 << 20;
const NODE_GROWTH: u64 = 16;

/// What a custom call annotates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Annotation {
    Constraint,
    ToLocal,
    ToGlobal,
}

/// Whether a custom call is an annotation of shardings.
pub(crate) fn annotation_of(op: &Op) -> Option<Annotation> {
    let Op::CustomCall { target, .. } = op else { return None };
    match target.as_str() {
        "Sharding" | "xla.sdy.FuncResultSharding" => Some(Annotation::Constraint),
        "xla.sdy.GlobalToLocalShape" | "SPMDFullToShardShape" => Some(Annotation::ToLocal),
        "xla.sdy.LocalToGlobalShape" | "SPMDShardToFullShape" => Some(Annotation::ToGlobal),
        _ => None,
    }
}

pub(crate) fn attribute<'a>(n: &'a graph::Node, key: &str) -> Option<&'a str> {
    n.attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

/// The annotations of a module, read with one numbering of places.
struct Texts {
    reader: Reader,
    order: Option<Vec<u32>>,
}

/// What a node's annotation `key` says: Shardy's in its frontend attributes, else HLO's.
fn raws(n: &graph::Node, key: &str, reader: &Reader) -> Result<Option<Vec<Raw>>, Unread> {
    let shardy = attribute(n, "frontend_attributes").and_then(|d| dictionary::entry(d, key));
    match shardy {
        Some(text) => reader.shardy(&text).map(Some),
        None if key == "xla.sdy.sharding" => attribute(n, "sharding").map(|t| reader.hlo(t)).transpose(),
        None => Ok(None),
    }
}

const KEYS: [&str; 3] = ["xla.sdy.sharding", "xla.sdy.in_shardings", "xla.sdy.out_shardings"];

/// The names of a manual computation's axes: `#sdy<manual_axes{"d"}>`.
fn manual_names(n: &graph::Node) -> Option<Vec<String>> {
    let text = dictionary::entry(attribute(n, "frontend_attributes")?, "xla.sdy.manual_axes")?;
    Some(text.split('"').skip(1).step_by(2).map(str::to_string).collect())
}

/// The pieces of all annotations of a module, or the order of places that some would need.
fn all_pieces(module: &Module, reader: &Reader) -> Result<Vec<crate::mesh::Piece>, (Unread, graph::Span)> {
    let mut out = Vec::new();
    for n in module.computations.iter().flat_map(|c| &c.nodes) {
        for key in KEYS {
            let all = raws(n, key, reader).map_err(|e| (e, n.span))?;
            out.extend(all.iter().flatten().flat_map(Raw::pieces));
        }
    }
    // Axes that only manual computations name.
    for mesh in &reader.meshes {
        let devices: u64 = mesh.axes.iter().map(|a| a.1).product();
        for (name, _) in mesh.axes.iter().filter(|_| devices == reader.devices) {
            out.extend(reader.along(mesh, name).map_err(|e| (e, graph::Span::default()))?);
        }
    }
    Ok(out)
}

fn texts(module: &Module, partitions: u64) -> Result<(Texts, Mesh), CompileError> {
    let unsupported = |span, m: String| CompileError::unsupported(span, m);
    let none = graph::Span::default();
    let named = module.attributes.iter().find(|(k, _)| k == "frontend_attributes");
    let meshes = named.and_then(|(_, d)| dictionary::entry(d, "xla.sdy.meshes"));
    let meshes = meshes.map_or(Ok(Vec::new()), |t| annotation::meshes(&t)).map_err(|e| unsupported(none, e))?;
    let mut texts = Texts { reader: Reader { meshes, devices: partitions, places: None }, order: None };
    let found = match all_pieces(module, &texts.reader) {
        Err((Unread::Order(list), _)) => {
            let mut places = vec![0; list.len()];
            for (place, &d) in list.iter().enumerate() {
                places[d as usize] = place as u64;
            }
            texts.reader.places = Some(places);
            texts.order = Some(list.iter().map(|d| *d as u32).collect());
            all_pieces(module, &texts.reader)
        }
        other => other,
    };
    let found = found.map_err(|(e, span)| match e {
        Unread::Wrong(m) => unsupported(span, format!("a sharding cannot be read: {m}")),
        Unread::Order(_) => unsupported(span, "several meshes in orders of devices that have nothing in common".into()),
    })?;
    let mut mesh = Mesh::new(partitions, &found, texts.order.clone()).map_err(|e| unsupported(none, e))?;
    for m in &texts.reader.meshes {
        for (name, _) in &m.axes {
            let pieces = texts.reader.along(m, name).unwrap_or_default();
            let axes: Option<Vec<Vec<Axis>>> = pieces.iter().map(|p| mesh.axes(*p)).collect();
            mesh.name(name, axes.unwrap_or_default().concat());
        }
    }
    Ok((texts, mesh))
}

/// The program of a module on so many partitions, with what its annotations say.
///
/// # Errors
/// Annotations that cannot be read or do not fit, operations that have no place in programs of whole arrays.
pub fn import(module: &Module, partitions: u64, unsaid: Unsaid) -> Result<(Program, Mesh), CompileError> {
    let (texts, mesh) = texts(module, partitions)?;
    let written: u64 = module.computations.iter().map(|c| c.nodes.len() as u64).sum();
    let mut importer = Importer {
        module,
        texts: &texts,
        mesh: &mesh,
        program: Program::default(),
        left: NODE_LIMIT + NODE_GROWTH * written,
    };
    let entry = module.entry();
    let mut region = Region::default();
    let mut params = Vec::new();
    for &p in &entry.params {
        let n = entry.node(p);
        let tree = importer.fresh(&n.shape, &n.name);
        importer.annotate(n, KEYS[0], &tree.leaves(), Axes::default())?;
        if unsaid != Unsaid::Free {
            tree.leaves().iter().for_each(|v| importer.program.values[v.index()].spec.close());
        }
        region.params.extend(tree.leaves());
        params.push(tree);
    }
    let result = importer.computation(entry, &params, Axes::default(), &mut region)?;
    region.results = result.leaves();
    let mut program = importer.program;
    if unsaid == Unsaid::Replicated {
        program.close_results(&mut region);
    }
    program.entry = region;
    program.params = params;
    program.result = Some(result);
    Ok((program, mesh))
}

struct Importer<'a> {
    module: &'a Module,
    texts: &'a Texts,
    mesh: &'a Mesh,
    program: Program,
    /// Nodes that may still be made.
    left: u64,
}

impl Importer<'_> {
    fn value(&mut self, shape: &Shape, name: &str) -> ValueId {
        self.program.add(shape, name)
    }

    /// New values of a shape.
    fn fresh(&mut self, shape: &Shape, name: &str) -> Tree {
        match shape {
            Shape::Array(_) | Shape::Token => Tree::Leaf(self.value(shape, name)),
            Shape::Tuple(t) => Tree::Tuple(t.iter().map(|s| self.fresh(s, name)).collect()),
        }
    }

    /// Gives values the shardings of a node's annotation. `manual`: atoms of the computation around, and outside of the
    /// sharding's business.
    fn annotate(&mut self, n: &graph::Node, key: &str, values: &[ValueId], manual: Axes) -> Result<bool, CompileError> {
        let wrong = |m: String| CompileError::unsupported(n.span, m);
        let read = raws(n, key, &self.texts.reader).map_err(|e| match e {
            Unread::Wrong(m) => wrong(format!("a sharding cannot be read: {m}")),
            Unread::Order(_) => CompileError::internal("spmd", "a sharding in another order than its module's"),
        })?;
        let Some(all) = read else { return Ok(false) };
        let shardy = attribute(n, "frontend_attributes").and_then(|d| dictionary::entry(d, key)).is_some();
        for (i, &v) in values.iter().enumerate() {
            // One for all where there is one.
            let Some(raw) = all.get(i).or(if all.len() == 1 { all.first() } else { None }) else {
                return Err(wrong(format!("{} shardings for {} values", all.len(), values.len())));
            };
            if raw.unknown || raw.manual == Among::All || (!raw.manual.pieces().is_empty() && !shardy) {
                continue;
            }
            let rank = self.program.value(v).rank();
            if let Some(spec) = self.spec(raw, rank, manual).map_err(wrong)? {
                self.program.values[v.index()].spec = spec;
            }
        }
        Ok(true)
    }

    /// The atoms of pieces.
    fn atoms(&self, pieces: &[crate::mesh::Piece]) -> Result<Vec<Axis>, String> {
        let found: Option<Vec<Vec<Axis>>> = pieces.iter().map(|p| self.mesh.axes(*p)).collect();
        found.map(|f| f.concat()).ok_or_else(|| "a sharding by axes that the mesh has not".to_string())
    }

    fn spec(&self, raw: &Raw, rank: usize, manual: Axes) -> Result<Option<Spec>, String> {
        let mut spec = Spec::whole(rank);
        spec.replicated = Axes::of(&self.atoms(&raw.replicated)?);
        spec.unreduced = match &raw.unreduced {
            Among::All => Axes::of(&self.mesh.all()),
            Among::Pieces(pieces) => Axes::of(&self.atoms(pieces)?),
        };
        let Some(dims) = &raw.dims else { return Ok(Some(spec)) };
        if dims.len() != rank {
            return Err(format!("a sharding of {} dimensions for an array of {rank}", dims.len()));
        }
        for (i, d) in dims.iter().enumerate() {
            spec.sharding.dims[i] = self.atoms(&d.pieces)?;
            spec.dims[i] = Growth { open: d.open, priority: d.priority };
        }
        let used: Vec<Axis> = spec.sharding.dims.concat();
        if Axes::of(&used).list().len() != used.len() {
            return Err("a sharding that divides two dimensions by one axis".to_string());
        }
        if Axes::of(&used).meets(manual) {
            return Err("a sharding by an axis of the manual computation around".to_string());
        }
        Ok(Some(spec))
    }

    /// The nodes of a computation with `args` for its parameters; its result.
    fn computation(
        &mut self,
        c: &Computation,
        args: &[Tree],
        manual: Axes,
        into: &mut Region,
    ) -> Result<Tree, CompileError> {
        let mut trees: Vec<Tree> = Vec::with_capacity(c.nodes.len());
        let inside = self.manual_calls(c)?;
        for (i, n) in c.nodes.iter().enumerate() {
            self.left = self.left.checked_sub(1).ok_or_else(|| CompileError::Limit {
                resource: Resource::Nodes,
                need: NODE_LIMIT,
                have: NODE_LIMIT,
                detail: " (calls inlined make too large a program)".to_string(),
            })?;
            let operands: Vec<Tree> = n.operands.iter().map(|o| trees[o.index()].clone()).collect();
            let around = inside.get(&i).map_or(manual, |m| manual.and(*m));
            let tree = self.node(n, operands, (manual, around), args, into)?;
            trees.push(tree);
        }
        Ok(trees[c.root.index()].clone())
    }

    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "every other operation is one of whole arrays, for the rules to decide"
    )]
    fn node(
        &mut self,
        n: &graph::Node,
        operands: Vec<Tree>,
        (manual, around): (Axes, Axes),
        args: &[Tree],
        into: &mut Region,
    ) -> Result<Tree, CompileError> {
        let module = self.module;
        if let Some(kind) = annotation_of(&n.op) {
            return self.annotation(n, kind, operands, manual, into);
        }
        let tree = match &n.op {
            Op::Parameter { index } => return Ok(args[*index].clone()),
            Op::Tuple => Tree::Tuple(operands),
            Op::GetTupleElement { index } => match operands.into_iter().next() {
                Some(Tree::Tuple(mut t)) if *index < t.len() => t.swap_remove(*index),
                _ => return Err(CompileError::internal("spmd", format!("{} takes an element of no tuple", n.name))),
            },
            Op::Call { body } | Op::Fusion { body, .. } => {
                self.computation(module.computation(*body), &operands, around, into)?
            }
            Op::While { condition, body } => {
                let state = self.fresh(&n.shape, &n.name);
                let mut region = |comp: CompId| -> Result<Region, CompileError> {
                    let mut r = Region { params: state.leaves(), ..Region::default() };
                    let result =
                        self.computation(module.computation(comp), std::slice::from_ref(&state), manual, &mut r)?;
                    r.results = result.leaves();
                    Ok(r)
                };
                let (condition, body) = (region(*condition)?, region(*body)?);
                self.push(n, Kind::While { condition, body }, operands, state.leaves(), manual, into);
                state
            }
            Op::Conditional { branches } => {
                let mut all = Vec::new();
                for (b, operand) in branches.iter().zip(&operands[1..]) {
                    let mut r = Region { params: operand.leaves(), ..Region::default() };
                    let result =
                        self.computation(module.computation(*b), std::slice::from_ref(operand), manual, &mut r)?;
                    r.results = result.leaves();
                    all.push(r);
                }
                let result = self.fresh(&n.shape, &n.name);
                self.push(n, Kind::Conditional { branches: all }, operands, result.leaves(), manual, into);
                result
            }
            Op::AsyncStart { .. } | Op::AsyncUpdate | Op::AsyncDone | Op::CopyStart | Op::CopyDone => {
                let message = format!("{} in a program that is not partitioned yet", n.op.name());
                return Err(CompileError::unsupported(n.span, message));
            }
            op => {
                let result = self.fresh(&n.shape, &n.name);
                self.push(n, Kind::Op(op.clone()), operands, result.leaves(), manual, into);
                result
            }
        };
        // An annotation of an ordinary operation constrains its results.
        if attribute(n, "sharding").is_some()
            || attribute(n, "frontend_attributes").is_some_and(|d| d.contains(KEYS[0]))
        {
            let leaves = tree.leaves();
            let constrained = self.fresh(&n.shape, &n.name);
            if self.annotate(n, KEYS[0], &constrained.leaves(), manual)? {
                for (x, y) in leaves.iter().zip(constrained.leaves()) {
                    self.push(n, Kind::Constrain, vec![Tree::Leaf(*x)], vec![y], manual, into);
                }
                return Ok(constrained);
            }
        }
        Ok(tree)
    }

    fn push(
        &mut self,
        n: &graph::Node,
        kind: Kind,
        operands: Vec<Tree>,
        results: Vec<ValueId>,
        manual: Axes,
        into: &mut Region,
    ) {
        let stale = |k: &str| matches!(k, "sharding" | "frontend_attributes" | "control-predecessors");
        let is_op = matches!(kind, Kind::Op(_));
        let kept =
            |(k, v): &&(String, String)| !stale(k) || k == "frontend_attributes" && is_op && !v.contains("xla.sdy.");
        into.nodes.push(Node {
            kind,
            manual,
            operands,
            results,
            origin: Origin {
                shape: n.shape.clone(),
                name: n.name.clone(),
                span: n.span,
                attributes: n.attributes.iter().filter(kept).cloned().collect(),
            },
        });
    }

    /// A constraint, or the boundary of a manual computation.
    fn annotation(
        &mut self,
        n: &graph::Node,
        kind: Annotation,
        operands: Vec<Tree>,
        manual: Axes,
        into: &mut Region,
    ) -> Result<Tree, CompileError> {
        let inputs: Vec<ValueId> = operands.iter().flat_map(Tree::leaves).collect();
        let result = self.fresh(&n.shape, &n.name);
        let results = result.leaves();
        if inputs.len() != results.len() {
            return Err(CompileError::unsupported(n.span, format!("{} gives other values than it takes", n.name)));
        }
        match kind {
            Annotation::Constraint => {
                self.annotate(n, KEYS[0], &results, manual)?;
                for (x, y) in inputs.iter().zip(&results) {
                    self.push(n, Kind::Constrain, vec![Tree::Leaf(*x)], vec![*y], manual, into);
                }
            }
            Annotation::ToLocal => {
                let axes = self.boundary_axes(n, true)?;
                for (i, (x, y)) in inputs.iter().zip(&results).enumerate() {
                    let shape = self.program.value(*x).shape.clone();
                    let whole = self.value(&shape, &n.name);
                    self.boundary(n, KEYS[1], (i, inputs.len()), (*x, whole), manual)?;
                    self.covers(n, whole, *y, axes)?;
                    self.keep_off(whole, axes);
                    self.keep_off(*y, axes);
                    self.push(n, Kind::Constrain, vec![Tree::Leaf(*x)], vec![whole], manual, into);
                    self.push(n, Kind::ToLocal(axes), vec![Tree::Leaf(whole)], vec![*y], manual.and(axes), into);
                }
            }
            Annotation::ToGlobal => {
                let axes = self.boundary_axes(n, false)?;
                for (i, (x, y)) in inputs.iter().zip(&results).enumerate() {
                    self.boundary(n, KEYS[2], (i, inputs.len()), (*x, *y), manual)?;
                    self.covers(n, *y, *x, axes)?;
                    self.keep_off(*y, axes);
                    self.push(n, Kind::ToGlobal(axes), vec![Tree::Leaf(*x)], vec![*y], manual, into);
                }
            }
        }
        Ok(result)
    }

    /// The sharding of a whole array at the boundary of a manual computation: from the computation's list, else (the older
    /// form) from the annotation of the operand or of the node.
    fn boundary(
        &mut self,
        n: &graph::Node,
        key: &str,
        (i, of): (usize, usize),
        (from, to): (ValueId, ValueId),
        manual: Axes,
    ) -> Result<(), CompileError> {
        if manual_names(n).is_none() {
            if key == KEYS[1] {
                self.program.values[to.index()].spec = self.program.value(from).spec.clone();
            } else {
                self.annotate(n, KEYS[0], &[to], manual)?;
            }
            return Ok(());
        }
        let wrong = |m: String| CompileError::unsupported(n.span, m);
        let read = raws(n, key, &self.texts.reader).ok().flatten().unwrap_or_default();
        let Some(raw) = read.get(i).filter(|_| read.len() == of) else {
            return Err(wrong(format!("{} shardings for {of} values of a manual computation", read.len())));
        };
        let rank = self.program.value(to).rank();
        if let Some(spec) = self.spec(raw, rank, manual).map_err(wrong)? {
            self.program.values[to.index()].spec = spec;
        }
        Ok(())
    }

    /// Manual atoms divide a value only where the computation's list says so.
    fn keep_off(&mut self, v: ValueId, axes: Axes) {
        let spec = &mut self.program.values[v.index()].spec;
        spec.replicated = spec.replicated.and(axes);
    }

    /// That the manual atoms of a sharding make the local sizes of the whole ones, and come first.
    fn covers(&self, n: &graph::Node, whole: ValueId, local: ValueId, axes: Axes) -> Result<(), CompileError> {
        let (w, l) = (self.program.value(whole), self.program.value(local));
        let wrong = |m: String| Err(CompileError::unsupported(n.span, m));
        if w.rank() != l.rank() {
            return wrong(format!("{} changes the rank", n.name));
        }
        for (d, list) in w.spec.sharding.dims.iter().enumerate() {
            let count = list.iter().take_while(|a| axes.has(**a)).count();
            if list[count..].iter().any(|a| axes.has(*a)) {
                return wrong("manual axes come before others in a sharding of a manual computation".to_string());
            }
            let parts = self.mesh.size(&list[..count]);
            if w.dims()[d] != l.dims()[d] * parts {
                return wrong(format!(
                    "dimension {d} of {} in {parts} parts is not {} of {}",
                    w.shape,
                    l.dims()[d],
                    n.name
                ));
            }
        }
        Ok(())
    }

    /// The atoms that become manual, or stop being so, at a boundary.
    fn boundary_axes(&self, n: &graph::Node, local: bool) -> Result<Axes, CompileError> {
        let wrong = |m: String| CompileError::unsupported(n.span, m);
        if let Some(names) = manual_names(n) {
            let mut out = Vec::new();
            for name in names {
                let mesh = self.texts.reader.meshes.iter().find(|m| m.axes.iter().any(|a| a.0 == name));
                let mesh = mesh.ok_or_else(|| wrong(format!("no mesh has the manual axis \"{name}\"")))?;
                let pieces = self.texts.reader.along(mesh, &name);
                out.extend(self.atoms(&pieces.unwrap_or_default()).map_err(wrong)?);
            }
            return Ok(Axes::of(&out));
        }
        // The older form: everything, or the last dimensions of a tile assignment.
        let owner = if local { attribute(n, "sharding").map(|t| self.texts.reader.hlo(t)) } else { None };
        match owner {
            Some(Ok(all)) => match all.first().map_or(&[][..], |raw| raw.manual.pieces()) {
                [] => Ok(Axes::of(&self.mesh.all())),
                pieces => Ok(Axes::of(&self.atoms(pieces).map_err(wrong)?)),
            },
            _ => Ok(Axes::of(&self.mesh.all())),
        }
    }

    /// Calls that are the body of a manual computation, by node number, with its atoms.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for calls alone")]
    fn manual_calls(&self, c: &Computation) -> Result<FxHashMap<usize, Axes>, CompileError> {
        let mut of: FxHashMap<NodeId, Axes> = FxHashMap::default();
        let mut calls = FxHashMap::default();
        for id in c.ids() {
            let n = c.node(id);
            let from = |of: &FxHashMap<NodeId, Axes>| n.operands.iter().find_map(|o| of.get(o).copied());
            match (&n.op, annotation_of(&n.op)) {
                (_, Some(Annotation::ToLocal)) => {
                    of.insert(id, self.boundary_axes(n, true)?);
                }
                (_, Some(Annotation::ToGlobal)) => {
                    // A body without arguments is known by what becomes of its results.
                    let mut at = n.operands.first().copied();
                    while let Some(o) = at {
                        match c.node(o).op {
                            Op::GetTupleElement { .. } => at = c.node(o).operands.first().copied(),
                            Op::Call { .. } => {
                                calls.entry(o.index()).or_insert(self.boundary_axes(n, false)?);
                                at = None;
                            }
                            _ => at = None,
                        }
                    }
                }
                (Op::GetTupleElement { .. }, None) => {
                    if let Some(m) = from(&of) {
                        of.insert(id, m);
                    }
                }
                (Op::Call { .. }, None) => {
                    if let Some(m) = from(&of) {
                        calls.insert(id.index(), m);
                    }
                }
                _ => {}
            }
        }
        Ok(calls)
    }
}
