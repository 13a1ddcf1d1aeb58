//! From core computations to steps: every root node becomes a kernel call, a view, or scalar code.

mod bodies;
mod contraction;
mod control;
mod cores;
mod factor;
mod host;
mod indexed;
pub mod loop_spec;
pub mod memo;
mod mosaic;
mod movement;
pub mod moving;
mod multiply_add;
mod repeat;
pub mod scalar;
mod sort;
mod steps;
mod transfer;
mod unseen;

pub use self::contraction::{product_entry, shared_product};
use self::loop_spec::{Resolve, Resolved, Source, loop_spec, reduce_spec, window_spec};
use self::memo::Memo;
use self::scalar::scalar_nodes;
use super::fuse::{Fuser, Materialise};
use super::group::{Groups, Rows, group, is_lane_reduce, is_pointwise};
use super::guide::Guide;
use super::step::{Arg, BufferKind, Draft, ScalarOp, Step, Use, Word};
use super::together::Sets;
use super::view::{BufId, Form, View, layout_of};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use systole_codegen::emit::blocks::Body;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, Family, Module, Node, NodeId, Op, Precision, Shape, Span};
use systole_isa::program::{DebugMember, DebugOp};
use systole_isa::{ChipConfig, DType};
use systole_passes::make::{FLOPS, marked};

/// A node's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Val {
    Array(View),
    /// In scalar memory.
    Word(Word, DType),
    Tuple(Vec<Val>),
    Token,
}

/// Lowers one module.
pub struct Lower<'a> {
    pub module: &'a Module,
    pub chip: &'a ChipConfig,
    pub plan: Draft,
    /// Steps of the region being lowered.
    pub steps: Vec<Step>,
    /// Sends that begin before the next step that may wait.
    pub pending: Vec<Step>,
    /// Text for line numbers of debug ops.
    pub lines: &'a dyn Fn(systole_hlo::graph::Span) -> u32,
    /// Flops of products without a matrix unit that an operation already counts: computation and mark.
    pub counted: FxHashSet<(String, String)>,
    /// Bytes of the states in vector memory of the loops around the code being lowered.
    pub state_bytes: u64,
    /// How often the code being lowered runs, by the loops around it whose trips are known.
    pub turns: u64,
    /// The least precision of f32 products in kernels that have their own code.
    pub precision: Precision,
    pub guide: &'a Guide,
    pub memo: &'a Memo,
    /// The first pin that cannot hold.
    pub failed: Option<CompileError>,
}

/// A computation being lowered.
pub struct Region<'a> {
    pub comp: &'a Computation,
    pub groups: Groups,
    pub values: Vec<Option<Val>>,
    /// Arrays of nodes in another form or as arrays of scalars, made on demand.
    pub lanes: Vec<Option<View>>,
    /// Slices that products read where they lie.
    pub cuts: Vec<Option<Cut>>,
}

/// A slice of an array from a place on that is known when the program runs: all of its last dimensions, one index of each
/// before.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The array, and the slice's sizes without those indices.
    pub source: View,
    pub dims: Vec<u64>,
    /// Element rows from the array's first to the slice's: scalars times so many.
    pub start: Vec<(Word, i64)>,
}

impl<'a> Lower<'a> {
    /// Lowers a computation called with `params`; returns its root's value.
    pub fn region(&mut self, id: CompId, params: &[Val]) -> Result<Val, CompileError> {
        let module: &'a Module = self.module;
        let comp = module.computation(id);
        let scalars = scalar_nodes(comp, &|i| matches!(params.get(i), Some(Val::Word(..))), params);
        let key = (id, scalars.clone());
        let mut groups = self.memo.groups.get(key, |_| self.grouped(comp, &scalars))?;
        let order = match &mut groups.order {
            order if order.is_empty() => comp.ids().collect(),
            order => std::mem::take(order),
        };
        let n = comp.nodes.len();
        let mut r = Region { comp, groups, values: vec![None; n], lanes: vec![None; n], cuts: vec![None; n] };
        self.keep_for_readers(&r, params);
        let unseen = unseen::nodes(module, comp, &r.groups.users);
        for id in order {
            // Computed with another one.
            if r.groups.lead.contains_key(&id) {
                continue;
            }
            if unseen.contains(&id)
                && !scalars[id.index()]
                && let Shape::Array(a) = &comp.node(id).shape
                && r.groups.roots_of(id) == [id]
            {
                r.values[id.index()] = Some(Val::Array(self.array(&comp.node(id).name, a.dtype, &a.dims, Form::Lanes)));
                continue;
            }
            let val = if scalars[id.index()] {
                Some(self.scalar_node(&r, id, params)?)
            } else if !matches!(comp.node(id).shape, Shape::Array(_)) || r.groups.is_root(id) {
                Some(self.node(&mut r, id, params).map_err(|e| e.at(comp.node(id).span))?)
            } else {
                None
            };
            r.values[id.index()] = val;
        }
        self.begin_sends();
        Ok(r.values[comp.root.index()].clone().expect("the root is pinned"))
    }

