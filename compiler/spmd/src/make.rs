//! Making the program of a device: nodes, the number of the own part, exchanges.

use crate::mesh::{Axis, Mesh};
use crate::reshard::{self, Step};
use crate::sharding::Sharding;
use rustc_hash::FxHashMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::build::ComputationBuilder;
use systole_hlo::graph::number::element_bytes;
use systole_hlo::graph::{
    ArrayShape, Binary, Collective, CollectiveKind, CompId, Direction, Literal, Module, NodeId, Op, Order, PadDim,
    Shape, SliceDim,
};
use systole_isa::DType;

/// What the devices' program is made in.
pub struct Out<'a> {
    pub mesh: &'a Mesh,
    /// The new module as far as it is made, callees first.
    pub module: Module,
    bodies: FxHashMap<(Binary, DType), CompId>,
    channel: u64,
    /// Bytes that a device receives, by kind of exchange, loops counted once.
    pub traffic: FxHashMap<&'static str, u64>,
}

/// A computation while it is made.
pub struct Scope {
    pub b: ComputationBuilder,
    /// Coordinates of this device along atoms.
    coordinates: FxHashMap<Vec<Axis>, NodeId>,
}

impl Scope {
    pub fn new(name: &str) -> Scope {
        Scope { b: ComputationBuilder::new(name), coordinates: FxHashMap::default() }
    }
}

/// A value that still has to be combined along atoms, and by what.
#[derive(Clone, Debug)]
pub struct Pending {
    pub axes: Vec<Axis>,
    pub by: Binary,
}

impl Pending {
    /// Nothing is left to combine.
    pub fn none() -> Pending {
        Pending { axes: Vec::new(), by: Binary::Add }
    }
}

