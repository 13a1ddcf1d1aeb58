//! `collective`: collectives in the few forms that code generation knows.
//!
//! Afterwards every collective takes one array and gives one, its groups are device numbers that cover all devices
//! (`use_global_device_ids`), and it is
//! - `all-reduce` of any array;
//! - `all-gather`, `reduce-scatter` or `all-to-all` along a dimension whose parts lie in whole rows of memory
//!   ([`systole_hlo::analysis::parts`]);
//! - `collective-broadcast` or `collective-permute` of any array; what no one sends to a device is zeroed afterwards.
//!
//! Where a dimension does not fit, the array is flattened to one dimension whose parts are padded to whole tiles.

pub mod scattered;

use super::edit::Emit;
use super::make::array;
use crate::options::PassOptions;
use systole_hlo::analysis::{devices, parts::parts};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Collective, CollectiveKind, CompId, Direction, Node, NodeId, Op, Shape};
use systole_isa::DType;

type Result<T> = std::result::Result<T, CompileError>;

/// Rewrites one operation.
#[allow(clippy::wildcard_enum_match_arm, reason = "the pass is about devices: all others stay as they are")]
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], o: &PassOptions) -> Result<Option<NodeId>> {
    let refused = |why: String| CompileError::unsupported(n.span, format!("{}: {why}", n.name));
    let (kind, devices) = match &n.op {
        Op::ReplicaId if o.asked.pod.replicas == 1 => return Ok(Some(b.bits(DType::U32, 0))),
        Op::PartitionId if o.asked.pod.partitions == 1 => return Ok(Some(b.bits(DType::U32, 0))),
        Op::Collective { kind, devices } => (kind, devices),
        Op::RecvDone { host: false, .. } => return Ok(received(b, n, operands, o)),
        _ => return Ok(None),
    };
    if let CollectiveKind::Permute { pairs } = kind {
        let pairs = devices::pairs(kind, devices, pairs, &o.asked.pod).map_err(refused)?;
        let results: Vec<NodeId> = operands.iter().map(|&x| permute(b, x, &pairs, o)).collect();
        return Ok(Some(joined(b, n, &results)));
    }
    let groups = devices::groups(kind, devices, &o.asked.pod).map_err(refused)?;
    let size = groups.first().map_or(1, Vec::len) as u64;
    let wide: Vec<Vec<u64>> = groups.iter().map(|g| g.iter().map(|&d| u64::from(d)).collect()).collect();
    let mut cx = Cx { b, n, o, size, groups: wide };
    let mut results = Vec::new();
    if groups.iter().any(|g| g.len() as u64 != size) {
        let results = cx.uneven(kind, operands)?;
        return Ok(Some(joined(b, n, &results)));
    }
    match kind {
        CollectiveKind::AllReduce { body } | CollectiveKind::Reduce { body } => {
            if cx.b.draft.computations[body.index()].params.len() != 2 {
                results = cx.reduce_several(*body, operands)?;
            } else {
                for &x in operands {
                    results.push(cx.all_reduce(x, *body));
                }
            }
            if matches!(kind, CollectiveKind::Reduce { .. }) {
                let first = cx.is_one_of(&groups.iter().map(|g| g[0]).collect::<Vec<_>>());
                for (r, &x) in results.iter_mut().zip(operands) {
                    *r = cx.b.select(first, *r, x);
                }
            }
        }
        CollectiveKind::AllGather { dim } => {
            for (&x, leaf) in operands.iter().zip(n.shape.leaves()) {
                cx.check_factor(cx.b.dims(x)[*dim], leaf.dims[*dim])?;
                results.push(cx.all_gather(x, *dim));
            }
        }
        CollectiveKind::ReduceScatter { dim, body } => {
            for (&x, leaf) in operands.iter().zip(n.shape.leaves()) {
                cx.check_factor(leaf.dims[*dim], cx.b.dims(x)[*dim])?;
                results.push(cx.reduce_scatter(x, *dim, *body));
            }
        }
        CollectiveKind::AllToAll { dim: Some(dim) } => {
            if !cx.b.dims(operands[0])[*dim].is_multiple_of(size) {
                return Err(refused(format!("dimension {dim} is no multiple of the {size} devices of a group")));
            }
            results.push(cx.all_to_all(operands[0], *dim));
        }
        CollectiveKind::AllToAll { dim: None } => results = cx.exchange(operands)?,
        CollectiveKind::Broadcast => {
            for &x in operands {
                results.push(cx.plain(CollectiveKind::Broadcast, x, cx.b.shape(x).clone()));
            }
        }
        CollectiveKind::RaggedAllToAll => results.push(cx.ragged(operands)),
        CollectiveKind::Permute { .. } => return Ok(None),
    }
    Ok(Some(joined(b, n, &results)))
}

