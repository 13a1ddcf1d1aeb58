//! Whether what a kernel computes goes together: the parts of its spec refer to each other as they should, and operations are
//! of types that they take.

use super::{Check, ensure};
use crate::plan::kernel_semaphores;
use crate::plan::spec::KernelSpec;
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::RecurrenceSpec;
use systole_codegen::emit::loops::spec::{
    Access, Body as Function, Expr, ExprNode, ExprOp, Index, Input, LaneMap, LoopSpec, Output, ReduceSpec, Reduction,
};
use systole_codegen::emit::moves::spec::MoveSpec;
use systole_codegen::emit::mxu::{Array, Contraction, Dim, FinishInput, RhsForm, Start, StartInput};
use systole_codegen::emit::rows::{RowsSpec, ScatterSpec};
use systole_codegen::emit::sort::{Pass, SortSpec, passes};
use systole_hlo::graph::{Binary, Direction};
use systole_isa::dma::MAX_DMA_DIMS;
use systole_isa::dtype::DTypeClass;
use systole_isa::{ChipConfig, DType};

/// Whether the parts of a spec refer to each other as they should.
pub(super) fn sound(spec: &KernelSpec, chip: &ChipConfig) -> Check {
    match spec {
        KernelSpec::Body(body) => sound_body(body, There::vmem(chip)),
        KernelSpec::Blocks { spec, .. } => {
            sound_body(&spec.body, There::all(chip))?;
            let arrays = match &spec.body {
                Body::Loop(s) => s.inputs.len() + s.outputs.len(),
                Body::Reduce(s) => s.inputs.len() + s.outputs.len(),
                Body::Move(_) => 2,
                Body::Pick(_) => 3,
            };
            // Lane starts of moves are operands too.
            ensure(spec.operands.len() >= arrays, || "fewer operands than arrays".into())
        }
        KernelSpec::Product { contraction, .. } => sound_product(contraction, chip),
        KernelSpec::Gather { rows, .. } => {
            sound_rows(rows)?;
            let whole = !rows.near || !rows.single && rows.can_be_near();
            ensure(whole, || "rows of a table in vector memory that share words".into())
        }
        KernelSpec::Scatter(s) => sound_scatter(s),
        KernelSpec::Fetch(s) => {
            let some = s.parts.iter().all(|p| p.rows() > 0 && p.dims.len() <= MAX_DMA_DIMS);
            ensure(some && !s.parts.is_empty(), || "a fetch of nothing".into())?;
            let Some(a) = s.ahead else { return Ok(()) };
            let own = u64::from(a.semaphore)..u64::from(a.semaphore) + u64::from(a.slots);
            let free = u64::from(kernel_semaphores(chip))..u64::from(chip.core.semaphores);
            ensure(a.slots > 0 && free.contains(&own.start) && own.end <= free.end, || {
                format!("copies ahead have no semaphores {} to {}", own.start, own.end)
            })
        }
        KernelSpec::Sort { sort, pass } => sound_sort(sort, pass, chip),
        KernelSpec::Cholesky(s) => ensure(s.rows > 0, || "matrices without rows".into()),
        KernelSpec::Solve(s) => ensure(s.matrices.rows > 0, || "matrices without rows".into()),
        KernelSpec::Recurrence(s) => sound_recurrence(s, There::vmem(chip)),
        KernelSpec::Mosaic(s) => ensure(!s.body.is_empty(), || "a kernel without a body".into()),
    }
}

/// Whether 32 bits count all that a product's geometry counts: rows of its operands and results, whose lines are rounded up to whole
/// registers, and its blocks.
fn near_product(c: &Contraction, chip: &ChipConfig) -> Check {
    let rounded = chip.core.sublanes.max(chip.mxu.count);
    let planes = |size: u32| size.div_ceil(chip.core.lanes);
    let dims = || c.batch.iter().chain(&c.rows).chain(&c.taps);
    let along = |array: &Array, step: fn(&Dim) -> u32, own: [(u32, u32); 2]| {
        let steps = dims().map(|d| (d.count, step(d))).chain(own);
        let reach = within(steps.map(|(n, by)| (i64::from(by), n.max(rounded))));
        reach.saturating_add(u64::from(array.total_rows))
    };
    let (rows, columns) = match c.rhs_form {
        RhsForm::LanesN { k_stride } => ((c.k, k_stride), c.n),
        RhsForm::LanesK { n_stride } => ((c.n, n_stride), c.k),
    };
    let blocks = |dims: &[Dim]| dims.iter().fold(1, |all: u64, d| all.saturating_mul(u64::from(d.count)));
    let all = [
        along(&c.lhs, |d| d.lhs, [(1, 0), (planes(c.k), c.lhs.plane_rows)]),
        along(&c.rhs, |d| d.rhs, [rows, (planes(columns), c.rhs.plane_rows)]),
        along(&c.out, |d| d.out, [(1, 0), (planes(c.n), c.out.plane_rows)]),
        blocks(&c.batch).saturating_mul(blocks(&c.rows)),
        blocks(&c.taps).saturating_mul(u64::from(c.k)),
        blocks(&c.taps).saturating_mul(u64::from(c.n)),
    ];
    all.into_iter().try_for_each(|part| counted([part]))
}

