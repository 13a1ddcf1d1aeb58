//! Functions, regions and values: the frame of turning text into a graph.

use super::ast::{Attr, Function, ModuleText, Operation, Region, Use};
use super::attr::integers;
use super::parse::function_error;
use super::quant::Quant;
use super::types::{fits, is_known, spell};
use super::{chlo, collective, contraction, control, data, location, parallel, quant, sharding};
use crate::hlo_text::PResult;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::rc::Rc;
use systole_hlo::diag::{Diagnostic, did_you_mean};
use systole_hlo::graph::build::ComputationBuilder;
use systole_hlo::graph::infer::ShapeError;
use systole_hlo::graph::{ArrayShape, CompId, Module, NodeId, Op, Shape};
use systole_isa::DType;

/// Calls and regions inside one another at most.
const MAX_NESTING: usize = 200;

/// Builds the graphs of a module: one of its function `main`, else one for each of its public functions that can run by
/// itself. Appends what is left out without harm to `notes`.
pub(crate) fn programs(text: &str, raw: &ModuleText<'_>, notes: &mut Vec<Diagnostic>) -> PResult<Vec<Module>> {
    let mut functions = FxHashMap::default();
    for (i, f) in raw.functions.iter().enumerate() {
        if functions.insert(f.name, i).is_some() {
            return Err(function_error(f, format!("function `{}` is defined twice", f.name)));
        }
    }
    let public: Vec<usize> = (0..raw.functions.len()).filter(|i| !raw.functions[*i].is_private).collect();
    let entries = match (functions.get("main"), &public[..]) {
        (Some(main), _) => vec![*main],
        // A module with one public function needs no name for it.
        (None, [one]) => vec![*one],
        (None, many) => many.iter().copied().filter(|i| raw.functions[*i].args.is_empty()).collect(),
    };
    if entries.is_empty() {
        let d = Diagnostic::error(raw.span, "the module has no function `main`");
        return Err(Box::new(d.note("a program's entry is `func.func public @main(..)`")));
    }
    entries.into_iter().map(|entry| program(text, raw, &functions, entry, notes)).collect()
}

/// Builds the graph of one function and what it calls.
fn program<'a>(
    text: &'a str,
    raw: &ModuleText<'a>,
    functions: &FxHashMap<&'a str, usize>,
    entry: usize,
    notes: &mut Vec<Diagnostic>,
) -> PResult<Module> {
    let mut l = Lower {
        text,
        raw,
        functions: functions.clone(),
        module: Module::empty(raw.name),
        done: FxHashMap::default(),
        open: FxHashSet::default(),
        names: FxHashSet::default(),
        nesting: 0,
        notes,
        queue: VecDeque::new(),
        probes: Vec::new(),
        bodies: 0,
        quantized: text.contains("!quant."),
    };
    for (key, value) in &raw.attributes {
        let count = |v: &Attr<'_>| integers(text, v).ok().and_then(|v| u64::try_from(*v.first()?).ok());
        match (*key, count(value)) {
            ("mhlo.num_partitions", Some(n @ 1..=0xf_ffff)) => l.module.partitions = n,
            ("mhlo.num_replicas", Some(n @ 1..=0xf_ffff)) => l.module.replicas = n,
            _ => {}
        }
    }
    if let Some(meshes) = sharding::meshes(raw) {
        l.module.attributes.push(("frontend_attributes".to_string(), meshes));
    }
    l.module.entry = l.function(entry, None)?;
    Ok(l.module)
}

/// The module while it is built.
pub(super) struct Lower<'a, 'r> {
    pub text: &'a str,
    pub raw: &'r ModuleText<'a>,
    functions: FxHashMap<&'a str, usize>,
    pub module: Module,
    /// By function and, where its arguments' types leave sizes open, by the shapes of a call.
    done: FxHashMap<(usize, Vec<Shape>), CompId>,
    open: FxHashSet<usize>,
    names: FxHashSet<String>,
    nesting: usize,
    pub notes: &'r mut Vec<Diagnostic>,
    /// Functions that give what infeeds read, in order.
    pub queue: VecDeque<&'a str>,
    /// Probed values: their name, the body they are in, the value.
    pub probes: Vec<(String, usize, NodeId)>,
    bodies: usize,
    /// Whether the text has quantized types.
    quantized: bool,
}