/// What `recv-done` gives: zeros where nobody sends.
fn received(b: &mut Emit, n: &Node, operands: &[NodeId], o: &PassOptions) -> Option<NodeId> {
    let Op::Recv { pairs: Some(pairs), .. } = b.op(operands[0]) else { return None };
    let targets: Vec<u32> = pairs.iter().map(|p| p.1 as u32).collect();
    if targets.len() >= o.asked.pod.devices() as usize {
        return None;
    }
    let data = b.raw(n.op.clone(), operands, n.shape.clone());
    let got = is_one_of(b, o, &targets);
    let elements: Vec<NodeId> = b.elements_of(data);
    let mut out = Vec::new();
    for x in elements {
        let (dtype, dims) = (b.dtype(x), b.dims(x).to_vec());
        let zero = b.splat(dtype, &dims, 0.0);
        let got = b.broadcast(got, &[], &dims);
        out.push(b.select(got, x, zero));
    }
    Some(b.tuple(&out))
}

/// The results as the node's shape wants them.
fn joined(b: &mut Emit, n: &Node, results: &[NodeId]) -> NodeId {
    match (&n.shape, results) {
        (Shape::Array(_), [one]) => *one,
        _ => b.tuple(results),
    }
}

/// The number of this device.
fn device(b: &mut Emit, o: &PassOptions) -> NodeId {
    let scalar = Shape::array(DType::U32, &[]);
    let mut id = |op, count: u32| if count == 1 { b.bits(DType::U32, 0) } else { b.emit(op, &[], scalar.clone()) };
    let (r, p) = (id(Op::ReplicaId, o.asked.pod.replicas), id(Op::PartitionId, o.asked.pod.partitions));
    let n = b.bits(DType::U32, u64::from(o.asked.pod.partitions));
    let r = b.mul(r, n);
    b.add(r, p)
}

/// Whether this device is one of some.
fn is_one_of(b: &mut Emit, o: &PassOptions, list: &[u32]) -> NodeId {
    let me = device(b, o);
    let mut any = b.scalar(DType::Pred, 0.0);
    for &d in list {
        let d = b.bits(DType::U32, u64::from(d));
        let is = b.compare(Direction::Eq, me, d);
        any = b.or(any, is);
    }
    any
}

fn permute(b: &mut Emit, x: NodeId, pairs: &[(u32, u32)], o: &PassOptions) -> NodeId {
    let shape = b.shape(x).clone();
    let targets: Vec<u32> = pairs.iter().map(|p| p.1).collect();
    let all = targets.len() as u32 == o.asked.pod.devices();
    let same = pairs.iter().all(|(s, t)| s == t);
    let moved = if same {
        x
    } else {
        let pairs = pairs.iter().map(|&(s, t)| (u64::from(s), u64::from(t))).collect();
        let devices = Collective { groups: Vec::new(), channel: Some(1), use_global_ids: true };
        b.emit(Op::Collective { kind: CollectiveKind::Permute { pairs }, devices }, &[x], shape)
    };
    if all {
        return moved;
    }
    let (dtype, dims) = (b.dtype(x), b.dims(x).to_vec());
    let zero = b.splat(dtype, &dims, 0.0);
    let got = is_one_of(b, o, &targets);
    let got = b.broadcast(got, &[], &dims);
    b.select(got, moved, zero)
}

