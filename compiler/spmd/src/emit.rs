//! From the program with a sharding for every value to the program of a device.
//!
//! Nodes are made in order. A value is held with the sharding that it was made in, and with every other one that somebody
//! needed since, so that nothing is exchanged twice. Sums that are pending are taken as soon as they are made.

use crate::ir::{self, Kind, Node, Program, Region, Tree, ValueId};
use crate::local::{self, Work};
use crate::make::{Out, Pending, Scope};
use crate::mesh::{Axes, Mesh};
use crate::reshard;
use crate::resolve;
use crate::rule;
use crate::sharding::Sharding;
use crate::{Boundary, Edge, Listed, Note, Partitioned};
use rustc_hash::FxHashMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Alias, ArrayShape, Binary, CompId, Computation, Direction, Module, NodeId, Op, Shape};
use systole_isa::DType;

/// What values are held as.
#[derive(Default)]
struct Held {
    made: FxHashMap<ValueId, Vec<(Sharding, NodeId)>>,
    /// Terms of sums that came from outside or out of a manual computation, until somebody needs a sum.
    terms: FxHashMap<ValueId, (Sharding, NodeId)>,
}

struct Emitter<'a> {
    old: &'a Module,
    program: &'a Program,
    out: Out<'a>,
    copied: FxHashMap<CompId, CompId>,
    notes: Vec<Note>,
    listed: Vec<Listed>,
}

/// The program of a device.
///
/// # Errors
/// What a device cannot do on parts, broken invariants.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for parameters alone")]
pub fn emit(old: &Module, program: &Program, mesh: &Mesh) -> Result<Partitioned, CompileError> {
    let partitions = mesh.devices();
    let attributes =
        old.attributes.iter().filter(|(k, v)| !(k == "frontend_attributes" && v.contains("xla.sdy."))).cloned();
    let shell = Module { partitions, attributes: attributes.collect(), entry_layout: None, ..old.clone() };
    let mut e = Emitter {
        old,
        program,
        out: Out::new(mesh, shell),
        copied: FxHashMap::default(),
        notes: Vec::new(),
        listed: Vec::new(),
    };
    let mut s = Scope::new(&format!("{}_spmd", old.entry().name));
    let mut held = Held::default();
    for &v in &program.entry.params {
        let shape = e.local(v);
        let id = s.b.parameter(shape);
        s.b.rename(id, &program.value(v).name);
        e.take(&mut held, v, program.value(v).spec.sharding.clone(), id);
    }
    e.nodes(&program.entry, &mut s, &mut held)?;
    let mut results = Vec::new();
    for v in &program.entry.results {
        let want = program.value(*v).spec.sharding.clone();
        results.push(e.outside(&mut s, &mut held, *v, &want)?);
    }
    let is_tuple = !matches!(program.result, Some(Tree::Leaf(_)));
    let root = match results[..] {
        [one] if !is_tuple => one,
        _ => e.out.op(&mut s, Op::Tuple, &results)?,
    };
    let root = match s.b.node(root).op {
        // A parameter that is the result keeps a name of its own.
        Op::Parameter { .. } => {
            let shape = s.b.shape(root).clone();
            e.out.shaped(&mut s, Op::Copy, &[root], shape)?
        }
        _ => root,
    };
    let boundary = e.boundary();
    let aliases = e.aliases();
    let (notes, listed) = (e.notes, e.listed);
    let traffic = e.out.traffic.iter().map(|(k, v)| ((*k).to_string(), *v)).collect();
    let mut module = e.out.module;
    module.entry = module.push(s.b.finish(root));
    module.aliases = aliases;
    Ok(Partitioned { module, boundary, notes, listed, traffic })
}

