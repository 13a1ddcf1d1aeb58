//! `dot`: every dot becomes `[B, M, K] x [B, K, N]` or `[B, M, K] x [B, N, K]`, giving `[B, M, N]`.
//!
//! There is at most one batch dimension, leading (none if it is 1). The left operand contracts its last dimension. Operands
//! are transposed only where no choice of sides and orders fits without. Element types are those that the matrix unit
//! takes (see [`types`]); the others become a multiplication and a reduction, a complex dot four real ones.

mod repeated;
pub mod turned;
pub mod types;
pub mod unsplit;

use super::edit::{Emit, Rewritten};
use super::make::{FLOPS, array};
use crate::options::PassOptions;
use crate::simplify::degenerate_map;
use systole_hlo::graph::{Binary, Conv, ConvDims, DotDims, Node, NodeId, Op, Precision, Shape, WindowDim};
use systole_isa::DType;

/// A dot taken apart: dimension numbers of its operands by role.
#[derive(Clone)]
struct Parts {
    x: NodeId,
    y: NodeId,
    batch: Vec<(usize, usize)>,
    contracting: Vec<(usize, usize)>,
    x_free: Vec<usize>,
    y_free: Vec<usize>,
    /// Sublanes and lanes of a register.
    tile: (u32, u32),
}

/// One way to arrange the operands.
struct Plan {
    swapped: bool,
    contracting: Vec<(usize, usize)>,
    /// Whether the right operand is `[B, N, K]`.
    right_last: bool,
    cost: u64,
}

/// Rewrites a dot.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], options: &PassOptions) -> Rewritten {
    let Op::Dot { dims, precision } = &n.op else { return Ok(None) };
    let to = array(&n.shape);
    let given = (exposed(b, operands[0]), exposed(b, operands[1]));
    let parts = parts(b, given, dims, options.chip.tile);
    let precision = types::precision(b, &parts.x, &parts.y, *precision, options);
    let result = typed(b, parts, precision, to.dtype);
    Ok(Some(b.reshape(result, &to.dims)))
}

/// A transpose behind a reshape that only adds dimensions of size 1, as a transpose: one to be composed with.
fn exposed(b: &mut Emit, x: NodeId) -> NodeId {
    if !matches!(b.op(x), Op::Reshape) {
        return x;
    }
    let inner = b.operand(x, 0);
    let Op::Transpose { permutation } = b.op(inner).clone() else { return x };
    let to = b.dims(x).to_vec();
    if b.dims(inner).contains(&1) || degenerate_map(b.dims(inner), &to).is_none() {
        return x;
    }
    let source = b.operand(inner, 0);
    let ones = to.iter().filter(|d| **d == 1).count();
    let source = b.reshape(source, &[&vec![1; ones][..], b.dims(source)].concat());
    let (mut one, mut other) = (0..ones, permutation.iter().map(|p| p + ones));
    let place = |d: &u64| if *d == 1 { one.next() } else { other.next() };
    let turn: Vec<usize> = to.iter().map_while(place).collect();
    b.transpose(source, &turn)
}

fn parts(b: &Emit, (x, y): (NodeId, NodeId), dims: &DotDims, tile: (u32, u32)) -> Parts {
    let free = |rank: usize, used: [&[usize]; 2]| -> Vec<usize> {
        (0..rank).filter(|d| !used[0].contains(d) && !used[1].contains(d)).collect()
    };
    Parts {
        x,
        y,
        batch: dims.lhs_batch.iter().copied().zip(dims.rhs_batch.iter().copied()).collect(),
        contracting: dims.lhs_contracting.iter().copied().zip(dims.rhs_contracting.iter().copied()).collect(),
        x_free: free(b.rank(x), [&dims.lhs_batch, &dims.lhs_contracting]),
        y_free: free(b.rank(y), [&dims.rhs_batch, &dims.rhs_contracting]),
        tile,
    }
}

