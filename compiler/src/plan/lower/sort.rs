//! Sorts: how sequences lie over rows and lanes, and the kernels of the network's passes.

use super::moving::{Position, move_spec};
use super::{Lower, Region, Val};
use crate::plan::fuse::scalar_body;
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, Step, Unit, Use};
use crate::plan::view::{Form, View, layout_of};
use systole_codegen::emit::loops::eval::simple_compare;
use systole_codegen::emit::loops::spec::{Body, ExprNode, ExprOp};
use systole_codegen::emit::sort::{Pass, Places, SortSpec, passes};
use systole_codegen::kernel::Needs;
use systole_hlo::analysis::Network;
use systole_hlo::error::{CompileError, Resource};
use systole_hlo::graph::{Computation, Module, NodeId, Op, Order};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// The moves between sequences and the network's array.
struct Shape(Network);

impl Shape {
    /// The moves between `[batch, count]` (or `[count]`) and the network's array: sizes, positions in the former and the
    /// latter. Whole lanes, then what is left.
    fn moves(&self, rank: usize) -> Vec<(Vec<u64>, Position, Position)> {
        let Network { batch, count, group_bits, .. } = self.0;
        let each = self.0.rows();
        let (whole, rest) = (count / each, count % each);
        let group = 1i64 << group_bits;
        [(0, whole, each), (whole, 1, rest)]
            .into_iter()
            .filter(|p| p.1 > 0 && p.2 > 0)
            .map(|(lane, lanes, rows)| {
                let place = (vec![(1, each as i64), (2, 1)], (lane * each) as i64);
                let mut outside = Position { dims: vec![(vec![(0, 1)], 0), place] };
                outside.dims.drain(..2 - rank);
                let inside = Position { dims: vec![(vec![(2, 1)], 0), (vec![(0, group), (1, 1)], lane as i64)] };
                (vec![batch, lanes, rows], outside, inside)
            })
            .collect()
    }

    /// As [`Shape::moves`], to and from the transposed array.
    fn turned_moves(&self, rank: usize) -> Vec<(Vec<u64>, Position, Position)> {
        let mut moves = self.moves(rank);
        for (_, _, inside) in &mut moves {
            inside.dims.swap(0, 1);
        }
        moves
    }
}

/// Whether elements that a comparator calls equal are the same bits: no order among them is seen.
fn plain(body: &Body, dtypes: &[DType]) -> bool {
    let [t] = dtypes else { return false };
    match (simple_compare(body), t.class()) {
        (Some(Order::Total), DTypeClass::Float) => !t.is_byte_float(),
        (Some(_), DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned) => true,
        _ => false,
    }
}

