//! Loops over a product's results that become part of its kernel: what they compute is done to every tile of results before it
//! is stored, so that the results themselves are never stored.
//!
//! This is a matter of steps, not of operations: a loop qualifies if it is the only reader of the product's result, and reads
//! and writes every element where the product would have put it. Whatever else it reads lies the same way, along its columns, or is a
//! scalar. What depends on the columns alone is computed before the product, once.

use super::guide::Guide;
use super::lower::memo::Memo;
use super::lower::product_entry;
use super::spec::{KernelKey, KernelSpec, Needs};
use super::step::{Arg, BufferKind, Draft, Step, Unit, Use};
use super::view::{BufId, Form, layout_of};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use systole_codegen::emit::blocks::{Body, consider_cut};
use systole_codegen::emit::loops::spec::{Access, Expr, ExprId, ExprNode, ExprOp, Input, LaneMap, LoopSpec, Output};
use systole_codegen::emit::mxu::{Array, Contraction, Finish, FinishInput, MxuError, Place};
use systole_isa::{ChipConfig, DType};

/// Operations of an expression at most: longer ones have more values than registers while rows go through the matrix units.
const MOST_NODES: usize = 40;
/// Operands of an expression at most.
const MOST_INPUTS: usize = 8;
/// Share of the two kernels' cycles below which one for both is taken.
const WORTH: f64 = 0.99;
/// Cycles of a call and of a loop's beginning and end.
const CALL: f64 = 150.0;

/// Joins products and the loops over their results, in all steps of a draft.
pub fn products(draft: &mut Draft, chip: &ChipConfig, guide: &Guide, memo: &Memo) {
    let mut mentions = vec![0u32; draft.buffers.len()];
    named(&draft.steps, &mut |b| mentions[b.index()] += 1);
    let kept = draft.results.iter().chain(&draft.params).copied().chain(draft.channels.values().map(|v| v.buf));
    kept.for_each(|b| mentions[b.index()] += 1);
    // Parts of several cores are made of products as they are.
    if draft.cores > 1 {
        return;
    }
    let steps = std::mem::take(&mut draft.steps);
    let mut f = Finisher { draft, chip, guide, memo, mentions, made: 0 };
    let steps = f.region(steps);
    let made = f.made;
    draft.steps = steps;
    if made > 0 {
        drop_unused(draft);
    }
}

struct Finisher<'a> {
    draft: &'a mut Draft,
    chip: &'a ChipConfig,
    guide: &'a Guide,
    memo: &'a Memo,
    /// How often steps name each buffer.
    mentions: Vec<u32>,
    made: u32,
}

/// A loop's call: its spec, the arguments of its arrays and scalars, and its operation.
struct LoopCall {
    spec: LoopSpec,
    args: Vec<Arg>,
    op: u32,
    cycles: f64,
}

/// A product's call with a loop as its end.
struct Joined {
    /// Loops before it.
    before: Vec<Step>,
    call: Step,
}

