//! Rules of collectives and of transfers between devices and with the host.

use super::{Rule, Site, ensure, fail, one_or_tuple, sized, with_type};
use crate::graph::{ArrayShape, Collective, CollectiveKind, CompId, Shape};
use systole_isa::DType;

pub(super) fn rule(s: &Site<'_>, kind: &CollectiveKind, devices: &Collective) -> Rule {
    groups(s, devices)?;
    s.at_least(1)?;
    let arrays = s.arrays()?;
    let same = || one_or_tuple(arrays.iter().map(|a| with_type(a, a.dtype)).collect());
    match kind {
        CollectiveKind::AllReduce { body } | CollectiveKind::Reduce { body } => {
            combiners(s, *body, &arrays)?;
            Ok(same())
        }
        CollectiveKind::AllGather { dim } => scaled(s, &arrays, *dim, devices, true),
        CollectiveKind::ReduceScatter { dim, body } => {
            combiners(s, *body, &arrays)?;
            scaled(s, &arrays, *dim, devices, false)
        }
        CollectiveKind::AllToAll { dim: Some(dim) } => {
            s.count(1)?;
            s.dim(*dim, arrays[0].rank(), "its operand")?;
            if let Some(n) = group_size(s, devices)? {
                ensure(arrays[0].dims[*dim] % n == 0, "all_to_all_divides", || {
                    format!("all-to-all splits dimension {dim} of {} into {n} parts", arrays[0])
                })?;
            }
            Ok(same())
        }
        CollectiveKind::AllToAll { dim: None } => {
            for a in &arrays {
                ensure(a.same(arrays[0]), "same_sizes", || format!("all-to-all exchanges {} and {a}", arrays[0]))?;
            }
            if let Some(n) = group_size(s, devices)? {
                ensure(arrays.len() as u64 == n, "all_to_all_operands", || {
                    format!("all-to-all among {n} devices takes {n} operands, not {}", arrays.len())
                })?;
            }
            // The tuple form gives a tuple even of one element.
            match s.declared {
                Some(Shape::Array(_)) | None => Ok(same()),
                Some(_) => Ok(Shape::Tuple(arrays.iter().map(|a| with_type(a, a.dtype)).collect())),
            }
        }
        CollectiveKind::Permute { pairs } => {
            for (i, (from, to)) in pairs.iter().enumerate() {
                let twice = pairs[..i].iter().any(|(f, t)| f == from || t == to);
                ensure(!twice, "permute_repeats", || {
                    format!("the pair {{{from},{to}}} repeats a source or a target of collective-permute")
                })?;
            }
            Ok(same())
        }
        CollectiveKind::Broadcast => Ok(same()),
        CollectiveKind::RaggedAllToAll => {
            s.count(6)?;
            ensure(arrays[0].dtype == arrays[1].dtype, "same_type", || {
                format!("ragged-all-to-all moves {} into {}", arrays[0], arrays[1])
            })?;
            for a in &arrays[2..] {
                ensure(a.dtype.is_integer() && a.dims == arrays[2].dims, "ragged_offsets", || {
                    format!("offsets and sizes of ragged-all-to-all are integers of one size, not {a}")
                })?;
            }
            Ok(with_type(arrays[1], arrays[1].dtype))
        }
    }
}

/// No device twice.
fn groups(s: &Site<'_>, devices: &Collective) -> Rule<()> {
    let mut all: Vec<u64> = devices.groups.iter().flatten().copied().collect();
    all.sort_unstable();
    ensure(devices.channel.is_some() || !devices.use_global_ids, "global_ids_channel", || {
        format!("{} with use_global_device_ids=true needs a channel_id", s.name())
    })?;
    match all.windows(2).find(|w| w[0] == w[1]) {
        Some(w) => fail("replica_group_repeats", format!("device {} is in the groups of {} twice", w[0], s.name())),
        None => Ok(()),
    }
}

/// Devices that take part together, if the operation says so by itself.
fn group_size(s: &Site<'_>, devices: &Collective) -> Rule<Option<u64>> {
    let Some(first) = devices.groups.first() else { return Ok(None) };
    ensure(devices.groups.iter().all(|g| g.len() == first.len()) && !first.is_empty(), "replica_group_sizes", || {
        format!("the groups of {} must have one size", s.name())
    })?;
    // Without global ids a channel joins the partitions of each replica to the group, where there are partitions.
    let plain = devices.channel.is_none() || devices.use_global_ids || s.module.partitions == 1;
    Ok(plain.then_some(first.len() as u64))
}