impl<'a> Lower<'a> {
    /// A sort along the last dimension of arrays `[batch, n]` or `[n]`.
    ///
    /// Operands that the comparator does not see and whose result nothing uses stay out of it, and so do places along the
    /// dimension, which the network has by itself.
    pub fn sort(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let Op::Sort { body, stable, .. } = node.op else { return Err(self.no_lowering(r.comp, id)) };
        let module: &'a Module = self.module;
        let Some(body) = scalar_body(module.computation(body)) else {
            return Err(self.no_lowering(r.comp, id));
        };
        let body = needed(&body);
        let (taken, with_places) = taken(r.comp, id, &body);
        let body = renumbered(&body, &taken);
        let sources: Vec<View> = taken.iter().map(|&i| self.lanes(r, node.operands[i])).collect();
        let dims = r.comp.node(node.operands[0]).shape.as_array().map_or_else(Vec::new, |a| a.dims.clone());
        let (count, batch) = (dims[dims.len() - 1], dims[..dims.len() - 1].iter().product());
        let op = self.debug_op(r, id, 0.0);
        let shape = Network::choose(batch, count, self.registers());
        let name = node.name.clone();
        let dtypes: Vec<DType> = sources.iter().map(View::dtype).collect();
        // An array that fills whole rows is one of the network's as it lies.
        let lanes = self.chip.core.lanes as u64;
        let as_is = batch == 1 && 1 << shape.group_bits == lanes && count == lanes << shape.row_bits;
        let places = (with_places || stable && !plain(&body, &dtypes)).then(|| match as_is {
            true => Places { row: lanes as u32, lane: 1 },
            false => Places { row: 1, lane: shape.rows() as u32 },
        });
        let mut from = Vec::new();
        for src in &sources {
            from.push(if as_is { src.clone() } else { self.spread(src, shape, &name) });
        }
        let results: Vec<bool> =
            taken.iter().map(|&i| is_used(r.comp, id, i)).chain(places.iter().map(|_| with_places)).collect();
        let limit = |need: u64| {
            u32::try_from(need).map_err(|_| CompileError::Limit {
                resource: Resource::SortedElements,
                need,
                have: u32::MAX as u64,
                detail: format!(" (`{name}`)"),
            })
        };
        let spec_type = dtypes[0];
        let layout = layout_of(spec_type, &shape.dims(), Form::Lanes, self.chip);
        let spec = SortSpec {
            dtypes,
            body,
            places,
            count: limit(count)?,
            row_bits: shape.row_bits,
            group_bits: shape.group_bits,
            planes: limit(layout.planes())?,
            plane_rows: limit(layout.plane_rows())?,
            component_rows: limit(layout.total_rows())?,
            results,
        };
        let [rows, columns] = shape.dims();
        let array = match spec.is_direct() {
            true => self.array(&name, spec.dtypes[0], &shape.dims(), Form::Lanes),
            false => self.array(&name, DType::S32, &[u64::from(spec.words()), rows, columns], Form::Lanes),
        };
        // Results that nothing wants are no arrays.
        let mut to: Vec<Option<View>> = Vec::new();
        for (&wanted, &t) in spec.results.iter().zip(spec.dtypes.iter().chain(&[DType::S32])) {
            to.push((wanted && !spec.is_direct()).then(|| self.array(&name, t, &shape.dims(), Form::Lanes)));
        }
        let out: Vec<&View> = to.iter().flatten().collect();
        self.network(&spec, &from, &array, &out, op);
        let mut results = Vec::new();
        for (i, &operand) in node.operands.iter().enumerate() {
            let found = match taken.iter().position(|&t| t == i) {
                Some(_) if spec.is_direct() => Some(array.clone()),
                Some(at) => to[at].clone(),
                None => to.get(taken.len()).cloned().flatten(),
            };
            results.push(Val::Array(match found.filter(|_| is_used(r.comp, id, i)) {
                Some(v) if self.is_turned(r, id, (node.operands.len() > 1).then_some(i), shape) => {
                    self.turn(&v, &shape.turned(), &name)
                }
                Some(v) => self.gathered(&v, &dims, shape, &name),
                // Nothing reads it: any array of the shape will do.
                None => self.lanes(r, operand),
            }));
        }
        Ok(if results.len() == 1 { results.remove(0) } else { Val::Tuple(results) })
    }

    /// Rows and lanes of a register.
    fn registers(&self) -> (u64, u64) {
        (u64::from(self.chip.core.sublanes), u64::from(self.chip.core.lanes))
    }

    /// What a reshape whose users are sorts is to these: its operand, if that is what the sort's network begins with.
    pub(super) fn turned_for_sorts(&mut self, r: &mut Region<'a>, id: NodeId) -> Option<View> {
        let node = r.comp.node(id);
        if node.op != Op::Reshape {
            return None;
        }
        let users = &r.groups.users[id.index()];
        let dims = node.shape.as_array()?.dims.clone();
        let sorts = |u: &NodeId| {
            let op = &r.comp.node(*u).op;
            matches!(op, Op::Sort { dim, .. } if *dim + 1 == dims.len())
        };
        let Some(Val::Array(v)) = &r.values[node.operands[0].index()] else { return None };
        let v = v.clone();
        let [batch, count] = dims[..] else { return None };
        if users.is_empty() || !users.iter().all(sorts) {
            return None;
        }
        let shape = Network::choose(batch, count, self.registers());
        let fits = v.form == Form::Lanes && v.dims == shape.turned();
        (fits && shape.is_full() && shape.turns(self.registers())).then_some(v)
    }

