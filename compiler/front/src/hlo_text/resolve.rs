//! Raw computations to a module: names to ids, callees before callers, operands before users.

use super::attrs::Site;
use super::instruction::{RawInstruction, RawOperand};
use super::lex::Cursor;
use super::literal::LiteralTree;
use super::module::{Frames, RawComputation, RawModule};
use super::{PResult, ops};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_hlo::diag::{Diagnostic, Warning, did_you_mean};
use systole_hlo::graph::infer::infer_shape;
use systole_hlo::graph::{CompId, Computation, Module, Node, NodeId, Op, Shape, Span};
use systole_isa::DType;

/// Attributes whose values name computations.
const CALLS: [&str; 10] = [
    "to_apply",
    "calls",
    "body",
    "condition",
    "select",
    "scatter",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
];

/// Builds the module.
pub(crate) fn resolve<'a>(text: &'a str, raw: RawModule<'a>) -> Result<(Module, Vec<Warning>), Vec<Diagnostic>> {
    build(text, raw).map_err(|d| vec![*d])
}

fn build<'a>(text: &'a str, raw: RawModule<'a>) -> PResult<(Module, Vec<Warning>)> {
    let RawModule { module, computations, warnings, frames } = raw;
    let mut by_name: FxHashMap<&str, usize> = FxHashMap::default();
    for (i, c) in computations.iter().enumerate() {
        if let Some(first) = by_name.insert(c.name, i) {
            let d = Diagnostic::error(c.name_span, format!("computation `{}` is defined twice", c.name));
            return Err(Box::new(d.also(computations[first].name_span, "first defined here")));
        }
    }
    let entry = entry(&computations)?;
    let order = callees_first(text, &computations, &by_name)?;
    let names = computations.iter().map(|c| c.name.to_string()).collect();
    let mut b = Builder { text, frames: &frames, module, ids: FxHashMap::default(), names, warnings };
    for i in order {
        let computation = b.computation(&computations[i])?;
        let id = b.module.push(computation);
        b.ids.insert(computations[i].name, id);
        if i == entry {
            b.module.entry = id;
        }
    }
    Ok((b.module, b.warnings))
}

/// The computation marked ENTRY, or the last.
fn entry(computations: &[RawComputation<'_>]) -> PResult<usize> {
    let mut marked = computations.iter().enumerate().filter(|(_, c)| c.entry);
    let first = marked.next();
    if let (Some((_, a)), Some((_, b))) = (first, marked.next()) {
        let d = Diagnostic::error(b.name_span, "a module has one ENTRY computation");
        return Err(Box::new(d.also(a.name_span, "the first one")));
    }
    Ok(first.map_or(computations.len() - 1, |(i, _)| i))
}

/// Every computation after those it calls, else in the order written.
fn callees_first<'a>(
    text: &'a str,
    computations: &[RawComputation<'a>],
    by_name: &FxHashMap<&'a str, usize>,
) -> PResult<Vec<usize>> {
    let mut calls: Vec<Vec<(usize, Span)>> = Vec::with_capacity(computations.len());
    for c in computations {
        let mut list = Vec::new();
        for i in &c.instructions {
            for a in i.attributes.iter().filter(|a| CALLS.contains(&a.key)) {
                called(text, a.value, by_name, &mut list);
            }
        }
        calls.push(list);
    }
    topological(computations.len(), |i| &calls[i]).map_err(|(i, span)| {
        let name = computations[i].name;
        let d = Diagnostic::error(span, format!("computation `{name}` calls itself, directly or through others"));
        Box::new(d.note("XLA programs have no recursion; use `while`").also(computations[i].name_span, "defined here"))
    })
}

/// The known computations that an attribute's value names.
fn called<'a>(text: &'a str, value: Span, by_name: &FxHashMap<&'a str, usize>, out: &mut Vec<(usize, Span)>) {
    let mut c = Cursor::over(text, value);
    while let Some(b) = c.peek() {
        if matches!(b, b'{' | b'}' | b',') {
            c.advance(1);
            continue;
        }
        let start = c.pos();
        let Ok(name) = c.name("a computation") else { return };
        if let Some(&i) = by_name.get(name) {
            out.push((i, c.span_from(start)));
        }
    }
}

/// Depth-first order of a graph given by each item's predecessors; an item on a cycle, with the edge's place, if there
/// is one.
fn topological<'g>(n: usize, edges: impl Fn(usize) -> &'g [(usize, Span)]) -> Result<Vec<usize>, (usize, Span)> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut state = vec![State::New; n];
    let mut order = Vec::with_capacity(n);
    let mut stack: Vec<(usize, usize)> = Vec::new();
    for start in 0..n {
        if state[start] != State::New {
            continue;
        }
        state[start] = State::Open;
        stack.push((start, 0));
        while let Some((i, k)) = stack.pop() {
            let Some(&(next, span)) = edges(i).get(k) else {
                state[i] = State::Done;
                order.push(i);
                continue;
            };
            stack.push((i, k + 1));
            match state[next] {
                State::Open => return Err((next, span)),
                State::Done => {}
                State::New => {
                    state[next] = State::Open;
                    stack.push((next, 0));
                }
            }
        }
    }
    Ok(order)
}