fn sound_product(c: &Contraction, chip: &ChipConfig) -> Check {
    let dims = c.batch.iter().chain(&c.rows).chain(&c.taps);
    let sizes = dims.map(|d| d.count).chain([c.k, c.n]).all(|n| n > 0);
    ensure(sizes && !c.rows.is_empty(), || "a product without elements".into())?;
    near_product(c, chip)?;
    if let Some(s) = &c.start {
        sound_start(s, c.lhs.dtype)?;
    }
    if let Some(f) = &c.follow {
        sound_loop(&f.spec, There::vmem(chip))?;
        ensure(f.reads_results(c), || "a loop over results that the product has not".into())?;
    }
    let Some(f) = &c.finish else {
        return ensure(c.extras.is_empty(), || "operands of an epilogue without one".into());
    };
    let known = |i: &FinishInput| !matches!(i, FinishInput::Extra(n) if *n as usize >= c.extras.len());
    ensure(f.inputs.iter().all(known), || "an operand that the product has not".into())?;
    let of = |i: &FinishInput| match i {
        FinishInput::Extra(n) => c.extras[*n as usize].1,
        FinishInput::Sums(t) | FinishInput::Columns { dtype: t, .. } | FinishInput::Scalar(t) => *t,
    };
    sound_formula(&f.nodes, f.inputs.iter().map(of).collect())?;
    ensure((f.root as usize) < f.nodes.len(), || "an epilogue of what there is not".into())
}

fn sound_rows(r: &RowsSpec) -> Check {
    ensure(r.planes > 0 && r.height > 0, || "rows without planes".into())?;
    let slabs = r.height == 1 || r.dtype.packing() == 1 && r.dtype.components() == 1 && !r.near && !r.single;
    ensure(slabs, || "slabs that are no words in HBM".into())?;
    let planes = r.table_plane.max(r.rows_plane).max(1);
    let components = within([(i64::from(r.table_component.max(r.rows_component)), r.dtype.components() as u32)]);
    let slabs = within([(i64::from(r.height), r.planes)]);
    counted([within([(i64::from(planes), r.planes)]), slabs, components, u64::from(r.count), u64::from(r.first)])
}

fn sound_scatter(s: &ScatterSpec) -> Check {
    ensure(!s.specs.is_empty() && s.rows > 0, || "a scatter without tables".into())?;
    s.specs.iter().try_for_each(sound_rows)?;
    let copies = s.specs.iter().map(|r| within([(i64::from(s.rows), r.planes.saturating_mul(s.copies.max(1)))]));
    counted(copies.chain([u64::from(s.block)]))?;
    let types: Vec<DType> = s.specs.iter().map(|t| t.dtype).collect();
    sound_function(&s.body, [&types[..], &types].concat(), &types)?;
    ensure(!s.part || s.block == 0, || "a part of a table that is made in blocks".into())?;
    ensure(s.can_have_copies(s.copies), || format!("{} copies of a table that can have none", s.copies))
}

fn sound_sort(s: &SortSpec, pass: &Pass, chip: &ChipConfig) -> Check {
    ensure(!s.dtypes.is_empty() && s.row_bits < 32 && s.group_bits < 32, || "a sort of nothing".into())?;
    // A pass across a register's rows takes as many registers as it has rows ([`Network::choose`] gives no fewer).
    ensure(s.row_bits >= 2 * chip.core.sublanes.ilog2(), || "a sort of parts of registers".into())?;
    ensure(passes(s, chip).contains(pass), || "no pass of the sort".into())?;
    let network = within([(1i64 << s.row_bits, s.planes.saturating_mul(s.words()))]);
    let places =
        s.places.map_or(0, |p| within([(i64::from(p.row), 1 << s.row_bits), (i64::from(p.lane), 1 << s.group_bits)]));
    counted([
        network,
        places,
        within([(i64::from(s.plane_rows), s.planes), (i64::from(s.component_rows), s.words())]),
    ])?;
    sound_function(&s.body, s.dtypes.iter().flat_map(|t| [*t, *t]).collect(), &[DType::Pred])
}