/// One collective at work.
struct Cx<'b, 'm> {
    b: &'b mut Emit<'m>,
    n: &'b Node,
    o: &'b PassOptions,
    /// Devices of a group.
    size: u64,
    groups: Vec<Vec<u64>>,
}

impl Cx<'_, '_> {
    fn check_factor(&self, small: u64, large: u64) -> Result<()> {
        if small * self.size == large {
            return Ok(());
        }
        let message = format!(
            "{}: the shapes say {} devices a group, the groups have {} with --replicas {} --partitions {}",
            self.n.name,
            large / small.max(1),
            self.size,
            self.o.asked.pod.replicas,
            self.o.asked.pod.partitions
        );
        Err(CompileError::unsupported(self.n.span, message))
    }

    fn is_one_of(&mut self, list: &[u32]) -> NodeId {
        is_one_of(self.b, self.o, list)
    }

    fn plain(&mut self, kind: CollectiveKind, x: NodeId, shape: Shape) -> NodeId {
        if self.size == 1 || array(&shape).elements() == 0 {
            return x;
        }
        let devices = Collective { groups: self.groups.clone(), channel: Some(1), use_global_ids: true };
        self.b.emit(Op::Collective { kind, devices }, &[x], shape)
    }

    fn all_reduce(&mut self, x: NodeId, body: CompId) -> NodeId {
        let shape = self.b.shape(x).clone();
        let (dtype, dims) = (self.b.dtype(x), self.b.dims(x).to_vec());
        if dtype.components() == 1 || self.size == 1 || self.b.elements(x) == 0 {
            return self.plain(CollectiveKind::AllReduce { body }, x, shape);
        }
        // Components lie one after the other: each is padded to whole parts.
        let tile = 4 * u64::from(self.o.chip.tile.0) * u64::from(self.o.chip.tile.1) * self.size;
        let elements = self.b.elements(x);
        let to = elements.div_ceil(tile) * tile;
        let flat = self.b.reshape(x, &[elements]);
        let zero = self.b.scalar(dtype, 0.0);
        let more = (to - elements) as i64;
        let wide = if to == elements { flat } else { self.b.pad_dim(flat, zero, 0, (0, more)) };
        let shape = self.b.shape(wide).clone();
        let sum = self.plain(CollectiveKind::AllReduce { body }, wide, shape);
        let sum = self.b.slice_dim(sum, 0, 0, elements, 1);
        self.b.reshape(sum, &dims)
    }

    /// Groups of different sizes: everybody gets everything, and takes what its own group makes of it.
    fn uneven(&mut self, kind: &CollectiveKind, operands: &[NodeId]) -> Result<Vec<NodeId>> {
        let devices = u64::from(self.o.asked.pod.devices());
        let groups = std::mem::replace(&mut self.groups, vec![(0..devices).collect()]);
        self.size = devices;
        let mut gathered = Vec::new();
        for &x in operands {
            let dims: Vec<u64> = [1].into_iter().chain(self.b.dims(x).iter().copied()).collect();
            let x = self.b.reshape(x, &dims);
            gathered.push(self.all_gather(x, 0));
        }
        let all_dims: Vec<Vec<u64>> = operands.iter().map(|&x| self.b.dims(x).to_vec()).collect();
        let mut results: Vec<NodeId> = Vec::new();
        for g in &groups {
            let mut members = Vec::new();
            for &d in g {
                let mut own = Vec::new();
                for (&all, dims) in gathered.iter().zip(&all_dims) {
                    let one = self.b.slice_dim(all, 0, d, d + 1, 1);
                    own.push(self.b.reshape(one, dims));
                }
                members.push(own);
            }
            let mut made = members[0].clone();
            if let CollectiveKind::AllReduce { body } = kind {
                for next in &members[1..] {
                    made = self.combined(*body, &made, next)?;
                }
            }
            let list: Vec<u32> = g.iter().map(|&d| d as u32).collect();
            let mine = self.is_one_of(&list);
            if results.is_empty() {
                results = made;
                continue;
            }
            for ((r, m), dims) in results.iter_mut().zip(made).zip(&all_dims) {
                let mine = self.b.broadcast(mine, &[], dims);
                *r = self.b.select(mine, m, *r);
            }
        }
        Ok(results)
    }

