//! Specs of loop kernels from roots and their fused producers.

use super::multiply_add::multiply_adds;
use crate::plan::fuse::{DimMap, Fuser, Leaf, Materialise};
use crate::plan::group::Groups;
use crate::plan::view::{Form, View, layout_of};
use smallvec::SmallVec;
use systole_codegen::emit::loops::spec::{
    Access, Body, Expr, ExprId, ExprNode, ExprOp, Index, Input, LaneMap, LoopSpec, Output, ReduceSpec, Reduction,
};
use systole_hlo::graph::{ArrayShape, Binary, Computation, Conv, Module, NodeId, Op, WindowDim};
use systole_isa::{ChipConfig, DType};

/// Where the planner has a materialised node.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    Array(View),
    /// In scalar memory.
    Scalar(DType),
}

/// What the spec builder needs to know of the planner.
pub trait Resolve {
    /// The node's place; `lanes`: it must be in lanes form.
    fn resolve(&mut self, node: NodeId, lanes: bool) -> Resolved;
    /// The node's array with a last dimension of size 1 appended, in lanes form.
    fn extended(&mut self, node: NodeId) -> View;
    /// The node's array with its first `rank` dimensions, in lanes form; all others have size 1.
    fn leading(&mut self, node: NodeId, rank: usize) -> View;
}

/// A kernel to be made: its spec, its operands in parameter order, and the form of its results.
pub struct Fused<T> {
    pub spec: T,
    pub inputs: Vec<(NodeId, Resolved)>,
    pub results: Vec<(Vec<u64>, DType, Form)>,
}

fn array(comp: &Computation, id: NodeId) -> &ArrayShape {
    comp.node(id).shape.as_array().expect("roots are arrays")
}

/// Where iteration dimensions (the last is the columns, the one before it the rows) are in a spec.
struct Order {
    /// Iteration dimension to outer number, or `outer` for rows, `outer + 1` for columns.
    position: Vec<usize>,
    outer: usize,
}

impl Order {
    fn natural(n: usize) -> Order {
        Order { position: (0..n).collect(), outer: n - 2 }
    }

    fn map(&self, map: &DimMap) -> Vec<Option<usize>> {
        map.iter().map(|m| m.map(|d| self.position[d])).collect()
    }

    fn index(&self, i: &Index) -> Index {
        let mut out = Index { outer: SmallVec::from_elem(0, self.outer), offset: i.offset, ..Index::default() };
        for (d, &c) in i.outer.iter().enumerate() {
            match self.position[d] {
                p if p == self.outer => out.row += c,
                p if p == self.outer + 1 => out.column += c,
                p => out.outer[p] += c,
            }
        }
        out
    }

    fn expr(&self, mut e: Expr) -> Expr {
        for n in &mut e.nodes {
            if let ExprOp::Index(i) = &mut n.op {
                *i = self.index(i);
            }
        }
        e
    }
}

fn inputs(leaves: &[Leaf], order: &Order, resolve: &mut dyn Resolve) -> (Vec<Input>, Vec<(NodeId, Resolved)>) {
    let mut specs = Vec::new();
    let mut places = Vec::new();
    for leaf in leaves {
        let mut map = order.map(&leaf.map);
        let column = map.iter().position(|&d| d == Some(order.outer + 1));
        let mut place = resolve.resolve(leaf.node, column.is_some());
        // Only sizes of 1 follow the dimension along lanes: without them it is the last.
        if let (Some(d), Resolved::Array(v)) = (column, &place)
            && d + 1 < v.dims.len()
        {
            map.truncate(d + 1);
            place = Resolved::Array(resolve.leading(leaf.node, d + 1));
        }
        specs.push(match &place {
            Resolved::Array(v) => Input::Array(v.cut_access(&map, &leaf.cut, order.outer)),
            Resolved::Scalar(t) => Input::Scalar(*t),
        });
        places.push((leaf.node, place));
    }
    (specs, places)
}

fn padded(rows: u64, chip: &ChipConfig) -> u32 {
    let s = chip.core.sublanes as u64;
    (if rows <= 1 { 1 } else { rows.div_ceil(s) * s }) as u32
}

fn output(dtype: DType, dims: &[u64], form: Form, map: &[Option<usize>], outer: usize, chip: &ChipConfig) -> Access {
    let layout = layout_of(dtype, dims, form, chip);
    let view = View { buf: crate::plan::view::BufId(0), dims: dims.to_vec(), form, layout };
    let mut a = view.access(map, outer);
    // A result whose last dimension has size 1 is written in every lane.
    if let LaneMap::Indexed { .. } = a.lane {
        a.lane = LaneMap::Replicated;
    }
    a
}

