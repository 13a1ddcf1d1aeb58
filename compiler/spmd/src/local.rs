//! An operation as each device does it, on its parts.

use crate::halo;
use crate::ir::{Node, Tree};
use crate::make::{Out, Pending, Scope};
use crate::mesh::Axis;
use crate::reshard::Step;
use crate::resolve::{self, Division};
use crate::rule::{self, Edges, Kind, Rule};
use crate::sharding::Sharding;
use systole_hlo::error::CompileError;
use systole_hlo::graph::elementwise::Neutral;
use systole_hlo::graph::number::{element_bytes, integer_range};
use systole_hlo::graph::{
    ArrayShape, Binary, CollectiveKind, Direction, Gather, Literal, Module, NodeId, Op, Scatter, Shape, WindowDim,
};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// A node with its division and its operands' parts.
pub struct Work<'a> {
    pub node: &'a Node,
    pub op: Op,
    pub rule: &'a Rule,
    pub division: &'a Division,
    /// By operand value.
    pub parts: &'a [NodeId],
    /// Whole sizes of the operands and results.
    pub whole: &'a [Vec<u64>],
    /// The module before: computations by their old numbers.
    pub old: &'a Module,
    /// The operation with its old computations, for what they mean.
    pub old_op: &'a Op,
}

impl Work<'_> {
    /// Atoms that divide dimension `d` of tensor `t`.
    fn axes(&self, t: usize, d: usize) -> Vec<Axis> {
        self.rule.tensors[t][d].iter().flat_map(|f| self.division[*f].iter().copied()).collect()
    }

    fn result(&self, i: usize) -> usize {
        self.rule.operands + i
    }

    /// Sizes of a tensor's part.
    fn local(&self, t: usize, out: &Out<'_>) -> Vec<u64> {
        resolve::sharding(self.rule, t, self.division).local(&self.whole[t], out.mesh)
    }

    /// The shape of the results' parts.
    fn shape(&self, out: &Out<'_>) -> Shape {
        let mut next = self.rule.operands;
        divided(
            &self.node.origin.shape,
            &mut |a: &ArrayShape| {
                let dims = self.local(next, out);
                next += 1;
                Shape::Array(ArrayShape { dims, minor_to_major: None, ..a.clone() })
            },
            &mut || {},
        )
    }
}

/// A shape with its arrays replaced, in order. Tokens are counted by `token`.
fn divided(shape: &Shape, f: &mut dyn FnMut(&ArrayShape) -> Shape, token: &mut dyn FnMut()) -> Shape {
    match shape {
        Shape::Array(a) => f(a),
        Shape::Tuple(t) => Shape::Tuple(t.iter().map(|s| divided(s, f, token)).collect()),
        Shape::Token => {
            token();
            Shape::Token
        }
    }
}