/// Chooses how the element types are computed, then the arrangement.
fn typed(b: &mut Emit, mut p: Parts, precision: Precision, to: DType) -> NodeId {
    let k: u64 = p.contracting.iter().map(|c| b.dims(p.x)[c.0]).product();
    let plan = types::plan(b.dtype(p.x), b.dtype(p.y), to, k);
    match plan {
        types::TypePlan::Complex { part } => complex(b, &p, precision, part, to),
        types::TypePlan::Matrix { operand, result } => {
            (p.x, p.y) = (b.convert(p.x, operand), b.convert(p.y, operand));
            let sizes = |b: &Emit, x: NodeId, f: &[usize]| f.iter().map(|&d| b.dims(x)[d]).product::<u64>();
            let (m, n) = (sizes(b, p.x, &p.x_free), sizes(b, p.y, &p.y_free));
            let r = if k == 0 {
                let dims = result_sizes(b, &p);
                b.splat(result, &dims, 0.0)
            } else if k == 1 || (m == 1 && n == 1) || is_tiny(operand, precision, k, m * n) {
                expanded(b, &p, super::dot::types::sum_type(result), result)
            } else if let Some(long) = long_beside_small(b, &p, k, (m, n)) {
                beside(b, &p, long, (types::sum_type(result), result))
            } else {
                arranged(b, &p, precision, result)
            };
            b.convert(r, to)
        }
        types::TypePlan::Expand { element } => {
            (p.x, p.y) = (b.convert(p.x, element), b.convert(p.y, element));
            let r = expanded(b, &p, element, element);
            b.convert(r, to)
        }
    }
}

/// Whether a product in full f32 precision is best left to the vector unit, which rounds each sum once in order.
fn is_tiny(operand: DType, precision: Precision, k: u64, results: u64) -> bool {
    operand == DType::F32 && precision == Precision::Highest && k <= 8 && results <= 1024
}

/// The dimensions that there are many of, of products of small matrices.
#[derive(Clone, Copy)]
enum Long {
    Batch,
    X,
    Y,
}

/// Most rows, columns and contracted elements of each of many small products (as many multiplications in all, if two of them are
/// [`SHORT`]), and most columns and contracted elements of a
/// product of one long operand.
const SMALL: u64 = 16;
const NARROW: u64 = 4;
/// The same of one whose contracted dimensions are not its last ones.
const SHORT: u64 = 8;
/// Registers' lanes that a long operand has rows for at least.
const LONG: u64 = 32;

/// What is long of a product whose other dimensions are so small that the matrix unit's array would be filled with zeros: the vector
/// unit does it with the long ones along lanes.
fn long_beside_small(b: &Emit, p: &Parts, k: u64, (m, n): (u64, u64)) -> Option<Long> {
    let lanes = u64::from(p.tile.1);
    let batch: u64 = p.batch.iter().map(|c| b.dims(p.x)[c.0]).product();
    if batch >= lanes {
        let mut sizes = [m, n, k];
        sizes.sort_unstable();
        let flat = sizes[0] > 1 && sizes[1] <= SHORT && m * n * k <= SMALL.pow(3);
        return (m.max(n).max(k) <= SMALL || flat).then_some(Long::Batch);
    }
    let (small, long) = if m < n { (m, n) } else { (n, m) };
    let (of, free) = if m < n { (p.y, &p.y_free) } else { (p.x, &p.x_free) };
    // What lies behind the contracted dimensions would stand beside them, as rows of few elements.
    let last = b.rank(of).checked_sub(1)?;
    let most = if free.contains(&last) { SHORT } else { NARROW };
    let fits = batch == 1 && k <= most && small <= most && long >= lanes * LONG;
    fits.then_some(if m < n { Long::Y } else { Long::X })
}