/// A computation while it is built, with what its values are called.
pub(super) struct Body<'a> {
    pub b: ComputationBuilder,
    values: FxHashMap<&'a str, Vec<NodeId>>,
    /// What the integers of quantized values mean.
    pub quants: FxHashMap<NodeId, Rc<Quant>>,
    /// Its number among all bodies.
    pub id: usize,
}

impl<'a> Body<'a> {
    fn new(name: &str, id: usize) -> Body<'a> {
        Body { b: ComputationBuilder::new(name), values: FxHashMap::default(), quants: FxHashMap::default(), id }
    }

    /// Gives a name to values.
    pub fn define(&mut self, name: &'a str, nodes: Vec<NodeId>) {
        self.values.insert(name, nodes);
    }

    /// Makes a use that is defined stand for another value.
    pub fn rebind(&mut self, u: &Use<'a>, id: NodeId) {
        if let Some(place) = self.values.get_mut(u.name).and_then(|v| v.get_mut(u.index)) {
            *place = id;
        }
    }

    fn find(&self, u: &Use<'a>) -> Option<NodeId> {
        self.values.get(u.name)?.get(u.index).copied()
    }

    /// The value that is used.
    pub fn value(&self, u: &Use<'a>) -> PResult<NodeId> {
        self.find(u).ok_or_else(|| {
            let name = if u.index > 0 { format!("%{}#{}", u.name, u.index) } else { format!("%{}", u.name) };
            let hint = did_you_mean(u.name, self.values.keys().copied());
            Box::new(Diagnostic::error(u.span, format!("`{name}` is not defined here{hint}")))
        })
    }

    /// The operation's operands.
    pub fn operands(&self, o: &Operation<'a>) -> PResult<Vec<NodeId>> {
        o.operands.iter().map(|u| self.value(u)).collect()
    }
}

/// An operation where it is lowered.
pub(super) struct Site<'s, 'a, 'r> {
    pub l: &'s mut Lower<'a, 'r>,
    pub body: &'s mut Body<'a>,
    pub o: &'s Operation<'a>,
}