/// The results' parts, by result value, and what is left to combine.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "every other operation is done on parts as it is on the whole; its rule has decided that"
)]
pub fn emit(out: &mut Out<'_>, s: &mut Scope, w: &Work<'_>) -> Result<(Vec<NodeId>, Pending), CompileError> {
    let sums = resolve::reduced(w.rule, w.division);
    let one = |id: NodeId| (vec![id], Pending::none());
    Ok(match &w.op {
        Op::Constant(l) => one(constant(out, s, w, l)?),
        Op::Iota { dim } => one(iota(out, s, w, *dim)?),
        Op::Slice { dims } => {
            let mut dims = dims.clone();
            let local = w.local(0, out);
            for (d, slice) in dims.iter_mut().enumerate().filter(|(d, _)| !w.axes(0, *d).is_empty()) {
                slice.limit = local[d];
            }
            one(out.op(s, Op::Slice { dims }, w.parts)?)
        }
        Op::DynamicSlice { .. } => {
            let sizes = w.local(w.result(0), out);
            one(out.op(s, Op::DynamicSlice { sizes }, w.parts)?)
        }
        Op::Gather(g) => {
            let id = gather(out, s, w, g)?;
            (vec![id], Pending { axes: sums, by: sum_of(out.array(s, id)?.dtype) })
        }
        Op::Scatter(c) => scatter(out, s, w, c, sums)?,
        Op::Reduce { dims, .. } if !sums.is_empty() => reduce(out, s, w, dims, sums)?,
        Op::ReduceWindow { window, body } => {
            let n = w.node.results.len();
            let mut parts = w.parts.to_vec();
            let mut window = window.clone();
            for (d, dim) in window.iter_mut().enumerate() {
                let Some(e) = edges(w, 0, d, dim) else { continue };
                for (x, init) in parts.iter_mut().zip(&w.parts[n..]).take(n) {
                    *x = halo::with_edges(out, s, *x, d, &w.axes(0, d), e, Some(*init))?;
                }
                (dim.pad_low, dim.pad_high) = (0, 0);
            }
            let shape = w.shape(out);
            let id = out.shaped(s, Op::ReduceWindow { window, body: *body }, &parts, shape)?;
            (leaves(out, s, id)?, Pending::none())
        }
        Op::Convolution(c) => {
            let mut c = c.clone();
            let mut parts = w.parts.to_vec();
            for (i, dim) in c.window.iter_mut().enumerate() {
                let d = c.dims.input.spatial[i];
                let Some(e) = edges(w, 0, d, dim) else { continue };
                parts[0] = halo::with_edges(out, s, parts[0], d, &w.axes(0, d), e, None)?;
                (dim.pad_low, dim.pad_high) = (0, 0);
            }
            let id = out.shaped(s, Op::Convolution(c), &parts, w.shape(out))?;
            (vec![id], Pending { axes: sums, by: sum_of(out.array(s, id)?.dtype) })
        }
        Op::Dot { .. } => {
            let id = out.shaped(s, w.op.clone(), w.parts, w.shape(out))?;
            (vec![id], Pending { axes: sums, by: sum_of(out.array(s, id)?.dtype) })
        }
        Op::Collective { kind, devices } => {
            same_coordinates(out, w, kind, devices)?;
            (as_it_is(out, s, w)?, Pending::none())
        }
        _ => (as_it_is(out, s, w)?, Pending::none()),
    })
}

/// What parts of dimension `d` of tensor `t` need of their neighbours, if it is divided and a window moves along it.
fn edges(w: &Work<'_>, t: usize, d: usize, dim: &WindowDim) -> Option<Edges> {
    let [f] = w.rule.tensors[t][d][..] else { return None };
    if w.division[f].is_empty() || w.rule.factors[f].kind != Kind::Halo {
        return None;
    }
    let (to, place) = w.rule.places(f).last()?;
    rule::edges(dim, w.whole[t][d], w.whole[to][place])
}

/// How parts of a sum of that type are combined.
fn sum_of(dtype: DType) -> Binary {
    if dtype == DType::Pred { Binary::Or } else { Binary::Add }
}

/// The operation itself, on parts.
fn as_it_is(out: &mut Out<'_>, s: &mut Scope, w: &Work<'_>) -> Result<Vec<NodeId>, CompileError> {
    let mut next = w.parts.iter().copied();
    let operands: Vec<NodeId> =
        w.node.operands.iter().map(|t| rebuilt(out, s, t, &mut next)).collect::<Result<_, _>>()?;
    let shape = w.shape(out);
    let id = out.shaped(s, w.op.clone(), &operands, shape)?;
    leaves(out, s, id)
}

/// An operand from its values.
fn rebuilt(
    out: &Out<'_>,
    s: &mut Scope,
    tree: &Tree,
    next: &mut dyn Iterator<Item = NodeId>,
) -> Result<NodeId, CompileError> {
    match tree {
        Tree::Leaf(_) => next.next().ok_or_else(|| CompileError::internal("spmd", "an operand is missing")),
        Tree::Tuple(t) => {
            let parts = t.iter().map(|t| rebuilt(out, s, t, next)).collect::<Result<Vec<_>, _>>()?;
            out.op(s, Op::Tuple, &parts)
        }
    }
}

