//! `interpreter.run_parallel`: functions on a grid of replicas and partitions, from one `main`.
//!
//! The whole module becomes a program for that many devices. Every device runs `main`; at the operation it picks its own
//! operands, calls its own function and gathers the results of all, so that what follows sees them all everywhere. Where
//! functions give results of different shapes or numbers, every device has places for those of all, and zeros in others'.

use super::ast::{Attr, Operation};
use super::data::Lowered;
use super::lower::{Lower, Site};
use crate::hlo_text::PResult;
use systole_hlo::graph::build::ComputationBuilder;
use systole_hlo::graph::{Binary, Collective, CollectiveKind, CompId, Literal, NodeId, Op, Shape, SliceDim};
use systole_isa::DType;

/// Most devices that a program may ask for.
const MAX_DEVICES: usize = 4096;

pub(super) fn lower(s: &mut Site<'_, '_, '_>, name: &str) -> Lowered {
    let o = s.o;
    if name != "interpreter.run_parallel" {
        return Ok(None);
    }
    let args = s.body.operands(o)?;
    let programs = programs(o)?;
    let (replicas, partitions) = (programs.len(), programs[0].len());
    let devices = replicas * partitions;
    let given = (s.l.module.replicas, s.l.module.partitions);
    if given != (1, 1) && given != (replicas as u64, partitions as u64) {
        return Err(o.error(format!(
            "{replicas} replicas of {partitions} partitions here, {} of {} elsewhere in the module",
            given.0, given.1
        )));
    }
    (s.l.module.replicas, s.l.module.partitions) = (replicas as u64, partitions as u64);
    if let Some(Attr::List(list)) = o.get(&["infeed"]) {
        s.l.queue = list.iter().filter_map(|a| if let Attr::Symbol(s) = a { Some(*s) } else { None }).collect();
    }
    let flat: Vec<&str> = programs.concat();
    let per_device = operands_of(s.l, o, &flat, &args)?;
    let takes = per_device[0].len();
    let index = device_index(s)?;
    let result = if flat.iter().all(|f| *f == flat[0]) {
        let own: Vec<NodeId> = (0..takes)
            .map(|i| pick(s, &per_device.iter().map(|a| a[i]).collect::<Vec<_>>(), index))
            .collect::<PResult<_>>()?;
        let shapes: Vec<Shape> = own.iter().map(|x| s.body.b.shape(*x).clone()).collect();
        let callee = s.l.callee(flat[0], o, Some(&shapes))?;
        s.infer(Op::Call { body: callee }, &own)?
    } else {
        let mut operands = vec![s.cast(index, DType::S32)?];
        let mut callees = Vec::new();
        for (f, a) in flat.iter().zip(&per_device) {
            let shapes: Vec<Shape> = a.iter().map(|x| s.body.b.shape(*x).clone()).collect();
            let callee = s.l.callee(f, o, Some(&shapes))?;
            callees.push((callee, shapes));
            operands.push(s.tuple(a)?);
        }
        let gives: Vec<Vec<Shape>> = callees.iter().map(|c| results_of(s.l, c.0)).collect();
        if gives.iter().any(|g| *g != gives[0]) {
            return apart(s, (&callees, &gives), &operands);
        }
        let branches =
            callees.into_iter().map(|(c, shapes)| unpacked(s.l, o, c, shapes, None)).collect::<PResult<_>>()?;
        s.infer(Op::Conditional { branches }, &operands)?
    };
    let own = match s.body.b.shape(result) {
        Shape::Tuple(_) => s.parts(result)?,
        Shape::Array(_) | Shape::Token => vec![result],
    };
    if own.len() * devices != o.result_types.len() {
        return Err(o.error(format!("{} results of {devices} devices that give {}", o.result_types.len(), own.len())));
    }
    let all: Vec<Vec<NodeId>> = own.iter().map(|x| share(s, *x, devices)).collect::<PResult<_>>()?;
    Ok(Some((0..devices).flat_map(|d| all.iter().map(move |r| r[d])).collect()))
}