/// What kernels are made from: operations of a computation, as groups, for a chip.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub module: &'a Module,
    pub comp: &'a Computation,
    pub groups: &'a Groups,
    pub chip: &'a ChipConfig,
}

/// The kernel of pointwise roots and reductions along the last dimension. `rows_form`: results of pointwise roots are
/// wanted one element a row.
pub fn loop_spec(
    source: Source<'_>,
    roots: &[NodeId],
    rows_form: bool,
    resolve: &mut dyn Resolve,
) -> Result<Fused<LoopSpec>, Materialise> {
    let Source { module, comp, groups, chip } = source;
    let mut dims = groups.points(comp, roots);
    if rows_form {
        dims.push(1);
    }
    let mut f = Fuser::of(module, comp, groups, roots, &dims);
    let mut found = Vec::new();
    for &root in roots {
        let shape = array(comp, root).clone();
        let form = if shape.dims == dims { Form::Lanes } else { Form::Rows };
        let map = f.map_of(root);
        found.push((f.value(root, &map)?, map, shape, form));
    }
    let n = f.dims.len();
    let order = Order::natural(n);
    let (specs, places) = inputs(&f.leaves, &order, resolve);
    let access = |(node, map, shape, form): &(u32, DimMap, ArrayShape, Form)| Output {
        node: *node,
        access: output(shape.dtype, &shape.dims, *form, &order.map(map), order.outer, chip),
    };
    let mut wanted: Vec<ExprId> = found.iter().map(|f| f.0).collect();
    let expr = multiply_adds(order.expr(f.expr), &mut wanted);
    found.iter_mut().zip(wanted).for_each(|(f, node)| f.0 = node);
    let spec = LoopSpec {
        outer: f.dims[..n - 2].iter().map(|&d| d as u32).collect(),
        rows: padded(f.dims[n - 2], chip),
        columns: f.dims[n - 1] as u32,
        inputs: specs,
        outputs: found.iter().map(access).collect(),
        expr,
    };
    let results = found.into_iter().map(|(_, _, shape, form)| (shape.dims, shape.dtype, form)).collect();
    Ok(Fused { spec, inputs: places, results })
}

/// The dimension to lie along sublanes in a reduction over what would, of every element of one array with every one of another
/// (distances, say): that of the one whose elements do not lie along lanes. Each register then is of results, to which what
/// is reduced is added one after the other, and nothing is left to add up across sublanes.
fn pairs(f: &Fuser, is_reduced: &dyn Fn(usize) -> bool, sublanes: u64) -> Option<usize> {
    let (rows, columns) = (f.dims.len() - 2, f.dims.len() - 1);
    if !is_reduced(rows) || is_reduced(columns) {
        return None;
    }
    let d = (0..rows).rfind(|&d| !is_reduced(d) && f.dims[d] >= sublanes)?;
    let follows = |leaf: &Leaf, d: usize| leaf.map.contains(&Some(d));
    let of = |one: usize, other: usize| f.leaves.iter().any(|l| follows(l, one) && !follows(l, other));
    let both = f.leaves.iter().any(|l| follows(l, d) && follows(l, columns));
    (!both && of(d, columns) && of(columns, d)).then_some(d)
}

/// The kernel of a reduction, or what must be an array of its own first.
type Reduced = Result<Fused<ReduceSpec>, Materialise>;

