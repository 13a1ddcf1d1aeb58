//! Constructors of operations on an [`Emit`]: each works out the shape of what it makes.
//!
//! Callers guarantee that operands fit; nothing here is reached with what a user wrote but after verification.

use super::edit::Emit;
use systole_hlo::error::CompileError;
use systole_hlo::graph::number::element_bytes;
use systole_hlo::graph::{
    ArrayShape, Binary, CompId, Direction, DotDims, Gather, IndexMap, Literal, NodeId, Op, Order, PadDim, Precision,
    Shape, SliceDim, Unary, WindowDim,
};
use systole_isa::DType;

/// The permutation that undoes another.
pub fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut out = vec![0; permutation.len()];
    for (i, &p) in permutation.iter().enumerate() {
        out[p] = i;
    }
    out
}

/// Slice bounds that keep everything.
pub fn whole(dims: &[u64]) -> Vec<SliceDim> {
    dims.iter().map(|&d| SliceDim { start: 0, limit: d, stride: 1 }).collect()
}

/// The unsigned integer type of a width in bits.
pub fn unsigned(bits: u32) -> DType {
    match bits {
        2 => DType::U2,
        4 => DType::U4,
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        _ => DType::U64,
    }
}

impl Emit<'_> {
    /// A constant array.
    pub fn constant(&mut self, literal: Literal) -> NodeId {
        let shape = Shape::array(literal.dtype, &literal.dims);
        self.emit(Op::Constant(literal), &[], shape)
    }

    /// A scalar constant.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> NodeId {
        self.constant(Literal::splat(dtype, &[], &element_bytes(dtype, value)))
    }

    /// A scalar `s32` constant.
    pub fn index(&mut self, value: i64) -> NodeId {
        self.scalar(DType::S32, value as f64)
    }

    /// A scalar constant of integer type from all its bits.
    pub fn bits(&mut self, dtype: DType, value: u64) -> NodeId {
        let bytes = value.to_le_bytes()[..dtype.host_bytes()].to_vec();
        self.constant(Literal::splat(dtype, &[], &bytes))
    }

    /// An array of one number.
    pub fn splat(&mut self, dtype: DType, dims: &[u64], value: f64) -> NodeId {
        let s = self.scalar(dtype, value);
        self.broadcast(s, &[], dims)
    }

    pub fn iota(&mut self, dtype: DType, dims: &[u64], dim: usize) -> NodeId {
        self.emit(Op::Iota { dim }, &[], Shape::array(dtype, dims))
    }

    /// An elementwise operation of one operand; the result type is the operand's but for `is-finite` and parts of
    /// complex numbers.
    pub fn unary(&mut self, op: Unary, x: NodeId) -> NodeId {
        let from = self.dtype(x);
        let shape = Shape::array(op.result(from), self.dims(x));
        self.emit(Op::Unary(op), &[x], shape)
    }

    /// An elementwise operation of two operands of the same shape, either of which may be a scalar.
    pub fn binary(&mut self, op: Binary, x: NodeId, y: NodeId) -> NodeId {
        let (x, y) = self.level(x, y);
        let part = self.dtype(x);
        let dtype = if op == Binary::Complex { part.complex() } else { part };
        let shape = Shape::array(dtype, self.dims(x));
        self.emit(Op::Binary(op), &[x, y], shape)
    }

    /// Broadcasts whichever operand is a scalar.
    fn level(&mut self, x: NodeId, y: NodeId) -> (NodeId, NodeId) {
        match (self.rank(x), self.rank(y)) {
            (0, r) if r > 0 => {
                let dims = self.dims(y).to_vec();
                (self.broadcast(x, &[], &dims), y)
            }
            (r, 0) if r > 0 => {
                let dims = self.dims(x).to_vec();
                (x, self.broadcast(y, &[], &dims))
            }
            _ => (x, y),
        }
    }

    pub fn add(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.binary(Binary::Add, x, y)
    }

    pub fn sub(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.binary(Binary::Sub, x, y)
    }

    pub fn mul(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.binary(Binary::Mul, x, y)
    }

    pub fn and(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.binary(Binary::And, x, y)
    }

    pub fn or(&mut self, x: NodeId, y: NodeId) -> NodeId {
        self.binary(Binary::Or, x, y)
    }

    /// An elementwise operation with a number.
    pub fn with(&mut self, op: Binary, x: NodeId, value: f64) -> NodeId {
        let s = self.scalar(self.dtype(x), value);
        self.binary(op, x, s)
    }

    pub fn not(&mut self, x: NodeId) -> NodeId {
        self.unary(Unary::Not, x)
    }

    pub fn neg(&mut self, x: NodeId) -> NodeId {
        self.unary(Unary::Neg, x)
    }

    /// A comparison by the usual rules of the type; either operand may be a scalar.
    pub fn compare(&mut self, direction: Direction, x: NodeId, y: NodeId) -> NodeId {
        let (x, y) = self.level(x, y);
        let shape = Shape::array(DType::Pred, self.dims(x));
        self.emit(Op::Compare { direction, order: Order::Partial }, &[x, y], shape)
    }

    /// A selection; any operand may be a scalar.
    pub fn select(&mut self, pred: NodeId, on_true: NodeId, on_false: NodeId) -> NodeId {
        let all = [pred, on_true, on_false];
        let dims = all.iter().map(|&n| self.dims(n).to_vec()).max_by_key(Vec::len).unwrap_or_default();
        let operands: Vec<NodeId> =
            all.iter().map(|&n| if self.rank(n) == dims.len() { n } else { self.broadcast(n, &[], &dims) }).collect();
        let shape = Shape::array(self.dtype(on_true), &dims);
        self.emit(Op::Select, &operands, shape)
    }

    pub fn convert(&mut self, x: NodeId, dtype: DType) -> NodeId {
        if self.dtype(x) == dtype {
            return x;
        }
        let shape = Shape::array(dtype, self.dims(x));
        self.emit(Op::Convert, &[x], shape)
    }

    /// The same bits as a type of the same width.
    pub fn bitcast(&mut self, x: NodeId, dtype: DType) -> NodeId {
        if self.dtype(x) == dtype {
            return x;
        }
        let shape = Shape::array(dtype, self.dims(x));
        self.emit(Op::BitcastConvert, &[x], shape)
    }

    /// Operand dimension `i` becomes dimension `map[i]` of an array of sizes `dims`.
    pub fn broadcast(&mut self, x: NodeId, map: &[usize], dims: &[u64]) -> NodeId {
        let shape = Shape::array(self.dtype(x), dims);
        self.emit(Op::Broadcast { dims: map.to_vec() }, &[x], shape)
    }

    pub fn reshape(&mut self, x: NodeId, dims: &[u64]) -> NodeId {
        let shape = Shape::array(self.dtype(x), dims);
        self.emit(Op::Reshape, &[x], shape)
    }

    /// Result dimension `i` is operand dimension `permutation[i]`.
    pub fn transpose(&mut self, x: NodeId, permutation: &[usize]) -> NodeId {
        let dims: Vec<u64> = permutation.iter().map(|&p| self.dims(x)[p]).collect();
        let shape = Shape::array(self.dtype(x), &dims);
        self.emit(Op::Transpose { permutation: permutation.to_vec() }, &[x], shape)
    }

    pub fn reverse(&mut self, x: NodeId, dims: &[usize]) -> NodeId {
        let shape = Shape::array(self.dtype(x), self.dims(x));
        self.emit(Op::Reverse { dims: dims.to_vec() }, &[x], shape)
    }

    pub fn slice(&mut self, x: NodeId, dims: &[SliceDim]) -> NodeId {
        let sizes: Vec<u64> = dims.iter().map(|d| (d.limit - d.start).div_ceil(d.stride)).collect();
        let shape = Shape::array(self.dtype(x), &sizes);
        self.emit(Op::Slice { dims: dims.to_vec() }, &[x], shape)
    }

    /// Elements `start..limit` by `stride` of one dimension.
    pub fn slice_dim(&mut self, x: NodeId, dim: usize, start: u64, limit: u64, stride: u64) -> NodeId {
        let mut dims = whole(self.dims(x));
        dims[dim] = SliceDim { start, limit, stride };
        self.slice(x, &dims)
    }

    pub fn concatenate(&mut self, parts: &[NodeId], dim: usize) -> NodeId {
        let mut sizes = self.dims(parts[0]).to_vec();
        sizes[dim] = parts.iter().map(|&p| self.dims(p)[dim]).sum();
        let shape = Shape::array(self.dtype(parts[0]), &sizes);
        self.emit(Op::Concatenate { dim }, parts, shape)
    }

    pub fn pad(&mut self, x: NodeId, value: NodeId, dims: &[PadDim]) -> NodeId {
        let sizes: Vec<u64> = self.dims(x).iter().zip(dims).map(|(&n, p)| padded_size(n, p)).collect();
        let shape = Shape::array(self.dtype(x), &sizes);
        self.emit(Op::Pad { dims: dims.to_vec() }, &[x, value], shape)
    }

    /// An array with so many more elements before and behind those of one dimension; less of them where a number is negative.
    pub fn pad_dim(&mut self, x: NodeId, value: NodeId, dim: usize, (low, high): (i64, i64)) -> NodeId {
        let mut dims = vec![PadDim::NONE; self.rank(x)];
        dims[dim] = PadDim::edges(low, high);
        self.pad(x, value, &dims)
    }

    /// Rows of a table `[count, width..]` by an array of indices `[n]`: `[n, width..]`, in the gather's canonical form.
    pub fn gather_rows(&mut self, table: NodeId, index: NodeId, indices_are_sorted: bool) -> NodeId {
        let width = self.dims(table)[1..].to_vec();
        let gather =
            Gather { map: IndexMap::rows(width.len()), slice_sizes: [&[1][..], &width].concat(), indices_are_sorted };
        let shape = Shape::array(self.dtype(table), &[&[self.elements(index)][..], &width].concat());
        self.emit(Op::Gather(gather), &[table, index], shape)
    }

    pub fn dynamic_slice(&mut self, x: NodeId, starts: &[NodeId], sizes: &[u64]) -> NodeId {
        let shape = Shape::array(self.dtype(x), sizes);
        let operands = [&[x], starts].concat();
        self.emit(Op::DynamicSlice { sizes: sizes.to_vec() }, &operands, shape)
    }

    pub fn dynamic_update_slice(&mut self, x: NodeId, update: NodeId, starts: &[NodeId]) -> NodeId {
        let shape = Shape::array(self.dtype(x), self.dims(x));
        let operands = [&[x, update], starts].concat();
        self.emit(Op::DynamicUpdateSlice, &operands, shape)
    }

    /// A dot whose result has the given element type.
    pub fn dot(&mut self, x: NodeId, y: NodeId, dims: DotDims, precision: Precision, dtype: DType) -> NodeId {
        let free = |n: &[u64], batch: &[usize], contracting: &[usize]| -> Vec<u64> {
            (0..n.len()).filter(|i| !batch.contains(i) && !contracting.contains(i)).map(|i| n[i]).collect()
        };
        let (xd, yd) = (self.dims(x), self.dims(y));
        let mut sizes: Vec<u64> = dims.lhs_batch.iter().map(|&b| xd[b]).collect();
        sizes.extend(free(xd, &dims.lhs_batch, &dims.lhs_contracting));
        sizes.extend(free(yd, &dims.rhs_batch, &dims.rhs_contracting));
        self.emit(Op::Dot { dims, precision }, &[x, y], Shape::array(dtype, &sizes))
    }

    /// Reduces dimensions by a binary operation, starting from a number.
    pub fn reduce(&mut self, x: NodeId, op: Binary, init: f64, dims: &[usize]) -> NodeId {
        let dtype = self.dtype(x);
        let body = self.body(op, dtype);
        let init = self.scalar(dtype, init);
        self.reduce_by(&[x], &[init], dims, body)
    }

    /// Reduces dimensions of arrays by a computation; several arrays give a tuple.
    pub fn reduce_by(&mut self, xs: &[NodeId], inits: &[NodeId], dims: &[usize], body: CompId) -> NodeId {
        let sizes: Vec<u64> =
            self.dims(xs[0]).iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, &d)| d).collect();
        let shapes: Vec<Shape> = xs.iter().map(|&x| Shape::array(self.dtype(x), &sizes)).collect();
        let operands = [xs, inits].concat();
        self.emit(Op::Reduce { dims: dims.to_vec(), body }, &operands, one_or_tuple(shapes))
    }

    /// Reduces windows by a computation; several arrays give a tuple.
    pub fn reduce_window(&mut self, xs: &[NodeId], inits: &[NodeId], window: &[WindowDim], body: CompId) -> NodeId {
        let sizes: Vec<u64> = self.dims(xs[0]).iter().zip(window).map(|(&n, w)| window_outputs(n, w)).collect();
        let shapes: Vec<Shape> = xs.iter().map(|&x| Shape::array(self.dtype(x), &sizes)).collect();
        let operands = [xs, inits].concat();
        self.emit(Op::ReduceWindow { window: window.to_vec(), body }, &operands, one_or_tuple(shapes))
    }

    pub fn tuple(&mut self, parts: &[NodeId]) -> NodeId {
        let shape = Shape::Tuple(parts.iter().map(|&p| self.shape(p).clone()).collect());
        self.emit(Op::Tuple, parts, shape)
    }

    /// The results of an operation as one value: of several a tuple.
    pub fn joined(&mut self, results: &[NodeId]) -> NodeId {
        if let &[one] = results { one } else { self.tuple(results) }
    }

    pub fn element(&mut self, tuple: NodeId, index: usize) -> NodeId {
        let shape = match self.shape(tuple) {
            Shape::Tuple(t) => t[index].clone(),
            other @ (Shape::Array(_) | Shape::Token) => other.clone(),
        };
        self.emit(Op::GetTupleElement { index }, &[tuple], shape)
    }

    /// The elements of a node of tuple shape; an array is its own only element.
    pub fn elements_of(&mut self, node: NodeId) -> Vec<NodeId> {
        match self.shape(node) {
            Shape::Tuple(t) => (0..t.len()).map(|i| self.element(node, i)).collect(),
            Shape::Array(_) | Shape::Token => vec![node],
        }
    }

    /// A loop over a flat state: `condition` and `body` get the state's elements.
    pub fn while_loop(
        &mut self,
        name: &str,
        state: &[NodeId],
        condition: impl FnOnce(&mut Emit, &[NodeId]) -> Result<NodeId, CompileError>,
        body: impl FnOnce(&mut Emit, &[NodeId]) -> Result<Vec<NodeId>, CompileError>,
    ) -> Result<Vec<NodeId>, CompileError> {
        let shape = Shape::Tuple(state.iter().map(|&s| self.shape(s).clone()).collect());
        let at = shape.clone();
        let condition = self.computation(&format!("{name}.condition"), |b| {
            let p = b.parameter(at);
            let elements = b.elements_of(p);
            condition(b, &elements)
        })?;
        let at = shape.clone();
        let body = self.computation(&format!("{name}.body"), |b| {
            let p = b.parameter(at);
            let elements = b.elements_of(p);
            let next = body(b, &elements)?;
            Ok(b.tuple(&next))
        })?;
        let init = self.tuple(state);
        let done = self.emit(Op::While { condition, body }, &[init], shape);
        Ok(self.elements_of(done))
    }

    /// A loop that runs `trips` times over a flat state; `body` gets the counter (from 0) and the state.
    pub fn counted_loop(
        &mut self,
        name: &str,
        trips: u64,
        state: &[NodeId],
        body: impl FnOnce(&mut Emit, NodeId, &[NodeId]) -> Result<Vec<NodeId>, CompileError>,
    ) -> Result<Vec<NodeId>, CompileError> {
        let zero = self.index(0);
        let all = [&[zero], state].concat();
        let mut done = self.while_loop(
            name,
            &all,
            |b, s| {
                let limit = b.index(trips as i64);
                Ok(b.compare(Direction::Lt, s[0], limit))
            },
            |b, s| {
                let mut next = body(b, s[0], &s[1..])?;
                let step = b.with(Binary::Add, s[0], 1.0);
                next.insert(0, step);
                Ok(next)
            },
        )?;
        done.remove(0);
        Ok(done)
    }
}