impl<'a, 'r> Site<'_, 'a, 'r> {
    /// The same place with another operation.
    pub fn of<'t>(&'t mut self, o: &'t Operation<'a>) -> Site<'t, 'a, 'r> {
        Site { l: self.l, body: self.body, o }
    }

    /// The values of the operation on what its operands are in the graph, which have the types that the text gives.
    pub fn plain(&mut self) -> PResult<Vec<NodeId>> {
        self.known()?.ok_or_else(|| {
            let d = self.o.error(format!("operation `{}` is not supported", self.o.name));
            Box::new(d.note("supported are StableHLO, CHLO, func.call, func.return and sdy.manual_computation"))
        })
    }

    /// As [`Site::plain`]; `None` of an operation that there is not.
    pub fn known(&mut self) -> PResult<Option<Vec<NodeId>>> {
        let o = self.o;
        let name = o.name.strip_prefix("mhlo.").or_else(|| o.name.strip_prefix("stablehlo.")).unwrap_or(o.name);
        let mut done = match o.name.strip_prefix("chlo.") {
            Some(name) => chlo::lower(self, name)?,
            None => None,
        };
        for family in [data::lower, contraction::lower, control::lower, collective::lower, parallel::lower] {
            if done.is_none() {
                done = family(self, name)?;
            }
        }
        let Some(values) = done else { return Ok(None) };
        let wanted: usize = o.results.iter().map(|r| r.1).sum();
        if values.len() < wanted || wanted > 0 && values.len() > wanted {
            return Err(o.error(format!("the operation has {} results, not {wanted}", values.len())));
        }
        for (v, t) in values.iter().zip(&o.result_types) {
            let is = self.body.b.shape(*v);
            if !fits(is, t) {
                return Err(o.error(format!("the result is {is}, not {}", spell(t))));
            }
        }
        Ok(Some(values))
    }

    /// Adds an operation with its result's shape.
    pub fn add(&mut self, op: Op, args: &[NodeId], shape: Shape) -> PResult<NodeId> {
        self.body.b.add_shaped(op, args, shape, &self.l.module).map_err(|e| fault(self.o, e))
    }

    /// Adds an operation whose result's shape follows.
    pub fn infer(&mut self, op: Op, args: &[NodeId]) -> PResult<NodeId> {
        self.body.b.add(op, args, &self.l.module).map_err(|e| fault(self.o, e))
    }

    /// Adds an operation of one result, of the type that the text gives.
    pub fn one(&mut self, op: Op, args: &[NodeId]) -> PResult<Option<Vec<NodeId>>> {
        let shape = self.refined(&op, args)?;
        Ok(Some(vec![self.add(op, args, shape)?]))
    }

    /// Adds an operation of several results, which HLO gives as a tuple, or of one.
    pub fn many(&mut self, op: Op, args: &[NodeId]) -> PResult<Option<Vec<NodeId>>> {
        if self.o.result_types.len() == 1 {
            return self.one(op, args);
        }
        let shape = Shape::Tuple(self.o.result_types.clone());
        let tuple = match is_known(&shape) {
            true => self.add(op, args, shape)?,
            false => self.infer(op, args)?,
        };
        Ok(Some(self.parts(tuple)?))
    }

    /// The elements of a tuple.
    pub fn parts(&mut self, tuple: NodeId) -> PResult<Vec<NodeId>> {
        let n = match self.body.b.shape(tuple) {
            Shape::Tuple(t) => t.len(),
            Shape::Array(_) | Shape::Token => return Ok(vec![tuple]),
        };
        (0..n).map(|index| self.infer(Op::GetTupleElement { index }, &[tuple])).collect()
    }

    /// One value as itself, several (or none) as a tuple.
    pub fn one_or_tuple(&mut self, values: &[NodeId]) -> PResult<NodeId> {
        self.l.one_or_tuple(self.body, values)
    }

    pub fn tuple(&mut self, values: &[NodeId]) -> PResult<NodeId> {
        self.l.tuple(self.body, values)
    }

    /// A value that must be an array.
    pub fn array(&self, id: NodeId) -> PResult<ArrayShape> {
        match self.body.b.shape(id) {
            Shape::Array(a) => Ok(a.clone()),
            other @ (Shape::Tuple(_) | Shape::Token) => Err(self.o.error(format!("expected a tensor, not {other}"))),
        }
    }

    /// A value in another element type.
    pub fn cast(&mut self, x: NodeId, dtype: DType) -> PResult<NodeId> {
        let dims = self.array(x)?.dims;
        self.add(Op::Convert, &[x], Shape::array(dtype, &dims))
    }

    /// The region as a computation of its arguments, as reductions and sorts call it.
    pub fn combiner(&mut self, region: usize) -> PResult<CompId> {
        let o = self.o;
        let Some(r) = o.regions.get(region) else { return Err(o.error("the operation lacks a region")) };
        let captures = self.l.captures(self.body, r);
        if let Some((name, ..)) = captures.values.first() {
            return Err(o.error(format!("`%{name}` comes from outside of the region, which may use constants only")));
        }
        self.region(r, &captures, Frame::Plain)
    }

    /// The region as a computation.
    pub fn region(&mut self, region: &Region<'a>, captures: &Captures<'a>, frame: Frame) -> PResult<CompId> {
        self.l.region(self.body, self.o, region, captures, frame)
    }
}

