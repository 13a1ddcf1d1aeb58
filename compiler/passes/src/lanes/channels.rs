//! Products over few channels with places along lanes: `[D, C] x [C, T]` for each row of `T` places, instead of `[T, C] x [C, D]`.
//!
//! A convolution is one too: what its window positions see lies below each other as `taps * C` channels. Both take part in regions of
//! [`super`] in the order that leaves all dimensions but the last two in place, where what they are made of lies so.

use super::{bytes, other_sides, permuted};
use crate::conv::positions;
use crate::edit::Emit;
use crate::make::{array, inverse, whole};
use systole_hlo::graph::{
    ArrayShape, Computation, Conv, ConvDims, DotDims, Node, NodeId, Op, Precision, Shape, SliceDim, WindowDim,
};

/// Longest contracted dimension: of longer ones what window positions see moves more than narrow rows do.
const CONTRACTED: u64 = 512;
/// Places of a row, for each result channel: weights are repeated for each row, and are an eighth of what they meet.
const PLACES: u64 = 8;

/// Part of vector memory that what window positions see may take to lie there.
const BESIDE: u64 = 2;
/// How many times faster than HBM vector memory is (of v5e, a register a cycle).
const FASTER: u64 = 4;

/// What is made of channels.
pub(super) struct Product {
    /// `[.., T, C]`.
    pub source: NodeId,
    /// `[C, D]`.
    pub sizes: ArrayShape,
    /// Window positions.
    pub taps: u64,
    /// Whether that is only done where the source lies so already: it takes it as it is in another way.
    behind: bool,
    /// The reshape that makes a matrix of the source, if there is one.
    pub rows: Option<NodeId>,
}

/// The product that a node is, if it can be done with places along lanes. `uses` are the computation's.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for products alone")]
pub(super) fn product(comp: &Computation, n: &Node, uses: &[Vec<NodeId>]) -> Option<Product> {
    let to = n.shape.as_array().filter(|a| a.rank() >= 2 && !a.dynamic.contains(&true))?;
    let found = match &n.op {
        Op::Convolution(conv) => of_windows(comp, n, conv)?,
        Op::Reshape => split(comp, n, to, uses)?,
        Op::Dot { dims, .. } if is_matrix(dims) => of_matrices(comp, n)?,
        _ => return None,
    };
    let contracted = found.sizes.dims[0] * found.taps;
    let places = to.dims[to.rank() - 2];
    let rows: u64 = to.dims[..to.rank() - 2].iter().product();
    let repeats = rows > 1 && places < PLACES * found.sizes.dims[1];
    (contracted <= CONTRACTED && !repeats).then_some(found)
}

fn shape(comp: &Computation, id: NodeId) -> Option<&ArrayShape> {
    comp.node(id).shape.as_array()
}

/// A convolution in canonical form whose windows move by one place.
fn of_windows(comp: &Computation, n: &Node, conv: &Conv) -> Option<Product> {
    let plain =
        |w: &WindowDim| *w == WindowDim { size: w.size, window_dilation: w.window_dilation, ..WindowDim::TRIVIAL };
    let canonical = conv.dims == ConvDims::channels_last(conv.window.len())
        && conv.feature_groups == 1
        && conv.batch_groups == 1
        && !conv.window.is_empty()
        && conv.window.iter().all(plain);
    let kernel = shape(comp, n.operands[1])?;
    let sizes = array(&Shape::array(kernel.dtype, &kernel.dims[kernel.rank() - 2..]));
    let taps = conv.window.iter().map(|w| w.size).product();
    canonical.then_some(Product { source: n.operands[0], sizes, taps, behind: false, rows: None })
}

fn of_matrices(comp: &Computation, n: &Node) -> Option<Product> {
    let (source, weights) = (n.operands[0], n.operands[1]);
    let (x, w, to) = (shape(comp, source)?, shape(comp, weights)?, n.shape.as_array()?);
    let sizes = array(&Shape::array(w.dtype, &[x.dims[1], to.dims[1]]));
    Some(Product { source, sizes, taps: 1, behind: true, rows: None })
}

