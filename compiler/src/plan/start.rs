//! Ends of loops that are done on an array's way into the matrix units: what a loop computes last of every element, such as the
//! division of a softmax, its only reader does to the rows that it pushes, beside which the vector unit has little to do.
//!
//! As ends of products are ([`super::finish`]), this is a matter of steps: of a loop with reductions along lanes, whose only result is
//! the left operand of a product and nothing else. Its result is then what the last operations begin with, and for each row the values
//! that they need besides.

use super::finish::{drop_unused, mentions};
use super::guide::Guide;
use super::lower::memo::Memo;
use super::lower::product_entry;
use super::spec::{KernelKey, KernelSpec};
use super::step::{Arg, BufferKind, Draft, Step, Unit, Use};
use super::view::{BufId, Form, layout_of};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::{Access, ExprId, ExprNode, ExprOp, LaneMap, LoopSpec, Output};
use systole_codegen::emit::loops::{column_free, group, register};
use systole_codegen::emit::mxu::{Array, Contraction, Place, Start, StartInput};
use systole_isa::{ChipConfig, Class, DType, Layout};

/// Share of the two kernels' cycles below which the others are taken.
const WORTH: f64 = 0.95;
/// Values of a row at most: each is loaded for every register of its rows.
const MOST_ROWS: usize = 2;
/// Share of vector memory, in eighths, that all arrays of the two kernels may take.
const ROOM: u64 = 6;

/// Moves ends of loops into the products that read them, in all steps of a draft.
pub fn products(draft: &mut Draft, chip: &ChipConfig, guide: &Guide, memo: &Memo) {
    // Cores that share a product bring what it reads from HBM.
    if draft.cores > 1 {
        return;
    }
    let mentions = mentions(draft);
    let steps = std::mem::take(&mut draft.steps);
    let mut s = Starter { draft, chip, guide, memo, mentions, made: 0 };
    let steps = s.region(steps);
    let made = s.made;
    draft.steps = steps;
    draft.begun = made > 0;
    if draft.begun {
        drop_unused(draft);
    }
}

struct Starter<'a> {
    draft: &'a mut Draft,
    chip: &'a ChipConfig,
    guide: &'a Guide,
    memo: &'a Memo,
    mentions: Vec<u32>,
    made: u32,
}

/// Where a loop's expression is cut: the node that is stored, and what is computed of it.
struct Cut {
    element: ExprId,
    start: Start,
    /// The nodes of [`StartInput::Row`], in order.
    rows: Vec<ExprId>,
}

/// A loop's call.
struct LoopCall {
    spec: LoopSpec,
    args: Vec<Arg>,
    name: String,
    op: u32,
}