/// Values that a region uses and does not define.
#[derive(Default)]
pub(super) struct Captures<'a> {
    /// Copied into the region: constants and what follows from them alone.
    sunk: Vec<(&'a str, usize, NodeId)>,
    /// To be handed in.
    pub values: Vec<(&'a str, usize, NodeId)>,
}

impl<'a> Captures<'a> {
    /// With what another region captures.
    pub fn merge(&mut self, other: Captures<'a>) {
        for (list, more) in [(&mut self.sunk, other.sunk), (&mut self.values, other.values)] {
            for c in more {
                if !list.contains(&c) {
                    list.push(c);
                }
            }
        }
    }
}

impl<'a> Lower<'a, '_> {
    /// The computation of a function, for arguments of shapes `given` where its types leave sizes open.
    pub fn function(&mut self, i: usize, given: Option<&[Shape]>) -> PResult<CompId> {
        let raw = self.raw;
        let f = &raw.functions[i];
        let shapes = argument_shapes(f, given)?;
        let key = (i, shapes.clone());
        if let Some(&id) = self.done.get(&key) {
            return Ok(id);
        }
        let Some(block) = &f.body else {
            return Err(function_error(f, format!("function `{}` is declared and has no body", f.name)));
        };
        if !self.open.insert(i) {
            return Err(function_error(f, format!("function `{}` calls itself, directly or through others", f.name)));
        }
        self.enter(f.span)?;
        let name = self.name(f.name);
        let mut body = self.body(&name);
        for (a, shape) in f.args.iter().zip(shapes) {
            let id = body.b.parameter(shape);
            body.b.rename(id, a.name);
            if let Some(sharding) = sharding::of(&a.attributes, self.raw, self.text) {
                sharding.attach(&mut body, id);
            }
            body.define(a.name, vec![id]);
            if self.quantized {
                quant::mark_arguments(self, &mut body, &[a.place], &[id])?;
            }
        }
        let mut results = self.ops(&mut body, &block.ops)?;
        self.check_results(f, &body, &results)?;
        for (r, (_, attributes)) in results.iter_mut().zip(&f.results) {
            if let Some(sharding) = sharding::of(attributes, self.raw, self.text) {
                *r = sharding::annotate(self, &mut body, *r, &sharding)?;
            }
        }
        let root = self.one_or_tuple(&mut body, &results)?;
        let id = self.module.push(body.b.finish(root));
        self.nesting -= 1;
        self.open.remove(&i);
        self.done.insert(key, id);
        Ok(id)
    }

    fn body(&mut self, name: &str) -> Body<'a> {
        self.bodies += 1;
        Body::new(name, self.bodies)
    }

    fn check_results(&self, f: &Function<'a>, body: &Body<'a>, results: &[NodeId]) -> PResult<()> {
        let fits = results.len() == f.results.len()
            && results.iter().zip(&f.results).all(|(r, (shape, _))| fits(body.b.shape(*r), shape));
        if fits {
            return Ok(());
        }
        Err(function_error(f, format!("function `{}` does not return what it declares", f.name)))
    }

    /// The function called with arguments of these shapes, if it has any.
    pub fn callee(&mut self, name: &str, o: &Operation<'a>, given: Option<&[Shape]>) -> PResult<CompId> {
        match self.functions.get(name) {
            Some(&i) => self.function(i, given),
            None => {
                let hint = did_you_mean(name, self.functions.keys().copied());
                Err(o.error(format!("function `{name}` does not exist{hint}")))
            }
        }
    }

    fn enter(&mut self, span: systole_hlo::graph::Span) -> PResult<()> {
        self.nesting += 1;
        if self.nesting <= MAX_NESTING {
            return Ok(());
        }
        Err(Box::new(Diagnostic::error(span, format!("calls and regions are nested more than {MAX_NESTING} deep"))))
    }

    /// A name for a computation that no other has.
    fn name(&mut self, stem: &str) -> String {
        let mut name = stem.to_string();
        let mut n = 0;
        while !self.names.insert(name.clone()) {
            n += 1;
            name = format!("{stem}.{n}");
        }
        name
    }

    /// The values that the block ends with.
    pub fn ops(&mut self, body: &mut Body<'a>, ops: &[Operation<'a>]) -> PResult<Vec<NodeId>> {
        for (i, o) in ops.iter().enumerate() {
            if matches!(o.name, "return" | "func.return" | "stablehlo.return" | "sdy.return" | "mhlo.return") {
                if i + 1 < ops.len() {
                    return Err(ops[i + 1].error("this operation comes after the end of its block"));
                }
                return body.operands(o);
            }
            self.op(body, o)?;
        }
        Ok(Vec::new())
    }

    fn op(&mut self, body: &mut Body<'a>, o: &Operation<'a>) -> PResult<()> {
        body.b.span = o.span;
        let first = body.b.len();
        let values = match self.quantized {
            true => quant::lower(&mut Site { l: self, body, o })?,
            false => Site { l: self, body, o }.plain()?,
        };
        if !o.name.ends_with(".custom_call")
            && let Some(sharding) = sharding::of_operation(o, self.raw, self.text)
        {
            let operands = body.operands(o)?;
            let made = values.iter().filter(|v| !operands.contains(v));
            made.for_each(|v| sharding.attach(body, *v));
        }
        if let Some(inside) = o.location
            && let Some(text) = location::metadata(self.text, inside, &self.raw.locations)
        {
            (first..body.b.len()).for_each(|i| body.b.attribute(NodeId(i as u32), "metadata", &text));
        }
        let mut values = values.into_iter();
        for &(name, n) in &o.results {
            let nodes = values.by_ref().take(n).collect();
            body.define(name, nodes);
        }
        Ok(())
    }

    /// One value as itself, several (or none) as a tuple.
    fn one_or_tuple(&mut self, body: &mut Body<'a>, values: &[NodeId]) -> PResult<NodeId> {
        match values {
            [one] => Ok(*one),
            _ => self.tuple(body, values),
        }
    }

    fn tuple(&mut self, body: &mut Body<'a>, values: &[NodeId]) -> PResult<NodeId> {
        let made = body.b.add(Op::Tuple, values, &self.module);
        made.map_err(|e| Box::new(Diagnostic::error(body.b.span, e.message)))
    }

    /// The type of the only result, with all its sizes.
    pub fn result<'o>(&self, o: &'o Operation<'a>) -> PResult<&'o Shape> {
        match self.declared(o)? {
            known if is_known(known) => Ok(known),
            other => Err(self.open(o, other)),
        }
    }

    /// The type of the only result, as the text has it.
    pub fn declared<'o>(&self, o: &'o Operation<'a>) -> PResult<&'o Shape> {
        match &o.result_types[..] {
            [one] => Ok(one),
            other => Err(o.error(format!("the operation has one result, not {}", other.len()))),
        }
    }

    fn region(
        &mut self,
        outer: &Body<'a>,
        o: &Operation<'a>,
        region: &Region<'a>,
        captures: &Captures<'a>,
        frame: Frame,
    ) -> PResult<CompId> {
        self.enter(o.span)?;
        let name = self.name(&format!("{}.region", o.name.rsplit('.').next().unwrap_or("op")));
        let mut body = self.body(&name);
        body.b.span = o.span;
        let handed = match frame {
            Frame::Plain => {
                let mut given = Vec::new();
                for (name, shape) in &region.args {
                    let p = body.b.parameter(shape.clone());
                    body.define(name, vec![p]);
                    given.push(p);
                }
                if self.quantized {
                    quant::mark_arguments(self, &mut body, &region.arg_places, &given)?;
                }
                Vec::new()
            }
            Frame::Tuple { .. } => {
                let mut shapes: Vec<Shape> = region.args.iter().map(|a| a.1.clone()).collect();
                shapes.extend(captures.values.iter().map(|c| outer.b.shape(c.2).clone()));
                let p = body.b.parameter(Shape::Tuple(shapes));
                let parts = Site { l: self, body: &mut body, o }.parts(p)?;
                for ((name, _), part) in region.args.iter().zip(&parts) {
                    body.define(name, vec![*part]);
                }
                if self.quantized {
                    quant::mark_arguments(self, &mut body, &region.arg_places, &parts)?;
                }
                for ((name, index, id), part) in captures.values.iter().zip(&parts[region.args.len()..]) {
                    bind(&mut body, name, *index, *part);
                    body.quants.extend(outer.quants.get(id).map(|q| (*part, q.clone())));
                }
                parts[region.args.len()..].to_vec()
            }
        };
        for &(name, index, id) in &captures.sunk {
            let copy = sink(outer, &mut body, id);
            body.quants.extend(outer.quants.get(&id).map(|q| (copy, q.clone())));
            bind(&mut body, name, index, copy);
        }
        let mut results = self.ops(&mut body, &region.ops)?;
        let root = match frame {
            Frame::Tuple { pass_on: true } => {
                results.extend(handed);
                self.tuple(&mut body, &results)?
            }
            Frame::Tuple { pass_on: false } | Frame::Plain => self.one_or_tuple(&mut body, &results)?,
        };
        self.nesting -= 1;
        Ok(self.module.push(body.b.finish(root)))
    }

    /// What a region uses from outside.
    pub fn captures(&self, outer: &Body<'a>, region: &Region<'a>) -> Captures<'a> {
        let mut out = Captures::default();
        let mut seen = FxHashSet::default();
        let mut known: Vec<&str> = Vec::new();
        free(region, &mut known, &mut |u| {
            let Some(id) = outer.find(u) else { return };
            if seen.insert((u.name, u.index)) {
                let list = if sinkable(outer, id, 4) { &mut out.sunk } else { &mut out.values };
                list.push((u.name, u.index, id));
            }
        });
        out
    }
}