struct Builder<'a, 'r> {
    text: &'a str,
    frames: &'r Frames<'a>,
    module: Module,
    ids: FxHashMap<&'a str, CompId>,
    /// Names of computations in use.
    names: FxHashSet<String>,
    warnings: Vec<Warning>,
}

/// A computation being built.
#[derive(Default)]
struct Draft {
    nodes: Vec<Node>,
    names: FxHashSet<String>,
    /// Next suffix of made-up names.
    fresh: usize,
}

impl Draft {
    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// A name that no other node of the computation has.
    fn name(&mut self, stem: &str) -> String {
        loop {
            let name = format!("{stem}.{}", self.fresh);
            self.fresh += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
}

impl<'a> Builder<'a, '_> {
    fn computation(&mut self, raw: &RawComputation<'a>) -> PResult<Computation> {
        let list = &raw.instructions;
        let mut draft = Draft::default();
        let mut by_name: FxHashMap<&str, usize> = FxHashMap::default();
        for (i, inst) in list.iter().enumerate().filter(|(_, i)| !i.name.is_empty()) {
            if let Some(first) = by_name.insert(inst.name, i) {
                let d = Diagnostic::error(inst.span, format!("`{}` is defined twice", inst.name));
                return Err(Box::new(d.also(list[first].span, "first defined here")));
            }
            draft.names.insert(inst.name.to_string());
        }
        let operands = list.iter().map(|i| operands(i, &by_name, raw)).collect::<PResult<Vec<_>>>()?;
        let order = if operands.iter().enumerate().all(|(i, o)| o.iter().all(|(p, _)| *p < i)) {
            (0..list.len()).collect()
        } else {
            topological(list.len(), |i| &operands[i]).map_err(|(i, span)| {
                Box::new(Diagnostic::error(span, format!("`{}` depends on itself", list[i].name)))
            })?
        };
        let mut ids = vec![NodeId(u32::MAX); list.len()];
        for i in order {
            let args: Vec<NodeId> = operands[i].iter().map(|(p, _)| ids[*p]).collect();
            ids[i] = self.instruction(&list[i], args, &mut draft)?;
        }
        let mut roots = list.iter().enumerate().filter(|(_, i)| i.root);
        let root = roots.next();
        if let (Some((_, a)), Some((_, b))) = (root, roots.next()) {
            let d = Diagnostic::error(b.span, format!("computation `{}` has two roots", raw.name));
            return Err(Box::new(d.also(a.span, "the first one")));
        }
        let root = ids[root.map_or(list.len() - 1, |(i, _)| i)];
        if let Some((shape, span)) = raw.result.as_ref().filter(|(s, _)| !s.same(&draft.nodes[root.index()].shape)) {
            let is = &draft.nodes[root.index()];
            let message =
                format!("computation `{}` is declared to return {shape} but its root is {}", raw.name, is.shape);
            return Err(Box::new(Diagnostic::error(*span, message).also(is.span, "the root")));
        }
        let params = parameters(&draft.nodes, raw)?;
        Ok(Computation { name: raw.name.to_string(), nodes: draft.nodes, params, root })
    }

    fn instruction(&mut self, raw: &RawInstruction<'a>, operands: Vec<NodeId>, draft: &mut Draft) -> PResult<NodeId> {
        for (o, id) in raw.operands.iter().zip(&operands) {
            let is = &draft.nodes[id.index()].shape;
            if let RawOperand::Name(name, Some(shape), span) = o
                && !shape.same(is)
            {
                return Err(Box::new(Diagnostic::error(*span, format!("`{name}` is {is}, not {shape}"))));
            }
        }
        if let Some(leaves) = raw.literal.as_ref().and_then(ops::tuple_leaves) {
            return Ok(tuple_constant(raw, leaves, draft));
        }
        let (opcode, sugar) = unsugar(raw.opcode);
        let shapes: Vec<&Shape> = operands.iter().map(|o| &draft.nodes[o.index()].shape).collect();
        let mut site = Site::new(self.text, raw, shapes, &self.ids);
        let op = match sugar {
            Sugar::Update | Sugar::Done => {
                site.take("calls"); // older texts repeat it
                if matches!(sugar, Sugar::Done) { Op::AsyncDone } else { Op::AsyncUpdate }
            }
            Sugar::None | Sugar::Start => ops::op(opcode, &mut site)?,
        };
        let attributes = site.leftover(&mut self.warnings).into_iter().map(|a| self.attribute(a)).collect();
        let shapes: Vec<&Shape> = operands.iter().map(|o| &draft.nodes[o.index()].shape).collect();
        let name = if raw.name.is_empty() { None } else { Some(raw.name.to_string()) };
        let (op, shape) = match sugar {
            Sugar::Start => {
                let (body, shape) = self.async_start(raw, op, &shapes)?;
                (Op::AsyncStart { body }, shape)
            }
            Sugar::None | Sugar::Update | Sugar::Done => {
                if !matches!(sugar, Sugar::None) {
                    self.check_pair(raw, opcode, &operands, draft)?;
                }
                let shape = match &raw.shape {
                    Some(s) => s.clone(),
                    None => self.infer(raw, &op, &shapes)?,
                };
                (op, shape)
            }
        };
        let name = name.unwrap_or_else(|| draft.name(raw.opcode));
        Ok(draft.push(Node { name, op, operands, shape, span: raw.span, attributes }))
    }

    /// `X-update` and `X-done` end what `X-start` began.
    fn check_pair(&self, raw: &RawInstruction<'a>, opcode: &str, operands: &[NodeId], draft: &Draft) -> PResult<()> {
        let mut at = operands.first().map(|o| &draft.nodes[o.index()]);
        while let Some(n) = at.filter(|n| n.op == Op::AsyncUpdate) {
            at = n.operands.first().map(|o| &draft.nodes[o.index()]);
        }
        let Some((start, Op::AsyncStart { body })) = at.map(|n| (n, &n.op)) else { return Ok(()) };
        let body = self.module.computation(*body);
        let began = body.node(body.root).op.name();
        if began == opcode {
            return Ok(());
        }
        let message = format!("{} ends a {opcode}, but `{}` began a {began}", raw.opcode, start.name);
        Err(Box::new(Diagnostic::error(raw.span, message)))
    }

    fn infer(&self, raw: &RawInstruction<'a>, op: &Op, operands: &[&Shape]) -> PResult<Shape> {
        infer_shape(op, operands, &self.module).map_err(|e| {
            let d = Diagnostic::error(raw.span, e.message);
            Box::new(d.note(format!("the result's shape is not written and follows from the rule of {}", op.name())))
        })
    }

    /// Wraps the operation of `X-start` into a computation, the form of `async-start`.
    fn async_start(&mut self, raw: &RawInstruction<'a>, op: Op, operands: &[&Shape]) -> PResult<(CompId, Shape)> {
        let inputs = Shape::Tuple(operands.iter().map(|s| (*s).clone()).collect());
        let generic = |t: &[Shape]| t.len() >= 2 && t[0].same(&inputs);
        let result = match &raw.shape {
            Some(Shape::Tuple(t)) if generic(t) => t[1].clone(),
            Some(Shape::Tuple(t)) if t.len() >= 2 && raw.opcode != "all-reduce-start" => t[1].clone(),
            Some(s) => s.clone(),
            None => self.infer(raw, &op, operands)?,
        };
        let shape = match &raw.shape {
            Some(s @ Shape::Tuple(t)) if generic(t) => s.clone(),
            _ => Shape::Tuple(vec![inputs, result.clone(), Shape::array(DType::U32, &[])]),
        };
        let mut inner = Draft::default();
        let params: Vec<NodeId> = (operands.iter().enumerate())
            .map(|(index, s)| {
                inner.push(plain_node(format!("p{index}"), Op::Parameter { index }, vec![], (*s).clone()))
            })
            .collect();
        let root = inner.push(plain_node("result".to_string(), op, params.clone(), result));
        let stem = format!("{}.wrapped", if raw.name.is_empty() { raw.opcode } else { raw.name });
        let name = (0..).map(|i| if i == 0 { stem.clone() } else { format!("{stem}.{i}") });
        let name = name.into_iter().find(|n| !self.names.contains(n)).unwrap_or(stem);
        self.names.insert(name.clone());
        let id = CompId(self.module.computations.len() as u32);
        self.module.computations.push(Computation { name, nodes: inner.nodes, params, root });
        Ok((id, shape))
    }

    /// Metadata that refers to a stack frame gets the frame's file and line instead.
    fn attribute(&self, (key, value): (String, String)) -> (String, String) {
        if key != "metadata" {
            return (key, value);
        }
        let Some(at) = value.find("stack_frame_id=") else { return (key, value) };
        let digits = at + "stack_frame_id=".len();
        let end = value[digits..].find(|c: char| !c.is_ascii_digit()).map_or(value.len(), |i| digits + i);
        let source = value[digits..end].parse().ok().and_then(|id| self.frames.source(id));
        match source {
            Some((file, line)) => {
                let new = format!("{}source_file=\"{file}\" source_line={line}{}", &value[..at], &value[end..]);
                (key, new)
            }
            None => (key, value),
        }
    }
}

fn plain_node(name: String, op: Op, operands: Vec<NodeId>, shape: Shape) -> Node {
    Node { name, op, operands, shape, span: Span::default(), attributes: Vec::new() }
}

/// Which part of an asynchronous pair a sugared opcode is.
enum Sugar {
    None,
    Start,
    Update,
    Done,
}

/// The opcode inside `X-start`, `X-update` and `X-done`, for operations without opcodes of their own for these.
fn unsugar(opcode: &str) -> (&str, Sugar) {
    let of = |suffix: &str| {
        let base = opcode.strip_suffix(suffix)?;
        (ops::is_opcode(base) && !ops::is_opcode(opcode)).then_some(base)
    };
    match (of("-start"), of("-update"), of("-done")) {
        (Some(base), _, _) => (base, Sugar::Start),
        (_, Some(base), _) => (base, Sugar::Update),
        (_, _, Some(base)) => (base, Sugar::Done),
        _ => (opcode, Sugar::None),
    }
}

/// Operands as instructions of the computation, with the places of their names.
fn operands<'a>(
    inst: &RawInstruction<'a>,
    by_name: &FxHashMap<&'a str, usize>,
    raw: &RawComputation<'a>,
) -> PResult<Vec<(usize, Span)>> {
    let mut out = Vec::with_capacity(inst.operands.len());
    for o in &inst.operands {
        match o {
            RawOperand::Nested(i) => out.push((*i, inst.span)),
            RawOperand::Name(name, _, span) => match by_name.get(name) {
                Some(&i) => out.push((i, *span)),
                None => {
                    let hint = did_you_mean(name, by_name.keys().copied());
                    let message = format!("`{name}` is not defined in computation `{}`{hint}", raw.name);
                    return Err(Box::new(Diagnostic::error(*span, message)));
                }
            },
        }
    }
    Ok(out)
}