impl Starter<'_> {
    fn region(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let mut out: Vec<Step> = Vec::with_capacity(steps.len());
        // The loop that makes a buffer, in `out`.
        let mut loops: BTreeMap<BufId, usize> = BTreeMap::new();
        for step in steps {
            let step = step.map_regions(|r| self.region(r));
            if let Some(buf) = self.made_by_loop(&step) {
                loops.insert(buf, out.len());
            }
            match self.join(&out, &loops, &step) {
                Some((at, made, product)) => {
                    out[at] = made;
                    out.push(product);
                    self.made += 1;
                }
                None => out.push(step),
            }
        }
        out
    }

    fn loop_of(&self, step: &Step) -> Option<LoopCall> {
        let Step::Call { kernel, args, op } = step else { return None };
        let k = &self.draft.kernels[*kernel];
        let KernelSpec::Body(Body::Loop(spec)) = &k.spec else { return None };
        Some(LoopCall { spec: spec.clone(), args: args.clone(), name: k.name.clone(), op: *op })
    }

    /// The only result of a loop whose rows are reduced, if the array is whole and nobody has said anything about it.
    fn made_by_loop(&self, step: &Step) -> Option<BufId> {
        let call = self.loop_of(step)?;
        if call.spec.outputs.len() != 1 || call.spec.expr.reductions.is_empty() {
            return None;
        }
        let Arg::Array { buf, usage: Use::Write, unit: Unit::ElementRows, offset: 0, dynamic } =
            call.args.get(call.spec.inputs.len())?
        else {
            return None;
        };
        let b = &self.draft.buffers[buf.index()];
        let schedule = &self.guide.schedule;
        let free = schedule.streams(&b.name).is_none()
            && schedule.alone(&self.draft.ops[call.op as usize].name).is_none()
            && !self.draft.residency.streamed.contains(&b.name);
        let own = b.kind == BufferKind::Temp && dynamic.is_empty() && self.mentions[buf.index()] == 2;
        (free && own).then_some(*buf)
    }

    /// The loop among the steps so far whose end the product that a step is does on the way, and both as they are then.
    fn join(&mut self, out: &[Step], loops: &BTreeMap<BufId, usize>, step: &Step) -> Option<(usize, Step, Step)> {
        let Step::Call { kernel, args, op } = step else { return None };
        let entry = &self.draft.kernels[*kernel];
        let KernelSpec::Product { contraction, looks: None, .. } = &entry.spec else { return None };
        let Arg::Array { buf, usage: Use::Read, unit: Unit::WordRows, offset: 0, dynamic } = args.first()? else {
            return None;
        };
        let alone = contraction.start.is_none() && dynamic.is_empty() && !self.draft.splits.contains_key(kernel);
        if !alone || contraction.lhs.place != Place::Vmem {
            return None;
        }
        let at = *loops.get(buf)?;
        let call = self.loop_of(&out[at])?;
        let cut = cut(&call.spec)?;
        let (old, before, name) = (contraction.clone(), entry.cycles?, entry.name.clone());
        let layout = &self.draft.buffers[buf.index()].layout;
        let stored = Layout { dtype: DType::F32, ..layout.clone() };
        let places = |l: &Layout| (l.plane_rows(), l.total_rows(), l.columns());
        if places(layout) != places(&stored) || !self.fits(&stored, *buf, (&call, args)) {
            return None;
        }
        let rows = layout_of(DType::F32, &[stored.plane_rows()], Form::Rows, self.chip);
        let new = Contraction { lhs: Array { dtype: DType::F32, ..old.lhs }, start: Some(cut.start.clone()), ..old };
        let spec = shortened(&call.spec, &cut, (&stored, &rows))?;
        let key = KernelKey::Product(new.clone(), None, self.guide.schedule.tile(&name).map(|t| t.1));
        let made = product_entry(&new, self.chip, (&name, self.guide), self.memo).ok()?;
        let now = made.cycles? + self.work(&spec);
        if now > WORTH * (before + self.work(&call.spec)) {
            return None;
        }
        let Ok(kernel) = self.draft.kernel(key, |_| Ok::<_, std::convert::Infallible>(made));
        let array = self.draft.buffers[buf.index()].name.clone();
        let mut buffer = |layout: &Layout| {
            self.mentions.push(2);
            self.draft.buffer(array.clone(), layout.clone(), BufferKind::Temp)
        };
        let element = buffer(&stored);
        let values: Vec<BufId> = cut.rows.iter().map(|_| buffer(&rows)).collect();
        let first = self.looped(&call, spec, element, &values);
        let word =
            |buf: BufId| Arg::Array { buf, usage: Use::Read, unit: Unit::WordRows, offset: 0, dynamic: Vec::new() };
        let mut all = vec![word(element)];
        all.extend(args[1..args.len() - 1].iter().cloned());
        all.extend(values.into_iter().map(word));
        all.push(Arg::Scratch);
        Some((at, first, Step::Call { kernel, args: all, op: *op }))
    }

    /// The call of a loop that leaves its end to a product.
    fn looped(&mut self, call: &LoopCall, spec: LoopSpec, element: BufId, values: &[BufId]) -> Step {
        let mut args = call.args[..spec.inputs.len()].to_vec();
        args.extend([element].iter().chain(values).map(|&buf| Arg::rows(buf, Use::Write)));
        let spec = KernelSpec::Body(Body::Loop(spec));
        let needs = spec.needs(self.chip).unwrap_or_default();
        if needs.scratch_rows > 0 {
            args.push(Arg::Scratch);
        }
        let kernel = self.draft.simple_kernel(spec, &call.name, needs);
        Step::Call { kernel, args, op: call.op }
    }

    /// Whether the array that is stored instead of another stays in vector memory, beside all others that the two kernels reach.
    fn fits(&self, stored: &Layout, instead: BufId, (call, args): (&LoopCall, &[Arg])) -> bool {
        let arrays = call.args.iter().chain(&args[1..]).filter_map(Arg::array).map(|a| a.0);
        let mut all: Vec<BufId> = arrays.filter(|&b| b != instead).collect();
        all.sort_unstable();
        all.dedup();
        let others: u64 = all.iter().map(|b| self.draft.buffers[b.index()].layout.bytes()).sum();
        stored.bytes() <= self.draft.residency.largest && others + stored.bytes() <= self.chip.vmem.bytes / 8 * ROOM
    }

    /// Cycles of a loop over arrays in vector memory, as the units take what it computes of every element.
    fn work(&self, spec: &LoopSpec) -> f64 {
        let c = &self.chip.core;
        let reduced: usize = spec.expr.reductions.iter().map(|r| r.body.roots.len()).sum();
        let register = register(spec).cycles(self.chip);
        let (outer, tiles) =
            (spec.outer.iter().map(|&n| f64::from(n)).product::<f64>(), spec.columns.div_ceil(c.lanes));
        let blocks = outer * f64::from(spec.rows.div_ceil(c.sublanes));
        // What is computed of a reduction waits for its last register.
        let latency = |class: Class| self.chip.timing.get(class).latency;
        let waited = reduced as u32 * (latency(Class::Vload) + latency(Class::XluReduce));
        blocks * (f64::from(tiles) * register + f64::from(waited) / f64::from(group(&spec.expr, tiles)))
    }
}

