//! Operations between devices.

use super::ast::{Attr, Operation};
use super::attr::{integers, sizes};
use super::data::Lowered;
use super::lower::{Lower, Site};
use crate::hlo_text::MAX_DEVICES;
use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::graph::{ArrayShape, Collective, CollectiveKind, Literal, NodeId, Op, Shape};
use systole_isa::DType;

pub(super) fn lower(s: &mut Site<'_, '_, '_>, name: &str) -> Lowered {
    let o = s.o;
    let args = s.body.operands(o)?;
    let kind = match name {
        "replica_id" => return s.one(Op::ReplicaId, &args),
        "partition_id" => return s.one(Op::PartitionId, &args),
        "all_reduce" => CollectiveKind::AllReduce { body: s.combiner(0)? },
        "all_gather" => CollectiveKind::AllGather { dim: s.l.dim(o, &["all_gather_dim"])? },
        "reduce_scatter" => {
            CollectiveKind::ReduceScatter { dim: s.l.dim(o, &["scatter_dimension"])?, body: s.combiner(0)? }
        }
        "collective_broadcast" => CollectiveKind::Broadcast,
        "collective_permute" => CollectiveKind::Permute { pairs: pairs(s.l, o)? },
        "collective_reduce" => return collective_reduce(s, &args),
        "all_to_all" => return all_to_all(s, &args),
        _ => return Ok(None),
    };
    let devices = devices(s.l, o)?;
    s.many(Op::Collective { kind, devices }, &args)
}

/// A table of device ids; negative ids fill short rows.
fn table(l: &Lower<'_, '_>, o: &Operation<'_>, key: &str) -> PResult<Vec<Vec<u64>>> {
    let Some(a) = o.get(&[key]) else { return Ok(Vec::new()) };
    if matches!(a, Attr::Dialect(..)) {
        return mesh_groups(l, o, key);
    }
    let flat = integers(l.text, a)?;
    if flat.iter().any(|&v| v >= MAX_DEVICES as i64) {
        return Err(o.error(format!("device ids are below {MAX_DEVICES}")));
    }
    let width = sizes(a).last().copied().unwrap_or(1).max(1) as usize;
    let rows = flat.chunks(width).map(|r| r.iter().filter_map(|v| u64::try_from(*v).ok()).collect());
    Ok(rows.collect())
}

/// Groups along axes of a mesh: `#stablehlo.replica_group_mesh_axes<mesh = .., axes = [..]>`. An axis may be split:
/// `sub_axis_info = (before)size`.
fn mesh_groups(l: &Lower<'_, '_>, o: &Operation<'_>, key: &str) -> PResult<Vec<Vec<u64>>> {
    let wrong = || o.error(format!("`{key}` must be a table of device ids, or axes of a mesh"));
    let whole = l.fields_of(o, &[key])?;
    let mesh: Vec<(String, u64)> = match whole.get(&["mesh"]) {
        Some(Attr::Symbol(name)) => {
            let found = l.raw.meshes.iter().find(|m| m.name == *name).ok_or_else(wrong)?;
            if !found.devices.is_empty() {
                return Err(
                    o.error(format!("groups along axes of `@{name}`, which lists its devices, are not supported"))
                );
            }
            found.axes.iter().map(|(n, s)| ((*n).to_string(), *s)).collect()
        }
        Some(Attr::Dialect(..)) => (list(l, &l.fields_of(&whole, &["mesh"])?, "axes")?.iter())
            .map(|axis| Ok((name(axis).ok_or_else(wrong)?, l.int(axis, &["size"])?.unsigned_abs())))
            .collect::<PResult<_>>()?,
        _ => return Err(wrong()),
    };
    // Every axis as its parts, slowest first, with the place of a part among the chosen ones.
    let mut parts: Vec<(u64, Option<usize>)> = Vec::new();
    let chosen: Vec<(String, Option<(u64, u64)>)> = (list(l, &whole, "axes")?.iter())
        .map(|a| Ok((name(a).ok_or_else(wrong)?, sub_axis(l, a)?)))
        .collect::<PResult<_>>()?;
    for (axis, size) in &mesh {
        let mut left = *size;
        let mut picks: Vec<(usize, u64, u64)> = (chosen.iter().enumerate())
            .filter(|(_, c)| c.0 == *axis)
            .map(|(i, c)| (i, c.1.map_or(1, |s| s.0), c.1.map_or(*size, |s| s.1)))
            .collect();
        picks.sort_by_key(|p| p.1);
        let mut done = 1;
        for (i, before, width) in picks {
            if width == 0 || before % done != 0 || !left.is_multiple_of((before / done).max(1) * width) {
                return Err(wrong());
            }
            parts.push((before / done, None));
            parts.push((width, Some(i)));
            left /= before / done * width;
            done = before * width;
        }
        parts.push((left, None));
    }
    let total: u64 = parts.iter().map(|p| p.0).product();
    if total == 0 || total > 1 << 20 {
        return Err(wrong());
    }
    let mut groups: std::collections::BTreeMap<Vec<u64>, Vec<(Vec<u64>, u64)>> = std::collections::BTreeMap::new();
    for id in 0..total {
        let (mut rest, mut outer, mut inner) = (id, Vec::new(), vec![0; chosen.len()]);
        for (size, place) in parts.iter().rev() {
            match place {
                Some(i) => inner[*i] = rest % size,
                None => outer.insert(0, rest % size),
            }
            rest /= size;
        }
        groups.entry(outer).or_default().push((inner, id));
    }
    let mut rows: Vec<Vec<(Vec<u64>, u64)>> = groups.into_values().collect();
    rows.iter_mut().for_each(|r| r.sort());
    Ok(rows.into_iter().map(|r| r.into_iter().map(|m| m.1).collect()).collect())
}

