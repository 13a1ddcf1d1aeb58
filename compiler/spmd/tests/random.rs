//! Random programs under random shardings: what the devices compute together is what one computes alone.
//!
//! Programs are drawn from a seed, all in integers that wrap, so that no order of sums matters and every element must be
//! equal. `SYSTOLE_SPMD_PROGRAMS=N` draws so many for each mesh, `SYSTOLE_SPMD_SEED=S` begins at another seed.

use systole_eval::{EvalOptions, Host, NoHost, Tensor, Value, evaluate, evaluate_devices};
use systole_hlo::graph::build::ComputationBuilder;
use systole_hlo::graph::{
    Binary, CompId, Conv, ConvDims, Direction, DotDims, Gather, IndexMap, Literal, Module, NodeId, Op, Order, PadDim,
    Precision, Scatter, Shape, SliceDim, Unary, WindowDim, print, verify,
};
use systole_isa::DType;
use systole_spmd::{Unsaid, partition};

/// A small generator (SplitMix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

const SIZES: [u64; 8] = [1, 2, 3, 4, 6, 8, 12, 5];

struct Writer<'a> {
    d: &'a mut Draw,
    m: Module,
    b: ComputationBuilder,
    mesh: &'a [u64],
    values: Vec<NodeId>,
}

/// A random sharding of so many dimensions in HLO's text.
fn sharding(d: &mut Draw, mesh: &[u64], rank: usize) -> String {
    let mut axes: Vec<usize> = (0..mesh.len()).collect();
    for i in (1..axes.len()).rev() {
        let j = d.below(i + 1);
        axes.swap(i, j);
    }
    let used = d.below(axes.len() + 1).min(if rank == 0 { 0 } else { axes.len() });
    let mut dims: Vec<Vec<usize>> = vec![Vec::new(); rank];
    for &a in &axes[..used] {
        let dim = d.below(rank);
        dims[dim].push(a);
    }
    let order: Vec<usize> = dims.concat().into_iter().chain(axes[used..].iter().copied()).collect();
    let tiles = dims.iter().map(|l| l.iter().map(|a| mesh[*a]).product::<u64>());
    let rest: u64 = axes[used..].iter().map(|a| mesh[*a]).product();
    if used == 0 {
        return "{replicated}".to_string();
    }
    let list = |v: Vec<String>| v.join(",");
    let tiles: Vec<String> = tiles.chain((rest > 1).then_some(rest)).map(|n| n.to_string()).collect();
    let tail = if rest > 1 { " last_tile_dim_replicate" } else { "" };
    format!(
        "{{devices=[{}]<=[{}]T({}){tail}}}",
        list(tiles),
        list(mesh.iter().map(u64::to_string).collect()),
        list(order.iter().map(usize::to_string).collect())
    )
}