/// A matrix product between a reshape that makes rows of places and one that makes places of rows, which nothing else needs.
fn split(comp: &Computation, n: &Node, to: &ArrayShape, uses: &[Vec<NodeId>]) -> Option<Product> {
    let dot = n.operands[0];
    let Op::Dot { dims, .. } = &comp.node(dot).op else { return None };
    let (rows, weights) = (comp.node(dot).operands[0], comp.node(dot).operands[1]);
    let source = comp.node(rows).operands.first().copied().filter(|_| comp.node(rows).op == Op::Reshape)?;
    let (x, w) = (shape(comp, source)?, shape(comp, weights)?);
    let last = to.rank() - 1;
    if x.rank() < 3 || x.rank() != to.rank() || x.dims[..last] != to.dims[..last] {
        return None;
    }
    let matrix = is_matrix(dims) && shape(comp, rows)?.rank() == 2 && shape(comp, rows)?.dims[1] == x.dims[last];
    let sizes = array(&Shape::array(w.dtype, &[x.dims[last], to.dims[last]]));
    let alone = uses[dot.index()].len() == 1;
    (matrix && alone).then_some(Product { source, sizes, taps: 1, behind: false, rows: Some(rows) })
}

/// `[M, K] x [K, N]` or `[N, K]`.
fn is_matrix(dims: &DotDims) -> bool {
    dims.lhs_batch.is_empty() && dims.lhs_contracting == [1] && dims.rhs_contracting.len() == 1
}

/// Which reshapes to rows nothing needs once the products are done.
pub(super) fn rows_gone(comp: &Computation, products: &[Option<Product>]) -> Vec<bool> {
    let mut left = vec![0usize; comp.nodes.len()];
    for n in &comp.nodes {
        n.operands.iter().for_each(|o| left[o.index()] += 1);
    }
    let mut gone = vec![false; comp.nodes.len()];
    for rows in products.iter().flatten().filter_map(|p| p.rows) {
        left[rows.index()] -= 1;
        gone[rows.index()] = left[rows.index()] == 0;
    }
    gone
}

impl Product {
    /// What it costs, as bytes of HBM traffic, to write what window positions see below each other and to read it; `to` is the result.
    pub fn gathered(&self, to: &ArrayShape, (tile, vmem_bytes): ((u32, u32), u64)) -> u64 {
        if self.taps == 1 {
            return 0;
        }
        let last = to.rank() - 1;
        let seen = [&to.dims[..last - 1], &[self.taps * self.sizes.dims[0], to.dims[last - 1]]].concat();
        let bytes = bytes(to, &seen, tile);
        if bytes * BESIDE <= vmem_bytes { 2 * bytes / FASTER } else { 2 * bytes }
    }

    /// Whether arrays of few channels get smaller by that, or at least none larger: of `x`, the source, and the result.
    pub fn pays(&self, comp: &Computation, to: &ArrayShape, (turned, ratio): (bool, u64), tile: (u32, u32)) -> bool {
        let p = other_sides(to.rank());
        let by = |a: &ArrayShape, ratio: u64| bytes(a, &permuted(&a.dims, &p), tile) * ratio <= bytes(a, &a.dims, tile);
        let narrow =
            turned || !self.behind && shape(comp, self.source).is_some_and(|x| x.rank() == to.rank() && by(x, ratio));
        narrow && by(to, 1)
    }
}

/// Whether a node takes an operand that lies in the order `p` as it is: as the right one of a product, of which either dimension may be
/// contracted.
pub(super) fn is_right(n: &Node, operand: NodeId, p: &[usize]) -> bool {
    let Op::Dot { dims, .. } = &n.op else { return false };
    n.operands[1] == operand && n.operands[0] != operand && trades(dims, p)
}

/// Whether a right operand may have its dimensions in the order `p`.
fn trades(dims: &DotDims, p: &[usize]) -> bool {
    let contracted = dims.rhs_contracting.len() == 1 && dims.rhs_contracting[0] + 2 >= p.len();
    p.len() >= 2 && contracted && p == other_sides(p.len())
}