    /// Two devices' operands combined.
    fn combined(&mut self, body: CompId, a: &[NodeId], b: &[NodeId]) -> Result<Vec<NodeId>> {
        if self.b.draft.computations[body.index()].params.len() != 2 {
            let dims = self.b.dims(a[0]).to_vec();
            let args: Vec<NodeId> = a.iter().chain(b).copied().collect();
            return self.b.apply(body, &args, &dims);
        }
        let mut out = Vec::new();
        for (&x, &y) in a.iter().zip(b) {
            let dims = self.b.dims(x).to_vec();
            out.extend(self.b.apply(body, &[x, y], &dims)?);
        }
        Ok(out)
    }

    /// A combination of several arrays at once: everyone's, combined in order.
    fn reduce_several(&mut self, body: CompId, operands: &[NodeId]) -> Result<Vec<NodeId>> {
        let mut all = Vec::new();
        for &x in operands {
            let dims: Vec<u64> = [1].into_iter().chain(self.b.dims(x).iter().copied()).collect();
            let x = self.b.reshape(x, &dims);
            all.push(self.all_gather(x, 0));
        }
        let dims = self.b.dims(operands[0]).to_vec();
        let nth = |cx: &mut Self, i: u64| -> Vec<NodeId> {
            let one = |&a: &NodeId| {
                let s = cx.b.slice_dim(a, 0, i, i + 1, 1);
                cx.b.reshape(s, &dims)
            };
            all.iter().map(one).collect()
        };
        let mut acc = nth(self, 0);
        for i in 1..self.size {
            let args: Vec<NodeId> = acc.iter().copied().chain(nth(self, i)).collect();
            acc = self.b.apply(body, &args, &dims)?;
        }
        Ok(acc)
    }

    /// Whether the parts of an array along a dimension lie in whole rows.
    fn fits(&self, dtype: DType, dims: &[u64], dim: usize) -> bool {
        parts(dtype, dims, dim, self.size, self.o.chip.tile).is_some()
    }

    /// Elements that a flat part is padded to.
    fn padded(&self, dtype: DType, elements: u64) -> u64 {
        let (sublanes, lanes) = (u64::from(self.o.chip.tile.0), u64::from(self.o.chip.tile.1));
        let packing = dtype.packing() as u64;
        let granule = systole_isa::dma::HBM_GRANULE.div_ceil(lanes * 4) * packing;
        let tile = (sublanes * packing).max(granule) * lanes;
        elements.div_ceil(tile) * tile
    }

    /// `[n, part..]` as one dimension of padded parts.
    fn flat(&mut self, x: NodeId, n: u64) -> NodeId {
        let elements = self.b.elements(x) / n;
        let to = self.padded(self.b.dtype(x), elements);
        let x = self.b.reshape(x, &[n, elements]);
        let zero = self.b.scalar(self.b.dtype(x), 0.0);
        let more = (to - elements) as i64;
        let x = if to == elements { x } else { self.b.pad_dim(x, zero, 1, (0, more)) };
        self.b.reshape(x, &[n * to])
    }