/// Whether numbers of 32 bits can count what a kernel does.
fn counted(parts: impl IntoIterator<Item = u64>) -> Check {
    let far = parts.into_iter().fold(0, u64::saturating_add);
    ensure(far <= u64::from(i32::MAX as u32), || format!("counts up to {far}"))
}

fn sound_start(s: &Start, lhs: DType) -> Check {
    let of = |i: &StartInput| match i {
        StartInput::Element => lhs,
        StartInput::Row(t) => *t,
    };
    sound_formula(&s.nodes, s.inputs.iter().map(of).collect())?;
    let float = s.nodes.get(s.root as usize).is_some_and(|n| matches!(n.dtype, DType::F32 | DType::BF16));
    ensure(float, || "an operand made of what there is not".into())
}

/// Nodes at a product's end or on the way into it, of inputs of these types.
fn sound_formula(nodes: &[ExprNode], inputs: Vec<DType>) -> Check {
    sound_nodes(nodes, &Types { inputs, ..Types::default() })?;
    let plain = nodes.iter().all(|n| !matches!(n.op, ExprOp::Index(_)));
    ensure(plain, || "indices in a product".into())
}

fn sound_loop(s: &LoopSpec, there: There) -> Check {
    let sizes = s.outer.iter().chain([&s.rows, &s.columns]).all(|n| *n > 0);
    ensure(sizes, || "a loop over nothing".into())?;
    let space = Space::of_loop(s, there);
    sound_expr(&s.expr, &s.inputs, space)?;
    s.outputs.iter().try_for_each(|o| sound_output(o, &s.expr.nodes, space))
}

fn sound_body(body: &Body, there: There) -> Check {
    match body {
        Body::Loop(s) => sound_loop(s, there),
        Body::Reduce(s) => {
            let sizes = s.outer.iter().chain([&s.rows, &s.columns]).all(|n| *n > 0);
            ensure(sizes && s.kept_outer as usize <= s.outer.len(), || "a reduction over nothing".into())?;
            let space = Space::of_reduction(s, there);
            sound_expr(&s.expr, &s.inputs, space)?;
            let types = sound_reduction(&s.reduction, &s.expr.nodes)?;
            let given = s.outputs.iter().map(|o| o.dtype).eq(types);
            ensure(given, || "not one result of its type for each argument".into())?;
            s.outputs.iter().try_for_each(|a| sound_access(a, space))
        }
        Body::Move(s) => sound_move(s, there),
        Body::Pick(s) => {
            ensure(s.rows > 0 && s.columns > 0 && s.tiles > 0, || "picks nothing".into())?;
            let space = Space { outer: &[s.columns], rows: s.rows, columns: there.lanes, there };
            [&s.table, &s.indices, &s.out].into_iter().try_for_each(|a| sound_access(a, space))
        }
    }
}

fn sound_recurrence(s: &RecurrenceSpec, there: There) -> Check {
    sound_loop(&s.turn, there)?;
    let alone = s.turn.expr.reductions.is_empty() && !s.turn.outer.is_empty();
    ensure(alone, || "a recurrence that reduces, or without turns".into())?;
    let nodes = &s.turn.expr.nodes;
    for &(input, node) in &s.carried {
        let before = s.turn.inputs.get(input as usize).ok_or_else(|| format!("there is no input {input}"))?;
        let (Input::Array(Access { dtype, .. }) | Input::Scalar(dtype)) = before;
        let next = nodes.get(node as usize).is_some_and(|n| n.dtype == *dtype);
        ensure(next, || format!("input {input} is carried on as another type"))?;
    }
    let first = s.turn.outputs.len().checked_sub(s.last as usize).ok_or("more results than outputs")?;
    let next = |o: &Output| s.carried.iter().any(|c| c.1 == o.node);
    ensure(s.turn.outputs[first..].iter().all(next), || "results that are not carried".into())
}