/// The kernel of any other reduction.
pub fn reduce_spec(source: Source<'_>, root: NodeId, resolve: &mut dyn Resolve) -> Reduced {
    let Source { module, comp, groups, chip } = source;
    let node = comp.node(root);
    let Op::Reduce { dims: reduced, body } = &node.op else { return Err(Materialise(root)) };
    let operand = array(comp, node.operands[0]);
    let mut f = Fuser::new(module, comp, groups, root, &operand.dims);
    let whole = f.identity();
    let reduction = f.reduction(&node.operands, *body, &whole)?;
    let n = f.dims.len();
    let added = n - operand.rank();
    let is_reduced = |d: usize| d >= added && reduced.contains(&(d - added));
    let row = pairs(&f, &is_reduced, u64::from(chip.core.sublanes)).unwrap_or(n - 2);
    let mut position = vec![0; n];
    let mut outer = Vec::new();
    for wanted in [false, true] {
        for d in (0..n - 1).filter(|&d| d != row && is_reduced(d) == wanted) {
            position[d] = outer.len();
            outer.push(f.dims[d] as u32);
        }
    }
    let kept_outer = (0..n - 1).filter(|&d| d != row && !is_reduced(d)).count() as u32;
    (position[row], position[n - 1]) = (n - 2, n - 1);
    let order = Order { position, outer: n - 2 };
    let (specs, places) = inputs(&f.leaves, &order, resolve);
    let (reduce_rows, reduce_columns) = (is_reduced(row), is_reduced(n - 1));
    let form = if reduce_columns { Form::Rows } else { Form::Lanes };
    let kept: DimMap = (added..n).filter(|&d| !is_reduced(d)).map(|d| (f.dims[d] != 1).then_some(d)).collect();
    let mut outputs = Vec::new();
    let mut results = Vec::new();
    for leaf in node.shape.leaves() {
        outputs.push(output(leaf.dtype, &leaf.dims, form, &order.map(&kept), order.outer, chip));
        results.push((leaf.dims.clone(), leaf.dtype, form));
    }
    let rows = f.dims[row];
    let mut wanted: Vec<ExprId> = reduction.args.iter().chain(&reduction.inits).copied().collect();
    let expr = multiply_adds(order.expr(f.expr), &mut wanted);
    let reduction = Reduction { inits: wanted.split_off(reduction.args.len()), args: wanted, ..reduction };
    let spec = ReduceSpec {
        outer,
        kept_outer,
        rows: if reduce_rows { rows as u32 } else { padded(rows, chip) },
        reduce_rows,
        columns: f.dims[n - 1] as u32,
        reduce_columns,
        inputs: specs,
        expr,
        reduction,
        outputs,
        resumed: false,
        apart: false,
    };
    Ok(Fused { spec, inputs: places, results })
}

/// The kernel of a window reduction without padding or base dilation, whose window leaves the last dimension alone.
/// Its operands are arrays in lanes form.
pub fn window_spec(source: Source<'_>, root: NodeId, resolve: &mut dyn Resolve) -> Reduced {
    let Source { module, comp, groups, chip } = source;
    let node = comp.node(root);
    let Op::ReduceWindow { window, body } = &node.op else { return Err(Materialise(root)) };
    let mut window = window.clone();
    let mut out = node.shape.leaves()[0].clone();
    // A window along the last dimension: a dimension of size 1 is appended, so that the last one is left alone.
    let extended = window.last().is_some_and(|w| w.size != 1 || w.stride != 1);
    if extended {
        window.push(WindowDim::TRIVIAL);
        out.dims.push(1);
    }
    let window = &window;
    let count = node.operands.len() / 2;
    let mut f = Fuser::new(module, comp, groups, root, &out.dims);
    let n = f.dims.len();
    let added = n - out.rank();
    let windowed: Vec<usize> = (0..window.len()).filter(|&d| window[d].size != 1).collect();
    let outer_kept = n - 2;
    let outer = outer_kept + windowed.len();
    let mut position: Vec<usize> = (0..n - 2).collect();
    position.extend([outer, outer + 1]);
    let order = Order { position, outer };
    // The operands are leaves with accesses of their own; initial values may be fused.
    let args: Vec<_> = node.operands[..count].iter().map(|&o| f.leaf(o, &DimMap::new())).collect();
    let mut inits = Vec::new();
    for &o in &node.operands[count..] {
        inits.push(f.value(o, &DimMap::new())?);
    }
    let body = crate::plan::fuse::scalar_body(module.computation(*body)).ok_or(Materialise(root))?;
    let mut specs = Vec::new();
    let mut places = Vec::new();
    for (i, leaf) in f.leaves.iter().enumerate() {
        let place = match extended && i < count {
            true => Resolved::Array(resolve.extended(leaf.node)),
            false => resolve.resolve(leaf.node, i < count),
        };
        specs.push(match &place {
            Resolved::Array(v) if i < count => Input::Array(window_access(v, window, &windowed, added, &order)),
            Resolved::Array(v) => Input::Array(v.access(&order.map(&leaf.map), outer)),
            Resolved::Scalar(t) => Input::Scalar(*t),
        });
        places.push((leaf.node, place));
    }
    let kept: DimMap = (added..n).map(|d| (f.dims[d] != 1).then_some(d)).collect();
    let mut outputs = Vec::new();
    let mut results = Vec::new();
    for leaf in node.shape.leaves() {
        outputs.push(output(leaf.dtype, &out.dims, Form::Lanes, &order.map(&kept), outer, chip));
        results.push((out.dims.clone(), leaf.dtype, Form::Lanes));
    }
    let sizes = f.dims[..n - 2].iter().map(|&d| d as u32);
    let spec = ReduceSpec {
        outer: sizes.chain(windowed.iter().map(|&d| window[d].size as u32)).collect(),
        kept_outer: outer_kept as u32,
        rows: padded(f.dims[n - 2], chip),
        reduce_rows: false,
        columns: f.dims[n - 1] as u32,
        reduce_columns: false,
        inputs: specs,
        expr: order.expr(f.expr),
        reduction: Reduction { args, inits, body },
        outputs,
        resumed: false,
        apart: false,
    };
    Ok(Fused { spec, inputs: places, results })
}