impl<'a> Emitter<'a> {
    fn mesh(&self) -> &'a Mesh {
        self.out.mesh
    }

    fn spec(&self, v: ValueId) -> &'a Sharding {
        &self.program.value(v).spec.sharding
    }

    /// The shape of a value's part.
    fn local(&self, v: ValueId) -> Shape {
        part(&self.program.value(v).shape, self.spec(v), self.mesh())
    }

    fn hold(&mut self, held: &mut Held, v: ValueId, sharding: Sharding, id: NodeId) {
        held.made.entry(v).or_default().push((sharding, id));
    }

    /// Atoms along which callers and manual computations have terms of a value.
    fn unreduced(&self, v: ValueId) -> Axes {
        self.program.value(v).spec.unreduced
    }

    /// Holds what came from outside.
    fn take(&mut self, held: &mut Held, v: ValueId, sharding: Sharding, id: NodeId) {
        match self.unreduced(v) == Axes::default() {
            true => self.hold(held, v, sharding, id),
            false => _ = held.terms.insert(v, (sharding, id)),
        }
    }

    /// A value in a sharding: as it is held, or from where it costs least.
    fn get(&mut self, s: &mut Scope, held: &mut Held, v: ValueId, want: &Sharding) -> Result<NodeId, CompileError> {
        let value = self.program.value(v);
        if !held.made.contains_key(&v)
            && let Some((have, terms)) = held.terms.get(&v).cloned()
        {
            let pending = Pending { axes: value.spec.unreduced.list(), by: Binary::Add };
            let id = self.out.reshard(s, terms, value.dims(), &have, &pending, &have)?;
            self.hold(held, v, have, id);
        }
        let all = held.made.get(&v).map_or(&[][..], |h| &h[..]);
        if let Some((_, id)) = all.iter().find(|(have, _)| have == want || matches!(value.shape, Shape::Token)) {
            return Ok(*id);
        }
        let dims = value.dims();
        let cost = |have: &Sharding| {
            let mut bytes = ir::bytes(&part(&value.shape, have, self.mesh()));
            let mut sum = 0;
            for step in reshard::plan(self.mesh(), dims, have, &[], want) {
                sum += reshard::received(self.mesh(), &step, bytes);
                bytes = match &step {
                    reshard::Step::AllGather { axes, .. } => bytes * self.mesh().size(axes),
                    reshard::Step::Slice { axes, .. } => bytes / self.mesh().size(axes),
                    reshard::Step::ReduceScatter { .. }
                    | reshard::Step::AllReduce { .. }
                    | reshard::Step::Permute { .. }
                    | reshard::Step::AllToAll { .. }
                    | reshard::Step::Trim { .. } => bytes,
                };
            }
            sum
        };
        let best = all.iter().min_by_key(|(have, _)| cost(have));
        let Some((have, id)) = best.cloned() else {
            return Err(CompileError::internal("spmd", format!("{} is used before it is made", value.name)));
        };
        let id = self.out.reshard(s, id, dims, &have, &Pending::none(), want)?;
        self.hold(held, v, want.clone(), id);
        Ok(id)
    }

    /// All nodes of a region.
    fn nodes(&mut self, r: &Region, s: &mut Scope, held: &mut Held) -> Result<(), CompileError> {
        for n in &r.nodes {
            let first = s.b.len();
            s.b.span = n.origin.span;
            self.node(n, s, held)?;
            for (key, value) in &n.origin.attributes {
                for i in first..s.b.len() {
                    s.b.attribute(NodeId(i as u32), key, value);
                }
            }
            for v in &n.results {
                let value = self.program.value(*v);
                self.listed.push(Listed {
                    name: n.origin.name.clone(),
                    shape: value.shape.to_string(),
                    sharding: self.spec(*v).spell(self.mesh()),
                });
            }
        }
        Ok(())
    }

    fn node(&mut self, n: &Node, s: &mut Scope, held: &mut Held) -> Result<(), CompileError> {
        match &n.kind {
            Kind::Constrain => {
                let (x, want) = (n.inputs()[0], self.spec(n.results[0]).clone());
                let alike = self.unreduced(x) == self.unreduced(n.results[0]);
                if let Some(terms) = held.terms.get(&x).filter(|t| alike && t.0 == want).cloned() {
                    held.terms.insert(n.results[0], terms);
                    return Ok(());
                }
                let id = self.get(s, held, x, &want)?;
                self.hold(held, n.results[0], want, id);
            }
            Kind::ToLocal(axes) => self.enter_manual(n, *axes, s, held)?,
            Kind::ToGlobal(axes) => self.leave_manual(n, *axes, s, held)?,
            Kind::While { condition, body } => self.while_loop(n, (condition, body), s, held)?,
            Kind::Conditional { branches } => self.conditional(n, branches, s, held)?,
            Kind::Op(op) => self.operation(n, op, s, held)?,
        }
        Ok(())
    }

    /// A value as callers and manual computations have it. Of a sum that is still to be taken: the terms that came, else
    /// all of it on the first device and zeros on the others.
    fn outside(&mut self, s: &mut Scope, held: &mut Held, v: ValueId, want: &Sharding) -> Result<NodeId, CompileError> {
        let axes = self.unreduced(v).list();
        if let Some((_, id)) = held.terms.get(&v).filter(|(have, _)| have == want) {
            return Ok(*id);
        }
        let id = self.get(s, held, v, want)?;
        if axes.is_empty() {
            return Ok(id);
        }
        let a = self.out.array(s, id)?;
        let at = self.out.coordinate(s, &axes)?;
        let zero = self.out.scalar(s, DType::S32, 0.0);
        let first = self.out.compare(s, Direction::Eq, at, zero)?;
        let first = self.out.spread(s, first, &a.dims)?;
        let zeros = self.out.splat(s, a.dtype, &a.dims, 0.0)?;
        self.out.op(s, Op::Select, &[first, id, zeros])
    }

    /// The part that devices along manual atoms have is the local array; the other atoms stay as they are.
    fn enter_manual(&mut self, n: &Node, axes: Axes, s: &mut Scope, held: &mut Held) -> Result<(), CompileError> {
        let (whole, local) = (n.inputs()[0], n.results[0]);
        let (manual, free) = self.boundary_parts(whole, local, axes, self.spec(local));
        let want = Sharding { dims: manual.iter().zip(&free.dims).map(|(m, f)| [&m[..], f].concat()).collect() };
        let id = self.outside(s, held, whole, &want)?;
        self.hold(held, local, free, id);
        Ok(())
    }

    fn leave_manual(&mut self, n: &Node, axes: Axes, s: &mut Scope, held: &mut Held) -> Result<(), CompileError> {
        let (local, whole) = (n.inputs()[0], n.results[0]);
        let inside: Vec<Vec<u8>> =
            self.spec(whole).dims.iter().map(|d| d.iter().copied().filter(|a| !axes.has(*a)).collect()).collect();
        let (manual, free) = self.boundary_parts(whole, local, axes, &Sharding { dims: inside });
        let id = self.get(s, held, local, &free)?;
        let have = Sharding { dims: manual.iter().zip(&free.dims).map(|(m, f)| [&m[..], f].concat()).collect() };
        self.take(held, whole, have, id);
        Ok(())
    }

    /// The manual atoms of a whole array, and of `free` what divides the local one evenly.
    fn boundary_parts(&self, whole: ValueId, local: ValueId, axes: Axes, free: &Sharding) -> (Vec<Vec<u8>>, Sharding) {
        let manual: Vec<Vec<u8>> =
            (self.spec(whole).dims.iter()).map(|d| d.iter().copied().take_while(|a| axes.has(*a)).collect()).collect();
        let taken: Axes = manual.iter().fold(Axes::default(), |s, d| s.and(Axes::of(d)));
        let dims = free.dims.iter().zip(self.program.value(local).dims()).map(|(d, &n)| {
            let clear = d.iter().all(|a| !taken.has(*a));
            if clear && n % self.mesh().size(d) == 0 { d.clone() } else { Vec::new() }
        });
        (manual, Sharding { dims: dims.collect() })
    }

    /// A computation whose parameter is the flat tuple of `values`. Its results have the shardings `wants`, in a flat tuple
    /// but for a condition's.
    fn body(
        &mut self,
        name: &str,
        values: &[(ValueId, Sharding)],
        r: &Region,
        wants: Option<&[Sharding]>,
    ) -> Result<CompId, CompileError> {
        let mut s = Scope::new(name);
        let shapes = values.iter().map(|(v, sharding)| part(&self.program.value(*v).shape, sharding, self.mesh()));
        let state = s.b.parameter(Shape::Tuple(shapes.collect()));
        let mut held = Held::default();
        for (index, (v, sharding)) in values.iter().enumerate() {
            let id = self.out.op(&mut s, Op::GetTupleElement { index }, &[state])?;
            self.hold(&mut held, *v, sharding.clone(), id);
        }
        self.nodes(r, &mut s, &mut held)?;
        let mut results = Vec::new();
        for (i, v) in r.results.iter().enumerate() {
            let want = wants.map_or(self.spec(*v), |w| &w[i]).clone();
            results.push(self.get(&mut s, &mut held, *v, &want)?);
        }
        let root = match (wants, &results[..]) {
            (None, [one]) => *one,
            _ => self.out.op(&mut s, Op::Tuple, &results)?,
        };
        Ok(self.out.module.push(s.b.finish(root)))
    }

    fn while_loop(
        &mut self,
        n: &Node,
        (condition, body): (&Region, &Region),
        s: &mut Scope,
        held: &mut Held,
    ) -> Result<(), CompileError> {
        let states: Vec<(ValueId, Sharding)> = n.results.iter().map(|v| (*v, self.spec(*v).clone())).collect();
        let mut initial = Vec::new();
        for (v, (_, want)) in n.inputs().into_iter().zip(&states) {
            initial.push(self.get(s, held, v, want)?);
        }
        let condition = self.body(&format!("{}.condition", n.origin.name), &states, condition, None)?;
        // A body's results go where its parameters are.
        let wants: Vec<Sharding> = states.iter().map(|(_, sharding)| sharding.clone()).collect();
        let body = self.body(&format!("{}.body", n.origin.name), &states, body, Some(&wants))?;
        let start = self.out.op(s, Op::Tuple, &initial)?;
        let id = self.out.op(s, Op::While { condition, body }, &[start])?;
        s.b.rename(id, &n.origin.name);
        for (index, (v, sharding)) in states.into_iter().enumerate() {
            let id = self.out.op(s, Op::GetTupleElement { index }, &[id])?;
            self.hold(held, v, sharding, id);
        }
        Ok(())
    }

    fn conditional(
        &mut self,
        n: &Node,
        branches: &[Region],
        s: &mut Scope,
        held: &mut Held,
    ) -> Result<(), CompileError> {
        let chooser = n.operands[0].leaves()[0];
        let rank = self.program.value(chooser).rank();
        let mut operands = vec![self.get(s, held, chooser, &Sharding::replicated(rank))?];
        let mut bodies = Vec::new();
        let wants: Vec<Sharding> = n.results.iter().map(|v| self.spec(*v).clone()).collect();
        for (i, b) in branches.iter().enumerate() {
            let values: Vec<(ValueId, Sharding)> = b.params.iter().map(|v| (*v, self.spec(*v).clone())).collect();
            let mut parts = Vec::new();
            for (v, want) in &values {
                parts.push(self.get(s, held, *v, want)?);
            }
            operands.push(self.out.op(s, Op::Tuple, &parts)?);
            bodies.push(self.body(&format!("{}.branch{i}", n.origin.name), &values, b, Some(&wants))?);
        }
        let id = self.out.op(s, Op::Conditional { branches: bodies }, &operands)?;
        s.b.rename(id, &n.origin.name);
        for (index, v) in n.results.iter().enumerate() {
            let id = self.out.op(s, Op::GetTupleElement { index }, &[id])?;
            self.hold(held, *v, self.spec(*v).clone(), id);
        }
        Ok(())
    }

    fn operation(&mut self, n: &Node, old_op: &Op, s: &mut Scope, held: &mut Held) -> Result<(), CompileError> {
        let rule = rule::rule(n, self.old, self.program);
        let inputs = n.inputs();
        let tensors: Vec<ValueId> = inputs.iter().chain(&n.results).copied().collect();
        let shardings: Vec<&Sharding> = tensors.iter().map(|v| self.spec(*v)).collect();
        let bytes: Vec<u64> = tensors.iter().map(|v| self.program.value(*v).bytes()).collect();
        let division = resolve::resolve(&rule, &shardings, &bytes, n.manual, self.mesh());
        let mut parts = Vec::new();
        for (t, &v) in inputs.iter().enumerate() {
            let want = resolve::sharding(&rule, t, &division);
            self.note(n, &rule, (t, v), &want);
            parts.push(self.get(s, held, v, &want)?);
        }
        let op = self.with_computations(old_op)?;
        let whole: Vec<Vec<u64>> = tensors.iter().map(|v| self.program.value(*v).dims().to_vec()).collect();
        let work =
            Work { node: n, op, rule: &rule, division: &division, parts: &parts, whole: &whole, old: self.old, old_op };
        let (made, pending) = local::emit(&mut self.out, s, &work)?;
        if let [one] = made[..] {
            s.b.rename(one, &n.origin.name);
        }
        for (i, (id, &v)) in made.into_iter().zip(&n.results).enumerate() {
            let natural = resolve::sharding(&rule, inputs.len() + i, &division);
            if pending.axes.is_empty() {
                self.hold(held, v, natural, id);
            } else {
                let want = self.spec(v).clone();
                let id = self.out.reshard(s, id, &whole[inputs.len() + i], &natural, &pending, &want)?;
                self.hold(held, v, want, id);
            }
        }
        Ok(())
    }

    /// Notes an operand that is gathered because the operation cannot be divided along it.
    fn note(&mut self, n: &Node, rule: &rule::Rule, (t, v): (usize, ValueId), want: &Sharding) {
        let have = self.spec(v);
        let dims: Vec<usize> =
            local::whole_dims(rule, t).into_iter().filter(|d| have.dims[*d].len() > want.dims[*d].len()).collect();
        if dims.is_empty() {
            return;
        }
        let value = self.program.value(v);
        let kept = ir::bytes(&part(&value.shape, want, self.mesh()));
        let bytes = kept.saturating_sub(ir::bytes(&part(&value.shape, have, self.mesh())));
        if bytes == 0 {
            return;
        }
        let what = match &n.kind {
            Kind::Op(op) => op.name().to_string(),
            Kind::While { .. } | Kind::Conditional { .. } | Kind::Constrain | Kind::ToLocal(_) | Kind::ToGlobal(_) => {
                String::new()
            }
        };
        let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
        let one = dims.len() == 1;
        self.notes.push(Note {
            name: n.origin.name.clone(),
            span: n.origin.span,
            bytes,
            message: format!(
                "{} `{}` is not divided along dimension{} {} of operand {t}, {}: {} is gathered",
                what,
                n.origin.name,
                if one { "" } else { "s" },
                dims.join(", "),
                have.spell(self.mesh()),
                if want.is_replicated() { "all of it" } else { "what stands in the way" },
            ),
        });
    }

    /// An operation that calls what became of its computations.
    fn with_computations(&mut self, op: &Op) -> Result<Op, CompileError> {
        let mut op = op.clone();
        let mut failed = None;
        op.for_each_called(|c| match self.computation(*c) {
            Ok(new) => *c = new,
            Err(e) => failed = Some(e),
        });
        failed.map_or(Ok(op), Err)
    }

    /// A computation over scalars, or one that is kept as it is, without annotations.
    fn computation(&mut self, id: CompId) -> Result<CompId, CompileError> {
        if let Some(&new) = self.copied.get(&id) {
            return Ok(new);
        }
        let old = self.old.computation(id);
        let mut c = Computation { nodes: Vec::new(), ..old.clone() };
        let mut map: Vec<NodeId> = Vec::new();
        for n in &old.nodes {
            let operands: Vec<NodeId> = n.operands.iter().map(|o| map[o.index()]).collect();
            if crate::import::annotation_of(&n.op).is_some() && operands.len() == 1 {
                map.push(operands[0]);
                continue;
            }
            let op = self.with_computations(&n.op)?;
            c.nodes.push(systole_hlo::graph::Node { op, operands, ..n.clone() });
            map.push(NodeId(c.nodes.len() as u32 - 1));
        }
        c.params.iter_mut().for_each(|p| *p = map[p.index()]);
        c.root = map[c.root.index()];
        let new = self.out.module.push(c);
        self.copied.insert(id, new);
        Ok(new)
    }

    /// How inputs are cut and outputs joined.
    fn boundary(&self) -> Boundary {
        let edges = |values: &[ValueId]| -> Vec<Edge> {
            let arrays = values.iter().filter(|v| !matches!(self.program.value(**v).shape, Shape::Token));
            let edge = |v: &ValueId| {
                let value = self.program.value(*v);
                let (sharding, unreduced) = (value.spec.sharding.clone(), value.spec.unreduced);
                Edge { dims: value.dims().to_vec(), sharding, unreduced }
            };
            arrays.map(edge).collect()
        };
        Boundary {
            mesh: self.mesh().clone(),
            params: edges(&self.program.entry.params),
            results: edges(&self.program.entry.results),
        }
    }

    /// The aliases between parameters and results whose parts are still alike, by leaves.
    fn aliases(&self) -> Vec<Alias> {
        let whole = match &self.program.result {
            Some(t) => t.clone(),
            None => return Vec::new(),
        };
        let is_tuple = matches!(whole, Tree::Tuple(_));
        let mut out = Vec::new();
        for a in &self.old.aliases {
            let parameter = self.program.params.get(a.parameter).and_then(|t| leaf(t, &a.parameter_index));
            let (Some((_, p)), Some((r, _))) = (parameter, leaf(&whole, &a.output)) else { continue };
            let Some(number) = self.program.entry.params.iter().position(|v| *v == p) else { continue };
            let same = self.program.entry.results.get(r).is_some_and(|v| self.local(*v) == self.local(p));
            if same {
                let output = if is_tuple { vec![r] } else { Vec::new() };
                out.push(Alias { output, parameter: number, parameter_index: Vec::new() });
            }
        }
        out
    }
}

/// The value at a path, and how many leaves come before it.
fn leaf(tree: &Tree, path: &[usize]) -> Option<(usize, ValueId)> {
    let (mut at, mut before) = (tree, 0);
    for &i in path {
        let Tree::Tuple(parts) = at else { return None };
        before += parts.iter().take(i).map(|t| t.leaves().len()).sum::<usize>();
        at = parts.get(i)?;
    }
    match at {
        Tree::Leaf(value) => Some((before, *value)),
        Tree::Tuple(_) => None,
    }
}

/// The shape of a part.
fn part(shape: &Shape, sharding: &Sharding, mesh: &Mesh) -> Shape {
    match shape {
        Shape::Array(a) => Shape::Array(ArrayShape { dims: sharding.local(&a.dims, mesh), ..a.clone() }),
        Shape::Tuple(_) | Shape::Token => shape.clone(),
    }
}