    /// Who owns the nodes of a computation.
    fn grouped(&self, comp: &Computation, scalars: &[bool]) -> Result<Groups, CompileError> {
        let mut pinned: BTreeSet<NodeId> = comp.ids().filter(|i| scalars[i.index()]).collect();
        pinned.insert(comp.root);
        let array = |id: NodeId| matches!(comp.node(id).shape, Shape::Array(_));
        pinned.extend(comp.ids().filter(|&i| array(i) && self.guide.schedule.alone(&comp.node(i).name).is_some()));
        pinned.extend(comp.ids().filter(|i| comp.node(*i).op.has_effect()));
        pinned.extend(comp.node(comp.root).operands.iter().filter(|_| matches!(comp.node(comp.root).op, Op::Tuple)));
        let (sublanes, lanes) = (u64::from(self.chip.core.sublanes), u64::from(self.chip.core.lanes));
        let rows = Rows { sublanes, lanes, vmem: self.chip.vmem.bytes };
        let alone = |id: NodeId| self.guide.schedule.alone(&comp.node(id).name).is_some();
        let mut sets = Sets::default();
        loop {
            let mut groups = group(comp, rows, &|id| pinned.contains(&id), &sets.all);
            let needed = self.check_groups(comp, &groups, scalars);
            if needed.is_empty() {
                if sets.join(&mut groups, (self.module, comp), scalars, &alone) {
                    continue;
                }
                return Ok(groups);
            }
            let before = pinned.len();
            pinned.extend(needed.iter().map(|m| m.0));
            if pinned.len() == before {
                return Err(self.no_lowering(comp, needed[0].0));
            }
        }
    }

    pub fn no_lowering(&self, comp: &Computation, id: NodeId) -> CompileError {
        let n = comp.node(id);
        let op = format!("{:?}", n.op);
        let op = op.split([' ', '(', '{']).next().unwrap_or("").to_string();
        CompileError::unsupported(n.span, format!("no lowering for {op} `{}` of shape {}", n.name, n.shape))
    }

    /// Tries to fuse every group, so that what cannot be fused is known before any step is made: of each group the first
    /// node that must be an array.
    fn check_groups(&self, comp: &Computation, groups: &Groups, scalars: &[bool]) -> Vec<Materialise> {
        let own = |id: NodeId| !groups.lead.contains_key(&id);
        // Reductions of several operands give tuples, which nobody owns.
        let several = |id: NodeId| matches!(comp.node(id).shape, Shape::Tuple(_));
        let roots = comp.ids().filter(|&id| (groups.is_root(id) || several(id)) && own(id) && !scalars[id.index()]);
        let fused = |id: NodeId| -> Result<(), Materialise> {
            let node = comp.node(id);
            let dims = |n: NodeId| comp.node(n).shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
            if is_pointwise(comp, id) || is_lane_reduce(comp, id) {
                let roots = groups.roots_of(id);
                let mut f = Fuser::of(self.module, comp, groups, &roots, &groups.points(comp, &roots));
                for &root in &roots {
                    let map = f.map_of(root);
                    f.value(root, &map)?;
                }
                f.crowded().map_or(Ok(()), Err)?;
            } else if let Op::Reduce { body, .. } = node.op {
                let mut f = Fuser::new(self.module, comp, groups, id, &dims(node.operands[0]));
                let whole = f.identity();
                f.reduction(&node.operands, body, &whole)?;
                f.crowded().map_or(Ok(()), Err)?;
            }
            Ok(())
        };
        roots.filter_map(|id| fused(id).err()).collect()
    }