/// Each function's operands: as many as it has arguments.
fn operands_of<'n>(
    l: &Lower<'_, '_>,
    o: &Operation<'_>,
    flat: &[&str],
    args: &'n [NodeId],
) -> PResult<Vec<&'n [NodeId]>> {
    let mut rest = args;
    let mut out = Vec::new();
    for f in flat {
        let takes = l.raw.functions.iter().find(|x| x.name == *f).map_or(0, |x| x.args.len());
        let Some((own, more)) = rest.split_at_checked(takes) else {
            return Err(o.error(format!("{} operands are too few for the functions", args.len())));
        };
        out.push(own);
        rest = more;
    }
    match rest.is_empty() {
        true => Ok(out),
        false => Err(o.error(format!("{} operands where the functions take {}", args.len(), args.len() - rest.len()))),
    }
}

fn results_of(l: &Lower<'_, '_>, callee: CompId) -> Vec<Shape> {
    match l.module.computation(callee).result() {
        Shape::Tuple(t) => t.clone(),
        one @ (Shape::Array(_) | Shape::Token) => vec![one.clone()],
    }
}

/// Functions that give different results: a place for each result of each device.
fn apart(
    s: &mut Site<'_, '_, '_>,
    (callees, gives): (&[(CompId, Vec<Shape>)], &[Vec<Shape>]),
    operands: &[NodeId],
) -> Lowered {
    let o = s.o;
    let devices = callees.len();
    let mut branches = Vec::new();
    for (d, (callee, shapes)) in callees.iter().enumerate() {
        branches.push(unpacked(s.l, o, *callee, shapes.clone(), Some((d, gives)))?);
    }
    let all = s.infer(Op::Conditional { branches }, operands)?;
    let places = s.parts(all)?;
    let of = gives.iter().enumerate().flat_map(|(d, g)| g.iter().map(move |_| d));
    let mut out = Vec::new();
    for (place, d) in places.into_iter().zip(of) {
        out.push(share(s, place, devices)?[d]);
    }
    match out.len() == o.result_types.len() {
        true => Ok(Some(out)),
        false => Err(o.error(format!("{} results of devices that give {}", o.result_types.len(), out.len()))),
    }
}

/// The functions by replica and partition.
fn programs<'a>(o: &Operation<'a>) -> PResult<Vec<Vec<&'a str>>> {
    let wrong = || o.error("`programs` must be rows of functions, one row a replica, all of one length");
    let Some(Attr::List(rows)) = o.get(&["programs"]) else { return Err(wrong()) };
    let row = |a: &Attr<'a>| {
        let Attr::List(list) = a else { return None };
        list.iter().map(|f| if let Attr::Symbol(s) = f { Some(*s) } else { None }).collect::<Option<Vec<_>>>()
    };
    let rows: Vec<Vec<&str>> = rows.iter().map(row).collect::<Option<_>>().ok_or_else(wrong)?;
    let width = rows.first().map_or(0, Vec::len);
    if width == 0 || rows.iter().any(|r| r.len() != width) || rows.len() * width > MAX_DEVICES {
        return Err(wrong());
    }
    Ok(rows)
}

/// The number of the device that runs: `replica * partitions + partition`.
pub(super) fn device_index(s: &mut Site<'_, '_, '_>) -> PResult<NodeId> {
    let scalar = Shape::array(DType::U32, &[]);
    let replica = s.add(Op::ReplicaId, &[], scalar.clone())?;
    let partition = s.add(Op::PartitionId, &[], scalar)?;
    let width = (s.l.module.partitions as u32).to_le_bytes();
    let width = s.body.b.constant(Literal::splat(DType::U32, &[], &width));
    let first = s.infer(Op::Binary(Binary::Mul), &[replica, width])?;
    s.infer(Op::Binary(Binary::Add), &[first, partition])
}

/// The value of number `index` among values of one shape.
fn pick(s: &mut Site<'_, '_, '_>, values: &[NodeId], index: NodeId) -> PResult<NodeId> {
    if values.windows(2).all(|v| v[0] == v[1]) || *s.body.b.shape(values[0]) == Shape::Token {
        return Ok(values[0]);
    }
    let rows = values.iter().map(|v| row(s, *v)).collect::<PResult<Vec<_>>>()?;
    let stack = s.infer(Op::Concatenate { dim: 0 }, &rows)?;
    entry(s, stack, index)
}