    /// The other way: `[n * padded]` as `[n, part..]`.
    fn unflat(&mut self, x: NodeId, n: u64, part: &[u64]) -> NodeId {
        let elements: u64 = part.iter().product();
        let to = self.b.elements(x) / n;
        let x = self.b.reshape(x, &[n, to]);
        let x = self.b.slice_dim(x, 1, 0, elements, 1);
        let dims: Vec<u64> = [n].into_iter().chain(part.iter().copied()).collect();
        self.b.reshape(x, &dims)
    }

    /// `[.., n * s, ..]` as `[n, .., s, ..]`.
    fn split(&mut self, x: NodeId, dim: usize) -> NodeId {
        let dims = self.b.dims(x).to_vec();
        let mut parts = dims.clone();
        parts[dim] /= self.size;
        let wide: Vec<u64> = [&dims[..dim], &[self.size], &parts[dim..]].concat();
        let x = self.b.reshape(x, &wide);
        let order: Vec<usize> = [dim].into_iter().chain((0..wide.len()).filter(|&d| d != dim)).collect();
        self.b.transpose(x, &order)
    }

    /// `[n, .., s, ..]` as `[.., n * s, ..]`.
    fn merge(&mut self, x: NodeId, dim: usize) -> NodeId {
        let dims = self.b.dims(x).to_vec();
        let order: Vec<usize> = (1..=dim).chain([0]).chain(dim + 1..dims.len()).collect();
        let x = self.b.transpose(x, &order);
        let mut out = dims[1..].to_vec();
        out[dim] *= dims[0];
        self.b.reshape(x, &out)
    }

    fn all_gather(&mut self, x: NodeId, dim: usize) -> NodeId {
        let (dtype, dims) = (self.b.dtype(x), self.b.dims(x).to_vec());
        let mut whole = dims.clone();
        whole[dim] *= self.size;
        if self.fits(dtype, &whole, dim) {
            return self.plain(CollectiveKind::AllGather { dim }, x, Shape::array(dtype, &whole));
        }
        let f = self.flat(x, 1);
        let shape = Shape::array(dtype, &[self.b.elements(f) * self.size]);
        let g = self.plain(CollectiveKind::AllGather { dim: 0 }, f, shape);
        let g = self.unflat(g, self.size, &dims);
        self.merge(g, dim)
    }

    fn reduce_scatter(&mut self, x: NodeId, dim: usize, body: CompId) -> NodeId {
        let (dtype, dims) = (self.b.dtype(x), self.b.dims(x).to_vec());
        let mut part = dims.clone();
        part[dim] /= self.size;
        if self.fits(dtype, &dims, dim) {
            return self.plain(CollectiveKind::ReduceScatter { dim, body }, x, Shape::array(dtype, &part));
        }
        let s = self.split(x, dim);
        let f = self.flat(s, self.size);
        let shape = Shape::array(dtype, &[self.b.elements(f) / self.size]);
        let r = self.plain(CollectiveKind::ReduceScatter { dim: 0, body }, f, shape);
        let r = self.unflat(r, 1, &part);
        self.b.reshape(r, &part)
    }

    fn all_to_all(&mut self, x: NodeId, dim: usize) -> NodeId {
        let (dtype, dims) = (self.b.dtype(x), self.b.dims(x).to_vec());
        let kind = |dim| CollectiveKind::AllToAll { dim: Some(dim) };
        if self.fits(dtype, &dims, dim) {
            return self.plain(kind(dim), x, Shape::array(dtype, &dims));
        }
        let mut part = dims.clone();
        part[dim] /= self.size;
        let s = self.split(x, dim);
        let f = self.flat(s, self.size);
        let shape = self.b.shape(f).clone();
        let g = self.plain(kind(0), f, shape);
        let g = self.unflat(g, self.size, &part);
        self.merge(g, dim)
    }