/// The `#dialect.name<..>` entries of a list, as operations to ask for their fields.
fn list<'a>(l: &Lower<'a, '_>, o: &Operation<'a>, key: &str) -> PResult<Vec<Operation<'a>>> {
    let Some(Attr::List(items)) = o.get(&[key]) else { return Err(o.error(format!("`{key}` must be a list"))) };
    let one = |a: &Attr<'a>| {
        let holder = Operation { attributes: vec![("entry", a.clone(), o.span)], ..Operation::named(o.name, o.span) };
        l.fields_of(&holder, &["entry"])
    };
    items.iter().map(one).collect()
}

fn name(axis: &Operation<'_>) -> Option<String> {
    match axis.get(&["name"]) {
        Some(Attr::Str(s)) => Some((*s).to_string()),
        _ => None,
    }
}

/// `(before)size`.
fn sub_axis(l: &Lower<'_, '_>, axis: &Operation<'_>) -> PResult<Option<(u64, u64)>> {
    let Some(Attr::Dialect(_, place)) = axis.get(&["sub_axis_info"]) else { return Ok(None) };
    let mut c = Cursor::over(l.text, *place);
    c.expect("(", "to begin a part of an axis")?;
    let before = c.uint("the size before the part")?;
    c.expect(")", "after the size before the part")?;
    Ok(Some((before, c.uint("the part's size")?)))
}