/// Entry `index` of the first dimension.
pub(super) fn entry(s: &mut Site<'_, '_, '_>, stack: NodeId, index: NodeId) -> PResult<NodeId> {
    let a = s.array(stack)?;
    let zero = s.body.b.constant(Literal::splat(DType::U32, &[], &[0; 4]));
    let mut operands = vec![stack, index];
    operands.resize(a.rank() + 1, zero);
    let mut sizes = a.dims.clone();
    sizes[0] = 1;
    let one = s.infer(Op::DynamicSlice { sizes }, &operands)?;
    s.add(Op::Reshape, &[one], Shape::array(a.dtype, &a.dims[1..]))
}

/// With a first dimension of size 1.
fn row(s: &mut Site<'_, '_, '_>, x: NodeId) -> PResult<NodeId> {
    let a = s.array(x)?;
    let dims: Vec<u64> = std::iter::once(1).chain(a.dims.iter().copied()).collect();
    s.add(Op::Reshape, &[x], Shape::array(a.dtype, &dims))
}

/// Every device's value, by device.
fn share(s: &mut Site<'_, '_, '_>, x: NodeId, devices: usize) -> PResult<Vec<NodeId>> {
    if *s.body.b.shape(x) == Shape::Token || devices == 1 {
        return Ok(vec![x; devices]);
    }
    let one = row(s, x)?;
    let groups = vec![(0..devices as u64).collect()];
    let devices_all = Collective { groups, channel: Some(1 << 20), use_global_ids: true };
    let op = Op::Collective { kind: CollectiveKind::AllGather { dim: 0 }, devices: devices_all };
    let mut gathered = s.array(one)?;
    gathered.dims[0] = devices as u64;
    let all = s.add(op, &[one], Shape::array(gathered.dtype, &gathered.dims))?;
    (0..devices as u64)
        .map(|d| {
            let whole = |(i, size): (usize, &u64)| match i {
                0 => SliceDim { start: d, limit: d + 1, stride: 1 },
                _ => SliceDim { start: 0, limit: *size, stride: 1 },
            };
            let dims = gathered.dims.iter().enumerate().map(whole).collect();
            let part = s.infer(Op::Slice { dims }, &[all])?;
            s.add(Op::Reshape, &[part], Shape::array(gathered.dtype, &gathered.dims[1..]))
        })
        .collect()
}

/// A computation that takes the arguments of `callee` as one tuple. With `among`, its results are device `among.0`'s of
/// those of all devices, the others zeros.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other value is made by its operation")]
fn unpacked<'a>(
    l: &mut Lower<'a, '_>,
    o: &Operation<'a>,
    callee: CompId,
    shapes: Vec<Shape>,
    among: Option<(usize, &[Vec<Shape>])>,
) -> PResult<CompId> {
    let n = shapes.len();
    let mut b = ComputationBuilder::new(&format!("device.{}", l.module.computations.len()));
    b.span = o.span;
    let p = b.parameter(Shape::Tuple(shapes));
    let mut made = Vec::new();
    for index in 0..n {
        made.push(b.add(Op::GetTupleElement { index }, &[p], &l.module).map_err(|e| o.error(e.message))?);
    }
    let mut root = b.add(Op::Call { body: callee }, &made, &l.module).map_err(|e| o.error(e.message))?;
    if let Some((device, gives)) = among {
        let mut places = Vec::new();
        for (d, shapes) in gives.iter().enumerate() {
            for (index, shape) in shapes.iter().enumerate() {
                let op = match shape {
                    Shape::Array(a) if d != device => {
                        Op::Constant(Literal::splat(a.dtype, &a.dims, &vec![0; a.dtype.host_bytes()]))
                    }
                    Shape::Token if d != device => Op::AfterAll,
                    _ if matches!(b.shape(root), Shape::Tuple(_)) => Op::GetTupleElement { index },
                    Shape::Array(_) | Shape::Tuple(_) | Shape::Token => {
                        places.push(root);
                        continue;
                    }
                };
                let takes: &[NodeId] = if matches!(op, Op::GetTupleElement { .. }) { &[root] } else { &[] };
                let made = match op {
                    Op::Constant(l) => b.constant(l),
                    op => b.add(op, takes, &l.module).map_err(|e| o.error(e.message))?,
                };
                places.push(made);
            }
        }
        root = b.add(Op::Tuple, &places, &l.module).map_err(|e| o.error(e.message))?;
    }
    Ok(l.module.push(b.finish(root)))
}