    /// The tuple form: operand `i` goes to device `i` of the group.
    fn exchange(&mut self, operands: &[NodeId]) -> Result<Vec<NodeId>> {
        if operands.len() as u64 != self.size {
            let message = format!("{} exchanges {} arrays in groups of {}", self.n.name, operands.len(), self.size);
            return Err(CompileError::unsupported(self.n.span, message));
        }
        let dims = self.b.dims(operands[0]).to_vec();
        let wide: Vec<u64> = [1].into_iter().chain(dims.iter().copied()).collect();
        let rows: Vec<NodeId> = operands.iter().map(|&x| self.b.reshape(x, &wide)).collect();
        let all = self.b.concatenate(&rows, 0);
        let all = self.all_to_all(all, 0);
        let mut out = Vec::new();
        for i in 0..self.size {
            let s = self.b.slice_dim(all, 0, i, i + 1, 1);
            out.push(self.b.reshape(s, &dims));
        }
        Ok(out)
    }

    /// Rows from every device at the offsets that it says: everybody's rows and numbers, then a choice for each row.
    fn ragged(&mut self, x: &[NodeId]) -> NodeId {
        let mut out = x[1];
        let dims = self.b.dims(out).to_vec();
        let rows = self.b.dims(x[0])[0];
        let gather = |cx: &mut Self, a: NodeId| {
            let dims: Vec<u64> = [1].into_iter().chain(cx.b.dims(a).iter().copied()).collect();
            let a = cx.b.reshape(a, &dims);
            cx.all_gather(a, 0)
        };
        let data = gather(self, x[0]);
        let me = self.rank();
        let column = |cx: &mut Self, a: NodeId| {
            let a = cx.b.convert(a, DType::S32);
            let all = gather(cx, a);
            let zero = cx.b.index(0);
            let mine = cx.b.dynamic_slice(all, &[zero, me], &[cx.size, 1]);
            cx.b.reshape(mine, &[cx.size])
        };
        let numbers: Vec<NodeId> = [x[2], x[3], x[4]].into_iter().map(|a| column(self, a)).collect();
        let row = self.b.iota(DType::S32, &dims, 0);
        let b = &mut *self.b;
        for sender in 0..self.size {
            let scalar = |b: &mut Emit, a: NodeId| {
                let s = b.slice_dim(a, 0, sender, sender + 1, 1);
                b.reshape(s, &[])
            };
            let [from, count, to] = [numbers[0], numbers[1], numbers[2]].map(|a| scalar(b, a));
            let rows_of: Vec<u64> = [rows].into_iter().chain(dims[1..].iter().copied()).collect();
            let part = b.slice_dim(data, 0, sender, sender + 1, 1);
            let part = b.reshape(part, &rows_of);
            // Row r of the result is row r - to + from of the sender: shifted by a slice of the padded rows.
            let zero = b.scalar(b.dtype(part), 0.0);
            let wide = b.pad_dim(part, zero, 0, (dims[0] as i64, dims[0] as i64));
            let shift = b.sub(from, to);
            let start = b.with(Binary::Add, shift, dims[0] as f64);
            let nothing = b.index(0);
            let starts: Vec<NodeId> = (0..dims.len()).map(|d| if d == 0 { start } else { nothing }).collect();
            let moved = b.dynamic_slice(wide, &starts, &dims);
            let end = b.add(to, count);
            let low = b.broadcast(to, &[], &dims);
            let high = b.broadcast(end, &[], &dims);
            let after = b.compare(Direction::Ge, row, low);
            let before = b.compare(Direction::Lt, row, high);
            let inside = b.and(after, before);
            out = b.select(inside, moved, out);
        }
        out
    }

    /// This device's place in its group.
    fn rank(&mut self) -> NodeId {
        let me = device(self.b, self.o);
        let mut rank = self.b.index(0);
        for i in 0..self.size as usize {
            let here: Vec<u64> = self.groups.iter().map(|g| g[i]).collect();
            for d in here {
                let d = self.b.bits(DType::U32, d);
                let is = self.b.compare(Direction::Eq, me, d);
                let number = self.b.index(i as i64);
                rank = self.b.select(is, number, rank);
            }
        }
        rank
    }
}
