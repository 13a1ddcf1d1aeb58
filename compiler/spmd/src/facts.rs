//! What annotations say of a program as a whole: whether there are any, for how many partitions, how inputs are divided.

use crate::annotation::{self, Raw, Reader};
use crate::import::{annotation_of, attribute};
use crate::mesh::{Axis, Mesh};
use systole_hlo::graph::{self, Module, Op, dictionary};

/// Whether a program has annotations that its devices cannot run as it is.
pub fn is_annotated(module: &Module) -> bool {
    let nodes = || module.computations.iter().flat_map(|c| &c.nodes);
    if nodes().any(|n| annotation_of(&n.op).is_some()) {
        return true;
    }
    let partitioned = module.entry().name.ends_with("_spmd")
        || nodes().any(|n| {
            matches!(n.op, Op::PartitionId)
                || matches!(&n.op, Op::Collective { devices, .. } if devices.channel.is_some())
        });
    let divides = |n: &graph::Node| {
        attribute(n, "sharding").is_some_and(|v| v.contains("devices=") || v.contains("maximal"))
            || attribute(n, "frontend_attributes").is_some_and(|v| v.contains("xla.sdy.sharding"))
    };
    !partitioned && nodes().any(divides)
}

/// The number of partitions that a program's annotations are for: what the module says, else the size of its meshes, else
/// of the first tile assignment.
pub fn partitions(module: &Module) -> u64 {
    if module.partitions > 1 {
        return module.partitions;
    }
    let named = module.attributes.iter().find(|(k, _)| k == "frontend_attributes");
    let meshes = named.and_then(|(_, d)| dictionary::entry(d, "xla.sdy.meshes"));
    let meshes = meshes.and_then(|t| annotation::meshes(&t).ok()).unwrap_or_default();
    let size = |m: &annotation::Named| m.axes.iter().map(|a| a.1).try_fold(1u64, u64::checked_mul).unwrap_or(1);
    let of_meshes = meshes.iter().map(size).max().unwrap_or(1);
    if of_meshes > 1 {
        return of_meshes;
    }
    let nodes = module.computations.iter().flat_map(|c| &c.nodes);
    let mut tiles = nodes.filter_map(|n| {
        let (_, rest) = attribute(n, "sharding")?.split_once("devices=[")?;
        rest.split_once(']')?
            .0
            .split(',')
            .map(|d| d.trim().parse::<u64>().ok())
            .try_fold(1u64, |n, d| n.checked_mul(d?))
    });
    tiles.next().unwrap_or(1)
}

/// How the inputs of a partitioned program (a dump) are divided, by what its parameters say; `None` where one does not say.
/// Results say nothing.
pub fn boundary(module: &Module, devices: u64) -> Option<crate::Boundary> {
    let entry = module.entry();
    let reader = Reader { meshes: Vec::new(), devices, places: None };
    let mut read = Vec::new();
    for &p in &entry.params {
        let n = entry.node(p);
        let leaves = n.shape.leaves();
        let raws = reader.hlo(attribute(n, "sharding")?).ok()?;
        for (i, a) in leaves.into_iter().enumerate() {
            read.push((a.dims.clone(), raws.get(i).or(if raws.len() == 1 { raws.first() } else { None })?.clone()));
        }
    }
    let pieces: Vec<crate::mesh::Piece> = read.iter().flat_map(|(_, r)| r.pieces()).collect();
    let mesh = Mesh::new(devices, &pieces, None).ok()?;
    let edge = |(local, raw): &(Vec<u64>, Raw)| {
        let mut sharding = crate::sharding::Sharding::replicated(local.len());
        for (d, dim) in raw.dims.iter().flatten().enumerate() {
            let axes: Option<Vec<Vec<Axis>>> = dim.pieces.iter().map(|p| mesh.axes(*p)).collect();
            *sharding.dims.get_mut(d)? = axes?.concat();
        }
        let dims = local.iter().zip(&sharding.dims).map(|(n, axes)| n.checked_mul(mesh.size(axes)));
        Some(crate::Edge { dims: dims.collect::<Option<_>>()?, sharding, unreduced: crate::mesh::Axes::default() })
    };
    let params = read.iter().map(edge).collect::<Option<_>>()?;
    Some(crate::Boundary { mesh, params, results: Vec::new() })
}