/// Size after padding; 0 if the edges cut everything away.
pub fn padded_size(n: u64, p: &PadDim) -> u64 {
    let inner = if n == 0 { 0 } else { n as i64 + (n as i64 - 1) * p.interior as i64 };
    (inner + p.low + p.high).max(0) as u64
}

/// How many places a window takes along a dimension of size `n`.
pub fn window_outputs(n: u64, w: &WindowDim) -> u64 {
    let base = if n == 0 { 0 } else { (n as i64 - 1) * w.base_dilation as i64 + 1 };
    let padded = base + w.pad_low + w.pad_high;
    let extent = (w.size as i64 - 1) * w.window_dilation as i64 + 1;
    if padded < extent { 0 } else { ((padded - extent) / w.stride as i64 + 1) as u64 }
}

/// An array shape for one, a tuple for several.
pub fn one_or_tuple(mut shapes: Vec<Shape>) -> Shape {
    match shapes.len() {
        1 => shapes.remove(0),
        _ => Shape::Tuple(shapes),
    }
}

/// An array's element type and sizes, for code that has checked that the node is one.
pub fn array(shape: &Shape) -> ArrayShape {
    shape.as_array().cloned().unwrap_or_else(|| ArrayShape::new(DType::Pred, &[]))
}

/// The attribute that says how many useful flops of a dot an operation stands for that no matrix unit computes:
/// `{NAME FLOPS TYPE}`. What passes make of the operation has it too, with the same name, so that it counts once.
pub const FLOPS: &str = "useful_flops";

/// Flops and element type of a mark.
pub fn marked(mark: &str) -> (f64, Option<DType>) {
    let mut words = mark.trim_matches(['{', '}']).split(' ').skip(1);
    let flops = words.next().and_then(|w| w.parse().ok()).unwrap_or(0.0);
    (flops, words.next().and_then(DType::from_name))
}