    /// The name of an operation.
    pub fn op_name(&self, op: u32) -> &str {
        self.plan.ops.get(op as usize).map_or("", |o| o.name.as_str())
    }

    /// A debug op for a node: `flops` of a product on the matrix unit, and those of products that its kernel computes
    /// otherwise.
    pub fn debug_op(&mut self, r: &Region<'a>, id: NodeId, flops: f64) -> u32 {
        let comp = r.comp;
        let n = comp.node(id);
        self.plan.op_spans.resize(self.plan.ops.len(), Span::default());
        self.plan.op_spans.push(n.span);
        let members = r.groups.members(comp, id);
        let (mut flops, mut peak) = (flops, None);
        for m in std::iter::once(id).chain(members.iter().copied()) {
            if let Some(mark) = comp.node(m).attribute(FLOPS)
                && self.counted.insert((comp.name.clone(), mark.to_string()))
            {
                let (count, dtype) = marked(mark);
                flops += count;
                peak = peak.or(dtype);
            }
        }
        let bytes =
            |s: &Shape| s.leaves().iter().map(|a| a.elements() as f64 * a.dtype.bits() as f64 / 8.0).sum::<f64>();
        let moved = bytes(&n.shape) + n.operands.iter().map(|o| bytes(&comp.node(*o).shape)).sum::<f64>();
        self.plan.ops.push(DebugOp {
            name: n.name.clone(),
            opcode: n.op.name().to_string(),
            line: (self.lines)(n.span),
            flops,
            peak,
            bytes: moved,
            padding: 0.0,
            members: members.into_iter().map(|m| self.member(comp.node(m))).collect(),
        });
        self.plan.ops.len() as u32 - 1
    }

    fn member(&self, n: &Node) -> DebugMember {
        DebugMember { name: n.name.clone(), opcode: n.op.name().to_string(), line: (self.lines)(n.span) }
    }