/// A product as multiplications and sums, with its long dimensions last.
fn beside(b: &mut Emit, p: &Parts, long: Long, (sum, to): (DType, DType)) -> NodeId {
    let (x, y) = (b.convert(p.x, sum), b.convert(p.y, sum));
    let (xb, yb): (Vec<usize>, Vec<usize>) = p.batch.iter().copied().unzip();
    let (xk, yk): (Vec<usize>, Vec<usize>) = p.contracting.iter().copied().unzip();
    let sizes = |b: &Emit, x: NodeId, dims: &[usize]| dims.iter().map(|&d| b.dims(x)[d]).collect::<Vec<u64>>();
    let (batch, ks) = (sizes(b, x, &xb), sizes(b, x, &xk));
    let (ms, ns) = (sizes(b, x, &p.x_free), sizes(b, y, &p.y_free));
    let (nk, nb, nm, nn) = (ks.len(), batch.len(), ms.len(), ns.len());
    // Contracted dimensions first; then where each kind begins.
    let (all, first) = match long {
        Long::Batch => ([&ks[..], &ms, &ns, &batch].concat(), (nk + nm + nn, nk, nk + nm)),
        Long::X => ([&ks[..], &batch, &ns, &ms].concat(), (nk, nk + nb + nn, nk + nb)),
        Long::Y => ([&ks[..], &batch, &ms, &ns].concat(), (nk, nk + nb, nk + nb + nm)),
    };
    let (at_batch, at_m, at_n) = (first.0..first.0 + nb, first.1..first.1 + nm, first.2..first.2 + nn);
    let mut operand = |x: NodeId, (k, batch, free): (&[usize], &[usize], &[usize]), at: std::ops::Range<usize>| {
        let places = (0..nk).chain(at_batch.clone()).chain(at);
        let mut order: Vec<(usize, usize)> = places.zip([k, batch, free].concat()).collect();
        order.sort_unstable();
        let (map, permutation): (Vec<usize>, Vec<usize>) = order.into_iter().unzip();
        let x = b.transpose(x, &permutation);
        b.broadcast(x, &map, &all)
    };
    let x = operand(x, (&xk[..], &xb[..], &p.x_free[..]), at_m.clone());
    let y = operand(y, (&yk[..], &yb[..], &p.y_free[..]), at_n.clone());
    let product = b.mul(x, y);
    let flops = 2.0 * all.iter().map(|&d| d as f64).product::<f64>();
    let r = b.reduce(product, Binary::Add, 0.0, &(0..nk).collect::<Vec<usize>>());
    b.mark(r, FLOPS, |name| format!("{{{name} {flops} {sum}}}"));
    let r = b.convert(r, to);
    let back: Vec<usize> = at_batch.chain(at_m).chain(at_n).map(|d| d - nk).collect();
    b.transpose(r, &back)
}

fn result_sizes(b: &Emit, p: &Parts) -> Vec<u64> {
    let (x, y) = (b.dims(p.x), b.dims(p.y));
    let batch = p.batch.iter().map(|c| x[c.0]);
    batch.chain(p.x_free.iter().map(|&d| x[d])).chain(p.y_free.iter().map(|&d| y[d])).collect()
}

/// `(a + bi)(c + di)` as four real dots.
fn complex(b: &mut Emit, p: &Parts, precision: Precision, part: DType, to: DType) -> NodeId {
    use systole_hlo::graph::Unary::{Imag, Real};
    let mut split = |x: NodeId| {
        let wide = if b.dtype(x).is_complex() { x } else { b.convert(x, part) };
        if b.dtype(wide).is_complex() {
            let (re, im) = (b.unary(Real, wide), b.unary(Imag, wide));
            (b.convert(re, part), Some(b.convert(im, part)))
        } else {
            (wide, None)
        }
    };
    let (xr, xi) = split(p.x);
    let (yr, yi) = split(p.y);
    let mut product = |x: NodeId, y: NodeId| typed(b, Parts { x, y, ..p.clone() }, precision, part);
    let rr = product(xr, yr);
    let ii = xi.zip(yi).map(|(x, y)| product(x, y));
    let ri = yi.map(|y| product(xr, y));
    let ir = xi.map(|x| product(x, yr));
    let real = match ii {
        Some(ii) => b.sub(rr, ii),
        None => rr,
    };
    let imag = match (ri, ir) {
        (Some(x), Some(y)) => b.add(x, y),
        (Some(x), None) | (None, Some(x)) => x,
        (None, None) => {
            let dims = b.dims(rr).to_vec();
            b.splat(part, &dims, 0.0)
        }
    };
    let c = b.binary(Binary::Complex, real, imag);
    b.convert(c, to)
}