impl Writer<'_> {
    fn dims(&self, x: NodeId) -> Vec<u64> {
        self.b.shape(x).as_array().map(|a| a.dims.clone()).unwrap_or_default()
    }

    fn op(&mut self, op: Op, operands: &[NodeId]) -> NodeId {
        let name = op.name();
        self.b.add(op, operands, &self.m).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn shaped(&mut self, op: Op, operands: &[NodeId], dims: &[u64]) -> NodeId {
        let name = op.name();
        let shape = Shape::array(DType::S32, dims);
        self.b.add_shaped(op, operands, shape, &self.m).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn number(&mut self, n: i32) -> NodeId {
        self.b.constant(Literal::splat(DType::S32, &[], &n.to_le_bytes()))
    }

    fn any(&mut self) -> NodeId {
        // Late ones are likelier: programs become deep.
        let n = self.values.len();
        let back = self.d.below(n.min(4));
        if self.d.below(3) == 0 { self.values[self.d.below(n)] } else { self.values[n - 1 - back] }
    }

    /// A value of sizes that another has: itself, or a broadcast.
    fn like(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let same: Vec<NodeId> = self.values.iter().copied().filter(|v| self.dims(*v) == dims).collect();
        if !same.is_empty() && self.d.below(4) > 0 {
            return *self.d.of(&same);
        }
        if dims.is_empty() || self.d.below(2) == 0 {
            let n = self.d.below(7) as i32 - 3;
            let n = self.number(n);
            return self.shaped(Op::Broadcast { dims: vec![] }, &[n], &dims);
        }
        let dim = self.d.below(dims.len());
        self.shaped(Op::Iota { dim }, &[], &dims)
    }

    fn body(&mut self, op: Binary) -> CompId {
        let mut b = ComputationBuilder::new(&format!("body{}", self.m.computations.len()));
        let scalar = Shape::array(DType::S32, &[]);
        let (x, y) = (b.parameter(scalar.clone()), b.parameter(scalar));
        let root = b.add(Op::Binary(op), &[x, y], &self.m).expect("a body");
        self.m.push(b.finish(root))
    }

    fn reducer(&mut self) -> (CompId, i32) {
        let (op, init) = *self.d.of(&[
            (Binary::Add, 0),
            (Binary::Add, 3),
            (Binary::Max, i32::MIN),
            (Binary::Min, 4),
            (Binary::Mul, 1),
        ]);
        (self.body(op), init)
    }

    /// Adds one operation.
    fn step(&mut self) {
        let x = self.any();
        let dims = self.dims(x);
        let rank = dims.len();
        let made = match self.d.below(29) {
            0 => self.op(Op::Unary(Unary::Neg), &[x]),
            1..=3 => {
                let y = self.like(x);
                let op = *self.d.of(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Max]);
                self.op(Op::Binary(op), &[x, y])
            }
            4 => {
                let (y, z) = (self.like(x), self.like(x));
                let p = self.op(Op::Compare { direction: Direction::Lt, order: Order::Partial }, &[x, y]);
                self.op(Op::Select, &[p, z, x])
            }
            5 | 6 if rank > 0 => {
                let mut permutation: Vec<usize> = (0..rank).collect();
                let (i, j) = (self.d.below(rank), self.d.below(rank));
                permutation.swap(i, j);
                self.op(Op::Transpose { permutation }, &[x])
            }
            7..=9 => self.reshape(x),
            10 | 11 if rank > 0 => {
                let mut list: Vec<usize> = (0..rank).filter(|_| self.d.below(2) == 0).collect();
                if list.is_empty() {
                    list.push(self.d.below(rank));
                }
                let (body, init) = self.reducer();
                // The evaluator takes the initial value of long sums as often as XLA does on a CPU.
                let long = list.iter().map(|d| dims[*d]).product::<u64>() >= 32;
                let init = self.number(if init == 3 && long { 0 } else { init });
                self.op(Op::Reduce { dims: list, body }, &[x, init])
            }
            12 if rank < 3 => {
                let size = *self.d.of(&SIZES);
                let at = self.d.below(rank + 1);
                let mut to = dims.clone();
                to.insert(at, size);
                let map = (0..=rank).filter(|d| *d != at).collect();
                self.shaped(Op::Broadcast { dims: map }, &[x], &to)
            }
            13..=15 if rank > 0 => self.dot(x),
            16 if rank > 0 => {
                let slices = dims.iter().map(|&n| {
                    let start = if self.d.below(2) == 0 { 0 } else { self.d.next() % n };
                    let limit = if self.d.below(2) == 0 { n } else { start + 1 + self.d.next() % (n - start) };
                    SliceDim { start, limit, stride: 1 + self.d.next() % 2 }
                });
                let slices = slices.collect();
                self.op(Op::Slice { dims: slices }, &[x])
            }
            17 if rank > 0 => {
                let pads = dims.iter().map(|_| PadDim {
                    low: self.d.below(3) as i64 - 1,
                    high: self.d.below(3) as i64,
                    interior: (self.d.below(4) / 3) as u64,
                });
                let pads: Vec<PadDim> = pads.collect();
                let fits = dims.iter().zip(&pads).all(|(n, p)| *n as i64 + p.low + p.high > 0);
                let seven = self.number(7);
                if fits { self.op(Op::Pad { dims: pads }, &[x, seven]) } else { x }
            }
            18 if rank > 0 => {
                let dim = self.d.below(rank);
                let y = self.like(x);
                self.op(Op::Concatenate { dim }, &[x, y])
            }
            19 if rank > 0 => {
                let dim = self.d.below(rank);
                self.op(Op::Reverse { dims: vec![dim] }, &[x])
            }
            20 if rank > 0 => {
                let sizes: Vec<u64> = dims.iter().map(|&n| 1 + self.d.next() % n).collect();
                let mut operands = vec![x];
                for _ in 0..rank {
                    let at = self.d.below(6) as i32 - 1;
                    operands.push(self.number(at));
                }
                if self.d.below(2) == 0 {
                    return self.push_op(Op::DynamicSlice { sizes }, &operands);
                }
                let update = self.like(x);
                let part = sizes.iter().map(|&limit| SliceDim { start: 0, limit, stride: 1 }).collect();
                let update = self.op(Op::Slice { dims: part }, &[update]);
                operands.insert(1, update);
                self.op(Op::DynamicUpdateSlice, &operands)
            }
            21 if rank > 0 => {
                let dim = self.d.below(rank);
                let mut b = ComputationBuilder::new(&format!("less{}", self.m.computations.len()));
                let scalar = Shape::array(DType::S32, &[]);
                let (p, q) = (b.parameter(scalar.clone()), b.parameter(scalar));
                let less = Op::Compare { direction: Direction::Lt, order: Order::Partial };
                let root = b.add(less, &[p, q], &self.m).expect("a comparison");
                let body = self.m.push(b.finish(root));
                self.op(Op::Sort { dim, stable: true, body }, &[x])
            }
            22 if rank > 0 => self.gather(x),
            23 if rank > 0 => self.scatter(x),
            24 if rank > 0 => {
                let window = dims.iter().map(|&n| {
                    let size = (1 + self.d.next() % 3).min(n);
                    let pad = (size / 2) as i64;
                    WindowDim { size, stride: 1 + self.d.next() % 2, pad_low: pad, pad_high: pad, ..WindowDim::TRIVIAL }
                });
                let window = window.collect();
                let body = self.body(Binary::Add);
                let init = self.number(0);
                self.op(Op::ReduceWindow { window, body }, &[x, init])
            }
            25 => self.repeat(x),
            26 if rank == 3 => self.convolution(x),
            27 if rank > 0 => self.largest(x),
            28 => self.choice(x),
            _ => self.op(Op::Unary(Unary::Not), &[x]),
        };
        self.values.push(made);
    }

    fn push_op(&mut self, op: Op, operands: &[NodeId]) {
        let made = self.op(op, operands);
        self.values.push(made);
    }

    /// The elements in other sizes: dimensions joined or split.
    fn reshape(&mut self, x: NodeId) -> NodeId {
        let mut dims = self.dims(x);
        if dims.len() > 1 && self.d.below(2) == 0 {
            let at = self.d.below(dims.len() - 1);
            let n = dims.remove(at + 1);
            dims[at] *= n;
        } else if !dims.is_empty() && dims.len() < 4 {
            let at = self.d.below(dims.len());
            let n = dims[at];
            let parts: Vec<u64> = (1..=n).filter(|p| n.is_multiple_of(*p)).collect();
            let p = *self.d.of(&parts);
            dims[at] = p;
            dims.insert(at + 1, n / p);
        }
        self.shaped(Op::Reshape, &[x], &dims)
    }

    fn dot(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let at = self.d.below(dims.len());
        let y = self.like(x);
        let mut d = DotDims { lhs_contracting: vec![at], rhs_contracting: vec![at], ..DotDims::default() };
        let other = self.d.below(dims.len());
        if other != at && self.d.below(2) == 0 {
            d.lhs_batch.push(other);
            d.rhs_batch.push(other);
        }
        // Results stay small.
        let size = |d: &DotDims| {
            let free: u64 = (0..dims.len()).filter(|i| !d.lhs_contracting.contains(i)).map(|i| dims[i]).product();
            free * free
        };
        let free = (dims.len() - 1 - d.lhs_batch.len()) * 2 + d.lhs_batch.len();
        if size(&d) > 4000 || free > 4 {
            return x;
        }
        self.op(Op::Dot { dims: d, precision: Precision::Highest }, &[x, y])
    }

    /// A vector of so many indices, some of them out of bounds.
    fn indices(&mut self) -> (u64, NodeId) {
        let n = *self.d.of(&[1, 2, 4, 6]);
        let indices = self.shaped(Op::Iota { dim: 0 }, &[], &[n]);
        let by = self.d.below(5) as i32 - 2;
        let by = self.number(by);
        let by = self.shaped(Op::Broadcast { dims: vec![] }, &[by], &[n]);
        (n, self.op(Op::Binary(Binary::Mul), &[indices, by]))
    }

    /// Rows of the first dimension by a vector of indices.
    fn gather(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let (_, indices) = self.indices();
        let mut slice_sizes = dims.clone();
        slice_sizes[0] = 1;
        let g = Gather { map: IndexMap::rows(dims.len() - 1), slice_sizes, indices_are_sorted: false };
        let indices = self.constrained(indices);
        self.op(Op::Gather(g), &[x, indices])
    }

    /// Adds rows to rows of the first dimension.
    fn scatter(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let (n, indices) = self.indices();
        let mut to = dims.clone();
        to[0] = n;
        let dim = self.d.below(dims.len());
        let updates = self.shaped(Op::Iota { dim }, &[], &to);
        let body = self.body(Binary::Add);
        let s = Scatter { map: IndexMap::rows(dims.len() - 1), indices_are_sorted: false, unique_indices: false, body };
        let (indices, updates) = (self.constrained(indices), self.constrained(updates));
        self.op(Op::Scatter(s), &[x, indices, updates])
    }

    /// A loop of three rounds over an array.
    fn repeat(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let state = Shape::Tuple(vec![Shape::array(DType::S32, &[]), Shape::array(DType::S32, &dims)]);
        let number = self.m.computations.len();
        let mut b = ComputationBuilder::new(&format!("cond{number}"));
        let p = b.parameter(state.clone());
        let i = b.add(Op::GetTupleElement { index: 0 }, &[p], &self.m).expect("an element");
        let three = b.constant(Literal::splat(DType::S32, &[], &3i32.to_le_bytes()));
        let less = Op::Compare { direction: Direction::Lt, order: Order::Partial };
        let root = b.add(less, &[i, three], &self.m).expect("a comparison");
        let condition = self.m.push(b.finish(root));
        let mut b = ComputationBuilder::new(&format!("loop{number}"));
        let p = b.parameter(state);
        let i = b.add(Op::GetTupleElement { index: 0 }, &[p], &self.m).expect("an element");
        let mut y = b.add(Op::GetTupleElement { index: 1 }, &[p], &self.m).expect("an element");
        let one = b.constant(Literal::splat(DType::S32, &[], &1i32.to_le_bytes()));
        let i = b.add(Op::Binary(Binary::Add), &[i, one], &self.m).expect("a sum");
        if !dims.is_empty() {
            let dim = self.d.below(dims.len());
            y = b.add(Op::Reverse { dims: vec![dim] }, &[y], &self.m).expect("a reverse");
        }
        y = b.add(Op::Binary(Binary::Add), &[y, y], &self.m).expect("a sum");
        let root = b.add(Op::Tuple, &[i, y], &self.m).expect("a tuple");
        let body = self.m.push(b.finish(root));
        let zero = self.number(0);
        let start = self.op(Op::Tuple, &[zero, x]);
        let end = self.op(Op::While { condition, body }, &[start]);
        self.op(Op::GetTupleElement { index: 1 }, &[end])
    }

    /// A convolution along the middle dimension, padded at will.
    fn convolution(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let (size, features) = (1 + self.d.next() % 3, *self.d.of(&[2, 4]));
        if size > dims[1] {
            return x;
        }
        let kernel = [size, dims[2], features];
        let dim = self.d.below(3);
        let kernel = self.shaped(Op::Iota { dim }, &[], &kernel);
        let kernel = self.constrained(kernel);
        let (pad_low, pad_high) = (self.d.below(2) as i64, self.d.below(3) as i64);
        let window = WindowDim { size, stride: 1 + self.d.next() % 2, pad_low, pad_high, ..WindowDim::TRIVIAL };
        let dims = ConvDims::channels_last(1);
        let c = Conv { window: vec![window], dims, feature_groups: 1, batch_groups: 1, precision: Precision::Highest };
        self.op(Op::Convolution(Box::new(c)), &[x, kernel])
    }

    /// The largest element along a dimension and where it is: a reduction of two arrays, of which the places go on.
    fn largest(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let dim = self.d.below(dims.len());
        let places = self.shaped(Op::Iota { dim }, &[], &dims);
        let mut b = ComputationBuilder::new(&format!("largest{}", self.m.computations.len()));
        let scalar = Shape::array(DType::S32, &[]);
        let p: Vec<NodeId> = (0..4).map(|_| b.parameter(scalar.clone())).collect();
        let [x0, i0, x1, i1] = p[..] else { return x };
        let mut add = |op: Op, operands: &[NodeId]| b.add(op, operands, &self.m).expect("a body");
        let compare = |direction| Op::Compare { direction, order: Order::Partial };
        let more = add(compare(Direction::Gt), &[x0, x1]);
        let same = add(compare(Direction::Eq), &[x0, x1]);
        let value = add(Op::Binary(Binary::Max), &[x0, x1]);
        let first = add(Op::Binary(Binary::Min), &[i0, i1]);
        let place = add(Op::Select, &[more, i0, i1]);
        let place = add(Op::Select, &[same, first, place]);
        let root = add(Op::Tuple, &[value, place]);
        let body = self.m.push(b.finish(root));
        let (low, high) = (self.number(i32::MIN), self.number(i32::MAX));
        let both = self.op(Op::Reduce { dims: vec![dim], body }, &[x, places, low, high]);
        let index = self.d.below(2);
        self.op(Op::GetTupleElement { index }, &[both])
    }

    /// One of two branches, by the sum of all elements.
    fn choice(&mut self, x: NodeId) -> NodeId {
        let dims = self.dims(x);
        let sum = self.body(Binary::Add);
        let zero = self.number(0);
        let sum = self.op(Op::Reduce { dims: (0..dims.len()).collect(), body: sum }, &[x, zero]);
        let pred = self.op(Op::Compare { direction: Direction::Lt, order: Order::Partial }, &[sum, zero]);
        let mut branch = |reversed: bool| {
            let mut b = ComputationBuilder::new(&format!("branch{}", self.m.computations.len()));
            let p = b.parameter(Shape::array(DType::S32, &dims));
            let op = if reversed && !dims.is_empty() { Op::Reverse { dims: vec![0] } } else { Op::Unary(Unary::Neg) };
            let root = b.add(op, &[p], &self.m).expect("a branch");
            self.m.push(b.finish(root))
        };
        let branches = vec![branch(true), branch(false)];
        self.op(Op::Conditional { branches }, &[pred, x, x])
    }

    /// The value, sometimes with a sharding that it must have.
    fn constrained(&mut self, x: NodeId) -> NodeId {
        if self.d.below(2) == 0 {
            return x;
        }
        let (shape, rank) = (self.b.shape(x).clone(), self.dims(x).len());
        let op =
            Op::CustomCall { target: "Sharding".into(), config: String::new(), has_side_effect: false, calls: vec![] };
        let id = self.b.add_shaped(op, &[x], shape, &self.m).expect("an annotation");
        let text = sharding(self.d, self.mesh, rank);
        self.b.attribute(id, "sharding", &text);
        id
    }
}