/// How a region's computation takes its arguments.
#[derive(Clone, Copy)]
pub(super) enum Frame {
    /// One parameter for each argument.
    Plain,
    /// One tuple of arguments and captured values; `pass_on`: the captured values are also returned.
    Tuple { pass_on: bool },
}

/// The shapes of a function's arguments: as declared, or as a call gives them.
fn argument_shapes(f: &Function<'_>, given: Option<&[Shape]>) -> PResult<Vec<Shape>> {
    let declared = || f.args.iter().map(|a| &a.shape);
    if declared().all(is_known) {
        return Ok(declared().cloned().collect());
    }
    match given {
        Some(g) if g.len() == f.args.len() && g.iter().zip(declared()).all(|(g, d)| fits(g, d)) => Ok(g.to_vec()),
        _ => {
            let d = Diagnostic::error(f.span, format!("an argument of `{}` has a dimension without any bound", f.name));
            Err(Box::new(d.note("give sizes or bounds: tensor<?xf32, #stablehlo.bounds<8>>")))
        }
    }
}

fn fault(o: &Operation<'_>, e: ShapeError) -> Box<Diagnostic> {
    Box::new(o.error(e.message).label(e.label.replace('_', " ")))
}

/// Makes `%name#index` a value, leaving other results of the name alone.
fn bind<'a>(body: &mut Body<'a>, name: &'a str, index: usize, id: NodeId) {
    let list = body.values.entry(name).or_default();
    if list.len() <= index {
        list.resize(index + 1, id);
    }
    list[index] = id;
}