impl<'a> Out<'a> {
    pub fn new(mesh: &'a Mesh, module: Module) -> Out<'a> {
        let channel = module.last_channel();
        let module = Module { computations: Vec::new(), ..module };
        Out { mesh, module, bodies: FxHashMap::default(), channel, traffic: FxHashMap::default() }
    }

    /// A node whose shape follows from its operation.
    pub fn op(&self, s: &mut Scope, op: Op, operands: &[NodeId]) -> Result<NodeId, CompileError> {
        s.b.add(op, operands, &self.module).map_err(|e| CompileError::internal("spmd", e.message))
    }

    /// A node with its shape.
    pub fn shaped(&self, s: &mut Scope, op: Op, operands: &[NodeId], shape: Shape) -> Result<NodeId, CompileError> {
        let name = op.name();
        s.b.add_shaped(op, operands, shape, &self.module)
            .map_err(|e| CompileError::internal("spmd", format!("{name}: {}", e.message)))
    }

    pub fn array(&self, s: &Scope, x: NodeId) -> Result<ArrayShape, CompileError> {
        match s.b.shape(x) {
            Shape::Array(a) => Ok(a.clone()),
            other @ (Shape::Tuple(_) | Shape::Token) => {
                Err(CompileError::internal("spmd", format!("an array is due where {other} is")))
            }
        }
    }

    /// A scalar constant.
    pub fn scalar(&self, s: &mut Scope, dtype: DType, value: f64) -> NodeId {
        s.b.constant(Literal::splat(dtype, &[], &element_bytes(dtype, value)))
    }

    /// An array of one number.
    pub fn splat(&self, s: &mut Scope, dtype: DType, dims: &[u64], value: f64) -> Result<NodeId, CompileError> {
        let x = self.scalar(s, dtype, value);
        self.spread(s, x, dims)
    }

    /// A scalar for every element.
    pub fn spread(&self, s: &mut Scope, x: NodeId, dims: &[u64]) -> Result<NodeId, CompileError> {
        let dtype = self.array(s, x)?.dtype;
        self.shaped(s, Op::Broadcast { dims: Vec::new() }, &[x], Shape::array(dtype, dims))
    }

    pub fn binary(&self, s: &mut Scope, op: Binary, x: NodeId, y: NodeId) -> Result<NodeId, CompileError> {
        self.op(s, Op::Binary(op), &[x, y])
    }

    pub fn compare(&self, s: &mut Scope, d: Direction, x: NodeId, y: NodeId) -> Result<NodeId, CompileError> {
        self.op(s, Op::Compare { direction: d, order: Order::Partial }, &[x, y])
    }

    pub fn reshape(&self, s: &mut Scope, x: NodeId, dims: &[u64]) -> Result<NodeId, CompileError> {
        let a = self.array(s, x)?;
        if a.dims == dims {
            return Ok(x);
        }
        self.shaped(s, Op::Reshape, &[x], Shape::array(a.dtype, dims))
    }

    pub fn convert(&self, s: &mut Scope, x: NodeId, dtype: DType) -> Result<NodeId, CompileError> {
        let a = self.array(s, x)?;
        if a.dtype == dtype {
            return Ok(x);
        }
        self.shaped(s, Op::Convert, &[x], Shape::array(dtype, &a.dims))
    }

    /// The computation `(x, y) -> x op y` over scalars.
    pub fn body(&mut self, op: Binary, dtype: DType) -> Result<CompId, CompileError> {
        if let Some(&id) = self.bodies.get(&(op, dtype)) {
            return Ok(id);
        }
        let mut s = Scope::new(&format!("{}.{dtype}.spmd", Op::Binary(op).name()));
        let (x, y) = (s.b.parameter(Shape::array(dtype, &[])), s.b.parameter(Shape::array(dtype, &[])));
        let root = self.binary(&mut s, op, x, y)?;
        let id = self.module.push(s.b.finish(root));
        self.bodies.insert((op, dtype), id);
        Ok(id)
    }

    /// This device's coordinate along atoms, `s32`.
    pub fn coordinate(&self, s: &mut Scope, axes: &[Axis]) -> Result<NodeId, CompileError> {
        if let Some(&id) = s.coordinates.get(axes) {
            return Ok(id);
        }
        let place = self.place(s)?;
        let mut sum: Option<NodeId> = None;
        let runs = self.mesh.runs(axes);
        let mut weight: u64 = runs.iter().map(|p| p.size).product();
        for p in runs {
            weight /= p.size;
            let mut x = place;
            if p.stride > 1 {
                let by = self.scalar(s, DType::S32, p.stride as f64);
                x = self.binary(s, Binary::Div, x, by)?;
            }
            if p.stride * p.size < self.mesh.devices() {
                let by = self.scalar(s, DType::S32, p.size as f64);
                x = self.binary(s, Binary::Rem, x, by)?;
            }
            if weight > 1 {
                let by = self.scalar(s, DType::S32, weight as f64);
                x = self.binary(s, Binary::Mul, x, by)?;
            }
            sum = Some(match sum {
                Some(y) => self.binary(s, Binary::Add, y, x)?,
                None => x,
            });
        }
        let id = match sum {
            Some(x) => x,
            None => self.scalar(s, DType::S32, 0.0),
        };
        s.coordinates.insert(axes.to_vec(), id);
        Ok(id)
    }

    /// This device's place, `s32`.
    fn place(&self, s: &mut Scope) -> Result<NodeId, CompileError> {
        // All atoms in order have the place for their coordinate.
        let all = self.mesh.all();
        if let Some(&id) = s.coordinates.get(&all) {
            return Ok(id);
        }
        let id = self.op(s, Op::PartitionId, &[])?;
        let mut id = self.convert(s, id, DType::S32)?;
        if let Some(places) = self.mesh.places() {
            let bytes = places.iter().flat_map(|p| p.to_le_bytes()).collect();
            let table = s.b.constant(Literal::new(DType::S32, &[places.len() as u64], bytes));
            let one = self.op(s, Op::DynamicSlice { sizes: vec![1] }, &[table, id])?;
            id = self.reshape(s, one, &[])?;
        }
        s.coordinates.insert(all, id);
        Ok(id)
    }

    /// The part `coordinate along axes` of a dimension.
    pub fn part(&self, s: &mut Scope, x: NodeId, dim: usize, axes: &[Axis]) -> Result<NodeId, CompileError> {
        let a = self.array(s, x)?;
        let mut sizes = a.dims.clone();
        sizes[dim] /= self.mesh.size(axes);
        let at = self.offset(s, axes, sizes[dim])?;
        let zero = self.scalar(s, DType::S32, 0.0);
        let mut operands = vec![x];
        operands.extend((0..sizes.len()).map(|d| if d == dim { at } else { zero }));
        self.op(s, Op::DynamicSlice { sizes }, &operands)
    }

    /// Where this device's part begins, of parts of `size`.
    pub fn offset(&self, s: &mut Scope, axes: &[Axis], size: u64) -> Result<NodeId, CompileError> {
        let c = self.coordinate(s, axes)?;
        let by = self.scalar(s, DType::S32, size as f64);
        self.binary(s, Binary::Mul, c, by)
    }

    /// Elements `start..limit` of a dimension.
    pub fn slice(&self, s: &mut Scope, x: NodeId, dim: usize, start: u64, limit: u64) -> Result<NodeId, CompileError> {
        let a = self.array(s, x)?;
        if (start, limit) == (0, a.dims[dim]) {
            return Ok(x);
        }
        let mut dims: Vec<SliceDim> = a.dims.iter().map(|&n| SliceDim { start: 0, limit: n, stride: 1 }).collect();
        dims[dim] = SliceDim { start, limit, stride: 1 };
        self.op(s, Op::Slice { dims }, &[x])
    }

    /// Zeros before and behind a dimension.
    pub fn pad(&self, s: &mut Scope, x: NodeId, dim: usize, low: u64, high: u64) -> Result<NodeId, CompileError> {
        if (low, high) == (0, 0) {
            return Ok(x);
        }
        let a = self.array(s, x)?;
        let zero = self.scalar(s, a.dtype, 0.0);
        let mut dims = vec![PadDim::NONE; a.dims.len()];
        dims[dim] = PadDim::edges(low as i64, high as i64);
        self.op(s, Op::Pad { dims }, &[x, zero])
    }

    /// A collective of one array.
    fn collective(
        &mut self,
        s: &mut Scope,
        kind: CollectiveKind,
        x: NodeId,
        axes: &[Axis],
        dims: &[u64],
    ) -> Result<NodeId, CompileError> {
        self.channel += 1;
        let (groups, joins) = match kind {
            CollectiveKind::Permute { .. } => (Vec::new(), false),
            CollectiveKind::AllReduce { .. }
            | CollectiveKind::AllGather { .. }
            | CollectiveKind::ReduceScatter { .. } => (self.mesh.groups(axes), true),
            CollectiveKind::AllToAll { .. }
            | CollectiveKind::Broadcast
            | CollectiveKind::RaggedAllToAll
            | CollectiveKind::Reduce { .. } => (self.mesh.groups(axes), false),
        };
        // Global ids number replicas too.
        let groups = match joins {
            true => (0..self.module.replicas)
                .flat_map(|r| groups.iter().map(move |g| (r, g)))
                .map(|(r, g)| g.iter().map(|p| r * self.mesh.devices() + p).collect())
                .collect(),
            false => groups,
        };
        let devices = Collective { groups, channel: Some(self.channel), use_global_ids: joins };
        let dtype = self.array(s, x)?.dtype;
        self.shaped(s, Op::Collective { kind, devices }, &[x], Shape::array(dtype, dims))
    }

    /// One step of a reshard of an array whose whole sizes are `whole`.
    pub fn step(
        &mut self,
        s: &mut Scope,
        x: NodeId,
        step: &Step,
        whole: &[u64],
        by: Binary,
    ) -> Result<NodeId, CompileError> {
        let a = self.array(s, x)?;
        let bytes = a.elements() * a.dtype.host_bytes() as u64;
        let name = match step {
            Step::ReduceScatter { .. } => "reduce-scatter",
            Step::AllReduce { .. } => "all-reduce",
            Step::Permute { .. } => "collective-permute",
            Step::AllToAll { .. } => "all-to-all",
            Step::AllGather { .. } => "all-gather",
            Step::Slice { .. } | Step::Trim { .. } => "slice",
        };
        if !matches!(step, Step::Permute { .. }) {
            *self.traffic.entry(name).or_insert(0) += reshard::received(self.mesh, step, bytes);
        }
        let mut dims = a.dims.clone();
        match step {
            Step::ReduceScatter { dim, axes } => {
                let body = self.body(by, a.dtype)?;
                dims[*dim] /= self.mesh.size(axes);
                self.collective(s, CollectiveKind::ReduceScatter { dim: *dim, body }, x, axes, &dims)
            }
            Step::AllReduce { axes } => {
                let body = self.body(by, a.dtype)?;
                self.collective(s, CollectiveKind::AllReduce { body }, x, axes, &dims)
            }
            Step::AllGather { dim, axes } => {
                dims[*dim] *= self.mesh.size(axes);
                self.collective(s, CollectiveKind::AllGather { dim: *dim }, x, axes, &dims)
            }
            Step::Slice { dim, axes } => {
                let parts = self.mesh.size(axes);
                let padded = dims[*dim].div_ceil(parts) * parts;
                let x = self.pad(s, x, *dim, 0, padded - dims[*dim])?;
                self.part(s, x, *dim, axes)
            }
            Step::Trim { dim } => self.slice(s, x, *dim, 0, whole[*dim]),
            Step::Permute { from, to } => self.permute(s, x, &reshard::pairs(self.mesh, from, to)),
            Step::AllToAll { from, to, axes } => self.all_to_all(s, x, *from, *to, axes),
        }
    }

    /// Moves parts between places.
    pub fn permute(&mut self, s: &mut Scope, x: NodeId, places: &[(u64, u64)]) -> Result<NodeId, CompileError> {
        let a = self.array(s, x)?;
        *self.traffic.entry("collective-permute").or_insert(0) += a.elements() * a.dtype.host_bytes() as u64;
        let pairs = places.iter().map(|&(f, t)| (self.mesh.partition(f), self.mesh.partition(t))).collect();
        self.collective(s, CollectiveKind::Permute { pairs }, x, &[], &a.dims)
    }

    /// Splits dimension `to` among a group and joins the parts along `from`. The operation itself splits and joins one
    /// dimension, which is made for it in front.
    fn all_to_all(
        &mut self,
        s: &mut Scope,
        x: NodeId,
        from: usize,
        to: usize,
        axes: &[Axis],
    ) -> Result<NodeId, CompileError> {
        let a = self.array(s, x)?;
        let (n, rank) = (self.mesh.size(axes), a.dims.len());
        let mut split = a.dims.clone();
        split[to] /= n;
        split.insert(to, n);
        let x = self.reshape(s, x, &split)?;
        let mut front: Vec<usize> = (0..=rank).filter(|d| *d != to).collect();
        front.insert(0, to);
        let x = self.op(s, Op::Transpose { permutation: front.clone() }, &[x])?;
        let dims: Vec<u64> = front.iter().map(|d| split[*d]).collect();
        let x = self.collective(s, CollectiveKind::AllToAll { dim: Some(0) }, x, axes, &dims)?;
        // The front dimension, now the source's number, goes before `from`.
        let mut back: Vec<usize> = (1..=rank).collect();
        back.insert(from, 0);
        let x = self.op(s, Op::Transpose { permutation: back }, &[x])?;
        let mut joined = a.dims.clone();
        joined[to] /= n;
        joined[from] *= n;
        self.reshape(s, x, &joined)
    }

    /// From one sharding to another.
    pub fn reshard(
        &mut self,
        s: &mut Scope,
        mut x: NodeId,
        whole: &[u64],
        from: &Sharding,
        pending: &Pending,
        to: &Sharding,
    ) -> Result<NodeId, CompileError> {
        for step in reshard::plan(self.mesh, whole, from, &pending.axes, to) {
            x = self.step(s, x, &step, whole, pending.by)?;
        }
        Ok(x)
    }
}