/// The sum on the first device of every group, zeros on all others.
fn collective_reduce(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let combiner = s.combiner(0)?;
    let devices = devices(s.l, o)?;
    let (replicas, partitions) = (s.l.module.replicas, s.l.module.partitions);
    let everyone = || vec![(0..replicas).collect::<Vec<u64>>()];
    let groups = if devices.groups.is_empty() { everyone() } else { devices.groups.clone() };
    let mut root = vec![0u8; (replicas * partitions) as usize];
    for first in groups.iter().filter_map(|g| g.first()) {
        let ids = match (devices.channel, devices.use_global_ids) {
            (Some(_), true) => *first..*first + 1,
            (Some(_), false) => first * partitions..first * partitions + 1,
            (None, _) => first * partitions..(first + 1) * partitions,
        };
        for id in ids {
            match root.get_mut(id as usize) {
                Some(r) => *r = 1,
                None => return Err(o.error(format!("device {id} does not exist"))),
            }
        }
    }
    let mut out = s
        .many(Op::Collective { kind: CollectiveKind::AllReduce { body: combiner }, devices }, args)?
        .unwrap_or_default();
    let table = s.body.b.constant(Literal::new(DType::Pred, &[replicas * partitions], root));
    let index = super::parallel::device_index(s)?;
    let is_root = super::parallel::entry(s, table, index)?;
    for x in &mut out {
        let a = s.array(*x)?;
        let zero = s.body.b.constant(Literal::splat(a.dtype, &[], &vec![0; a.dtype.host_bytes()]));
        let everywhere = |x, dtype| (Op::Broadcast { dims: Vec::new() }, [x], Shape::array(dtype, &a.dims));
        let (op, x1, shape) = everywhere(zero, a.dtype);
        let zeros = s.add(op, &x1, shape)?;
        let (op, x1, shape) = everywhere(is_root, DType::Pred);
        let mask = s.add(op, &x1, shape)?;
        *x = s.infer(Op::Select, &[mask, *x, zeros])?;
    }
    Ok(Some(out))
}

fn devices(l: &Lower<'_, '_>, o: &Operation<'_>) -> PResult<Collective> {
    let groups: Vec<Vec<u64>> =
        if o.name.ends_with("collective_permute") { Vec::new() } else { table(l, o, "replica_groups")? };
    let groups = groups.into_iter().filter(|g| !g.is_empty()).collect();
    let channel = match o.get(&["channel_handle"]) {
        Some(_) => Some(l.dim(&l.fields_of(o, &["channel_handle"])?, &["handle"])? as u64).filter(|c| *c > 0),
        None => None,
    };
    Ok(Collective { groups, channel, use_global_ids: l.flag(o, &["use_global_device_ids"]) })
}

pub(super) fn pairs(l: &Lower<'_, '_>, o: &Operation<'_>) -> PResult<Vec<(u64, u64)>> {
    (table(l, o, "source_target_pairs")?.iter())
        .map(|p| match p[..] {
            [a, b] => Ok((a, b)),
            _ => Err(o.error("`source_target_pairs` must be pairs of device ids")),
        })
        .collect()
}

/// HLO's all-to-all leaves the shape; the parts then move from the split to the concatenated dimension.
fn all_to_all(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let (split, concat) = (s.l.dim(o, &["split_dimension"])?, s.l.dim(o, &["concat_dimension"])?);
    let count = s.l.sizes(o, &["split_count"])?.first().copied().unwrap_or(1).max(1);
    let devices = devices(s.l, o)?;
    let mut out = Vec::new();
    for x in args {
        let a = s.array(*x)?;
        if split >= a.rank() || concat >= a.rank() || a.dims[split] % count != 0 {
            return Err(o.error(format!("all_to_all cannot split dimension {split} of {a} into {count} parts")));
        }
        let op = Op::Collective { kind: CollectiveKind::AllToAll { dim: Some(split) }, devices: devices.clone() };
        let moved = s.infer(op, &[*x])?;
        out.push(if split == concat { moved } else { regroup(s, moved, &a, [split, concat], count)? });
    }
    Ok(Some(out))
}

/// Takes `count` parts along one dimension apart and joins them along another.
fn regroup(
    s: &mut Site<'_, '_, '_>,
    x: NodeId,
    a: &ArrayShape,
    [split, concat]: [usize; 2],
    count: u64,
) -> PResult<NodeId> {
    let mut dims = a.dims.clone();
    dims[split] /= count;
    dims.insert(split, count);
    let apart = s.add(Op::Reshape, &[x], Shape::array(a.dtype, &dims))?;
    // The parts' dimension goes right before the concatenated one.
    let mut permutation: Vec<usize> = (0..dims.len()).filter(|d| *d != split).collect();
    permutation.insert(concat, split);
    let turned = s.infer(Op::Transpose { permutation }, &[apart])?;
    let mut dims = a.dims.clone();
    dims[split] /= count;
    dims[concat] *= count;
    s.add(Op::Reshape, &[turned], Shape::array(a.dtype, &dims))
}