/// The arrays and tokens of a value, in order.
pub fn leaves(out: &Out<'_>, s: &mut Scope, id: NodeId) -> Result<Vec<NodeId>, CompileError> {
    let count = match s.b.shape(id) {
        Shape::Array(_) | Shape::Token => return Ok(vec![id]),
        Shape::Tuple(t) => t.len(),
    };
    let mut all = Vec::new();
    for index in 0..count {
        let part = out.op(s, Op::GetTupleElement { index }, &[id])?;
        all.extend(leaves(out, s, part)?);
    }
    Ok(all)
}

fn constant(out: &mut Out<'_>, s: &mut Scope, w: &Work<'_>, l: &Literal) -> Result<NodeId, CompileError> {
    let local = w.local(0, out);
    if let Some(element) = l.as_splat().filter(|_| local.iter().product::<u64>() > 0) {
        return Ok(s.b.constant(Literal::splat(l.dtype, &local, element)));
    }
    let mut x = s.b.constant(l.clone());
    for dim in 0..local.len() {
        let axes = w.axes(0, dim);
        if !axes.is_empty() {
            x = out.step(s, x, &Step::Slice { dim, axes }, &w.whole[0], Binary::Add)?;
        }
    }
    Ok(x)
}

fn iota(out: &Out<'_>, s: &mut Scope, w: &Work<'_>, dim: usize) -> Result<NodeId, CompileError> {
    let local = w.local(0, out);
    let dtype = w.node.origin.shape.as_array().map_or(DType::S32, |a| a.dtype);
    let axes = w.axes(0, dim);
    if axes.is_empty() {
        return out.shaped(s, Op::Iota { dim }, &[], Shape::array(dtype, &local));
    }
    // Counted in s32, so that no type rounds twice.
    let x = out.shaped(s, Op::Iota { dim }, &[], Shape::array(DType::S32, &local))?;
    let at = out.offset(s, &axes, local[dim])?;
    let at = out.spread(s, at, &local)?;
    let x = out.binary(s, Binary::Add, x, at)?;
    out.convert(s, x, dtype)
}

/// Whether rows `index` are in this device's part of a dimension: `(index in the part, whether it is there)`.
fn shifted(
    out: &Out<'_>,
    s: &mut Scope,
    index: NodeId,
    axes: &[Axis],
    local: u64,
) -> Result<(NodeId, NodeId), CompileError> {
    let dims = out.array(s, index)?.dims;
    let at = out.offset(s, axes, local)?;
    let at = out.spread(s, at, &dims)?;
    let x = out.binary(s, Binary::Sub, index, at)?;
    let zero = out.splat(s, DType::S32, &dims, 0.0)?;
    let size = out.splat(s, DType::S32, &dims, local as f64)?;
    let above = out.compare(s, Direction::Ge, x, zero)?;
    let below = out.compare(s, Direction::Lt, x, size)?;
    Ok((x, out.binary(s, Binary::And, above, below)?))
}

/// The columns of an array of indices, `s32`, without the vector's dimension.
fn columns(out: &Out<'_>, s: &mut Scope, indices: NodeId, vector: usize) -> Result<Vec<NodeId>, CompileError> {
    let a = out.array(s, indices)?;
    // Beyond what s32 has, indices are out of bounds whatever they are.
    let mut indices = indices;
    if a.dtype.host_bytes() > 4 || a.dtype.class() == DTypeClass::Unsigned && a.dtype.host_bytes() == 4 {
        let low = if a.dtype.class() == DTypeClass::Unsigned { 0.0 } else { -1.0 };
        let (low, high) = (out.scalar(s, a.dtype, low), out.scalar(s, a.dtype, f64::from(i32::MAX)));
        indices = out.op(s, Op::Clamp, &[low, indices, high])?;
    }
    let indices = out.convert(s, indices, DType::S32)?;
    if vector == a.dims.len() {
        return Ok(vec![indices]);
    }
    let mut rest = a.dims.clone();
    rest.remove(vector);
    (0..a.dims[vector])
        .map(|i| {
            let one = out.slice(s, indices, vector, i, i + 1)?;
            out.reshape(s, one, &rest)
        })
        .collect()
}