fn sound_move(s: &MoveSpec, there: There) -> Check {
    let n = s.sizes.len();
    let lengths = [&s.src, &s.dst].iter().all(|x| x.rows.len() == n && x.lanes.len() == n);
    ensure(lengths && !s.sizes.contains(&0), || "a move whose dimensions do not go together".into())?;
    [&s.src, &s.dst].into_iter().try_for_each(|side| {
        let along = |steps: &[i64]| within(steps.iter().copied().zip(s.sizes.iter().copied()));
        let lanes = along(&side.lanes).saturating_add(side.lane_offset.unsigned_abs());
        let parts = [
            along(&side.rows),
            side.row_offset.unsigned_abs(),
            within([(side.component_rows, s.dtype.components() as u32)]),
            planes(lanes, side.plane_rows, there),
        ];
        in_memory(parts, there)
    })
}

/// What arrays of a kernel lie in: element rows at most, and their lanes.
#[derive(Clone, Copy)]
struct There {
    rows: u64,
    lanes: u32,
}

impl There {
    /// Vector memory; what lies behind the last row that is used counts too.
    fn vmem(chip: &ChipConfig) -> There {
        There { rows: 2 * chip.vmem.bytes / u64::from(chip.core.lanes), lanes: chip.core.lanes }
    }

    /// Any memory of a device: arrays that are walked in blocks.
    fn all(chip: &ChipConfig) -> There {
        let rows = 2 * chip.device_memory_bytes() / u64::from(chip.core.lanes);
        There { rows: rows.max(There::vmem(chip).rows), lanes: chip.core.lanes }
    }
}

/// Whether rows are there, whatever the type of their elements.
fn in_memory(parts: impl IntoIterator<Item = u64>, there: There) -> Check {
    let far = parts.into_iter().fold(0, u64::saturating_add);
    ensure(far <= there.rows, || format!("rows {far} apart of {}", there.rows))
}

/// Rows that so many lanes lead to where planes are `plane` rows apart.
fn planes(lanes: u64, plane: i64, there: There) -> u64 {
    (lanes / u64::from(there.lanes)).saturating_mul(plane.unsigned_abs())
}

/// How far so many steps lead at most.
fn within(steps: impl IntoIterator<Item = (i64, u32)>) -> u64 {
    steps.into_iter().fold(0, |far, (step, n)| far.saturating_add(step.unsigned_abs().saturating_mul(u64::from(n))))
}

/// What a kernel goes over.
#[derive(Clone, Copy)]
struct Space<'a> {
    outer: &'a [u32],
    rows: u32,
    columns: u32,
    there: There,
}

