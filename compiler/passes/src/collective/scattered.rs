//! `scattered-sums`: an all-reduce of which every device takes its own part is a reduce-scatter.
//!
//! Partitioners without reduce-scatter write a dynamic slice behind the all-reduce, at an offset that is computed from the
//! device's number: by arithmetic, or from a table. The offset is computed here for every device. Where the members of every
//! group take parts of one size that together are the whole, each gets its part at half the traffic.

use crate::edit::Draft;
use crate::options::PassOptions;
use rustc_hash::FxHashMap;
use systole_hlo::analysis::{devices, uses::uses};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Collective, CollectiveKind, Computation, Module, NodeId, Op};
use systole_isa::dtype::DTypeClass;
use systole_isa::program::PodShape;

/// Elements of a table that offsets are taken from, at most.
const TABLE: usize = 1 << 16;

/// Makes the reduce-scatters of a module.
pub fn run(mut module: Module, draft: &mut Draft, o: &PassOptions) -> Result<Module, CompileError> {
    let mut last = module.last_channel();
    for c in &mut module.computations {
        let found = pairs(c, &o.asked.pod);
        let mut dead = Vec::new();
        for f in found {
            if !draft.fire("all-reduce-slice") {
                break;
            }
            let Op::Collective { kind: CollectiveKind::AllReduce { body }, devices } = c.node(f.sum).op.clone() else {
                continue;
            };
            last += 1;
            let devices =
                Collective { groups: f.groups, channel: Some(devices.channel.unwrap_or(last)), use_global_ids: true };
            let operands = c.node(f.sum).operands.clone();
            let slice = &mut c.nodes[f.slice.index()];
            slice.op = Op::Collective { kind: CollectiveKind::ReduceScatter { dim: f.dim, body }, devices };
            slice.operands = operands;
            dead.push(c.node(f.sum).name.clone());
        }
        if !dead.is_empty() {
            // Names are unique in a computation.
            let effect = |n: &systole_hlo::graph::Node| {
                let calls = matches!(n.op, Op::While { .. } | Op::Conditional { .. } | Op::Call { .. });
                (n.op.has_effect() || calls) && !dead.contains(&n.name)
            };
            c.reorder(effect);
        }
    }
    Ok(module)
}

/// An all-reduce and the slice of it, with the groups in the order of their parts.
struct Pair {
    sum: NodeId,
    slice: NodeId,
    dim: usize,
    groups: Vec<Vec<u64>>,
}

fn pairs(c: &Computation, pod: &PodShape) -> Vec<Pair> {
    if !c.nodes.iter().any(|n| matches!(n.op, Op::Collective { kind: CollectiveKind::AllReduce { .. }, .. })) {
        return Vec::new();
    }
    let users = uses(c);
    c.ids().filter_map(|sum| pair(c, sum, &users, pod)).collect()
}

fn pair(c: &Computation, sum: NodeId, users: &[Vec<NodeId>], pod: &PodShape) -> Option<Pair> {
    let n = c.node(sum);
    let Op::Collective { kind: kind @ CollectiveKind::AllReduce { .. }, devices } = &n.op else { return None };
    let ([slice], [_]) = (&users[sum.index()][..], &n.operands[..]) else { return None };
    let s = c.node(*slice);
    let Op::DynamicSlice { sizes } = &s.op else { return None };
    let whole = &n.shape.as_array()?.dims;
    let cut: Vec<usize> = (0..whole.len()).filter(|d| sizes[*d] != whole[*d]).collect();
    let [dim] = cut[..] else { return None };
    if s.operands[0] != sum || c.root == sum || s.operands.len() != whole.len() + 1 || sizes[dim] == 0 {
        return None;
    }
    let parts = whole[dim] / sizes[dim];
    let mut out = Vec::new();
    for group in devices::groups(kind, devices, pod).ok()? {
        if group.len() as u64 != parts || parts * sizes[dim] != whole[dim] {
            return None;
        }
        let mut ordered = Vec::new();
        for device in group {
            let at = offset(c, s.operands[1 + dim], device, pod)?.clamp(0, (whole[dim] - sizes[dim]) as i64) as u64;
            ordered.push((at, u64::from(device)));
        }
        ordered.sort_unstable();
        if ordered.iter().enumerate().any(|(i, (at, _))| *at != i as u64 * sizes[dim]) {
            return None;
        }
        out.push(ordered.into_iter().map(|(_, d)| d).collect());
    }
    Some(Pair { sum, slice: *slice, dim, groups: out })
}

/// The value of a scalar on a device, if it follows from the device's number.
fn offset(c: &Computation, id: NodeId, device: u32, pod: &PodShape) -> Option<i64> {
    let mut known = FxHashMap::default();
    let all = integers(c, id, device, pod, &mut known)?;
    if let [one] = all[..] { Some(one) } else { None }
}

/// The elements of an array of integers on a device.
#[allow(clippy::wildcard_enum_match_arm, reason = "indices of other forms are not known here")]
fn integers(
    c: &Computation,
    id: NodeId,
    device: u32,
    pod: &PodShape,
    known: &mut FxHashMap<NodeId, Option<Vec<i64>>>,
) -> Option<Vec<i64>> {
    if let Some(k) = known.get(&id) {
        return k.clone();
    }
    let n = c.node(id);
    let a = n.shape.as_array()?;
    if a.elements() > TABLE as u64 || !a.dtype.is_integer() {
        return None;
    }
    let mut of = |i: usize| integers(c, *n.operands.get(i)?, device, pod, known);
    let value = match &n.op {
        Op::PartitionId => Some(vec![i64::from(device % pod.partitions)]),
        Op::ReplicaId => Some(vec![i64::from(device / pod.partitions)]),
        Op::Constant(l) => (0..l.elements()).map(|i| l.integer(i)).collect(),
        Op::Reshape | Op::Copy => of(0),
        // Values that both types have stay what they are.
        Op::Convert => of(0).filter(|v| v.iter().all(|x| (0..=i64::from(i8::MAX)).contains(x) || a.dtype.bits() >= 32)),
        Op::Broadcast { .. } => match &of(0)?[..] {
            [one] => Some(vec![*one; a.elements() as usize]),
            _ => None,
        },
        Op::Binary(op) => {
            let (x, y) = (of(0)?, of(1)?);
            x.iter().zip(&y).map(|(x, y)| combined(*op, *x, *y)).collect()
        }
        Op::DynamicSlice { sizes } => {
            let (table, at) = (of(0)?, of(1)?);
            let ([size], [at]) = (&sizes[..], &at[..]) else { return None };
            let start = usize::try_from((*at).clamp(0, table.len() as i64 - *size as i64)).ok()?;
            table.get(start..start + *size as usize).map(<[i64]>::to_vec)
        }
        _ => None,
    };
    // What an unsigned type has not, would wrap.
    let value = value.filter(|v| a.dtype.class() != DTypeClass::Unsigned || v.iter().all(|x| *x >= 0));
    known.insert(id, value.clone());
    value
}

fn combined(op: Binary, x: i64, y: i64) -> Option<i64> {
    // Within every type of 32 bits nothing wraps.
    op.of_integers(x, y).filter(|value| i32::try_from(*value).is_ok())
}