fn program(d: &mut Draw, mesh: &[u64]) -> Module {
    let m = Module { partitions: mesh.iter().product(), ..Module::empty("random") };
    let mut w = Writer { d, m, b: ComputationBuilder::new("main"), mesh, values: Vec::new() };
    for _ in 0..1 + w.d.below(3) {
        let rank = 1 + w.d.below(3);
        let dims: Vec<u64> = (0..rank).map(|_| *w.d.of(&SIZES)).collect();
        let p = w.b.parameter(Shape::array(DType::S32, &dims));
        if w.d.below(4) > 0 {
            let text = sharding(w.d, mesh, rank);
            w.b.attribute(p, "sharding", &text);
        }
        w.values.push(p);
    }
    for _ in 0..2 + w.d.below(10) {
        w.step();
        let last = w.values.len() - 1;
        if w.dims(w.values[last]).iter().product::<u64>() > 5000 {
            w.values.pop();
            continue;
        }
        if w.d.below(3) == 0 {
            w.values[last] = w.constrained(w.values[last]);
        }
    }
    let n = w.values.len();
    let results = [w.values[n - 1], w.values[n.saturating_sub(3)]];
    let root = w.op(Op::Tuple, &results);
    let main = w.b.finish(root);
    let mut m = w.m;
    m.entry = m.push(main);
    m
}