/// Gives every use of a value that the region does not define to `f`.
fn free<'a>(region: &Region<'a>, known: &mut Vec<&'a str>, f: &mut impl FnMut(&Use<'a>)) {
    let before = known.len();
    known.extend(region.args.iter().map(|a| a.0));
    for o in &region.ops {
        o.operands.iter().filter(|u| !known.contains(&u.name)).for_each(&mut *f);
        o.regions.iter().for_each(|r| free(r, known, f));
        known.extend(o.results.iter().map(|r| r.0));
    }
    known.truncate(before);
}

/// Whether a value follows from constants alone, cheaply.
#[allow(clippy::wildcard_enum_match_arm, reason = "anything else would be computed twice")]
fn sinkable(body: &Body<'_>, id: NodeId, depth: usize) -> bool {
    let n = body.b.node(id);
    match n.op {
        Op::Constant(_) | Op::Iota { .. } => true,
        Op::Broadcast { .. } | Op::Convert | Op::Reshape => depth > 0 && sinkable(body, n.operands[0], depth - 1),
        _ => false,
    }
}

/// Copies a sinkable value.
fn sink(outer: &Body<'_>, body: &mut Body<'_>, id: NodeId) -> NodeId {
    let n = outer.b.node(id);
    let operands: Vec<NodeId> = n.operands.iter().map(|o| sink(outer, body, *o)).collect();
    body.b.copy(n, &operands)
}