impl<'a> Space<'a> {
    fn of_loop(s: &'a LoopSpec, there: There) -> Space<'a> {
        Space { outer: &s.outer, rows: s.rows, columns: s.columns, there }
    }

    fn of_reduction(s: &'a ReduceSpec, there: There) -> Space<'a> {
        Space { outer: &s.outer, rows: s.rows, columns: s.columns, there }
    }

    /// How far an affine function of the indices leads.
    fn reach(&self, outer: &[i64], row: i64, column: i64) -> u64 {
        let steps = outer.iter().copied().zip(self.outer.iter().copied());
        within(steps.chain([(row, self.rows), (column, self.columns)]))
    }

    fn most(&self, index: &Index) -> u64 {
        self.reach(&index.outer, index.row, index.column).saturating_add(index.offset.unsigned_abs())
    }
}

fn sound_access(a: &Access, space: Space<'_>) -> Check {
    let outer = space.outer.len();
    let inside = match &a.lane {
        LaneMap::Tile { .. } | LaneMap::Shifted { .. } | LaneMap::Replicated => true,
        LaneMap::Indexed { index, .. } => index.outer.len() == outer,
    };
    ensure(inside && a.outer.len() == outer, || "an access with other dimensions".into())?;
    let components = within([(a.component_rows, a.dtype.components() as u32)]);
    let lanes = match &a.lane {
        LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => {
            planes(u64::from(space.columns), *tile_rows, space.there)
        }
        LaneMap::Replicated => 0,
        LaneMap::Indexed { index, plane_rows } => planes(space.most(index), *plane_rows, space.there),
    };
    in_memory([space.reach(&a.outer, a.row, 0), a.offset.unsigned_abs(), components, lanes], space.there)
}

fn sound_output(o: &Output, nodes: &[ExprNode], space: Space<'_>) -> Check {
    let node = nodes.get(o.node as usize).ok_or_else(|| format!("there is no node {}", o.node))?;
    ensure(node.dtype == o.access.dtype, || format!("node {} is stored as {}", o.node, o.access.dtype))?;
    sound_access(&o.access, space)
}

fn sound_expr(e: &Expr, inputs: &[Input], space: Space<'_>) -> Check {
    let mut types = Types::default();
    for i in inputs {
        types.inputs.push(match i {
            Input::Array(a) => {
                sound_access(a, space)?;
                a.dtype
            }
            Input::Scalar(t) => *t,
        });
    }
    for n in &e.nodes {
        if let ExprOp::Index(index) = &n.op {
            counted([space.most(index)])?;
        }
    }
    for r in &e.reductions {
        let last = r.args.iter().chain(&r.inits).max().map_or(0, |n| *n as usize);
        types.reductions.push((last, sound_reduction(r, &e.nodes)?));
    }
    sound_nodes(&e.nodes, &types)
}

/// The types of a reduction's results.
fn sound_reduction(r: &Reduction, nodes: &[ExprNode]) -> Result<Vec<DType>, String> {
    let of = |ids: &[u32]| -> Option<Vec<DType>> { ids.iter().map(|n| Some(nodes.get(*n as usize)?.dtype)).collect() };
    let same = of(&r.args).filter(|args| of(&r.inits).as_ref() == Some(args));
    let types = same.ok_or("arguments of a reduction that are no nodes of its initial values' types")?;
    sound_function(&r.body, [&types[..], &types].concat(), &types)?;
    Ok(types)
}

/// A computation of parameters and results of these types.
fn sound_function(body: &Function, params: Vec<DType>, results: &[DType]) -> Check {
    sound_nodes(&body.nodes, &Types { params, ..Types::default() })?;
    let given: Option<Vec<DType>> = body.roots.iter().map(|r| Some(body.nodes.get(*r as usize)?.dtype)).collect();
    ensure(given.as_deref() == Some(results), || format!("a computation that does not give {results:?}"))
}

/// Types of what nodes may name. Of a reduction too: the last node that it needs.
#[derive(Default)]
struct Types {
    inputs: Vec<DType>,
    params: Vec<DType>,
    reductions: Vec<(usize, Vec<DType>)>,
}

/// Nodes that use earlier nodes and what there is.
fn sound_nodes(nodes: &[ExprNode], types: &Types) -> Check {
    for (at, n) in nodes.iter().enumerate() {
        let args: Option<Vec<DType>> = (n.args.iter().map(|&a| nodes[..at].get(a as usize).map(|n| n.dtype))).collect();
        let args = args.ok_or_else(|| format!("node {at} uses what there is not"))?;
        let fits = takes(n, &args, types, at);
        ensure(fits, || format!("node {at}: no {:?} of {args:?} gives {}", n.op, n.dtype))?;
    }
    Ok(())
}

/// Whether there is such an operation, on operands of these types.
fn takes(n: &ExprNode, args: &[DType], types: &Types, at: usize) -> bool {
    let own = n.dtype;
    match &n.op {
        ExprOp::Input(i) => args.is_empty() && types.inputs.get(*i as usize) == Some(&own),
        ExprOp::Param(p) => args.is_empty() && types.params.get(*p as usize) == Some(&own),
        ExprOp::LaneReduce(r, k) => {
            let done = types.reductions.get(*r as usize).filter(|r| r.0 < at);
            args.is_empty() && done.is_some_and(|r| r.1.get(*k as usize) == Some(&own))
        }
        ExprOp::Const(bytes) => args.is_empty() && bytes.len() == own.host_bytes(),
        ExprOp::Index(_) => args.is_empty() && own.class() != DTypeClass::Pred,
        ExprOp::Unary(u) => matches!(args, [a] if u.takes(a.class()) && own == u.result(*a)),
        ExprOp::Binary(Binary::Complex) => {
            matches!(args, [a @ (DType::F32 | DType::F64), b] if a == b && own == a.complex())
        }
        ExprOp::Binary(o) => args == [own; 2] && o.takes(own.class()),
        ExprOp::MultiplyAdd => args == [own; 3] && matches!(own, DType::F32 | DType::F64),
        ExprOp::Compare(d, _) => {
            let equality = matches!(d, Direction::Eq | Direction::Ne);
            own == DType::Pred && matches!(args, [a, b] if a == b && (equality || !a.is_complex()))
        }
        ExprOp::Select => args == [DType::Pred, own, own],
        ExprOp::Clamp => args == [own; 3] && !own.is_complex(),
        ExprOp::Convert => args.len() == 1,
        ExprOp::BitcastConvert => {
            matches!(args, [a] if a.bits() == own.bits() && a.is_complex() == own.is_complex())
        }
        ExprOp::ReducePrecision(..) => args == [own] && own.is_float(),
    }
}