fn tensor(d: &mut Draw, dims: &[u64]) -> Tensor {
    let n = dims.iter().product::<u64>();
    let bytes = (0..n).flat_map(|_| (d.below(21) as i32 - 10).to_le_bytes()).collect();
    Tensor::new(DType::S32, &dims.iter().map(|n| *n as usize).collect::<Vec<_>>(), bytes)
}

/// What differs between one device and all, if anything.
fn differs(m: &Module, d: &mut Draw) -> Result<(), String> {
    let entry = m.entry();
    let inputs: Vec<Tensor> = entry
        .params
        .iter()
        .map(|p| tensor(d, &entry.node(*p).shape.as_array().map(|a| a.dims.clone()).unwrap_or_default()))
        .collect();
    let alone: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
    let want = evaluate(m, &alone, &EvalOptions::default()).map_err(|e| format!("alone: {e}"))?.into_leaves();
    let unsaid = match d.below(4) {
        0 => Unsaid::Replicated,
        1 => Unsaid::FreeResults,
        _ => Unsaid::Free,
    };
    let done = partition(m, m.partitions, unsaid).map_err(|e| format!("partition: {e}"))?;
    let b = &done.boundary;
    let devices = b.mesh.devices();
    let part = |p: u64| -> Vec<Value> {
        let cut = inputs.iter().zip(&b.params).map(|(x, edge)| {
            let part = b.part(edge, p);
            let local: Vec<usize> = part.local.iter().map(|n| *n as usize).collect();
            Value::Array(Tensor::new(DType::S32, &local, part.cut(&edge.dims, x.bytes(), 4)))
        });
        cut.collect()
    };
    let parts: Vec<Vec<Value>> = (0..devices).map(part).collect();
    let mut hosts: Vec<Box<dyn Host + Send>> = (0..devices).map(|_| Box::new(NoHost) as _).collect();
    let all = evaluate_devices(&done.module, (1, devices as usize), &parts, &EvalOptions::default(), &mut hosts)
        .map_err(|e| format!("devices: {e}\n{}", print::to_text(&done.module)))?;
    let all: Vec<Vec<Tensor>> = all.into_iter().map(Value::into_leaves).collect();
    for (i, edge) in b.results.iter().enumerate() {
        let mut bytes = vec![0; want[i].bytes().len()];
        for (p, own) in all.iter().enumerate() {
            b.part(edge, p as u64).join(&edge.dims, &mut bytes, own[i].bytes(), 4);
        }
        // Every copy of a part, not only the last one.
        for (p, own) in all.iter().enumerate() {
            let mut again = bytes.clone();
            b.part(edge, p as u64).join(&edge.dims, &mut again, own[i].bytes(), 4);
            if again != want[i].bytes() {
                return Err(format!("result {i} on device {p}\n{}", print::to_text(&done.module)));
            }
        }
    }
    Ok(())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn run(mesh: &[u64]) {
    let (count, seed) = (number("SYSTOLE_SPMD_PROGRAMS", 60), number("SYSTOLE_SPMD_SEED", 1));
    let mut failed = Vec::new();
    for s in seed..seed + count {
        let mut d = Draw(s.wrapping_mul(0x1000_0001).wrapping_add(mesh.len() as u64));
        let m = program(&mut d, mesh);
        if let Err(e) = verify::verify(&m) {
            panic!("seed {s}: the generator made a wrong program: {e:?}");
        }
        if let Err(e) = differs(&m, &mut d) {
            failed.push(format!("seed {s}, mesh {mesh:?}: {e}\nof\n{}", print::to_text(&m)));
        }
    }
    let n = failed.len();
    assert!(
        failed.is_empty(),
        "{n} of {count} failed; the shortest:\n{}",
        failed.iter().min_by_key(|f| f.len()).map_or("", |f| f)
    );
}

#[test]
fn programs_on_2x2x2() {
    run(&[2, 2, 2]);
}

#[test]
fn programs_on_2x3() {
    run(&[2, 3]);
}

#[test]
fn programs_on_6() {
    run(&[6]);
}

#[test]
fn programs_on_4x2() {
    run(&[4, 2]);
}