    /// A new array for a result.
    pub fn array(&mut self, name: &str, dtype: DType, dims: &[u64], form: Form) -> View {
        let layout = layout_of(dtype, dims, form, self.chip);
        let buf = self.plan.buffer(name, layout.clone(), BufferKind::Temp);
        View { buf, dims: dims.to_vec(), form, layout }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "everything else is lowered by family below")]
    fn node(&mut self, r: &mut Region<'a>, id: NodeId, params: &[Val]) -> Result<Val, CompileError> {
        let comp = r.comp;
        let node = comp.node(id);
        match &node.op {
            Op::Parameter { index } => return Ok(params[*index].clone()),
            Op::Tuple => {
                let all = node.operands.iter().map(|&o| self.value(r, o)).collect();
                return Ok(Val::Tuple(all));
            }
            Op::GetTupleElement { index } => {
                let Some(Val::Tuple(t)) = &r.values[node.operands[0].index()] else {
                    return Err(CompileError::internal("plan", format!("`{}` takes from no tuple", node.name)));
                };
                return Ok(t[*index].clone());
            }
            Op::Constant(l) if !is_pointwise(comp, id) => {
                let layout = layout_of(l.dtype, &l.dims, Form::Lanes, self.chip);
                let bytes = layout.to_device(&l.to_bytes());
                let buf = self.plan.buffer(&node.name, layout.clone(), BufferKind::Constant(bytes));
                return Ok(Val::Array(View { buf, dims: l.dims.clone(), form: Form::Lanes, layout }));
            }
            _ => {}
        }
        if let Shape::Array(a) = &node.shape
            && a.elements() == 0
        {
            return Ok(Val::Array(self.array(&node.name, a.dtype, &a.dims, Form::Lanes)));
        }
        if self.note_cut(r, id) {
            return Ok(Val::Token);
        }
        if let Some(v) = self.turned_for_sorts(r, id) {
            return Ok(Val::Array(v));
        }
        // A reshape of an array is a view of it; of a fused value, part of the kernel.
        let is_view = matches!(node.op, Op::Reshape) && r.values[node.operands[0].index()].is_some();
        if is_pointwise(comp, id) && !is_view || is_lane_reduce(comp, id) && !r.groups.long.contains(&id) {
            return self.row_kernel(r, id);
        }
        if matches!(node.op.family(), Family::Control | Family::Exchange | Family::Host) {
            self.begin_sends();
        }
        match node.op.family() {
            Family::Reduce => self.reduce(r, id),
            Family::Control => self.control(r, id),
            Family::Exchange => self.collective(r, id),
            Family::Contraction => self.contraction(r, id),
            Family::Host => self.host_call(r, id),
            Family::Transfer => self.transfer(r, id),
            Family::Move => self.movement(r, id),
            Family::Indexed => self.indexed(r, id),
            Family::Sort => self.sort(r, id),
            Family::Factor => self.factor(r, id),
            // Scalars alone, or with operands of another width: the passes leave none.
            Family::Value | Family::Pointwise | Family::Device | Family::Expanded => Err(self.no_lowering(comp, id)),
        }
    }

    /// A node's value; the node must have one.
    pub fn value(&mut self, r: &Region<'a>, id: NodeId) -> Val {
        r.values[id.index()].clone().expect("operands of unfused nodes are materialised before them")
    }

    /// A node as an array whose last dimension is along lanes.
    pub fn lanes(&mut self, r: &mut Region<'a>, id: NodeId) -> View {
        if let Some(v) = &r.lanes[id.index()] {
            return v.clone();
        }
        let val = self.value(r, id);
        let name = &r.comp.node(id).name;
        let view = self.to_lanes(&val, name);
        r.lanes[id.index()] = Some(view.clone());
        view
    }

    /// Any array or scalar as an array whose last dimension is along lanes.
    pub fn to_lanes(&mut self, val: &Val, name: &str) -> View {
        match val {
            Val::Array(v) if v.form == Form::Lanes => v.clone(),
            Val::Array(v) => {
                // Element by row to element by lane; same places where every row has one element anyway.
                let layout = layout_of(v.dtype(), &v.dims, Form::Lanes, self.chip);
                if super::view::same_places(&v.layout, &layout) && layout.columns() <= 1 {
                    return View { form: Form::Lanes, layout, ..v.clone() };
                }
                let to = self.array(name, v.dtype(), &v.dims, Form::Lanes);
                let n = v.dims.len();
                let all = moving::Position::identity(n);
                let spec = moving::move_spec(&v.dims, v, &all, &to, &all);
                self.push_move(spec, v.buf, (to.buf, Use::Write), name);
                to
            }
            Val::Word(w, dtype) => self.scalar_array(*w, *dtype, name),
            Val::Tuple(_) | Val::Token => unreachable!("tuples and tokens are no arrays"),
        }
    }

    /// An array under another shape, moved if it must be.
    pub fn relaid(&mut self, src: &View, dims: &[u64], name: &str) -> View {
        if let Some(v) = src.reshaped(dims, self.chip) {
            return v;
        }
        let dst = self.array(name, src.dtype(), dims, Form::Lanes);
        let (sizes, from, to) = moving::refine(&src.dims, dims).expect("shapes differ by sizes of 1");
        let spec = moving::move_spec(&sizes, src, &from, &dst, &to);
        self.push_move(spec, src.buf, (dst.buf, Use::Write), name);
        dst
    }

    /// An array under any shape of as many elements: by way of one dimension where the shapes have no common refinement.
    pub fn relaid_any(&mut self, src: &View, dims: &[u64], name: &str) -> View {
        if src.dims == dims || src.reshaped(dims, self.chip).is_some() || moving::refine(&src.dims, dims).is_some() {
            return self.relaid(src, dims, name);
        }
        let flat = self.relaid(src, &[src.dims.iter().product::<u64>()], name);
        self.relaid(&flat, dims, name)
    }

    /// The kernel of a root, and of those that share it.
    fn row_kernel(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let comp = r.comp;
        let roots = r.groups.roots_of(id);
        let plain = |id: &NodeId| r.groups.space[id.index()] == *id && !is_lane_reduce(comp, *id);
        let size = |id: &NodeId| comp.node(*id).shape.as_array().map(|a| &a.dims);
        let alike = roots.iter().all(|root| plain(root) && size(root) == size(&id));
        let rows_form = alike && roots.iter().any(|&root| self.wants_rows(r, root));
        // The spec is made with a resolver that may append conversion steps.
        let groups = std::mem::take(&mut r.groups);
        let source = Source { module: self.module, comp, groups: &groups, chip: self.chip };
        let made = {
            let mut resolver = Resolver { lower: self, region: r };
            loop_spec(source, &roots, rows_form, &mut resolver)
        };
        r.groups = groups;
        let fused = made.map_err(|Materialise(n)| self.no_lowering(comp, n))?;
        let results = self.call_fused(r, &roots, Body::Loop(fused.spec), &fused.inputs, &fused.results);
        let mut own = Val::Token;
        for (root, view) in roots.into_iter().zip(results) {
            let val = Val::Array(view);
            if root == id {
                own = val;
            } else {
                r.values[root.index()] = Some(val);
            }
        }
        Ok(own)
    }

    /// Whether a pointwise root is better one element a row: it reads such arrays of its own size, and nothing is reduced along its
    /// lanes.
    fn wants_rows(&self, r: &Region<'a>, id: NodeId) -> bool {
        let comp = r.comp;
        let Some(shape) = comp.node(id).shape.as_array() else { return false };
        if shape.rank() == 0 || is_lane_reduce(comp, id) {
            return false;
        }
        let elements = shape.elements();
        let mut stack = vec![id];
        let mut seen = BTreeSet::new();
        let mut rows = false;
        while let Some(n) = stack.pop() {
            for &o in &comp.node(n).operands {
                if !seen.insert(o) {
                    continue;
                }
                if r.groups.is_root(o) {
                    let same = comp.node(o).shape.as_array().is_some_and(|a| a.elements() == elements);
                    rows |= same && matches!(&r.values[o.index()], Some(Val::Array(v)) if v.form == Form::Rows);
                } else if is_lane_reduce(comp, o) {
                    return false;
                } else {
                    stack.push(o);
                }
            }
        }
        rows
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for windows alone")]
    fn reduce(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let comp = r.comp;
        let window = match &comp.node(id).op {
            Op::ReduceWindow { window, .. } => Some(window),
            _ => None,
        };
        let groups = std::mem::take(&mut r.groups);
        let source = Source { module: self.module, comp, groups: &groups, chip: self.chip };
        let made = {
            let mut resolver = Resolver { lower: self, region: r };
            match window {
                Some(_) => window_spec(source, id, &mut resolver),
                None => reduce_spec(source, id, &mut resolver),
            }
        };
        r.groups = groups;
        let fused = made.map_err(|Materialise(n)| self.no_lowering(comp, n))?;
        let mut results = self.call_fused(r, &[id], Body::Reduce(fused.spec), &fused.inputs, &fused.results);
        for (v, leaf) in results.iter_mut().zip(comp.node(id).shape.leaves()) {
            if v.dims != leaf.dims {
                *v = self.relaid(&v.clone(), &leaf.dims, &comp.node(id).name);
            }
        }
        Ok(match comp.node(id).shape {
            Shape::Tuple(_) => Val::Tuple(results.into_iter().map(Val::Array).collect()),
            Shape::Array(_) | Shape::Token => Val::Array(results.into_iter().next().expect("one result")),
        })
    }

    /// Calls the kernel of some roots (or of one with several results), named after the first.
    fn call_fused(
        &mut self,
        r: &Region<'a>,
        roots: &[NodeId],
        body: Body,
        inputs: &[(NodeId, Resolved)],
        results: &[(Vec<u64>, DType, Form)],
    ) -> Vec<View> {
        let mut args = Vec::new();
        for (node, place) in inputs {
            args.push(match place {
                Resolved::Array(v) => Arg::rows(v.buf, Use::Read),
                Resolved::Scalar(_) => match &r.values[node.index()] {
                    Some(Val::Word(w, _)) => Arg::Scalar(*w),
                    _ => unreachable!("resolved as a scalar"),
                },
            });
        }
        let id = roots[0];
        let name = |i: usize| &r.comp.node(*roots.get(i).unwrap_or(&id)).name;
        let views: Vec<View> =
            results.iter().enumerate().map(|(i, (d, t, f))| self.array(name(i), *t, d, *f)).collect();
        args.extend(views.iter().map(|v| Arg::rows(v.buf, Use::Write)));
        let op = self.debug_op(r, id, 0.0);
        let members = fused(r, roots);
        if !members.is_empty() {
            self.plan.members.insert(op, members);
        }
        let name = if matches!(body, Body::Loop(_)) { "loop" } else { "reduce" };
        let is_result = |i: usize| self.is_result(r, *roots.get(i).unwrap_or(&id));
        let results: Vec<bool> = (0..views.len()).map(is_result).collect();
        self.push_body(body, args, name, op, &results);
        views
    }

    /// A scalar as an array of rank 0.
    pub fn scalar_array(&mut self, w: Word, dtype: DType, name: &str) -> View {
        use systole_codegen::emit::loops::spec::{Expr, ExprNode, ExprOp, Input, LoopSpec, Output};
        let v = self.array(name, dtype, &[], Form::Rows);
        let access = v.access(&[], 0);
        let expr = Expr {
            nodes: vec![ExprNode { op: ExprOp::Input(0), args: Default::default(), dtype }],
            reductions: Vec::new(),
        };
        let spec = LoopSpec {
            outer: Vec::new(),
            rows: 1,
            columns: 1,
            inputs: vec![Input::Scalar(dtype)],
            expr,
            outputs: vec![Output { node: 0, access }],
        };
        let op = self.named_op(name, "scalar");
        self.push_body(Body::Loop(spec), vec![Arg::Scalar(w), Arg::rows(v.buf, Use::Write)], "splat", op, &[false]);
        let layout = layout_of(dtype, &[], Form::Lanes, self.chip);
        View { form: Form::Lanes, layout, ..v }
    }

    /// A debug op that stands for no node.
    pub fn named_op(&mut self, name: &str, opcode: &str) -> u32 {
        self.plan.ops.push(DebugOp { name: name.to_string(), opcode: opcode.to_string(), ..DebugOp::default() });
        self.plan.ops.len() as u32 - 1
    }

    /// A scalar in scalar memory, whatever the value is now.
    pub fn to_word(&mut self, val: &Val, name: &str) -> (Word, DType) {
        match val {
            Val::Word(w, t) => (*w, *t),
            Val::Array(v) => {
                let dst = self.plan.word();
                let op = self.named_op(name, "scalar");
                self.steps.push(Step::ReadScalar { buf: v.buf, dst, dtype: v.dtype(), op });
                (dst, v.dtype())
            }
            Val::Tuple(_) | Val::Token => unreachable!("tuples and tokens are no scalars"),
        }
    }

    pub fn scalar(&mut self, value: ScalarOp, dtype: DType) -> Word {
        let dst = self.plan.word();
        self.steps.push(Step::Scalar { dst, value, dtype });
        dst
    }
}

