//! Which devices take part in a collective together, by device number.

use crate::graph::{Collective, CollectiveKind, Node};
use systole_isa::program::PodShape;

/// What the ids of a collective's groups number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Replica,
    Partition,
    ReplicaAndPartition,
    Flattened,
}

/// The mode of a collective: of its channel, its flag, and whether groups of its kind join the partitions.
pub fn mode(kind: &CollectiveKind, c: &Collective) -> Mode {
    let joins_partitions = match kind {
        CollectiveKind::AllReduce { .. }
        | CollectiveKind::AllGather { .. }
        | CollectiveKind::ReduceScatter { .. }
        | CollectiveKind::Reduce { .. } => true,
        CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::Broadcast
        | CollectiveKind::RaggedAllToAll => false,
    };
    match (c.channel, c.use_global_ids) {
        (_, true) => Mode::Flattened,
        (None, false) => Mode::Replica,
        (Some(_), false) if joins_partitions => Mode::ReplicaAndPartition,
        (Some(_), false) => Mode::Partition,
    }
}

/// How many ids there are in a mode.
fn ids(mode: Mode, pod: &PodShape) -> u32 {
    match mode {
        Mode::Replica | Mode::ReplicaAndPartition => pod.replicas,
        Mode::Partition => pod.partitions,
        Mode::Flattened => pod.devices(),
    }
}

/// The pairs of `_xla_send_recv_source_target_pairs` of a transfer, if the instruction has them.
pub fn source_target_pairs(node: &Node) -> Option<Vec<(u64, u64)>> {
    let (_, text) = node.attributes.iter().find(|(_, v)| v.contains("_xla_send_recv_source_target_pairs"))?;
    let (_, rest) = text.split_once("_xla_send_recv_source_target_pairs")?;
    let rest = &rest[..rest.find("}}").unwrap_or(rest.len())];
    let numbers: Vec<u64> = rest.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    Some(numbers.as_chunks::<2>().0.iter().map(|p| (p[0], p[1])).collect())
}

/// The groups of a collective as device numbers, in the order of their members; they cover every device once. Those of
/// all-reduces and broadcasts may differ in size.
///
/// # Errors
/// Ids that no device has, groups of different sizes, or devices in no group.
pub fn groups(kind: &CollectiveKind, c: &Collective, pod: &PodShape) -> Result<Vec<Vec<u32>>, String> {
    let (replicas, partitions) = (pod.replicas, pod.partitions);
    let mode = mode(kind, c);
    let ids = ids(mode, pod);
    let given: Vec<Vec<u32>> = match c.groups.iter().all(Vec::is_empty) {
        true => vec![(0..ids).collect()],
        false => {
            let number = |&g: &u64| match u32::try_from(g) {
                Ok(g) if g < ids => Ok(g),
                _ => Err(format!("a group names id {g}, but ids are below {ids}")),
            };
            c.groups.iter().map(|g| g.iter().map(number).collect()).collect::<Result<_, _>>()?
        }
    };
    let device = |r: u32, p: u32| r * partitions + p;
    let mut out: Vec<Vec<u32>> = Vec::new();
    for g in &given {
        match mode {
            Mode::Flattened => out.push(g.clone()),
            Mode::Replica => out.extend((0..partitions).map(|p| g.iter().map(|&r| device(r, p)).collect())),
            Mode::Partition => out.extend((0..replicas).map(|r| g.iter().map(|&p| device(r, p)).collect())),
            Mode::ReplicaAndPartition => {
                out.push(g.iter().flat_map(|&r| (0..partitions).map(move |p| device(r, p))).collect());
            }
        }
    }
    let size = out.first().map_or(0, Vec::len);
    let mut seen = vec![false; pod.devices() as usize];
    for &d in out.iter().flatten() {
        seen[d as usize] = true;
    }
    let any = matches!(kind, CollectiveKind::AllReduce { .. } | CollectiveKind::Broadcast);
    if !any && out.iter().any(|g| g.len() != size) {
        return Err("groups have different sizes".into());
    }
    match seen.iter().position(|s| !s) {
        Some(d) => Err(format!("device {d} is in no group")),
        None => Ok(out),
    }
}

/// The (source, target) pairs of a permutation as device numbers.
///
/// # Errors
/// Ids that no device has.
pub fn pairs(
    kind: &CollectiveKind,
    c: &Collective,
    pairs: &[(u64, u64)],
    pod: &PodShape,
) -> Result<Vec<(u32, u32)>, String> {
    let (replicas, partitions) = (u64::from(pod.replicas), u64::from(pod.partitions));
    let mode = mode(kind, c);
    let ids = u64::from(ids(mode, pod));
    let mut out = Vec::new();
    for &(s, t) in pairs {
        if s >= ids || t >= ids {
            return Err(format!("the pair {{{s},{t}}} names an id that is not below {ids}"));
        }
        match mode {
            Mode::Replica | Mode::ReplicaAndPartition => {
                out.extend((0..partitions).map(|p| ((s * partitions + p) as u32, (t * partitions + p) as u32)));
            }
            Mode::Partition => {
                out.extend((0..replicas).map(|r| ((r * partitions + s) as u32, (r * partitions + t) as u32)));
            }
            Mode::Flattened => out.push((s as u32, t as u32)),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_number_replicas_partitions_or_devices() {
        let pod = PodShape { replicas: 2, partitions: 2, ..PodShape::default() };
        let gather = CollectiveKind::AllGather { dim: 0 };
        let exchange = CollectiveKind::AllToAll { dim: Some(0) };
        let c = |groups: &[&[u64]], channel: Option<u64>, use_global_ids: bool| Collective {
            groups: groups.iter().map(|g| g.to_vec()).collect(),
            channel,
            use_global_ids,
        };
        for (kind, given, want) in [
            (&gather, c(&[], None, false), vec![vec![0, 2], vec![1, 3]]),
            (&gather, c(&[&[0], &[1]], Some(1), false), vec![vec![0, 1], vec![2, 3]]),
            (&gather, c(&[&[3, 0], &[1, 2]], Some(1), true), vec![vec![3, 0], vec![1, 2]]),
            (&exchange, c(&[&[1, 0]], Some(1), false), vec![vec![1, 0], vec![3, 2]]),
        ] {
            assert_eq!(groups(kind, &given, &pod), Ok(want));
        }
        assert!(groups(&gather, &c(&[&[0]], Some(1), true), &pod).is_err());
        assert!(groups(&gather, &c(&[&[0, 7]], Some(1), true), &pod).is_err());
        let permute = CollectiveKind::Permute { pairs: Vec::new() };
        assert_eq!(pairs(&permute, &c(&[], None, false), &[(0, 1)], &pod), Ok(vec![(0, 2), (1, 3)]));
        assert_eq!(pairs(&permute, &c(&[], Some(3), false), &[(0, 1)], &pod), Ok(vec![(0, 1), (2, 3)]));
    }
}