fn combiners(s: &Site<'_>, body: CompId, arrays: &[&ArrayShape]) -> Rule<()> {
    let c = s.computation(body)?;
    let types: Vec<DType> = arrays.iter().map(|a| a.dtype).collect();
    if c.params.len() == 2 {
        // One scalar combination for all operands, which may differ in type only where it does not matter.
        return s.combiner(body, &types[..1]);
    }
    s.combiner(body, &types)
}

/// All-gather multiplies a dimension by the group's size, reduce-scatter divides it.
fn scaled(s: &Site<'_>, arrays: &[&ArrayShape], dim: usize, devices: &Collective, up: bool) -> Rule {
    let n = group_size(s, devices)?;
    let declared = match s.declared {
        Some(Shape::Tuple(t)) => t.first().and_then(Shape::as_array),
        Some(Shape::Array(a)) => Some(a),
        Some(Shape::Token) | None => None,
    };
    s.dim(dim, arrays[0].rank(), "its operand")?;
    let have = arrays[0].dims[dim];
    let factor = match (n, declared.and_then(|d| d.dims.get(dim))) {
        (Some(n), _) => n,
        (None, Some(&d)) if up && have > 0 && d % have == 0 => d / have,
        (None, Some(&d)) if !up && d > 0 && have.is_multiple_of(d) => have / d,
        (None, Some(0)) if have == 0 => 1,
        (None, Some(&d)) => {
            return fail(
                "group_factor",
                format!("{} of dimension {dim} from {have} to {d} is no whole factor", s.name()),
            );
        }
        (None, None) => {
            s.declared()?;
            return fail("result_rank", format!("the result of {} lacks dimension {dim}", s.name()));
        }
    };
    let mut out = Vec::new();
    for a in arrays {
        s.dim(dim, a.rank(), "its operand")?;
        let mut dims: Vec<i128> = a.dims.iter().map(|&d| d as i128).collect();
        ensure(up || a.dims[dim] % factor == 0, "group_factor", || {
            format!("{} splits dimension {dim} of {a} into {factor} parts", s.name())
        })?;
        dims[dim] = if up { dims[dim] * factor as i128 } else { dims[dim] / factor as i128 };
        out.push(sized(a.dtype, &dims)?);
    }
    Ok(one_or_tuple(out))
}

/// The data, the transfer's context and its token.
fn begun(data: &Shape) -> Shape {
    Shape::Tuple(vec![data.clone(), Shape::array(DType::U32, &[]), Shape::Token])
}

/// The number of this replica or partition.
pub(super) fn id(s: &Site<'_>) -> Rule {
    s.count(0)?;
    Ok(Shape::array(DType::U32, &[]))
}

pub(super) fn send(s: &Site<'_>) -> Rule {
    s.count(2)?;
    s.token(1)?;
    Ok(begun(s.operands[0]))
}

pub(super) fn send_done(s: &Site<'_>) -> Rule {
    s.count(1)?;
    Ok(Shape::Token)
}

pub(super) fn recv(s: &Site<'_>) -> Rule {
    s.count(1)?;
    s.token(0)?;
    match s.declared()? {
        Shape::Tuple(t) if t.len() == 3 => Ok(begun(&t[0])),
        other @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => {
            fail("recv_result", format!("recv gives (data, u32[], token[]), not {other}"))
        }
    }
}

pub(super) fn recv_done(s: &Site<'_>) -> Rule {
    s.count(1)?;
    match s.operands[0] {
        Shape::Tuple(t) if t.len() == 3 => Ok(Shape::Tuple(vec![t[0].clone(), Shape::Token])),
        other @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => {
            fail("recv_done_operand", format!("recv-done takes the result of recv, not {other}"))
        }
    }
}

pub(super) fn infeed(s: &Site<'_>) -> Rule {
    s.count(1)?;
    s.token(0)?;
    match s.declared()? {
        Shape::Tuple(t) if t.len() == 2 => Ok(Shape::Tuple(vec![t[0].clone(), Shape::Token])),
        other @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => {
            fail("infeed_result", format!("infeed gives (data, token[]), not {other}"))
        }
    }
}

pub(super) fn outfeed(s: &Site<'_>, shape: &Shape) -> Rule {
    s.count(2)?;
    s.token(1)?;
    ensure(shape.same(s.operands[0]), "outfeed_shape", || {
        format!("outfeed_shape is {shape} where the operand is {}", s.operands[0])
    })?;
    Ok(Shape::Token)
}
