//! Operations between devices.

use super::ast::{Attr, Operation};
use super::attr::{integers, sizes};
use super::data::Lowered;
use super::lower::{Body, Lower};
use crate::front::hlo_text::PResult;
use crate::graph::{ArrayShape, Collective, CollectiveKind, NodeId, Op, Shape};

pub(super) fn lower<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, name: &str) -> Lowered {
    let args = body.operands(o)?;
    let kind = match name {
        "replica_id" => return l.one(body, o, Op::ReplicaId, &args),
        "partition_id" => return l.one(body, o, Op::PartitionId, &args),
        "all_reduce" => CollectiveKind::AllReduce { body: l.combiner(body, o, 0)? },
        "all_gather" => CollectiveKind::AllGather { dim: l.dim(o, &["all_gather_dim"])? },
        "reduce_scatter" => {
            CollectiveKind::ReduceScatter { dim: l.dim(o, &["scatter_dimension"])?, body: l.combiner(body, o, 0)? }
        }
        "collective_broadcast" => CollectiveKind::Broadcast,
        "collective_permute" => CollectiveKind::Permute { pairs: pairs(l, o)? },
        "all_to_all" => return all_to_all(l, body, o, &args),
        _ => return Ok(None),
    };
    let devices = devices(l, o)?;
    l.many(body, o, Op::Collective { kind, devices }, &args)
}

/// A table of device ids; negative ids fill short rows.
fn table(l: &Lower<'_, '_>, o: &Operation<'_>, key: &str) -> PResult<Vec<Vec<u64>>> {
    let Some(a) = o.get(&[key]) else { return Ok(Vec::new()) };
    let inner = match a {
        Attr::Dialect(..) => return Err(o.error(format!("`{key}` must be a table of device ids"))),
        a => a,
    };
    let flat = integers(l.text, inner)?;
    let width = sizes(inner).last().copied().unwrap_or(1).max(1) as usize;
    let rows = flat.chunks(width).map(|r| r.iter().filter_map(|v| u64::try_from(*v).ok()).collect());
    Ok(rows.collect())
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

fn pairs(l: &Lower<'_, '_>, o: &Operation<'_>) -> PResult<Vec<(u64, u64)>> {
    (table(l, o, "source_target_pairs")?.iter())
        .map(|p| match p[..] {
            [a, b] => Ok((a, b)),
            _ => Err(o.error("`source_target_pairs` must be pairs of device ids")),
        })
        .collect()
}

/// HLO's all-to-all leaves the shape; the parts then move from the split to the concatenated dimension.
fn all_to_all<'a>(l: &mut Lower<'a, '_>, body: &mut Body<'a>, o: &Operation<'a>, args: &[NodeId]) -> Lowered {
    let (split, concat) = (l.dim(o, &["split_dimension"])?, l.dim(o, &["concat_dimension"])?);
    let count = l.sizes(o, &["split_count"])?.first().copied().unwrap_or(1).max(1);
    let devices = devices(l, o)?;
    let mut out = Vec::new();
    for x in args {
        let a = l.array(body, o, *x)?;
        if split >= a.rank() || concat >= a.rank() || a.dims[split] % count != 0 {
            return Err(o.error(format!("all_to_all cannot split dimension {split} of {a} into {count} parts")));
        }
        let op = Op::Collective { kind: CollectiveKind::AllToAll { dim: Some(split) }, devices: devices.clone() };
        let moved = l.infer(body, o, op, &[*x])?;
        out.push(if split == concat { moved } else { regroup(l, body, o, moved, &a, [split, concat], count)? });
    }
    Ok(Some(out))
}

/// Takes `count` parts along one dimension apart and joins them along another.
fn regroup<'a>(
    l: &mut Lower<'a, '_>,
    body: &mut Body<'a>,
    o: &Operation<'a>,
    x: NodeId,
    a: &ArrayShape,
    [split, concat]: [usize; 2],
    count: u64,
) -> PResult<NodeId> {
    let mut dims = a.dims.clone();
    dims[split] /= count;
    dims.insert(split, count);
    let apart = l.add(body, o, Op::Reshape, &[x], Shape::array(a.dtype, &dims))?;
    // The parts' dimension goes right before the concatenated one.
    let mut permutation: Vec<usize> = (0..dims.len()).filter(|d| *d != split).collect();
    permutation.insert(concat, split);
    let turned = l.infer(body, o, Op::Transpose { permutation }, &[apart])?;
    let mut dims = a.dims.clone();
    dims[split] /= count;
    dims[concat] *= count;
    l.add(body, o, Op::Reshape, &[turned], Shape::array(a.dtype, &dims))
}