/// A product with its right operand as it lies, which a transpose brought into its order.
pub(super) fn with_right(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
    let (Op::Dot { dims, precision }, Op::Transpose { permutation }) = (&n.op, b.op(operands[1]).clone()) else {
        return None;
    };
    if !trades(dims, &permutation) {
        return None;
    }
    let y = b.operand(operands[1], 0);
    let dims = DotDims { rhs_contracting: vec![permutation[dims.rhs_contracting[0]]], ..dims.clone() };
    Some(b.dot(operands[0], y, dims, *precision, array(&n.shape).dtype))
}

/// A [`Product`] on its turned source, turned back; `None` where other rules have taken it apart.
pub(super) fn turned(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
    let a = array(&n.shape);
    let order = other_sides(a.rank());
    let x = operands.first().copied()?;
    let (seen, weights, precision) = if let Op::Convolution(conv) = &n.op {
        let x = b.transpose(x, &order);
        let seen = seen(b, x, &conv.window, &permuted(&a.dims, &order));
        let kernel = b.dims(operands[1]).to_vec();
        let (&features, contracted) = kernel.split_last()?;
        let kernel = b.reshape(operands[1], &[contracted.iter().product(), features]);
        (seen, b.transpose(kernel, &[1, 0]), conv.precision)
    } else if let Op::Dot { dims, precision } = &n.op {
        let weights = operands[1];
        let weights = if dims.rhs_contracting == [0] { b.transpose(weights, &[1, 0]) } else { weights };
        (b.transpose(x, &order), weights, *precision)
    } else {
        let Op::Dot { dims, precision } = b.op(x).clone() else { return None };
        let (rows, weights) = (b.operand(x, 0), b.operand(x, 1));
        let source = Some(rows).filter(|r| is_matrix(&dims) && *b.op(*r) == Op::Reshape).map(|r| b.operand(r, 0))?;
        let last = a.rank() - 1;
        if b.rank(source) != a.rank() || b.dims(source)[..last] != a.dims[..last] {
            return None;
        }
        let weights = if dims.rhs_contracting == [0] { b.transpose(weights, &[1, 0]) } else { weights };
        (b.transpose(source, &order), weights, precision)
    };
    let done = multiplied(b, seen, weights, (precision, &a));
    Some(b.transpose(done, &inverse(&order)))
}

/// What the window's positions see of `x`, `[N, spatial.., C, T]`, below each other; `to` has the sizes of the result in its order.
fn seen(b: &mut Emit, x: NodeId, window: &[WindowDim], to: &[u64]) -> NodeId {
    let channels = to.len() - 2;
    let sizes: Vec<u64> = window.iter().map(|w| w.size).collect();
    let parts: Vec<NodeId> = positions(&sizes)
        .iter()
        .map(|position| {
            let mut dims = whole(b.dims(x));
            for (d, (at, w)) in position.iter().zip(window).enumerate() {
                // The last spatial dimension lies behind the channels.
                let d = if d + 1 == channels { channels + 1 } else { d + 1 };
                let start = at * w.window_dilation;
                dims[d] = SliceDim { start, limit: start + to[d], stride: 1 };
            }
            b.slice(x, &dims)
        })
        .collect();
    b.concatenate(&parts, channels)
}

/// `[D, K] x [.., K, T]`, with the weights repeated for each row of places.
fn multiplied(b: &mut Emit, x: NodeId, weights: NodeId, (precision, to): (Precision, &ArrayShape)) -> NodeId {
    let sizes = b.dims(x).to_vec();
    let (rows, matrix) = sizes.split_at(sizes.len() - 2);
    let count: u64 = rows.iter().product();
    let features = b.dims(weights)[0];
    let result = [rows, &[features, matrix[1]]].concat();
    let done = if count == 1 {
        let x = b.reshape(x, matrix);
        let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotDims::default() };
        b.dot(weights, x, dims, precision, to.dtype)
    } else {
        let x = b.reshape(x, &[count, matrix[0], matrix[1]]);
        let weights = b.broadcast(weights, &[1, 2], &[count, features, matrix[0]]);
        let batch = || vec![0];
        let dims =
            DotDims { lhs_contracting: vec![2], rhs_contracting: vec![1], lhs_batch: batch(), rhs_batch: batch() };
        b.dot(weights, x, dims, precision, to.dtype)
    };
    b.reshape(done, &result)
}