/// Columns as an array of indices again.
fn joined(out: &Out<'_>, s: &mut Scope, columns: &[NodeId], vector: usize) -> Result<NodeId, CompileError> {
    let dims = out.array(s, columns[0])?.dims;
    if vector == dims.len() && columns.len() == 1 {
        return Ok(columns[0]);
    }
    let mut with = dims.clone();
    with.insert(vector, 1);
    let parts = columns.iter().map(|c| out.reshape(s, *c, &with)).collect::<Result<Vec<_>, _>>()?;
    out.op(s, Op::Concatenate { dim: vector }, &parts)
}

/// Rows that this device has, zeros for the others: the sum over devices is the whole.
fn gather(out: &mut Out<'_>, s: &mut Scope, w: &Work<'_>, g: &Gather) -> Result<NodeId, CompileError> {
    let local = w.local(0, out);
    let mut g = g.clone();
    for (d, size) in g.slice_sizes.iter_mut().enumerate() {
        if *size == w.whole[0][d] {
            *size = local[d];
        }
    }
    let divided: Vec<usize> =
        (g.map.collapsed.iter().copied()).filter(|&d| g.map.start.contains(&d) && !w.axes(0, d).is_empty()).collect();
    for &d in &divided {
        g.slice_sizes[d] = 1;
    }
    let shape = w.shape(out);
    if divided.is_empty() {
        return out.shaped(s, Op::Gather(g), w.parts, shape);
    }
    let mut columns = columns(out, s, w.parts[1], g.map.vector)?;
    let mut inside: Option<NodeId> = None;
    for &d in &divided {
        let c = g.map.start.iter().position(|x| *x == d).unwrap_or(0);
        // As the whole gather does: indices beyond the end mean the last row.
        let dims = out.array(s, columns[c])?.dims;
        let zero = out.splat(s, DType::S32, &dims, 0.0)?;
        let last = out.splat(s, DType::S32, &dims, w.whole[0][d].saturating_sub(1) as f64)?;
        let index = out.op(s, Op::Clamp, &[zero, columns[c], last])?;
        let (x, there) = shifted(out, s, index, &w.axes(0, d), local[d])?;
        columns[c] = x;
        inside = Some(match inside {
            Some(y) => out.binary(s, Binary::And, y, there)?,
            None => there,
        });
    }
    let (vector, offsets) = (g.map.vector, g.map.window.clone());
    let mut rest = out.array(s, w.parts[1])?.dims;
    let indices = joined(out, s, &columns, vector.min(rest.len()))?;
    g.indices_are_sorted = false;
    let x = out.shaped(s, Op::Gather(g), &[w.parts[0], indices], shape)?;
    if vector < rest.len() {
        rest.remove(vector);
    }
    let a = out.array(s, x)?;
    let batch: Vec<usize> = (0..a.dims.len()).filter(|d| !offsets.contains(d)).collect();
    let Some(inside) = inside else { return Ok(x) };
    let pred = out.shaped(s, Op::Broadcast { dims: batch }, &[inside], Shape::array(DType::Pred, &a.dims))?;
    let zeros = out.splat(s, a.dtype, &a.dims, 0.0)?;
    out.op(s, Op::Select, &[pred, x, zeros])
}