impl Finisher<'_> {
    fn region(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let mut out: Vec<Option<Step>> = Vec::with_capacity(steps.len());
        // The product that makes a buffer, in `out`.
        let mut products: BTreeMap<BufId, usize> = BTreeMap::new();
        for step in steps {
            let step = step.map_regions(|r| self.region(r));
            if let Some((at, joined)) = self.join(&out, &products, &step) {
                out[at] = None;
                out.extend(joined.before.into_iter().map(Some));
                out.push(Some(joined.call));
                self.made += 1;
                continue;
            }
            if let Some(buf) = self.product_of(&step) {
                products.insert(buf, out.len());
            }
            out.push(Some(step));
        }
        out.into_iter().flatten().collect()
    }

    /// What a product that may be joined makes.
    fn product_of(&self, step: &Step) -> Option<BufId> {
        let Step::Call { kernel, args, .. } = step else { return None };
        let KernelSpec::Product { contraction, looks: None, .. } = &self.draft.kernels[*kernel].spec else {
            return None;
        };
        let [_, _, Arg::Array { buf, usage: Use::Write, offset: 0, dynamic, .. }, Arg::Scratch] = &args[..] else {
            return None;
        };
        let b = &self.draft.buffers[buf.index()];
        let free = contraction.finish.is_none()
            && dynamic.is_empty()
            && b.kind == BufferKind::Temp
            && self.guide.schedule.streams(&b.name).is_none()
            && !self.draft.splits.contains_key(kernel);
        free.then_some(*buf)
    }

    /// The loop that a step is.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for loops alone")]
    fn loop_of(&self, step: &Step) -> Option<LoopCall> {
        let Step::Call { kernel, args, op } = step else { return None };
        let k = &self.draft.kernels[*kernel];
        let (name, schedule) = (&self.draft.ops[*op as usize].name, &self.guide.schedule);
        if self.draft.splits.contains_key(kernel) || schedule.cut(name).is_some() || schedule.alone(name).is_some() {
            return None;
        }
        let (spec, cycles) = match &k.spec {
            KernelSpec::Body(Body::Loop(spec)) => (spec, self.work(spec)),
            KernelSpec::Blocks { spec, cut, share: None, looks: None } => {
                let Body::Loop(body) = &spec.body else { return None };
                if spec.operands.iter().any(|o| o.floating || o.kept) {
                    return None;
                }
                (body, consider_cut(spec, *cut, self.chip)?.cost as f64)
            }
            _ => return None,
        };
        let arrays = spec.inputs.len() + spec.outputs.len();
        let args = args.get(..arrays)?.to_vec();
        Some(LoopCall { spec: spec.clone(), args, op: *op, cycles })
    }

    /// Cycles of a loop over arrays in vector memory: of its registers alone, without filling its pipeline.
    fn work(&self, spec: &LoopSpec) -> f64 {
        let outer: f64 = spec.outer.iter().map(|&n| f64::from(n)).product();
        let registers = outer * f64::from(spec.rows.div_ceil(self.chip.core.sublanes));
        registers * Body::Loop(spec.clone()).register_cycles(self.chip)
    }

    /// The product among the steps so far whose end a step becomes.
    fn join(
        &mut self,
        out: &[Option<Step>],
        products: &BTreeMap<BufId, usize>,
        step: &Step,
    ) -> Option<(usize, Joined)> {
        let call = self.loop_of(step)?;
        if call.spec.outputs.len() != 1 || !call.spec.expr.reductions.is_empty() {
            return None;
        }
        let read = |a: &Arg| {
            let (buf, usage, _) = a.array()?;
            products.get(&buf).filter(|_| usage == Use::Read).map(|&at| (at, buf))
        };
        let mut made: Vec<(usize, BufId)> = call.args.iter().filter_map(read).collect();
        made.sort_unstable();
        made.dedup();
        for (at, buf) in made.into_iter().rev() {
            let Some(Step::Call { kernel, args, op }) = &out[at] else { continue };
            if !self.may_wait(args, &out[at + 1..]) {
                continue;
            }
            let (buffers, kernels) = (self.draft.buffers.len(), self.draft.kernels.len());
            if let Some(joined) = self.joined((*kernel, &args.clone(), *op), buf, &call) {
                return Some((at, joined));
            }
            // Leaves nothing behind.
            self.draft.buffers.truncate(buffers);
            self.mentions.truncate(buffers);
            self.draft.kernels.truncate(kernels);
            self.draft.keys.retain(|_, k| *k < kernels);
        }
        None
    }

    /// Whether a product may be computed behind these steps: none of them changes what it reads.
    fn may_wait(&self, args: &[Arg], steps: &[Option<Step>]) -> bool {
        let reads: SmallVec<[BufId; 2]> =
            args[..2].iter().filter_map(|a| if let Arg::Array { buf, .. } = a { Some(*buf) } else { None }).collect();
        steps.iter().flatten().all(|s| match s {
            Step::Call { args, .. } => !args
                .iter()
                .any(|a| matches!(a, Arg::Array { buf, usage, .. } if *usage != Use::Read && reads.contains(buf))),
            Step::Copy { dst, .. } => !reads.contains(dst),
            Step::Scalar { .. } => true,
            Step::ReadScalar { .. }
            | Step::Host { .. }
            | Step::Exchange(_)
            | Step::Begin(_)
            | Step::End(_)
            | Step::While { .. }
            | Step::Switch { .. } => false,
        })
    }

    /// A product with a loop over its result `made` as its end, if there is such a kernel and it takes less.
    fn joined(&mut self, (kernel, args, op): (usize, &[Arg], u32), made: BufId, call: &LoopCall) -> Option<Joined> {
        let Arg::Array { buf: result, usage: Use::Write, unit, offset: 0, dynamic } = call.args.last()? else {
            return None;
        };
        let uses = call.args.iter().filter(|a| matches!(a, Arg::Array { buf, .. } if *buf == made)).count();
        let alike = self.same_places(made, *result) && dynamic.is_empty() && made != *result;
        if !alike || self.mentions[made.index()] as usize != uses + 1 {
            return None;
        }
        let mut end = End::new(self, made, *result, call)?;
        end.prepare(self, call)?;
        let end = end.renumbered();
        if end.finish.nodes.len() > MOST_NODES {
            return None;
        }
        let KernelSpec::Product { contraction: old, .. } = &self.draft.kernels[kernel].spec else { return None };
        let place = if *unit == Unit::Granules { Place::Hbm } else { Place::Vmem };
        let dtype = self.draft.buffers[result.index()].layout.dtype;
        let c = Contraction {
            out: Array { place, dtype, ..old.out },
            extras: end.extras.iter().map(|e| (e.1, e.2)).collect(),
            finish: Some(end.finish),
            ..old.clone()
        };
        let before = self.draft.kernels[kernel].cycles?;
        let name = self.draft.kernels[kernel].name.clone();
        let (chip, guide, memo) = (self.chip, self.guide, self.memo);
        let line = guide.schedule.tile(&name).map(|t| t.1);
        let new: Result<usize, MxuError> = self
            .draft
            .kernel(KernelKey::Product(c.clone(), None, line), |_| product_entry(&c, chip, (&name, guide), memo));
        let new = new.ok()?;
        let all = before + call.cycles + CALL - f64::from(u8::from(!end.before.is_empty())) * CALL;
        if self.draft.kernels[new].cycles? > WORTH * all {
            return None;
        }
        let mut all = vec![args[0].clone(), args[1].clone()];
        let word = |a: &Arg| match a {
            Arg::Array { buf, usage, unit: Unit::ElementRows, offset, dynamic } => {
                Arg::Array { buf: *buf, usage: *usage, unit: Unit::WordRows, offset: *offset, dynamic: dynamic.clone() }
            }
            Arg::Array { .. } | Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => {
                a.clone()
            }
        };
        all.push(word(call.args.last()?));
        all.extend(end.extras.iter().map(|e| word(&e.0)));
        all.extend(end.params);
        all.push(Arg::Scratch);
        self.absorb(op, call.op);
        Some(Joined { before: end.before, call: Step::Call { kernel: new, args: all, op } })
    }

    /// Whether two arrays have their elements at the same places.
    fn same_places(&self, a: BufId, b: BufId) -> bool {
        let layout = |b: BufId| &self.draft.buffers[b.index()].layout;
        let (a, b) = (layout(a), layout(b));
        let plain = |t: DType| t.components() == 1 && t != DType::Pred;
        let of = |l: &systole_isa::Layout| (l.plane_rows(), l.total_rows(), l.columns());
        of(a) == of(b) && plain(a.dtype) && plain(b.dtype)
    }

    /// Writes down that an operation is computed in another one's kernel.
    fn absorb(&mut self, product: u32, of: u32) {
        let name = self.draft.ops[of as usize].name.clone();
        let mut names = self.draft.members.remove(&of).unwrap_or_default();
        names.push(name.clone());
        self.draft.members.entry(product).or_default().extend(names);
        let o = &mut self.draft.ops[of as usize];
        let own = systole_isa::program::DebugMember { name, opcode: o.opcode.clone(), line: o.line };
        let mut members = std::mem::take(&mut o.members);
        members.push(own);
        let (flops, peak) = (std::mem::take(&mut o.flops), o.peak);
        let p = &mut self.draft.ops[product as usize];
        p.members.extend(members);
        p.flops += flops;
        p.peak = p.peak.or(peak);
    }
}