/// Parameter nodes by number: each number once, none left out.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for parameters alone")]
fn parameters(nodes: &[Node], raw: &RawComputation<'_>) -> PResult<Vec<NodeId>> {
    let all: Vec<(usize, NodeId)> = (nodes.iter().zip(0..))
        .filter_map(|(n, id)| match n.op {
            Op::Parameter { index } => Some((index, NodeId(id))),
            _ => None,
        })
        .collect();
    let mut params = vec![None; all.len()];
    for &(index, id) in &all {
        let node = &nodes[id.index()];
        let Some(slot) = params.get_mut(index) else {
            let message = format!("parameter {index} where computation `{}` has {} parameters", raw.name, all.len());
            return Err(Box::new(
                Diagnostic::error(node.span, message).note("parameters are numbered 0, 1, .. without gaps"),
            ));
        };
        if let Some(NodeId(first)) = *slot {
            let d = Diagnostic::error(node.span, format!("parameter {index} is defined twice"));
            return Err(Box::new(d.also(nodes[first as usize].span, "first defined here")));
        }
        *slot = Some(id);
    }
    Ok(params.into_iter().flatten().collect())
}

/// A constant of a tuple: constants and tuples.
fn tuple_constant(raw: &RawInstruction<'_>, leaves: &[LiteralTree], draft: &mut Draft) -> NodeId {
    let mut operands = Vec::new();
    for leaf in leaves {
        let id = match leaf {
            LiteralTree::Array(l) => {
                let name = draft.name("constant");
                draft.push(plain_node(name, Op::Constant(l.clone()), Vec::new(), ops::literal_shape(l)))
            }
            LiteralTree::Tuple(t) => {
                let nested = RawInstruction { name: "", opcode: "tuple", ..inner(raw) };
                tuple_constant(&nested, t, draft)
            }
        };
        operands.push(id);
    }
    let shape = Shape::Tuple(operands.iter().map(|o| draft.nodes[o.index()].shape.clone()).collect());
    let name = if raw.name.is_empty() { draft.name("tuple") } else { raw.name.to_string() };
    let mut node = plain_node(name, Op::Tuple, operands, shape);
    node.span = raw.span;
    draft.push(node)
}

/// An instruction with the place of another and nothing else.
fn inner<'a>(raw: &RawInstruction<'a>) -> RawInstruction<'a> {
    RawInstruction {
        name: raw.name,
        root: false,
        shape: None,
        opcode: raw.opcode,
        opcode_span: raw.opcode_span,
        operands: Vec::new(),
        literal: None,
        number: None,
        attributes: Vec::new(),
        span: raw.span,
    }
}