/// Indices count from this device's part; what falls outside is dropped by the operation itself. Where updates are
/// divided, devices add what they have to zeros, all but the first ones along those atoms.
fn scatter(
    out: &mut Out<'_>,
    s: &mut Scope,
    w: &Work<'_>,
    c: &Scatter,
    sums: Vec<Axis>,
) -> Result<(Vec<NodeId>, Pending), CompileError> {
    let n = w.node.results.len();
    let local = w.local(0, out);
    let mut c = c.clone();
    let mut parts = w.parts.to_vec();
    let divided: Vec<usize> =
        (c.map.collapsed.iter().copied()).filter(|&d| c.map.start.contains(&d) && !w.axes(0, d).is_empty()).collect();
    if !divided.is_empty() {
        let mut columns = columns(out, s, parts[n], c.map.vector)?;
        for &d in &divided {
            let at = c.map.start.iter().position(|x| *x == d).unwrap_or(0);
            let (x, there) = shifted(out, s, columns[at], &w.axes(0, d), local[d])?;
            let dims = out.array(s, x)?.dims;
            let outside = out.splat(s, DType::S32, &dims, -1.0)?;
            columns[at] = out.op(s, Op::Select, &[there, x, outside])?;
        }
        let rank = out.array(s, parts[n])?.dims.len();
        parts[n] = joined(out, s, &columns, c.map.vector.min(rank))?;
        c.indices_are_sorted = false;
    }
    let dtype = out.array(s, parts[0])?.dtype;
    if !sums.is_empty() {
        let at = out.coordinate(s, &sums)?;
        let zero = out.scalar(s, DType::S32, 0.0);
        let first = out.compare(s, Direction::Eq, at, zero)?;
        let first = out.spread(s, first, &local)?;
        let zeros = out.splat(s, dtype, &local, 0.0)?;
        parts[0] = out.op(s, Op::Select, &[first, parts[0], zeros])?;
    }
    let shape = w.shape(out);
    let id = out.shaped(s, Op::Scatter(c), &parts, shape)?;
    Ok((leaves(out, s, id)?, Pending { axes: sums, by: Binary::Add }))
}

/// A reduction of which devices have parts: each reduces its own from what changes nothing, and the initial value comes in
/// once, at the end. What no collective can combine is gathered along a new dimension and reduced again.
fn reduce(
    out: &mut Out<'_>,
    s: &mut Scope,
    w: &Work<'_>,
    dims: &[usize],
    sums: Vec<Axis>,
) -> Result<(Vec<NodeId>, Pending), CompileError> {
    let Op::Reduce { body, .. } = w.op else { return Err(CompileError::internal("spmd", "no reduction")) };
    let Op::Reduce { body: old_body, .. } = w.old_op else {
        return Err(CompileError::internal("spmd", "no reduction"));
    };
    let n = w.node.results.len();
    let shape = w.shape(out);
    let dtype = out.array(s, w.parts[0])?.dtype;
    let known = if n == 1 { rule::combiner(w.old, *old_body) } else { None };
    if let Some((op, element)) = known.and_then(|op| Some((op, neutral(op, dtype)?))) {
        let from = s.b.constant(Literal::splat(dtype, &[], &element));
        let x = out.shaped(s, w.op.clone(), &[w.parts[0], from], shape)?;
        let pending = Pending { axes: sums, by: op };
        if is_all(s, w.parts[1], &element) {
            return Ok((vec![x], pending));
        }
        // The parts are combined here, since the initial value comes behind them.
        let dims = out.array(s, x)?.dims;
        let part = Sharding::replicated(dims.len());
        let all = out.reshard(s, x, &dims, &part, &pending, &part)?;
        let init = out.spread(s, w.parts[1], &dims)?;
        return Ok((vec![out.binary(s, op, init, all)?], Pending::none()));
    }
    // Parts in the order of the dimension, so that ties fall as they would.
    let id = out.shaped(s, w.op.clone(), w.parts, shape.clone())?;
    let mut stacked = Vec::new();
    for x in leaves(out, s, id)? {
        let a = out.array(s, x)?;
        let mut one = a.dims.clone();
        one.insert(0, 1);
        let x = out.reshape(s, x, &one)?;
        stacked.push(out.step(s, x, &Step::AllGather { dim: 0, axes: in_order(w, dims) }, &one, Binary::Add)?);
    }
    stacked.extend(&w.parts[n..]);
    let id = out.shaped(s, Op::Reduce { dims: vec![0], body }, &stacked, shape)?;
    Ok((leaves(out, s, id)?, Pending::none()))
}