/// The dot as `reduce(multiply(broadcast, broadcast))` over a leading K, for code generation to fuse.
fn expanded(b: &mut Emit, p: &Parts, sum: DType, to: DType) -> NodeId {
    let (x, y) = (b.convert(p.x, sum), b.convert(p.y, sum));
    let order = |batch: Vec<usize>, free: &[usize], k: Vec<usize>| [k, batch, free.to_vec()].concat();
    let x_order = order(p.batch.iter().map(|c| c.0).collect(), &p.x_free, p.contracting.iter().map(|c| c.0).collect());
    let y_order = order(p.batch.iter().map(|c| c.1).collect(), &p.y_free, p.contracting.iter().map(|c| c.1).collect());
    let (nk, nb, nm, nn) = (p.contracting.len(), p.batch.len(), p.x_free.len(), p.y_free.len());
    let k_sizes: Vec<u64> = p.contracting.iter().map(|c| b.dims(x)[c.0]).collect();
    let result = result_sizes(b, p);
    let all = [k_sizes, result].concat();
    let (x, y) = (b.transpose(x, &x_order), b.transpose(y, &y_order));
    let x_map: Vec<usize> = (0..nk + nb + nm).collect();
    let y_map: Vec<usize> = (0..nk + nb).chain(nk + nb + nm..nk + nb + nm + nn).collect();
    let (x, y) = (b.broadcast(x, &x_map, &all), b.broadcast(y, &y_map, &all));
    let product = b.mul(x, y);
    let flops = 2.0 * all.iter().map(|&d| d as f64).product::<f64>();
    let add = if sum == DType::Pred { Binary::Or } else { Binary::Add };
    let k_dims: Vec<usize> = (0..nk).collect();
    let r = if nk == 0 { product } else { b.reduce(product, add, 0.0, &k_dims) };
    b.mark(r, FLOPS, |name| format!("{{{name} {flops} {sum}}}"));
    b.convert(r, to)
}

/// What arranging an operand by a permutation costs: nothing if nothing moves, less if rows stay rows.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation is a transpose to be composed with")]
fn cost(b: &Emit, x: NodeId, permutation: &[usize], tile: (u32, u32)) -> u64 {
    let (source, composed): (NodeId, Vec<usize>) = match b.op(x) {
        Op::Transpose { permutation: inner } => (b.operand(x, 0), permutation.iter().map(|&p| inner[p]).collect()),
        _ => (x, permutation.to_vec()),
    };
    cost_of((b.dims(source), b.dtype(x)), &composed, tile)
}

/// What permuting an array of these sizes costs: the elements that are turned, or all that rows take in memory, which fill lanes, and
/// registers of rows, which fill sublanes.
fn cost_of((dims, dtype): (&[u64], DType), permutation: &[usize], (sublanes, lanes): (u32, u32)) -> u64 {
    let moved: Vec<usize> = permutation.iter().copied().filter(|&d| dims[d] != 1).collect();
    let last = (0..dims.len()).rev().find(|&d| dims[d] != 1);
    if moved.windows(2).all(|w| w[0] < w[1]) {
        return 0;
    }
    let each = if moved.last().copied() == last { 1 } else { 4 };
    let turned = dims.iter().product::<u64>().saturating_mul(each);
    let whole = [u64::from(lanes), u64::from(sublanes)].into_iter().chain(std::iter::repeat(1));
    let rows = moved.iter().rev().zip(whole).map(|(&d, whole)| dims[d].next_multiple_of(whole));
    turned.max(rows.fold(1, u64::saturating_mul)).saturating_mul(u64::from(dtype.bits()))
}