/// The kernel of a convolution with a group for each channel, on the vector unit: sums over the window of products with weights of
/// each channel. `x` is `[N, spatial.., C]`, `weights` `[spatial.., 1, C]`.
pub fn depthwise_spec(conv: &Conv, x: &View, weights: &View, out: &ArrayShape, chip: &ChipConfig) -> ReduceSpec {
    let n = out.rank();
    let all = std::iter::once(WindowDim::TRIVIAL).chain(conv.window.iter().copied()).chain([WindowDim::TRIVIAL]);
    let window: Vec<WindowDim> = all.collect();
    let windowed: Vec<usize> = (0..n).filter(|&d| window[d].size != 1).collect();
    let kept = n - 2;
    let outer = kept + windowed.len();
    let mut position: Vec<usize> = (0..kept).collect();
    position.extend([outer, outer + 1]);
    let order = Order { position, outer };
    let strides = weights.layout.row_strides();
    let mut of_weights = window_access(weights, &[], &[], 0, &order);
    for (k, &d) in windowed.iter().enumerate() {
        of_weights.outer[kept + k] = strides[d - 1] as i64;
    }
    let seen = window_access(x, &window, &windowed, 0, &order);
    let mut nodes: Vec<ExprNode> = Vec::new();
    let mut node = |op, args: &[u32], dtype| {
        nodes.push(ExprNode { op, args: args.into(), dtype });
        nodes.len() as u32 - 1
    };
    let mut operand = |i: u32, dtype: DType| {
        let read = node(ExprOp::Input(i), &[], dtype);
        if dtype == out.dtype { read } else { node(ExprOp::Convert, &[read], out.dtype) }
    };
    let factors = [operand(0, x.dtype()), operand(1, weights.dtype())];
    let product = node(ExprOp::Binary(Binary::Mul), &factors, out.dtype);
    let zero = node(ExprOp::Const(smallvec::smallvec![0; out.dtype.host_bytes()]), &[], out.dtype);
    let param = |i| ExprNode { op: ExprOp::Param(i), args: SmallVec::new(), dtype: out.dtype };
    let sum = ExprNode { op: ExprOp::Binary(Binary::Add), args: smallvec::smallvec![0, 1], dtype: out.dtype };
    let body = Body { nodes: vec![param(0), param(1), sum], roots: vec![2] };
    let map: Vec<Option<usize>> = (0..n).map(|d| (out.dims[d] != 1).then_some(order.position[d])).collect();
    let sizes = out.dims[..kept].iter().map(|&d| d as u32);
    ReduceSpec {
        outer: sizes.chain(windowed.iter().map(|&d| window[d].size as u32)).collect(),
        kept_outer: kept as u32,
        rows: padded(out.dims[kept], chip),
        reduce_rows: false,
        columns: out.dims[n - 1] as u32,
        reduce_columns: false,
        inputs: vec![Input::Array(seen), Input::Array(of_weights)],
        expr: Expr { nodes, reductions: Vec::new() },
        reduction: Reduction { args: vec![product], inits: vec![zero], body },
        outputs: vec![output(out.dtype, &out.dims, Form::Lanes, &map, outer, chip)],
        resumed: false,
        apart: false,
    }
}

fn window_access(v: &View, window: &[WindowDim], windowed: &[usize], added: usize, order: &Order) -> Access {
    let strides = v.layout.row_strides();
    let mut a = Access {
        dtype: v.dtype(),
        component_rows: v.layout.total_rows() as i64,
        outer: smallvec::smallvec![0; order.outer],
        row: 0,
        offset: 0,
        lane: LaneMap::Tile { tile_rows: v.layout.plane_rows() as i64 },
    };
    for (d, w) in window.iter().enumerate().take(window.len().saturating_sub(1)) {
        let step = strides[d] as i64 * w.stride as i64;
        match order.position[d + added] {
            p if p == order.outer => a.row += step,
            p => a.outer[p] += step,
        }
        if let Some(k) = windowed.iter().position(|&x| x == d) {
            a.outer[order.outer - windowed.len() + k] = strides[d] as i64 * w.window_dilation as i64;
        }
    }
    a
}