/// A loop's expression as the end of a product.
struct End {
    finish: Finish,
    /// Arguments of arrays of the result's shape, where they are, their types.
    extras: Vec<(Arg, Place, DType)>,
    /// Arguments of rows and scalars.
    params: Vec<Arg>,
    /// Loops that make rows.
    before: Vec<Step>,
}

impl End {
    fn new(f: &Finisher<'_>, made: BufId, result: BufId, call: &LoopCall) -> Option<End> {
        let spec = &call.spec;
        let out = &spec.outputs[0];
        let LaneMap::Tile { .. } = out.access.lane else { return None };
        let same = |a: &Access| {
            (&a.outer, a.row, a.offset, &a.lane) == (&out.access.outer, out.access.row, 0, &out.access.lane)
        };
        let mut end = End {
            finish: Finish { nodes: spec.expr.nodes.clone(), inputs: Vec::new(), root: out.node },
            extras: Vec::new(),
            params: Vec::new(),
            before: Vec::new(),
        };
        let plain = |n: &ExprNode| !matches!(n.op, ExprOp::Index(_) | ExprOp::Param(_) | ExprOp::LaneReduce(..));
        if out.access.offset != 0 || spec.inputs.len() > MOST_INPUTS || !spec.expr.nodes.iter().all(plain) {
            return None;
        }
        for (input, arg) in spec.inputs.iter().zip(&call.args) {
            end.finish.inputs.push(match (input, arg) {
                (Input::Scalar(t), Arg::Scalar(_)) => {
                    end.params.push(arg.clone());
                    FinishInput::Scalar(*t)
                }
                (Input::Array(a), Arg::Array { buf, unit, offset: 0, dynamic, .. }) if dynamic.is_empty() => {
                    if *buf == made {
                        if !same(a) {
                            return None;
                        }
                        FinishInput::Sums(a.dtype)
                    } else if same(a) && f.same_places(*buf, result) {
                        let place = if *unit == Unit::Granules { Place::Hbm } else { Place::Vmem };
                        end.extras.push((arg.clone(), place, a.dtype));
                        FinishInput::Extra(end.extras.len() as u32 - 1)
                    } else {
                        let row = End::row(a).filter(|_| *unit == Unit::ElementRows)?;
                        end.params.push(arg.clone());
                        row
                    }
                }
                _ => return None,
            });
        }
        Some(end)
    }