    /// Whether a sort's result (of several the one of that number) is wanted as the transposed array of its network alone.
    fn is_turned(&self, r: &Region<'a>, sort: NodeId, number: Option<usize>, shape: Network) -> bool {
        let users = &r.groups.users;
        let is = |u: &NodeId| matches!(r.comp.node(*u).op, Op::GetTupleElement { index } if Some(index) == number);
        let takers: Vec<NodeId> = match number {
            Some(_) => users[sort.index()].iter().copied().filter(is).collect(),
            None => vec![sort],
        };
        let turned = |u: &NodeId| {
            let n = r.comp.node(*u);
            n.op == Op::Reshape && n.shape.as_array().is_some_and(|a| a.dims == shape.turned())
        };
        let wanted =
            |t: &NodeId| r.comp.root != *t && !users[t.index()].is_empty() && users[t.index()].iter().all(turned);
        shape.is_full() && shape.turns(self.registers()) && !takers.is_empty() && takers.iter().all(wanted)
    }

    /// The calls of all passes: from the operands to the network's array, on it, and from it to the results.
    fn network(&mut self, spec: &SortSpec, from: &[View], array: &View, to: &[&View], op: u32) {
        for pass in passes(spec, self.chip) {
            let made = KernelSpec::Sort { sort: spec.clone(), pass };
            let kernel = self.plan.simple_kernel(made, "sort", Needs::default());
            let rows = |v: &View, usage: Use| Arg::Array {
                buf: v.buf,
                usage,
                unit: Unit::ElementRows,
                offset: 0,
                dynamic: Vec::new(),
            };
            let args: Vec<Arg> = match pass {
                Pass::First { .. } => {
                    from.iter().map(|v| rows(v, Use::Read)).chain([rows(array, Use::Write)]).collect()
                }
                Pass::Rows(_) | Pass::Last { .. } | Pass::Lanes { .. } => vec![rows(array, Use::Update)],
                Pass::Out => {
                    [rows(array, Use::Read)].into_iter().chain(to.iter().map(|v| rows(v, Use::Write))).collect()
                }
            };
            self.steps.push(Step::Call { kernel, args, op });
        }
    }

    /// Sequences spread over the network's array.
    fn spread(&mut self, src: &View, shape: Network, name: &str) -> View {
        if src.dims == shape.turned() && shape.turns(self.registers()) {
            return self.turn(src, &shape.dims(), name);
        }
        if shape.turns(self.registers()) {
            let middle = self.array(name, src.dtype(), &shape.turned(), Form::Lanes);
            for (sizes, outside, inside) in Shape(shape).turned_moves(src.dims.len()) {
                let spec = move_spec(&sizes, src, &outside, &middle, &inside);
                self.push_move(spec, src.buf, (middle.buf, Use::Update), name);
            }
            return self.turn(&middle, &shape.dims(), name);
        }
        let dst = self.array(name, src.dtype(), &shape.dims(), Form::Lanes);
        for (sizes, outside, inside) in Shape(shape).moves(src.dims.len()) {
            let spec = move_spec(&sizes, src, &outside, &dst, &inside);
            self.push_move(spec, src.buf, (dst.buf, Use::Update), name);
        }
        dst
    }