/// Names of the nodes that are computed in a kernel besides its first root, in the program's order.
fn fused(r: &Region<'_>, roots: &[NodeId]) -> Vec<String> {
    let mut inside: BTreeSet<NodeId> = roots[1..].iter().copied().collect();
    let mut stack = roots.to_vec();
    while let Some(n) = stack.pop() {
        for &o in &r.comp.node(n).operands {
            if r.values[o.index()].is_none() && !roots.contains(&o) && inside.insert(o) {
                stack.push(o);
            }
        }
    }
    let shown = |id: &NodeId| !matches!(r.comp.node(*id).op, Op::Constant(_));
    inside.into_iter().filter(shown).map(|id| r.comp.node(id).name.clone()).collect()
}

struct Resolver<'r, 'a> {
    lower: &'r mut Lower<'a>,
    region: &'r mut Region<'a>,
}

impl Resolve for Resolver<'_, '_> {
    fn resolve(&mut self, node: NodeId, lanes: bool) -> Resolved {
        match &self.region.values[node.index()] {
            Some(Val::Word(_, t)) => Resolved::Scalar(*t),
            Some(Val::Array(v)) if !lanes || v.form == Form::Lanes => Resolved::Array(v.clone()),
            _ => Resolved::Array(self.lower.lanes(self.region, node)),
        }
    }

    fn extended(&mut self, node: NodeId) -> View {
        let src = self.lower.lanes(self.region, node);
        let dims: Vec<u64> = src.dims.iter().copied().chain([1]).collect();
        self.lower.relaid(&src, &dims, &self.region.comp.node(node).name)
    }

    fn leading(&mut self, node: NodeId, rank: usize) -> View {
        let src = self.lower.lanes(self.region, node);
        self.lower.relaid(&src, &src.dims[..rank], &self.region.comp.node(node).name)
    }
}

/// The buffer of an array value.
pub fn buffer_of(val: &Val) -> Option<BufId> {
    match val {
        Val::Array(v) => Some(v.buf),
        Val::Word(..) | Val::Tuple(_) | Val::Token => None,
    }
}