    /// An array that has one row along the columns.
    fn row(a: &Access) -> Option<FinishInput> {
        let LaneMap::Tile { tile_rows } = a.lane else { return None };
        let one = a.row == 0 && a.outer.iter().all(|&s| s == 0) && a.dtype.components() == 1;
        let (offset, step) = (i32::try_from(a.offset).ok()?, u32::try_from(tile_rows).ok()?);
        (one && a.dtype != DType::Pred).then_some(FinishInput::Columns { dtype: a.dtype, offset, step })
    }

    /// Computes what depends on columns alone in a loop before the product, where that is work.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for inputs alone")]
    fn prepare(&mut self, f: &mut Finisher<'_>, call: &LoopCall) -> Option<()> {
        let nodes = &self.finish.nodes;
        let input = |n: &ExprNode| match n.op {
            ExprOp::Input(i) => Some(&self.finish.inputs[i as usize]),
            _ => None,
        };
        // Of the columns alone; of nothing but constants.
        let (mut columns, mut constant): (Vec<bool>, Vec<bool>) = Default::default();
        for n in nodes {
            let all = |v: &[bool]| !n.args.is_empty() && n.args.iter().all(|&a| v[a as usize]);
            let given = matches!(n.op, ExprOp::Const(_));
            constant.push(given || matches!(input(n), Some(FinishInput::Scalar(_))) || all(&constant));
            let read = matches!(input(n), Some(FinishInput::Columns { .. }));
            let of = n.args.iter().all(|&a| columns[a as usize] || constant[a as usize]) && !n.args.is_empty();
            columns.push(read || of && !constant[constant.len() - 1]);
        }
        let simple = |id: usize| {
            let n = &nodes[id];
            n.args.is_empty() || n.op == ExprOp::Convert && nodes[n.args[0] as usize].args.is_empty()
        };
        let mut wanted: Vec<ExprId> = Vec::new();
        for (id, n) in nodes.iter().enumerate() {
            let other = !columns[id] && !constant[id];
            wanted.extend(n.args.iter().filter(|&&a| other && columns[a as usize] && !simple(a as usize)));
            if columns[id] && id as ExprId == self.finish.root {
                return None;
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Some(());
        }
        let n = call.spec.columns;
        let mut inputs = Vec::new();
        let mut args = Vec::new();
        for (input, arg) in call.spec.inputs.iter().zip(&call.args) {
            // Inputs keep their numbers; what is not of the columns stands for nothing here.
            let row = matches!(input, Input::Array(a) if End::row(a).is_some());
            let kept = row || matches!(input, Input::Scalar(_));
            inputs.push(if kept { flat(input) } else { Input::Scalar(DType::S32) });
            args.push(if kept { arg.clone() } else { Arg::Const(0) });
        }
        let dtype = |id: ExprId| nodes[id as usize].dtype;
        if wanted.iter().any(|&id| dtype(id).components() != 1 || dtype(id) == DType::Pred) {
            return None;
        }
        let name = f.draft.ops[call.op as usize].name.clone();
        let mut outputs = Vec::new();
        let mut rows = Vec::new();
        for &id in &wanted {
            let layout = layout_of(dtype(id), &[u64::from(n)], Form::Lanes, f.chip);
            let step = layout.plane_rows() as i64;
            let access = Access {
                dtype: dtype(id),
                component_rows: layout.total_rows() as i64,
                outer: smallvec![],
                row: 0,
                offset: 0,
                lane: LaneMap::Tile { tile_rows: step },
            };
            outputs.push(Output { node: id, access });
            let buf = f.draft.buffer(name.clone(), layout, BufferKind::Temp);
            f.mentions.push(2);
            rows.push((id, buf, step as u32));
            args.push(Arg::rows(buf, Use::Write));
        }
        let expr = Expr { nodes: prefix(nodes, &wanted), reductions: Vec::new() };
        let spec = LoopSpec { outer: Vec::new(), rows: 1, columns: n, inputs, expr, outputs };
        let kernel = f.draft.simple_kernel(KernelSpec::Body(Body::Loop(spec)), "rows of columns", Needs::default());
        self.before.push(Step::Call { kernel, args, op: call.op });
        for (id, buf, step) in rows {
            let number = self.finish.inputs.len() as u32;
            self.finish.inputs.push(FinishInput::Columns { dtype: dtype_of(&self.finish, id), offset: 0, step });
            self.params.push(Arg::rows(buf, Use::Read));
            let node = &mut self.finish.nodes[id as usize];
            (node.op, node.args) = (ExprOp::Input(number), SmallVec::new());
        }
        Some(())
    }

    /// Without the nodes and inputs that nothing needs.
    fn renumbered(mut self) -> End {
        let nodes = &self.finish.nodes;
        let mut needed = vec![false; nodes.len()];
        needed[self.finish.root as usize] = true;
        for id in (0..nodes.len()).rev().filter(|&id| id <= self.finish.root as usize) {
            if needed[id] {
                nodes[id].args.iter().for_each(|&a| needed[a as usize] = true);
            }
        }
        let mut read = vec![false; self.finish.inputs.len()];
        for (n, _) in nodes.iter().zip(&needed).filter(|(_, needed)| **needed) {
            if let ExprOp::Input(i) = n.op {
                read[i as usize] = true;
            }
        }
        let mut to = vec![0; nodes.len()];
        let mut kept: Vec<ExprNode> = Vec::new();
        let number = |i: u32| read[..i as usize].iter().filter(|r| **r).count() as u32;
        for (id, n) in nodes.iter().enumerate().filter(|(id, _)| needed[*id]) {
            to[id] = kept.len() as ExprId;
            let op = if let ExprOp::Input(i) = n.op { ExprOp::Input(number(i)) } else { n.op.clone() };
            let args = n.args.iter().map(|&a| to[a as usize]).collect();
            kept.push(ExprNode { op, args, dtype: n.dtype });
        }
        let (mut params, mut extras) = (Vec::new(), Vec::new());
        let mut inputs = Vec::new();
        let mut given = std::mem::take(&mut self.params).into_iter();
        for (input, read) in self.finish.inputs.iter().zip(&read) {
            let param = match input {
                FinishInput::Columns { .. } | FinishInput::Scalar(_) => given.next(),
                FinishInput::Sums(_) | FinishInput::Extra(_) => None,
            };
            if !read {
                continue;
            }
            params.extend(param);
            inputs.push(match input {
                FinishInput::Extra(n) => {
                    extras.push(self.extras[*n as usize].clone());
                    FinishInput::Extra(extras.len() as u32 - 1)
                }
                FinishInput::Sums(_) | FinishInput::Columns { .. } | FinishInput::Scalar(_) => input.clone(),
            });
        }
        let finish = Finish { nodes: kept, inputs, root: to[self.finish.root as usize] };
        End { finish, extras, params, before: self.before }
    }
}

fn dtype_of(f: &Finish, id: ExprId) -> DType {
    f.nodes[id as usize].dtype
}

/// An input of a loop over one row.
fn flat(input: &Input) -> Input {
    match input {
        Input::Array(a) => Input::Array(Access { outer: smallvec![], ..a.clone() }),
        Input::Scalar(t) => Input::Scalar(*t),
    }
}

/// The nodes with nothing in the place of those that these do not need.
fn prefix(nodes: &[ExprNode], wanted: &[ExprId]) -> Vec<ExprNode> {
    let mut needed = vec![false; nodes.len()];
    wanted.iter().for_each(|&id| needed[id as usize] = true);
    for id in (0..nodes.len()).rev() {
        if needed[id] {
            nodes[id].args.iter().for_each(|&a| needed[a as usize] = true);
        }
    }
    let end = wanted.iter().max().map_or(0, |&id| id as usize + 1);
    let nothing = |n: &ExprNode| ExprNode {
        op: ExprOp::Const(smallvec![0; n.dtype.host_bytes()]),
        args: smallvec![],
        dtype: n.dtype,
    };
    nodes[..end].iter().zip(&needed).map(|(n, &needed)| if needed { n.clone() } else { nothing(n) }).collect()
}

/// Every buffer that steps name, as often as they do.
fn named(steps: &[Step], f: &mut dyn FnMut(BufId)) {
    for s in steps {
        match s {
            Step::Call { args, .. } => args.iter().for_each(|a| {
                if let Arg::Array { buf, .. } = a {
                    f(*buf);
                }
            }),
            Step::Copy { src, dst, .. } => [src, dst].into_iter().for_each(|b| f(*b)),
            Step::Scalar { .. } => {}
            Step::ReadScalar { buf, .. } => f(*buf),
            Step::Host { operands, results, .. } => operands.iter().chain(results).for_each(|(b, _)| f(*b)),
            Step::Exchange(x) | Step::Begin(x) | Step::End(x) => x.arrays(&mut |b, _| f(b)),
            Step::While { head, body, .. } => {
                named(head, f);
                named(body, f);
            }
            Step::Switch { branches, .. } => branches.iter().for_each(|b| named(b, f)),
        }
    }
}

/// Drops kernels that no step calls any more.
fn drop_unused(draft: &mut Draft) {
    fn each(steps: &mut [Step], f: &mut dyn FnMut(&mut usize)) {
        for s in steps {
            match s {
                Step::Call { kernel, .. } => f(kernel),
                Step::While { head, body, .. } => {
                    each(head, f);
                    each(body, f);
                }
                Step::Switch { branches, .. } => branches.iter_mut().for_each(|b| each(b, f)),
                Step::Exchange(x) | Step::Begin(x) | Step::End(x) => x.kernels_mut().into_iter().for_each(&mut *f),
                Step::Copy { .. } | Step::Scalar { .. } | Step::ReadScalar { .. } | Step::Host { .. } => {}
            }
        }
    }
    let mut used = vec![false; draft.kernels.len()];
    each(&mut draft.steps, &mut |k| used[*k] = true);
    draft.splits.values().flatten().for_each(|p| used[p.kernel] = true);
    let mut to = vec![0; used.len()];
    let mut kept = Vec::new();
    for (i, k) in std::mem::take(&mut draft.kernels).into_iter().enumerate().filter(|(i, _)| used[*i]) {
        to[i] = kept.len();
        kept.push(k);
    }
    draft.kernels = kept;
    each(&mut draft.steps, &mut |k| *k = to[*k]);
    draft.keys.retain(|_, k| used[*k]);
    draft.keys.values_mut().for_each(|k| *k = to[*k]);
    let splits = std::mem::take(&mut draft.splits);
    draft.splits = splits
        .into_iter()
        .map(|(k, mut parts)| {
            parts.iter_mut().for_each(|p| p.kernel = to[p.kernel]);
            (to[k], parts)
        })
        .collect();
}