    /// The network's array as sequences again.
    fn gathered(&mut self, src: &View, dims: &[u64], shape: Network, name: &str) -> View {
        let dst = self.array(name, src.dtype(), dims, Form::Lanes);
        if shape.turns(self.registers()) {
            let middle = self.turn(src, &shape.turned(), name);
            for (sizes, outside, inside) in Shape(shape).turned_moves(dims.len()) {
                let spec = move_spec(&sizes, &middle, &inside, &dst, &outside);
                self.push_move(spec, middle.buf, (dst.buf, Use::Update), name);
            }
            return dst;
        }
        for (sizes, outside, inside) in Shape(shape).moves(dims.len()) {
            let spec = move_spec(&sizes, src, &inside, &dst, &outside);
            self.push_move(spec, src.buf, (dst.buf, Use::Update), name);
        }
        dst
    }

    /// The transpose of an array of two dimensions.
    fn turn(&mut self, src: &View, dims: &[u64], name: &str) -> View {
        let dst = self.array(name, src.dtype(), dims, Form::Lanes);
        let from = Position { dims: vec![(vec![(1, 1)], 0), (vec![(0, 1)], 0)] };
        let to = Position { dims: vec![(vec![(0, 1)], 0), (vec![(1, 1)], 0)] };
        let spec = move_spec(dims, src, &from, &dst, &to);
        self.push_move(spec, src.buf, (dst.buf, Use::Write), name);
        dst
    }
}

/// Whether something reads result `i` of a sort.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for elements of a tuple alone")]
fn is_used(comp: &Computation, sort: NodeId, i: usize) -> bool {
    let node = comp.node(sort);
    let one = node.operands.len() == 1;
    comp.root == sort
        || comp.ids().any(|u| {
            let user = comp.node(u);
            user.operands.contains(&sort)
                && match user.op {
                    Op::GetTupleElement { index } if !one => index == i,
                    _ => true,
                }
        })
}

/// Operands that take part in a sort, and whether the elements' places are a result.
fn taken(comp: &Computation, sort: NodeId, body: &Body) -> (Vec<usize>, bool) {
    let node = comp.node(sort);
    let seen = |i: usize| {
        let is = |p: u32| p as usize / 2 == i;
        body.nodes.iter().any(|n| matches!(n.op, ExprOp::Param(p) if is(p)))
    };
    let mut taken = Vec::new();
    let mut places = false;
    for (i, &o) in node.operands.iter().enumerate() {
        let x = comp.node(o);
        let last = x.shape.as_array().map_or(0, |a| a.dims.len().saturating_sub(1));
        let is_place = matches!(x.op, Op::Iota { dim } if dim == last)
            && x.shape.as_array().is_some_and(|a| a.dtype == DType::S32);
        if seen(i) {
            taken.push(i);
        } else if is_used(comp, sort, i) {
            if is_place {
                places = true;
            } else {
                taken.push(i);
            }
        }
    }
    // A comparator that looks at nothing still sorts something.
    if taken.is_empty() {
        taken.push(0);
    }
    (taken, places)
}

/// The nodes of a comparator that its result depends on.
fn needed(body: &Body) -> Body {
    let mut is = vec![false; body.nodes.len()];
    body.roots.iter().for_each(|&r| is[r as usize] = true);
    for (at, node) in body.nodes.iter().enumerate().rev() {
        if is[at] {
            node.args.iter().for_each(|&a| is[a as usize] = true);
        }
    }
    let mut to = vec![0; is.len()];
    let mut nodes = Vec::new();
    for (at, node) in body.nodes.iter().enumerate().filter(|&(at, _)| is[at]) {
        to[at] = nodes.len() as u32;
        let args = node.args.iter().map(|&a| to[a as usize]).collect();
        nodes.push(ExprNode { args, ..node.clone() });
    }
    Body { nodes, roots: body.roots.iter().map(|&r| to[r as usize]).collect() }
}

/// A comparator over the operands that are left.
fn renumbered(body: &Body, taken: &[usize]) -> Body {
    let mut body = body.clone();
    for n in &mut body.nodes {
        if let ExprOp::Param(p) = &mut n.op {
            let at = taken.iter().position(|&t| t == *p as usize / 2).unwrap_or(0);
            *p = 2 * at as u32 + *p % 2;
        }
    }
    body
}