/// The cut of a loop's expression: from its result down, as long as an operation has one operand that varies along the row and is the
/// only one to read that.
fn cut(spec: &LoopSpec) -> Option<Cut> {
    let (nodes, free) = (&spec.expr.nodes, column_free(spec));
    let out = &spec.outputs[0];
    let dtype = out.access.dtype;
    if !matches!(out.access.lane, LaneMap::Tile { .. }) || out.access.offset != 0 || dtype != DType::BF16 {
        return None;
    }
    let mut uses = vec![0u32; nodes.len()];
    let reduced = spec.expr.reductions.iter().flat_map(|r| r.args.iter().chain(&r.inits));
    nodes.iter().flat_map(|n| &n.args).chain(reduced).for_each(|&a| uses[a as usize] += 1);
    // The units round by themselves.
    let rounds = |n: &ExprNode| n.op == ExprOp::Convert && nodes[n.args[0] as usize].dtype == DType::F32;
    let last = &nodes[out.node as usize];
    let root = if uses[out.node as usize] == 0 && rounds(last) { last.args[0] } else { out.node };
    let mut at = root;
    let mut chain: Vec<ExprId> = Vec::new();
    loop {
        let node = &nodes[at as usize];
        let mut varying = node.args.iter().copied().filter(|&a| !free[a as usize]).collect::<SmallVec<[ExprId; 3]>>();
        varying.dedup();
        let whole = matches!(node.op, ExprOp::Input(_) | ExprOp::Index(_) | ExprOp::Param(_) | ExprOp::LaneReduce(..));
        let shared = uses[at as usize] > u32::from(at != out.node);
        if whole || shared || varying.len() != 1 {
            break;
        }
        chain.push(at);
        at = varying[0];
    }
    // What an array already holds needs no copy.
    let made = !matches!(nodes[at as usize].op, ExprOp::Input(_)) && nodes[at as usize].dtype == DType::F32;
    if !made || chain.is_empty() || free[at as usize] {
        return None;
    }
    started(nodes, &free, at, &chain, dtype)
}

/// What is computed of the element `at` by the nodes of a chain, the last one first.
fn started(nodes: &[ExprNode], free: &[bool], at: ExprId, chain: &[ExprId], dtype: DType) -> Option<Cut> {
    let mut cut =
        Cut { element: at, start: Start { nodes: Vec::new(), inputs: Vec::new(), root: 0, dtype }, rows: Vec::new() };
    let mut to: BTreeMap<ExprId, ExprId> = BTreeMap::new();
    let add = |s: &mut Start, node: ExprNode| {
        s.nodes.push(node);
        s.nodes.len() as ExprId - 1
    };
    let input = |s: &mut Start, input: StartInput, dtype: DType| {
        s.inputs.push(input);
        let op = ExprOp::Input(s.inputs.len() as u32 - 1);
        add(s, ExprNode { op, args: SmallVec::new(), dtype })
    };
    to.insert(at, input(&mut cut.start, StartInput::Element, DType::F32));
    for &id in chain.iter().rev() {
        let n = &nodes[id as usize];
        for &a in n.args.iter().filter(|&&a| free[a as usize]) {
            if to.contains_key(&a) {
                continue;
            }
            let given = &nodes[a as usize];
            let new = if matches!(given.op, ExprOp::Const(_)) {
                add(&mut cut.start, given.clone())
            } else {
                cut.rows.push(a);
                input(&mut cut.start, StartInput::Row(given.dtype), given.dtype)
            };
            to.insert(a, new);
        }
        let args = n.args.iter().map(|a| to.get(a).copied()).collect::<Option<_>>()?;
        let new = add(&mut cut.start, ExprNode { op: n.op.clone(), args, dtype: n.dtype });
        to.insert(id, new);
    }
    cut.start.root = cut.start.nodes.len() as ExprId - 1;
    let words = cut.rows.iter().all(|&r| nodes[r as usize].dtype == DType::F32);
    (words && cut.rows.len() <= MOST_ROWS).then_some(cut)
}

/// The loop without its end: it stores the element, and the values of rows.
fn shortened(spec: &LoopSpec, cut: &Cut, (stored, rows): (&Layout, &Layout)) -> Option<LoopSpec> {
    let old = &spec.outputs[0].access;
    let access = |layout: &Layout, lane: LaneMap| Access {
        dtype: DType::F32,
        component_rows: layout.total_rows() as i64,
        lane,
        ..old.clone()
    };
    let mut outputs = vec![Output { node: cut.element, access: access(stored, old.lane.clone()) }];
    outputs.extend(cut.rows.iter().map(|&node| Output { node, access: access(rows, LaneMap::Replicated) }));
    let mut expr = spec.expr.clone();
    let end = outputs.iter().map(|o| o.node).max().map_or(0, |n| n as usize + 1);
    expr.nodes.truncate(end);
    let inside = expr.reductions.iter().all(|r| r.args.iter().chain(&r.inits).all(|&a| (a as usize) < end));
    inside.then(|| LoopSpec { expr, outputs, ..spec.clone() })
}