/// The atoms of reduced dimensions in the order in which elements come.
fn in_order(w: &Work<'_>, dims: &[usize]) -> Vec<Axis> {
    dims.iter().flat_map(|d| w.axes(0, *d)).collect()
}

/// The element that changes nothing under an operation; `None` where that is not known.
fn neutral(op: Binary, dtype: DType) -> Option<Vec<u8>> {
    let (low, high) = match dtype.class() {
        DTypeClass::Pred => (vec![0], vec![1]),
        DTypeClass::Float if !dtype.is_byte_float() => {
            (element_bytes(dtype, f64::NEG_INFINITY), element_bytes(dtype, f64::INFINITY))
        }
        DTypeClass::Signed | DTypeClass::Unsigned => {
            let (low, high) = integer_range(dtype)?;
            let bytes = |v: i128| v.to_le_bytes()[..dtype.host_bytes()].to_vec();
            (bytes(low), bytes(high))
        }
        DTypeClass::Float | DTypeClass::Complex => (Vec::new(), Vec::new()),
    };
    let known = match op.neutral()? {
        Neutral::Zero => element_bytes(dtype, 0.0),
        Neutral::One => element_bytes(dtype, 1.0),
        Neutral::Least => low,
        Neutral::Greatest => high,
        Neutral::Ones if dtype == DType::Pred => vec![1],
        Neutral::Ones => element_bytes(dtype, -1.0),
    };
    (!known.is_empty()).then_some(known)
}

/// Whether a value is a constant of these elements.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
fn is_all(s: &Scope, x: NodeId, element: &[u8]) -> bool {
    match &s.b.node(x).op {
        Op::Constant(l) => l.uniform() == Some(element),
        _ => false,
    }
}

/// That a collective of a manual computation joins devices whose other coordinates agree: those have the same part.
fn same_coordinates(
    out: &Out<'_>,
    w: &Work<'_>,
    kind: &CollectiveKind,
    devices: &systole_hlo::graph::Collective,
) -> Result<(), CompileError> {
    let used: Vec<Axis> = w.division.concat();
    if used.is_empty() {
        return Ok(());
    }
    let parts = out.mesh.devices();
    let at = |id: u64| out.mesh.coordinate(out.mesh.place_of(id % parts), &used);
    let fits = match kind {
        CollectiveKind::Permute { pairs } => pairs.iter().all(|(a, b)| at(*a) == at(*b)),
        CollectiveKind::AllReduce { .. }
        | CollectiveKind::AllGather { .. }
        | CollectiveKind::ReduceScatter { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Broadcast
        | CollectiveKind::RaggedAllToAll
        | CollectiveKind::Reduce { .. } => {
            !devices.groups.is_empty() && devices.groups.iter().all(|g| g.iter().all(|d| at(*d) == at(g[0])))
        }
    };
    if fits {
        return Ok(());
    }
    let message = format!("{} joins devices along axes that are not manual", w.node.origin.name);
    Err(CompileError::unsupported(w.node.origin.span, message))
}

/// Why operands of an operation were gathered: the dimensions that cannot be divided.
pub fn whole_dims(rule: &Rule, tensor: usize) -> Vec<usize> {
    let whole = |fs: &Vec<usize>| fs.iter().any(|f| rule.factors[*f].kind == Kind::Whole);
    rule.tensors[tensor].iter().enumerate().filter(|(_, fs)| whole(fs)).map(|(d, _)| d).collect()
}