/// The arrangement with the least to transpose.
fn best_plan(b: &Emit, p: &Parts, to: DType) -> Plan {
    // Contracting dimensions in the order of an operand's own, or of what it transposes.
    let ordered = |key: &dyn Fn(&(usize, usize)) -> usize| {
        let mut c = p.contracting.clone();
        c.sort_by_key(key);
        c
    };
    let mut orders = vec![ordered(&|c| c.0), ordered(&|c| c.1)];
    if let Op::Transpose { permutation } = b.op(p.x) {
        orders.push(ordered(&|c| permutation[c.0]));
    }
    if let Op::Transpose { permutation } = b.op(p.y) {
        orders.push(ordered(&|c| permutation[c.1]));
    }
    let (x_batch, y_batch): (Vec<usize>, Vec<usize>) = p.batch.iter().copied().unzip();
    let out_cost = result_sizes(b, p).iter().product::<u64>() * u64::from(to.bits());
    let single = |free: &[usize], x: NodeId| free.iter().all(|&d| b.dims(x)[d] == 1);
    let many = p.batch.iter().any(|c| b.dims(p.x)[c.0] > 1);
    let mut best: Option<Plan> = None;
    for contracting in orders {
        let (xk, yk): (Vec<usize>, Vec<usize>) = contracting.iter().copied().unzip();
        let left = |batch: &[usize], free: &[usize], k: &[usize]| [batch, free, k].concat();
        let right = |batch: &[usize], free: &[usize], k: &[usize]| [batch, k, free].concat();
        for swapped in [false, true] {
            let (l, lf, lk, lb, r, rf, rk, rb) = if swapped {
                (p.y, &p.y_free, &yk, &y_batch, p.x, &p.x_free, &xk, &x_batch)
            } else {
                (p.x, &p.x_free, &xk, &x_batch, p.y, &p.y_free, &yk, &y_batch)
            };
            let turned = if swapped && !single(lf, l) && !single(rf, r) { out_cost } else { 0 };
            // Of many products each of a matrix and a vector, vectors are pushed through matrices: a row each, not all of a matrix's.
            let pushed = if many && single(rf, r) && !single(lf, l) { out_cost } else { 0 };
            for right_last in [false, true] {
                let r_order = if right_last { left(rb, rf, rk) } else { right(rb, rf, rk) };
                let cost = cost(b, l, &left(lb, lf, lk), p.tile).saturating_add(cost(b, r, &r_order, p.tile));
                let cost = cost.saturating_add(turned + pushed);
                if best.as_ref().is_none_or(|p| cost < p.cost) {
                    best = Some(Plan { swapped, contracting: contracting.clone(), right_last, cost });
                }
            }
        }
    }
    best.unwrap_or(Plan { swapped: false, contracting: p.contracting.clone(), right_last: false, cost: 0 })
}

/// Rows that the chip stores together: a reshape that merges or splits off whole groups of them moves nothing.
pub const ROW_GROUP: u64 = 8;

/// Whether rows that are several dimensions would have to move to become one: where they are stored, lines end in padding.
fn has_padded_rows(b: &Emit, left: NodeId, sizes: &[u64]) -> bool {
    let Some((last, above)) = sizes.split_last() else { return false };
    // What was one dimension before is one again.
    let split = matches!(b.op(left), Op::Reshape) && b.rank(b.operand(left, 0)) < b.rank(left);
    !split && last % ROW_GROUP != 0 && *last >= ROW_GROUP && above.iter().product::<u64>() > 1
}

/// `[rows.., K] x [K, N]` giving `[rows.., N]`: a convolution of windows of one place, whose rows stay where they are.
fn by_places(b: &mut Emit, (left, right): (NodeId, NodeId), precision: Precision, to: DType) -> NodeId {
    let spatial = b.rank(left) - 2;
    let ones = vec![1; spatial];
    let kernel = b.reshape(right, &[&ones[..], b.dims(right)].concat());
    let window = vec![WindowDim::TRIVIAL; spatial];
    let result = [&b.dims(left)[..spatial + 1], &b.dims(right)[1..]].concat();
    let dims = ConvDims::channels_last(spatial);
    let conv = Conv { window, dims, feature_groups: 1, batch_groups: 1, precision };
    b.emit(Op::Convolution(Box::new(conv)), &[left, kernel], Shape::array(to, &result))
}

/// The dot in canonical form; the result has the sizes of batch, left and right free dimensions.
fn arranged(b: &mut Emit, p: &Parts, precision: Precision, to: DType) -> NodeId {
    let plan = best_plan(b, p, to);
    let (x_batch, y_batch): (Vec<usize>, Vec<usize>) = p.batch.iter().copied().unzip();
    let (xk, yk): (Vec<usize>, Vec<usize>) = plan.contracting.iter().copied().unzip();
    let (l, lf, lk, lb, r, rf, rk, rb) = if plan.swapped {
        (p.y, &p.y_free, &yk, &y_batch, p.x, &p.x_free, &xk, &x_batch)
    } else {
        (p.x, &p.x_free, &xk, &x_batch, p.y, &p.y_free, &yk, &y_batch)
    };
    let sizes = |b: &Emit, x: NodeId, f: &[usize]| -> Vec<u64> { f.iter().map(|&d| b.dims(x)[d]).collect() };
    let product = |d: &[u64]| d.iter().product::<u64>();
    let batch_sizes = sizes(b, l, lb);
    let (left_sizes, right_sizes) = (sizes(b, l, lf), sizes(b, r, rf));
    let (bn, m, n, k) = (product(&batch_sizes), product(&left_sizes), product(&right_sizes), product(&sizes(b, l, lk)));
    let lead: Vec<u64> = if bn == 1 { Vec::new() } else { vec![bn] };
    let base = lead.len();
    let left = b.transpose(l, &[&lb[..], lf, lk].concat());
    if bn == 1 && !plan.swapped && !plan.right_last && has_padded_rows(b, left, &left_sizes) {
        let right = b.transpose(r, &[&rb[..], rk, rf].concat());
        let right = b.reshape(right, &[k, n]);
        let left = b.reshape(left, &[&left_sizes[..], &[k]].concat());
        let done = by_places(b, (left, right), precision, to);
        return b.reshape(done, &[&batch_sizes[..], &left_sizes, &right_sizes].concat());
    }
    let left = b.reshape(left, &[&lead[..], &[m, k]].concat());
    let (order, tail) =
        if plan.right_last { ([&rb[..], rf, rk].concat(), [n, k]) } else { ([&rb[..], rk, rf].concat(), [k, n]) };
    let right = b.transpose(r, &order);
    let right = b.reshape(right, &[&lead[..], &tail].concat());
    let batch: Vec<usize> = (0..base).collect();
    let dims = DotDims {
        lhs_contracting: vec![base + 1],
        rhs_contracting: vec![if plan.right_last { base + 1 } else { base }],
        lhs_batch: batch.clone(),
        rhs_batch: batch,
    };
    let done = b.dot(left, right, dims, precision, to);
    let full = b.reshape(done, &[&batch_sizes[..], &left_sizes, &right_sizes].concat());
    if !plan.swapped {
        return full;
    }
    let (nb, nl, nr) = (batch_sizes.len(), left_sizes.len(), right_sizes.len());
    let turn: Vec<usize> = (0..nb).chain(nb + nl..nb + nl + nr).chain(nb..nb + nl).collect();
    b.transpose(full, &turn)
}
